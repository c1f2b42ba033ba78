"""The normal distribution and the error functions."""

import math
from typing import Any

from lucid.ops.rules import P
from lucid.ops.special.declaration import declare

_ROOT_2, _ROOT_PI, _ROOT_2PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)

erfcx = declare("erfcx", (lambda x: P.erfcx_derivative(x, by=1),), calls="scipy.special.erfcx")
# It counts how often erfcx is differentiated.
erfcx_derivative = declare(
    "erfcx_derivative", (lambda x, by: P.erfcx_derivative(x, by=by + 1),), calls="scipy.special.erfcx"
)
erfcinv = declare("erfcinv", (lambda out: P.exp(out * out) * (-_ROOT_PI / 2),), calls="scipy.special.erfcinv")
ndtri = declare("ndtri", (lambda out: P.exp(0.5 * (out * out)) * _ROOT_2PI,), calls="scipy.special.ndtri")


def _hazard_slope(x: Any, out: Any) -> Any:
    """-h (x + h); in the left tail x and h cancel, and the sum is taken from erfcx, which h is made of."""
    left = x < 0
    t = P.where(left, x, 0) * (-1 / _ROOT_2)
    tail = P.erfcx_derivative(t, by=1) / (_ROOT_2 * P.erfcx(t))
    rest = P.where(left, 0, x) + P.where(left, 0, out)
    return out * P.where(left, tail, -rest)


# The derivative of log_ndtr: density over distribution.
hazard = declare("normal_hazard", (_hazard_slope,), body=lambda x: math.sqrt(2 / math.pi) / P.erfcx(x * (-1 / _ROOT_2)))
log_ndtr = declare("log_ndtr", (lambda x: P.normal_hazard(x),), calls="scipy.special.log_ndtr")
