# cython: boundscheck=False, wraparound=False, cdivision=True
"""See arithmetic.py. What is not small, contiguous and of one floating-point type goes to generated loops."""

import numpy
from lucid.backends.numpy.memory import takes as _takes
from lucid.core.kernels import table
from lucid.core.primitive import P
from lucid.native import framed

cimport numpy as np
from libc.math cimport sqrt, sqrtf

np.import_array()

ctypedef fused real:
    float
    double

cdef enum Operation:
    ADD, SUBTRACT, MULTIPLY, CHAIN, CHAIN_BOTH, DIVIDE, NEGATIVE, SQUARE

cdef Py_ssize_t MOST = 256  # elements; from here on the set-up of generated loops is a small part

cdef dict _known = {}


cdef object general(str name):
    """What computes a primitive on arrays of any size, shape and type."""
    found = _known.get(name)
    if found is None:
        from lucid.backends.cpu.generated.rules import general_kernel

        found = _known[name] = general_kernel(name)
    return found


cdef object _total = framed(lambda x: numpy.add.reduce(x, axis=None), 1)


cdef inline int real_type(object x) noexcept:
    """The type number of an array of single or double precision, or -1."""
    if not np.PyArray_CheckExact(x):
        return -1
    cdef int kind = np.PyArray_TYPE(<np.ndarray>x)
    return kind if kind == np.NPY_DOUBLE or kind == np.NPY_FLOAT else -1


cdef inline int plain(object x) noexcept:
    """The type number of a small array that lies in memory as C would have it, or -1."""
    cdef int kind = real_type(x)
    if kind < 0 or not np.PyArray_ISCARRAY_RO(<np.ndarray>x) or np.PyArray_SIZE(<np.ndarray>x) > MOST:
        return -1
    return kind


cdef inline Py_ssize_t rows_of(np.ndarray x, np.ndarray row) noexcept:
    """How many times an array repeats the shape of another, or 0 if the last dimensions are not those of the other."""
    cdef int i, n = np.PyArray_NDIM(row), extra = np.PyArray_NDIM(x) - np.PyArray_NDIM(row)
    cdef Py_ssize_t count = 1
    if extra <= 0:
        return 0
    for i in range(n):
        if np.PyArray_DIM(x, i + extra) != np.PyArray_DIM(row, i):
            return 0
    for i in range(extra):
        count *= np.PyArray_DIM(x, i)
    return count


cdef inline bint of_one_shape(np.ndarray x, np.ndarray y) noexcept:
    cdef int i, n = np.PyArray_NDIM(x)
    if n != np.PyArray_NDIM(y):
        return False
    for i in range(n):
        if np.PyArray_DIM(x, i) != np.PyArray_DIM(y, i):
            return False
    return True


cdef inline real apply(Operation operation, real a, real b) noexcept nogil:
    if operation == ADD:
        return a + b
    if operation == SUBTRACT:
        return a - b
    if operation == MULTIPLY:
        return a * b
    if operation == CHAIN:
        return a * b if (a * b == a * b) | (a != 0) else 0
    if operation == CHAIN_BOTH:
        return a * b if (a * b == a * b) | ((a != 0) & (b != 0)) else 0
    return a / b


cdef inline void binary_loop(
    Operation operation, const real* x, const real* y, real* out, Py_ssize_t n, bint one_x, bint one_y
) noexcept nogil:
    cdef Py_ssize_t i
    cdef real a
    if one_x:
        a = x[0]
        for i in range(n):
            out[i] = apply(operation, a, y[i])
    elif one_y:
        a = y[0]
        for i in range(n):
            out[i] = apply(operation, x[i], a)
    else:
        for i in range(n):
            out[i] = apply(operation, x[i], y[i])


