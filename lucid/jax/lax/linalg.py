"""`jax.lax.linalg`: factorisations, by `lucid.linalg`."""

from typing import Any

from lucid import linalg
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR


def _array(x: Any) -> Any:
    return lift(DOOR.array(x))


def cholesky(a: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower factor of a positive definite matrix."""
    x = _array(a)
    return linalg.cholesky((x + x.mT.conj()) / 2 if symmetrize_input else x)


def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True, **hints: Any) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of a symmetric matrix, in this order."""
    a = _array(x)
    values, vectors = linalg.eigh((a + a.mT.conj()) / 2 if symmetrize_input else a, "L" if lower else "U")
    return vectors, values


def qr(x: Any, *, full_matrices: bool = True, **hints: Any) -> tuple[Any, Any]:
    """An orthogonal and an upper triangular factor."""
    found = linalg.qr(_array(x), "complete" if full_matrices else "reduced")
    return found.Q, found.R


def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, **hints: Any) -> Any:
    """Singular values between two orthogonal matrices."""
    return tuple(linalg.svd(_array(x), full_matrices)) if compute_uv else linalg.svdvals(_array(x))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """The solution of equations whose matrix is triangular."""
    matrix = _array(a).conj() if conjugate_a else _array(a)
    upper = not lower
    if transpose_a:
        matrix, upper = matrix.mT, not upper
    return linalg.solve_triangular(matrix, _array(b), upper=upper, left=left_side, unitriangular=unit_diagonal)


__all__ = ["cholesky", "eigh", "qr", "svd", "triangular_solve"]
