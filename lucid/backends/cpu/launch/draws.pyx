# cython: boundscheck=False, wraparound=False, cdivision=True
"""See draws.py.

Every element depends on its place in the stream alone, so threads take parts of a draw as they come.
"""

cimport numpy as np
from libc.stdint cimport uint64_t
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport DIMS, LEAST_WORK, new_array, ran, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    NUMBERS = 4
    PART = 1 << 13  # elements, which take whole blocks

ctypedef void (*Inner)(char* out, uint64_t key, Py_ssize_t first, Py_ssize_t count, double* numbers) noexcept nogil


cdef struct Task:
    Inner inner
    char* out
    uint64_t key
    Py_ssize_t first, count, size, per_block
    double cost
    double numbers[NUMBERS]


cdef class Stream:
    cdef Inner inner
    cdef np.dtype dtype
    cdef int per_block
    cdef double cost
    cdef object code

    def __init__(self, address, dtype, bits, cost, code):
        self.inner = <Inner><void*><size_t>address
        self.dtype, self.per_block, self.cost, self.code = dtype, 256 // bits, cost, code

    def entry(self, Py_ssize_t count, Py_ssize_t offset, tuple numbers):
        cdef Task task
        memset(&task, 0, sizeof(Task))
        _give(&task, self, count, numbers)
        task.first = offset
        return <size_t><void*>_enter, (<char*>&task)[: sizeof(Task)]


cdef void _give(Task* task, Stream loop, Py_ssize_t count, tuple numbers) except *:
    """What a loop takes for so many elements."""
    cdef int k
    if len(numbers) > NUMBERS:
        raise ValueError(f"at most {NUMBERS} numbers are taken, not {len(numbers)}")
    for k in range(len(numbers)):
        task.numbers[k] = numbers[k]
    task.inner, task.count, task.cost = loop.inner, count, loop.cost
    task.size, task.per_block = loop.dtype.itemsize, loop.per_block


cdef void _draw(Task* task) noexcept nogil:
    share(_part, task, (task.count + PART - 1) // PART, threads_for(task.cost * task.count))


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: the key and the block from which a program draws, and where numbers go."""
    cdef Task task = (<const Task*>given)[0]
    task.key = (<uint64_t*>data[0])[0]
    task.first += <Py_ssize_t>(<uint64_t*>data[0])[1]
    task.out = data[1]
    _draw(&task)


cdef void _part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t start = part * PART
    task.inner(
        task.out + start * task.size, task.key, task.first + start // task.per_block, min(PART, task.count - start), task.numbers
    )


def drawing(make):
    cdef dict known = {}
    latest = (None, None)  # the recipe that was asked for last, mostly again, and its loop

    def draw(recipe, key, Py_ssize_t first, shape, into=None):
        nonlocal latest
        cdef tuple found = latest
        if found[0] is not recipe:
            kind = recipe[:4]
            if kind not in known:
                known[kind] = make(*kind)
            latest = found = (recipe, known[kind])
        return None if found[1] is None else _drawn(<Stream>found[1], key, first, tuple(shape), <tuple>(<tuple>recipe)[4], into)

    return draw


cdef object _drawn(Stream loop, object key, Py_ssize_t first, tuple shape, tuple numbers, np.ndarray into):
    cdef Task task
    cdef np.npy_intp sizes[DIMS]
    cdef Py_ssize_t count
    cdef int k
    if len(shape) > DIMS:
        raise ValueError(f"an array has at most {DIMS} dimensions, not {len(shape)}")
    for k in range(len(shape)):
        sizes[k] = shape[k]
    cdef np.ndarray out = new_array(loop.dtype, len(shape), sizes, NULL) if into is None else into
    if not np.PyArray_IS_C_CONTIGUOUS(out) or out.descr is not loop.dtype:
        return None
    count = np.PyArray_SIZE(out)
    _give(&task, loop, count, numbers)
    if count == 0:
        return out
    ran(<void*>loop.inner)
    task.out, task.key, task.first = <char*>np.PyArray_DATA(out), key, first
    if count <= PART and loop.cost * count < LEAST_WORK:
        _part(&task, 0, 0)
        return out
    with nogil:
        _draw(&task)
    return out
