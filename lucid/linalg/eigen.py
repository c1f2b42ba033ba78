"""Eigenvalues and singular values with their vectors."""

# ruff: noqa: N803, N806 -- matrices have the names that PyTorch gives them

from typing import Any, NamedTuple

from lucid.core.tensor import Tensor
from lucid.linalg.operands import matrix_operand, square_operand
from lucid.linalg.orthogonal import completed
from lucid.ops.linalg.matrices import adjoint
from lucid.ops.rules import P, is_complex

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"]


class Eigen(NamedTuple):
    """What `eig` and `eigh` give.

    >>> import lucid
    >>> lucid.linalg.eigh(lucid.eye(2)).eigenvalues
    Tensor([1., 1.])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """What `svd` gives: A = U diag(S) Vh.

    >>> import lucid
    >>> lucid.linalg.svd(lucid.eye(2)).S
    Tensor([1., 1.])
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


# --- hermitian matrices ------------------------------------------------------------------------------


def _triangle(UPLO: str) -> str:
    found = UPLO.upper() if isinstance(UPLO, str) else UPLO
    if found not in ("L", "U"):
        raise RuntimeError(f"UPLO names the triangle to read: it must be 'L' or 'U', not {UPLO!r}")
    return found


def eigh(A: Any, UPLO: str = "L") -> Eigen:
    """Eigenvalues of hermitian (real: symmetric) matrices, ascending, and orthonormal eigenvectors as columns.

    Only the triangle that `UPLO` names is read. Eigenvectors are determined up to a sign, complex ones up to a phase: a
    loss that depends on it has no derivative. Where eigenvalues coincide, that of the eigenvectors is inf or nan.

    >>> import lucid
    >>> w, V = lucid.linalg.eigh(lucid.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> w
    Tensor([1., 3.])
    """
    x = square_operand("linalg.eigh", A)
    return Eigen(*P.eigh(x, UPLO=_triangle(UPLO)))


def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Eigenvalues of hermitian (real: symmetric) matrices, ascending; only the triangle that `UPLO` names is read.

    >>> import lucid
    >>> lucid.linalg.eigvalsh(lucid.tensor([[2.0, 1.0], [1.0, 2.0]]))
    Tensor([1., 3.])
    """
    x = square_operand("linalg.eigvalsh", A)
    return P.eigvalsh(x, UPLO=_triangle(UPLO))


# --- any square matrices -----------------------------------------------------------------------------


def eig(A: Any) -> Eigen:
    """Eigenvalues of square matrices, and eigenvectors of length 1 as columns: A V = V diag(w). Both are complex.

    Eigenvectors are determined up to a phase: a loss that depends on it has no derivative. Where eigenvalues coincide,
    that of the eigenvectors is inf or nan.

    >>> import lucid
    >>> w, V = lucid.linalg.eig(lucid.tensor([[0.0, -4.0], [1.0, 0.0]]))
    >>> w
    Tensor([0.+2.j, 0.-2.j], dtype=lucid.complex64)
    """
    x = square_operand("linalg.eig", A)
    return Eigen(*P.eig(x, is_real=not is_complex(x)))


def eigvals(A: Any) -> Tensor:
    """Eigenvalues of square matrices, as complex numbers in no particular order.

    >>> import lucid
    >>> lucid.linalg.eigvals(lucid.tensor([[0.0, -4.0], [1.0, 0.0]]))
    Tensor([0.+2.j, 0.-2.j], dtype=lucid.complex64)
    """
    x = square_operand("linalg.eigvals", A)
    return P.eigvals(x, is_real=not is_complex(x))


# --- singular values ---------------------------------------------------------------------------------


def _raise_unless_default(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(f"{name}: driver={driver!r} names a method for CUDA; there is one for the CPU, driver=None")


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """A = U diag(S) Vh with orthonormal columns in U and rows in Vh and the singular values S, descending.

    With k the smaller dimension of an m by n matrix, U is m by m and Vh n by n, or m by k and k by n if not
    `full_matrices`. Singular vectors are determined up to a common sign or phase of each pair, and those beyond the
    k-th can be any basis of what is left: a loss that depends on the choice has no derivative, and asking for it is an
    error. Where singular values coincide, the derivative of their vectors is inf or nan.

    >>> import lucid
    >>> U, S, Vh = lucid.linalg.svd(lucid.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
    >>> U.shape, S, Vh.shape
    ((3, 3), Tensor([2., 1.]), (2, 2))
    """
    _raise_unless_default("linalg.svd", driver)
    x = matrix_operand("linalg.svd", A)
    m, n = x.shape[-2:]
    U, S, Vh, rest = P.svd(x, full=bool(full_matrices))
    if full_matrices and m > n:
        U = completed("linalg.svd", U, rest.detach())
    if full_matrices and m < n:
        Vh = adjoint(completed("linalg.svd", adjoint(Vh), rest.detach()))
    return SVD(U, S, Vh)


def svdvals(A: Any, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, descending. Their derivative exists where they coincide, too.

    >>> import lucid
    >>> lucid.linalg.svdvals(lucid.tensor([[0.0, 2.0], [1.0, 0.0]]))
    Tensor([2., 1.])
    """
    _raise_unless_default("linalg.svdvals", driver)
    return P.svdvals(matrix_operand("linalg.svdvals", A))
