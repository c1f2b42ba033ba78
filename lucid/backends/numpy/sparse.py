"""Sparse matrices by SciPy: products, linear systems, and the order of entries."""

import threading
from typing import Any

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]  # SciPy has no types
from scipy.sparse import linalg  # type: ignore[import-untyped]

from lucid.backends.numpy.linalg.errors import LinAlgError
from lucid.backends.numpy.positions import row_of_each
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.forks import after_fork


def matrix(crow: Any, col: Any, values: Any, columns: int) -> Any:
    """SciPy's matrix over the same memory; its loops do not look where rows begin."""
    if crow[0] < 0 or crow[-1] > len(col) or (crow[1:] < crow[:-1]).any():
        raise RuntimeError(f"rows of a sparse matrix must begin one after another among its {len(col)} entries")
    return sparse.csr_array((values, col, crow), shape=(len(crow) - 1, columns))


def _working(*arrays: Any) -> list[Any]:
    """Arrays in a type that SciPy multiplies."""
    return [a.astype(np.float32) if a.dtype.itemsize == 2 and a.dtype.kind not in "iu" else a for a in arrays]


def product(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    """The matrix times a dense one."""
    kind = np.result_type(values, dense)
    values, dense = _working(values, dense)
    return np.asarray(matrix(crow, col, values, len(dense)) @ dense).astype(kind, copy=False)


def back(crow: Any, col: Any, values: Any, dense: Any, columns: int) -> Any:
    """Its transpose times a dense one."""
    kind = np.result_type(values, dense)
    values, dense = _working(values, dense)
    return np.asarray(matrix(crow, col, values, columns).T @ dense).astype(kind, copy=False)


def sampled(crow: Any, col: Any, x: Any, y: Any) -> Any:
    """The product of x and the transpose of y at the entries."""
    kind = np.result_type(x, y)
    x, y = _working(x, y)
    return np.einsum("kc,kc->k", x[row_of_each(crow)], y[col]).astype(kind, copy=False)


def entry_order(row: Any, col: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """The order of entries by row and column, and where each row begins."""
    crow = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=crow[1:])
    return np.lexsort((col, row)), crow


# --- linear systems ------------------------------------------------------------------------------


class Factorizations:
    """The last factorisations, each with a copy of its matrix: a derivative solves systems with the matrix of the result."""

    def __init__(self, most: int = 4) -> None:
        self.most = most
        self.known: list[tuple[tuple[Any, ...], Any]] = []
        self.lock = threading.Lock()

    def of(self, crow: Any, col: Any, values: Any) -> Any:
        """That of the transpose of a matrix, whose compressed columns are the rows of the matrix."""
        given = (crow, col, values)
        with self.lock:
            for at, (kept, found) in enumerate(self.known):
                if all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(kept, given)):
                    self.known.append(self.known.pop(at))
                    return found
        copies = tuple(a.copy() for a in given)
        made = _factorized(*copies)
        with self.lock:
            self.known = [*self.known, (tuple(a.copy() for a in given), made)][-self.most :]
        return made


def _factorized(crow: Any, col: Any, values: Any) -> Any:
    count = len(crow) - 1
    transposed = sparse.csc_array((values, col.astype(np.int32), crow.astype(np.int32)), shape=(count, count))
    transposed.sum_duplicates()
    try:
        return linalg.splu(transposed)
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise LinAlgError("sparse.linalg.spsolve: the matrix is singular: a pivot of its factorisation is 0") from None


_factorizations = Factorizations()


def _forget() -> None:
    global _factorizations
    _factorizations = Factorizations()


after_fork(_forget)


def _solve(crow: Any, col: Any, values: Any, b: Any, transposed: bool) -> Any:
    if not b.size:
        return np.zeros(b.shape, b.dtype)
    found = _factorizations.of(crow, col, values).solve(np.asfortranarray(b), "N" if transposed else "T")
    return np.ascontiguousarray(found, b.dtype)


def _iterate(
    crow: Any, col: Any, values: Any, b: Any, start: Any, method: Any, transposed: bool, strict: bool
) -> tuple[Any, Any]:
    a = matrix(crow, col, values, len(b))
    a = a.T.tocsr() if transposed else a
    operator = linalg.LinearOperator(a.shape, dtype=values.dtype, matvec=lambda x: _times(a, x))
    out, info = np.empty(b.shape, b.dtype), np.zeros(b.shape[1], np.int32)
    aid = method.preconditioner
    options: dict[str, Any] = {"rtol": method.rtol, "atol": method.atol, "maxiter": method.maxiter, "M": aid}
    if aid is not None and transposed:
        options["M"] = linalg.aslinearoperator(aid).H
    for k in range(b.shape[1]):
        right, first = np.ascontiguousarray(b[:, k]), np.ascontiguousarray(start[:, k])
        more = {} if method.restart is None else {"restart": method.restart}
        out[:, k], info[k] = getattr(linalg, method.name)(operator, right, first, **options, **more)
        if strict and info[k]:  # some methods break down for right-hand sides with many zeros
            out[:, k], info[k] = linalg.gmres(operator, right, restart=min(len(b), 100), **options)
        if strict and info[k]:
            raise LinAlgError(
                f"sparse.linalg.{method.name}: a derivative needs the solution of a system with the adjoint matrix or another "
                f"right-hand side, which did not converge within {info[k]} steps; raise maxiter, or give a preconditioner M"
            )
    return out, info


def _times(a: Any, x: Any) -> Any:
    return P.csr_matmul.kernel(a.indptr, a.indices, a.data, np.ascontiguousarray(x.reshape(-1, 1), a.dtype)).ravel()


fill(
    {
        "csr_matmul": product,
        "csr_matmul_back": back,
        "csr_sample": sampled,
        "coo_order": entry_order,
        "csr_solve": _solve,
        "csr_iterate": _iterate,
        "as_scipy": matrix,
    }
)
