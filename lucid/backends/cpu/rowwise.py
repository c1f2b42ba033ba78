"""What is computed for each row of a matrix alone: its normalisation, its softmax, and their derivatives.

Arrays are of one type, float or double, and lie in order. `rowwise.pyx` does the same in loops that finish a row while it is
in the cache.

To be replaced by generated code.
"""

from typing import Any

import numpy as np


def normalize(x: Any, weight: Any, bias: Any, eps: float, centred: bool) -> tuple[Any, Any]:
    """x̂·weight + bias, where x̂ are the rows at mean 0 (if `centred`) and mean square 1; and the rows' statistics.

    Those are, for each row, the mean, what was missing from it because it was rounded, and the factor of scale.
    """
    n = max(x.shape[1], 1)
    statistics = np.zeros((3, len(x)), x.dtype)
    mean, rest, scale = statistics
    base = x
    if centred:
        np.divide(np.add.reduce(x, axis=1), n, out=mean)
        base = x - mean[:, None]
        np.divide(np.add.reduce(base, axis=1), n, out=rest)
    variance = np.maximum(np.vecdot(base, base) / n - rest * rest, 0)
    np.divide(1, np.sqrt(variance + x.dtype.type(eps)), out=scale)
    y = _normal(x, statistics)
    y *= weight
    y += bias
    return y, statistics


def _normal(x: Any, statistics: Any) -> Any:
    mean, rest, scale = statistics[:, :, None]
    out = x - mean
    out -= rest
    out *= scale
    return out


def normalize_back(g: Any, x: Any, weight: Any, statistics: Any, centred: bool) -> tuple[Any, Any, Any]:
    """The cotangents of x, weight and bias, by way of h = g·weight.

    They are scale·(h - mean(h) - x̂·mean(h·x̂)), without mean(h) where rows were not centred; Σ g·x̂; and Σ g.
    """
    n = max(x.shape[1], 1)
    normal = _normal(x, statistics)
    dx = g * weight
    along = np.vecdot(dx, normal) / n
    total = np.add.reduce(dx, axis=1) / n
    dweight = np.add.reduce(g * normal, axis=0)
    if centred:
        dx -= total[:, None]
    normal *= along[:, None]
    dx -= normal
    dx *= statistics[2][:, None]
    return dx, dweight, np.add.reduce(g, axis=0)


def _behind_diagonal(x: Any) -> Any:
    return np.triu(np.ones(x.shape[-2:], bool), 1)


def softmax_scores(x: Any, scale: float, causal: bool) -> None:
    """Replace each row of a stack of matrices by softmax(scale · row), and by 0 where all of it is -inf.

    If `causal`, row i of a matrix ends after its element i; the others become 0.
    """
    x *= x.dtype.type(scale)
    if causal:
        x[..., _behind_diagonal(x)] = -np.inf
    top = x.max(-1, keepdims=True, initial=-np.inf)
    x -= np.where(np.isfinite(top), top, 0)
    np.exp(x, out=x)
    total = np.add.reduce(x, axis=-1, keepdims=True)
    x /= np.where(total == 0, 1, total)


def softmax_scores_back(g: Any, y: Any, scale: float, causal: bool) -> None:
    """Replace g, the cotangent of such a softmax y, by that of the scores: scale · y · (g - Σ g·y)."""
    if causal:
        g[..., _behind_diagonal(g)] = 0
    g -= np.vecdot(g, y)[..., None]
    g *= y
    g *= g.dtype.type(scale)


def add_bias(x: Any, bias: Any) -> None:
    """Add a vector to each row of an array of any rank."""
    np.add(x, bias, out=x)


def column_sums(x: Any) -> Any:
    """The sum of the rows of a matrix."""
    return np.add.reduce(x, axis=0)


def _within(places: Any, n: int) -> bool:
    return not places.size or (int(places.min()) >= 0 and int(places.max()) < n)


def losses(x: Any, places: Any, e: Any, out: Any) -> bool:
    """Write exp(x - max x) to `e` and log Σ exp(x) - x[place] to `out`, for each row and its place (int64).

    False, and nothing of use, if there is no such place in some row.
    """
    if not _within(places, x.shape[1]):
        return False
    most = np.maximum.reduce(x, axis=1)
    np.exp(x - most[:, None], out=e)
    np.log(np.add.reduce(e, axis=1), out=out)
    out -= x[np.arange(len(x)), places] - most
    return True


def losses_back(e: Any, places: Any, share: float, out: Any) -> bool:
    """Write share · (e / Σe - onehot(place)) to `out`, for each row; False as above."""
    if not _within(places, e.shape[1]):
        return False
    np.multiply(e, share / np.add.reduce(e, axis=1)[:, None], out=out)
    out[np.arange(len(e)), places] -= share
    return True
