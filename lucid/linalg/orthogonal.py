"""Factorizations into a matrix with orthonormal columns and a triangle: QR, and Householder reflections."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

import numpy as np

from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, raise_unless_same_type
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import adjoint, columns, raise_unless_lapack
from lucid.ops.linalg.orthogonal import reflected
from lucid.ops.rules import P

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
        R = P.cat(R, Tensor._wrap(np.zeros((*x.shape[:-2], m - n, n), x.np_dtype)), dim=x.ndim - 2)
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
    return reflected(v, factors, unit, adjoint_product=False)


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
        reflected(v, factors, x, transpose) if left else adjoint(reflected(v, factors, adjoint(x), not transpose))
    )
    return out
