"""Questions about tensors whose answers are plain Python values."""

import math
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.conversion import CONVERTERS


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


# Converters give classes of tensors their names: x.float() is a FloatTensor.
_CLASSES = {
    {"cfloat": "ComplexFloat", "cdouble": "ComplexDouble", "bfloat16": "BFloat16"}.get(name, name.title()): convert
    for name, convert in CONVERTERS.items()
}


def type(self: Tensor, dtype: Any = None) -> Any:
    """The name of the class of tensors of this type; with `dtype`, the tensor in that type, which may be such a name.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.type(), x.type(lucid.int64), x.type("lucid.DoubleTensor").dtype
    ('lucid.FloatTensor', Tensor([1, 2]), lucid.float64)
    """
    if dtype is None:
        empty = Tensor._wrap(np.empty(0))
        found = (name for name, convert in _CLASSES.items() if convert(empty).dtype == self.dtype)
        return f"lucid.{next(found, self.dtype.name.title())}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        name = dtype.rpartition(".")[2].removesuffix("Tensor")
        if name not in _CLASSES:
            raise ValueError(
                f"type: {dtype!r} is no class of tensors; expected one like 'lucid.FloatTensor', or a dtype"
            )
        return _CLASSES[name](self)
    return self.to(dtype)


def new(self: Tensor, *sizes: Any) -> Tensor:
    """A tensor of this type: of these sizes, with whatever was in memory, or with the elements of a sequence.

    >>> import lucid
    >>> x = lucid.zeros(2, dtype=lucid.float64)
    >>> x.new(2, 3).shape, x.new([1, 2])
    ((2, 3), Tensor([1., 2.], dtype=lucid.float64))
    """
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        return self.new_tensor(sizes[0])
    return self.new_empty(sizes or (0,))


def is_pinned(self: Tensor) -> bool:
    """Whether the memory is locked in place for an accelerator: never.

    >>> import lucid
    >>> lucid.zeros(2).is_pinned()
    False
    """
    return False


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes: never.

    >>> import lucid
    >>> lucid.zeros(2).is_shared()
    False
    """
    return False


def ndimension(self: Tensor) -> int:
    """The number of dimensions.

    >>> import lucid
    >>> lucid.zeros(2, 3).ndimension()
    2
    """
    return self.ndim
