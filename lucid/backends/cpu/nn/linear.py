"""x Wᵀ + b: a product with the addition as its epilogue.

Generation does not reach it: it is a matrix product with an epilogue.
"""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import gemm, rowwise
from lucid.backends.cpu.contraction import dot
from lucid.backends.cpu.launch.copies import contiguous
from lucid.core.kernels import fill


def _linear_array(x: Any, weight: Any, bias: Any) -> Any:
    matrix = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = None if bias is None or bias.dtype is not x.dtype else gemm.product(matrix, weight.T, bias)
    if out is None:
        out = dot(matrix, weight.T)
        if bias is not None:
            if (
                out.dtype.char in "fd"
                and bias.dtype is out.dtype
                and bias.flags.c_contiguous
                and out.flags.c_contiguous
            ):
                rowwise.add_bias(out, bias)
            else:
                np.add(out, bias, out)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], out.shape[1])


def _column_sums(x: Any) -> Any:
    if x.dtype.char in "fd":
        x = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return rowwise.column_sums(contiguous(x))
    return x.sum(axis=tuple(range(x.ndim - 1)), dtype=x.dtype)


fill(
    {
        "linear": _linear_array,
        "column_sums": _column_sums,  # not a primitive: the gradient of the bias
    },
    "cpu",
)
