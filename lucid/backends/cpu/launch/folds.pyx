# cython: boundscheck=False, wraparound=False, cdivision=True
"""See folds.py.

The elements that are put together are divided into blocks. What a block gives is a state, in memory of its own, and the
states of the blocks of one result are merged when all are there. Which elements are in a block depends on the shape.
Rows of one block each are taken some at a time, and so are short blocks, and those of columns that are fewer than a
vector has.
"""

cimport numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from lucid.backends.cpu.arithmetic cimport roots
from lucid.backends.cpu.launch.elementwise cimport DIMS, LEAST_WORK, is_enabled, is_plain, new_array, ran, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    STATES = 4

cdef enum:
    BLOCKS = 8  # of a few columns that are taken at once, as in codegen.folds
    FEW = 4  # columns for which short vectors do
    APART = 16  # states, from one block of columns to the next, at least
    TOGETHER = 64  # rows that are taken at once, at most
    BESIDE = 512  # columns of one block that are taken at once
    SHORT = 64  # elements of rows that are taken side by side, at most, as in codegen.folds

cdef Py_ssize_t _BLOCK = 4096  # elements in a row, as in codegen.folds
cdef Py_ssize_t _AT_ONCE = 8192  # elements of rows that are taken at once
cdef Py_ssize_t _ROWS = 64  # of columns
cdef Py_ssize_t _PIECE = 2048  # columns that are taken together

ctypedef void (*Run)(
    char** states, char* x, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t place, Py_ssize_t rows, Py_ssize_t step,
    char* given,
) noexcept nogil
ctypedef void (*Merge)(char* out, char** states, Py_ssize_t count) noexcept nogil
ctypedef void (*Columns)(
    char** states, char* x, Py_ssize_t stride, Py_ssize_t rows, Py_ssize_t count, Py_ssize_t place, Py_ssize_t reach,
    char* given,
) noexcept nogil
ctypedef void (*Narrow)(
    char** states, char* x, Py_ssize_t stride, Py_ssize_t rows, Py_ssize_t count, Py_ssize_t place, Py_ssize_t apart
) noexcept nogil
ctypedef void (*MergeColumns)(
    char* out, char** states, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t count
) noexcept nogil


cdef struct Dims:
    int count
    Py_ssize_t shape[DIMS]
    Py_ssize_t strides[DIMS]


cdef struct Task:
    Run run
    Merge merge
    Columns columns
    MergeColumns merge_columns
    Run beside
    Narrow narrow  # NULL where there is none
    Py_ssize_t lanes  # of its vectors
    bint is_narrow, is_beside
    int states
    Py_ssize_t sizes[STATES]
    char* memory[STATES]
    char* x
    char* end  # of the memory that can be read
    char* given  # a number for each result; NULL where there are none
    char* out
    Py_ssize_t itemsize, size  # of results and elements
    Dims kept, outer  # dimensions of results, and those that are put together, but for the innermost
    Py_ssize_t count, stride  # of the innermost
    Py_ssize_t width, pieces  # columns of all and of one piece, rounded up; 0 where there are none
    Py_ssize_t piece, results, blocks, inner_blocks, block, parts
    Py_ssize_t rows, step, together, groups  # of the innermost dimension of results; 0 where they are not taken together
    bint merges


cdef inline Py_ssize_t _product(Dims* dims) noexcept nogil:
    cdef Py_ssize_t found = 1
    cdef int d
    for d in range(dims.count):
        found *= dims.shape[d]
    return found


cdef inline Py_ssize_t _offset(Dims* dims, Py_ssize_t index) noexcept nogil:
    """Where an index leads; divisions take long, and the outermost dimension needs none."""
    cdef Py_ssize_t found = 0
    cdef int d
    for d in range(dims.count - 1, 0, -1):
        found += index % dims.shape[d] * dims.strides[d]
        index //= dims.shape[d]
    return found + index * dims.strides[0] if dims.count else 0


cdef inline void _add(Dims* dims, Py_ssize_t size, Py_ssize_t stride) noexcept nogil:
    """One more dimension, inside of the others, joined with the last one where it goes on as that does."""
    cdef int last = dims.count - 1
    if size == 1:
        return
    if dims.count and dims.strides[last] == stride * size:
        dims.shape[last] *= size
        dims.strides[last] = stride
        return
    dims.shape[dims.count], dims.strides[dims.count] = size, stride
    dims.count += 1


