"""Products that derivatives of tanh and of the logistic function consist of, on bare arrays.

Compiled (slopes.pyx), each is one pass over memory.
"""

from typing import Any


def tanh_slope(x: Any, y: Any) -> Any:
    """x · (1 - y²)"""
    return x * (1 - y * y)


def tanh_bend(x: Any, y: Any, z: Any) -> Any:
    """-2 · x · y · z"""
    return x * y * -2 * z


def sigmoid_slope(x: Any, y: Any) -> Any:
    """x · y · (1 - y)"""
    return x * (y * (1 - y))


def sigmoid_bend(x: Any, y: Any, z: Any) -> Any:
    """x · y · (1 - 2 z)"""
    return x * y * (1 - 2 * z)
