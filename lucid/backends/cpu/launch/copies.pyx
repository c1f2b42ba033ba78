# cython: boundscheck=False, wraparound=False, cdivision=True
"""See copies.py.

Dimensions are put in the order in which the target lies in memory, and joined where both go on alike. The last two are
divided into blocks, which are what threads share. Where the source has another innermost dimension than the target, the
two are the last, and blocks are small squares: each line of memory is read and written once.
"""

import numpy

from lucid.backends.cpu.launch import elementwise as launch

cimport numpy as np
from cpython.ref cimport Py_INCREF
from lucid.backends.cpu.launch.elementwise cimport DIMS, PyArray_NewFromDescr, array_like, new_array, shown, type_of
from lucid.backends.cpu.launch cimport runs
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__)
    #define LUCID_LOOSE __attribute__((aligned(1), may_alias))
    #else
    #define LUCID_LOOSE
    #endif
    #if defined(_MSC_VER)
    #define LUCID_ALONE __restrict
    #else
    #define LUCID_ALONE restrict
    #endif

    typedef struct { uint64_t low, high; } lucid_pair;
    typedef uint8_t LUCID_LOOSE lucid_of_1;
    typedef uint16_t LUCID_LOOSE lucid_of_2;
    typedef uint32_t LUCID_LOOSE lucid_of_4;
    typedef uint64_t LUCID_LOOSE lucid_of_8;
    typedef lucid_pair LUCID_LOOSE lucid_of_16;

    /* Rows of elements: the target's and the source's steps from row to row, and from element to element. */
    typedef void (*lucid_block)(char *, const char *, ptrdiff_t rows, ptrdiff_t count,
                                ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t);

    /* A square of elements that fill a line of the cache each is read by lines into `in`, and written by lines. */
    #define LUCID_SQUARE(SIZE, SIDE)                                                                                  \\
    static void lucid_square_##SIZE(char *to, const char *from, ptrdiff_t to_row, ptrdiff_t from_step) {              \\
        lucid_of_##SIZE in[SIDE][SIDE], out[SIDE];                                                                    \\
        for (int k = 0; k < SIDE; k++) memcpy(in[k], from + k * from_step, SIDE * SIZE);                              \\
        for (int r = 0; r < SIDE; r++) {                                                                              \\
            for (int k = 0; k < SIDE; k++) out[k] = in[k][r];                                                         \\
            memcpy(to + r * to_row, out, SIDE * SIZE);                                                                \\
        }                                                                                                             \\
    }

    #if defined(__GNUC__) && !defined(__clang__)
    /* The same by squares of COUNT vectors: in each step, blocks beside the diagonal change places. Single bytes and pairs
       take a third of the time with any vectors, of which those of 16 bytes do best, and others two thirds with AVX-512. */
    #define LUCID_8(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
    #define LUCID_16(n) LUCID_8(n), LUCID_8(n + 8)
    #define LUCID_SHUFFLED_SQUARE(SIZE, SIDE, COUNT, UNSIGNED)                                                        \\
    typedef UNSIGNED lucid_vector_##SIZE __attribute__((vector_size(COUNT * SIZE)));                                  \\
    static inline __attribute__((always_inline)) void lucid_exchange_##SIZE(lucid_vector_##SIZE *v, int step) {       \\
        const lucid_vector_##SIZE place = {LUCID_##COUNT(0)};                                                         \\
        const lucid_vector_##SIZE is_odd = (lucid_vector_##SIZE)((place & (UNSIGNED)step) != 0);                      \\
        const lucid_vector_##SIZE upper = place + (is_odd & (UNSIGNED)(COUNT - step)), lower = upper + (UNSIGNED)step; \\
        for (int i = 0; i < COUNT; i++)                                                                               \\
            if (!(i & step)) {                                                                                        \\
                const lucid_vector_##SIZE one = v[i], other = v[i + step];                                            \\
                v[i] = __builtin_shuffle(one, other, upper);                                                          \\
                v[i + step] = __builtin_shuffle(one, other, lower);                                                   \\
            }                                                                                                         \\
    }                                                                                                                 \\
    static void lucid_square_##SIZE(char *to, const char *from, ptrdiff_t to_row, ptrdiff_t from_step) {              \\
        lucid_vector_##SIZE v[COUNT];                                                                                 \\
        for (int r = 0; r < SIDE; r += COUNT)                                                                         \\
            for (int k = 0; k < SIDE; k += COUNT) {                                                                   \\
                for (int i = 0; i < COUNT; i++) memcpy(v + i, from + (k + i) * from_step + r * SIZE, COUNT * SIZE);   \\
                lucid_exchange_##SIZE(v, 1);                                                                          \\
                lucid_exchange_##SIZE(v, 2);                                                                          \\
                lucid_exchange_##SIZE(v, 4);                                                                          \\
                if (COUNT > 8) lucid_exchange_##SIZE(v, 8);                                                           \\
                for (int i = 0; i < COUNT; i++) memcpy(to + (r + i) * to_row + k * SIZE, v + i, COUNT * SIZE);        \\
            }                                                                                                         \\
    }
    LUCID_SHUFFLED_SQUARE(1, 64, 16, uint8_t)
    LUCID_SHUFFLED_SQUARE(2, 32, 8, uint16_t)
    #else
    LUCID_SQUARE(1, 64)
    LUCID_SQUARE(2, 32)
    #endif
    #if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
    LUCID_SHUFFLED_SQUARE(4, 16, 16, uint32_t)
    LUCID_SHUFFLED_SQUARE(8, 8, 8, uint64_t)
    #else
    LUCID_SQUARE(4, 16)
    LUCID_SQUARE(8, 8)
    #endif
    LUCID_SQUARE(16, 4)

    #define LUCID_BLOCK(SIZE, SIDE)                                                                                   \\
    static void lucid_rows_##SIZE(char *to, const char *from, ptrdiff_t rows, ptrdiff_t count,                        \\
                                  ptrdiff_t to_row, ptrdiff_t from_row, ptrdiff_t to_step, ptrdiff_t from_step) {     \\
        for (ptrdiff_t r = 0; r < rows; r++, to += to_row, from += from_row) {                                        \\
            lucid_of_##SIZE *LUCID_ALONE t = (lucid_of_##SIZE *)to;                                                   \\
            const lucid_of_##SIZE *LUCID_ALONE f = (const lucid_of_##SIZE *)from;                                     \\
            if (to_step != SIZE) {                                                                                    \\
                for (ptrdiff_t k = 0; k < count; k++)                                                                 \\
                    *(lucid_of_##SIZE *)(to + k * to_step) = *(const lucid_of_##SIZE *)(from + k * from_step);        \\
            } else if (from_step == SIZE) {                                                                           \\
                lucid_run(to, from, count * SIZE);                                                                    \\
            } else if (from_step == 0) {                                                                              \\
                const lucid_of_##SIZE value = *f;                                                                     \\
                if (count * SIZE >= 16 && count * SIZE <= 128) {  /* ends that overlap */                              \\
                    lucid_of_##SIZE all[64 / SIZE];                                                                   \\
                    const ptrdiff_t size = count * SIZE;                                                              \\
                    for (int k = 0; k < 64 / SIZE; k++) all[k] = value;                                               \\
                    if (size > 64) memcpy(to, all, 64), memcpy(to + size - 64, all, 64);                              \\
                    else if (size >= 32) memcpy(to, all, 32), memcpy(to + size - 32, all, 32);                        \\
                    else memcpy(to, all, 16), memcpy(to + size - 16, all, 16);                                        \\
                    continue;                                                                                         \\
                }                                                                                                     \\
                for (ptrdiff_t k = 0; k < count; k++) t[k] = value;                                                   \\
            } else if (from_step == -SIZE) {                                                                          \\
                for (ptrdiff_t k = 0; k < count; k++) t[k] = f[-k];                                                   \\
            } else {                                                                                                  \\
                for (ptrdiff_t k = 0; k < count; k++) t[k] = *(const lucid_of_##SIZE *)(from + k * from_step);        \\
            }                                                                                                         \\
        }                                                                                                             \\
    }                                                                                                                 \\
    static void lucid_block_##SIZE(char *to, const char *from, ptrdiff_t rows, ptrdiff_t count,                       \\
                                   ptrdiff_t to_row, ptrdiff_t from_row, ptrdiff_t to_step, ptrdiff_t from_step) {    \\
        if (count < 8 && rows > count) {  /* many short rows are few long columns */                                  \\
            lucid_rows_##SIZE(to, from, count, rows, to_step, from_step, to_row, from_row);                           \\
            return;                                                                                                   \\
        }                                                                                                             \\
        ptrdiff_t r = 0;                                                                                              \\
        if (to_step == SIZE && from_row == SIZE && from_step != SIZE && from_step != 0 && count >= SIDE)              \\
            for (; r + SIDE <= rows; r += SIDE) {                                                                     \\
                ptrdiff_t k = 0;                                                                                      \\
                for (; k + SIDE <= count; k += SIDE)                                                                  \\
                    lucid_square_##SIZE(to + r * to_row + k * SIZE, from + r * SIZE + k * from_step,                  \\
                                        to_row, from_step);                                                           \\
                lucid_rows_##SIZE(to + r * to_row + k * SIZE, from + r * SIZE + k * from_step,                        \\
                                  SIDE, count - k, to_row, SIZE, SIZE, from_step);                                    \\
            }                                                                                                         \\
        lucid_rows_##SIZE(to + r * to_row, from + r * from_row, rows - r, count,                                      \\
                          to_row, from_row, to_step, from_step);                                                      \\
    }                                                                                                                 \\
    static void lucid_plain_##SIZE(char *to, const char *from, ptrdiff_t rows, ptrdiff_t count,                       \\
                                   ptrdiff_t to_row, ptrdiff_t from_row, ptrdiff_t to_step, ptrdiff_t from_step) {    \\
        for (ptrdiff_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, (size_t)count * SIZE);      \\
    }

    LUCID_BLOCK(1, 64)
    LUCID_BLOCK(2, 32)
    LUCID_BLOCK(4, 16)
    LUCID_BLOCK(8, 8)
    LUCID_BLOCK(16, 4)

    #define LUCID_CHOICE(SIZE) case SIZE: return is_plain ? lucid_plain_##SIZE : lucid_block_##SIZE;
    static lucid_block lucid_block_of(ptrdiff_t size, int is_plain) {
        switch (size) {
            LUCID_CHOICE(1) LUCID_CHOICE(2) LUCID_CHOICE(4) LUCID_CHOICE(8) LUCID_CHOICE(16)
            default: return NULL;
        }
    }
    """
    ctypedef void (*Block "lucid_block")(
        char*, const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t
    ) noexcept nogil
    Block lucid_block_of(Py_ssize_t size, bint is_plain) noexcept nogil

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    LINE = 64  # bytes of a line of the cache
    MOST_ROLLED = 8  # dimensions, of which each doubles the number of parts

cdef double _LEAST_WORK = 16000.0  # nanoseconds, from which on threads pay
cdef double _PIECE = 10000.0  # nanoseconds, below which nobody is handed work
cdef double _BYTE = 0.08  # nanoseconds, of memory that is copied as it lies
cdef double _ELEMENT = 0.6  # nanoseconds, of elements one by one
cdef Py_ssize_t _BLOCK = 1 << 15  # bytes
cdef Py_ssize_t _LONG = 4096  # bytes in the cache, which the C library takes longer to copy
# Bytes for a thread that are too many for the second-level cache of its core, and few enough for the next one: the C library
# writes them without reading first what was there, in two thirds of the time of a loop. Fewer it copies as fast only where
# both arrays are aligned alike, and more in more time; and so it does with runs of less than `_LONG` bytes.
cdef Py_ssize_t _LEAST_PLAIN = 448 << 10, _MOST_PLAIN = 3 << 19
cdef Py_ssize_t _SIDE = 4  # of a square block, in lines
cdef Py_ssize_t _AT_ONCE = 8  # places to which the same memory is copied
# Memory of this size is always mapped anew by glibc's allocator, and 0 before anybody wrote it.
cdef Py_ssize_t _MAPPED = 1 << 25


cdef struct Move:
    Block block
    char* to
    char* source
    int dims
    Py_ssize_t shape[DIMS]
    Py_ssize_t to_strides[DIMS]
    Py_ssize_t strides[DIMS]
    Py_ssize_t high, wide, down, across  # rows and elements of a block, and how many blocks that makes
    Py_ssize_t units, first  # blocks, and how many come before them in other moves
    double work


cdef inline Py_ssize_t _absolute(Py_ssize_t x) noexcept nogil:
    return x if x > 0 else -x


cdef inline void _exchange(Move* move, int a, int b) noexcept nogil:
    move.shape[a], move.shape[b] = move.shape[b], move.shape[a]
    move.to_strides[a], move.to_strides[b] = move.to_strides[b], move.to_strides[a]
    move.strides[a], move.strides[b] = move.strides[b], move.strides[a]


cdef void _plan(Move* move, Py_ssize_t size) noexcept nogil:
    """Order and join dimensions, and divide the last two into blocks."""
    cdef int d, e, kept = 0, near
    cdef Py_ssize_t elements = 1, step, each
    cdef bint is_plain, crosses = False
    for d in range(move.dims):
        elements *= move.shape[d]
        if move.shape[d] == 1:
            continue
        _exchange(move, kept, d)
        if move.to_strides[kept] < 0:
            move.to += (move.shape[kept] - 1) * move.to_strides[kept]
            move.source += (move.shape[kept] - 1) * move.strides[kept]
            move.to_strides[kept] = -move.to_strides[kept]
            move.strides[kept] = -move.strides[kept]
        e = kept
        while e > 0 and move.to_strides[e - 1] < move.to_strides[e]:
            _exchange(move, e - 1, e)
            e -= 1
        kept += 1
    move.units = 0
    move.work = 0
    if elements == 0:
        return
    # From the innermost outwards; joined ones come to stand at the end.
    d = e = kept - 1
    while d > 0:
        d -= 1
        if (
            move.to_strides[d] == move.to_strides[e] * move.shape[e]
            and move.strides[d] == move.strides[e] * move.shape[e]
        ):
            move.shape[e] *= move.shape[d]
        else:
            e -= 1
            _exchange(move, d, e)
    # Two dimensions at least, so that blocks have two.
    if e < 0:
        e = 0
    move.dims = kept - e
    for d in range(move.dims):
        _exchange(move, d, e + d)
    while move.dims < 2:
        if move.dims:
            _exchange(move, 0, 1)
        move.shape[0] = 1
        move.to_strides[0] = move.strides[0] = 0
        if not move.dims:
            move.shape[1] = 1
            move.to_strides[1] = move.strides[1] = size
        move.dims = 2
    near = move.dims - 1
    step = move.strides[near]
    is_plain = step == size and move.to_strides[near] == size
    if step != 0 and _absolute(step) != size:
        for d in range(move.dims - 1):
            if move.strides[d] != 0 and _absolute(move.strides[d]) < _absolute(move.strides[near]):
                near = d
        if near != move.dims - 1:
            crosses = True
            for d in range(near, move.dims - 2):
                _exchange(move, d, d + 1)
    if crosses:
        move.high = move.wide = max(1, _SIDE * LINE // size)
    elif is_plain and move.strides[move.dims - 2] == 0:  # what goes to several places is read once
        move.high = min(move.shape[move.dims - 2], _AT_ONCE)
        move.wide = max(1, min(move.shape[move.dims - 1], _BLOCK // (size * move.high)))
    else:
        move.wide = max(1, min(move.shape[move.dims - 1], _BLOCK // size))
        move.high = max(1, _BLOCK // (size * move.wide))
    move.down = (move.shape[move.dims - 2] + move.high - 1) // move.high
    move.across = (move.shape[move.dims - 1] + move.wide - 1) // move.wide
    move.units = move.down * move.across
    for d in range(move.dims - 2):
        move.units *= move.shape[d]
    move.work = elements * (_BYTE * size if is_plain or step == 0 else _BYTE * size + _ELEMENT)
    if is_plain and elements * size >= _LEAST_PLAIN and move.wide * size >= _LONG:
        each = elements * size // (pool_size() if move.work >= _LEAST_WORK else 1)
        if _LEAST_PLAIN <= each <= _MOST_PLAIN:
            move.block = lucid_block_of(size, True)


cdef void _run_units(Move* move, Py_ssize_t unit, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t index[DIMS]
    cdef Py_ssize_t row, column, rest
    cdef int d, y = move.dims - 2, x = move.dims - 1
    cdef char* to = move.to
    cdef char* source = move.source
    column = unit % move.across
    rest = unit // move.across
    row = rest % move.down
    rest //= move.down
    for d in range(y - 1, -1, -1):
        index[d] = rest % move.shape[d]
        rest //= move.shape[d]
        to += index[d] * move.to_strides[d]
        source += index[d] * move.strides[d]
    while True:
        move.block(
            to + row * move.high * move.to_strides[y] + column * move.wide * move.to_strides[x],
            source + row * move.high * move.strides[y] + column * move.wide * move.strides[x],
            min(move.high, move.shape[y] - row * move.high),
            min(move.wide, move.shape[x] - column * move.wide),
            move.to_strides[y], move.strides[y], move.to_strides[x], move.strides[x],
        )
        unit += 1
        if unit >= stop:
            return
        column += 1
        if column < move.across:
            continue
        column = 0
        row += 1
        if row < move.down:
            continue
        row = 0
        for d in range(y - 1, -1, -1):
            index[d] += 1
            to += move.to_strides[d]
            source += move.strides[d]
            if index[d] < move.shape[d]:
                break
            to -= index[d] * move.to_strides[d]
            source -= index[d] * move.strides[d]
            index[d] = 0


cdef struct Moves:
    Move* of
    Py_ssize_t count, units, parts
    Py_ssize_t rows  # of all moves, if a unit is so many rows of each, so that what is near in memory is written at once; or 0


cdef void _run_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Moves* moves = <Moves*>given
    cdef Py_ssize_t unit = moves.units * part // moves.parts
    cdef Py_ssize_t stop = moves.units * (part + 1) // moves.parts
    cdef Py_ssize_t low = 0, high = moves.count, middle, row, k
    cdef Move* move
    if moves.rows:
        for unit in range(unit, stop):
            row = unit * moves.rows
            for k in range(moves.count):
                move = &moves.of[k]
                move.block(
                    move.to + row * move.to_strides[0], move.source + row * move.strides[0],
                    min(moves.rows, move.shape[0] - row), move.shape[1],
                    move.to_strides[0], move.strides[0], move.to_strides[1], move.strides[1],
                )
        return
    while high - low > 1:
        middle = (low + high) // 2
        if moves.of[middle].first <= unit:
            low = middle
        else:
            high = middle
    while unit < stop:
        move = &moves.of[low]
        if move.units:
            _run_units(move, unit - move.first, min(stop, move.first + move.units) - move.first)
            unit = min(stop, move.first + move.units)
        low += 1


cdef void _run(Moves* moves) noexcept nogil:
    cdef double work = 0
    cdef Py_ssize_t k
    cdef int threads = 1
    moves.units = 0
    for k in range(moves.count):
        moves.of[k].first = moves.units
        moves.units += moves.of[k].units
        work += moves.of[k].work
    if moves.rows:
        moves.units = (moves.of[0].shape[0] + moves.rows - 1) // moves.rows
    if work >= _LEAST_WORK:
        threads = pool_size()
    moves.parts = 1
    if threads > 1:
        moves.parts = max(1, min(min(moves.units, <Py_ssize_t>(work / _PIECE)), 8 * threads))
        share(_run_part, moves, moves.parts, threads)
    else:
        _run_part(moves, 0, 0)


cdef bint _read(Move* move, np.ndarray target, np.ndarray source) except -1:
    """The move that fills the target with the source, which is broadcast; False if it is no copy of bytes."""
    cdef int d, own, dims = np.PyArray_NDIM(target)
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(target), n
    if np.PyArray_NDIM(source) > dims or size != np.PyArray_ITEMSIZE(source):
        return False
    if not np.PyArray_ISWRITEABLE(target) or not _are_same(type_of(target), type_of(source)):
        return False
    move.block = lucid_block_of(size, False)
    if move.block == NULL:
        return False
    move.dims = dims
    move.to = <char*>np.PyArray_DATA(target)
    move.source = <char*>np.PyArray_DATA(source)
    for d in range(dims):
        n = move.shape[d] = np.PyArray_DIM(target, d)
        move.to_strides[d] = np.PyArray_STRIDE(target, d)
        own = d - dims + np.PyArray_NDIM(source)
        if own < 0 or (np.PyArray_DIM(source, own) == 1 and n != 1):
            move.strides[d] = 0
        elif np.PyArray_DIM(source, own) != n:
            return False
        else:
            move.strides[d] = np.PyArray_STRIDE(source, own)
    return True


cdef inline bint _are_same(np.dtype a, np.dtype b):
    """Whether elements of these types are the same bytes, and nothing that Python counts."""
    return (a is b or a == b) and a.num != np.NPY_OBJECT


cdef bint _may_overlap(Move* move, Py_ssize_t size) noexcept nogil:
    """Whether what lies between the first and the last byte of the one overlaps that of the other."""
    cdef char* to = move.to
    cdef char* to_end = move.to + size
    cdef char* source = move.source
    cdef char* end = move.source + size
    cdef Py_ssize_t reach
    cdef int d
    for d in range(move.dims):
        reach = (move.shape[d] - 1) * move.to_strides[d]
        if reach < 0:
            to += reach
        else:
            to_end += reach
        reach = (move.shape[d] - 1) * move.strides[d]
        if reach < 0:
            source += reach
        else:
            end += reach
    return to < end and source < to_end


cdef inline void _do(Move* move, Py_ssize_t size) noexcept nogil:
    cdef Moves moves
    _plan(move, size)
    if move.units:
        moves.of = move
        moves.count = 1
        moves.rows = 0
        _run(&moves)


cdef inline void _fill(Move* move, np.ndarray target) noexcept:
    """Do a move that fills an array; others may run Python code meanwhile where that takes long."""
    if np.PyArray_NBYTES(target) < _LONG:
        _do(move, np.PyArray_ITEMSIZE(target))
    else:
        with nogil:
            _do(move, np.PyArray_ITEMSIZE(target))


cdef bint _write_new(np.ndarray target, np.ndarray source) except -1:
    """Fill memory that nobody else has; False if the source is of another type."""
    cdef Move move
    if not _read(&move, target, source):
        return False
    _fill(&move, target)
    return True


def write(target, source):
    cdef Move move
    if np.PyArray_CheckExact(target) and np.PyArray_CheckExact(source) and _read(&move, target, source):
        if not _may_overlap(&move, np.PyArray_ITEMSIZE(<np.ndarray>target)):
            _fill(&move, <np.ndarray>target)
            return
    numpy.copyto(target, source)


launch.write_by(write, [<size_t><void*>lucid_block_of(1 << k, False) for k in range(5)])


def write_parts(targets, sources):
    cdef Py_ssize_t k, count = len(targets)
    cdef Moves moves
    if count == 0:
        return
    moves.count, moves.rows = count, 0
    moves.of = <Move*>malloc(count * sizeof(Move))
    if moves.of == NULL:
        raise MemoryError
    try:
        for k in range(count):
            if not np.PyArray_CheckExact(sources[k]) or not _read(&moves.of[k], targets[k], sources[k]):
                numpy.copyto(targets[k], sources[k])
                moves.of[k].units = 0
                moves.of[k].work = 0
            else:
                _plan(&moves.of[k], np.PyArray_ITEMSIZE(<np.ndarray>targets[k]))
        with nogil:
            _run(&moves)
    finally:
        free(moves.of)


cdef struct Placing:
    Block block
    char* out
    char* x
    char* value  # one element
    Py_ssize_t size
    int dims
    Py_ssize_t shape[DIMS]
    Py_ssize_t first[DIMS]  # where x begins
    Py_ssize_t counts[DIMS]  # the shape of x
    Py_ssize_t strides[DIMS]
    Py_ssize_t chunk, chunks, units, parts  # rows that are taken at once


cdef inline void _repeat(Placing* task, char* to, Py_ssize_t count) noexcept nogil:
    if count > 0:
        task.block(to, task.value, 1, count, 0, 0, task.size, 0)


cdef void _place_rows(Placing* task, Py_ssize_t unit) noexcept nogil:
    """Some rows that lie side by side, with what is around x among them."""
    cdef int d, y = task.dims - 2, x = task.dims - 1
    cdef Py_ssize_t begin = unit % task.chunks * task.chunk, end = min(begin + task.chunk, task.shape[y]), at
    cdef Py_ssize_t row = task.shape[x] * task.size, left = task.first[x], right = task.shape[x] - left - task.counts[x]
    cdef Py_ssize_t outer = unit // task.chunks, rest = outer, low, high
    cdef char* source = task.x
    cdef char* to = task.out + outer * task.shape[y] * row
    low, high = max(begin, task.first[y]), min(end, task.first[y] + task.counts[y])
    for d in range(y - 1, -1, -1):
        at = rest % task.shape[d] - task.first[d]
        rest //= task.shape[d]
        source += at * task.strides[d]
        if not 0 <= at < task.counts[d]:
            high = low
    if high <= low:
        _repeat(task, to + begin * row, (end - begin) * task.shape[x])
        return
    # The end of a row and the beginning of the next one lie side by side.
    _repeat(task, to + begin * row, (low - begin) * task.shape[x] + left)
    if left + right:
        task.block(
            to + low * row + (left + task.counts[x]) * task.size, task.value, high - low - 1, left + right, row, 0, task.size, 0
        )
    _repeat(task, to + high * row - right * task.size, (end - high) * task.shape[x] + right)
    task.block(
        to + low * row + left * task.size, source + (low - task.first[y]) * task.strides[y], high - low, task.counts[x],
        row, task.strides[y], task.size, task.strides[x],
    )


cdef void _place_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Placing* task = <Placing*>given
    cdef Py_ssize_t unit
    for unit in range(task.units * part // task.parts, task.units * (part + 1) // task.parts):
        _place_rows(task, unit)


def placed(np.ndarray out, part, given, np.ndarray value):
    if not np.PyArray_CheckExact(given) or not np.PyArray_CheckExact(part):
        return False  # numbers of NumPy
    return _placed(out, <np.ndarray>part, <np.ndarray>given, value)


cdef bint _placed(np.ndarray out, np.ndarray part, np.ndarray x, np.ndarray value) except -1:
    cdef Placing task
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(out), offset
    cdef int d, e, n = np.PyArray_NDIM(out), extra = 1 if n == 1 else 0
    if (
        not np.PyArray_IS_C_CONTIGUOUS(out) or n == 0 or n >= DIMS
        or np.PyArray_NDIM(part) != n or np.PyArray_NDIM(x) != n or np.PyArray_SIZE(part) == 0
        or not _are_same(type_of(out), type_of(x)) or not _are_same(type_of(out), type_of(value))
        or np.PyArray_DIM(out, n - 1) * size > _BLOCK
    ):
        return False
    task.block = lucid_block_of(size, False)
    if task.block == NULL:
        return False
    task.dims, task.size = n + extra, size
    task.shape[0] = task.counts[0] = 1
    task.first[0] = task.strides[0] = task.units = 0
    offset = np.PyArray_BYTES(part) - np.PyArray_BYTES(out)
    for d in range(n):
        e = d + extra
        if np.PyArray_DIM(part, d) != np.PyArray_DIM(x, d):
            return False
        if np.PyArray_DIM(part, d) > 1 and np.PyArray_STRIDE(part, d) != np.PyArray_STRIDE(out, d):
            return False  # backwards, or here and there
        task.shape[e], task.counts[e] = np.PyArray_DIM(out, d), np.PyArray_DIM(x, d)
        task.strides[e] = np.PyArray_STRIDE(x, d)
        task.first[e] = offset // np.PyArray_STRIDE(out, d)
        offset %= np.PyArray_STRIDE(out, d)
    task.out, task.x, task.value = np.PyArray_BYTES(out), np.PyArray_BYTES(x), np.PyArray_BYTES(value)
    e = task.dims - 2
    task.chunk = max(1, _BLOCK // (task.shape[e + 1] * size))
    task.chunks = (task.shape[e] + task.chunk - 1) // task.chunk
    task.units = np.PyArray_SIZE(out) // (task.shape[e] * task.shape[e + 1]) * task.chunks
    task.parts = 1
    if _pays(np.PyArray_NBYTES(out)):
        task.parts = min(task.units, 8 * pool_size())
        with nogil:
            share(_place_part, &task, task.parts, pool_size())
    else:
        _place_part(&task, 0, 0)
    return True


def copied(x, dtype=None, order="C"):
    cdef np.ndarray out
    if np.PyArray_CheckExact(x) and (dtype is None or dtype == (<np.ndarray>x).dtype) and (order == "C" or order == "K"):
        # With the order "K", NumPy says how the copy lies in memory.
        if order == "C":
            out = new_array(type_of(<np.ndarray>x), np.PyArray_NDIM(x), np.PyArray_DIMS(<np.ndarray>x), NULL)
        else:
            out = array_like(x, None)
        if _write_new(out, x):
            return out
    return numpy.array(x, dtype, order=order)


def contiguous(x):
    return x if np.PyArray_CheckExact(x) and np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x) else copied(x)


# --- other orders ------------------------------------------------------------------------------


def flipped(np.ndarray x, tuple dims):
    cdef Move move
    cdef int d
    cdef np.ndarray out = array_like(x, None)
    if not np.PyArray_CheckExact(x) or not _read(&move, out, x):
        return numpy.array(numpy.flip(x, dims))
    for d in dims:
        move.source += (move.shape[d] - 1) * move.strides[d]
        move.strides[d] = -move.strides[d]
    _fill(&move, out)
    return out


def rolled(np.ndarray x, tuple shifts, tuple dims):
    cdef Move whole
    cdef Move* move
    cdef Moves moves
    cdef Py_ssize_t cuts[DIMS]
    cdef Py_ssize_t n, part
    cdef int moved[DIMS]
    cdef int d, k, count = 0
    cdef np.ndarray out = array_like(x, None)
    if not np.PyArray_CheckExact(x) or len(dims) > MOST_ROLLED or not _read(&whole, out, x):
        return numpy.roll(x, shifts, dims)
    if np.PyArray_SIZE(out) == 0:
        return out
    for d in range(whole.dims):
        cuts[d] = 0
    for d, shift in zip(dims, shifts):
        cuts[d] = (cuts[d] - shift) % np.PyArray_DIM(x, d)
    for d in range(whole.dims):
        if cuts[d]:
            moved[count] = d
            count += 1
    # Of each of these dimensions, the part from the cut on goes to the front, and that before it behind.
    moves.count, moves.rows = 1 << count, 0
    moves.of = <Move*>malloc(moves.count * sizeof(Move))
    if moves.of == NULL:
        raise MemoryError
    for part in range(moves.count):
        move = &moves.of[part]
        move[0] = whole
        for k in range(count):
            d = moved[k]
            n = whole.shape[d]
            if part >> k & 1:
                move.to += (n - cuts[d]) * move.to_strides[d]
                move.shape[d] = cuts[d]
            else:
                move.source += cuts[d] * move.strides[d]
                move.shape[d] = n - cuts[d]
        _plan(move, np.PyArray_ITEMSIZE(out))
    with nogil:
        _run(&moves)
    free(moves.of)
    return out


cdef Py_ssize_t _bytes(shape, Py_ssize_t size) except -2:
    """Bytes of an array of this shape; -1 for a shape that is no tuple of numbers that fit."""
    if type(shape) is not tuple:
        return -1
    for n in <tuple>shape:
        if type(n) is not int or n < 0 or (n and size > PY_SSIZE_T_MAX // <Py_ssize_t>n):
            return -1
        size *= <Py_ssize_t>n
    return size


cpdef np.ndarray empty(tuple shape, np.dtype dtype):
    cdef np.npy_intp sizes[DIMS]
    for d, n in enumerate(shape):
        sizes[d] = n
    return new_array(dtype, len(shape), sizes, NULL)


cdef inline bint _pays(Py_ssize_t size) noexcept nogil:
    """Whether threads pay for filling so many bytes."""
    return size * _BYTE >= _LEAST_WORK


cdef inline bint _is_plain(shape, Py_ssize_t size):
    """Whether an array of this shape, of so many bytes by `_bytes`, can be made here."""
    return size >= 0 and len(<tuple>shape) <= DIMS


def zeros(shape, dtype):
    cdef Py_ssize_t size = _bytes(shape, dtype.itemsize)
    cdef np.ndarray out
    if not _is_plain(shape, size) or size >= _MAPPED:
        return numpy.zeros(shape, dtype)
    out = empty(shape, dtype)
    if not _pays(size):
        memset(np.PyArray_DATA(out), 0, size)
        return out
    return out if _write_new(out, numpy.zeros((), dtype)) else numpy.zeros(shape, dtype)


def full(shape, value, dtype):
    cdef Py_ssize_t size = _bytes(shape, dtype.itemsize)
    cdef np.ndarray out
    if not _is_plain(shape, size):
        return numpy.full(shape, value, dtype)
    if not _pays(size):
        if dtype.kind == "f" and (type(value) is float or type(value) is int):
            out = empty(shape, dtype)
            np.PyArray_FillWithScalar(out, value)
            return out
        return numpy.full(shape, value, dtype)
    one = numpy.full((), value, dtype)
    out = empty(shape, dtype)
    return out if _write_new(out, one) else numpy.full(shape, value, dtype)


def expanded(np.ndarray x, shape):
    cdef np.npy_intp sizes[DIMS]
    cdef np.npy_intp steps[DIMS]
    cdef np.ndarray out
    cdef int d, extra, dims = np.PyArray_NDIM(x)
    if type(shape) is not tuple or len(<tuple>shape) > DIMS or len(<tuple>shape) < dims:
        return numpy.broadcast_to(x, shape)
    extra = <int>len(<tuple>shape) - dims
    for d in range(extra + dims):
        n = (<tuple>shape)[d]
        if type(n) is not int or n < 0:
            return numpy.broadcast_to(x, shape)
        sizes[d], steps[d] = n, 0
        if d < extra:
            continue
        if sizes[d] == np.PyArray_DIM(x, d - extra):
            steps[d] = np.PyArray_STRIDE(x, d - extra)
        elif np.PyArray_DIM(x, d - extra) != 1:
            return numpy.broadcast_to(x, shape)  # which says what is wrong
    out = shown(x, extra + dims, sizes, steps)
    # Only where elements share memory must writes be refused.
    if np.PyArray_SIZE(out) != np.PyArray_SIZE(x):
        np.PyArray_CLEARFLAGS(out, np.NPY_ARRAY_WRITEABLE)
    return out


def permuted(np.ndarray x, tuple dims):
    cdef np.npy_intp order[DIMS]
    cdef np.PyArray_Dims given
    cdef int d
    given.len, given.ptr = <int>len(dims), order
    for d in range(min(given.len, DIMS)):
        order[d] = dims[d]
    return np.PyArray_Transpose(x, &given)


def reshaped(x, shape):
    cdef np.npy_intp sizes[DIMS]
    cdef np.PyArray_Dims given
    cdef int d
    if (
        np.PyArray_CheckExact(x) and np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x)
        and type(shape) is tuple and len(<tuple>shape) <= DIMS
    ):
        given.len, given.ptr = <int>len(<tuple>shape), sizes
        for d in range(given.len):
            sizes[d] = (<tuple>shape)[d]
        return np.PyArray_Newshape(<np.ndarray>x, &given, np.NPY_CORDER)
    if not np.PyArray_CheckExact(x) or np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x) or not _pays(np.PyArray_NBYTES(<np.ndarray>x)):
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return copied(x).reshape(shape)


cdef np.ndarray _part(np.ndarray x, Py_ssize_t offset, int dims, np.npy_intp* shape, np.npy_intp* strides):
    """A view of an array's memory from `offset` bytes behind its first element on."""
    cdef np.dtype dtype = type_of(x)
    cdef np.ndarray out
    Py_INCREF(dtype)
    out = PyArray_NewFromDescr(
        np.ndarray, dtype, dims, shape, strides, np.PyArray_BYTES(x) + offset, np.PyArray_FLAGS(x) & np.NPY_ARRAY_WRITEABLE, None
    )
    np.set_array_base(out, x)
    return out


