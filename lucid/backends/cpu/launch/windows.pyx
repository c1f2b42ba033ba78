# cython: boundscheck=False, wraparound=False, cdivision=True
"""See windows.py.

Threads divide the rows of results. Where both dimensions of planes are folded, what the first fold gives is kept for the
rows of one part alone, so that it stays in the cache; which fold is the first does not depend on how work is divided.
"""

cimport numpy as np
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport DIMS, new_array, ran, threads_for
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef np.dtype _INT64 = np.dtype("int64")

cdef enum:
    SCRATCH = 1 << 17  # bytes between two folds
    PIECE = 20000  # nanoseconds, below which nobody is handed work

ctypedef void (*Rows)(
    char* out, char* x, Py_ssize_t* starts, Py_ssize_t* sources, char* weights,
    Py_ssize_t first, Py_ssize_t last, Py_ssize_t width, Py_ssize_t stride, Py_ssize_t step,
) noexcept nogil
ctypedef void (*Lines)(
    char* out, char* x, Py_ssize_t* starts, Py_ssize_t* sources, char* weights, Py_ssize_t* runs,
    Py_ssize_t many, Py_ssize_t count, Py_ssize_t stride, Py_ssize_t step,
) noexcept nogil
ctypedef void (*Find)(
    char* out, char* x, Py_ssize_t* rows, Py_ssize_t* starts, Py_ssize_t* sources, Py_ssize_t many, Py_ssize_t count
) noexcept nogil


cdef struct Entries:
    Py_ssize_t size, out
    Py_ssize_t* starts
    Py_ssize_t* sources
    char* weights
    Py_ssize_t* runs
    Py_ssize_t many


cdef class Table:
    cdef Entries entries
    cdef tuple kept

    def __init__(self, Py_ssize_t size, np.ndarray starts, np.ndarray sources, weights, np.ndarray runs):
        for numbers in (starts, sources, runs):
            if np.PyArray_TYPE(numbers) != np.NPY_INT64 or not np.PyArray_IS_C_CONTIGUOUS(numbers):
                raise TypeError(f"tables are of int64, not {numbers.dtype}")
        if starts[0] != 0 or starts[len(starts) - 1] != len(sources) or (starts[1:] < starts[:len(starts) - 1]).any():
            raise ValueError("the places of a table must go on from one to the next")
        if len(sources) and not 0 <= sources.min() <= sources.max() < size:
            raise IndexError(f"a table names elements outside of {size}")
        self.kept = (starts, sources, weights, runs)
        self.entries.size, self.entries.out = size, np.PyArray_SIZE(starts) - 1
        self.entries.starts = <Py_ssize_t*>np.PyArray_DATA(starts)
        self.entries.sources = <Py_ssize_t*>np.PyArray_DATA(sources)
        self.entries.weights = NULL if weights is None else <char*>np.PyArray_DATA(<np.ndarray>weights)
        self.entries.runs = <Py_ssize_t*>np.PyArray_DATA(runs)
        self.entries.many = np.PyArray_SIZE(runs) // 3


cdef class Loops:
    cdef Rows rows
    cdef Lines lines
    cdef np.dtype dtype
    cdef double cost
    cdef object code

    def __init__(self, addresses, dtype, cost, code):
        self.rows = <Rows><void*><size_t>addresses[0]
        self.lines = <Lines><void*><size_t>addresses[1]
        self.dtype, self.cost, self.code = dtype, cost, code


cdef class Places:
    cdef Find find
    cdef np.dtype dtype
    cdef double cost
    cdef object code

    def __init__(self, addresses, dtype, cost, code):
        self.find = <Find><void*><size_t>addresses[0]
        self.dtype, self.cost, self.code = dtype, cost, code


cdef struct Task:
    Rows rows
    Lines lines
    Entries* high
    Entries* wide
    bint wide_first
    char* x
    char* out
    Py_ssize_t height, width, out_height, out_width, size
    Py_ssize_t block, blocks  # rows of results that are made together, and how many times these are in a plane
    Py_ssize_t parts  # such blocks of all planes
    double work  # nanoseconds
    bint failed


cdef void _rows(Task* task, char* out, char* x, Py_ssize_t first, Py_ssize_t last, Py_ssize_t width) noexcept nogil:
    task.rows(
        out, x, task.high.starts, task.high.sources, task.high.weights, first, last, width, width * task.size, width * task.size
    )


