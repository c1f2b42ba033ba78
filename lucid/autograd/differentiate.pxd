from lucid.core.levels cimport tracing
from lucid.core.primitive cimport element_type, synced
from lucid.core.tensor cimport shape_of


cdef list _as_list(object tensors, object what)
cdef list _seed_list(object seeds, Py_ssize_t count, object name)
cdef object _seed(object root, object seed, bint implicit, bint as_tensor)
cdef object _check_seed(object root, object shape, object dtype)
cdef list _prepare(list roots, list seeds, bint implicit, bint create_graph)
cdef object _require(object roots)
cdef list _lent(list seeds)
