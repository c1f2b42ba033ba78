"""Softmax and log-softmax along a dimension, and their derivatives."""

from typing import Any

import numpy as np

from lucid.backends.numpy.precision import in_single
from lucid.core.kernels import fill


def _shifted(x: Any, dim: int) -> Any:
    """x with its maximum at 0."""
    return x - np.max(x, axis=dim, keepdims=True, initial=-np.inf)


@in_single
def _softmax(x: Any, dim: int) -> Any:
    e = np.exp(_shifted(x, dim))
    return e / np.sum(e, axis=dim, keepdims=True)


@in_single
def _log_softmax(x: Any, dim: int) -> Any:
    x = _shifted(x, dim)
    return x - np.log(np.sum(np.exp(x), axis=dim, keepdims=True))


@in_single
def _softmax_back(g: Any, y: Any, dim: int) -> Any:
    return y * (g - np.sum(g * y, axis=dim, keepdims=True))


@in_single
def _log_softmax_back(g: Any, y: Any, dim: int) -> Any:
    return g - np.exp(y) * np.sum(g, axis=dim, keepdims=True)


fill(
    {
        "softmax": _softmax,
        "log_softmax": _log_softmax,
        "softmax_back": _softmax_back,
        "log_softmax_back": _log_softmax_back,
    }
)
