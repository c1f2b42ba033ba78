# cython: boundscheck=False, wraparound=False, cdivision=True
"""Normalisation by statistics of channels: see batch_norm.py for what each function computes."""

from libc.math cimport INFINITY, sqrt
from libc.string cimport memset

cimport numpy as np
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

# Sums run in lanes, which compilers vectorize, over so many elements at a time as single precision sums well.

cdef enum:
    LANES = 32
    CHUNK = 1024
    # How many times the squared mean may exceed the variance before values are centred first: 16 costs 4 of 24 bits.
    WORST = 16


cdef struct Layout:
    # How the elements that share statistics lie in (examples, channels, positions): as sets of rows, which are `step`
    # elements apart. A set has one weight for all of its rows, or one for each.
    Py_ssize_t sets
    Py_ssize_t weights
    Py_ssize_t rows  # of a weight
    Py_ssize_t step
    Py_ssize_t length
    Py_ssize_t groups
    Py_ssize_t per_example
    Py_ssize_t per_channel


cdef Layout layout(np.ndarray x, Py_ssize_t groups):
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x), examples = x.shape[0], channels = x.shape[1], length = x.shape[2]
    cdef Py_ssize_t per_example = x.strides[0] // size, per_channel = x.strides[1] // size
    if groups:
        return Layout(
            examples * groups, channels // groups, 1, per_channel, length, groups, per_example, per_channel
        )
    return Layout(channels, 1, examples, per_example, length, 0, per_example, per_channel)


cdef inline Py_ssize_t first_weight(Layout* a, Py_ssize_t k) noexcept nogil:
    """The first channel of a set."""
    return k % a.groups * a.weights if a.groups else k


