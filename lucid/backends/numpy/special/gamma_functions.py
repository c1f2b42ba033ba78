"""Gamma, beta and zeta functions."""

import math

from lucid.backends.numpy.special import incomplete, series
from lucid.backends.numpy.special.precision import in_double, special
from lucid.core.kernels import fill

fill(
    {
        "gamma": in_double("gamma", special.gamma),
        "gamma_density": in_double("gamma_density", incomplete.gamma_density),
        "gammainc_by_a": in_double("gammainc_by_a", incomplete.gammainc_by_a),
        "gammainc": in_double("gammainc", special.gammainc),
        "gammaincc": in_double("gammaincc", special.gammaincc),
        "multigammaln": in_double(
            "multigammaln",
            lambda x, p: p * (p - 1) / 4 * math.log(math.pi) + sum(special.gammaln(x - j / 2) for j in range(p)),
        ),
        "beta": in_double("beta", special.beta),
        "betaln": in_double("betaln", special.betaln),
        "beta_density": in_double("beta_density", incomplete.beta_density),
        "betainc_by_parameters": in_double("betainc_by_parameters", incomplete.betainc_by_parameters),
        "betainc": in_double("betainc", special.betainc),
        "zeta": in_double("zeta", series.zeta),
    }
)
