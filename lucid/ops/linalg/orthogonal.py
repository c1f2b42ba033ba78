"""Factorizations into a matrix with orthonormal columns and a triangle: QR, and Householder reflections.

With Q^H dA R^-1 = M, the change of R is half(M + M^H)·R, where half takes the upper triangle with half of the diagonal,
and that of Q is dA R^-1 - Q·half(M + M^H).
"""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any

from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, same
from lucid.ops.contraction import matmul
from lucid.ops.linalg.factorizations import pull_unpivoted, push_unpivoted
from lucid.ops.linalg.matrices import (
    LAPACK,
    adjoint,
    column,
    columns,
    diag,
    diagonal,
    eye,
    factorization,
    for_each,
    product,
    row,
    rows,
    upper_half,
)
from lucid.ops.linalg.triangular import solve_left, solve_right
from lucid.ops.rules import P, add_all, batched_to_front, is_complex, np_dtype, zeros_like


def _pull_tall_qr(cts: Any, Q: Any, R: Any) -> Any:
    gQ, gR, _ = cts
    terms = ([] if gR is None else [product(gR, adjoint(R))]) + ([] if gQ is None else [-product(adjoint(Q), gQ)])
    inner = upper_half(add_all(terms))
    outer = matmul(Q, inner + adjoint(inner))
    return solve_right(adjoint(R), outer if gQ is None else outer + gQ, upper=False)


def _push_tall_qr(t: Any, Q: Any, R: Any) -> tuple[Any, Any, Any]:
    moved = solve_right(R, t, upper=True)
    inner = product(adjoint(Q), moved)
    inner = upper_half(inner + adjoint(inner))
    return moved - matmul(Q, inner), matmul(inner, R), None


def _abstract_tall_qr(x: Any, complete: bool) -> tuple[Abstract, Abstract, Abstract]:
    m, n = x.shape[-2:]
    return same(x), for_each(x, size=(n, n)), for_each(x, size=(m, m - n if complete else 0))


# Of matrices with at least as many rows as columns. The third result completes Q to a square matrix.
tall_qr = factorization("tall_qr", ("Q", "R", "rest"), _pull_tall_qr, _push_tall_qr, abstract=_abstract_tall_qr)


def _pull_complement(ct: Any, x: Any, out: Any, name: str) -> Any:
    turning = product(adjoint(out), ct)
    freedom = "the vectors that complete the others to a basis can be any basis of the space that is left"
    P.within_gauge(turning - adjoint(turning), name=name, freedom=freedom)
    return -product(out, adjoint(ct), x)


# A basis of what is orthogonal to the columns of `x`: it turns as they do, and within its own space not at all.
complement = Primitive(
    "complement",
    operands=("x", "basis"),
    rules=(_pull_complement, None),
    jvp=lambda prim, primals, tangents, out, params: (
        None if tangents[0] is None else -product(primals[0], adjoint(tangents[0]), out)
    ),
    batch=lambda prim, values, batched, size, params: prim(*batched_to_front(values, batched, size), **params),
    abstract=lambda x, basis, name: same(basis),
    reason=LAPACK,
)


def reflected(v: Tensor, tau: Tensor, other: Any, adjoint_product: bool) -> Any:
    """H1 ... Hk · other, by H1 ... Hk = I - V T V^H with T = D (I + S D)^-1.

    D has the factors tau on its diagonal, and S is what stands above the diagonal in V^H V.
    """
    above = P.triu(product(adjoint(v), v), diagonal=1) * row(tau)
    inner = product(adjoint(v), other)
    if adjoint_product:
        inner = solve_left(adjoint(above), P.conj(column(tau)) * inner, upper=False, unit=True)
    else:
        inner = column(tau) * solve_left(above, inner, upper=True, unit=True)
    return other - matmul(v, inner)


def _reflection_parts(a: Any, tau: Any) -> tuple[Any, Any, Any, int]:
    """Q and R of what `geqrf` gives, and the factors of E - Q = V (T V1^H), V1 being the square part of V, in one.

    The last reflection of a square real matrix is none: its tau is always 0. It has no part in the third result, whose
    width is the fourth.
    """
    m, n = a.shape[-2:]
    unit = eye(m, n, np_dtype(a))
    v = P.tril(a, diagonal=-1) + unit
    Q = reflected(v, tau, unit, adjoint_product=False)
    count = n - 1 if m == n and not is_complex(a) else n
    used, factors = columns(v, 0, count), columns(tau, 0, count)
    above = P.triu(product(adjoint(used), used), diagonal=1) * row(factors)
    upper = column(factors) * solve_left(above, adjoint(rows(used, 0, count)), upper=True, unit=True)
    lower = P.tril(columns(a, 0, count), diagonal=-1)
    packed = lower + P.slice_back(upper, index=(Ellipsis, slice(0, count), slice(None)), shape=lower.shape)
    return Q, P.triu(rows(a, 0, n), diagonal=0), packed, count


def _pull_geqrf(cts: Any, a: Any, tau: Any) -> Any:
    g_a, g_tau = cts
    n = a.shape[-1]
    Q, R, packed, count = _reflection_parts(a, tau)
    g_a = zeros_like(a) if g_a is None else g_a
    g = P.tril(columns(g_a, 0, count), diagonal=-1)
    if g_tau is not None:
        square = diag(columns(g_tau, 0, count))
        g = g + P.slice_back(square, index=(Ellipsis, slice(0, count), slice(None)), shape=g.shape)
    g_columns = -pull_unpivoted(g, packed)
    gQ = P.slice_back(g_columns, index=(Ellipsis, slice(0, count)), shape=a.shape)
    return _pull_tall_qr((gQ, P.triu(rows(g_a, 0, n), diagonal=0), None), Q, R)


def _push_geqrf(t: Any, a: Any, tau: Any) -> tuple[Any, Any]:
    Q, R, packed, count = _reflection_parts(a, tau)
    dQ, dR, _ = _push_tall_qr(t, Q, R)
    change = push_unpivoted(-columns(dQ, 0, count), packed)
    below = P.slice_back(P.tril(change, diagonal=-1), index=(Ellipsis, slice(0, count)), shape=a.shape)
    d_a = below + P.slice_back(dR, index=(Ellipsis, slice(0, a.shape[-1]), slice(None)), shape=a.shape)
    return d_a, P.slice_back(diagonal(rows(change, 0, count)), index=(Ellipsis, slice(0, count)), shape=tau.shape)


# Of matrices with at least as many rows as columns.
geqrf = factorization(
    "geqrf", ("a", "tau"), _pull_geqrf, _push_geqrf, abstract=lambda x: (same(x), for_each(x, size=x.shape[-1:]))
)
