"""The standard's rule for operands of several types: arrays of all ranks count alike, numbers follow the arrays."""

from functools import reduce
from typing import Any

import numpy as np

import lucid
from lucid.arguments import promotion
from lucid.core import dtypes
from lucid.core.tensor import Tensor


def array(x: Any, name: str) -> Tensor:
    """An argument that must be an array."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return lucid.as_tensor(np.asarray(x))
    raise TypeError(f"{name} takes arrays, not {type(x).__name__}; make one with asarray")


def same_type(name: str, *operands: Any) -> list[Any]:
    """The arrays among the operands in one type, 0-d ones counting as much as others; numbers are left as they are."""
    found = [lucid.as_tensor(o) if isinstance(o, np.ndarray) else o for o in operands]
    kinds = {o.np_dtype for o in found if isinstance(o, Tensor)}
    if not kinds:
        raise TypeError(
            f"{name}: one of the operands must be an array, got {', '.join(type(o).__name__ for o in found)}"
        )
    if len(kinds) == 1:
        return found
    target = reduce(promotion.promote_pair, kinds)
    return [o.to(dtypes.of_numpy(target)) if isinstance(o, Tensor) else o for o in found]
