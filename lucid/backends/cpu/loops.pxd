cimport cython

cdef extern from "math.h":
    cpdef double sqrt(double x)


ctypedef fused real:
    float
    double


@cython.locals(k=cython.Py_ssize_t, i=cython.Py_ssize_t, j=cython.Py_ssize_t, factor=real)
cpdef object stacked_outer(const real[:, ::1] x, const real[:, ::1] y, real[:, :, ::1] out)
@cython.locals(i=cython.Py_ssize_t)
cpdef object follow(real[::1] average, const real[::1] value, real weight, real tiny)
@cython.locals(i=cython.Py_ssize_t)
cpdef object accumulate_square(real[::1] total, const real[::1] x, real keep, real weight, real tiny)
@cython.locals(i=cython.Py_ssize_t)
cpdef object scale_by_root(const real[::1] x, const real[::1] squares, real eps, real rate, real[::1] out)
