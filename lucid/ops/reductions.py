"""Reductions and scans: what becomes of all elements along some dimensions."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lucid.core import dtypes, kernels
from lucid.core.arrays import ARRAY, as_array
from lucid.core.fields import TensorFields
from lucid.core.node import Node, saved_at
from lucid.core.primitive import Primitive, bare, constant
from lucid.core.tensor import wrapped
from lucid.ops.abstract import Abstract, of_type, reduced, same, without
from lucid.ops.categories import Fold, Reduction, elementwise_abstract, linear, reduction
from lucid.ops.expressions import Source
from lucid.ops.rules import P, broadcast_to, chained, conj, expand_reduced, kept_shape, np_dtype, ones_like, shift


def count_at(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    count = 1
    for d in dims:
        count *= shape[d]
    return count


def count_or_nan(shape: tuple[int, ...], dims: tuple[int, ...]) -> float:
    """The number of elements that are reduced; nan for none, as 0 / 0."""
    return float(count_at(shape, dims)) or math.nan


def _chosen(x: Any, out: Any) -> Any:
    """1 for the elements that a result is, and 0 for the others."""
    return P.where((x == out) | ((x != x) & (out != out)), ones_like(x), 0)


def _equal_share(x: Any, out: Any, count: Any) -> Any:
    # Ties share the cotangent: any convex split is a subgradient, and this one ignores order.
    return _chosen(x, out) / count


_F32, _F64 = dtypes.float32.numpy, dtypes.float64.numpy


def lowest(dtype: np.dtype[Any]) -> Any:
    return False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _highest(dtype: np.dtype[Any]) -> Any:
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else math.inf


def of_pairs(function: Any, unit: Any, lift: Any = None) -> Fold:
    """A fold by a function of two numbers; the unit is a number, or depends on the type."""
    combine, start = (lambda a, b: (function(*a, *b),)), (lambda dtype: (unit(dtype) if callable(unit) else unit,))
    return Fold(combine, start) if lift is None else Fold(combine, start, lambda x, place: (lift(x),))


LARGEST, SMALLEST = of_pairs(lambda a, b: P.maximum(a, b), lowest), of_pairs(lambda a, b: P.minimum(a, b), _highest)
SUM = of_pairs(lambda a, b: a + b, 0)


def _factor(x: Any) -> Any:
    """A number of single precision in double: products of many are soon too small to be normal, and processors take a
    hundred times as long for those."""
    return P.cast(x, dtype=_F64, source=_F32) if np_dtype(x) == _F32 else x


PRODUCT = of_pairs(lambda a, b: a * b, 1, _factor)
# Running products of single precision that are smaller than this are followed by 0, before they are too small to be normal
# in double precision, too.
LEAST_PRODUCT = 2.0**-720


def _running(one: Any, other: Any) -> Any:
    if len(one) == 1:
        return (one[0] * other[0],)
    (a, zero), (b, next_zero) = one, other
    return P.where(P.abs(a) < LEAST_PRODUCT, a * next_zero, a * b), zero * next_zero


# States of single precision are products in double, and zeros of their signs.
RUNNING_PRODUCT = Fold(
    combine=_running,
    unit=lambda dtype: (1, 0) if dtype == _F32 else (1,),
    lift=lambda x, place: (_factor(x), _factor(x) * 0) if np_dtype(x) == _F32 else (x,),
    finish=lambda product, *zero: product,
)

amax_primitive = reduction("amax", _equal_share, LARGEST, tally=_chosen)

amin_primitive = reduction("amin", _equal_share, SMALLEST, tally=_chosen)


def _others_product(x: Any, out: Any, dims: tuple[int, ...]) -> Any:
    """The product of all other elements, exact when some are 0: those of its line, times those of the other lines."""
    order = [d for d in reversed(dims) if x.shape[d] != 1]
    if not order:
        return ones_like(x)
    found = _others_of_line(x, order[0])
    for done, d in pairwise(order):
        x = P.prod(x, dims=(done,), keepdim=True)
        found = _others_of_line(x, d) * found
    return found


def _others_of_line(x: Any, dim: int) -> Any:
    """Products before each element times products behind it."""
    return P.products_before(x, dim=dim, reverse=False) * P.products_before(x, dim=dim, reverse=True)


class Product(Reduction):
    """The cotangents of arrays are those of the rule; along one dimension, the last two products are one loop."""

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        if isinstance(ct, TensorFields):
            return Primitive.vjp(self, node, ct)
        x, dims = saved_at(node, 0, ct), node.params["dims"]
        lines = [d for d in dims if x.shape[d] != 1]
        if len(lines) != 1 or ct.dtype.kind == "c":
            return [bare(g) for g in Primitive.vjp(self, node, wrapped(ct))]
        if self.back is None:
            self.back = kernels.scalar(Source(lambda ct, before, behind: chained(ct, before * behind)), 3, False)
        ct = P.reshape.kernel(ct, shape=kept_shape(x.shape, dims))
        return (self.back(ct, *[P.products_before.kernel(x, dim=lines[0], reverse=r) for r in (False, True)]),)


def _widened(x: Abstract, dims: tuple[int, ...], keepdim: bool) -> Abstract:
    """Truth values and integers become those of 64 bits, as NumPy's sums and products do."""
    return reduced(x, dims, keepdim)._replace(dtype=_WIDE.get(x.dtype.kind, x.dtype))


