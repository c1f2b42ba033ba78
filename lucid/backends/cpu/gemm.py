"""Products of matrices by the thread pool (gemm.pyx), where that is faster than BLAS. Here it never is.

Generation does not reach it: packing and register blocks are those of a matrix product.
"""

from typing import Any


def product(x: Any, y: Any, bias: Any = None, always: bool = False) -> Any:
    """x @ y for two matrices, or two stacks of as many; with a vector added to each row of it if one is given.

    It is None where another way is the better one; with `always`, only if these are not matrices of floats or doubles,
    of one type, that fit.
    """
    fits = x.ndim == y.ndim > 1 and x.shape[-1] == y.shape[-2] and x.shape[:-2] == y.shape[:-2]
    if not always or not fits or x.dtype != y.dtype or x.dtype.char not in "fd":
        return None
    return x @ y if bias is None else x @ y + bias
