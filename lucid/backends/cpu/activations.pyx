# cython: boundscheck=False, wraparound=False, cdivision=True
"""The functions of activations.py as loops; see there what they do."""

cimport numpy as np
from libc.math cimport erfc, pi, sqrt

from lucid.backends.cpu.scalar_math cimport exp, real, sigmoid
from lucid.backends.cpu.thread_pool cimport pool_size, share

from lucid.ops.nn.constants import A, B, LOG_ODDS

np.import_array()

cdef double a = A, b = B
cdef double p0, p1, p2, p3, p4, p5, p6
p6, p5, p4, p3, p2, p1, p0 = LOG_ODDS
cdef double DENSITY = 1 / sqrt(2 * pi), ROOT_HALF = sqrt(0.5)

# Python's numbers are doubles here, and arithmetic with one of them is done in double precision: hence `one`.

cdef enum:
    CHUNK = 1 << 13  # elements of a part

cdef enum Kind:
    RELU
    SILU
    GELU
    GELU_TANH


cdef inline real _normal_odds(real x) noexcept nogil:
    """exp(-x p(x²)) = (1 - Φ(x)) / Φ(x), in single precision."""
    cdef real square = x * x
    square = square if square < 36 else 36
    cdef real p = <real>p6
    p = p * square + <real>p5
    p = p * square + <real>p4
    p = p * square + <real>p3
    p = p * square + <real>p2
    p = p * square + <real>p1
    p = p * square + <real>p0
    return exp(-x * p)


cdef inline real _gated(Kind kind, real x) noexcept nogil:
    cdef real one = 1, zero = 0
    if kind == RELU:
        return zero if x < 0 else x
    if kind == SILU:
        return x / (one + exp(-x))
    if kind == GELU_TANH:
        return x / (one + exp(-x * (<real>a + <real>b * x * x)))
    if real is double:
        return x * 0.5 * erfc(-x * ROOT_HALF)
    else:
        return x / (one + _normal_odds(x))


cdef inline real _slope(Kind kind, real x) noexcept nogil:
    cdef real s, one = 1
    if kind == SILU:
        s = sigmoid(x)
        return s * (one + x * (one - s))
    if kind == GELU_TANH:
        s = sigmoid(x * (<real>a + <real>b * x * x))
        return s * (one + x * (one - s) * (<real>a + <real>(3 * b) * x * x))
    if real is double:
        s = 0.5 * erfc(-x * ROOT_HALF)
    else:
        s = one / (one + _normal_odds(x))
    return s + x * <real>DENSITY * exp(x * x * <real>-0.5)


cdef inline void _loop(Kind kind, const real* g, const real* x, real* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef real product, zero = 0
    if g == NULL:
        for i in range(n):
            out[i] = _gated(kind, x[i])
    elif kind == RELU:
        for i in range(n):
            out[i] = g[i] if x[i] > 0 else zero
    else:
        for i in range(n):
            product = g[i] * _slope(kind, x[i])
            out[i] = product if (product == product) | (g[i] != 0) else zero  # as `arithmetic.chain`


cdef void _each(Kind kind, const real* g, const real* x, real* out, Py_ssize_t n) noexcept nogil:
    """The activation of each x, or the product of its slope with g if that is given; a loop for each kind."""
    if kind == RELU:
        _loop(RELU, g, x, out, n)
    elif kind == SILU:
        _loop(SILU, g, x, out, n)
    elif kind == GELU:
        _loop(GELU, g, x, out, n)
    else:
        _loop(GELU_TANH, g, x, out, n)


cdef struct Gate:
    Kind kind
    char* g
    char* x
    char* out
    Py_ssize_t n, size


cdef void _some(void* task, Py_ssize_t part, int who) noexcept nogil:
    cdef Gate* a = <Gate*>task
    cdef Py_ssize_t start = part * CHUNK * a.size, n = min(CHUNK, a.n - part * CHUNK)
    cdef char* g = NULL if a.g == NULL else a.g + start
    if a.size == sizeof(float):
        _each(a.kind, <float*>g, <float*>(a.x + start), <float*>(a.out + start), n)
    else:
        _each(a.kind, <double*>g, <double*>(a.x + start), <double*>(a.out + start), n)


cdef inline int _run(Kind kind, np.ndarray given, np.ndarray x, np.ndarray out) except -1:
    cdef int type = np.PyArray_TYPE(x)
    cdef Gate gate
    if type != np.PyArray_TYPE(out) or (given is not None and type != np.PyArray_TYPE(given)):
        raise TypeError(f"arrays of one type are needed, not {x.dtype} and {out.dtype if given is None else given.dtype}")
    gate.kind, gate.n, gate.size = kind, np.PyArray_SIZE(out), np.PyArray_ITEMSIZE(x)
    gate.g = NULL if given is None else np.PyArray_BYTES(given)
    gate.x, gate.out = np.PyArray_BYTES(x), np.PyArray_BYTES(out)
    with nogil:
        share(_some, &gate, (gate.n + CHUNK - 1) // CHUNK, pool_size())
    return 0


def relu(np.ndarray x, np.ndarray out):
    _run(RELU, None, x, out)


def relu_back(np.ndarray g, np.ndarray x, np.ndarray out):
    _run(RELU, g, x, out)


def silu(np.ndarray x, np.ndarray out):
    _run(SILU, None, x, out)


def silu_back(np.ndarray g, np.ndarray x, np.ndarray out):
    _run(SILU, g, x, out)


def gelu(np.ndarray x, np.ndarray out):
    _run(GELU, None, x, out)


def gelu_back(np.ndarray g, np.ndarray x, np.ndarray out):
    _run(GELU, g, x, out)


def gelu_tanh(np.ndarray x, np.ndarray out):
    _run(GELU_TANH, None, x, out)


def gelu_tanh_back(np.ndarray g, np.ndarray x, np.ndarray out):
    _run(GELU_TANH, g, x, out)
