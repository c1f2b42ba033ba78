"""Sums and maxima over windows of the last dimensions."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lucid.backends.numpy.nn.resampling import at, in_order
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.ops.nn.resampling import AxisMap, Maps


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype in dtypes.FLOATING else np.iinfo(dtype).min


def _max_along(x: Any, dim: int, axis: AxisMap) -> Any:
    shape = list(x.shape)
    shape[dim] = axis.out
    out = np.empty(shape, x.dtype) if axis.covers else np.full(shape, _lowest(x.dtype), x.dtype)
    for target, index, _, is_first in axis.pieces:
        place, values = at(dim, target), x[at(dim, index)]
        if is_first:
            out[place] = values
        elif isinstance(target, slice):
            part = out[place]
            np.maximum(part, values, out=part)
        else:
            out[place] = np.maximum(out[place], values)
    return out


def max_pool_array(x: Any, maps: Maps) -> Any:
    for dim, axis in in_order(maps):
        x = _max_along(x, dim, axis)
    return x if maps else x.copy()


class _Stage(NamedTuple):
    """One dimension of a maximum: what went in, and what came out."""

    dim: int
    axis: AxisMap
    source: Any
    result: Any


def _stages(x: Any, maps: Maps) -> list[_Stage]:
    """Innermost first: so the first of equals, found from the outside in, is the first row by row."""
    found = []
    for dim in range(-1, -len(maps) - 1, -1):
        axis = maps[dim]
        assert axis is not None
        found.append(_Stage(dim, axis, x, _max_along(x, dim, axis)))
        x = found[-1].result
    return found


def _hits(stage: _Stage) -> Iterator[tuple[Any, Any, Any]]:
    """For each piece its target and source, and where it brings the largest element, before any other one does."""
    free = np.ones(stage.result.shape, bool)
    nans = _last_nans(stage)
    for k, (target, index, _, _) in enumerate(stage.axis.pieces):
        place, source = at(stage.dim, target), at(stage.dim, index)
        less = stage.source[source] < stage.result[place]
        is_free = free[place]
        hit = is_free > less
        yield place, source, hit if nans is None else np.where(nans[place] < 0, hit, nans[place] == k)
        free[place] = is_free & less


def _last_nans(stage: _Stage) -> Any:
    """The number of the last piece that brings a nan to each place, -1 for those without; None if there are none."""
    if not (stage.result != stage.result).any():
        return None
    last = np.full(stage.result.shape, -1)
    for k, (target, index, _, _) in enumerate(stage.axis.pieces):
        values = stage.source[at(stage.dim, index)]
        last[at(stage.dim, target)] = np.where(values != values, k, last[at(stage.dim, target)])
    return last


def _bits(x: Any) -> Any:
    """Floats as integers: a bitwise `and` keeps or drops them whatever they are, without branches."""
    return x.view(f"i{x.dtype.itemsize}")


def max_pool_put_array(y: Any, x: Any, maps: Maps) -> Any:
    for stage in reversed(_stages(x, maps)):
        out = np.zeros(stage.source.shape, y.dtype)
        bits = _bits(y)
        for place, source, hit in _hits(stage):
            moved = (bits[place] & -hit.astype(bits.dtype)).view(y.dtype)
            if stage.axis.overlaps:
                out[source] += moved
            else:
                out[source] = moved
        y = out
    return y if maps else y.copy()


def max_pool_take_array(t: Any, x: Any, maps: Maps) -> Any:
    for stage in _stages(x, maps):
        out = np.zeros(stage.result.shape, t.dtype)
        into, bits = _bits(out), _bits(t)
        for place, source, hit in _hits(stage):
            into[place] |= bits[source] & -hit.astype(bits.dtype)
        t = out
    return t if maps else t.copy()


def max_pool_indices_array(x: Any, maps: Maps) -> Any:
    """Where in its plane each maximum stands; of equal ones the first."""
    axes = [axis for axis in maps if axis is not None]
    counts = [len(axis.pieces) for axis in axes]
    # Which piece of each dimension won, as one number: small ones, since NumPy is fastest on them.
    winner = np.zeros((1,) * x.ndim, np.min_scalar_type(math.prod(counts)))
    best = x
    for k, axis in enumerate(axes):
        best, winner = _best_along(best, winner, k - len(axes), axis)
    where: Any = 0
    step = 1
    for dim, axis, count in zip(range(-1, -len(axes) - 1, -1), reversed(axes), reversed(counts), strict=True):
        winner, piece = np.divmod(winner, winner.dtype.type(count))
        columns = np.arange(axis.out).reshape(-1, *(1,) * (-dim - 1))
        where = where + (_sources(axis) * step).reshape(-1).take(piece * np.int64(axis.out) + columns)
        step *= axis.size
    return where


@lru_cache(maxsize=512)
def _sources(axis: AxisMap) -> Any:
    """The element that each piece brings to each place."""
    found = np.zeros((len(axis.pieces), axis.out), np.int64)
    for k, (targets, sources, _) in enumerate(axis.groups):
        found[k, targets] = sources
    return found


def _best_along(x: Any, winner: Any, dim: int, axis: AxisMap) -> tuple[Any, Any]:
    """The largest element of each window along `dim`, and with those of the dimensions before, the pieces that won."""
    shape = list(x.shape)
    shape[dim] = axis.out
    best = np.full(shape, _lowest(x.dtype), x.dtype)
    found = np.zeros(shape, winner.dtype)
    before = np.broadcast_to(winner * winner.dtype.type(len(axis.pieces)), x.shape)
    is_outermost = winner.size == 1
    for k, (target, source, _, is_first) in enumerate(axis.pieces):
        place, index = at(dim, target), at(dim, source)
        new, number = x[index], before[index] + winner.dtype.type(k)
        if is_first:
            best[place], found[place] = new, number
            continue
        old, held = best[place], found[place]
        # Of equal elements the first counts, of several nan the last.
        better = (new > old) | (new != new)
        if not is_outermost:
            better |= (new == old) & (number < held)
            better &= (old == old) | (number > held)
        # held where not better, number where better, without branches: -1 has all bits set, 0 none.
        found[place] = held ^ ((held ^ number) & -better.astype(winner.dtype))
        best[place] = np.maximum(old, new)
    return best, found


fill(
    {
        "max_pool": max_pool_array,
        "max_pool_indices": max_pool_indices_array,
        "max_pool_put": max_pool_put_array,
        "max_pool_take": max_pool_take_array,
    }
)
