from lucid.api.reductions cimport chosen, pair, unseen
from lucid.core.primitive cimport apply, element_type, lift
from lucid.core.tensor cimport is_plain, of_class, shape_of
from lucid.arguments.dims cimport one_dim
from lucid.ops.indexing cimport along


cdef tuple _ordered(object input, object dim, object name)
cdef object _read(object kind, object x, object positions, Py_ssize_t dim, object shape=*)
cdef object _read_one(object kind, object x, object positions, Py_ssize_t dim, object keepdim)
