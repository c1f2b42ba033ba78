"""The normal distribution and the error functions."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.special.precision import in_double, special
from lucid.core.kernels import fill

Array = Any


_ROOT_2, _ROOT_PI, _ROOT_2PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)


_NODES = 48  # of a quadrature rule that is exact to double precision from 40 on


_REACH = 44.0  # exp(-44) of the integrand is left out


def _erfcx_derivative(x: Array, by: int) -> Array:
    """Derivatives of exp(x²) erfc(x), by the recurrence that nothing cancels in for x < 1, by an integral beyond."""
    value = special.erfcx(x)
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


fill(
    {
        "erfcx": in_double(special.erfcx),
        "erfcx_derivative": in_double(_erfcx_derivative),
        "erfcinv": in_double(special.erfcinv),
        "ndtri": in_double(special.ndtri),
        "log_ndtr": in_double(special.log_ndtr),
    }
)
