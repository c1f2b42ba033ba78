# cython: boundscheck=False, wraparound=False, cdivision=True
"""Convolution in panels: see implicit_gemm.py for what each function computes.

Of some places at a time, all windows are laid out as a panel of a product of matrices. Planes are copied once, with zeros
around them; the windows of an output's row are consecutive elements of them. Where an example has few places, those of
several examples make one panel.
"""

from libc.string cimport memcpy, memset

cimport numpy as np

from lucid.backends.cpu.microkernel cimport DEPTH, LUCID_PANEL, aligned, pack, rows_by_panel
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.sliding_windows cimport Slide, add, copy, deal, fill, lines, place, rejoin
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef np.dtype _BYTE = np.dtype("uint8")


cdef enum:
    RUNS = 128  # places that are laid out at a time
    SUM_PARTS = 8  # of channels and taps, whose sums are added up
    PARTS = 16  # of the sums of the gradient of weights, whatever the number of threads
    FEW_PARTS = 4
    MOST_SUMS = 1 << 22  # elements of more parts than a few
    MOST_PLANES = 1 << 20  # elements: larger planes are no longer in a cache, and each thread has a copy of them
    LEAST_SHARED = 1 << 20  # multiplications
    LEAST_ROWS = 32  # of a product with a panel of several examples, for each thread


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
    Py_ssize_t together  # examples whose places make one panel
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


