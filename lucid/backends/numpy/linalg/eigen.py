"""Eigenvalues and singular values with their vectors."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    element,
    raise_unless_finite,
)
from lucid.backends.numpy.linalg.routines import one_by_one, places, routine, workspace
from lucid.core.dtypes import complex_of, real_of
from lucid.core.kernels import fill


def _converged(name: str, function: Callable[..., Any], x: Any, **options: Any) -> Any:
    """Run one of NumPy's iterations on finite matrices."""
    raise_unless_finite(name, x)
    try:
        return function(x, **options)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {error}") from None


def _raise_unless_converged(name: str, what: str, i: tuple[int, ...], x: Any, info: int) -> None:
    if info > 0:
        which = element(int(np.ravel_multi_index(i, x.shape[:-2])), x) if i else ""
        raise LinAlgError(f"{name}: {which}{what} did not converge")


def _of_triangle(name: str, x: Any, UPLO: str, vectors: bool) -> tuple[Any, Any]:
    """Eigenvalues of hermitian matrices, of which the other triangle may hold anything, and their vectors or None."""
    if not one_by_one(x):
        half, function = np.tril(x) if UPLO == "L" else np.triu(x), np.linalg.eigh if vectors else np.linalg.eigvalsh
        found = _converged(name, function, half, UPLO=UPLO)
        return tuple(found) if vectors else (found, None)
    if not np.isfinite(x).all():
        raise_unless_finite(name, np.tril(x) if UPLO == "L" else np.triu(x))
    solve = routine("heevd" if x.dtype.kind == "c" else "syevd", x)
    sizes, found = np.empty(x.shape[:-1], real_of(x.dtype)), np.empty(x.shape, x.dtype) if vectors else None
    for i in places(x.shape[:-2]):
        sizes[i], own, info = solve(x[i], compute_v=vectors, lower=UPLO == "L")
        _raise_unless_converged(name, "Eigenvalues", i, x, info)
        if found is not None:
            found[i] = own
    return sizes, found


def eigenpairs(x: Any, UPLO: str, name: str = "linalg.eigh") -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of hermitian matrices."""
    return _of_triangle(name, x, UPLO, True)


def eigenvalues(x: Any, UPLO: str, name: str = "linalg.eigvalsh") -> Any:
    """Eigenvalues of hermitian matrices."""
    return _of_triangle(name, x, UPLO, False)[0]


def _general(name: str, x: Any, vectors: bool) -> tuple[Any, Any]:
    """Eigenvalues of any matrices, and their vectors or None."""
    wide = complex_of(x.dtype)
    if not one_by_one(x):
        if not vectors:
            return _converged(name, np.linalg.eigvals, x).astype(wide), None
        w, v = _converged(name, np.linalg.eig, x)
        return w.astype(wide), v.astype(wide)
    raise_unless_finite(name, x)
    w, v, solve = np.empty(x.shape[:-1], wide), np.empty(x.shape, wide) if vectors else None, routine("geev", x)
    lwork = workspace("geev", solve.dtype, x.shape[-1], 0, int(vectors))
    for i in places(x.shape[:-2]):
        *parts, _, own, info = solve(x[i], compute_vl=0, compute_vr=int(vectors), lwork=lwork)
        _raise_unless_converged(name, "Eigenvalues", i, x, info)
        w[i] = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
        if v is not None:
            v[i] = own if len(parts) == 1 else _in_pairs(own, parts[1])
    return w, v


def _in_pairs(v: Any, imag: Any) -> Any:
    """Vectors of real matrices, of which a pair of conjugate ones is given as its real and its imaginary part."""
    first = np.flatnonzero(imag > 0)
    out = v.astype(complex_of(v.dtype))
    out[:, first] += 1j * v[:, first + 1]
    out[:, first + 1] = np.conj(out[:, first])
    return out


def factors(x: Any, full: bool = False, name: str = "linalg.svd") -> tuple[Any, Any, Any]:
    """U, the singular values and V* of A = U S V*."""
    if not one_by_one(x):
        return tuple(_converged(name, np.linalg.svd, x, full_matrices=full))
    raise_unless_finite(name, x)
    (m, n), stack = x.shape[-2:], x.shape[:-2]
    k = min(m, n)
    u, v = np.empty((*stack, m, m if full else k), x.dtype), np.empty((*stack, n if full else k, n), x.dtype)
    sizes, solve = np.empty((*stack, k), real_of(x.dtype)), routine("gesdd", x)
    lwork = workspace("gesdd", solve.dtype, m, n, 1, int(full))
    for i in places(stack):
        u[i], sizes[i], v[i], info = solve(x[i], compute_uv=1, full_matrices=int(full), lwork=lwork)
        _raise_unless_converged(name, "SVD", i, x, info)
    return u, sizes, v


def singular_values(x: Any, name: str = "linalg.svdvals") -> Any:
    """The singular values alone."""
    if not one_by_one(x):
        return _converged(name, np.linalg.svd, x, compute_uv=False)
    raise_unless_finite(name, x)
    (m, n), stack = x.shape[-2:], x.shape[:-2]
    sizes, solve = np.empty((*stack, min(m, n)), real_of(x.dtype)), routine("gesdd", x)
    lwork = workspace("gesdd", solve.dtype, m, n, 0, 0)
    for i in places(stack):
        _, sizes[i], _, info = solve(x[i], compute_uv=0, full_matrices=0, lwork=lwork)
        _raise_unless_converged(name, "SVD", i, x, info)
    return sizes


def _svd_array(x: Any, full: bool) -> tuple[Any, Any, Any, Any]:
    k = min(x.shape[-2:])
    U, S, Vh = factors(x, full)
    rest = U[..., k:] if x.shape[-2] > k else Vh[..., k:, :].conj().swapaxes(-1, -2)
    return np.ascontiguousarray(U[..., :k]), S, np.ascontiguousarray(Vh[..., :k, :]), np.ascontiguousarray(rest)


fill(
    {
        "eigh": eigenpairs,
        "eigvalsh": eigenvalues,
        "eig": lambda x, is_real: _general("linalg.eig", x, True),
        "eigvals": lambda x, is_real: _general("linalg.eigvals", x, False)[0],
        "svd": _svd_array,
        "svdvals": singular_values,
    }
)
