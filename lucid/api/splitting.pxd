from lucid.core.primitive cimport apply, lift, parts_of
from lucid.core.tensor cimport shape_of
from lucid.ops.dims cimport one_dim


cdef tuple _at(Py_ssize_t d, object item)
cdef tuple _pieces(object x, Py_ssize_t d, list bounds)
