"""Products with sparse matrices in compiled loops; what these do not take, the reference computes.

Generation does not reach them: where a row ends stands in memory, and not in the shape.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu import csr
from lucid.backends.numpy import positions
from lucid.backends.numpy import sparse as reference
from lucid.core.kernels import fill
from lucid.native import in_use

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def _by_loops(loop: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of indices and two operands, for numbers that loops multiply."""

    def kernel(crow: Any, col: Any, x: Any, y: Any, **params: Any) -> Any:
        fits = crow.ndim == col.ndim == 1 and len(crow) > 0 and y.ndim == 2 and (x.ndim == 2 or x.shape == col.shape)
        if not fits or x.dtype != y.dtype or x.dtype not in _FLOATS or col.dtype not in _INDICES:
            return otherwise(crow, col, x, y, **params)
        crow = crow if crow.dtype == col.dtype else crow.astype(col.dtype)
        return loop(crow, col, x, y, **params)

    return kernel


def _is_countable(count: int, rows: int, columns: int) -> bool:
    """Whether counting the entries of rows and of columns takes no longer than sorting them; loops number both in 32 bits."""
    return max(rows, columns) <= min(8 * count + (1 << 16), 1 << 31) and count <= 1 << 32


def _order(row: Any, col: Any, rows: int, columns: int) -> Any:
    if not _is_countable(len(col), rows, columns):
        return reference.entry_order(row, col, rows, columns)
    row, col = (np.ascontiguousarray(i, np.int64) for i in (row, col))
    return csr.order(row, col, rows, columns)


def _distinct_positions(indices: Any, shape: tuple[int, ...]) -> Any:
    """As rows and columns, of which the last dimension is one; that of a vector is rows, with one column."""
    *outer, columns = shape if len(shape) > 1 else (*shape, 1)
    rows = math.prod(outer)
    if not shape or not _is_countable(indices.shape[1], rows, columns):
        return positions.distinct_positions(indices, shape)
    indices = np.ascontiguousarray(indices, np.int64)
    row = indices[0] if len(outer) == 1 else np.ravel_multi_index(tuple(indices[:-1]), outer)
    found, order, starts = csr.distinct(row, np.zeros_like(row) if len(shape) == 1 else indices[-1], rows, columns)
    if len(shape) == 1:
        return found[:1], order, starts
    return found if len(outer) == 1 else np.stack([*np.unravel_index(found[0], outer), found[1]]), order, starts


def _are_compressed(crow: Any, col: Any, rows: int, columns: int) -> bool:
    if col.dtype not in _INDICES:
        return positions.are_compressed(crow, col, rows, columns)
    crow, col = (np.ascontiguousarray(i, col.dtype) for i in (crow, col))
    return positions.are_compressed(crow, col, rows, columns, csr.are_ordered)


if in_use:
    fill(
        {
            "csr_matmul": _by_loops(csr.matmul, reference.product),
            "csr_matmul_back": _by_loops(csr.matmul_back, reference.back),
            "csr_sample": _by_loops(csr.sample, reference.sampled),
            "coo_order": _order,
            "distinct_positions": _distinct_positions,
            "are_compressed": _are_compressed,
        },
        "cpu",
    )
