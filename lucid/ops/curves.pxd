# exp, tanh and the logistic function for loops over memory. In single precision they have no branches, so that compilers
# vectorize the loops; errors are at most two units in the last place, and nan and infinities come out as they should.
# In double precision they are those of the C library.

cdef extern from *:
    """
    #ifndef LUCID_CURVES
    #define LUCID_CURVES
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    static inline float lucid_power_of_2(int32_t n) {
        int32_t bits = (n + 127) << 23;
        float x;
        memcpy(&x, &bits, 4);
        return x;
    }

    /* 2^n exp(r) for x = n log 2 + r. Half of n at a time, so that subnormal results and infinities come out. */
    static inline float lucid_exp(float x) {
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

    static inline float lucid_sigmoid(float x) { return 1.0f / (1.0f + lucid_exp(-x)); }
    static inline double lucid_sigmoid_double(double x) { return 1.0 / (1.0 + exp(-x)); }

    /* An odd polynomial near 0, and 1 - 2/(exp(2|x|) + 1) elsewhere. */
    static inline float lucid_tanh(float x) {
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
    #endif
    """
    float exp_float "lucid_exp"(float x) noexcept nogil
    float tanh_float "lucid_tanh"(float x) noexcept nogil
    float sigmoid_float "lucid_sigmoid"(float x) noexcept nogil
    double exp_double "exp"(double x) noexcept nogil
    double tanh_double "tanh"(double x) noexcept nogil
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