cdef inline object by_rows(Operation operation, np.ndarray x, np.ndarray y, int kind):
    """The result where the shape of one operand is that of the last dimensions of the other; or None."""
    cdef Py_ssize_t i, n, rows = rows_of(x, y)
    cdef bint step_x = rows > 0
    if not step_x:
        rows = rows_of(y, x)
        if rows == 0:
            return None
    cdef np.ndarray like = x if step_x else y, row = y if step_x else x
    cdef np.ndarray out = np.PyArray_SimpleNew(np.PyArray_NDIM(like), np.PyArray_DIMS(like), kind)
    n = np.PyArray_SIZE(row)
    cdef Py_ssize_t size = n * (sizeof(float) if kind == np.NPY_FLOAT else sizeof(double))
    cdef char* p = <char*>np.PyArray_DATA(x)
    cdef char* q = <char*>np.PyArray_DATA(y)
    cdef char* r = <char*>np.PyArray_DATA(out)
    for i in range(rows):
        if kind == np.NPY_FLOAT:
            binary_loop(operation, <const float*>p, <const float*>q, <float*>r, n, False, False)
        else:
            binary_loop(operation, <const double*>p, <const double*>q, <double*>r, n, False, False)
        r += size
        if step_x:
            p += size
        else:
            q += size
    return out


cdef inline object binary(Operation operation, object x, object y):
    """The result, or None if this is for NumPy."""
    cdef int kind = plain(x)
    if kind < 0 or plain(y) != kind:
        return None
    cdef np.ndarray a = <np.ndarray>x, b = <np.ndarray>y, like = a, out
    cdef bint one_a = False, one_b = False
    if not of_one_shape(a, b):
        if np.PyArray_NDIM(b) == 0:
            one_b = True
        elif np.PyArray_NDIM(a) == 0:
            one_a, like = True, b
        else:
            return by_rows(operation, a, b, kind)
    out = np.PyArray_SimpleNew(np.PyArray_NDIM(like), np.PyArray_DIMS(like), kind)
    cdef void* p = np.PyArray_DATA(a)
    cdef void* q = np.PyArray_DATA(b)
    cdef void* r = np.PyArray_DATA(out)
    cdef Py_ssize_t n = np.PyArray_SIZE(out)
    if kind == np.NPY_FLOAT:
        binary_loop(operation, <const float*>p, <const float*>q, <float*>r, n, one_a, one_b)
    else:
        binary_loop(operation, <const double*>p, <const double*>q, <double*>r, n, one_a, one_b)
    return out


cdef inline void unary_loop(Operation operation, const real* x, real* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if operation == NEGATIVE:
        for i in range(n):
            out[i] = -x[i]
    else:
        for i in range(n):
            out[i] = x[i] * x[i]


cdef inline object unary(Operation operation, object x):
    """The result, or None if this is for NumPy."""
    cdef int kind = plain(x)
    if kind < 0:
        return None
    cdef np.ndarray a = <np.ndarray>x, out
    out = np.PyArray_SimpleNew(np.PyArray_NDIM(a), np.PyArray_DIMS(a), kind)
    if kind == np.NPY_FLOAT:
        unary_loop(operation, <const float*>np.PyArray_DATA(a), <float*>np.PyArray_DATA(out), np.PyArray_SIZE(a))
    else:
        unary_loop(operation, <const double*>np.PyArray_DATA(a), <double*>np.PyArray_DATA(out), np.PyArray_SIZE(a))
    return out


cpdef object add(object x, object y):
    out = binary(ADD, x, y)
    return general("add")(x, y) if out is None else out


cpdef object subtract(object x, object y):
    out = binary(SUBTRACT, x, y)
    return general("sub")(x, y) if out is None else out


cpdef object multiply(object x, object y):
    out = binary(MULTIPLY, x, y)
    return general("mul")(x, y) if out is None else out


cpdef object chain(object x, object y):
    out = binary(CHAIN, x, y)
    return general("chain")(x, y) if out is None else out


cpdef object chain_both(object x, object y):
    out = binary(CHAIN_BOTH, x, y)
    return general("chain_both")(x, y) if out is None else out


cpdef object divide(object x, object y):
    out = binary(DIVIDE, x, y)
    return general("div")(x, y) if out is None else out


cpdef object negative(object x):
    out = unary(NEGATIVE, x)
    return general("neg")(x) if out is None else out


cpdef object square(object x):
    out = unary(SQUARE, x)
    return general("square")(x) if out is None else out


cpdef bint takes(object x, object y):
    if not np.PyArray_CheckExact(x) or not np.PyArray_CheckExact(y):
        return False
    cdef np.ndarray a = <np.ndarray>x, b = <np.ndarray>y
    if np.PyArray_DESCR(a) is not np.PyArray_DESCR(b) or not np.PyArray_ISWRITEABLE(a):
        return False
    return np.PyArray_BASE(a) is NULL or _takes(x, y)


cpdef object add_into(object x, object y):
    cdef int kind = plain(x)
    if kind < 0 or plain(y) != kind or not of_one_shape(x, y) or not np.PyArray_ISWRITEABLE(<np.ndarray>x):
        if numpy.size(x) <= MOST or not table["call_into"](P.add, x, (x, y), {}):
            numpy.add(x, y, out=x)
        return
    cdef void* p = np.PyArray_DATA(<np.ndarray>x)
    cdef void* q = np.PyArray_DATA(<np.ndarray>y)
    cdef Py_ssize_t n = np.PyArray_SIZE(<np.ndarray>x)
    if kind == np.NPY_FLOAT:
        binary_loop(ADD, <const float*>p, <const float*>q, <float*>p, n, False, False)
    else:
        binary_loop(ADD, <const double*>p, <const double*>q, <double*>p, n, False, False)


cpdef bint added_into(object x, object y):
    if not takes(x, y):
        return False
    add_into(x, y)
    return True


cdef real pairwise(const real* x, Py_ssize_t n) noexcept nogil:
    """NumPy's order of adding: eight sums side by side, in halves of at most 128 elements."""
    cdef real found = 0
    cdef real parts[8]
    cdef Py_ssize_t i, k, half
    if n < 8:
        for i in range(n):
            found += x[i]
        return found
    if n > 128:
        half = n // 2
        half -= half % 8
        return pairwise(x, half) + pairwise(x + half, n - half)
    for k in range(8):
        parts[k] = x[k]
    for i in range(8, n - n % 8, 8):
        for k in range(8):
            parts[k] += x[i + k]
    found = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]))
    for i in range(n - n % 8, n):
        found += x[i]
    return found


