"""Utility functions."""

from typing import Any

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.array_api.statistics import reduced
from lucid.core.tensor import Tensor


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether every element is true (not zero).

    >>> import lucid
    >>> lucid.array_api.all(lucid.tensor([[True, True], [False, True]]), axis=1)
    Tensor([ True, False])
    """
    return reduced(lucid.all, array(x, "all"), axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element is true (not zero).

    >>> import lucid
    >>> lucid.array_api.any(lucid.tensor([[0, 0], [0, 2]]), axis=1)
    Tensor([False,  True])
    """
    return reduced(lucid.any, array(x, "any"), axis, keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th differences of neighbours along `axis`, of the array with others joined on before and behind.

    >>> import lucid
    >>> lucid.array_api.diff(lucid.tensor([1, 4, 9]), prepend=lucid.tensor([0]))
    Tensor([1, 3, 5])
    """
    parts = same_type("diff", *[p for p in (prepend, array(x, "diff"), append) if p is not None])
    out = lucid.cat(parts, axis) if len(parts) > 1 else parts[0]
    for _ in range(n):
        size = out.shape[axis]
        if not size:
            return out
        later, earlier = out.narrow(axis, 1, size - 1), out.narrow(axis, 0, size - 1)
        out = later != earlier if out.dtype == lucid.bool else later - earlier
    return out
