# cython: boundscheck=False, wraparound=False, cdivision=True
"""See scans.py.

Work is divided into units: some scans that are side by side, with all of their elements. Dimensions other than that of
the scans are joined where all operands go on alike; one of them is taken by vectors, the others are counted.
"""

cimport numpy as np
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport DIMS, array_like, is_enabled, is_plain, new_array, ran
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef enum:
    MOST = 4  # operands, the result among them
    STATES = 4
    PIECE = 512  # scans that are taken together
    AT_ONCE = 2048  # elements of short ones
    ROWS = 8  # elements of these
    FEW = 2  # scans, which are taken one by one
    LEAST_WORK = 20000  # nanoseconds, from which on threads pay


ctypedef void (*Line)(char** data, Py_ssize_t* strides, Py_ssize_t count) noexcept nogil
ctypedef void (*Rows)(
    char** data, Py_ssize_t* strides, Py_ssize_t* steps, Py_ssize_t rows, Py_ssize_t count
) noexcept nogil
ctypedef void (*Columns)(
    char** data, Py_ssize_t* strides, Py_ssize_t count, Py_ssize_t width, char** states, Py_ssize_t place
) noexcept nogil
ctypedef void (*Select)(
    char* values, Py_ssize_t value_step, char* places, Py_ssize_t step, char* x, Py_ssize_t stride, Py_ssize_t count,
    Py_ssize_t k, Py_ssize_t turn
) noexcept nogil


cdef struct Task:
    Line line
    Rows rows
    Columns columns
    Select select
    Py_ssize_t k, turn  # how many are selected, and whether the smallest
    int lanes, operands  # the result is the last
    Py_ssize_t in_turns  # scans of fewer elements are taken together, any number of them
    char* data[MOST]
    Py_ssize_t count  # elements of a scan
    Py_ssize_t strides[MOST]
    Py_ssize_t width  # scans that vectors take
    Py_ssize_t steps[MOST]
    int dims  # the others
    Py_ssize_t shape[DIMS]
    Py_ssize_t outer[DIMS][MOST]
    bint is_beside
    Py_ssize_t piece, pieces, units, parts


cdef void _do_columns(Task* task, char** data, Py_ssize_t width) noexcept nogil:
    cdef char states[STATES][8 * (2 * PIECE + 16)]
    cdef char* memory[STATES]
    cdef Py_ssize_t place = 0
    cdef int k
    for k in range(STATES):
        memory[k] = states[k]
    while place < task.count:
        task.columns(data, task.strides, min(task.count - place, ROWS), width, memory, place)
        place += ROWS
        for k in range(task.operands):
            data[k] += ROWS * task.strides[k]


cdef void _do_unit(Task* task, Py_ssize_t unit) noexcept nogil:
    cdef Py_ssize_t piece = unit % task.pieces, index = unit // task.pieces
    cdef Py_ssize_t first = piece * task.piece, row
    cdef Py_ssize_t width = task.width - first if piece == task.pieces - 1 else task.piece
    cdef char* data[MOST]
    cdef int d, k
    for k in range(task.operands):
        data[k] = task.data[k] + first * task.steps[k]
    for d in range(task.dims - 1, -1, -1):
        for k in range(task.operands):
            data[k] += index % task.shape[d] * task.outer[d][k]
        index //= task.shape[d]
    if task.is_beside:
        _do_columns(task, data, width)
    elif task.select != NULL:
        for row in range(width):
            task.select(
                data[1] + row * task.steps[1], task.strides[1], data[2] + row * task.steps[2], task.strides[2],
                data[0] + row * task.steps[0], task.strides[0], task.count, task.k, task.turn,
            )
    elif width > FEW:
        task.rows(data, task.strides, task.steps, width, task.count)
    else:
        for row in range(width):
            task.line(data, task.strides, task.count)
            for k in range(task.operands):
                data[k] += task.steps[k]


