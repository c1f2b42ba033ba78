"""Counts: histograms, occurrences, membership, and the positions of elements."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.api import reductions
from lucid.api.creation import evenly, evenly_between
from lucid.api.joining import stack
from lucid.arguments.dims import shape_from
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import KEEP, beside, cast, lift_all, promote, raise_if_outside
from lucid.core import dtypes
from lucid.core.device import as_device
from lucid.core.errors import ArgumentError
from lucid.core.levels import tracing
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, is_plain, of_class
from lucid.kinds.kind import NeedsValueError
from lucid.ops.counting import occurrences, triangle_positions
from lucid.ops.indexing import in_range, nonzero_positions
from lucid.ops.rules import P, broadcast_to


class Histogram(NamedTuple):
    """Counts and the edges between which they were made."""

    hist: Tensor
    bin_edges: Tensor


class HistogramDD(NamedTuple):
    """Counts on a grid and the edges along each of its dimensions."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _floats(input: Any, name: str) -> Tensor:
    x = lift(input)
    if x.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name} takes floating-point tensors, not {x.dtype}; convert them, as in x.float()")
    return x


def _raise_if_endless(low: Any, high: Any, name: str) -> None:
    if not math.isfinite(low) or not math.isfinite(high) or low > high:
        raise RuntimeError(f"{name}: the range from {low} to {high} must be finite and ascending")


def _even_edges(flat: Tensor, count: int, low: Any, high: Any, half: float, name: str) -> Tensor:
    """Edges of `count` bins of one width; a range of one point is widened by `half` to both sides."""
    if count < 1:
        raise RuntimeError(f"{name}: the number of bins must be positive, got {count}")
    if low is None:
        if not flat.numel():
            low, high = 0.0, 1.0 if half == 0.5 else 0.0
        else:
            low, high = (P.reshape(e(flat, 0), shape=(1,)) for e in (reductions.amin, reductions.amax))
            if is_plain(flat):
                _raise_if_endless(low.item(), high.item(), name)
    else:
        _raise_if_endless(low, high, name)
    if not isinstance(low, Tensor):
        low, high = (low - half, high + half) if low == high else (low, high)
        return of_class((flat,), Tensor._wrap(evenly(low, high, count + 1).astype(flat.np_dtype)))
    if is_plain(low) and low.item() != high.item() and not low.requires_grad and not tracing():
        return of_class((flat,), Tensor._wrap(evenly(low.item(), high.item(), count + 1).astype(flat.np_dtype)))
    one = low == high
    low, high = P.where(one, low - half, low), P.where(one, high + half, high)
    wide = np.dtype(np.float64)
    return cast(evenly_between(cast(low, wide), cast(high, wide), count + 1), flat.np_dtype)


def _totals(numbers: Tensor, count: int, weights: Tensor | None, dtype: np.dtype[Any]) -> Tensor:
    """How much weight falls on each of `count` numbers; larger ones are dropped."""
    if weights is None:  # counted in integers: in single precision, 2²⁴ + 1 is 2²⁴
        if is_plain(numbers) and not tracing():
            found = Tensor._wrap(occurrences(numbers._array, count + 1)[:count])
            return cast(of_class((numbers,), found), dtype)
        one = Tensor._wrap(np.ones((), dtypes.INT64))
        return cast(_totals(numbers, count, one, dtypes.INT64), dtype)
    zeros = Tensor._wrap(np.zeros(count + 1, dtype))
    return P.slice(P.index_put(zeros, weights, numbers, accumulate=True), index=(slice(0, count),))


