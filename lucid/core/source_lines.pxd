# Functions that compiled code calls without Python's calling convention, with the C types of their variables.

cimport cython
from lucid.native cimport PyFrame_GetCode, PyFrame_GetLasti, caller_of, current_frame, filename_of


cdef class Place:
    cdef public object code
    cdef public long offset


@cython.locals(known=dict)
cpdef object climb(object frame)
@cython.locals(place=Place)
cpdef Place here()
