from lucid.core.primitive cimport apply, lift
from lucid.core.tensor cimport shape_of
from lucid.arguments.dims cimport one_dim
from lucid.arguments.promotion cimport are_alike


cdef object _tensors(object tensors, str name)
