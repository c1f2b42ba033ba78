"""Equations with a triangular matrix, on which the derivatives of most factorizations rest."""

from typing import Any

from lucid.ops.contraction import matmul, mT
from lucid.ops.linalg.matrices import adjoint, lapack, solution
from lucid.ops.rules import P, sum_to


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


solve_triangular = lapack(
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
