"""Rows of the table for products and linear systems with sparse matrices; see `samples`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from samples import INTS, Array, Make, Row, Sample, s
from samples_linalg_solve import firm

import lucid
from lucid import sparse
from lucid.core.primitive import P
from lucid.sparse.linalg import Method

# Rows of different lengths, one without entries, entries at the same position, and no entries at all.
CROW, COL = np.array([0, 2, 2, 5, 6]), np.array([2, 0, 1, 2, 1, 0])
EMPTY = np.zeros(4, np.int64)


def dense(crow: Array, col: Array, values: Array, columns: int) -> Array:
    out = np.zeros((len(crow) - 1, columns), np.result_type(values, np.float32))
    np.add.at(out, (np.repeat(np.arange(len(crow) - 1), np.diff(crow)), col), values)
    return out


def products(rows: int | None) -> Any:
    """Factors of the matrix, or of its transpose."""

    def samples(make: Make) -> Iterator[Sample]:
        for width in (1, 3, 0):
            yield s(CROW, COL, make(6), make(rows or 3, width))
        yield s(CROW.astype(np.int32), COL.astype(np.int32), make(12)[::2], make(2, rows or 3).T)
        yield s(EMPTY, EMPTY[:0], make(0), make((rows and 3) or 2, 2))

    return samples


def sampled(make: Make) -> Iterator[Sample]:
    for width in (1, 3, 0):
        yield s(CROW, COL, make(4, width), make(3, width))
    yield s(CROW, COL, make(2, 4).T, make(3, 4)[:, ::2])
    yield s(EMPTY, EMPTY[:0], make(3, 2), make(2, 2))


def square(make: Make) -> tuple[Array, Array, Array]:
    """A matrix that is far from singular, in compressed rows."""
    full = firm(make, 3, 3) * np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    row, col = np.nonzero(full)
    return np.array([0, 2, 4, 6]), col, full[row, col].astype(make.dtype)


def systems(make: Make) -> Iterator[Sample]:
    yield s(*square(make), make(3, 1))
    yield s(*square(make), make(3, 2))
    yield s(*square(make), make(2, 3).T, transposed=True)
    yield s(*square(make), make(3, 0))


def solved(crow: Array, col: Array, values: Array, b: Array, transposed: bool = False) -> Array:
    matrix = dense(crow, col, values, 3)
    return np.linalg.solve(matrix.T if transposed else matrix, b)


def begun(make: Make) -> Iterator[Sample]:
    for sample in list(systems(make))[:3]:
        yield s(*sample.args, np.zeros_like(sample.args[3]), **sample.kwargs)


def iterated(crow: Array, col: Array, values: Array, b: Array, start: Array, transposed: bool = False) -> Array:
    return solved(crow, col, values, b, transposed)


def iterate(*args: Any, transposed: bool = False) -> Any:
    method = Method("gmres", 1e-6 if args[2].dtype in (lucid.float32, lucid.complex64) else 1e-13, 0.0, None, 20, None)
    return P.csr_iterate(*args, method=method, transposed=transposed, strict=False)[0]


FLOATS: dict[str, Any] = {"complex": True, "ints": INTS, "unbatched": "i"}
SOLVED: dict[str, Any] = {
    "complex": True,
    "halves": False,
    "unbatched": "i",
    "without": {"refused": "the public function checks types"},
}

ROWS = [
    Row("csr_matmul", P.csr_matmul, lambda crow, col, values, x: dense(crow, col, values, len(x)) @ x, products(None), **FLOATS),
    Row("csr_matmul_back", lambda *args: P.csr_matmul_back(*args, columns=3),
        lambda crow, col, values, x: dense(crow, col, values, 3).T @ x, products(4), **FLOATS),
    Row("csr_sample", P.csr_sample,
        lambda crow, col, x, y: np.sum(x[np.repeat(np.arange(len(crow) - 1), np.diff(crow))] * y[col], -1), sampled, **FLOATS),
    Row("csr_solve", lambda *args, transposed=False: P.csr_solve(*args, transposed=transposed), solved, systems, **SOLVED),
    Row("csr_iterate", iterate, iterated, begun, **SOLVED),
    Row("coo_order", lambda row, col: P.coo_order(row, col, rows=4, columns=3),
        lambda row, col: (np.lexsort((col, row)), np.searchsorted(np.sort(row), np.arange(5))),
        lambda make: iter([s(np.array([2, 0, 3, 0, 2]), np.array([1, 2, 0, 0, 1])), s(EMPTY[:0], EMPTY[:0])]),
        differentiable=False, floats=False, ints=("int64",), result="int64"),
]  # fmt: skip
assert sparse.mm is not None  # which declares the primitives
