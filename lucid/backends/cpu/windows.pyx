# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops over the windows of convolutions: see windows.py for what each function computes."""

from libc.string cimport memset

cimport numpy as np

from lucid.backends.cpu.microkernel cimport aligned
from lucid.backends.cpu.sliding_windows cimport Slide, add, collect, copy, deal, element, fill, lines, place
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef np.dtype _BYTE = np.dtype("uint8")


cdef enum Action:
    COPY, ADD, APPLY, APPLY_BACK, CORRELATE


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
    # Planes of an input, (examples, channels), and for each of them columns or the results of depthwise convolution.
    Slide s
    Action action
    int kind, threads
    bint is_shared, is_biased
    char* planes
    char* columns
    char* weight
    char* bias
    char* room
    Py_ssize_t examples, channels, size, plane, places, taps
    Py_ssize_t results  # of one channel
    Py_ssize_t per_example, per_result, per_tap  # elements from one to the next in columns
    Py_ssize_t own  # bytes of room of a thread
    Py_ssize_t units, parts


cdef void start(Walk* walk, Action action, np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows):
    memset(walk, 0, sizeof(Walk))
    fill(&walk.s, g, first, rows)
    cdef Slide* s = &walk.s
    walk.action, walk.kind, walk.size = action, np.PyArray_TYPE(x), np.PyArray_ITEMSIZE(x)
    walk.examples, walk.channels, walk.taps = x.shape[0], x.shape[1], g.taps
    walk.plane, walk.places = s.size[0] * s.size[1] * s.size[2], s.out[0] * s.out[1] * s.out[2]
    walk.own = lines(s.reach[0] * s.reach[1] * s.row * walk.size)


