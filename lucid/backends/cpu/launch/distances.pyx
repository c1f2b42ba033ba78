# cython: boundscheck=False, wraparound=False, cdivision=True
"""See distances.py.

Vectors hold the distances of one row of x to some rows of y, whose elements are put side by side first: each distance is a
sum in the order of elements. A few rows of x are taken at once, and threads share all of them.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cimport numpy as np
from lucid.backends.cpu.launch.elementwise cimport LEAST_WORK
from lucid.backends.cpu.scalar_math cimport real
from lucid.backends.cpu.simd cimport sum as simd_sum  # its macros come first
from lucid.backends.cpu.thread_pool cimport pool_size, share

np.import_array()

cdef enum:
    ROWS = 4  # of x, as in the code below
    SIDE = 32  # rows of y, side by side

cdef extern from *:
    """
    #include <math.h>
    #include <stddef.h>
    #include <string.h>

    #define LUCID_ROWS 4
    #define LUCID_SIDE 32
    /* Sums of squares of the differences of some rows from SIDE others. */
    #if defined(__GNUC__)
    #define LUCID_APART(r, k) const V one##r = (V){0} + x[r][k], d##r = one##r - a, e##r = one##r - b; s##r += d##r * d##r; t##r += e##r * e##r;
    #define LUCID_KEEP(r) memcpy(sums[r] + j, &s##r, sizeof(V)), memcpy(sums[r] + j + lanes, &t##r, sizeof(V));
    #define LUCID_SQUARES(T, NAME)                                                                                      \\
    static void lucid_squares_##NAME(const T *const *x, const T *y, ptrdiff_t n, T sums[][LUCID_SIDE]) { \\
        LUCID_VECTOR(T, V, 64);                                                                                         \\
        const ptrdiff_t lanes = LUCID_MANY(sizeof(V), T);                                                               \\
        for (ptrdiff_t j = 0; j < LUCID_SIDE; j += 2 * lanes) {                                                         \\
            V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0}, a, b;                     \\
            for (ptrdiff_t k = 0; k < n; k++) {                                                                         \\
                memcpy(&a, y + k * LUCID_SIDE + j, sizeof(V));                                                        \\
                memcpy(&b, y + k * LUCID_SIDE + j + lanes, sizeof(V));                                                  \\
                LUCID_APART(0, k) LUCID_APART(1, k) LUCID_APART(2, k) LUCID_APART(3, k)                                 \\
            }                                                                                                           \\
            LUCID_KEEP(0) LUCID_KEEP(1) LUCID_KEEP(2) LUCID_KEEP(3)                                                     \\
        }                                                                                                               \\
    }
    #else
    #define LUCID_SQUARES(T, NAME)                                                                                      \\
    static void lucid_squares_##NAME(const T *const *x, const T *y, ptrdiff_t n, T sums[][LUCID_SIDE]) { \\
        memset(sums, 0, LUCID_ROWS * LUCID_SIDE * sizeof(T));                                                           \\
        for (ptrdiff_t k = 0; k < n; k++, y += LUCID_SIDE)                                                                    \\
            for (int r = 0; r < LUCID_ROWS; r++)                                                                        \\
                for (int j = 0; j < LUCID_SIDE; j++) sums[r][j] += (x[r][k] - y[j]) * (x[r][k] - y[j]);                 \\
    }
    #endif
    LUCID_SQUARES(float, float)
    LUCID_SQUARES(double, double)

    #define LUCID_DISTANCES(T, NAME, ROOT)                                                                                  \\
    /* Roots, and whether one of the sums is out of range. */                                                           \\
    static int lucid_roots_##NAME(const T *sums, T *out, T low, T high) {                                               \\
        int wrong = 0;                                                                                                  \\
        for (int j = 0; j < LUCID_SIDE; j++) wrong |= !(sums[j] >= low) | !(sums[j] <= high);                           \\
        for (int j = 0; j < LUCID_SIDE; j++) out[j] = ROOT(sums[j]);                                                    \\
        return wrong;                                                                                                   \\
    }                                                                                                                   \\
    /* Weights times the differences of the numbers of a row from those of SIDE others, added up. */                    \\
    static void lucid_moments_##NAME(const T *x, const T *w, const T *y, ptrdiff_t n, T *sums) {                        \\
        for (ptrdiff_t k = 0; k < n; k++, y += LUCID_SIDE, sums += LUCID_SIDE) {                                        \\
            const T one = x[k];                                                                                         \\
            for (int j = 0; j < LUCID_SIDE; j++) sums[j] += w[j] * (one - y[j]);                                        \\
        }                                                                                                               \\
    }
    LUCID_DISTANCES(float, float, sqrtf)
    LUCID_DISTANCES(double, double, sqrt)
    """
    void squares_float "lucid_squares_float"(const float** x, const float* y, Py_ssize_t n, float (*sums)[32]) noexcept nogil
    void squares_double "lucid_squares_double"(const double** x, const double* y, Py_ssize_t n, double (*sums)[32]) noexcept nogil
    bint roots_float "lucid_roots_float"(const float* sums, float* out, float low, float high) noexcept nogil
    bint roots_double "lucid_roots_double"(const double* sums, double* out, double low, double high) noexcept nogil
    void moments_float "lucid_moments_float"(const float* x, const float* w, const float* y, Py_ssize_t n, float* sums) noexcept nogil
    void moments_double "lucid_moments_double"(const double* x, const double* w, const double* y, Py_ssize_t n, double* sums) noexcept nogil


cdef struct Task:
    Py_ssize_t rows, columns, n, padded, parts, blocks  # of a few rows of x
    void* x
    void* y
    void* out
    void* turned  # y in blocks of SIDE rows, with the same element of all of these side by side; zeros behind the last row
    void* ct
    void* into  # the cotangent of x
    double low, high
    bint is_single, is_wrong


cdef inline bint _are_equal(const real* x, const real* y, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        if x[k] != y[k]:
            return False
    return True


cdef void _turn(Task* task, const real* y, real* turned) noexcept nogil:
    cdef Py_ssize_t j, k, n = task.n
    memset(turned, 0, n * task.padded * sizeof(real))
    for j in range(task.columns):
        for k in range(n):
            turned[(j // SIDE * n + k) * SIDE + j % SIDE] = y[j * n + k]


cdef void _measure(Task* task, const real* x, const real* y, const real* turned, real* out, Py_ssize_t first) noexcept nogil:
    """The distances of a few rows of a matrix to all of another one."""
    cdef real sums[ROWS][SIDE]
    cdef const real* rows[ROWS]
    cdef Py_ssize_t columns = task.columns, n = task.n, block = 0, i, j, r
    cdef Py_ssize_t some
    cdef real total
    cdef real roots[SIDE]
    cdef bint is_wrong
    for r in range(ROWS):
        rows[r] = x + min(first + r, task.rows - 1) * n
    while block < columns:
        if real is float:
            squares_float(<const float**>rows, <const float*>turned + block * n, n, sums)
        else:
            squares_double(<const double**>rows, <const double*>turned + block * n, n, sums)
        some = min(<Py_ssize_t>SIDE, columns - block)
        for r in range(min(<Py_ssize_t>ROWS, task.rows - first)):
            if real is float:
                is_wrong = roots_float(<const float*>sums[r], <float*>roots, <float>task.low, <float>task.high)
            else:
                is_wrong = roots_double(<const double*>sums[r], <double*>roots, task.low, task.high)
            if is_wrong:
                for j in range(some):
                    total = sums[r][j]
                    if not (total >= <real>task.low and total <= <real>task.high):
                        if not (total == 0 and _are_equal(rows[r], y + (block + j) * n, n)):
                            task.is_wrong = True
                            return
            memcpy(out + (first + r) * columns + block, roots, some * sizeof(real))
        block += SIDE


cdef void _pull(
    Task* task, const real* ct, const real* out, const real* x, const real* turned, real* into, real* sums
) noexcept nogil:
    """What distances of one row ask of it: Σ (ct / distance) · (x - y)."""
    cdef real weights[SIDE]
    cdef Py_ssize_t n = task.n, block = 0, j, k
    memset(sums, 0, n * SIDE * sizeof(real))
    while block < task.columns:
        for j in range(SIDE):
            weights[j] = 0
            if block + j < task.columns and out[block + j] != 0 and ct[block + j] != 0:
                weights[j] = ct[block + j] / out[block + j]
        if real is float:
            moments_float(<const float*>x, <float*>weights, <const float*>turned + block * n, n, <float*>sums)
        else:
            moments_double(<const double*>x, <double*>weights, <const double*>turned + block * n, n, <double*>sums)
        block += SIDE
    for k in range(n):
        for j in range(SIDE):
            into[k] += sums[k * SIDE + j]


cdef void _measure_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t unit
    for unit in range(task.blocks * part // task.parts, task.blocks * (part + 1) // task.parts):
        if task.is_wrong:
            return
        if task.is_single:
            _measure[float](task, <float*>task.x, <float*>task.y, <float*>task.turned, <float*>task.out, unit * ROWS)
        else:
            _measure[double](task, <double*>task.x, <double*>task.y, <double*>task.turned, <double*>task.out, unit * ROWS)


cdef void _pull_part(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Task* task = <Task*>given
    cdef Py_ssize_t i, c = task.columns, n = task.n
    cdef void* sums = malloc(max(n * SIDE * 8, 1))
    if sums == NULL:
        task.is_wrong = True
        return
    for i in range(task.rows * part // task.parts, task.rows * (part + 1) // task.parts):
        if task.is_single:
            _pull[float](
                task, <float*>task.ct + i * c, <float*>task.out + i * c, <float*>task.x + i * n, <float*>task.turned,
                <float*>task.into + i * n, <float*>sums,
            )
        else:
            _pull[double](
                task, <double*>task.ct + i * c, <double*>task.out + i * c, <double*>task.x + i * n, <double*>task.turned,
                <double*>task.into + i * n, <double*>sums,
            )
    free(sums)


cdef bint _run(Task* task, bint pulls) except -1:
    """Measure all distances, or go back; False where numbers are out of range."""
    cdef int threads = 1
    if 0.2 * task.rows * task.columns * (task.n + 2) >= LEAST_WORK:
        threads = pool_size()
    task.padded = (task.columns + SIDE - 1) // SIDE * SIDE
    task.turned = malloc(max(task.padded * task.n * 8, 1))
    if task.turned == NULL:
        raise MemoryError
    task.blocks = (task.rows + ROWS - 1) // ROWS
    task.is_wrong = False
    with nogil:
        if task.is_single:
            _turn[float](task, <float*>task.y, <float*>task.turned)
        else:
            _turn[double](task, <double*>task.y, <double*>task.turned)
        task.parts = min(task.rows if pulls else task.blocks, 8 * threads) if threads > 1 else 1
        if task.parts > 1:
            share(_pull_part if pulls else _measure_part, task, task.parts, threads)
        elif pulls:
            _pull_part(task, 0, 0)
        else:
            _measure_part(task, 0, 0)
    free(task.turned)
    if task.is_wrong and pulls:
        raise MemoryError
    return not task.is_wrong


cdef Task _task(np.ndarray x, np.ndarray y) noexcept:
    cdef Task task
    task.rows, task.columns, task.n = x.shape[0], y.shape[0], x.shape[1]
    task.x, task.y = np.PyArray_DATA(x), np.PyArray_DATA(y)
    task.is_single = np.PyArray_TYPE(x) == np.NPY_FLOAT
    return task


def distances(np.ndarray x, np.ndarray y, np.ndarray out, double low, double high):
    cdef Task task = _task(x, y)
    task.out, task.low, task.high = np.PyArray_DATA(out), low, high
    return _run(&task, False)


def pull(np.ndarray ct, np.ndarray x, np.ndarray y, np.ndarray out, np.ndarray into):
    cdef Task task = _task(x, y)
    task.ct, task.out, task.into = np.PyArray_DATA(ct), np.PyArray_DATA(out), np.PyArray_DATA(into)
    _run(&task, True)
