"""The normal distribution and the error functions."""

import math
from typing import Any

import numpy as np

from lucid.ops.rules import P
from lucid.ops.unary import erf, erfc, erfinv
from lucid.special.doors import declare, one, special

Array = Any
_ROOT_2, _ROOT_PI, _ROOT_2PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)
_NODES = 48  # of a quadrature rule that is exact to double precision from 40 on
_REACH = 44.0  # exp(-44) of the integrand is left out


def _erfcx(x: Array, by: int) -> Array:
    """Derivatives of exp(x²) erfc(x), by the recurrence that nothing cancels in for x < 1, by an integral beyond."""
    value = special.erfcx(x)
    if not by:
        return value
    before, now = value, 2 * x * value - 2 / _ROOT_PI
    for m in range(1, by):
        before, now = now, 2 * x * now + 2 * m * before
    return np.where(x < 1, now, _erfcx_integral(np.maximum(x, 1), by))


def _erfcx_integral(x: Array, by: int) -> Array:
    """2/√π ∫ (-2u)^m exp(-u² - 2xu) du over u > 0."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    end = np.asarray(_REACH / (x + np.sqrt(x * x + _REACH)))[..., None]
    u = end * (nodes + 1) / 2
    found = ((-2 * u) ** by * np.exp(-u * (u + 2 * x[..., None]))) @ weights
    return end[..., 0] / _ROOT_PI * found


erfcx_primitive = declare("erfcx", _erfcx, (lambda x, by: P.erfcx(x, by=by + 1),))
erfcx = one(erfcx_primitive, "exp(x²) erfc(x), without overflow. | [0.0, 10.0] -> Tensor([1.    , 0.0561])", by=0)
erfcinv = one(
    declare("erfcinv", special.erfcinv, (lambda out: P.exp(out * out) * (-_ROOT_PI / 2),)),
    "The inverse of erfc, accurate near 0. | [0.5, 1e-6] -> Tensor([0.4769, 3.4589])",
)

ndtr = one(
    declare("ndtr", special.ndtr, (lambda x: P.exp(-0.5 * (x * x)) / _ROOT_2PI,)),
    "The normal distribution function, the area under the bell curve below x. | [0.0, 1.0] -> Tensor([0.5   , 0.8413])",
)
ndtri = one(
    declare("ndtri", special.ndtri, (lambda out: P.exp(0.5 * (out * out)) * _ROOT_2PI,)),
    "The inverse of ndtr: the quantiles of the normal distribution. | [0.5, 0.975] -> Tensor([0.  , 1.96])",
)


def _hazard_slope(x: Any, out: Any) -> Any:
    """-h (x + h); in the left tail x and h cancel, and the sum is taken from erfcx, which h is made of."""
    left = x < 0
    t = P.where(left, x, 0) * (-1 / _ROOT_2)
    tail = P.erfcx(t, by=1) / (_ROOT_2 * P.erfcx(t, by=0))
    rest = P.where(left, 0, x) + P.where(left, 0, out)
    return out * P.where(left, tail, -rest)


# The derivative of log_ndtr: density over distribution.
hazard = declare(
    "normal_hazard", lambda x: math.sqrt(2 / math.pi) / special.erfcx(x * (-1 / _ROOT_2)), (_hazard_slope,)
)
log_ndtr = one(
    declare("log_ndtr", special.log_ndtr, (lambda x: P.normal_hazard(x),)),
    "log(ndtr(x)), accurate in both tails. | [-30.0, 0.0] -> Tensor([-454.3213,   -0.6931])",
)

__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]