def unfolded(reference):
    def unfold(np.ndarray x, int dim, Py_ssize_t window, Py_ssize_t step):
        cdef np.npy_intp sizes[DIMS]
        cdef np.npy_intp steps[DIMS]
        cdef np.ndarray out
        cdef int d, dims = np.PyArray_NDIM(x)
        if not np.PyArray_CheckExact(x) or dims >= DIMS or np.PyArray_SIZE(x) == 0 or window == 0:
            return reference(x, dim, window, step)
        for d in range(dims):
            sizes[d], steps[d] = np.PyArray_DIM(x, d), np.PyArray_STRIDE(x, d)
        sizes[dims], steps[dims] = window, steps[dim]
        sizes[dim] = (sizes[dim] - window) // step + 1
        steps[dim] *= step
        out = _part(x, 0, dims + 1, sizes, steps)
        if step < window and sizes[dim] != 1:
            np.PyArray_CLEARFLAGS(out, np.NPY_ARRAY_WRITEABLE)
        return out

    return unfold


def diagonal(reference):
    def along(np.ndarray x, Py_ssize_t offset, int dim1, int dim2):
        cdef np.npy_intp sizes[DIMS]
        cdef np.npy_intp steps[DIMS]
        cdef Py_ssize_t start
        cdef int d, dims = 0
        if not np.PyArray_CheckExact(x) or np.PyArray_NDIM(x) > DIMS or dim1 < 0 or dim2 < 0:
            return reference(x, offset, dim1, dim2)
        for d in range(np.PyArray_NDIM(x)):
            if d != dim1 and d != dim2:
                sizes[dims], steps[dims] = np.PyArray_DIM(x, d), np.PyArray_STRIDE(x, d)
                dims += 1
        sizes[dims] = min(
            np.PyArray_DIM(x, dim1) + min(offset, 0), np.PyArray_DIM(x, dim2) - max(offset, 0)
        )
        if sizes[dims] <= 0:
            return reference(x, offset, dim1, dim2)
        steps[dims] = np.PyArray_STRIDE(x, dim1) + np.PyArray_STRIDE(x, dim2)
        start = offset * np.PyArray_STRIDE(x, dim2) if offset > 0 else -offset * np.PyArray_STRIDE(x, dim1)
        return _part(x, start, dims + 1, sizes, steps)

    return along


