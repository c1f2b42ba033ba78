"""The normal distribution and the error functions."""

import math
from typing import Any

from lucid.ops.rules import P
from lucid.special.doors import declare, one

_ROOT_2, _ROOT_PI, _ROOT_2PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)


erfcx_primitive = declare("erfcx", (lambda x, by: P.erfcx(x, by=by + 1),), calls="scipy.special.erfcx")
erfcx = one(erfcx_primitive, "exp(x²) erfc(x), without overflow. | [0.0, 10.0] -> Tensor([1.    , 0.0561])", by=0)
erfcinv = one(
    declare("erfcinv", (lambda out: P.exp(out * out) * (-_ROOT_PI / 2),), calls="scipy.special.erfcinv"),
    "The inverse of erfc, accurate near 0. | [0.5, 1e-6] -> Tensor([0.4769, 3.4589])",
)

ndtr = one(
    declare(
        "ndtr",
        (lambda x: P.exp(-0.5 * (x * x)) / _ROOT_2PI,),
        calls="scipy.special.ndtr",
    ),
    "The normal distribution function, the area under the bell curve below x. | [0.0, 1.0] -> Tensor([0.5   , 0.8413])",
)
ndtri = one(
    declare("ndtri", (lambda out: P.exp(0.5 * (out * out)) * _ROOT_2PI,), calls="scipy.special.ndtri"),
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
    "normal_hazard", (_hazard_slope,), body=lambda x: math.sqrt(2 / math.pi) / P.erfcx(x * (-1 / _ROOT_2), by=0)
)
log_ndtr = one(
    declare("log_ndtr", (lambda x: P.normal_hazard(x),), calls="scipy.special.log_ndtr"),
    "log(ndtr(x)), accurate in both tails. | [-30.0, 0.0] -> Tensor([-454.3213,   -0.6931])",
)
