# cython: boundscheck=False, wraparound=False, cdivision=True
"""Normalisation by statistics of channels: see batch_norm.py for what each function computes."""

from libc.math cimport INFINITY, sqrt
from libc.string cimport memset

import numpy

cimport numpy as np
from lucid.backends.cpu.launch.elementwise cimport new_array, threads_for
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

# Sums run in lanes, which compilers vectorize, over so many elements at a time as single precision sums well.

cdef enum:
    LANES = 32
    CHUNK = 1024
    # How many times the squared mean may exceed the variance before values are centred first: 16 costs 4 of 24 bits.
    WORST = 16
    PARTS = 8  # for each thread

cdef np.dtype _DOUBLE = numpy.dtype(numpy.float64)


cdef struct Layout:
    # How channels lie in (examples, channels, positions): each has a row of `length` elements in every example.
    Py_ssize_t channels, rows, step, length, per_channel


cdef Layout layout(np.ndarray x):
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x)
    return Layout(x.shape[1], x.shape[0], x.strides[0] // size, x.shape[2], x.strides[1] // size)


cdef inline double total_of(const double* lanes) noexcept nogil:
    cdef double parts[4]
    cdef Py_ssize_t i, k
    for k in range(4):
        parts[k] = 0
    for i in range(LANES // 4):
        for k in range(4):
            parts[k] += lanes[4 * i + k]
    return (parts[0] + parts[2]) + (parts[1] + parts[3])


cdef inline void settle(real* some, double* lanes) noexcept nogil:
    """Add the sums of a chunk to all others, and begin with the next one."""
    cdef Py_ssize_t k
    for k in range(LANES):
        lanes[k] += some[k]
        some[k] = 0


cdef inline void add_moments(const real* x, Py_ssize_t n, real centre, real* totals, real* squares) noexcept nogil:
    """Add Σ (x - centre) and Σ (x - centre)² to lanes."""
    cdef real value
    cdef Py_ssize_t i, k
    for i in range(n // LANES):
        for k in range(LANES):
            value = x[k] - centre
            totals[k] += value
            squares[k] += value * value
        x += LANES
    for k in range(n % LANES):
        value = x[k] - centre
        totals[k] += value
        squares[k] += value * value


cdef inline void add_products(
    const real* g, const real* x, Py_ssize_t n, real centre, real* totals, real* products
) noexcept nogil:
    """Add Σ g and Σ g·(x - centre) to lanes."""
    cdef Py_ssize_t i, k
    for i in range(n // LANES):
        for k in range(LANES):
            totals[k] += g[k]
            products[k] += g[k] * (x[k] - centre)
        g += LANES
        x += LANES
    for k in range(n % LANES):
        totals[k] += g[k]
        products[k] += g[k] * (x[k] - centre)


cdef void sums(
    Layout* a, const real* g, const real* x, real centre, double* total, double* other
) noexcept nogil:
    """Over a channel, Σ (x - centre) and Σ (x - centre)²; with g, Σ g and Σ g·(x - centre)."""
    cdef Py_ssize_t r, first, stop, count, done = 0
    cdef double all[2][LANES]
    cdef real some[2][LANES]
    memset(all, 0, sizeof(all))
    memset(some, 0, sizeof(some))
    for r in range(a.rows):
        first, stop = r * a.step, r * a.step + a.length
        while first < stop:
            count = min(stop - first, CHUNK)
            if done + count > CHUNK:
                settle(some[0], all[0])
                settle(some[1], all[1])
                done = 0
            if g == NULL:
                add_moments(x + first, count, centre, some[0], some[1])
            else:
                add_products(g + first, x + first, count, centre, some[0], some[1])
            first += count
            done += count
    settle(some[0], all[0])
    settle(some[1], all[1])
    total[0], other[0] = total_of(all[0]), total_of(all[1])


cdef void statistics(Layout* a, const real* x, double* mean, double* variance) noexcept nogil:
    cdef real centre = 0
    cdef double rest, square, n = max(a.rows * a.length, 1)
    sums(a, <real*>NULL, x, centre, mean, &square)
    mean[0] /= n
    variance[0] = square / n - mean[0] * mean[0]
    if mean[0] * mean[0] <= WORST * variance[0]:
        return
    centre = <real>mean[0]
    sums(a, <real*>NULL, x, centre, &rest, &square)
    rest /= n
    mean[0] = centre + rest
    variance[0] = square / n - rest * rest
    if variance[0] < 0:
        variance[0] = 0


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


# --- a layer of channels, forward or back: what kernels and compiled programs call -----------------------


cdef struct Layer:
    Layout all
    double eps, low, high  # of variances that kernels do not compute again, or, going back, of factors of scale
    Py_ssize_t parts
    bint is_single, is_back
    char** data


cdef enum:
    # What a layer is given, forward and back. There may be no weights and biases, and nothing that is not wanted.
    X, WEIGHT, MEAN, RSTD, FLAG, BIAS, Y, MEAN_OUT, VARIANCE_OUT
    G = BIAS, DX = Y, DWEIGHT = MEAN_OUT, DBIAS = VARIANCE_OUT, BY_MEAN = 9, BY_VARIANCE = 10
    POINTERS = 11


cdef inline double number(const real* values, Py_ssize_t c, double other) noexcept nogil:
    return other if values == NULL else values[c]


cdef void normalize_some(Layer* a, Py_ssize_t first, Py_ssize_t stop, const real* x) noexcept nogil:
    cdef char** data = a.data
    cdef real* weight = <real*>data[WEIGHT]
    cdef real* bias = <real*>data[BIAS]
    cdef Py_ssize_t c, r, at
    cdef double mean, variance, rstd, scale
    cdef real centre, shift
    for c in range(first, stop):
        at = c * a.all.per_channel
        statistics(&a.all, x + at, &mean, &variance)
        rstd = 1 / sqrt(variance + a.eps)
        centre, scale = <real>mean, number(weight, c, 1) * rstd
        shift = <real>(number(bias, c, 0) - (mean - centre) * scale)
        for r in range(a.all.rows):
            line(x + at, a.all.length, centre, <real>scale, shift, <real*>data[Y] + at)
            at += a.all.step
        (<double*>data[MEAN])[c], (<double*>data[RSTD])[c] = mean, rstd
        (<real*>data[MEAN_OUT])[c], (<real*>data[VARIANCE_OUT])[c] = <real>mean, <real>variance
        if not (variance + a.eps >= a.low and variance <= a.high):
            data[FLAG][0] = 1


cdef void normalize_some_back(Layer* a, Py_ssize_t first, Py_ssize_t stop, const real* x) noexcept nogil:
    cdef char** data = a.data
    cdef real* g = <real*>data[G]
    cdef real* weight = <real*>data[WEIGHT]
    cdef Py_ssize_t c, r, at
    cdef double mean, rstd, dw, db, by_g, by_x, shift, n = max(a.all.rows * a.all.length, 1)
    cdef real centre
    for c in range(first, stop):
        at = c * a.all.per_channel
        mean, rstd = (<double*>data[MEAN])[c], (<double*>data[RSTD])[c]
        centre = <real>mean
        sums(&a.all, g + at, x + at, centre, &db, &dw)
        dw = rstd * (dw - (mean - centre) * db)
        if data[DWEIGHT] != NULL:
            (<real*>data[DWEIGHT])[c] = <real>dw
        if data[DBIAS] != NULL:
            (<real*>data[DBIAS])[c] = <real>db
        if rstd > 0 and rstd < INFINITY and not (rstd >= a.low and rstd <= a.high):
            data[FLAG][0] = 1
        if data[DX] == NULL:
            continue
        by_g = rstd * number(weight, c, 1)
        by_x = (2 * number(<double*>data[BY_VARIANCE], c, 0) - rstd * by_g * dw) / n
        shift = (number(<double*>data[BY_MEAN], c, 0) - by_g * db) / n - (mean - centre) * by_x
        for r in range(a.all.rows):
            plane(g + at, x + at, a.all.length, <real>by_g, centre, <real>by_x, <real>shift, <real*>data[DX] + at)
            at += a.all.step


cdef void some_channels(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Layer* a = <Layer*>task
    cdef Py_ssize_t first = a.all.channels * part // a.parts, stop = a.all.channels * (part + 1) // a.parts
    if a.is_single:
        if a.is_back:
            normalize_some_back(a, first, stop, <float*>a.data[X])
        else:
            normalize_some(a, first, stop, <float*>a.data[X])
    elif a.is_back:
        normalize_some_back(a, first, stop, <double*>a.data[X])
    else:
        normalize_some(a, first, stop, <double*>a.data[X])


cdef void all_channels(const void* task, char** data) noexcept nogil:
    cdef Layer a = (<const Layer*>task)[0]
    cdef int threads = threads_for(<double>(a.all.rows * a.all.channels * a.all.length) * (2 if a.is_back else 1))
    a.data, data[FLAG][0] = data, 0
    a.parts = min(a.all.channels, PARTS * threads if threads > 1 else 1)
    share(some_channels, &a, a.parts, threads)


cdef Layer layer(np.ndarray x, double eps, double low, double high, bint is_back):
    cdef Layer a
    memset(&a, 0, sizeof(Layer))
    a.all, a.eps, a.low, a.high, a.is_back = layout(x), eps, low, high, is_back
    a.is_single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    return a


def entry(np.ndarray x, double eps, double low, double high, bint is_back):
    cdef Layer a = layer(x, eps, low, high, is_back)
    return <size_t><void*>all_channels, (<char*>&a)[: sizeof(Layer)]


cdef inline char* memory(array):
    return NULL if array is None else <char*>np.PyArray_DATA(<np.ndarray>array)


def normalize(np.ndarray x, weight, bias, double eps, double low, double high):
    cdef Layer a = layer(x, eps, low, high, False)
    cdef char* data[POINTERS]
    cdef char flag = 0
    cdef np.npy_intp* count = np.PyArray_DIMS(x) + 1
    cdef np.dtype kind = x.dtype
    y = new_array(kind, 3, np.PyArray_DIMS(x), NULL)
    mean, rstd = new_array(_DOUBLE, 1, count, NULL), new_array(_DOUBLE, 1, count, NULL)
    mean_out, variance_out = new_array(kind, 1, count, NULL), new_array(kind, 1, count, NULL)
    memset(data, 0, sizeof(data))
    data[X], data[WEIGHT], data[MEAN], data[RSTD] = memory(x), memory(weight), memory(mean), memory(rstd)
    data[FLAG], data[BIAS], data[Y] = &flag, memory(bias), memory(y)
    data[MEAN_OUT], data[VARIANCE_OUT] = memory(mean_out), memory(variance_out)
    with nogil:
        all_channels(&a, data)
    return y, mean, rstd, mean_out, variance_out, bool(flag)


def normalize_back(
    np.ndarray g, np.ndarray x, weight, np.ndarray mean, np.ndarray rstd, by_mean, by_variance, bint has_dx
):
    cdef Layer a = layer(x, 0, 0, INFINITY, True)
    cdef char* data[POINTERS]
    cdef char flag = 0
    cdef np.npy_intp* count = np.PyArray_DIMS(x) + 1
    cdef np.dtype kind = x.dtype
    dx = new_array(kind, 3, np.PyArray_DIMS(x), NULL) if has_dx else None
    dweight, dbias = new_array(kind, 1, count, NULL), new_array(kind, 1, count, NULL)
    data[X], data[WEIGHT], data[MEAN], data[RSTD] = memory(x), memory(weight), memory(mean), memory(rstd)
    data[FLAG], data[G], data[DX] = &flag, memory(g), memory(dx)
    data[DWEIGHT], data[DBIAS], data[BY_MEAN], data[BY_VARIANCE] = (
        memory(dweight), memory(dbias), memory(by_mean), memory(by_variance)
    )
    with nogil:
        all_channels(&a, data)
    return dx, dweight, dbias


# --- what is known before: a line for each channel ------------------------------------------------------


cdef struct Lines:
    Layout all
    Py_ssize_t parts
    bint is_single
    char* x
    char* y
    char* scale
    char* shift


cdef void affine_some(Lines* a, Py_ssize_t first, Py_ssize_t stop, const real* x, real* y) noexcept nogil:
    """The rows of some examples."""
    cdef real* scale = <real*>a.scale
    cdef real* shift = <real*>a.shift
    cdef Py_ssize_t c, r, at
    for r in range(first, stop):
        at = r * a.all.step
        if a.all.length == 1 and shift != NULL:
            for c in range(a.all.channels):
                y[at + c] = x[at + c] * scale[c] + shift[c]
        elif a.all.length == 1:
            for c in range(a.all.channels):
                y[at + c] = x[at + c] * scale[c]
        else:
            for c in range(a.all.channels):
                line(x + at, a.all.length, <real>0, scale[c], <real>number(shift, c, 0), y + at)
                at += a.all.per_channel


cdef void some_lines(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Lines* a = <Lines*>task
    cdef Py_ssize_t first = a.all.rows * part // a.parts, stop = a.all.rows * (part + 1) // a.parts
    if a.is_single:
        affine_some(a, first, stop, <float*>a.x, <float*>a.y)
    else:
        affine_some(a, first, stop, <double*>a.x, <double*>a.y)


def affine(np.ndarray x, np.ndarray scale, shift):
    cdef Lines a
    cdef int threads = threads_for(0.5 * np.PyArray_SIZE(x))
    y = new_array(x.dtype, 3, np.PyArray_DIMS(x), NULL)
    a.all, a.is_single = layout(x), np.PyArray_TYPE(x) == np.NPY_FLOAT
    a.x, a.y, a.scale, a.shift = memory(x), memory(y), memory(scale), memory(shift)
    a.parts = min(a.all.rows, PARTS * threads if threads > 1 else 1)
    with nogil:
        share(some_lines, &a, a.parts, threads)
    return y
