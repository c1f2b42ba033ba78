from lucid.core.fields cimport TensorFields
from lucid.core.storage cimport View


cpdef object constant(object value, object kind)
cdef bint _is_behind(TensorFields tensor)
cdef object _array_in(TensorFields batched)
cdef object _array_beside(object value, long long level, object kind)
cdef bint _has_batch(object value)
cpdef object bare_pair(object input, object other)
cpdef object in_batch(object array, TensorFields like, bint has_batch)
cpdef object example_shape(object value)
cpdef object of_one(object impl, TensorFields input)
cpdef object of_plain(object impl, object args)
cpdef object of_two(object impl, object input, object other)
