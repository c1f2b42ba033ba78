"""Sorting functions. nan counts as the largest number."""

from typing import Any

import lucid
from lucid.array_api.promotion import array
from lucid.core.tensor import Tensor


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that put the elements in order along `axis`; equal elements keep their order.

    >>> import lucid
    >>> lucid.array_api.argsort(lucid.tensor([3.0, 1.0, 2.0]))
    Tensor([1, 2, 0])
    """
    return lucid.argsort(array(x, "argsort"), axis, descending, stable)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis`.

    >>> import lucid
    >>> lucid.array_api.sort(lucid.tensor([3.0, 1.0, 2.0]), descending=True)
    Tensor([3., 2., 1.])
    """
    return lucid.sort(array(x, "sort"), axis, descending, stable).values