cdef inline void do_some(
    Walk* walk, element* x, element* columns, element* w, element* bias, element* phases, Py_ssize_t part
) noexcept nogil:
    cdef Slide* s = &walk.s
    cdef Py_ssize_t unit, n, i, all = walk.channels * walk.results
    cdef element* row
    cdef element first = 0
    for unit in range(walk.units * part // walk.parts, walk.units * (part + 1) // walk.parts):
        if walk.action == APPLY:  # a result of an example
            row = columns + unit * walk.places
            if bias != NULL:
                first = bias[unit % all]
            for i in range(walk.places):
                row[i] = first
            slide(s, APPLY, phases, x + unit // walk.results * walk.plane, row, 0, w + unit % all * walk.taps)
        elif walk.action == APPLY_BACK:  # a channel of an example
            memset(x + unit * walk.plane, 0, walk.plane * sizeof(element))
            for i in range(unit * walk.results, (unit + 1) * walk.results):
                slide(
                    s, APPLY_BACK, phases, x + unit * walk.plane, columns + i * walk.places, 0, w + i % all * walk.taps
                )
        elif walk.action == CORRELATE:  # a result of all examples, in order
            memset(w + unit * walk.taps, 0, walk.taps * sizeof(element))
            for n in range(walk.examples):
                row = x + (n * walk.channels + unit // walk.results) * walk.plane
                slide(s, CORRELATE, phases, row, columns + (n * all + unit) * walk.places, 0, w + unit * walk.taps)
        else:  # a channel of an example, as columns
            row = columns + unit // walk.channels * walk.per_example + unit % walk.channels * walk.per_result
            slide(s, walk.action, phases, x + unit * walk.plane, row, walk.per_tap, row)


cdef void do_part(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Walk* a = <Walk*>task
    cdef char* phases = a.room + who * a.own
    if a.kind == np.NPY_FLOAT:
        do_some(a, <float*>a.planes, <float*>a.columns, <float*>a.weight, <float*>a.bias, <float*>phases, part)
    elif a.kind == np.NPY_DOUBLE:
        do_some(a, <double*>a.planes, <double*>a.columns, <double*>a.weight, <double*>a.bias, <double*>phases, part)
    elif a.kind == np.NPY_CFLOAT:
        do_some(
            a, <float complex*>a.planes, <float complex*>a.columns, <float complex*>a.weight, <float complex*>a.bias,
            <float complex*>phases, part,
        )
    elif a.kind == np.NPY_CDOUBLE:
        do_some(
            a, <double complex*>a.planes, <double complex*>a.columns, <double complex*>a.weight,
            <double complex*>a.bias, <double complex*>phases, part,
        )
    elif a.size == 4:
        do_some(
            a, <np.int32_t*>a.planes, <np.int32_t*>a.columns, <np.int32_t*>a.weight, <np.int32_t*>a.bias,
            <np.int32_t*>phases, part,
        )
    else:
        do_some(
            a, <np.int64_t*>a.planes, <np.int64_t*>a.columns, <np.int64_t*>a.weight, <np.int64_t*>a.bias,
            <np.int64_t*>phases, part,
        )


cdef void walk_over(Walk* a) noexcept nogil:
    cdef int threads = min(pool_size(), a.threads) if a.is_shared else 1
    memset(a.room, 0, threads * a.own)  # the zeros around planes
    a.parts = min(a.units, <Py_ssize_t>8 * threads) if threads > 1 else 1
    share(do_part, a, a.parts, threads)


cdef int visit(Action action, np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray columns) except -1:
    """Bring planes of x together with columns."""
    cdef Walk walk
    if np.PyArray_TYPE(columns) != np.PyArray_TYPE(x):
        raise TypeError(f"expected arrays of one type, not {x.dtype} and {columns.dtype}")
    start(&walk, action, x, g, first, rows)
    walk.planes, walk.columns = np.PyArray_BYTES(x), np.PyArray_BYTES(columns)
    walk.per_example, walk.per_tap = columns.strides[0] // walk.size, columns.strides[1] // walk.size
    walk.per_result, walk.results, walk.units = walk.per_tap * walk.taps, 1, walk.examples * walk.channels
    cdef np.ndarray room = aligned(walk.own, _BYTE)
    walk.room, walk.threads = np.PyArray_BYTES(room), 1
    with nogil:
        walk_over(&walk)
    return 0


def im2col(np.ndarray x, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(COPY, x, g, first, rows, out)


def col2im(np.ndarray columns, g, Py_ssize_t first, Py_ssize_t rows, np.ndarray out):
    visit(ADD, out, g, first, rows, columns)


# --- depthwise convolution -------------------------------------------------------------------------

cdef enum:
    LEAST_SHARED = 1 << 20  # multiplications

cdef dict _ACTIONS = {"depthwise": APPLY, "depthwise_input": APPLY_BACK, "depthwise_weight": CORRELATE}


cdef int plan(Walk* walk, what, np.ndarray x, np.ndarray y, np.ndarray w, g, bias, int threads) except -1:
    cdef Action action = _ACTIONS[what]
    if any([a is not None and a.dtype != x.dtype for a in (y, w, bias)]):
        raise TypeError(f"expected arrays of one type, not {x.dtype}, {y.dtype} and {w.dtype}")
    start(walk, action, x, g, 0, g.out[0])
    walk.results, walk.is_biased = y.shape[1] // walk.channels, bias is not None
    walk.units = walk.channels if action == APPLY_BACK else y.shape[1]
    walk.units *= 1 if action == CORRELATE else walk.examples
    walk.is_shared = <double>walk.examples * y.shape[1] * walk.places * walk.taps >= LEAST_SHARED
    walk.threads = threads if walk.is_shared else 1
    return 0


cdef void enter(const void* given, char** data) noexcept nogil:
    """The entry point: x, y, weights, bias, room."""
    cdef Walk walk = (<const Walk*>given)[0]
    walk.planes, walk.columns, walk.weight, walk.room = data[0], data[1], data[2], data[4]
    walk.bias = data[3] if walk.is_biased else NULL
    walk_over(&walk)


cdef int do(what, np.ndarray x, np.ndarray y, np.ndarray w, g, bias) except -1:
    cdef Walk walk
    cdef char* data[5]
    plan(&walk, what, x, y, w, g, bias, pool_size())
    cdef np.ndarray room = aligned(walk.threads * walk.own, _BYTE)
    data[0], data[1], data[2] = np.PyArray_BYTES(x), np.PyArray_BYTES(y), np.PyArray_BYTES(w)
    data[3] = NULL if bias is None else np.PyArray_BYTES(bias)
    data[4] = np.PyArray_BYTES(room)
    with nogil:
        enter(&walk, data)
    return 0


def depthwise(x, w, bias, g, out):
    do("depthwise", x, out, w, g, bias)


def depthwise_input(y, w, g, out):
    do("depthwise_input", out, y, w, g, None)


def depthwise_weight(x, y, g, out):
    do("depthwise_weight", x, y, out, g, None)


def entry(what, x, y, w, g, bias, int threads):
    cdef Walk walk
    if x.dtype.kind not in "fci" or x.dtype.itemsize < 4 or len(g.size) > 3:
        return None
    plan(&walk, what, x, y, w, g, bias, threads)
    return <size_t><void*>enter, (<char*>&walk)[: sizeof(Walk)], walk.threads * walk.own
