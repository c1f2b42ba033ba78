# cython: boundscheck=False, wraparound=False, cdivision=True
"""See products.py."""

cimport numpy as np
from lucid.backends.cpu.gemm cimport product_threads
from lucid.backends.cpu.launch.elementwise cimport bounds_of, is_plain, new_array, type_of
from lucid.backends.cpu.scalar_math cimport real

from lucid.backends.cpu.blas import function

np.import_array()

cdef enum:
    MOST = 1 << 20  # multiplications, from which on BLAS uses several threads: see `contraction.dot`
    MOST_DIMS = 64
    ROW_MAJOR = 101
    COLUMN_MAJOR = 102
    PLAIN = 111
    TRANSPOSED = 112

cdef bint _is_known = False
cdef void* _sgemm
cdef void* _dgemm
cdef void* _sgemv
cdef void* _dgemv
cdef void* _sdot
cdef void* _ddot


cdef void* _address(str name) except? NULL:
    return <void*><size_t>function(name)


cdef bint _find() except -1:
    """Look up the functions of BLAS when the first is needed; False if there are none."""
    global _is_known, _sgemm, _dgemm, _sgemv, _dgemv, _sdot, _ddot
    if not _is_known:
        _dgemm, _sgemv, _dgemv = _address("dgemm"), _address("sgemv"), _address("dgemv")
        _sdot, _ddot, _sgemm = _address("sdot"), _address("ddot"), _address("sgemm")
        _is_known = True
    return _sgemm != NULL and _dgemm != NULL and _sgemv != NULL and _dgemv != NULL and _sdot != NULL and _ddot != NULL


cdef int _layout(np.ndarray x) noexcept:
    """How the matrices of a stack lie in memory; 0 if elements of a matrix do not lie side by side."""
    cdef int d = np.PyArray_NDIM(x)
    cdef Py_ssize_t size = np.PyArray_ITEMSIZE(x), down = np.PyArray_STRIDE(x, d - 2), right = np.PyArray_STRIDE(x, d - 1)
    if right == size and down == size * np.PyArray_DIM(x, d - 1):
        return PLAIN
    return TRANSPOSED if down == size and right == size * np.PyArray_DIM(x, d - 2) else 0


cdef bint _is_apart(np.ndarray out, np.ndarray x) noexcept:
    cdef char* low
    cdef char* high
    cdef char* start
    cdef char* end
    bounds_of(out, &low, &high)
    bounds_of(x, &start, &end)
    return start >= high or end <= low


cdef bint _may_take(np.ndarray out, np.ndarray x, np.ndarray y, int dims, np.npy_intp* shape) noexcept:
    """Whether a product of a shape may be written into an array."""
    cdef int d
    if not np.PyArray_ISCARRAY(out) or np.PyArray_TYPE(out) != np.PyArray_TYPE(x) or np.PyArray_NDIM(out) != dims:
        return False
    for d in range(dims):
        if np.PyArray_DIM(out, d) != shape[d]:
            return False
    return _is_apart(out, x) and _is_apart(out, y)


