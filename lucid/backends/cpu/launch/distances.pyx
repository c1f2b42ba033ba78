# cython: boundscheck=False, wraparound=False, cdivision=True
"""See distances.py."""

from libc.math cimport sqrt

cimport numpy as np
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.simd cimport sum as simd_sum  # its macros come first

np.import_array()

cdef extern from *:
    """
    #define LUCID_GAP(i) (x[i] - y[i]) * (x[i] - y[i])
    #define LUCID_GAPS(i) (LUCID_AT(x + (i)) - LUCID_AT(y + (i))) * (LUCID_AT(x + (i)) - LUCID_AT(y + (i)))
    LUCID_REDUCTION(lucid_gap_float, float, (const float *x, const float *y, ptrdiff_t n), 0,
                    LUCID_GAP, LUCID_GAPS, LUCID_ADD, LUCID_ADD)
    LUCID_REDUCTION(lucid_gap_double, double, (const double *x, const double *y, ptrdiff_t n), 0,
                    LUCID_GAP, LUCID_GAPS, LUCID_ADD, LUCID_ADD)
    """
    float gap_float "lucid_gap_float"(const float* x, const float* y, Py_ssize_t n) noexcept nogil
    double gap_double "lucid_gap_double"(const double* x, const double* y, Py_ssize_t n) noexcept nogil


cdef inline real _gap(const real* x, const real* y, Py_ssize_t n) noexcept nogil:
    if real is float:
        return gap_float(x, y, n)
    else:
        return gap_double(x, y, n)


cdef inline bint _are_equal(const real* x, const real* y, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        if x[k] != y[k]:
            return False
    return True


cdef bint _distances(
    const real* x, const real* y, real* out, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t n, real low, real high
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef bint mirrored = x == y and rows == columns
    cdef real total
    for i in range(rows):
        for j in range(i if mirrored else 0, columns):
            total = _gap(x + i * n, y + j * n, n)
            if not (total >= low and total <= high) and not (total == 0 and _are_equal(x + i * n, y + j * n, n)):
                return False
            out[i * columns + j] = <real>sqrt(total)
            if mirrored:
                out[j * columns + i] = out[i * columns + j]
    return True


cdef void _pull(
    const real* ct, const real* x, const real* y, const real* out, real* gx, real* gy,
    Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t n,
) noexcept nogil:
    cdef Py_ssize_t i, j, k
    cdef real weight
    for i in range(rows):
        for j in range(columns):
            if out[i * columns + j] == 0 or ct[i * columns + j] == 0:
                continue
            weight = ct[i * columns + j] / out[i * columns + j]
            if gx is not NULL:
                for k in range(n):
                    gx[i * n + k] += weight * (x[i * n + k] - y[j * n + k])
            if gy is not NULL:
                for k in range(n):
                    gy[j * n + k] += weight * (y[j * n + k] - x[i * n + k])


def distances(np.ndarray x, np.ndarray y, np.ndarray out, double low, double high):
    cdef Py_ssize_t rows = x.shape[0], columns = y.shape[0], n = x.shape[1]
    cdef void* px = np.PyArray_DATA(x)
    cdef void* py = np.PyArray_DATA(y)
    cdef void* po = np.PyArray_DATA(out)
    cdef bint single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    cdef bint fits
    with nogil:
        if single:
            fits = _distances[float](<float*>px, <float*>py, <float*>po, rows, columns, n, <float>low, <float>high)
        else:
            fits = _distances[double](<double*>px, <double*>py, <double*>po, rows, columns, n, low, high)
    return fits


def pull(np.ndarray ct, np.ndarray x, np.ndarray y, np.ndarray out, gx, gy):
    cdef Py_ssize_t rows = x.shape[0], columns = y.shape[0], n = x.shape[1]
    cdef void* pc = np.PyArray_DATA(ct)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* py = np.PyArray_DATA(y)
    cdef void* po = np.PyArray_DATA(out)
    cdef void* qx = NULL if gx is None else np.PyArray_DATA(<np.ndarray>gx)
    cdef void* qy = NULL if gy is None else np.PyArray_DATA(<np.ndarray>gy)
    cdef bint single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    with nogil:
        if single:
            _pull[float](<float*>pc, <float*>px, <float*>py, <float*>po, <float*>qx, <float*>qy, rows, columns, n)
        else:
            _pull[double](<double*>pc, <double*>px, <double*>py, <double*>po, <double*>qx, <double*>qy, rows, columns, n)
