"""Sums and maxima over windows of the last dimensions.

Sums are maps for each dimension, see `lucid.ops.nn.resampling`; a maximum over a window is the maximum of those along
its rows, so it goes one dimension at a time too.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes
from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract
from lucid.ops.nn.resampling import AxisMap, Group, by_turns, is_even, mapped
from lucid.ops.reductions import LARGEST, lowest, place_of
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


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return None if tangents[0] is None else prim(tangents[0], primals[1], **params)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **params)


max_pool = Primitive(
    "max_pool",
    rules=(lambda ct, x, maps: P.max_pool_put(ct, x, maps=maps),),
    jvp=lambda prim, primals, tangents, out, params: P.max_pool_take(tangents[0], primals[0], **params),
    batch=_batch,
    abstract=mapped,
    category="reduction",
    fold=LARGEST,
)

max_pool_indices = Primitive(
    "max_pool_indices",
    batch=_batch,
    abstract=lambda x, maps: mapped(x, maps)._replace(dtype=dtypes.INT64),
    category="reduction",
    # The first of equals, and the last nan, in its plane.
    fold=place_of(lambda a, b: a > b, lowest, last=True),
)

# Elements of y at the places where the largest ones of x stand, and its transpose: elements of t from those places.
max_pool_put = Primitive(
    "max_pool_put",
    operands=("y", "x"),
    rules=(lambda ct, x, maps: P.max_pool_take(ct, x, maps=maps), None),
    jvp=_push,
    batch=_batch,
    abstract=lambda y, x, maps: Abstract(x.shape, y.dtype),
    category="scatter",
)

max_pool_take = Primitive(
    "max_pool_take",
    operands=("t", "x"),
    rules=(lambda ct, x, maps: P.max_pool_put(ct, x, maps=maps), None),
    jvp=_push,
    batch=_batch,
    abstract=lambda t, x, maps: mapped(t, maps),
    category="gather",
)
