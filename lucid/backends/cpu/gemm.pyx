# cython: boundscheck=False, wraparound=False, cdivision=True
"""The products of gemm.py in loops.

The columns of the second matrix are copied into panels, and each is multiplied with all rows of the first one while it is
in the cache. Of the first one, rows whose elements do not lie side by side are copied into tiles. BLAS copies both matrices
always, which takes its time where they are not large, and divides a product evenly among its threads, so that all wait for
the slowest.
"""

cimport numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport pool_size, share
from lucid.backends.cpu.microkernel cimport DEPTH, LINE, LUCID_PANEL, LUCID_ROWS, pack, pack_rows, rows_by_panel

np.import_array()

# The largest products for which this was found to be faster than BLAS: in one thread, and in several.
cdef extern from *:
    """
    #if defined(__AVX512F__)
    #define LUCID_MOST_ALONE (1ll << 27)
    #define LUCID_MOST_SHARED (1ll << 31)
    #elif defined(__AVX2__)
    #define LUCID_MOST_ALONE (1ll << 24)
    #define LUCID_MOST_SHARED (1ll << 31)
    #elif defined(__ARM_NEON)
    #define LUCID_MOST_ALONE (1ll << 24)
    #define LUCID_MOST_SHARED (1ll << 24)
    #else
    #define LUCID_MOST_ALONE 0
    #define LUCID_MOST_SHARED 0
    #endif
    """
    const long long LUCID_MOST_ALONE, LUCID_MOST_SHARED

cdef enum:
    ROWS = 42  # of a part
    SETS = 2048  # bytes: rows that are a multiple of this apart get into each other's way in the cache
    LEAST = 1 << 15  # multiplications
    LEAST_IN_STACK = 1 << 14  # for each matrix
    LEAST_SHARED = 1 << 21  # by several threads
    MOST_KEPT = 1 << 26  # bytes of panels
    MOST_DIMS = 64

# One product, or a stack of them. `kept` are the elements of panels of a thread, after which there is room for its tiles;
# for each of its panels it remembers from which matrix that is, counting from 1.
cdef struct Product:
    char* x
    char* y
    char* bias
    char* out
    char* room
    Py_ssize_t* sources
    Py_ssize_t* stack
    Py_ssize_t* x_steps
    Py_ssize_t* y_steps
    Py_ssize_t x_down, x_right, y_down, y_right, rows, depth, columns, panel, panels, kept, own, parts
    int stacked
    bint by_panels, in_tiles, is_single


cdef inline void some_rows(
    Product* a, const real* x, const real* y, real* out, real* room, Py_ssize_t* sources, Py_ssize_t source,
    Py_ssize_t panel, Py_ssize_t panels, Py_ssize_t start, Py_ssize_t end,
) noexcept nogil:
    """Some rows of a result in some panels. Those are this thread's own, and made when they are needed first."""
    cdef int columns = LUCID_PANEL // sizeof(real)
    cdef int tile = LUCID_ROWS
    cdef Py_ssize_t p, c, i, wanted, step, depth, k = 0
    cdef const real* first
    cdef real* tiles = room + a.kept
    cdef real* target
    cdef real* w
    while k == 0 or k < a.depth:
        depth = min(a.depth - k, DEPTH)
        if a.in_tiles:
            pack_rows(x + start * a.x_down + k * a.x_right, a.x_down, a.x_right, end - start, depth, tiles, tile)
        for p in range(panel, panel + panels):
            c = p * columns
            wanted = a.columns - c
            target = out + start * a.columns + c
            w = room + (0 if a.by_panels else c * a.depth)
            if k == 0:
                if sources[p] != source:
                    pack(y + c * a.y_right, a.y_down, a.y_right, a.depth, min(wanted, columns), w, columns)
                    sources[p] = 0 if a.by_panels else source
                first, step = NULL if a.bias == NULL else <real*>a.bias + c, 0
            elif wanted >= columns:
                first, step = target, a.columns
            else:
                continue  # Parts of panels are summed over the whole depth.
            if a.in_tiles and wanted >= columns:
                i = 0
                while i < end - start:
                    rows_by_panel(
                        tiles + i * depth, 1, tile, min(<Py_ssize_t>tile, end - start - i), w + k * columns, depth,
                        NULL if first == NULL else first + i * step, step, target + i * a.columns, a.columns, columns, wanted,
                    )
                    i += tile
                continue
            rows_by_panel(
                x + start * a.x_down + k * a.x_right, a.x_down, a.x_right, end - start, w + k * columns,
                depth if wanted >= columns else a.depth, first, step, target, a.columns, columns, wanted,
            )
        k += DEPTH