def strided(reference, overlaps):
    def seen(x, tuple size, tuple stride, Py_ssize_t offset, int lead=0):
        cdef np.npy_intp sizes[DIMS]
        cdef np.npy_intp steps[DIMS]
        cdef np.ndarray out
        cdef int d, dims = <int>len(size)
        cdef bint is_nested = True
        cdef Py_ssize_t itemsize, reach = 0
        if (
            not np.PyArray_CheckExact(x) or not np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x) or lead or dims > DIMS
            or len(stride) != dims
        ):
            return reference(x, size, stride, offset, lead)
        itemsize = np.PyArray_ITEMSIZE(<np.ndarray>x)
        for d in range(dims - 1, -1, -1):
            sizes[d], steps[d] = size[d], stride[d]
            is_nested = is_nested and (sizes[d] <= 1 or steps[d] > reach)
            reach += steps[d] * (sizes[d] - 1)
            if sizes[d] == 0:
                return reference(x, size, stride, offset, lead)
            steps[d] *= itemsize
        if offset < 0 or offset + reach >= np.PyArray_SIZE(<np.ndarray>x):
            return reference(x, size, stride, offset, lead)
        out = _part(<np.ndarray>x, offset * itemsize, dims, sizes, steps)
        if not is_nested and overlaps(size, stride):
            np.PyArray_CLEARFLAGS(out, np.NPY_ARRAY_WRITEABLE)
        return out

    return seen


