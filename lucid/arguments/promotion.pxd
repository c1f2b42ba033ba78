from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport element_type


cpdef bint are_alike(object args)
