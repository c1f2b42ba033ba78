"""Order: sorting, ranks and quantiles, searching in sorted values, distinct values.

Positions come from primitives that are not differentiated; values are then read at them, so gradients flow
to the elements that were chosen.
"""

import math
from typing import Any

import numpy as np

from lucid.api import indexing
from lucid.api.counting import static_positions, taken_or
from lucid.api.reductions import chosen, pair, shown, unseen
from lucid.api.results import Kthvalue, Median, Mode, Nanmedian, Sort, Topk, ValuesIndices
from lucid.arguments.dims import numpy_names, one_dim
from lucid.arguments.promotion import KEEP, cast, in_single, lift_all, promote
from lucid.backends.numpy.sorting import comparable
from lucid.core import dtypes
from lucid.core.errors import ArgumentError
from lucid.core.primitive import apply, constant, element_type, lift
from lucid.core.tensor import Tensor, is_plain, of_class, shape_of, wrapped
from lucid.ops import unary
from lucid.ops.indexing import along, index_primitive, nonzero_positions
from lucid.ops.one_loop import one_loop
from lucid.ops.rules import P, is_array
from lucid.ops.sorting import kth_primitive, median_primitive, mode_primitive, nanmedian_primitive, topk_primitive
from lucid.ops.views import reshape


def _ordered(input: Any, dim: int, name: str) -> tuple[Tensor, int]:
    """The tensor as one that can be sorted along `dim`; 0-d tensors as vectors of one element."""
    x = lift(input)
    if element_type(x).kind == "c":
        raise RuntimeError(f"{name}: complex numbers have no order; sort by x.abs() or another real value")
    rank = len(shape_of(x))
    return (x if rank else P.reshape(x, shape=(1,))), one_dim(dim, rank, name)


def _read(
    kind: type[ValuesIndices], x: Tensor, positions: Tensor, dim: int, shape: tuple[int, ...] | None = None
) -> Any:
    """The elements at positions along `dim`, in `shape` if given."""
    values = apply(index_primitive, (x, *along(positions, shape_of(x), dim)), {})
    if shape is None or shape_of(values) == shape:
        return pair(kind, values, positions)
    return pair(kind, P.reshape(values, shape=shape), P.reshape(positions, shape=shape))


def _read_one(kind: type[ValuesIndices], x: Tensor, positions: Tensor, dim: int, keepdim: bool) -> Any:
    """The elements at one position each along `dim`, which then has size 1 or is gone."""
    if keepdim:
        return _read(kind, x, positions, dim)
    shape = shape_of(positions)
    return chosen(x, unseen(positions, shape[:dim] + shape[dim + 1 :]), dim, False, kind)


def _reduced_shape(input: Any, dim: int, keepdim: bool) -> tuple[int, ...]:
    """The shape without `dim`, or with size 1 there."""
    shape = lift(input).shape
    return tuple(1 if d == dim else n for d, n in enumerate(shape) if keepdim or d != dim)


@numpy_names
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Sort:
    """The elements in ascending or descending order along `dim`, and where they stood; nan counts as largest.

    Equal elements keep their order, whether `stable` is asked for or not.

    >>> import lucid
    >>> values, indices = lucid.sort(lucid.tensor([3.0, 1.0, 2.0]))
    >>> values, indices
    (Tensor([1., 2., 3.]), Tensor([1, 2, 0]))
    """
    x, d = _ordered(input, dim, "sort")
    return _read(Sort, x, P.argsort(x, dim=d, descending=descending), d, lift(input).shape)


