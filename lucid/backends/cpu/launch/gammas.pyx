# cython: boundscheck=False, wraparound=False, cdivision=True
"""See gammas.py.

With y = log x, log P(a, x) is a y - x - log Γ(a + 1) + log S with S = Σ x^k / ((a + 1) … (a + k)), whose terms are all
positive. It is concave in y, with the slope v' = a / S and v'' = v' (a - x - v'): so the quantile is found by Halley's
steps in y, which triple the digits, from Wilson's and Hilferty's normal approximation or the first terms for small x.
By a, P has the derivative P (y - ψ(a + 1)) less the sum of the terms times 1 / (a + 1) + … + 1 / (a + k).

Vectors of WIDTH elements take as many steps as one of them needs; those that are done do not change.
"""

cimport numpy as np
from lucid.backends.cpu.launch.elementwise cimport new_array, threads_for
from lucid.backends.cpu.thread_pool cimport share

np.import_array()

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>
    /* Nobody asks for floating-point exceptions, and only without them may both sides of a choice be computed. */
    #if defined(__GNUC__) && !defined(__clang__)
    #pragma GCC optimize ("no-trapping-math")
    #endif
    #define WIDTH 16
    #define EACH for (int k = 0; k < WIDTH; k++)

    #ifdef __GNUC__
    #define LUCID_VECTORS static inline __attribute__((always_inline))
    #else
    #define LUCID_VECTORS static inline
    #endif

    /* log and exp of positive numbers and of those between -700 and 700, to about two units in the last place.
       With the exponential of scalar_math.pxd, which has a wider range, draws take 1.7 times as long. */
    LUCID_VECTORS double lucid_log_of(double x) {
        int64_t bits, base = 0x3fe6a09e667f3bcdLL, exponent;
        memcpy(&bits, &x, 8);
        exponent = (bits - base) >> 52;
        bits -= (int64_t)((uint64_t)exponent << 52);
        memcpy(&x, &bits, 8);
        double s = (x - 1.0) / (x + 1.0), z = s * s, n = (double)exponent;
        double p = 2.0 / 21;
        p = p * z + 2.0 / 19;
        p = p * z + 2.0 / 17;
        p = p * z + 2.0 / 15;
        p = p * z + 2.0 / 13;
        p = p * z + 2.0 / 11;
        p = p * z + 2.0 / 9;
        p = p * z + 2.0 / 7;
        p = p * z + 2.0 / 5;
        p = p * z + 2.0 / 3;
        return n * 6.93147180369123816490e-01 + (s * z * p + 2.0 * s + n * 1.90821492927058770002e-10);
    }

    LUCID_VECTORS double lucid_exp_of(double x) {
        double shift = 6755399441055744.0, shifted = x * 1.4426950408889634 + shift, n = shifted - shift;
        double r = x - n * 6.93147180369123816490e-01;
        r = r - n * 1.90821492927058770002e-10;
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
        int64_t bits, zero;
        memcpy(&bits, &shifted, 8);
        memcpy(&zero, &shift, 8);
        bits = (int64_t)((uint64_t)(bits - zero + 1023) << 52);
        memcpy(&r, &bits, 8);
        return p * r;
    }

    #define MOST_TERMS 1000
    #define EPSILON 1.1e-16

    /* S, four terms at a time. What is small enough is the last that is added, however many steps others take. */
    static void lucid_sum(const double *a, const double *x, double *sum) {
        double term[WIDTH], d[WIDTH];
        EACH { term[k] = 1.0; sum[k] = 1.0; d[k] = a[k]; }
        for (int n = 0; n < MOST_TERMS; n += 4) {
            int64_t left = 0;
            EACH {
                double d1 = d[k] + 1.0, d2 = d[k] + 2.0, d3 = d[k] + 3.0, d4 = d[k] + 4.0, v = x[k];
                double d34 = d3 * d4, d234 = d2 * d34, part = term[k] / (d1 * d234);
                double more = (v * (d234 + v * (d34 + v * (d4 + v)))) * part;
                term[k] = (v * v) * (v * v) * part;
                sum[k] += more;
                d[k] = d4;
                term[k] = more > EPSILON * sum[k] ? term[k] : 0.0;
                left += term[k] > 0.0 ? 1 : 0;
            }
            if (!left) return;
        }
        EACH sum[k] = term[k] > 0.0 ? NAN : sum[k];
    }

    #define LEAST_A 0.01
    #define MOST_A 200.0
    #define LEAST_P 1e-200
    #define MOST_P 0.984375 /* beyond, what is left of 1 has too few digits */
    #define LEAST_Y -600.0
    #define STEPS 8

    static void lucid_quantiles(const double *a, const double *g, const double *p, const double *log_p, double *out) {
        double y[WIDTH], x[WIDTH], sum[WIDTH], sound[WIDTH], moving[WIDTH];
        EACH {
            double rest = 1.0 - p[k], low = p[k] < 0.5 ? p[k] : rest;
            double t = sqrt(-2.0 * lucid_log_of(low > 1e-300 ? low : 1e-300));
            double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
            z = p[k] < 0.5 ? -z : z;
            double c = 1.0 - 1.0 / (9.0 * a[k]) + z / (3.0 * sqrt(a[k]));
            double first = (log_p[k] + g[k]) / a[k];
            double r = lucid_exp_of(first > -600.0 ? (first < 10.0 ? first : 10.0) : -600.0);
            double small = first + lucid_log_of(1.0 + r / (a[k] + 1.0));
            double near = lucid_log_of(a[k]) + 3.0 * lucid_log_of(c > 0.1 ? c : 0.1);
            y[k] = (r < 0.2 * (a[k] + 1.0)) | (c < 0.35) | (a[k] < 0.5) ? small : near;
            sound[k] = (a[k] >= LEAST_A) & (a[k] <= MOST_A) & (p[k] >= LEAST_P) & (p[k] <= MOST_P) & (y[k] > LEAST_Y) ? 1.0 : 0.0;
            y[k] = sound[k] > 0.0 ? y[k] : 0.0;
            moving[k] = sound[k];
        }
        double b[WIDTH];
        EACH b[k] = sound[k] > 0.0 ? a[k] : 1.0;
        for (int n = 0; n < STEPS; n++) {
            EACH x[k] = lucid_exp_of(y[k]);
            lucid_sum(b, x, sum);
            int64_t left = 0;
            double steps[WIDTH];
            EACH {
                double rest = log_p[k] - (b[k] * y[k] - x[k] - g[k]) - lucid_log_of(fabs(sum[k]));
                double step = rest * sum[k] / b[k];
                double bend = 1.0 + 0.5 * step * (b[k] - x[k] - b[k] / sum[k]);
                step = step / (bend > 0.4 ? bend : 0.4);
                steps[k] = step;
            }
            EACH {
                double step = steps[k], held = sound[k], last = y[k];
                step = step < 2.0 ? step : 2.0;
                step = step > -2.0 ? step : -2.0;
                double next = last + moving[k] * step;
                double valid = (steps[k] == steps[k]) & (next > LEAST_Y) & (next < 8.0) ? 1.0 : 0.0;
                double far = fabs(step) > 1e-5 ? 1.0 : 0.0;
                sound[k] = held * valid;
                moving[k] = moving[k] * valid * far;
                y[k] = next * valid;
            }
            EACH left += moving[k] > 0.0 ? 1 : 0;
            if (!left) break;
        }
        EACH out[k] = (sound[k] > 0.0) & (moving[k] == 0.0) & (sum[k] == sum[k]) ? lucid_exp_of(y[k]) : NAN;
    }

    #define LEFT 1e-3 /* of a sum and a difference: less of them is not enough */

    static void lucid_slopes(const double *a, const double *psi, const double *x, const double *y, double *out) {
        double term[WIDTH], sum[WIDTH], harmonic[WIDTH], weighted[WIDTH], d[WIDTH], v[WIDTH], sound[WIDTH];
        EACH {
            sound[k] = (a[k] >= LEAST_A) & (a[k] <= MOST_A) & (y[k] > LEAST_Y) & (x[k] < 2.0 * a[k] + 60.0) ? 1.0 : 0.0;
            d[k] = sound[k] > 0.0 ? a[k] : 1.0;
            v[k] = sound[k] > 0.0 ? x[k] : 1.0;
            term[k] = 1.0; sum[k] = 1.0; harmonic[k] = 0.0; weighted[k] = 0.0;
        }
        int64_t left = 1;
        for (int n = 0; n < MOST_TERMS && left; n += 4) {
            for (int m = 0; m < 4; m++) EACH {
                d[k] += 1.0;
                double part = 1.0 / d[k];
                term[k] *= v[k] * part;
                harmonic[k] += part;
                sum[k] += term[k];
                weighted[k] += term[k] * harmonic[k];
            }
            left = 0;
            EACH {
                double more = (term[k] > EPSILON * sum[k]) | (term[k] * harmonic[k] > EPSILON * weighted[k]) ? 1.0 : 0.0;
                term[k] *= more;
                left += term[k] > 0.0 ? 1 : 0;
            }
        }
        EACH {
            double other = sum[k] * (psi[k] - y[k]), found = other + weighted[k];
            double size = fabs(other) + weighted[k];
            out[k] = (sound[k] > 0.0) & (term[k] == 0.0) & (fabs(found) > LEFT * size) ? found * x[k] / a[k] : NAN;
        }
    }
    """
    void lucid_quantiles(const double* a, const double* b, const double* c, const double* d, double* out) noexcept nogil
    void lucid_slopes(const double* a, const double* b, const double* c, const double* d, double* out) noexcept nogil

cdef enum:
    LANES = 16  # WIDTH
    PART = 1 << 9

ctypedef void (*Loop)(const double* a, const double* b, const double* c, const double* d, double* out) noexcept nogil

cdef struct Task:
    Loop loop
    const double* a
    const double* b
    const double* c
    const double* d
    double* out
    Py_ssize_t size, step  # of a and b: 0 for one element


cdef void _part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef double a[LANES]
    cdef double b[LANES]
    cdef double c[LANES]
    cdef double d[LANES]
    cdef double out[LANES]
    cdef Py_ssize_t start = part * PART, i, j, end = min(part * PART + PART, task.size)
    while start < end:
        for i in range(LANES):
            j = min(start + i, end - 1)
            a[i], b[i], c[i], d[i] = task.a[j * task.step], task.b[j * task.step], task.c[j], task.d[j]
        task.loop(a, b, c, d, out)
        for i in range(min(LANES, end - start)):
            task.out[start + i] = out[i]
        start += LANES


cdef np.ndarray _run(Loop loop, np.ndarray a, np.ndarray b, np.ndarray c, np.ndarray d):
    cdef np.ndarray out = new_array(np.dtype("float64"), np.PyArray_NDIM(c), np.PyArray_DIMS(c), NULL)
    cdef Task task
    task.loop, task.size, task.step = loop, np.PyArray_SIZE(c), np.PyArray_SIZE(a) > 1
    task.a, task.b = <double*>np.PyArray_DATA(a), <double*>np.PyArray_DATA(b)
    task.c, task.d = <double*>np.PyArray_DATA(c), <double*>np.PyArray_DATA(d)
    task.out = <double*>np.PyArray_DATA(out)
    cdef int threads = threads_for(50.0 * task.size)
    with nogil:
        share(_part, &task, (task.size + PART - 1) // PART, threads)
    return out


def quantiles(a, log_factorial, p, log_p):
    return _run(lucid_quantiles, a, log_factorial, p, log_p)


def slopes(a, digamma, x, log_x):
    return _run(lucid_slopes, a, digamma, x, log_x)