@takes_out
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal intervals from `min` to `max`; others are not counted.

    With both limits the same, they are the smallest and the largest element.

    >>> import lucid
    >>> lucid.histc(lucid.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    Tensor([0., 2., 1., 0.])
    """
    x = _floats(input, "histc")
    flat = P.reshape(x, shape=(x.numel(),))
    low, high = (None, None) if min == max and x.numel() else (float(min), float(max))
    edges = _even_edges(flat, bins, low, high, 1.0, "histc")
    return _totals(P.bin_numbers(flat, edges, even=True), bins, None, x.np_dtype)


def _given_edges(edges: Any, x: Tensor, name: str) -> Tensor:
    found = beside(edges, x.np_dtype)
    if found.ndim != 1 or found.np_dtype != x.np_dtype:
        raise RuntimeError(
            f"{name}: the edges must be a vector of {x.dtype}, as the input, not of shape {found.shape} of {found.dtype}"
        )
    if found.shape[0] < 2:
        raise RuntimeError(f"{name}: {found.shape[0]} edges leave no bin between them")
    if is_plain(found) and not (found._array[1:] >= found._array[:-1]).all():
        raise RuntimeError(f"{name}: the edges must ascend, got {found.tolist()}")
    return found


def _weight(weight: Any, x: Tensor, shape: tuple[int, ...], name: str) -> Tensor | None:
    if weight is None:
        return None
    found = beside(weight, x.np_dtype)
    if found.shape != shape or found.np_dtype != x.np_dtype:
        raise RuntimeError(
            f"{name}: weight must have shape {shape} and be of {x.dtype}, not shape {found.shape} of {found.dtype}"
        )
    return P.reshape(found, shape=(found.numel(),))


def _density(hist: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """Counts as a density whose integral is 1."""
    hist = hist / P.sum(hist, dims=tuple(range(hist.ndim)), keepdim=False)
    for d, e in enumerate(edges):
        widths = P.slice(e, index=(slice(1, None),)) - P.slice(e, index=(slice(None, -1),))
        hist = hist / P.reshape(widths, shape=tuple(-1 if k == d else 1 for k in range(hist.ndim)))
    return hist


def histogram(
    input: Any, bins: Any = 100, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Histogram:
    """Counts of elements between edges: a number of equal bins over `range`, or the edges themselves.

    Without `range`, it is that of the elements. `weight` is what each element counts for. `density` divides by the
    total and by the widths of the bins. Gradients flow to the weights, and to the elements that the edges depend on.

    >>> import lucid
    >>> hist, edges = lucid.histogram(lucid.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0))
    >>> hist, edges
    (Tensor([0., 2., 1., 0.]), Tensor([0.  , 0.75, 1.5 , 2.25, 3.  ]))
    """
    x = _floats(input, "histogram")
    edges = [bins] if isinstance(bins, Tensor) else [bins.__index__() if hasattr(bins, "__index__") else lift(bins)]
    flat = P.reshape(x, shape=(x.numel(), 1))
    weights = _weight(weight, x, x.shape, "histogram")
    hist, found = _grid(flat, edges, range, weights, density, "histogram")
    return Histogram(hist, found[0])


def _grid(
    points: Tensor, bins: Sequence[Any], range: Any, weights: Tensor | None, density: bool, name: str
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The histogram of points, the rows of a matrix, and its edges."""
    given = isinstance(bins[0], Tensor)
    if range is not None and (given or len(range) != 2 * len(bins)):
        raise RuntimeError(
            f"{name}: range must have a lower and an upper limit for each of {len(bins)} dimensions, "
            "and is not wanted where the edges are given"
        )
    edges: list[Tensor] = []
    place: Any = None
    inside: Any = None
    for d, b in enumerate(bins):
        column = P.slice(points, index=(slice(None), d))
        low, high = (None, None) if range is None else (float(range[2 * d]), float(range[2 * d + 1]))
        edges.append(_given_edges(b, points, name) if given else _even_edges(column, b, low, high, 0.5, name))
        numbers = P.bin_numbers(column, edges[-1], even=not given)
        count = edges[-1].shape[0] - 1
        place = numbers if place is None else place * count + numbers
        if len(bins) > 1:
            inside = numbers < count if inside is None else inside & (numbers < count)
    shape = tuple(e.shape[0] - 1 for e in edges)
    total = math.prod(shape)
    if inside is not None:
        place = P.where(inside, place, total)
    hist = P.reshape(_totals(place, total, weights, points.np_dtype), shape=shape)
    return (_density(hist, edges) if density else hist), tuple(edges)


