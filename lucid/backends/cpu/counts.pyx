# cython: boundscheck=False, wraparound=False, cdivision=True
"""See counts.py."""

cimport numpy as np
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
    Py_ssize_t size


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
        task.out[i] = _count(task.chance[i], task.none[i], task.rise[i], task.fall[i])


cdef np.ndarray _plain(x):
    return <np.ndarray>numpy.ascontiguousarray(x, numpy.float64)


def added_up(chance, none, rise, fall):
    cdef np.ndarray u = _plain(chance), first = _plain(none), up = _plain(rise), down = _plain(fall)
    cdef np.ndarray out = new_array(np.dtype("float64"), np.PyArray_NDIM(u), np.PyArray_DIMS(u), NULL)
    cdef Task task
    task.chance, task.none = <double*>np.PyArray_DATA(u), <double*>np.PyArray_DATA(first)
    task.rise, task.fall = <double*>np.PyArray_DATA(up), <double*>np.PyArray_DATA(down)
    task.out, task.size = <double*>np.PyArray_DATA(out), np.PyArray_SIZE(u)
    cdef int threads = threads_for(10.0 * task.size)
    with nogil:
        share(_part, &task, (task.size + PART - 1) // PART, threads)
    return out
