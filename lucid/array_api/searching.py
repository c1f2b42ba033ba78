"""Searching functions."""

from typing import Any

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.array_api.statistics import reduced
from lucid.core.tensor import Tensor


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is, along `axis` or in the flattened array.

    >>> import lucid
    >>> lucid.array_api.argmax(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), axis=1)
    Tensor([1, 0])
    """
    return lucid.argmax(array(x, "argmax"), axis, keepdim=keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is, along `axis` or in the flattened array.

    >>> import lucid
    >>> lucid.array_api.argmin(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]))
    Tensor(0)
    """
    return lucid.argmin(array(x, "argmin"), axis, keepdim=keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero.

    >>> import lucid
    >>> lucid.array_api.count_nonzero(lucid.tensor([[1, 0], [0, 0]]), axis=1, keepdims=True)
    Tensor([[1],
            [0]])
    """
    return reduced(lucid.sum, lucid.ne(array(x, "count_nonzero"), 0), axis, keepdims)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Where the elements are not zero, as one vector of positions for each dimension.

    >>> import lucid
    >>> lucid.array_api.nonzero(lucid.tensor([[0, 5], [6, 0]]))
    (Tensor([0, 1]), Tensor([1, 0]))
    """
    found = array(x, "nonzero")
    if not found.ndim:
        raise ValueError("nonzero: a 0-d array has no positions; compare it with 0 instead")
    return lucid.nonzero(found, as_tuple=True)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where the elements of `x2` would have to be inserted into the sorted vector `x1` to keep it sorted.

    >>> import lucid
    >>> lucid.array_api.searchsorted(lucid.tensor([1.0, 3.0, 5.0]), lucid.tensor([3.0, 4.0]), side="right")
    Tensor([2, 2])
    """
    return lucid.searchsorted(*same_type("searchsorted", x1, x2), side=side, sorter=sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """Elements of `x1` where the condition holds, of `x2` elsewhere.

    >>> import lucid
    >>> lucid.array_api.where(lucid.tensor([True, False]), lucid.tensor([1.0, 2.0]), 0)
    Tensor([1., 0.])
    """
    if isinstance(x1, (bool, int, float, complex)) and isinstance(x2, (bool, int, float, complex)):
        return lucid.where(array(condition, "where"), x1, x2)
    return lucid.where(array(condition, "where"), *same_type("where", x1, x2))
