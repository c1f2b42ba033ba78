from lucid.core.fields cimport TensorFields, new_tensor
from lucid.core.primitive cimport Primitive, apply


cdef object _in_order(Primitive prim, object result)
