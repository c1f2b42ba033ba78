# Products of matrices, in tiles of some rows and columns whose sums stay in the registers of vectors.

cimport numpy as np

from lucid.backends.cpu cimport simd
from lucid.backends.cpu.scalar_math cimport real

cdef extern from *:
    """
    #ifndef LUCID_TILES
    #define LUCID_TILES
    #include <stddef.h>
    #include <string.h>

    #if defined(__AVX512F__)
    #include <immintrin.h>
    #endif

    /* Bytes in a row of a panel. */
    #define LUCID_PANEL (LUCID_WIDTH == 64 ? 128 : 64)

    #ifdef __GNUC__
    #define LUCID_TILE static inline __attribute__((always_inline))
    #define LUCID_PREFETCH_TARGET(p) __builtin_prefetch(p, 1)
    #define LUCID_OPAQUE(x) __asm__("" : "+r"(x))  /* The compiler does not compute it again from what it was made of. */
    #else
    #define LUCID_TILE static inline
    #define LUCID_PREFETCH_TARGET(p)
    #define LUCID_OPAQUE(x)
    #endif

    /* A factor of a whole vector, and sum += factor * row. GCC would leave products in the registers of factors, and then
       move each sum back to its own. */
    #if defined(__GNUC__) && defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__)
    #ifdef __AVX512F__
    #define LUCID_REGISTER "v"
    #else
    #define LUCID_REGISTER "x"
    #endif
    #define LUCID_OF_float "s"
    #define LUCID_OF_double "d"
    #define LUCID_FACTOR(real, name, p) \\
        vector name;                    \\
        __asm__("vbroadcasts" LUCID_OF_##real " %1, %0" : "=" LUCID_REGISTER(name) : "m"(*(p)))
    #define LUCID_ADD_PRODUCT(real, sum, factor, row)            \\
        __asm__("vfmadd231p" LUCID_OF_##real " %2, %1, %0"       \\
                : "+" LUCID_REGISTER(sum) : LUCID_REGISTER(factor), LUCID_REGISTER(row))
    #else
    #define LUCID_FACTOR(real, name, p) real name = *(p)
    #define LUCID_ADD_PRODUCT(real, sum, factor, row) (sum) += (factor) * (row)
    #endif

    /* How many rows of a tile with so many vectors in a row leave registers for a row of the panel and for a factor. */
    #define LUCID_TALLEST(vectors) \\
        (LUCID_REGISTERS < 2 * (vectors) + 1 ? 1 : (LUCID_REGISTERS - 1 - (vectors)) / (vectors))
    /* Rows of a tile by a panel. */
    #define LUCID_ROWS LUCID_TALLEST(LUCID_WIDTH ? LUCID_PANEL / (LUCID_WIDTH ? LUCID_WIDTH : 1) : 64)
    /* Rows that are fetched into the cache before they are needed, bytes of one of its lines, a depth that takes longer than
       fetching lines of the result, and rows of a block. Rows of a tile that are found from one pointer: each with a
       pointer of its own, these would not fit into registers. */
    enum { LUCID_AHEAD = 8, LUCID_OF_LINE = 64, LUCID_DEEP = 48, LUCID_BLOCK = 16, LUCID_GROUP = 5 };

    /* lucid_tile: some rows of x by a panel of so many columns, of which only some may be wanted in the result. The
       elements of x are `down` and `right` apart, rows of the result `stride`. To them rows from `first` on, `step` apart,
       are added, unless it is NULL, with a step of 0.
       lucid_rows: the same for any number of rows.
       lucid_pack_rows: put rows of x into tiles, whose columns lie one after the other.
       lucid_pack: put columns of a matrix into a panel, which is filled up with zeros. */
    #define LUCID_TILES_OF(real)                                                                                      \\
        LUCID_TILE void lucid_tile_##real(const real *x, ptrdiff_t down, ptrdiff_t right, const real *w,              \\
                                          ptrdiff_t depth, const real *first, ptrdiff_t step, real *out,              \\
                                          ptrdiff_t stride, const int rows, const int columns, ptrdiff_t wanted) {    \\
            LUCID_VECTOR(real, vector, 64);                                                                           \\
            enum { LANES = sizeof(vector) / sizeof(real) };                                                           \\
            const int across = columns / LANES;                                                                       \\
            vector sums[32], panel[32];                                                                               \\
            const real *groups[8];                                                                                    \\
            ptrdiff_t k, one = down, three = 3 * down;                                                                \\
            int i, j;                                                                                                 \\
            LUCID_UNROLLED for (i = 0; i < rows; i += LUCID_GROUP) {                                                  \\
                groups[i / LUCID_GROUP] = x + i * down;                                                               \\
                LUCID_OPAQUE(groups[i / LUCID_GROUP]);                                                                \\
            }                                                                                                         \\
            LUCID_OPAQUE(three);                                                                                      \\
            LUCID_UNROLLED for (i = 0; i < rows; i++)                                                                 \\
                LUCID_UNROLLED for (j = 0; j < across; j++)                                                           \\
                    sums[i * across + j] = first ? *(const vector *)(first + i * step + j * LANES) : (vector){0};     \\
            LUCID_UNROLLED for (i = 0; i < rows && depth > LUCID_DEEP; i++)                                           \\
                LUCID_UNROLLED for (j = 0; j < columns; j += LUCID_OF_LINE / (int)sizeof(real))                       \\
                    LUCID_PREFETCH_TARGET(out + i * stride + j);                                                      \\
            for (k = 0; k < depth; k++, w += columns) {                                                               \\
                if (right != 1) LUCID_PREFETCH(x + (k + LUCID_AHEAD) * right);                                        \\
                LUCID_UNROLLED for (j = 0; j < columns; j += LUCID_OF_LINE / (int)sizeof(real))                       \\
                    LUCID_PREFETCH(w + LUCID_AHEAD * columns + j);                                                    \\
                LUCID_UNROLLED for (j = 0; j < across; j++) panel[j] = *(const vector *)(w + j * LANES);              \\
                LUCID_UNROLLED for (i = 0; i < rows; i++) {                                                           \\
                    LUCID_FACTOR(real, factor,                                                                        \\
                                 groups[i / LUCID_GROUP] + (i % LUCID_GROUP == 3 ? three : i % LUCID_GROUP * one));   \\
                    LUCID_UNROLLED for (j = 0; j < across; j++)                                                       \\
                        LUCID_ADD_PRODUCT(real, sums[i * across + j], factor, panel[j]);                              \\
                }                                                                                                     \\
                LUCID_UNROLLED for (i = 0; i < rows; i += LUCID_GROUP) groups[i / LUCID_GROUP] += right;              \\
            }                                                                                                         \\
            if (wanted >= columns) {                                                                                  \\
                LUCID_UNROLLED for (i = 0; i < rows; i++)                                                             \\
                    LUCID_UNROLLED for (j = 0; j < across; j++)                                                       \\
                        *(vector *)(out + i * stride + j * LANES) = sums[i * across + j];                             \\
            } else {                                                                                                  \\
                LUCID_UNROLLED for (i = 0; i < rows; i++) {                                                           \\
                    real row[64];                                                                                     \\
                    LUCID_UNROLLED for (j = 0; j < across; j++) *(vector *)(row + j * LANES) = sums[i * across + j];  \\
                    memcpy(out + i * stride, row, wanted * sizeof(real));                                             \\
                }                                                                                                     \\
            }                                                                                                         \\
        }                                                                                                             \\
                                                                                                                      \\
        LUCID_TILE void lucid_rows_##real(const real *x, ptrdiff_t down, ptrdiff_t right, ptrdiff_t n, const real *w, \\
                                          ptrdiff_t depth, const real *first, ptrdiff_t step, real *out,              \\
                                          ptrdiff_t stride, const int columns, ptrdiff_t wanted) {                    \\
            LUCID_VECTOR(real, vector, 64);                                                                           \\
            const int most = LUCID_TALLEST((int)(columns * sizeof(real) / sizeof(vector)));                           \\
            LUCID_WHILE(real, most && !(most > 8 && n == 16), most)                                                   \\
            LUCID_WHILE(real, most > 8, 8)                                                                            \\
            LUCID_WHILE(real, most > 4, 4)                                                                            \\
            LUCID_WHILE(real, most > 2, 2)                                                                            \\
            LUCID_WHILE(real, most > 1, 1)                                                                            \\
        }                                                                                                             \\
                                                                                                                      \\
        LUCID_TILE void lucid_pack_rows_##real(const real *x, ptrdiff_t down, ptrdiff_t right, ptrdiff_t n,           \\
                                               ptrdiff_t depth, real *out, const int tile) {                          \\
            ptrdiff_t k, i;                                                                                           \\
            for (; n > 0; n -= tile, x += tile * down, out += tile * depth) {                                         \\
                k = 0;                                                                                                \\
                if (right == 1 && n >= tile && tile <= LUCID_BLOCK && LUCID_TRANSPOSES(real))                         \\
                    for (; k + LUCID_BLOCK <= depth; k += LUCID_BLOCK)                                                \\
                        lucid_transpose((const float *)x + k, down, tile, (float *)out + k * tile, tile);             \\
                for (; k < depth; k++) {                                                                              \\
                    if (down == 1 && n >= tile) memcpy(out + k * tile, x + k * right, tile * sizeof(real));           \\
                    else for (i = 0; i < tile && i < n; i++) out[k * tile + i] = x[i * down + k * right];             \\
                }                                                                                                     \\
            }                                                                                                         \\
        }                                                                                                             \\
                                                                                                                      \\
        LUCID_TILE void lucid_pack_##real(const real *w, ptrdiff_t down, ptrdiff_t right, ptrdiff_t depth,            \\
                                          ptrdiff_t columns, real *out, const int panel) {                            \\
            ptrdiff_t k, j, start, end;                                                                               \\
            if (columns >= panel) {                                                                                   \\
                columns = panel;                                                                                      \\
                for (k = 0; right == 1 && k < depth; k++) memcpy(out + k * panel, w + k * down, panel * sizeof(real));\\
            } else {                                                                                                  \\
                memset(out, 0, depth * panel * sizeof(real));                                                         \\
                for (k = 0; right == 1 && k < depth; k++)                                                             \\
                    memcpy(out + k * panel, w + k * down, columns * sizeof(real));                                    \\
            }                                                                                                         \\
            if (right == 1) return;                                                                                   \\
            for (start = 0; start < depth; start = end) {                                                             \\
                end = start + LUCID_BLOCK < depth ? start + LUCID_BLOCK : depth;                                      \\
                j = 0;                                                                                                \\
                if (down == 1 && end - start == LUCID_BLOCK && LUCID_TRANSPOSES(real))                                \\
                    for (; j + LUCID_BLOCK <= columns; j += LUCID_BLOCK)                                              \\
                        lucid_transpose((const float *)w + start + j * right, right, LUCID_BLOCK,                     \\
                                        (float *)out + start * panel + j, panel);                                     \\
                for (; j < columns; j++)                                                                              \\
                    for (k = start; k < end; k++) out[k * panel + j] = w[k * down + j * right];                       \\
            }                                                                                                         \\
        }

    #define LUCID_WHILE(real, condition, rows)                                                                        \\
        if (condition)                                                                                                \\
            for (; n >= (rows); n -= (rows), x += (rows) * down, first += (rows) * step, out += (rows) * stride)      \\
                lucid_tile_##real(x, down, right, w, depth, first, step, out, stride, rows, columns, wanted);

    /* A block of 16 rows of 16 floats becomes one of columns. Of the rows there may be fewer. Columns are written one after
       the other, and those closer than 16 numbers lie over the end of the one before. */
    #if defined(__AVX512F__)
    #define LUCID_TRANSPOSES_FLOATS 1
    LUCID_TILE void lucid_transpose(const float *x, ptrdiff_t stride, const int rows, float *out, ptrdiff_t out_stride) {
        __m512 a[16], b[16];
        int i;
        LUCID_UNROLLED for (i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(x + (i < rows ? i : 0) * stride);
        LUCID_UNROLLED for (i = 0; i < 16; i += 2) {
            b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
        }
        LUCID_UNROLLED for (i = 0; i < 16; i += 4) {
            a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
            a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
            a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
            a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
        }
        LUCID_UNROLLED for (i = 0; i < 4; i++) {
            b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
            b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
            b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
            b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
        }
        LUCID_UNROLLED for (i = 0; i < 4; i++) {
            a[i] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88);
            a[i + 4] = _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0x88);
            a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd);
            a[i + 12] = _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0xdd);
        }
        LUCID_UNROLLED for (i = 0; i < 16; i++) _mm512_storeu_ps(out + i * out_stride, a[i]);
    }
    #else
    #define LUCID_TRANSPOSES_FLOATS 0
    #define lucid_transpose(x, stride, rows, out, out_stride)
    #endif

    #define LUCID_TRANSPOSES(real) (LUCID_TRANSPOSES_FLOATS && sizeof(real) == sizeof(float))
    LUCID_TILES_OF(float)
    LUCID_TILES_OF(double)
    #endif
    """
    void lucid_rows_float(
        const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, const float*, Py_ssize_t, float*,
        Py_ssize_t, int, Py_ssize_t,
    ) noexcept nogil
    void lucid_rows_double(
        const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, const double*, Py_ssize_t, double*,
        Py_ssize_t, int, Py_ssize_t,
    ) noexcept nogil
    void lucid_pack_rows_float(
        const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*, int
    ) noexcept nogil
    void lucid_pack_rows_double(
        const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*, int
    ) noexcept nogil
    const int LUCID_PANEL, LUCID_ROWS, LUCID_TRANSPOSES_FLOATS
    void lucid_pack_float(const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*, int) noexcept nogil
    void lucid_pack_double(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*, int) noexcept nogil

