"""The older names of factorizations, which stand beside `lucid.linalg` at the top level, with their own arguments."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.arguments.out import takes_out
from lucid.core.primitive import P
from lucid.core.tensor import Tensor
from lucid.linalg import eigen, factorizations, orthogonal, triangular
from lucid.linalg.factorizations import LUFactor
from lucid.linalg.operands import matrix_operand, square_operand
from lucid.linalg.orthogonal import QR, geqrf, ormqr
from lucid.ops.linalg.matrices import adjoint


class USV(NamedTuple):
    """What `lucid.svd` gives: A = U diag(S) V^H.

    >>> import lucid
    >>> lucid.svd(lucid.eye(2)).S
    Tensor([1., 1.])
    """

    U: Tensor
    S: Tensor
    V: Tensor


class TriangularSolve(NamedTuple):
    """What `triangular_solve` gives: the solution, and a copy of the matrix.

    >>> import lucid
    >>> lucid.triangular_solve(lucid.ones(1, 1), lucid.eye(1)).solution
    Tensor([[1.]])
    """

    solution: Tensor
    cloned_coefficient: Tensor


def cholesky(input: Any, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive-definite matrices, as `lucid.linalg.cholesky`.

    >>> import lucid
    >>> lucid.cholesky(lucid.tensor([[4.0, 2.0], [2.0, 5.0]]))
    Tensor([[2., 0.],
            [1., 2.]])
    """
    return factorizations.cholesky(input, upper=upper)


def qr(input: Any, some: bool = True) -> QR:
    """A = Q R, as `lucid.linalg.qr`: reduced if `some`, else complete.

    >>> import lucid
    >>> Q, R = lucid.qr(lucid.ones(3, 2), some=False)
    >>> Q.shape, R.shape
    ((3, 3), (3, 2))
    """
    return orthogonal.qr(input, "reduced" if some else "complete")


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> USV:
    """A = U diag(S) V^H, as `lucid.linalg.svd` but with V for its adjoint; U and V are reduced if `some`.

    Without `compute_uv`, U and V are zeros, m by m and n by n.

    >>> import lucid
    >>> U, S, V = lucid.svd(lucid.ones(3, 2))
    >>> U.shape, S.shape, V.shape
    ((3, 2), (2,), (2, 2))
    """
    x = matrix_operand("svd", input)
    if compute_uv:
        U, S, Vh = eigen.svd(x, full_matrices=not some)
        return USV(U, S, adjoint(Vh))
    left, right = (Tensor._wrap(np.zeros((*x.shape[:-2], n, n), x.np_dtype)) for n in x.shape[-2:])
    return USV(left, eigen.svdvals(x), right)


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """The factors of A = P L U in compact form, as `lucid.linalg.lu_factor`, and with `get_infos` where U has a zero.

    >>> import lucid
    >>> lucid.lu(lucid.tensor([[1.0, 3.0], [2.0, 4.0]])).pivots
    Tensor([2, 2], dtype=lucid.int32)
    """
    found = factorizations.lu_factor_ex(A, pivot=pivot)
    return found if get_infos else LUFactor(*found[:2])


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Tensor:
    """The solution X of A X = b, given the factors of A as `lucid.lu` gives them.

    >>> import lucid
    >>> LU, pivots = lucid.lu(lucid.tensor([[1.0, 3.0], [2.0, 4.0]]))
    >>> lucid.lu_solve(lucid.tensor([[4.0], [6.0]]), LU, pivots)
    Tensor([[1.],
            [1.]])
    """
    return factorizations.lu_solve(LU_data, LU_pivots, b)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """The solution X of A X = b for triangular matrices A, or of A^T X = b with `transpose`; and a copy of A.

    >>> import lucid
    >>> A = lucid.tensor([[2.0, 1.0], [0.0, 4.0]])
    >>> lucid.triangular_solve(lucid.tensor([[4.0], [8.0]]), A).solution
    Tensor([[1.],
            [2.]])
    """
    a = square_operand("triangular_solve", A)
    flipped = a.mT if transpose else a
    found = triangular.solve_triangular(flipped, b, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return TriangularSolve(found, P.clone(a))


def orgqr(input: Any, tau: Any) -> Tensor:
    """The first columns of a product of reflections: `lucid.linalg.householder_product`.

    >>> import lucid
    >>> A = lucid.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> lucid.allclose(lucid.orgqr(*lucid.geqrf(A)), lucid.linalg.qr(A).Q, atol=1e-6)
    True
    """
    return orthogonal.householder_product(input, tau)


__all__ = ["cholesky", "geqrf", "lu", "lu_solve", "orgqr", "ormqr", "qr", "svd", "triangular_solve"]

globals().update({_name: takes_out(globals()[_name]) for _name in __all__})
