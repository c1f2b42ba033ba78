cimport cython
from lucid.ops.contraction cimport Labels


cdef class Order:
    cdef tuple axes, index
    cpdef object of(self, object x)


cdef class Steps:
    cdef public str spec
    cdef public bint flip_left, flip_right, swap, merges
    cdef public int code, stack, rows, inner, columns
    cdef public Order first, second
    cdef public list sizes


@cython.locals(steps=Steps)
cpdef object contract_array(object x, object y, Labels labels)
@cython.locals(steps=Steps, labels=Labels)
cpdef bint contract_into(object out, tuple operands, dict params) except -1
cdef object _all_products(object x, object y, Steps steps)
cdef object _product_of_stacks(object x, object y, Steps steps)
cpdef object matmul_array(object x, object y)
cpdef object dot(object x, object y)
