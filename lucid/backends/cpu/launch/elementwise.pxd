# What all launchers of generated loops share.
cimport numpy as np
from cpython.ref cimport Py_INCREF
from lucid.backends.cpu.thread_pool cimport pool_size

cdef enum:
    DIMS = 64  # of an array, at most
    LEAST_WORK = 60000  # nanoseconds, from which on threads pay
    LEAST_ALIGNED = 1 << 16  # bytes of an array that begins with a line of the cache

cdef inline np.dtype type_of(np.ndarray x):
    """The type of the elements; the attribute of this name is looked up as any other."""
    return <np.dtype><object>np.PyArray_DESCR(x)


cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(object, np.dtype, int, np.npy_intp*, np.npy_intp*, void*, int, object)

# Whether generated loops are used.
cdef bint is_enabled() noexcept

# Say that a generated function runs: every launcher does, and `lucid.kernels` listens.
cdef void ran(void* function) noexcept


cdef inline bint is_plain(object x) noexcept:
    """Whether it is an array as loops want it: of no subclass, aligned, in the byte order of the machine."""
    return np.PyArray_CheckExact(x) and np.PyArray_ISBEHAVED_RO(<np.ndarray>x)


# Where the memory of the elements begins and ends.
cdef void bounds_of(np.ndarray x, char** low, char** high) noexcept

# The same as `new_array`, for large ones.
cdef np.ndarray aligned_array(np.dtype dtype, int dims, np.npy_intp* shape, np.npy_intp* strides)


cdef inline np.ndarray new_array(np.dtype dtype, int dims, np.npy_intp* shape, np.npy_intp* strides):
    """An array whose elements nobody wrote yet; in row-major order without strides."""
    cdef double size = dtype.itemsize
    cdef int d
    for d in range(dims):
        size *= shape[d]
    if size >= LEAST_ALIGNED:
        return aligned_array(dtype, dims, shape, strides)
    Py_INCREF(dtype)
    return PyArray_NewFromDescr(np.ndarray, dtype, dims, shape, strides, NULL, 0, None)


cdef inline np.ndarray shown(np.ndarray x, int dims, np.npy_intp* shape, np.npy_intp* strides):
    """Another view of an array's memory, from its first element on."""
    cdef np.dtype dtype = type_of(x)
    Py_INCREF(dtype)
    out = PyArray_NewFromDescr(
        np.ndarray, dtype, dims, shape, strides, np.PyArray_DATA(x), np.PyArray_FLAGS(x) & np.NPY_ARRAY_WRITEABLE, None
    )
    np.set_array_base(out, x)
    return out


# An array of another type or, without one, of the same, that lies in memory like another; its elements nobody wrote yet.
cdef np.ndarray array_like(np.ndarray x, np.dtype dtype)


cdef inline int threads_for(double work) noexcept nogil:
    """How many threads share so many nanoseconds of work."""
    return pool_size() if work >= LEAST_WORK else 1
