cimport cython

ctypedef fused real:
    float
    double


@cython.locals(k=cython.Py_ssize_t, i=cython.Py_ssize_t, j=cython.Py_ssize_t)
cpdef object stacked_outer(const real[:, ::1] x, const real[:, ::1] y, real[:, :, ::1] out)
