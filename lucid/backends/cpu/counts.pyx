# cython: boundscheck=False, wraparound=False, cdivision=True
"""See counts.py."""

cimport numpy as np
from libc.math cimport INFINITY, NAN
from lucid.backends.cpu.launch.elementwise cimport new_array, threads_for
from lucid.backends.cpu.thread_pool cimport share

import numpy

np.import_array()

cdef enum:
    PART = 1 << 11  # elements

cdef struct Task:
    const double* chance
    const double* none
    const double* rise
    const double* fall
    double* out
    Py_ssize_t size, step  # of fall: 0 for one number


cdef inline double _count(double chance, double term, double rise, double fall) noexcept nogil:
    cdef double total = term, sums, ratio, count = 0
    while total < chance:
        count += 1
        ratio = (rise - fall * count) / count
        term *= ratio
        sums = total + term
        if sums == total and ratio < 1:
            return count - 1
        total = sums
    return count


cdef void _part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t i
    for i in range(part * PART, min(part * PART + PART, task.size)):
        task.out[i] = _count(task.chance[i], task.none[i], task.rise[i], task.fall[i * task.step])


cdef np.ndarray _plain(x):
    if np.PyArray_CheckExact(x) and np.PyArray_ISCARRAY_RO(<np.ndarray>x) and np.PyArray_TYPE(<np.ndarray>x) == np.NPY_DOUBLE:
        return <np.ndarray>x
    return <np.ndarray>numpy.ascontiguousarray(x, numpy.float64)


def added_up(chance, none, rise, fall):
    cdef np.ndarray u = _plain(chance), first = _plain(none), up = _plain(rise), down = _plain(fall)
    cdef np.ndarray out = new_array(np.dtype("float64"), np.PyArray_NDIM(u), np.PyArray_DIMS(u), NULL)
    cdef Task task
    task.chance, task.none = <double*>np.PyArray_DATA(u), <double*>np.PyArray_DATA(first)
    task.rise, task.fall = <double*>np.PyArray_DATA(up), <double*>np.PyArray_DATA(down)
    task.out, task.size, task.step = <double*>np.PyArray_DATA(out), np.PyArray_SIZE(u), np.PyArray_SIZE(down) > 1
    cdef int threads = threads_for(10.0 * task.size)
    with nogil:
        share(_part, &task, (task.size + PART - 1) // PART, threads)
    return out


cdef struct Rows:
    const double* weights
    const double* chances
    double* sums
    np.int64_t* found
    Py_ssize_t rows, width, count, per_part


cdef void _pick_in_row(Rows* task, Py_ssize_t row, double* sums) noexcept nogil:
    """How many cumulative weights lie at or below each part of the total, but for the last positive one."""
    cdef const double* weights = task.weights + row * task.width
    cdef const double* chances = task.chances + row * task.count
    cdef np.int64_t* found = task.found + row * task.count
    cdef Py_ssize_t i, low, high, middle, last = 0
    cdef double total = 0, part
    for i in range(task.width):
        total += weights[i]
        sums[i] = total
        if weights[i] > 0:
            last = i
    for i in range(task.count):
        part = chances[i] * total
        low, high = 0, last  # no part lies at or above the last one, which is taken if rounding says so
        while low < high:
            middle = (low + high) >> 1
            if sums[middle] <= part:
                low = middle + 1
            else:
                high = middle
        found[i] = low


cdef void _rows(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Rows* task = <Rows*>given
    cdef Py_ssize_t row
    for row in range(part * task.per_part, min(part * task.per_part + task.per_part, task.rows)):
        _pick_in_row(task, row, task.sums + who * task.width)


def picked(rows, chances):
    """The places in rows of sound weights at which chances, a row of them for each, point."""
    cdef np.ndarray weights = _plain(rows), given = _plain(chances)
    cdef np.ndarray out = new_array(np.dtype("int64"), 2, np.PyArray_DIMS(given), NULL)
    cdef Rows task
    task.rows, task.width, task.count = np.PyArray_DIM(weights, 0), np.PyArray_DIM(weights, 1), np.PyArray_DIM(given, 1)
    task.per_part = max(1, PART // (task.width + task.count + 1))
    cdef double work = <double>task.rows * (task.width + 20.0 * task.count)
    cdef int threads = threads_for(work)
    cdef np.npy_intp room = max(threads, 1) * task.width
    cdef np.ndarray sums = new_array(np.dtype("float64"), 1, &room, NULL)
    task.weights, task.chances = <double*>np.PyArray_DATA(weights), <double*>np.PyArray_DATA(given)
    task.sums, task.found = <double*>np.PyArray_DATA(sums), <np.int64_t*>np.PyArray_DATA(out)
    with nogil:
        share(_rows, &task, (task.rows + task.per_part - 1) // task.per_part, threads)
    return out


def extent(x):
    cdef np.ndarray given = _plain(x)
    cdef const double* values = <double*>np.PyArray_DATA(given)
    cdef double least = INFINITY, largest = 0
    cdef bint known = True
    cdef Py_ssize_t i
    for i in range(np.PyArray_SIZE(given)):
        least = values[i] if values[i] < least else least
        largest = values[i] if values[i] > largest else largest
        known &= values[i] == values[i]
    if not known:
        least = largest = NAN
    return least, largest