cdef inline Py_ssize_t first_row(Layout* a, Py_ssize_t k) noexcept nogil:
    """Where a set begins."""
    return (k // a.groups * a.per_example if a.groups else 0) + first_weight(a, k) * a.per_channel


cdef inline double total_of(const double* lanes) noexcept nogil:
    cdef double parts[4]
    cdef Py_ssize_t i, k
    for k in range(4):
        parts[k] = 0
    for i in range(LANES // 4):
        for k in range(4):
            parts[k] += lanes[4 * i + k]
    return (parts[0] + parts[2]) + (parts[1] + parts[3])


cdef inline void add_moments(const real* x, Py_ssize_t n, real centre, double* total, double* square) noexcept nogil:
    """Add Σ (x - centre) and Σ (x - centre)² to lanes."""
    cdef real totals[LANES]
    cdef real squares[LANES]
    cdef real value
    cdef Py_ssize_t i, k, chunk
    while n:
        chunk = min(n, CHUNK)
        n -= chunk
        for k in range(LANES):
            totals[k] = squares[k] = 0
        for i in range(chunk // LANES):
            for k in range(LANES):
                value = x[k] - centre
                totals[k] += value
                squares[k] += value * value
            x += LANES
        for k in range(chunk % LANES):
            value = x[k] - centre
            totals[k] += value
            squares[k] += value * value
        x += chunk % LANES
        for k in range(LANES):
            total[k] += totals[k]
            square[k] += squares[k]


cdef inline void add_products(
    const real* g, const real* x, Py_ssize_t n, real centre, double* total, double* along
) noexcept nogil:
    """Add Σ g and Σ g·(x - centre) to lanes."""
    cdef real totals[LANES]
    cdef real products[LANES]
    cdef Py_ssize_t i, k, chunk
    while n:
        chunk = min(n, CHUNK)
        n -= chunk
        for k in range(LANES):
            totals[k] = products[k] = 0
        for i in range(chunk // LANES):
            for k in range(LANES):
                totals[k] += g[k]
                products[k] += g[k] * (x[k] - centre)
            g += LANES
            x += LANES
        for k in range(chunk % LANES):
            totals[k] += g[k]
            products[k] += g[k] * (x[k] - centre)
        g += chunk % LANES
        x += chunk % LANES
        for k in range(LANES):
            total[k] += totals[k]
            along[k] += products[k]


cdef inline void line(const real* x, Py_ssize_t n, real centre, real scale, real shift, real* y) noexcept nogil:
    """y = (x - centre)·scale + shift"""
    cdef Py_ssize_t i
    for i in range(n):
        y[i] = (x[i] - centre) * scale + shift


cdef inline void plane(
    const real* g, const real* x, Py_ssize_t n, real by_g, real centre, real by_x, real shift, real* y
) noexcept nogil:
    """y = g·by_g + (x - centre)·by_x + shift"""
    cdef Py_ssize_t i
    for i in range(n):
        y[i] = g[i] * by_g + (x[i] - centre) * by_x + shift


cdef void moments(Layout* a, const real* x, real centre, double* mean, double* square) noexcept nogil:
    """The means of x - centre and of its square over a set."""
    cdef Py_ssize_t r, rows = a.weights * a.rows, length = a.length
    cdef double n = max(rows * length, 1)
    cdef double totals[LANES]
    cdef double squares[LANES]
    if a.step == length:
        rows, length = 1, rows * length
    memset(totals, 0, sizeof(totals))
    memset(squares, 0, sizeof(squares))
    for r in range(rows):
        add_moments(x + r * a.step, length, centre, totals, squares)
    mean[0], square[0] = total_of(totals) / n, total_of(squares) / n


cdef void statistics(Layout* a, const real* x, double* mean, double* variance) noexcept nogil:
    cdef real centre = 0
    cdef double rest, square
    moments(a, x, centre, mean, &square)
    variance[0] = square - mean[0] * mean[0]
    if mean[0] * mean[0] <= WORST * variance[0]:
        return
    centre = <real>mean[0]
    moments(a, x, centre, &rest, &square)
    mean[0] = centre + rest
    variance[0] = square - rest * rest
    if variance[0] < 0:
        variance[0] = 0


cdef void normalize_all(
    Layout* a, const real* x, const real* weight, const real* bias, double eps, real* y, double* mean, double* variance
) noexcept nogil:
    cdef Py_ssize_t k, w, r, at
    cdef double scale
    cdef real centre, shift
    for k in range(a.sets):
        at = first_row(a, k)
        statistics(a, x + at, mean + k, variance + k)
        centre = <real>mean[k]
        for w in range(first_weight(a, k), first_weight(a, k) + a.weights):
            scale = weight[w] / sqrt(variance[k] + eps)
            shift = <real>(bias[w] - (mean[k] - centre) * scale)
            for r in range(a.rows):
                line(x + at, a.length, centre, <real>scale, shift, y + at)
                at += a.step


cdef void normalize_all_back(
    Layout* a, const real* g, const real* x, const real* weight, const double* mean, const double* rstd,
    const double* by_mean, const double* by_variance, real* dx, double* dw, double* db,
) noexcept nogil:
    cdef Py_ssize_t k, w, r, at
    cdef double n = max(a.weights * a.rows * a.length, 1), slope, shift
    cdef double totals[LANES]
    cdef double products[LANES]
    cdef real centre
    for k in range(a.sets):
        centre = <real>mean[k]
        at = first_row(a, k)
        slope = shift = 0
        for w in range(a.weights):
            memset(totals, 0, sizeof(totals))
            memset(products, 0, sizeof(products))
            for r in range(a.rows):
                add_products(g + at, x + at, a.length, centre, totals, products)
                at += a.step
            db[w] = total_of(totals)
            dw[w] = rstd[k] * (total_of(products) - (mean[k] - centre) * db[w])
            slope += weight[first_weight(a, k) + w] * dw[w]
            shift += weight[first_weight(a, k) + w] * db[w]
        dw += a.weights
        db += a.weights
        if dx == NULL:
            continue
        slope = (2 * by_variance[k] - rstd[k] * rstd[k] * slope) / n
        shift = (by_mean[k] - rstd[k] * shift) / n - (mean[k] - centre) * slope
        at = first_row(a, k)
        for w in range(first_weight(a, k), first_weight(a, k) + a.weights):
            for r in range(a.rows):
                plane(
                    g + at, x + at, a.length, <real>(rstd[k] * weight[w]), centre, <real>slope, <real>shift, dx + at
                )
                at += a.step


cdef inline double* numbers(np.ndarray x):
    return <double*>np.PyArray_DATA(x)


def normalize(
    np.ndarray x, np.ndarray weight, np.ndarray bias, Py_ssize_t groups, double eps, np.ndarray y, np.ndarray mean,
    np.ndarray variance,
):
    cdef Layout a = layout(x, groups)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* target = np.PyArray_DATA(y)
    cdef void* w = np.PyArray_DATA(weight)
    cdef void* b = np.PyArray_DATA(bias)
    cdef double* m = numbers(mean)
    cdef double* v = numbers(variance)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            normalize_all(&a, <float*>source, <float*>w, <float*>b, eps, <float*>target, m, v)
        else:
            normalize_all(&a, <double*>source, <double*>w, <double*>b, eps, <double*>target, m, v)


def normalize_back(
    np.ndarray g, np.ndarray x, np.ndarray weight, Py_ssize_t groups, np.ndarray mean, np.ndarray rstd,
    np.ndarray by_mean, np.ndarray by_variance, np.ndarray dx, np.ndarray dweight, np.ndarray dbias,
):
    cdef Layout a = layout(x, groups)
    cdef void* cotangent = np.PyArray_DATA(g)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* w = np.PyArray_DATA(weight)
    cdef void* target = NULL if dx is None else np.PyArray_DATA(dx)
    cdef double* m = numbers(mean)
    cdef double* s = numbers(rstd)
    cdef double* bm = numbers(by_mean)
    cdef double* bv = numbers(by_variance)
    cdef double* dw = numbers(dweight)
    cdef double* db = numbers(dbias)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            normalize_all_back(
                &a, <float*>cotangent, <float*>source, <float*>w, m, s, bm, bv, <float*>target, dw, db
            )
        else:
            normalize_all_back(
                &a, <double*>cotangent, <double*>source, <double*>w, m, s, bm, bv, <double*>target, dw, db
            )


# --- the entry point: a layer of channels, forward or back, in compiled programs -----------------------


cdef struct Layer:
    Layout all
    double eps, low, high  # of variances that kernels do not compute again, or, going back, of factors of scale
    Py_ssize_t parts
    bint is_single, is_back, is_shared
    char** data


cdef enum:
    X, WEIGHT, MEAN, RSTD, FLAG, BIAS, Y, VARIANCE, MEAN_OUT, VARIANCE_OUT  # what an entry point is given
    G = BIAS, DX = Y, ZEROS = VARIANCE, DWEIGHT = MEAN_OUT, DBIAS = VARIANCE_OUT, SUMS = 10  # and what one going back


cdef void normalize_some(Layer* a, Layout* some, Py_ssize_t first, const real* x) noexcept nogil:
    cdef char** data = a.data
    cdef double* mean = <double*>data[MEAN] + first
    cdef double* rstd = <double*>data[RSTD] + first
    cdef double* variance = <double*>data[VARIANCE] + first
    cdef real* mean_out = <real*>data[MEAN_OUT] + first
    cdef real* variance_out = <real*>data[VARIANCE_OUT] + first
    cdef Py_ssize_t k, at = first * some.per_channel
    normalize_all(
        some, x + at, <real*>data[WEIGHT] + first, <real*>data[BIAS] + first, a.eps, <real*>data[Y] + at, mean, variance
    )
    for k in range(some.sets):
        rstd[k] = 1 / sqrt(variance[k] + a.eps)
        mean_out[k], variance_out[k] = <real>mean[k], <real>variance[k]
        if not (variance[k] + a.eps >= a.low and variance[k] <= a.high):
            data[FLAG][0] = 1


cdef void normalize_some_back(Layer* a, Layout* some, Py_ssize_t first, const real* x) noexcept nogil:
    cdef char** data = a.data
    cdef double* rstd = <double*>data[RSTD] + first
    cdef double* zeros = <double*>data[ZEROS] + first
    cdef double* dw = <double*>data[SUMS] + 2 * first
    cdef double* db = dw + some.sets
    cdef real* dx = NULL if data[DX] == NULL else <real*>data[DX] + first * some.per_channel
    cdef Py_ssize_t k, at = first * some.per_channel
    normalize_all_back(
        some, <real*>data[G] + at, x + at, <real*>data[WEIGHT] + first, <double*>data[MEAN] + first, rstd, zeros, zeros,
        dx, dw, db,
    )
    for k in range(some.sets):
        if data[DWEIGHT] != NULL:
            (<real*>data[DWEIGHT])[first + k] = <real>dw[k]
        if data[DBIAS] != NULL:
            (<real*>data[DBIAS])[first + k] = <real>db[k]
        if rstd[k] > 0 and rstd[k] < INFINITY and not (rstd[k] >= a.low and rstd[k] <= a.high):
            data[FLAG][0] = 1


cdef void some_channels(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Layer* a = <Layer*>task
    cdef Layout some = a.all
    cdef Py_ssize_t first = a.all.sets * part // a.parts
    some.sets = a.all.sets * (part + 1) // a.parts - first
    if a.is_single:
        if a.is_back:
            normalize_some_back(a, &some, first, <float*>a.data[X])
        else:
            normalize_some(a, &some, first, <float*>a.data[X])
    elif a.is_back:
        normalize_some_back(a, &some, first, <double*>a.data[X])
    else:
        normalize_some(a, &some, first, <double*>a.data[X])


cdef void all_channels(const void* task, char** data) noexcept nogil:
    cdef Layer a = (<const Layer*>task)[0]
    cdef int threads = pool_size() if a.is_shared else 1
    a.data, data[FLAG][0] = data, 0
    a.parts = min(a.all.sets, 8 * threads if threads > 1 else 1)
    share(some_channels, &a, a.parts, threads)


def entry(np.ndarray x, double eps, double low, double high, bint is_back, bint is_shared):
    cdef Layer a
    memset(&a, 0, sizeof(Layer))
    a.all = layout(x, 0)
    a.eps, a.low, a.high, a.is_back, a.is_shared = eps, low, high, is_back, is_shared
    a.is_single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    return <size_t><void*>all_channels, (<char*>&a)[: sizeof(Layer)]


cdef void affine_all(Layout* a, const real* x, const real* scale, const real* shift, real* y) noexcept nogil:
    cdef Py_ssize_t c, r, at
    if a.length == 1:
        for r in range(a.rows):
            for c in range(a.sets):
                y[r * a.step + c] = x[r * a.step + c] * scale[c] + shift[c]
        return
    for c in range(a.sets):
        for r in range(a.rows):
            at = c * a.per_channel + r * a.step
            line(x + at, a.length, <real>0, scale[c], shift[c], y + at)


def affine(np.ndarray x, np.ndarray scale, np.ndarray shift, np.ndarray y):
    cdef Layout a = layout(x, 0)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* target = np.PyArray_DATA(y)
    cdef void* w = np.PyArray_DATA(scale)
    cdef void* b = np.PyArray_DATA(shift)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            affine_all(&a, <float*>source, <float*>w, <float*>b, <float*>target)
        else:
            affine_all(&a, <double*>source, <double*>w, <double*>b, <double*>target)
