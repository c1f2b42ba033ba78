"""Pseudo-inverses, ranks and least squares.

Derivatives of the pseudo-inverse P of A are those of Golub and Pereyra, for changes of A that keep its rank:
dP = -P dA P + P P* dA* (I - A P) + (I - P A) dA* P* P. They do not divide by differences of singular values. Where
singular values that are not 0 count as 0, P is the pseudo-inverse of what is left of A, which `lucid.linalg` makes.
"""

from typing import Any

from lucid.core import dtypes
from lucid.ops.abstract import Abstract
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import FINITE, adjoint, for_each, lapack, product, real_for_each
from lucid.ops.rules import P, add_all, sum_to


def _pull_pinv(ct: Any, x: Any, out: Any, x_shape: tuple[int, ...]) -> Any:
    back, force = adjoint(out), adjoint(ct)
    left = product(force, out, back)
    right = product(back, out, force)
    # Tolerances may have more dimensions in front than the matrices.
    return sum_to(left - product(x, out, left) + right - product(right, out, x) - product(back, ct, back), x_shape)


def _push_pinv(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    x, change, back = primals[0], adjoint(tangents[0]), adjoint(out)
    left = product(out, back, change)
    right = product(change, back, out)
    return left - product(left, x, out) + right - product(out, x, right) - product(out, tangents[0], out)


pinv = lapack(
    "pinv",
    operands=("x", "atol", "rtol"),
    rules=(_pull_pinv, None, None),
    jvp=_push_pinv,
    abstract=lambda x, atol, rtol, hermitian: for_each(x, atol, rtol, size=x.shape[:-3:-1]),
    checks=FINITE,
)

matrix_rank = lapack(
    "matrix_rank",
    operands=("x", "atol", "rtol"),
    abstract=lambda x, atol, rtol, hermitian: for_each(x, atol, rtol, dtype=dtypes.INT64),
    checks=FINITE,
)


def _pull_lstsq(cts: Any, a: Any, b: Any, a_shape: tuple[int, ...], p: Any, force: Any) -> Any:
    """-G X* + (B - A X)(P G)* + P* X (C - A* G)*."""
    if force is None:
        return None
    x = matmul(p, b)
    found = (
        matmul(b - matmul(a, x), adjoint(matmul(p, force)))
        + product(adjoint(p), x, adjoint(cts[0] - matmul(adjoint(a), force)))
        - matmul(force, adjoint(x))
    )
    return sum_to(found, a_shape)


def _push_lstsq(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a, b), (ta, tb), x = primals, tangents, out[0]
    p = P.pinv(a, 0.0, params["rcond"], hermitian=False)
    terms = [] if tb is None else [matmul(p, tb)]
    if ta is not None:
        right = product(adjoint(ta), adjoint(p), x)
        rest = product(p, adjoint(p), adjoint(ta), b - matmul(a, x))
        terms += [rest, right - product(p, a, right), -product(p, ta, x)]
    return add_all(terms), None, None


def _abstract_lstsq(a: Any, b: Any, rcond: float, driver: str) -> tuple[Abstract, Abstract, Abstract]:
    m, n = a.shape[-2:]
    sizes = () if driver == "gelsy" or (driver == "gels" and m and n) else (min(m, n),)
    return (
        for_each(b, a, size=(n, b.shape[-1])),
        for_each(a, b, dtype=dtypes.INT64),
        real_for_each(a, b, size=sizes),
    )


lstsq = lapack(
    "lstsq",
    operands=("a", "b"),
    results=("x", "rank", "sizes"),
    rules=(_pull_lstsq, lambda cts, force, b_shape: None if force is None else sum_to(force, b_shape)),
    shared={
        "p": lambda a, rcond: P.pinv(a, 0.0, rcond, hermitian=False),
        "force": lambda cts, p: None if cts[0] is None else matmul(adjoint(p), cts[0]),
    },
    jvp=_push_lstsq,
    abstract=_abstract_lstsq,
    checks=FINITE,
)
