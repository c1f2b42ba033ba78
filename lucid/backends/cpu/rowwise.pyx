# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of rowwise.py as loops; see there what they do."""

cimport numpy as np
from libc.math cimport INFINITY, log, sqrt
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
    char* g
    char* x
    char* weight
    char* bias
    char* y
    char* statistics
    char* dweight  # one row for each part
    char* dbias
    char* room  # one row for each thread
    Py_ssize_t count, n, per_part
    double eps
    bint centred, is_single


cdef Py_ssize_t _divide(Rows* a, np.ndarray x):
    """Fill in the shape of x; returns the number of parts."""
    a.count, a.n = np.PyArray_DIM(x, 0), np.PyArray_DIM(x, 1)
    a.is_single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    a.per_part = max(CHUNK // max(a.n, 1), a.count // MOST_PARTS + 1)
    return (a.count + a.per_part - 1) // a.per_part


cdef inline void _normalize_rows(Rows* a, Py_ssize_t i, const real* weight, const real* bias, real* statistics) noexcept nogil:
    cdef Py_ssize_t j, n = a.n, count = a.count, end = min(i + a.per_part, count)
    cdef const real* x = <real*>a.x + i * n
    cdef real* y = <real*>a.y + i * n
    cdef real mean, rest, variance, scale, offset
    cdef real per = 1.0 / (n if n else 1)
    while i < end:
        mean = rest = 0
        if a.centred:
            mean = sum(x, n) * per
        for j in range(n):
            y[j] = x[j] - mean
        if a.centred:
            rest = sum(y, n) * per
        variance = dot(y, y, n) * per - rest * rest
        scale = 1 / sqrt((0 if variance < 0 else variance) + a.eps)
        offset = -rest * scale
        for j in range(n):
            y[j] = (y[j] * scale + offset) * weight[j] + bias[j]
        statistics[i], statistics[count + i], statistics[2 * count + i] = mean, rest, scale
        x += n
        y += n
        i += 1


cdef void _normalize(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Rows* a = <Rows*>task
    if a.is_single:
        _normalize_rows(a, part * a.per_part, <float*>a.weight, <float*>a.bias, <float*>a.statistics)
    else:
        _normalize_rows(a, part * a.per_part, <double*>a.weight, <double*>a.bias, <double*>a.statistics)


def normalize(np.ndarray x, np.ndarray weight, np.ndarray bias, double eps, bint centred):
    cdef np.npy_intp[2] shape = [3, np.PyArray_DIM(x, 0)]
    cdef int kind = np.PyArray_TYPE(x)
    cdef np.ndarray y = np.PyArray_EMPTY(2, np.PyArray_DIMS(x), kind, 0)
    cdef np.ndarray statistics = np.PyArray_EMPTY(2, shape, kind, 0)
    cdef Rows a
    cdef Py_ssize_t parts = _divide(&a, x)
    a.x, a.weight, a.bias = np.PyArray_BYTES(x), np.PyArray_BYTES(weight), np.PyArray_BYTES(bias)
    a.y, a.statistics, a.eps, a.centred = np.PyArray_BYTES(y), np.PyArray_BYTES(statistics), eps, centred
    with nogil:
        share(_normalize, &a, parts, pool_size())
    return y, statistics


cdef inline void _normalize_rows_back(
    Rows* a, Py_ssize_t i, const real* weight, const real* statistics, real* dweight, real* dbias, real* normal
) noexcept nogil:
    cdef Py_ssize_t j, n = a.n, count = a.count, end = min(i + a.per_part, count)
    cdef const real* g = <real*>a.g + i * n
    cdef const real* x = <real*>a.x + i * n
    cdef real* dx = <real*>a.y + i * n
    cdef real mean, scale, offset, level, slope
    cdef real per = 1.0 / (n if n else 1)
    for j in range(n):
        dweight[j] = dbias[j] = 0
    while i < end:
        mean, scale = statistics[i], statistics[2 * count + i]
        offset = -statistics[count + i] * scale
        for j in range(n):
            normal[j] = (x[j] - mean) * scale + offset
            dx[j] = g[j] * weight[j]
        level = sum(dx, n) * per if a.centred else 0
        slope = dot(dx, normal, n) * per
        for j in range(n):
            dx[j] = scale * (dx[j] - level - normal[j] * slope)
        for j in range(n):
            dweight[j] += g[j] * normal[j]
            dbias[j] += g[j]
        g += n
        x += n
        dx += n
        i += 1


cdef void _normalize_back(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Rows* a = <Rows*>task
    cdef Py_ssize_t own = part * a.n, i = part * a.per_part
    if a.is_single:
        _normalize_rows_back(
            a, i, <float*>a.weight, <float*>a.statistics, <float*>a.dweight + own, <float*>a.dbias + own,
            <float*>a.room + who * a.n,
        )
    else:
        _normalize_rows_back(
            a, i, <double*>a.weight, <double*>a.statistics, <double*>a.dweight + own, <double*>a.dbias + own,
            <double*>a.room + who * a.n,
        )


def normalize_back(np.ndarray g, np.ndarray x, np.ndarray weight, np.ndarray statistics, bint centred):
    cdef Rows a
    cdef Py_ssize_t parts = _divide(&a, x)
    cdef int kind = np.PyArray_TYPE(x), most = pool_size()
    cdef np.npy_intp[2] each_part = [parts, a.n], each_thread = [most, a.n]
    cdef np.ndarray dx = np.PyArray_EMPTY(2, np.PyArray_DIMS(x), kind, 0)
    cdef np.ndarray dweight = np.PyArray_EMPTY(2, each_part, kind, 0), dbias = np.PyArray_EMPTY(2, each_part, kind, 0)
    cdef np.ndarray room = np.PyArray_EMPTY(2, each_thread, kind, 0)
    a.g, a.x, a.weight = np.PyArray_BYTES(g), np.PyArray_BYTES(x), np.PyArray_BYTES(weight)
    a.statistics, a.y, a.centred = np.PyArray_BYTES(statistics), np.PyArray_BYTES(dx), centred
    a.dweight, a.dbias, a.room = np.PyArray_BYTES(dweight), np.PyArray_BYTES(dbias), np.PyArray_BYTES(room)
    with nogil:
        share(_normalize_back, &a, parts, most)
    return dx, column_sums(dweight), column_sums(dbias)


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
