# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of csr.py as loops; see there what they do.

Rows of dense factors are worked on 64 bytes at a time, a line of the cache, in vectors as the processor has them. Those
rows may lie anywhere, so that those of entries further ahead are asked for early. Where they have one element, loops run
over the entries of many rows, by way of a buffer: rows of the matrix are short, and branches at their ends are
mispredicted. They take four entries at a time, which compilers do not turn into gathers, slow as those are. Each number
is a sum in one order, whatever the number of threads.
"""

cimport numpy as np
from libc.string cimport memcpy, memset

from lucid.backends.cpu cimport simd
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    enum { LUCID_AHEAD = 8, LUCID_ROOM = 1024 };  /* entries further ahead, numbers of a buffer */
    #define LUCID_ASK(p) if (k + LUCID_AHEAD < end) LUCID_PREFETCH((p) + col[k + LUCID_AHEAD] * width)

    /* The arguments of all loops: a matrix, dense factors with rows of `width` elements, and which rows or columns. */
    typedef struct {
        const void *crow, *col, *values, *x, *y;
        void *out;
        ptrdiff_t from, rows, columns, width;
    } lucid_product;
    #define LUCID_TYPES(real)                                                                                         \\
        LUCID_VECTOR(real, vector, 64); LUCID_VECTOR(real, half, 32); LUCID_VECTOR(real, quarter, 16);                \\
        enum { LANES = sizeof(vector) / sizeof(real), MANY = LUCID_MANY(64, vector), LINE = LANES * MANY };           \\
        enum { FEW = sizeof(quarter) / sizeof(real) };
    #define LUCID_READ(real, index)                                                                                   \\
        LUCID_TYPES(real)                                                                                             \\
        const index *crow = a->crow, *col = a->col;                                                                   \\
        const ptrdiff_t width = a->width;                                                                             \\
        real buffer[LUCID_ROOM + LINE];                                                                               \\
        ptrdiff_t i, j, k, c;                                                                                         \\
        (void)crow, (void)col, (void)width, (void)buffer, (void)j, (void)k, (void)c;

    /* The row behind those from `i` on whose entries a buffer has room for, or behind row `i` if that is too long. */
    #define LUCID_BLOCK(index)                                                                                        \\
        static ptrdiff_t lucid_block_##index(const index *crow, ptrdiff_t i, ptrdiff_t last) {                        \\
            const ptrdiff_t most = crow[i] + LUCID_ROOM;                                                              \\
            for (i++; i < last && crow[i + 1] <= most; i++);                                                          \\
            return i;                                                                                                 \\
        }
    LUCID_BLOCK(int32_t)
    LUCID_BLOCK(int64_t)

    /* Sums of the elements of a line, in halves, down to FEW of them and to one; and the sum of `count` elements from
       `x` on, behind which a line can be read. */
    #define LUCID_TOTAL(real, integer)                                                                                \\
        static const integer lucid_mask_##real[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};\\
        static inline void lucid_fold_##real(const void *line, real *out) {                                           \\
            LUCID_TYPES(real)                                                                                         \\
            const half *halves = line;                                                                                \\
            half sums[LUCID_MANY(32, half)];                                                                          \\
            if (LINE == 1) {                                                                                          \\
                *out = *(const real *)line;                                                                           \\
                return;                                                                                               \\
            }                                                                                                         \\
            LUCID_UNROLLED for (size_t c = 0; c < LUCID_MANY(32, half); c++)                                          \\
                sums[c] = halves[c] + halves[c + LUCID_MANY(32, half)];                                               \\
            *(quarter *)out = ((quarter *)sums)[0] + ((quarter *)sums)[1];                                            \\
        }                                                                                                             \\
        static inline real lucid_last_##real(const real *few) {                                                       \\
            LUCID_TYPES(real)                                                                                         \\
            return FEW == 1 ? *few : FEW == 2 ? few[0] + few[1] : (few[0] + few[2]) + (few[1] + few[3]);              \\
        }                                                                                                             \\
        static inline real lucid_total_##real(const real *x, ptrdiff_t count) {                                       \\
            LUCID_TYPES(real)                                                                                         \\
            LUCID_VECTOR(integer, bits, 64);                                                                          \\
            const vector zero = {0};                                                                                  \\
            vector sums[MANY];                                                                                        \\
            real few[FEW];                                                                                            \\
            ptrdiff_t j, c;                                                                                           \\
            LUCID_UNROLLED for (c = 0; c < MANY; c++) sums[c] = zero;                                                 \\
            for (j = 0; j < count; j += LINE) {                                                                       \\
                const integer *mask = lucid_mask_##real + 16 - (count - j < LINE ? count - j : LINE);                 \\
                LUCID_UNROLLED for (c = 0; c < MANY; c++)                                                             \\
                    sums[c] += LUCID_CHOOSE(((const bits *)mask)[c], ((const vector *)(x + j))[c], zero);             \\
            }                                                                                                         \\
            lucid_fold_##real(sums, few);                                                                             \\
            return lucid_last_##real(few);                                                                            \\
        }
    LUCID_TOTAL(float, int32_t)
    LUCID_TOTAL(double, int64_t)

    /* Each element of `x` from `i` to `stop` as often as its row has entries; what follows is overwritten. */
    #define LUCID_SPREAD(real, index)                                                                                 \\
        static inline void lucid_spread_##real##_##index(const real *x, const index *crow, ptrdiff_t i, ptrdiff_t stop,\\
                                                         real *out) {                                                 \\
            LUCID_TYPES(real)                                                                                         \\
            const ptrdiff_t begin = crow[i];                                                                          \\
            ptrdiff_t j, c;                                                                                           \\
            for (; i < stop; i++) {                                                                                   \\
                const real value = x[i];                                                                              \\
                for (j = crow[i] - begin; j < crow[i + 1] - begin; j += LINE)                                         \\
                    LUCID_UNROLLED for (c = 0; c < MANY; c++) ((vector *)(out + j))[c] = value - (vector){0};         \\
            }                                                                                                         \\
        }
    LUCID_SPREAD(float, int32_t)
    LUCID_SPREAD(float, int64_t)
    LUCID_SPREAD(double, int32_t)
    LUCID_SPREAD(double, int64_t)

    /* As many columns as some vectors have elements, again and again. */
    #define LUCID_COLUMNS(real, vector, many) {                                                                       \\
        enum { N = (many) * sizeof(vector) / sizeof(real), LINES = N > LINE ? N / LINE : 1 };                         \\
        for (; j + N <= width; j += N) {                                                                              \\
            vector sums[many];                                                                                        \\
            LUCID_UNROLLED for (c = 0; c < (many); c++) sums[c] = (vector){0};                                        \\
            for (k = crow[i]; k < crow[i + 1]; k++) {                                                                 \\
                const real value = values[k];                                                                         \\
                const vector *row = (const vector *)(y + col[k] * width + j);                                         \\
                LUCID_UNROLLED for (c = 0; c < LINES; c++) LUCID_ASK(y + j + c * LINE);                               \\
                LUCID_UNROLLED for (c = 0; c < (many); c++) sums[c] += value * row[c];                                \\
            }                                                                                                         \\
            LUCID_UNROLLED for (c = 0; c < (many); c++) ((vector *)(out + j))[c] = sums[c];                           \\
        }                                                                                                             \\
    }

    /* out[i] = sum of values[k] * y[col[k]] */
    #define LUCID_FORTH(real, index, name)                                                                            \\
        static void lucid_forth_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                     \\
            LUCID_READ(real, index)                                                                                   \\
            const real *values = a->values, *y = a->y;                                                                \\
            const ptrdiff_t end = crow[last];                                                                         \\
            if (width == 1) {                                                                                         \\
                real *out = a->out;                                                                                   \\
                for (i = first; i < last;) {                                                                          \\
                    const ptrdiff_t begin = crow[i], next = lucid_block_##index(crow, i, last), stop = crow[next];    \\
                    if (stop - begin > LUCID_ROOM) {                                                                  \\
                        real p = 0, q = 0, r = 0, s = 0;                                                              \\
                        for (k = begin; k + 4 <= stop; k += 4) {                                                      \\
                            p += values[k] * y[col[k]], q += values[k + 1] * y[col[k + 1]];                           \\
                            r += values[k + 2] * y[col[k + 2]], s += values[k + 3] * y[col[k + 3]];                   \\
                        }                                                                                             \\
                        for (; k < stop; k++) p += values[k] * y[col[k]];                                             \\
                        out[i++] = (p + q) + (r + s);                                                                 \\
                        continue;                                                                                     \\
                    }                                                                                                 \\
                    for (k = begin, j = 0; k + 4 <= stop; k += 4, j += 4) {                                           \\
                        buffer[j] = values[k] * y[col[k]], buffer[j + 1] = values[k + 1] * y[col[k + 1]];             \\
                        buffer[j + 2] = values[k + 2] * y[col[k + 2]], buffer[j + 3] = values[k + 3] * y[col[k + 3]]; \\
                    }                                                                                                 \\
                    for (; k < stop; k++) buffer[j++] = values[k] * y[col[k]];                                        \\
                    for (; i < next; i++) out[i] = lucid_total_##real(buffer + crow[i] - begin, crow[i + 1] - crow[i]);\\
                }                                                                                                     \\
                return;                                                                                               \\
            }                                                                                                         \\
            for (i = first; i < last; i++) {                                                                          \\
                real *out = (real *)a->out + i * width;                                                               \\
                j = 0;                                                                                                \\
                LUCID_COLUMNS(real, vector, 4 * MANY)                                                                 \\
                LUCID_COLUMNS(real, vector, MANY)                                                                     \\
                LUCID_COLUMNS(real, half, LUCID_MANY(32, half))                                                       \\
                LUCID_COLUMNS(real, quarter, 1)                                                                       \\
                for (; j < width; j++) {                                                                              \\
                    real p = 0;                                                                                       \\
                    for (k = crow[i]; k < crow[i + 1]; k++) p += values[k] * y[col[k] * width + j];                   \\
                    out[j] = p;                                                                                       \\
                }                                                                                                     \\
            }                                                                                                         \\
        }

    /* As many columns of a row of the result as a vector has elements, again and again. */
    #define LUCID_ADD(real, vector)                                                                                   \\
        for (; j + (ptrdiff_t)(sizeof(vector) / sizeof(real)) <= count; j += sizeof(vector) / sizeof(real))           \\
            *(vector *)(to + j) += value * *(const vector *)(from + j);

    /* Rows of few elements. */
    #define LUCID_NARROW(real, few)                                                                                   \\
        if (width == few) {                                                                                           \\
            for (i = a->from; i < a->rows; i++) {                                                                     \\
                const ptrdiff_t stop = crow[i + 1];                                                                   \\
                real factors[few];                                                                                    \\
                LUCID_UNROLLED for (c = 0; c < few; c++) factors[c] = x[i * few + c];                                 \\
                for (k = crow[i]; k < stop; k++)                                                                      \\
                    LUCID_UNROLLED for (c = 0; c < few; c++) out[col[k] * few + c] += values[k] * factors[c];         \\
            }                                                                                                         \\
            return;                                                                                                   \\
        }

    /* out[col[k]] += values[k] * x[i] over rows from `from` to `rows`, for the columns from `first` to `last` */
    #define LUCID_BACK(real, index, name)                                                                             \\
        static void lucid_back_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                      \\
            LUCID_READ(real, index)                                                                                   \\
            const ptrdiff_t end = crow[a->rows], count = last - first;                                                \\
            const real *values = a->values, *x = (const real *)a->x + first;                                          \\
            real *out = (real *)a->out + first;                                                                       \\
            if (count == width) memset(out, 0, a->columns * width * sizeof(real));                                    \\
            else for (i = 0; i < a->columns; i++) memset(out + i * width, 0, count * sizeof(real));                   \\
            LUCID_NARROW(real, 2) LUCID_NARROW(real, 3) LUCID_NARROW(real, 4)                                         \\
            for (i = a->from; width == 1 && i < a->rows;) {                                                           \\
                const ptrdiff_t begin = crow[i], next = lucid_block_##index(crow, i, a->rows), stop = crow[next];     \\
                if (stop - begin > LUCID_ROOM) {                                                                      \\
                    const real factor = x[i];                                                                         \\
                    for (k = begin; k < stop; k++) out[col[k]] += values[k] * factor;                                 \\
                } else {                                                                                              \\
                    lucid_spread_##real##_##index(x, crow, i, next, buffer);                                          \\
                    for (k = begin; k < stop; k++) out[col[k]] += values[k] * buffer[k - begin];                      \\
                }                                                                                                     \\
                i = next;                                                                                             \\
            }                                                                                                         \\
            if (width == 1) return;                                                                                   \\
            for (i = a->from; i < a->rows; i++) {                                                                     \\
                const real *from = x + i * width;                                                                     \\
                const ptrdiff_t stop = crow[i + 1];                                                                   \\
                for (k = crow[i]; k < stop; k++) {                                                                    \\
                    const real value = values[k];                                                                     \\
                    real *to = out + col[k] * width;                                                                  \\
                    LUCID_ASK(out);                                                                                   \\
                    for (j = 0; j + LINE <= count; j += LINE)                                                         \\
                        LUCID_UNROLLED for (c = 0; c < LINE; c += LANES)                                              \\
                            *(vector *)(to + j + c) += value * *(const vector *)(from + j + c);                       \\
                    LUCID_ADD(real, half)                                                                             \\
                    LUCID_ADD(real, quarter)                                                                          \\
                    LUCID_ADD(real, real)                                                                             \\
                }                                                                                                     \\
            }                                                                                                         \\
        }

    /* out[k] = sum of x[i] * y[col[k]], of which those of whole lines are added up last, in a buffer of their own */
    #define LUCID_SAMPLED(real, index, name)                                                                          \\
        static void lucid_sampled_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                   \\
            LUCID_READ(real, index)                                                                                   \\
            const ptrdiff_t end = crow[last];                                                                         \\
            const real *x = a->x, *y = a->y;                                                                          \\
            real *out = a->out;                                                                                       \\
            ptrdiff_t held = 0;                                                                                       \\
            for (i = first; width == 1 && i < last;) {                                                                \\
                const ptrdiff_t begin = crow[i], next = lucid_block_##index(crow, i, last), stop = crow[next];        \\
                if (stop - begin > LUCID_ROOM) {                                                                      \\
                    const real factor = x[i];                                                                         \\
                    for (k = begin; k < stop; k++) out[k] = factor * y[col[k]];                                       \\
                } else {                                                                                              \\
                    lucid_spread_##real##_##index(x, crow, i, next, buffer);                                          \\
                    for (k = begin, j = 0; k + 4 <= stop; k += 4, j += 4) {                                           \\
                        out[k] = buffer[j] * y[col[k]], out[k + 1] = buffer[j + 1] * y[col[k + 1]];                   \\
                        out[k + 2] = buffer[j + 2] * y[col[k + 2]], out[k + 3] = buffer[j + 3] * y[col[k + 3]];       \\
                    }                                                                                                 \\
                    for (; k < stop; k++) out[k] = buffer[j++] * y[col[k]];                                           \\
                }                                                                                                     \\
                i = next;                                                                                             \\
            }                                                                                                         \\
            for (i = first; width != 1 && i < last; i++) {                                                            \\
                const real *left = x + i * width;                                                                     \\
                const ptrdiff_t stop = crow[i + 1];                                                                   \\
                for (k = crow[i]; k < stop; k++) {                                                                    \\
                    const real *right = y + col[k] * width;                                                           \\
                    vector sums[MANY];                                                                                \\
                    real rest = 0;                                                                                    \\
                    LUCID_ASK(y);                                                                                     \\
                    LUCID_UNROLLED for (c = 0; c < MANY; c++) sums[c] = (vector){0};                                  \\
                    for (j = 0; j + LINE <= width; j += LINE)                                                         \\
                        LUCID_UNROLLED for (c = 0; c < MANY; c++)                                                     \\
                            sums[c] += ((const vector *)(left + j))[c] * ((const vector *)(right + j))[c];            \\
                    for (; j < width; j++) rest += left[j] * right[j];                                                \\
                    out[k] = rest;                                                                                    \\
                    if (width < LINE) continue;                                                                       \\
                    lucid_fold_##real(sums, buffer + FEW * held);                                                     \\
                    if (++held == LUCID_ROOM / FEW || k == end - 1) {                                                 \\
                        for (c = 0; c < held; c++) out[k + 1 - held + c] += lucid_last_##real(buffer + FEW * c);      \\
                        held = 0;                                                                                     \\
                    }                                                                                                 \\
                }                                                                                                     \\
            }                                                                                                         \\
        }

    /* The first row of a part, such that each has about as many rows and entries together. */
    #define LUCID_BEGIN(index, name)                                                                                  \\
        static ptrdiff_t lucid_begin_##name(const void *from, ptrdiff_t rows, ptrdiff_t part, ptrdiff_t parts) {      \\
            const index *crow = from;                                                                                 \\
            const double goal = (double)(crow[rows] + rows) * part / parts;                                           \\
            ptrdiff_t low = 0, high = rows;                                                                           \\
            if (part == parts) return rows;                                                                           \\
            while (low < high) {                                                                                      \\
                ptrdiff_t middle = (low + high) / 2;                                                                  \\
                if (crow[middle] + middle < goal) low = middle + 1; else high = middle;                               \\
            }                                                                                                         \\
            return low;                                                                                               \\
        }

    /* out[k] += x[k] */
    #define LUCID_ADDED(real, name)                                                                                   \\
        static void lucid_added_##name(void *to, const void *of, ptrdiff_t first, ptrdiff_t last) {                   \\
            real *out = to;                                                                                           \\
            const real *x = of;                                                                                       \\
            for (ptrdiff_t k = first; k < last; k++) out[k] += x[k];                                                  \\
        }

    /* Whether rows have their columns in order, each once, and none outside: `crow` is known to grow to the end. */
    #define LUCID_CHECKED(index, name)                                                                                \\
        static int lucid_checked_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                    \\
            const index *crow = a->crow, *col = a->col;                                                               \\
            ptrdiff_t i, k, falls = 0, starts = 0;                                                                    \\
            int wrong = 0;                                                                                            \\
            for (k = crow[first] + 1; k < crow[last]; k++) falls += col[k] <= col[k - 1];                             \\
            for (i = first; i < last; i++) {                                                                          \\
                if (crow[i] == crow[i + 1]) continue;                                                                 \\
                wrong |= (col[crow[i]] < 0) | (col[crow[i + 1] - 1] >= a->columns);                                   \\
                starts += crow[i] > crow[first] && col[crow[i]] <= col[crow[i] - 1];                                  \\
            }                                                                                                         \\
            return !wrong && falls == starts;                                                                         \\
        }

    /* Whether rows begin and end within the entries, none before the one above it. */
    #define LUCID_GROWS(index, name)                                                                                  \\
        static int lucid_grows_##name(const void *from, ptrdiff_t rows, ptrdiff_t entries) {                          \\
            const index *crow = from;                                                                                 \\
            ptrdiff_t falls = crow[0] < 0 || crow[rows] > entries;                                                    \\
            for (ptrdiff_t i = 0; i < rows; i++) falls += crow[i + 1] < crow[i];                                      \\
            return falls == 0;                                                                                        \\
        }

    #define LUCID_LOOPS(real, index, name)                                                                            \\
        LUCID_FORTH(real, index, name) LUCID_BACK(real, index, name) LUCID_SAMPLED(real, index, name)
    LUCID_LOOPS(float, int32_t, float_short)
    LUCID_LOOPS(float, int64_t, float_long)
    LUCID_LOOPS(double, int32_t, double_short)
    LUCID_LOOPS(double, int64_t, double_long)
    LUCID_BEGIN(int32_t, short)
    LUCID_BEGIN(int64_t, long)
    LUCID_ADDED(float, float)
    LUCID_ADDED(double, double)
    LUCID_CHECKED(int32_t, short)
    LUCID_CHECKED(int64_t, long)
    LUCID_GROWS(int32_t, short)
    LUCID_GROWS(int64_t, long)

    /* A row of different keys in order: each stands behind as many as are smaller. */
    enum { LUCID_SHORT = 64 };
    static void lucid_sort_row(int64_t *keys, ptrdiff_t count) {
        int64_t held[LUCID_SHORT], ranks[LUCID_SHORT];
        const ptrdiff_t padded = (count + 7) & ~(ptrdiff_t)7;
        ptrdiff_t j, k;
        for (k = 0; k < padded; k++) held[k] = k < count ? keys[k] : INT64_MAX, ranks[k] = 0;
        for (j = 0; j < count; j++)
            for (k = 0; k < padded; k++) ranks[k] += held[j] < held[k];
        for (k = 0; k < count; k++) keys[ranks[k]] = held[k];
    }

    /* By what is computed, and whether numbers are single and indices short. */
    typedef void (*lucid_loop)(const lucid_product *, ptrdiff_t, ptrdiff_t);
    #define LUCID_ROW(what) {{what##_double_long, what##_double_short}, {what##_float_long, what##_float_short}}
    static const lucid_loop lucid_loops[3][2][2] = {
        LUCID_ROW(lucid_forth), LUCID_ROW(lucid_back), LUCID_ROW(lucid_sampled)
    };
    typedef ptrdiff_t (*lucid_begin)(const void *, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    static const lucid_begin lucid_begins[2] = {lucid_begin_long, lucid_begin_short};
    typedef void (*lucid_added)(void *, const void *, ptrdiff_t, ptrdiff_t);
    static const lucid_added lucid_sums[2] = {lucid_added_double, lucid_added_float};
    typedef int (*lucid_checked)(const lucid_product *, ptrdiff_t, ptrdiff_t);
    static const lucid_checked lucid_checks[2] = {lucid_checked_long, lucid_checked_short};
    typedef int (*lucid_grows)(const void *, ptrdiff_t, ptrdiff_t);
    static const lucid_grows lucid_growths[2] = {lucid_grows_long, lucid_grows_short};
    """
    ctypedef struct Product "lucid_product":
        const void* crow
        const void* col
        const void* values
        const void* x
        const void* y
        void* out
        Py_ssize_t start "from", rows, columns, width
    ctypedef void (*Loop "lucid_loop")(const Product*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Loop loops "lucid_loops"[3][2][2]
    ctypedef Py_ssize_t (*Begin "lucid_begin")(const void*, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
    Begin begins "lucid_begins"[2]
    ctypedef void (*Added "lucid_added")(void*, const void*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Added sums "lucid_sums"[2]
    ctypedef int (*Checked "lucid_checked")(const Product*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Checked checks "lucid_checks"[2]
    ctypedef int (*Grows "lucid_grows")(const void*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Grows growths "lucid_growths"[2]
    void sort_row "lucid_sort_row"(np.int64_t*, Py_ssize_t) noexcept nogil
    Py_ssize_t SHORT "LUCID_SHORT"  # entries of rows that are sorted so, at most

cdef enum:
    FORTH, BACK, SAMPLED

cdef enum:
    LEAST_WORK = 1 << 17  # products for which no threads are woken: some 30 microseconds
    SORTED = 1 << 13  # entries for the order of which no threads are woken
    SHARED = 128  # bytes of a row of a result that a thread has for itself, at least
    PIECES = 16  # of the rows of a transposed product, at most
    THREADS = 64  # at most
    EACH = 4  # entries for each row of the result that a piece has, at least

cdef struct Task:
    Product product
    Loop loop
    Begin begin  # that of rows; none where parts are of columns
    Checked check
    int fits
    Py_ssize_t parts
    # A transposed product in pieces of rows, which are added up: where those but the first stand, how long they are.
    char* pieces
    Py_ssize_t length, size
    Added add


cdef void _some(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    cdef Product* p = &a.product
    if a.begin == NULL:
        a.loop(p, p.width * part // a.parts, p.width * (part + 1) // a.parts)
    else:
        a.loop(p, a.begin(p.crow, p.rows, part, a.parts), a.begin(p.crow, p.rows, part + 1, a.parts))


cdef void _piece(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    cdef Product p = a.product
    p.start = a.begin(p.crow, a.product.rows, part, a.parts)
    p.rows = a.begin(p.crow, a.product.rows, part + 1, a.parts)
    if part > 0:
        p.out = a.pieces + (part - 1) * a.length * a.size
    a.loop(&p, 0, p.width)


cdef void _add_pieces(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    cdef Py_ssize_t piece, first = a.length * part // a.parts, last = a.length * (part + 1) // a.parts
    for piece in range(a.parts - 1):
        a.add(a.product.out, a.pieces + piece * a.length * a.size, first, last)


cdef void _check(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    cdef Product* p = &a.product
    if not a.check(p, a.begin(p.crow, p.rows, part, a.parts), a.begin(p.crow, p.rows, part + 1, a.parts)):
        a.fits = 0


cdef _run(int what, np.ndarray crow, np.ndarray col, np.ndarray values, np.ndarray x, np.ndarray y, np.ndarray out,
          Py_ssize_t columns):
    """Fill in a product, of which some operand is not there, by as many threads as are worth waking."""
    cdef Task a
    crow, col = np.PyArray_GETCONTIGUOUS(crow), np.PyArray_GETCONTIGUOUS(col)
    values = None if values is None else np.PyArray_GETCONTIGUOUS(values)
    x = None if x is None else np.PyArray_GETCONTIGUOUS(x)
    y = None if y is None else np.PyArray_GETCONTIGUOUS(y)
    cdef np.ndarray dense = y if x is None else x, pieces
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(dense), entries = np.PyArray_DIM(col, 0)
    cdef bint is_single = size == 4, is_short = np.PyArray_ITEMSIZE(col) == 4
    cdef np.npy_intp[1] length
    cdef Product* p = &a.product
    p.crow, p.col, p.out = np.PyArray_DATA(crow), np.PyArray_DATA(col), np.PyArray_DATA(out)
    p.values = NULL if values is None else np.PyArray_DATA(values)
    p.x = NULL if x is None else np.PyArray_DATA(x)
    p.y = NULL if y is None else np.PyArray_DATA(y)
    p.start, p.rows, p.columns, p.width = 0, np.PyArray_DIM(crow, 0) - 1, columns, np.PyArray_DIM(dense, 1)
    if not growths[is_short](p.crow, p.rows, entries):
        raise RuntimeError(f"rows of a sparse matrix must begin one after another among its {entries} entries")
    a.loop, a.begin = loops[what][is_single][is_short], begins[is_short]
    cdef bint is_large = entries * (p.width + 4) > LEAST_WORK
    cdef int threads = pool_size() if is_large else 1
    a.parts = 1 if threads == 1 else 8 * threads
    if what != BACK:
        with nogil:
            share(_some, &a, a.parts, threads)
        return out
    # How many pieces there are goes by the shape alone, and so does the order of sums.
    a.length, a.size, a.add = columns * p.width, size, sums[is_single]
    cdef Py_ssize_t many = entries // (EACH * max(columns, 1)) if is_large and p.width * size < 2 * SHARED else 1
    if many > 1:
        a.parts = min(many, PIECES)
        length[0] = (a.parts - 1) * a.length
        pieces = np.PyArray_EMPTY(1, length, np.PyArray_TYPE(dense), 0)
        a.pieces = <char*>np.PyArray_DATA(pieces)
        with nogil:
            share(_piece, &a, a.parts, threads)
            share(_add_pieces, &a, a.parts, threads)
        return out
    a.begin, a.parts = NULL, max(1, min(a.parts, p.width * size // SHARED))
    with nogil:
        share(_some, &a, a.parts, threads)
    return out


def matmul(np.ndarray crow, np.ndarray col, np.ndarray values, np.ndarray dense):
    cdef np.npy_intp[2] shape = [np.PyArray_DIM(crow, 0) - 1, np.PyArray_DIM(dense, 1)]
    cdef np.ndarray out = np.PyArray_EMPTY(2, shape, np.PyArray_TYPE(dense), 0)
    return _run(FORTH, crow, col, values, None, dense, out, 0)


def matmul_back(np.ndarray crow, np.ndarray col, np.ndarray values, np.ndarray dense, Py_ssize_t columns):
    cdef np.npy_intp[2] shape = [columns, np.PyArray_DIM(dense, 1)]
    cdef np.ndarray out = np.PyArray_EMPTY(2, shape, np.PyArray_TYPE(dense), 0)
    return _run(BACK, crow, col, values, dense, None, out, columns)


def sample(np.ndarray crow, np.ndarray col, np.ndarray x, np.ndarray y):
    cdef np.npy_intp[1] shape = [np.PyArray_DIM(col, 0)]
    cdef np.ndarray out = np.PyArray_EMPTY(1, shape, np.PyArray_TYPE(x), 0)
    return _run(SAMPLED, crow, col, None, x, y, out, 0)


def are_ordered(np.ndarray crow, np.ndarray col, Py_ssize_t columns):
    cdef Task a
    cdef bint is_short = np.PyArray_ITEMSIZE(col) == 4
    cdef int threads = pool_size() if np.PyArray_DIM(col, 0) > LEAST_WORK else 1
    a.product.crow, a.product.col = np.PyArray_DATA(crow), np.PyArray_DATA(col)
    a.product.rows, a.product.columns = np.PyArray_DIM(crow, 0) - 1, columns
    a.begin, a.check, a.fits, a.parts = begins[is_short], checks[is_short], 1, 4 * threads
    with nogil:
        share(_check, &a, a.parts, threads)
    return bool(a.fits)


# --- the order of entries ------------------------------------------------------------------------

# Entries are counted by rows, in chunks, put where those of each row begin, and then sorted within rows. What is sorted
# has the column in its upper half and the number of the entry in its lower one: equal columns stay as they come.
cdef struct Sort:
    const np.int64_t* row
    const np.int64_t* col
    np.int64_t* keys
    np.int64_t* counts  # for each chunk and row how many entries there are, then where the next one goes
    np.int64_t* crow
    np.int64_t* order
    np.int64_t* rows_of  # of the entries in their order, where they are asked for
    np.int64_t* columns_of
    Py_ssize_t count, rows, chunks, parts
    bint is_sorted
    Py_ssize_t longest  # entries of a row
    Py_ssize_t[THREADS] twice  # for each thread those that it found at the position of the entry before


cdef void _count(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Sort* a = <Sort*>task
    cdef np.int64_t* counts = a.counts + part * a.rows
    cdef Py_ssize_t k
    memset(counts, 0, a.rows * sizeof(np.int64_t))
    for k in range(a.count * part // a.chunks, a.count * (part + 1) // a.chunks):
        counts[a.row[k]] += 1


cdef void _place(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Sort* a = <Sort*>task
    cdef np.int64_t* counts = a.counts + part * a.rows
    cdef Py_ssize_t k
    cdef np.int64_t row
    for k in range(a.count * part // a.chunks, a.count * (part + 1) // a.chunks):
        row = a.row[k]
        a.keys[counts[row]] = a.col[k] << 32 | k
        counts[row] += 1


cdef void _begin_rows(Sort* a) noexcept nogil:
    """Where each row begins, and the entries of each chunk in it."""
    cdef Py_ssize_t i, chunk
    cdef np.int64_t total = 0, many
    a.longest = 0
    for i in range(a.rows):
        a.crow[i] = total
        for chunk in range(a.chunks):
            many = a.counts[chunk * a.rows + i]
            a.counts[chunk * a.rows + i] = total
            total += many
        a.longest = max(a.longest, total - a.crow[i])
    a.crow[a.rows] = total


cdef void _finish_rows(void* task, Py_ssize_t part, int who) noexcept nogil:
    """Some rows sorted and written down."""
    cdef Sort* a = <Sort*>task
    cdef np.int64_t* keys = a.keys
    cdef Py_ssize_t i, k, first, last, twice = 0
    for i in range(a.rows * part // a.parts, a.rows * (part + 1) // a.parts):
        first, last = a.crow[i], a.crow[i + 1]
        if not a.is_sorted:
            sort_row(keys + first, last - first)
        for k in range(first, last):
            a.order[k] = <np.uint32_t>keys[k]
        for k in range(first + 1, last):
            twice += keys[k] >> 32 == keys[k - 1] >> 32
        if a.rows_of != NULL:
            for k in range(first, last):
                a.rows_of[k], a.columns_of[k] = i, keys[k] >> 32
    a.twice[who] += twice


cdef bint _are_in_order(const Sort* a) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(1, a.count):
        if a.row[k] < a.row[k - 1] or (a.row[k] == a.row[k - 1] and a.col[k] < a.col[k - 1]):
            return False
    return True


cdef void _keep_order(Sort* a) noexcept nogil:
    """What is written down of entries that stand in order."""
    cdef Py_ssize_t k, i = 0
    for k in range(a.count):
        while i <= a.row[k]:
            a.crow[i] = k
            i += 1
        a.order[k] = k
        a.twice[0] += k > 0 and a.row[k] == a.row[k - 1] and a.col[k] == a.col[k - 1]
    for k in range(i, a.rows + 1):
        a.crow[k] = a.count
    if a.rows_of != NULL:
        memcpy(a.rows_of, a.row, a.count * sizeof(np.int64_t))
        memcpy(a.columns_of, a.col, a.count * sizeof(np.int64_t))


cdef void _sort_by(const np.int64_t* places, const np.int64_t* before, np.int64_t* order, np.int64_t* starts,
                   Py_ssize_t count, Py_ssize_t most) noexcept nogil:
    """The order of entries, which come in the order `before`, by places below `most`; `starts` has one more."""
    cdef Py_ssize_t k, place
    memset(starts, 0, (most + 1) * sizeof(np.int64_t))
    for k in range(count):
        starts[places[k] + 1] += 1
    for k in range(most):
        starts[k + 1] += starts[k]
    for k in range(count):
        place = k if before == NULL else before[k]
        order[starts[places[place]]] = place
        starts[places[place]] += 1


cdef _sort_long_rows(Sort* a, Py_ssize_t columns):
    """By columns, and then by rows."""
    cdef np.npy_intp[1] many = [a.count], most = [max(a.rows, columns) + 1]
    cdef np.ndarray by_column = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.ndarray starts = np.PyArray_EMPTY(1, most, np.NPY_INT64, 0)
    cdef np.int64_t* first = <np.int64_t*>np.PyArray_DATA(by_column)
    cdef np.int64_t* begins_at = <np.int64_t*>np.PyArray_DATA(starts)
    cdef Py_ssize_t k
    with nogil:
        _sort_by(a.col, NULL, first, begins_at, a.count, columns)
        _sort_by(a.row, first, a.order, begins_at, a.count, a.rows)
        for k in range(a.count):
            a.keys[k] = a.col[a.order[k]] << 32 | a.order[k]


cdef _sorted(np.ndarray row, np.ndarray col, Py_ssize_t rows, Py_ssize_t columns, bint with_positions):
    """The order, where rows begin, the positions in order if they are asked for, and how many occur again."""
    cdef Sort a
    a.row, a.col = <np.int64_t*>np.PyArray_DATA(row), <np.int64_t*>np.PyArray_DATA(col)
    a.count, a.rows = np.PyArray_SIZE(row), rows
    cdef int threads = pool_size() if a.count > SORTED else 1
    a.chunks = max(1, min(threads, a.count // max(rows, 1)))
    a.parts = 1 if threads == 1 else 8 * threads
    cdef np.npy_intp[1] many = [a.count], lines = [rows + 1], cells = [a.chunks * rows]
    cdef np.npy_intp[2] places = [2, a.count]
    cdef np.ndarray keys = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.ndarray counts = np.PyArray_EMPTY(1, cells, np.NPY_INT64, 0)
    cdef np.ndarray crow = np.PyArray_EMPTY(1, lines, np.NPY_INT64, 0)
    cdef np.ndarray order = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.ndarray found = np.PyArray_EMPTY(2, places, np.NPY_INT64, 0) if with_positions else None
    a.keys, a.counts = <np.int64_t*>np.PyArray_DATA(keys), <np.int64_t*>np.PyArray_DATA(counts)
    a.crow, a.order = <np.int64_t*>np.PyArray_DATA(crow), <np.int64_t*>np.PyArray_DATA(order)
    a.rows_of = <np.int64_t*>np.PyArray_DATA(found) if with_positions else NULL
    a.columns_of = a.rows_of + a.count if with_positions else NULL
    memset(a.twice, 0, sizeof(a.twice))
    with nogil:
        a.is_sorted = _are_in_order(&a)
        if a.is_sorted:
            _keep_order(&a)
        else:
            share(_count, &a, a.chunks, threads)
            _begin_rows(&a)
    if a.is_sorted:
        return order, crow, found, a.twice[0]
    if a.longest > SHORT:
        _sort_long_rows(&a, columns)
        a.is_sorted = True
    with nogil:
        if not a.is_sorted:
            share(_place, &a, a.chunks, threads)
        share(_finish_rows, &a, a.parts, threads)
    return order, crow, found, sum(a.twice)


def order(np.ndarray row, np.ndarray col, Py_ssize_t rows, Py_ssize_t columns):
    return _sorted(row, col, rows, columns, False)[:2]


def distinct(np.ndarray row, np.ndarray col, Py_ssize_t rows, Py_ssize_t columns):
    order, _, found, twice = _sorted(row, col, rows, columns, True)
    if not twice:
        return found, order, None
    cdef np.ndarray positions = found
    cdef Py_ssize_t count = np.PyArray_DIM(positions, 1), kept = count - <Py_ssize_t>twice, k, at = -1
    cdef np.npy_intp[1] many = [kept + 1]
    cdef np.npy_intp[2] places = [2, kept]
    cdef np.ndarray less = np.PyArray_EMPTY(2, places, np.NPY_INT64, 0)
    cdef np.ndarray starts = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.int64_t* source = <np.int64_t*>np.PyArray_DATA(positions)
    cdef np.int64_t* target = <np.int64_t*>np.PyArray_DATA(less)
    cdef np.int64_t* begin = <np.int64_t*>np.PyArray_DATA(starts)
    with nogil:
        for k in range(count):
            if k == 0 or source[k] != source[k - 1] or source[count + k] != source[count + k - 1]:
                at += 1
                target[at], target[kept + at], begin[at] = source[k], source[count + k], k
        begin[kept] = count
    return less, order, starts
