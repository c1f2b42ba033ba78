# cython: boundscheck=False, wraparound=False, cdivision=True
"""See elementwise.py.

Dimensions in which all operands go on alike are one; those that are left are in the order of memory, and the result
lies in memory like the operands, as NumPy's functions have it. The innermost dimension is the loop's own. A large operand
that lies across the others is copied first, square by square. Where an operand still goes through memory in large steps,
the others are taken in tiles, so that what is near in memory is read while it is in the cache. Short rows are packed, some
at a time: what does not lie as the result does is copied into buffers that do, and the loop sees one long row.
"""

import numpy

cimport numpy as np
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from libc.string cimport memset
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

is_there = True

cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>
    #if defined(_WIN32)
    #include <malloc.h>
    #elif defined(__linux__)
    #include <sys/mman.h>
    #endif

    #define LUCID_LINE 64
    #define LUCID_PAGE 4096
    #define LUCID_HUGE (1 << 21)  /* from which on huge pages are asked for; NumPy does so from twice as many bytes on */

    static void *lucid_allocate(void *unused, size_t size) {
        void *found = NULL;
    #if defined(_WIN32)
        found = _aligned_malloc(size, LUCID_LINE);
    #else
        if (posix_memalign(&found, LUCID_LINE, size)) return NULL;
    #endif
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (size >= LUCID_HUGE) {
            size_t skipped = (LUCID_PAGE - (size_t)found % LUCID_PAGE) % LUCID_PAGE;
            madvise((char *)found + skipped, (size - skipped) / LUCID_PAGE * LUCID_PAGE, MADV_HUGEPAGE);
        }
    #endif
        return found;
    }

    static void lucid_release(void *unused, void *memory, size_t size) {
    #if defined(_WIN32)
        _aligned_free(memory);
    #else
        free(memory);
    #endif
    }

    static void *lucid_allocate_zeros(void *unused, size_t count, size_t size) {
        void *found = lucid_allocate(unused, count * size);
        return found ? memset(found, 0, count * size) : NULL;
    }

    static void *lucid_reallocate(void *unused, void *memory, size_t size) {
    #if defined(_WIN32)
        return _aligned_realloc(memory, size, LUCID_LINE);
    #else
        return realloc(memory, size);
    #endif
    }

    static PyDataMem_Handler lucid_memory = {
        "lucid", 1, {NULL, lucid_allocate, lucid_allocate_zeros, lucid_reallocate, lucid_release}
    };
    """
    void* _MEMORY "&lucid_memory"

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_SetHandler(object)
    object PyArray_NewLikeArray(np.ndarray, np.NPY_ORDER, np.dtype, int)

cdef object _HANDLER = PyCapsule_New(_MEMORY, "mem_handler", NULL)


cdef np.ndarray aligned_array(np.dtype dtype, int dims, np.npy_intp* shape, np.npy_intp* strides):
    # Vectors that lie across two lines of the cache are read and written in two steps: an addition takes a fifth longer.
    cdef object before = PyDataMem_SetHandler(_HANDLER)
    try:
        Py_INCREF(dtype)
        return PyArray_NewFromDescr(np.ndarray, dtype, dims, shape, strides, NULL, 0, None)
    finally:
        PyDataMem_SetHandler(before)


cdef np.ndarray array_like(np.ndarray x, np.dtype dtype):
    cdef object before
    if dtype is None:
        dtype = type_of(x)
    Py_INCREF(dtype)
    if np.PyArray_SIZE(x) * dtype.itemsize < LEAST_ALIGNED:
        return PyArray_NewLikeArray(x, np.NPY_KEEPORDER, dtype, 0)
    before = PyDataMem_SetHandler(_HANDLER)
    try:
        return PyArray_NewLikeArray(x, np.NPY_KEEPORDER, dtype, 0)
    finally:
        PyDataMem_SetHandler(before)


cdef enum:
    MOST = 8  # operands, the result among them
    PACKED = 4096  # bytes of a buffer of short rows
    SHORT = 64  # elements of these, at most
    LEAST_ACROSS = 16  # elements in each of two dimensions, for which an operand is copied from the one to the other
    NUMBERS = 9
    REFUSED = 8  # the number that a loop sets to 1 if it did not compute; see codegen.bodies

ctypedef void (*Inner)(
    char** data, Py_ssize_t* strides, Py_ssize_t count, double* numbers, Py_ssize_t rows, Py_ssize_t* steps
) noexcept nogil

cdef bint _is_enabled = True


cdef bint is_enabled() noexcept:
    return _is_enabled


def enable(bint on):
    global _is_enabled
    _is_enabled = on


cdef list _listener = None


cdef void ran(void* function) noexcept:
    if _listener is not None:
        _listener.append(<size_t>function)


def listen(list into):
    global _listener
    _listener = into


cdef double _LARGEST = 65504.0, _INF = float("inf")  # the first of half precision
cdef Py_ssize_t _TILE = 128  # elements, where memory is read in large steps
cdef double _PIECE = 20000.0  # nanoseconds, below which nobody is handed work


cdef class Loop:
    cdef Inner inner
    cdef int count  # operands, without the result
    cdef int types[MOST]
    cdef np.dtype result
    cdef tuple numbers
    cdef double cost  # nanoseconds for an element
    cdef Py_ssize_t lanes  # elements of a vector; where they are no divisor of the count, two vectors share some
    cdef bint takes_rows
    cdef object code

    def __init__(self, address, types, result, numbers, cost, lanes, takes_rows, code):
        self.inner = <Inner><void*><size_t>address
        self.count = len(types)
        for k, kind in enumerate(types):
            self.types[k] = kind.num
        self.result = result
        self.numbers = numbers
        self.cost = cost
        self.lanes = lanes
        self.takes_rows = takes_rows
        self.code = code


# Rows of elements, copied: the target's and the source's steps from row to row, and from element to element.
ctypedef void (*Block)(
    char*, const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t
) noexcept nogil

cdef Block _blocks[5]  # for elements of 1, 2, 4, 8 and 16 bytes


cdef struct Task:
    Inner inner
    int operands  # the result is the last
    bint is_packed  # whether the last two dimensions are taken some rows at a time
    bint is_buffered  # the result of these
    int sizes[MOST]  # of their elements
    int dims
    Py_ssize_t shape[DIMS]
    Py_ssize_t strides[DIMS][MOST]
    char* data[MOST]
    double numbers[NUMBERS]
    Py_ssize_t rows, pieces, piece, parts
    Py_ssize_t rest  # elements at the end of each row that are no whole vector, and for which the loop is called again


cdef void _run_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    """Pieces of rows; all rows of one piece, then those of the next."""
    cdef Task* task = <Task*>given
    cdef Py_ssize_t unit = task.rows * task.pieces * part // task.parts
    cdef Py_ssize_t stop = task.rows * task.pieces * (part + 1) // task.parts
    cdef Py_ssize_t row, count, first, some
    cdef Py_ssize_t index[DIMS]
    cdef char* data[MOST]
    cdef char* tail[MOST]
    cdef int d, k, inner = task.dims - 1
    while unit < stop:
        first = unit // task.rows * task.piece
        row = unit % task.rows
        count = min(task.piece, task.shape[inner] - first)
        for k in range(task.operands):
            data[k] = task.data[k] + first * task.strides[inner][k]
        for d in range(inner - 1, -1, -1):
            index[d] = row % task.shape[d]
            row //= task.shape[d]
            for k in range(task.operands):
                data[k] += index[d] * task.strides[d][k]
        row = unit % task.rows
        while row < task.rows and unit < stop:
            # As many rows as there are before the end of the dimension around them, by one call.
            some = min(task.shape[inner - 1] - index[inner - 1], stop - unit) if inner else 1
            task.inner(data, task.strides[inner], count, task.numbers, some, task.strides[inner - 1 if inner else 0])
            if task.rest and first + count == task.shape[inner]:
                for k in range(task.operands):
                    tail[k] = data[k] + count * task.strides[inner][k]
                task.inner(
                    tail, task.strides[inner], task.rest, task.numbers, some, task.strides[inner - 1 if inner else 0]
                )
            row += some
            unit += some
            for d in range(inner - 1, -1, -1):
                if d == inner - 1:
                    index[d] += some - 1
                    for k in range(task.operands):
                        data[k] += (some - 1) * task.strides[d][k]
                index[d] += 1
                if index[d] < task.shape[d]:
                    for k in range(task.operands):
                        data[k] += task.strides[d][k]
                    break
                for k in range(task.operands):
                    data[k] -= (index[d] - 1) * task.strides[d][k]
                index[d] = 0


cdef inline Block _block_of(int size) noexcept nogil:
    cdef int k = 0
    while size >> k > 1:
        k += 1
    return _blocks[k]


cdef void _run_packed(void* given, Py_ssize_t part, int who) noexcept nogil:
    """Some rows of the last two dimensions at once: what is not dense goes through buffers."""
    cdef Task* task = <Task*>given
    cdef Py_ssize_t unit = task.rows * task.pieces * part // task.parts
    cdef Py_ssize_t stop = task.rows * task.pieces * (part + 1) // task.parts
    cdef Py_ssize_t rest, at, rows
    cdef int d, k, x = task.dims - 1, y = task.dims - 2, result = task.operands - 1
    cdef Py_ssize_t count = task.shape[x]
    cdef char buffers[MOST][PACKED]
    cdef char* data[MOST]
    cdef char* place[MOST]
    cdef char* packed[MOST]  # what is in a buffer, if other rows are the same
    cdef Py_ssize_t strides[MOST]
    for k in range(task.operands):
        packed[k] = NULL
    while unit < stop:
        at = unit % task.pieces * task.piece
        rows = min(task.piece, task.shape[y] - at)
        rest = unit // task.pieces
        for k in range(task.operands):
            place[k] = task.data[k] + at * task.strides[y][k]
        for d in range(y - 1, -1, -1):
            for k in range(task.operands):
                place[k] += rest % task.shape[d] * task.strides[d][k]
            rest //= task.shape[d]
        for k in range(task.operands):
            strides[k], data[k] = task.sizes[k], place[k]
            if task.strides[x][k] == task.sizes[k] and task.strides[y][k] == count * task.sizes[k]:
                if k < result or not task.is_buffered:
                    continue
            if k < result and task.strides[x][k] == 0 and task.strides[y][k] == 0:
                strides[k] = 0
                continue
            data[k] = buffers[k]
            if k < result and packed[k] != place[k]:  # the first unit of a row has the most of them
                _block_of(task.sizes[k])(
                    buffers[k], place[k], rows, count, count * task.sizes[k], task.strides[y][k], task.sizes[k], task.strides[x][k]
                )
                packed[k] = place[k] if task.strides[y][k] == 0 and rows == task.piece else NULL
        task.inner(data, strides, rows * count, task.numbers, 1, strides)
        if data[result] != place[result]:
            _block_of(task.sizes[result])(
                place[result], data[result], rows, count, task.strides[y][result], count * task.sizes[result],
                task.strides[x][result], task.sizes[result],
            )
        unit += 1


cdef bint _pack(Loop loop, Task* task, PyObject** arrays, np.ndarray out, bint is_new) noexcept:
    """Set out to pack the rows of the last two dimensions, if they are short and many."""
    cdef int k, x = task.dims - 1, y = task.dims - 2, largest = 1, result = task.operands - 1
    cdef Py_ssize_t count = task.shape[x]
    cdef bint is_direct = loop.takes_rows
    if task.dims < 2 or count >= SHORT or _blocks[0] == NULL:
        return False
    for k in range(task.operands):
        task.sizes[k] = <int>np.PyArray_ITEMSIZE(<np.ndarray>arrays[k] if k < result else out)
        largest = max(largest, task.sizes[k])
        if task.sizes[k] > 16:
            return False
        if task.strides[x][k] != task.sizes[k] and (task.strides[x][k] != 0 or k == result):
            is_direct = False
    if is_direct and count >= loop.lanes:
        return False
    task.is_buffered = not is_new  # operands may lie where it does, and vectors of the loop overlap
    task.piece = min(PACKED // (count * largest), task.shape[y])
    return task.piece > 1


cdef void _run(Task* task, double cost, bint is_far) noexcept nogil:
    """Divide the work and do it."""
    cdef int d, threads
    cdef Py_ssize_t count = task.shape[task.dims - 1], most
    cdef double work
    task.rows = 1
    for d in range(task.dims - 1):
        task.rows *= task.shape[d]
    work = cost * task.rows * count
    threads = threads_for(work)
    if task.is_packed:
        task.rows //= task.shape[task.dims - 2]
        task.pieces = (task.shape[task.dims - 2] + task.piece - 1) // task.piece
        task.parts = max(1, min(min(<Py_ssize_t>(work / _PIECE), 8 * threads), task.rows * task.pieces))
        if task.parts > 1 and threads > 1:
            share(_run_packed, task, task.parts, threads)
        else:
            task.parts = 1
            _run_packed(task, 0, 0)
        return
    task.piece = count
    task.parts = 1
    if threads > 1:
        task.parts = min(<Py_ssize_t>(work / _PIECE), 8 * threads)
        if task.rows < task.parts:  # rows alone are too few
            most = (task.parts + task.rows - 1) // task.rows
            task.piece = ((count + most - 1) // most + 255) & ~<Py_ssize_t>255
    if is_far and task.rows > 1:
        task.piece = min(task.piece, _TILE)
    task.pieces = (count + task.piece - 1) // task.piece
    if threads > 1:
        share(_run_part, task, task.parts, threads)
    else:
        _run_part(task, 0, 0)


cdef bint _before(Task* task, int a, int b) noexcept nogil:
    """Whether dimension b should be outside of dimension a, which is before it: by the first operand that says so."""
    cdef int k
    cdef Py_ssize_t x, y
    for k in range(task.operands - 1):
        x, y = task.strides[a][k], task.strides[b][k]
        if x != 0 and y != 0:
            x, y = (x if x > 0 else -x), (y if y > 0 else -y)
            return x < y
    return False


cdef bint _may_take(Loop loop, PyObject** arrays, np.ndarray out) except -1:
    """Whether results may be written into an array while operands are read: each is the array itself, or lies elsewhere."""
    cdef np.ndarray a
    cdef char* low
    cdef char* high
    cdef char* start
    cdef char* end
    cdef int k, d
    if np.PyArray_TYPE(out) != loop.result.num:
        return False
    bounds_of(out, &low, &high)
    for k in range(loop.count):
        a = <np.ndarray>arrays[k]
        bounds_of(a, &start, &end)
        if start >= high or end <= low:
            continue
        if np.PyArray_TYPE(a) != loop.result.num or np.PyArray_DATA(a) != np.PyArray_DATA(out):
            return False
        if np.PyArray_NDIM(a) != np.PyArray_NDIM(out):
            return False
        for d in range(np.PyArray_NDIM(a)):
            if np.PyArray_DIM(a, d) != np.PyArray_DIM(out, d) or np.PyArray_STRIDE(a, d) != np.PyArray_STRIDE(out, d):
                return False
    return True


cdef void bounds_of(np.ndarray x, char** low, char** high) noexcept:
    cdef Py_ssize_t reach
    cdef int d
    low[0] = high[0] = <char*>np.PyArray_DATA(x)
    for d in range(np.PyArray_NDIM(x)):
        if np.PyArray_DIM(x, d) == 0:
            return
    high[0] += np.PyArray_ITEMSIZE(x)
    for d in range(np.PyArray_NDIM(x)):
        reach = (np.PyArray_DIM(x, d) - 1) * np.PyArray_STRIDE(x, d)
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach


cdef bint _has_shape(np.ndarray x, int dims, np.npy_intp* shape) noexcept:
    cdef int d
    if np.PyArray_NDIM(x) != dims:
        return False
    for d in range(dims):
        if np.PyArray_DIM(x, d) != shape[d]:
            return False
    return True


cdef object _of_any_strides(Loop loop, PyObject** arrays, Task* task, np.ndarray out):
    """The general case: shapes are broadcast, and dimensions put in order and joined."""
    cdef int d, e, k, own, dims = 0, n = loop.count, kept
    cdef np.ndarray a
    cdef Py_ssize_t size
    cdef np.npy_intp shape[DIMS]
    cdef np.npy_intp strides[DIMS]
    cdef int order[DIMS]
    cdef bint is_new = out is None
    for k in range(n):
        dims = max(dims, np.PyArray_NDIM(<np.ndarray>arrays[k]))
    for d in range(dims):
        shape[d] = 1
        order[d] = d
        for k in range(n):
            a = <np.ndarray>arrays[k]
            own = d - dims + np.PyArray_NDIM(a)
            task.strides[d][k] = 0
            if own < 0:
                continue
            size = np.PyArray_DIM(a, own)
            if size != 1:
                if shape[d] != 1 and shape[d] != size:
                    shapes = " ".join([str((<object>arrays[k]).shape) for k in range(n)])
                    raise ValueError(f"operands could not be broadcast together with shapes {shapes}")
                shape[d] = size
                task.strides[d][k] = np.PyArray_STRIDE(a, own)
    # The order of memory: an insertion sort, which leaves alone what no operand orders.
    for d in range(1, dims):
        e = d
        while e > 0 and _before(task, order[e - 1], order[e]):
            order[e - 1], order[e] = order[e], order[e - 1]
            e -= 1
    if out is None:
        size = loop.result.itemsize
        for d in range(dims - 1, -1, -1):
            strides[order[d]] = size
            size *= shape[order[d]] if shape[order[d]] else 1
        out = new_array(loop.result, dims, shape, strides)
    elif not _has_shape(out, dims, shape):
        return None
    for d in range(dims):
        task.strides[d][n] = np.PyArray_STRIDE(out, d)
    if np.PyArray_SIZE(out) == 0:
        return out
    task.data[n] = <char*>np.PyArray_DATA(out)
    copies = []
    for k in range(n):
        if dims > 1 and _lies_across(task, k, dims, shape, order[dims - 1], np.PyArray_ITEMSIZE(<np.ndarray>arrays[k])):
            a = _laid_out(<np.ndarray>arrays[k], dims, shape, order)
            copies.append(a)  # which keeps it until the loop has run
            task.data[k] = <char*>np.PyArray_DATA(a)
            for d in range(dims):
                task.strides[d][k] = np.PyArray_STRIDE(a, d)
    # Join dimensions, from the innermost outwards; kept ones stand at the end of a second table.
    cdef Task joined
    kept = 0
    for d in range(dims - 1, -1, -1):
        e = order[d]
        if shape[e] == 1:
            continue
        if kept and _goes_on(task, e, &joined, kept - 1, n):
            joined.shape[kept - 1] *= shape[e]
            continue
        joined.shape[kept] = shape[e]
        for k in range(n + 1):
            joined.strides[kept][k] = task.strides[e][k]
        kept += 1
    if kept == 0:
        kept = 1
        joined.shape[0] = 1
        memset(joined.strides[0], 0, sizeof(joined.strides[0]))
    cdef bint is_far = False
    for d in range(kept):
        task.shape[kept - 1 - d] = joined.shape[d]
        for k in range(n + 1):
            task.strides[kept - 1 - d][k] = joined.strides[d][k]
    for k in range(n + 1):
        if task.strides[kept - 1][k] > 64 or task.strides[kept - 1][k] < -64:
            is_far = True
    task.dims = kept
    task.is_packed = _pack(loop, task, arrays, out, is_new)
    if task.is_packed:
        with nogil:
            _run(task, loop.cost, False)
        return out
    _run_all(loop, task, is_far, is_new)
    return out


cdef void _run_all(Loop loop, Task* task, bint is_far, bint is_new) noexcept:
    """Run a loop into a new array, or into one that it reads: there, the last vector of a row overlaps none before it."""
    cdef int inner = task.dims - 1
    cdef Py_ssize_t count = task.shape[inner], rest = 0 if is_new else count % loop.lanes
    task.rest = rest if count > rest else 0
    task.shape[inner] = count - task.rest
    with nogil:
        _run(task, loop.cost, is_far)


_write = None  # copies arrays: see copies.py


def write_by(function, blocks):
    global _write
    _write = function
    for k, address in enumerate(blocks):
        _blocks[k] = <Block><void*><size_t>address


cdef bint _lies_across(Task* task, int k, int dims, np.npy_intp* shape, int inner, Py_ssize_t size) noexcept:
    """Whether a large operand, of which nothing is broadcast, has its neighbours in another dimension than the inner one."""
    cdef Py_ssize_t elements = 1
    cdef bint is_near = False
    cdef int d
    for d in range(dims):
        elements *= shape[d]
        if shape[d] > 1 and task.strides[d][k] == 0:
            return False
        if d != inner and shape[d] >= LEAST_ACROSS and (task.strides[d][k] == size or task.strides[d][k] == -size):
            is_near = True
    if not is_near or _write is None or elements * size < LEAST_ALIGNED or shape[inner] < LEAST_ACROSS:
        return False
    return not -64 <= task.strides[inner][k] <= 64


cdef np.ndarray _laid_out(np.ndarray x, int dims, np.npy_intp* shape, int* order):
    """A copy that lies in memory in this order of dimensions, the innermost last."""
    cdef np.npy_intp strides[DIMS]
    cdef np.npy_intp size = np.PyArray_ITEMSIZE(x)
    cdef int d
    for d in range(dims - 1, -1, -1):
        strides[order[d]] = size
        size *= shape[order[d]]
    out = new_array(x.dtype, dims, shape, strides)
    _write(out, x)
    return out


cdef bint _goes_on(Task* task, int outer, Task* joined, int inner, int n) noexcept nogil:
    """Whether all operands step over the end of an inner dimension as within it."""
    cdef int k
    for k in range(n + 1):
        if task.strides[outer][k] != joined.strides[inner][k] * joined.shape[inner]:
            return False
    return True


cdef object launch(Loop loop, PyObject** arrays, dict params, np.ndarray out=None):
    """The result of a loop over arrays, which are of its types; it is written into `out`, or is None if it cannot be.

    A loop may also refuse: then what was written means nothing.
    """
    cdef Task task
    cdef int k, d, dims, n = loop.count
    cdef np.ndarray a, like = <np.ndarray>arrays[0]
    cdef bint is_simple = True, is_new = out is None
    cdef Py_ssize_t size
    if out is not None and not _may_take(loop, arrays, out):
        return None
    ran(<void*>loop.inner)
    task.inner = loop.inner
    task.operands = n + 1
    task.numbers[REFUSED] = 0
    if params is not None:
        for k, name in enumerate(loop.numbers):
            task.numbers[k] = params[name]
    for k in range(n):
        a = <np.ndarray>arrays[k]
        task.data[k] = <char*>np.PyArray_DATA(a)
        if np.PyArray_NDIM(a) > np.PyArray_NDIM(like):
            like = a
    dims = np.PyArray_NDIM(like)
    for k in range(n):
        a = <np.ndarray>arrays[k]
        if np.PyArray_NDIM(a) == 0:
            task.strides[0][k] = 0
            continue
        if np.PyArray_NDIM(a) != dims or not np.PyArray_IS_C_CONTIGUOUS(a):
            is_simple = False
            break
        for d in range(dims):
            if np.PyArray_DIM(a, d) != np.PyArray_DIM(like, d):
                is_simple = False
        if not is_simple:
            break
        task.strides[0][k] = np.PyArray_ITEMSIZE(a)
    if out is not None and not np.PyArray_IS_C_CONTIGUOUS(out):
        is_simple = False
    if not is_simple:
        out = _of_any_strides(loop, arrays, &task, out)
        return None if task.numbers[REFUSED] else out
    if out is None:
        out = new_array(loop.result, dims, np.PyArray_DIMS(like), NULL)
    elif not _has_shape(out, dims, np.PyArray_DIMS(like)):
        return None
    size = np.PyArray_SIZE(out)
    if size == 0:
        return out
    task.data[n] = <char*>np.PyArray_DATA(out)
    task.strides[0][n] = np.PyArray_ITEMSIZE(out)
    if size * loop.cost < LEAST_WORK and (is_new or size % loop.lanes == 0):
        loop.inner(task.data, task.strides[0], size, task.numbers, 1, task.strides[0])
        return None if task.numbers[REFUSED] else out
    task.dims = 1
    task.is_packed = False
    task.shape[0] = size
    _run_all(loop, &task, False, is_new)
    return None if task.numbers[REFUSED] else out


cdef tuple with_numbers(tuple operands):
    """Operands with arrays for the Python numbers among them, of the type of the others; None where NumPy decides."""
    cdef object beside = None  # not a C type: that has other attributes
    for x in operands:
        if np.PyArray_CheckExact(x) and (beside is None or beside.kind == "b"):
            beside = x.dtype
    if beside is None:
        return None
    found = []
    for x in operands:
        if type(x) is float or type(x) is int or type(x) is complex:
            x = number_of(x, beside)
            if x is None:
                return None
        found.append(x)
    return tuple(found)


cdef object number_of(object number, object kind):
    """A number as an array of a type that has it; None if both have another type in common, or it is too large."""
    cdef str category = kind.kind
    if category == "b" or (type(number) is complex and category != "c") or (type(number) is float and category in "iu"):
        return None
    if category not in "iu" and abs(number) > _LARGEST and abs(number) != _INF:
        return None  # NumPy says where numbers become infinite
    try:
        return numpy.array(number, kind)
    except OverflowError:
        return None


cdef inline bint takes_types(Loop loop, PyObject** arrays, int n) noexcept:
    """Whether a loop is for arrays of these types."""
    cdef int k
    for k in range(n):
        if np.PyArray_TYPE(<np.ndarray>arrays[k]) != loop.types[k]:
            return False
    return True


cdef bint are_same(dict params, dict others) except -1:
    """Whether parameters are equal and of the same types."""
    if len(params) != len(others):
        return False
    for name, value in params.items():
        other = others.get(name, others)
        if other is not value and (type(other) is not type(value) or other != value):
            return False
    return True


cdef class Kernel:
    cdef object make, key, reference
    cdef list loops  # those without parameters
    cdef dict known
    cdef public bint checks_integers
    cdef public int count
    cdef public object in_numbers  # of a function of truth values: the kernel that gives 0 and 1 of a type
    cdef Loop last  # that with parameters that ran last: mostly it runs again
    cdef dict last_params

    def __init__(self, make, key, reference):
        self.make = make
        self.key = key
        self.reference = reference
        self.loops = []
        self.known = {}

    def __call__(self, *operands, **params):
        found = self.ran(operands, params, None)
        return self.reference(*operands, **params) if found is None else found

    cdef bint into(self, out, tuple operands, dict params) except -1:
        if len(operands) != self.count or not is_plain(out) or not np.PyArray_ISWRITEABLE(<np.ndarray>out):
            return False
        if self.ran(operands, params, <np.ndarray>out) is not None:
            return True
        if params or self.in_numbers is None or np.PyArray_TYPE(<np.ndarray>out) == np.NPY_BOOL:
            return False
        return (<Kernel>self.in_numbers(type_of(<np.ndarray>out))).ran(operands, params, <np.ndarray>out) is not None

    cdef object ran(self, tuple operands, dict params, np.ndarray out):
        """The result, in an array that is there if one is given; None where no loop takes these operands."""
        cdef PyObject* given[MOST]
        cdef int k, n = len(operands)
        if not _is_enabled or n >= MOST:
            return None
        arrays = operands
        for k in range(n):
            if not np.PyArray_CheckExact(arrays[k]):
                arrays = with_numbers(operands)
                break
        for k in range(n):
            if arrays is None or not is_plain(arrays[k]):
                return None
            given[k] = <PyObject*>arrays[k]
        found = self.find(given, n, params)
        return None if found is None else launch(<Loop>found, given, params, out)

    cdef object find(self, PyObject** arrays, int n, dict params):
        """The loop for operands and parameters like these, made now if it was not yet; or None."""
        cdef Loop loop
        cdef Py_ssize_t i
        if not params:
            for i in range(len(self.loops)):
                loop = <Loop>self.loops[i]
                if takes_types(loop, arrays, n):
                    return loop
        elif self.last is not None and takes_types(self.last, arrays, n) and are_same(params, self.last_params):
            return self.last
        types = tuple([(<object>arrays[k]).dtype for k in range(n)])
        key = self.key(types, params or {})
        found = self.known.get(key, self)
        if found is self:
            found = self.known[key] = self.make(types, params or {})
            if found is not None and not params:
                self.loops.append(found)
        if params:
            self.last, self.last_params = found, params
        return found


def into_by(dict kernels, find, dict others):
    def call(primitive, out, tuple operands, dict params):
        kernel = kernels.get(primitive.name, kernels)
        if kernel is kernels:
            kernel = find(primitive)
        if kernel is None:
            other = others.get(primitive.name)
            return other is not None and other(out, operands, params)
        if ((<Kernel>kernel).checks_integers and out.dtype.kind not in "fV"):
            return False
        return (<Kernel>kernel).into(out, operands, params)

    return call


def of_one(Kernel kernel):
    def call(x):
        cdef PyObject* given = <PyObject*>x
        if _is_enabled and is_plain(x):
            found = kernel.find(&given, 1, None)
            if found is not None:
                return launch(<Loop>found, &given, None)
        return kernel.reference(x)

    return call


def of_two(Kernel kernel):
    def call(x, y):
        cdef PyObject* given[2]
        if _is_enabled and is_plain(x) and is_plain(y):
            given[0], given[1] = <PyObject*>x, <PyObject*>y
            found = kernel.find(given, 2, None)
            if found is not None:
                return launch(<Loop>found, given, None)
        elif not (np.PyArray_CheckExact(x) and np.PyArray_CheckExact(y)):
            return kernel(x, y)
        return kernel.reference(x, y)

    return call
