# cython: boundscheck=False, wraparound=False, cdivision=True
"""The steps of steps.py; see there what they do."""

from libc.math cimport sqrt

cimport numpy as np

from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef enum:
    CHUNK = 1 << 13  # elements of a part

cdef struct Adam:
    char* p
    char* g
    char* m
    char* v
    Py_ssize_t n, size
    double decay, weight1, keep2, weight2, eps, rate, tiny
    int decays


cdef inline void _adam(Adam* a, real* p, const real* g, real* m, real* v, Py_ssize_t n, int decays) noexcept nogil:
    cdef real decay = a.decay, weight1 = a.weight1, keep2 = a.keep2, weight2 = a.weight2
    cdef real eps = a.eps, rate = a.rate, tiny = a.tiny, zero = 0, x
    cdef Py_ssize_t i
    for i in range(n):
        x = g[i]
        if decays == 1:
            x = x + decay * p[i]
        m[i] += weight1 * (x - m[i])
        m[i] = zero if -tiny < m[i] < tiny else m[i]
        v[i] = keep2 * v[i] + weight2 * (x * x)
        v[i] = zero if v[i] < tiny else v[i]
        x = <real>sqrt(v[i])
        x = m[i] / (x + eps) * rate
        if decays == 2:
            x = x + decay * p[i]
        p[i] -= x


cdef inline void _adam_of_type(Adam* a, real* p, const real* g, real* m, real* v, Py_ssize_t start) noexcept nogil:
    """A loop for each kind of decay."""
    cdef Py_ssize_t n = min(CHUNK, a.n - start)
    if a.decays == 0:
        _adam(a, p + start, g + start, m + start, v + start, n, 0)
    elif a.decays == 1:
        _adam(a, p + start, g + start, m + start, v + start, n, 1)
    else:
        _adam(a, p + start, g + start, m + start, v + start, n, 2)


cdef void _adam_part(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Adam* a = <Adam*>task
    if a.size == sizeof(float):
        _adam_of_type(a, <float*>a.p, <float*>a.g, <float*>a.m, <float*>a.v, part * CHUNK)
    else:
        _adam_of_type(a, <double*>a.p, <double*>a.g, <double*>a.m, <double*>a.v, part * CHUNK)


def adam(
    np.ndarray p, np.ndarray g, np.ndarray m, np.ndarray v, double decay, int decays,
    double weight1, double keep2, double weight2, double eps, double rate, double tiny,
):
    cdef Adam a
    a.n, a.size = np.PyArray_SIZE(p), np.PyArray_ITEMSIZE(p)
    for other in (p, g, m, v):
        if np.PyArray_TYPE(other) != np.PyArray_TYPE(p) or np.PyArray_SIZE(other) != a.n:
            raise ValueError(f"arrays of one type and size are needed, not {p.dtype} and {other.dtype}")
        if not np.PyArray_IS_C_CONTIGUOUS(other) or np.PyArray_TYPE(other) not in (np.NPY_FLOAT, np.NPY_DOUBLE):
            raise ValueError(f"floats or doubles that lie in order are needed, not {other.dtype} in another order")
    a.p, a.g, a.m, a.v = np.PyArray_BYTES(p), np.PyArray_BYTES(g), np.PyArray_BYTES(m), np.PyArray_BYTES(v)
    a.decay, a.decays, a.weight1, a.keep2, a.weight2 = decay, decays, weight1, keep2, weight2
    a.eps, a.rate, a.tiny = eps, rate, tiny
    with nogil:
        share(_adam_part, &a, (a.n + CHUNK - 1) // CHUNK, pool_size())
