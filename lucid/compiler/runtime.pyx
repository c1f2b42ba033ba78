# cython: boundscheck=False, wraparound=False, cdivision=True
"""See runtime.py."""

import numpy

cimport numpy as np
from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from lucid.backends.cpu.gemm cimport multiply_into, product_threads
from lucid.backends.cpu.launch.elementwise cimport new_array, threads_for
from lucid.backends.cpu.launch.products cimport DoubleGemm, Gemm
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

is_there = True

cdef enum:
    MOST = 128  # pointers of a step
    STACK = 8  # dimensions of a stack of products
    LINE = 64  # bytes to which memory is aligned

cdef enum:
    LOOP, PRODUCT, FILL, REPEAT, CHECK, ENTRY

ctypedef void (*Part)(char** data, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
ctypedef void (*Entry)(const void* task, char** data) noexcept nogil


cdef struct Matrices:
    # A stack of products; steps in elements, those of the stack in bytes.
    void* gemm
    int stacked, is_single
    Py_ssize_t stack[STACK]
    Py_ssize_t x_steps[STACK]
    Py_ssize_t y_steps[STACK]
    Py_ssize_t rows, depth, columns, size
    Py_ssize_t x_down, x_right, y_down, y_right


cdef struct Move:
    # An address that changes from round to round: by a stride, or in turns with another place.
    int target, source, other
    Py_ssize_t offset, other_offset, stride


cdef struct Step:
    int kind, first, pointers, begin, end, moves
    Move* moved
    Part part
    Entry entry
    const char* task  # that of an entry point
    Py_ssize_t units, grain
    double work
    Matrices matrices


cdef struct Task:
    Part part
    char** data
    Py_ssize_t units, grain, parts


cdef void _do_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t all = (task.units + task.grain - 1) // task.grain
    cdef Py_ssize_t begin = all * part // task.parts * task.grain
    cdef Py_ssize_t end = min(all * (part + 1) // task.parts * task.grain, task.units)
    if begin < end:
        task.part(task.data, begin, end)


cdef void _loop(Step* step, char** data) noexcept nogil:
    cdef Task task
    cdef int threads = threads_for(step.work)
    if threads == 1 or step.units <= step.grain:
        step.part(data, 0, step.units)
        return
    task.part, task.data, task.units, task.grain = step.part, data, step.units, step.grain
    task.parts = min((step.units + step.grain - 1) // step.grain, 8 * threads)
    share(_do_part, &task, task.parts, threads)


cdef void _product(Step* step, char** data) noexcept nogil:
    cdef Matrices* m = &step.matrices
    cdef Py_ssize_t count = 1, which, rest, size = m.rows * m.columns * m.size
    cdef char* x
    cdef char* y
    cdef char* out
    cdef int d, flip_x, flip_y, threads
    cdef long long x_step, y_step
    for d in range(m.stacked):
        count *= m.stack[d]
    threads = product_threads(count, m.rows, m.depth, m.columns)
    if threads and multiply_into(
        data[0], data[1], data[2], m.stacked, m.stack, m.x_steps, m.y_steps, m.rows, m.depth, m.columns,
        m.x_down, m.x_right, m.y_down, m.y_right, m.is_single, NULL, threads,
    ):
        return
    # Row-major matrices, of which one index has step 1.
    flip_x = 111 if m.x_right == 1 and (m.x_down >= m.depth or m.rows == 1) else 112
    flip_y = 111 if m.y_right == 1 and (m.y_down >= m.columns or m.depth == 1) else 112
    x_step = max(m.x_down if flip_x == 111 else m.x_right, m.depth if flip_x == 111 else m.rows)
    y_step = max(m.y_down if flip_y == 111 else m.y_right, m.columns if flip_y == 111 else m.depth)
    for which in range(count):
        x, y, out, rest = data[0], data[1], data[2] + which * size, which
        for d in range(m.stacked - 1, -1, -1):
            x += rest % m.stack[d] * m.x_steps[d]
            y += rest % m.stack[d] * m.y_steps[d]
            rest //= m.stack[d]
        if m.is_single:
            (<Gemm>m.gemm)(
                101, flip_x, flip_y, m.rows, m.columns, m.depth, 1.0, x, x_step, y, y_step, 0.0, out, m.columns
            )
        else:
            (<DoubleGemm>m.gemm)(
                101, flip_x, flip_y, m.rows, m.columns, m.depth, 1.0, x, x_step, y, y_step, 0.0, out, m.columns
            )


cdef class Steps:
    cdef Step* steps
    cdef int count, most
    cdef int* buffers
    cdef Py_ssize_t* offsets
    cdef object kept

    def __cinit__(self):
        self.steps, self.buffers, self.offsets = NULL, NULL, NULL

    def __dealloc__(self):
        cdef int k
        for k in range(self.count if self.steps != NULL else 0):
            free(self.steps[k].moved)
        free(self.steps)
        free(self.buffers)
        free(self.offsets)

    def __init__(self, list steps, kept):
        cdef int k, j, d, pointers = 0
        cdef Step* step
        self.kept = kept, [s["entry"] for s in steps if s["kind"] == "entry"]
        self.count = len(steps)
        cdef Matrices* m
        for s in steps:
            pointers += len(s["places"])
        self.steps = <Step*>malloc(max(self.count, 1) * sizeof(Step))
        self.buffers = <int*>malloc(max(pointers, 1) * sizeof(int))
        self.offsets = <Py_ssize_t*>malloc(max(pointers, 1) * sizeof(Py_ssize_t))
        if self.steps == NULL or self.buffers == NULL or self.offsets == NULL:
            raise MemoryError
        memset(self.steps, 0, max(self.count, 1) * sizeof(Step))
        pointers = 0
        for k, s in enumerate(steps):
            step = &self.steps[k]
            step.first, step.pointers = pointers, len(s["places"])
            if step.pointers > MOST:
                raise ValueError("a step of too many arrays")
            for buffer, offset in s["places"]:
                self.buffers[pointers], self.offsets[pointers] = buffer, offset
                pointers += 1
            step.work = s["work"]
            if s["kind"] == "loop":
                step.kind = LOOP
                step.part = <Part><void*><size_t>s["address"]
                step.units, step.grain = s["units"], s["grain"]
            elif s["kind"] == "fill":
                step.kind, step.units = FILL, s["units"]
            elif s["kind"] == "check":
                step.kind = CHECK
            elif s["kind"] == "entry":
                step.kind = ENTRY
                address, task, _ = s["entry"]
                step.entry, step.task = <Entry><void*><size_t>address, <bytes>task
            elif s["kind"] == "repeat":
                step.kind, step.units = REPEAT, s["units"]
                step.begin, step.end = s["range"]
                step.moved = <Move*>malloc(max(len(s["moves"]), 1) * sizeof(Move))
                if step.moved == NULL:
                    raise MemoryError
                step.moves = len(s["moves"])
                for j, move in enumerate(s["moves"]):
                    step.moved[j].target, step.moved[j].source, step.moved[j].offset = move[0], move[1], move[2]
                    step.moved[j].other, step.moved[j].other_offset, step.moved[j].stride = move[3], move[4], move[5]
            else:
                step.kind = PRODUCT
                m = &step.matrices
                m.gemm = <void*><size_t>s["gemm"]
                m.is_single, m.size = s["is_single"], s["size"]
                m.stacked = len(s["stack"])
                for d in range(m.stacked):
                    m.stack[d], m.x_steps[d], m.y_steps[d] = s["stack"][d], s["x_steps"][d], s["y_steps"][d]
                m.rows, m.depth, m.columns = s["sizes"]
                m.x_down, m.x_right, m.y_down, m.y_right = s["strides"]

    cdef bint do(self, int begin, int end, char** table) noexcept nogil:
        """Whether all steps were done, and no check has failed."""
        cdef char* data[MOST]
        cdef Step* step
        cdef int k, j, buffer
        for k in range(begin, end):
            step = &self.steps[k]
            for j in range(step.pointers):
                buffer = self.buffers[step.first + j]
                data[j] = NULL if buffer < 0 else table[buffer] + self.offsets[step.first + j]
            if step.kind == LOOP:
                _loop(step, data)
            elif step.kind == PRODUCT:
                _product(step, data)
            elif step.kind == ENTRY:
                step.entry(step.task, data)
            elif step.kind == REPEAT:
                if not self.repeat(step, table):
                    return False
            elif step.kind == CHECK:
                if data[0][0]:
                    return False
            else:
                memset(data[0], 0, step.units)
        return True

    cdef bint repeat(self, Step* step, char** table) noexcept nogil:
        cdef Py_ssize_t i
        cdef Move* move
        cdef int j
        for i in range(step.units):
            for j in range(step.moves):
                move = &step.moved[j]
                if move.other >= 0 and i & 1:
                    table[move.target] = table[move.other] + move.other_offset
                else:
                    table[move.target] = table[move.source] + move.offset + i * move.stride
            if not self.do(step.begin, step.end, table):
                return False
        return True


cdef list _arenas = []  # memory that no run uses, and that the next one may: programs run one after the other
cdef Py_ssize_t _machines = 0


cdef np.ndarray _arena(Py_ssize_t size):
    """Memory of at least this size."""
    cdef np.ndarray memory
    cdef Py_ssize_t k
    while _arenas:
        memory = _arenas.pop()
        if np.PyArray_SIZE(memory) >= size:
            return memory
    memory = numpy.empty(size + LINE, numpy.uint8)
    k = <Py_ssize_t>np.PyArray_DATA(memory) & (LINE - 1)
    return memory[(LINE - k) & (LINE - 1) :]


cdef class Frame:
    def __init__(self, Machine machine):
        self.table = <char**>malloc(machine.buffers * sizeof(char*))
        if self.table == NULL:
            raise MemoryError
        self.arrays = [None] * machine.buffers
        self.views, self.residuals = {}, {}
        for index, array in machine.constants:
            self.hold(index, array)

    def __dealloc__(self):
        free(self.table)

    cpdef void hold(self, Py_ssize_t index, np.ndarray array) except *:
        self.arrays[index] = array
        self.table[index] = <char*>np.PyArray_DATA(array)


cdef class Machine:
    def __init__(self, arena, buffers, constants, given, results, outputs, segments, steps, call):
        self.arena, self.buffers, self.constants, self.given = arena, buffers, constants, given
        self.results, self.outputs, self.segments, self.steps, self.call = results, outputs, segments, steps, call
        self.frames = []
        global _machines
        _machines += 1

    def __dealloc__(self):
        global _machines
        _machines -= 1
        if not _machines and _arenas is not None:
            _arenas.clear()

    def run(self, list arrays):
        """The outputs for arrays that are given: new arrays, or donated ones; None if a check has failed."""
        cdef Frame frame
        cdef bint is_done = True
        cdef Py_ssize_t k = self.given
        cdef np.npy_intp shape[64]
        cdef int d, begin, end
        cdef Steps steps = self.steps
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = Frame(self)
        frame.hold(0, _arena(self.arena))
        for a in arrays:
            if not (np.PyArray_CheckExact(a) and np.PyArray_ISBEHAVED_RO(<np.ndarray>a) and np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>a)):
                a = numpy.ascontiguousarray(a)
            frame.hold(k, <np.ndarray>a)
            k += 1
        for index, dtype, sizes, donor in self.results:
            if donor >= 0 and np.PyArray_ISWRITEABLE(<np.ndarray>frame.arrays[self.given + donor]):
                frame.hold(index, frame.arrays[self.given + donor])
                continue
            for d in range(len(<tuple>sizes)):
                shape[d] = sizes[d]
            frame.hold(index, new_array(dtype, len(<tuple>sizes), shape, NULL))
        for segment in self.segments:
            if type(segment) is tuple:
                begin, end = segment
                with nogil:
                    is_done = steps.do(begin, end, frame.table)
                PyErr_CheckSignals()
                if not is_done:
                    break
            else:
                self.call(segment, frame)
        found = [frame.arrays[index] for index in self.outputs] if is_done else None
        if not is_done:
            frame.residuals.clear()
        _arenas.append(frame.arrays[0])
        frame.views.clear()
        frame.arrays[0] = None
        for k in range(self.given, self.buffers):
            frame.arrays[k] = None
        self.frames.append(frame)
        return found
