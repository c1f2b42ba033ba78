"""Products with sparse matrices in compressed rows, and the order of their entries.

Matrices are given by `crow`, `col` and `values` (`lucid.ops.sparse.products` says how); dense factors are of the type of
the values, float or double. The loops of csr.pyx share rows among threads, so many that each has as
many entries; where sums of several rows meet in one, they share columns.

Generation does not reach sums over positions that data give.
"""

from typing import Any

import numpy as np

from lucid.backends.numpy.positions import distinct_positions, ordered_columns
from lucid.backends.numpy.sparse import back, entry_order, product, sampled


def matmul(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    """The matrix times a dense one."""
    return product(crow, col, values, dense)


def matmul_back(crow: Any, col: Any, values: Any, dense: Any, columns: int) -> Any:
    """Its transpose, which has so many rows, times a dense one."""
    return back(crow, col, values, dense, columns)


def sample(crow: Any, col: Any, x: Any, y: Any) -> Any:
    """The product of x and the transpose of y at the entries."""
    return sampled(crow, col, x, y)


def order(row: Any, col: Any, rows: int, columns: int) -> Any:
    """The order of entries by row and column, equal ones as they come, and where each row begins."""
    return entry_order(row, col, rows, columns)


def distinct(row: Any, col: Any, rows: int, columns: int) -> Any:
    """Positions in order, each once; the order of entries; and where in it those at each position begin, if any has two."""
    return distinct_positions(np.stack([row, col]), (rows, columns))


def are_ordered(crow: Any, col: Any, columns: int) -> bool:
    """Whether the columns of each row are in order, each once, and none is outside."""
    return ordered_columns(crow, col, columns)
