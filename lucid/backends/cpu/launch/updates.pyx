# cython: boundscheck=False, wraparound=False, cdivision=True
"""See updates.py."""

cimport numpy as np
from lucid.backends.cpu.launch.elementwise cimport ran, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    MOST = 16  # arrays, and numbers
    PART = 1 << 13  # elements

ctypedef void (*Inner)(char** data, Py_ssize_t count, double* numbers) noexcept nogil


cdef struct Task:
    Inner inner
    int arrays
    char* data[MOST]
    double numbers[MOST]
    Py_ssize_t count, size


cdef void _part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t start = part * PART
    cdef char* data[MOST]
    cdef int k
    for k in range(task.arrays):
        data[k] = task.data[k] + start * task.size
    task.inner(data, min(PART, task.count - start), task.numbers)


cdef class Update:
    cdef Inner inner
    cdef np.dtype dtype
    cdef int arrays, numbers
    cdef double cost
    cdef object code

    def __init__(self, address, dtype, int arrays, int numbers, cost, code):
        if arrays > MOST or numbers > MOST:
            raise ValueError(f"at most {MOST} arrays and numbers are taken, not {arrays} and {numbers}")
        self.inner = <Inner><void*><size_t>address
        self.dtype, self.arrays, self.numbers, self.cost, self.code = dtype, arrays, numbers, cost, code

    def __call__(self, arrays, numbers):
        cdef Task task
        cdef np.ndarray a
        cdef int k
        if len(arrays) != self.arrays or len(numbers) != self.numbers:
            raise ValueError(f"expected {self.arrays} arrays and {self.numbers} numbers, not {len(arrays)} and {len(numbers)}")
        task.count = np.PyArray_SIZE(arrays[0])
        for k in range(self.arrays):
            a = arrays[k]
            if np.PyArray_TYPE(a) != self.dtype.num or np.PyArray_SIZE(a) != task.count or not np.PyArray_ISCARRAY_RO(a):
                return False
            task.data[k] = <char*>np.PyArray_DATA(a)
        for k in range(self.numbers):
            task.numbers[k] = numbers[k]
        if task.count == 0:
            return True
        ran(<void*>self.inner)
        task.inner, task.arrays, task.size = self.inner, self.arrays, self.dtype.itemsize
        with nogil:
            share(_part, &task, (task.count + PART - 1) // PART, threads_for(self.cost * task.count))
        return True
