"""What attention and linear maps do for each row of a matrix: the softmax of scores, its derivative, and biases.

Arrays are of one type, float or double, and lie in order. `rowwise.pyx` does the same in loops that finish a row while it is
in the cache.

To be replaced by generated code.
"""

from typing import Any

import numpy as np


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
