# cython: boundscheck=False, wraparound=False, cdivision=True
"""See searches.py.

A search halves what is left without a branch: which half it goes on in cannot be foretold.
"""

import numpy

cimport numpy as np
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t
from lucid.backends.cpu.launch.elementwise cimport is_enabled, is_plain, new_array, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    BLOCKS = 256
    MOST_COUNTED = 1 << 24  # numbers

ctypedef fused number:
    float
    double
    int32_t
    int64_t

ctypedef fused real:
    float
    double


cdef struct Search:
    char* sequence
    char* values
    int64_t* out
    Py_ssize_t length, per_row, count, blocks  # elements of a sequence, values for each, and values in all
    int type
    bint right, is_one  # whether all rows have one sequence


cdef inline Py_ssize_t _place(number* sequence, Py_ssize_t length, number value, bint right) noexcept nogil:
    """How many elements stand before a value; nan is the largest."""
    cdef Py_ssize_t base = 0, half
    if length == 0:
        return 0
    if value != value:
        if right:
            return length
        while length > 1:
            half = length >> 1
            base += half & -<Py_ssize_t>(sequence[base + half - 1] == sequence[base + half - 1])
            length -= half
        return base + (sequence[base] == sequence[base])
    if right:
        while length > 1:
            half = length >> 1
            base += half & -<Py_ssize_t>(sequence[base + half - 1] <= value)
            length -= half
        return base + (sequence[base] <= value)
    while length > 1:
        half = length >> 1
        base += half & -<Py_ssize_t>(sequence[base + half - 1] < value)
        length -= half
    return base + (sequence[base] < value)


cdef void _search(Search* task, Py_ssize_t begin, Py_ssize_t end, number* sequence, number* values) noexcept nogil:
    cdef Py_ssize_t i, row
    if task.is_one:
        for i in range(begin, end):
            task.out[i] = _place(sequence, task.length, values[i], task.right)
        return
    while begin < end:
        row = begin // task.per_row
        for i in range(begin, min(end, (row + 1) * task.per_row)):
            task.out[i] = _place(sequence + row * task.length, task.length, values[i], task.right)
        begin = min(end, (row + 1) * task.per_row)


cdef void _search_block(void* given, Py_ssize_t b, int who) noexcept nogil:
    cdef Search* task = <Search*>given
    cdef Py_ssize_t begin = task.count * b // task.blocks, end = task.count * (b + 1) // task.blocks
    if task.type == np.NPY_FLOAT32:
        _search(task, begin, end, <float*>task.sequence, <float*>task.values)
    elif task.type == np.NPY_FLOAT64:
        _search(task, begin, end, <double*>task.sequence, <double*>task.values)
    elif task.type == np.NPY_INT32:
        _search(task, begin, end, <int32_t*>task.sequence, <int32_t*>task.values)
    else:
        _search(task, begin, end, <int64_t*>task.sequence, <int64_t*>task.values)


cdef inline bint _lies_in_order(object x) noexcept:
    return is_plain(x) and np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x)


def searchsorted(sequence, values, bint right):
    cdef Search task
    cdef int threads, dims
    if not is_enabled() or not _lies_in_order(sequence) or not _lies_in_order(values):
        return None
    cdef np.ndarray s = <np.ndarray>sequence
    cdef np.ndarray v = <np.ndarray>values
    task.type = np.PyArray_TYPE(s)
    if task.type != np.PyArray_TYPE(v):
        return None
    if task.type not in (np.NPY_FLOAT32, np.NPY_FLOAT64, np.NPY_INT32, np.NPY_INT64):
        return None
    dims = np.PyArray_NDIM(v)
    out = new_array(np.dtype("int64"), dims, np.PyArray_DIMS(v), NULL)
    task.count, task.right, task.is_one = np.PyArray_SIZE(v), right, np.PyArray_NDIM(s) == 1
    if task.count == 0:
        return out
    task.length, task.per_row = np.PyArray_DIM(s, np.PyArray_NDIM(s) - 1), np.PyArray_DIM(v, dims - 1) if dims else 1
    task.sequence, task.values = <char*>np.PyArray_DATA(s), <char*>np.PyArray_DATA(v)
    task.out = <int64_t*>np.PyArray_DATA(out)
    threads = threads_for(20.0 * task.count)
    task.blocks = min(BLOCKS, 8 * threads) if threads > 1 else 1
    if threads > 1:
        with nogil:
            share(_search_block, &task, task.blocks, threads)
    else:
        _search_block(&task, 0, 0)
    return out


# --- bins --------------------------------------------------------------------------------------

cdef struct Bins:
    char* x
    char* edges
    int64_t* out
    Py_ssize_t count, size, blocks
    bint is_single


cdef void _find_bins(Bins* task, Py_ssize_t begin, Py_ssize_t end, real* x, real* edges) noexcept nogil:
    """A guess by the width of the bins, corrected by the edges themselves."""
    cdef Py_ssize_t i, count = task.count, found
    cdef real first = edges[0], last = edges[count], scale = <real>(count / (<double>last - <double>first)), value
    for i in range(begin, end):
        value = x[i]
        if value >= first and value <= last:
            found = min(<Py_ssize_t>((value - first) * scale), count - 1)
            while value < edges[found]:
                found -= 1
            while found < count - 1 and value >= edges[found + 1]:
                found += 1
            task.out[i] = found
        else:
            task.out[i] = count


cdef void _bins_of_block(void* given, Py_ssize_t b, int who) noexcept nogil:
    cdef Bins* task = <Bins*>given
    cdef Py_ssize_t begin = task.size * b // task.blocks, end = task.size * (b + 1) // task.blocks
    if task.is_single:
        _find_bins(task, begin, end, <float*>task.x, <float*>task.edges)
    else:
        _find_bins(task, begin, end, <double*>task.x, <double*>task.edges)