def histogramdd(
    input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> HistogramDD:
    """Counts of points, which stand in the last dimension, in the cells of a grid.

    `bins` is a number of bins for all coordinates, or for each its number or its edges; `range` has a lower and an
    upper limit for each coordinate. `weight` and `density` are as in `histogram`.

    >>> import lucid
    >>> points = lucid.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    >>> lucid.histogramdd(points, bins=[3, 3], weight=lucid.tensor([1.0, 2.0, 4.0, 8.0])).hist
    Tensor([[0., 1., 0.],
            [2., 0., 0.],
            [4., 0., 8.]])
    """
    x = _floats(input, "histogramdd")
    if x.ndim < 2:
        raise ArgumentError(f"histogramdd: expected points in the last of at least 2 dimensions, not shape {x.shape}")
    width = x.shape[-1]
    each = [bins] * width if hasattr(bins, "__index__") and not isinstance(bins, Tensor) else list(bins)
    if len(each) != width or not width:
        raise RuntimeError(f"histogramdd: bins for {len(each)} coordinates, but the points have {width}")
    points = P.reshape(x, shape=(x.numel() // width, width))
    return HistogramDD(
        *_grid(points, each, range, _weight(weight, x, x.shape[:-1], "histogramdd"), density, "histogramdd")
    )


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Counts of pairs in the cells of a grid, and its edges along both coordinates, as `numpy.histogram2d` gives them.

    `bins` is a number or a pair, `range` a pair of limits for each coordinate, by default the extent of the data.

    >>> import lucid
    >>> lucid.histogram2d(lucid.tensor([0.0, 1.0, 2.0]), lucid.tensor([0.0, 1.0, 1.0]), bins=2)[0]
    Tensor([[1., 0.],
            [0., 2.]])
    """
    points = stack([lift(x), lift(y)], -1)
    limits = None if range is None else [float(limit) for pair in range for limit in pair]
    counts, edges = histogramdd(
        points, [bins, bins] if hasattr(bins, "__index__") else bins, range=limits, density=density
    )
    return counts, edges[0], edges[1]


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest occurs, or the sum of `weights` where it does.

    Under vmap all examples have results of one length, so that `minlength` must be given and above all numbers.

    >>> import lucid
    >>> lucid.bincount(lucid.tensor([1, 3, 1]))
    Tensor([0, 2, 0, 1])
    >>> lucid.bincount(lucid.tensor([1, 0, 1]), weights=lucid.tensor([0.5, 1.0, 2.0]))
    Tensor([1. , 2.5])
    """
    x = lift(input)
    if x.np_dtype.kind not in "iu" or x.ndim != 1:
        raise RuntimeError(f"bincount: expected a vector of integers, not shape {x.shape} of {x.dtype}")
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength must not be negative, got {minlength}")
    try:
        numbers = x._concrete("bincount")
    except NeedsValueError:
        if not minlength:
            raise
        numbers = None
    if numbers is not None:
        found = occurrences(numbers, minlength)
        if found is None:
            raise RuntimeError(f"bincount: expected numbers from 0 up, but there is {numbers.min()}")
        count = len(found)
        if weights is None:
            return of_class((x,), Tensor._wrap(found))
    else:
        x, count = in_range(x, minlength, "bincount with a minlength inside vmap", negative=False), minlength
        if weights is None:
            return _totals(x, count, None, dtypes.INT64)
    amounts = lift(weights)
    if amounts.shape != x.shape:
        raise RuntimeError(f"bincount: weights have shape {amounts.shape} and the input {x.shape}; they must agree")
    kind = amounts.np_dtype if amounts.np_dtype == np.float32 else np.dtype(np.float64)
    return _totals(x, count, cast(amounts, kind), kind)


@takes_out
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements are among `test_elements`, or with `invert` which are not.

    `assume_unique` promises that neither has an element twice, which is faster.

    >>> import lucid
    >>> lucid.isin(lucid.tensor([[1, 2], [3, 4]]), lucid.tensor([2, 3]))
    Tensor([[False,  True],
            [ True, False]])
    """
    x, test = promote("isin", lift_all(elements, test_elements), KEEP)
    if x.is_complex():
        raise TypeError("isin takes real tensors, not complex ones")
    return P.isin(x, test, invert=bool(invert), assume_unique=bool(assume_unique))


def nonzero(input: Any, *, as_tuple: bool = False, size: int | None = None, fill_value: int = -1) -> Any:
    """Where the elements are not zero: one row of positions for each, or one vector for each dimension.

    With `size`, the first so many of them, and `fill_value` for those that are missing: also in transforms and compiled
    functions, where a shape cannot depend on values.

    >>> import lucid
    >>> lucid.nonzero(lucid.tensor([[0, 5], [6, 0]]))
    Tensor([[0, 1],
            [1, 0]])
    >>> lucid.nonzero(lucid.tensor([0, 5, 6]), size=3, as_tuple=True)
    (Tensor([ 1,  2, -1]),)
    """
    x = lift(input)
    if size is not None:
        if size < 0:
            raise ValueError(f"nonzero: size must not be negative, got {size}")
        x = x if x.ndim or not as_tuple else P.reshape(x, shape=(1,))
        rows = P.nonzero_static(x, lead=0, size=int(size), fill=int(fill_value))
        return tuple([rows[:, d] for d in range(rows.shape[1])]) if as_tuple else rows
    array = x._concrete("nonzero")
    if as_tuple:
        found = nonzero_positions(array if array.ndim else array.reshape(1), False)
        return tuple([of_class((x,), Tensor._wrap(f)) for f in found])
    return of_class((x,), Tensor._wrap(nonzero_positions(array, True)))


def argwhere(input: Any) -> Tensor:
    """Where the elements are not zero, one row of positions for each.

    >>> import lucid
    >>> lucid.argwhere(lucid.tensor([0.0, 2.0, 3.0]))
    Tensor([[1],
            [2]])
    """
    return nonzero(input)


def static_positions(flat: Tensor, size: int, name: str) -> Tensor:
    """The positions of the first `size` elements of a vector that are not zero, and -1 for those that are missing."""
    if size < 0:
        raise ValueError(f"{name}: size must not be negative, got {size}")
    return P.reshape(P.nonzero_static(flat, lead=0, size=int(size), fill=-1), shape=(int(size),))


def taken_or(flat: Tensor, places: Tensor, fill_value: Any, name: str) -> Tensor:
    """The elements of a vector at positions, and `fill_value` where these are -1."""
    raise_if_outside(fill_value, flat.np_dtype, name)
    there, fill = P.ge(places, 0), cast(lift(fill_value), flat.np_dtype)
    if not flat.shape[0]:
        return broadcast_to(fill, places.shape)
    return P.where(there, P.index(flat, P.where(there, places, 0)), fill)


@takes_out
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions of the first `size` elements that are not zero, one row for each; missing rows are filled.

    >>> import lucid
    >>> lucid.nonzero_static(lucid.tensor([0.0, 2.0, 3.0]), size=3)
    Tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {size}")
    return P.nonzero_static(lift(input), lead=0, size=int(size), fill=int(fill_value))


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor of this shape as positions along each of its dimensions.

    >>> import lucid
    >>> lucid.unravel_index(lucid.tensor([4, 1]), (3, 2))
    (Tensor([2, 0]), Tensor([0, 1]))
    """
    found = lift(indices)
    sizes = shape_from((shape,), "unravel_index")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got {sizes}")
    if found.np_dtype.kind not in "iu":
        raise ValueError(f"unravel_index: positions are integers, not {found.dtype}")
    rest: Any = in_range(found, math.prod(sizes), "unravel_index", negative=False)
    places = []
    for n in reversed(sizes):
        places.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    return tuple(reversed(places))


def tril_indices(
    row: int, col: int | None = None, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None
) -> Tensor:
    """Positions of the lower triangle of a matrix, rows above columns; `offset` is the last diagonal taken.

    >>> import lucid
    >>> lucid.tril_indices(2, 2)
    Tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle(True, row, row if col is None else col, offset, dtype, device, "tril_indices")


def triu_indices(
    row: int, col: int | None = None, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None
) -> Tensor:
    """Positions of the upper triangle of a matrix, rows above columns; `offset` is the first diagonal taken.

    >>> import lucid
    >>> lucid.triu_indices(2, 2)
    Tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle(False, row, row if col is None else col, offset, dtype, device, "triu_indices")


def _triangle(is_lower: bool, row: int, col: int, offset: int, dtype: Any, device: Any, name: str) -> Tensor:
    as_device(device)
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: sizes must not be negative, got {row} and {col}")
    kind = dtypes.as_numpy(dtype)
    if kind not in (np.int32, np.int64):
        raise RuntimeError(f"{name}: positions are of int32 or int64, not {dtypes.of_numpy(kind)}")
    return Tensor._wrap(triangle_positions(row, col, offset, is_lower).astype(kind, copy=False))
