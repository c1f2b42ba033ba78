"""Functions of LAPACK and BLAS for a type of numbers, found once."""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs  # type: ignore[import-untyped]  # SciPy has no types

# Rows and columns from which on matrices are handed to LAPACK one by one. NumPy computes single precision in double, and
# gives factorizations and inverses the least workspace, so that they go column by column.
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


def _is_large(x: Any) -> bool:
    return x.shape[-1] >= LARGE and x.shape[-2] >= LARGE


def one_by_one(x: Any, *others: Any) -> bool:
    """Whether LAPACK gets matrices like `x` one by one: large ones, and one alone, for which NumPy takes longer to set up."""
    operands = (x, *others)
    return all(m.size for m in operands) and (_is_large(x) or all(m.ndim == 2 for m in operands))


def routine(name: str, x: Any) -> Any:
    """A function of LAPACK for matrices like `x`. Small ones are computed in double precision, as NumPy does it in stacks."""
    return lapack(name, x.dtype if _is_large(x) else _double(x.dtype))


@cache
def _double(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.float64)


def places(stack: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """Where the matrices of a stack stand."""
    return np.ndindex(stack) if stack else ((),)


@lru_cache(maxsize=4096)
def workspace(name: str, dtype: np.dtype[Any], *sizes: int) -> int:
    """How many numbers a routine needs to work with for the best speed."""
    found = complex(lapack(f"{name}_lwork", dtype)(*sizes)[0]).real
    return int(found * (1 + 1e-6)) + 1  # single precision may have rounded it
