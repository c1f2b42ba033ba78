# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops over the channels of examples: see channels.py for what each function computes."""

from libc.math cimport sqrt
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as np
from lucid.backends.cpu.scalar_math cimport real

np.import_array()


ctypedef fused element:
    float
    double
    float complex
    double complex
    np.int32_t
    np.int64_t


# --- windows -------------------------------------------------------------------------------------
#
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


def to_columns(np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(COPY, x, g, first, rows, out, None)


def add_columns(np.ndarray columns, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(ADD, out, g, first, rows, columns, None)


def depthwise(np.ndarray x, np.ndarray w, g, np.ndarray out):
    visit(APPLY, x, g, 0, g.out[0], out, w)


def depthwise_input(np.ndarray y, np.ndarray w, g, np.ndarray out):
    visit(APPLY_BACK, out, g, 0, g.out[0], y, w)


def depthwise_weight(np.ndarray x, np.ndarray y, g, np.ndarray out):
    visit(CORRELATE, x, g, 0, g.out[0], y, out)


# --- statistics ----------------------------------------------------------------------------------
#
# Sums run in lanes, which compilers vectorize, over so many elements at a time as single precision sums well.

cdef enum:
    LANES = 32
    CHUNK = 1024
    # How many times the squared mean may exceed the variance before values are centred first: 16 costs 4 of 24 bits.
    WORST = 16


cdef struct Layout:
    # How the elements that share statistics lie in (examples, channels, positions): as sets of rows, which are `step`
    # elements apart. A set has one weight for all of its rows, or one for each.
    Py_ssize_t sets
    Py_ssize_t weights
    Py_ssize_t rows  # of a weight
    Py_ssize_t step
    Py_ssize_t length
    Py_ssize_t groups
    Py_ssize_t per_example
    Py_ssize_t per_channel


cdef Layout layout(np.ndarray x, Py_ssize_t groups):
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x), examples = x.shape[0], channels = x.shape[1], length = x.shape[2]
    cdef Py_ssize_t per_example = x.strides[0] // size, per_channel = x.strides[1] // size
    if groups:
        return Layout(
            examples * groups, channels // groups, 1, per_channel, length, groups, per_example, per_channel
        )
    return Layout(channels, 1, examples, per_example, length, 0, per_example, per_channel)


cdef inline Py_ssize_t first_weight(Layout* a, Py_ssize_t k) noexcept nogil:
    """The first channel of a set."""
    return k % a.groups * a.weights if a.groups else k


cdef inline Py_ssize_t first_row(Layout* a, Py_ssize_t k) noexcept nogil:
    """Where a set begins."""
    return (k // a.groups * a.per_example if a.groups else 0) + first_weight(a, k) * a.per_channel


cdef inline double total_of(const double* lanes) noexcept nogil:
    cdef double parts[4]
    cdef Py_ssize_t i, k
    for k in range(4):
        parts[k] = 0
    for i in range(LANES // 4):
        for k in range(4):
            parts[k] += lanes[4 * i + k]
    return (parts[0] + parts[2]) + (parts[1] + parts[3])


cdef inline void add_moments(const real* x, Py_ssize_t n, real centre, double* total, double* square) noexcept nogil:
    """Add Σ (x - centre) and Σ (x - centre)² to lanes."""
    cdef real totals[LANES]
    cdef real squares[LANES]
    cdef real value
    cdef Py_ssize_t i, k, chunk
    while n:
        chunk = min(n, CHUNK)
        n -= chunk
        for k in range(LANES):
            totals[k] = squares[k] = 0
        for i in range(chunk // LANES):
            for k in range(LANES):
                value = x[k] - centre
                totals[k] += value
                squares[k] += value * value
            x += LANES
        for k in range(chunk % LANES):
            value = x[k] - centre
            totals[k] += value
            squares[k] += value * value
        x += chunk % LANES
        for k in range(LANES):
            total[k] += totals[k]
            square[k] += squares[k]


cdef inline void add_products(
    const real* g, const real* x, Py_ssize_t n, real centre, double* total, double* along
) noexcept nogil:
    """Add Σ g and Σ g·(x - centre) to lanes."""
    cdef real totals[LANES]
    cdef real products[LANES]
    cdef Py_ssize_t i, k, chunk
    while n:
        chunk = min(n, CHUNK)
        n -= chunk
        for k in range(LANES):
            totals[k] = products[k] = 0
        for i in range(chunk // LANES):
            for k in range(LANES):
                totals[k] += g[k]
                products[k] += g[k] * (x[k] - centre)
            g += LANES
            x += LANES
        for k in range(chunk % LANES):
            totals[k] += g[k]
            products[k] += g[k] * (x[k] - centre)
        g += chunk % LANES
        x += chunk % LANES
        for k in range(LANES):
            total[k] += totals[k]
            along[k] += products[k]


cdef inline void line(const real* x, Py_ssize_t n, real centre, real scale, real shift, real* y) noexcept nogil:
    """y = (x - centre)·scale + shift"""
    cdef Py_ssize_t i
    for i in range(n):
        y[i] = (x[i] - centre) * scale + shift


cdef inline void plane(
    const real* g, const real* x, Py_ssize_t n, real by_g, real centre, real by_x, real shift, real* y
) noexcept nogil:
    """y = g·by_g + (x - centre)·by_x + shift"""
    cdef Py_ssize_t i
    for i in range(n):
        y[i] = g[i] * by_g + (x[i] - centre) * by_x + shift


cdef void moments(Layout* a, const real* x, real centre, double* mean, double* square) noexcept nogil:
    """The means of x - centre and of its square over a set."""
    cdef Py_ssize_t r, rows = a.weights * a.rows, length = a.length
    cdef double n = max(rows * length, 1)
    cdef double totals[LANES]
    cdef double squares[LANES]
    if a.step == length:
        rows, length = 1, rows * length
    memset(totals, 0, sizeof(totals))
    memset(squares, 0, sizeof(squares))
    for r in range(rows):
        add_moments(x + r * a.step, length, centre, totals, squares)
    mean[0], square[0] = total_of(totals) / n, total_of(squares) / n


cdef void statistics(Layout* a, const real* x, double* mean, double* variance) noexcept nogil:
    cdef real centre = 0
    cdef double rest, square
    moments(a, x, centre, mean, &square)
    variance[0] = square - mean[0] * mean[0]
    if mean[0] * mean[0] <= WORST * variance[0]:
        return
    centre = <real>mean[0]
    moments(a, x, centre, &rest, &square)
    mean[0] = centre + rest
    variance[0] = square - rest * rest
    if variance[0] < 0:
        variance[0] = 0


cdef void normalize_all(
    Layout* a, const real* x, const real* weight, const real* bias, double eps, real* y, double* mean, double* variance
) noexcept nogil:
    cdef Py_ssize_t k, w, r, at
    cdef double scale
    cdef real centre, shift
    for k in range(a.sets):
        at = first_row(a, k)
        statistics(a, x + at, mean + k, variance + k)
        centre = <real>mean[k]
        for w in range(first_weight(a, k), first_weight(a, k) + a.weights):
            scale = weight[w] / sqrt(variance[k] + eps)
            shift = <real>(bias[w] - (mean[k] - centre) * scale)
            for r in range(a.rows):
                line(x + at, a.length, centre, <real>scale, shift, y + at)
                at += a.step


cdef void normalize_all_back(
    Layout* a, const real* g, const real* x, const real* weight, const double* mean, const double* rstd,
    const double* by_mean, const double* by_variance, real* dx, double* dw, double* db,
) noexcept nogil:
    cdef Py_ssize_t k, w, r, at
    cdef double n = max(a.weights * a.rows * a.length, 1), slope, shift
    cdef double totals[LANES]
    cdef double products[LANES]
    cdef real centre
    for k in range(a.sets):
        centre = <real>mean[k]
        at = first_row(a, k)
        slope = shift = 0
        for w in range(a.weights):
            memset(totals, 0, sizeof(totals))
            memset(products, 0, sizeof(products))
            for r in range(a.rows):
                add_products(g + at, x + at, a.length, centre, totals, products)
                at += a.step
            db[w] = total_of(totals)
            dw[w] = rstd[k] * (total_of(products) - (mean[k] - centre) * db[w])
            slope += weight[first_weight(a, k) + w] * dw[w]
            shift += weight[first_weight(a, k) + w] * db[w]
        dw += a.weights
        db += a.weights
        if dx == NULL:
            continue
        slope = (2 * by_variance[k] - rstd[k] * rstd[k] * slope) / n
        shift = (by_mean[k] - rstd[k] * shift) / n - (mean[k] - centre) * slope
        at = first_row(a, k)
        for w in range(first_weight(a, k), first_weight(a, k) + a.weights):
            for r in range(a.rows):
                plane(
                    g + at, x + at, a.length, <real>(rstd[k] * weight[w]), centre, <real>slope, <real>shift, dx + at
                )
                at += a.step


cdef inline double* numbers(np.ndarray x):
    return <double*>np.PyArray_DATA(x)


def normalize(
    np.ndarray x, np.ndarray weight, np.ndarray bias, Py_ssize_t groups, double eps, np.ndarray y, np.ndarray mean,
    np.ndarray variance,
):
    cdef Layout a = layout(x, groups)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* target = np.PyArray_DATA(y)
    cdef void* w = np.PyArray_DATA(weight)
    cdef void* b = np.PyArray_DATA(bias)
    cdef double* m = numbers(mean)
    cdef double* v = numbers(variance)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            normalize_all(&a, <float*>source, <float*>w, <float*>b, eps, <float*>target, m, v)
        else:
            normalize_all(&a, <double*>source, <double*>w, <double*>b, eps, <double*>target, m, v)


def normalize_back(
    np.ndarray g, np.ndarray x, np.ndarray weight, Py_ssize_t groups, np.ndarray mean, np.ndarray rstd,
    np.ndarray by_mean, np.ndarray by_variance, np.ndarray dx, np.ndarray dweight, np.ndarray dbias,
):
    cdef Layout a = layout(x, groups)
    cdef void* cotangent = np.PyArray_DATA(g)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* w = np.PyArray_DATA(weight)
    cdef void* target = NULL if dx is None else np.PyArray_DATA(dx)
    cdef double* m = numbers(mean)
    cdef double* s = numbers(rstd)
    cdef double* bm = numbers(by_mean)
    cdef double* bv = numbers(by_variance)
    cdef double* dw = numbers(dweight)
    cdef double* db = numbers(dbias)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            normalize_all_back(
                &a, <float*>cotangent, <float*>source, <float*>w, m, s, bm, bv, <float*>target, dw, db
            )
        else:
            normalize_all_back(
                &a, <double*>cotangent, <double*>source, <double*>w, m, s, bm, bv, <double*>target, dw, db
            )


cdef void affine_all(Layout* a, const real* x, const real* scale, const real* shift, real* y) noexcept nogil:
    cdef Py_ssize_t c, r, at
    if a.length == 1:
        for r in range(a.rows):
            for c in range(a.sets):
                y[r * a.step + c] = x[r * a.step + c] * scale[c] + shift[c]
        return
    for c in range(a.sets):
        for r in range(a.rows):
            at = c * a.per_channel + r * a.step
            line(x + at, a.length, <real>0, scale[c], shift[c], y + at)


def affine(np.ndarray x, np.ndarray scale, np.ndarray shift, np.ndarray y):
    cdef Layout a = layout(x, 0)
    cdef void* source = np.PyArray_DATA(x)
    cdef void* target = np.PyArray_DATA(y)
    cdef void* w = np.PyArray_DATA(scale)
    cdef void* b = np.PyArray_DATA(shift)
    cdef int kind = np.PyArray_TYPE(x)
    with nogil:
        if kind == np.NPY_FLOAT:
            affine_all(&a, <float*>source, <float*>w, <float*>b, <float*>target)
        else:
            affine_all(&a, <double*>source, <double*>w, <double*>b, <double*>target)
