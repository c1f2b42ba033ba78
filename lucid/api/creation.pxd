from lucid.core.primitive cimport lift
from lucid.core.tensor cimport class_of, is_plain, of_class


cpdef object _filled(object shape, object kind, object value, object requires_grad, object device, object like=*)
cpdef object _everywhere(object shape, object value, object kind)
cpdef object _at(object like, object device)
cdef object _order(object like)
cpdef object _of_its_class(object like, object made)
cdef tuple _like(object input, object dtype)
