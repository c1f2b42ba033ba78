"""Linear algebra functions of the core; the rest is in the extension `linalg`."""

from typing import Any

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.core.tensor import Tensor


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product; vectors count as rows on the left and columns on the right, leading dimensions broadcast.

    >>> import lucid
    >>> lucid.array_api.matmul(lucid.tensor([[1, 2], [3, 4]]), lucid.tensor([1, 1]))
    Tensor([3, 7])
    """
    return lucid.matmul(*same_type("matmul", x1, x2))


def matrix_transpose(x: Any, /) -> Tensor:
    """Matrices with rows and columns exchanged.

    >>> import lucid
    >>> lucid.matrix_transpose(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[1, 3],
            [2, 4]])
    """
    return array(x, "matrix_transpose").mT


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over the last `axes` dimensions of one array and the first of the other, or over given pairs.

    >>> import lucid
    >>> lucid.array_api.tensordot(lucid.ones(2, 3), lucid.ones(3, 4), axes=1).shape
    (2, 4)
    """
    left, right = same_type("tensordot", x1, x2)
    return lucid.tensordot(left, right, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The inner product Σ conj(x1) · x2 along `axis`; the other dimensions broadcast.

    >>> import lucid
    >>> lucid.vecdot(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([1.0, 10.0]))
    Tensor([21., 43.])
    """
    left, right = same_type("vecdot", x1, x2)
    if left.ndim == 0 or right.ndim == 0 or left.shape[axis] != right.shape[axis]:
        raise ValueError(f"vecdot: shapes {left.shape} and {right.shape} have no equal sizes along axis {axis}")
    left, right = lucid.movedim(lucid.conj(left), axis, -1), lucid.movedim(right, axis, -1)
    return (left.unsqueeze(-2) @ right.unsqueeze(-1)).squeeze((-2, -1))
