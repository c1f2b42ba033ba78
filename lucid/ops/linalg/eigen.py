"""Eigenvalues and singular values with their vectors.

The derivatives follow from F[i, j] = 1 / (w[j] - w[i]) off the diagonal and 0 on it, w being the eigenvalues:

- A V = V diag(w): with M = V^-1 dA V, dw = diag(M) and dV = V (M·F), then kept at length 1;
- A = U diag(s) V^H: with M = U^H dA V, ds = Re diag(M), and the vectors turn by F of the squares s².

Where eigenvalues or singular values coincide their vectors have no derivative: it comes out as inf or nan.
"""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from collections.abc import Callable
from typing import Any

from lucid.core.dtypes import complex_of
from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, same
from lucid.ops.contraction import matmul
from lucid.ops.linalg.matrices import (
    FINITE,
    adjoint,
    column,
    diag,
    diagonal,
    factorization,
    for_each,
    hermitian_part,
    identity,
    lapack,
    product,
    raise_unless_phase_free,
    real,
    real_for_each,
    row,
)
from lucid.ops.rules import P, add_all, is_complex


def inverse_gaps(values: Any) -> Any:
    """1 / (w[j] - w[i]) off the diagonal, 0 on it."""
    unit = identity(values.shape[-1], values)
    return 1 / (row(values) - column(values) + unit) * (1 - unit)


def _pull_eigh(cts: Any, w: Any, V: Any) -> Any:
    g_values, g_vectors = cts
    terms = [] if g_values is None else [diag(g_values)]
    if g_vectors is not None:
        turning = product(adjoint(V), g_vectors)
        raise_unless_phase_free("linalg.eigh", "eigenvectors", turning)
        terms.append(turning * inverse_gaps(w))
    return _between(V, hermitian_part(add_all(terms)), adjoint(V))


def _between(left: Any, middle: Any, right: Any) -> Any:
    """A product of matrices where only the middle one may be real."""
    if is_complex(left) and not is_complex(middle):
        middle = P.complex_parts(middle, part=0)
    return product(left, middle, right)


def _push_eigh(t: Any, w: Any, V: Any) -> tuple[Any, Any]:
    inner = product(adjoint(V), hermitian_part(t), V)
    return real(diagonal(inner)), matmul(V, inner * inverse_gaps(w))


def _sizes(x: Any, **params: Any) -> Abstract:
    """Real numbers, as many for each matrix as it has rows or columns, whichever are fewer."""
    return real_for_each(x, size=(min(x.shape[-2:]),))


eigh = factorization(
    "eigh", ("w", "V"), _pull_eigh, _push_eigh, abstract=lambda x, UPLO: (_sizes(x), same(x)), checks=FINITE
)


def _by_vectors(
    name: str, pull: Callable[..., Any], push: Callable[..., Any], abstract: Callable[..., Any]
) -> Primitive:
    """Values alone: the vectors are found when a derivative is asked for. The rules see `x` and the parameters."""

    def jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        return push(tangents[0], primals[0], **params)

    return lapack(name, rules=(pull,), jvp=jvp, abstract=abstract, checks=FINITE)


def _pull_eigvalsh(ct: Any, x: Any, UPLO: str) -> Any:
    return _pull_eigh((ct, None), *P.eigh(x, UPLO=UPLO))


eigvalsh = _by_vectors(
    "eigvalsh", _pull_eigvalsh, lambda t, x, UPLO: _push_eigh(t, *P.eigh(x, UPLO=UPLO))[0], abstract=_sizes
)


def _pull_eig(cts: Any, w: Any, V: Any, is_real: bool) -> Any:
    g_values, g_vectors = cts
    terms = [] if g_values is None else [diag(g_values)]
    if g_vectors is not None:
        turning = product(adjoint(V), g_vectors)
        raise_unless_phase_free("linalg.eig", "eigenvectors", turning)
        turning = turning - product(adjoint(V), V) * row(P.real(diagonal(turning)))
        terms.append(turning * P.conj(inverse_gaps(w)))
    out = P.solve(adjoint(V), matmul(add_all(terms), adjoint(V)), strict=False)
    return P.real(out) if is_real else out


def _push_eig(t: Any, w: Any, V: Any, is_real: bool) -> tuple[Any, Any]:
    t = P.complex_parts(t, part=0) if is_real else t
    inner = P.solve(V, matmul(t, V), strict=False)
    turning = inner * inverse_gaps(w)
    stretching = P.real(diagonal(product(adjoint(V), V, turning)))
    return diagonal(inner), matmul(V, turning) - V * row(stretching)


def _abstract_eig(x: Any, is_real: bool) -> tuple[Abstract, Abstract]:
    dtype = complex_of(x.dtype)
    return for_each(x, size=x.shape[-1:], dtype=dtype), Abstract(x.shape, dtype)


