"""Factorizations into triangles: Cholesky's A = L L^H of positive-definite matrices, and A = P L U."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.core.errors import ElementTypeError
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, raise_unless_same_type, square_operand, stack_shape
from lucid.ops.contraction import matmul
from lucid.ops.linalg.factorizations import exchanged, unit_lower
from lucid.ops.linalg.matrices import adjoint, identity, rows
from lucid.ops.linalg.matrices import adjoint as conjugate_transpose
from lucid.ops.linalg.triangular import solve_left
from lucid.ops.rules import P

__all__ = [
    "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
    "lu_unpack",
]  # fmt: skip


class CholeskyEx(NamedTuple):
    """What `cholesky_ex` gives: the factor and, for each matrix, 0 or the order of a minor that is not positive.

    >>> import lucid
    >>> lucid.linalg.cholesky_ex(lucid.eye(2)).info
    Tensor(0, dtype=lucid.int32)
    """

    L: Tensor
    info: Tensor


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """The Cholesky factor, and for each matrix 0 or the order of its first leading minor that is not positive.

    A matrix that has no factor is reported in `info` and not by an error, unless `check_errors` asks for one.

    >>> import lucid
    >>> lucid.linalg.cholesky_ex(lucid.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    Tensor(2, dtype=lucid.int32)
    """
    return _factor("linalg.cholesky_ex", A, upper, check_errors)


def _factor(name: str, A: Any, upper: bool, check: bool) -> CholeskyEx:
    x = square_operand(name, A)
    L, info = P.cholesky(adjoint(x) if upper else x, checked=name if check else "")
    return CholeskyEx(adjoint(L) if upper else L, info)


def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^H, or the upper triangular U with A = U^H U.

    The matrices must be hermitian (real: symmetric) and positive-definite; of each the triangle of that name is read.

    >>> import lucid
    >>> lucid.linalg.cholesky(lucid.tensor([[4.0, 2.0], [2.0, 5.0]]))
    Tensor([[2., 0.],
            [1., 2.]])
    """
    return _factor("linalg.cholesky", A, upper, check=True).L


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Tensor:
    """The solution X of A X = B, given the Cholesky factor of A: `L`, or U if it is `upper`. Stacks broadcast.

    >>> import lucid
    >>> L = lucid.tensor([[2.0, 0.0], [1.0, 2.0]])
    >>> lucid.cholesky_solve(lucid.tensor([[6.0], [7.0]]), L)
    Tensor([[1.],
            [1.]])
    """
    name = "cholesky_solve"
    factor, right = square_operand(name, L, "L"), matrix_operand(name, B, "B")
    raise_unless_same_type(name, right, factor)
    if factor.shape[-1] != right.shape[-2]:
        raise RuntimeError(f"{name}: a factor of shape {factor.shape} does not fit a right side of shape {right.shape}")
    stack_shape(name, factor, right)
    lower = adjoint(factor) if upper else factor
    return solve_left(adjoint(lower), solve_left(lower, right, upper=False), upper=True)


def cholesky_inverse(L: Any, upper: bool = False) -> Tensor:
    """The inverse of A, given the Cholesky factor of A: `L`, or U if it is `upper`. A zero on its diagonal is an error.

    >>> import lucid
    >>> lucid.cholesky_inverse(lucid.tensor([[2.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.25  , 0.    ],
            [0.    , 0.0625]])
    """
    factor = square_operand("cholesky_inverse", L, "L")
    P.checked_factor(factor.detach())
    return cholesky_solve(Tensor._wrap(identity(factor.shape[-1], factor)), factor, upper)


# --- LU --------------------------------------------------------------------------------------------


class LUFactor(NamedTuple):
    """What `lu_factor` gives: L and U in one matrix, and for each row the one that it was exchanged with, from 1.

    >>> import lucid
    >>> lucid.linalg.lu_factor(lucid.eye(2)).pivots
    Tensor([1, 2], dtype=lucid.int32)
    """

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """What `lu_factor_ex` gives: also, for each matrix, 0 or the place of the first zero on U's diagonal, from 1.

    >>> import lucid
    >>> lucid.linalg.lu_factor_ex(lucid.zeros(2, 2)).info
    Tensor(1, dtype=lucid.int32)
    """

    LU: Tensor
    pivots: Tensor
    info: Tensor


class PLU(NamedTuple):
    """What `lu` gives: A = P L U.

    >>> import lucid
    >>> lucid.linalg.lu(lucid.eye(2)).L.shape
    (2, 2)
    """

    P: Tensor
    L: Tensor
    U: Tensor


def _upper(lu: Any) -> Any:
    return P.triu(rows(lu, 0, min(lu.shape[-2:])), diagonal=0)


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """The factors of A = P L U as `lu_factor` gives them, and where U has its first zero on the diagonal, or 0.

    A zero is no error, unless `check_errors` makes it one. Without `pivot` no rows are exchanged.

    >>> import lucid
    >>> lucid.linalg.lu_factor_ex(lucid.tensor([[1.0, 2.0], [2.0, 4.0]])).info
    Tensor(2, dtype=lucid.int32)
    """
    x = matrix_operand("linalg.lu_factor_ex", A)
    return LUFactorEx(*P.lu_factor(x, pivot=bool(pivot), checked="linalg.lu_factor_ex" if check_errors else ""))


def lu_factor(A: Any, *, pivot: bool = True) -> LUFactor:
    """The factors of A = P L U in compact form, as `lu_solve` takes them.

    L below the diagonal (it has ones on it) and U from the diagonal upwards share one matrix. `pivots[i]` is the row
    that row i was exchanged with, counted from 1. A zero on U's diagonal is an error.

    >>> import lucid
    >>> LU, pivots = lucid.linalg.lu_factor(lucid.tensor([[1.0, 3.0], [2.0, 4.0]]))
    >>> LU, pivots
    (Tensor([[2. , 4. ],
            [0.5, 1. ]]), Tensor([2, 2], dtype=lucid.int32))
    """
    x = matrix_operand("linalg.lu_factor", A)
    return LUFactor(*P.lu_factor(x, pivot=bool(pivot), checked="linalg.lu_factor")[:2])


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> PLU:
    """P, L and U from what `lu_factor` gives; those that are not asked for are empty.

    >>> import lucid
    >>> P, L, U = lucid.lu_unpack(*lucid.linalg.lu_factor(lucid.tensor([[1.0, 3.0], [2.0, 4.0]])))
    >>> P @ L @ U
    Tensor([[1., 3.],
            [2., 4.]])
    """
    lu, pivots = matrix_operand("lu_unpack", LU_data, "LU_data"), _pivots("lu_unpack", LU_data, LU_pivots)
    permuted = lower = upper = Tensor._wrap(np.zeros(0, lu.np_dtype))
    if unpack_pivots:
        permuted = exchanged(lu, pivots)
    if unpack_data:
        lower, upper = unit_lower(lu), _upper(lu)
    return PLU(permuted, lower, upper)


def _pivots(name: str, LU: Any, pivots: Any) -> Tensor:
    lu, found = lift(LU), lift(pivots)
    if found.np_dtype.kind not in "iu":
        raise ElementTypeError(f"{name}: pivots must be integers, not {found.dtype}")
    if found.shape != (*lu.shape[:-2], min(lu.shape[-2:])):
        raise RuntimeError(f"{name}: pivots of shape {found.shape} do not belong to factors of shape {lu.shape}")
    return found


def lu(A: Any, *, pivot: bool = True) -> PLU:
    """A = P L U with a permutation P, a lower triangular L with ones on its diagonal and an upper triangular U.

    Without `pivot` no rows are exchanged and P is empty.

    >>> import lucid
    >>> P, L, U = lucid.linalg.lu(lucid.tensor([[1.0, 3.0], [2.0, 4.0]]))
    >>> L, U
    (Tensor([[1. , 0. ],
            [0.5, 1. ]]), Tensor([[2., 4.],
            [0., 1.]]))
    """
    x = matrix_operand("linalg.lu", A)
    factors, pivots, _ = P.lu_factor(x, pivot=bool(pivot), checked="")
    return lu_unpack(factors, pivots, unpack_pivots=pivot)


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution X of A X = B, given the factors of A as `lu_factor` gives them. Stacks broadcast.

    If not `left`, of X A = B; with `adjoint`, A^H takes the place of A.

    >>> import lucid
    >>> LU, pivots = lucid.linalg.lu_factor(lucid.tensor([[1.0, 3.0], [2.0, 4.0]]))
    >>> lucid.linalg.lu_solve(LU, pivots, lucid.tensor([[4.0], [6.0]]))
    Tensor([[1.],
            [1.]])
    """
    name = "linalg.lu_solve"
    factors, right = square_operand(name, LU, "LU"), matrix_operand(name, B, "B")
    exchanges = _pivots(name, factors, pivots)
    raise_unless_same_type(name, factors, right)
    if factors.shape[-1] != right.shape[-2 if left else -1]:
        equation = "A X = B" if left else "X A = B"
        raise RuntimeError(
            f"{name}: factors of shape {factors.shape} and B of shape {right.shape} do not fit the equation {equation}"
        )
    stack_shape(name, factors, right)
    if left:
        return _solved(factors, exchanges, right, adjoint)
    return conjugate_transpose(_solved(factors, exchanges, conjugate_transpose(right), not adjoint))


def _solved(factors: Tensor, pivots: Tensor, right: Tensor, flipped: bool) -> Any:
    permuted = exchanged(factors, pivots)
    if not flipped:
        inner = solve_left(factors, matmul(conjugate_transpose(permuted), right), upper=False, unit=True)
        return solve_left(factors, inner, upper=True)
    other = conjugate_transpose(factors)
    return matmul(permuted, solve_left(other, solve_left(other, right, upper=False), upper=True, unit=True))
