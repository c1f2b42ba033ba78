"""Arithmetic on arrays: NumPy's own.

Compiled (arithmetic.pyx), small arrays of one floating-point type do without the set-up of a NumPy function, which takes
several times as long as the arithmetic itself; others go to generated loops. Generation does not reach the set-up of a
call, which is all that a few elements cost.
"""

from typing import Any

import numpy as np

from lucid.backends.numpy.arithmetic import add_into as add_into
from lucid.backends.numpy.arithmetic import added_into as added_into
from lucid.backends.numpy.arithmetic import chain as chain
from lucid.backends.numpy.arithmetic import chain_both as chain_both
from lucid.backends.numpy.arithmetic import square as square
from lucid.backends.numpy.memory import takes as takes

add, subtract, multiply, divide = np.add, np.subtract, np.multiply, np.true_divide
negative = np.negative


def total(x: Any) -> Any:
    """The sum of all elements."""
    return np.add.reduce(x, axis=None)


def roots(x: Any, low: float, high: float, divisor: float = 1.0) -> Any:
    """The square roots of all elements by a divisor, if these lie between two numbers; or else None."""
    return np.asarray(np.sqrt(x / x.dtype.type(divisor))) if within(x, low, high) else None


def within(x: Any, low: float, high: float) -> bool:
    """Whether all elements lie between two numbers, or are one of them."""
    return bool(((x >= low) & (x <= high)).all())
