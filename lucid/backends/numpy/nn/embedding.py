"""Rows of a table read by index, and the sums of rows that their gradients are."""

import importlib
import math
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.kernels import fill

_NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})


_FEW = 2048  # elements up to which np.add.at is faster than a sparse product


_sparse: Any = None


def _sparse_matrix() -> Any:
    """SciPy's matrices of compressed columns, loaded on first use."""
    global _sparse
    if _sparse is None:
        _sparse = importlib.import_module("scipy.sparse").csc_matrix
    return _sparse


def add_rows(rows: Any, places: Any, count: int) -> Any:
    """A table of `count` rows, each the sum of the `rows` that belong to its place.

    As the product with a sparse matrix that has one 1 in each column: no sorting, and inner loops in C. For 4096 rows
    of 64 numbers it takes 0.1 ms, where sorting and np.add.reduceat take 1.2 ms and np.add.at 2.1 ms.
    """
    if rows.dtype in _NARROW:
        return add_rows(rows.astype(np.float32), places, count).astype(rows.dtype)
    if rows.size <= _FEW:
        out = np.zeros((count, rows.shape[1]), rows.dtype)
        np.add.at(out, places, rows)
        return out
    n = len(places)
    return _sparse_matrix()((np.ones(n, rows.dtype), places, np.arange(n + 1)), shape=(count, n)) @ rows


def _take_array(table: Any, index: Any, skip: int | None, period: int) -> Any:
    return np.take(table, index, axis=0)


def _gather_array(table: Any, index: Any, skip: int | None, period: int) -> Any:
    out = np.take(table, index, axis=0)
    if skip is not None:
        out[index % period == skip] = 0
    return out


def _scatter_array(rows: Any, index: Any, count: int, skip: int | None, period: int) -> Any:
    row = rows.shape[index.ndim :]
    flat = np.ascontiguousarray(rows).reshape(index.size, math.prod(row))
    out = add_rows(flat, index.reshape(-1), count)
    if skip is not None:
        out[skip::period] = 0
    return out if out.shape[1:] == row else out.reshape(count, *row)


fill(
    {
        "embedding": _take_array,
        "gather_rows": _gather_array,
        "scatter_rows": _scatter_array,
    }
)
