"""Equations with a triangular matrix, on which the derivatives of most factorizations rest."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from typing import Any

from lucid.core.primitive import P
from lucid.core.tensor import Tensor
from lucid.linalg.matrices import (
    adjoint,
    lapack,
    matrix_operand,
    raise_unless_same_type,
    solution,
    square_operand,
    stack_shape,
)
from lucid.ops.contraction import matmul, mT
from lucid.ops.rules import sum_to

__all__ = ["solve_triangular"]


def triangle(x: Any, upper: bool, unit: bool = False) -> Any:
    """One triangle of each matrix, without the diagonal where that counts as ones."""
    return P.triu(x, diagonal=int(unit)) if upper else P.tril(x, diagonal=-int(unit))


def _pull_matrix(ct: Any, a: Any, out: Any, a_shape: Any, upper: bool, unit: bool) -> Any:
    force = P.solve_triangular(adjoint(a), ct, upper=not upper, unit=unit)
    return sum_to(triangle(-matmul(force, adjoint(out)), upper, unit), a_shape)


def _pull_right_side(ct: Any, a: Any, b_shape: Any, upper: bool, unit: bool) -> Any:
    return sum_to(P.solve_triangular(adjoint(a), ct, upper=not upper, unit=unit), b_shape)


def _push_solution(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """dX = A^-1 (dB - dA X), where only the triangle of dA is read."""
    (a, _), (da, db) = primals, tangents
    change = None if da is None else -matmul(triangle(da, **params), out)
    if db is not None:
        change = db if change is None else change + db
    return prim(a, change, **params)


solve_triangular_primitive = lapack(
    "solve_triangular",
    operands=("a", "b"),
    rules=(_pull_matrix, _pull_right_side),
    jvp=_push_solution,
    abstract=solution,
)


def solve_left(a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    """A^-1 B for a triangular A, in rules."""
    return P.solve_triangular(a, b, upper=upper, unit=unit)


def solve_right(a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    """B A^-1 for a triangular A, in rules."""
    return mT(P.solve_triangular(mT(a), mT(b), upper=not upper, unit=unit))


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The solution X of A X = B (or of X A = B, if not `left`) for triangular matrices A.

    Only the triangle that `upper` names is read, without the diagonal if that is `unitriangular`: all ones. Stacks
    broadcast. A zero on the diagonal gives infinities, not an error.

    >>> import lucid
    >>> A = lucid.tensor([[2.0, 1.0], [0.0, 4.0]])
    >>> lucid.linalg.solve_triangular(A, lucid.tensor([[4.0], [8.0]]), upper=True)
    Tensor([[1.],
            [2.]])
    """
    name = "linalg.solve_triangular"
    a, b = square_operand(name, A), matrix_operand(name, B, "B")
    raise_unless_same_type(name, a, b)
    if a.shape[-1] != b.shape[-2 if left else -1]:
        equation = "A X = B" if left else "X A = B"
        raise RuntimeError(f"{name}: A of shape {a.shape} and B of shape {b.shape} do not fit the equation {equation}")
    stack_shape(name, a, b)
    solve = solve_left if left else solve_right
    return solve(a, b, bool(upper), bool(unitriangular))
