# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops over the windows of convolutions: see windows.py for what each function computes."""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as np

np.import_array()


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


cdef enum Action:
    COPY, ADD, APPLY, APPLY_BACK, CORRELATE


cdef void fill(Slide* s, g, Py_ssize_t first, Py_ssize_t rows):
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


cdef inline element total_product(
    const element* x, Py_ssize_t step, const element* y, Py_ssize_t rows, Py_ssize_t n
) noexcept nogil:
    """Σ x·y over rows, which are `step` elements apart in x."""
    cdef element lanes[16]
    cdef element total = 0
    cdef Py_ssize_t r, i, k
    for k in range(16):
        lanes[k] = 0
    for r in range(rows):
        for i in range(n // 16):
            for k in range(16):
                lanes[k] += x[16 * i + k] * y[16 * i + k]
        for i in range(n - n % 16, n):
            lanes[i % 16] += x[i] * y[i]
        x += step
        y += n
    for k in range(16):
        total += lanes[k]
    return total


cdef inline void act(
    Action action, element* phases, Py_ssize_t step, element* runs, Py_ssize_t rows, Py_ssize_t n, element* weight
) noexcept nogil:
    """What is done for one tap to rows of windows, which are `step` elements apart in the phases."""
    cdef Py_ssize_t r, i
    cdef element w
    if action == COPY:
        for r in range(rows):
            copy(phases + r * step, runs + r * n, n)
    elif action == ADD:
        for r in range(rows):
            add(runs + r * n, phases + r * step, n)
    elif action == CORRELATE:
        weight[0] += total_product(phases, step, runs, rows, n)
    else:
        w = weight[0]
        for r in range(rows):
            if action == APPLY:
                for i in range(n):
                    runs[i] += w * phases[i]
            else:
                for i in range(n):
                    phases[i] += w * runs[i]
            phases += step
            runs += n


cdef void slide(
    Slide* s, Action action, element* phases, element* plane, element* columns, Py_ssize_t per_tap, element* weight
) noexcept nogil:
    """Bring every tap together with the windows of a plane, whose phases come with zeros where there is padding.

    Windows as one tap sees them are `per_tap` elements behind those of the one before.
    """
    cdef Py_ssize_t y, z, kx, ky, kz, seen_at, windows = s.out[1] * s.out[2]
    cdef bint writes = action == ADD or action == APPLY_BACK
    cdef element* row
    if writes:
        memset(phases, 0, s.reach[0] * s.reach[1] * s.row * sizeof(element))
    else:
        for z in range(s.seen[0]):
            for y in range(s.seen[1]):
                row = plane + ((s.source[0] + z) * s.size[1] + s.source[1] + y) * s.size[2] + s.source[2]
                deal(s, row, phases + ((s.target[0] + z) * s.reach[1] + s.target[1] + y) * s.row)
    for kz in range(s.kernel[0]):
        for ky in range(s.kernel[1]):
            for kx in range(s.kernel[2]):
                for z in range(s.out[0]):
                    seen_at = (z * s.stride[0] + kz * s.dilation[0]) * s.reach[1] + ky * s.dilation[1]
                    act(
                        action, phases + seen_at * s.row + place(s, kx * s.dilation[2]), s.stride[1] * s.row,
                        columns + z * windows, s.out[1], s.out[2], weight,
                    )
                columns += per_tap
                weight += 1
    if writes:
        for z in range(s.seen[0]):
            for y in range(s.seen[1]):
                row = plane + ((s.source[0] + z) * s.size[1] + s.source[1] + y) * s.size[2] + s.source[2]
                collect(s, phases + ((s.target[0] + z) * s.reach[1] + s.target[1] + y) * s.row, row)


cdef struct Walk:
    # Planes of an input, (examples, channels), and for each of them the columns or results that belong to it.
    void* planes
    void* columns
    void* weight
    Py_ssize_t examples
    Py_ssize_t channels
    Py_ssize_t results  # of one channel
    Py_ssize_t per_example  # elements of `columns` from one example to the next
    Py_ssize_t per_result
    Py_ssize_t per_tap


cdef void walk_over(Slide* s, Walk* walk, Action action, element* phases) noexcept nogil:
    cdef Py_ssize_t n, c, r, plane = s.size[0] * s.size[1] * s.size[2]
    cdef Py_ssize_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2]
    cdef element* x = <element*>walk.planes
    cdef element* columns = <element*>walk.columns
    cdef element* w = <element*>walk.weight
    for n in range(walk.examples):
        for c in range(walk.channels):
            for r in range(c * walk.results, (c + 1) * walk.results):
                slide(s, action, phases, x, columns + r * walk.per_result, walk.per_tap, w + r * taps)
            x += plane
        columns += walk.per_example


cdef int visit(
    Action action, np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray columns, np.ndarray weight
) except -1:
    """Bring planes of x together with columns, or, where there are weights, with results of depthwise convolution."""
    cdef Slide s
    cdef Walk walk
    cdef int kind = np.PyArray_TYPE(x)
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x)
    if np.PyArray_TYPE(columns) != kind or (weight is not None and np.PyArray_TYPE(weight) != kind):
        raise TypeError(f"expected arrays of one type, not {x.dtype} and {columns.dtype}")
    walk.planes, walk.columns = np.PyArray_DATA(x), np.PyArray_DATA(columns)
    walk.examples, walk.channels = x.shape[0], x.shape[1]
    walk.per_example, walk.per_result = columns.strides[0] // size, columns.strides[1] // size
    walk.per_tap, walk.results, walk.weight = 0, 1, walk.columns
    if weight is None:
        walk.per_tap = walk.per_result
        walk.per_result *= g.taps
    else:
        walk.results = columns.shape[1] // walk.channels
        walk.weight = np.PyArray_DATA(weight)
    fill(&s, g, first, rows)
    cdef void* phases = calloc(s.reach[0] * s.reach[1] * s.row, size)
    if phases == NULL:
        raise MemoryError
    with nogil:
        if kind == np.NPY_FLOAT:
            walk_over(&s, &walk, action, <float*>phases)
        elif kind == np.NPY_DOUBLE:
            walk_over(&s, &walk, action, <double*>phases)
        elif kind == np.NPY_CFLOAT:
            walk_over(&s, &walk, action, <float complex*>phases)
        elif kind == np.NPY_CDOUBLE:
            walk_over(&s, &walk, action, <double complex*>phases)
        elif size == 4:
            walk_over(&s, &walk, action, <np.int32_t*>phases)
        else:
            walk_over(&s, &walk, action, <np.int64_t*>phases)
    free(phases)
    return 0


def im2col(np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(COPY, x, g, first, rows, out, None)


def col2im(np.ndarray columns, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(ADD, out, g, first, rows, columns, None)


def depthwise(np.ndarray x, np.ndarray w, g, np.ndarray out):
    visit(APPLY, x, g, 0, g.out[0], out, w)


def depthwise_input(np.ndarray y, np.ndarray w, g, np.ndarray out):
    visit(APPLY_BACK, out, g, 0, g.out[0], y, w)


def depthwise_weight(np.ndarray x, np.ndarray y, g, np.ndarray out):
    visit(CORRELATE, x, g, 0, g.out[0], y, out)
