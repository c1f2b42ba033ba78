# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of csr.py as loops; see there what they do.

Rows of dense factors are worked on 64 bytes at a time, a line of the cache, in vectors as the processor has them. Those
rows may lie anywhere, so that those of entries further ahead are asked for early. Each number is a sum in one order,
whatever the number of threads.
"""

cimport numpy as np
from libc.string cimport memset

from lucid.backends.cpu cimport simd
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    enum { LUCID_AHEAD = 8 };
    #define LUCID_ASK(p) if (k + LUCID_AHEAD < end) LUCID_PREFETCH((p) + col[k + LUCID_AHEAD] * width)

    /* The arguments of all loops: a matrix, dense factors with rows of `width` elements, and which rows or columns. */
    typedef struct {
        const void *crow, *col, *values, *x, *y;
        void *out;
        ptrdiff_t rows, columns, width;
    } lucid_product;
    #define LUCID_READ(real, index)                                                                                   \\
        LUCID_VECTOR(real, vector, 64); LUCID_VECTOR(real, half, 32); LUCID_VECTOR(real, quarter, 16);                \\
        enum { LANES = sizeof(vector) / sizeof(real), MANY = LUCID_MANY(64, vector), LINE = LANES * MANY };           \\
        const index *crow = a->crow, *col = a->col;                                                                   \\
        const ptrdiff_t width = a->width;                                                                             \\
        ptrdiff_t i, j, k, c;                                                                                         \\
        (void)crow, (void)col, (void)width, (void)j, (void)k, (void)c;

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
                for (i = first; i < last; i++) {                                                                      \\
                    real p = 0;                                                                                       \\
                    for (k = crow[i]; k < crow[i + 1]; k++) p += values[k] * y[col[k]];                               \\
                    ((real *)a->out)[i] = p;                                                                          \\
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

    /* out[col[k]] += values[k] * x[i], for the columns from `first` to `last` */
    #define LUCID_BACK(real, index, name)                                                                             \\
        static void lucid_back_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                      \\
            LUCID_READ(real, index)                                                                                   \\
            const ptrdiff_t end = crow[a->rows], count = last - first;                                                \\
            const real *values = a->values, *x = (const real *)a->x + first;                                          \\
            real *out = (real *)a->out + first;                                                                       \\
            if (count == width) memset(out, 0, a->columns * width * sizeof(real));                                    \\
            else for (i = 0; i < a->columns; i++) memset(out + i * width, 0, count * sizeof(real));                   \\
            if (width == 1) {                                                                                         \\
                for (i = 0; i < a->rows; i++)                                                                         \\
                    for (k = crow[i]; k < crow[i + 1]; k++) out[col[k]] += values[k] * x[i];                          \\
                return;                                                                                               \\
            }                                                                                                         \\
            for (i = 0; i < a->rows; i++) {                                                                           \\
                const real *from = x + i * width;                                                                     \\
                const ptrdiff_t stop = crow[i + 1];                                                                   \\
                if (count < LINE) {                                                                                   \\
                    for (k = crow[i]; k < stop; k++) {                                                                \\
                        const real value = values[k];                                                                 \\
                        real *to = out + col[k] * width;                                                              \\
                        for (j = 0; j < count; j++) to[j] += value * from[j];                                         \\
                    }                                                                                                 \\
                    continue;                                                                                         \\
                }                                                                                                     \\
                for (k = crow[i]; k < stop; k++) {                                                                    \\
                    const real value = values[k];                                                                     \\
                    real *to = out + col[k] * width;                                                                  \\
                    LUCID_ASK(out);                                                                                   \\
                    for (j = 0; j + LINE <= count; j += LINE)                                                         \\
                        LUCID_UNROLLED for (c = 0; c < LINE; c += LANES)                                              \\
                            *(vector *)(to + j + c) += value * *(const vector *)(from + j + c);                       \\
                    for (; j < count; j++) to[j] += value * from[j];                                                  \\
                }                                                                                                     \\
            }                                                                                                         \\
        }

    /* out[k] = sum of x[i] * y[col[k]] */
    #define LUCID_SAMPLED(real, index, name)                                                                          \\
        static void lucid_sampled_##name(const lucid_product *a, ptrdiff_t first, ptrdiff_t last) {                   \\
            LUCID_READ(real, index)                                                                                   \\
            const ptrdiff_t end = crow[last];                                                                         \\
            const real *x = a->x, *y = a->y;                                                                          \\
            real *out = a->out;                                                                                       \\
            for (i = first; i < last; i++) {                                                                          \\
                const real *left = x + i * width;                                                                     \\
                for (k = crow[i]; k < crow[i + 1]; k++) {                                                             \\
                    const real *right = y + col[k] * width;                                                           \\
                    vector sums[MANY];                                                                                \\
                    real parts[LINE], rest = 0;                                                                       \\
                    LUCID_ASK(y);                                                                                     \\
                    LUCID_UNROLLED for (c = 0; c < MANY; c++) sums[c] = (vector){0};                                  \\
                    for (j = 0; j + LINE <= width; j += LINE)                                                         \\
                        LUCID_UNROLLED for (c = 0; c < MANY; c++)                                                     \\
                            sums[c] += ((const vector *)(left + j))[c] * ((const vector *)(right + j))[c];            \\
                    for (; j < width; j++) rest += left[j] * right[j];                                                \\
                    LUCID_UNROLLED for (c = 0; c < MANY; c++) ((vector *)parts)[c] = sums[c];                         \\
                    if (width >= LINE)                                                                                \\
                        for (j = LINE / 2; j > 0; j /= 2)                                                             \\
                            for (c = 0; c < j; c++) parts[c] += parts[c + j];                                         \\
                    out[k] = width >= LINE ? parts[0] + rest : rest;                                                  \\
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

    #define LUCID_LOOPS(real, index, name)                                                                            \\
        LUCID_FORTH(real, index, name) LUCID_BACK(real, index, name) LUCID_SAMPLED(real, index, name)
    LUCID_LOOPS(float, int32_t, float_short)
    LUCID_LOOPS(float, int64_t, float_long)
    LUCID_LOOPS(double, int32_t, double_short)
    LUCID_LOOPS(double, int64_t, double_long)
    LUCID_BEGIN(int32_t, short)
    LUCID_BEGIN(int64_t, long)

    /* By what is computed, and whether numbers are single and indices short. */
    typedef void (*lucid_loop)(const lucid_product *, ptrdiff_t, ptrdiff_t);
    #define LUCID_ROW(what) {{what##_double_long, what##_double_short}, {what##_float_long, what##_float_short}}
    static const lucid_loop lucid_loops[3][2][2] = {
        LUCID_ROW(lucid_forth), LUCID_ROW(lucid_back), LUCID_ROW(lucid_sampled)
    };
    typedef ptrdiff_t (*lucid_begin)(const void *, ptrdiff_t, ptrdiff_t, ptrdiff_t);
    static const lucid_begin lucid_begins[2] = {lucid_begin_long, lucid_begin_short};
    """
    ctypedef struct Product "lucid_product":
        const void* crow
        const void* col
        const void* values
        const void* x
        const void* y
        void* out
        Py_ssize_t rows, columns, width
    ctypedef void (*Loop "lucid_loop")(const Product*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Loop loops "lucid_loops"[3][2][2]
    ctypedef Py_ssize_t (*Begin "lucid_begin")(const void*, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
    Begin begins "lucid_begins"[2]

cdef enum:
    FORTH, BACK, SAMPLED

cdef enum:
    LEAST_WORK = 1 << 15  # products for which no threads are woken
    SHORT = 48  # entries of rows that are sorted by insertion
    SHARED = 128  # bytes of a row of a result that a thread has for itself, at least

cdef struct Task:
    Product product
    Loop loop
    Begin begin  # that of rows; none where parts are of columns
    Py_ssize_t parts


cdef void _some(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* a = <Task*>task
    cdef Product* p = &a.product
    if a.begin == NULL:
        a.loop(p, p.width * part // a.parts, p.width * (part + 1) // a.parts)
    else:
        a.loop(p, a.begin(p.crow, p.rows, part, a.parts), a.begin(p.crow, p.rows, part + 1, a.parts))


cdef _run(int what, np.ndarray crow, np.ndarray col, np.ndarray values, np.ndarray x, np.ndarray y, np.ndarray out,
          Py_ssize_t columns):
    """Fill in a product, of which some operand is not there, by as many threads as are worth waking."""
    cdef Task a
    cdef np.ndarray dense = y if x is None else x
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(dense)
    cdef bint is_single = size == 4, is_short = np.PyArray_ITEMSIZE(col) == 4
    cdef Product* p = &a.product
    p.crow, p.col, p.out = np.PyArray_DATA(crow), np.PyArray_DATA(col), np.PyArray_DATA(out)
    p.values = NULL if values is None else np.PyArray_DATA(values)
    p.x = NULL if x is None else np.PyArray_DATA(x)
    p.y = NULL if y is None else np.PyArray_DATA(y)
    p.rows, p.columns, p.width = np.PyArray_DIM(crow, 0) - 1, columns, np.PyArray_DIM(dense, 1)
    a.loop = loops[what][is_single][is_short]
    a.begin = NULL if what == BACK else begins[is_short]
    cdef int threads = pool_size() if np.PyArray_DIM(col, 0) * (p.width + 4) > LEAST_WORK else 1
    a.parts = 1 if threads == 1 else 8 * threads
    if what == BACK:
        a.parts = max(1, min(a.parts, p.width * size // SHARED))
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


cdef void _sort_by(const np.int64_t* keys, const np.int64_t* before, np.int64_t* order, np.int64_t* starts,
                   Py_ssize_t count, Py_ssize_t most) noexcept nogil:
    """The order of entries, which come in the order `before`, by keys below `most`; `starts` has where each key begins."""
    cdef Py_ssize_t k, place
    memset(starts, 0, (most + 1) * sizeof(np.int64_t))
    for k in range(count):
        starts[keys[k] + 1] += 1
    for k in range(most):
        starts[k + 1] += starts[k]
    for k in range(count):
        place = k if before == NULL else before[k]
        order[starts[keys[place]]] = place
        starts[keys[place]] += 1
    for k in range(most, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0


cdef void _sort_rows(const np.int64_t* col, np.int64_t* order, const np.int64_t* crow, Py_ssize_t rows) noexcept nogil:
    """The entries of each row by their columns, by insertion: rows are short, and equal ones stay as they are."""
    cdef Py_ssize_t i, k, at
    cdef np.int64_t place
    for i in range(rows):
        for k in range(crow[i] + 1, crow[i + 1]):
            place, at = order[k], k
            while at > crow[i] and col[order[at - 1]] > col[place]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = place


def order(np.ndarray row, np.ndarray col, Py_ssize_t rows, Py_ssize_t columns):
    cdef Py_ssize_t count = np.PyArray_SIZE(row), i, longest = 0
    cdef np.npy_intp[1] many = [count], lines = [rows + 1], breadth = [columns + 1]
    cdef np.ndarray found = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.ndarray crow = np.PyArray_EMPTY(1, lines, np.NPY_INT64, 0)
    cdef np.int64_t* order = <np.int64_t*>np.PyArray_DATA(found)
    cdef np.int64_t* begin = <np.int64_t*>np.PyArray_DATA(crow)
    cdef np.int64_t* rows_of = <np.int64_t*>np.PyArray_DATA(row)
    cdef np.int64_t* columns_of = <np.int64_t*>np.PyArray_DATA(col)
    with nogil:
        _sort_by(rows_of, NULL, order, begin, count, rows)
        for i in range(rows):
            longest = max(longest, begin[i + 1] - begin[i])
        if longest <= SHORT:
            _sort_rows(columns_of, order, begin, rows)
    if longest <= SHORT:
        return found, crow
    cdef np.ndarray by_column = np.PyArray_EMPTY(1, many, np.NPY_INT64, 0)
    cdef np.ndarray starts = np.PyArray_EMPTY(1, breadth, np.NPY_INT64, 0)
    cdef np.int64_t* first = <np.int64_t*>np.PyArray_DATA(by_column)
    cdef np.int64_t* begins_at = <np.int64_t*>np.PyArray_DATA(starts)
    with nogil:
        _sort_by(columns_of, NULL, first, begins_at, count, columns)
        _sort_by(rows_of, first, order, begin, count, rows)
    return found, crow
