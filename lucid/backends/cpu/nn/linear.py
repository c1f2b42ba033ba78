"""x Wᵀ + b: a product with the addition as its epilogue."""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import gemm, rowwise
from lucid.backends.cpu.products import dot, matmul_array
from lucid.core.kernels import fill


def _linear_array(x: Any, weight: Any, bias: Any) -> Any:
    if x.dtype.char not in "fd" or x.ndim < 2:
        out = matmul_array(x, weight.T)
        return out if bias is None else np.add(out, bias, out)
    matrix = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = None if bias is None or bias.dtype is not x.dtype else gemm.product(matrix, weight.T, bias)
    if out is None:
        out = dot(matrix, weight.T)
        if bias is not None:
            if bias.dtype is out.dtype and bias.flags.c_contiguous and out.flags.c_contiguous:
                rowwise.add_bias(out, bias)
            else:
                np.add(out, bias, out)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], out.shape[1])


fill(
    {
        "linear": _linear_array,
        "column_sums": rowwise.column_sums,  # not a primitive: the gradient of the bias
    },
    has_frames=True,
)