cdef void work(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Product* a = <Product*>task
    cdef Py_ssize_t which = part // a.parts, panel = 0, panels = a.panels, start = 0, end = a.rows, rest = which
    cdef char* x = a.x
    cdef char* y = a.y
    cdef int d
    part %= a.parts
    if a.by_panels:
        panel, panels = part, 1
    else:
        start = part * ROWS
        end = min(start + ROWS, a.rows)
    for d in range(a.stacked - 1, -1, -1):
        x += rest % a.stack[d] * a.x_steps[d]
        y += rest % a.stack[d] * a.y_steps[d]
        rest //= a.stack[d]
    if a.is_single:
        some_rows(
            a, <float*>x, <float*>y, <float*>a.out + which * a.rows * a.columns, <float*>a.room + who * a.own,
            a.sources + who * a.panels, which + 1, panel, panels, start, end,
        )
    else:
        some_rows(
            a, <double*>x, <double*>y, <double*>a.out + which * a.rows * a.columns, <double*>a.room + who * a.own,
            a.sources + who * a.panels, which + 1, panel, panels, start, end,
        )


cdef bint multiply_into(
    char* x, char* y, char* out, int stacked, Py_ssize_t* stack, Py_ssize_t* x_steps, Py_ssize_t* y_steps,
    Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns, Py_ssize_t x_down, Py_ssize_t x_right, Py_ssize_t y_down,
    Py_ssize_t y_right, bint is_single, char* bias, int most,
) noexcept nogil:
    cdef Product a
    cdef Py_ssize_t size = sizeof(float) if is_single else sizeof(double), count = 1, kept
    cdef char* room
    cdef int d
    a.stacked, a.stack, a.x_steps, a.y_steps = stacked, stack, x_steps, y_steps
    for d in range(stacked):
        count *= stack[d]
    a.rows, a.depth, a.columns = rows, depth, columns
    a.panel = LUCID_PANEL // size
    a.panels = (columns + a.panel - 1) // a.panel
    a.in_tiles = rows >= 2 * ROWS and columns >= 4 * a.panel and (x_right != 1 or x_down * size % SETS == 0)
    a.by_panels = count == 1 and columns > rows and not a.in_tiles
    a.parts = a.panels if a.by_panels else (rows + ROWS - 1) // ROWS
    most = <int>max(1, min(<Py_ssize_t>most, count * a.parts))
    a.kept = (1 if a.by_panels else a.panels) * depth * a.panel
    a.own = a.kept + ((ROWS + LUCID_ROWS) * DEPTH if a.in_tiles else 0)  # the last tile may be filled in part
    kept = most * a.own * size
    if kept > MOST_KEPT:
        return False
    a.bias, a.x, a.y, a.out = bias, x, y, out
    a.x_down, a.x_right, a.y_down, a.y_right, a.is_single = x_down, x_right, y_down, y_right, is_single
    room = <char*>malloc(kept + LINE + most * a.panels * sizeof(Py_ssize_t))
    if room == NULL:
        return False
    a.room = room + (-<Py_ssize_t>room & (LINE - 1))
    a.sources = <Py_ssize_t*>(a.room + kept)
    memset(a.sources, 0, most * a.panels * sizeof(Py_ssize_t))
    share(work, &a, count * a.parts, most)
    free(room)
    return True


cdef np.ndarray multiply(np.ndarray x, np.ndarray y, np.ndarray bias, np.ndarray out, int most):
    """Write the products of two stacks of the same shape; None if that would take too much memory."""
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x)
    cdef int stacked = np.PyArray_NDIM(x) - 2
    cdef Py_ssize_t* shape = <Py_ssize_t*>np.PyArray_DIMS(x)
    cdef Py_ssize_t* x_steps = <Py_ssize_t*>np.PyArray_STRIDES(x)
    cdef Py_ssize_t* y_steps = <Py_ssize_t*>np.PyArray_STRIDES(y)
    cdef Py_ssize_t columns = np.PyArray_DIM(y, stacked + 1)
    cdef np.ndarray first = None
    cdef char* of_bias = NULL
    cdef bint done
    if bias is not None:  # with zeros where the last panel reaches beyond it
        first = np.zeros((columns + LUCID_PANEL // size) // (LUCID_PANEL // size) * (LUCID_PANEL // size), x.dtype)
        first[:columns] = bias
        of_bias = np.PyArray_BYTES(first)
    with nogil:
        done = multiply_into(
            np.PyArray_BYTES(x), np.PyArray_BYTES(y), np.PyArray_BYTES(out), stacked, shape, x_steps, y_steps,
            shape[stacked], shape[stacked + 1], columns, x_steps[stacked] // size, x_steps[stacked + 1] // size,
            y_steps[stacked] // size, y_steps[stacked + 1] // size, np.PyArray_TYPE(x) == np.NPY_FLOAT, of_bias, most,
        )
    return out if done else None


cdef int product_threads(Py_ssize_t stack, Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns) noexcept nogil:
    cdef double count = <double>rows * depth * columns
    cdef int most
    if rows < 8 or depth < 8 or columns < 16 or stack * count < LEAST or count > LUCID_MOST_SHARED:
        return 0
    if stack > 1 and count < LEAST_IN_STACK:
        return 0
    most = pool_size() if stack * count >= LEAST_SHARED else 1
    return most if most > 1 or count <= LUCID_MOST_ALONE else 0


def product(np.ndarray x, np.ndarray y, np.ndarray bias=None, bint always=False):
    cdef int kind = np.PyArray_TYPE(x), rank = np.PyArray_NDIM(x), d, most
    cdef np.npy_intp[MOST_DIMS] shape
    cdef Py_ssize_t count = 1
    if not (kind == np.NPY_FLOAT or kind == np.NPY_DOUBLE) or kind != np.PyArray_TYPE(y) or np.PyArray_NDIM(y) != rank:
        return None
    if rank < 2 or rank > MOST_DIMS or x.shape[rank - 1] != y.shape[rank - 2]:
        return None
    for d in range(rank - 2):
        if x.shape[d] != y.shape[d]:
            return None
        shape[d] = x.shape[d]
        count *= x.shape[d]
    most = pool_size() if always else product_threads(count, x.shape[rank - 2], x.shape[rank - 1], y.shape[rank - 1])
    if most == 0 or not (np.PyArray_ISBEHAVED_RO(x) and np.PyArray_ISBEHAVED_RO(y)):
        return None
    shape[rank - 2], shape[rank - 1] = x.shape[rank - 2], y.shape[rank - 1]
    return multiply(x, y, bias, np.PyArray_EMPTY(rank, shape, kind, 0), most)
