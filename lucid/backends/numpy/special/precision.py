"""Functions that are computed in double precision."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

special: Any = import_module("scipy.special")  # which has no types
Array = Any
Function = Callable[..., Any]


def in_double(function: Function) -> Function:
    """A function of arrays in double precision, rounded to the operands' type."""

    def kernel(*operands: Any, **params: Any) -> Any:
        kind = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        with np.errstate(all="ignore"):
            result = function(*[np.asarray(a, np.float64) for a in operands], **params)
        return np.asarray(result).astype(kind, copy=False)

    return kernel
