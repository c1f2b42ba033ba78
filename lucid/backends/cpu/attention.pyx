# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of attention.py as loops; see there what they do.

Scores and weights are kept transposed, keys by queries, with rows filled up to a whole number of panels: then the maxima
and sums of a softmax are those of many queries at once, element by element.
"""

cimport numpy as np
from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

import numpy as np

from lucid.backends.cpu.scalar_math cimport exp, real
from lucid.backends.cpu.thread_pool cimport pool_size, share
from lucid.backends.cpu.microkernel cimport aligned, pack, rows_by_panel

np.import_array()

cdef enum:
    COLUMNS = 32  # of a panel
    ALIASED = 256  # Rows of a multiple of so many numbers would share few places in the cache.
    GROUP = 8  # rows that are multiplied with the same terms
    MOST_PARTS = 1024
    LEAST_SHARED = 1 << 20  # multiplications by several threads
    PER_WEIGHT = 30  # A softmax takes the time of so many multiplications for each element.

cdef enum Terms:
    ALL
    UP_TO_ROW
    FROM_ROW

# Matrices in memory; distances are in elements.
cdef struct Stack:
    char* start
    Py_ssize_t heads, rows, columns
    Py_ssize_t by_batch, by_head, by_row


cdef Stack stack(np.ndarray x):
    cdef Py_ssize_t size = x.itemsize
    return Stack(
        <char*>np.PyArray_DATA(x), x.shape[1], x.shape[2], x.shape[3],
        x.strides[0] // size, x.strides[1] // size, x.strides[2] // size,
    )


cdef inline Py_ssize_t place(Stack x, Py_ssize_t head) noexcept nogil:
    return head // x.heads * x.by_batch + head % x.heads * x.by_head


cdef inline Py_ssize_t parts(Py_ssize_t n, Py_ssize_t most) noexcept nogil:
    return (n + most - 1) // most


cdef inline Py_ssize_t filled_up(Py_ssize_t columns) noexcept nogil:
    return parts(columns, COLUMNS) * COLUMNS


# --- products ------------------------------------------------------------------------------------


cdef void multiply(
    const real* x, Py_ssize_t down, Py_ssize_t right, Py_ssize_t n, const real* panels, Py_ssize_t depth,
    real* out, Py_ssize_t stride, Py_ssize_t columns, Terms terms, Py_ssize_t first,
) noexcept nogil:
    """n rows of x by a matrix in panels.

    If not all terms are wanted, other elements of x are 0 or left out; row i of x counts as row `first + i`.
    """
    cdef Py_ssize_t rows = n if terms == ALL else GROUP
    cdef Py_ssize_t panel, c, at, start, end
    for panel in range(parts(columns, COLUMNS)):
        c, at = panel * COLUMNS, 0
        while at < n:
            start = min(first + at, depth) if terms == FROM_ROW else 0
            end = min(first + at + rows, depth) if terms == UP_TO_ROW else depth
            rows_by_panel(
                x + at * down + start * right, down, right, min(rows, n - at), panels + c * depth + start * COLUMNS,
                end - start, NULL, 0, out + at * stride + c, stride, COLUMNS, columns - c,
            )
            at += rows


# --- softmax -------------------------------------------------------------------------------------


# How far apart the rows of a panel of scores are, from which one on they are hidden from some queries, how many some
# query sees, and up to where zeros follow, because tiles of products may reach so far.
cdef struct Panel:
    Py_ssize_t stride, diagonal, rows, end


cdef inline void hide(real* x, Panel panel, const real* order, real value) noexcept nogil:
    """Put a value where a query does not see a key, and zeros behind."""
    cdef Py_ssize_t j, i
    cdef real place
    for j in range(panel.diagonal, panel.rows):
        place = j - panel.diagonal
        for i in range(COLUMNS):
            x[j * panel.stride + i] = x[j * panel.stride + i] if order[i] >= place else value
    for j in range(panel.rows, panel.end):
        memset(x + j * panel.stride, 0, COLUMNS * sizeof(real))


cdef void softmax(real* x, Panel panel, const real* order) noexcept nogil:
    """Replace columns by their softmax, and by 0 where all of one is -inf."""
    cdef real most[COLUMNS]
    cdef real total[COLUMNS]
    cdef real* row
    cdef Py_ssize_t j, i
    for i in range(COLUMNS):
        most[i] = -INFINITY
        total[i] = 0
    hide(x, panel, order, <real>-INFINITY)
    for j in range(panel.rows):
        row = x + j * panel.stride
        for i in range(COLUMNS):
            most[i] = row[i] if row[i] > most[i] else most[i]
    for i in range(COLUMNS):
        most[i] = most[i] if -INFINITY < most[i] < INFINITY else 0
    for j in range(panel.rows):
        row = x + j * panel.stride
        for i in range(COLUMNS):
            row[i] = exp(row[i] - most[i])
        for i in range(COLUMNS):
            total[i] += row[i]
    for i in range(COLUMNS):
        total[i] = 0 if total[i] == 0 else <real>1 / total[i]
    for j in range(panel.rows):
        row = x + j * panel.stride
        for i in range(COLUMNS):
            row[i] *= total[i]


cdef void softmax_back(real* g, const real* y, Panel panel, const real* order, real scale) noexcept nogil:
    """Replace g, the cotangent of such a softmax y, by that of the scores."""
    cdef real mean[COLUMNS]
    cdef real* row
    cdef const real* weights
    cdef Py_ssize_t j, i
    for i in range(COLUMNS):
        mean[i] = 0
    hide(g, panel, order, <real>0)
    for j in range(panel.rows):
        row, weights = g + j * panel.stride, y + j * panel.stride
        for i in range(COLUMNS):
            mean[i] += row[i] * weights[i]
    for j in range(panel.rows):
        row, weights = g + j * panel.stride, y + j * panel.stride
        for i in range(COLUMNS):
            row[i] = (row[i] - mean[i]) * weights[i] * scale


# --- one head ------------------------------------------------------------------------------------


# Stacks of matrices that share their number of heads, and what to do with them: each part is some heads, each thread has
# room of its own.
cdef struct Heads:
    Stack q, k, v, out, g, dq, dk, dv
    char* p
    char* room
    Py_ssize_t width, count, parts, room_size
    double scale
    int threads  # for which there is room
    bint causal, is_single, is_back, is_shared


cdef Heads heads_of(np.ndarray q, np.ndarray k, np.ndarray v, double scale, bint causal, bint is_back):
    cdef Heads a
    cdef double weights
    memset(&a, 0, sizeof(Heads))
    a.q, a.k, a.v = stack(q), stack(k), stack(v)
    a.scale, a.causal, a.is_back = scale, causal, is_back
    a.width = filled_up(a.q.rows)
    if a.width % ALIASED == 0:
        a.width += COLUMNS
    a.count = q.shape[0] * q.shape[1]
    a.parts = min(a.count, MOST_PARTS)
    a.is_single = np.PyArray_TYPE(q) == np.NPY_FLOAT
    # The number of multiplications for each weight.
    weights = <double>a.count * a.q.rows * a.k.rows * (0.5 if causal else 1)
    a.is_shared = weights * ((2 if is_back else 1) * (a.q.columns + a.v.columns) + PER_WEIGHT) > LEAST_SHARED
    return a


cdef Heads forward_heads(np.ndarray q, np.ndarray k, np.ndarray v, np.ndarray out, double scale, bint causal):
    cdef Heads a = heads_of(q, k, v, scale, causal, False)
    a.out = stack(out)
    a.room_size = COLUMNS + a.q.columns * a.width + a.k.rows * (filled_up(a.v.columns) + COLUMNS)
    return a


cdef Heads backward_heads(np.ndarray g, np.ndarray q, np.ndarray k, np.ndarray v, dq, dk, dv, double scale, bint causal):
    cdef Heads a = heads_of(q, k, v, scale, causal, True)
    cdef Py_ssize_t size = filled_up(a.q.columns), values = filled_up(a.v.columns)
    a.g = stack(g)
    if dq is not None:
        a.dq = stack(dq)
    if dk is not None:
        a.dk = stack(dk)
    if dv is not None:
        a.dv = stack(dv)
    a.room_size = COLUMNS + (a.k.rows + a.v.columns) * a.width + a.k.rows * size + a.q.rows * max(size, values)
    return a


cdef void some_heads(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Heads* a = <Heads*>task
    cdef Py_ssize_t first = a.count * part // a.parts, last = a.count * (part + 1) // a.parts
    if a.is_single:
        if a.is_back:
            run_back(a, first, last, <float*>a.room + who * a.room_size)
        else:
            run(a, first, last, <float*>a.room + who * a.room_size)
    elif a.is_back:
        run_back(a, first, last, <double*>a.room + who * a.room_size)
    else:
        run(a, first, last, <double*>a.room + who * a.room_size)


cdef void all_heads(const void* task, char** data) noexcept nogil:
    """The entry point: q, k, v, p, the result, its cotangent, dq, dk, dv, and room."""
    cdef Heads a = (<const Heads*>task)[0]
    a.q.start, a.k.start, a.v.start, a.p, a.out.start = data[0], data[1], data[2], data[3], data[4]
    a.g.start, a.dq.start, a.dk.start, a.dv.start, a.room = data[5], data[6], data[7], data[8], data[9]
    share(some_heads, &a, a.parts, min(pool_size(), a.threads) if a.is_shared else 1)


cdef do_heads(Heads* a, tuple arrays, kind):
    """Do the work of all heads now."""
    cdef char* data[10]
    cdef int i
    a.threads = pool_size()
    cdef np.ndarray room = aligned((a.threads if a.is_shared else 1) * a.room_size, kind)
    for i in range(9):
        data[i] = NULL if arrays[i] is None else np.PyArray_BYTES(arrays[i])
    data[9] = np.PyArray_BYTES(room)
    with nogil:
        all_heads(a, data)


cdef entry(Heads* a, threads):
    a.threads = threads
    return <size_t><void*>all_heads, (<char*>a)[: sizeof(Heads)], (threads if a.is_shared else 1) * a.room_size


cdef inline Panel panel_at(Heads* a, Py_ssize_t c, Py_ssize_t stride) noexcept nogil:
    """The keys that count for the queries from c on."""
    cdef Py_ssize_t keys = a.k.rows
    if not a.causal:
        return Panel(stride, keys, keys, keys)
    return Panel(stride, min(c, keys), min(c + COLUMNS, keys), min(c + 2 * COLUMNS, keys))


cdef inline void count_up(real* order) noexcept nogil:
    cdef int i
    for i in range(COLUMNS):
        order[i] = i


cdef void run(Heads* a, Py_ssize_t first, Py_ssize_t last, real* room) noexcept nogil:
    cdef Py_ssize_t n, part, c, j, size = a.q.columns
    cdef Terms terms = UP_TO_ROW if a.causal else ALL
    cdef real scale = a.scale
    cdef real* order = room
    cdef real* weights = order + COLUMNS  # of one panel, without gaps
    cdef real* queries = weights + a.k.rows * COLUMNS
    cdef real* values = queries + size * a.width
    cdef const real* k
    cdef real* out
    cdef real* p
    cdef Panel panel
    count_up(order)
    for n in range(first, last):
        k = <real*>a.k.start + place(a.k, n)
        out = <real*>a.out.start + place(a.out, n)
        p = <real*>a.p + n * a.k.rows * a.width
        pack(<real*>a.q.start + place(a.q, n), 1, a.q.by_row, size, a.q.rows, queries, COLUMNS)
        for j in range(size * filled_up(a.q.rows)):
            queries[j] *= scale
        pack(<real*>a.v.start + place(a.v, n), a.v.by_row, 1, a.v.rows, a.v.columns, values, COLUMNS)
        for part in range(parts(a.q.rows, COLUMNS)):
            c = part * COLUMNS
            panel = panel_at(a, c, COLUMNS)
            multiply(k, a.k.by_row, 1, panel.rows, queries + c * size, size, weights, COLUMNS, COLUMNS, ALL, 0)
            softmax(weights, panel, order)
            multiply(
                weights, 1, COLUMNS, min(COLUMNS, a.q.rows - c), values, a.k.rows,
                out + c * a.out.by_row, a.out.by_row, a.v.columns, terms, c,
            )
            for j in range(panel.end):
                memcpy(p + j * a.width + c, weights + j * COLUMNS, COLUMNS * sizeof(real))


cdef void run_back(Heads* a, Py_ssize_t first, Py_ssize_t last, real* room) noexcept nogil:
    cdef Py_ssize_t n, size = filled_up(a.q.columns)
    cdef Terms terms = FROM_ROW if a.causal else ALL
    cdef real* ds = room + COLUMNS
    cdef real* cotangents = ds + a.k.rows * a.width
    cdef real* keys = cotangents + a.v.columns * a.width
    cdef real* other = keys + a.k.rows * size
    cdef const real* q
    cdef const real* g
    cdef const real* p
    count_up(room)
    for n in range(first, last):
        q = <real*>a.q.start + place(a.q, n)
        g = <real*>a.g.start + place(a.g, n)
        p = <real*>a.p + n * a.k.rows * a.width
        if a.dq.start != NULL or a.dk.start != NULL:
            scores_back(a, n, g, p, ds, cotangents, keys, room)
        if a.dk.start != NULL:
            pack(q, a.q.by_row, 1, a.q.rows, a.q.columns, other, COLUMNS)
            multiply(
                ds, a.width, 1, a.k.rows, other, a.q.rows,
                <real*>a.dk.start + place(a.dk, n), a.dk.by_row, a.q.columns, terms, 0,
            )
        if a.dv.start != NULL:
            pack(g, a.g.by_row, 1, a.q.rows, a.v.columns, other, COLUMNS)
            multiply(
                p, a.width, 1, a.k.rows, other, a.q.rows,
                <real*>a.dv.start + place(a.dv, n), a.dv.by_row, a.v.columns, terms, 0,
            )


cdef void scores_back(
    Heads* a, Py_ssize_t n, const real* g, const real* p, real* ds, real* cotangents, real* keys, const real* order
) noexcept nogil:
    """The cotangent of the scores of a head, and that of its queries."""
    cdef Py_ssize_t part, c
    cdef Terms terms = UP_TO_ROW if a.causal else ALL
    cdef const real* v = <real*>a.v.start + place(a.v, n)
    cdef Panel panel
    pack(g, 1, a.g.by_row, a.v.columns, a.q.rows, cotangents, COLUMNS)
    if a.dq.start != NULL:
        pack(<real*>a.k.start + place(a.k, n), a.k.by_row, 1, a.k.rows, a.k.columns, keys, COLUMNS)
    for part in range(parts(a.q.rows, COLUMNS)):
        c = part * COLUMNS
        panel = panel_at(a, c, a.width)
        multiply(
            v, a.v.by_row, 1, panel.rows, cotangents + c * a.v.columns, a.v.columns, ds + c, a.width, COLUMNS, ALL, 0
        )
        softmax_back(ds + c, p + c, panel, order, <real>a.scale)
        if a.dq.start != NULL:
            multiply(
                ds + c, 1, a.width, min(COLUMNS, a.q.rows - c), keys, a.k.rows,
                <real*>a.dq.start + place(a.dq, n) + c * a.dq.by_row, a.dq.by_row, a.q.columns, terms, c,
            )


# --- all heads -----------------------------------------------------------------------------------


cdef np.ndarray in_rows(np.ndarray x):
    """An array whose rows can be read as they lie, or a copy of which that is true."""
    cdef Py_ssize_t size = x.itemsize
    if x.strides[3] == size and x.strides[0] % size == x.strides[1] % size == x.strides[2] % size == 0:
        return x
    return np.ascontiguousarray(x)


cdef np.ndarray side_by_side(np.ndarray x, Py_ssize_t rows, Py_ssize_t columns):
    """Memory for a result: the heads of a position beside each other."""
    cdef np.npy_intp[4] shape = [x.shape[0], rows, x.shape[1], columns]
    return np.PyArray_EMPTY(4, shape, np.PyArray_TYPE(x), 0).swapaxes(1, 2)


def forward(np.ndarray q, np.ndarray k, np.ndarray v, double scale, bint causal):
    q, k, v = in_rows(q), in_rows(k), in_rows(v)
    cdef np.ndarray out = side_by_side(q, q.shape[2], v.shape[3])
    cdef Heads heads = forward_heads(q, k, v, out, scale, causal)
    cdef np.ndarray p = aligned(heads.count * k.shape[2] * heads.width, q.dtype)
    do_heads(&heads, (q, k, v, p, out, None, None, None, None), q.dtype)
    return out, p


def backward(np.ndarray g, np.ndarray q, np.ndarray k, np.ndarray v, np.ndarray p, double scale, bint causal, needs):
    g, q, k, v = in_rows(g), in_rows(q), in_rows(k), in_rows(v)
    dq, dk, dv = [
        side_by_side(x, x.shape[2], x.shape[3]) if need else None for x, need in zip((q, k, v), needs, strict=True)
    ]
    cdef Heads heads = backward_heads(g, q, k, v, dq, dk, dv, scale, causal)
    do_heads(&heads, (q, k, v, p, None, g, dq, dk, dv), q.dtype)
    return dq, dk, dv


def forward_entry(np.ndarray q, np.ndarray k, np.ndarray v, np.ndarray out, double scale, bint causal, threads):
    cdef Heads heads = forward_heads(q, k, v, out, scale, causal)
    return *entry(&heads, threads), heads.count * k.shape[2] * heads.width


def backward_entry(np.ndarray g, np.ndarray q, np.ndarray k, np.ndarray v, dq, dk, dv, double scale, bint causal, threads):
    cdef Heads heads = backward_heads(g, q, k, v, dq, dk, dv, scale, causal)
    return entry(&heads, threads)
