"""Sums of products: by BLAS, the GEMM loops, and for what is no product of matrices NumPy's loops.

Generation does not reach it: it chooses between BLAS and the GEMM loops.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.backends.cpu import gemm
from lucid.backends.cpu.blas import in_one_thread, threads_share_cores
from lucid.backends.cpu.launch import products
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.loops import stacked_outer
from lucid.backends.numpy.contraction import cross_array as _reference_cross
from lucid.backends.numpy.precision import NARROW
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.native import framed, in_use

_REAL = dtypes.SINGLE_AND_DOUBLE
_BLAS = _REAL | dtypes.COMPLEX
_SINGLE, _DOUBLE = dtypes.float32.numpy, dtypes.float64.numpy
_EXACT = ((_SINGLE, 2**24), (_DOUBLE, 2**53))  # whole numbers up to these, and their sums in any order, have no error
_LEAST_EXACT = 1 << 12  # elements of both factors, from which on it pays to look at them
_np_matmul = framed(np.matmul, 2)
_np_dot: Any = framed(np.dot, 2)
_multiply: Any = framed(np.multiply)
_einsum: Any = framed(np.einsum)

MATRICES, VECTORS, VECTOR_AND_MATRIX, ELEMENTS, OUTER, ROWS, STACKS = range(7)


class Order:
    """A view of a factor with its dimensions in another order, and new ones of size 1 for labels that it does not have."""

    def __init__(self, labels: str, order: Sequence[str]) -> None:
        axes = tuple([labels.index(c) for c in order if c in labels])
        self.axes = None if axes == (*range(len(axes)),) else axes
        self.index = None if len(axes) == len(order) else tuple([slice(None) if c in labels else None for c in order])

    def of(self, x: Any) -> Any:
        if self.axes is not None:
            x = x.transpose(self.axes)
        return x if self.index is None else x[self.index]


class Steps:
    """How a contraction becomes a product of matrices, or of stacks of them.

    The product's labels are read as a stack, then those of its rows, which one factor alone has, then those of its
    columns, which the other one has. A label of the stack may be missing in a factor: it is broadcast. As short a stack as
    possible makes as few and as large products as possible, and the product lies in row-major order.
    """

    def __init__(self, labels: Any) -> None:
        left, right, out = str(labels.left), str(labels.right), str(labels.out)
        self.spec = f"{left},{right}->{out}"
        self.flip_left = self.flip_right = False
        inner = [c for c in list(left) if c not in out]
        stack, rows, columns = _split(left, right, out)
        self.swap = bool(rows and rows[0] not in left) or bool(columns and columns[0] not in right)
        first, second = (right, left) if self.swap else (left, right)
        self.first = Order(first, [*stack, *rows, *inner])
        self.second = Order(second, [*stack, *inner, *columns])
        self.stack, self.rows, self.inner, self.columns = len(stack), len(rows), len(inner), len(columns)
        # Where the product's sizes stand: in which factor, and where there.
        self.sizes = [(0, left.index(c)) if c in left else (1, right.index(c)) for c in list(out)]
        self.merges = not len(rows) == len(inner) == len(columns) == 1
        if not inner:
            self.code = ELEMENTS
            self.first, self.second = Order(left, out), Order(right, out)
            if len(stack) == len(rows) == len(columns) == 1 and not self.swap:
                self.code = OUTER
                self.first, self.second = Order(left, stack + rows), Order(right, stack + columns)
        elif not stack and not self.merges:
            self.code = MATRICES
            self.flip_left, self.flip_right = left[1] != inner[0], right[0] != inner[0]
        elif not rows and not columns:
            self.code = ROWS if out or len(inner) > 1 else VECTORS
        elif not stack and len(inner) == len(rows) + len(columns) == 1:
            self.code = VECTOR_AND_MATRIX
            self.flip_left, self.flip_right = len(left) > 1 and left[1] != inner[0], right[0] != inner[0]
        else:
            self.code = STACKS


def _split(left: str, right: str, out: str) -> tuple[str, str, str]:
    """The labels of a product as those of a stack, rows and columns, with the shortest stack."""
    for start in range(len(out) + 1):
        for end in range(len(out), start - 1, -1):
            stack, rows, columns = out[:start], out[start:end], out[end:]
            for a, b in ((left, right), (right, left)):
                if all(c in a and c not in b for c in rows) and all(c in b and c not in a for c in columns):
                    return stack, rows, columns
    raise AssertionError("a stack alone always fits")


def contract_array(x: Any, y: Any, labels: Any) -> Any:
    """The sum of products that the labels say."""
    steps = labels.steps
    if steps is None:
        steps = labels.steps = Steps(labels)
    dtype = x.dtype
    if (labels.conj_left or labels.conj_right) and dtype.kind == "c":
        x = x.conj() if labels.conj_left else x
        y = y.conj() if labels.conj_right else y
    code = steps.code
    if dtype.kind in "iu" and code not in (ELEMENTS, OUTER) and x.size + y.size >= _LEAST_EXACT:
        exact = _exact_type(x, y, math.prod([n for c, n in zip(str(labels.left), x.shape) if c not in str(labels.out)]))
        if exact is not None:
            return _in(exact, contract_array, x, y, labels)
    if code == MATRICES:
        x, y = x.T if steps.flip_left else x, y.T if steps.flip_right else y
        return dot(y.T, x.T) if steps.swap else dot(x, y)
    if dtype in NARROW:
        return _in(_SINGLE, contract_array, x, y, labels)
    if code in (VECTORS, VECTOR_AND_MATRIX):
        x, y = x.T if steps.flip_left else x, y.T if steps.flip_right else y
        found = products.product(x, y)
        return np.asarray(_np_dot(x, y)) if found is None else found
    if code == STACKS:
        return _product_of_stacks(x, y, steps)
    if code == ROWS:
        return np.asarray(_einsum(steps.spec, x, y, order="C"))
    return _all_products(x, y, steps)


def contract_into(out: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Write the sum of products into an array; whether that was done: it is for small products of matrices and vectors."""
    (x, y), labels = operands, params["labels"]
    steps = labels.steps
    if steps is None:
        steps = labels.steps = Steps(labels)
    code = steps.code
    if code == STACKS and not steps.merges:
        a, b = (steps.first.of(y), steps.second.of(x)) if steps.swap else (steps.first.of(x), steps.second.of(y))
    elif code in (MATRICES, VECTORS, VECTOR_AND_MATRIX):
        a, b = x.T if steps.flip_left else x, y.T if steps.flip_right else y
        if steps.swap and code == MATRICES:
            a, b = b.T, a.T
    else:
        return False
    return products.product(a, b, out) is not None


