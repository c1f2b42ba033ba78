"""Products that derivatives of tanh and of the logistic function consist of, as their bodies say.

Compiled (slopes.pyx), each is one pass over memory; this form serves where nothing is compiled.

To be replaced by generated code.
"""

from typing import Any

from lucid.backends.numpy.arithmetic import chain


def tanh_slope(x: Any, y: Any) -> Any:
    """x · (1 - y²), and exactly 0 where x is 0, as in all of these"""
    return chain(x, 1 - y * y)


def tanh_bend(x: Any, y: Any, z: Any) -> Any:
    """-2 · x · y · z"""
    return chain(x, y * -2 * z)


def sigmoid_slope(x: Any, y: Any) -> Any:
    """x · y · (1 - y)"""
    return chain(x, y * (1 - y))


def sigmoid_bend(x: Any, y: Any, z: Any) -> Any:
    """x · y · (1 - 2 z)"""
    return chain(x, y * (1 - 2 * z))
