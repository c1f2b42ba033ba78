"""Normalisation: values brought to mean 0 and variance 1 over some dimensions, then scaled and shifted."""

import math
from collections.abc import Sequence
from typing import Any

from lucid.ops.abstract import Abstract, same
from lucid.ops.fused import Fused, batch_by_composite
from lucid.ops.nn.rows import Row
from lucid.ops.rules import P, batched_to_front


def _centred(x: Any, dims: tuple[int, ...], n: int) -> tuple[Any, Any]:
    """x with mean 0, and the mean. Far from 0 the mean is rounded, and what is missing from it is the mean of the rest."""
    mean = P.sum(x, dims=dims, keepdim=True) / n
    x = x - mean
    rest = P.sum(x, dims=dims, keepdim=True) / n
    return x - rest, mean + rest


# --- rows: layer_norm and rms_norm ---------------------------------------------------------------


def _rows_composite(x: Any, weight: Any, bias: Any, ndim: int, eps: float, centred: bool) -> Any:
    dims = tuple(range(x.ndim - ndim, x.ndim))
    n = max(math.prod(x.shape[d] for d in dims), 1)
    unit = P.unit_size(x, dims=dims, least=math.sqrt(max(eps, 0.0)))
    x = x / unit
    if centred:
        x, _ = _centred(x, dims, n)
    y = x * P.rsqrt(P.sum(x * x, dims=dims, keepdim=True) / n + eps / unit / unit)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def normalized(row: Row, x: Any, *affine: Any, eps: Any, centred: bool, weighted: bool) -> tuple[Any, ...]:
    """A row at mean 0 (if `centred`) and mean square 1, scaled and shifted; and what its derivative needs to know.

    That is the mean, what was missing from it because it was rounded, and the factor of scale; without a mean, the factor.
    """
    return _normalized(row, x, affine, eps, centred, weighted)[0]


def _normalized(row: Row, x: Any, affine: Sequence[Any], eps: Any, centred: bool, weighted: bool) -> tuple[Any, Any]:
    """That, and the mean square."""
    known: tuple[Any, ...] = ()
    if centred:
        mean = row.mean(x)
        x = x - mean
        rest = row.mean(x)
        variance = P.maximum(row.mean(x * x) - rest * rest, 0.0)
        x = x - rest
        known = mean, rest
    else:
        variance = row.mean(x * x)
    scale = 1 / P.sqrt(variance + eps)
    y = x * scale
    if weighted:
        y = y * affine[0]
    if len(affine) > weighted:
        y = y + affine[-1]
    return (y, *known, scale), variance


def normalized_with_variance(row: Row, x: Any, *affine: Any, eps: Any, weighted: bool) -> tuple[Any, ...]:
    """The same, centred, and the variance (divided by n)."""
    found, variance = _normalized(row, x, affine, eps, True, weighted)
    return *found, variance


def _normal(x: Any, known: Sequence[Any]) -> Any:
    return x * known[0] if len(known) == 1 else (x - known[0] - known[1]) * known[2]


def normalized_back(row: Row, g: Any, x: Any, *known: Any, weighted: bool) -> Any:
    """The cotangent of a row: scale·(h - mean(h) - x̂·mean(h·x̂)) with h = g·weight, without mean(h) if not centred."""
    if weighted:
        g, known = g * known[-1], known[:-1]
    y = _normal(x, known)
    slope = y * row.mean(g * y)
    return known[-1] * (g - row.mean(g) - slope if len(known) > 1 else g - slope)


def affine_back(row: Row, g: Any, x: Any, *known: Any) -> tuple[Any, Any]:
    """The cotangents of the weight and bias of one place in rows, along all of these: Σ g·x̂ and Σ g."""
    return row.sum(g * _normal(x, known)), row.sum(g)


def normalized_and_affine_back(row: Row, g: Any, x: Any, *given: Any, weighted: bool) -> tuple[Any, ...]:
    """The cotangent of a row, and the sums of `affine_back`, the last of what is given, with this row."""
    *known, weights, biases = given
    y = _normal(x, known[: len(known) - weighted])
    return normalized_back(row, g, x, *known, weighted=weighted), weights + g * y, biases + g


