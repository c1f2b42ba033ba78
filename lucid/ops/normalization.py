"""Normalisation: values brought to mean 0 and variance 1 over some dimensions, then scaled and shifted.

Rows are normalised one by one. With channels, every result is x·(a⊗w) + (b⊗w + 1⊗c), with `thin` outer products, and
the mean of squares gives the variance in one pass; where that would lose digits, values are centred first.
"""

import math
from typing import Any

import numpy as np

from lucid.ops import rows
from lucid.ops.fused import Fused, batch_by_composite, ones, thin
from lucid.ops.rules import P, batched_to_front

# How many times the squared mean may exceed the variance before values are centred first: 16 costs 4 of 24 bits.
_WORST = 16.0
_LONG = 256  # the length from which NumPy multiplies rows by one number each as fast as it can
_SHORT = 64  # the length up to which a product and a sum are faster than a scalar product for each row
_in_order = np.ascontiguousarray


def _ill_conditioned(mean: Any, variance: Any) -> bool:
    return not (mean * mean <= _WORST * variance).all()


# --- rows: layer_norm and rms_norm ---------------------------------------------------------------


def _as_rows(x: Any, ndim: int) -> Any:
    split = x.ndim - ndim
    return _in_order(x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:])))


def _rows_forward(x: Any, weight: Any, bias: Any, ndim: int, eps: float, centred: bool) -> tuple[Any, tuple[Any, ...]]:
    base = _as_rows(x, ndim)
    n = base.shape[1]
    w = ones(n, base.dtype) if weight is None else _in_order(weight.reshape(-1))
    b = np.zeros(n, base.dtype) if bias is None else _in_order(bias.reshape(-1))
    y, statistics = rows.normalize(base, w, b, eps, centred)
    return y.reshape(x.shape), (statistics,)


def _rows_backward(
    cts: Any, arrays: Any, residuals: Any, needs: Any, ndim: int, eps: float, centred: bool
) -> list[Any]:
    x, weight, _ = arrays
    base, g = _as_rows(x, ndim), _as_rows(cts[0], ndim)
    w = ones(base.shape[1], base.dtype) if weight is None else _in_order(weight.reshape(-1))
    dx, dw, db = rows.normalize_back(g, base, w, residuals[0], centred)
    return [d.reshape(a.shape) if need else None for d, a, need in zip((dx, dw, db), arrays, needs)]