_WIDE = {"b": dtypes.INT64, "i": dtypes.INT64, "u": dtypes.UINT64}

prod_primitive = reduction("prod", _others_product, PRODUCT, abstract=_widened, kind=Product)
prod_primitive.pulls_arrays = True


def _shift_dim(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*values, **{**params, "dim": params["dim"] + 1})


cumsum_primitive = linear(
    "cumsum",
    transpose=lambda ct, dim, reverse: P.cumsum(ct, dim=dim, reverse=not reverse),
    batch=lambda x, size, dim, reverse: P.cumsum(x, dim=dim + 1, reverse=reverse),
    abstract=same,
    category="scan",
    fold=SUM,
)


def _neighbours(x: Any, dim: int, reverse: bool) -> tuple[Any, Any, Any]:
    """Where all elements but the last of a scan are, where all but the first are, and where the first is."""
    n = x.shape[dim]
    front: tuple[Any, ...] = (slice(None),) * dim
    lower, upper = (*front, slice(0, n - 1)), (*front, slice(1, n))
    if reverse:
        return upper, lower, (*front, slice(n - 1, n))
    return lower, upper, (*front, slice(0, 1))


def _delayed(x: Any, dim: int, reverse: bool) -> Any:
    """x moved one step on along `dim`; 0 comes in where a scan begins."""
    earlier, later, _ = _neighbours(x, dim, reverse)
    return P.slice_back(P.slice(x, index=earlier), index=later, shape=x.shape)


def _recurrence_pull(ct: Any, a: Any, dim: int, reverse: bool) -> Any:
    """The same recurrence from the other end, with each factor one step later."""
    return P.recurrence(_delayed(a, dim, not reverse), ct, dim=dim, reverse=not reverse)


def _recurrence_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    a, (ta, tb) = primals[0], tangents
    drive = tb
    if ta is not None:
        change = ta * _delayed(out, **params)
        drive = change if tb is None else change + tb
    return P.recurrence(a, drive, **params)


# h[i] = a[i] * h[i-1] + b[i] along one dimension, from either end: derivatives of products and of logcumsumexp scan with it.
recurrence = Primitive(
    "recurrence",
    operands=("a", "b"),
    rules=(
        lambda ct, a, out, dim, reverse: (
            _recurrence_pull(ct, conj(a), dim, reverse) * conj(_delayed(out, dim, reverse))
        ),
        lambda ct, a, dim, reverse: _recurrence_pull(ct, conj(a), dim, reverse),
    ),
    jvp=_recurrence_jvp,
    batch=lambda prim, values, batched, size, params: P.recurrence(
        *[v if b else broadcast_to(v, (size, *v.shape)) for v, b in zip(values, batched, strict=True)],
        dim=params["dim"] + 1,
        reverse=params["reverse"],
    ),
    abstract=elementwise_abstract,
    category="scan",
    # States are maps h ↦ a h + b.
    fold=Fold(
        combine=lambda one, next: (next[0] * one[0], next[0] * one[1] + next[1]),
        unit=lambda dtype: (1, 0),
        lift=lambda a, b, place: (a, b),
        finish=lambda a, b: b,
    ),
)


