"""Padding of the last dimensions: by a constant, or by copies of elements."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill

Index = tuple[slice, ...]


def _pad_array(x: Any, index: Index, shape: tuple[int, ...], value: Any) -> Any:
    try:
        out = np.full(shape, value, x.dtype)
    except OverflowError:
        raise RuntimeError(f"pad: {value} is no number of type {x.dtype.name}; convert the tensor first") from None
    out[index] = x
    return out


fill(
    {
        "pad": _pad_array,
    }
)
