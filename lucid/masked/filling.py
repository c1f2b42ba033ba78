"""What elements that are masked out are replaced by, so that an operation does not notice them."""

import math
from typing import Any

import numpy as np

from lucid.arguments.promotion import cast
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.rules import P, broadcast_to


def operand(input: Any, dtype: Any, whole_sums: bool = False) -> Tensor:
    """The operand in the type that is asked for; small integers are summed in int64."""
    x = lift(input)
    if dtype is not None:
        return x.to(dtype)
    return cast(x, dtypes.INT64) if whole_sums and x.np_dtype not in dtypes.DIFFERENTIABLE else x


def mask_of(x: Tensor, mask: Any, name: str) -> Tensor:
    """The mask in the shape of `x`."""
    found = lift(mask)
    if found.np_dtype != dtypes.BOOL:
        found = found != 0
    extra = x.ndim - found.ndim
    if extra < 0 or any(m not in (1, n) for m, n in zip(found.shape, x.shape[extra:], strict=True)):
        raise IndexError(f"masked.{name}: a mask of shape {found.shape} does not fit an input of shape {x.shape}")
    return broadcast_to(found, x.shape)


def filled(x: Tensor, mask: Any, value: Any, name: str) -> Tensor:
    """`x` with `value` where the mask does not hold."""
    if mask is None:
        return x
    if not math.isfinite(value) and x.np_dtype not in dtypes.DIFFERENTIABLE:
        raise TypeError(f"masked.{name} needs a floating-point tensor, not {x.dtype}; convert it, or give a dtype")
    return P.where(mask_of(x, mask, name), x, Tensor._wrap(np.asarray(value, x.np_dtype)))


def lowest(dtype: np.dtype[Any]) -> Any:
    """What loses against every element in a search for the largest."""
    if dtype in dtypes.FLOATING:
        return -math.inf
    return False if dtype == dtypes.BOOL else np.iinfo(dtype).min


def highest(dtype: np.dtype[Any]) -> Any:
    """What loses against every element in a search for the smallest."""
    if dtype in dtypes.FLOATING:
        return math.inf
    return True if dtype == dtypes.BOOL else np.iinfo(dtype).max
