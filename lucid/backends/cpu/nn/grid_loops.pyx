# cython: boundscheck=False, wraparound=False, cdivision=True
"""See grid_loops.py. Places are taken in blocks: where each reads, and with which weights, is found once for all channels."""

cimport numpy as np
from libc.math cimport fabs, floor, fmod, rint
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from lucid.backends.cpu.launch.elementwise cimport threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

# Indices in loops are of the size of addresses: shorter ones may wrap around, and such loops are not vectorized.
cdef enum:
    BLOCK = 32
    CORNERS = 8
    DIMS = 3

cdef enum Padding:
    ZEROS, BORDER, REFLECTION

cdef enum Action:
    READ, PULL_INPUT, PULL_GRID

cdef struct Task:
    Py_ssize_t examples, channels, length, total  # of an input's elements in one channel
    Py_ssize_t size[DIMS]
    Py_ssize_t blocks, groups  # of places; of channels
    int dims, padding
    Action action
    bint is_nearest, aligns_corners, is_single
    char* x  # the input, or its cotangent
    char* grid
    char* out  # the result, or its cotangent
    char* grid_ct

ctypedef fused real:
    float
    double


cdef inline real _reflected(real p, Py_ssize_t size, bint aligns_corners, real* slope) noexcept nogil:
    """Mirrored at both ends until it lies between."""
    cdef real low = <real>(0 if aligns_corners else -0.5), span = <real>(size - 1 if aligns_corners else size), distance, extra
    if span == 0:
        slope[0] = 0
        return p * 0
    if p <= low:
        slope[0] = -slope[0] if p < low else 0
    distance = <real>fabs(p - low)
    extra = <real>fmod(distance, span)
    if fmod(floor(distance / span), 2) == 0:
        return extra + low
    slope[0] = -slope[0]
    return (span - extra) + low


cdef void _position(const Task* a, real* at, Py_ssize_t size, real* slopes) noexcept nogil:
    """The positions of coordinates in a block, and by how much each changes with its coordinate."""
    cdef real last = <real>(size - 1), whole = <real>size, slope = (last if a.aligns_corners else whole) / 2, p
    cdef bint between
    cdef Py_ssize_t i
    for i in range(BLOCK):
        slopes[i] = slope
        at[i] = (at[i] + 1) * slope if a.aligns_corners else ((at[i] + 1) * whole - 1) / 2
    if a.padding == ZEROS:
        return
    if a.padding == REFLECTION:
        for i in range(BLOCK):
            at[i] = _reflected(at[i], size, a.aligns_corners, &slopes[i])
    for i in range(BLOCK):
        p = at[i]
        between = p > 0 and p < last
        slopes[i] = slopes[i] if between else 0
        p = last if p >= last else p
        at[i] = 0 if p <= 0 else p  # what is no number stays so


cdef int _prepare(
    const Task* a, const real* grid, Py_ssize_t count,
    int32_t* places, int32_t* inside, real* weights, real* fractions, real* slopes
) noexcept nogil:
    """For each place of a block the elements that it reads, corner by corner, and their weights; returns how many these are.

    An element outside is none, and stands for another one, which can be read. `fractions` and `slopes` have one number for
    each dimension: the weight of the second element there, and what `_position` says. Behind the end of a grid there are
    coordinates of 0.
    """
    cdef int corner, corners = 1 if a.is_nearest else 1 << a.dims, k, bit, there, step
    cdef Py_ssize_t i
    cdef real at[BLOCK]
    cdef real near[DIMS * BLOCK]
    cdef real q, last
    memset(at, 0, sizeof(at))
    for k in range(a.dims):
        for i in range(count):
            at[i] = grid[i * a.dims + (a.dims - 1 - k)]
        _position(a, at, a.size[k], slopes + k * BLOCK)
        for i in range(BLOCK):
            q = <real>rint(at[i]) if a.is_nearest else <real>floor(at[i])
            near[k * BLOCK + i], fractions[k * BLOCK + i] = q, at[i] - q
    for corner in range(corners):
        for i in range(BLOCK):
            places[i], inside[i], weights[i] = 0, 1, 1
        for k in range(a.dims):
            bit, step, last = corner >> (a.dims - 1 - k) & 1, <int>a.size[k], <real>(a.size[k] - 1)
            for i in range(BLOCK):
                q = near[k * BLOCK + i] + <real>bit
                there = (q >= 0) & (q <= last)
                q = q if there else 0
                inside[i] &= there
                places[i] = places[i] * step + <int32_t>q
            if a.is_nearest:
                continue
            for i in range(BLOCK):
                q = fractions[k * BLOCK + i]
                weights[i] *= q if bit else 1 - q
        places, inside, weights = places + BLOCK, inside + BLOCK, weights + BLOCK
    return corners


