# Products of small matrices, in tiles of some rows and columns whose sums stay in the registers of vectors.

cimport numpy as np

from lucid.ops.curves cimport real

# The sums of a tile fill about half of the vector registers. GCC unrolls loops of 16 or fewer turns before it
# vectorizes them, and then it does not: tiles have at least 32 columns.
cdef extern from *:
    """
    #if defined(__AVX512F__)
    #define LUCID_TILE_BYTES 1024
    #else
    #define LUCID_TILE_BYTES 256
    #endif
    """
    enum:
        BYTES "LUCID_TILE_BYTES"
        SUMS "LUCID_TILE_BYTES / 4"

cdef enum:
    LINE = 64  # bytes of a line of the cache


cdef inline void tile(
    const real* x, Py_ssize_t down, Py_ssize_t right, const real* w, Py_ssize_t depth,
    real* out, Py_ssize_t stride, int rows, int columns,
) noexcept nogil:
    """Some rows of x by one panel of so many columns, over a depth of at least 1.

    The elements of x are `down` and `right` apart, rows of the result `stride`.
    """
    cdef real sums[SUMS]
    cdef Py_ssize_t k
    cdef int i, j
    cdef real factor
    for i in range(rows):
        for j in range(columns):
            sums[i * columns + j] = x[i * down] * w[j]
    for k in range(1, depth):
        for i in range(rows):
            factor = x[i * down + k * right]
            for j in range(columns):
                sums[i * columns + j] += factor * w[k * columns + j]
    for i in range(rows):
        for j in range(columns):
            out[i * stride + j] = sums[i * columns + j]


cdef inline void pack(
    const real* w, Py_ssize_t down, Py_ssize_t right, Py_ssize_t depth, Py_ssize_t columns, real* out, int panel
) noexcept nogil:
    """Put a matrix, whose rows and columns are so far apart, into panels; the last one is filled up with zeros."""
    cdef Py_ssize_t k, j
    while columns > 0:
        for k in range(depth):
            if columns >= panel:
                for j in range(panel):
                    out[j] = w[k * down + j * right]
            else:
                for j in range(panel):
                    out[j] = w[k * down + j * right] if j < columns else 0
            out += panel
        w += panel * right
        columns -= panel


cdef inline np.ndarray aligned(Py_ssize_t size, kind):
    """Memory for so many numbers that starts where a line of the cache does."""
    cdef np.npy_intp[1] length = [size * kind.itemsize + LINE]
    cdef np.ndarray out = np.PyArray_EMPTY(1, length, np.NPY_UINT8, 0)
    cdef Py_ssize_t start = -<Py_ssize_t>np.PyArray_DATA(out) & (LINE - 1)
    return out[start : start + size * kind.itemsize].view(kind)