cdef void _put_in_order(Dims* dims) noexcept nogil:
    """Sort dimensions by how far they step, the nearest last, and join those that then go on as one."""
    cdef Dims found
    cdef int d, e
    cdef Py_ssize_t size, stride
    for d in range(dims.count):
        if dims.strides[d] <= 0:
            return  # backwards, or the same element again
    for d in range(1, dims.count):
        size, stride, e = dims.shape[d], dims.strides[d], d
        while e > 0 and dims.strides[e - 1] < stride:
            dims.shape[e], dims.strides[e] = dims.shape[e - 1], dims.strides[e - 1]
            e -= 1
        dims.shape[e], dims.strides[e] = size, stride
    found.count = 0
    for d in range(dims.count):
        _add(&found, dims.shape[d], dims.strides[d])
    dims[0] = found


cdef inline char* _given(Task* task, Py_ssize_t result) noexcept nogil:
    """Where the numbers of results begin, from one of them on."""
    return task.given + result * task.size if task.given != NULL else NULL


cdef void _merge_one(Task* task, Py_ssize_t result, Py_ssize_t piece, char** states) noexcept nogil:
    cdef Py_ssize_t first
    if task.width == 0:
        task.merge(task.out + result * task.itemsize, states, task.blocks)
        return
    first = piece * task.piece
    task.merge_columns(
        task.out + (result * task.width + first) * task.itemsize, states, task.blocks, (task.piece + 15) & ~15,
        min(task.piece, task.width - first),
    )


cdef void _do_columns(Task* task, Py_ssize_t unit) noexcept nogil:
    """Some columns of one block each: their states stay in the cache."""
    cdef Py_ssize_t piece = unit % task.pieces * task.piece, result = unit // task.pieces, count, first
    cdef Py_ssize_t stop = min(piece + task.piece, task.width)
    cdef char* x = task.x + _offset(&task.kept, result)
    cdef char* out = task.out + result * task.width * task.itemsize
    cdef char* states[STATES]
    cdef char own[STATES][8 * (BESIDE + 16)]  # there is room for a vector behind the last state
    cdef int k
    for k in range(task.states):
        states[k] = own[k]
    first = piece
    while first < stop:
        count = min(BESIDE, stop - first)
        task.columns(
            states, x + first * task.size, task.stride, task.count, count, 0, task.end - (x + first * task.size),
            _given(task, result * task.width + first),
        )
        task.merge_columns(out + first * task.itemsize, states, 1, count, count)
        first += count


cdef void _do_unit(Task* task, Py_ssize_t unit) noexcept nogil:
    """One of several blocks of one result, or of some columns."""
    cdef Py_ssize_t b = unit % task.blocks, group = unit // task.blocks, piece = 0, result
    cdef Py_ssize_t first = b % task.inner_blocks * task.block, outer = b // task.inner_blocks
    result = group
    if task.pieces > 1:
        piece, result = group % task.pieces, group // task.pieces
    cdef Py_ssize_t count = min(task.block, task.count - first)
    cdef Py_ssize_t place = group * task.blocks + b
    cdef char* x = task.x + _offset(&task.kept, result) + _offset(&task.outer, outer)
    cdef char* states[STATES]
    cdef int k
    x += first * task.stride
    if task.width:
        place *= (task.piece + 15) & ~15
    for k in range(task.states):
        states[k] = task.memory[k] + place * task.sizes[k]
    if task.width:
        x += piece * task.piece * task.size
        task.columns(
            states, x, task.stride, count, min(task.piece, task.width - piece * task.piece), first, task.end - x,
            _given(task, result * task.width + piece * task.piece),
        )
    else:
        task.run(states, x, task.stride, count, first, 1, 0, _given(task, result))


cdef void _do_narrow(Task* task, Py_ssize_t unit) noexcept nogil:
    """Some blocks of a few columns of one result, by one function where all are whole and vectors stay within memory."""
    cdef Py_ssize_t groups = (task.inner_blocks + BLOCKS - 1) // BLOCKS
    cdef Py_ssize_t begin = unit % groups * BLOCKS, end = min(begin + BLOCKS, task.inner_blocks), b
    cdef Py_ssize_t outers = task.blocks // task.inner_blocks, rest = unit // groups
    cdef Py_ssize_t result = rest // outers, outer = rest % outers, lanes = FEW if task.width <= FEW else task.lanes
    cdef Py_ssize_t place = result * task.blocks + outer * task.inner_blocks
    cdef char* x = task.x + _offset(&task.kept, result) + _offset(&task.outer, outer) + begin * task.block * task.stride
    cdef char* last = x if task.stride < 0 else x + (BLOCKS * task.block - 1) * task.stride
    cdef char* states[STATES]
    cdef int k
    if (begin + BLOCKS) * task.block > task.count or last + lanes * task.size > task.end:
        for b in range(begin, end):
            _do_unit(task, place + b)
        return
    for k in range(task.states):
        states[k] = task.memory[k] + (place + begin) * APART * task.sizes[k]
    task.narrow(states, x, task.stride, task.block, task.width, begin * task.block, APART)


