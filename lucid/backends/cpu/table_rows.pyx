# cython: boundscheck=False, wraparound=False, cdivision=True
"""See table_rows.py. Threads divide the positions of a gather, and the rows of the table of a scatter."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lucid.backends.cpu.launch.elementwise cimport threads_for
from lucid.backends.cpu.launch.runs cimport run as run_of_bytes
from lucid.backends.cpu.thread_pool cimport share

cdef enum Action:
    READ, ADD_SINGLE, ADD_DOUBLE

cdef struct Rows:
    Action action
    Py_ssize_t size, count, bytes  # rows of the table, positions, and what a row takes
    Py_ssize_t skip, period  # row `skip` of every `period` is 0; none is if the period is 0
    Py_ssize_t parts
    char* table
    char* rows
    const int64_t* positions

ctypedef fused real:
    float
    double


cdef bint are_inside(const int64_t* positions, Py_ssize_t count, int64_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t wrong = 0
    for i in range(count):
        wrong |= positions[i] | (size - 1 - positions[i])  # whose highest bits are signs
    return wrong >= 0


cdef void read(Rows* a, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(first, last):
        if a.period and a.positions[i] % a.period == a.skip:
            memset(a.rows + i * a.bytes, 0, a.bytes)
        else:
            run_of_bytes(a.rows + i * a.bytes, a.table + a.positions[i] * a.bytes, a.bytes)


cdef inline void add_row(real* to, const real* row, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(width):
        to[j] += row[j]


cdef void add(Rows* a, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """To some rows of the table, those that are for them, in order."""
    cdef Py_ssize_t i, p
    cdef char* to
    memset(a.table + first * a.bytes, 0, (last - first) * a.bytes)
    for i in range(a.count):
        p = a.positions[i]
        if p < first or p >= last or (a.period and p % a.period == a.skip):
            continue
        to = a.table + p * a.bytes
        if a.action == ADD_SINGLE:
            add_row(<float*>to, <float*>(a.rows + i * a.bytes), a.bytes // <Py_ssize_t>sizeof(float))
        else:
            add_row(<double*>to, <double*>(a.rows + i * a.bytes), a.bytes // <Py_ssize_t>sizeof(double))


cdef void some(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Rows* a = <Rows*>task
    cdef Py_ssize_t all = a.count if a.action == READ else a.size
    cdef Py_ssize_t first = all * part // a.parts, last = all * (part + 1) // a.parts
    if a.action == READ:
        read(a, first, last)
    else:
        add(a, first, last)


cdef void run(const void* task, char** data) noexcept nogil:
    """The entry point: the table, rows, positions, and a byte that becomes 1 if some of these are outside, else 0."""
    cdef Rows a = (<const Rows*>task)[0]
    a.table, a.rows, a.positions = data[0], data[1], <int64_t*>data[2]
    data[3][0] = not are_inside(a.positions, a.count, a.size)
    if data[3][0]:
        return
    cdef int threads = threads_for(0.1 * a.bytes * (a.count if a.action == READ else a.count + a.size))
    a.parts = max(1, min(threads, a.count if a.action == READ else a.size))
    share(some, &a, a.parts, threads)


def entry(Py_ssize_t size, Py_ssize_t count, Py_ssize_t bytes, skip, Py_ssize_t period, kind):
    cdef Rows a
    memset(&a, 0, sizeof(Rows))
    a.size, a.count, a.bytes = size, count, bytes
    if skip is not None:
        a.skip, a.period = skip, period
    a.action = READ if kind is None else ADD_SINGLE if kind.itemsize == sizeof(float) else ADD_DOUBLE
    return <size_t><void*>run, (<char*>&a)[: sizeof(Rows)]