cdef void _read(const Task* a, real* out, const real* x, const real* grid, Py_ssize_t count) noexcept nogil:
    cdef int32_t places[CORNERS * BLOCK]
    cdef int32_t inside[CORNERS * BLOCK]
    cdef real weights[CORNERS * BLOCK]
    cdef real fractions[DIMS * BLOCK]
    cdef real slopes[DIMS * BLOCK]
    cdef real totals[BLOCK]
    cdef int corner, corners = _prepare(a, grid, count, places, inside, weights, fractions, slopes)
    cdef Py_ssize_t channel, i, k
    cdef real value
    for channel in range(a.channels):
        memset(totals, 0, sizeof(totals))
        for corner in range(corners):
            k = corner * BLOCK
            for i in range(BLOCK):
                value = x[places[k + i]]
                value = value if inside[k + i] else 0
                totals[i] = totals[i] + value * weights[k + i]
        memcpy(out, totals, count * sizeof(real))
        x += a.total
        out += a.length


cdef void _pull_input(
    const Task* a, const real* ct, real* x, const real* grid, Py_ssize_t count, Py_ssize_t channels
) noexcept nogil:
    cdef int32_t places[CORNERS * BLOCK]
    cdef int32_t inside[CORNERS * BLOCK]
    cdef real weights[CORNERS * BLOCK]
    cdef real fractions[DIMS * BLOCK]
    cdef real slopes[DIMS * BLOCK]
    cdef int corner, corners = _prepare(a, grid, count, places, inside, weights, fractions, slopes)
    cdef Py_ssize_t channel, k, n = 0
    for k in range(corners * BLOCK):  # those that are inside come to the front, with the numbers of their places in the block
        if inside[k] and k % BLOCK < count:
            places[n], weights[n], inside[n] = places[k], weights[k], <int32_t>(k % BLOCK)
            n += 1
    for channel in range(channels):
        for k in range(n):
            x[places[k]] += ct[inside[k]] * weights[k]
        x += a.total
        ct += a.length


cdef inline void _add_changes(
    const Task* a, real* totals, const real* sums, const real* fractions, int corner, int dim
) noexcept nogil:
    """Add how the weight of a corner changes along one dimension, times what that does: 0 also beside what is no number."""
    cdef real changes[BLOCK]
    cdef real value
    cdef int k, bit
    cdef Py_ssize_t i
    for i in range(BLOCK):
        changes[i] = sums[i] if corner >> (a.dims - 1 - dim) & 1 else -sums[i]
    for k in range(a.dims):
        if k == dim:
            continue
        bit = corner >> (a.dims - 1 - k) & 1
        for i in range(BLOCK):
            value = fractions[k * BLOCK + i]
            changes[i] *= value if bit else 1 - value
    for i in range(BLOCK):
        totals[i] += changes[i] if sums[i] != 0 else 0


cdef void _pull_grid(
    const Task* a, const real* ct, const real* x, const real* grid, real* grid_ct, Py_ssize_t count
) noexcept nogil:
    """A place's cotangent: what the weight of each corner does to all channels, times how the weight changes."""
    cdef int32_t places[CORNERS * BLOCK]
    cdef int32_t inside[CORNERS * BLOCK]
    cdef real weights[CORNERS * BLOCK]
    cdef real fractions[DIMS * BLOCK]
    cdef real slopes[DIMS * BLOCK]
    cdef real sums[CORNERS * BLOCK]
    cdef real given[BLOCK]
    cdef int corner, corners = _prepare(a, grid, count, places, inside, weights, fractions, slopes)
    cdef Py_ssize_t channel, i, k
    cdef real value
    if a.is_nearest:
        memset(grid_ct, 0, count * a.dims * sizeof(real))
        return
    memset(sums, 0, sizeof(sums))
    memset(given, 0, sizeof(given))
    for channel in range(a.channels):
        memcpy(given, ct, count * sizeof(real))
        for corner in range(corners):
            k = corner * BLOCK
            for i in range(BLOCK):
                value = given[i] * x[places[k + i]]
                sums[k + i] += value if inside[k + i] else 0
        x += a.total
        ct += a.length
    for k in range(a.dims):
        memset(given, 0, sizeof(given))
        for corner in range(corners):
            _add_changes(a, given, sums + corner * BLOCK, fractions, corner, <int>k)
        for i in range(count):
            value = given[i] * slopes[k * BLOCK + i]
            grid_ct[i * a.dims + (a.dims - 1 - k)] = value if given[i] != 0 else 0