def _batch_rows(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    if batched[1] or batched[2]:
        return batch_by_composite(prim, values, batched, size, params)
    return prim(*values, **params)


# Over the last `ndim` dimensions of x; `centred` says whether the mean is subtracted.
row_norm = Fused("row_norm", _rows_composite, operands=("x", "weight", "bias"), batch=_batch_rows, abstract=same)


# --- channels: batch_norm and group_norm ---------------------------------------------------------
#
# Of x as (batch, channels, positions), `groups` of channels have statistics of their own in each example, or, if it is
# 0, each channel over the batch.


def _batch_composite(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = (0, *range(2, x.ndim))
    n = max(math.prod(x.shape[d] for d in dims), 1)
    unit = P.unit_size(x, dims=dims, least=math.sqrt(max(eps, 0.0)))
    x = x / unit
    centred, mean = _centred(x, dims, n)
    variance = P.sum(centred * centred, dims=dims, keepdim=True) / n
    y = _with_affine(centred * P.rsqrt(variance + eps / unit / unit), weight, bias)
    flat = (x.shape[1],)
    return y, P.reshape(mean * unit, shape=flat), P.reshape(variance * unit * unit, shape=flat)


def _per_channel(values: Any, ndim: int) -> Any:
    """One number for each channel, in the shape that broadcasts against (batch, channels, ...)."""
    return P.reshape(values, shape=(values.shape[0], *(1,) * (ndim - 2)))


def _with_affine(y: Any, weight: Any, bias: Any) -> Any:
    y = y if weight is None else y * _per_channel(weight, y.ndim)
    return y if bias is None else y + _per_channel(bias, y.ndim)


def _batch_of_batches(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    """Each example has statistics of its own, as if it were further channels."""
    spread: list[Any] = [v if v is None else batched_to_front([v], [b], size)[0] for v, b in zip(values, batched)]
    x, weight, bias = spread
    order = (1, 0, *range(2, x.ndim))
    merged = P.reshape(P.permute(x, dims=order), shape=(x.shape[1], size * x.shape[2], *x.shape[3:]))
    flat = [v if v is None else P.reshape(v, shape=(size * v.shape[1],)) for v in (weight, bias)]
    y, mean, variance = prim(merged, *flat, **params)
    y = P.permute(P.reshape(y, shape=(x.shape[1], size, *x.shape[2:])), dims=order)
    return y, *[P.reshape(s, shape=(size, x.shape[2])) for s in (mean, variance)]


def _with_statistics(x: Any, *affine: Any, **params: Any) -> tuple[Abstract, Abstract, Abstract]:
    each = Abstract(x.shape[1:2], x.dtype)
    return same(x), each, each


# Over everything but dimension 1; gives the result, the mean and the variance (divided by n) of each channel.
batch_norm = Fused(
    "batch_norm",
    _batch_composite,
    operands=("x", "weight", "bias"),
    results=("out", "mean", "variance"),
    batch=_batch_of_batches,
    abstract=_with_statistics,
)


def _group_composite(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    grouped = P.reshape(x, shape=(x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    y = _rows_composite(grouped, None, None, 1, eps, True)
    return _with_affine(P.reshape(y, shape=x.shape), weight, bias)


def _fold_into_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    if batched[1] or batched[2]:
        return batch_by_composite(prim, values, batched, size, params)
    x, *affine = values
    y = prim(P.reshape(x, shape=(size * x.shape[1], *x.shape[2:])), *affine, **params)
    return P.reshape(y, shape=x.shape)


# Over the channels of a group and all positions, in each example.
group_norm = Fused(
    "group_norm", _group_composite, operands=("x", "weight", "bias"), batch=_fold_into_batch, abstract=same
)


# x·scale + shift with one number of each for every channel.
channel_affine = Fused(
    "channel_affine", _with_affine, operands=("x", "scale", "shift"), batch=_fold_into_batch, abstract=same
)
