"""Systems of linear equations, and inverses."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lucid.arguments.dims import one_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import in_single, lift_all
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, raise_unless_same_type, square_operand, stack_shape
from lucid.ops.contraction import mT
from lucid.ops.linalg.matrices import column
from lucid.ops.rules import P

__all__ = ["inv", "inv_ex", "solve", "solve_ex", "tensorinv", "tensorsolve"]


class InvExResult(NamedTuple):
    """What `inv_ex` gives: `info` is 0 where the matrix has an inverse."""

    inverse: Tensor
    info: Tensor


class SolveExResult(NamedTuple):
    """What `solve_ex` gives: `info` is 0 where there is a solution."""

    result: Tensor
    info: Tensor


def inv(A: Any) -> Tensor:
    """The inverse of square matrices; a singular one raises `LinAlgError`.

    >>> import lucid
    >>> lucid.linalg.inv(lucid.tensor([[2.0, 0.0], [0.0, 4.0]]))
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return P.inverse(square_operand("linalg.inv", A), strict=True)


@takes_out
def inverse(input: Any) -> Tensor:
    """The inverse of square matrices: `lucid.linalg.inv`.

    >>> import lucid
    >>> lucid.inverse(lucid.tensor([[4.0]]))
    Tensor([[0.25]])
    """
    return inv(input)


def inv_ex(A: Any, *, check_errors: bool = False) -> InvExResult:
    """The inverse of square matrices, nan for singular ones, and in `info` the number of the first pivot that is 0.

    With `check_errors` a singular matrix raises `LinAlgError`.

    >>> import lucid
    >>> lucid.linalg.inv_ex(lucid.tensor([[0.0]]))
    InvExResult(inverse=Tensor([[nan]]), info=Tensor(1, dtype=lucid.int32))
    """
    x = square_operand("linalg.inv_ex", A)
    return InvExResult(P.inverse(x, strict=check_errors), P.singularity(x))


def _is_vector(a: Tensor, b: Tensor) -> bool:
    """Whether B is one vector, or one for each matrix of the stack."""
    return b.ndim == 1 or b.shape == a.shape[:-1]


def _solution(name: str, A: Any, B: Any, left: bool, strict: bool) -> tuple[Tensor, Tensor]:
    a, b = square_operand(name, A), in_single(lift(B))
    raise_unless_same_type(name, a, b)
    vector = _is_vector(a, b)
    b = column(b) if vector else matrix_operand(name, b, "B")
    if b.shape[-2 if left else -1] != a.shape[-1]:
        equation = "A X = B" if left else "X A = B"
        raise RuntimeError(
            f"{name}: A of shape {a.shape} and B of shape {lift(B).shape} do not fit in {equation}"
            + ("; give B as a matrix of one row" if vector and not left else "")
        )
    stack_shape(name, a, b)
    out: Tensor = P.solve(a, b, strict=strict) if left else mT(P.solve(mT(a), mT(b), strict=strict))
    return (P.reshape(out, shape=out.shape[:-1]) if vector and left else out), a


def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """The solution X of A X = B, or of X A = B with `left=False`; a singular A raises `LinAlgError`.

    B is a vector if it has one dimension or the shape of A without the last one; else it is a stack of matrices, which
    broadcasts against that of A.

    >>> import lucid
    >>> lucid.linalg.solve(lucid.tensor([[2.0, 1.0], [1.0, 3.0]]), lucid.tensor([3.0, 4.0]))
    Tensor([1., 1.])
    """
    return _solution("linalg.solve", A, B, left, strict=True)[0]


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveExResult:
    """The solution of `solve`, nan where A is singular, and in `info` the number of the first pivot that is 0.

    With `check_errors` a singular matrix raises `LinAlgError`.

    >>> import lucid
    >>> lucid.linalg.solve_ex(lucid.tensor([[2.0]]), lucid.tensor([6.0])).result
    Tensor([3.])
    """
    out, a = _solution("linalg.solve_ex", A, B, left, strict=check_errors)
    return SolveExResult(out, P.singularity(a))


def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a map from its last dimensions to its first `ind` ones.

    >>> import lucid
    >>> lucid.linalg.tensorinv(lucid.eye(6).reshape(6, 2, 3), ind=1).shape
    (2, 3, 6)
    """
    x = lift(A)
    if not isinstance(ind, int) or ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be a positive integer, not {ind!r}")
    first, last = x.shape[:ind], x.shape[ind:]
    n = _equal_sizes("linalg.tensorinv", first, last)
    flat = inv(P.reshape(x, shape=(n, n)))
    return P.reshape(flat, shape=(*last, *first))


def _equal_sizes(name: str, first: tuple[int, ...], last: tuple[int, ...]) -> int:
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            f"{name}: the dimensions {first} and {last} of A make a matrix of "
            f"{math.prod(first)} by {math.prod(last)}, but it must be square"
        )
    return math.prod(first)


def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The solution X of tensordot(A, X, X.ndim) = B; the dimensions `dims` of A are first moved to the end.

    >>> import lucid
    >>> A = lucid.eye(6).reshape(2, 3, 6) * 2
    >>> lucid.linalg.tensorsolve(A, lucid.ones(2, 3))
    Tensor([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    a, b = lift_all(A, B)
    if dims is not None:
        moved = [one_dim(d, a.ndim, "linalg.tensorsolve") for d in dims]
        a = P.permute(a, dims=(*(d for d in range(a.ndim) if d not in moved), *moved))
    first, last = a.shape[: b.ndim], a.shape[b.ndim :]
    n = _equal_sizes("linalg.tensorsolve", first, last)
    if b.numel() != n:
        raise RuntimeError(f"linalg.tensorsolve: B of shape {b.shape} does not have the {n} elements that A needs")
    solution = solve(P.reshape(a, shape=(n, n)), P.reshape(b, shape=(n,)))
    return P.reshape(solution, shape=last)
