"""Gamma, beta and zeta functions."""

import math
from typing import Any

from lucid.ops.rules import P
from lucid.ops.special.declaration import declare

gamma = declare("gamma", (lambda x, out: out * P.digamma(x),), calls="scipy.special.gamma")

# --- incomplete gamma functions ----------------------------------------------------------------

gamma_density = declare(
    "gamma_density",
    (
        lambda a, x, by_a, by_x: P.gamma_density(a, x, by_a=by_a + 1, by_x=by_x),
        lambda a, x, by_a, by_x: P.gamma_density(a, x, by_a=by_a, by_x=by_x + 1),
    ),
    "a x",
    calls="closed forms",
)
gammainc_by_a = declare(
    "gammainc_by_a",
    (
        lambda a, x, order: P.gammainc_by_a(a, x, order=order + 1),
        lambda a, x, order: P.gamma_density(a, x, by_a=order, by_x=0),
    ),
    "a x",
    calls="quadrature",
)
gammainc = declare(
    "gammainc",
    (
        lambda a, x: P.gammainc_by_a(a, x, order=1),
        lambda a, x: P.gamma_density(a, x, by_a=0, by_x=0),
    ),
    "a x",
    calls="scipy.special.gammainc",
)
gammaincc = declare(
    "gammaincc",
    (
        lambda a, x: -P.gammainc_by_a(a, x, order=1),
        lambda a, x: -P.gamma_density(a, x, by_a=0, by_x=0),
    ),
    "a x",
    calls="scipy.special.gammaincc",
)

# --- their inverses, by the implicit function theorem: with x(a, p) from P(a, x) = p, ∂x/∂a = -∂P/∂a ÷ density -----

gammaincinv_by_a = declare(
    "gammaincinv_by_a",
    (
        lambda a, x, out: (
            -(P.gammainc_by_a(a, x, order=2) + out * P.gamma_density(a, x, by_a=1, by_x=0))
            / P.gamma_density(a, x, by_a=0, by_x=0)
        ),
        lambda a, x, out: (
            -(P.gamma_density(a, x, by_a=1, by_x=0) + out * P.gamma_density(a, x, by_a=0, by_x=1))
            / P.gamma_density(a, x, by_a=0, by_x=0)
        ),
    ),
    "a x",
    calls="quadrature",
)
gammaincinv = declare(
    "gammaincinv",
    (
        lambda a, out: P.gammaincinv_by_a(a, out),
        lambda a, out: 1 / P.gamma_density(a, out, by_a=0, by_x=0),
    ),
    "a p",
    calls="scipy.special.gammaincinv",
)


def _beta_quantile_by(by_a: int, by_b: int) -> Any:
    def slope(a: Any, b: Any, out: Any) -> Any:
        change = P.betainc_by_parameters(a, b, out, by_a=by_a, by_b=by_b)
        return -change / P.beta_density(a, b, out, by_a=0, by_b=0, by_x=0)

    return slope


betaincinv = declare(
    "betaincinv",
    (
        _beta_quantile_by(1, 0),
        _beta_quantile_by(0, 1),
        lambda a, b, out: 1 / P.beta_density(a, b, out, by_a=0, by_b=0, by_x=0),
    ),
    "a b p",
    calls="scipy.special.betaincinv",
)

# --- several dimensions ------------------------------------------------------------------------

multigammaln = declare(
    "multigammaln",
    (lambda x, p: sum((P.digamma(x - j / 2) for j in range(1, p)), P.digamma(x)),),
    body=lambda x, p: sum((P.lgamma(x - j / 2) for j in range(p)), p * (p - 1) / 4 * math.log(math.pi)),
)

# --- beta --------------------------------------------------------------------------------------

beta = declare(
    "beta",
    (
        lambda x, y, out: out * (P.digamma(x) - P.digamma(x + y)),
        lambda x, y, out: out * (P.digamma(y) - P.digamma(x + y)),
    ),
    "x y",
    calls="scipy.special.beta",
)
betaln = declare(
    "betaln",
    (lambda x, y: P.digamma(x) - P.digamma(x + y), lambda x, y: P.digamma(y) - P.digamma(x + y)),
    "x y",
    calls="scipy.special.betaln",
)
beta_density = declare(
    "beta_density",
    (
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a + 1, by_b=by_b, by_x=by_x),
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a, by_b=by_b + 1, by_x=by_x),
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a, by_b=by_b, by_x=by_x + 1),
    ),
    "a b x",
    calls="closed forms",
)
betainc_by_parameters = declare(
    "betainc_by_parameters",
    (
        lambda a, b, x, by_a, by_b: P.betainc_by_parameters(a, b, x, by_a=by_a + 1, by_b=by_b),
        lambda a, b, x, by_a, by_b: P.betainc_by_parameters(a, b, x, by_a=by_a, by_b=by_b + 1),
        lambda a, b, x, by_a, by_b: P.beta_density(a, b, x, by_a=by_a, by_b=by_b, by_x=0),
    ),
    "a b x",
    calls="quadrature",
)
betainc = declare(
    "betainc",
    (
        lambda a, b, x: P.betainc_by_parameters(a, b, x, by_a=1, by_b=0),
        lambda a, b, x: P.betainc_by_parameters(a, b, x, by_a=0, by_b=1),
        lambda a, b, x: P.beta_density(a, b, x, by_a=0, by_b=0, by_x=0),
    ),
    "a b x",
    calls="scipy.special.betainc",
)

# --- zeta --------------------------------------------------------------------------------------


def _zeta_by_q(x: Any, q: Any, order: int) -> Any:
    """-x ζ(x+1, q), differentiated `order` times by x."""
    found = x * P.zeta(x + 1, q, order=order)
    return -(found + order * P.zeta(x + 1, q, order=order - 1) if order else found)


zeta = declare(
    "zeta", (lambda x, q, order: P.zeta(x, q, order=order + 1), _zeta_by_q), "x q", calls="scipy.special.zeta"
)
