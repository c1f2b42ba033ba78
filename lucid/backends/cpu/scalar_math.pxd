# exp, tanh and the logistic function for loops over memory, without branches, so that compilers vectorize the loops.
# Errors are at most two units in the last place; nan and infinities come out as they should. Numbers in loops over
# `real` need its type: arithmetic with a bare 1 is done in double precision.

cdef extern from *:
    """
    #ifndef LUCID_CURVES
    #define LUCID_CURVES
    #include <stdint.h>
    #include <string.h>

    /* Loops over what is not inlined are not vectorized. */
    #ifdef __GNUC__
    #define LUCID_INLINE static inline __attribute__((always_inline))
    #else
    #define LUCID_INLINE static inline
    #endif

    LUCID_INLINE float lucid_power_of_2(int32_t n) {
        int32_t bits = (n + 127) << 23;
        float x;
        memcpy(&x, &bits, 4);
        return x;
    }

    /* 2^n exp(r) for x = n log 2 + r. Half of n at a time, so that subnormal results and infinities come out. */
    LUCID_INLINE float lucid_exp(float x) {
        x = x > 89.0f ? 89.0f : x;
        x = x < -104.0f ? -104.0f : x;
        float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
        float r = x - n * 0.693359375f + n * 2.12194440e-4f;
        float p = 1.9875691500e-4f;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1.0f;
        int32_t k = (int32_t)n, half = k >> 1;
        return p * lucid_power_of_2(half) * lucid_power_of_2(k - half);
    }

    LUCID_INLINE float lucid_sigmoid(float x) { return 1.0f / (1.0f + lucid_exp(-x)); }

    /* An odd polynomial near 0, and 1 - 2/(exp(2|x|) + 1) elsewhere. */
    LUCID_INLINE float lucid_tanh(float x) {
        float size = x < 0.0f ? -x : x, z = x * x;
        float far = 1.0f - 2.0f / (lucid_exp(2.0f * size) + 1.0f);
        far = x < 0.0f ? -far : far;
        float p = -5.70498872745e-3f;
        p = p * z + 2.06390887954e-2f;
        p = p * z - 5.37397155531e-2f;
        p = p * z + 1.33314422036e-1f;
        p = p * z - 3.33332819422e-1f;
        return size < 0.625f ? x + x * z * p : far;
    }

    /* The whole number that stands in the last bits of a double to which 1.5 · 2^52 was added, and 2 to its power. */
    #define LUCID_SHIFT 6755399441055744.0

    LUCID_INLINE int64_t lucid_bits(double shifted) {
        int64_t bits, zero;
        double shift = LUCID_SHIFT;
        memcpy(&bits, &shifted, 8);
        memcpy(&zero, &shift, 8);
        return bits - zero;
    }

    LUCID_INLINE double lucid_power_of_2_double(int64_t n) {
        int64_t bits = (int64_t)((uint64_t)(n + 1023) << 52);
        double x;
        memcpy(&x, &bits, 8);
        return x;
    }

    LUCID_INLINE double lucid_exp_double(double x) {
        x = x > 710.0 ? 710.0 : x;
        x = x < -746.0 ? -746.0 : x;
        double shifted = x * 1.4426950408889634 + LUCID_SHIFT;
        double n = shifted - LUCID_SHIFT;
        double r = x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6;
        double p = 1.0 / 6227020800.0;
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r * r + r + 1.0;
        int64_t k = lucid_bits(shifted), half = lucid_bits(n * 0.5 + LUCID_SHIFT);
        return p * lucid_power_of_2_double(half) * lucid_power_of_2_double(k - half);
    }

    LUCID_INLINE double lucid_sigmoid_double(double x) { return 1.0 / (1.0 + lucid_exp_double(-x)); }

    LUCID_INLINE double lucid_tanh_double(double x) {
        double size = x < 0.0 ? -x : x, z = x * x;
        double far = 1.0 - 2.0 / (lucid_exp_double(2.0 * size) + 1.0);
        far = x < 0.0 ? -far : far;
        double p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3;
        double q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3;
        return size < 0.625 ? x + x * z * (p / q) : far;
    }
    #endif
    """
    float exp_float "lucid_exp"(float x) noexcept nogil
    float tanh_float "lucid_tanh"(float x) noexcept nogil
    float sigmoid_float "lucid_sigmoid"(float x) noexcept nogil
    double exp_double "lucid_exp_double"(double x) noexcept nogil
    double tanh_double "lucid_tanh_double"(double x) noexcept nogil
    double sigmoid_double "lucid_sigmoid_double"(double x) noexcept nogil


ctypedef fused real:
    float
    double


cdef inline real exp(real x) noexcept nogil:
    return exp_float(x) if real is float else exp_double(x)


cdef inline real tanh(real x) noexcept nogil:
    return tanh_float(x) if real is float else tanh_double(x)


cdef inline real sigmoid(real x) noexcept nogil:
    return sigmoid_float(x) if real is float else sigmoid_double(x)
