"""Conversions: half precision, which is computed in single precision, and floats as integers."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from lucid.core import dtypes

NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})


def in_single(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose operands of half precision go in, and whose results come out, by way of single precision."""

    @wraps(kernel)
    def run(*arrays: Any, **params: Any) -> Any:
        kind = arrays[0].dtype
        if kind not in NARROW:
            return kernel(*arrays, **params)
        wide = [a.astype(np.float32) if getattr(a, "dtype", None) in NARROW else a for a in arrays]
        out = kernel(*wide, **params)
        return tuple([o.astype(kind) for o in out]) if isinstance(out, tuple) else out.astype(kind)

    return run


class NotFiniteError(ValueError):
    """What has no integer: nan, or an infinity."""


def whole(x: Any, array_type: np.dtype[Any], advice: str = "") -> Any:
    """An array of real floats as integers: the fraction is dropped, and narrow types take the low bits.

    What 64 bits do not hold is refused, but for the float to which the largest integer is rounded. NumPy would leave it,
    and much of the rest, to the processor.
    """
    if not x.size:
        return x.astype(array_type)
    least, most = float(np.minimum.reduce(x, axis=None)), float(np.maximum.reduce(x, axis=None))
    if not math.isfinite(least + most) and not np.isfinite(x).all():
        raise NotFiniteError(f"cannot convert nan or inf to {array_type.name}{advice}")
    limits = np.iinfo(array_type)
    end = 2.0**64 if array_type == dtypes.UINT64 else 2.0**63
    if least < -(2.0**63) or most > end or (most == end and limits.bits < 64):
        extreme = least if least < -(2.0**63) else most
        raise ValueError(f"cannot convert {extreme!r} to {array_type.name}: it has more than 64 bits{advice}")
    if most == end:
        last = x == end
        return np.where(last, limits.max, whole(np.where(last, 0, x), array_type)).astype(array_type)
    if least > limits.min - 1 and most < limits.max:
        return x.astype(array_type)
    if most < 2.0**63:
        return x.astype(np.int64).astype(array_type)
    large = x >= 2.0**63
    out = np.where(large, x - 2.0**63, x).astype(np.int64).astype(np.uint64)
    out[large] += np.uint64(2**63)
    return out