cdef void _lines(Task* task, char* out, char* x, Py_ssize_t count) noexcept nogil:
    task.lines(
        out, x, task.wide.starts, task.wide.sources, task.wide.weights, task.wide.runs, task.wide.many, count,
        task.width * task.size, task.out_width * task.size,
    )


cdef void _fold_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t plane = part // task.blocks, first = part % task.blocks * task.block
    cdef Py_ssize_t last = min(first + task.block, task.out_height), low, high, k
    cdef char* x = task.x + plane * task.height * task.width * task.size
    cdef char* out = task.out + (plane * task.out_height + first) * task.out_width * task.size
    cdef char* between
    if task.wide == NULL:
        _rows(task, out, x, first, last, task.width)
        return
    if task.high == NULL:
        _lines(task, out, x + first * task.width * task.size, last - first)
        return
    if not task.wide_first:
        between = <char*>malloc(max((last - first) * task.width * task.size, 1))
        if between == NULL:
            task.failed = True
            return
        _rows(task, between, x, first, last, task.width)
        _lines(task, out, between, last - first)
        free(between)
        return
    low, high = task.height, 0  # the rows that are wanted
    for k in range(task.high.starts[first], task.high.starts[last]):
        low = min(low, task.high.sources[k])
        high = max(high, task.high.sources[k] + 1)
    between = <char*>malloc(max((high - low) * task.out_width * task.size, 1))
    if between == NULL:
        task.failed = True
        return
    if low < high:
        _lines(task, between, x + low * task.width * task.size, high - low)
    _rows(task, out, between - low * task.out_width * task.size, first, last, task.out_width)
    free(between)


cdef Py_ssize_t _at_once(Entries* entries) noexcept nogil:
    """How many elements a place puts together, at most on average."""
    return entries.starts[entries.out] // max(entries.out, 1) + 1


cdef inline void _require(np.ndarray x, np.dtype dtype) except *:
    if not np.PyArray_IS_C_CONTIGUOUS(x) or np.PyArray_TYPE(x) != dtype.num:
        raise ValueError(f"expected elements of {dtype} that lie in order, not {x.dtype}")


