"""What einops has to know of tensors; it finds the class below by itself once this module is imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

import lucid
from lucid.core.tensor import Tensor

# einops' names of reductions that mean something else here when they are given dimensions.
_REDUCTIONS = {"max": lucid.amax, "min": lucid.amin}


class LucidBackend(AbstractBackend):
    """Tensors for einops: `rearrange`, `reduce`, `repeat`, `pack`, `unpack` and `einsum`, with derivatives.

    >>> import einops, lucid
    >>> einops.rearrange(lucid.arange(6), "(a b) -> b a", a=2).shape
    (3, 2)
    """

    framework_name = "lucid"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        return lucid.from_numpy(x)

    def to_numpy(self, x: Tensor) -> Any:
        return np.asarray(x)

    def arange(self, start: int, stop: int) -> Tensor:
        return lucid.arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute(tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        return _REDUCTIONS.get(operation, getattr(lucid, operation))(x, tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return lucid.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = length
        return x.expand(sizes)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return x.tile(tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return lucid.cat(list(tensors), axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_floating_point or x.dtype.is_complex

    def layers(self) -> Any:
        from lucid.interop import einops_layers

        return einops_layers

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return lucid.einsum(pattern, *x)


__all__ = ["LucidBackend"]
