"""Distances: between all rows of two matrices, all pairs of rows of one, and whole tensors."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from lucid.api import reductions
from lucid.arguments.dims import numpy_names, real_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import KEEP, in_single, lift_all, promote
from lucid.core import dtypes
from lucid.core.primitive import element_type, lift
from lucid.core.tensor import Tensor, shape_of, wrapped
from lucid.ops.counting import triangle_positions
from lucid.ops.norms import differences, euclidean, row_distances
from lucid.ops.one_loop import one_loop
from lucid.ops.rules import P
from lucid.tape.inplace import write

_FEW = 25  # rows for which all differences are made, as in PyTorch
_MOST = 1 << 25  # differences that are looked at one by one, and that second derivatives make


def _raise_if_negative(p: float, name: str) -> None:
    if p < 0:
        raise RuntimeError(f"{name}: p must not be negative, got {p}")


def _points(values: Any, name: str) -> Tensor:
    x = in_single(lift(values))
    if x.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name} takes floating-point tensors, not {x.dtype}; convert them, as in x.float()")
    return x


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of every row of `x1` to every row of `x2`; leading dimensions broadcast.

    The gradient of points that coincide is 0. `compute_mode` is accepted and has no effect: among very many rows, Euclidean
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
    if p == 2 and x.shape[-1] and x.shape[:-2] == y.shape[:-2]:
        return _between(x, y)
    if p == 2 and max(x.shape[-2], y.shape[-2]) > _FEW:
        return euclidean(x, y)
    return _length(differences(x, y), p)


def _between(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances of all rows to all others."""
    return (row_distances if math.prod(x.shape) * y.shape[-2] <= _MOST else euclidean)(x, y)


def _length(difference: Tensor, p: float) -> Tensor:
    if not difference.shape[-1]:
        return P.sum(difference, dims=(difference.ndim - 1,), keepdim=False)
    return reductions.norm(difference, p, -1)


_MOST_KNOWN = 64  # rows of which all pairs are known: their numbers take 32 kB


def _pairs(count: int) -> Any:
    """The places of all pairs of rows above the diagonal of a matrix, row by row."""
    rows, columns = triangle_positions(count, count, 1, False)
    return rows * count + columns


_known_pairs = lru_cache(maxsize=16)(_pairs)


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
    count = x.shape[0]
    places = _known_pairs(count) if count <= _MOST_KNOWN else _pairs(count)
    if p == 2 and x.shape[1]:
        return P.index(P.reshape(_between(x, x), shape=(count * count,)), wrapped(places))
    first, second = (wrapped(i) for i in np.divmod(places, max(count, 1)))
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
    if element_type(x) not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(f"{name} takes floating-point or complex tensors, not {x.dtype}")
    if p <= 0 or math.isinf(maxnorm) or maxnorm < 0:
        raise RuntimeError(f"{name}: p must be positive and maxnorm a finite number from 0, got {p} and {maxnorm}")
    rank = len(shape_of(x))
    if rank < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, not shape {x.shape}")
    d = real_dim(x, dim, name)
    lengths = reductions.norm_over(x, p, tuple([e for e in range(rank) if e != d]), True)
    return _shortened(x, lengths, most=float(maxnorm))


@one_loop(2)
def _shortened(x: Any, lengths: Any, most: float) -> Any:
    """Elements of vectors of these lengths, which get the longest one that there may be."""
    long = lengths > most
    return x * P.where(long, most / (P.where(long, lengths, 1) + 1e-7), 1)


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