def _cumprod_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """d out[i] = x[i] · d out[i-1] + dx[i] · out[i-1]."""
    return P.recurrence(primals[0], tangents[0] * _before(out, **params), **params)


def _before(out: Any, dim: int, reverse: bool) -> Any:
    """The products up to the element before: 1 where a scan begins."""
    if out.shape[dim] == 0:
        return out
    earlier, _, first = _neighbours(out, dim, reverse)
    parts = [ones_like(P.slice(out, index=first)), P.slice(out, index=earlier)]
    return P.cat(*(reversed(parts) if reverse else parts), dim=dim)


cumprod_primitive = Primitive(
    "cumprod",
    rules=(
        lambda ct, x, out, dim, reverse: _recurrence_pull(ct, conj(x), dim, reverse) * conj(_before(out, dim, reverse)),
    ),
    jvp=_cumprod_jvp,
    batch=_shift_dim,
    abstract=same,
    category="scan",
    fold=RUNNING_PRODUCT,
)


# Running products of which each place has the one before it: 1 where a scan begins.
products_before = Primitive(
    "products_before",
    rules=(
        lambda ct, x, out, dim, reverse: (
            _recurrence_pull(_delayed(ct, dim, not reverse), conj(x), dim, reverse) * conj(out)
        ),
    ),
    jvp=lambda prim, primals, tangents, out, params: _delayed(
        P.recurrence(primals[0], tangents[0] * out, **params), **params
    ),
    batch=_shift_dim,
    abstract=same,
    category="other",
    reason="places of a scan get what was found before them",
    composite=lambda x, dim, reverse: _before(P.cumprod(x, dim=dim, reverse=reverse), dim, reverse),
)


def _steps(out: Any, dim: int) -> Any:
    """exp(out[i-1] - out[i]) <= 1: how much of each running total the one before makes up."""
    earlier, later, _ = _neighbours(out, dim, False)
    change = _gap(P.slice(out, index=earlier), P.slice(out, index=later))
    return P.exp(P.slice_back(change, index=later, shape=out.shape))


def _gap(x: Any, y: Any) -> Any:
    """x - y, and 0 between equal infinities."""
    return P.where(x == y, 0, x - y)


logcumsumexp_primitive = Primitive(
    "logcumsumexp",
    rules=(
        lambda ct, x, out, dim: _recurrence_pull(ct, conj(_steps(out, dim)), dim, False) * conj(P.exp(_gap(x, out))),
    ),
    jvp=lambda prim, primals, tangents, out, params: P.recurrence(
        _steps(out, params["dim"]), tangents[0] * P.exp(_gap(primals[0], out)), dim=params["dim"], reverse=False
    ),
    batch=_shift_dim,
    abstract=same,
    category="scan",
    fold=of_pairs(lambda a, b: P.logaddexp(a, b), -math.inf),
)


def _logsumexp(row: Any, x: Any) -> Any:
    peak = row.max(x)
    peak = P.where(P.isfinite(peak), peak, 0)
    return P.log(row.sum(P.exp(x - peak))) + peak


def _joined(one: Any, other: Any) -> Any:
    """Sums of exponentials relative to the larger of two peaks: that of the smaller one shrinks."""
    (peak, total), (peak_2, total_2) = one, other
    is_first = peak >= peak_2
    share = P.exp(-P.abs(_gap(peak, peak_2)))
    larger, smaller = P.where(is_first, total, total_2), P.where(is_first, total_2, total)
    return P.maximum(peak, peak_2), larger + smaller * share


