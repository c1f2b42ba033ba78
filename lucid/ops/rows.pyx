# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of rows.py as loops; see there what they do."""

cimport numpy as np
from libc.math cimport INFINITY, log, sqrt
from libc.string cimport memset

from lucid.ops.curves cimport exp, real
from lucid.ops.lanes cimport dot, sum, top

np.import_array()

cdef void _normalize(
    const real* x, const real* weight, const real* bias, real* y, real* statistics,
    Py_ssize_t count, Py_ssize_t n, double eps, bint centred,
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef real mean, rest, variance, scale, offset
    cdef real per = 1.0 / (n if n else 1)
    for i in range(count):
        mean = rest = 0
        if centred:
            mean = sum(x, n) * per
        for j in range(n):
            y[j] = x[j] - mean
        if centred:
            rest = sum(y, n) * per
        variance = dot(y, y, n) * per - rest * rest
        scale = 1 / sqrt((0 if variance < 0 else variance) + eps)
        offset = -rest * scale
        for j in range(n):
            y[j] = (y[j] * scale + offset) * weight[j] + bias[j]
        statistics[i], statistics[count + i], statistics[2 * count + i] = mean, rest, scale
        x += n
        y += n


def normalize(np.ndarray x, np.ndarray weight, np.ndarray bias, double eps, bint centred):
    cdef Py_ssize_t count = np.PyArray_DIM(x, 0), n = np.PyArray_DIM(x, 1)
    cdef np.npy_intp[2] shape = [3, count]
    cdef int kind = np.PyArray_TYPE(x)
    cdef np.ndarray y = np.PyArray_EMPTY(2, np.PyArray_DIMS(x), kind, 0)
    cdef np.ndarray statistics = np.PyArray_EMPTY(2, shape, kind, 0)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* pw = np.PyArray_DATA(weight)
    cdef void* pb = np.PyArray_DATA(bias)
    cdef void* py = np.PyArray_DATA(y)
    cdef void* ps = np.PyArray_DATA(statistics)
    with nogil:
        if kind == np.NPY_FLOAT:
            _normalize(<float*>px, <float*>pw, <float*>pb, <float*>py, <float*>ps, count, n, eps, centred)
        else:
            _normalize(<double*>px, <double*>pw, <double*>pb, <double*>py, <double*>ps, count, n, eps, centred)
    return y, statistics


cdef void _normalize_back(
    const real* g, const real* x, const real* weight, const real* statistics, real* dx, real* dweight, real* dbias,
    real* normal, Py_ssize_t count, Py_ssize_t n, bint centred,
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef real mean, scale, offset, level, slope
    cdef real per = 1.0 / (n if n else 1)
    for j in range(n):
        dweight[j] = dbias[j] = 0
    for i in range(count):
        mean, scale = statistics[i], statistics[2 * count + i]
        offset = -statistics[count + i] * scale
        for j in range(n):
            normal[j] = (x[j] - mean) * scale + offset
            dx[j] = g[j] * weight[j]
        level = sum(dx, n) * per if centred else 0
        slope = dot(dx, normal, n) * per
        for j in range(n):
            dx[j] = scale * (dx[j] - level - normal[j] * slope)
        for j in range(n):
            dweight[j] += g[j] * normal[j]
            dbias[j] += g[j]
        g += n
        x += n
        dx += n


def normalize_back(np.ndarray g, np.ndarray x, np.ndarray weight, np.ndarray statistics, bint centred):
    cdef Py_ssize_t count = np.PyArray_DIM(x, 0), n = np.PyArray_DIM(x, 1)
    cdef np.npy_intp[1] width = [n]
    cdef int kind = np.PyArray_TYPE(x)
    cdef np.ndarray dx = np.PyArray_EMPTY(2, np.PyArray_DIMS(x), kind, 0)
    cdef np.ndarray dweight = np.PyArray_EMPTY(1, width, kind, 0), dbias = np.PyArray_EMPTY(1, width, kind, 0)
    cdef np.ndarray normal = np.PyArray_EMPTY(1, width, kind, 0)
    cdef void* pg = np.PyArray_DATA(g)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* pw = np.PyArray_DATA(weight)
    cdef void* ps = np.PyArray_DATA(statistics)
    cdef void* pd = np.PyArray_DATA(dx)
    cdef void* pdw = np.PyArray_DATA(dweight)
    cdef void* pdb = np.PyArray_DATA(dbias)
    cdef void* pn = np.PyArray_DATA(normal)
    with nogil:
        if kind == np.NPY_FLOAT:
            _normalize_back(
                <float*>pg, <float*>px, <float*>pw, <float*>ps, <float*>pd, <float*>pdw, <float*>pdb, <float*>pn,
                count, n, centred,
            )
        else:
            _normalize_back(
                <double*>pg, <double*>px, <double*>pw, <double*>ps, <double*>pd, <double*>pdw, <double*>pdb,
                <double*>pn, count, n, centred,
            )
    return dx, dweight, dbias


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


def column_sums(np.ndarray x):
    cdef Py_ssize_t count = np.PyArray_DIM(x, 0)
    cdef np.npy_intp[1] width = [np.PyArray_DIM(x, 1)]
    cdef int kind = np.PyArray_TYPE(x)
    cdef np.ndarray out = np.PyArray_EMPTY(1, width, kind, 0)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* po = np.PyArray_DATA(out)
    with nogil:
        if kind == np.NPY_FLOAT:
            _column_sums(<float*>px, <float*>po, count, width[0])
        else:
            _column_sums(<double*>px, <double*>po, count, width[0])
    return out


cdef bint _within(const long long* places, Py_ssize_t count, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= places[i] < n:
            return False
    return True


cdef void _losses(const real* x, const long long* places, real* e, real* out, Py_ssize_t count, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef real most
    for i in range(count):
        most = top(x, n)
        for j in range(n):
            e[j] = exp(x[j] - most)
        out[i] = <real>log(sum(e, n)) - (x[places[i]] - most)
        x += n
        e += n


def losses(np.ndarray x, np.ndarray places, np.ndarray e, np.ndarray out):
    cdef Py_ssize_t count = np.PyArray_DIM(x, 0), n = np.PyArray_DIM(x, 1)
    cdef const long long* at = <const long long*>np.PyArray_DATA(places)
    cdef int kind = np.PyArray_TYPE(x)
    cdef void* px = np.PyArray_DATA(x)
    cdef void* pe = np.PyArray_DATA(e)
    cdef void* po = np.PyArray_DATA(out)
    if not _within(at, count, n):
        return False
    with nogil:
        if kind == np.NPY_FLOAT:
            _losses(<float*>px, at, <float*>pe, <float*>po, count, n)
        else:
            _losses(<double*>px, at, <double*>pe, <double*>po, count, n)
    return True


cdef void _losses_back(
    const real* e, const long long* places, double share, real* out, Py_ssize_t count, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef real scale
    for i in range(count):
        scale = <real>share / sum(e, n)
        for j in range(n):
            out[j] = e[j] * scale
        out[places[i]] -= <real>share
        e += n
        out += n


def losses_back(np.ndarray e, np.ndarray places, double share, np.ndarray out):
    cdef Py_ssize_t count = np.PyArray_DIM(e, 0), n = np.PyArray_DIM(e, 1)
    cdef const long long* at = <const long long*>np.PyArray_DATA(places)
    cdef int kind = np.PyArray_TYPE(e)
    cdef void* pe = np.PyArray_DATA(e)
    cdef void* po = np.PyArray_DATA(out)
    if not _within(at, count, n):
        return False
    with nogil:
        if kind == np.NPY_FLOAT:
            _losses_back(<float*>pe, at, share, <float*>po, count, n)
        else:
            _losses_back(<double*>pe, at, share, <double*>po, count, n)
    return True
