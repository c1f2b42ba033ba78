from lucid.api.indexing cimport Put, is_common
from lucid.arguments.out cimport memory_of, note_write
from lucid.core.primitive cimport apply, constant, element_type, lift
from lucid.core.tensor cimport is_plain, of_class, shape_of, wrapped
from lucid.arguments.dims cimport one_dim
from lucid.ops.indexing cimport along, in_range


cdef object _same_type(object x, object source, object name)
cdef object _scalar(object x, object value, object name)
cdef object _written(object x, object src, object value, object name)
cdef tuple _sizes(object x)
cdef tuple _grid(object x, object dim, object index, object name)
cdef object _scatter_source(object x, object shape, object src, object name, bint spreads=*)
cdef object _fitting(object i, tuple sizes, Py_ssize_t dim, object name)
cdef Put _scatter(object x, object dim, object index, object src, object combine, object name)
cdef Put _index_add(object x, object dim, object index, object source, object alpha, object name)
cdef Put _index_fill(object x, object dim, object index, object value, object name)
cdef Put _rows_put(object x, object dim, object index, object source, object combine, object name)
cdef object _scattered(object x, object dim, object index, object src, bint accumulate, object name)
cdef tuple _rows(object x, object dim, object index, object name, bint negative)
