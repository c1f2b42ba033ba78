"""Linear maps that act on each dimension for itself: sums over windows, padding by copies, interpolation.

Each dimension has a sparse matrix, an `AxisMap`, and `resample` applies one to each of the last dimensions. The
transpose is the same primitive with the transposed matrices.
"""

import math
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract
from lucid.ops.categories import linear
from lucid.ops.rules import P, batched_to_front

Group = tuple[Any, Any, Any]  # targets, sources and weights (None for ones): arrays of one length


Index = Any  # a slice where possible, an array of positions elsewhere


class Piece(NamedTuple):
    """Part of a map: `out[target] += weight * x[source]`, with no place twice in `target`."""

    target: Index
    source: Index
    weight: Any  # None for ones
    is_first: bool  # nothing was written to these places before


def _index(positions: Any) -> Index:
    """Positions as a slice if they are evenly spaced."""
    first = int(positions[0])
    if len(positions) == 1:
        return slice(first, first + 1)
    step = int(positions[1]) - first
    if not is_even(positions):
        return positions
    stop = first + step * len(positions)
    return slice(first, stop if stop >= 0 else None, step)


def by_turns(targets: Any, sources: Any, weights: Any) -> Iterable[Group]:
    """Split a group so that no target stands in a part twice: all first occurrences, all second ones, and so on."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    turn = np.empty(len(targets), int)
    turn[order] = np.arange(len(targets)) - np.repeat(starts, np.diff(starts, append=len(targets)))
    for k in range(turn.max() + 1):
        chosen = turn == k
        yield targets[chosen], sources[chosen], None if weights is None else weights[chosen]


def is_even(positions: Any) -> bool:
    """Whether positions are evenly spaced, and all different."""
    steps = np.diff(positions)
    return len(steps) == 0 or bool(steps[0] != 0 and (steps == steps[0]).all())


class AxisMap:
    """A sparse matrix along one dimension, as pieces that are applied one after the other."""

    def __init__(self, size: int, out: int, groups: Iterable[Group]) -> None:
        self.size = size
        self.out = out
        self.groups = [g for g in groups if len(g[0])]
        seen = np.zeros(out, bool)
        written = np.zeros(out, bool)
        pieces = []
        for targets, sources, weights in self.groups:
            is_first = not seen[targets].any()
            pieces.append(Piece(_index(targets), _index(sources), weights, is_first))
            seen[targets] = True
            written[targets] |= is_first
        self.pieces = tuple(pieces)
        self.covers = bool(written.all())  # pieces that come first write to every place
        self.adds = not all(p.is_first for p in pieces)
        self.weighs = any(p.weight is not None for p in pieces)
        count = sum(len(t) for t, _, _ in self.groups)
        is_one = not self.weighs and count == size * out
        self.is_sum, self.is_spread = is_one and out == 1, is_one and size == 1

    def __repr__(self) -> str:
        return f"{self.size}->{self.out}"

    @cached_property
    def overlaps(self) -> bool:
        """Whether a source is read more than once."""
        sources = np.concatenate([s for _, s, _ in self.groups] or [np.zeros(0, int)])
        return len(np.unique(sources)) < len(sources)

    @cached_property
    def entries(self) -> tuple[Any, Any, Any]:
        """The elements of all places, one place after the other: where each begins, and all sources and weights."""
        if not self.groups:
            return np.zeros(self.out + 1, np.int64), np.zeros(0, np.int64), None
        targets, sources = (np.concatenate([g[k] for g in self.groups]) for k in (0, 1))
        order = np.argsort(targets, kind="stable")
        starts = np.searchsorted(targets[order], np.arange(self.out + 1)).astype(np.int64)
        given = [np.ones(len(t)) if w is None else w for t, _, w in self.groups] if self.weighs else []
        return starts, sources[order].astype(np.int64), np.concatenate(given)[order] if given else None

    @cached_property
    def transposed(self) -> "AxisMap":
        groups = [g for targets, sources, weights in self.groups for g in by_turns(sources, targets, weights)]
        back = AxisMap(self.out, self.size, groups)
        back.__dict__["transposed"] = self
        return back


Maps = tuple[AxisMap | None, ...]


_remember = lru_cache(maxsize=512)


def transposed(maps: Maps) -> Maps:
    return tuple(None if m is None else m.transposed for m in maps)


def mapped(x: Any, maps: Maps) -> Abstract:
    """What maps of the last dimensions give."""
    lead = x.ndim - len(maps)
    sizes = [n if m is None else m.out for n, m in zip(x.shape[lead:], maps, strict=True)]
    return Abstract((*x.shape[:lead], *sizes), x.dtype)


resample = linear(
    "resample",
    transpose=lambda ct, maps: P.resample(ct, maps=transposed(maps)),
    batch=lambda x, size, maps: P.resample(x, maps=maps),
    abstract=mapped,
    category="contraction",
)


# --- elements of planes --------------------------------------------------------------------------


def _batch_planes(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **params)


def _planes_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return prim(tangents[0], primals[1], **params)


# x[..., index[...]] along the last dimension, which has `size` elements.
plane_take = Primitive(
    "plane_take",
    operands=("x", "index"),
    rules=(lambda ct, index, size: P.plane_put(ct, index, size=size), None),
    jvp=_planes_jvp,
    batch=_batch_planes,
    abstract=lambda x, index, size: Abstract(index.shape, x.dtype),
    category="gather",
    positions=1,
)

# The transpose: values for one place add up.
plane_put = Primitive(
    "plane_put",
    operands=("y", "index"),
    rules=(lambda ct, index, size: P.plane_take(ct, index, size=size), None),
    jvp=_planes_jvp,
    batch=_batch_planes,
    abstract=lambda y, index, size: Abstract((*index.shape[:-1], size), y.dtype),
    category="scatter",
    positions=1,
)


# --- interpolation -------------------------------------------------------------------------------


class Sampling(NamedTuple):
    """How the places of a result lie over an input: place o is at `scale * (o + 0.5) - 0.5`, or `scale * o`."""

    size: int
    out: int
    scale: float  # input elements for each element of the result
    align_corners: bool = False

    def sources(self) -> Any:
        places = np.arange(self.out, dtype=float)
        return places * self.scale if self.align_corners else (places + 0.5) * self.scale - 0.5


@_remember
def nearest_map(size: int, out: int, scale: float, exact: bool) -> AxisMap:
    """Each place takes the element that it lies on: of its corner, or with `exact` of its centre."""
    places = np.arange(out)
    # In single precision, since that decides which element is the nearest at exact halves.
    reached = np.float32(scale) * (places + np.float32(0.5) if exact else places).astype(np.float32)
    sources = np.minimum(np.floor(reached).astype(int), size - 1)
    return AxisMap(size, out, [(places, sources, None)])


def _linear_weights(t: Any) -> list[Any]:
    return [1 - t, t]


def cubic_weights(t: Any, a: float = -0.75) -> list[Any]:
    """Keys' cubic convolution at distances 1 + t, t, 1 - t and 2 - t."""
    return [
        _cubic_outer(1 + t, a),
        _cubic_inner(t, a),
        _cubic_inner(1 - t, a),
        _cubic_outer(2 - t, a),
    ]