def _in(dtype: Any, product: Callable[..., Any], x: Any, y: Any, *labels: Any) -> Any:
    """A product that is computed in another type. Integers that are too large for theirs wrap around."""
    found = product(*[P.cast.kernel(a, dtype=dtype, source=a.dtype) for a in (x, y)], *labels)
    if x.dtype.kind in "iu":
        return found.astype(dtypes.INT64).astype(x.dtype, copy=False)
    return P.cast.kernel(found, dtype=x.dtype, source=dtype)


def _exact_type(x: Any, y: Any, count: int) -> Any:
    """The floating-point type in which sums of so many products of integers have no error; None if there is none."""
    most = _bound_of_type(x) * _bound_of_type(y) * count
    if most > _EXACT[0][1]:
        most = _bound(x) * _bound(y) * count
    return next((dtype for dtype, end in _EXACT if most <= end), None)


def _bound_of_type(x: Any) -> int:
    limits = np.iinfo(x.dtype)
    return max(-int(limits.min), int(limits.max))


def _bound(x: Any) -> int:
    """The largest size of an element."""
    dims: dict[str, Any] = {"dims": tuple(range(x.ndim)), "keepdim": False}
    return max(-int(P.amin.kernel(x, **dims)), int(P.amax.kernel(x, **dims))) if x.size else 0


