"""Sums and maxima over windows of the last dimensions.

Sums are maps for each dimension, see `lucid.ops.nn.resampling`; a maximum over a window is the maximum of those along
its rows, so it goes one dimension at a time too.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes
from lucid.core.primitive import Primitive
from lucid.ops.nn.resampling import AxisMap, Group, Maps, at, by_turns, in_order, is_even
from lucid.ops.rules import P, batched_to_front


class Windows(NamedTuple):
    """Windows of one size along a dimension."""

    size: int  # of the input
    kernel: int
    stride: int
    padding: int  # on either side
    dilation: int
    out: int  # how many windows there are

    def taps(self) -> Iterator[Any]:
        """What each window reads, tap by tap; places in the padding are negative or too large."""
        starts = np.arange(self.out) * self.stride - self.padding
        return (starts + tap * self.dilation for tap in range(self.kernel))

    def counts(self, include_pad: bool) -> Any:
        """How many elements each window has, those of the padding among them or not."""
        starts = np.arange(self.out) * self.stride - self.padding
        stops = np.minimum(starts + self.kernel, self.size + self.padding)
        if not include_pad:
            starts, stops = np.maximum(starts, 0), np.minimum(stops, self.size)
        return stops - starts


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Windows:
    """The windows that fit, in `ceil_mode` also one that begins inside but ends outside; `out` may be less than 1."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:
        out -= 1
    return Windows(size, kernel, stride, padding, dilation, out)


class EqualShares(NamedTuple):
    """Windows that cover a dimension, as equal as they can be: number i goes from ⌊i·n/m⌋ to ⌈(i + 1)·n/m⌉."""

    size: int
    out: int

    def _bounds(self) -> tuple[Any, Any]:
        edges = np.arange(self.out + 1) * self.size
        return edges[:-1] // max(self.out, 1), -(-edges[1:] // max(self.out, 1))

    def taps(self) -> Iterator[Any]:
        starts, stops = self._bounds()
        longest = int((stops - starts).max(initial=0))
        return (np.where(starts + tap < stops, starts + tap, -1) for tap in range(longest))

    def counts(self, include_pad: bool) -> Any:
        starts, stops = self._bounds()
        return stops - starts


AnyWindows = Windows | EqualShares


@lru_cache(maxsize=512)
def window_map(w: AnyWindows) -> AxisMap:
    """Sums over windows along one dimension, one piece for each tap, or more where windows are not evenly spaced."""
    places = np.arange(w.out)
    groups: list[Group] = []
    for sources in w.taps():
        inside = (sources >= 0) & (sources < w.size)
        groups += _distinct(places[inside], sources[inside])
    return AxisMap(w.size, w.out, groups)


def _distinct(places: Any, sources: Any) -> list[Group]:
    """Groups in which no source stands twice, of single elements where that is as good."""
    if not len(places) or is_even(sources):
        return [(places, sources, None)]
    if len(places) <= 64:
        return [(places[k : k + 1], sources[k : k + 1], None) for k in range(len(places))]
    return [(p, s, None) for s, p, _ in by_turns(sources, places, None)]


@lru_cache(maxsize=512)
def window_counts(found: tuple[AnyWindows, ...], include_pad: bool) -> Any:
    """The number of elements in each window: one number if they agree, or an array over all dimensions."""
    total: Any = np.ones((), np.int64)
    for w in found:
        total = np.multiply.outer(total, w.counts(include_pad))
    return total if total.size and np.any(total != total.flat[0]) else int(total.max(initial=1))


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


def _max_pool_array(x: Any, maps: Maps) -> Any:
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


def _max_pool_put_array(y: Any, x: Any, maps: Maps) -> Any:
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


def _max_pool_take_array(t: Any, x: Any, maps: Maps) -> Any:
    for stage in _stages(x, maps):
        out = np.zeros(stage.result.shape, t.dtype)
        into, bits = _bits(out), _bits(t)
        for place, source, hit in _hits(stage):
            into[place] |= bits[source] & -hit.astype(bits.dtype)
        t = out
    return t if maps else t.copy()


def _max_pool_indices_array(x: Any, maps: Maps) -> Any:
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


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return None if tangents[0] is None else prim(tangents[0], primals[1], **params)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **params)


max_pool = Primitive(
    "max_pool",
    _max_pool_array,
    rules=(lambda ct, x, maps: P.max_pool_put(ct, x, maps=maps),),
    jvp=lambda prim, primals, tangents, out, params: P.max_pool_take(tangents[0], primals[0], **params),
    batch=_batch,
)

max_pool_indices = Primitive("max_pool_indices", _max_pool_indices_array, batch=_batch)

# Elements of y at the places where the largest ones of x stand, and its transpose: elements of t from those places.
max_pool_put = Primitive(
    "max_pool_put",
    _max_pool_put_array,
    operands=("y", "x"),
    rules=(lambda ct, x, maps: P.max_pool_take(ct, x, maps=maps), None),
    jvp=_push,
    batch=_batch,
)

max_pool_take = Primitive(
    "max_pool_take",
    _max_pool_take_array,
    operands=("t", "x"),
    rules=(lambda ct, x, maps: P.max_pool_put(ct, x, maps=maps), None),
    jvp=_push,
    batch=_batch,
)
