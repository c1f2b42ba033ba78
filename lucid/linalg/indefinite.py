"""The factorization A = P^T L D L^* P of symmetric or hermitian matrices that need not be positive-definite.

L^* is the transpose of L, or its adjoint for hermitian matrices. L has ones on its diagonal, and D consists of blocks of
one or two rows along its own. With M = L^-1 P dA P^T L^-*, the change of D is M in its blocks, and that of L is
L·(M below the blocks)·D^-1.

LAPACK exchanges two rows in each step and stores each column of L as it was then: `settled` applies the later exchanges
to the earlier columns, which gives L itself. `pivots` are LAPACK's: k for a block of one row that was exchanged with row
k, and twice -k for a block of two of which the second was, counted from 1.
"""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import P, Primitive, lift
from lucid.core.tensor import Tensor
from lucid.linalg.factorizations import abstract_factor
from lucid.linalg.matrices import (
    FACTORED,
    LAPACK,
    PIVOTS,
    adjoint,
    factorization,
    identity,
    matrix_operand,
    product,
    raise_unless_same_type,
    square_operand,
    stack_shape,
)
from lucid.linalg.solvers import solve_primitive
from lucid.linalg.triangular import solve_left, solve_right
from lucid.ops.abstract import Abstract, same
from lucid.ops.contraction import matmul, mT
from lucid.ops.rules import batched_to_front, conj, np_dtype

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


settled = Primitive(
    "ldl_settled",
    operands=("x", "pivots"),
    rules=(lambda ct, pivots, back: P.ldl_settled(ct, pivots, back=not back), None),
    jvp=lambda prim, primals, tangents, out, params: prim(tangents[0], primals[1], **params),
    batch=lambda prim, values, batched, size, params: prim(*batched_to_front(values, batched, size), **params),
    abstract=same,
    reason=LAPACK,
    checks=PIVOTS,
)


def _of_pivots(name: str) -> Primitive:
    """Declare a square matrix in type `type` that is made from each row of pivots."""
    return Primitive(
        name,
        batch=lambda prim, v, batched, size, params: prim(*v, **params),
        abstract=lambda x, type: Abstract((*x.shape, x.shape[-1]), np.dtype(type)),
        reason=LAPACK,
        checks=PIVOTS,
    )


order = _of_pivots("ldl_order")
blocks = _of_pivots("ldl_blocks")


def _flipped(x: Any, hermitian: bool) -> Any:
    return adjoint(x) if hermitian else mT(x)


def _parts(ld: Any, pivots: Any, hermitian: bool) -> tuple[Any, Any, Any, Any]:
    """P, L, D, and where the blocks of D are."""
    type = np_dtype(ld)
    inside = P.ldl_blocks(pivots, type=type)
    final = P.ldl_settled(ld, pivots, back=False)
    L = P.tril(final, diagonal=-1) * (1 - inside) + identity(ld.shape[-1], ld)
    below = P.tril(final, diagonal=-1) * inside
    D = P.tril(final, diagonal=0) * inside + _flipped(below, hermitian)
    return P.ldl_order(pivots, type=type), L, D, inside


def _below(x: Any, inside: Any) -> Any:
    return P.tril(x, diagonal=-1) * (1 - inside)


def _pull_ldl(cts: Any, ld: Any, pivots: Any, hermitian: bool) -> Any:
    permuted, L, D, inside = _parts(ld, pivots, hermitian)
    g = P.tril(P.ldl_settled(cts[0], pivots, back=False), diagonal=0)
    turning = matmul(adjoint(L), _below(g, inside))
    inner = mT(solve_primitive(conj(D), mT(turning), strict=False))
    inner = _below(inner, inside) + g * inside
    # The transpose of X -> L^-1 X L^-* has L^-H on the left, and on the right L^-1 or, for L^T, its conjugate.
    inner = solve_left(adjoint(L), inner, upper=True, unit=True)
    inner = solve_right(L if hermitian else conj(L), inner, upper=False, unit=True)
    out = product(mT(permuted), inner, permuted)
    return (out + _flipped(out, hermitian)) * 0.5


def _push_ldl(t: Any, ld: Any, pivots: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    permuted, L, D, inside = _parts(ld, pivots, hermitian)
    inner = product(permuted, (t + _flipped(t, hermitian)) * 0.5, mT(permuted))
    inner = solve_left(L, inner, upper=False, unit=True)
    inner = solve_right(_flipped(L, hermitian), inner, upper=True, unit=True)
    turning = mT(solve_primitive(mT(D), mT(_below(inner, inside)), strict=False))
    change = matmul(L, turning) + P.tril(inner * inside, diagonal=0)
    return P.ldl_settled(change, pivots, back=True), None, None


ldl_primitive = factorization(
    "ldl_factor", ("ld", "pivots", "info"), _pull_ldl, _push_ldl, abstract=abstract_factor, checks=FACTORED
)


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
    permuted, L, D, _ = _parts(factors, exchanges, bool(hermitian))
    inner = solve_left(L, matmul(permuted, right), upper=False, unit=True)
    inner = solve_left(_flipped(L, bool(hermitian)), solve_primitive(D, inner, strict=False), upper=True, unit=True)
    return matmul(mT(permuted), inner)
