"""Convolution in panels of windows, which are laid out some at a time and multiplied while they are in the cache.

A geometry `g` is that of `lucid.ops.nn.convolution`. The loops of implicit_gemm.pyx need contiguous arrays of one type.

Generation does not reach convolution, whose windows are read in place.
"""

from typing import Any


def correlate(x: Any, w: Any, bias: Any, g: Any, out: Any) -> bool:
    """Write a convolution by loops, if there are such. Weights are (groups · results, channels · taps)."""
    return False


def weigh(x: Any, y: Any, g: Any, out: Any) -> bool:
    """Write the gradient of the weights of a convolution by loops, if there are such."""
    return False


def spread(y: Any, w: Any, g: Any, out: Any) -> bool:
    """Write the gradient of the input of a convolution by loops, if there are such."""
    return False


def entry(what: str, x: Any, y: Any, w: Any, g: Any, bias: Any, threads: int) -> tuple[int, bytes, int] | None:
    """The entry point of one of these: its address, its task, and how many bytes its room is; None without loops."""
    return None