def _all_products(x: Any, y: Any, steps: Steps) -> Any:
    """Where nothing is summed over: each element of one factor with each of the other that has the same labels."""
    a, b = steps.first.of(x), steps.second.of(y)
    if steps.code == ELEMENTS:
        return contiguous(P.mul.kernel(a, b))
    if x.size <= 64:
        return _multiply(a[:, :, None], b[:, None, :], order="C")
    # For a stack of 64 products of 64 x 64, these take half the time of a broadcast multiplication.
    if in_use and x.dtype in _REAL and a.flags.c_contiguous and b.flags.c_contiguous:
        out = np.empty((*a.shape, b.shape[1]), x.dtype)
        stacked_outer(a, b, out)
        return out
    return _einsum("bi,bj->bij", a, b, order="C")


def _product_of_stacks(x: Any, y: Any, steps: Steps) -> Any:
    a, b = (steps.first.of(y), steps.second.of(x)) if steps.swap else (steps.first.of(x), steps.second.of(y))
    if not steps.merges:
        return matmul_array(a, b)
    stack, k = steps.stack, steps.rows + steps.stack
    inner = math.prod(a.shape[k:])
    a = a.reshape(*a.shape[:stack], math.prod(a.shape[stack:k]), inner)
    b = b.reshape(*b.shape[:stack], inner, math.prod(b.shape[stack + steps.inner :]))
    out = matmul_array(a, b) if stack else dot(a, b)
    shapes = x.shape, y.shape
    return out.reshape([shapes[f][d] for f, d in steps.sizes])


def matmul_array(x: Any, y: Any) -> Any:
    """The product of two stacks of matrices."""
    if x.shape[-1] == 1:
        return _multiply(x, y, order="C")
    found = products.product(x, y)
    if found is None:
        found = gemm.product(x, y)
    return _np_matmul(x, _unlike_transpose(x, y)) if found is None else found


def _unlike_transpose(x: Any, y: Any) -> Any:
    """The second factor, in memory of its own where it is the first one transposed and has few rows.

    NumPy then computes one half of the product and copies it to the other, element by element, which takes 3 ns for each:
    4000 x 3 with its transpose takes seven times as long as with other numbers.
    """
    few = y.shape[-2] <= min(512, y.shape[-1] // 2)
    if not few or x.shape[-1:-3:-1] != y.shape[-2:] or x.strides[-1:-3:-1] != y.strides[-2:]:
        return y
    if x.ctypes.data != y.ctypes.data:  # which takes the longest to ask
        return y
    return y.copy()


def dot(x: Any, y: Any) -> Any:
    """The product of two matrices.

    NumPy's `dot` has less to set up, and its `matmul` does not clear the result before it is written; but `matmul` leaves
    BLAS where a dimension of size 1 makes the strides of a transpose odd. From about 2²⁰ multiplications on BLAS uses
    several threads. Where these share a core, they gain little up to 2²², and go on waiting for more when they are done,
    which slows down the other one: there this thread does it alone.
    """
    dtype = x.dtype
    if dtype not in _BLAS:
        return _in(_SINGLE, dot, x, y) if dtype in NARROW else _np_matmul(x, y)
    found = products.product(x, y)
    if found is None:
        found = gemm.product(x, y)
    if found is not None:
        return found
    work = x.size * y.shape[1]
    if work < 1 << 20 or x.shape[0] == 1 or x.shape[1] == 1 or y.shape[1] == 1:
        return _np_dot(x, y)
    if work <= 1 << 22 and threads_share_cores():
        return in_one_thread(_np_dot, x, _unlike_transpose(x, y))
    return _np_matmul(x, _unlike_transpose(x, y))


def cross_array(x: Any, y: Any, dim: int) -> Any:
    """Vector products along a dimension."""
    found = products.cross(x, y, dim)
    return _reference_cross(x, y, dim) if found is None else found


fill({"contract": contract_array, "cross": cross_array}, "cpu", has_frames=True)