cdef void _part(const Task* a, Py_ssize_t part, real* x, real* grid, real* out, real* grid_ct) noexcept nogil:
    """A block of places of one example, or all places for a group of its channels."""
    cdef Py_ssize_t each = a.groups if a.action == PULL_INPUT else a.blocks
    cdef Py_ssize_t example = part // each, start, first, last, count
    grid += example * a.length * a.dims
    x += example * a.channels * a.total
    out += example * a.channels * a.length
    if a.action == PULL_INPUT:
        first, last = a.channels * (part % each) // each, a.channels * (part % each + 1) // each
        memset(x + first * a.total, 0, (last - first) * a.total * sizeof(real))
        start = 0
        while start < a.length:
            count = min(<Py_ssize_t>BLOCK, a.length - start)
            _pull_input(
                a, out + first * a.length + start, x + first * a.total, grid + start * a.dims, count, last - first
            )
            start += BLOCK
        return
    start = part % each * BLOCK
    count = min(<Py_ssize_t>BLOCK, a.length - start)
    if a.action == READ:
        _read(a, out + start, x, grid + start * a.dims, count)
    else:
        grid_ct += (example * a.length + start) * a.dims
        _pull_grid(a, out + start, x, grid + start * a.dims, grid_ct, count)


cdef void _some(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    if a.is_single:
        _part(a, part, <float*>a.x, <float*>a.grid, <float*>a.out, <float*>a.grid_ct)
    else:
        _part(a, part, <double*>a.x, <double*>a.grid, <double*>a.out, <double*>a.grid_ct)


cdef void run(const void* task, char** data) noexcept nogil:
    """The entry point: the input or its cotangent, the grid, the result or its cotangent, and the cotangent of the grid."""
    cdef Task a = (<const Task*>task)[0]
    cdef int threads = threads_for(5.0 * a.examples * a.channels * a.length)
    a.x, a.grid, a.out, a.grid_ct = data[0], data[1], data[2], data[3]
    a.groups = min(<Py_ssize_t>2 * threads if threads > 1 else 1, a.channels)
    share(_some, &a, a.examples * (a.groups if a.action == PULL_INPUT else a.blocks), threads)


cdef Task _task(str action, x, Py_ssize_t length, str mode, str padding, bint aligns_corners):
    cdef Task a
    cdef int k
    memset(&a, 0, sizeof(Task))
    a.examples, a.channels, a.length, a.dims = x.shape[0], x.shape[1], length, x.ndim - 2
    a.total = 1
    for k in range(a.dims):
        a.size[k] = x.shape[2 + k]
        a.total *= a.size[k]
    a.blocks = (length + BLOCK - 1) // BLOCK
    a.padding = ZEROS if padding == "zeros" else BORDER if padding == "border" else REFLECTION
    a.action = READ if action == "read" else PULL_INPUT if action == "pull_input" else PULL_GRID
    a.is_nearest, a.aligns_corners, a.is_single = mode == "nearest", aligns_corners, x.dtype.itemsize == sizeof(float)
    return a


def entry(str action, x, Py_ssize_t length, str mode, str padding, bint aligns_corners):
    cdef Task a = _task(action, x, length, mode, padding, aligns_corners)
    return <size_t><void*>run, (<char*>&a)[: sizeof(Task)]


def sample(str action, np.ndarray x, np.ndarray grid, np.ndarray out, grid_ct, str mode, str padding, bint aligns_corners):
    cdef Task a = _task(action, x, np.PyArray_DIM(grid, 1), mode, padding, aligns_corners)
    cdef char* data[4]
    data[0], data[1], data[2], data[3] = np.PyArray_BYTES(x), np.PyArray_BYTES(grid), np.PyArray_BYTES(out), NULL
    if grid_ct is not None:
        data[3] = np.PyArray_BYTES(<np.ndarray>grid_ct)
    with nogil:
        run(&a, data)