logsumexp_primitive = reduction(
    "logsumexp",
    lambda x, out, dims: P.where(x == -math.inf, 0, P.exp(_gap(x, out))),
    Fold(
        _joined,
        lambda dtype: (-math.inf, 0),
        lambda x, place: (x, ones_like(x)),
        lambda peak, total: peak + P.log(total),
    ),
    by_element=True,
)
logsumexp_primitive.row_body = _logsumexp  # for each element one exponential, and not one for each pair


def _choice(name: str, dtype: np.dtype[Any], fold: Fold) -> Primitive:
    """A reduction that gives counts or truth values: nothing to differentiate."""
    return Primitive(
        name,
        batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
        abstract=lambda x, dims, keepdim: Abstract(without(x.shape, dims, keepdim), dtype),
        category="reduction",
        fold=fold,
    )


all_primitive = _choice("all", dtypes.BOOL, of_pairs(lambda a, b: a & b, True, lambda x: x != 0))

any_primitive = _choice("any", dtypes.BOOL, of_pairs(lambda a, b: a | b, False, lambda x: x != 0))

count_primitive = _choice(
    "count_nonzero",
    dtypes.INT64,
    of_pairs(lambda a, b: a + b, 0, lambda x: P.cast(x != 0, dtype=dtypes.INT64, source=dtypes.BOOL)),
)


def _place(x: Abstract, dim: int) -> Abstract:
    return Abstract(without(x.shape, (dim,)), dtypes.INT64)


def place_of(ahead: Any, unit: Any, last: bool = False) -> Fold:
    """The place of the element that is ahead of all others; nan is ahead of everything, the first one or the last."""

    def combine(one: Any, other: Any) -> Any:
        (value, place), (value_2, place_2) = one, other
        is_nan, is_nan_2 = value != value, value_2 != value_2
        if last:
            better = ahead(value_2, value) | is_nan_2
        else:  # in any order: of equal ones the first
            is_same = (value == value_2) | (is_nan & is_nan_2)
            better = (ahead(value_2, value) & ~is_nan) | (is_nan_2 & ~is_nan) | (is_same & (place_2 < place))
        return P.where(better, value_2, value), P.where(better, place_2, place)

    return Fold(combine, lambda dtype: (unit(dtype), 0), lambda x, place: (x, place), lambda value, place: place)


argmax_primitive = Primitive(
    "argmax",
    batch=_shift_dim,
    abstract=_place,
    category="reduction",
    fold=place_of(lambda a, b: a > b, lowest),
)

argmin_primitive = Primitive(
    "argmin",
    batch=_shift_dim,
    abstract=_place,
    category="reduction",
    fold=place_of(lambda a, b: a < b, _highest),
)

running_positions = Primitive(
    "running_positions",
    batch=_shift_dim,
    abstract=of_type(dtypes.INT64),
    category="scan",
    fold=lambda largest: (
        place_of(lambda a, b: a >= b, lowest, last=True)
        if largest
        else place_of(lambda a, b: a <= b, _highest, last=True)
    ),
)