@numpy_names
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions that put the elements in order along `dim`; equal elements keep their order.

    >>> import lucid
    >>> lucid.argsort(lucid.tensor([3.0, 1.0, 2.0]), descending=True)
    Tensor([0, 2, 1])
    """
    x, d = _ordered(input, dim, "argsort")
    return P.reshape(P.argsort(x, dim=d, descending=descending), shape=lift(input).shape)


def msort(input: Any) -> Tensor:
    """The elements in ascending order along dimension 0.

    >>> import lucid
    >>> lucid.msort(lucid.tensor([[3, 1], [2, 5]]))
    Tensor([[2, 1],
            [3, 5]])
    """
    return sort(input, 0).values


@numpy_names
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Topk:
    """The k largest (or smallest) elements along `dim`, best first, and where they stood.

    >>> import lucid
    >>> lucid.topk(lucid.tensor([3.0, 1.0, 2.0]), 2).values
    Tensor([3., 2.])
    """
    x, d = _ordered(input, dim, "topk")
    size = shape_of(x)[d]
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: k = {k} is out of range for dimension {d} of size {size}")
    values, positions = apply(topk_primitive, (x,), {"dim": d, "k": int(k), "largest": largest})
    if k and not shape_of(lift(input)):
        return pair(Topk, P.reshape(values, shape=()), P.reshape(positions, shape=()))
    return pair(Topk, values, positions)


@numpy_names
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Kthvalue:
    """The k-th smallest element along `dim`, with k counted from 1, and where it stood.

    >>> import lucid
    >>> lucid.kthvalue(lucid.tensor([3.0, 1.0, 2.0]), 2).values
    Tensor(2.)
    """
    x, d = _ordered(input, dim, "kthvalue")
    if not 1 <= k <= x.shape[d]:
        raise RuntimeError(f"kthvalue: k = {k} is out of range for dimension {d} of size {x.shape[d]}; k counts from 1")
    positions = apply(kth_primitive, (x,), {"dim": d, "k": int(k) - 1})
    return _read_one(Kthvalue, x, positions, d, keepdim and bool(shape_of(lift(input))))


def _median(input: Any, dim: int | None, keepdim: bool, name: str) -> Any:
    if dim is None:
        x, _ = _ordered(input, 0, name)
        if 0 in shape_of(x):
            return _median_of_nothing(x, name)
        if is_array(x):
            elements = reshape.kernel(x._array, (math.prod(shape_of(x)),))
            position = (median_primitive if name == "median" else nanmedian_primitive).kernel(elements, dim=0)
            return of_class((x,), wrapped(index_primitive.kernel(elements, reshape.kernel(position, ()))))
        flat = P.reshape(x, shape=(x.numel(),))
        return _shared(flat, _median(flat, 0, False, name).values)
    x, d = _ordered(input, dim, name)
    if not shape_of(x)[d]:
        raise IndexError(f"{name}: dimension {d} of shape {x.shape} has no elements to choose from")
    kind, prim = (Median, median_primitive) if name == "median" else (Nanmedian, nanmedian_primitive)
    return _read_one(kind, x, apply(prim, (x,), {"dim": d}), d, keepdim and bool(shape_of(lift(input))))


def _shared(x: Tensor, element: Tensor) -> Tensor:
    """One of the elements, with a derivative that all share that are equal to it, or nan as it is: as the largest of them."""
    if x.np_dtype not in dtypes.FLOATING:
        return element
    value = element.detach()
    is_equal = P.logical_or(P.eq(x, value), P.logical_and(P.isnan(x), P.isnan(value)))
    is_least = P.eq(value, -np.inf)  # which the others, as -inf, would be equal to
    found = P.amax(P.where(is_equal, P.where(is_least, P.neg(x), x), -np.inf), dims=(0,), keepdim=False)
    return P.where(is_least, P.neg(found), found)


def _median_of_nothing(x: Tensor, name: str) -> Tensor:
    if x.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name}: an empty tensor of {x.dtype} has no median")
    return Tensor._wrap(np.full((), np.nan, x.np_dtype))


@numpy_names
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; with `dim`, values and indices along it. A nan makes it nan.

    Without `dim`, elements that are equal to it share the gradient.

    >>> import lucid
    >>> lucid.median(lucid.tensor([4.0, 1.0, 3.0, 2.0]))
    Tensor(2.)
    """
    return _median(input, dim, keepdim, "median")


