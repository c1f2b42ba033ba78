"""Products of matrices and stacks of them, by BLAS and the GEMM loops."""

from typing import Any

import numpy as np

from lucid.backends.cpu import gemm
from lucid.backends.cpu.blas import in_one_thread, threads_share_cores
from lucid.backends.cpu.loops import stacked_outer
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.native import framed, in_use

_REAL = dtypes.SINGLE_AND_DOUBLE


_BLAS = _REAL | dtypes.COMPLEX


_np_matmul, _np_multiply = framed(np.matmul, 2), framed(np.multiply, 2)


_einsum: Any = np.einsum


def matmul_array(x: Any, y: Any) -> Any:
    if x.dtype == dtypes.bfloat16.numpy:
        return matmul_array(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and x.size:
        # One large BLAS product instead of one for each matrix of a stack.
        rows = x.reshape(-1, x.shape[-1])
        product = dot(rows, y) if x.dtype in _BLAS and x.dtype is y.dtype else _np_matmul(rows, y)
        return product.reshape(*x.shape[:-1], y.shape[-1])
    if x.ndim == y.ndim > 1 and x.shape[-1] == 1:
        return _outer_array(x[..., 0], y[..., 0, :])
    if x.ndim > 2 or y.ndim > 2:
        found = gemm.product(x, y)
        if found is not None:
            return found
    return _np_matmul(x, y)


def _outer_array(x: Any, y: Any) -> Any:
    if x.dtype == dtypes.bfloat16.numpy or x.size <= 64:
        return _np_multiply(x[..., :, None], y[..., None, :])
    # For a stack of 64 products of 64 x 64, einsum takes half the time of a broadcast multiplication.
    if x.ndim == 2 and y.ndim == 2 and len(x) == len(y):
        if in_use and x.dtype in _REAL and x.flags.c_contiguous and y.flags.c_contiguous:
            out = np.empty((*x.shape, y.shape[1]), x.dtype)
            stacked_outer(x, y, out)
            return out
        return _einsum("bi,bj->bij", x, y)  # a third less than with an ellipsis
    return _einsum("...i,...j->...ij", x, y)


def _vecmat_array(x: Any, y: Any, flip: bool) -> Any:
    return matmul_array(x, y.swapaxes(-1, -2) if flip else y)


def product_array(x: Any, y: Any, flip_x: bool, flip_y: bool) -> Any:
    x, y = x.T if flip_x else x, y.T if flip_y else y
    if x.dtype not in _BLAS:
        return matmul_array(x, y)
    return dot(x, y)  # matmul leaves BLAS where a dimension of size 1 makes the strides of a transpose odd


def dot(x: Any, y: Any) -> Any:
    """The product of two matrices of a type that BLAS knows.

    NumPy's `dot` has less to set up, and its `matmul` does not clear the result before it is written. From about 2²⁰
    multiplications on BLAS uses several threads. Where these share a core, they gain little up to 2²², and go on waiting
    for more when they are done, which slows down the other one: there this thread does it alone.
    """
    found = gemm.product(x, y)
    if found is not None:
        return found
    work = x.size * y.shape[1]
    if work < 1 << 20 or x.shape[0] == 1 or x.shape[1] == 1 or y.shape[1] == 1:
        return x.dot(y)
    if work <= 1 << 22 and threads_share_cores():
        return in_one_thread(x.dot, y)
    return _np_matmul(x, y)


fill(
    {
        "matmul": matmul_array,
        "outer_product": _outer_array,
        "vecmat": _vecmat_array,
        "product": product_array,
    },
    has_frames=True,
)
