# cython: boundscheck=False, wraparound=False, cdivision=True
"""Loops that would be several passes over memory in NumPy. Compiled they are used; as Python they say what they do."""

from math import sqrt
from typing import Any


def stacked_outer(x: Any, y: Any, out: Any) -> None:
    """The outer product of each row of `x` with the same row of `y`. einsum takes twice the time of this loop."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(y.shape[1]):
                out[k, i, j] = x[k, i] * y[k, j]


def follow(average: Any, value: Any, weight: float) -> None:
    """average += weight · (value - average)"""
    for i in range(average.shape[0]):
        average[i] += weight * (value[i] - average[i])


def accumulate_square(total: Any, x: Any, keep: float, weight: float) -> None:
    """total = keep · total + weight · x²"""
    for i in range(total.shape[0]):
        total[i] = keep * total[i] + weight * (x[i] * x[i])


def scale_by_root(x: Any, squares: Any, eps: float, rate: float, out: Any) -> None:
    """out = x / (√squares + eps) · rate"""
    for i in range(out.shape[0]):
        out[i] = sqrt(squares[i])
        out[i] = x[i] / (out[i] + eps) * rate