# --- counting ----------------------------------------------------------------------------------


cdef struct Count:
    char* out
    int kind
    Py_ssize_t count, parts
    bint is_whole
    uint64_t start, step
    double low, gap


cdef void _count_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Count* task = <Count*>given
    cdef Py_ssize_t i, first = task.count * part // task.parts, stop = task.count * (part + 1) // task.parts
    cdef uint64_t start = task.start, step = task.step
    cdef double low = task.low, gap = task.gap
    cdef char* out = task.out
    if task.is_whole:
        if task.kind == np.NPY_INT64:
            for i in range(first, stop):
                (<uint64_t*>out)[i] = start + step * <uint64_t>i
        elif task.kind == np.NPY_INT32:
            for i in range(first, stop):
                (<int32_t*>out)[i] = <int32_t>(start + step * <uint64_t>i)
        elif task.kind == np.NPY_FLOAT64:
            for i in range(first, stop):
                (<double*>out)[i] = <double><int64_t>(start + step * <uint64_t>i)
        else:
            for i in range(first, stop):
                (<float*>out)[i] = <float><int64_t>(start + step * <uint64_t>i)
    elif task.kind == np.NPY_FLOAT64:
        for i in range(first, stop):
            (<double*>out)[i] = low + gap * <double>i
    else:
        for i in range(first, stop):
            (<float*>out)[i] = <float>(low + gap * <double>i)


