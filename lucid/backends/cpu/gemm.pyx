# cython: boundscheck=False, wraparound=False, cdivision=True
"""The products of gemm.py in loops.

The columns of the second matrix are copied into panels, and some rows of the first one are multiplied with each while it is
in the cache. Of the first one, rows whose elements do not lie side by side are copied into tiles. An element of the result
is summed in the order of the depth, whoever does it: its bits depend on neither threads nor parts. BLAS copies both matrices
always, which takes its time where they are not large, and divides a product evenly among its threads, so that all wait for
the slowest.
"""

cimport numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport pool_size, share
from lucid.backends.cpu.microkernel cimport (
    DEPTH, LINE, LUCID_PANEL, LUCID_ROWS, LUCID_TRANSPOSES_FLOATS, pack, pack_rows, rows_by_panel,
)

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
    TILES = 3  # of rows in a part, if there are many parts
    FEW = 16  # parts for each thread
    ROWS_AT_ONCE = 4  # of the second matrix
    DEPTH_OF_PART = 32  # where threads fill panels together
    GROUP = 16  # panels: so many stay in the cache with a part of the depth
    BY_PANELS = 256  # rows: up to so many, a part is one panel
    WIDE = 16  # panels, from which on it pays to copy rows that need not be
    SETS = 2048  # bytes: rows that are a multiple of this apart get into each other's way in the cache
    LEAST = 1 << 15  # multiplications
    LEAST_IN_STACK = 1 << 14  # for each matrix
    LEAST_SHARED = 1 << 21  # by several threads
    MOST_KEPT = 1 << 26  # bytes of panels
    MOST_DIMS = 64

# One product, or a stack of them. A part are some rows of a matrix in a group of panels. Each thread has panels of its own,
# makes them when it needs them first, and remembers from which matrix each is, counting from 1; or all threads share
# those of one product, which are made before. `kept` are the elements of panels, `of_tiles` those of a thread's tiles.
cdef struct Product:
    char* x
    char* y
    char* bias
    char* out
    char* room
    char* tiles
    Py_ssize_t* sources
    Py_ssize_t* stack
    Py_ssize_t* x_steps
    Py_ssize_t* y_steps
    Py_ssize_t x_down, x_right, y_down, y_right, rows, depth, columns, panels, kept, of_tiles, part, parts, group, groups
    int stacked
    bint by_panels, in_tiles, is_shared, is_single


cdef inline void make_panels(
    Product* a, const real* y, real* room, Py_ssize_t panel, Py_ssize_t panels, Py_ssize_t k, Py_ssize_t end
) noexcept nogil:
    """Fill panels with a part of the depth. Where rows lie side by side, some at a time, since memory is read ahead."""
    cdef int columns = LUCID_PANEL // sizeof(real)
    cdef Py_ssize_t p, c, depth
    while k < end:
        depth = min(end - k, ROWS_AT_ONCE if a.y_right == 1 else end)
        for p in range(panel, panel + panels):
            c = p * columns
            pack(
                y + k * a.y_down + c * a.y_right, a.y_down, a.y_right, depth, min(a.columns - c, columns),
                room + (p - panel) * columns * a.depth + k * columns, columns,
            )
        k += depth


cdef inline void some_rows(
    Product* a, const real* x, const real* y, real* out, real* room, real* tiles, Py_ssize_t* sources, Py_ssize_t source,
    Py_ssize_t panel, Py_ssize_t panels, Py_ssize_t start, Py_ssize_t end,
) noexcept nogil:
    """Some rows of a result in some panels."""
    cdef int columns = LUCID_PANEL // sizeof(real)
    cdef int tile = LUCID_ROWS
    cdef Py_ssize_t p, c, i, wanted, step, depth, k = 0
    cdef const real* first
    cdef real* target
    cdef real* w
    room += 0 if a.by_panels else panel * columns * a.depth
    if sources[panel] != source:
        make_panels(a, y, room, panel, panels, 0, a.depth)
        sources[panel] = 0 if a.by_panels else source
    while k == 0 or k < a.depth:
        depth = min(a.depth - k, DEPTH)
        if a.in_tiles:
            pack_rows(x + start * a.x_down + k * a.x_right, a.x_down, a.x_right, end - start, depth, tiles, tile)
        for p in range(panel, panel + panels):
            c = p * columns
            wanted = a.columns - c
            target = out + start * a.columns + c
            w = room + (p - panel) * columns * a.depth
            if k == 0:
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
    cdef Py_ssize_t which = part // (a.groups * a.parts), panel, start, rest = which
    cdef char* x = a.x
    cdef char* y = a.y
    cdef int d, whose = 0 if a.is_shared else who
    part %= a.groups * a.parts
    panel = part // a.parts * a.group
    start = part % a.parts * a.part
    for d in range(a.stacked - 1, -1, -1):
        x += rest % a.stack[d] * a.x_steps[d]
        y += rest % a.stack[d] * a.y_steps[d]
        rest //= a.stack[d]
    if a.is_single:
        some_rows(
            a, <float*>x, <float*>y, <float*>a.out + which * a.rows * a.columns, <float*>a.room + whose * a.kept,
            <float*>a.tiles + who * a.of_tiles, a.sources + whose * a.panels, which + 1, panel,
            min(a.group, a.panels - panel), start, min(start + a.part, a.rows),
        )
    else:
        some_rows(
            a, <double*>x, <double*>y, <double*>a.out + which * a.rows * a.columns, <double*>a.room + whose * a.kept,
            <double*>a.tiles + who * a.of_tiles, a.sources + whose * a.panels, which + 1, panel,
            min(a.group, a.panels - panel), start, min(start + a.part, a.rows),
        )