@numpy_names
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle one of the elements that are not nan, as `median`.

    >>> import lucid
    >>> lucid.nanmedian(lucid.tensor([4.0, float("nan"), 3.0]))
    Tensor(3.)
    """
    return _median(input, dim, keepdim, "nanmedian")


@numpy_names
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Mode:
    """The commonest element along `dim`, and where it stands last; of equally common ones the smallest.

    >>> import lucid
    >>> values, indices = lucid.mode(lucid.tensor([3.0, 1.0, 3.0, 2.0]))
    >>> values, indices
    (Tensor(3.), Tensor(2))
    """
    x, d = _ordered(input, dim, "mode")
    if not shape_of(x)[d]:
        raise IndexError(f"mode: dimension {d} of shape {x.shape} has no elements to choose from")
    return _read_one(Mode, x, apply(mode_primitive, (x,), {"dim": d}), d, keepdim and bool(shape_of(lift(input))))


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile_points(x: Tensor, q: Any, name: str) -> Tensor:
    """`q` in the type of `x`, checked."""
    if type(q) is float:
        points = wrapped(constant(q, x.np_dtype))
        if 0 <= points._array <= 1:
            return points
    else:
        points = q if isinstance(q, Tensor) else lift(np.asarray(q, x.np_dtype))
    if isinstance(q, Tensor) and points.np_dtype != x.np_dtype:
        raise RuntimeError(f"{name}: q is of {points.dtype} and the input of {x.dtype}; the types must agree")
    if points.ndim > 1:
        raise RuntimeError(f"{name}: q must be a number or a vector, not of shape {points.shape}")
    if is_plain(points) and not np.all((points._array >= 0) & (points._array <= 1)):
        raise RuntimeError(f"{name}: q must lie between 0 and 1, got {points.tolist()}")
    return cast(points, x.np_dtype)


def _quantile_rows(x: Tensor, dim: int | None, keepdim: bool, name: str) -> tuple[Tensor, tuple[int, ...]]:
    """The elements of each row, sorted, in the last dimension; and the shape of the result for one q."""
    if x.np_dtype not in dtypes.FLOATING:
        raise RuntimeError(f"{name} needs a floating-point tensor, not {x.dtype}; convert it, as in x.float()")
    if not x.numel():
        raise RuntimeError(f"{name}: the input of shape {x.shape} has no elements")
    if dim is None:
        rows, shape = P.reshape(x, shape=(x.numel(),)), (1,) * x.ndim if keepdim else ()
    else:
        d = one_dim(dim, x.ndim, name)
        rows = P.permute(x, dims=(*(e for e in range(x.ndim) if e != d), d)) if x.ndim else P.reshape(x, shape=(1,))
        shape = _reduced_shape(x, d, keepdim)
    return sort(rows).values, shape


def _between(rows: Tensor, ranks: Tensor, at_end: Tensor | None, interpolation: str) -> Tensor:
    """Elements of sorted rows at ranks that may lie between two; of some rows the last one."""
    if interpolation == "lower":
        return _at_ranks(rows, unary.floor(ranks), at_end)
    if interpolation == "higher":
        return _at_ranks(rows, unary.ceil(ranks), at_end)
    if interpolation == "nearest":
        return _at_ranks(rows, unary.round(ranks), at_end)
    below = unary.floor(ranks)
    low, high = _at_ranks(rows, below, at_end), _at_ranks(rows, unary.ceil(ranks), at_end)
    return _weighted(low, high, lift(np.asarray(0.5, rows.np_dtype)) if interpolation == "midpoint" else ranks - below)


@one_loop(3)
def _weighted(low: Any, high: Any, weight: Any) -> Any:
    """low + (high - low) · weight, counted from the nearer end, so that an infinity at the other one does not matter."""
    # Between two equal infinities there is no step; inf - inf would make one of nan.
    level = (low == high) & unary.isinf(low)
    step = P.where(level, 0, P.where(level, 0, high) - P.where(level, 0, low))
    return P.where(weight < 0.5, low + step * weight, high - step * (1 - weight))


def _at_ranks(rows: Tensor, ranks: Tensor, at_end: Tensor | None) -> Tensor:
    places = cast(ranks, dtypes.INT64)
    if at_end is not None:
        places = P.where(at_end, rows.shape[-1] - 1, places)
    return indexing.take_along_dim(rows, places, -1)


def _quantile(input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, name: str) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, not {interpolation!r}")
    x = in_single(lift(input))
    rows, shape = _quantile_rows(x, dim, keepdim, name)
    points = _quantile_points(x, in_single(q), name)
    nan = unary.isnan(rows)
    last = rows.shape[-1] - 1
    vector = P.reshape(points, shape=(points.numel(),))
    at_end = None
    if name == "quantile":  # nan stands at the end
        ranks, at_end = vector * last, P.any(nan, dims=(rows.ndim - 1,), keepdim=True)
    else:
        count = P.sum(cast(unary.logical_not(nan), x.np_dtype), dims=(rows.ndim - 1,), keepdim=True)
        ranks = P.where(count == 0, 0, vector * (count - 1))
    found = _between(rows, ranks, at_end, interpolation)
    found = P.permute(found, dims=(found.ndim - 1, *range(found.ndim - 1)))
    return P.reshape(found, shape=(*points.shape, *shape))


@numpy_names
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles along `dim`, or of all elements; a vector `q` makes a new first dimension.

    `interpolation` between two elements is linear, lower, higher, nearest or midpoint.

    >>> import lucid
    >>> lucid.quantile(lucid.tensor([1.0, 2.0, 3.0, 4.0]), lucid.tensor([0.25, 0.5]))
    Tensor([1.75, 2.5 ])
    """
    return _quantile(input, q, dim, keepdim, interpolation, "quantile")


