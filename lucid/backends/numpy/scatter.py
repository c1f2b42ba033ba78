"""Elements written to, added to or folded into places that integers name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.indexing import fold_at
from lucid.core import dtypes
from lucid.core.kernels import fill


def _index_prod_array(x: Any, source: Any, *positions: Any) -> Any:
    out = np.array(x, order="C")
    fold_at(np.multiply, out, positions, source)
    return out


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype in dtypes.FLOATING:
        return -np.inf
    return False if dtype == dtypes.BOOL else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype in dtypes.FLOATING:
        return np.inf
    return True if dtype == dtypes.BOOL else np.iinfo(dtype).max


# What extremes begin with, by the function of two numbers.
START = {"maximum": _lowest, "minimum": _highest}


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    start = START[ufunc.__name__]

    def kernel(x: Any, source: Any, *positions: Any, include_self: bool) -> Any:
        out = np.array(x, order="C")
        if not include_self:
            out[positions] = start(x.dtype)
        fold_at(ufunc, out, positions, source)
        return out

    return kernel


fill(
    {
        "index_amax": _extreme(np.maximum),
        "index_amin": _extreme(np.minimum),
        "index_prod": _index_prod_array,
    }
)
