"""Functions of LAPACK and BLAS for a type of numbers, found once."""

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs  # type: ignore[import-untyped]  # SciPy has no types

# Rows from which on matrices are handed to LAPACK one by one. NumPy computes single precision in double, and gives
# factorizations and inverses the least workspace, so that they go column by column.
LARGE = 128
PANEL = 64  # columns for which workspace is given


@cache
def lapack(name: str, dtype: np.dtype[Any]) -> Any:
    """The function of this name for numbers of this type."""
    return get_lapack_funcs(name, dtype=dtype)


@cache
def blas(name: str, dtype: np.dtype[Any]) -> Any:
    """The same of BLAS."""
    return get_blas_funcs(name, dtype=dtype)
