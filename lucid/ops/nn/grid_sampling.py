"""Images and volumes read between their elements, at the places that a grid says.

An input has shape (N, C, …), a grid (N, L, n) with n coordinates from -1 to 1 for each of L places, those along the last
dimension first; a result has shape (N, C, L).
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from lucid.arguments.promotion import cast
from lucid.core import dtypes
from lucid.ops.abstract import Abstract
from lucid.ops.fused import Fused
from lucid.ops.nn.resampling import cubic_weights
from lucid.ops.rules import P, add_all, zeros_like


def _reflected(x: Any, low: float, high: float) -> Any:
    """Coordinates mirrored at both ends until they lie between."""
    if low == high:
        return x * 0
    span = high - low
    distance = P.abs(x - low)
    extra = P.remainder(distance, span)
    is_even = P.remainder(P.floor(distance / span), 2) == 0
    return P.where(is_even, extra, span - extra) + low


def _bounded(x: Any, size: int) -> Any:
    """Coordinates moved to the nearest element; those that were moved have no derivative."""
    return P.where((x > 0) & (x < size - 1), x, P.clamp(x.detach(), lo=0, hi=size - 1))


def _padded(x: Any, size: int, padding: str, align_corners: bool) -> Any:
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, 0, size - 1) if align_corners else _reflected(x, -0.5, size - 0.5)
    return _bounded(x, size)


def _unnormalized(x: Any, size: int, align_corners: bool) -> Any:
    """Coordinates from -1 to 1 as positions of elements."""
    return (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2


def _taken(x: Any, places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Elements of x at whole positions of shape (N, L); 0 outside."""
    index: Any = 0
    inside: Any = None
    for p, size in zip(places, sizes, strict=True):
        within = (p >= 0) & (p <= size - 1)
        inside = within if inside is None else inside & within
        index = index * size + cast(P.where(within, p, 0), dtypes.INT64)
    n, channels, length = x.shape[0], x.shape[1], index.shape[1]
    spread = P.broadcast_to(P.reshape(index, shape=(n, 1, length)), shape=(n, channels, length))
    total = math.prod(sizes)
    found = P.plane_take(P.reshape(x, shape=(n, channels, total)), spread, size=total)
    return P.where(P.reshape(inside, shape=(n, 1, length)), found, 0)


def _of_channels(x: Any) -> Any:
    """What is the same for all channels."""
    return P.reshape(x, shape=(x.shape[0], 1, x.shape[1]))


def _nearest(x: Any, at: Sequence[Any], sizes: Sequence[int], padding: str, align_corners: bool) -> Any:
    places = [P.round(_padded(a, s, padding, align_corners), decimals=0) for a, s in zip(at, sizes, strict=True)]
    # A value that is chosen nowhere: the derivative by the grid is 0, and not missing.
    nothing = P.where(zeros_like(places[0]) != 0, add_all(places), 0)
    return _of_channels(nothing) + _taken(x, places, sizes)


def _linear(x: Any, at: Sequence[Any], sizes: Sequence[int], padding: str, align_corners: bool) -> Any:
    at = [_padded(a, s, padding, align_corners) for a, s in zip(at, sizes, strict=True)]
    bases = [P.floor(a.detach()) for a in at]
    weights = [(1 - (a - b), a - b) for a, b in zip(at, bases, strict=True)]
    total: Any = 0
    for corner in product((0, 1), repeat=len(sizes)):
        weight = weights[0][corner[0]]
        for w, c in zip(weights[1:], corner[1:], strict=True):
            weight = weight * w[c]
        taken = _taken(x, [b + c for b, c in zip(bases, corner, strict=True)], sizes)
        total = total + taken * _of_channels(weight)
    return total


def _cubic(x: Any, at: Sequence[Any], sizes: Sequence[int], padding: str, align_corners: bool) -> Any:
    bases = [P.floor(a.detach()) for a in at]
    weights = [cubic_weights(a - b) for a, b in zip(at, bases, strict=True)]
    total: Any = 0
    for i, j in product(range(4), repeat=2):
        places = [_padded(b + (k - 1), s, padding, align_corners) for b, k, s in zip(bases, (i, j), sizes, strict=True)]
        total = total + _taken(x, places, sizes) * _of_channels(weights[0][i] * weights[1][j])
    return total


SAMPLERS = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}
PADDINGS = ("zeros", "border", "reflection")


def _composite(x: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Any:
    sizes = x.shape[2:]
    n = len(sizes)
    columns = [P.slice(grid, index=(slice(None), slice(None), n - 1 - k)) for k in range(n)]
    at = [_unnormalized(c, s, align_corners) for c, s in zip(columns, sizes, strict=True)]
    return SAMPLERS[mode](x, at, sizes, padding, align_corners)


def _result(x: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Abstract:
    return Abstract((*x.shape[:2], grid.shape[1]), x.dtype)


grid_sample = Fused("grid_sample", _composite, operands=("x", "grid"), abstract=_result)
