from lucid.core.fields cimport TensorFields
from lucid.core.inplace cimport write_part
from lucid.core.primitive cimport apply, constant, element_type
from lucid.core.tensor cimport wrapped


cdef bint _is_basic(tuple key)
cpdef object _basic(object x, tuple key)
