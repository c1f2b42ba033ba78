# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops over the windows of convolutions: see windows.py for what each function computes."""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as np

from lucid.backends.cpu.microkernel cimport DEPTH, LINE, LUCID_PANEL, aligned, pack, rows_by_panel
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef np.dtype _BYTE = np.dtype("uint8")


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


# Convolution in panels: of some places at a time, all windows are laid out as a panel of a product of matrices. Planes are
# copied once, with zeros around them; the windows of an output's row are consecutive elements of them.


cdef enum:
    RUNS = 128  # places that are laid out at a time
    SUM_PARTS = 8  # of channels and taps, whose sums are added up
    PARTS = 16  # of the sums of the gradient of weights, whatever the number of threads
    FEW_PARTS = 4
    MOST_SUMS = 1 << 22  # elements of more parts than a few
    MOST_PLANES = 1 << 20  # elements: larger planes are no longer in a cache, and each thread has a copy of them
    LEAST_SHARED = 1 << 20  # multiplications


cdef enum Task:
    CONVOLVE  # the convolution itself
    WEIGH  # the gradient of its weights
    SPREAD  # that of its input


cdef struct Convolution:
    Slide s
    Task task
    char* x
    char* y
    char* w  # the weights, or their gradient
    char* bias  # a row for each result, of the width of a panel
    char* sums  # those of the gradient of weights, for each part
    char* room
    Py_ssize_t* taps  # where the windows of each tap begin
    Py_ssize_t examples, groups, channels, results, depth, places, plane, chunks, own, wide, size
    int threads  # for which there is room
    bint is_single, is_shared, is_biased


cdef struct Run:
    # Windows that are consecutive elements of a plane, from an element on, and where they are put.
    Py_ssize_t source, target, count


cdef int runs_of(Convolution* a, Py_ssize_t first, Py_ssize_t count, Run* runs) noexcept nogil:
    """The runs of some places."""
    cdef Py_ssize_t width = a.s.out[2], height = a.s.out[1], p = first, row, n
    cdef int found = 0
    while p < first + count:
        row = p // width
        n = min(width - p % width, first + count - p)
        runs[found].source = row // height * a.s.stride[0] * a.s.reach[1] + row % height * a.s.stride[1]
        runs[found].source = runs[found].source * a.s.row + p % width
        runs[found].target, runs[found].count = p - first, n
        found += 1
        p += n
    return found


cdef inline void lay_out(
    Convolution* a, const real* planes, real* out, Py_ssize_t width, Py_ssize_t first, Py_ssize_t count
) noexcept nogil:
    """The windows of some places, a row of so many elements for each channel and tap."""
    cdef Run runs[RUNS]
    cdef int found = runs_of(a, first, count, runs), r
    cdef Py_ssize_t c, t, taps = a.depth // a.channels
    cdef const real* source
    for c in range(a.channels):
        for t in range(taps):
            source = planes + c * a.plane + a.taps[t]
            for r in range(found):
                copy(source + runs[r].source, out + runs[r].target, runs[r].count)
            out += width


cdef inline void copy_planes(Convolution* a, const real* x, real* planes) noexcept nogil:
    """The channels of a group of an example, each with the zeros around it that are there already."""
    cdef Slide* s = &a.s
    cdef Py_ssize_t c, y, z
    for c in range(a.channels):
        for z in range(s.seen[0]):
            for y in range(s.seen[1]):
                deal(
                    s, x + ((s.source[0] + z) * s.size[1] + s.source[1] + y) * s.size[2] + s.source[2],
                    planes + ((s.target[0] + z) * s.reach[1] + s.target[1] + y) * s.row,
                )
        x += s.size[0] * s.size[1] * s.size[2]
        planes += a.plane


