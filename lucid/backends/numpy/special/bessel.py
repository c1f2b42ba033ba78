"""Bessel functions and their kin. The derivative of each is a sum over the neighbouring orders.

A family is declared by its functions F_n and the weights of F_(n-1), F_n and F_(n+1) in F_n'. Applied `by` times, that
gives every derivative in closed form, also at 0, where formulas with 1/x have none. In the scaled functions of large
arguments the neighbours cancel; there the derivatives are those of an asymptotic series, term by term.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.special.precision import in_double, special
from lucid.core.kernels import fill

Array = Any


Weights = tuple[Any, Any, Any]


def _neighbours(value: Callable[[float, Array], Array], weights: Callable[[float, Array], Weights]) -> Any:
    """A function of some order, differentiated `by` times."""

    def derivative(x: Array, order: float, by: int) -> Array:
        terms: dict[float, Any] = {order: 1.0}
        for _ in range(by):
            following: dict[float, Any] = {}
            for n, c in terms.items():
                for neighbour, weight in zip((n - 1, n, n + 1), weights(n, x), strict=True):
                    if not (np.isscalar(weight) and weight == 0):
                        following[neighbour] = following.get(neighbour, 0.0) + c * weight
            terms = following
        parts = {n: c * value(n, x) for n, c in terms.items()}
        # Near 0, where functions of several orders overflow, the highest order decides.
        return _unless_lost(sum(parts.values()), x, lambda: parts[max(parts, key=abs)])

    return derivative


def _unless_lost(found: Array, x: Array, other: Callable[[], Array]) -> Array:
    """The values found, and others where they are nan though `x` is not."""
    lost = np.isnan(found) & ~np.isnan(x)
    return np.where(lost, other(), found) if lost.any() else found


_NEAR = 40.0  # beyond it and the square of the order, the terms of the series fall below rounding within _TERMS


_TERMS = 20


def _series(order: float, x: Array, by: int, sign: int) -> Array:
    """Derivatives of Σ sign^k a_k x^(-k-1/2), where a_k = Π (4n² - (2j-1)²) / 8j over j <= k."""
    coefficient, total = 1.0, 0.0
    for k in range(_TERMS):
        falling = math.prod(-0.5 - k - i for i in range(by))
        total = total + coefficient * falling * x ** (-0.5 - k - by)
        coefficient *= sign * (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1))
    return total


def _with_series(near: Callable[..., Array], factor: float, sign: int) -> Callable[..., Array]:
    """The derivatives `near` 0, and those of factor · Σ … for large arguments."""

    def derivative(x: Array, order: float, by: int) -> Array:
        found = near(x, order, by)
        if not by and order in (0, 1):
            return found
        far = np.abs(x) > _NEAR + order * order
        if sign > 0 or order != int(order):  # which negative numbers have not
            far &= x > 0
        if not far.any():
            return found
        mirror = np.where(x < 0, (-1.0) ** (int(order) + by), 1.0)
        return np.where(far, mirror * factor * _series(order, np.where(far, np.abs(x), 1.0), by, sign), found)

    return derivative


def _by_order(
    general: Callable[..., Array],
    fast: tuple[Callable[..., Array], Callable[..., Array]],
    reflected: int,
) -> Callable[[float, Array], Array]:
    """F_n by the routines for orders 0 and 1 where they serve; F_(-n) = reflectedⁿ F_n for whole n."""

    def value(n: float, x: Array) -> Array:
        if n < 0 and n == int(n):
            return reflected ** int(-n) * value(-n, x)
        return fast[int(n)](x) if n in (0, 1) else general(n, x)

    return value


def _iv(n: float, x: Array) -> Array:
    """SciPy's routine gives nan for the smallest numbers."""
    return _unless_lost(special.iv(n, x), x, lambda: np.where(np.abs(x) < 1, special.ive(n, x), np.nan))


_HALF = 0.5


_ALTERNATING, _GROWING = (lambda n, x: (_HALF, 0.0, -_HALF)), (lambda n, x: (_HALF, 0.0, _HALF))


_AIRY_ENDS = 200.0  # far beyond the last number of which Ai is not 0 in double precision


def _airy(x: Array, by: int) -> Array:
    """Ai and Ai' with polynomial factors, by Ai'' = x Ai."""
    value, slope = np.poly1d([1.0]), np.poly1d([0.0])
    for _ in range(by):
        value, slope = value.deriv() + np.poly1d([1.0, 0.0]) * slope, slope.deriv() + value
    ai, ai_slope = special.airy(x)[:2]
    found = sum(p(x) * f for p, f in ((value, ai), (slope, ai_slope)) if p.coeffs.any())
    return np.where((x > _AIRY_ENDS) & np.isfinite(x), 0.0, found)


fill(
    {
        "bessel_j": in_double(_neighbours(_by_order(special.jv, (special.j0, special.j1), -1), _ALTERNATING)),
        "bessel_y": in_double(_neighbours(_by_order(special.yv, (special.y0, special.y1), -1), _ALTERNATING)),
        "bessel_i": in_double(_neighbours(_by_order(_iv, (special.i0, special.i1), 1), _GROWING)),
        "i0": in_double(special.i0),
        "i1": in_double(special.i1),
        "i0e": in_double(special.i0e),
        "i1e": in_double(special.i1e),
        "bessel_k": in_double(
            _neighbours(_by_order(special.kv, (special.k0, special.k1), 1), lambda n, x: (-_HALF, 0.0, -_HALF)),
        ),
        "scaled_bessel_i": in_double(
            _with_series(
                _neighbours(
                    _by_order(special.ive, (special.i0e, special.i1e), 1), lambda n, x: (_HALF, -np.sign(x), _HALF)
                ),
                factor=1 / math.sqrt(2 * math.pi),
                sign=-1,
            ),
        ),
        "scaled_bessel_k": in_double(
            _with_series(
                _neighbours(_by_order(special.kve, (special.k0e, special.k1e), 1), lambda n, x: (-_HALF, 1.0, -_HALF)),
                factor=math.sqrt(math.pi / 2),
                sign=1,
            ),
        ),
        "spherical_bessel_j": in_double(
            _neighbours(
                lambda n, x: special.spherical_jn(int(n), x),
                lambda n, x: (n / (2 * n + 1), 0.0, -(n + 1) / (2 * n + 1)),
            ),
        ),
        "airy_ai": in_double(_airy),
    }
)
