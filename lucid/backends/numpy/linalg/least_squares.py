"""Pseudo-inverses, ranks and least squares."""

from typing import Any, NamedTuple

import numpy as np

from lucid.backends.numpy.linalg.eigen import eigenpairs, eigenvalues, factors, singular_values
from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
    raise_unless_finite,
)
from lucid.backends.numpy.linalg.orthogonal import tall_qr_array
from lucid.backends.numpy.linalg.triangular import solve_triangular_array
from lucid.core import dtypes
from lucid.core.kernels import fill


def _counts(sizes: Any, atol: Any, rtol: Any) -> Any:
    """Which singular values are above the tolerances, which are numbers or have the shape (…, 1, 1)."""
    absolute, relative = (t[..., 0] if isinstance(t, np.ndarray) else t for t in (atol, rtol))
    largest = np.max(sizes, axis=-1, keepdims=True, initial=0)
    return sizes > np.maximum(absolute, relative * largest)


def _inverses(values: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """1 / s for the singular values or eigenvalues that count, 0 for the others; and which count."""
    kept = _counts(np.abs(values), atol, rtol)
    return np.where(kept, 1 / np.where(kept, values, 1), 0).astype(values.dtype), kept


class _Factors(NamedTuple):
    """Q and R of matrices, or of their adjoints, and the inverses of R."""

    q: Any
    r: Any
    inverse: Any


def _of_full_rank(x: Any, atol: Any, rtol: Any) -> _Factors | None:
    """The factors of matrices without adjoints if they are tall, with them if not; None unless all singular values count.

    All do where the norm of R⁻¹ bounds the least one from below by twice the tolerance.
    """
    if not x.size:
        return None
    q, r, _ = tall_qr_array(x if x.shape[-2] >= x.shape[-1] else _adjoint_array(x), False)
    identity = np.broadcast_to(np.eye(r.shape[-1], dtype=r.dtype), r.shape)
    with np.errstate(all="ignore"):
        inverse = solve_triangular_array(r, identity, upper=True, unit=False)
        largest, least = _length(r), 1 / _length(inverse)
        counts = least > 2 * np.maximum(atol, rtol * largest)
    return _Factors(q, r, inverse) if counts.all() else None


def _length(x: Any) -> Any:
    """The Frobenius norm of each matrix, in the shape (…, 1, 1)."""
    return np.linalg.norm(x, axis=(-2, -1), keepdims=True)


def _pinv_array(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    full = None if hermitian else _of_full_rank(x, atol, rtol)
    if full is not None:
        found = full.inverse @ _adjoint_array(full.q)
        found = found if x.shape[-2] >= x.shape[-1] else np.ascontiguousarray(_adjoint_array(found))
        stack = np.broadcast_shapes(
            found.shape[:-2], *[t.shape[:-2] for t in (atol, rtol) if isinstance(t, np.ndarray)]
        )
        return found if stack == found.shape[:-2] else np.array(np.broadcast_to(found, (*stack, *found.shape[-2:])))
    if hermitian:
        values, v = eigenpairs(x, "L", "linalg.pinv")
        u = v
    else:
        u, values, v = factors(x, name="linalg.pinv")
        v = _adjoint_array(v)
    return (v * _inverses(values, atol, rtol)[0][..., None, :]) @ _adjoint_array(u)


def _adjoint_array(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _rank_array(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    name = "linalg.matrix_rank"
    sizes = np.abs(eigenvalues(x, "L", name)) if hermitian else singular_values(x, name)
    return np.count_nonzero(_counts(sizes, atol, rtol), axis=-1)


def _lstsq_array(a: Any, b: Any, rcond: float, driver: str) -> Any:
    """Solutions, ranks and singular values; of these nothing where a driver does not give them."""
    raise_unless_finite("linalg.lstsq", a)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    nothing = np.zeros(stack, dtypes.real_of(a.dtype))
    if driver == "gels" and min(a.shape[-2:]):
        return _by_factors(a, b, *_full_rank_factors(a, rcond)), np.zeros(stack, np.int64), nothing
    full = _of_full_rank(a, 0.0, rcond) if driver == "gelsy" else None
    if full is not None:
        return _by_factors(a, b, full.q, full.r), np.full(stack, min(a.shape[-2:])), nothing
    u, sizes, v = factors(a, name="linalg.lstsq")
    inverses, kept = _inverses(sizes, 0.0, rcond)
    solutions = _adjoint_array(v) @ (inverses[..., None] * (_adjoint_array(u) @ b))
    ranks = np.array(np.broadcast_to(np.count_nonzero(kept, axis=-1), stack))
    if driver == "gelsy":
        return solutions, ranks, nothing
    return solutions, ranks, np.array(np.broadcast_to(sizes, (*stack, sizes.shape[-1])))


def _full_rank_factors(a: Any, rcond: float) -> tuple[Any, Any]:
    """The QR factors of A, or of A* where A has more columns than rows."""
    q, r, _ = tall_qr_array(a if a.shape[-2] >= a.shape[-1] else _adjoint_array(a), False)
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    deficient = (diagonal <= rcond * diagonal.max(-1, keepdims=True)).any(-1)
    if deficient.any():
        first = int(np.flatnonzero(deficient)[0])
        raise LinAlgError(
            f"linalg.lstsq: {element(first, a)}the matrix does not have full rank, which driver 'gels' needs; "
            "use 'gelsd' for the shortest of all solutions"
        )
    return q, r


def _by_factors(a: Any, b: Any, q: Any, r: Any) -> Any:
    if a.shape[-2] >= a.shape[-1]:
        return solve_triangular_array(r, _adjoint_array(q) @ b, upper=True, unit=False)
    return q @ solve_triangular_array(_adjoint_array(r), b, upper=False, unit=False)


fill(
    {
        "pinv": _pinv_array,
        "matrix_rank": _rank_array,
        "lstsq": _lstsq_array,
    }
)