eig = factorization("eig", ("w", "V"), _pull_eig, _push_eig, abstract=_abstract_eig, checks=FINITE)


def _pull_eigvals(ct: Any, x: Any, is_real: bool) -> Any:
    w, V = P.eig(x, is_real=is_real)
    return _pull_eig((ct, None), w, V, is_real)


def _push_eigvals(t: Any, x: Any, is_real: bool) -> Any:
    w, V = P.eig(x, is_real=is_real)
    return _push_eig(t, w, V, is_real)[0]


eigvals = _by_vectors(
    "eigvals",
    _pull_eigvals,
    _push_eigvals,
    abstract=lambda x, is_real: _abstract_eig(x, is_real)[0],
)


def _pull_svd(cts: Any, U: Any, S: Any, Vh: Any) -> Any:
    gU, gS, gVh, _ = cts
    gV = None if gVh is None else adjoint(gVh)
    left = None if gU is None else product(adjoint(U), gU)
    right = None if gV is None else product(Vh, gV)
    terms = [] if gS is None else [diag(gS)]
    terms += _turned(S, left, right)
    out = _between(U, add_all(terms), Vh)
    if gU is not None and U.shape[-2] > U.shape[-1]:
        out = out + matmul((gU - matmul(U, left)) / row(S), Vh)
    if gV is not None and Vh.shape[-1] > Vh.shape[-2]:
        out = out + matmul(U, adjoint((gV - matmul(adjoint(Vh), right)) / row(S)))
    return out


def _weights(S: Any) -> tuple[Any, Any]:
    """s[j] and s[i] over s[j]² - s[i]² off the diagonal, 0 on it; made without squares, which may overflow."""
    gaps = inverse_gaps(S)
    sums = row(S) + column(S) + identity(S.shape[-1], S)
    return row(S) / sums * gaps, column(S) / sums * gaps


def _turned(S: Any, left: Any, right: Any) -> list[Any]:
    """What the cotangents U^H gU and V^H gV of the singular vectors ask of U^H dA V."""
    both = [x for x in (left, right) if x is not None]
    if not both:
        return []
    raise_unless_phase_free("linalg.svd", "singular vectors", add_all(both))
    ahead, behind = _weights(S)
    terms = [] if left is None else [(left - adjoint(left)) * ahead]
    terms += [] if right is None else [(right - adjoint(right)) * behind]
    if is_complex(both[0]):
        phases = ([] if left is None else [P.imag(diagonal(left))]) + (
            [] if right is None else [-P.imag(diagonal(right))]
        )
        terms.append(diag(P.complex_parts(add_all(phases) / (S * 2), part=1)))
    return terms


def _push_svd(t: Any, U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any, Any]:
    V, flipped = adjoint(Vh), adjoint(t)
    inner = product(adjoint(U), t, V)
    mirrored = adjoint(inner)
    ahead, behind = _weights(S)
    left = inner * ahead + mirrored * behind
    right = inner * behind + mirrored * ahead
    if is_complex(inner):
        phases = diag(P.complex_parts(P.imag(diagonal(inner)) / (S * 2), part=1))
        left, right = left + phases, right - phases
    dU, dV = matmul(U, left), matmul(V, right)
    if U.shape[-2] > U.shape[-1]:
        dU = dU + (matmul(t, V) - matmul(U, inner)) / row(S)
    if Vh.shape[-1] > Vh.shape[-2]:
        dV = dV + (matmul(flipped, U) - matmul(V, mirrored)) / row(S)
    return dU, real(diagonal(inner)), adjoint(dV), None


def _abstract_svd(x: Any, full: bool) -> tuple[Abstract, Abstract, Abstract, Abstract]:
    m, n = x.shape[-2:]
    k, most = min(m, n), max(m, n)
    rest = for_each(x, size=(most, most - k if full else 0))
    return for_each(x, size=(m, k)), _sizes(x), for_each(x, size=(k, n)), rest


# The fourth result completes U, or the adjoint of Vh, to a square matrix.
svd = factorization("svd", ("U", "S", "Vh", "rest"), _pull_svd, _push_svd, abstract=_abstract_svd, checks=FINITE)


def _pull_svdvals(ct: Any, x: Any) -> Any:
    U, _, Vh, _ = P.svd(x, full=False)
    return matmul(U * row(ct), Vh)


def _push_svdvals(t: Any, x: Any) -> Any:
    U, _, Vh, _ = P.svd(x, full=False)
    return real(diagonal(product(adjoint(U), t, adjoint(Vh))))


svdvals = _by_vectors("svdvals", _pull_svdvals, _push_svdvals, abstract=_sizes)
