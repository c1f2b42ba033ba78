"""Softmax and log-softmax along a dimension.

The functions see arrays of shape (outer, n) or (outer, n, inner) and work along dimension 1, in blocks of rows that
stay in the cache.

To be replaced by generated code.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lucid.core import dtypes

_BLOCK = 1 << 16  # elements: 512 x 1000 softmax takes 0.6 of the time that it takes in one piece


NARROW = frozenset({dtypes.float16.numpy, dtypes.bfloat16.numpy})


# Sums of exponentials within these bounds are as exact as those of numbers that were shifted to have their maximum at 0.
_LEAST, _MOST = 1e-14, 1e14


@lru_cache(maxsize=64)
def _ones(n: int, dtype: np.dtype[Any]) -> Any:
    return np.ones(n, dtype)


def row_sums(x: Any) -> Any:
    """Sums along dimension 1, which is kept; those of a matrix by BLAS, in a third of the time."""
    if x.ndim == 2:
        return np.matmul(x, _ones(x.shape[1], x.dtype))[:, None]
    return np.add.reduce(x, axis=1, keepdims=True)


def exponentials(x: Any, out: Any) -> tuple[Any, Any]:
    """Write exp(x - shift) to `out`; the sums of it along dimension 1, and the shift, None where none is needed."""
    np.exp(x, out=out)
    total = row_sums(out)
    if np.minimum.reduce(total, axis=None) >= _LEAST and np.maximum.reduce(total, axis=None) <= _MOST:
        return total, None
    shift = np.maximum.reduce(x, axis=1, keepdims=True)
    np.subtract(x, shift, out=out)
    np.exp(out, out=out)
    return row_sums(out), shift


def _softmax_kernel(x: Any, out: Any) -> None:
    np.divide(out, exponentials(x, out)[0], out=out)


def _log_softmax_kernel(x: Any, out: Any) -> None:
    if x.shape[1] == 1:  # exactly 0, which x - log(exp(x)) is not always
        np.subtract(x, x, out=out)
        return
    total, shift = exponentials(x, out)
    np.log(total, out=total)
    if shift is not None:
        x = np.subtract(x, shift, out=out)
    np.subtract(x, total, out=out)


def _softmax_back_kernel(g: Any, y: Any, out: Any) -> None:
    mean = np.vecdot(g, y)[:, None] if y.ndim == 2 else np.einsum("ijk,ijk->ik", g, y)[:, None]
    np.subtract(g, mean, out=out)
    np.multiply(out, y, out=out)


def _log_softmax_back_kernel(g: Any, y: Any, out: Any) -> None:
    np.exp(y, out=out)
    np.multiply(out, row_sums(g), out=out)
    np.subtract(g, out, out=out)


def shape_along(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The shape with all dimensions before `dim` as one, and all behind it."""
    if len(shape) == 2 and dim == 1:
        return shape
    inner = math.prod(shape[dim + 1 :])
    outer = math.prod(shape[:dim])
    return (outer, shape[dim]) if inner == 1 else (outer, shape[dim], inner)


_WHOLE = (slice(None),)


def blocks(shape: tuple[int, ...]) -> Sequence[slice]:
    """Blocks of rows that have about `_BLOCK` elements each."""
    row = shape[1] if len(shape) == 2 else shape[1] * shape[2]
    step = max(1, _BLOCK // (row or 1))
    return _WHOLE if step >= shape[0] else [slice(start, start + step) for start in range(0, shape[0], step)]


def _along(kernel: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays and a dimension that runs a kernel on blocks of rows; half precision in single."""

    def impl(*arrays: Any, dim: int) -> Any:
        x = arrays[0]
        if x.ndim == 2 and dim == 1 and 0 < x.size <= _BLOCK and x.dtype.char in "fd":
            out = np.empty(x.shape, x.dtype)
            kernel(*arrays, out)
            return out
        if x.dtype in NARROW:
            return impl(*[a.astype(np.float32) for a in arrays], dim=dim).astype(x.dtype)
        if not x.size:
            return x.copy()
        shape = shape_along(x.shape, dim)
        flat = [np.ascontiguousarray(a).reshape(shape) for a in arrays]
        out = np.empty(x.shape, x.dtype)
        flat.append(out.reshape(shape))
        for rows in blocks(shape):
            kernel(*[f[rows] for f in flat])
        return out

    return impl