@numpy_names
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of the elements that are not nan, as `quantile`.

    >>> import lucid
    >>> lucid.nanquantile(lucid.tensor([1.0, float("nan"), 3.0]), 0.5)
    Tensor(2.)
    """
    return _quantile(input, q, dim, keepdim, interpolation, "nanquantile")


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    """Where `values` would have to be inserted into the sorted last dimension to keep it sorted.

    Equal elements end up behind the value, or before it if `right`. Leading dimensions must agree, or the
    sequence be a vector. `sorter` holds the positions that sort a sequence that is not sorted.

    >>> import lucid
    >>> lucid.searchsorted(lucid.tensor([1.0, 3.0, 5.0]), lucid.tensor([3.0, 4.0]))
    Tensor([1, 2])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(f"searchsorted: side={side!r} and right={right}; side must be 'left' or 'right', and agree")
    sequence, found = lift(sorted_sequence), values
    if not isinstance(found, Tensor) or element_type(found) is not element_type(sequence):
        sequence, found = lift_all(*promote("searchsorted", (sequence, found), KEEP))
    if element_type(sequence).kind == "c":
        raise TypeError("searchsorted takes real tensors, not complex ones")
    rank = len(shape_of(sequence))
    if not rank:
        raise RuntimeError("searchsorted: the sorted sequence must have at least 1 dimension")
    if rank > 1 and shape_of(sequence)[:-1] != shape_of(found)[:-1]:
        raise RuntimeError(
            f"searchsorted: a sequence of shape {sequence.shape} does not fit values of shape {found.shape}; "
            "all dimensions but the last must agree, or the sequence be a vector"
        )
    if sorter is not None:
        order = lift(sorter)
        if order.shape != sequence.shape:
            raise RuntimeError(f"searchsorted: sorter of shape {order.shape} for a sequence of shape {sequence.shape}")
        sequence = indexing.take_along_dim(sequence, order, -1)
    places = apply(P.searchsorted, (sequence, found), {"right": bool(right) or side == "right"})
    return cast(places, dtypes.int32.numpy) if out_int32 else places


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries that each element falls into.

    An element on a boundary belongs to the bucket before it, or to the one behind if `right`.

    >>> import lucid
    >>> lucid.bucketize(lucid.tensor([0.5, 1.0, 7.0]), lucid.tensor([1.0, 5.0]))
    Tensor([0, 0, 2])
    """
    edges = lift(boundaries)
    if len(shape_of(edges)) != 1:
        raise RuntimeError(f"bucketize: boundaries must be a vector, not of shape {edges.shape}")
    return searchsorted(edges, input, out_int32=out_int32, right=right)


def _table(x: Tensor, dim: int | None, name: str) -> tuple[Any, int]:
    """The array as rows to be compared, and the dimension that they were taken along."""
    array = comparable(x._concrete(name))
    if dim is None:
        return array.reshape(-1, 1), 0
    d = one_dim(dim, x.ndim, name)
    if not x.ndim:
        raise IndexError(f"{name}: a 0-d tensor has no dim {dim}; leave dim out")
    if 0 in x.shape[:d] + x.shape[d + 1 :]:
        raise RuntimeError(f"{name}: shape {x.shape} has nothing to compare along dim {d}")
    rows = np.moveaxis(array, d, 0)
    return rows.reshape(len(rows), math.prod(rows.shape[1:])), d


def _starts(rows: Any, order: Any) -> Any:
    """Whether a run of equal rows begins at each place of an order."""
    if rows.shape[1] == 1:
        rows = rows[:, 0]
    ordered = rows if order is None else rows[order]
    new = np.empty(len(rows), bool)
    new[:1] = True
    differs = ordered[1:] != ordered[:-1]
    new[1:] = differs if differs.ndim == 1 else differs.any(axis=1)
    return new


def _lengths(starts: Any, count: int) -> Any:
    """How many of `count` rows are in each run."""
    found = np.empty(len(starts), np.int64)
    found[:-1] = starts[1:]
    found[-1:] = count
    found -= starts
    return found


def _runs(lengths: Any, order: Any) -> Any:
    """The run of each row."""
    inverse = np.repeat(np.arange(len(lengths)), lengths)  # a running sum of where runs begin takes three times as long
    if order is None:
        return inverse
    found = np.empty_like(inverse)
    found[order] = inverse
    return found


def _distinct(x: Tensor, rows: Any, order: Any, dim: int | None, return_inverse: bool, return_counts: bool) -> Any:
    """The first row of each group, read from the tensor itself, so that gradients reach it."""
    new = _starts(rows, order)
    starts = nonzero_positions(new, False)[0]
    first = Tensor._wrap(starts if order is None else order[starts])
    if dim is None:
        out = [apply(index_primitive, (shown(P.reshape, x, {"shape": (len(rows),)}), first), {})]
    else:
        out = [indexing.getitem(x, (*(slice(None),) * dim, first))]
    lengths = _lengths(starts, len(rows)) if return_inverse or return_counts else None
    if return_inverse:
        inverse = _runs(lengths, order)
        out.append(of_class((x,), Tensor._wrap(inverse.reshape(x.shape) if dim is None else inverse)))
    if return_counts:
        out.append(of_class((x,), Tensor._wrap(lengths)))
    return tuple(out) if len(out) > 1 else out[0]


def _distinct_of_size(x: Tensor, size: int, fill_value: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The same by operations whose shapes are known."""
    count = x.numel()
    flat = P.reshape(x, shape=(count,))
    order = argsort(flat, 0, stable=True)
    values = P.index(flat, order)
    before = P.index(values, Tensor._wrap(np.maximum(np.arange(count) - 1, 0)))
    is_first = P.logical_or(P.ne(values, before), Tensor._wrap(np.arange(count) == 0))
    places = static_positions(is_first, size, "unique")
    found = [taken_or(values, places, fill_value, "unique")]
    if return_inverse:
        numbers = P.sub(P.cumsum(cast(is_first, np.dtype(np.int64)), dim=0, reverse=False), 1)
        found.append(P.reshape(P.index(numbers, argsort(order, 0, stable=True)), shape=x.shape))
    if return_counts:
        ends = static_positions(is_first, size + 1, "unique")
        ends = P.where(P.ge(ends, 0), ends, count)
        found.append(P.sub(ends[1:], ends[:-1]))
    return tuple(found) if len(found) > 1 else found[0]


