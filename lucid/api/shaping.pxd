from lucid.core.primitive cimport apply, lift
from lucid.core.tensor cimport is_plain, shape_of
from lucid.arguments.dims cimport many_dims, one_dim, shape_from


cdef tuple _full_shape(object x, tuple shape, str name)
cdef tuple _backwards(Py_ssize_t ndim)
