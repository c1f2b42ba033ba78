from lucid.core.fields cimport TensorFields, new_tensor


cdef object _in_order(object prim, object result)
