"""Products of matrices and vectors, chains of them in the cheapest order."""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lucid.api import contractions, splitting
from lucid.arguments.dims import one_dim
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import lift_all
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import raise_unless_same_type
from lucid.linalg.powers import powers_of
from lucid.ops.rules import P, conj

__all__ = ["cross", "diagonal", "matmul", "multi_dot", "vecdot"]


def matmul(input: Any, other: Any) -> Tensor:
    """The product of matrices: `lucid.matmul`.

    >>> import lucid
    >>> lucid.linalg.matmul(lucid.ones(2, 3), lucid.ones(3))
    Tensor([3., 3.])
    """
    return contractions.matmul(input, other)


def multi_dot(tensors: Sequence[Any]) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications.

    The first one and the last one may be vectors: a row and a column.

    >>> import lucid
    >>> a, b, c = lucid.ones(2, 100), lucid.ones(100, 3), lucid.ones(3)
    >>> lucid.linalg.multi_dot([a, b, c])
    Tensor([300., 300.])
    """
    factors = lift_all(*tensors)
    if len(factors) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors, not {len(factors)}")
    for i, t in enumerate(factors):
        at_end = i in (0, len(factors) - 1)
        if t.ndim != 2 and not (t.ndim == 1 and at_end):
            ranks = "1 or 2 dimensions" if at_end else "2 dimensions"
            raise RuntimeError(f"linalg.multi_dot: tensor {i} must have {ranks}, not shape {t.shape}")
    raise_unless_same_type("linalg.multi_dot", *factors)
    first, last = factors[0], factors[-1]
    shape = (first.shape if first.ndim == 2 else ())[:1] + (last.shape if last.ndim == 2 else ())[1:]
    if first.ndim == 1:
        factors[0] = P.reshape(first, shape=(1, *first.shape))
    if last.ndim == 1:
        factors[-1] = P.reshape(last, shape=(*last.shape, 1))
    for i, (left, right) in enumerate(pairwise(factors)):
        if left.shape[1] != right.shape[0]:
            raise RuntimeError(
                f"linalg.multi_dot: tensors {i} and {i + 1} of shapes {lift(tensors[i]).shape} and "
                f"{lift(tensors[i + 1]).shape} cannot be multiplied"
            )
    sizes = [f.shape[0] for f in factors] + [factors[-1].shape[1]]
    return P.reshape(_product(factors, _splits(sizes), 0, len(factors)), shape=shape)


def _splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to part the product of the matrices i … j - 1, of which the k-th is sizes[k] by sizes[k + 1]."""
    count = len(sizes) - 1
    costs = {(i, i + 1): 0 for i in range(count)}
    best: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            ways = [(costs[i, k] + costs[k, j] + sizes[i] * sizes[k] * sizes[j], k) for k in range(i + 1, j)]
            costs[i, j], best[i, j] = min(ways)
    return best


def _product(factors: Sequence[Tensor], splits: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if j - i == 1:
        return factors[i]
    k = splits[i, j]
    return contractions.matmul(_product(factors, splits, i, k), _product(factors, splits, k, j))


@takes_out
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of matrices, in the order that takes the fewest multiplications.

    >>> import lucid
    >>> lucid.chain_matmul(lucid.ones(2, 5), lucid.ones(5, 3), lucid.ones(3, 1))
    Tensor([[15.],
            [15.]])
    """
    factors = lift_all(*matrices)
    for i, m in enumerate(factors):
        if m.ndim != 2:
            raise RuntimeError(f"chain_matmul: tensor {i} must be a matrix, not of shape {m.shape}")
    if not factors:
        raise RuntimeError("chain_matmul: expected one or more matrices")
    return multi_dot(factors) if len(factors) > 1 else factors[0].clone()


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """The scalar products Σ conj(x)·y of vectors along `dim`; the other dimensions broadcast.

    >>> import lucid
    >>> lucid.linalg.vecdot(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([10.0, 1.0]))
    Tensor([12., 34.])
    """
    a, b = lift_all(x, y)
    raise_unless_same_type("linalg.vecdot", a, b)
    if a.np_dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(f"linalg.vecdot needs floating-point or complex tensors, not {a.dtype}; use x.float()")
    terms: Tensor = conj(a) * b
    return terms.sum(one_dim(dim, terms.ndim, "linalg.vecdot")) if terms.ndim else terms


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """The vector product along `dim`, which has size 3; the other dimensions broadcast.

    >>> import lucid
    >>> lucid.linalg.cross(lucid.tensor([[1.0, 0.0, 0.0]]), lucid.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    Tensor([[ 0.,  0.,  1.],
            [ 0., -1.,  0.]])
    """
    a, b = lift_all(input, other)
    if a.ndim != b.ndim:
        raise RuntimeError(f"linalg.cross: shapes {a.shape} and {b.shape} must have the same number of dimensions")
    d = one_dim(dim, a.ndim, "linalg.cross")
    if not a.ndim or a.shape[d] != 3 or b.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: dimension {dim} must have size 3 in both, not shapes {a.shape} and {b.shape}"
        )
    return contractions.cross(a, b, d)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices; `offset` counts from the main one, upwards if positive.

    >>> import lucid
    >>> lucid.linalg.diagonal(lucid.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
    Tensor([[1, 4],
            [5, 8]])
    """
    return splitting.diagonal(A, offset, dim1, dim2)


@takes_out
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers xᴺ⁻¹ … x, 1 of each element of a vector in a row, or from 1 upwards if `increasing`.

    >>> import lucid
    >>> lucid.vander(lucid.tensor([2, 3]), 3)
    Tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    v = lift(x)
    if v.ndim != 1:
        raise RuntimeError(f"vander: x must have one dimension, not shape {v.shape}; see linalg.vander for stacks")
    count = v.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must not be negative, not {N}")
    rows = powers_of(v, count)
    return rows if increasing else P.flip(rows, dims=(1,))