cdef inline void _run_rows(Task* task, char** states, char* x, Py_ssize_t rows, char* given) noexcept nogil:
    """The states of blocks that lie `step` bytes apart."""
    cdef Run run = task.beside if task.count <= SHORT and rows >= task.lanes else task.run
    run(states, x, task.stride, task.count, 0, rows, task.step, given)


cdef void _do_beside(Task* task, Py_ssize_t unit) noexcept nogil:
    """Some of several short blocks of one result, along the innermost of the dimensions around them."""
    cdef Py_ssize_t first = unit % task.groups * task.together, rest = unit // task.groups
    cdef Py_ssize_t outers = task.blocks // task.rows, outer = rest % outers, result = rest // outers
    cdef Py_ssize_t place = result * task.blocks + outer * task.rows + first
    cdef char* x = task.x + _offset(&task.kept, result) + _offset(&task.outer, outer) + first * task.step
    cdef Py_ssize_t rows = min(task.together, task.rows - first)
    cdef char* states[STATES]
    cdef char given[8 * TOGETHER]  # the number of the result, for each row
    cdef int k
    for k in range(task.states):
        states[k] = task.memory[k] + place * task.sizes[k]
    if task.given != NULL:
        for k in range(rows):
            memcpy(given + k * task.size, _given(task, result), task.size)
    _run_rows(task, states, x, rows, given if task.given != NULL else NULL)


cdef void _do_rows(Task* task, Py_ssize_t unit) noexcept nogil:
    """Some results of one block each."""
    cdef Py_ssize_t line = unit // task.groups, first = unit % task.groups * task.together
    cdef Py_ssize_t rows = min(task.together, task.rows - first)
    cdef char* states[STATES]
    cdef char own[STATES][8 * (TOGETHER + 16)]  # there is room for a vector behind the last state
    cdef int k
    for k in range(task.states):
        states[k] = own[k]
    _run_rows(
        task, states, task.x + _offset(&task.kept, line) + first * task.step, rows, _given(task, line * task.rows + first)
    )
    task.merge_columns(task.out + (line * task.rows + first) * task.itemsize, states, 1, rows, rows)