cdef inline void put_back(Convolution* a, const real* planes, real* x, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Planes without what is around them, the channels of an example's group from `low` on."""
    cdef Slide* s = &a.s
    cdef Py_ssize_t c, z, row, input = s.size[0] * s.size[1] * s.size[2]
    cdef real* target = x + low * input
    for c in range(high - low):
        if s.seen[0] * s.seen[1] * s.seen[2] < input:
            memset(target, 0, input * sizeof(real))
        for z in range(s.seen[0]):
            for row in range(s.seen[1]):
                rejoin(
                    s, planes + c * a.plane + ((s.target[0] + z) * s.reach[1] + s.target[1] + row) * s.row,
                    target + ((s.source[0] + z) * s.size[1] + s.source[1] + row) * s.size[2] + s.source[2],
                )
        target += input


cdef inline void spread_some(
    Convolution* a, real* x, const real* y, const real* w, real* room, Py_ssize_t n
) noexcept nogil:
    """What an example's input has of the cotangents of its results: windows, each a product with weights, are added up."""
    cdef Py_ssize_t columns = LUCID_PANEL // sizeof(real), taps = a.depth // a.channels
    cdef Py_ssize_t g, p, c, t, wanted, input = a.s.size[0] * a.s.size[1] * a.s.size[2]
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
        put_back(a, room, x + (n * a.groups + g) * a.channels * input, 0, a.channels)


cdef inline void correlate_together(
    Convolution* a, const real* x, const real* w, const real* bias, real* y, real* room, Py_ssize_t part
) noexcept nogil:
    """Some results of examples that have one panel together."""
    cdef Py_ssize_t columns = LUCID_PANEL // sizeof(real), input = a.s.size[0] * a.s.size[1] * a.s.size[2]
    cdef Py_ssize_t first = part // a.chunks * a.together, count = min(a.together, a.examples - first)
    cdef Py_ssize_t low = a.results * (part % a.chunks) // a.chunks, rows = a.results * (part % a.chunks + 1) // a.chunks - low
    cdef Py_ssize_t g, n, r, at
    cdef real* panel = room + a.channels * a.plane
    cdef real* found = panel + a.depth * columns
    if count * a.places < columns:
        memset(panel, 0, a.depth * columns * sizeof(real))
    for g in range(a.groups):
        for n in range(count):
            copy_planes(a, x + ((first + n) * a.groups + g) * a.channels * input, room)
            lay_out(a, room, panel + n * a.places, columns, 0, a.places)
        at = g * a.results + low
        rows_by_panel(
            w + at * a.depth, a.depth, 1, rows, panel, a.depth, NULL if bias == NULL else bias + at * columns,
            0 if bias == NULL else columns, found, columns, <int>columns, columns,
        )
        for n in range(count):
            for r in range(rows):
                copy(
                    found + r * columns + n * a.places,
                    y + (((first + n) * a.groups + g) * a.results + low + r) * a.places, a.places,
                )


cdef inline void spread_together(
    Convolution* a, real* x, const real* y, const real* w, real* room, Py_ssize_t part
) noexcept nogil:
    """Some channels of the inputs of examples that have one panel together."""
    cdef Py_ssize_t columns = LUCID_PANEL // sizeof(real), taps = a.depth // a.channels
    cdef Py_ssize_t first = part // a.chunks * a.together, count = min(a.together, a.examples - first)
    cdef Py_ssize_t low = a.channels * (part % a.chunks) // a.chunks, high = a.channels * (part % a.chunks + 1) // a.chunks
    cdef Py_ssize_t g, n, r, c, t
    cdef real* panel = room + a.together * a.channels * a.plane
    cdef real* windows = panel + a.results * columns
    cdef real* planes
    cdef const real* source
    cdef Run runs[RUNS]
    cdef int found = runs_of(a, 0, a.places, runs), k
    if count * a.places < columns:
        memset(panel, 0, a.results * columns * sizeof(real))
    for g in range(a.groups):
        for n in range(count):
            source = y + ((first + n) * a.groups + g) * a.results * a.places
            for r in range(a.results):
                copy(source + r * a.places, panel + r * columns + n * a.places, a.places)
        rows_by_panel(
            w + g * a.results * a.depth + low * taps, 1, a.depth, (high - low) * taps, panel, a.results, NULL, 0, windows,
            columns, <int>columns, columns,
        )
        for n in range(count):
            planes = room + n * a.channels * a.plane
            memset(planes, 0, (high - low) * a.plane * sizeof(real))
            for c in range(high - low):
                for t in range(taps):
                    source = windows + (c * taps + t) * columns + n * a.places
                    for k in range(found):
                        add(source + runs[k].target, planes + c * a.plane + a.taps[t] + runs[k].source, runs[k].count)
            put_back(a, planes, x + ((first + n) * a.groups + g) * a.channels * (
                a.s.size[0] * a.s.size[1] * a.s.size[2]
            ), low, high)


cdef inline void do_part(
    Convolution* a, real* x, real* y, real* w, real* sums, real* bias, real* room, Py_ssize_t part
) noexcept nogil:
    if a.task == WEIGH:
        weigh_some(a, x, y, sums, room, part)
    elif a.task == CONVOLVE and a.together:
        correlate_together(a, x, w, bias, y, room, part)
    elif a.task == CONVOLVE:
        correlate_some(a, x, w, bias, y, room, part)
    elif a.together:
        spread_together(a, x, y, w, room, part)
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


cdef bint plan(Convolution* a, Task task, np.ndarray x, np.ndarray y, np.ndarray w, g, bias) except -1:
    """What there is to do; False if there are no loops for these types, or planes are too large for them."""
    cdef int kind = np.PyArray_TYPE(x)
    cdef Py_ssize_t columns, panels, shared
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
    if a.channels * a.plane > MOST_PLANES:
        return False
    a.own = a.channels * a.plane
    if task != WEIGH and a.places < columns:
        a.together = min(columns // a.places, MOST_PLANES // a.own)
        shared = a.results if task == CONVOLVE else a.channels
        panels = (a.examples + a.together - 1) // a.together
        a.chunks = max(min(pool_size() // panels, shared // LEAST_ROWS), <Py_ssize_t>1)
        a.own *= 1 if task == CONVOLVE else a.together
        a.own += (a.results + a.depth) * columns
    elif task == CONVOLVE:
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
    if a.together:
        parts = (a.examples + a.together - 1) // a.together * a.chunks
    elif a.task == CONVOLVE:
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
