# cython: boundscheck=False, wraparound=False, cdivision=True
"""See derivatives.py. The bodies say what each function computes. Arrays of several shapes or types go to NumPy."""

import numpy
from lucid.native import framed

cimport numpy as np
from lucid.backends.cpu.arithmetic cimport chain

np.import_array()

ctypedef fused real:
    float
    double

cdef enum Curve:
    TANH_SLOPE, SIGMOID_SLOPE, TANH_BEND, SIGMOID_BEND

cdef object times = framed(numpy.multiply, 2)


cdef inline real product(real x, real y) noexcept nogil:
    """x · y, and 0 where x is 0, also if y is infinite or nan."""
    return x * y if (x * y == x * y) | (x != 0) else 0


cdef bint alike(object x, object y) noexcept:
    """Whether two arrays of one floating-point type and shape lie in memory as C would have them."""
    if not np.PyArray_CheckExact(x) or not np.PyArray_CheckExact(y):
        return False
    cdef np.ndarray a = <np.ndarray>x, b = <np.ndarray>y
    cdef int i, kind = np.PyArray_TYPE(a)
    if (kind != np.NPY_DOUBLE and kind != np.NPY_FLOAT) or np.PyArray_TYPE(b) != kind:
        return False
    if np.PyArray_NDIM(a) != np.PyArray_NDIM(b) or not np.PyArray_ISCARRAY_RO(a) or not np.PyArray_ISCARRAY_RO(b):
        return False
    for i in range(np.PyArray_NDIM(a)):
        if np.PyArray_DIM(a, i) != np.PyArray_DIM(b, i):
            return False
    return True


cdef void loop(Curve curve, const real* x, const real* y, const real* z, real* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if curve == TANH_SLOPE:
        for i in range(n):
            out[i] = product(x[i], <real>1 - y[i] * y[i])
    elif curve == SIGMOID_SLOPE:
        for i in range(n):
            out[i] = product(x[i], y[i] * (<real>1 - y[i]))
    elif curve == TANH_BEND:
        for i in range(n):
            out[i] = product(x[i], y[i] * <real>-2 * z[i])
    else:
        for i in range(n):
            out[i] = product(x[i], y[i] * (<real>1 - <real>2 * z[i]))


cdef object run(Curve curve, np.ndarray x, np.ndarray y, np.ndarray z):
    cdef np.ndarray out = np.PyArray_SimpleNew(np.PyArray_NDIM(x), np.PyArray_DIMS(x), np.PyArray_TYPE(x))
    cdef void* p = np.PyArray_DATA(x)
    cdef void* q = np.PyArray_DATA(y)
    cdef void* r = np.PyArray_DATA(z)
    cdef void* s = np.PyArray_DATA(out)
    cdef Py_ssize_t n = np.PyArray_SIZE(x)
    if np.PyArray_TYPE(x) == np.NPY_FLOAT:
        with nogil:
            loop(curve, <const float*>p, <const float*>q, <const float*>r, <float*>s, n)
    else:
        with nogil:
            loop(curve, <const double*>p, <const double*>q, <const double*>r, <double*>s, n)
    return out


def tanh_slope(x, y):
    return run(TANH_SLOPE, x, y, y) if alike(x, y) else chain(x, 1 - times(y, y))


def tanh_bend(x, y, z):
    if alike(x, y) and alike(x, z):
        return run(TANH_BEND, x, y, z)
    return chain(x, times(times(y, -2), z))


def sigmoid_slope(x, y):
    return run(SIGMOID_SLOPE, x, y, y) if alike(x, y) else chain(x, times(y, 1 - y))


def sigmoid_bend(x, y, z):
    if alike(x, y) and alike(x, z):
        return run(SIGMOID_BEND, x, y, z)
    return chain(x, times(y, 1 - times(2, z)))


KERNELS = {
    "tanh_slope": tanh_slope, "tanh_bend": tanh_bend, "sigmoid_slope": sigmoid_slope, "sigmoid_bend": sigmoid_bend,
}
