# cython: boundscheck=False, wraparound=False, cdivision=True
"""The steps of recurrent layers as loops: products of the state with the weights, and all that follows them.

Sequences are independent of each other, so threads share them out and each runs all steps of its own. Elementwise
loops go over one row at a time, which stays in the nearest cache, and have few operands each: compilers vectorize those.
"""

cimport numpy as np
from libc.string cimport memcpy, memset

import numpy as np

from lucid.backends.cpu.scalar_math cimport real, sigmoid, tanh
from lucid.backends.cpu.microkernel cimport aligned, pack, rows_by_panel
from lucid.backends.cpu.thread_pool cimport pool_size, share

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
    LEAST_SHARED = 10_000_000  # multiplications, which take about twice as long as waking a thread

cdef enum Cell:
    TANH, RELU, LSTM, GRU

CELLS = {"tanh": (TANH, 1), "relu": (RELU, 1), "lstm": (LSTM, 4), "gru": (GRU, 3)}  # with their numbers of gates

cdef struct Rows:
    char* start
    Py_ssize_t stride  # in bytes

# A matrix in panels of COLUMNS columns, the last one filled up with zeros.
cdef struct Panels:
    char* start
    Py_ssize_t columns, count, depth


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


# Where the numbers of a layer are; going back, results, states and memories stand for their cotangents.
cdef struct Layer:
    Cell cell
    bint is_single, is_back, is_shared
    Py_ssize_t size, out_size, sequences, count, parts
    np.npy_intp* steps
    Panels w, w_hr
    Rows gates, kept, results, states, memories, of_gates, of_results
    char* bias
    char* products  # of each sequence with the weights
    char* whole  # its result before it is projected, or that result's cotangent
    char* projections


cdef Layer layer_of(
    str cell, np.ndarray steps, np.ndarray w_hh, w_hr, np.ndarray gates, np.ndarray kept, np.ndarray results,
    np.ndarray states, np.ndarray memories, of_gates, of_results,
):
    cdef Layer a
    memset(&a, 0, sizeof(Layer))
    a.cell, many = CELLS[cell]
    a.is_single, a.is_back = np.PyArray_TYPE(gates) == np.NPY_FLOAT, of_gates is not None
    if not a.is_single and np.PyArray_TYPE(gates) != np.NPY_DOUBLE:
        raise TypeError(f"the loops of cells are for single and double precision, not {gates.dtype}")
    a.size = gates.shape[1] // many
    a.sequences, a.out_size, a.count = states.shape[0], states.shape[1], steps.shape[0]
    a.parts = (a.sequences + SHARE - 1) // SHARE
    a.is_shared = gates.shape[0] * <double>w_hh.size > LEAST_SHARED
    # Going forward, states are multiplied by transposed weights.
    a.w = panels_of(w_hh, a.is_back)
    if w_hr is not None:
        a.w_hr = panels_of(w_hr, a.is_back)
    a.gates, a.kept, a.results = rows_of(gates), rows_of(kept), rows_of(results)
    a.states, a.memories = rows_of(states), rows_of(memories)
    if a.is_back:
        a.of_gates, a.of_results = rows_of(of_gates), rows_of(of_results)
    return a


