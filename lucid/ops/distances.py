"""Distances: between all rows of two matrices, all pairs of rows of one, and whole tensors."""

import math
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.inplace import write
from lucid.core.primitive import Primitive, lift
from lucid.core.tensor import Tensor
from lucid.ops import indexing, reductions
from lucid.ops.dims import numpy_names, real_dim
from lucid.ops.norms import norm_array, safe_sums
from lucid.ops.out import takes_out
from lucid.ops.products import mT
from lucid.ops.promotion import KEEP, lift_all, promote
from lucid.ops.rules import P, add_all, align, sum_to

_FEW = 25  # rows for which all differences are made, as in PyTorch
_CLOSE = 1e-3  # of the squared lengths: below, the product's rounding shows in the distance


def _euclidean_array(x: Any, y: Any) -> Any:
    """|x|² + |y|² - 2 x·y for all pairs of rows by one product.

    Pairs that lie close, and those whose squares are too large or too small for their type, are measured one by one.
    """
    if x.dtype.itemsize == 2:
        return _euclidean_array(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if 0 in (*x.shape, *y.shape):
        return norm_array(x[..., :, None, :] - y[..., None, :, :], 2.0, (max(x.ndim, y.ndim),), False)
    middle = x.mean(axis=-2, keepdims=True)
    a, b = x - middle, y - middle
    lengths = np.square(a).sum(-1)[..., :, None] + np.square(b).sum(-1)[..., None, :]
    squares = np.matmul(a * -2, np.swapaxes(b, -1, -2))
    squares += lengths
    lengths *= _CLOSE
    low, high = safe_sums(squares.dtype)
    far = np.greater(squares, np.maximum(lengths, low, out=lengths)) & (squares <= high)
    out = np.sqrt(squares, out=squares)
    if not far.all():
        left, right = (np.broadcast_to(v, (*out.shape[:-2], *v.shape[-2:])) for v in (x, y))
        *front, i, j = close = np.nonzero(~far)
        out[close] = norm_array(left[(*front, i)] - right[(*front, j)], 2.0, (1,), False)
    return out


def _per_distance(ct: Any, out: Any) -> Any:
    """ct / out, and 0 for points that coincide."""
    if type(ct) is np.ndarray and type(out) is np.ndarray and ct.dtype.itemsize > 2:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.divide(ct, out)
        if not out.all():
            ratio[out == 0] = 0
        return ratio
    zero = out == 0
    return P.where(zero, 0, ct / P.where(zero, 1, out))


def _total(x: Any) -> Any:
    return P.sum(x, dims=(x.ndim - 1,), keepdim=True)


def _pull(ct: Any, x: Any, y: Any, out: Any, shape: tuple[int, ...]) -> Any:
    """Σⱼ (x - yⱼ) ctⱼ / |x - yⱼ|."""
    weights = _per_distance(ct, out)
    return sum_to(x * _total(weights) - P.matmul(weights, y), shape)


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    terms = [] if tx is None else [_total(tx * x) - P.matmul(tx, mT(y))]
    if ty is not None:
        terms.append(mT(_total(ty * y)) - P.matmul(x, mT(ty)))
    return _per_distance(add_all(terms), out)


# The Euclidean distance of each row of x to each of y; leading dimensions broadcast.
euclidean = Primitive(
    "euclidean",
    _euclidean_array,
    operands=("x", "y"),
    rules=(
        lambda ct, x, y, out, x_shape: _pull(ct, x, y, out, x_shape),
        lambda ct, x, y, out, y_shape: _pull(mT(ct), y, x, mT(out), y_shape),
    ),
    jvp=_push,
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
)


def _raise_if_negative(p: float, name: str) -> None:
    if p < 0:
        raise RuntimeError(f"{name}: p must not be negative, got {p}")


def _points(values: Any, name: str) -> Tensor:
    x = lift(values)
    if x.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name} takes floating-point tensors, not {x.dtype}; convert them, as in x.float()")
    return x


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of every row of `x1` to every row of `x2`; leading dimensions broadcast.

    The gradient of points that coincide is 0. `compute_mode` is accepted and has no effect: among many rows, Euclidean
    distances come from one matrix product, except those that its rounding would spoil.

    >>> import lucid
    >>> lucid.cdist(lucid.tensor([[0.0, 0.0]]), lucid.tensor([[3.0, 4.0], [0.0, 1.0]]))
    Tensor([[5., 1.]])
    """
    _raise_if_negative(p, "cdist")
    x, y = promote("cdist", (_points(x1, "cdist"), _points(x2, "cdist")), KEEP)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"cdist: expected matrices with rows of one length, not shapes {x.shape} and {y.shape}")
    try:
        np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise RuntimeError(f"cdist: the leading dimensions of {x.shape} and {y.shape} do not broadcast") from None
    if p == 2 and max(x.shape[-2], y.shape[-2]) > _FEW:
        return P.euclidean(x, y)
    rows = P.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    columns = P.reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))
    return _length(rows - columns, p)


def _length(difference: Tensor, p: float) -> Tensor:
    if not difference.shape[-1]:
        return P.sum(difference, dims=(difference.ndim - 1,), keepdim=False)
    return reductions.norm(difference, p, -1)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows: those above the diagonal of `cdist(input, input)`, row by row.

    >>> import lucid
    >>> lucid.pdist(lucid.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]))
    Tensor([5., 3., 4.])
    """
    _raise_if_negative(p, "pdist")
    x = _points(input, "pdist")
    if x.ndim != 2:
        raise RuntimeError(f"pdist: expected a matrix, not shape {x.shape}")
    first, second = (Tensor._wrap(i) for i in np.triu_indices(x.shape[0], 1))
    if p == 2 and x.shape[0] > _FEW:
        return indexing.getitem(P.euclidean(x, x), (first, second))
    return _length(P.index(x, first) - P.index(x, second), p)


def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors; both broadcast.

    >>> import lucid
    >>> lucid.dist(lucid.tensor([1.0, 2.0]), lucid.tensor([4.0, 6.0]))
    Tensor(5.)
    """
    x, y = promote("dist", lift_all(input, other), KEEP)
    difference = x - y
    return reductions.norm(P.reshape(difference, shape=(difference.numel(),)), p)


def _renormed(x: Tensor, p: float, dim: int, maxnorm: float, name: str) -> Tensor:
    if x.np_dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(f"{name} takes floating-point or complex tensors, not {x.dtype}")
    if p <= 0 or math.isinf(maxnorm) or maxnorm < 0:
        raise RuntimeError(f"{name}: p must be positive and maxnorm a finite number from 0, got {p} and {maxnorm}")
    if x.ndim < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, not shape {x.shape}")
    d = real_dim(x, dim, name)
    lengths = reductions.norm(x, p, tuple(e for e in range(x.ndim) if e != d), True)
    long = lengths > maxnorm
    return x * P.where(long, maxnorm / (P.where(long, lengths, 1) + 1e-7), 1)


@takes_out
@numpy_names
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.

    >>> import lucid
    >>> lucid.renorm(lucid.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    Tensor([[0.6, 0.8],
            [0.3, 0.4]])
    """
    return _renormed(lift(input), p, dim, maxnorm, "renorm")


@numpy_names
def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """In-place form of `renorm`.

    >>> import lucid
    >>> lucid.tensor([[3.0, 4.0]]).renorm_(2, 0, 5.0)
    Tensor([[3., 4.]])
    """
    return write(self, "renorm_", lambda x: _renormed(x, p, dim, maxnorm, "renorm_"))