cpdef object total(object x):
    cdef int kind = plain(x)
    if kind < 0:
        return _total(x)
    cdef np.ndarray a = <np.ndarray>x, out = np.PyArray_SimpleNew(0, NULL, kind)
    if kind == np.NPY_FLOAT:
        (<float*>np.PyArray_DATA(out))[0] = pairwise(<const float*>np.PyArray_DATA(a), np.PyArray_SIZE(a))
    else:
        (<double*>np.PyArray_DATA(out))[0] = pairwise(<const double*>np.PyArray_DATA(a), np.PyArray_SIZE(a))
    return out


cdef inline bint all_within(const real* x, Py_ssize_t n, double low, double high) noexcept nogil:
    cdef Py_ssize_t i
    cdef bint found = True
    for i in range(n):
        found &= (x[i] >= low) & (x[i] <= high)
    return found


cpdef bint within(object x, double low, double high):
    cdef int kind = real_type(x)
    if kind < 0 or not np.PyArray_ISCARRAY_RO(<np.ndarray>x):
        return bool(((x >= low) & (x <= high)).all())
    cdef void* data = np.PyArray_DATA(<np.ndarray>x)
    cdef Py_ssize_t n = np.PyArray_SIZE(<np.ndarray>x)
    if kind == np.NPY_FLOAT:
        return all_within(<const float*>data, n, low, high)
    return all_within(<const double*>data, n, low, high)


cdef inline void all_roots(const real* x, real* out, Py_ssize_t n, real divisor) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if real is float:
            out[i] = sqrtf(x[i] / divisor)
        else:
            out[i] = sqrt(x[i] / divisor)


cpdef object roots(object x, double low, double high, double divisor=1.0):
    if not within(x, low, high):
        return None
    cdef int kind = real_type(x)
    if kind < 0 or divisor == 0 or not np.PyArray_ISCARRAY_RO(<np.ndarray>x):
        return numpy.asarray(numpy.sqrt(x / x.dtype.type(divisor)))
    cdef np.ndarray a = <np.ndarray>x, out = np.PyArray_SimpleNew(np.PyArray_NDIM(a), np.PyArray_DIMS(a), kind)
    if kind == np.NPY_FLOAT:
        all_roots(<const float*>np.PyArray_DATA(a), <float*>np.PyArray_DATA(out), np.PyArray_SIZE(a), <float>divisor)
    else:
        all_roots(<const double*>np.PyArray_DATA(a), <double*>np.PyArray_DATA(out), np.PyArray_SIZE(a), divisor)
    return out