cdef void _do_merge(Task* task, Py_ssize_t group) noexcept nogil:
    cdef char* states[STATES]
    cdef Py_ssize_t place = group * task.blocks
    cdef int k
    if task.width:
        place *= (task.piece + 15) & ~15
    for k in range(task.states):
        states[k] = task.memory[k] + place * task.sizes[k]
    _merge_one(task, group // task.pieces, group % task.pieces, states)


cdef inline Py_ssize_t _units(Task* task) noexcept nogil:
    if task.is_narrow:
        return task.results * (task.blocks // task.inner_blocks) * ((task.inner_blocks + BLOCKS - 1) // BLOCKS)
    if task.is_beside:
        return task.results * (task.blocks // task.rows) * task.groups
    return task.results * (task.groups if task.rows else task.pieces * task.blocks)


cdef void _part_of_blocks(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t all = _units(task), unit
    for unit in range(all * part // task.parts, all * (part + 1) // task.parts):
        if task.is_narrow:
            _do_narrow(task, unit)
        elif task.is_beside:
            _do_beside(task, unit)
        elif task.merges:
            _do_unit(task, unit)
        elif task.width:
            _do_columns(task, unit)
        else:
            _do_rows(task, unit)


cdef void _part_of_merges(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t all = task.results * task.pieces, group
    for group in range(all * part // task.parts, all * (part + 1) // task.parts):
        _do_merge(task, group)


cdef void _do_all(Task* task, double work) noexcept nogil:
    cdef int threads = threads_for(work)
    task.parts = min(_units(task), 8 * threads) if threads > 1 else 1
    if task.parts > 1:
        share(_part_of_blocks, task, task.parts, threads)
    else:
        _part_of_blocks(task, 0, 0)
    if task.merges:
        task.parts = min(task.results * task.pieces, 8 * threads) if threads > 1 else 1
        if task.parts > 1:
            share(_part_of_merges, task, task.parts, threads)
        else:
            _part_of_merges(task, 0, 0)


cdef class Reduction:
    cdef Task start
    cdef np.dtype result
    cdef double cost
    cdef object code

    def __init__(self, addresses, states, lanes, result, cost, code):
        self.start.run = <Run><void*><size_t>addresses[0]
        self.start.merge = <Merge><void*><size_t>addresses[1]
        self.start.columns = <Columns><void*><size_t>addresses[2]
        self.start.merge_columns = <MergeColumns><void*><size_t>addresses[3]
        self.start.beside = <Run><void*><size_t>addresses[4]
        self.start.narrow = <Narrow><void*><size_t>addresses[5] if len(addresses) > 5 else NULL
        self.start.lanes = lanes
        self.start.states = len(states)
        for k, size in enumerate(states):
            self.start.sizes[k] = size
        self.result = result
        self.cost = cost
        self.code = code

    cdef object reduce(self, np.ndarray x, tuple dims, bint keepdim, np.ndarray given):
        """`given` are numbers for all results, in their order, or None."""
        cdef Task task = self.start
        cdef bint is_reduced[DIMS]
        cdef np.npy_intp shape[DIMS]
        cdef Dims reduced
        cdef int d, k, best, n = np.PyArray_NDIM(x), kept = 0
        cdef Py_ssize_t total, size
        cdef char* memory
        for d in range(n):
            is_reduced[d] = False
        for d in dims:
            is_reduced[d if d >= 0 else d + n] = True
        reduced.count = task.kept.count = 0
        for d in range(n):
            if is_reduced[d]:
                _add(&reduced, np.PyArray_DIM(x, d), np.PyArray_STRIDE(x, d))
                if keepdim:
                    shape[kept] = 1
                    kept += 1
            else:
                _add(&task.kept, np.PyArray_DIM(x, d), np.PyArray_STRIDE(x, d))
                shape[kept] = np.PyArray_DIM(x, d)
                kept += 1
        if np.PyArray_SIZE(x) == 0:
            return None
        if reduced.count > 1:
            _put_in_order(&reduced)
        ran(<void*>task.run)
        out = new_array(self.result, kept, shape, NULL)
        task.given = NULL if given is None else <char*>np.PyArray_DATA(given)
        task.x, task.out = <char*>np.PyArray_DATA(x), <char*>np.PyArray_DATA(<np.ndarray>out)
        task.size, task.itemsize = np.PyArray_ITEMSIZE(x), self.result.itemsize
        task.end = task.x + task.size
        for d in range(n):
            if np.PyArray_STRIDE(x, d) > 0:
                task.end += (np.PyArray_DIM(x, d) - 1) * np.PyArray_STRIDE(x, d)
        # The innermost of the dimensions that are put together is the one with the smallest steps.
        best = -1
        for d in range(reduced.count):
            if best < 0 or abs(reduced.strides[d]) <= abs(reduced.strides[best]):
                best = d
        task.outer.count = 0
        task.count, task.stride = 1, task.size
        for d in range(reduced.count):
            if d == best:
                task.count, task.stride = reduced.shape[d], reduced.strides[d]
            else:
                task.outer.shape[task.outer.count] = reduced.shape[d]
                task.outer.strides[task.outer.count] = reduced.strides[d]
                task.outer.count += 1
        task.width, task.pieces, task.piece, task.block = 0, 1, 1, _BLOCK
        k = task.kept.count - 1
        if k >= 0 and task.kept.strides[k] == task.size and task.stride != task.size and reduced.count:
            task.width = task.kept.shape[k]
            task.kept.count = k
            task.piece = min(task.width, _PIECE)
            task.pieces = (task.width + task.piece - 1) // task.piece
            task.block = _ROWS
        task.inner_blocks = (task.count + task.block - 1) // task.block
        task.blocks = task.inner_blocks * _product(&task.outer)
        task.merges = task.blocks > 1
        task.is_narrow = (
            task.merges and 0 < task.width < task.lanes and task.narrow != NULL and task.inner_blocks >= BLOCKS
        )
        task.rows = 0
        if not task.merges and not task.width:
            task.rows, task.step = 1, 0
            if k >= 0:
                task.kept.count = k
                task.rows, task.step = task.kept.shape[k], task.kept.strides[k]
            task.together = max(min(_AT_ONCE // task.count, TOGETHER), 1)
            task.groups = (task.rows + task.together - 1) // task.together
        k = task.outer.count - 1
        task.is_beside = task.merges and not task.width and task.count <= SHORT and task.outer.shape[k] >= task.lanes
        if task.is_beside:
            task.outer.count = k
            task.rows, task.step, task.together = task.outer.shape[k], task.outer.strides[k], TOGETHER
            task.groups = (task.rows + TOGETHER - 1) // TOGETHER
        task.results = _product(&task.kept)
        memory = NULL
        if task.merges:
            total = task.results * task.pieces * task.blocks
            total = (total * ((task.piece + 15) & ~15) if task.width else total) + 64
            size = 0
            for k in range(task.states):
                size += (total * task.sizes[k] + 63) & ~63
            memory = <char*>malloc(size)
            if memory == NULL:
                raise MemoryError
            size = 0
            for k in range(task.states):
                task.memory[k] = memory + size
                size += (total * task.sizes[k] + 63) & ~63
        if self.cost * np.PyArray_SIZE(x) < LEAST_WORK:
            _do_all(&task, 0)
        else:
            with nogil:
                _do_all(&task, self.cost * np.PyArray_SIZE(x))
        free(memory)
        return out


cdef class Kernel:
    cdef object make, reference
    cdef dict known

    def __init__(self, make, reference):
        self.make = make
        self.reference = reference
        self.known = {}

    cpdef object run(self, object x, tuple dims, bint keepdim, np.ndarray given=None):
        """The result, or None if the reference is to compute it."""
        if not is_enabled() or not is_plain(x) or not dims:
            return None
        found = self.of(<object>np.PyArray_DESCR(<np.ndarray>x))
        return None if found is None else (<Reduction>found).reduce(<np.ndarray>x, dims, keepdim, given)

    cdef object of(self, dtype):
        """The loops for a type, made now if they were not yet; None if there are none."""
        found = self.known.get(dtype, self)
        if found is self:
            found = self.known[dtype] = self.make(dtype)
        return found


def of_dims(Kernel kernel):
    def call(x, dims, keepdim=False):
        out = kernel.run(x, dims, keepdim)
        return kernel.reference(x, dims=dims, keepdim=keepdim) if out is None else out

    return call


def of_one_dim(Kernel kernel):
    def call(x, dim):
        out = kernel.run(x, (dim,), False)
        return kernel.reference(x, dim=dim) if out is None else out

    return call


def of_roots(Kernel squares, limits, general):
    cdef dict safe = limits

    def call(x, p, dims, keepdim, divisor=1.0):
        if p == 2:
            found = _root(squares.run(x, dims, keepdim), divisor, safe)
            if found is not None:
                return found
        return general(x, p, dims, keepdim, divisor)

    return call


cdef object _root(total, double divisor, dict limits):
    """The root of a quotient of sums that lost nothing to the limits of their type, or None."""
    if total is None:
        return None
    low, high = limits[np.PyArray_TYPE(<np.ndarray>total)]
    return roots(total, low, high, divisor)


cdef enum:
    FEW_RESULTS = 1024  # which are divided here


cdef object _divided(np.ndarray x, double divisor, by):
    """A new array's numbers, divided."""
    cdef Py_ssize_t i, n = np.PyArray_SIZE(x)
    if n > FEW_RESULTS:
        return by(x, divisor)
    if np.PyArray_TYPE(x) == np.NPY_FLOAT:
        for i in range(n):
            (<float*>np.PyArray_DATA(x))[i] /= <float>divisor
    else:
        for i in range(n):
            (<double*>np.PyArray_DATA(x))[i] /= divisor
    return x


cdef object _squares_of_distances(Kernel sums, Kernel squares, x, tuple dims, bint keepdim, by):
    """The sums of squares of the distances from the means, or None where there are no loops for them."""
    total = sums.run(x, dims, True)
    if total is None:
        squares.of(x.dtype)  # without code yet, where it is only noted what there is to compile
        return None
    mean = _divided(<np.ndarray>total, <double>(np.PyArray_SIZE(x) // np.PyArray_SIZE(total)), by)
    return squares.run(x, dims, keepdim, mean)


def of_variance(Kernel sums, Kernel squares, by, general):
    def call(x, dims, keepdim, divisor):
        total = _squares_of_distances(sums, squares, x, dims, keepdim, by)
        return general(x, dims, keepdim, divisor) if total is None else _divided(<np.ndarray>total, divisor, by)

    return call


def of_deviation(Kernel sums, Kernel squares, limits, by):
    cdef dict safe = limits

    def call(x, dims, keepdim, divisor):
        # Sums of what lies otherwise are in another order than those of distances in memory of their own.
        if not np.PyArray_CheckExact(x) or not np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x):
            return None
        return _root(_squares_of_distances(sums, squares, x, dims, keepdim, by), divisor, safe)

    return call
