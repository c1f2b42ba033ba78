# cython: boundscheck=False, wraparound=False, cdivision=True
"""See rows.py.

A row is the work of one thread. Rows whose elements lie side by side are done some at a time, as many as stay near. Where
neighbours in the last dimension belong to other rows, many of these are done at once; the last of them may be done twice.
Rows that are added up are done in groups, each by one thread and in order.
"""

from lucid.backends.cpu.launch.copies import contiguous

cimport numpy as np
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport DIMS, LEAST_ALIGNED, is_enabled, is_plain, new_array, ran, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef enum:
    MOST = 12  # operands and results
    NUMBERS = 8
    TOGETHER = 64  # as in codegen.rows, where rows lie side by side
    LEAST_ACROSS = 16  # elements in each of two dimensions, for which an operand is copied from the one to the other

GROUP = TOGETHER
cdef Py_ssize_t _NEAREST = 1 << 15  # bytes of rows that are done one after the other in each pass
cdef Py_ssize_t _MOST = 64  # such rows
cdef Py_ssize_t _NEAR = 1 << 19  # bytes that are kept of rows that are done at once
cdef Py_ssize_t _LEAST = 128  # such rows

ctypedef void (*Inner)(
    char** data, Py_ssize_t* strides, Py_ssize_t length, double* numbers, char* room, Py_ssize_t rows
) noexcept nogil


cdef struct Task:
    Inner inner
    int count, operands  # with the results, and without
    int dims  # beside the one along the row
    Py_ssize_t shape[DIMS]
    Py_ssize_t steps[DIMS][MOST]
    Py_ssize_t strides[2 * MOST]  # along the row, and from each row to the next
    Py_ssize_t across[MOST]  # from one row to its neighbour, where there are vectors of rows
    char* data[MOST]
    double numbers[NUMBERS]
    Py_ssize_t length, width, tiles, tile, lanes, units, parts, size
    Py_ssize_t together  # rows of the innermost dimension, at most
    int totals  # of the operands and of the results, the last ones: sums of the rows of a group
    Py_ssize_t group  # rows
    double work  # nanoseconds
    int most  # threads for which an entry point has room
    char* room


cdef void _run_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t unit, rest, tile, place, rows, groups = (task.units + task.group - 1) // task.group
    cdef Py_ssize_t first = groups * part // task.parts * task.group
    cdef Py_ssize_t stop = min(groups * (part + 1) // task.parts * task.group, task.units)
    cdef char* data[MOST]
    cdef char* room = task.room + who * task.size
    cdef int d, k
    unit = first
    while unit < stop:
        rest, tile, rows = unit, 0, 1
        if task.width:
            rest = unit // task.tiles
            tile = min(unit % task.tiles * task.tile, task.width - task.lanes)
            rows = min(task.tile, task.width - tile)
        elif task.together > 1:
            rows = min(task.together, stop - unit)
            if task.dims > 1:
                rows = min(rows, task.shape[task.dims - 1] - unit % task.shape[task.dims - 1])
            if task.totals:
                rows = min(rows, task.group - unit % task.group)
        for k in range(task.count):
            data[k] = task.data[k] + (tile * task.across[k] if tile else 0)
        for d in range(task.dims - 1, -1, -1):  # divisions take long, and the outermost dimension needs none
            place = rest % task.shape[d] if d else rest
            for k in range(task.count):
                data[k] += place * task.steps[d][k]
            if d:
                rest //= task.shape[d]
        for k in range(task.totals):
            data[task.count - 1 - k] += unit // task.group * task.length * task.strides[task.count - 1 - k]
            data[task.operands - 1 - k] = data[task.count - 1 - k]
        task.inner(data, task.strides, task.length, task.numbers, room, rows)
        unit += 1 if task.width else rows


cdef bint _lies_across(np.ndarray x, Py_ssize_t least) noexcept:
    """Whether an operand of so many bytes has its neighbours in another dimension than the last one."""
    cdef int d, last = np.PyArray_NDIM(x) - 1
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x)
    if last < 1 or np.PyArray_NBYTES(x) < least or np.PyArray_DIM(x, last) < LEAST_ACROSS:
        return False
    if -64 <= np.PyArray_STRIDE(x, last) <= 64:
        return False
    for d in range(last):
        if np.PyArray_DIM(x, d) >= LEAST_ACROSS and np.PyArray_STRIDE(x, d) in (size, -size):
            return True
    return False


