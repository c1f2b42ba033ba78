# Vectors as the processor has them, and with them sums, scalar products and maxima of stretches of memory: compilers do
# not reorder sums by themselves. Without vector types, a vector has one element.

from lucid.backends.cpu.scalar_math cimport real

cdef extern from *:
    """
    #ifndef LUCID_LANES
    #define LUCID_LANES
    #include <math.h>
    #include <stddef.h>

    /* Bytes of a register for vectors, and how many there are. */
    #if !defined(__GNUC__)
    #define LUCID_WIDTH 0
    #define LUCID_REGISTERS 0
    #elif defined(__AVX512F__)
    #define LUCID_WIDTH 64
    #define LUCID_REGISTERS 32
    #elif defined(__AVX__)
    #define LUCID_WIDTH 32
    #define LUCID_REGISTERS 16
    #elif defined(__aarch64__)
    #define LUCID_WIDTH 16
    #define LUCID_REGISTERS 32
    #else
    #define LUCID_WIDTH 16
    #define LUCID_REGISTERS 25  /* of which 9 are in memory */
    #endif

    #ifdef __GNUC__
    #define LUCID_UNROLLED _Pragma("GCC unroll 16")
    #define LUCID_PREFETCH(p) __builtin_prefetch(p)
    /* Vectors are no wider than registers: compilers keep wider ones in memory. */
    #define LUCID_BYTES(most) (LUCID_WIDTH < (most) ? LUCID_WIDTH : (most))
    #define LUCID_VECTOR(real, name, most) \\
        typedef real name __attribute__((vector_size(LUCID_BYTES(most)), aligned(sizeof(real)), may_alias))
    /* How many vectors so many bytes are. */
    #define LUCID_MANY(bytes, vector) ((bytes) / sizeof(vector))
    /* The elements of x where the bits of `mask` are set, and those of y elsewhere. */
    #define LUCID_CHOOSE(mask, x, y) (vector)(((mask) & (__typeof__(mask))(x)) | (~(mask) & (__typeof__(mask))(y)))
    #else
    #define LUCID_UNROLLED
    #define LUCID_PREFETCH(p)
    #define LUCID_VECTOR(real, name, most) typedef real name
    #define LUCID_MANY(bytes, vector) 1
    #define LUCID_CHOOSE(mask, x, y) ((mask) ? (x) : (y))
    #endif

    #define LUCID_AT(p) (*(const vector *)(p))
    #define LUCID_ADD(x, y) ((x) + (y))
    #define LUCID_SCALAR_MAX(x, y) ((x) > (y) ? (x) : (y))
    #define LUCID_MAX(x, y) LUCID_CHOOSE((x) > (y), x, y)

    #define LUCID_HALVE(n, join) if (LANES * MANY > n) for (k = 0; k < n; k++) parts[k] = join(parts[k], parts[k + n]);

    /* A function that joins terms, one at i or a vector from there on: 128 bytes at a time in vectors that need not wait
       for each other, then 64 bytes, then the elements of these in a tree. */
    #define LUCID_REDUCTION(name, real, operands, start, scalar_term, vector_term, scalar_join, vector_join)          \\
        static inline real name operands {                                                                            \\
            LUCID_VECTOR(real, vector, 64);                                                                           \\
            enum { LANES = sizeof(vector) / sizeof(real), MANY = LUCID_MANY(64, vector) };                            \\
            vector sums[2 * MANY];                                                                                    \\
            real rest = start, parts[LANES * MANY];                                                                   \\
            ptrdiff_t i, k;                                                                                           \\
            for (k = 0; k < LANES; k++) parts[k] = start;                                                             \\
            LUCID_UNROLLED for (k = 0; k < 2 * MANY; k++) sums[k] = LUCID_AT(parts);                                  \\
            for (i = 0; i + 2 * MANY * LANES <= n; i += 2 * MANY * LANES)                                             \\
                LUCID_UNROLLED for (k = 0; k < 2 * MANY; k++)                                                         \\
                    sums[k] = vector_join(sums[k], vector_term(i + k * LANES));                                       \\
            for (; i + MANY * LANES <= n; i += MANY * LANES)                                                          \\
                LUCID_UNROLLED for (k = 0; k < MANY; k++) sums[k] = vector_join(sums[k], vector_term(i + k * LANES)); \\
            for (; i < n; i++) rest = scalar_join(rest, scalar_term(i));                                              \\
            LUCID_UNROLLED for (k = 0; k < MANY; k++)                                                                 \\
                *(vector *)(parts + k * LANES) = vector_join(sums[k], sums[k + MANY]);                                \\
            LUCID_HALVE(8, scalar_join)                                                                               \\
            LUCID_HALVE(4, scalar_join)                                                                               \\
            LUCID_HALVE(2, scalar_join)                                                                               \\
            LUCID_HALVE(1, scalar_join)                                                                               \\
            return scalar_join(rest, parts[0]);                                                                       \\
        }

    #define LUCID_ELEMENT(i) x[i]
    #define LUCID_ELEMENTS(i) LUCID_AT(x + (i))
    #define LUCID_PRODUCT(i) x[i] * y[i]
    #define LUCID_PRODUCTS(i) LUCID_AT(x + (i)) * LUCID_AT(y + (i))
    #define LUCID_REDUCTIONS(real)                                                                                    \\
        LUCID_REDUCTION(lucid_sum_##real, real, (const real *x, ptrdiff_t n), 0,                                      \\
                        LUCID_ELEMENT, LUCID_ELEMENTS, LUCID_ADD, LUCID_ADD)                                          \\
        LUCID_REDUCTION(lucid_dot_##real, real, (const real *x, const real *y, ptrdiff_t n), 0,                       \\
                        LUCID_PRODUCT, LUCID_PRODUCTS, LUCID_ADD, LUCID_ADD)                                          \\
        LUCID_REDUCTION(lucid_top_##real, real, (const real *x, ptrdiff_t n), -INFINITY,                              \\
                        LUCID_ELEMENT, LUCID_ELEMENTS, LUCID_SCALAR_MAX, LUCID_MAX)
    LUCID_REDUCTIONS(float)
    LUCID_REDUCTIONS(double)
    #endif
    """
    float sum_float "lucid_sum_float"(const float* x, Py_ssize_t n) noexcept nogil
    double sum_double "lucid_sum_double"(const double* x, Py_ssize_t n) noexcept nogil
    float dot_float "lucid_dot_float"(const float* x, const float* y, Py_ssize_t n) noexcept nogil
    double dot_double "lucid_dot_double"(const double* x, const double* y, Py_ssize_t n) noexcept nogil
    float top_float "lucid_top_float"(const float* x, Py_ssize_t n) noexcept nogil
    double top_double "lucid_top_double"(const double* x, Py_ssize_t n) noexcept nogil


cdef inline real sum(const real* x, Py_ssize_t n) noexcept nogil:
    if real is float:
        return sum_float(x, n)
    else:
        return sum_double(x, n)


cdef inline real dot(const real* x, const real* y, Py_ssize_t n) noexcept nogil:
    if real is float:
        return dot_float(x, y, n)
    else:
        return dot_double(x, y, n)


cdef inline real top(const real* x, Py_ssize_t n) noexcept nogil:
    """The largest element that is a number; -inf if there is none."""
    if real is float:
        return top_float(x, n)
    else:
        return top_double(x, n)
