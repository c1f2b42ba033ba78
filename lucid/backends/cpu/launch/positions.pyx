# cython: boundscheck=False, wraparound=False, cdivision=True
"""See positions.py.

Elements are divided into blocks, which are what threads share. A mask is read twice: what the blocks before hold says
where a block writes.
"""

import numpy

cimport numpy as np
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from lucid.backends.cpu.launch.elementwise cimport DIMS, is_enabled, is_plain, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    BLOCKS = 256
    CHUNK = 512  # places that are taken together

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    #define LUCID_BOUNDS(X) \\
        for (ptrdiff_t i = 0; i < count; i++) { \\
            int64_t p = X; \\
            low = p < low ? p : low; \\
            high = p > high ? p : high; \\
        }

    /* Widen bounds to those of numbers that are so many bytes apart. */
    static void lucid_bounds(const char *x, ptrdiff_t count, ptrdiff_t stride, int64_t *lowest, int64_t *highest) {
        int64_t low = *lowest, high = *highest;
        if (stride == sizeof(int64_t))
            LUCID_BOUNDS(((const int64_t *)x)[i])
        else
            LUCID_BOUNDS(*(const int64_t *)(x + i * stride))
        *lowest = low;
        *highest = high;
    }

    static ptrdiff_t lucid_count(const uint8_t *mask, ptrdiff_t count) {
        ptrdiff_t found = 0;
        for (ptrdiff_t i = 0; i < count; i++) found += mask[i] != 0;
        return found;
    }
    """
    void lucid_bounds(const char*, Py_ssize_t, Py_ssize_t, int64_t*, int64_t*) noexcept nogil
    Py_ssize_t lucid_count(const unsigned char*, Py_ssize_t) noexcept nogil


cdef struct Scan:
    char* x
    Py_ssize_t count, blocks
    int64_t low[BLOCKS]
    int64_t high[BLOCKS]
    int dims
    Py_ssize_t shape[DIMS]
    Py_ssize_t strides[DIMS]
    # Of a mask: how many hold before a block, and where the positions of those go.
    Py_ssize_t before[BLOCKS]
    int64_t* out[DIMS]
    Py_ssize_t step  # from one position to the next of the same dimension


cdef void _bounds_of_block(void* given, Py_ssize_t b, int who) noexcept nogil:
    cdef Scan* scan = <Scan*>given
    cdef Py_ssize_t begin = scan.count * b // scan.blocks, end = scan.count * (b + 1) // scan.blocks
    cdef Py_ssize_t index[DIMS]
    cdef Py_ssize_t place = begin, column
    cdef int d, inner = scan.dims - 1
    cdef char* x = scan.x
    scan.low[b], scan.high[b] = INT64_MAX, INT64_MIN
    for d in range(inner, -1, -1):
        index[d] = place % scan.shape[d]
        place //= scan.shape[d]
        if d < inner:
            x += index[d] * scan.strides[d]
    column = index[inner]
    while begin < end:
        place = min(scan.shape[inner] - column, end - begin)
        lucid_bounds(x + column * scan.strides[inner], place, scan.strides[inner], &scan.low[b], &scan.high[b])
        begin += place
        column = 0
        for d in range(inner - 1, -1, -1):
            index[d] += 1
            x += scan.strides[d]
            if index[d] < scan.shape[d]:
                break
            x -= index[d] * scan.strides[d]
            index[d] = 0


cdef void _count_block(void* given, Py_ssize_t b, int who) noexcept nogil:
    cdef Scan* scan = <Scan*>given
    cdef Py_ssize_t begin = scan.count * b // scan.blocks, end = scan.count * (b + 1) // scan.blocks
    scan.before[b] = lucid_count(<unsigned char*>scan.x + begin, end - begin)


cdef void _places_of_block(void* given, Py_ssize_t b, int who) noexcept nogil:
    """Write the positions of the elements of a block that hold, row by row."""
    cdef Scan* scan = <Scan*>given
    cdef Py_ssize_t begin = scan.count * b // scan.blocks, end = scan.count * (b + 1) // scan.blocks
    cdef Py_ssize_t to = scan.before[b] * scan.step, length = scan.shape[scan.dims - 1], step = scan.step
    cdef Py_ssize_t row = begin // length, column = begin % length, stop, i, found
    cdef Py_ssize_t index[DIMS]
    cdef int64_t columns[CHUNK]
    cdef unsigned char* mask = <unsigned char*>scan.x + begin - column
    cdef int d, inner = scan.dims - 1
    for d in range(inner - 1, -1, -1):
        index[d] = row % scan.shape[d]
        row //= scan.shape[d]
    while begin < end:
        stop = min(column + CHUNK, length, column + end - begin)
        found = 0
        for i in range(column, stop):
            columns[found] = i
            found += mask[i] != 0
        for d in range(inner):
            for i in range(found):
                scan.out[d][to + i * step] = index[d]
        for i in range(found):
            scan.out[inner][to + i * step] = columns[i]
        to += found * step
        begin += stop - column
        column = stop
        if column == length:
            column = 0
            mask += length
            for d in range(inner - 1, -1, -1):
                index[d] += 1
                if index[d] < scan.shape[d]:
                    break
                index[d] = 0


cdef int _divide(Scan* scan, double cost) noexcept:
    """Divide elements into blocks; the number of threads that share them."""
    cdef int threads = threads_for(cost * scan.count)
    scan.blocks = min(BLOCKS, 8 * threads) if threads > 1 else 1
    return threads


cdef Py_ssize_t _different(Scan* scan, np.ndarray x) noexcept:
    """Take the dimensions in which elements are not the same, joined where they lie one after the other; how many there are."""
    cdef int d, last
    cdef Py_ssize_t count = 1, size, stride
    scan.shape[0], scan.strides[0] = 1, sizeof(int64_t)
    scan.dims = 1
    for d in range(np.PyArray_NDIM(x)):
        size, stride, last = np.PyArray_DIM(x, d), np.PyArray_STRIDE(x, d), scan.dims - 1
        if size == 1 or stride == 0:
            continue
        count *= size
        if scan.shape[last] == 1 or scan.strides[last] == size * stride:
            scan.shape[last] *= size
        else:
            scan.dims += 1
            scan.shape[last + 1] = size
        scan.strides[scan.dims - 1] = stride
    return count


cdef bint _are_in_range(object positions, Py_ssize_t size):
    """Whether positions are of int64 and all between 0 and `size`; False also where the reference is to look."""
    cdef Scan scan
    cdef int threads
    cdef Py_ssize_t b
    cdef np.ndarray x
    if not is_enabled() or not is_plain(positions) or np.PyArray_TYPE(<np.ndarray>positions) != np.NPY_INT64:
        return False
    x = <np.ndarray>positions
    if np.PyArray_SIZE(x) == 0:
        return False
    scan.x, scan.count = <char*>np.PyArray_DATA(x), _different(&scan, x)
    threads = _divide(&scan, 1.5)  # so that each has near what it reads again
    if threads > 1:
        with nogil:
            share(_bounds_of_block, &scan, scan.blocks, threads)
    else:
        _bounds_of_block(&scan, 0, 0)
    for b in range(scan.blocks):
        if scan.low[b] < 0 or scan.high[b] >= size:
            return False
    return True


def checking(reference):
    def in_range(positions, size, name, negative):
        return positions if _are_in_range(positions, size) else reference(positions, size, name, negative)

    return in_range


def nonzero(mask, bint as_rows):
    cdef Scan scan
    cdef int d, threads
    cdef Py_ssize_t b, held, total = 0
    cdef np.ndarray x
    if not is_enabled() or not is_plain(mask) or np.PyArray_TYPE(<np.ndarray>mask) != np.NPY_BOOL:
        return None
    x = <np.ndarray>mask
    scan.dims = np.PyArray_NDIM(x)
    if scan.dims == 0 or np.PyArray_SIZE(x) == 0 or not np.PyArray_IS_C_CONTIGUOUS(x):
        return None
    scan.x, scan.count = <char*>np.PyArray_DATA(x), np.PyArray_SIZE(x)
    threads = _divide(&scan, 1.0)
    with nogil:
        share(_count_block, &scan, scan.blocks, threads)
    for b in range(scan.blocks):
        held = scan.before[b]
        scan.before[b] = total
        total += held
    if as_rows:
        out = numpy.empty((total, scan.dims), numpy.int64)
        found = [out[:, d] for d in range(scan.dims)]
    else:
        out = found = tuple([numpy.empty(total, numpy.int64) for _ in range(scan.dims)])
    scan.step = scan.dims if as_rows else 1
    for d in range(scan.dims):
        scan.shape[d] = np.PyArray_DIM(x, d)
        scan.out[d] = <int64_t*>np.PyArray_DATA(<np.ndarray>found[d])
    if total:
        with nogil:
            share(_places_of_block, &scan, scan.blocks, threads)
    return out
