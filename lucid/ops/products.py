# cython: annotation_typing=True
"""Products of matrices, vectors and stacks of them: what contractions come down to, and `matmul`."""

import math
from typing import Any

import numpy as np

from lucid.core import dtypes, modes
from lucid.core.primitive import Primitive, apply
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, common
from lucid.ops.promotion import KEEP, lift_all, promote
from lucid.ops.rules import P, align, bilinear_jvp, conj, sum_to

_REAL = dtypes.SINGLE_AND_DOUBLE

ndarray = np.ndarray
_recording = modes.recording.get
_autocast = modes.autocast.get


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


def _lead(x: Abstract, y: Abstract, rank: int) -> tuple[int, ...]:
    """What the dimensions before the last `rank` of two operands are broadcast to."""
    return np.broadcast_shapes(x.shape[:-rank], y.shape[:-rank])


# Both operands are matrices or stacks of them; `matmul` below brings vectors into that form.
matmul_primitive = Primitive(
    "matmul",
    operands=("x", "y"),
    rules=(_pull_left, _pull_right),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: _batch_matmul(values, batched, size),
    abstract=lambda x, y: Abstract((*_lead(x, y, 2), x.shape[-2], y.shape[-1]), common(x, y)),
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


def _row_sums(ct: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """Σ_j ct[..., i, j] · conj(y[..., j])."""
    products = P.matmul(ct, P.reshape(conj(y), shape=(*y.shape, 1)))
    return sum_to(P.reshape(products, shape=products.shape[:-1]), shape)


# Every product of an element of one vector with one of another; leading dimensions broadcast.
outer_primitive = Primitive(
    "outer_product",
    operands=("x", "y"),
    rules=(
        lambda ct, y, x_shape: _row_sums(ct, y, x_shape),
        lambda ct, x, y_shape: _row_sums(mT(ct), x, y_shape),
    ),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
    abstract=lambda x, y: Abstract((*_lead(x, y, 1), x.shape[-1], y.shape[-1]), common(x, y)),
)


def _batch_vecmat(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, y = values
    y = mT(y) if params["flip"] else y
    if not batched[1]:
        return P.matmul(x, y)
    rows = P.reshape(x, shape=(size, 1, x.shape[-1]) if batched[0] else (1, x.shape[-1]))
    return P.reshape(P.matmul(rows, y), shape=(size, y.shape[-1]))


# A vector times a matrix (or its transpose): what a layer is for one example, and a product of matrices for a batch.
vecmat_primitive = Primitive(
    "vecmat",
    operands=("x", "y"),
    rules=(
        lambda ct, y, flip: P.vecmat(ct, conj(y), flip=not flip),
        lambda ct, x, flip: P.outer_product(ct, conj(x)) if flip else P.outer_product(conj(x), ct),
    ),
    jvp=bilinear_jvp,
    batch=_batch_vecmat,
    abstract=lambda x, y, flip: Abstract((*x.shape[:-1], y.shape[-2 if flip else -1]), common(x, y)),
)


def _flipped(x: Any, flip: bool) -> Any:
    return mT(x) if flip else x


def _pull_first(ct: Any, y: Any, flip_x: bool, flip_y: bool, multiply: Any) -> Any:
    return multiply(y, ct, flip_x=flip_y, flip_y=True) if flip_x else multiply(ct, y, flip_x=False, flip_y=not flip_y)


def _pull_second(ct: Any, x: Any, flip_x: bool, flip_y: bool, multiply: Any) -> Any:
    return multiply(ct, x, flip_x=True, flip_y=flip_x) if flip_y else multiply(x, ct, flip_x=not flip_x, flip_y=False)


# The product of two matrices, each as it is or transposed: its derivatives are products of the same kind.
product: Primitive = Primitive(
    "product",
    operands=("x", "y"),
    rules=(
        lambda ct, y, flip_x, flip_y: _pull_first(ct, conj(y), flip_x, flip_y, product),
        lambda ct, x, flip_x, flip_y: _pull_second(ct, conj(x), flip_x, flip_y, product),
    ),
    jvp=bilinear_jvp,
    batch=lambda prim, values, batched, size, params: _batch_matmul(
        [_flipped(v, params[flip]) for v, flip in zip(values, ("flip_x", "flip_y"), strict=True)], batched, size
    ),
    abstract=lambda x, y, flip_x, flip_y: Abstract((x.shape[flip_x], y.shape[not flip_y]), common(x, y)),
)


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
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        x, y = input, other
    else:
        x, y = lift_all(input, other)
    if x.np_dtype is not y.np_dtype:
        x, y = promote("matmul", (x, y), KEEP)
    left, right = x.shape, y.shape
    rank, other_rank = len(left), len(right)
    if not rank or not other_rank:
        raise RuntimeError(f"matmul: 0-d operands are not allowed; shapes {left} and {right}. Use * instead")
    rows = right[0 if other_rank == 1 else -2]
    if left[-1] != rows:
        raise RuntimeError(f"matmul: shapes {left} and {right} do not fit: {left[-1]} columns against {rows} rows")
    if rank == 2 and other_rank == 2:
        return apply(product, (x, y), {"flip_x": False, "flip_y": False})
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
