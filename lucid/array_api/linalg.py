"""The standard's linear algebra extension, over `lucid.linalg`."""

from typing import Any

import lucid
from lucid.array_api.linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from lucid.array_api.promotion import array, same_type
from lucid.array_api.statistics import sum as total
from lucid.core.tensor import Tensor
from lucid.linalg.determinants import SlogdetResult
from lucid.linalg.eigen import SVD, Eigen
from lucid.linalg.orthogonal import QR


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of symmetric positive-definite matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.cholesky(lucid.tensor([[4.0, 0.0], [0.0, 9.0]]))
    Tensor([[2., 0.],
            [0., 3.]])
    """
    return lucid.linalg.cholesky(array(x, "cholesky"), upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three along `axis`; the other dimensions broadcast.

    >>> import lucid
    >>> lucid.array_api.linalg.cross(lucid.tensor([1.0, 0.0, 0.0]), lucid.tensor([0.0, 1.0, 0.0]))
    Tensor([0., 0., 1.])
    """
    left, right = lucid.broadcast_tensors(*same_type("cross", x1, x2))
    if left.shape[axis] != 3:
        raise ValueError(f"cross: axis {axis} must be of size 3, not {left.shape[axis]}")
    return lucid.cross(left, right, axis)


def det(x: Any, /) -> Tensor:
    """The determinant of square matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.det(lucid.tensor([[2.0, 0.0], [0.0, 3.0]]))
    Tensor(6.)
    """
    return lucid.linalg.det(array(x, "det"))


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonal of matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.diagonal(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([1, 4])
    """
    return lucid.diagonal(array(x, "diagonal"), offset, -2, -1)


def eigh(x: Any, /) -> Eigen:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.eigh(lucid.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Tensor([1., 2.])
    """
    return lucid.linalg.eigh(array(x, "eigh"))


def eigvalsh(x: Any, /) -> Tensor:
    """Eigenvalues of Hermitian matrices, in ascending order.

    >>> import lucid
    >>> lucid.array_api.linalg.eigvalsh(lucid.tensor([[2.0, 0.0], [0.0, 1.0]]))
    Tensor([1., 2.])
    """
    return lucid.linalg.eigvalsh(array(x, "eigvalsh"))


def inv(x: Any, /) -> Tensor:
    """The inverse of square matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.inv(lucid.tensor([[2.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return lucid.linalg.inv(array(x, "inv"))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    >>> import lucid
    >>> lucid.array_api.linalg.matrix_norm(lucid.tensor([[3.0, 0.0], [0.0, 4.0]]))
    Tensor(5.)
    """
    return lucid.linalg.matrix_norm(array(x, "matrix_norm"), "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """A square matrix to an integer power.

    >>> import lucid
    >>> lucid.array_api.linalg.matrix_power(lucid.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    Tensor([[1., 3.],
            [0., 1.]])
    """
    return lucid.linalg.matrix_power(array(x, "matrix_power"), n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest.

    >>> import lucid
    >>> lucid.array_api.linalg.matrix_rank(lucid.ones(2, 2))
    Tensor(1)
    """
    return lucid.linalg.matrix_rank(array(x, "matrix_rank"), rtol=rtol)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of the elements of two vectors.

    >>> import lucid
    >>> lucid.array_api.linalg.outer(lucid.tensor([1, 2]), lucid.tensor([3, 4]))
    Tensor([[3, 4],
            [6, 8]])
    """
    return lucid.outer(*same_type("outer", x1, x2))


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse of matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.pinv(lucid.tensor([[2.0], [0.0]]))
    Tensor([[0.5, 0. ]])
    """
    return lucid.linalg.pinv(array(x, "pinv"), rtol=rtol)


def qr(x: Any, /, *, mode: str = "reduced") -> QR:
    """Matrices as a product of orthonormal columns and an upper triangle.

    >>> import lucid
    >>> lucid.array_api.linalg.qr(lucid.ones(3, 2), mode="complete").Q.shape
    (3, 3)
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', not {mode!r}")
    return lucid.linalg.qr(array(x, "qr"), mode)


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant of square matrices and the logarithm of its size.

    >>> import lucid
    >>> lucid.array_api.linalg.slogdet(lucid.tensor([[-1.0, 0.0], [0.0, 1.0]])).sign
    Tensor(-1.)
    """
    return lucid.linalg.slogdet(array(x, "slogdet"))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solution of linear systems; `x2` is one vector if it has one dimension, and matrices otherwise.

    >>> import lucid
    >>> lucid.array_api.linalg.solve(lucid.tensor([[2.0, 0.0], [0.0, 4.0]]), lucid.tensor([1.0, 1.0]))
    Tensor([0.5 , 0.25])
    """
    left, right = same_type("solve", x1, x2)
    if right.ndim != 1:
        # lucid.linalg.solve takes a stack of vectors for what it is; the standard has matrices only.
        return lucid.linalg.solve(*_same_stack(left, right))
    return lucid.linalg.solve(*_same_stack(left, right.unsqueeze(-1))).squeeze(-1)


def _same_stack(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    rank = max(left.ndim, right.ndim)
    return tuple(x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (left, right))  # type: ignore[return-value]  # a pair


def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """The singular value decomposition of matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.svd(lucid.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    Tensor([2., 1.])
    """
    return lucid.linalg.svd(array(x, "svd"), full_matrices=full_matrices)


def svdvals(x: Any, /) -> Tensor:
    """The singular values of matrices, in descending order.

    >>> import lucid
    >>> lucid.array_api.linalg.svdvals(lucid.tensor([[0.0, 2.0], [1.0, 0.0]]))
    Tensor([2., 1.])
    """
    return lucid.linalg.svdvals(array(x, "svdvals"))


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonal of matrices.

    >>> import lucid
    >>> lucid.array_api.linalg.trace(lucid.tensor([[1, 2], [3, 4]]))
    Tensor(5)
    """
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The p-norm along `axis`, or of all elements.

    >>> import lucid
    >>> lucid.array_api.linalg.vector_norm(lucid.tensor([3.0, -4.0]))
    Tensor(5.)
    """
    return lucid.norm(array(x, "vector_norm"), ord, axis, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