def bin_numbers(x, edges):
    cdef Bins task
    cdef int threads
    cdef double low, high
    if not is_enabled() or not _lies_in_order(x) or not _lies_in_order(edges):
        return None
    cdef np.ndarray e = <np.ndarray>edges
    cdef int type = np.PyArray_TYPE(<np.ndarray>x)
    if np.PyArray_NDIM(<np.ndarray>x) != 1 or np.PyArray_NDIM(e) != 1 or type != np.PyArray_TYPE(e):
        return None
    if type not in (np.NPY_FLOAT32, np.NPY_FLOAT64) or np.PyArray_SIZE(e) < 2:
        return None
    task.is_single = type == np.NPY_FLOAT32
    task.count, task.size = np.PyArray_SIZE(e) - 1, np.PyArray_SIZE(<np.ndarray>x)
    task.x, task.edges = <char*>np.PyArray_DATA(<np.ndarray>x), <char*>np.PyArray_DATA(e)
    if task.is_single:
        low, high = (<float*>task.edges)[0], (<float*>task.edges)[task.count]
    else:
        low, high = (<double*>task.edges)[0], (<double*>task.edges)[task.count]
    if not low < high or not isfinite(high - low) or (task.is_single and not isfinite(<float>high - <float>low)):
        return None
    out = new_array(np.dtype("int64"), 1, np.PyArray_DIMS(<np.ndarray>x), NULL)
    task.out = <int64_t*>np.PyArray_DATA(out)
    threads = threads_for(3.0 * task.size)
    task.blocks = min(BLOCKS, 8 * threads) if threads > 1 else 1
    if threads > 1:
        with nogil:
            share(_bins_of_block, &task, task.blocks, threads)
    else:
        _bins_of_block(&task, 0, 0)
    return out


# --- counts and positions ----------------------------------------------------------------------


cdef struct Tally:
    int64_t* x
    Py_ssize_t size, parts
    Py_ssize_t pitch  # from one row of counts to the next: threads write to no line of the cache together
    int64_t low[BLOCKS]
    int64_t high[BLOCKS]
    int64_t* counts
    bint is_double  # two rows of counts for each part, so that a number need not wait for the one before it


cdef void _bounds_of_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Tally* task = <Tally*>given
    cdef int64_t low = 0, high = -1
    cdef Py_ssize_t i
    for i in range(task.size * part // task.parts, task.size * (part + 1) // task.parts):
        low, high = min(low, task.x[i]), max(high, task.x[i])
    task.low[part], task.high[part] = low, high


cdef void _tally_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Tally* task = <Tally*>given
    cdef Py_ssize_t i = task.size * part // task.parts, stop = task.size * (part + 1) // task.parts
    cdef int64_t* one = task.counts + (1 + task.is_double) * part * task.pitch
    cdef int64_t* other = one + task.is_double * task.pitch
    while i + 2 <= stop:
        one[task.x[i]] += 1
        other[task.x[i + 1]] += 1
        i += 2
    if i < stop:
        one[task.x[i]] += 1


def counted(numbers, Py_ssize_t least):
    cdef Tally task
    cdef Py_ssize_t part, length
    cdef int64_t low = 0, high = -1
    cdef np.npy_intp shape[2]
    if not is_enabled() or not _lies_in_order(numbers) or np.PyArray_TYPE(<np.ndarray>numbers) != np.NPY_INT64:
        return None
    task.x, task.size = <int64_t*>np.PyArray_DATA(<np.ndarray>numbers), np.PyArray_SIZE(<np.ndarray>numbers)
    task.parts = min(threads_for(1.5 * task.size), BLOCKS)
    with nogil:
        share(_bounds_of_part, &task, task.parts, <int>task.parts)
    for part in range(task.parts):
        low, high = min(low, task.low[part]), max(high, task.high[part])
    if low < 0 or high >= MOST_COUNTED:
        return None
    length = max(least, <Py_ssize_t>high + 1)
    task.pitch = (length + 15) & ~<Py_ssize_t>7
    task.is_double = 2 * task.parts * task.pitch <= task.size
    if not task.is_double:  # to add up what parts have counted would take longer
        task.parts = 1
    shape[0], shape[1] = 2 * task.parts, task.pitch if task.is_double else length
    out = np.PyArray_ZEROS(2, shape, np.NPY_INT64, 0) if task.is_double else np.PyArray_ZEROS(1, &shape[1], np.NPY_INT64, 0)
    task.counts = <int64_t*>np.PyArray_DATA(<np.ndarray>out)
    with nogil:
        share(_tally_part, &task, task.parts, <int>task.parts)
    return numpy.add.reduce(out[:, :length], axis=0) if task.is_double else out


def triangle(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t offset, bint is_lower):
    cdef Py_ssize_t i, j, first, last, total = 0
    cdef np.npy_intp shape[2]
    cdef int64_t* row
    cdef int64_t* column
    if not is_enabled() or max(rows, columns) > 1 << 31 or not -(1 << 31) < offset < 1 << 31:
        return None
    for i in range(rows):
        first = min(max(i + offset + is_lower, 0), columns)
        total += first if is_lower else columns - first
    shape[0], shape[1] = 2, total
    out = new_array(np.dtype("int64"), 2, shape, NULL)
    row = <int64_t*>np.PyArray_DATA(out)
    column = row + total
    for i in range(rows):
        first, last = min(max(i + offset + is_lower, 0), columns), columns
        if is_lower:
            first, last = 0, first
        for j in range(first, last):
            row[j - first], column[j - first] = i, j
        row += last - first
        column += last - first
    return out
