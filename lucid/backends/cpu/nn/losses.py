"""Losses whose parts are cheaper to compute together.

To be replaced by generated code.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu.nn.activations import blockwise
from lucid.backends.numpy.nn.losses import of_probabilities
from lucid.core.kernels import fill


def _squares_array(x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    difference = np.subtract(x, y)
    kind = difference.dtype
    if len(dims) == difference.ndim and kind.char in "fd":
        flat = difference.reshape(-1)
        return np.multiply(np.dot(flat, flat), kind.type(scale))
    return np.multiply(np.add.reduce(np.square(difference), axis=dims), kind.type(scale))


def _huber_kernel(x: Any, out: Any, delta: float) -> None:
    """q (|x| - q / 2) with q = min(|x|, δ)."""
    size = np.abs(x)
    np.minimum(size, x.dtype.type(delta), out=out)
    size -= out * x.dtype.type(0.5)
    np.multiply(out, size, out=out)


def _logit_entropy_kernel(x: Any, y: Any, out: Any) -> None:
    """max(x, 0) - x y + log(1 + exp(-|x|)), the logarithm with the digits that 1 + e drops made up for."""
    e = np.abs(x)
    np.negative(e, out=e)
    np.exp(e, out=e)
    u = e + 1
    np.log(u, out=out)
    e -= u - 1
    e /= u
    np.add(out, e, out=out)
    np.maximum(x, 0, out=e)
    e -= x * y
    np.add(out, e, out=out)


def _logit_error_kernel(x: Any, y: Any, out: Any) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)
    np.subtract(out, y, out=out)


def _probability_entropy_kernel(x: Any, y: Any, out: Any) -> None:
    """-(y log x + (1 - y) log(1 - x)), with logarithms of -100 at least."""
    lowest = x.dtype.type(-100)
    failure = 1 - x
    np.log(failure, out=failure)
    np.maximum(failure, lowest, out=failure)
    np.log(x, out=out)
    np.maximum(out, lowest, out=out)
    np.subtract(failure, out, out=out)
    np.multiply(out, y, out=out)
    np.subtract(out, failure, out=out)


fill(
    {
        "sum_of_squares": _squares_array,
        "huber": blockwise(_huber_kernel),
        "logit_error": blockwise(_logit_error_kernel),
        "logit_entropy": blockwise(_logit_entropy_kernel),
        "probability_entropy": of_probabilities(blockwise(_probability_entropy_kernel)),
    },
    "cpu",
)
