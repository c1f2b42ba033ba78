"""Products with sparse matrices in compressed rows, and the order of their entries.

Matrices are given by `crow`, `col` and `values` (`lucid.ops.sparse.products` says how); dense factors are of the type of
the values, float or double, and lie in order. The loops of csr.pyx share rows among threads, so many that each has as
many entries; where sums of several rows meet in one, they share columns.

Generation does not reach sums over positions that data give.
"""

from typing import Any

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
