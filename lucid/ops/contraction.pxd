cimport cython
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
cdef dict _of_ranks
@cython.locals(found=Labels)
cpdef Labels _matmul_labels(Py_ssize_t rank, Py_ssize_t other_rank)
@cython.locals(left=tuple, right=tuple, labels=Labels, broadcasts=cython.bint)
cpdef object product(str name, object input, object other, Py_ssize_t rank=*, Py_ssize_t other_rank=*)
