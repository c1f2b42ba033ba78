"""How far to go from a matrix along another one."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.kernels import fill


def _length(x: Any) -> Any:
    return np.sqrt(np.sum(np.abs(x) ** 2, axis=(-2, -1), keepdims=True))


def _balance_array(x: Any, t: Any, least: float) -> Any:
    size, step = _length(x), _length(t)
    ratio = np.maximum(np.where(size > 0, size, 1), least) / np.where(step > 0, step, 1)
    return np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1).astype(dtypes.real_of(np.result_type(x, t)))


fill(
    {
        "balance": _balance_array,
    }
)
