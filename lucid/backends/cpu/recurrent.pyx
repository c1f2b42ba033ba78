# cython: boundscheck=False, wraparound=False, cdivision=True
"""The steps of recurrent layers as loops: products of the state with the weights, and all that follows them.

Sequences are independent of each other, so threads share them out and each runs all steps of its own. Elementwise
loops go over one row at a time, which stays in the nearest cache, and have few operands each: compilers vectorize those.
"""

cimport numpy as np
from libc.string cimport memcpy

import numpy as np

from lucid.backends.cpu.scalar_math cimport real, sigmoid, tanh
from lucid.backends.cpu.microkernel cimport aligned, pack, rows_by_panel

from lucid.backends.cpu.parallel import in_parts

np.import_array()

# Columns of a panel: such that a tile has eight rows where there are registers enough, for the weights are read once for
# each tile.
cdef extern from *:
    """
    #if defined(__AVX512F__)
    #define LUCID_CELL_COLUMNS 32
    #elif defined(__AVX__)
    #define LUCID_CELL_COLUMNS 24
    #elif defined(__aarch64__)
    #define LUCID_CELL_COLUMNS 12
    #else
    #define LUCID_CELL_COLUMNS 16
    #endif
    """
    enum:
        COLUMNS "LUCID_CELL_COLUMNS"

cdef enum:
    SHARE = 4  # Threads get sequences by so many, the rows of the largest tile.

cdef enum Cell:
    TANH, RELU, LSTM, GRU

CELLS = {"tanh": (TANH, 1), "relu": (RELU, 1), "lstm": (LSTM, 4), "gru": (GRU, 3)}  # with their numbers of gates

cdef struct Rows:
    char* start
    Py_ssize_t stride  # in bytes

# A matrix in panels of COLUMNS columns, the last one filled up with zeros.
cdef struct Panels:
    char* start
    Py_ssize_t count, depth


cdef inline void* at(Rows rows, Py_ssize_t row) noexcept nogil:
    return rows.start + row * rows.stride


cdef Rows rows_of(np.ndarray x):
    return Rows(<char*>np.PyArray_DATA(x), x.shape[1] * x.itemsize)


# --- products ------------------------------------------------------------------------------------


cdef void multiply(const real* x, Py_ssize_t stride, Py_ssize_t n, Panels panels, real* out) noexcept nogil:
    """n rows of x, `stride` apart, by a matrix; those of the result are as long as all panels."""
    cdef Py_ssize_t p, depth = panels.depth, width = panels.count * COLUMNS
    cdef const real* w = <real*>panels.start
    for p in range(panels.count):
        rows_by_panel(x, stride, 1, n, w, depth, NULL, 0, out, width, COLUMNS, COLUMNS)
        w += depth * COLUMNS
        out += COLUMNS


# --- one row of a step ---------------------------------------------------------------------------


cdef inline void copy(real* out, const real* x, Py_ssize_t n) noexcept nogil:
    memcpy(out, x, n * sizeof(real))


cdef inline void add(real* out, const real* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] += x[j]


cdef inline void add_both(real* out, const real* x, const real* y, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] += x[j] + y[j]


