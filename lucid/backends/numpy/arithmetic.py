"""Products and sums as derivatives need them.

The products have bodies; these forms look for nan first, which is rare, and so save the compiled loops' sources a mask.
"""

from typing import Any

import numpy as np

from lucid.backends.numpy.memory import takes
from lucid.core.kernels import fill


def chain(x: Any, y: Any) -> Any:
    """x · y, and exactly 0 where x is 0, also if y is infinite or nan: where there is no change, none passes on."""
    out = np.multiply(x, y)
    return _with_zeros(out, x == 0) if _has_nan(out) else out


def chain_both(x: Any, y: Any) -> Any:
    """x · y, and exactly 0 where either is 0: both are changes."""
    out = np.multiply(x, y)
    return _with_zeros(out, (x == 0) | (y == 0)) if _has_nan(out) else out


def _has_nan(x: Any) -> bool:
    """Whether an array, or a number of NumPy's, has an element that is nan."""
    return bool(np.isnan(x).any()) if isinstance(x, np.ndarray) else bool(x != x)


def _with_zeros(out: Any, where: Any) -> Any:
    return np.where(np.isnan(out) & where, out.dtype.type(0), out)


def square(x: Any) -> Any:
    """x · x; booleans become integers."""
    return x.astype(np.int64) if x.dtype.kind == "b" else np.square(x)


def add_into(x: Any, y: Any) -> None:
    """x += y"""
    np.add(x, y, out=x)


def added_into(x: Any, y: Any) -> bool:
    """x += y, if the memory of x takes the sum; whether it does."""
    if not takes(x, y):
        return False
    np.add(x, y, out=x)
    return True


fill({"add_into": add_into, "added_into": added_into})  # not primitives: gradients that add up
