from lucid.api.reductions cimport norm_over
from lucid.core.primitive cimport element_type, lift
from lucid.core.tensor cimport shape_of
from lucid.arguments.dims cimport many_dims, one_dim


cdef object _of_vectors(object x, object ord, object dim, bint keepdim, object dtype)
cdef object _in_dtype(object name, object x, object dtype)
