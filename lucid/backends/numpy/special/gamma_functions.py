"""Gamma, beta and zeta functions."""

from lucid.backends.numpy.special import incomplete, series
from lucid.backends.numpy.special.precision import in_double, special
from lucid.core.kernels import fill

fill(
    {
        "gamma": in_double(special.gamma),
        "gamma_density": in_double(incomplete.gamma_density),
        "gammainc_by_a": in_double(incomplete.gammainc_by_a),
        "gammainc": in_double(special.gammainc),
        "gammaincc": in_double(special.gammaincc),
        "gammaincinv_by_a": in_double(incomplete.gamma_quantile_by_a),
        "gammaincinv": in_double(special.gammaincinv),
        "beta": in_double(special.beta),
        "betaln": in_double(special.betaln),
        "beta_density": in_double(incomplete.beta_density),
        "betainc_by_parameters": in_double(incomplete.betainc_by_parameters),
        "betainc": in_double(special.betainc),
        "betaincinv": in_double(special.betaincinv),
        "zeta": in_double(series.zeta),
    }
)
