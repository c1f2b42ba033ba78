# cython: annotation_typing=True
"""Shapes and types as PyTorch has them. Compiled, since layers ask for them all the time."""

from math import prod
from typing import Any

from lucid.core.fields import TensorFields
from lucid.torch.element_types import BY_NUMPY

_MOST = 4096  # shapes that are kept: to look one up takes half the time of making it
_known: dict[Any, Any] = {}
_item = tuple.__getitem__


class Size(tuple[int, ...]):
    """A shape: a tuple that knows how many elements it stands for.

    >>> from lucid.torch import Size, zeros
    >>> zeros(2, 3).shape, zeros(2, 3).shape.numel(), zeros(2, 3).shape[1:]
    (torch.Size([2, 3]), 6, torch.Size([3]))
    """

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return prod(self)

    def __getitem__(self, key: Any) -> Any:
        found = _item(self, key)
        return sized(found) if type(key) is slice else found

    def __add__(self, other: Any) -> "Size":
        return Size(tuple.__add__(self, other))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


def sized(shape: Any) -> Size:
    """A tuple as a size."""
    found = _known.get(shape)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[shape] = Size(shape)
    return found


def size_of(tensor: Any) -> Size:
    """The shape of a plain tensor."""
    fields: TensorFields = tensor
    return sized(fields._array.shape)


def type_of(tensor: Any) -> Any:
    """The type of the elements of a plain tensor."""
    fields: TensorFields = tensor
    return BY_NUMPY[fields._array.dtype]