cdef void work_on_panels(void* task, Py_ssize_t part, int who) noexcept nogil:
    """A part of the depth of all panels, or one panel, whichever lies side by side in memory."""
    cdef Product* a = <Product*>task
    cdef Py_ssize_t k = part * DEPTH_OF_PART, end = min(k + DEPTH_OF_PART, a.depth), panel = 0, panels = a.panels
    cdef char* room = a.room
    if a.y_right != 1:
        k, end, panel, panels = 0, a.depth, part, 1
        room += part * a.depth * LUCID_PANEL
    if a.is_single:
        make_panels(a, <float*>a.y, <float*>room, panel, panels, k, end)
    else:
        make_panels(a, <double*>a.y, <double*>room, panel, panels, k, end)


cdef bint multiply_into(
    char* x, char* y, char* out, int stacked, Py_ssize_t* stack, Py_ssize_t* x_steps, Py_ssize_t* y_steps,
    Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns, Py_ssize_t x_down, Py_ssize_t x_right, Py_ssize_t y_down,
    Py_ssize_t y_right, bint is_single, char* bias, int most,
) noexcept nogil:
    cdef Product a
    cdef Py_ssize_t size = sizeof(float) if is_single else sizeof(double), count = 1, panel = LUCID_PANEL // size, kept
    cdef char* room
    cdef int d
    a.stacked, a.stack, a.x_steps, a.y_steps = stacked, stack, x_steps, y_steps
    for d in range(stacked):
        count *= stack[d]
    if count * rows * columns == 0:
        return True
    a.rows, a.depth, a.columns = rows, depth, columns
    a.panels = (columns + panel - 1) // panel
    a.in_tiles = rows >= 6 * LUCID_ROWS and columns >= 4 * panel and (
        x_right != 1 or x_down * size % SETS == 0 or (is_single and columns >= WIDE * panel and LUCID_TRANSPOSES_FLOATS)
    )
    a.by_panels = count == 1 and columns > rows and rows <= BY_PANELS and not a.in_tiles
    a.is_shared = count == 1 and most > 1 and not a.by_panels
    a.group = 1 if a.by_panels else min(a.panels, <Py_ssize_t>GROUP)
    a.groups = (a.panels + a.group - 1) // a.group
    a.part = rows if a.by_panels else TILES * LUCID_ROWS
    if not a.by_panels and count * a.groups * ((rows + a.part - 1) // a.part) < FEW * most:
        a.part = LUCID_ROWS
    a.parts = (rows + a.part - 1) // a.part
    most = <int>max(1, min(<Py_ssize_t>most, count * a.groups * a.parts))
    a.kept = (1 if a.by_panels else a.panels) * depth * panel
    a.of_tiles = (a.part + LUCID_ROWS) * DEPTH if a.in_tiles else 0  # the last tile may be filled in part
    kept = (a.kept * (1 if a.is_shared else most) + a.of_tiles * most) * size
    if kept > MOST_KEPT:
        return False
    a.bias, a.x, a.y, a.out = bias, x, y, out
    a.x_down, a.x_right, a.y_down, a.y_right, a.is_single = x_down, x_right, y_down, y_right, is_single
    room = <char*>malloc(kept + LINE + most * a.panels * sizeof(Py_ssize_t))
    if room == NULL:
        return False
    a.room = room + (-<Py_ssize_t>room & (LINE - 1))
    a.tiles = a.room + a.kept * (1 if a.is_shared else most) * size
    a.sources = <Py_ssize_t*>(a.room + kept)
    for d in range(most * a.panels):
        a.sources[d] = a.is_shared
    if a.is_shared:
        share(work_on_panels, &a, (depth + DEPTH_OF_PART - 1) // DEPTH_OF_PART if y_right == 1 else a.panels, most)
    share(work, &a, count * a.groups * a.parts, most)
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
    cdef np.npy_intp room
    cdef char* of_bias = NULL
    cdef bint done
    if bias is not None:  # with zeros where the last panel reaches beyond it
        room = (columns + LUCID_PANEL // size) // (LUCID_PANEL // size) * (LUCID_PANEL // size)
        first = np.PyArray_ZEROS(1, &room, np.PyArray_TYPE(x), 0)
        of_bias = np.PyArray_BYTES(first)
        if np.PyArray_ISCARRAY_RO(bias) and np.PyArray_TYPE(bias) == np.PyArray_TYPE(x) and np.PyArray_SIZE(bias) == columns:
            memcpy(of_bias, np.PyArray_BYTES(bias), columns * size)
        else:
            first[:columns] = bias
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