def counted(Py_ssize_t count, start, step, dtype):
    cdef Count task
    cdef int kind = (<np.dtype?>dtype).num
    cdef int threads
    task.is_whole = type(start) is int and type(step) is int
    is_known = kind == np.NPY_FLOAT64 or kind == np.NPY_FLOAT32 or (
        task.is_whole and (kind == np.NPY_INT64 or kind == np.NPY_INT32)
    )
    if task.is_whole:
        is_known = is_known and abs(start) < 1 << 62 and abs(step) < 1 << 62
    else:
        is_known = is_known and type(start) in (int, float) and type(step) in (int, float)
    if not is_known:
        return (start + step * numpy.arange(count)).astype(dtype, copy=False)
    if task.is_whole:
        task.start, task.step = <uint64_t><int64_t>start, <uint64_t><int64_t>step
    else:
        task.low, task.gap = start, step
    out = empty((count,), dtype)
    task.out = <char*>np.PyArray_DATA(<np.ndarray>out)
    task.kind, task.count, task.parts = kind, count, 1
    with nogil:
        threads = pool_size() if _pays(count * 8) else 1
        if threads > 1:
            task.parts = min(8 * threads, count // 4096)
            share(_count_part, &task, task.parts, threads)
        else:
            _count_part(&task, 0, 0)
    return out


# --- triangles ---------------------------------------------------------------------------------


cdef struct Triangle:
    Move move  # of all elements, as they are
    Py_ssize_t rows, diagonal, parts
    bint is_lower, is_there  # whether the triangle stands where it goes


cdef char[16] _ZERO
memset(_ZERO, 0, sizeof(_ZERO))


cdef inline void _some_rows(Move* move, char* to, char* source, Py_ssize_t rows, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Move the columns from `first` to `last` of some rows; where there is no source, clear them."""
    cdef int y = move.dims - 2, x = move.dims - 1
    cdef Py_ssize_t count = last - first
    cdef Py_ssize_t down = move.to_strides[y], across = move.to_strides[x]
    cdef Py_ssize_t source_down = 0, source_across = 0
    if count <= 0:
        return
    to += first * across
    if source != NULL:
        source_down, source_across = move.strides[y], move.strides[x]
        source += first * source_across
    else:
        source = _ZERO
    if rows > 1 and down == count * across and source_down == count * source_across:
        rows, count = 1, rows * count
    move.block(to, source, rows, count, down, source_down, across, source_across)


cdef void _triangle_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Triangle* task = <Triangle*>given
    cdef Move* move = &task.move
    cdef int d, y = move.dims - 2, x = move.dims - 1
    cdef Py_ssize_t row = task.rows * part // task.parts, stop = task.rows * (part + 1) // task.parts
    cdef Py_ssize_t rest, place, last, cut, some, height = move.shape[y], count = move.shape[x]
    cdef char* to
    cdef char* source
    while row < stop:
        to, source, rest = move.to, move.source, row // height
        for d in range(y - 1, -1, -1):
            to += rest % move.shape[d] * move.to_strides[d]
            source += rest % move.shape[d] * move.strides[d]
            rest //= move.shape[d]
        place = row % height
        last = min(height, place + stop - row)
        row += last - place
        while place < last:
            cut = place + task.diagonal + task.is_lower
            # Rows that the diagonal does not cross are taken together.
            some = last - place if cut >= count else max(1, min(last - place, -cut))
            cut = max(0, min(count, cut))
            if not task.is_there:
                _some_rows(
                    move, to + place * move.to_strides[y], source + place * move.strides[y], some,
                    0 if task.is_lower else cut, cut if task.is_lower else count,
                )
            _some_rows(
                move, to + place * move.to_strides[y], NULL, some, cut if task.is_lower else 0, count if task.is_lower else cut
            )
            place += some


cdef void _triangle(Triangle* task, np.ndarray out, Py_ssize_t diagonal, bint is_lower) noexcept:
    """Move, or clear around, the triangle of the array that `task.move` writes."""
    cdef int d, threads, dims = task.move.dims
    if np.PyArray_SIZE(out) == 0:
        return
    task.rows = 1
    for d in range(dims - 1):
        task.rows *= task.move.shape[d]
    task.diagonal = max(-task.move.shape[dims - 2], min(diagonal, task.move.shape[dims - 1]))
    task.is_lower = is_lower
    task.parts = 1
    with nogil:
        threads = pool_size() if _pays(np.PyArray_NBYTES(out)) else 1
        if threads > 1:
            task.parts = min(8 * threads, task.rows)
            share(_triangle_part, task, task.parts, threads)
        else:
            _triangle_part(task, 0, 0)


def triangle(np.ndarray x, Py_ssize_t diagonal, bint is_lower):
    cdef Triangle task
    cdef np.ndarray out
    cdef int dims = np.PyArray_NDIM(x)
    if dims > 1 and _absolute(np.PyArray_STRIDE(x, dims - 2)) < _absolute(np.PyArray_STRIDE(x, dims - 1)):
        # By columns, which are the rows of the transpose.
        return triangle(x.swapaxes(-1, -2), -diagonal, not is_lower).swapaxes(-1, -2)
    out = new_array(type_of(x), dims, np.PyArray_DIMS(x), NULL)
    if dims < 2 or not _read(&task.move, out, x):
        return numpy.tril(x, diagonal) if is_lower else numpy.triu(x, diagonal)
    task.is_there = False
    _triangle(&task, out, diagonal, is_lower)
    return out


def cleared_around(np.ndarray x, Py_ssize_t diagonal, bint is_lower):
    cdef Triangle task
    cdef int dims = np.PyArray_NDIM(x)
    if dims < 2 or not _read(&task.move, x, x):
        return False
    if _absolute(np.PyArray_STRIDE(x, dims - 2)) < _absolute(np.PyArray_STRIDE(x, dims - 1)):
        return cleared_around(x.swapaxes(-1, -2), -diagonal, not is_lower)
    task.is_there = True
    _triangle(&task, x, diagonal, is_lower)
    return True


# --- joining -----------------------------------------------------------------------------------


cdef bint _fit(tuple xs, int dim) except -1:
    """Whether all are of one type, and of one shape but for one dimension, if it is not negative."""
    cdef np.ndarray first, x
    cdef int d, dims
    if not np.PyArray_CheckExact(xs[0]):
        return False
    first = xs[0]
    dims = np.PyArray_NDIM(first)
    if dim >= dims:
        return False
    for other in xs:
        if not np.PyArray_CheckExact(other):
            return False
        x = other
        if np.PyArray_NDIM(x) != dims or not _are_same(type_of(first), type_of(x)):
            return False
        for d in range(dims):
            if d != dim and np.PyArray_DIM(x, d) != np.PyArray_DIM(first, d):
                return False
    return True


cdef int _is_inside(tuple xs, int a, int b) noexcept:
    """Whether dimension a, which is before b, lies inside of it in the memory of all arrays; -1 if nobody can say."""
    cdef np.ndarray x
    cdef int found = -1
    for other in xs:
        x = <np.ndarray>other
        if np.PyArray_DIM(x, a) != 1 and np.PyArray_DIM(x, b) != 1:
            if _absolute(np.PyArray_STRIDE(x, a)) >= _absolute(np.PyArray_STRIDE(x, b)):
                return 0
            found = 1
    return found


cdef object _laid_out_like(tuple xs, np.npy_intp* shape):
    """An array of this shape that lies in memory like all arrays, as NumPy has it; in row-major order if they differ."""
    cdef np.ndarray x = xs[0]
    cdef int d, e, place, inside, dims = np.PyArray_NDIM(x)
    cdef int order[DIMS]
    cdef np.npy_intp strides[DIMS]
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x)
    for d in range(dims):
        place = d
        for e in range(d - 1, -1, -1):
            inside = _is_inside(xs, order[e], d)
            if inside == 0:
                break
            if inside == 1:
                place = e
        for e in range(d, place, -1):
            order[e] = order[e - 1]
        order[place] = d
    for d in range(dims - 1, -1, -1):
        strides[order[d]] = size
        size *= shape[order[d]] if shape[order[d]] else 1
    return new_array(type_of(x), dims, shape, strides)


cdef bint _are_contiguous(tuple xs) noexcept:
    for x in xs:
        if not np.PyArray_IS_C_CONTIGUOUS(<np.ndarray>x):
            return False
    return True


cdef int _join_rows(np.ndarray out, tuple xs, Py_ssize_t rows) except -1:
    """Fill each row of the result with the same row of all arrays, where everything is in row-major order."""
    cdef Moves moves
    cdef Move* move
    cdef np.ndarray x
    cdef char* to = <char*>np.PyArray_DATA(out)
    cdef Py_ssize_t k, r, piece, size = np.PyArray_ITEMSIZE(out), whole = np.PyArray_NBYTES(out)
    if whole == 0:
        return 0
    whole //= rows
    if not _pays(whole * rows):
        for other in xs:
            x = <np.ndarray>other
            piece = np.PyArray_NBYTES(x) // rows
            for r in range(rows):
                if piece < _LONG:
                    memcpy(to + r * whole, <char*>np.PyArray_DATA(x) + r * piece, piece)
                else:
                    runs.run(to + r * whole, <char*>np.PyArray_DATA(x) + r * piece, piece)
            to += piece
        return 0
    moves.count = len(xs)
    moves.rows = _BLOCK // whole if rows > 1 else 0
    moves.of = <Move*>malloc(moves.count * sizeof(Move))
    if moves.of == NULL:
        raise MemoryError
    for k in range(moves.count):
        x = <np.ndarray>xs[k]
        piece = np.PyArray_NBYTES(x) // rows
        move = &moves.of[k]
        move.block = lucid_block_of(size, False)
        move.to, move.source = to, <char*>np.PyArray_DATA(x)
        move.dims = 2
        move.shape[0], move.to_strides[0], move.strides[0] = rows, whole, piece
        move.shape[1], move.to_strides[1], move.strides[1] = piece // size, size, size
        to += piece
        if moves.rows:
            move.units, move.work = 1, rows * piece * _BYTE
        else:
            _plan(move, size)
    with nogil:
        _run(&moves)
    free(moves.of)
    return 0


cdef bint _is_known(Py_ssize_t size) noexcept:
    return lucid_block_of(size, False) != NULL


def stacked(*xs, int dim):
    cdef np.npy_intp shape[DIMS]
    cdef np.ndarray x, out
    cdef int d, dims
    cdef Py_ssize_t rows = 1
    if not xs or not _fit(xs, -1) or not _are_contiguous(xs) or not _is_known(np.PyArray_ITEMSIZE(<np.ndarray>xs[0])):
        return joined(*[numpy.expand_dims(each, dim) for each in xs], dim=dim) if xs else numpy.stack(xs, dim)
    x = <np.ndarray>xs[0]
    dims = np.PyArray_NDIM(x)
    if dim < 0 or dim > dims or dims == DIMS:
        return numpy.stack(xs, dim)
    for d in range(dims):
        shape[d if d < dim else d + 1] = np.PyArray_DIM(x, d)
        if d < dim:
            rows *= np.PyArray_DIM(x, d)
    shape[dim] = len(xs)
    out = new_array(type_of(x), dims + 1, shape, NULL)
    _join_rows(out, xs, rows)
    return out


def joined(*xs, int dim):
    cdef np.npy_intp shape[DIMS]
    cdef np.ndarray x, out
    cdef Moves moves
    cdef Move* move
    cdef char* to
    cdef int d, dims
    cdef Py_ssize_t k
    if not xs or dim < 0 or not _fit(xs, dim):
        return numpy.concatenate(xs, axis=dim)
    x = xs[0]
    dims = np.PyArray_NDIM(x)
    for d in range(dims):
        shape[d] = np.PyArray_DIM(x, d)
    shape[dim] = 0
    for other in xs:
        shape[dim] += np.PyArray_DIM(<np.ndarray>other, dim)
    if _are_contiguous(xs) and _is_known(np.PyArray_ITEMSIZE(x)):
        out = new_array(type_of(x), dims, shape, NULL)
        k = 1
        for d in range(dim):
            k *= shape[d]
        _join_rows(out, xs, k)
        return out
    out = _laid_out_like(xs, shape)
    moves.count, moves.rows = len(xs), 0
    moves.of = <Move*>malloc(moves.count * sizeof(Move))
    if moves.of == NULL:
        raise MemoryError
    to = <char*>np.PyArray_DATA(out)
    for k in range(moves.count):
        x = xs[k]
        move = &moves.of[k]
        move.block = lucid_block_of(np.PyArray_ITEMSIZE(x), False)
        move.to, move.source = to, <char*>np.PyArray_DATA(x)
        move.dims = dims
        for d in range(dims):
            move.shape[d] = np.PyArray_DIM(x, d)
            move.to_strides[d] = np.PyArray_STRIDE(out, d)
            move.strides[d] = np.PyArray_STRIDE(x, d)
        to += np.PyArray_DIM(x, dim) * np.PyArray_STRIDE(out, dim)
        _plan(move, np.PyArray_ITEMSIZE(x))
    with nogil:
        _run(&moves)
    free(moves.of)
    return out
