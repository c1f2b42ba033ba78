"""Hurwitz' zeta function and its derivatives, on bare arrays."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.special.precision import special

Array = Any
_TERMS = 14  # summed one by one; the rest is an integral with corrections
_CORRECTIONS = 12
_BERNOULLI = special.bernoulli(2 * _CORRECTIONS)


def zeta(x: Array, q: Array, order: int) -> Array:
    """The derivative of some order by x of Σ (q + k)^(-x)."""
    x, q = np.broadcast_arrays(x, q)
    if not order:
        return special.zeta(x, q)
    found = sum(_power(x, q + k, order) for k in range(_TERMS)) + _remainder(x, q + _TERMS, order)
    found = np.where(x == 1, (-1) ** order * np.inf, found)
    return np.where((x < 1) | (q < 0) | np.isnan(x + q), np.nan, found)


def _power(x: Array, base: Array, order: int) -> Array:
    """The derivative of base^(-x)."""
    size = base**-x
    return np.where(size == 0, 0.0, (-np.log(base)) ** order * size)


def _remainder(x: Array, q: Array, order: int) -> Array:
    """Euler's and Maclaurin's formula for the sum from q on, differentiated by x with Leibniz' rule.

    q^(1-x) / (x-1) + q^(-x) / 2 + Σ B_2j / (2j)! · x (x+1) … (x+2j-2) · q^(-x-2j+1)
    """
    powers = [_power(x, q, i) for i in range(order + 1)]
    ways = [math.comb(order, i) for i in range(order + 1)]
    total = powers[order] / 2
    for i in range(order + 1):
        rest = order - i
        total = total + ways[i] * powers[i] * q * (-1) ** rest * math.factorial(rest) / (x - 1) ** (rest + 1)
    rising = [x, np.ones_like(x), *[np.zeros_like(x)] * order][: order + 1]  # x (x+1) … and its derivatives
    scale = 1 / q
    for j in range(1, _CORRECTIONS + 1):
        factor = _BERNOULLI[2 * j] / math.factorial(2 * j)
        total = total + factor * scale * sum(ways[i] * powers[i] * rising[order - i] for i in range(order + 1))
        for k in (2 * j - 1, 2 * j):
            rising = [(x + k) * rising[i] + (i * rising[i - 1] if i else 0.0) for i in range(order + 1)]
        scale = scale / (q * q)
    return total
