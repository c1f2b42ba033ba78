"""The factorization A = P^T L D L^* P of symmetric or hermitian matrices that need not be positive-definite."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, raise_unless_same_type, square_operand, stack_shape
from lucid.ops.contraction import matmul, mT
from lucid.ops.linalg.indefinite import flipped, parts
from lucid.ops.linalg.triangular import solve_left
from lucid.ops.rules import P

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]


class LDLFactor(NamedTuple):
    """What `ldl_factor` gives: L and D in one matrix, and the exchanges of rows.

    >>> import lucid
    >>> lucid.linalg.ldl_factor(lucid.eye(2)).pivots
    Tensor([1, 2], dtype=lucid.int32)
    """

    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    """What `ldl_factor_ex` gives: also, for each matrix, 0 or the place of the first block of D that is 0, from 1.

    >>> import lucid
    >>> lucid.linalg.ldl_factor_ex(lucid.eye(2)).info
    Tensor(0, dtype=lucid.int32)
    """

    LD: Tensor
    pivots: Tensor
    info: Tensor


def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """The factors that `ldl_factor` gives, and where D has its first zero, or 0; a zero is an error with `check_errors`.

    >>> import lucid
    >>> lucid.linalg.ldl_factor_ex(lucid.zeros(2, 2)).info
    Tensor(1, dtype=lucid.int32)
    """
    x = square_operand("linalg.ldl_factor_ex", A)
    return LDLFactorEx(
        *P.ldl_factor(x, hermitian=bool(hermitian), checked="linalg.ldl_factor_ex" if check_errors else "")
    )


def ldl_factor(A: Any, *, hermitian: bool = False) -> LDLFactor:
    """The factors of a symmetric matrix A = P^T L D L^T P, or of a `hermitian` one, as `ldl_solve` takes them.

    They need no positive-definite matrix. The lower triangle of A is read. L stands below the blocks of D in one
    matrix, in LAPACK's form, with LAPACK's pivots. A zero in D is an error.

    >>> import lucid
    >>> lucid.linalg.ldl_factor(lucid.tensor([[2.0, 1.0], [1.0, -1.0]])).LD
    Tensor([[ 2. ,  0. ],
            [ 0.5, -1.5]])
    """
    x = square_operand("linalg.ldl_factor", A)
    return LDLFactor(*P.ldl_factor(x, hermitian=bool(hermitian), checked="linalg.ldl_factor")[:2])


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Tensor:
    """The solution X of A X = B, given the factors of A as `ldl_factor` gives them. Stacks broadcast.

    >>> import lucid
    >>> LD, pivots = lucid.linalg.ldl_factor(lucid.tensor([[2.0, 1.0], [1.0, -1.0]]))
    >>> lucid.linalg.ldl_solve(LD, pivots, lucid.tensor([[3.0], [0.0]]))
    Tensor([[1.],
            [1.]])
    """
    name = "linalg.ldl_solve"
    factors, right, exchanges = square_operand(name, LD, "LD"), matrix_operand(name, B, "B"), lift(pivots)
    raise_unless_same_type(name, factors, right)
    if exchanges.np_dtype.kind not in "i" or exchanges.shape != factors.shape[:-1]:
        raise RuntimeError(
            f"{name}: pivots must be integers of shape {factors.shape[:-1]}, not {exchanges.dtype} of {exchanges.shape}"
        )
    if factors.shape[-1] != right.shape[-2]:
        raise RuntimeError(f"{name}: factors of shape {factors.shape} do not fit B of shape {right.shape}")
    stack_shape(name, factors, right)
    permuted, L, D, _ = parts(factors, exchanges, bool(hermitian))
    inner = solve_left(L, matmul(permuted, right), upper=False, unit=True)
    inner = solve_left(flipped(L, bool(hermitian)), P.solve(D, inner, strict=False), upper=True, unit=True)
    return matmul(mT(permuted), inner)