cdef inline void apply_sigmoid(real* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        x[j] = sigmoid(x[j])


cdef inline void apply_tanh(real* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        x[j] = tanh(x[j])


cdef void plain(Cell cell, real* z, const real* product, const real* bias, real* out, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t j
    add_both(z, product, bias, size)
    if cell == RELU:
        for j in range(size):
            z[j] = 0 if z[j] < 0 else z[j]
    else:
        apply_tanh(z, size)
    copy(out, z, size)


cdef void plain_back(Cell cell, const real* y, const real* dy, real* dz, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t j
    if cell == RELU:
        for j in range(size):
            dz[j] = dy[j] if y[j] > 0 else 0
    else:
        for j in range(size):
            dz[j] = dy[j] * (<real>1 - y[j] * y[j])


cdef void lstm(
    real* z, real* kept, const real* product, const real* bias, real* c, real* out, Py_ssize_t size
) noexcept nogil:
    cdef real* i = z
    cdef real* f = z + size
    cdef real* g = z + 2 * size
    cdef real* o = z + 3 * size
    cdef real* after = kept + size
    cdef Py_ssize_t j
    add_both(z, product, bias, 4 * size)
    apply_sigmoid(i, 2 * size)
    apply_tanh(g, size)
    apply_sigmoid(o, size)
    copy(kept, c, size)
    for j in range(size):
        c[j] = f[j] * c[j] + i[j] * g[j]
    copy(after, c, size)
    apply_tanh(after, size)
    for j in range(size):
        out[j] = o[j] * after[j]


cdef void lstm_back(
    const real* z, const real* kept, const real* dy, real* dc, real* dz, Py_ssize_t size
) noexcept nogil:
    cdef const real* i = z
    cdef const real* f = z + size
    cdef const real* g = z + 2 * size
    cdef const real* o = z + 3 * size
    cdef const real* before = kept
    cdef const real* after = kept + size
    cdef Py_ssize_t j
    for j in range(size):
        dz[3 * size + j] = dy[j] * after[j] * (o[j] * (<real>1 - o[j]))
    for j in range(size):
        dc[j] += dy[j] * o[j] * (<real>1 - after[j] * after[j])
    for j in range(size):
        dz[j] = dc[j] * g[j] * (i[j] * (<real>1 - i[j]))
    for j in range(size):
        dz[size + j] = dc[j] * before[j] * (f[j] * (<real>1 - f[j]))
    for j in range(size):
        dz[2 * size + j] = dc[j] * i[j] * (<real>1 - g[j] * g[j])
    for j in range(size):
        dc[j] *= f[j]


cdef void gru(
    real* gates, real* kept, const real* product, const real* bias, const real* h, real* out, Py_ssize_t size
) noexcept nogil:
    cdef real* r = gates
    cdef real* z = gates + size
    cdef real* n = gates + 2 * size
    cdef real* inner = kept
    cdef real* rest = kept + size
    cdef Py_ssize_t j
    add_both(gates, product, bias, 2 * size)
    apply_sigmoid(gates, 2 * size)
    for j in range(size):
        inner[j] = product[2 * size + j] + bias[3 * size + j]
    for j in range(size):
        n[j] += bias[2 * size + j] + r[j] * inner[j]
    apply_tanh(n, size)
    for j in range(size):
        rest[j] = h[j] - n[j]
    for j in range(size):
        out[j] = n[j] + z[j] * rest[j]


cdef void gru_back(const real* gates, const real* kept, real* dy, real* dz, Py_ssize_t size) noexcept nogil:
    cdef const real* r = gates
    cdef const real* z = gates + size
    cdef const real* n = gates + 2 * size
    cdef const real* inner = kept
    cdef const real* rest = kept + size
    cdef real* of_inner = dz + 2 * size
    cdef real* of_n = dz + 3 * size
    cdef Py_ssize_t j
    for j in range(size):
        of_n[j] = dy[j] * (<real>1 - z[j]) * (<real>1 - n[j] * n[j])
    for j in range(size):
        of_inner[j] = of_n[j] * r[j]
    for j in range(size):
        dz[j] = of_inner[j] * inner[j] * (<real>1 - r[j])
    for j in range(size):
        dz[size + j] = dy[j] * rest[j] * (z[j] * (<real>1 - z[j]))
    for j in range(size):
        dy[j] *= z[j]


# --- all steps -----------------------------------------------------------------------------------


cdef class Layer:
    """Where the numbers of a layer are; going back, results, states and memories stand for their cotangents."""

    cdef Cell cell
    cdef bint is_single
    cdef Py_ssize_t size, out_size, sequences, count
    cdef np.npy_intp* steps
    cdef Panels w, w_hr
    cdef Rows gates, kept, results, states, memories, of_gates, of_results
    cdef char* bias
    cdef object kind
    cdef list own

    def __init__(
        self, str cell, np.ndarray steps, w_hh, w_hr, np.ndarray gates, np.ndarray kept, results, np.ndarray states, memories
    ):
        self.cell, many = CELLS[cell]
        self.kind, self.own = gates.dtype, []
        self.is_single = np.PyArray_TYPE(gates) == np.NPY_FLOAT
        if not self.is_single and np.PyArray_TYPE(gates) != np.NPY_DOUBLE:
            raise TypeError(f"the loops of cells are for single and double precision, not {gates.dtype}")
        self.size = gates.shape[1] // many
        self.sequences, self.out_size = states.shape[0], states.shape[1]
        self.count, self.steps = steps.shape[0], <np.npy_intp*>np.PyArray_DATA(steps)
        self.w, self.w_hr = self.packed(w_hh), Panels(NULL, 0, 0) if w_hr is None else self.packed(w_hr)
        self.gates, self.kept = rows_of(gates), rows_of(kept)
        self.results, self.states, self.memories = rows_of(results), rows_of(states), rows_of(memories)

    cdef Panels packed(self, np.ndarray w):
        cdef Py_ssize_t down = w.strides[0] // w.itemsize, right = w.strides[1] // w.itemsize, columns = w.shape[1]
        cdef Panels panels = Panels(NULL, (columns + COLUMNS - 1) // COLUMNS, w.shape[0])
        panels.start = self.room(panels.count * panels.depth * COLUMNS)
        if self.is_single:
            pack(<float*>np.PyArray_DATA(w), down, right, panels.depth, columns, <float*>panels.start, COLUMNS)
        else:
            pack(<double*>np.PyArray_DATA(w), down, right, panels.depth, columns, <double*>panels.start, COLUMNS)
        return panels

    cdef char* room(self, Py_ssize_t size):
        """A place for so many numbers that lasts as long as the layer."""
        cdef np.ndarray made = aligned(size, self.kind)
        self.own.append(made)
        return <char*>np.PyArray_DATA(made)

    def run(self, Py_ssize_t first, Py_ssize_t last):
        """All steps of some sequences."""
        cdef Py_ssize_t n = last - first
        cdef char* product = self.room(n * self.w.count * COLUMNS)
        cdef char* whole = self.room(n * self.size)
        cdef char* projection = self.room(n * self.w_hr.count * COLUMNS)
        with nogil:
            if self.is_single:
                run(self, first, last, <float*>product, <float*>whole, <float*>projection)
            else:
                run(self, first, last, <double*>product, <double*>whole, <double*>projection)

    def run_back(self, Py_ssize_t first, Py_ssize_t last):
        """All steps of some sequences, from the last to the first."""
        cdef Py_ssize_t n = last - first
        cdef char* product = self.room(n * self.w.count * COLUMNS)
        cdef char* whole = self.room(n * self.w_hr.count * COLUMNS)
        with nogil:
            if self.is_single:
                run_back(self, first, last, <float*>product, <float*>whole)
            else:
                run_back(self, first, last, <double*>product, <double*>whole)


cdef void run(
    Layer a, Py_ssize_t first, Py_ssize_t last, real* product, real* whole, real* projection
) noexcept nogil:
    cdef real* h = <real*>at(a.states, first)
    cdef real* y
    cdef real* out
    cdef Py_ssize_t t, n, i, row, wide = a.w.count * COLUMNS, projected = a.w_hr.count * COLUMNS
    for t in range(a.count):
        row = a.steps[2 * t] + first
        n = min(a.steps[2 * t + 1], last) - first
        if n <= 0:
            continue
        y = <real*>at(a.results, row)
        multiply(h, a.out_size, n, a.w, product)
        for i in range(n):
            out = whole + i * a.size if projected else y + i * a.size
            run_cell(a, row + i, first + i, product + i * wide, out)
        if projected:
            multiply(whole, a.size, n, a.w_hr, projection)
            for i in range(n):
                copy(y + i * a.out_size, projection + i * projected, a.out_size)
        copy(h, y, n * a.out_size)


cdef inline void run_cell(Layer a, Py_ssize_t row, Py_ssize_t sequence, const real* product, real* out) noexcept nogil:
    cdef real* z = <real*>at(a.gates, row)
    cdef real* kept = <real*>at(a.kept, row)
    cdef real* bias = <real*>a.bias
    if a.cell == LSTM:
        lstm(z, kept, product, bias, <real*>at(a.memories, sequence), out, a.size)
    elif a.cell == GRU:
        gru(z, kept, product, bias, <real*>at(a.states, sequence), out, a.size)
    else:
        plain(a.cell, z, product, bias, out, a.size)


cdef void run_back(Layer a, Py_ssize_t first, Py_ssize_t last, real* product, real* whole) noexcept nogil:
    cdef real* dh = <real*>at(a.states, first)
    cdef Py_ssize_t t, n, i, row, wide = a.w.count * COLUMNS, projected = a.w_hr.count * COLUMNS
    for t in range(a.count - 1, -1, -1):
        row = a.steps[2 * t] + first
        n = min(a.steps[2 * t + 1], last) - first
        if n <= 0:
            continue
        add(dh, <real*>at(a.results, row), n * a.out_size)
        if projected:
            copy(<real*>at(a.of_results, row), dh, n * a.out_size)
            multiply(dh, a.out_size, n, a.w_hr, whole)
        for i in range(n):
            run_cell_back(a, row + i, first + i, whole + i * projected if projected else dh + i * a.out_size)
        multiply(<real*>at(a.of_gates, row), a.of_gates.stride // sizeof(real), n, a.w, product)
        for i in range(n):
            if a.cell == GRU:
                add(dh + i * a.out_size, product + i * wide, a.out_size)
            else:
                copy(dh + i * a.out_size, product + i * wide, a.out_size)


cdef inline void run_cell_back(Layer a, Py_ssize_t row, Py_ssize_t sequence, real* dy) noexcept nogil:
    cdef real* z = <real*>at(a.gates, row)
    cdef real* kept = <real*>at(a.kept, row)
    cdef real* dz = <real*>at(a.of_gates, row)
    if a.cell == LSTM:
        lstm_back(z, kept, dy, <real*>at(a.memories, sequence), dz, a.size)
    elif a.cell == GRU:
        gru_back(z, kept, dy, dz, a.size)
    else:
        plain_back(a.cell, z, dy, dz, a.size)


cdef in_shares(work, Py_ssize_t sequences, multiplications):
    """Call work(first, last) on ranges that together cover the sequences, in several threads if that pays."""
    in_parts(
        lambda some: work(some.start * SHARE, min(some.stop * SHARE, sequences)),
        (sequences + SHARE - 1) // SHARE,
        multiplications,
    )


def forward(cell, steps, gates, kept, np.ndarray bias, w_hh, w_hr, h, c, y):
    cdef Layer layer = Layer(cell, steps, w_hh.T, None if w_hr is None else w_hr.T, gates, kept, y, h, c)
    layer.bias = <char*>np.PyArray_DATA(bias)
    in_shares(layer.run, len(h), len(gates) * w_hh.size)


def backward(cell, steps, gates, kept, w_hh, w_hr, dy, dh, dc, dz, dr):
    cdef Layer layer = Layer(cell, steps, w_hh, w_hr, gates, kept, dy, dh, dc)
    layer.of_gates, layer.of_results = rows_of(dz), rows_of(dr)
    in_shares(layer.run_back, len(dh), len(gates) * w_hh.size)
