"""Products with sparse matrices in compiled loops; what these do not take, the reference computes.

Generation does not reach them: where a row ends stands in memory, and not in the shape.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu import csr
from lucid.backends.numpy import sparse as reference
from lucid.core.kernels import fill
from lucid.native import in_use

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def _by_loops(loop: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of indices and two operands, for numbers that loops multiply."""

    def kernel(crow: Any, col: Any, x: Any, y: Any, **params: Any) -> Any:
        if x.dtype != y.dtype or x.dtype not in _FLOATS or col.dtype not in _INDICES:
            return otherwise(crow, col, x, y, **params)
        arrays = (np.ascontiguousarray(a) for a in (crow.astype(col.dtype, copy=False), col, x, y))
        return loop(*arrays, **params)

    return kernel


def _order(row: Any, col: Any, rows: int, columns: int) -> Any:
    if columns > 8 * len(col) + (1 << 16):  # counting columns would take longer than sorting entries
        return reference.entry_order(row, col, rows, columns)
    row, col = (np.ascontiguousarray(i, np.int64) for i in (row, col))
    return csr.order(row, col, rows, columns)


if in_use:
    fill(
        {
            "csr_matmul": _by_loops(csr.matmul, reference.product),
            "csr_matmul_back": _by_loops(csr.matmul_back, reference.back),
            "csr_sample": _by_loops(csr.sample, reference.sampled),
            "coo_order": _order,
        },
        "cpu",
    )