def product(np.ndarray x, np.ndarray y, np.ndarray out=None):
    cdef int kind = np.PyArray_TYPE(x), dims = np.PyArray_NDIM(x), others = np.PyArray_NDIM(y), d, rank
    cdef int flip_x = PLAIN, flip_y = PLAIN
    cdef bint is_single = kind == np.NPY_FLOAT
    cdef np.npy_intp[MOST_DIMS] shape
    cdef np.npy_intp[MOST_DIMS] index
    cdef Py_ssize_t count = 1, rows = 1, columns = 1, depth, size = np.PyArray_ITEMSIZE(x), which
    cdef char* a
    cdef char* b
    cdef char* to
    if not (is_single or kind == np.NPY_DOUBLE) or kind != np.PyArray_TYPE(y) or dims == 0 or others == 0:
        return None
    if not (np.PyArray_ISBEHAVED_RO(x) and np.PyArray_ISBEHAVED_RO(y)) or (dims != others and dims + others > 3):
        return None
    # With a size of 1 NumPy calls other functions, which add in another order.
    depth = np.PyArray_DIM(x, dims - 1)
    if depth < 2 or depth != np.PyArray_DIM(y, others - 2 if others > 1 else 0):
        return None
    rank = 0
    for d in range(dims - 2):
        if np.PyArray_DIM(x, d) != np.PyArray_DIM(y, d):
            return None
        shape[d] = np.PyArray_DIM(x, d)
        index[d] = 0
        count *= shape[d]
        rank += 1
    if dims > 1:
        shape[rank] = rows = np.PyArray_DIM(x, dims - 2)
        flip_x = _layout(x)
        rank += 1
        if rows < 2:
            return None
    elif np.PyArray_STRIDE(x, 0) != size:
        return None
    if others > 1:
        shape[rank] = columns = np.PyArray_DIM(y, others - 1)
        flip_y = _layout(y)
        rank += 1
        if columns < 2:
            return None
    elif np.PyArray_STRIDE(y, 0) != size:
        return None
    if not (flip_x and flip_y) or rows * columns * depth >= MOST or count == 0 or not _find():
        return None
    if dims > 1 and others > 1:
        if product_threads(count, rows, depth, columns):
            return None  # by the loops of `gemm`
        if np.PyArray_DATA(x) == np.PyArray_DATA(y) and flip_x != flip_y:
            return None  # NumPy makes only half of the product of a matrix and its transpose
    if out is None:
        out = np.PyArray_EMPTY(rank, shape, kind, 0)
    elif not _may_take(out, x, y, rank, shape):
        return None
    a, b, to = np.PyArray_BYTES(x), np.PyArray_BYTES(y), np.PyArray_BYTES(out)
    with nogil:
        if others == 1 and dims == 1:
            # NumPy adds this to 0, so that it is never -0.
            if is_single:
                (<float*>to)[0] = <float>(0.0 + (<Dot>_sdot)(depth, a, 1, b, 1))
            else:
                (<double*>to)[0] = 0.0 + (<DoubleDot>_ddot)(depth, a, 1, b, 1)
        elif others == 1:
            _matrix_and_vector(is_single, flip_x, PLAIN, rows, depth, a, b, to)
        elif dims == 1:
            _matrix_and_vector(is_single, flip_y, TRANSPOSED, depth, columns, b, a, to)
        else:
            for which in range(count):
                if is_single:
                    (<Gemm>_sgemm)(
                        ROW_MAJOR, flip_x, flip_y, rows, columns, depth, 1.0, a, depth if flip_x == PLAIN else rows, b,
                        columns if flip_y == PLAIN else depth, 0.0, to, columns,
                    )
                else:
                    (<DoubleGemm>_dgemm)(
                        ROW_MAJOR, flip_x, flip_y, rows, columns, depth, 1.0, a, depth if flip_x == PLAIN else rows, b,
                        columns if flip_y == PLAIN else depth, 0.0, to, columns,
                    )
                to += rows * columns * size
                for d in range(dims - 3, -1, -1):
                    index[d] += 1
                    if index[d] < shape[d]:
                        a += np.PyArray_STRIDE(x, d)
                        b += np.PyArray_STRIDE(y, d)
                        break
                    a -= (index[d] - 1) * np.PyArray_STRIDE(x, d)
                    b -= (index[d] - 1) * np.PyArray_STRIDE(y, d)
                    index[d] = 0
    return out


cdef inline void _matrix_and_vector(
    bint is_single, int layout, int flip, Py_ssize_t rows, Py_ssize_t columns, char* matrix, char* vector, char* to
) noexcept nogil:
    cdef int order = ROW_MAJOR if layout == PLAIN else COLUMN_MAJOR
    cdef Py_ssize_t step = columns if layout == PLAIN else rows
    if is_single:
        (<Gemv>_sgemv)(order, flip, rows, columns, 1.0, matrix, step, vector, 1, 0.0, to, 1)
    else:
        (<DoubleGemv>_dgemv)(order, flip, rows, columns, 1.0, matrix, step, vector, 1, 0.0, to, 1)


cdef inline void _across(real* x, real* y, real* out, Py_ssize_t outer, Py_ssize_t step) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(outer):
        for j in range(step):
            out[j] = x[step + j] * y[2 * step + j] - x[2 * step + j] * y[step + j]
            out[step + j] = x[2 * step + j] * y[j] - x[j] * y[2 * step + j]
            out[2 * step + j] = x[j] * y[step + j] - x[step + j] * y[j]
        x += 3 * step
        y += 3 * step
        out += 3 * step


def cross(x, y, int dim):
    cdef np.ndarray a, b, out
    cdef Py_ssize_t outer = 1, step = 1
    cdef int kind, d
    if not (is_plain(x) and is_plain(y)):
        return None
    kind = np.PyArray_TYPE(<np.ndarray>x)
    if not (kind == np.NPY_FLOAT or kind == np.NPY_DOUBLE) or np.PyArray_TYPE(<np.ndarray>y) != kind:
        return None
    a, b = np.PyArray_GETCONTIGUOUS(x), np.PyArray_GETCONTIGUOUS(y)
    for d in range(np.PyArray_NDIM(a)):
        if d < dim:
            outer *= np.PyArray_DIM(a, d)
        elif d > dim:
            step *= np.PyArray_DIM(a, d)
    out = new_array(type_of(a), np.PyArray_NDIM(a), np.PyArray_DIMS(a), NULL)
    with nogil:
        if kind == np.NPY_FLOAT:
            _across(<float*>np.PyArray_DATA(a), <float*>np.PyArray_DATA(b), <float*>np.PyArray_DATA(out), outer, step)
        else:
            _across(<double*>np.PyArray_DATA(a), <double*>np.PyArray_DATA(b), <double*>np.PyArray_DATA(out), outer, step)
    return out
