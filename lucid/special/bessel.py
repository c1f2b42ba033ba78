"""Bessel functions and their kin. The derivative of each is a sum over the neighbouring orders.

A family is declared by its functions F_n and the weights of F_(n-1), F_n and F_(n+1) in F_n'. Applied `by` times, that
gives every derivative in closed form, also at 0, where formulas with 1/x have none. In the scaled functions of large
arguments the neighbours cancel; there the derivatives are those of an asymptotic series, term by term.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api.inplace import inplace
from lucid.ops.promotion import FLOAT, general
from lucid.ops.rules import Elementwise, P
from lucid.special.doors import declare, one, special

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


def _family(name: str, derivative: Callable[..., Array]) -> Elementwise:
    def slope(x: Any, order: float, by: int) -> Any:
        return getattr(P, name)(x, order=order, by=by + 1)

    return declare(name, derivative, (slope,))


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
bessel_j = _family("bessel_j", _neighbours(_by_order(special.jv, (special.j0, special.j1), -1), _ALTERNATING))
bessel_y = _family("bessel_y", _neighbours(_by_order(special.yv, (special.y0, special.y1), -1), _ALTERNATING))
bessel_i = _family("bessel_i", _neighbours(_by_order(_iv, (special.i0, special.i1), 1), _GROWING))
bessel_k = _family(
    "bessel_k",
    _neighbours(_by_order(special.kv, (special.k0, special.k1), 1), lambda n, x: (-_HALF, 0.0, -_HALF)),
)
# e^(-|x|) I_n(x), whose kink at 0 gets the mean of both slopes, and e^x K_n(x).
scaled_bessel_i = _family(
    "scaled_bessel_i",
    _with_series(
        _neighbours(_by_order(special.ive, (special.i0e, special.i1e), 1), lambda n, x: (_HALF, -np.sign(x), _HALF)),
        factor=1 / math.sqrt(2 * math.pi),
        sign=-1,
    ),
)
scaled_bessel_k = _family(
    "scaled_bessel_k",
    _with_series(
        _neighbours(_by_order(special.kve, (special.k0e, special.k1e), 1), lambda n, x: (-_HALF, 1.0, -_HALF)),
        factor=math.sqrt(math.pi / 2),
        sign=1,
    ),
)
spherical_bessel_j = _family(
    "spherical_bessel_j",
    _neighbours(
        lambda n, x: special.spherical_jn(int(n), x), lambda n, x: (n / (2 * n + 1), 0.0, -(n + 1) / (2 * n + 1))
    ),
)

_AIRY_ENDS = 200.0  # far beyond the last number of which Ai is not 0 in double precision


def _airy(x: Array, by: int) -> Array:
    """Ai and Ai' with polynomial factors, by Ai'' = x Ai."""
    value, slope = np.poly1d([1.0]), np.poly1d([0.0])
    for _ in range(by):
        value, slope = value.deriv() + np.poly1d([1.0, 0.0]) * slope, slope.deriv() + value
    ai, ai_slope = special.airy(x)[:2]
    found = sum(p(x) * f for p, f in ((value, ai), (slope, ai_slope)) if p.coeffs.any())
    return np.where((x > _AIRY_ENDS) & np.isfinite(x), 0.0, found)


airy = declare("airy_ai", _airy, (lambda x, by: P.airy_ai(x, by=by + 1),))
airy_ai = one(airy, "The Airy function Ai(x). | [0.0, 1.0] -> Tensor([0.355 , 0.1353])", by=0)

bessel_j0, bessel_j1, bessel_y0, bessel_y1, i0, i1, i0e, i1e, *_modified = (
    one(family, f"{text} of order {order}. | [1.0, 2.0] -> Tensor([{result}])", name=name, order=order, by=0)
    for family, text, order, name, result in (
        (bessel_j, "Bessel function of the first kind", 0, "bessel_j0", "0.7652, 0.2239"),
        (bessel_j, "Bessel function of the first kind", 1, "bessel_j1", "0.4401, 0.5767"),
        (bessel_y, "Bessel function of the second kind", 0, "bessel_y0", "0.0883, 0.5104"),
        (bessel_y, "Bessel function of the second kind", 1, "bessel_y1", "-0.7812, -0.107 "),
        (bessel_i, "Modified Bessel function of the first kind", 0, "i0", "1.2661, 2.2796"),
        (bessel_i, "Modified Bessel function of the first kind", 1, "i1", "0.5652, 1.5906"),
        (scaled_bessel_i, "exp(-|x|) times the modified Bessel function of the first kind", 0, "i0e", "0.4658, 0.3085"),
        (scaled_bessel_i, "exp(-|x|) times the modified Bessel function of the first kind", 1, "i1e", "0.2079, 0.2153"),
        (bessel_i, "Modified Bessel function of the first kind", 0, "modified_bessel_i0", "1.2661, 2.2796"),
        (bessel_i, "Modified Bessel function of the first kind", 1, "modified_bessel_i1", "0.5652, 1.5906"),
        (bessel_k, "Modified Bessel function of the second kind", 0, "modified_bessel_k0", "0.421 , 0.1139"),
        (bessel_k, "Modified Bessel function of the second kind", 1, "modified_bessel_k1", "0.6019, 0.1399"),
        (scaled_bessel_k, "exp(x) times the modified Bessel function of the second kind", 0,
         "scaled_modified_bessel_k0", "1.1445, 0.8416"),
        (scaled_bessel_k, "exp(x) times the modified Bessel function of the second kind", 1,
         "scaled_modified_bessel_k1", "1.6362, 1.0335"),
        (spherical_bessel_j, "Spherical Bessel function of the first kind", 0, "spherical_bessel_j0", "0.8415, 0.4546"),
    )
)  # fmt: skip
(
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
) = _modified
i0_ = inplace(i0, example=("[1.0, 2.0]", ""))


def _of_any_order(family: Elementwise, name: str, kind: str, result: str) -> Callable[..., Any]:
    def op(v: float, z: Any) -> Any:
        if not isinstance(v, int | float):
            raise TypeError(
                f"{name}: the order must be a Python number, not {type(v).__name__}: the derivative by the order is no "
                "Bessel function"
            )
        return general(family, (z,), FLOAT, {"order": v, "by": 0})

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"""{kind} of any real order `v`, a number.

    >>> import lucid
    >>> lucid.special.{name}(2, lucid.tensor([1.0]))
    Tensor([{result}])
    """
    return op


jv = _of_any_order(bessel_j, "jv", "Bessel function of the first kind", "0.1149")
yv = _of_any_order(bessel_y, "yv", "Bessel function of the second kind", "-1.6507")
iv = _of_any_order(bessel_i, "iv", "Modified Bessel function of the first kind", "0.1357")
kv = _of_any_order(bessel_k, "kv", "Modified Bessel function of the second kind", "1.6248")
ive = _of_any_order(scaled_bessel_i, "ive", "exp(-|z|) times the modified Bessel function of the first kind", "0.0499")
kve = _of_any_order(scaled_bessel_k, "kve", "exp(z) times the modified Bessel function of the second kind", "4.4168")
