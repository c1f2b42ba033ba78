# cython: boundscheck=False, wraparound=False, cdivision=True
"""See gathers.py.

The places that positions name are an index space, the shape to which positions are broadcast; behind it come the rest of
the dimensions, which are moved as they are. Dimensions in which everything goes on alike are one. Places are taken in
chunks: first their offsets in bytes are computed, checked, and then elements are moved or put together.

Threads divide the index space of a gather. A scatter is divided so that no two of them write to the same place, and
each sees all that is for its places in order: along a dimension in which a position rises from one index to the next, or
in the dimensions behind; otherwise each thread looks at all places and takes those in its own range of memory.
"""

from functools import partial

import numpy

cimport numpy as np
from libc.stdint cimport int64_t
from libc.string cimport memset
from lucid.backends.cpu.launch cimport runs
from lucid.backends.cpu.launch.elementwise cimport DIMS, bounds_of, is_enabled, is_plain, new_array, ran
from lucid.backends.cpu.thread_pool cimport pool_size, share

from lucid.backends.cpu.launch.copies import copied, zeros

np.import_array()

cdef enum:
    POSITIONS = 16
    CHUNK = 512  # places that are taken together
    LEAST_MOVED = 20000  # nanoseconds of work, from which on threads pay
    TILE = 16  # elements of a row that lie apart
    SHORT = 256  # elements of rows that are looked through together
    CHECKED = 4096  # positions of these, about
    NEAR = 1 << 22  # bytes of memory in which single elements are mostly found in a cache
    RANGES = 64  # of memory, each for a thread, at most
    ROWS_OF_RANGE = 64  # rows for each of them, from which on it pays to look where they lie


ctypedef void (*FoldAt)(
    char* x, Py_ssize_t* places, char* values, Py_ssize_t* sources,
    Py_ssize_t count, Py_ssize_t width, Py_ssize_t stride, Py_ssize_t step,
) noexcept nogil

