"""Factorizations into a matrix with orthonormal columns and a triangle: QR, and Householder reflections.

With Q^H dA R^-1 = M, the change of R is half(M + M^H)·R, where half takes the upper triangle with half of the diagonal,
and that of Q is dA R^-1 - Q·half(M + M^H).
"""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import P, Primitive, lift
from lucid.core.tensor import Tensor
from lucid.linalg.factorizations import pull_unpivoted, push_unpivoted
from lucid.linalg.matrices import (
    LAPACK,
    adjoint,
    column,
    columns,
    diag,
    diagonal,
    factorization,
    for_each,
    matrix_operand,
    product,
    raise_unless_lapack,
    raise_unless_same_type,
    row,
    rows,
    upper_half,
)
from lucid.linalg.triangular import solve_left, solve_right
from lucid.ops.abstract import Abstract, same
from lucid.ops.contraction import matmul
from lucid.ops.rules import add_all, batched_to_front, is_complex, np_dtype, zeros_like

__all__ = ["householder_product", "qr"]


class QR(NamedTuple):
    """What `qr` gives: A = Q R.

    >>> import lucid
    >>> lucid.linalg.qr(lucid.eye(2)).R.shape
    (2, 2)
    """

    Q: Tensor
    R: Tensor


class Reflections(NamedTuple):
    """What `geqrf` gives.

    >>> import lucid
    >>> lucid.geqrf(lucid.ones(3, 2)).tau.shape
    (2,)
    """

    a: Tensor
    tau: Tensor


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


def completed(name: str, x: Any, basis: Any) -> Any:
    """The columns of `x` and after them the basis of what is orthogonal to them."""
    return P.cat(x, P.complement(x, basis, name=name), dim=x.ndim - 1)


_MODES = ("reduced", "complete", "r")


def qr(A: Any, mode: str = "reduced") -> QR:
    """A = Q R with orthonormal columns in Q and an upper triangular R.

    With k the smaller dimension of an m by n matrix, "reduced" gives Q as m by k and R as k by n, "complete" m by m and
    m by n; "r" gives an empty Q. Columns of a complete Q beyond the k-th can be any basis of what is orthogonal to the
    others: a loss that depends on which one has no derivative, and asking for it is an error. Derivatives need the
    first k columns of A to be independent.

    >>> import lucid
    >>> Q, R = lucid.linalg.qr(lucid.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> lucid.allclose(Q @ R, lucid.tensor([[3.0, 1.0], [4.0, 2.0]])), R[1, 0]
    (True, Tensor(0.))
    """
    if mode not in _MODES:
        raise RuntimeError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    x = matrix_operand("linalg.qr", A)
    m, n = x.shape[-2:]
    complete = mode == "complete" and m > n
    Q, R, rest = P.tall_qr(columns(x, 0, m) if m < n else x, complete=complete)
    if m < n:
        R = P.cat(R, matmul(adjoint(Q), columns(x, m, n)), dim=x.ndim - 1)
    if complete:
        Q = completed("linalg.qr", Q, rest.detach())
        R = P.cat(R, np.zeros((*x.shape[:-2], m - n, n), x.np_dtype), dim=x.ndim - 2)
    return QR(Tensor._wrap(np.zeros(0, x.np_dtype)) if mode == "r" else Q, R)


def _reflectors(name: str, A: Any, tau: Any) -> tuple[Tensor, Tensor]:
    """The columns v that reflections I - tau v v^H use, and the factors tau."""
    x, factors = matrix_operand(name, A), lift(tau)
    raise_unless_lapack(name, factors, "tau")
    raise_unless_same_type(name, x, factors)
    m, most = x.shape[-2], min(x.shape[-2:])
    if not factors.ndim or factors.shape[-1] > most or factors.shape[:-1] != x.shape[:-2]:
        raise RuntimeError(
            f"{name}: tau must have shape {(*x.shape[:-2], 'k')} with k at most {most} for A of shape {x.shape}, "
            f"not {factors.shape}"
        )
    k = factors.shape[-1]
    used = columns(x, 0, k)
    return P.tril(used, diagonal=-1) + np.eye(m, k, dtype=x.np_dtype), factors


def _reflected(v: Tensor, tau: Tensor, other: Any, adjoint_product: bool) -> Any:
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
    unit = np.eye(m, n, dtype=np_dtype(a))
    v = P.tril(a, diagonal=-1) + unit
    Q = _reflected(v, tau, unit, adjoint_product=False)
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
geqrf_primitive = factorization(
    "geqrf", ("a", "tau"), _pull_geqrf, _push_geqrf, abstract=lambda x: (same(x), for_each(x, size=x.shape[-1:]))
)


def geqrf(input: Any) -> Reflections:
    """R of A = Q R on and above the diagonal of `a`, and Q as reflections: `tau`, and their vectors below the diagonal.

    `lucid.linalg.householder_product` and `lucid.ormqr` take them. A reflection that leaves everything as it is, because
    the column was 0 below the diagonal already, has no derivative: there it comes out as inf or nan.

    >>> import lucid
    >>> A = lucid.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = lucid.geqrf(A)
    >>> lucid.allclose(lucid.ormqr(a, tau, a.triu()), A, atol=1e-6)
    True
    """
    x = matrix_operand("geqrf", input)
    m, n = x.shape[-2:]
    if m >= n:
        return Reflections(*P.geqrf(x))
    a, tau = P.geqrf(columns(x, 0, m))
    return Reflections(P.cat(a, ormqr(a, tau, columns(x, m, n), transpose=True), dim=x.ndim - 1), tau)


def householder_product(A: Any, tau: Any) -> Tensor:
    """The first n columns of H1 H2 ... Hk with the reflections Hi = I - tau_i v_i v_i^H.

    v_i is 0 above its i-th element, 1 there, and the i-th column of the m by n matrix A below, as `lucid.geqrf` gives it.

    >>> import lucid
    >>> lucid.linalg.householder_product(lucid.tensor([[7.0], [1.0]]), lucid.tensor([1.0]))
    Tensor([[ 0.],
            [-1.]])
    """
    name = "linalg.householder_product"
    m, n = matrix_operand(name, A).shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: A must not have more columns than rows, but its matrices are {m} by {n}")
    v, factors = _reflectors(name, A, tau)
    unit = Tensor._wrap(np.eye(m, n, dtype=v.np_dtype))
    return _reflected(v, factors, unit, adjoint_product=False)


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Tensor:
    """Q · other, where Q is the product of the reflections that `lucid.geqrf` gives; or other · Q, if not `left`.

    With `transpose` it is the adjoint of Q. Q is square: all m columns of it.

    >>> import lucid
    >>> A, tau = lucid.geqrf(lucid.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> lucid.ormqr(A, tau, lucid.tensor([[3.0], [4.0]]), transpose=True)
    Tensor([[-5.],
            [ 0.]])
    """
    name = "ormqr"
    v, factors = _reflectors(name, input, tau)
    x = matrix_operand(name, other, "other")
    raise_unless_same_type(name, v, x)
    m = v.shape[-2]
    if x.shape[-2 if left else -1] != m or x.shape[:-2] != v.shape[:-2]:
        raise RuntimeError(
            f"{name}: other of shape {x.shape} cannot be multiplied {'from the left' if left else 'from the right'} "
            f"by {m} by {m} matrices of shape {(*v.shape[:-2], m, m)}"
        )
    out: Tensor = (
        _reflected(v, factors, x, transpose) if left else adjoint(_reflected(v, factors, adjoint(x), not transpose))
    )
    return out
