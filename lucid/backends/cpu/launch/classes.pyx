# cython: boundscheck=False, wraparound=False, cdivision=True
"""See classes.py.

Targets are taken in chunks, which are the same for any number of threads, and so are sums over them.
"""

import ml_dtypes
import numpy

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.math cimport INFINITY, NAN, ldexp
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport DIMS, is_enabled, is_plain, new_array, threads_for
from lucid.backends.cpu.thread_pool cimport share

from lucid.backends.cpu.launch.copies import zeros

np.import_array()

cdef enum:
    CHUNK = 512  # targets that are taken together
    SIGN = 0x8000  # of numbers of half precision

cdef np.dtype _DOUBLE = numpy.dtype(numpy.float64)
cdef int BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16).num

ctypedef fused Number:
    float
    double
    int64_t
    uint16_t  # the bits of one of half precision


cdef inline bint _is_half(int kind) noexcept nogil:
    return kind == np.NPY_FLOAT16 or kind == BFLOAT16


cdef inline double _from_half(uint16_t x, int kind) noexcept nogil:
    cdef uint32_t bits = <uint32_t>x << 16
    cdef int exponent = x >> 10 & 31, digits = x & 1023
    cdef double size
    if kind == BFLOAT16:
        return (<float*>&bits)[0]
    if exponent == 31:
        size = NAN if digits else INFINITY
    else:
        size = ldexp(digits + 1024, exponent - 25) if exponent else ldexp(digits, -24)
    return -size if x & SIGN else size


cdef inline Number _negative(Number x) noexcept nogil:
    if Number is uint16_t:
        return x ^ SIGN
    else:
        return -x


cdef struct Classes:
    int kind
    char* x  # all classes
    char* v  # those of the targets, if they are not put together; otherwise NULL
    int64_t* target
    Py_ssize_t count, inner, classes
    Py_ssize_t row, step, near  # strides of rows, of classes and of what is behind
    int64_t ignored
    bint is_negative, is_wrong
    double share  # what is placed without v
    uint16_t half_share  # the same in half precision
    double* totals  # of each chunk
    Py_ssize_t* counts


cdef Py_ssize_t _pick_some(Classes* task, Number* out, Py_ssize_t first, Py_ssize_t stop, double* total) noexcept nogil:
    """The number of targets that count, or -1 if one is no class."""
    cdef Py_ssize_t i, j = first % task.inner, kept = 0
    cdef char* row = task.x + first // task.inner * task.row
    cdef int64_t t
    cdef Number value
    total[0] = 0
    for i in range(first, stop):
        t = task.target[i]
        value = 0
        if t != task.ignored:
            if t < 0 or t >= task.classes:
                return -1
            value = (<Number*>(row + t * task.step + j * task.near))[0]
            if task.is_negative:
                value = _negative(value)
            kept += 1
        if out != NULL:
            out[i] = value
        elif Number is uint16_t:
            total[0] += _from_half(value, task.kind)
        else:
            total[0] += value
        j += 1
        if j == task.inner:
            j = 0
            row += task.row
    return kept


