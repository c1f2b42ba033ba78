"""The factorization A = P^T L D L^* P of symmetric or hermitian matrices that need not be positive-definite.

L^* is the transpose of L, or its adjoint for hermitian matrices. L has ones on its diagonal, and D consists of blocks of
one or two rows along its own. With M = L^-1 P dA P^T L^-*, the change of D is M in its blocks, and that of L is
L·(M below the blocks)·D^-1.

LAPACK exchanges two rows in each step and stores each column of L as it was then: `settled` applies the later exchanges
to the earlier columns, which gives L itself. `pivots` are LAPACK's: k for a block of one row that was exchanged with row
k, and twice -k for a block of two of which the second was, counted from 1.
"""

# ruff: noqa: N806 -- matrices have the names that PyTorch gives them

from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, same
from lucid.ops.contraction import matmul, mT
from lucid.ops.linalg.factorizations import abstract_factor
from lucid.ops.linalg.matrices import FACTORED, LAPACK, PIVOTS, adjoint, factorization, identity, product
from lucid.ops.linalg.triangular import solve_left, solve_right
from lucid.ops.rules import P, batched_to_front, conj, np_dtype

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


def flipped(x: Any, hermitian: bool) -> Any:
    return adjoint(x) if hermitian else mT(x)


def parts(ld: Any, pivots: Any, hermitian: bool) -> tuple[Any, Any, Any, Any]:
    """P, L, D, and where the blocks of D are."""
    type = np_dtype(ld)
    inside = P.ldl_blocks(pivots, type=type)
    final = P.ldl_settled(ld, pivots, back=False)
    L = P.tril(final, diagonal=-1) * (1 - inside) + identity(ld.shape[-1], ld)
    below = P.tril(final, diagonal=-1) * inside
    D = P.tril(final, diagonal=0) * inside + flipped(below, hermitian)
    return P.ldl_order(pivots, type=type), L, D, inside


def _below(x: Any, inside: Any) -> Any:
    return P.tril(x, diagonal=-1) * (1 - inside)


def _pull_ldl(cts: Any, ld: Any, pivots: Any, hermitian: bool) -> Any:
    permuted, L, D, inside = parts(ld, pivots, hermitian)
    g = P.tril(P.ldl_settled(cts[0], pivots, back=False), diagonal=0)
    turning = matmul(adjoint(L), _below(g, inside))
    inner = mT(P.solve(conj(D), mT(turning), strict=False))
    inner = _below(inner, inside) + g * inside
    # The transpose of X -> L^-1 X L^-* has L^-H on the left, and on the right L^-1 or, for L^T, its conjugate.
    inner = solve_left(adjoint(L), inner, upper=True, unit=True)
    inner = solve_right(L if hermitian else conj(L), inner, upper=False, unit=True)
    out = product(mT(permuted), inner, permuted)
    return (out + flipped(out, hermitian)) * 0.5


def _push_ldl(t: Any, ld: Any, pivots: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    permuted, L, D, inside = parts(ld, pivots, hermitian)
    inner = product(permuted, (t + flipped(t, hermitian)) * 0.5, mT(permuted))
    inner = solve_left(L, inner, upper=False, unit=True)
    inner = solve_right(flipped(L, hermitian), inner, upper=True, unit=True)
    turning = mT(P.solve(mT(D), mT(_below(inner, inside)), strict=False))
    change = matmul(L, turning) + P.tril(inner * inside, diagonal=0)
    return P.ldl_settled(change, pivots, back=True), None, None


ldl_factor = factorization(
    "ldl_factor", ("ld", "pivots", "info"), _pull_ldl, _push_ldl, abstract=abstract_factor, checks=FACTORED
)
