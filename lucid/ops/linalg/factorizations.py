"""Factorizations into triangles: Cholesky's A = L L^H of positive-definite matrices, and A = P L U.

Cholesky: with F = L^-1 dA L^-H, the change of L is L·half(F), where half takes the lower triangle with half of the
diagonal. Only one triangle of A is read; gradients are hermitian, as A is taken to be.

LU: with F = L^-1 P^H dA U^-1 for square matrices, the change of L is L·(F below the diagonal) and that of U is
(F from the diagonal upwards)·U. Rows or columns beyond the square follow from L2 = A2 U^-1 or U2 = L^-1 A2.
"""

# ruff: noqa: N803 -- matrices have the names that PyTorch gives them

from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, same
from lucid.ops.categories import Check
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import (
    FACTORED,
    INT32,
    PIVOTS,
    adjoint,
    columns,
    eye,
    factorization,
    for_each,
    hermitian_part,
    lapack,
    over_stacks,
    rows,
    upper_half,
)
from lucid.ops.linalg.triangular import solve_left, solve_right
from lucid.ops.rules import P, np_dtype


def _pull_cholesky(cts: Any, L: Any) -> Any:
    inner = adjoint(upper_half(adjoint(matmul(adjoint(L), cts[0]))))
    both = solve_left(adjoint(L), inner, upper=True)
    return hermitian_part(solve_right(L, both, upper=False))


def _push_cholesky(t: Any, L: Any) -> tuple[Any, Any]:
    inner = solve_right(adjoint(L), solve_left(L, hermitian_part(t), upper=False), upper=True)
    return matmul(L, adjoint(upper_half(adjoint(inner)))), None


cholesky = factorization(
    "cholesky",
    ("L", "info"),
    _pull_cholesky,
    _push_cholesky,
    abstract=lambda x, checked: (same(x), for_each(x, dtype=INT32)),
    checks=FACTORED,
)

# Looks at the diagonal of a factor, and gives nothing to anything.
checked_factor = lapack("checked_factor", abstract=same, checks=Check("that factors have no 0 on their diagonal"))

permutation = Primitive(
    "permutation",
    batch=over_stacks,
    abstract=lambda x, m, type: Abstract((*x.shape[:-1], m, m), np.dtype(type)),
    category="source",
    checks=PIVOTS,
)


def exchanged(x: Any, pivots: Any) -> Any:
    """P, by which the factorization of matrices like `x` begins."""
    return P.permutation(pivots, m=x.shape[-2], type=np_dtype(x))


def unit_lower(lu: Any) -> Any:
    """The triangle below the diagonal, and ones on it."""
    k = min(lu.shape[-2:])
    return P.tril(columns(lu, 0, k), diagonal=-1) + eye(lu.shape[-2], k, np_dtype(lu))


def _core(lu: Any) -> tuple[Any, int]:
    """The square part of a factorization, or of anything of its shape, and its size."""
    k = min(lu.shape[-2:])
    return columns(rows(lu, 0, k), 0, k), k


def pull_unpivoted(g: Any, lu: Any) -> Any:
    """The cotangent of L U from that of both factors in one matrix."""
    m, n = lu.shape[-2:]
    core, k = _core(lu)
    flipped = adjoint(core)
    g_lower = g_upper = _core(g)[0]
    beyond = None
    if m > k:
        beyond = solve_right(flipped, rows(g, k, m), upper=False)
        g_upper = g_upper - matmul(adjoint(rows(lu, k, m)), beyond)
    if n > k:
        beyond = solve_left(flipped, columns(g, k, n), upper=True, unit=True)
        g_lower = g_lower - matmul(beyond, adjoint(columns(lu, k, n)))
    inner = P.tril(matmul(adjoint(unit_lower(core)), g_lower), diagonal=-1)
    inner = inner + P.triu(matmul(g_upper, adjoint(P.triu(core, diagonal=0))), diagonal=0)
    out = solve_right(flipped, solve_left(flipped, inner, upper=True, unit=True), upper=False)
    return out if beyond is None else P.cat(out, beyond, dim=out.ndim - (2 if m > k else 1))


def push_unpivoted(t: Any, lu: Any) -> Any:
    """The tangent of both factors in one matrix from that of L U."""
    m, n = lu.shape[-2:]
    core, k = _core(lu)
    inner = solve_right(core, solve_left(core, _core(t)[0], upper=False, unit=True), upper=True)
    d_lower = matmul(unit_lower(core), P.tril(inner, diagonal=-1))
    d_upper = matmul(P.triu(inner, diagonal=0), P.triu(core, diagonal=0))
    out = d_lower + d_upper
    if m > k:
        below = rows(t, k, m) - matmul(rows(lu, k, m), d_upper)
        out = P.cat(out, solve_right(core, below, upper=True), dim=out.ndim - 2)
    if n > k:
        beside = columns(t, k, n) - matmul(d_lower, columns(lu, k, n))
        out = P.cat(out, solve_left(core, beside, upper=False, unit=True), dim=out.ndim - 1)
    return out


def _pull_lu(cts: Any, lu: Any, pivots: Any) -> Any:
    return matmul(exchanged(lu, pivots), pull_unpivoted(cts[0], lu))


def _push_lu(t: Any, lu: Any, pivots: Any) -> tuple[Any, Any, Any]:
    return push_unpivoted(matmul(adjoint(exchanged(lu, pivots)), t), lu), None, None


def abstract_factor(x: Any, **params: Any) -> tuple[Abstract, Abstract, Abstract]:
    """The factors in one matrix, pivots, and a number that says whether all went well."""
    return same(x), for_each(x, size=(min(x.shape[-2:]),), dtype=INT32), for_each(x, dtype=INT32)


lu_factor = factorization(
    "lu_factor", ("lu", "pivots", "info"), _pull_lu, _push_lu, abstract=abstract_factor, checks=FACTORED
)