cdef inline void correlate_some(
    Convolution* a, const real* x, const real* w, const real* bias, real* y, real* room, Py_ssize_t part
) noexcept nogil:
    """Some panels of an example."""
    cdef Py_ssize_t n = part // a.chunks, chunk = part % a.chunks, columns = LUCID_PANEL // sizeof(real)
    cdef Py_ssize_t panels = (a.places + columns - 1) // columns, input = a.s.size[0] * a.s.size[1] * a.s.size[2]
    cdef Py_ssize_t g, i, k, p, wanted, step
    cdef real* panel = room + a.channels * a.plane
    cdef real* target
    cdef const real* first
    for g in range(a.groups):
        copy_planes(a, x + (n * a.groups + g) * a.channels * input, room)
        for i in range(panels * chunk // a.chunks, panels * (chunk + 1) // a.chunks):
            p = i * columns
            wanted = min(columns, a.places - p)
            lay_out(a, room, panel, columns, p, wanted)
            target = y + (n * a.groups + g) * a.results * a.places + p
            k = 0
            while k < a.depth:
                if k:
                    first, step = target, a.places
                else:
                    first, step = NULL if bias == NULL else bias + g * a.results * columns, 0 if bias == NULL else columns
                rows_by_panel(
                    w + g * a.results * a.depth + k, a.depth, 1, a.results, panel + k * columns,
                    min(a.depth - k, DEPTH) if wanted == columns else a.depth, first, step, target, a.places, columns, wanted,
                )
                k += DEPTH if wanted == columns else a.depth


cdef inline void weigh_some(
    Convolution* a, const real* x, const real* y, real* totals, real* room, Py_ssize_t part
) noexcept nogil:
    """What some examples contribute to the gradient of the weights, (groups, channels · taps, results)."""
    cdef Py_ssize_t columns = LUCID_PANEL // sizeof(real), input = a.s.size[0] * a.s.size[1] * a.s.size[2]
    cdef Py_ssize_t n, g, i, p, c, count
    cdef real* windows = room + a.channels * a.plane
    cdef real* panels = windows + a.depth * RUNS
    cdef const real* results
    cdef real* target
    memset(totals + part * a.groups * a.depth * a.wide, 0, a.groups * a.depth * a.wide * sizeof(real))
    for n in range(a.examples * part // a.chunks, a.examples * (part + 1) // a.chunks):
        for g in range(a.groups):
            copy_planes(a, x + (n * a.groups + g) * a.channels * input, room)
            target = totals + (part * a.groups + g) * a.depth * a.wide
            for i in range((a.places + RUNS - 1) // RUNS):
                p = i * RUNS
                count = min(<Py_ssize_t>RUNS, a.places - p)
                lay_out(a, room, windows, RUNS, p, count)
                results = y + (n * a.groups + g) * a.results * a.places + p
                pack(results, 1, a.places, count, a.results, panels, <int>columns)
                for c in range(a.wide // columns):
                    rows_by_panel(
                        windows, RUNS, 1, a.depth, panels + c * columns * count, count, target + c * columns, a.wide,
                        target + c * columns, a.wide, <int>columns, columns,
                    )


cdef inline void add_up(Convolution* a, real* totals, real* out, Py_ssize_t part) noexcept nogil:
    """The sums of all parts, for some channels and taps of each group, as (groups, results, channels · taps)."""
    cdef Py_ssize_t g, d, r, i, all = a.groups * a.depth * a.wide
    cdef Py_ssize_t first = a.depth * part // SUM_PARTS, last = a.depth * (part + 1) // SUM_PARTS
    cdef real* row
    for g in range(a.groups):
        for d in range(first, last):
            row = totals + (g * a.depth + d) * a.wide
            for i in range(1, a.chunks):
                for r in range(a.results):
                    row[r] += row[i * all + r]
        for r in range(a.results):
            row = totals + g * a.depth * a.wide + r
            for d in range(first, last):
                out[(g * a.results + r) * a.depth + d] = row[d * a.wide]


cdef inline void spread_some(
    Convolution* a, real* x, const real* y, const real* w, real* room, Py_ssize_t n
) noexcept nogil:
    """What an example's input has of the cotangents of its results: windows, each a product with weights, are added up."""
    cdef Py_ssize_t columns = LUCID_PANEL // sizeof(real), taps = a.depth // a.channels
    cdef Py_ssize_t g, p, c, t, z, row, wanted, input = a.s.size[0] * a.s.size[1] * a.s.size[2]
    cdef Slide* s = &a.s
    cdef real* panel = room + a.channels * a.plane
    cdef real* windows = panel + a.results * columns
    cdef real* target
    cdef const real* source
    cdef Run runs[RUNS]
    cdef int found, r
    for g in range(a.groups):
        memset(room, 0, a.channels * a.plane * sizeof(real))
        p = 0
        while p < a.places:
            wanted = min(columns, a.places - p)
            pack(y + (n * a.groups + g) * a.results * a.places + p, a.places, 1, a.results, wanted, panel, <int>columns)
            found = runs_of(a, p, wanted, runs)
            rows_by_panel(
                w + g * a.results * a.depth, 1, a.depth, a.depth, panel, a.results, NULL, 0, windows, columns,
                <int>columns, columns,
            )
            source = windows
            for c in range(a.channels):
                for t in range(taps):
                    target = room + c * a.plane + a.taps[t]
                    for r in range(found):
                        add(source + runs[r].target, target + runs[r].source, runs[r].count)
                    source += columns
            p += columns
        target = x + (n * a.groups + g) * a.channels * input
        for c in range(a.channels):
            if s.seen[0] * s.seen[1] * s.seen[2] < input:
                memset(target, 0, input * sizeof(real))
            for z in range(s.seen[0]):
                for row in range(s.seen[1]):
                    rejoin(
                        s, room + c * a.plane + ((s.target[0] + z) * s.reach[1] + s.target[1] + row) * s.row,
                        target + ((s.source[0] + z) * s.size[1] + s.source[1] + row) * s.size[2] + s.source[2],
                    )
            target += input


cdef inline void do_part(
    Convolution* a, real* x, real* y, real* w, real* sums, real* bias, real* room, Py_ssize_t part
) noexcept nogil:
    if a.task == CONVOLVE:
        correlate_some(a, x, w, bias, y, room, part)
    elif a.task == WEIGH:
        weigh_some(a, x, y, sums, room, part)
    else:
        spread_some(a, x, y, w, room, part)


cdef void convolve_part(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Convolution* a = <Convolution*>task
    cdef char* room = a.room + who * a.own * a.size
    if a.is_single:
        do_part(a, <float*>a.x, <float*>a.y, <float*>a.w, <float*>a.sums, <float*>a.bias, <float*>room, part)
    else:
        do_part(a, <double*>a.x, <double*>a.y, <double*>a.w, <double*>a.sums, <double*>a.bias, <double*>room, part)


cdef void add_up_part(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Convolution* a = <Convolution*>task
    if a.is_single:
        add_up(a, <float*>a.sums, <float*>a.w, part)
    else:
        add_up(a, <double*>a.sums, <double*>a.w, part)


cdef inline Py_ssize_t lines(Py_ssize_t bytes) noexcept nogil:
    return (bytes + LINE - 1) // LINE * LINE


cdef bint plan(Convolution* a, Task task, np.ndarray x, np.ndarray y, np.ndarray w, g, bias) except -1:
    """What there is to do; False if there are no loops for these types, or planes are too large for them."""
    cdef int kind = np.PyArray_TYPE(x)
    cdef Py_ssize_t columns
    memset(a, 0, sizeof(Convolution))
    if not (kind == np.NPY_FLOAT or kind == np.NPY_DOUBLE) or len(g.size) > 3:
        return False
    if np.PyArray_TYPE(y) != kind or np.PyArray_TYPE(w) != kind:
        return False
    fill(&a.s, g, 0, g.out[0])
    a.task, a.is_single, a.size, a.is_biased = task, kind == np.NPY_FLOAT, np.PyArray_ITEMSIZE(x), bias is not None
    a.examples, a.groups, a.channels, a.results = x.shape[0], g.groups, x.shape[1] // g.groups, y.shape[1] // g.groups
    a.depth, a.places = a.channels * g.taps, a.s.out[0] * a.s.out[1] * a.s.out[2]
    a.plane = a.s.reach[0] * a.s.reach[1] * a.s.row
    columns = LUCID_PANEL // a.size
    if a.channels * a.plane > MOST_PLANES or (task != WEIGH and a.places < columns):
        return False
    a.own = a.channels * a.plane
    if task == CONVOLVE:
        a.chunks = 1 if a.examples > 1 else min((a.places + columns - 1) // columns, <Py_ssize_t>2 * pool_size())
        a.own += a.depth * columns
    elif task == WEIGH:
        a.wide = (a.results + columns - 1) // columns * columns
        a.chunks = max(<Py_ssize_t>FEW_PARTS, min(<Py_ssize_t>PARTS, MOST_SUMS // (a.groups * a.depth * a.wide)))
        a.chunks = min(a.examples, a.chunks)
        a.own += (a.depth + a.wide) * RUNS
    else:
        a.own += (a.results + a.depth) * columns
    a.own = lines(a.own * a.size) // a.size
    a.is_shared = <double>a.examples * a.groups * a.results * a.depth * a.places >= LEAST_SHARED
    return True


cdef Py_ssize_t room_of(Convolution* a, int threads) noexcept nogil:
    """The bytes of workspace for so many threads."""
    cdef Py_ssize_t rows = a.groups * a.results * LUCID_PANEL if a.is_biased else 0
    cdef Py_ssize_t sums = a.chunks * a.groups * a.depth * a.wide * a.size if a.task == WEIGH else 0
    a.threads = threads if a.is_shared else 1
    return lines(a.depth // a.channels * sizeof(Py_ssize_t)) + lines(rows) + lines(sums) + a.threads * a.own * a.size


cdef void convolve(const void* given, char** data) noexcept nogil:
    """The entry point: x, y, weights, bias, room."""
    cdef Convolution a = (<const Convolution*>given)[0]
    cdef Slide* s = &a.s
    cdef Py_ssize_t t = 0, kx, ky, kz, parts, columns = LUCID_PANEL // a.size
    cdef int threads = min(pool_size(), a.threads) if a.is_shared else 1, who
    a.x, a.y, a.w = data[0], data[1], data[2]
    a.taps = <Py_ssize_t*>data[4]
    a.room = data[4] + lines(a.depth // a.channels * sizeof(Py_ssize_t))
    for kz in range(s.kernel[0]):
        for ky in range(s.kernel[1]):
            for kx in range(s.kernel[2]):
                a.taps[t] = (kz * s.dilation[0] * s.reach[1] + ky * s.dilation[1]) * s.row + place(s, kx * s.dilation[2])
                t += 1
    if a.is_biased:
        a.bias = a.room
        a.room += lines(a.groups * a.results * LUCID_PANEL)
        for t in range(a.groups * a.results):
            for kx in range(columns):
                memcpy(a.bias + t * LUCID_PANEL + kx * a.size, data[3] + t * a.size, a.size)
    parts = a.examples
    if a.task == CONVOLVE:
        parts *= a.chunks
    elif a.task == WEIGH:
        parts, a.sums = a.chunks, a.room
        a.room += lines(a.chunks * a.groups * a.depth * a.wide * a.size)
    for who in range(threads if a.task != SPREAD else 0):  # the zeros around planes
        memset(a.room + who * a.own * a.size, 0, a.channels * a.plane * a.size)
    share(convolve_part, &a, parts, threads)
    if a.task == WEIGH:
        share(add_up_part, &a, SUM_PARTS, threads)


cdef bint do(Task task, np.ndarray x, np.ndarray y, np.ndarray w, g, bias) except -1:
    """Do it now, if there are loops for it."""
    cdef Convolution a
    cdef char* data[5]
    if not plan(&a, task, x, y, w, g, bias):
        return False
    cdef np.ndarray room = aligned(room_of(&a, pool_size()), _BYTE)
    data[0], data[1], data[2] = np.PyArray_BYTES(x), np.PyArray_BYTES(y), np.PyArray_BYTES(w)
    data[3] = NULL if bias is None else np.PyArray_BYTES(bias)
    data[4] = np.PyArray_BYTES(room)
    with nogil:
        convolve(&a, data)
    return True


def correlate(x, w, bias, g, out):
    return do(CONVOLVE, x, out, w, g, bias)


def weigh(x, y, g, out):
    return do(WEIGH, x, y, out, g, None)


def spread(y, w, g, out):
    return do(SPREAD, out, y, w, g, None)


def entry(what, x, y, w, g, bias, int threads):
    cdef Convolution a
    if not plan(&a, {"correlate": CONVOLVE, "weigh": WEIGH, "spread": SPREAD}[what], x, y, w, g, bias):
        return None
    cdef Py_ssize_t room = room_of(&a, threads)
    return <size_t><void*>convolve, (<char*>&a)[: sizeof(Convolution)], room