cdef Panels panels_of(np.ndarray w, bint is_back):
    cdef Py_ssize_t columns = w.shape[1 if is_back else 0]
    return Panels(NULL, columns, (columns + COLUMNS - 1) // COLUMNS, w.shape[0 if is_back else 1])


cdef inline Py_ssize_t size_of(Panels panels) noexcept nogil:
    return panels.count * panels.depth * COLUMNS


cdef Py_ssize_t room_of(Layer* a) noexcept nogil:
    """The numbers of all panels, and of what belongs to sequences."""
    cdef Py_ssize_t each = (a.w.count + a.w_hr.count) * COLUMNS + (0 if a.is_back else a.size)
    return size_of(a.w) + size_of(a.w_hr) + a.sequences * each


cdef void run_layer(const void* task, char** data) noexcept nogil:
    """The entry point: steps, gates, kept, results, states, memories, bias, of_gates, of_results, weights, w_hr, room."""
    cdef Layer a = (<const Layer*>task)[0]
    a.steps = <np.npy_intp*>data[0]
    a.gates.start, a.kept.start, a.results.start, a.states.start, a.memories.start = data[1], data[2], data[3], data[4], data[5]
    a.bias, a.of_gates.start, a.of_results.start = data[6], data[7], data[8]
    if a.is_single:
        lay_out(&a, <float*>data[9], <float*>data[10], <float*>data[11])
    else:
        lay_out(&a, <double*>data[9], <double*>data[10], <double*>data[11])
    cdef int threads = pool_size() if a.is_shared else 1
    a.parts = min(a.parts, threads)
    share(run_part, &a, a.parts, threads)


cdef inline real* put(const real* w, Panels* panels, bint is_back, real* room) noexcept nogil:
    """Put a matrix in row-major order, or, going forward, its transpose, into panels; gives where the next begin."""
    panels.start = <char*>room
    if is_back:
        pack(w, panels.columns, 1, panels.depth, panels.columns, room, COLUMNS)
    else:
        pack(w, 1, panels.depth, panels.depth, panels.columns, room, COLUMNS)
    return room + size_of(panels[0])


cdef void lay_out(Layer* a, const real* w, const real* w_hr, real* room) noexcept nogil:
    """Put weights into panels, and give everything its room."""
    room = put(w, &a.w, a.is_back, room)
    if a.w_hr.count:
        room = put(w_hr, &a.w_hr, a.is_back, room)
    a.products = <char*>room
    a.projections = <char*>(room + a.sequences * a.w.count * COLUMNS)
    a.whole = a.projections
    if not a.is_back:
        a.whole += a.sequences * a.w_hr.count * COLUMNS * sizeof(real)


cdef void run_part(void* task, Py_ssize_t part, int who) noexcept nogil:
    """All steps of some sequences; going back, from the last to the first."""
    cdef Layer* a = <Layer*>task
    cdef Py_ssize_t shares = (a.sequences + SHARE - 1) // SHARE
    cdef Py_ssize_t first = shares * part // a.parts * SHARE
    cdef Py_ssize_t last = min(shares * (part + 1) // a.parts * SHARE, a.sequences)
    if a.is_single:
        if a.is_back:
            run_back(a, first, last, <float*>a.products, <float*>a.whole)
        else:
            run(a, first, last, <float*>a.products, <float*>a.whole, <float*>a.projections)
    elif a.is_back:
        run_back(a, first, last, <double*>a.products, <double*>a.whole)
    else:
        run(a, first, last, <double*>a.products, <double*>a.whole, <double*>a.projections)


cdef void run(
    Layer* a, Py_ssize_t first, Py_ssize_t last, real* product, real* whole, real* projection
) noexcept nogil:
    cdef real* h = <real*>at(a.states, first)
    cdef real* y
    cdef real* out
    cdef Py_ssize_t t, n, i, row, wide = a.w.count * COLUMNS, projected = a.w_hr.count * COLUMNS
    product += first * wide
    whole += first * a.size
    projection += first * projected
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


cdef inline void run_cell(Layer* a, Py_ssize_t row, Py_ssize_t sequence, const real* product, real* out) noexcept nogil:
    cdef real* z = <real*>at(a.gates, row)
    cdef real* kept = <real*>at(a.kept, row)
    cdef real* bias = <real*>a.bias
    if a.cell == LSTM:
        lstm(z, kept, product, bias, <real*>at(a.memories, sequence), out, a.size)
    elif a.cell == GRU:
        gru(z, kept, product, bias, <real*>at(a.states, sequence), out, a.size)
    else:
        plain(a.cell, z, product, bias, out, a.size)


cdef void run_back(Layer* a, Py_ssize_t first, Py_ssize_t last, real* product, real* whole) noexcept nogil:
    cdef real* dh = <real*>at(a.states, first)
    cdef Py_ssize_t t, n, i, row, wide = a.w.count * COLUMNS, projected = a.w_hr.count * COLUMNS
    product += first * wide
    whole += first * projected
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


cdef inline void run_cell_back(Layer* a, Py_ssize_t row, Py_ssize_t sequence, real* dy) noexcept nogil:
    cdef real* z = <real*>at(a.gates, row)
    cdef real* kept = <real*>at(a.kept, row)
    cdef real* dz = <real*>at(a.of_gates, row)
    if a.cell == LSTM:
        lstm_back(z, kept, dy, <real*>at(a.memories, sequence), dz, a.size)
    elif a.cell == GRU:
        gru_back(z, kept, dy, dz, a.size)
    else:
        plain_back(a.cell, z, dy, dz, a.size)


cdef entry_of(Layer* a):
    return <size_t><void*>run_layer, (<char*>a)[: sizeof(Layer)], room_of(a)


cdef do_layer(Layer* a, tuple arrays, kind):
    cdef char* data[12]
    cdef int i
    cdef np.ndarray room = aligned(room_of(a), kind)
    for i in range(11):
        data[i] = NULL if arrays[i] is None else np.PyArray_BYTES(arrays[i])
    data[11] = np.PyArray_BYTES(room)
    with nogil:
        run_layer(a, data)


def forward(cell, steps, gates, kept, bias, w_hh, w_hr, h, c, y):
    cdef Layer layer = layer_of(cell, steps, w_hh, w_hr, gates, kept, y, h, c, None, None)
    do_layer(&layer, (steps, gates, kept, y, h, c, bias, None, None, w_hh, w_hr), gates.dtype)


def backward(cell, steps, gates, kept, w_hh, w_hr, dy, dh, dc, dz, dr):
    cdef Layer layer = layer_of(cell, steps, w_hh, w_hr, gates, kept, dy, dh, dc, dz, dr)
    do_layer(&layer, (steps, gates, kept, dy, dh, dc, None, dz, dr, w_hh, w_hr), gates.dtype)


def forward_entry(cell, steps, gates, kept, w_hh, w_hr, h, c, y):
    cdef Layer layer = layer_of(cell, steps, w_hh, w_hr, gates, kept, y, h, c, None, None)
    return entry_of(&layer)


def backward_entry(cell, steps, gates, kept, w_hh, w_hr, dy, dh, dc, dz, dr):
    cdef Layer layer = layer_of(cell, steps, w_hh, w_hr, gates, kept, dy, dh, dc, dz, dr)
    return entry_of(&layer)
