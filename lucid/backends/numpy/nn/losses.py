"""Losses: squares, and the check of probabilities."""

from typing import Any

import numpy as np

from lucid.backends.numpy.precision import in_single
from lucid.core.errors import ArgumentError
from lucid.core.kernels import fill


def _sum_of_squares(x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    return np.add.reduce(np.square(x - y), axis=dims) * x.dtype.type(scale)


def _within(x: Any, low: float, high: float) -> bool:
    return bool(not x.size or (x.min() >= low and x.max() <= high))


def of_probabilities(impl: Any, within: Any = _within) -> Any:
    """Refuse operands outside [0, 1], of which the logarithms are nan."""

    def checked(*arrays: Any) -> Any:
        for array, what in zip(arrays, ("input", "target"), strict=True):
            if not within(array, 0, 1):
                raise ArgumentError(
                    f"binary_cross_entropy: the {what} must lie between 0 and 1, but reaches from {array.min()} to "
                    f"{array.max()}; apply a sigmoid, or use binary_cross_entropy_with_logits"
                )
        return impl(*arrays)

    return checked


def _probability_entropy(x: Any, y: Any) -> Any:
    """-(y log x + (1 - y) log(1 - x)), with logarithms of -100 at least."""
    return -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))


fill(
    {
        "sum_of_squares": _sum_of_squares,
        "probability_entropy": of_probabilities(in_single(_probability_entropy)),
    }
)