def _cubic_inner(t: Any, a: float) -> Any:
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _cubic_outer(t: Any, a: float) -> Any:
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


_WEIGHTS = {"linear": (_linear_weights, 0), "cubic": (cubic_weights, -1)}


@_remember
def interpolation_map(kind: str, sampling: Sampling) -> AxisMap:
    """Each place is a weighted sum of the elements around it: two for "linear", four for "cubic"; edges repeat."""
    weights_at, first = _WEIGHTS[kind]
    reached = sampling.sources()
    base = np.floor(reached).astype(int)
    groups: list[Group] = []
    for k, weights in enumerate(weights_at(reached - base)):
        groups += _evenly(sampling, base + first + k, weights)
    return AxisMap(sampling.size, sampling.out, groups)


def _evenly(sampling: Sampling, sources: Any, weights: Any) -> Iterable[Group]:
    """Groups that can be written as slices: places that recur with the period of the scale, and each edge for itself."""
    places = np.arange(sampling.out)
    inside = (sources >= 0) & (sources < sampling.size)
    period = sampling.out // math.gcd(sampling.out, sampling.size)
    period = period if period <= 8 else 1
    for phase in range(period):
        chosen = (places % period == phase) & inside & (weights != 0)
        yield places[chosen], sources[chosen], weights[chosen]
    for o in places[~inside & (weights != 0)]:
        yield places[o : o + 1], np.clip(sources[o : o + 1], 0, sampling.size - 1), weights[o : o + 1]


def _linear_filter(t: Any) -> Any:
    return np.maximum(1 - t, 0)


def _cubic_filter(t: Any) -> Any:
    return np.where(t < 1, _cubic_inner(t, -0.5), np.where(t < 2, _cubic_outer(t, -0.5), 0))


_FILTERS: dict[str, tuple[float, Callable[[Any], Any]]] = {"linear": (1, _linear_filter), "cubic": (2, _cubic_filter)}


@_remember
def antialias_map(kind: str, sampling: Sampling) -> AxisMap:
    """Each place is a weighted mean under the filter, which is stretched to cover what shrinking leaves out."""
    radius, weigh = _FILTERS[kind]
    stretch = max(sampling.scale, 1.0)
    centres = sampling.scale * (np.arange(sampling.out) + 0.5)
    low = np.maximum((centres - radius * stretch + 0.5).astype(int), 0)
    high = np.minimum((centres + radius * stretch + 0.5).astype(int), sampling.size)
    reach = int((high - low).max(initial=0))
    sources = low[:, None] + np.arange(reach)
    weights = weigh(np.abs(sources + 0.5 - centres[:, None]) / stretch) * (sources < high[:, None])
    weights = weights / weights.sum(1, keepdims=True)
    places = np.arange(sampling.out)
    groups = []
    for k in range(reach):
        chosen = weights[:, k] != 0
        groups.append((places[chosen], sources[chosen, k], weights[chosen, k]))
    return AxisMap(sampling.size, sampling.out, groups)
