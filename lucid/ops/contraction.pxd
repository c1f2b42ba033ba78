from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport Primitive, apply, element_type
from lucid.core.tensor cimport shape_of


cdef class Labels:
    cdef public str left, right, out
    cdef public bint conj_left, conj_right
    cdef public dict params
    cdef public object steps
    cdef public list _pulls, _batched
    cpdef Labels pull(self, int operand, bint conjugate)
    cpdef Labels batched(self, bint left, bint right)


cpdef object pulled_left(object ct, object right, Labels labels)
cpdef object pulled_right(object ct, object left, Labels labels)
cdef bint _has_imaginary_part(object ct)
cpdef object multiplied(object x, object y, Labels labels)
cpdef Labels _matmul_labels(object rank, object other_rank)
