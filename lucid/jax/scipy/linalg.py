"""`jax.scipy.linalg`: SciPy's linear algebra, by `lucid.linalg`."""

from typing import Any

from lucid import linalg
from lucid.api import joining
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR


def _array(x: Any) -> Any:
    return lift(DOOR.array(x))


def _columns(b: Any) -> tuple[Any, bool]:
    """A right side as a matrix, and whether it was a vector."""
    y = _array(b)
    return (y.unsqueeze(-1), True) if y.ndim == 1 else (y, False)


def cholesky(a: Any, lower: bool = False, **hints: Any) -> Any:
    """The factor of a positive definite matrix; the upper one unless `lower`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.linalg.cholesky(4.0 * jnp.eye(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    return linalg.cholesky(_array(a), upper=not lower)


def cho_factor(a: Any, lower: bool = False, **hints: Any) -> tuple[Any, bool]:
    """The same with a word about which factor it is, for `cho_solve`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, **hints: Any) -> Any:
    """The solution of equations whose matrix was factorised."""
    factor, lower = c_and_lower
    right, vector = _columns(b)
    found = linalg.cholesky_solve(right, factor, upper=not lower)
    return found.squeeze(-1) if vector else found


def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, **hints: Any
) -> Any:
    """The solution of equations whose matrix is triangular.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.linalg.solve_triangular(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    matrix, upper = _array(a), not lower
    if trans in (1, "T", 2, "C"):
        matrix, upper = (matrix.mT if trans in (1, "T") else matrix.mH), not upper
    right, vector = _columns(b)
    found = linalg.solve_triangular(matrix, right, upper=upper, unitriangular=unit_diagonal)
    return found.squeeze(-1) if vector else found


def solve(a: Any, b: Any, **hints: Any) -> Any:
    """The solution of equations."""
    right, vector = _columns(b)
    found = linalg.solve(_array(a), right)
    return found.squeeze(-1) if vector else found


def expm(A: Any, **hints: Any) -> Any:  # noqa: N803  (the name is SciPy's)
    """The exponential of a matrix."""
    return linalg.matrix_exp(_array(A))


def block_diag(*arrs: Any) -> Any:
    """The matrices along the diagonal of one."""
    return joining.block_diag(*(_array(a) for a in arrs))


def inv(a: Any, **hints: Any) -> Any:
    """The inverse."""
    return linalg.inv(_array(a))


def det(a: Any, **hints: Any) -> Any:
    """The determinant."""
    return linalg.det(_array(a))


def eigh(a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False, **hints: Any) -> Any:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    if b is not None:
        raise ValueError("eigh: a second matrix is not supported; multiply by the inverse of its Cholesky factor")
    found = linalg.eigh(_array(a), "L" if lower else "U")
    return found[0] if eigvals_only else tuple(found)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, **hints: Any) -> Any:
    """Singular values between two orthogonal matrices."""
    return tuple(linalg.svd(_array(a), full_matrices)) if compute_uv else linalg.svdvals(_array(a))


def qr(a: Any, mode: str = "full", **hints: Any) -> Any:
    """An orthogonal and an upper triangular factor."""
    found = linalg.qr(_array(a), "complete" if mode == "full" else "reduced")
    return (found.R,) if mode == "r" else tuple(found)


def lu(a: Any, **hints: Any) -> Any:
    """A permutation, a lower and an upper triangular factor."""
    return tuple(linalg.lu(_array(a)))


__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "expm", "inv", "lu", "qr", "solve",
    "solve_triangular", "svd",
]  # fmt: skip