@numpy_names
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """The distinct elements, or slices along `dim`, in ascending order; every nan is distinct.

    With `return_inverse` also the number of the distinct element that each element equals, with `return_counts`
    how often each occurs. The gradient goes to the first of equal elements. With `size`, the first so many distinct
    elements, and `fill_value` for those that are missing, which occur 0 times: also in transforms and compiled
    functions, where a shape cannot depend on values.

    >>> import lucid
    >>> lucid.unique(lucid.tensor([3, 1, 3]), return_counts=True)
    (Tensor([1, 3]), Tensor([1, 2]))
    >>> lucid.unique(lucid.tensor([3, 1, 3]), size=3, fill_value=-1)
    Tensor([ 1,  3, -1])
    """
    x = lift(input)
    if size is not None:
        if dim is not None:
            raise NotImplementedError("unique: size= is for elements, and not for slices along a dim")
        return _distinct_of_size(x, size, fill_value, return_inverse, return_counts)
    rows, d = _table(x, dim, "unique")
    if rows.shape[1] == 1:
        order = P.argsort.kernel(rows[:, 0], dim=0, descending=False)
    else:
        order = np.lexsort(rows.T[::-1])
    return _distinct(x, rows, order, None if dim is None else d, bool(return_inverse), bool(return_counts))


@numpy_names
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or slices along `dim`, without those that equal the one before.

    >>> import lucid
    >>> lucid.unique_consecutive(lucid.tensor([1, 1, 2, 1]))
    Tensor([1, 2, 1])
    """
    x = lift(input)
    rows, d = _table(x, dim, "unique_consecutive")
    return _distinct(x, rows, None, None if dim is None else d, bool(return_inverse), bool(return_counts))
