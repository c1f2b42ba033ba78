from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport newest


cdef object _around(object value, object level)
cdef object _in_order(object prim, object result)
