"""`numpy.lib.stride_tricks` on arrays of the front door."""

from typing import Any

import numpy as np

from lucid.api import strides as api
from lucid.numpy.arrays import DOOR

__all__ = ["as_strided", "sliding_window_view"]

sliding_window_view = DOOR.function(np.lib.stride_tricks.sliding_window_view)


def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    """A view of the memory of an array, whose elements stand `strides` bytes apart.

    >>> import lucid.numpy as np
    >>> np.lib.stride_tricks.as_strided(np.arange(4), (2, 3), (8, 8))
    array([[0, 1, 2],
           [1, 2, 3]])
    """
    array: Any = DOOR.array(x)
    size = array.itemsize
    steps = array.strides if strides is None else strides
    if any(step % size for step in steps):
        raise ValueError(f"as_strided: strides {tuple(steps)} must be multiples of {size}, the bytes of an element")
    return api.as_strided(array, array.shape if shape is None else shape, [step // size for step in steps])
