cimport numpy as np


cdef class Frame:
    cdef public list arrays
    cdef public dict views, residuals
    cdef char** table
    cpdef void hold(self, Py_ssize_t index, np.ndarray array) except *


cdef class Machine:
    cdef Py_ssize_t arena, buffers, given
    cdef object steps, call
    cdef list constants, results, outputs, segments, frames
