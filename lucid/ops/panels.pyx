# cython: boundscheck=False, wraparound=False, cdivision=True
"""The products of panels.py in loops.

The columns of the second matrix are copied into panels, and each is multiplied with all rows of the first one while it is
in the cache. BLAS copies both, which takes its time where matrices are not large, and divides a product evenly among its
threads, so that all wait for the slowest.
"""

cimport numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from lucid.ops.curves cimport real
from lucid.ops.team cimport crew, share
from lucid.ops.tiles cimport LINE, pack, rows_by_panel

np.import_array()

# The bytes in a row of a panel, and the largest products for which this was found to be faster than BLAS: in one thread,
# and in several.
cdef extern from *:
    """
    #if defined(__AVX512F__)
    #define LUCID_PANEL 128
    #define LUCID_MOST_ALONE (1ll << 27)
    #define LUCID_MOST_SHARED (1ll << 31)
    #elif defined(__AVX2__)
    #define LUCID_PANEL 64
    #define LUCID_MOST_ALONE (1ll << 24)
    #define LUCID_MOST_SHARED (1ll << 31)
    #else
    #define LUCID_PANEL 64
    #define LUCID_MOST_ALONE 0
    #define LUCID_MOST_SHARED 0
    #endif
    """
    const int LUCID_PANEL
    const long long LUCID_MOST_ALONE, LUCID_MOST_SHARED

cdef enum:
    ROWS = 42  # of a part
    DEPTH = 256  # over which sums are taken at a time
    LEAST = 1 << 15  # multiplications
    LEAST_SHARED = 1 << 21  # by several threads
    MOST_KEPT = 1 << 26  # bytes of panels

cdef struct Product:
    char* x
    char* y
    char* bias
    char* out
    char* room
    char* is_packed
    Py_ssize_t x_down, x_right, y_down, y_right, rows, depth, columns, panel, panels, kept  # the last: elements of panels of a thread
    bint by_panels, is_single


cdef inline void some_rows(
    Product* a, real* room, char* is_packed, Py_ssize_t panel, Py_ssize_t panels, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Some rows of the result in some panels. Those are this thread's own, and made when they are needed first."""
    cdef int columns = LUCID_PANEL // sizeof(real)
    cdef Py_ssize_t p, c, wanted, step, k = 0
    cdef const real* first
    cdef real* out
    cdef real* w
    while k == 0 or k < a.depth:
        for p in range(panel, panel + panels):
            c = p * columns
            wanted = a.columns - c
            out = <real*>a.out + start * a.columns + c
            w = room + (0 if a.by_panels else c * a.depth)
            if k == 0:
                if not is_packed[p]:
                    pack(<real*>a.y + c * a.y_right, a.y_down, a.y_right, a.depth, min(wanted, columns), w, columns)
                    is_packed[p] = not a.by_panels
                first, step = NULL if a.bias == NULL else <real*>a.bias + c, 0
            elif wanted >= columns:
                first, step = out, a.columns
            else:
                continue  # Parts of panels are summed over the whole depth.
            rows_by_panel(
                <real*>a.x + start * a.x_down + k * a.x_right, a.x_down, a.x_right, end - start, w + k * columns,
                min(a.depth - k, DEPTH) if wanted >= columns else a.depth, first, step, out, a.columns, columns, wanted,
            )
        k += DEPTH


cdef void work(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Product* a = <Product*>task
    cdef char* is_packed = a.is_packed + who * a.panels
    cdef Py_ssize_t room = who * a.kept
    cdef Py_ssize_t panel = 0, panels = a.panels, start = 0, end = a.rows
    if a.by_panels:
        panel, panels = part, 1
    else:
        start = part * ROWS
        end = min(start + ROWS, a.rows)
    if a.is_single:
        some_rows(a, <float*>a.room + room, is_packed, panel, panels, start, end)
    else:
        some_rows(a, <double*>a.room + room, is_packed, panel, panels, start, end)


cdef np.ndarray multiply(np.ndarray x, np.ndarray y, np.ndarray bias, int most):
    cdef Product a
    cdef int kind = np.PyArray_TYPE(x)
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x), parts, kept
    cdef np.npy_intp[2] shape = [x.shape[0], y.shape[1]]
    cdef np.ndarray out = np.PyArray_EMPTY(2, shape, kind, 0), first = None
    a.rows, a.depth, a.columns = x.shape[0], x.shape[1], y.shape[1]
    a.panel = LUCID_PANEL // size
    a.panels = (a.columns + a.panel - 1) // a.panel
    a.by_panels = a.columns > a.rows
    parts = a.panels if a.by_panels else (a.rows + ROWS - 1) // ROWS
    most = max(1, min(most, parts))
    a.kept = (1 if a.by_panels else a.panels) * a.depth * a.panel
    kept = most * a.kept * size
    if kept > MOST_KEPT:
        return None
    a.bias = NULL
    if bias is not None:  # with zeros where the last panel reaches beyond it
        first = np.zeros(a.panels * a.panel, x.dtype)
        first[: a.columns] = bias
        a.bias = np.PyArray_BYTES(first)
    a.x, a.y, a.out = np.PyArray_BYTES(x), np.PyArray_BYTES(y), np.PyArray_BYTES(out)
    a.x_down, a.x_right = x.strides[0] // size, x.strides[1] // size
    a.y_down, a.y_right = y.strides[0] // size, y.strides[1] // size
    a.is_single = kind == np.NPY_FLOAT
    cdef char* room = <char*>malloc(kept + LINE + most * a.panels)
    if room == NULL:
        raise MemoryError(f"{kept} bytes for a product of {a.rows} x {a.depth} by {a.columns}")
    a.room = room + (-<Py_ssize_t>room & (LINE - 1))
    a.is_packed = a.room + kept
    memset(a.is_packed, 0, most * a.panels)
    with nogil:
        share(work, &a, parts, most)
    free(room)
    return out


def product(np.ndarray x, np.ndarray y, np.ndarray bias=None, bint always=False):
    cdef int kind = np.PyArray_TYPE(x), most
    cdef long long count
    if not (np.PyArray_NDIM(x) == 2 == np.PyArray_NDIM(y) and x.shape[1] == y.shape[0] and kind == np.PyArray_TYPE(y)):
        return None
    if not (kind in (np.NPY_FLOAT, np.NPY_DOUBLE) and np.PyArray_ISBEHAVED_RO(x) and np.PyArray_ISBEHAVED_RO(y)):
        return None
    if always:
        return multiply(x, y, bias, crew())
    count = x.shape[0] * x.shape[1] * y.shape[1]
    if not (LEAST <= count <= LUCID_MOST_SHARED and x.shape[0] >= 8 and x.shape[1] >= 8 and y.shape[1] >= 16):
        return None
    most = crew() if count >= LEAST_SHARED else 1
    return multiply(x, y, bias, most) if most > 1 or count <= LUCID_MOST_ALONE else None
