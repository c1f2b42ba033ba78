"""Linear systems with sparse matrices, directly and by iteration, with gradients by the matrix and the right-hand side."""

# ruff: noqa: N803 -- arguments have the names that SciPy gives them

from typing import Any, NamedTuple

from lucid.arguments.promotion import KEEP, promote
from lucid.core.arrays import counted
from lucid.core.dtypes import INT64
from lucid.core.tensor import Tensor
from lucid.linalg import LinAlgError as LinAlgError
from lucid.ops.rules import P
from lucid.ops.sparse.tensor import Sparse
from lucid.sparse.conversion import from_scipy, to_scipy

__all__ = ["LinAlgError", "bicgstab", "cg", "gmres", "spsolve"]
_FLOATS = "fdFD"


class Method(NamedTuple):
    """An iteration, when it ends, and a matrix that is close to the inverse of that of the system."""

    name: str
    rtol: float
    atol: float
    maxiter: int | None
    restart: int | None
    preconditioner: Any


def _system(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rows, columns and values of a square matrix, and the right-hand side as columns."""
    if not isinstance(a, Tensor):
        a = from_scipy(a)
    b = b if isinstance(b, Tensor) else Tensor.from_data(b)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise RuntimeError(f"{name}: the matrix must be square, not of shape {a.shape}")
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise RuntimeError(f"{name}: a matrix of shape {a.shape} does not fit a right-hand side of shape {b.shape}")
    if isinstance(b, Sparse):
        raise TypeError(f"{name}: the right-hand side must be dense; call to_dense() first")
    crow, col, values = a.coalesce().compressed() if isinstance(a, Sparse) else _all_entries(a)
    values, b = promote(name, (values, b), KEEP)
    if values.np_dtype.char not in _FLOATS:
        raise RuntimeError(f"{name}: expected float32, float64, complex64 or complex128, not {values.dtype}")
    return crow, col, values, b if b.ndim == 2 else P.reshape(b, shape=(b.shape[0], 1))


def _all_entries(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A dense matrix in compressed rows."""
    n = a.shape[0]
    col = P.broadcast_to(Tensor._wrap(counted(n, 0, 1, INT64)), shape=(n, n)).reshape(-1)
    return Tensor._wrap(counted(n + 1, 0, n, INT64)), col, P.reshape(a, shape=(n * n,))


def _shaped(out: Tensor, b: Any) -> Tensor:
    return out if b.ndim == 2 else P.reshape(out, shape=(out.shape[0],))


def spsolve(A: Any, b: Any) -> Tensor:
    """The solution x of A x = b by a factorisation of A (SuperLU's), which derivatives use again.

    `A` is a sparse matrix, one of SciPy or a dense one, and `b` a vector or a matrix of several.

    >>> import lucid
    >>> a = lucid.tensor([[2.0, 0.0], [1.0, 4.0]]).to_sparse_csr()
    >>> lucid.sparse.linalg.spsolve(a, lucid.tensor([2.0, 9.0]))
    Tensor([1., 2.])
    """
    crow, col, values, columns = _system("spsolve", A, b)
    return _shaped(P.csr_solve(crow, col, values, columns, transposed=False), b)


def _iterated(
    name: str, A: Any, b: Any, x0: Any, rtol: float, atol: float, maxiter: int | None, restart: int | None, M: Any
) -> tuple[Tensor, Any]:
    crow, col, values, columns = _system(name, A, b)
    start = columns.detach() * 0 if x0 is None else _start(name, x0, columns)
    aid = to_scipy(M._detached()) if isinstance(M, Sparse) else M.detach().numpy() if isinstance(M, Tensor) else M
    method = Method(name, float(rtol), float(atol), maxiter, restart, aid)
    out, info = P.csr_iterate(crow, col, values, columns, start, method=method, transposed=False, strict=False)
    return _shaped(out, b), info if b.ndim == 2 else P.reshape(info, shape=())


def _start(name: str, x0: Any, columns: Tensor) -> Tensor:
    start = x0 if isinstance(x0, Tensor) else Tensor.from_data(x0)
    start = start.detach().to(columns.dtype)
    start = start if start.ndim == 2 else start.reshape(-1, 1)
    if start.shape != columns.shape:
        raise RuntimeError(f"{name}: x0 must have the shape of the right-hand side")
    return start


def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Tensor, Tensor]:
    """The solution of A x = b by conjugate gradients, for a symmetric (Hermitian) positive definite matrix.

    It begins at `x0` and ends when the residual is below max(rtol · ‖b‖, atol), or after `maxiter` steps; `M` approximates
    the inverse of A. Returns the solution and 0, or the number of steps after which it gave up, for each column of `b`.
    Derivatives are those of the solution, by a system with the adjoint matrix that is solved in the same way.

    >>> import lucid
    >>> a = lucid.tensor([[4.0, 1.0], [1.0, 3.0]]).to_sparse_csr()
    >>> lucid.sparse.linalg.cg(a, lucid.tensor([6.0, 7.0]))
    (Tensor([1., 2.]), Tensor(0, dtype=lucid.int32))
    """
    return _iterated("cg", A, b, x0, rtol, atol, maxiter, None, M)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Tensor, Tensor]:
    """The solution of A x = b by generalised minimal residuals, for any matrix, begun anew after `restart` steps.

    The arguments and results are those of `cg`.

    >>> import lucid
    >>> a = lucid.tensor([[4.0, 1.0], [0.0, 3.0]]).to_sparse_csr()
    >>> x, info = lucid.sparse.linalg.gmres(a, lucid.tensor([6.0, 6.0]))
    >>> x.round(decimals=3)
    Tensor([1., 2.])
    """
    return _iterated("gmres", A, b, x0, rtol, atol, maxiter, restart, M)


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Tensor, Tensor]:
    """The solution of A x = b by stabilised biconjugate gradients, for any matrix.

    The arguments and results are those of `cg`.

    >>> import lucid
    >>> a = lucid.tensor([[4.0, 1.0], [0.0, 3.0]]).to_sparse_csr()
    >>> x, info = lucid.sparse.linalg.bicgstab(a, lucid.tensor([6.0, 6.0]))
    >>> x.round(decimals=3)
    Tensor([1., 2.])
    """
    return _iterated("bicgstab", A, b, x0, rtol, atol, maxiter, None, M)
