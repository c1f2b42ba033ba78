"""Questions about tensors whose answers are plain Python values."""

import math
from typing import Any

from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor


def numel(input: Any) -> int:
    """The number of elements.

    >>> import lucid
    >>> lucid.numel(lucid.zeros(2, 3))
    6
    """
    return math.prod(lift(input).shape)


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape.

    >>> import lucid
    >>> lucid.is_same_size(lucid.zeros(2, 3), lucid.ones(2, 3))
    True
    """
    return lift(input).shape == lift(other).shape


def is_signed(input: Any) -> bool:
    """Whether the type of the elements has negative numbers.

    >>> import lucid
    >>> lucid.is_signed(lucid.zeros(2)), lucid.is_signed(lucid.tensor([1], dtype=lucid.uint8))
    (True, False)
    """
    kind = lift(input).np_dtype
    return kind.kind != "u" and kind != dtypes.BOOL


def get_device(input: Tensor) -> int:
    """The number of the accelerator that holds the elements, -1 for the processor's own memory.

    >>> import lucid
    >>> lucid.get_device(lucid.zeros(2))
    -1
    """
    index = input.device.index
    return -1 if input.device.type == "cpu" else 0 if index is None else index


def ndimension(self: Tensor) -> int:
    """The number of dimensions.

    >>> import lucid
    >>> lucid.zeros(2, 3).ndimension()
    2
    """
    return self.ndim
