"""Rows of the table for statistics, distances, differences, strides, assembly and placement; see `samples`."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
from samples import (
    ANY_TYPE,
    BOOLS,
    FOLDS,
    INTS,
    PAIRS,
    VALUES_INDICES,
    Array,
    Domain,
    Make,
    Row,
    Sample,
    Samples,
    calls,
    every,
    in_place,
    kink,
    numpy_reduction,
    p_norm,
    pairs,
    pieces,
    s,
    variance,
    with_unbiased,
)
from samples import mean as mean_of

import lucid
from lucid.core import dtypes

SIGNED = ("int64", "int32")  # differences of unsigned integers wrap


def row(name: str, ref: Callable[..., Any], samples: Samples, **flags: Any) -> Row:
    """A row for a public function."""
    return Row(name, flags.pop("op", None) or getattr(lucid, name), ref, samples, **flags)


def of_floats(make: Make) -> bool:
    return make.kind >= dtypes.CATEGORY_FLOAT


# --- statistics ----------------------------------------------------------------------------------


def observations(make: Make) -> Iterator[Sample]:
    yield s(make(3, 5))
    yield s(make(5))
    yield s(make(5, 2).T)
    yield s(make(2, 3), correction=0)
    yield s(make(1, 3))
    times = np.array([1, 2, 0, 3, 1])
    yield s(make(2, 5), times)
    if of_floats(make):
        yield s(make(2, 5), None, make.real(5))
        yield s(make(2, 5), times, make.real(5))
        yield s(make(2, 5), times, make.real(5), correction=0)


def covariance(x: Array, fweights: Any = None, aweights: Any = None, correction: int = 1) -> Array:
    """The definition, written out for weights that finite differences move."""
    x = np.atleast_2d(x)
    weights = np.ones(x.shape[1]) if fweights is None else fweights.astype(float)
    sure = np.ones(x.shape[1]) if aweights is None else aweights
    weights = weights * sure
    total = weights.sum() if x.size else np.nan
    centred = x - (x * weights).sum(1, keepdims=True) / total
    less = correction * ((weights * sure).sum() / total if aweights is not None else 1)
    out = (centred * weights) @ centred.conj().T / np.maximum(total - less, 0)
    return out.reshape(()) if out.size == 1 else out


def weighted(x: Any, fweights: Any = None, aweights: Any = None, **kwargs: Any) -> Any:
    return lucid.cov(x, fweights=fweights, aweights=aweights, **kwargs)


def matrices(make: Make) -> Iterator[Sample]:
    yield s(make(3, 5))
    yield s(make(5, 2).T)


def spreads(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3))
    yield s(make(2, 3), False)
    yield s(make(2, 3), 1, False, True)
    yield s(make(2, 1, 3), (0, 2))
    yield s(make(3, 2).T, dim=0, correction=0)


def with_mean(spread: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Array, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **kwargs: Any) -> Any:
        dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
        return (
            with_unbiased(spread)(x, dim, unbiased, keepdim, **kwargs),
            numpy_reduction(lambda x, axis, keepdims: mean_of(x, axis, keepdims))(x, dim, keepdim),
        )

    return call


def extremes(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3))
    yield s(make.spread(2, 3), dim=1)
    yield s(make.spread(3, 2).T, dim=0, keepdim=True)
    yield s(make())
    yield kink(make.at(1, 1, 0))


def most_common(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, np.array(0)
    rows = np.moveaxis(x, dim, -1)
    places = np.zeros(rows.shape[:-1], np.int64)
    for i in np.ndindex(places.shape):
        found, counts = np.unique(rows[i], return_counts=True)
        places[i] = np.flatnonzero(rows[i] == found[np.argmax(counts)])[-1]
    places = np.expand_dims(places, dim)
    values = np.take_along_axis(x, places, dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def modes(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3))
    yield s(make.spread(3, 2), dim=0, keepdim=True)
    yield s(make())
    yield kink(make.at([3, 1, 3, 1, 2], [2, 2, 2, 0, 0], [1, 0, 3, 2, 5]))


STATISTICS = [
    row("cov", covariance, observations, op=weighted, domain=Domain(0.5, 2), result="float", complex=True, ints=INTS),
    row("corrcoef", np.corrcoef, matrices, result="float", complex=True, ints=INTS),
    row("var_mean", with_mean(variance), spreads, complex=True, result=("float real", "float"), ints=BOOLS),
    row("std_mean", with_mean(lambda *a, **k: np.sqrt(variance(*a, **k))), spreads, complex=True,
        result=("float real", "float"), ints=BOOLS, pins=((([2.0, 2.0],), ([0.5, 0.5],)),)),
    row("aminmax", lambda x, dim=None, keepdim=False: tuple(
        f(x, axis=dim if x.ndim else None, keepdims=keepdim) for f in (np.min, np.max)), extremes, ints=BOOLS,
        pins=((([1.0, 1.0, 0.0],), ([0.5, 0.5, 1],)),)),
    row("mode", most_common, modes, result=VALUES_INDICES, ints=BOOLS),
]  # fmt: skip

# --- differences ---------------------------------------------------------------------------------


def differences(make: Make) -> Iterator[Sample]:
    yield s(make(2, 5))
    yield s(make(3, 5), 2, 0)
    yield s(make(2, 3), n=0)
    yield s(make(2, 3), n=3)
    yield s(make(5, 2).T, 1, -1, make(2, 1), make(2, 2))
    yield s(make(3), 1, 0, None, make(1))
    yield s(make(0), 1, 0, make(2))


def differences_of(x: Array, n: int = 1, dim: int = -1, before: Any = None, behind: Any = None) -> Array:
    parts = [p for p in (before, x, behind) if p is not None] if n else [x]
    x = np.concatenate(parts, axis=dim) if len(parts) > 1 else x
    return np.diff(x, n, dim)


def sampled(make: Make) -> Iterator[Sample]:
    yield s(make(5))
    yield s(make(3, 5))
    yield s(make(3, 5), dim=1, edge_order=2)
    yield s(make(5, 3).T, dim=(0, 1), spacing=0.5)
    yield s(make(3, 5), dim=(1, 0), spacing=(2.0, 0.5), edge_order=2)
    if of_floats(make):
        points = np.array([-2.0, -1.0, 0.5, 0.75, 2.0]).astype(make.real(1).dtype)
        yield s(make(5), points)
        yield s(make(5, 2), points, dim=0, edge_order=2)
        yield s(make(5, 3), points, points[1:4].copy(), edge_order=2)


def slopes(x: Any, *points: Any, dim: Any = None, spacing: Any = None, edge_order: int = 1) -> Any:
    return lucid.gradient(x, spacing=list(points) or spacing, dim=dim, edge_order=edge_order)


def numpy_slopes(x: Array, *points: Any, dim: Any = None, spacing: Any = None, edge_order: int = 1) -> Any:
    steps = points or (spacing if isinstance(spacing, tuple) else () if spacing is None else (spacing,))
    found = np.gradient(x, *steps, axis=dim, edge_order=edge_order)
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def curves(make: Make) -> Iterator[Sample]:
    yield s(make(5))
    yield s(make(2, 3), dim=0, dx=0.5)
    yield s(make(2, 3), make.real(3))
    yield s(make(3, 2).T, make.real(2, 3), dim=1)
    yield s(make(3, 2), make.real(3), dim=0)
    yield s(make(2, 1))


def pieces_of_area(y: Array, x: Any, dx: float, dim: int) -> Array:
    points = np.arange(y.shape[dim]) * dx if x is None else x
    if points.ndim == 1:
        points = points.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    dim = dim % y.ndim - y.ndim
    heights = np.delete(y, 0, dim) + np.delete(y, -1, dim) if y.shape[dim] else y
    return heights / 2 * np.diff(points, axis=dim)


def area(y: Array, x: Any = None, dx: float = 1, dim: int = -1) -> Array:
    return pieces_of_area(y, x, dx, dim).sum(dim % y.ndim - y.ndim)


def running_area(y: Array, x: Any = None, dx: float = 1, dim: int = -1) -> Array:
    return np.cumsum(pieces_of_area(y, x, dx, dim), dim % y.ndim - y.ndim)


DIFFERENCES = [
    row("diff", differences_of, differences, **ANY_TYPE),
    row("gradient", numpy_slopes, sampled, op=slopes, result="float", complex=True, ints=INTS),
    row("trapezoid", area, curves, result="float", complex=True, ints=SIGNED),
    row("trapz", area, curves, result="float", complex=True, ints=SIGNED),
    row("cumulative_trapezoid", running_area, curves, result="float", complex=True, ints=SIGNED),
]

# --- distances -----------------------------------------------------------------------------------


def all_distances(x: Array, y: Array, p: float = 2.0, mode: Any = None) -> Array:
    return p_norm(x[..., :, None, :] - y[..., None, :, :], p, axis=-1)


def clouds(make: Make) -> Iterator[Sample]:
    yield s(make(3, 2), make(5, 2))
    for p in (0.0, 0.5, 1.0, 3.0, math.inf):
        yield s(make(3, 2), make(2, 2), p)
    yield s(make(2, 1, 3, 2), make(3, 2, 2))
    yield s(make(0, 2), make(3, 2))
    yield s(make(2, 0), make(3, 0))
    yield s(make(2, 3).T, make(27, 2), 2.0, "use_mm_for_euclid_dist")
    yield s(make(2, 27, 1), make(1, 2, 1))


def pairs_of_rows(make: Make) -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, math.inf):
        yield s(make(3, 2), p)
    yield s(make(1, 2))
    yield s(make(26, 2))


def upper(x: Array, p: float = 2.0) -> Array:
    i, k = np.triu_indices(len(x), 1)
    return p_norm(x[i] - x[k], p, axis=-1) if x.size else np.zeros(len(i), x.dtype)


def two_tensors(make: Make) -> Iterator[Sample]:
    for a, b in PAIRS:
        if 0 not in (*a, *b):
            yield s(make(*a), make(*b))
    for p in (0, 1, 3, math.inf, -math.inf):
        yield s(make(2, 3), make(3), p)


def long_rows(make: Make) -> Iterator[Sample]:
    for p in (1, 2, 3):
        yield s(make(3, 2) * make.at([0.1], [1], [2]), p, 0, 1.0)
    yield s(make(2, 3, 2), 2, 1, 0.75)
    yield s(make(3, 2).T, 2, -1, 1.5)


def shortened(x: Array, p: float, dim: int, most: float) -> Array:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    lengths = p_norm(x, p, others, True)
    return x * np.where(lengths > most, most / (lengths + 1e-7), 1)


COINCIDENT = (([[1.0, 2.0]], [[1.0, 2.0], [1.0, 3.0]]), ([[0, -1]], [[0, 0], [0, 1]]))

DISTANCES = [
    row("cdist", all_distances, clouds, domain=Domain(-2, 2, 0.1), pins=(COINCIDENT,)),
    Row("pdist_rows", lucid.pdist, upper, pairs_of_rows,
        pins=((([[1.0, 2.0], [1.0, 2.0]],), ([[0, 0], [0, 0]],)),)),
    row("dist", lambda x, y, p=2: p_norm(x - y, p), two_tensors, result="real", complex=True,
        pins=((([1.0], [1.0]), ([0], [0])),)),
    row("renorm", shortened, long_rows, complex=True),
]  # fmt: skip
DISTANCES.append(in_place(DISTANCES[-1]))

# --- strides -------------------------------------------------------------------------------------


def seen(x: Array, size: Any, stride: Any, offset: int = 0) -> Array:
    """Element by element, from the elements in row-major order."""
    flat, out = x.reshape(-1), np.empty(size, x.dtype)
    for i in np.ndindex(*size):
        out[i] = flat[offset + sum(a * b for a, b in zip(i, stride, strict=True))]
    return out


def replaced(x: Array, source: Array, size: Any, stride: Any, offset: int = 0) -> Array:
    out = x.copy().reshape(-1)
    for i in np.ndindex(*size):
        out[offset + sum(a * b for a, b in zip(i, stride, strict=True))] = source[i]
    return out.reshape(x.shape)


def windows(make: Make) -> Iterator[Sample]:
    for size, stride, *offset in (
        ((3, 3), (1, 1)), ((2, 3), (3, 1)), ((3, 2), (1, 3)), ((5,), (0,), 2), ((2, 2, 2), (1, 2, 0), 1), ((), ()),
        ((0, 2), (1, 1)), ((2,), (3,), 1),
    ):  # fmt: skip
        yield s(make(2, 3), size, stride, *offset)
    yield s(make(), (2,), (0,))


def disjoint(make: Make) -> Iterator[Sample]:
    for size, stride, *offset in (((2, 2), (3, 1)), ((3,), (2,), 1), ((), (), 5), ((2, 3), (1, 2))):
        yield s(make(2, 3), make(*size), size, stride, *offset)


def part_written(read: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Array, source: Array, *where: Any) -> Array:
        out = x.copy()
        places = read(np.arange(x.size).reshape(x.shape), *where)
        flat = out.reshape(-1)
        flat[places.reshape(-1)] = source.reshape(-1)
        return flat.reshape(x.shape)

    return call


def cut(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return x[(*(slice(None),) * (dim % x.ndim), slice(start, end, step))]


STRIDES = [
    row("as_strided", seen, windows, **ANY_TYPE),
    row("as_strided_scatter", replaced, disjoint, **ANY_TYPE),
    row("select_scatter", part_written(lambda x, dim, i: np.take(x, i, dim)), every(*[
        (lambda make, case=case: iter([s(make(*case[0]), make(*case[1]), *case[2:])])) for case in (
            ((2, 3), (2,), 1, 1), ((2, 3), (3,), 0, -1), ((3,), (), 0, 2), ((2, 3, 2), (2, 3), -1, 0))]), **ANY_TYPE),
    row("slice_scatter", part_written(cut), every(*[
        (lambda make, case=case: iter([s(make(*case[0]), make(*case[1]), *case[2:])])) for case in (
            ((5,), (2,), 0, 1, 5, 2), ((2, 3), (2, 2), 1, 1), ((2, 3), (2, 3)), ((3, 2), (2, 2), -2, -2),
            ((2, 3), (0, 3), 0, 2))]), **ANY_TYPE),
    row("diagonal_scatter", part_written(np.diagonal), every(*[
        (lambda make, case=case: iter([s(make(*case[0]), make(*case[1]), *case[2:])])) for case in (
            ((2, 3), (2,)), ((3, 3), (2,), 1), ((2, 3, 2), (3, 1), -1, 0, 2))]), **ANY_TYPE),
    row("narrow_copy", lambda x, dim, start, length: cut(x, dim, start, start + (x.shape[dim] if start < 0 else 0) + length).copy(),
        calls(((2, 3), 1, 1, 2), (("T", 2, 3), 0, 1, 2)), **ANY_TYPE),
    row("new_empty_strided", lambda x, size, stride: np.zeros(size, x.dtype), calls(((2,), (2, 3), (1, 2))),
        op=lambda x, size, stride: x.new_empty_strided(size, stride).zero_(), differentiable=False, **ANY_TYPE),
]  # fmt: skip

# --- assembly ------------------------------------------------------------------------------------


def blocks(*arrays: Array) -> Array:
    found = [np.atleast_2d(a) for a in arrays]
    out = np.zeros(np.sum([f.shape for f in found], axis=0), np.result_type(*arrays))
    at = np.zeros(2, int)
    for f in found:
        out[at[0] : at[0] + f.shape[0], at[1] : at[1] + f.shape[1]] = f
        at += f.shape
    return out


def rows_of_products(*arrays: Array) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    return np.array(list(product(*arrays))).reshape(-1, len(arrays)).astype(arrays[0].dtype)


def choices(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    choose = combinations_with_replacement if with_replacement else combinations
    return np.array(list(choose(x, r))).reshape(-1, r).astype(x.dtype) if r else x[:0]


def several(make: Make) -> Iterator[Sample]:
    yield s(make())
    yield s(make(3))
    yield s(make(2, 3))
    yield s(make(3, 2).T, make(), make(2, 1, 3))


def lists(*shapes: tuple[tuple[int, ...], ...]) -> Samples:
    return lambda make: (s([make(*shape) for shape in one]) for one in shapes)


def halves(name: str, ref: Callable[..., Any], *shapes: tuple[int, ...]) -> Row:
    return row(name, pieces(ref), calls(*[(shape, n) for shape in shapes for n in (1, 2, [1, 2])]), **ANY_TYPE)


def summed_to(x: Array, *size: Any) -> Array:
    size = () if size == ((),) else size
    extra = x.ndim - len(size)
    x = x.sum(axis=tuple(range(extra)))
    return x.sum(axis=tuple(d for d, n in enumerate(size) if n == 1), keepdims=True)


ASSEMBLY = [
    *[row(f"atleast_{n}d", ref, several, **ANY_TYPE) for n, ref in
      ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d))],
    row("column_stack", np.column_stack, lists(((3,), (3, 2), (3,)), ((2, 1), (2, 3))), **ANY_TYPE),
    row("row_stack", np.vstack, lists(((3,), (2, 3))), **ANY_TYPE),
    row("block_diag", blocks, pairs(((2, 3), (1, 2)), ((), (3,), (2, 2)), ((0, 2), (1, 1))), **ANY_TYPE),
    row("cartesian_prod", rows_of_products, pairs(((2,), (3,)), ((3,),), ((2,), (1,), (2,)), ((0,), (2,))), **ANY_TYPE),
    row("combinations", choices, calls(((3,),), ((5,), 3), ((3,), 2, True), ((2,), 3), ((3,), 0), ((3,), 1)),
        **ANY_TYPE),
    row("diagflat", np.diagflat, calls(((3,),), ((2, 2), 1), ((), -1)), **ANY_TYPE),
    halves("hsplit", np.hsplit, (2,), (3, 2)),
    halves("vsplit", np.vsplit, (2, 3)),
    halves("dsplit", np.dsplit, (1, 3, 2)),
    row("split_with_sizes", lambda x, sizes, dim=0: tuple(np.split(x, np.cumsum(sizes)[:-1], dim)),
        calls(((3, 2), (1, 2)), ((2, 3), (0, 3), 1)), **ANY_TYPE),
    row("sum_to_size", summed_to, calls(((2, 3), 1, 3), ((2, 1, 3), 3), ((3, 2), 1, 1), ((3,), ())),
        op=lambda x, *size: x.sum_to_size(*size), result="sum", **ANY_TYPE),
]  # fmt: skip

# --- placement and sums of products --------------------------------------------------------------


def combined(x: Array, dim: int, index: Array, source: Array, how: str, include_self: bool = True) -> Array:
    if not x.ndim:
        return combined(x[None], dim, index, source[None], how, include_self)[0]
    out = np.moveaxis(x, dim, 0).copy()
    source = np.moveaxis(source, dim, 0)
    for place in np.unique(index):
        values = [source[k] for k in np.flatnonzero(index == place)]
        values = [out[place], *values] if include_self else values
        out[place] = {"amax": np.maximum.reduce, "amin": np.minimum.reduce}.get(how, FOLDS[how])(values)
    return np.moveaxis(out, 0, dim)


def slices_combined(*ways: str) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        for how in ways:
            for kwargs in ({}, {"include_self": False}):
                yield s(make.spread(2, 3), 0, np.array([1, 1]), make(2, 3), how, **kwargs)
                yield s(make.spread(3, 2).T, -1, np.array([2, 0, 2]), make(2, 3), how, **kwargs)

    return samples


def products_with_zeros(make: Make) -> Iterator[Sample]:
    """No zero, one, two and three of them among the factors of one place."""
    yield s(make.at(2, 0, 1, 0, 3), 0, np.array([0, 1, 1, 2, 2, 2, 3, 3]), make.at(3, 0, 2, 0, 0, 5, 0, 0), "prod")


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    flat = x.copy().reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return flat.reshape(x.shape)


def places(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), np.array([5, 0]), make(2))
    yield s(make(3, 2).T, np.array([[1], [-2]]), make(2, 1))
    yield s(make(2, 3), np.array([1, 1, 0]), make(3), True)
    yield s(make(2, 3), np.array([1, 1, 0]), make(3))
    yield s(make(2, 3), np.zeros(0, np.int64), make(0))


def plus(multiply: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Array:
        out = alpha * multiply(a, b)
        return beta * np.broadcast_to(x, out.shape) + out

    return call


def summands(*shapes: tuple[int, ...]) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        yield s(*[make(*shape) for shape in shapes])
        yield s(*[make(*shape) for shape in shapes], beta=2, alpha=3)
        yield s(*[make(*shape) for shape in shapes], beta=0)

    return samples


PLACEMENT = [
    row("index_reduce", combined, every(slices_combined("prod", "mean"), products_with_zeros), complex=True, ints=INTS),
    Row("index_reduce_extreme", lucid.index_reduce, combined, slices_combined("amax", "amin"), ints=INTS),
    row("put", put, places, complex=True, ints=INTS),
    row("addmv", plus(np.matmul), summands((2,), (2, 3), (3,)), complex=True, ints=INTS),
    row("addr", plus(np.outer), summands((2, 3), (2,), (3,)), complex=True, ints=INTS),
    row("addbmm", plus(lambda a, b: np.matmul(a, b).sum(0, dtype=a.dtype)), summands((2, 1), (3, 2, 3), (3, 3, 1)),
        complex=True, ints=INTS),
    row("vdot", lambda x, y: np.sum(np.conj(x) * y, dtype=x.dtype), pairs(((3,), (3,)), ((0,), (0,))), complex=True,
        ints=INTS),
]  # fmt: skip
PLACEMENT += [in_place(r) for r in PLACEMENT if r.name not in ("index_reduce_extreme", "vdot")]


NO_TENSOR = {"vmap": "it gives a Python value"}
QUERIES = [
    row("is_same_size", lambda x, y: x.shape == y.shape, pairs(((2, 3), (2, 3)), ((2, 3), (3,))), result="bool",
        differentiable=False, without=NO_TENSOR, **ANY_TYPE),
    row("is_signed", lambda x: x.dtype.kind not in "ub", calls(((2, 3),)), result="bool", differentiable=False,
        without=NO_TENSOR, **ANY_TYPE),
    row("get_device", lambda x: -1, calls(((2, 3),)), result="int", differentiable=False, without=NO_TENSOR,
        **ANY_TYPE),
    row("ndimension", lambda x: x.ndim, calls(((2, 3),), ((),)), op=lambda x: x.ndimension(), result="int",
        differentiable=False, without=NO_TENSOR, **ANY_TYPE),
    row("adjoint", lambda x: np.conj(np.swapaxes(x, -1, -2)), calls(((2, 3),), ((2, 1, 3),), (("T", 2, 3),)),
        **ANY_TYPE),
]  # fmt: skip


# --- numbers between two ends ---------------------------------------------------------------------


def ends(make: Make) -> Iterator[Sample]:
    for steps in (5, 2, 1, 0):
        yield s(make(), make(), steps)
    yield s(make(), 3.0, 3)
    yield s(-1.0, make(), 3)


ANY_ENDS = {"complex": True, "without": {"refused": "ends of all types are taken"}}
SPACED = [
    row("linspace", np.linspace, ends, op=lambda a, b, n: lucid.linspace(a, b, n, dtype=kind_of(a, b)), **ANY_ENDS),
    row("logspace", lambda a, b, n: np.logspace(a, b, n, base=2), ends,
        op=lambda a, b, n: lucid.logspace(a, b, n, 2.0, dtype=kind_of(a, b)), **ANY_ENDS),
]  # fmt: skip


def kind_of(*ends: Any) -> Any:
    return next(end.dtype for end in ends if isinstance(end, lucid.Tensor))


ROWS = [*STATISTICS, *DIFFERENCES, *DISTANCES, *STRIDES, *ASSEMBLY, *PLACEMENT, *QUERIES, *SPACED]
