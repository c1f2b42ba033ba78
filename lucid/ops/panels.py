"""Products of matrices by a team of threads (panels.pyx), where that is faster than BLAS. Here it never is.

Each function returns None where another way is the better one; with `always`, only if these are not matrices of floats or
doubles, of one type, that fit.
"""

from typing import Any


def product(x: Any, y: Any, bias: Any = None, always: bool = False) -> Any:
    """x @ y for two matrices, with a vector added to each row of it if one is given."""
    if not always or x.ndim != 2 or not _fit(x, y):
        return None
    return x @ y if bias is None else x @ y + bias


def products(x: Any, y: Any, always: bool = False) -> Any:
    """x @ y for two stacks of matrices, as many in both."""
    return x @ y if always and _fit(x, y) and x.shape[:-2] == y.shape[:-2] else None


def _fit(x: Any, y: Any) -> bool:
    fits = x.ndim == y.ndim > 1 and x.shape[-1] == y.shape[-2]
    return fits and x.dtype == y.dtype and x.dtype.char in "fd"
