# Kernels that slide over planes: what convolutions, and the loops that lay out windows, have in common.

cimport numpy as np
from libc.string cimport memcpy

from lucid.backends.cpu.microkernel cimport LINE


ctypedef fused element:
    float
    double
    float complex
    double complex
    np.int32_t
    np.int64_t


# A plane with zeros around it is kept in phases: each row falls into those of its elements that have the same remainder
# modulo the stride. Within its phase, each tap of a kernel moves all windows by the same number of elements, so every
# loop over windows runs over consecutive ones.


cdef struct Slide:
    # How a kernel slides over planes of three dimensions; those that an input has not are of size 1.
    Py_ssize_t size[3]
    Py_ssize_t kernel[3]
    Py_ssize_t stride[3]
    Py_ssize_t low[3]
    Py_ssize_t dilation[3]
    Py_ssize_t out[3]
    # What windows see of the input along each dimension: `seen` elements from `source` on, which are those of the
    # padded input from `target` on; of that, windows see `reach` elements.
    Py_ssize_t source[3]
    Py_ssize_t target[3]
    Py_ssize_t seen[3]
    Py_ssize_t reach[3]
    Py_ssize_t phase  # elements of a phase
    Py_ssize_t row  # elements of all phases of a row


cdef inline void fill(Slide* s, g, Py_ssize_t first, Py_ssize_t rows):
    """The geometry `g`, for `rows` rows of windows from the row `first` on."""
    cdef Py_ssize_t missing = 3 - len(g.size), i
    cdef int d
    for d in range(3):
        s.size[d] = s.kernel[d] = s.stride[d] = s.dilation[d] = s.out[d] = 1
        s.low[d] = 0
    for d in range(missing, 3):
        i = d - missing
        s.size[d], s.kernel[d], s.stride[d] = g.size[i], g.kernel[i], g.stride[i]
        s.low[d], s.dilation[d], s.out[d] = g.padding[i][0], g.dilation[i], g.out[i]
    # Rows before the first are as if the kernel began further inside of the input.
    s.low[missing] -= first * s.stride[missing]
    s.out[missing] = rows
    for d in range(3):
        s.reach[d] = (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1
        s.source[d], s.target[d] = max(-s.low[d], 0), max(s.low[d], 0)
        s.seen[d] = max(min(s.size[d] - s.source[d], s.reach[d] - s.target[d]), 0)
    s.phase = (s.reach[2] + s.stride[2] - 1) // s.stride[2]
    s.row = s.phase * s.stride[2]


cdef inline Py_ssize_t place(Slide* s, Py_ssize_t at) noexcept nogil:
    """Where in the phases of a row an element of the padded row is."""
    return at % s.stride[2] * s.phase + at // s.stride[2]


cdef enum:
    SOME = 8  # elements that are loaded and stored at once


cdef inline void copy(const element* x, element* y, Py_ssize_t n) noexcept nogil:
    """memcpy, whose calls would take longer than the copying: runs are short."""
    cdef Py_ssize_t i
    if n < SOME:
        for i in range(n):
            y[i] = x[i]
        return
    for i in range(n // SOME):
        memcpy(y + i * SOME, x + i * SOME, SOME * sizeof(element))
    if n % SOME:
        memcpy(y + n - SOME, x + n - SOME, SOME * sizeof(element))


cdef inline void add(const element* x, element* y, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef element total[SOME]
    for i in range(n // SOME):
        for k in range(SOME):
            total[k] = y[k] + x[k]
        memcpy(y, total, SOME * sizeof(element))
        x += SOME
        y += SOME
    for i in range(n % SOME):
        y[i] += x[i]


cdef inline void deal(Slide* s, const element* row, element* phases) noexcept nogil:
    """The elements of a row to their phases."""
    cdef Py_ssize_t i, stride = s.stride[2], pairs = s.seen[2] // 2 if stride == 2 else 0
    cdef element* even = phases + place(s, s.target[2])
    cdef element* odd = phases + place(s, s.target[2] + 1)
    if stride == 1:
        copy(row, even, s.seen[2])
        return
    for i in range(pairs):
        even[i] = row[2 * i]
        odd[i] = row[2 * i + 1]
    for i in range(stride * pairs, s.seen[2]):
        phases[place(s, s.target[2] + i)] = row[i]


cdef inline void collect(Slide* s, const element* phases, element* row) noexcept nogil:
    """The elements of phases added to the row that they are of."""
    cdef Py_ssize_t i, stride = s.stride[2], pairs = s.seen[2] // 2 if stride == 2 else 0
    cdef const element* even = phases + place(s, s.target[2])
    cdef const element* odd = phases + place(s, s.target[2] + 1)
    if stride == 1:
        add(even, row, s.seen[2])
        return
    for i in range(pairs):
        row[2 * i] += even[i]
        row[2 * i + 1] += odd[i]
    for i in range(stride * pairs, s.seen[2]):
        row[i] += phases[place(s, s.target[2] + i)]


cdef inline void rejoin(Slide* s, const element* phases, element* row) noexcept nogil:
    """The elements of phases to the row that they are of."""
    cdef Py_ssize_t i, stride = s.stride[2], pairs = s.seen[2] // 2 if stride == 2 else 0
    cdef const element* even = phases + place(s, s.target[2])
    cdef const element* odd = phases + place(s, s.target[2] + 1)
    if stride == 1:
        copy(even, row, s.seen[2])
        return
    for i in range(pairs):
        row[2 * i] = even[i]
        row[2 * i + 1] = odd[i]
    for i in range(stride * pairs, s.seen[2]):
        row[i] = phases[place(s, s.target[2] + i)]


cdef inline Py_ssize_t lines(Py_ssize_t bytes) noexcept nogil:
    """So many bytes, in whole lines of the cache."""
    return (bytes + LINE - 1) // LINE * LINE