cdef Py_ssize_t _place_some(Classes* task, Number* given, Number share, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i, j = first % task.inner
    cdef char* row = task.x + first // task.inner * task.row
    cdef int64_t t
    cdef Number value = share
    for i in range(first, stop):
        t = task.target[i]
        if t != task.ignored:
            if t < 0 or t >= task.classes:
                return -1
            if given != NULL:
                value = _negative(given[i]) if task.is_negative else given[i]
            (<Number*>(row + t * task.step + j * task.near))[0] = value
        j += 1
        if j == task.inner:
            j = 0
            row += task.row
    return 0


cdef void _pick_chunk(void* given, Py_ssize_t k, int who) noexcept nogil:
    cdef Classes* task = <Classes*>given
    cdef Py_ssize_t first = k * CHUNK, stop = min(first + CHUNK, task.count)
    if task.kind == np.NPY_FLOAT32:
        task.counts[k] = _pick_some(task, <float*>task.v, first, stop, &task.totals[k])
    elif task.kind == np.NPY_FLOAT64:
        task.counts[k] = _pick_some(task, <double*>task.v, first, stop, &task.totals[k])
    elif _is_half(task.kind):
        task.counts[k] = _pick_some(task, <uint16_t*>task.v, first, stop, &task.totals[k])
    else:
        task.counts[k] = _pick_some(task, <int64_t*>task.v, first, stop, &task.totals[k])
    if task.counts[k] < 0:
        task.is_wrong = True


cdef void _place_chunk(void* given, Py_ssize_t k, int who) noexcept nogil:
    cdef Classes* task = <Classes*>given
    cdef Py_ssize_t first = k * CHUNK, stop = min(first + CHUNK, task.count), answer
    if task.kind == np.NPY_FLOAT32:
        answer = _place_some(task, <float*>task.v, <float>task.share, first, stop)
    elif task.kind == np.NPY_FLOAT64:
        answer = _place_some(task, <double*>task.v, task.share, first, stop)
    elif _is_half(task.kind):
        answer = _place_some(task, <uint16_t*>task.v, task.half_share, first, stop)
    else:
        answer = _place_some(task, <int64_t*>task.v, 0, first, stop)
    if answer < 0:
        task.is_wrong = True


cdef void _by_chunks(Classes* task, void (*work)(void*, Py_ssize_t, int) noexcept nogil) noexcept nogil:
    cdef Py_ssize_t k, chunks = (task.count + CHUNK - 1) // CHUNK
    cdef int threads = threads_for(4.0 * task.count)
    if threads > 1:
        share(work, task, chunks, threads)
    else:
        for k in range(chunks):
            work(task, k, 0)


cdef bint _classes(Classes* task, np.ndarray x, target, ignored, bint is_negative) except -1:
    """Read scores (rows, classes, …) and targets; whether there is code for them."""
    cdef int d, dims = np.PyArray_NDIM(x)
    cdef np.ndarray y
    task.kind, task.x = np.PyArray_TYPE(x), <char*>np.PyArray_DATA(x)
    if task.kind != np.NPY_FLOAT32 and task.kind != np.NPY_FLOAT64 and task.kind != np.NPY_INT64 and not _is_half(task.kind):
        return False
    if not is_enabled() or not is_plain(x) or not is_plain(target) or np.PyArray_TYPE(<np.ndarray>target) != np.NPY_INT64:
        return False
    y = <np.ndarray>target
    if dims < 2 or np.PyArray_NDIM(y) != dims - 1 or not np.PyArray_IS_C_CONTIGUOUS(y) or np.PyArray_SIZE(y) == 0:
        return False
    task.row, task.step, task.near = np.PyArray_STRIDE(x, 0), np.PyArray_STRIDE(x, 1), np.PyArray_STRIDE(x, dims - 1)
    task.inner, task.classes = 1, np.PyArray_DIM(x, 1)
    for d in range(dims - 1, 1, -1):  # what is behind the classes goes on as one dimension
        if np.PyArray_STRIDE(x, d) != task.near * task.inner and np.PyArray_DIM(x, d) != 1:
            return False
        task.inner *= np.PyArray_DIM(x, d)
    task.target, task.count = <int64_t*>np.PyArray_DATA(y), np.PyArray_SIZE(y)
    if task.count != np.PyArray_DIM(x, 0) * task.inner:
        return False
    task.ignored, task.is_negative, task.is_wrong = ignored, is_negative, False
    return True


cdef enum Reduction:
    NONE, SUM, MEAN

cdef dict _REDUCTIONS = {"none": NONE, "sum": SUM, "mean": MEAN}


cdef Py_ssize_t _chunks(Classes* task) noexcept nogil:
    return (task.count + CHUNK - 1) // CHUNK


cdef void _pick_all(Classes* task, Reduction reduction, char* out) noexcept nogil:
    """All classes, or their sum or mean; there is room for the totals and counts of chunks."""
    cdef Py_ssize_t k, kept = 0
    cdef double total = 0
    task.v = out if reduction == NONE else NULL
    _by_chunks(task, _pick_chunk)
    if task.is_wrong or reduction == NONE:
        return
    for k in range(_chunks(task)):
        total += task.totals[k]
        kept += task.counts[k]
    if reduction == MEAN:
        total /= kept
    if task.kind == np.NPY_FLOAT32:
        (<float*>out)[0] = <float>total
    else:  # totals of half precision are rounded by who asks for them
        (<double*>out)[0] = total


cdef void _place_all(Classes* task, Reduction reduction, char* given) noexcept nogil:
    """What is given for each target, or for all of them, into zeros."""
    cdef Py_ssize_t i, kept = 0
    task.v = given if reduction == NONE else NULL
    if reduction != NONE and _is_half(task.kind):
        task.half_share = (<uint16_t*>given)[0] ^ (SIGN if task.is_negative else 0)
    elif reduction != NONE:
        task.share = (<float*>given)[0] if task.kind == np.NPY_FLOAT32 else (<double*>given)[0]
        if reduction == MEAN:
            for i in range(task.count):
                kept += task.target[i] != task.ignored
            task.share /= kept
        if task.is_negative:
            task.share = -task.share
    _by_chunks(task, _place_chunk)


def pick(given, target, reduction, bint is_negative, ignore_index):
    cdef np.ndarray x = numpy.asarray(given)  # of a number, if a kernel gave one
    cdef Classes task
    cdef np.ndarray out
    cdef Py_ssize_t chunks
    cdef Reduction how = _REDUCTIONS[reduction]
    cdef double few[8]
    cdef Py_ssize_t few_counts[8]
    if not _classes(&task, x, target, ignore_index, is_negative) or (how != NONE and task.kind == np.NPY_INT64):
        return None
    kind = <np.dtype><object>np.PyArray_DESCR(x)
    out = new_array(
        kind if how == NONE or not _is_half(task.kind) else _DOUBLE, np.PyArray_NDIM(target) if how == NONE else 0,
        np.PyArray_DIMS(<np.ndarray>target), NULL,
    )
    chunks = _chunks(&task)
    task.totals, task.counts = few, few_counts
    if chunks > 8:
        task.totals = <double*>malloc(chunks * (sizeof(double) + sizeof(Py_ssize_t)))
        if task.totals == NULL:
            raise MemoryError
        task.counts = <Py_ssize_t*>(task.totals + chunks)
    with nogil:
        _pick_all(&task, how, <char*>np.PyArray_DATA(out))
    if chunks > 8:
        free(task.totals)
    if task.is_wrong:
        return None
    return out if (<object>out).dtype is kind else numpy.asarray(out, kind)


def place(given, target, reduction, bint is_negative, Py_ssize_t classes, ignore_index):
    cdef np.ndarray x = numpy.asarray(given)
    cdef Classes task
    cdef np.ndarray out, y
    cdef Reduction how = _REDUCTIONS[reduction]
    if not np.PyArray_CheckExact(target) or np.PyArray_NDIM(target) == 0 or not is_plain(x):
        return None
    y = <np.ndarray>target
    if how != NONE:
        if np.PyArray_NDIM(x) or np.PyArray_TYPE(x) == np.NPY_INT64:
            return None
        if how == MEAN and _is_half(np.PyArray_TYPE(x)):
            x = numpy.asarray(x.astype(_DOUBLE) / numpy.count_nonzero(y != ignore_index), x.dtype)
            how = SUM
    elif not np.PyArray_IS_C_CONTIGUOUS(x) or np.PyArray_SIZE(x) != np.PyArray_SIZE(y):
        return None
    shape = (<object>y).shape
    out = zeros((shape[0], classes, *shape[1:]), x.dtype)
    if not _classes(&task, out, target, ignore_index, is_negative):
        return None
    with nogil:
        _place_all(&task, how, <char*>np.PyArray_DATA(x))
    return None if task.is_wrong else out


cdef struct Entered:
    Classes task
    Reduction reduction
    bint places
    Py_ssize_t size  # bytes of all classes


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: all classes, targets, those of the targets, a byte that becomes 1 if one is no class, else 0, and room."""
    cdef Entered entered = (<const Entered*>given)[0]
    cdef Classes* task = &entered.task
    task.x, task.target = data[0], <int64_t*>data[1]
    task.totals = <double*>data[4]
    task.counts = <Py_ssize_t*>(task.totals + _chunks(task))
    if entered.places:
        memset(task.x, 0, entered.size)
        _place_all(task, entered.reduction, data[2])
    else:
        _pick_all(task, entered.reduction, data[2])
    data[3][0] = task.is_wrong


def entry(np.ndarray x, np.ndarray target, reduction, bint is_negative, ignore_index, bint places):
    cdef Entered entered
    memset(&entered, 0, sizeof(Entered))
    if not _classes(&entered.task, x, target, ignore_index, is_negative) or entered.task.kind == np.NPY_INT64:
        return None
    if _is_half(entered.task.kind):
        return None
    entered.reduction, entered.places, entered.size = _REDUCTIONS[reduction], places, np.PyArray_NBYTES(x)
    room = _chunks(&entered.task) * (sizeof(double) + sizeof(Py_ssize_t))
    return <size_t><void*>_enter, (<char*>&entered)[: sizeof(Entered)], room


def narrow(target, Py_ssize_t classes, ignore_index):
    cdef np.ndarray y = numpy.ascontiguousarray(target, numpy.int64), out
    cdef np.npy_intp shape[DIMS]
    cdef int d, dims = np.PyArray_NDIM(y)
    cdef Py_ssize_t i, kept = 0, count = np.PyArray_SIZE(y)
    cdef int64_t* given = <int64_t*>np.PyArray_DATA(y)
    cdef int64_t t, ignored = ignore_index
    if dims == 0 or dims + 1 >= DIMS or classes > 0x7fffffff:
        return None
    shape[0], shape[1] = np.PyArray_DIM(y, 0), 1
    for d in range(1, dims):
        shape[d + 1] = np.PyArray_DIM(y, d)
    out = np.PyArray_SimpleNew(dims + 1, shape, np.NPY_INT32)
    cdef int32_t* found = <int32_t*>np.PyArray_DATA(out)
    for i in range(count):
        t = given[i]
        if t == ignored:
            found[i] = -1
            continue
        if t < 0 or t >= classes:
            return None
        found[i] = <int32_t>t
        kept += 1
    return out, kept
