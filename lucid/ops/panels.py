"""Products of two matrices by a team of threads (panels.pyx), where that is faster than BLAS. Here it never is."""

from typing import Any


def product(x: Any, y: Any, bias: Any = None, always: bool = False) -> Any:
    """x @ y, with a vector added to each row of it if one is given; or None, where another way is the better one.

    With `always`, None only if these are not two matrices of floats or doubles that fit.
    """
    if not always or x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0] or x.dtype != y.dtype:
        return None
    return None if x.dtype.char not in "fd" else x @ y if bias is None else x @ y + bias
