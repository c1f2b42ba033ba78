"""Normalisation by the mean and variance of channels over examples and positions: batch norm.

x is (examples, channels, positions), in row-major order. Statistics are in double precision, one number for each channel.
Weights and biases may be None.

Generation does not reach it: that makes functions of rows along one dimension, and the elements of a channel lie along two.
"""

from typing import Any

import numpy as np


def _centred(x: Any, mean: Any) -> Any:
    """x - mean, where the mean has more digits than x."""
    near = mean.astype(x.dtype)
    centred = x - near[:, None]
    centred -= (mean - near).astype(x.dtype)[:, None]
    return centred


def _count(x: Any) -> int:
    """How many elements a channel has."""
    return max(len(x) * x.shape[2], 1)


def normalize(x: Any, weight: Any, bias: Any, eps: float, low: float, high: float) -> tuple[Any, ...]:
    """y = (x - mean) / √(variance + eps) · weight + bias, the mean and 1/√(variance + eps); both in the type of x.

    Then the mean and the variance in the type of x, and whether a variance is not between two numbers.
    """
    n = _count(x)
    mean = np.add.reduce(x, axis=(0, 2), dtype=np.float64) / n
    centred = _centred(x, mean)
    variance = np.add.reduce(np.vecdot(centred, centred).astype(np.float64), axis=0) / n
    rstd = 1 / np.sqrt(variance + eps)
    y = centred * (rstd if weight is None else rstd * weight).astype(x.dtype)[:, None]
    if bias is not None:
        y += bias[:, None]
    is_extreme = not ((variance + eps >= low) & (variance <= high)).all()
    return y, mean, rstd, mean.astype(x.dtype), variance.astype(x.dtype), is_extreme


def normalize_back(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, by_mean: Any, by_variance: Any, has_dx: bool
) -> tuple[Any, Any, Any]:
    """The gradients of x (None without `has_dx`), weight and bias, from those of the result, the mean and the variance.

    With x̂ = (x - mean)·rstd: dx = rstd·(g·w - mean(g·w) - x̂·mean(g·w·x̂)), dw = Σ g·x̂, db = Σ g. The gradients of the
    mean and the variance may be None.
    """
    n = _count(x)
    centred = _centred(x, mean)
    db = np.add.reduce(g, axis=(0, 2), dtype=np.float64)
    dw = np.add.reduce(np.vecdot(g, centred).astype(np.float64), axis=0) * rstd
    dx = None
    if has_dx:
        by_g = rstd if weight is None else rstd * weight
        by_x = ((0 if by_variance is None else 2 * by_variance) - rstd * by_g * dw) / n
        shift = ((0 if by_mean is None else by_mean) - by_g * db) / n
        dx = g * by_g.astype(x.dtype)[:, None]
        centred *= by_x.astype(x.dtype)[:, None]
        dx += centred
        dx += shift.astype(x.dtype)[:, None]
    return dx, dw.astype(x.dtype), db.astype(x.dtype)


def affine(x: Any, scale: Any, shift: Any) -> Any:
    """x·scale + shift, with one number of each for every channel; there may be no shift."""
    y = x * scale[:, None]
    if shift is not None:
        y += shift[:, None]
    return y


def entry(x: Any, eps: float, low: float, high: float, is_back: bool) -> tuple[int, bytes]:
    """The entry point of `normalize`, or of `normalize_back`: its address and its task.

    A flag becomes 1 if a variance, or, going back, a factor of scale is not between two numbers. Forward it is given x,
    weight, mean, 1/√(variance + eps), flag, bias, y, and mean and variance in the type of x; back the first five, g, dx,
    dweight, dbias, and the gradients of the mean and the variance. Any of these may be absent but x, g, y, and numbers of
    channels.
    """
    raise RuntimeError("entry points need compiled code")
