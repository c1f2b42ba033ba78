"""Rows of a table read by index, and the sums of rows that their gradients are."""

from typing import Any

import numpy as np

from lucid.backends.numpy.indexing import fold_at
from lucid.core.kernels import fill


def take_array(table: Any, index: Any, skip: int | None, period: int) -> Any:
    return np.take(table, index, axis=0)


def gather_array(table: Any, index: Any, skip: int | None, period: int) -> Any:
    out = np.take(table, index, axis=0)
    if skip is not None:
        out[index % period == skip] = 0
    return out


def _scatter_array(rows: Any, index: Any, count: int, skip: int | None, period: int) -> Any:
    out = np.zeros((count, *rows.shape[index.ndim :]), rows.dtype)
    fold_at(np.add, out, (index,), rows)
    if skip is not None:
        out[skip::period] = 0
    return out


fill(
    {
        "embedding": take_array,
        "sparse_embedding": take_array,
        "gather_rows": gather_array,
        "scatter_rows": _scatter_array,
    }
)
