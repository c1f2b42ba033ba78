# cython: boundscheck=False, wraparound=False
"""Loops for which NumPy has no function that is fast. Compiled they are used; as Python they only say what they do."""

from typing import Any


def stacked_outer(x: Any, y: Any, out: Any) -> None:
    """The outer product of each row of `x` with the same row of `y`. einsum takes twice the time of this loop."""
    for k in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(y.shape[1]):
                out[k, i, j] = x[k, i] * y[k, j]
