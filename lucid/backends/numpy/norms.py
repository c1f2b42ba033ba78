"""Norms, and sizes as powers of 2."""

import math
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.numpy.reductions import sum_array
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.ops.reductions import mean_of


def _largest(x: Any, dims: tuple[int, ...]) -> Any:
    """The largest |x| over dims, of complex numbers the largest part; dims are kept."""
    if x.dtype.kind == "c":
        return np.maximum(_largest(x.real, dims), _largest(x.imag, dims))
    return np.maximum.reduce(np.abs(x), axis=dims, keepdims=True, initial=0)


def power_of_two(size: Any) -> Any:
    """The power of 2 at or below each size; 1 for 0 and what is not finite."""
    usable = np.isfinite(size) & (size > 0)
    return np.ldexp(np.ones_like(size), np.frexp(np.where(usable, size, 1))[1] - 1)


@cache
def moderate_sizes(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest size of numbers whose sums of squares are well within the range of their type."""
    bound = 2.0 ** (3 * int(np.finfo(dtype).maxexp) // 8)
    return 1 / bound, bound


def is_moderate(size: Any, dtype: np.dtype[Any]) -> Any:
    """Whether sums of squares of numbers of this size are well within the range of their type."""
    low, high = moderate_sizes(dtype)
    return (size >= low) & (size <= high)


@cache
def safe_sums(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest sum of powers whose addends cannot have lost digits to the limits of their type."""
    limits = np.finfo(dtype)
    return float(limits.tiny / limits.eps), float(limits.max)


def _unit_array(x: Any, dims: tuple[int, ...], least: float) -> Any:
    if x.dtype == dtypes.bfloat16.numpy:  # which has the range of single precision
        return _unit_array(x.astype(np.float32), dims, least).astype(dtypes.bfloat16.numpy)
    size = np.maximum(_largest(x, dims), least)
    return np.where(is_moderate(size, x.dtype), 1, power_of_two(size)).astype(size.dtype)


def _powers(x: Any, p: float) -> Any:
    """|x|ᵖ"""
    if p == 2:
        return x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
    return np.abs(x) ** x.real.dtype.type(p)


def rooted(total: Any, p: float, divisor: float) -> Any:
    """The norm whose p-th power, times the divisor, is the total."""
    if divisor != 1:
        total = total / total.dtype.type(divisor)
    return np.sqrt(total) if p == 2 else total ** total.dtype.type(1 / p)


def norm_array(x: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float = 1.0) -> Any:
    """(Σ|x|ᵖ / divisor)^(1/p) over dims, right wherever it is in range itself."""
    if x.dtype.itemsize == 2:
        return norm_array(x.astype(np.float32), p, dims, keepdim, divisor).astype(x.dtype)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        total = np.asarray(sum_array(_powers(x, p), dims, keepdim))
        out = np.asarray(rooted(total, p, divisor))
        low, high = safe_sums(total.dtype)
        if total.size and not (
            np.minimum.reduce(total, axis=None) >= low and np.maximum.reduce(total, axis=None) <= high
        ):
            redo(x, p, dims, divisor, total, out)
    return out


def redo(x: Any, p: float, dims: tuple[int, ...], divisor: float, total: Any, out: Any) -> None:
    """Compute again, at the size of 1, those of the norms whose sums were too large or too small for their type."""
    low, high = safe_sums(total.dtype)
    lost = ~((total >= low) & (total <= high))
    kept = [d for d in range(x.ndim) if d not in dims]
    sets = x.transpose(*kept, *dims).reshape(math.prod(x.shape[d] for d in kept), -1)
    sets = sets[lost.reshape(-1)]
    peak = np.minimum.reduce(np.abs(sets), axis=1, keepdims=True) if p < 0 else _largest(sets, (1,))
    found = out[lost]
    some = (np.isfinite(peak) & (peak > 0))[:, 0]
    if not some.any():
        return
    unit = power_of_two(peak[some])
    sizes = np.abs(sets[some] / unit)
    if p != 2:  # powers of 2 would not be near enough to 1 for large p
        peak = (np.minimum if p < 0 else np.maximum).reduce(sizes, axis=1, keepdims=True)
        sizes, unit = sizes / peak, unit * peak
    found[some] = rooted(np.add.reduce(_powers(sizes, p), axis=1), p, divisor) * unit[:, 0]
    out[lost] = found


_CLOSE = 1e-3  # of the squared lengths: below, the product's rounding shows in the distance


def _euclidean_array(x: Any, y: Any) -> Any:
    """|x|² + |y|² - 2 x·y for all pairs of rows by one product.

    Pairs that lie close, and those whose squares are too large or too small for their type, are measured one by one.
    """
    if x.dtype.itemsize == 2:
        return _euclidean_array(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if 0 in (*x.shape, *y.shape):
        return norm_array(x[..., :, None, :] - y[..., None, :, :], 2.0, (max(x.ndim, y.ndim),), False)
    middle = x.mean(axis=-2, keepdims=True)
    a, b = x - middle, y - middle
    lengths = np.square(a).sum(-1)[..., :, None] + np.square(b).sum(-1)[..., None, :]
    squares = np.matmul(a * -2, np.swapaxes(b, -1, -2))
    squares += lengths
    lengths *= _CLOSE
    low, high = safe_sums(squares.dtype)
    far = np.greater(squares, np.maximum(lengths, low, out=lengths)) & (squares <= high)
    with np.errstate(invalid="ignore"):  # rounded below 0 where points are close, which is computed again
        out = np.sqrt(squares, out=squares)
    if not far.all():
        left, right = (np.broadcast_to(v, (*out.shape[:-2], *v.shape[-2:])) for v in (x, y))
        *front, i, j = close = np.nonzero(~far)
        out[close] = norm_array(left[(*front, i)] - right[(*front, j)], 2.0, (1,), False)
    return out


def normalized_rows(x: Any, eps: float, centred: bool) -> tuple[Any, ...]:
    """The rows of x at mean 0 (if centred) and mean square 1, whatever their size; their means and factors of scale."""
    unit = power_of_two(np.maximum(_largest(x, (1,)), math.sqrt(max(eps, 0.0)))).astype(x.dtype)
    normal = x / unit
    mean = np.zeros_like(unit)
    if centred:
        mean = np.mean(normal, axis=1, keepdims=True)
        normal -= mean
        rest = np.mean(normal, axis=1, keepdims=True)
        normal -= rest
        mean += rest
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        scale = 1 / np.sqrt(np.mean(normal * normal, axis=1, keepdims=True) + eps / unit / unit)
        normal *= scale
        return normal, (mean * unit)[:, 0], (scale / unit)[:, 0]


def deviation(x: Any, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    """√(Σ(x - mean)² / divisor) over dims."""
    return P.norm.kernel(P.sub.kernel(x, mean_of(x, dims)), 2.0, dims, keepdim, divisor)


fill(
    {
        "unit_size": _unit_array,
        "norm": norm_array,
        "euclidean": _euclidean_array,
        "deviation": deviation,
    }
)