def _pull_sum(ct: Any, x_shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Any:
    if keepdim:
        ct = P.reshape(ct, shape=tuple([n for i, n in enumerate(ct.shape) if i not in dims]))
    return P.spread(ct, shape=x_shape, dims=dims)


def _sum_abstract(x: Abstract, dims: tuple[int, ...], keepdim: bool) -> Abstract:
    """Without dims integers are what they were."""
    is_sum = dims or x.dtype == dtypes.BOOL or not (x.shape or keepdim)
    return _widened(x, dims, keepdim) if is_sum else same(x)


sum_primitive = linear(
    "sum",
    transpose=_pull_sum,
    batch=lambda x, size, dims, keepdim: P.sum(x, dims=shift(dims), keepdim=keepdim),
    back=lambda ct, x_shape, dims, keepdim: P.spread.kernel(ct, x_shape, dims),
    abstract=_sum_abstract,
    category="reduction",
    fold=SUM,
)


def _number_or_0(x: Any) -> Any:
    """The element, or 0 for nan."""
    return P.where(x == x, x, 0)


# The sum of the elements that are not nan.
nansum_primitive = Primitive(
    "nansum",
    rules=(lambda ct, x, dims, keepdim: P.where(x == x, expand_reduced(ct, x.shape, dims, keepdim), 0),),
    jvp=lambda prim, primals, tangents, out, params: P.sum(P.where(primals[0] == primals[0], tangents[0], 0), **params),
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
    abstract=reduced,
    category="reduction",
    fold=of_pairs(lambda a, b: a + b, 0, _number_or_0),
    composite=lambda x, dims, keepdim: P.sum(_number_or_0(x), dims=dims, keepdim=keepdim),
)


# --- the variance --------------------------------------------------------------------------------


def _variance(x: Any, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    """What the primitive of this name computes, by others."""
    centred = x - _mean(x, dims)
    return P.sum(P.square(centred), dims=dims, keepdim=keepdim) / divisor


def _mean(x: Any, dims: tuple[int, ...]) -> Any:
    return P.sum(x, dims=dims, keepdim=True) / count_or_nan(x.shape, dims)


def mean_of(x: Any, dims: tuple[int, ...]) -> Any:
    """The same of an array."""
    dtype = x.dtype
    mean = P.div.kernel(P.sum.kernel(x, dims, True), constant(count_or_nan(x.shape, dims), dtype))
    return mean if type(mean) is ARRAY else as_array(mean, dtype)  # NumPy gives a number, which loops do not take


def _rise(x: Any, mean: Any, factor: Any) -> Any:
    """The derivative by each element; that through the mean is 0."""
    return (x - mean) * factor


def _factor_of(divisor: float) -> float:
    return 2 / divisor if divisor else math.inf


class Variance(Reduction):
    """The cotangents of arrays are those of the rule, by one loop."""

    def _pull_array(self, node: Node, ct: Any, dims: tuple[int, ...], keepdim: bool, **params: Any) -> Any:
        if self.back is None:
            source = Source(lambda ct, x, mean, factor: chained(ct, _rise(x, mean, factor)))
            self.back = kernels.scalar(source, 3, True)
        rule: Any = self.rules[0]
        (x,) = [saved_at(node, k, ct) for k in rule.picks if type(k) is int]
        ct = ct if keepdim else P.reshape.kernel(ct, shape=kept_shape(x.shape, dims))
        return self.back(ct, x, mean_of(x, dims), factor=_factor_of(params["divisor"]))


def _push_variance(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    x, dims, keepdim = primals[0], params["dims"], params["keepdim"]
    rise = _rise(x, _mean(x, dims), _factor_of(params["divisor"]))
    return P.sum(chained(tangents[0], rise), dims=dims, keepdim=keepdim)


def _joined_variances(one: Any, other: Any) -> Any:
    """Counts, means and sums of squared distances from these, of two parts."""
    (n, mean, squares), (n_2, mean_2, squares_2) = one, other
    count = n + n_2
    share = P.where(count == 0, 0, n_2 / P.where(count == 0, 1, count))
    apart = mean_2 - mean
    return count, mean + apart * share, squares + squares_2 + apart * apart * n * share


# Σ (x - mean)² / divisor over dims, of real numbers.
var_primitive = Variance(
    "var",
    rules=(
        lambda ct, x, dims, keepdim, divisor: chained(
            expand_reduced(ct, x.shape, dims, keepdim), _rise(x, _mean(x, dims), _factor_of(divisor))
        ),
    ),
    jvp=_push_variance,
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
    abstract=lambda x, dims, keepdim, divisor: reduced(x, dims, keepdim),
    category="reduction",
    fold=lambda divisor: Fold(
        combine=_joined_variances,
        unit=lambda dtype: (0.0, 0.0, 0.0),
        lift=lambda x, place: (ones_like(x), x, x * 0),
        finish=lambda n, mean, squares: squares / divisor,
    ),
    composite=_variance,
    pulls_arrays=True,
    pulls_new=True,
)