def _rows_composite(x: Any, weight: Any, bias: Any, ndim: int, eps: float, centred: bool) -> Any:
    dims = tuple(range(x.ndim - ndim, x.ndim))
    n = max(math.prod(x.shape[d] for d in dims), 1)
    if centred:
        x = x - P.sum(x, dims=dims, keepdim=True) / n
    y = x * P.rsqrt(P.sum(x * x, dims=dims, keepdim=True) / n + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _batch_rows(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    if batched[1] or batched[2]:
        return batch_by_composite(prim, values, batched, size, params)
    return prim(*values, **params)


# Over the last `ndim` dimensions of x; `centred` says whether the mean is subtracted.
row_norm = Fused(
    "row_norm",
    _rows_composite,
    _rows_forward,
    _rows_backward,
    operands=("x", "weight", "bias"),
    batch=_batch_rows,
)


# --- channels: batch_norm and group_norm ---------------------------------------------------------
#
# x is (batch, channels, positions). What is summed over positions is small, (batch, channels), and all else about
# statistics is done there: `groups` of channels have theirs in each example, or, if it is 0, each channel over the batch.


def _as_channels(x: Any) -> Any:
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _sums(x: Any) -> Any:
    batch, channels, length = x.shape
    if length == 1:
        return x.reshape(batch, channels)
    return (x.reshape(-1, length) @ ones(length, x.dtype)).reshape(batch, channels)


def _dots(x: Any, y: Any) -> Any:
    return _sums(x * y) if x.shape[2] <= _SHORT else np.vecdot(x, y)


def _shared(sums: Any, groups: int) -> Any:
    """Sums over those elements that share statistics, for each channel."""
    if not groups:
        return np.add.reduce(sums, axis=0, keepdims=True)
    batch, channels = sums.shape
    total = np.add.reduce(sums.reshape(batch, groups, channels // groups), axis=2)
    return np.repeat(total, channels // groups, axis=1)


def _scaled(x: Any, a: Any, b: Any = None) -> Any:
    """x·a + b with one number for each channel or for each channel of each example."""
    batch, channels, length = x.shape
    if length == 1 or length >= _LONG:
        y = x * a[:, :, None]
        if b is not None:
            y += b[:, :, None]
        return y
    each, rows = ones(length, x.dtype), (batch, channels)
    y = thin(np.broadcast_to(a, rows).reshape(-1), each).reshape(x.shape)
    y *= x
    if b is not None:
        y += thin(np.broadcast_to(b, rows).reshape(-1), each).reshape(x.shape)
    return y


def _count(x: Any, groups: int) -> int:
    """How many elements share statistics."""
    batch, channels, length = x.shape
    return max(channels // groups * length if groups else batch * length, 1)


def _channels_forward(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, ...]:
    """The result, then what `_channels_backward` wants to know, then mean and variance."""
    base = whole = _as_channels(x)
    n = _count(base, groups)
    mean = centre = _shared(_sums(base), groups) / n
    variance = _shared(_dots(base, base), groups) / n - mean * mean
    if _ill_conditioned(mean, variance):
        base = base - mean[:, :, None]
        centre = _shared(_sums(base), groups) / n
        mean = mean + centre
        variance = np.maximum(_shared(_dots(base, base), groups) / n - centre * centre, 0)
    rstd = 1 / np.sqrt(variance + eps)
    scale = rstd if weight is None else rstd * weight
    shift = -centre * scale if bias is None else bias - centre * scale
    y = _scaled(base, scale, shift).reshape(x.shape)
    return y, (None if base is whole else base, centre, rstd), mean, variance


def _channels_backward(arrays: Any, residuals: Any, needs: Any, cts: Any, groups: int) -> list[Any]:
    """As for rows; cotangents of the mean and the variance add to the two numbers that dx is linear in x by."""
    (x, weight, _), (base, mean, rstd) = arrays, residuals
    base = _as_channels(x) if base is None else base
    g = np.zeros(base.shape, base.dtype) if cts[0] is None else _as_channels(cts[0])
    n = _count(base, groups)
    total = _sums(g)
    along = rstd * (_dots(g, base) - mean * total)
    dx = None
    if needs[0]:
        w = 1 if weight is None else weight
        slope = -rstd * rstd * _shared(w * along, groups) / n
        shift = -rstd * _shared(w * total, groups) / n
        if cts[2] is not None:
            slope = slope + 2 * cts[2] / n
        if cts[1] is not None:
            shift = shift + cts[1] / n
        dx = _scaled(base, slope, shift - mean * slope)
        dx += _scaled(g, rstd * w)
        dx = dx.reshape(x.shape)
    return [dx, np.add.reduce(along, axis=0) if needs[1] else None, np.add.reduce(total, axis=0) if needs[2] else None]


def _batch_forward(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, tuple[Any, ...]]:
    y, residuals, mean, variance = _channels_forward(x, weight, bias, 0, eps)
    return (y, mean.reshape(-1), variance.reshape(-1)), residuals


def _batch_composite(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = (0, *range(2, x.ndim))
    n = max(math.prod(x.shape[d] for d in dims), 1)
    mean = P.sum(x, dims=dims, keepdim=True) / n
    centred = x - mean
    variance = P.sum(centred * centred, dims=dims, keepdim=True) / n
    y = _with_affine(centred * P.rsqrt(variance + eps), weight, bias)
    flat = (x.shape[1],)
    return y, P.reshape(mean, shape=flat), P.reshape(variance, shape=flat)


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


# Over everything but dimension 1; gives the result, the mean and the variance (divided by n) of each channel.
batch_norm = Fused(
    "batch_norm",
    _batch_composite,
    _batch_forward,
    lambda cts, arrays, residuals, needs, eps: _channels_backward(arrays, residuals, needs, cts, 0),
    operands=("x", "weight", "bias"),
    results=3,
    batch=_batch_of_batches,
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
    "group_norm",
    _group_composite,
    lambda x, weight, bias, groups, eps: _channels_forward(x, weight, bias, groups, eps)[:2],
    lambda cts, arrays, residuals, needs, groups, eps: _channels_backward(
        arrays, residuals, needs, (cts[0], None, None), groups
    ),
    operands=("x", "weight", "bias"),
    batch=_fold_into_batch,
)


def _affine_backward(cts: Any, arrays: Any, residuals: Any, needs: Any) -> list[Any]:
    x, scale, _ = arrays
    g = _as_channels(cts[0])
    return [
        _scaled(g, scale[None]).reshape(x.shape) if needs[0] else None,
        np.add.reduce(_dots(g, _as_channels(x)), axis=0) if needs[1] else None,
        np.add.reduce(_sums(g), axis=0) if needs[2] else None,
    ]


# x·scale + shift with one number of each for every channel.
channel_affine = Fused(
    "channel_affine",
    _with_affine,
    lambda x, scale, shift: (_scaled(_as_channels(x), scale[None], shift[None]).reshape(x.shape), (None,)),
    _affine_backward,
    operands=("x", "scale", "shift"),
    batch=_fold_into_batch,
)