cdef enum:
    LINE = 64  # bytes of a line of the cache
    DEPTH = 384  # over which sums are taken at a time


cdef inline void rows_by_panel(
    const real* x, Py_ssize_t down, Py_ssize_t right, Py_ssize_t n, const real* w, Py_ssize_t depth,
    const real* first, Py_ssize_t step, real* out, Py_ssize_t stride, int panel, Py_ssize_t columns,
) noexcept nogil:
    """n rows of x, whose elements are `down` and `right` apart, by a panel, of which only some columns may be wanted.

    Rows of the result are `stride` apart. To them those from `first` on are added, `step` apart, of the width of the
    panel. It may be NULL, with a step of 0.
    """
    if real is float:
        lucid_rows_float(x, down, right, n, w, depth, first, step, out, stride, panel, columns)
    else:
        lucid_rows_double(x, down, right, n, w, depth, first, step, out, stride, panel, columns)


cdef inline void pack_rows(
    const real* x, Py_ssize_t down, Py_ssize_t right, Py_ssize_t n, Py_ssize_t depth, real* out, int tile
) noexcept nogil:
    """Put n rows of x into tiles of so many rows; the last one may be filled in part."""
    if real is float:
        lucid_pack_rows_float(x, down, right, n, depth, out, tile)
    else:
        lucid_pack_rows_double(x, down, right, n, depth, out, tile)


cdef inline void pack(
    const real* w, Py_ssize_t down, Py_ssize_t right, Py_ssize_t depth, Py_ssize_t columns, real* out, int panel
) noexcept nogil:
    """Put a matrix, whose rows and columns are so far apart, into panels; the last one is filled up with zeros."""
    while columns > 0:
        if real is float:
            lucid_pack_float(w, down, right, depth, columns, out, panel)
        else:
            lucid_pack_double(w, down, right, depth, columns, out, panel)
        out += depth * panel
        w += panel * right
        columns -= panel


cdef inline np.ndarray aligned(Py_ssize_t size, kind):
    """Memory for so many numbers that starts where a line of the cache does."""
    cdef np.npy_intp[1] length = [size * kind.itemsize + LINE]
    cdef np.ndarray out = np.PyArray_EMPTY(1, length, np.NPY_UINT8, 0)
    cdef Py_ssize_t start = -<Py_ssize_t>np.PyArray_DATA(out) & (LINE - 1)
    return out[start : start + size * kind.itemsize].view(kind)
