"""Normalisation by the mean and variance of channels, or of groups of them, over positions: batch and group norm.

x is (examples, channels, positions). `groups` of channels share statistics in each example, or, if it is 0, each
channel has its own over all examples. Statistics are in double precision, one number for each set of elements that
share them: (channels,) or (examples, groups).

To be replaced by generated code.
"""

from typing import Any

import numpy as np


def _sums(sums: Any, groups: int) -> Any:
    """Sums over those that share statistics, of what was summed over positions."""
    if not groups:
        return np.add.reduce(sums, axis=0)
    return np.add.reduce(sums.reshape(len(sums), groups, sums.shape[1] // groups), axis=2)


def _for_channels(numbers: Any, x: Any, groups: int) -> Any:
    """What each channel has of numbers for each set, in the shape that broadcasts against x."""
    return np.repeat(numbers, x.shape[1] // groups, axis=1)[:, :, None] if groups else numbers[:, None]


def _count(x: Any, groups: int) -> int:
    """How many elements share statistics."""
    return max(x.size // max(len(x) * groups if groups else x.shape[1], 1), 1)


def _centred(x: Any, mean: Any) -> Any:
    """x - mean, where the mean has more digits than x."""
    near = mean.astype(x.dtype)
    centred = x - near
    centred -= (mean - near).astype(x.dtype)
    return centred


def normalize(x: Any, weight: Any, bias: Any, groups: int, eps: float, y: Any, mean: Any, variance: Any) -> None:
    """y = (x - mean) / √(variance + eps) · weight + bias; writes mean and variance too."""
    n = _count(x, groups)
    mean[...] = _sums(np.add.reduce(x, axis=2, dtype=np.float64), groups) / n
    centred = _centred(x, _for_channels(mean, x, groups))
    variance[...] = _sums(np.vecdot(centred, centred).astype(np.float64), groups) / n
    scale = weight[:, None] / np.sqrt(_for_channels(variance, x, groups) + eps)
    np.multiply(centred, scale.astype(x.dtype), out=y)
    y += bias[:, None]


def normalize_back(
    g: Any, x: Any, weight: Any, groups: int, mean: Any, rstd: Any, by_mean: Any, by_variance: Any, dx: Any,
    dweight: Any, dbias: Any,
) -> None:  # fmt: skip
    """The gradients of x (unless it is None), weight and bias, from those of the result, the mean and the variance.

    With x̂ = (x - mean)·rstd: dx = rstd·(g·w - mean(g·w) - x̂·mean(g·w·x̂)), dw = Σ g·x̂, db = Σ g. The last two are
    summed over positions and, if each channel has statistics of its own, over examples.
    """
    n = _count(x, groups)
    centred = _centred(x, _for_channels(mean, x, groups))
    total = np.add.reduce(g, axis=2, dtype=np.float64)
    along = np.vecdot(g, centred) * _for_channels(rstd, x, groups)[..., 0]
    dbias[...] = total if groups else np.add.reduce(total, axis=0)
    dweight[...] = along if groups else np.add.reduce(along, axis=0)
    if dx is None:
        return
    slope = (2 * by_variance - rstd * rstd * _sums(weight * along, groups)) / n
    shift = (by_mean - rstd * _sums(weight * total, groups)) / n
    np.multiply(g, (_for_channels(rstd, x, groups) * weight[:, None]).astype(x.dtype), out=dx)
    centred *= _for_channels(slope, x, groups).astype(x.dtype)
    dx += centred
    dx += _for_channels(shift, x, groups).astype(x.dtype)


def affine(x: Any, scale: Any, shift: Any, y: Any) -> None:
    """y = x·scale + shift, with one number of each for every channel."""
    np.multiply(x, scale[:, None], out=y)
    y += shift[:, None]


def entry(x: Any, eps: float, low: float, high: float, is_back: bool, is_shared: bool) -> tuple[int, bytes]:
    """The entry point of `normalize` for channels, or of `normalize_back`: its address and its task.

    A flag becomes 1 if a variance, or, going back, a factor of scale is not between two numbers. Forward it is given x,
    weight, mean, 1/√(variance + eps), flag, bias, y, variance, and mean and variance in the type of x; back the first five,
    g, dx, zeros, dweight, dbias, and room for two numbers of each channel.
    """
    raise RuntimeError("entry points need compiled code")
