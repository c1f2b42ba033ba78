"""Eigenvalues and singular values with their vectors."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.linalg.errors import (
    LinAlgError,
    raise_unless_finite,
)
from lucid.core.dtypes import complex_of
from lucid.core.kernels import fill


def _converged(name: str, function: Callable[..., Any], x: Any, **options: Any) -> Any:
    """Run one of NumPy's iterations on finite matrices."""
    raise_unless_finite(name, x)
    try:
        return function(x, **options)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {error}") from None


def _of_triangle(name: str, function: Callable[..., Any], x: Any, UPLO: str) -> Any:
    """The same of hermitian matrices, of which the other triangle may hold anything."""
    return _converged(name, function, np.tril(x) if UPLO == "L" else np.triu(x), UPLO=UPLO)


def _eigh_array(x: Any, UPLO: str) -> tuple[Any, Any]:
    return tuple(_of_triangle("linalg.eigh", np.linalg.eigh, x, UPLO))


def _eig_array(x: Any, is_real: bool) -> tuple[Any, Any]:
    wide = complex_of(x.dtype)
    w, V = _converged("linalg.eig", np.linalg.eig, x)
    return w.astype(wide), V.astype(wide)


def _eigvals_array(x: Any, is_real: bool) -> Any:
    return _converged("linalg.eigvals", np.linalg.eigvals, x).astype(complex_of(x.dtype))


def _svd_array(x: Any, full: bool) -> tuple[Any, Any, Any, Any]:
    k = min(x.shape[-2:])
    U, S, Vh = _converged("linalg.svd", np.linalg.svd, x, full_matrices=full)
    rest = U[..., k:] if x.shape[-2] > k else Vh[..., k:, :].conj().swapaxes(-1, -2)
    return np.ascontiguousarray(U[..., :k]), S, np.ascontiguousarray(Vh[..., :k, :]), np.ascontiguousarray(rest)


fill(
    {
        "eigh": _eigh_array,
        "eigvalsh": lambda x, UPLO: _of_triangle("linalg.eigvalsh", np.linalg.eigvalsh, x, UPLO),
        "eig": _eig_array,
        "eigvals": _eigvals_array,
        "svd": _svd_array,
        "svdvals": lambda x: _converged("linalg.svdvals", np.linalg.svd, x, compute_uv=False),
    }
)
