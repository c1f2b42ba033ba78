# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops that would be several passes over memory in NumPy. Compiled they are used; as Python they say what they do.

To be replaced by generated code.
"""

from math import sqrt
from typing import Any


def stacked_outer(x: Any, y: Any, out: Any) -> None:
    """The outer product of each row of `x` with the same row of `y`. einsum takes twice the time of this loop."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            factor = x[k, i]
            for j in range(y.shape[1]):
                out[k, i, j] = factor * y[k, j]


# Where a gradient stays 0, averages shrink until they are below the smallest normal number, and arithmetic with such
# numbers is many times slower: they become 0.


def follow(average: Any, value: Any, weight: float, tiny: float) -> None:
    """average += weight · (value - average), or 0 if that is below `tiny`"""
    for i in range(average.shape[0]):
        average[i] += weight * (value[i] - average[i])
        average[i] = 0 if -tiny < average[i] < tiny else average[i]


def accumulate_square(total: Any, x: Any, keep: float, weight: float, tiny: float) -> None:
    """total = keep · total + weight · x², or 0 if that is below `tiny`"""
    for i in range(total.shape[0]):
        total[i] = keep * total[i] + weight * (x[i] * x[i])
        total[i] = 0 if total[i] < tiny else total[i]


def scale_by_root(x: Any, squares: Any, eps: float, rate: float, out: Any) -> None:
    """out = x / (√squares + eps) · rate"""
    for i in range(out.shape[0]):
        out[i] = sqrt(squares[i])
        out[i] = x[i] / (out[i] + eps) * rate
