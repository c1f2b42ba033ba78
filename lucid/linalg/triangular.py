"""Equations with a triangular matrix."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from typing import Any

from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, raise_unless_same_type, square_operand, stack_shape
from lucid.ops.linalg.triangular import solve_left, solve_right

__all__ = ["solve_triangular"]


def solve_triangular(A: Any, B: Any, *, upper: bool = True, left: bool = True, unitriangular: bool = False) -> Tensor:
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