cdef void _do_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t unit
    for unit in range(task.units * part // task.parts, task.units * (part + 1) // task.parts):
        _do_unit(task, unit)


cdef void _do_all(Task* task, double cost) noexcept nogil:
    """Divide the work and do it."""
    cdef Py_ssize_t outer = 1, most
    cdef double work
    cdef int d, threads
    for d in range(task.dims):
        outer *= task.shape[d]
    work = cost * outer * task.width * task.count
    threads = pool_size() if work >= LEAST_WORK else 1
    if task.is_beside:  # as many pieces as threads can share, and what is left over for the last
        most = max(task.width // PIECE, 1)
        if threads > 1:
            most = max(most, (2 * threads + outer - 1) // outer)
        task.piece = max(task.width // most // 64 * 64, 64)
        task.pieces = max(1, task.width // task.piece)
    else:
        task.piece = max(task.lanes, AT_ONCE // task.count) if task.count < task.in_turns else task.lanes
        task.pieces = (task.width + task.piece - 1) // task.piece
    task.units = outer * task.pieces
    task.parts = min(task.units, 8 * threads) if threads > 1 else 1
    if task.parts > 1:
        share(_do_part, task, task.parts, threads)
    else:
        _do_part(task, 0, 0)


cdef inline void _take(Task* task, int d, Py_ssize_t size, Py_ssize_t* strides) noexcept nogil:
    """One more of the other dimensions, inside of those before, joined with the last where all go on as that does."""
    cdef int k, last = task.dims - 1
    cdef bint goes_on = task.dims > 0
    if size == 1:
        return
    for k in range(task.operands):
        if goes_on and task.outer[last][k] != strides[k] * size:
            goes_on = False
    if goes_on:
        task.shape[last] *= size
    else:
        last += 1
        task.dims += 1
        task.shape[last] = size
    for k in range(task.operands):
        task.outer[last][k] = strides[k]


cdef void _choose(Task* task, Py_ssize_t* sizes) noexcept nogil:
    """Choose the dimension that vectors take: one with neighbours side by side, if their sizes are given, or the largest."""
    cdef int d, k, best = -1
    cdef bint is_beside
    task.is_beside = False
    for d in range(task.dims):
        is_beside = sizes != NULL and task.shape[d] > FEW
        for k in range(task.operands):
            if is_beside and task.outer[d][k] != sizes[k]:
                is_beside = False
        if is_beside:
            best = d
            task.is_beside = task.shape[d] >= task.lanes
            break
        if best < 0 or task.shape[d] > task.shape[best]:
            best = d
    task.width = 1
    if best < 0:
        return
    task.width = task.shape[best]
    for k in range(task.operands):
        task.steps[k] = task.outer[best][k]
    task.dims -= 1
    for d in range(best, task.dims):
        task.shape[d] = task.shape[d + 1]
        for k in range(task.operands):
            task.outer[d][k] = task.outer[d + 1][k]


cdef void _do_timed(Task* task, double cost, Py_ssize_t size) noexcept:
    """Do all, and let other threads of Python run meanwhile if it takes long."""
    if cost * size < LEAST_WORK:
        _do_all(task, cost)
    else:
        with nogil:
            _do_all(task, cost)


cdef struct Entered:
    Task task  # whose data are how far from the first elements of arrays a scan begins
    double cost


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: operands, and the result."""
    cdef Entered entered = (<const Entered*>given)[0]
    cdef int k
    for k in range(entered.task.operands):
        entered.task.data[k] = data[k] + <Py_ssize_t>entered.task.data[k]
    _do_all(&entered.task, entered.cost)


cdef class Scan:
    cdef Task start
    cdef np.dtype result
    cdef double cost
    cdef object code

    def __init__(self, addresses, lanes, states, in_turns, result, cost, code):
        if states > STATES:
            raise ValueError(f"scans carry at most {STATES} numbers, not {states}")
        self.start.line = <Line><void*><size_t>addresses[0]
        self.start.rows = <Rows><void*><size_t>addresses[1]
        self.start.columns = <Columns><void*><size_t>addresses[2]
        self.start.select = NULL
        self.start.lanes, self.start.in_turns = lanes, in_turns
        self.result = result
        self.cost = cost
        self.code = code

    cdef object run(self, PyObject** arrays, int n, int dim, bint reverse, bint is_delayed):
        """The result, or None if shapes or dimensions are not those of a scan.

        If it is delayed, each place gets what was found one place before, and the first nothing.
        """
        cdef Task task = self.start
        cdef np.ndarray a, like = <np.ndarray>arrays[0]
        cdef np.npy_intp shape[DIMS]
        cdef int d, k, dims = np.PyArray_NDIM(like)
        cdef bint is_alike = True
        if dim < 0:
            dim += dims
        if dim < 0 or dim >= dims:
            return None
        for d in range(dims):
            shape[d] = np.PyArray_DIM(like, d)
        for k in range(n):
            a = <np.ndarray>arrays[k]
            if np.PyArray_NDIM(a) != dims:
                return None
            for d in range(dims):
                if np.PyArray_DIM(a, d) != shape[d]:
                    is_alike = False
                    if shape[d] == 1:
                        shape[d] = np.PyArray_DIM(a, d)
        if not is_alike:
            for k in range(n):
                for d in range(dims):
                    if np.PyArray_DIM(<np.ndarray>arrays[k], d) not in (1, shape[d]):
                        return None
        if is_alike:
            out = array_like(like, self.result)
        else:
            out = new_array(self.result, dims, shape, NULL)
        if np.PyArray_SIZE(out) == 0:
            return out
        self.bind(&task, arrays, n, <np.ndarray>out, dim, reverse, is_delayed)
        if task.count == 0:
            return out
        ran(<void*>task.line)
        _do_timed(&task, self.cost, np.PyArray_SIZE(out))
        return out

    cdef void bind(
        self, Task* task, PyObject** arrays, int n, np.ndarray out, int dim, bint reverse, bint is_delayed
    ) noexcept:
        """Set out to scan operands that are broadcast to the shape of the result."""
        cdef Py_ssize_t strides[MOST]
        cdef Py_ssize_t sizes[MOST]
        cdef int d, k
        cdef np.ndarray a
        task.operands, task.dims, task.count = n + 1, 0, np.PyArray_DIM(out, dim)
        for k in range(n + 1):
            a = <np.ndarray>arrays[k] if k < n else out
            task.data[k], sizes[k] = <char*>np.PyArray_DATA(a), np.PyArray_ITEMSIZE(a)
        for d in range(np.PyArray_NDIM(out)):
            for k in range(n + 1):
                a = <np.ndarray>arrays[k] if k < n else out
                strides[k] = np.PyArray_STRIDE(a, d) if np.PyArray_DIM(a, d) == np.PyArray_DIM(out, d) else 0
            if d != dim:
                _take(task, d, np.PyArray_DIM(out, d), strides)
                continue
            for k in range(n + 1):
                task.strides[k] = strides[k]
                if reverse:
                    task.data[k] += (task.count - 1) * strides[k]
                    task.strides[k] = -strides[k]
        if is_delayed:
            task.data[n] += task.strides[n]
            task.count -= 1
        if task.count:
            _choose(task, sizes)

    def entry(self, tuple arrays, np.ndarray out, int dim, bint reverse):
        cdef Entered entered
        cdef PyObject* given[MOST]
        cdef int k, n = len(arrays)
        memset(&entered, 0, sizeof(Entered))
        entered.task, entered.cost = self.start, self.cost
        for k in range(n):
            given[k] = <PyObject*>arrays[k]
        self.bind(&entered.task, given, n, out, dim, reverse, False)
        for k in range(n):
            entered.task.data[k] -= <Py_ssize_t>np.PyArray_DATA(<np.ndarray>given[k])
        entered.task.data[n] -= <Py_ssize_t>np.PyArray_DATA(out)
        return <size_t><void*>_enter, (<char*>&entered)[: sizeof(Entered)]


cdef class Kernel:
    cdef object make, reference
    cdef dict known

    def __init__(self, make, reference):
        self.make = make
        self.reference = reference
        self.known = {}

    def __call__(self, *arrays, dim, **params):
        out = self.scanned(arrays, dim, params, False)
        return self.reference(*arrays, dim=dim, **params) if out is None else out

    def before(self, x, int dim, first, dict params):
        out = self.scanned((x,), dim, params, True)
        if out is not None and np.PyArray_SIZE(<np.ndarray>out):
            out[(slice(None),) * dim + (-1 if params.get("reverse", False) else 0,)] = first
        return out

    cdef object scanned(self, tuple arrays, int dim, dict params, bint is_delayed):
        """The result, or None if the reference is to compute it."""
        cdef PyObject* given[MOST]
        cdef Scan found
        cdef int k, n = len(arrays)
        if not is_enabled() or n >= MOST:
            return None
        for k in range(n):
            x = arrays[k]
            if not is_plain(x):
                return None
            if k and np.PyArray_TYPE(<np.ndarray>x) != np.PyArray_TYPE(<np.ndarray>given[0]):
                return None
            given[k] = <PyObject*>x
        found = self.of((<np.ndarray>given[0]).dtype, params)
        return None if found is None else found.run(given, n, dim, params.get("reverse", False), is_delayed)

    cdef Scan of(self, np.dtype dtype, dict params):
        """The loops for a type and parameters; None if there are none."""
        key = (dtype.num, *params.values())  # native byte order, as arrays behave
        found = self.known.get(key, self)
        if found is self:
            found = self.known[key] = self.make(dtype, params)
        return found

    def entry(self, tuple arrays, out, dim, **params):
        cdef Scan found = self.of(arrays[0].dtype, params)
        return None if found is None else found.entry(arrays, out, dim, params.get("reverse", False))


cdef class Selection:
    cdef Task start
    cdef np.dtype result
    cdef double cost
    cdef object code

    def __init__(self, address, lanes, result, cost, code):
        self.start.select = <Select><void*><size_t>address
        self.start.lanes = lanes
        self.start.operands = 3
        self.result = result
        self.cost = cost
        self.code = code

    cdef object run(self, np.ndarray x, int dim, Py_ssize_t k, bint largest):
        """The first k elements along a dimension, of which there are as many, and where they are."""
        cdef Task task = self.start
        cdef np.npy_intp shape[DIMS]
        cdef int d, dims = np.PyArray_NDIM(x)
        cdef np.ndarray values, places
        for d in range(dims):
            shape[d] = k if d == dim else np.PyArray_DIM(x, d)
        values = new_array(<np.dtype><object>np.PyArray_DESCR(x), dims, shape, NULL)
        places = new_array(self.result, dims, shape, NULL)
        if np.PyArray_SIZE(places) != 0:
            self.bind(&task, x, values, places, dim, largest)
            task.data[0], task.data[1] = <char*>np.PyArray_DATA(x), <char*>np.PyArray_DATA(values)
            task.data[2] = <char*>np.PyArray_DATA(places)
            ran(<void*>task.select)
            _do_timed(&task, self.cost, np.PyArray_SIZE(x))
        return values, places

    cdef void bind(self, Task* task, np.ndarray x, np.ndarray values, np.ndarray places, int dim, bint largest) noexcept:
        """Set out to select along a dimension as many elements as the results have there."""
        cdef Py_ssize_t strides[3]
        cdef int d, k
        task.k, task.turn = np.PyArray_DIM(places, dim), 0 if largest else -1
        task.count, task.dims = np.PyArray_DIM(x, dim), 0
        for d in range(np.PyArray_NDIM(x)):
            strides[0], strides[1] = np.PyArray_STRIDE(x, d), np.PyArray_STRIDE(values, d)
            strides[2] = np.PyArray_STRIDE(places, d)
            if d == dim:
                for k in range(3):
                    task.strides[k] = strides[k]
            else:
                _take(task, d, np.PyArray_DIM(x, d), strides)
        _choose(task, NULL)

    def entry(self, np.ndarray x, np.ndarray values, np.ndarray places, int dim, bint largest):
        cdef Entered entered
        memset(&entered, 0, sizeof(Entered))
        entered.task, entered.cost = self.start, self.cost
        self.bind(&entered.task, x, values, places, dim, largest)
        return <size_t><void*>_enter, (<char*>&entered)[: sizeof(Entered)]


def selecting(make, reference, Py_ssize_t most):
    cdef dict known = {}

    def call(x, dim, k, largest):
        if not is_enabled() or not is_plain(x):
            return reference(x, dim=dim, k=k, largest=largest)
        if not 0 < k <= most or not 0 <= dim < np.PyArray_NDIM(<np.ndarray>x) or k > np.PyArray_DIM(<np.ndarray>x, dim):
            return reference(x, dim=dim, k=k, largest=largest)
        found = known.get(np.PyArray_TYPE(<np.ndarray>x), known)
        if found is known:
            found = known[np.PyArray_TYPE(<np.ndarray>x)] = make((<np.ndarray>x).dtype)
        if found is None:
            return reference(x, dim=dim, k=k, largest=largest)
        return (<Selection>found).run(<np.ndarray>x, dim, k, largest)

    return call
