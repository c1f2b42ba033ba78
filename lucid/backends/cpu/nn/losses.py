"""Losses whose parts are cheaper to compute together.

To be replaced by generated code.
"""

from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _squares_array(x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    difference = np.subtract(x, y)
    kind = difference.dtype
    if len(dims) == difference.ndim and kind.char in "fd":
        flat = difference.reshape(-1)
        return np.multiply(np.dot(flat, flat), kind.type(scale))
    return np.multiply(np.add.reduce(np.square(difference), axis=dims), kind.type(scale))


fill({"sum_of_squares": _squares_array}, "cpu")