ctypedef void (*FoldAlong)(
    char* x, int64_t* positions, Py_ssize_t stride, char* values, Py_ssize_t step, Py_ssize_t count
) noexcept nogil

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef struct { uint64_t first, second; } lucid_pair;

    #define LUCID_MOVE(T) \\
        for (ptrdiff_t i = 0; i < count; i++) { \\
            char *t = to + at[i]; \\
            const char *f = from + of[i]; \\
            for (ptrdiff_t j = 0; j < width; j++, t += step, f += stride) { T moved; memcpy(&moved, f, sizeof(T)); memcpy(t, &moved, sizeof(T)); } \\
        }
    #define LUCID_MOVE_SINGLE(T) \\
        for (ptrdiff_t i = 0; i < count; i++) { T moved; memcpy(&moved, from + of[i], sizeof(T)); memcpy(to + at[i], &moved, sizeof(T)); }
    #define LUCID_MOVE_ONE(T) \\
        for (ptrdiff_t i = 0; i < count; i++) { \\
            char *t = to + at[i]; \\
            T moved; \\
            memcpy(&moved, from + of[i], sizeof(T)); \\
            for (ptrdiff_t j = 0; j < width; j++) memcpy(t + j * sizeof(T), &moved, sizeof(T)); \\
        }
    #define LUCID_MOVE_ANY(T) \\
        if (width == 1) { LUCID_MOVE_SINGLE(T) } \\
        else if (step == sizeof(T) && stride == 0) { LUCID_MOVE_ONE(T) } \\
        else { LUCID_MOVE(T) }

    /* Rows of elements from some places to others. */
    static void lucid_move(char *to, const ptrdiff_t *at, ptrdiff_t step, const char *from, const ptrdiff_t *of,
                           ptrdiff_t stride, ptrdiff_t count, ptrdiff_t width, ptrdiff_t size) {
        if (width > 1 && step == size && stride == size) {
            for (ptrdiff_t i = 0; i < count; i++) lucid_run(to + at[i], from + of[i], width * size);
            return;
        }
        switch (size) {
            case 1: LUCID_MOVE_ANY(uint8_t) break;
            case 2: LUCID_MOVE_ANY(uint16_t) break;
            case 4: LUCID_MOVE_ANY(uint32_t) break;
            case 8: LUCID_MOVE_ANY(uint64_t) break;
            default: LUCID_MOVE_ANY(lucid_pair)
        }
    }

    /* Add the offsets of positions that lie side by side; whether one of them is outside. */
    static int lucid_offsets(ptrdiff_t *out, const int64_t *positions, ptrdiff_t count, int64_t size, ptrdiff_t step) {
        uint64_t wrong = 0, last = (uint64_t)size - 1;
        for (ptrdiff_t i = 0; i < count; i++) {
            uint64_t p = (uint64_t)(positions[i] + (size & (positions[i] >> 63)));
            wrong |= p | (last - p); /* the highest bit is the sign */
            out[i] = (ptrdiff_t)((uint64_t)out[i] + p * (uint64_t)step);
        }
        return wrong >> 63;
    }

    /* Whether positions are outside (2), or some count from the end (1). */
    static int lucid_check(const int64_t *positions, ptrdiff_t count, int64_t size) {
        uint64_t wrong = 0, negative = 0, last = (uint64_t)size - 1;
        for (ptrdiff_t i = 0; i < count; i++) {
            uint64_t p = (uint64_t)(positions[i] + (size & (positions[i] >> 63)));
            wrong |= p | (last - p);
            negative |= (uint64_t)positions[i];
        }
        return wrong >> 63 ? 2 : (int)(negative >> 63);
    }

    #if defined(__GNUC__)
    #define LUCID_FOUR_AT_ONCE _Pragma("GCC unroll 4")
    #define LUCID_APART __attribute__((noinline))  /* so that what the loops need is in registers */
    #else
    #define LUCID_FOUR_AT_ONCE
    #define LUCID_APART
    #endif
    #define LUCID_TAKE(T) \
        if (stride == sizeof(T) && step == sizeof(T)) { \
            LUCID_FOUR_AT_ONCE \
            for (ptrdiff_t i = 0; i < count; i++) { T moved; memcpy(&moved, x + positions[i] * sizeof(T), sizeof(T)); memcpy(v + i * sizeof(T), &moved, sizeof(T)); } \
        } else { \
            LUCID_FOUR_AT_ONCE \
            for (ptrdiff_t i = 0; i < count; i++) { T moved; memcpy(&moved, x + positions[i] * stride, sizeof(T)); memcpy(v + i * step, &moved, sizeof(T)); } \
        }
    #define LUCID_PUT(T) \
        LUCID_FOUR_AT_ONCE \
        for (ptrdiff_t i = 0; i < count; i++) { T moved; memcpy(&moved, v + i * step, sizeof(T)); memcpy(x + positions[i] * stride, &moved, sizeof(T)); }
    #define LUCID_ONE(T) if (reads) { LUCID_TAKE(T) } else { LUCID_PUT(T) }

    /* Single elements of a row, at positions that were checked. */
    LUCID_APART static void lucid_move_along(char *restrict x, const int64_t *restrict positions, ptrdiff_t stride,
                                 char *restrict v, ptrdiff_t step, ptrdiff_t count, ptrdiff_t size, int reads) {
        switch (size) {
            case 1: LUCID_ONE(uint8_t) break;
            case 2: LUCID_ONE(uint16_t) break;
            case 4: LUCID_ONE(uint32_t) break;
            case 8: LUCID_ONE(uint64_t) break;
            default: LUCID_ONE(lucid_pair)
        }
    }

    /* Elements of two rows at the same positions, which were checked. Those of 4 bytes are written in twos: a processor
       that stores one word in a cycle takes a fourth less time for them. */
    LUCID_APART static void lucid_take_twice(char *restrict x, char *restrict y, const int64_t *restrict positions,
                                 ptrdiff_t stride, char *restrict v, char *restrict w, ptrdiff_t step, ptrdiff_t count, ptrdiff_t size) {
        ptrdiff_t i = 0;
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (size == 4 && step == 4)
            for (; i + 2 <= count; i += 2) {
                ptrdiff_t p = positions[i] * stride, q = positions[i + 1] * stride;
                uint32_t one, next;
                uint64_t both;
                memcpy(&one, x + p, 4), memcpy(&next, x + q, 4);
                both = one | (uint64_t)next << 32;
                memcpy(v + 4 * i, &both, 8);
                memcpy(&one, y + p, 4), memcpy(&next, y + q, 4);
                both = one | (uint64_t)next << 32;
                memcpy(w + 4 * i, &both, 8);
            }
    #endif
        if (i == count) return;
        lucid_move_along(x, positions + i, stride, v + i * step, step, count - i, size, 1);
        lucid_move_along(y, positions + i, stride, w + i * step, step, count - i, size, 1);
    }
    """
    void lucid_take_twice(
        char*, char*, const int64_t*, Py_ssize_t, char*, char*, Py_ssize_t, Py_ssize_t, Py_ssize_t
    ) noexcept nogil
    void lucid_move(
        char*, const Py_ssize_t*, Py_ssize_t, const char*, const Py_ssize_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t
    ) noexcept nogil
    int lucid_check(const int64_t*, Py_ssize_t, int64_t) noexcept nogil
    void lucid_move_along(
        char*, const int64_t*, Py_ssize_t, char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, bint
    ) noexcept nogil
    bint lucid_offsets(Py_ssize_t*, const int64_t*, Py_ssize_t, int64_t, Py_ssize_t) noexcept nogil


# --- places, and what is moved there -----------------------------------------------------------

cdef enum Division:
    BY_PLACES  # ranges of the index space
    ALONG  # one dimension of it
    BY_REST  # one dimension behind it
    BY_TARGET  # ranges of memory


cdef struct Task:
    int positions, dims, rest
    char* given[POSITIONS]
    Py_ssize_t sizes[POSITIONS]  # of the dimensions that positions are in
    Py_ssize_t steps[POSITIONS]  # their strides
    Py_ssize_t shape[DIMS]  # of the index space
    Py_ssize_t strides[DIMS][POSITIONS]  # of positions
    Py_ssize_t moves[DIMS]  # of values
    Py_ssize_t widths[DIMS]  # the dimensions behind
    Py_ssize_t x_strides[DIMS]
    Py_ssize_t v_strides[DIMS]
    char* x
    char* v
    Py_ssize_t size  # of an element
    bint reads  # from x into values, otherwise the other way
    FoldAt fold
    FoldAlong fold_along
    int only  # the position that alone goes on in the innermost dimension, where there is nothing behind; or -1
    Division division
    int along, risen
    Py_ssize_t parts, low, high
    bint is_wrong


cdef inline Py_ssize_t _count(Task* task) noexcept nogil:
    cdef Py_ssize_t found = 1
    cdef int d
    for d in range(task.dims):
        found *= task.shape[d]
    return found


cdef inline bint _fill(
    Task* task, Py_ssize_t* index, Py_ssize_t first, Py_ssize_t count, Py_ssize_t* places, Py_ssize_t* sources
) noexcept nogil:
    """The offsets of places in one row of the index space; whether one of them is outside."""
    cdef int d, k, inner = task.dims - 1
    cdef Py_ssize_t i, stride, base = 0, source = first * task.moves[inner], move = task.moves[inner]
    cdef int64_t p, size
    cdef bint wrong = False
    cdef char* at
    cdef char* rows[POSITIONS]
    for d in range(inner):
        source += index[d] * task.moves[d]
    for k in range(task.positions):
        at = task.given[k] + first * task.strides[inner][k]
        for d in range(inner):
            at += index[d] * task.strides[d][k]
        rows[k] = at
        if task.strides[inner][k] == 0 or count == 1:
            p = (<int64_t*>at)[0]
            size = task.sizes[k]
            if p < 0:
                p += size
            if p < 0 or p >= size:
                return True
            base += p * task.steps[k]
    for i in range(count):
        places[i] = base
        sources[i] = source + i * move
    if count == 1:
        return wrong
    for k in range(task.positions):
        stride = task.strides[inner][k]
        if stride == sizeof(int64_t):
            wrong |= lucid_offsets(places, <int64_t*>rows[k], count, task.sizes[k], task.steps[k])
        elif stride != 0:
            size = task.sizes[k]
            for i in range(count):
                p = (<int64_t*>(rows[k] + i * stride))[0]
                if p < 0:
                    p += size
                if p < 0 or p >= size:
                    return True
                places[i] += p * task.steps[k]
    return wrong


cdef void _apply_rows(
    Task* task, Py_ssize_t* places, Py_ssize_t* sources, Py_ssize_t count, Py_ssize_t x_offset, Py_ssize_t v_offset
) noexcept nogil:
    """Move or put together one row behind each place."""
    cdef Py_ssize_t width = 1, stride = task.size, step = task.size, first, some
    cdef char* x
    cdef char* v
    if task.rest:
        width, stride, step = task.widths[task.rest - 1], task.x_strides[task.rest - 1], task.v_strides[task.rest - 1]
    # What lies apart is taken in tiles, so that neighbours of what was read or written are still in the cache.
    some = width if stride == task.size and step in (0, task.size) else TILE
    first = 0
    while first < width:
        x = task.x + x_offset + first * stride
        v = task.v + v_offset + first * step
        if task.fold != NULL:
            task.fold(x, places, v, sources, count, min(some, width - first), stride, step)
        elif task.reads:
            lucid_move(v, sources, step, x, places, stride, count, min(some, width - first), task.size)
        else:
            lucid_move(x, places, stride, v, sources, step, count, min(some, width - first), task.size)
        first += some


cdef void _apply(Task* task, Py_ssize_t* places, Py_ssize_t* sources, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t index[DIMS]
    cdef Py_ssize_t x_offset = 0, v_offset = 0
    cdef int d, outer = task.rest - 1
    if outer <= 0:
        _apply_rows(task, places, sources, count, 0, 0)
        return
    for d in range(outer):
        index[d] = 0
    while True:
        _apply_rows(task, places, sources, count, x_offset, v_offset)
        d = outer - 1
        while d >= 0:
            index[d] += 1
            x_offset += task.x_strides[d]
            v_offset += task.v_strides[d]
            if index[d] < task.widths[d]:
                break
            x_offset -= index[d] * task.x_strides[d]
            v_offset -= index[d] * task.v_strides[d]
            index[d] = 0
            d -= 1
        if d < 0:
            return


cdef struct Checked:
    int64_t* positions
    Py_ssize_t count


cdef inline int _apply_along(
    Task* task, Py_ssize_t* index, Py_ssize_t first, Py_ssize_t count, Checked* checked
) noexcept nogil:
    """Move or put together some elements of a row of the index space, if its positions are simple; as `lucid_check`.

    Positions that were those of the row before are not looked at again.
    """
    cdef int d, k, inner = task.dims - 1, found
    cdef Py_ssize_t base = 0, source = first * task.moves[inner]
    cdef int64_t p
    cdef char* at
    cdef int64_t* positions = NULL
    for d in range(inner):
        source += index[d] * task.moves[d]
    for k in range(task.positions):
        at = task.given[k] + first * task.strides[inner][k]
        for d in range(inner):
            at += index[d] * task.strides[d][k]
        if k == task.only:
            positions = <int64_t*>at
            continue
        p = (<int64_t*>at)[0]
        if p < 0:
            p += task.sizes[k]
        if p < 0 or p >= task.sizes[k]:
            return 2
        base += p * task.steps[k]
    if positions != checked.positions or count > checked.count:
        found = lucid_check(positions, count, task.sizes[task.only])
        if found:
            return found
        checked.positions, checked.count = positions, count
    if task.fold != NULL:
        task.fold_along(task.x + base, positions, task.steps[task.only], task.v + source, task.moves[inner], count)
    else:
        lucid_move_along(
            task.x + base, positions, task.steps[task.only], task.v + source, task.moves[inner], count, task.size, task.reads
        )
    return 0


cdef inline Py_ssize_t _rows_from(Task* task, Py_ssize_t* index, char** rows) noexcept nogil:
    """Where the positions of a row of the index space lie; the offset of its values."""
    cdef Py_ssize_t source = 0
    cdef int d, k
    for d in range(task.dims - 1):
        source += index[d] * task.moves[d]
    for k in range(task.positions):
        rows[k] = task.given[k]
        for d in range(task.dims - 1):
            rows[k] += index[d] * task.strides[d][k]
    return source


cdef inline bint _row_begins(Task* task, char** rows, Py_ssize_t row, Py_ssize_t* base) noexcept nogil:
    """The offset in x of a row after the one at `rows`; whether its positions are inside."""
    cdef int k
    cdef int64_t p
    base[0] = 0
    for k in range(task.positions):
        if k == task.only:
            continue
        p = (<int64_t*>(rows[k] + row * task.strides[task.dims - 2][k]))[0]
        if p < 0:
            p += task.sizes[k]
        if p < 0 or p >= task.sizes[k]:
            return False
        base[0] += p * task.steps[k]
    return True


cdef inline Py_ssize_t _take_rows(
    Task* task, Py_ssize_t* index, Py_ssize_t most, Checked* checked
) noexcept nogil:
    """Move elements into so many whole rows, all from the same positions; how many rows were done, the last if not all."""
    cdef int inner = task.dims - 1
    cdef Py_ssize_t count = task.shape[inner], row, base, before = 0
    cdef Py_ssize_t stride = task.steps[task.only], step = task.moves[inner], move = task.moves[inner - 1]
    cdef char* rows[POSITIONS]
    cdef Py_ssize_t source = _rows_from(task, index, rows)
    cdef int64_t* positions = <int64_t*>rows[task.only]
    if positions != checked.positions or count > checked.count:
        if lucid_check(positions, count, task.sizes[task.only]):
            return 0
        checked.positions, checked.count = positions, count
    for row in range(most):
        if not _row_begins(task, rows, row, &base):
            return row & ~1
        if row & 1:
            lucid_take_twice(
                task.x + before, task.x + base, positions, stride, task.v + source - move, task.v + source, step, count,
                task.size,
            )
        elif row == most - 1:
            lucid_move_along(task.x + base, positions, stride, task.v + source, step, count, task.size, True)
        before = base
        source += move
    return most


cdef inline Py_ssize_t _apply_short_rows(Task* task, Py_ssize_t* index, Py_ssize_t most) noexcept nogil:
    """Move or put together some of so many whole rows, whose positions lie one after the other; how many rows were done."""
    cdef int inner = task.dims - 1
    cdef Py_ssize_t count = task.shape[inner], row, base
    cdef Py_ssize_t stride = task.steps[task.only], step = task.moves[inner]
    cdef char* rows[POSITIONS]
    cdef Py_ssize_t source = _rows_from(task, index, rows)
    cdef int64_t* positions = <int64_t*>rows[task.only]
    most = min(most, CHECKED // count)
    if lucid_check(positions, most * count, task.sizes[task.only]):
        return 0
    for row in range(most):
        if not _row_begins(task, rows, row, &base):
            return row
        if task.fold != NULL:
            task.fold_along(task.x + base, positions, stride, task.v + source, step, count)
        else:
            lucid_move_along(task.x + base, positions, stride, task.v + source, step, count, task.size, task.reads)
        positions += count
        source += task.moves[inner - 1]
    return most


cdef inline void _step(Task* task, Py_ssize_t* index) noexcept nogil:
    """Go on to the next row of the index space."""
    cdef int d
    for d in range(task.dims - 2, -1, -1):
        index[d] += 1
        if index[d] < task.shape[d]:
            break
        index[d] = 0


cdef void _walk(Task* task, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Take the places of a range of the index space, in row-major order."""
    cdef Py_ssize_t places[CHUNK]
    cdef Py_ssize_t sources[CHUNK]
    cdef Py_ssize_t index[DIMS]
    cdef int d, inner = task.dims - 1, answer
    cdef Py_ssize_t length = task.shape[inner], row = begin // length, column = begin % length, count, filled, i, kept
    cdef bint wrong, is_simple = task.only >= 0 and task.division != BY_TARGET
    # Whether rows that follow each other have the same positions.
    cdef bint are_alike = is_simple and task.reads and inner > 0 and task.strides[inner - 1][task.only] == 0
    cdef bint are_short = (
        is_simple and inner > 0 and length <= SHORT
        and task.strides[inner - 1][task.only] == length * <Py_ssize_t>sizeof(int64_t)
    )
    cdef Checked checked
    checked.positions, checked.count = NULL, 0
    for d in range(inner - 1, -1, -1):
        index[d] = row % task.shape[d]
        row //= task.shape[d]
    while begin < end:
        filled = 0
        wrong = False
        while filled < CHUNK and begin < end:
            if (are_alike or are_short) and filled == 0 and column == 0 and end - begin >= length:
                count = min(task.shape[inner - 1] - index[inner - 1], (end - begin) // length)
                if are_alike:
                    count = _take_rows(task, index, count, &checked)
                else:
                    count = _apply_short_rows(task, index, count)
                    are_short = count > 0  # or else each row is looked at by itself
                if count:
                    begin += count * length
                    index[inner - 1] += count - 1
                    _step(task, index)
                    continue
            count = min(length - column, end - begin)
            answer = _apply_along(task, index, column, count, &checked) if is_simple and filled == 0 else 1
            if answer:
                count = min(CHUNK - filled, count)
                wrong |= answer == 2 or _fill(task, index, column, count, places + filled, sources + filled)
                filled += count
            begin += count
            column += count
            if column == length:
                column = 0
                _step(task, index)
        if wrong:
            task.is_wrong = True
            return
        if not filled:
            continue
        if task.division == BY_TARGET:
            kept = 0
            for i in range(filled):
                places[kept], sources[kept] = places[i], sources[i]
                kept += (places[kept] >= task.low) & (places[kept] < task.high)
            filled = kept
        if filled:
            _apply(task, places, sources, filled)


cdef void _do_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Task own
    cdef Py_ssize_t count, first, last, parts = task.parts
    cdef int d = task.along, k
    if task.division == BY_PLACES:
        count = _count(task)
        _walk(task, count * part // parts, count * (part + 1) // parts)
        return
    own = task[0]
    if task.division == ALONG:
        first, last = _boundary(task, part), _boundary(task, part + 1)
        own.shape[d] = last - first
        if first == last:
            return
        own.v += first * task.moves[d]
        for k in range(task.positions):
            own.given[k] += first * task.strides[d][k]
    elif task.division == BY_REST:
        first, last = task.widths[d] * part // parts, task.widths[d] * (part + 1) // parts
        own.widths[d] = last - first
        own.x += first * task.x_strides[d]
        own.v += first * task.v_strides[d]
    else:
        # The pool wants two parts for each thread; here one more costs a look at all places.
        if part & 1:
            return
        first = (task.high - task.low) // (parts // 2)
        own.low += first * (part // 2)
        if part + 2 < parts:
            own.high = own.low + first
    _walk(&own, 0, _count(&own))
    if own.is_wrong:
        task.is_wrong = True


cdef Py_ssize_t _boundary(Task* task, Py_ssize_t part) noexcept nogil:
    """Where a part begins: at an index at which the position is another than before."""
    cdef Py_ssize_t count = task.shape[task.along], i = count * part // task.parts
    cdef Py_ssize_t stride = task.strides[task.along][task.risen]
    cdef char* at = task.given[task.risen] + i * stride
    while 0 < i < count and (<int64_t*>at)[0] == (<int64_t*>(at - stride))[0]:
        at += stride
        i += 1
    return i


cdef int _rising(Task* task, Py_ssize_t least) noexcept nogil:
    """A dimension of the index space along which a position rises often enough, and never falls."""
    cdef int d, k, found
    cdef Py_ssize_t i, stride, rises
    cdef int64_t before, p
    for k in range(task.positions):
        found = -1
        for d in range(task.dims):
            if task.strides[d][k] != 0:
                found = d if found == -1 else -2
        if found < 0 or task.shape[found] < least:
            continue
        before, rises = -1, 0
        stride = task.strides[found][k]
        for i in range(task.shape[found]):
            p = (<int64_t*>(task.given[k] + i * stride))[0]
            if p < before:
                break
            rises += p > before
            before = p
        else:
            if rises >= least:
                task.risen = k
                return found
    return -1


cdef int _widest(Task* task, Py_ssize_t least) noexcept nogil:
    """The dimension behind the index space that is divided, if it is wide enough."""
    cdef int d, found = -1
    for d in range(task.rest):
        if task.widths[d] >= (32 * least if d == task.rest - 1 else least):
            if found < 0 or task.widths[d] > task.widths[found]:
                found = d
    return found


cdef bint _are_spread(Task* task, int ranges) noexcept nogil:
    """Whether ranges of memory have about the same number of the rows that one vector of positions names.

    Whole rows take less time than parts of them: memory is fetched in long runs.
    """
    cdef Py_ssize_t counts[RANGES]
    cdef Py_ssize_t i, most = 0, count = task.shape[0]
    cdef int64_t p, size = task.sizes[0]
    if task.dims != 1 or task.positions != 1 or ranges > RANGES or count < ROWS_OF_RANGE * ranges:
        return False
    memset(counts, 0, sizeof(counts))
    for i in range(count):
        p = (<int64_t*>(task.given[0] + i * task.strides[0][0]))[0]
        p += size if p < 0 else 0
        if p < 0 or p >= size:
            return False
        counts[p * ranges // size] += 1
    for i in range(ranges):
        most = max(most, counts[i])
    return 5 * most * ranges <= 6 * count


cdef double _work(Task* task) noexcept nogil:
    """About how many nanoseconds it takes."""
    cdef double behind = 1
    cdef int d
    for d in range(task.rest):
        behind *= task.widths[d]
    return _count(task) * (2.0 + 0.25 * behind)


cdef void _run(Task* task, int threads) noexcept nogil:
    """Divide the work and do it."""
    cdef Py_ssize_t count = _count(task)
    cdef int d
    task.division = BY_PLACES
    if threads == 1:
        _walk(task, 0, count)
        return
    task.parts = 8 * threads
    if not task.reads or count < task.parts:
        task.along = -1 if task.reads else _rising(task, task.parts)
        if task.along >= 0:
            task.division = ALONG
        else:
            task.along = _widest(task, 2 * threads)
            task.parts = 2 * threads
            if task.along >= 0 and (task.reads or not _are_spread(task, threads)):
                task.division = BY_REST
            elif task.reads:
                task.parts = min(count, 2 * threads)
            else:
                task.division = BY_TARGET
                task.low = task.high = 0
                for d in range(task.positions):
                    if task.steps[d] < 0:
                        task.low += task.steps[d] * (task.sizes[d] - 1)
                    else:
                        task.high += task.steps[d] * (task.sizes[d] - 1)
                task.high += 1
                if task.only >= 0 and task.high - task.low < NEAR:
                    # Each thread would find out for all places whose they are, which takes longer than to write there.
                    task.division = BY_PLACES
                    _walk(task, 0, count)
                    return
    share(_do_part, task, task.parts, threads)


# --- from arrays to a task ---------------------------------------------------------------------


cdef int _selection(np.ndarray x, tuple positions, int first, np.npy_intp* shape, int* places) except -2:
    """The shape of what is selected and how many dimensions are places; the number of dimensions, or -1."""
    cdef int d, k, own, dims = 0, n = len(positions) - first
    cdef np.ndarray p
    if n < 1 or n > POSITIONS or n > np.PyArray_NDIM(x) or np.PyArray_TYPE(x) == np.NPY_OBJECT:
        return -1
    if np.PyArray_ITEMSIZE(x) not in (1, 2, 4, 8, 16):
        return -1
    for k in range(n):
        item = positions[first + k]
        if not is_plain(item) or np.PyArray_TYPE(<np.ndarray>item) != np.NPY_INT64:
            return -1
        dims = max(dims, np.PyArray_NDIM(<np.ndarray>item))
    if dims + np.PyArray_NDIM(x) - n > DIMS:
        return -1
    for d in range(dims):
        shape[d] = 1
        for k in range(n):
            p = <np.ndarray>positions[first + k]
            own = d - dims + np.PyArray_NDIM(p)
            if own >= 0 and np.PyArray_DIM(p, own) != 1:
                if shape[d] != 1 and shape[d] != np.PyArray_DIM(p, own):
                    return -1
                shape[d] = np.PyArray_DIM(p, own)
    places[0] = dims
    for d in range(n, np.PyArray_NDIM(x)):
        shape[dims] = np.PyArray_DIM(x, d)
        dims += 1
    return dims


cdef inline Py_ssize_t _stride(np.ndarray a, int d, int dims) noexcept:
    """The stride of an array that is broadcast to so many dimensions."""
    cdef int own = d - dims + np.PyArray_NDIM(a)
    return np.PyArray_STRIDE(a, own) if own >= 0 and np.PyArray_DIM(a, own) != 1 else 0


cdef void _bind(
    Task* task, np.ndarray x, np.ndarray v, tuple positions, int first, np.npy_intp* shape, int dims, int places
) noexcept:
    cdef int d, k, last
    cdef Py_ssize_t strides[POSITIONS]
    cdef Py_ssize_t move
    cdef np.ndarray p
    cdef bint joins
    task.positions = len(positions) - first
    task.is_wrong = False
    task.x, task.v = <char*>np.PyArray_DATA(x), <char*>np.PyArray_DATA(v)
    task.size = np.PyArray_ITEMSIZE(x)
    for k in range(task.positions):
        p = <np.ndarray>positions[first + k]
        task.given[k] = <char*>np.PyArray_DATA(p)
        task.sizes[k], task.steps[k] = np.PyArray_DIM(x, k), np.PyArray_STRIDE(x, k)
    task.dims = 0
    for d in range(places):
        if shape[d] == 1:
            continue
        last = task.dims - 1
        move = _stride(v, d, dims)
        joins = last >= 0 and task.moves[last] == move * shape[d]
        for k in range(task.positions):
            strides[k] = _stride(<np.ndarray>positions[first + k], d, places)
            joins = joins and task.strides[last][k] == strides[k] * shape[d]
        if joins:
            task.shape[last] *= shape[d]
        else:
            last += 1
            task.shape[last] = shape[d]
            task.dims = last + 1
        task.moves[last] = move
        for k in range(task.positions):
            task.strides[last][k] = strides[k]
    if task.dims == 0:
        task.dims = task.shape[0] = 1
        task.moves[0] = 0
        for k in range(task.positions):
            task.strides[0][k] = 0
    task.rest = 0
    task.only = -1
    for d in range(places, dims):
        _add_behind(task, shape[d], np.PyArray_STRIDE(x, d - places + task.positions), _stride(v, d, dims))


cdef void _add_behind(Task* task, Py_ssize_t width, Py_ssize_t stride, Py_ssize_t move) noexcept:
    """One more dimension behind the places, joined with the last one where it goes on as that does."""
    cdef int last = task.rest - 1
    if width == 1:
        return
    if last >= 0 and task.x_strides[last] == stride * width and task.v_strides[last] == move * width:
        task.widths[last] *= width
    else:
        last += 1
        task.widths[last] = width
        task.rest = last + 1
    task.x_strides[last], task.v_strides[last] = stride, move


cdef class Fold:
    cdef FoldAt at
    cdef FoldAlong along
    cdef readonly object dtype
    cdef int x_type, v_type, parts
    cdef object code

    def __init__(self, addresses, dtype, values, parts, code):
        self.at = <FoldAt><void*><size_t>addresses[0]
        self.along = <FoldAlong><void*><size_t>addresses[1]
        self.dtype = dtype
        self.x_type, self.v_type = dtype.num, values.num
        self.parts = parts
        self.code = code


cdef void _look(Task* task) noexcept:
    """Find the position that alone goes on in the innermost dimension, if there is one."""
    cdef int k, inner = task.dims - 1
    if task.rest == 0:
        for k in range(task.positions):
            if task.strides[inner][k] != 0:
                if task.only >= 0 or task.strides[inner][k] != sizeof(int64_t):
                    task.only = -1
                    break
                task.only = k


cdef void _start(Task* task) noexcept:
    _look(task)
    if _work(task) < LEAST_MOVED:
        task.division = BY_PLACES
        _walk(task, 0, _count(task))
    else:
        with nogil:
            _run(task, pool_size())


cdef struct Entered:
    Task task
    Py_ssize_t cleared  # bytes of what is added up


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: the table, values, a byte that becomes 1 if a position is outside, else 0, and positions."""
    cdef Entered entered = (<const Entered*>given)[0]
    cdef Task* task = &entered.task
    cdef int k
    task.x, task.v = data[0], data[1]
    for k in range(task.positions):
        task.given[k] = data[3 + k]
    if entered.cleared:
        memset(task.x, 0, entered.cleared)
    _run(task, 1 if _work(task) < LEAST_MOVED else pool_size())
    data[2][0] = task.is_wrong


def entry(np.ndarray x, np.ndarray v, tuple positions, Fold fold, bint reads, bint clears):
    cdef Entered entered
    cdef Task* task = &entered.task
    cdef np.npy_intp shape[DIMS]
    cdef int d, own, places = 0, dims = _selection(x, positions, 0, shape, &places)
    if dims < 0 or np.PyArray_NDIM(v) > dims or np.PyArray_SIZE(v) == 0 or np.PyArray_SIZE(x) == 0:
        return None
    for d in range(dims):
        own = d - dims + np.PyArray_NDIM(v)
        if shape[d] == 0 or (own >= 0 and np.PyArray_DIM(v, own) not in (1, shape[d])):
            return None
    memset(&entered, 0, sizeof(Entered))
    _bind(task, x, v, positions, 0, shape, dims, places)
    task.reads, entered.cleared = reads, np.PyArray_NBYTES(x) if clears else 0
    if fold is not None:
        if np.PyArray_TYPE(x) != fold.x_type or np.PyArray_TYPE(v) != fold.v_type or fold.parts > 1:
            return None
        task.fold, task.fold_along = fold.at, fold.along
    elif np.PyArray_TYPE(x) != np.PyArray_TYPE(v):
        return None
    _look(task)
    return <size_t><void*>_enter, (<char*>&entered)[: sizeof(Entered)]


cdef object _gathered(np.ndarray x, tuple positions, int first):
    """The elements at positions, those from `first` on; None where the reference is to compute."""
    cdef Task task
    cdef np.npy_intp shape[DIMS]
    cdef int places = 0, dims
    if not is_enabled() or not is_plain(x):
        return None
    dims = _selection(x, positions, first, shape, &places)
    if dims < 0:
        return None
    out = new_array(<np.dtype><object>np.PyArray_DESCR(x), dims, shape, NULL)
    _bind(&task, x, <np.ndarray>out, positions, first, shape, dims, places)
    if np.PyArray_SIZE(<np.ndarray>out) == 0:
        return None
    task.reads, task.fold = True, NULL
    _start(&task)
    return None if task.is_wrong else out


def of_gather(reference):
    def call(*operands):
        out = _gathered(<np.ndarray?>operands[0], operands, 1)
        return reference(*operands) if out is None else out

    return call


def gather(x, *positions):
    return _gathered(<np.ndarray?>x, positions, 0)


cdef bint _scattered(np.ndarray to, object v, tuple positions, int first, Fold fold) except -1:
    """Put values together with elements at the positions from `first` on, or write them there, in order.

    Whether that was done: where a position is outside, it was in part. So the array is fresh, or they were checked before.
    """
    cdef Task task
    cdef np.npy_intp shape[DIMS]
    cdef int d, own, dims, places = 0
    cdef np.ndarray values
    if not is_enabled() or not is_plain(to) or not is_plain(v) or not np.PyArray_ISWRITEABLE(to):
        return False
    values = <np.ndarray>v
    if fold is None:
        if np.PyArray_TYPE(to) != np.PyArray_TYPE(values):
            return False
    elif np.PyArray_TYPE(to) != fold.x_type or np.PyArray_TYPE(values) != fold.v_type:
        return False
    dims = _selection(to, positions, first, shape, &places)
    if dims < 0 or np.PyArray_NDIM(values) > dims or np.PyArray_SIZE(to) == 0 or np.PyArray_SIZE(values) == 0:
        return False
    for d in range(dims):
        own = d - dims + np.PyArray_NDIM(values)
        if shape[d] == 0 or (own >= 0 and np.PyArray_DIM(values, own) not in (1, shape[d])):
            return False
    _bind(&task, to, values, positions, first, shape, dims, places)
    task.reads, task.fold = False, NULL
    if fold is not None:
        task.fold, task.fold_along = fold.at, fold.along
        ran(<void*>fold.at)
        if fold.parts > 1:
            task.size //= fold.parts
            _add_behind(&task, fold.parts, task.size, task.size)
    _start(&task)
    return not task.is_wrong


cdef bint _shares_memory(np.ndarray x, np.ndarray values, tuple positions) except -1:
    """Whether values or positions may be written when x is."""
    cdef char* low
    cdef char* high
    cdef char* start
    cdef char* end
    bounds_of(x, &low, &high)
    bounds_of(values, &start, &end)
    if start < high and low < end:
        return True
    for other in positions:
        bounds_of(<np.ndarray?>other, &start, &end)
        if start < high and low < end:
            return True
    return False


cdef class _Folds:
    """The loops for each type of values, made when they are first needed."""
    cdef object make
    cdef dict found

    def __init__(self, make):
        self.make, self.found = make, {}

    cdef Fold of(self, np.ndarray values):
        kind = np.PyArray_TYPE(values)
        if kind not in self.found:
            self.found[kind] = self.make(values.dtype)
        return self.found[kind]


def into_memory(make, reference):
    cdef dict known = {}

    def call(np.ndarray x, values, tuple positions, combine):
        cdef _Folds folds
        cdef Fold fold = None
        if combine is not None:
            if combine not in known:
                known[combine] = _Folds(partial(make, combine))
            folds = known[combine]
            fold = folds.of(x)
        if (
            (combine is not None and fold is None)
            or _shares_memory(x, values, positions)
            or not _scattered(x, values, positions, 0, fold)
        ):
            reference(x, values, positions, combine)

    return call


def into_zeros(make, cast, reference):
    cdef _Folds folds = _Folds(make)

    def call(*operands, shape):
        cdef np.ndarray values = numpy.asarray(operands[0])
        cdef Fold fold = folds.of(values)
        if fold is not None:
            out = zeros(shape, fold.dtype)
            if _scattered(<np.ndarray>out, values, operands, 1, fold):
                return out if np.PyArray_TYPE(values) == fold.x_type else cast(out, values.dtype)
        return reference(*operands, shape=shape)

    return call


def into_copy(make, cast, start, reference):
    cdef _Folds folds = _Folds(make)

    def call(*operands, accumulate=None, include_self=None):
        cdef np.ndarray x = numpy.asarray(operands[0])
        cdef Fold fold = None if accumulate is False else folds.of(x)
        if fold is not None or accumulate is False:
            is_same = fold is None or np.PyArray_TYPE(x) == fold.x_type
            out = copied(x if is_same else cast(x, fold.dtype))
            if (
                include_self is not False or _scattered(<np.ndarray>out, start(x.dtype, fold.dtype), operands, 2, None)
            ) and _scattered(<np.ndarray>out, operands[1], operands, 2, fold):
                return out if is_same else cast(out, x.dtype)
        given = {"accumulate": accumulate, "include_self": include_self}
        return reference(*operands, **{k: v for k, v in given.items() if v is not None})

    return call
