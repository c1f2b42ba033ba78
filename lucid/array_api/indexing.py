"""Indexing functions."""

from typing import Any

import lucid
from lucid.array_api.promotion import array
from lucid.core.tensor import Tensor


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The slices of an array at some positions along `axis`, which only a vector may leave out.

    >>> import lucid
    >>> lucid.array_api.take(lucid.tensor([[1, 2, 3], [4, 5, 6]]), lucid.tensor([2, 0]), axis=1)
    Tensor([[3, 1],
            [6, 4]])
    """
    found = array(x, "take")
    if axis is None and found.ndim != 1:
        raise ValueError(f"take: an array with {found.ndim} dimensions needs an axis")
    dim = 0 if axis is None else axis % found.ndim
    return found[(slice(None),) * dim + (array(indices, "take"),)]


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Elements of `x` at `indices` along `axis`; the other dimensions broadcast.

    >>> import lucid
    >>> lucid.take_along_axis(lucid.tensor([[1, 2], [3, 4]]), lucid.tensor([[1], [0]]))
    Tensor([[2],
            [3]])
    """
    return lucid.take_along_dim(array(x, "take_along_axis"), array(indices, "take_along_axis"), axis)
