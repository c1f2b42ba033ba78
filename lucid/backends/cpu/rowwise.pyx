# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of rowwise.py as loops; see there what they do."""

cimport numpy as np
from libc.math cimport INFINITY
from libc.string cimport memset

from lucid.backends.cpu.scalar_math cimport exp, real
from lucid.backends.cpu.simd cimport dot, sum, top
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef enum:
    CHUNK = 1 << 13  # elements of a part, about
    MOST_PARTS = 256

# What is done row by row. In parts, so that threads can share it; how many does not depend on their number, nor do sums.
cdef struct Rows:
    char* x
    char* y
    Py_ssize_t count, n, per_part
    bint is_single


cdef Py_ssize_t _divide(Rows* a, np.ndarray x):
    """Fill in the shape of x; returns the number of parts."""
    a.count, a.n = np.PyArray_DIM(x, 0), np.PyArray_DIM(x, 1)
    a.is_single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    a.per_part = max(CHUNK // max(a.n, 1), a.count // MOST_PARTS + 1)
    return (a.count + a.per_part - 1) // a.per_part


# Rows of causal scores end at the diagonal. They are worked on up to the end of a block, many at the same length, and
# whether an element counts is read from memory: what depends on the place would be compiled to loops of varying length.
DEF BLOCK = 64


cdef inline Py_ssize_t _whole(Py_ssize_t end, Py_ssize_t n) noexcept nogil:
    """The end of the block in which a row ends."""
    end += -end & (BLOCK - 1)
    return end if end < n else n


cdef inline void _mark(char* counts, Py_ssize_t n) noexcept nogil:
    """The first n count: from n - m on, the first m."""
    memset(counts, 1, n)
    memset(counts + n, 0, n)


cdef void _softmax(real* x, const char* counts, Py_ssize_t n, real scale) noexcept nogil:
    cdef Py_ssize_t j
    cdef real most, total
    for j in range(n):
        x[j] = x[j] * scale if counts[j] else -INFINITY
    most = top(x, n)
    if not -INFINITY < most < INFINITY:
        most = 0
    for j in range(n):
        x[j] = exp(x[j] - most)
    total = sum(x, n)
    total = 0 if total == 0 else 1 / total
    for j in range(n):
        x[j] *= total


cdef void _softmax_back(real* g, const real* y, const char* counts, Py_ssize_t n, real scale) noexcept nogil:
    cdef Py_ssize_t j
    cdef real mean
    for j in range(n):
        g[j] = g[j] if counts[j] else 0
    mean = dot(g, y, n)
    for j in range(n):
        g[j] = (g[j] - mean) * y[j] * scale


cdef void _each_score(
    real* x, const real* y, char* counts, Py_ssize_t count, Py_ssize_t height, Py_ssize_t n, double scale, bint causal
) noexcept nogil:
    """The softmax of each row of x, or what it makes of a cotangent x if its result y is given."""
    cdef Py_ssize_t i, end, whole
    _mark(counts, n)
    for i in range(count):
        end = i % height + 1
        end = end if causal and end < n else n
        whole = _whole(end, n)
        if y == NULL:
            _softmax(x, counts + (n - end), whole, <real>scale)
        else:
            _softmax_back(x, y, counts + (n - end), whole, <real>scale)
            y += n
        memset(x + whole, 0, (n - whole) * sizeof(real))
        x += n


cdef void _scores(np.ndarray x, void* py, double scale, bint causal):
    cdef int rank = np.PyArray_NDIM(x)
    cdef Py_ssize_t height = np.PyArray_DIM(x, rank - 2), n = np.PyArray_DIM(x, rank - 1)
    cdef Py_ssize_t count = np.PyArray_SIZE(x) // (n if n else 1)
    cdef np.npy_intp[1] length = [2 * n]
    cdef np.ndarray marks = np.PyArray_EMPTY(1, length, np.NPY_INT8, 0)
    cdef char* counts = <char*>np.PyArray_DATA(marks)
    cdef int kind = np.PyArray_TYPE(x)
    cdef void* px = np.PyArray_DATA(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            _each_score(<float*>px, <float*>py, counts, count, height, n, scale, causal)
        else:
            _each_score(<double*>px, <double*>py, counts, count, height, n, scale, causal)


def softmax_scores(np.ndarray x, double scale, bint causal):
    _scores(x, NULL, scale, causal)


def softmax_scores_back(np.ndarray g, np.ndarray y, double scale, bint causal):
    _scores(g, np.PyArray_DATA(y), scale, causal)


cdef void _add_bias(real* x, const real* bias, Py_ssize_t count, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(count):
        for j in range(n):
            x[j] += bias[j]
        x += n


def add_bias(np.ndarray x, np.ndarray bias):
    cdef Py_ssize_t n = np.PyArray_SIZE(bias)
    cdef Py_ssize_t count = np.PyArray_SIZE(x) // (n if n else 1)
    cdef int kind = np.PyArray_TYPE(x)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* pb = np.PyArray_DATA(bias)
    with nogil:
        if kind == np.NPY_FLOAT:
            _add_bias(<float*>px, <float*>pb, count, n)
        else:
            _add_bias(<double*>px, <double*>pb, count, n)


cdef void _column_sums(const real* x, real* out, Py_ssize_t count, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    for j in range(n):
        out[j] = 0
    for i in range(count):
        for j in range(n):
            out[j] += x[j]
        x += n


cdef void _some_sums(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Rows* a = <Rows*>task
    cdef Py_ssize_t start = part * a.per_part, count = min(a.per_part, a.count - start)
    if a.is_single:
        _column_sums(<float*>a.x + start * a.n, <float*>a.y + part * a.n, count, a.n)
    else:
        _column_sums(<double*>a.x + start * a.n, <double*>a.y + part * a.n, count, a.n)


def column_sums(np.ndarray x):
    cdef Rows a
    cdef Py_ssize_t parts = _divide(&a, x)
    cdef int kind = np.PyArray_TYPE(x)
    cdef np.npy_intp[2] each_part = [parts, a.n]
    cdef np.ndarray out = np.PyArray_EMPTY(1, &each_part[1], kind, 0), sums = out
    if parts <= 2:
        parts, a.per_part = 1, a.count
    else:
        sums = np.PyArray_EMPTY(2, each_part, kind, 0)
    a.x, a.y = np.PyArray_BYTES(x), np.PyArray_BYTES(sums)
    with nogil:
        share(_some_sums, &a, parts, pool_size())
        if parts > 1:
            a.x, a.y, a.count, a.per_part = a.y, np.PyArray_BYTES(out), parts, parts
            _some_sums(&a, 0, 0)
    return out