cdef void _bind(
    Task* task, Loops loops, np.ndarray x, Table high, Table wide, bint wide_first, int dim, np.npy_intp* shape
) except *:
    """Set out to fold the windows of an array, and find the shape of the result."""
    cdef Py_ssize_t planes = 1, row
    cdef int d, dims = np.PyArray_NDIM(x), threads
    _require(x, loops.dtype)
    task.high = NULL if high is None else &high.entries
    task.wide = NULL if wide is None else &wide.entries
    if not -dims <= dim < 0 or (high is None and (wide is None or dim != -1)) or (wide is not None and dim < -2):
        raise ValueError("a table is missing, or for other dimensions")
    task.height = task.width = 1
    for d in range(dims):
        shape[d] = np.PyArray_DIM(x, d)
        if d < dims + dim:
            planes *= shape[d]
    if high is None:  # all rows are those of one plane
        task.height, planes = planes, 1
        task.width = shape[dims - 1]
    else:
        task.height = shape[dims + dim]
        for d in range(dims + dim + 1, dims):
            task.width *= shape[d]
    task.out_height, task.out_width = task.height, task.width
    if high is not None:
        if high.entries.size != task.height:
            raise ValueError("a table belongs to another size")
        shape[dims + dim] = task.out_height = high.entries.out
    if wide is not None:
        if wide.entries.size != task.width:
            raise ValueError("a table belongs to another size")
        shape[dims - 1] = task.out_width = wide.entries.out
    task.rows, task.lines, task.wide_first = loops.rows, loops.lines, wide_first
    task.size = np.PyArray_ITEMSIZE(x)
    task.failed = False
    task.work = 0
    if task.high != NULL:
        task.work += loops.cost * _at_once(task.high) * planes * task.out_height * task.out_width
    if task.wide != NULL:
        task.work += 5 * loops.cost * _at_once(task.wide) * planes * task.out_height * task.out_width
    threads = threads_for(task.work)
    row = max(task.width, task.out_width) * task.size
    task.block = max(1, min(SCRATCH // max(row, 1), task.out_height))
    if threads > 1:  # so that nobody waits long for a slower one
        task.block = min(task.block, max(planes * task.out_height // (8 * threads), 8))
    task.blocks = (task.out_height + task.block - 1) // task.block
    task.parts = planes * task.blocks


def fold(Loops loops, np.ndarray x, Table high, Table wide, bint wide_first, int dim):
    cdef Task task
    cdef np.npy_intp shape[DIMS]
    _bind(&task, loops, x, high, wide, wide_first, dim, shape)
    out = new_array(loops.dtype, np.PyArray_NDIM(x), shape, NULL)
    if np.PyArray_SIZE(out) == 0:
        return out
    ran(<void*>(loops.lines if high is None else loops.rows))
    task.x, task.out = <char*>np.PyArray_DATA(x), <char*>np.PyArray_DATA(out)
    with nogil:
        share(_fold_part, &task, task.parts, threads_for(task.work))
    if task.failed:
        raise MemoryError
    return out


cdef void _enter_fold(const void* given, char** data) noexcept nogil:
    """The entry point: the operand, the result, and a byte that becomes 1 if there is no memory, else 0."""
    cdef Task task = (<const Task*>given)[0]
    task.x, task.out = data[0], data[1]
    share(_fold_part, &task, task.parts, threads_for(task.work))
    data[2][0] = task.failed


def entry(Loops loops, np.ndarray x, Table high, Table wide, bint wide_first, int dim):
    cdef Task task
    cdef np.npy_intp shape[DIMS]
    memset(&task, 0, sizeof(Task))
    _bind(&task, loops, x, high, wide, wide_first, dim, shape)
    sizes = tuple([shape[d] for d in range(np.PyArray_NDIM(x))])
    return <size_t><void*>_enter_fold, (<char*>&task)[: sizeof(Task)], sizes


cdef struct Search:
    Find find
    Entries* deep
    Entries* high
    Entries* wide
    char* x
    char* out
    Py_ssize_t size, volume, rows, parts
    double work  # nanoseconds
    bint failed


cdef void _find_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Search* task = <Search*>given
    cdef Py_ssize_t row = task.rows * part // task.parts, stop = task.rows * (part + 1) // task.parts
    cdef Py_ssize_t d, h, i, k, many, room = 0
    cdef Py_ssize_t* rows = NULL
    while row < stop:
        h = row % task.high.out
        d = row // task.high.out % task.deep.out
        many = (task.deep.starts[d + 1] - task.deep.starts[d]) * (task.high.starts[h + 1] - task.high.starts[h])
        if many > room:
            free(rows)
            rows = <Py_ssize_t*>malloc(many * sizeof(Py_ssize_t))
            if rows == NULL:
                task.failed = True
                return
            room = many
        many = 0
        for i in range(task.deep.starts[d], task.deep.starts[d + 1]):
            for k in range(task.high.starts[h], task.high.starts[h + 1]):
                rows[many] = (task.deep.sources[i] * task.high.size + task.high.sources[k]) * task.wide.size
                many += 1
        task.find(
            task.out + row * task.wide.out * sizeof(Py_ssize_t),
            task.x + row // (task.high.out * task.deep.out) * task.volume * task.size,
            rows, task.wide.starts, task.wide.sources, many, task.wide.out,
        )
        row += 1
    free(rows)


cdef bint _has_empty(Entries* entries) noexcept nogil:
    cdef Py_ssize_t o
    for o in range(entries.out):
        if entries.starts[o] == entries.starts[o + 1]:
            return True
    return False


cdef Py_ssize_t* _one = [0, 1]  # the only place of a dimension that is not there
cdef Entries _nothing
_nothing.size = _nothing.out = 1
_nothing.starts = _one
_nothing.sources = _one


cdef void _bind_search(Search* task, Places loops, np.ndarray x, tuple tables, np.npy_intp* shape) except *:
    """Set out to find places, and the shape of what is found."""
    cdef Entries* entries[3]
    cdef int d, k, dims = np.PyArray_NDIM(x), own = len(tables)
    _require(x, loops.dtype)
    if not 1 <= own <= 3 or own > dims:
        raise ValueError(f"expected tables for up to three of {dims} dimensions, not {own}")
    task.rows = 1
    for d in range(dims):
        shape[d] = np.PyArray_DIM(x, d)
        if d < dims - own:
            task.rows *= shape[d]
    task.work = loops.cost * task.rows
    for k in range(3):
        entries[k] = &_nothing
        if k < 3 - own:
            continue
        entries[k] = &(<Table?>tables[k - 3 + own]).entries
        if entries[k].size != shape[dims + k - 3]:
            raise ValueError("a table belongs to another size")
        if _has_empty(entries[k]):
            raise ValueError("a window is empty")
        shape[dims + k - 3] = entries[k].out
        task.work *= entries[k].starts[entries[k].out]
    task.find, task.deep, task.high, task.wide = loops.find, entries[0], entries[1], entries[2]
    task.size = np.PyArray_ITEMSIZE(x)
    task.volume = entries[0].size * entries[1].size * entries[2].size
    task.rows *= entries[0].out * entries[1].out
    task.parts = max(1, min(task.rows, <Py_ssize_t>(task.work / PIECE)))
    task.failed = False


def find(Places loops, np.ndarray x, tuple tables):
    cdef Search task
    cdef np.npy_intp shape[DIMS]
    _bind_search(&task, loops, x, tables, shape)
    out = new_array(_INT64, np.PyArray_NDIM(x), shape, NULL)
    if np.PyArray_SIZE(out) == 0:
        return out
    ran(<void*>loops.find)
    task.x, task.out = <char*>np.PyArray_DATA(x), <char*>np.PyArray_DATA(out)
    with nogil:
        share(_find_part, &task, task.parts, threads_for(task.work))
    if task.failed:
        raise MemoryError
    return out


cdef void _enter_search(const void* given, char** data) noexcept nogil:
    """The entry point: the operand, the places, and a byte that becomes 1 if there is no memory, else 0."""
    cdef Search task = (<const Search*>given)[0]
    task.x, task.out = data[0], data[1]
    share(_find_part, &task, task.parts, threads_for(task.work))
    data[2][0] = task.failed


def search_entry(Places loops, np.ndarray x, tuple tables):
    cdef Search task
    cdef np.npy_intp shape[DIMS]
    memset(&task, 0, sizeof(Search))
    _bind_search(&task, loops, x, tables, shape)
    return <size_t><void*>_enter_search, (<char*>&task)[: sizeof(Search)]


# --- elements of planes -----------------------------------------------------------------------


cdef struct Planes:
    Py_ssize_t count, size, many, parts  # of planes, of the elements of one, of those that are moved, and of shares of work
    bint is_single, puts
    char* moved
    int64_t* places
    char* planes


cdef inline void _move_plane(Planes* task, real* moved, const int64_t* places, real* plane) noexcept nogil:
    cdef Py_ssize_t i
    if not task.puts:
        for i in range(task.many):
            moved[i] = plane[places[i]]
        return
    for i in range(task.size):
        plane[i] = 0
    for i in range(task.many):
        plane[places[i]] += moved[i]


cdef void _move_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Planes* task = <Planes*>given
    cdef Py_ssize_t p
    for p in range(task.count * part // task.parts, task.count * (part + 1) // task.parts):
        if task.is_single:
            _move_plane(
                task, <float*>task.moved + p * task.many, task.places + p * task.many, <float*>task.planes + p * task.size
            )
        else:
            _move_plane(
                task, <double*>task.moved + p * task.many, task.places + p * task.many, <double*>task.planes + p * task.size
            )


cdef void _enter_planes(const void* given, char** data) noexcept nogil:
    """The entry point: what is moved, its places, which were found here, and the planes."""
    cdef Planes task = (<const Planes*>given)[0]
    cdef int threads = threads_for(0.5 * task.count * (task.many + task.size))
    task.moved, task.places, task.planes = data[0], <int64_t*>data[1], data[2]
    task.parts = max(1, min(task.count, 8 * threads if threads > 1 else 1))
    share(_move_part, &task, task.parts, threads)


def planes_entry(Py_ssize_t count, Py_ssize_t size, Py_ssize_t many, bint is_single, bint puts):
    cdef Planes task
    memset(&task, 0, sizeof(Planes))
    task.count, task.size, task.many, task.is_single, task.puts = count, size, many, is_single, puts
    return <size_t><void*>_enter_planes, (<char*>&task)[: sizeof(Planes)]