cdef bint _joins(Task* task, int inner, Py_ssize_t* steps, Py_ssize_t size) noexcept nogil:
    """Whether a dimension goes on where the one before it ends."""
    cdef int k
    for k in range(task.count):
        if task.steps[inner][k] != steps[k] * size:
            return False
    return True


cdef int _threads(Task* task) noexcept nogil:
    """How many can share the work."""
    return <int>min(<Py_ssize_t>threads_for(task.work), (task.units + task.group - 1) // task.group)


cdef void _run(Task* task, int threads) noexcept nogil:
    """Do all by so many threads, for each of which there is room."""
    task.parts = 1
    if threads > 1:
        task.parts = min((task.units + task.group - 1) // task.group, 8 * threads)
        share(_run_part, task, task.parts, threads)
    else:
        _run_part(task, 0, 0)


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: operands, results, and workspace."""
    cdef Task task = (<const Task*>given)[0]
    cdef int k
    for k in range(task.count):
        task.data[k] = data[k]
    task.room = data[task.count]
    _run(&task, min(_threads(&task), task.most))


cdef class Rows:
    # Loops over a row, and over rows side by side, by the operands that have one number for a row, or for all of them.
    cdef Inner found[2][64]
    cdef bint is_made[2][64]
    cdef object make
    cdef list alive
    cdef int operands, results
    cdef bint of_rows[MOST]
    cdef tuple numbers, kept
    cdef Py_ssize_t lanes, column_lanes
    cdef Py_ssize_t row_room[3]
    cdef Py_ssize_t column_room[2]
    cdef double cost

    def __init__(self, loop, operands, results, of_rows, numbers, row_room, lanes, column_room, column_lanes, cost):
        self.make, self.alive = loop, []
        for k in range(64):
            self.is_made[0][k] = self.is_made[1][k] = False
        self.operands, self.results = operands, len(results)
        if operands + len(results) > MOST or len(numbers) > NUMBERS:
            raise ValueError("more operands, results or parameters than there is room for")
        self.kept = tuple(results)
        for k, is_one in enumerate(of_rows):
            self.of_rows[k] = is_one
        self.row_room[0], self.row_room[1], self.row_room[2] = row_room
        self.column_room[0], self.column_room[1] = column_room
        self.numbers, self.lanes, self.column_lanes, self.cost = tuple(numbers), lanes, column_lanes, cost

    cdef Inner loop(self, bint is_across, int alike):
        """A loop, made when it is first needed; NULL if it cannot be."""
        if not self.is_made[is_across][alike]:
            address, code = self.make(bool(is_across), tuple([k for k in range(self.operands) if alike >> k & 1]))
            self.alive.append(code)
            self.found[is_across][alike] = <Inner><void*><size_t>address
            self.is_made[is_across][alike] = True
        return self.found[is_across][alike]

    cdef Py_ssize_t together(self, Task* task, tuple arrays, list outs, int alike):
        """How many rows can be done at a time: one where elements lie apart."""
        cdef Py_ssize_t bytes = self.row_room[1], size
        cdef int k
        for k in range(task.count - task.totals):
            size = np.PyArray_ITEMSIZE(<np.ndarray>(arrays[k] if k < task.operands else outs[k - task.operands]))
            if task.strides[k] == size:
                bytes += size
            elif not (alike >> k & 1 if k < task.operands else self.of_rows[k - task.operands]):
                return 1
        return max(min(_NEAREST // max(bytes * task.length, 1), _MOST), 1)

    cdef object launch(self, tuple arrays, int dim, dict params, int totals):
        """Results of rows; with `totals`, the last operands are matrices to whose rows groups of the last results are added."""
        cdef Task task
        cdef np.npy_intp shape[DIMS]
        cdef np.npy_intp kept[DIMS]
        cdef Py_ssize_t size = 1, own
        cdef int d, k, threads, dims = 0, plain = self.operands - totals
        cdef np.ndarray a
        for k in range(plain):
            a = <np.ndarray>arrays[k]
            dims = max(dims, np.PyArray_NDIM(a))
        # Copied square by square, elements are read once; beside each other, rows are done many at once.
        for k in range(plain):
            if _lies_across(<np.ndarray>arrays[k], LEAST_ALIGNED if dim == dims - 1 else 0):
                arrays = (*arrays[:k], contiguous(arrays[k]), *arrays[k + 1:])
        for d in range(dims):
            shape[d] = 1
            for k in range(plain):
                a = <np.ndarray>arrays[k]
                own = d - dims + np.PyArray_NDIM(a)
                if own >= 0 and np.PyArray_DIM(a, own) != 1:
                    shape[d] = np.PyArray_DIM(a, own)
            for k in range(plain):
                a = <np.ndarray>arrays[k]
                own = d - dims + np.PyArray_NDIM(a)
                if own >= 0 and np.PyArray_DIM(a, own) not in (1, shape[d]):
                    return None
            size *= shape[d]
        if size == 0 or not 0 <= dim < dims:
            return None
        outs = []
        for k in range(self.results - totals):
            for d in range(dims):
                kept[d] = shape[d]
            if self.of_rows[k]:
                kept[dim] = 1
            kind = self.kept[k]
            outs.append(new_array(<np.dtype>kind, dims, kept, NULL))
        if not self.bind(&task, arrays, outs, dims, shape, dim, params, totals):
            return None
        ran(<void*>task.inner)
        threads = _threads(&task)
        task.room = <char*>malloc(task.size * threads + 64)
        if task.room == NULL:
            raise MemoryError
        with nogil:
            _run(&task, threads)
        free(task.room)
        return tuple(outs) if len(outs) > 1 else outs[0]

    cdef bint bind(
        self, Task* task, tuple arrays, list outs, int dims, np.npy_intp* shape, int dim, dict params, int totals
    ) except -1:
        """Set out to compute rows of operands that are broadcast to a shape; False if there is no loop for them."""
        cdef Py_ssize_t all[DIMS][MOST]
        cdef Py_ssize_t steps[MOST]
        cdef Py_ssize_t size = 1, own
        cdef int d, k, n = self.operands, plain = self.operands - totals, last, threads
        cdef np.ndarray a
        cdef bint is_across
        for d in range(dims):
            size *= shape[d]
        task.work = size * self.cost
        threads = threads_for(task.work)
        task.length = shape[dim]
        task.count, task.operands, task.totals, task.group = n + self.results, n, totals, TOGETHER if totals else 1
        for k in range(n):
            a = <np.ndarray>arrays[k]
            task.data[k] = <char*>np.PyArray_DATA(a)
            for d in range(dims if k < plain else 0):
                own = d - dims + np.PyArray_NDIM(a)
                all[d][k] = np.PyArray_STRIDE(a, own) if own >= 0 and np.PyArray_DIM(a, own) != 1 else 0
        for k in range(self.results - totals):
            a = <np.ndarray>outs[k]
            task.data[n + k] = <char*>np.PyArray_DATA(a)
            for d in range(dims):
                all[d][n + k] = np.PyArray_STRIDE(a, d)
            if self.of_rows[k]:
                all[dim][n + k] = 0
        for k in range(plain, n):
            task.data[k + self.results] = <char*>np.PyArray_DATA(<np.ndarray>arrays[k])
            for d in range(dims):
                all[d][k] = all[d][k + self.results] = 0
            all[dim][k] = all[dim][k + self.results] = np.PyArray_ITEMSIZE(<np.ndarray>arrays[k])
        for k in range(task.count):
            task.strides[k] = all[dim][k]
        for k, name in enumerate(self.numbers):
            task.numbers[k] = <double>task.length if name == "length" else <double>params[name]
        # Vectors of rows, where the last dimension is not the rows' own and everything lies side by side in it.
        last = dims - 1
        task.lanes, task.width, task.tiles = self.column_lanes, 0, 1
        is_across = dim != last and shape[last] >= self.column_lanes and n <= 6
        if is_across:
            for k in range(task.count):
                own = np.PyArray_ITEMSIZE(<np.ndarray>arrays[k] if k < n else <np.ndarray>outs[k - n])
                if all[last][k] != own:
                    if all[last][k] != 0 or k >= n:
                        is_across = False
                        break
        cdef int alike = 0
        for k in range(min(n, 6)):
            if all[last if is_across else dim][k] == 0:
                alike |= 1 << k
        task.inner = self.loop(is_across, alike)
        if task.inner == NULL:
            return False
        if is_across:
            task.width = shape[last]
            own = task.width
            if self.column_room[0]:
                own = min(own, max(_NEAR // (self.column_room[0] * task.length), _LEAST))
            # One part for each thread, where other dimensions do not give more: narrow ones are slow to write.
            if threads > 1:
                own = min(own, max(task.width * (size // (task.width * task.length)) // threads, _LEAST))
            task.tile = min((max(own, self.column_lanes) + self.column_lanes - 1) // self.column_lanes * self.column_lanes, task.width)
            task.tiles = (task.width + task.tile - 1) // task.tile
            for k in range(task.count):
                task.across[k] = all[last][k]
        # The other dimensions, joined where they go on as one.
        task.dims = 0
        task.units = task.tiles
        for d in range(dims):
            if d == dim or shape[d] == 1 or (is_across and d == last):
                continue
            task.units *= shape[d]
            for k in range(task.count):
                steps[k] = all[d][k]
            if task.dims and _joins(task, task.dims - 1, steps, shape[d]):
                task.shape[task.dims - 1] *= shape[d]
                for k in range(task.count):
                    task.steps[task.dims - 1][k] = steps[k]
                continue
            task.shape[task.dims] = shape[d]
            for k in range(task.count):
                task.steps[task.dims][k] = steps[k]
            task.dims += 1
        for k in range(task.count):
            task.strides[task.count + k] = task.steps[task.dims - 1][k] if task.dims else 0
        task.together = 1 if is_across else self.together(task, arrays, outs, alike)
        own = (task.length + self.lanes - 1) // self.lanes * self.lanes
        task.size = own * (self.row_room[0] + task.together * self.row_room[1])
        task.size += (task.together + self.lanes - 1) // self.lanes * self.lanes * self.row_room[2]
        if is_across:
            own = (task.tile + self.column_lanes - 1) // self.column_lanes * self.column_lanes
            task.size = own * (self.column_room[0] * task.length + self.column_room[1])
        task.size = (task.size + 127) & ~<Py_ssize_t>63  # threads do not write to one line of the cache
        return True

    def entry(self, tuple arrays, list outs, int dim, dict params, int threads):
        cdef Task task
        cdef np.npy_intp shape[DIMS]
        cdef int d, dims = np.PyArray_NDIM(<np.ndarray>arrays[0])
        for d in range(dims):
            shape[d] = np.PyArray_DIM(<np.ndarray>arrays[0], d)
        memset(&task, 0, sizeof(Task))
        if not self.bind(&task, arrays, outs, dims, shape, dim, params, 0):
            return None
        task.most = threads
        return <size_t><void*>_enter, (<char*>&task)[: sizeof(Task)], task.size * threads + 64


cdef class Kernel:
    cdef object make
    cdef dict known
    # The loops that ran last, and what for: mostly they run again.
    cdef Rows last
    cdef tuple last_types
    cdef dict last_params

    def __init__(self, make):
        self.make = make
        self.known = {}
        self.last_types = ()

    cdef bint is_last(self, tuple arrays, dict params) except -1:
        cdef Py_ssize_t k, n = len(arrays)
        if self.last is None or n != len(self.last_types):
            return False
        for k in range(n):
            if (<np.ndarray>arrays[k]).dtype is not self.last_types[k]:
                return False
        return params == self.last_params

    cpdef object run(self, tuple arrays, int dim, dict params, int totals=0):
        cdef Rows found
        if not is_enabled():
            return None
        for a in arrays:
            if not is_plain(a):
                return None
        if not self.is_last(arrays, params):
            types = tuple([a.dtype for a in arrays])
            found = self.of(types, params)
            if found is None:
                return None
            self.last, self.last_types, self.last_params = found, types, dict(params)
        return self.last.launch(arrays, dim, params, totals)

    cdef Rows of(self, tuple types, dict params):
        """The loops for operands of these types; None if there are none."""
        cdef tuple key = types
        for name, value in params.items():
            if type(value) is not float:
                key += (name, value)
        found = self.known.get(key, self)
        if found is self:
            found = self.known[key] = self.make(types, params)
        return found

    def entry(self, tuple arrays, list outs, int dim, dict params, int threads):
        cdef Rows found = self.of(tuple([a.dtype for a in arrays]), params)
        return None if found is None else found.entry(arrays, outs, dim, params, threads)
