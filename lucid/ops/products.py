# cython: annotation_typing=True
"""Products of matrices, vectors and stacks of them: what contractions come down to, and `matmul`."""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import gemm
from lucid.backends.cpu.blas import in_one_thread, threads_share_cores
from lucid.backends.cpu.loops import stacked_outer
from lucid.core import dtypes, modes
from lucid.core.batched import Batched
from lucid.core.cuts import cut
from lucid.core.dual import Dual
from lucid.core.fields import TensorFields
from lucid.core.node import Node, array_of, save_input, tensor_of
from lucid.core.primitive import Primitive, apply, attach, edge_of, synced
from lucid.core.tensor import Tensor
from lucid.native import framed, in_use
from lucid.ops.bare import bare_pair, example_shape, in_batch, of_two
from lucid.ops.promotion import KEEP, lift_all, promote
from lucid.ops.rules import P, align, bilinear_jvp, conj, sum_to

ndarray = np.ndarray
_recording = modes.recording.get
_autocast = modes.autocast.get
_REAL = dtypes.SINGLE_AND_DOUBLE
_BLAS = _REAL | dtypes.COMPLEX
_np_matmul, _np_multiply = framed(np.matmul, 2), framed(np.multiply, 2)
_einsum: Any = np.einsum


def _matmul_array(x: Any, y: Any) -> Any:
    if x.dtype == dtypes.bfloat16.numpy:
        return _matmul_array(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and x.size:
        # One large BLAS product instead of one for each matrix of a stack.
        rows = x.reshape(-1, x.shape[-1])
        product = dot(rows, y) if x.dtype in _BLAS and x.dtype is y.dtype else _np_matmul(rows, y)
        return product.reshape(*x.shape[:-1], y.shape[-1])
    if x.ndim == y.ndim > 1 and x.shape[-1] == 1:
        return _outer_array(x[..., 0], y[..., 0, :])
    if x.ndim > 2 or y.ndim > 2:
        found = gemm.product(x, y)
        if found is not None:
            return found
    return _np_matmul(x, y)


def mT(x: Any) -> Any:
    """The last two dimensions exchanged.

    >>> import lucid
    >>> lucid.zeros(5, 2, 3).mT.shape
    (5, 3, 2)
    """
    n = x.ndim
    return P.permute(x, dims=(*range(n - 2), n - 1, n - 2))


def _adjoint(x: Any) -> Any:
    return mT(P.conj(x)) if x.dtype.kind == "c" else mT(x)


def _pull_left(ct: Any, y: Any, x_shape: tuple[int, ...]) -> Any:
    return sum_to(P.matmul(ct, _adjoint(y)), x_shape)


def _pull_right(ct: Any, x: Any, y_shape: tuple[int, ...]) -> Any:
    if len(y_shape) == 2 and x.ndim > 2 and x.ndim == ct.ndim:
        # Summing over the stack is part of one large product.
        x = P.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
        ct = P.reshape(ct, shape=(math.prod(ct.shape[:-1]), ct.shape[-1]))
    return sum_to(P.matmul(_adjoint(x), ct), y_shape)


# Both operands are matrices or stacks of them; `matmul` below brings vectors into that form.
matmul_primitive = Primitive(
    "matmul",
    _matmul_array,
    operands=("x", "y"),
    rules=(_pull_left, _pull_right),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: _batch_matmul(values, batched, size),
)


def _batch_matmul(values: Any, batched: Any, size: int) -> Any:
    x, y = values
    if batched[0] and not batched[1] and y.ndim == 2 and x.ndim == 3 and x.shape[1] == 1:
        # Row vectors in a batch are the rows of one matrix.
        out = P.matmul(P.reshape(x, shape=(size, x.shape[2])), y)
        return P.reshape(out, shape=(size, 1, out.shape[1]))
    if batched[1] and not batched[0] and x.ndim == 2 and y.ndim == 3 and y.shape[2] == 1:
        out = P.matmul(P.reshape(y, shape=(size, y.shape[1])), mT(x))
        return P.reshape(out, shape=(size, out.shape[1], 1))
    return P.matmul(*align(values, batched, size))


def _outer_array(x: Any, y: Any) -> Any:
    if x.dtype == dtypes.bfloat16.numpy or x.size <= 64:
        return _np_multiply(x[..., :, None], y[..., None, :])
    # For a stack of 64 products of 64 x 64, einsum takes half the time of a broadcast multiplication.
    if x.ndim == 2 and y.ndim == 2 and len(x) == len(y):
        if in_use and x.dtype in _REAL and x.flags.c_contiguous and y.flags.c_contiguous:
            out = np.empty((*x.shape, y.shape[1]), x.dtype)
            stacked_outer(x, y, out)
            return out
        return _einsum("bi,bj->bij", x, y)  # a third less than with an ellipsis
    return _einsum("...i,...j->...ij", x, y)


def _row_sums(ct: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Σ_j ct[..., i, j] · conj(y[..., j])."""
    products = P.matmul(ct, P.reshape(conj(y), shape=(*y.shape, 1)))
    return sum_to(P.reshape(products, shape=products.shape[:-1]), shape)


# Every product of an element of one vector with one of another; leading dimensions broadcast.
outer_primitive = Primitive(
    "outer_product",
    _outer_array,
    operands=("x", "y"),
    rules=(
        lambda ct, y, x_shape: _row_sums(ct, y, x_shape),
        lambda ct, x, y_shape: _row_sums(mT(ct), x, y_shape),
    ),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
)


def _vecmat_array(x: Any, y: Any, flip: bool) -> Any:
    return _matmul_array(x, y.swapaxes(-1, -2) if flip else y)


def _batch_vecmat(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, y = values
    y = mT(y) if params["flip"] else y
    if not batched[1]:
        return P.matmul(x, y)
    rows = P.reshape(x, shape=(size, 1, x.shape[-1]) if batched[0] else (1, x.shape[-1]))
    return P.reshape(P.matmul(rows, y), shape=(size, y.shape[-1]))


class _VectorTimesMatrix(Primitive):
    """With short ways for a batch of vectors and one matrix: what layers are inside vmap."""

    def __call__(self, x: Any, y: Any, *, flip: bool) -> Any:
        out = self.of_batch(x, y, flip) if type(x) is Batched else None
        return apply(self, (x, y), {"flip": flip}) if out is None else out

    def of_batch(self, x: Any, y: Any, flip: bool) -> Any:
        """The result if `x` is a batch of vectors and `y` a matrix that fits, and nothing else; or None."""
        found = bare_pair(x, y)
        if found is None:
            return None
        rows, matrix, batch_x, batch_y = found
        if not batch_x or batch_y or rows.ndim != 2 or matrix.ndim != 2 or rows.shape[1] != matrix.shape[int(flip)]:
            return None
        out = in_batch(_product_array(rows, matrix, False, flip), x, True)
        a: TensorFields = x
        b: TensorFields = y
        need_x, need_y = a._requires_grad, b._requires_grad
        if need_x or need_y:
            if not _recording():
                cut("no_grad", x if need_x else y)
                return out
            saved = (save_input(x) if need_y else None, save_input(y) if need_x else None, None)
            left = edge_of(x) if need_x else None
            right = edge_of(y) if need_y else None
            attach(out, self, left, right, None, saved, -1, None, {"flip": flip}, example_shape(out))
        return out

    def vjp(self, node: Node, ct: Any) -> Any:
        saved = node.saved
        if type(ct) is not Batched or type(saved) is not tuple:
            return super().vjp(node, ct)
        left, right, flip = node.left, node.right, node.params["flip"]
        if left is not None:
            y = conj(tensor_of(node, saved[1]))
            left = self.of_batch(ct, y, not flip)
            if left is None:
                left = self(ct, y, flip=not flip)
        if right is not None:
            x = conj(tensor_of(node, saved[0]))
            first, second = (ct, x) if flip else (x, ct)
            right = of_two(_outer_array, first, second) if not _recording() else None
            if right is None:
                right = P.outer_product(first, second)
        return left, right


# A vector times a matrix (or its transpose): what a layer is for one example, and a product of matrices for a batch.
vecmat_primitive = _VectorTimesMatrix(
    "vecmat",
    _vecmat_array,
    operands=("x", "y"),
    rules=(
        lambda ct, y, flip: P.vecmat(ct, conj(y), flip=not flip),
        lambda ct, x, flip: P.outer_product(ct, conj(x)) if flip else P.outer_product(conj(x), ct),
    ),
    jvp=bilinear_jvp,
    batch=_batch_vecmat,
)


def _product_array(x: Any, y: Any, flip_x: bool, flip_y: bool) -> Any:
    x, y = x.T if flip_x else x, y.T if flip_y else y
    if x.dtype not in _BLAS:
        return _matmul_array(x, y)
    return dot(x, y)  # matmul leaves BLAS where a dimension of size 1 makes the strides of a transpose odd


def dot(x: Any, y: Any) -> Any:
    """The product of two matrices of a type that BLAS knows.

    NumPy's `dot` has less to set up, and its `matmul` does not clear the result before it is written. From about 2²⁰
    multiplications on BLAS uses several threads. Where these share a core, they gain little up to 2²², and go on waiting
    for more when they are done, which slows down the other one: there this thread does it alone.
    """
    found = gemm.product(x, y)
    if found is not None:
        return found
    work = x.size * y.shape[1]
    if work < 1 << 20 or x.shape[0] == 1 or x.shape[1] == 1 or y.shape[1] == 1:
        return x.dot(y)
    if work <= 1 << 22 and threads_share_cores():
        return in_one_thread(x.dot, y)
    return _np_matmul(x, y)


def _flipped(x: Any, flip: bool) -> Any:
    return mT(x) if flip else x


class _Product(Primitive):
    """With short ways for plain tensors and arrays, since training spends much of its time here."""

    def __call__(self, x: Any, y: Any, *, flip_x: bool, flip_y: bool) -> Any:
        if type(x) is not Tensor or type(y) is not Tensor:
            return apply(self, (x, y), {"flip_x": flip_x, "flip_y": flip_y})
        a: TensorFields = x
        b: TensorFields = y
        if a._meta is not None:
            synced(a)
        if b._meta is not None:
            synced(b)
        out = Tensor._wrap(_product_array(a._array, b._array, flip_x, flip_y))
        need_x, need_y = a._requires_grad, b._requires_grad
        if need_x or need_y:
            if not _recording():
                cut("no_grad", x if need_x else y)
                return out
            saved = (save_input(x) if need_y else None, save_input(y) if need_x else None, None)
            left = edge_of(x) if need_x else None
            right = edge_of(y) if need_y else None
            params = {"flip_x": flip_x, "flip_y": flip_y}
            attach(out, self, left, right, None, saved, -1, None, params, out._array.shape)
        return out

    def vjp(self, node: Node, ct: Any) -> Any:
        saved = node.saved
        if type(saved) is tuple and type(ct) is Tensor:
            flips = node.params["flip_x"], node.params["flip_y"]
            return (
                None if node.left is None else _pull_first(ct, conj(tensor_of(node, saved[1])), *flips, self),
                None if node.right is None else _pull_second(ct, conj(tensor_of(node, saved[0])), *flips, self),
            )
        if type(ct) is not ndarray or ct.dtype not in _REAL or type(saved) is not tuple:
            return super().vjp(node, ct)
        left, right, params = node.left, node.right, node.params
        if left is not None:
            left = _pull_first(ct, array_of(node, saved[1]), params["flip_x"], params["flip_y"], _product_array)
        if right is not None:
            right = _pull_second(ct, array_of(node, saved[0]), params["flip_x"], params["flip_y"], _product_array)
        return left, right


def _pull_first(ct: Any, y: Any, flip_x: bool, flip_y: bool, multiply: Any) -> Any:
    return multiply(y, ct, flip_x=flip_y, flip_y=True) if flip_x else multiply(ct, y, flip_x=False, flip_y=not flip_y)


def _pull_second(ct: Any, x: Any, flip_x: bool, flip_y: bool, multiply: Any) -> Any:
    return multiply(ct, x, flip_x=True, flip_y=flip_x) if flip_y else multiply(x, ct, flip_x=not flip_x, flip_y=False)


# The product of two matrices, each as it is or transposed: its derivatives are products of the same kind.
product: Primitive = _Product(
    "product",
    _product_array,
    operands=("x", "y"),
    rules=(
        lambda ct, y, flip_x, flip_y: _pull_first(ct, conj(y), flip_x, flip_y, product),
        lambda ct, x, flip_x, flip_y: _pull_second(ct, conj(x), flip_x, flip_y, product),
    ),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: _batch_matmul(
        [_flipped(v, params[flip]) for v, flip in zip(values, ("flip_x", "flip_y"), strict=True)], batched, size
    ),
)


def _dual_by_plain(input: TensorFields, other: TensorFields) -> Any:
    """A dual matrix times a plain one, where nothing is recorded and both fit; or None."""
    if type(input._array) is not Tensor or type(input._aux) is not Tensor or input._requires_grad:
        return None
    primal: TensorFields = input._array
    tangent: TensorFields = input._aux
    for part in (input, primal, tangent, other):
        if part._meta is not None or (part is not input and part._requires_grad):
            return None
    x, t, y = primal._array, tangent._array, other._array
    if x.dtype not in _REAL or x.dtype is not y.dtype or x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        return None
    return Dual.make(Tensor._wrap(dot(x, y)), Tensor._wrap(dot(t, y)), input._level)


def matmul(input: Any, other: Any) -> Tensor:
    """Matrix product with NumPy's rules: vectors count as rows or columns, stacks broadcast.

    >>> import lucid
    >>> a = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> lucid.matmul(a, lucid.tensor([1.0, 1.0]))
    Tensor([3., 7.])
    >>> lucid.matmul(a, lucid.zeros(5, 2, 3)).shape
    (5, 2, 3)
    """
    if (casting := _autocast()) is not None:
        input, other = casting.low(input, other)
    if type(input) is Tensor and type(other) is Tensor and input._array.dtype is other._array.dtype:
        x, y = input, other
        if x._array.ndim == 2 and y._array.ndim == 2 and x._array.shape[1] == y._array.shape[0]:
            return product(x, y, flip_x=False, flip_y=False)
    else:
        if type(input) is Batched:
            out = vecmat_primitive.of_batch(input, other, False)
            if out is not None:
                return out
        elif type(input) is Dual and type(other) is Tensor:
            out = _dual_by_plain(input, other)
            if out is not None:
                return out
        x, y = lift_all(input, other)
        if x.np_dtype != y.np_dtype:
            x, y = promote("matmul", (x, y), KEEP)
    left, right = x.shape, y.shape
    rank, other_rank = len(left), len(right)
    if not rank or not other_rank:
        raise RuntimeError(f"matmul: 0-d operands are not allowed; shapes {left} and {right}. Use * instead")
    rows = right[0 if other_rank == 1 else -2]
    if left[-1] != rows:
        raise RuntimeError(f"matmul: shapes {left} and {right} do not fit: {left[-1]} columns against {rows} rows")
    if rank == 2 and other_rank == 2:
        return product(x, y, flip_x=False, flip_y=False)
    if rank > 1 and other_rank > 1:
        return _matmul(x, y)
    if rank == 1 and other_rank == 2:
        return P.vecmat(x, y, flip=False)
    if rank == 2 and other_rank == 1:
        return P.vecmat(y, x, flip=True)
    a = P.reshape(x, shape=(1, *left)) if rank == 1 else x
    b = P.reshape(y, shape=(*right, 1)) if other_rank == 1 else y
    out = _matmul(a, b)
    drop = ((-2,) if x.ndim == 1 else ()) + ((-1,) if y.ndim == 1 else ())
    return P.reshape(out, shape=tuple(n for d, n in enumerate(out.shape) if d - out.ndim not in drop))


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    try:
        return P.matmul(x, y)
    except ValueError:
        raise RuntimeError(
            f"matmul: the leading dimensions of shapes {x.shape} and {y.shape} do not broadcast"
        ) from None
