"""Gamma, beta and zeta functions."""

import math
from typing import Any

from lucid.api.inplace import inplace
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.elementwise import called
from lucid.ops.out import into
from lucid.ops.promotion import FLOAT
from lucid.ops.rules import P
from lucid.special.doors import declare, one, two

gamma = one(
    declare("gamma", (lambda x, out: out * P.digamma(x),), calls="scipy.special.gamma"),
    "Γ(x), which is (x-1)! for whole numbers. | [0.5, 5.0] -> Tensor([ 1.7725, 24.    ])",
)

# --- incomplete gamma functions ----------------------------------------------------------------

declare(
    "gamma_density",
    (
        lambda a, x, by_a, by_x: P.gamma_density(a, x, by_a=by_a + 1, by_x=by_x),
        lambda a, x, by_a, by_x: P.gamma_density(a, x, by_a=by_a, by_x=by_x + 1),
    ),
    "a x",
    calls="closed forms",
)
declare(
    "gammainc_by_a",
    (
        lambda a, x, order: P.gammainc_by_a(a, x, order=order + 1),
        lambda a, x, order: P.gamma_density(a, x, by_a=order, by_x=0),
    ),
    "a x",
    calls="quadrature",
)
_lower = declare(
    "gammainc",
    (
        lambda a, x: P.gammainc_by_a(a, x, order=1),
        lambda a, x: P.gamma_density(a, x, by_a=0, by_x=0),
    ),
    "a x",
    calls="scipy.special.gammainc",
)
_upper = declare(
    "gammaincc",
    (
        lambda a, x: -P.gammainc_by_a(a, x, order=1),
        lambda a, x: -P.gamma_density(a, x, by_a=0, by_x=0),
    ),
    "a x",
    calls="scipy.special.gammaincc",
)
_LOWER = (
    "The part of ∫ t^(a-1) exp(-t) dt that lies below x, for a = input and x = other; differentiable by both."
    " | [1.0, 2.0]; [1.0, 3.0] -> Tensor([0.6321, 0.8009])"
)
_UPPER = (
    "The part of ∫ t^(a-1) exp(-t) dt that lies above x, for a = input and x = other; differentiable by both."
    " | [1.0, 2.0]; [1.0, 3.0] -> Tensor([0.3679, 0.1991])"
)
gammainc, igamma = two(_lower, _LOWER), two(_lower, _LOWER, "lucid", "igamma")
gammaincc, igammac = two(_upper, _UPPER), two(_upper, _UPPER, "lucid", "igammac")
igamma_, igammac_ = inplace(igamma), inplace(igammac)

# --- several dimensions ------------------------------------------------------------------------

multigammaln_primitive = declare(
    "multigammaln",
    (lambda x, p: sum((P.digamma(x - j / 2) for j in range(1, p)), P.digamma(x)),),
    body=lambda x, p: sum((P.lgamma(x - j / 2) for j in range(p)), p * (p - 1) / 4 * math.log(math.pi)),
)


def multigammaln(input: Any, p: int, *, out: Any = None) -> Tensor:
    """The logarithm of the gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(x - j/2) over j < p.

    >>> import lucid
    >>> lucid.special.multigammaln(lucid.tensor([2.0, 3.0]), 2)
    Tensor([0.4516, 1.5502])
    """
    if isinstance(p, bool) or not isinstance(p, int) or p < 1:
        raise RuntimeError(f"multigammaln: p must be a whole number from 1 on, not {p!r}")
    if out is not None:
        return into(out, multigammaln, (input, p), {})
    x = lift(input)
    if x.np_dtype == dtypes.BOOL:
        raise RuntimeError("multigammaln: expected numbers, not booleans; convert them, as in x.float()")
    return called(multigammaln_primitive, (x,), FLOAT, {"p": p})


def mvlgamma(input: Any, p: int, *, out: Any = None) -> Tensor:
    """The logarithm of the gamma function of dimension p, as `lucid.special.multigammaln`.

    >>> import lucid
    >>> lucid.mvlgamma(lucid.tensor([2.0, 3.0]), 2)
    Tensor([0.4516, 1.5502])
    """
    return multigammaln(input, p, out=out)


mvlgamma_ = inplace(mvlgamma)

# --- beta --------------------------------------------------------------------------------------

beta = two(
    declare(
        "beta",
        (
            lambda x, y, out: out * (P.digamma(x) - P.digamma(x + y)),
            lambda x, y, out: out * (P.digamma(y) - P.digamma(x + y)),
        ),
        "x y",
        calls="scipy.special.beta",
    ),
    "B(a, b) = Γ(a) Γ(b) / Γ(a + b). | [1.0, 2.0]; [2.0, 3.0] -> Tensor([0.5   , 0.0833])",
)
betaln = two(
    declare(
        "betaln",
        (lambda x, y: P.digamma(x) - P.digamma(x + y), lambda x, y: P.digamma(y) - P.digamma(x + y)),
        "x y",
        calls="scipy.special.betaln",
    ),
    "log |B(a, b)|, without overflow. | [1.0, 2.0]; [2.0, 3.0] -> Tensor([-0.6931, -2.4849])",
)


declare(
    "beta_density",
    (
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a + 1, by_b=by_b, by_x=by_x),
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a, by_b=by_b + 1, by_x=by_x),
        lambda a, b, x, by_a, by_b, by_x: P.beta_density(a, b, x, by_a=by_a, by_b=by_b, by_x=by_x + 1),
    ),
    "a b x",
    calls="closed forms",
)
declare(
    "betainc_by_parameters",
    (
        lambda a, b, x, by_a, by_b: P.betainc_by_parameters(a, b, x, by_a=by_a + 1, by_b=by_b),
        lambda a, b, x, by_a, by_b: P.betainc_by_parameters(a, b, x, by_a=by_a, by_b=by_b + 1),
        lambda a, b, x, by_a, by_b: P.beta_density(a, b, x, by_a=by_a, by_b=by_b, by_x=0),
    ),
    "a b x",
    calls="quadrature",
)
betainc_primitive = declare(
    "betainc",
    (
        lambda a, b, x: P.betainc_by_parameters(a, b, x, by_a=1, by_b=0),
        lambda a, b, x: P.betainc_by_parameters(a, b, x, by_a=0, by_b=1),
        lambda a, b, x: P.beta_density(a, b, x, by_a=0, by_b=0, by_x=0),
    ),
    "a b x",
    calls="scipy.special.betainc",
)


def betainc(a: Any, b: Any, x: Any, *, out: Any = None) -> Tensor:
    """The part of ∫ t^(a-1) (1-t)^(b-1) dt over [0, 1] that lies below x; differentiable by all three.

    >>> import lucid
    >>> lucid.special.betainc(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 3.0]), lucid.tensor([0.25, 0.5]))
    Tensor([0.25  , 0.6875])
    """
    if out is not None:
        return into(out, betainc, (a, b, x), {})
    return called(betainc_primitive, (a, b, x), FLOAT, {})


# --- zeta --------------------------------------------------------------------------------------


def _zeta_by_q(x: Any, q: Any, order: int) -> Any:
    """-x ζ(x+1, q), differentiated `order` times by x."""
    found = x * P.zeta(x + 1, q, order=order)
    return -(found + order * P.zeta(x + 1, q, order=order - 1) if order else found)


zeta = two(
    declare("zeta", (lambda x, q, order: P.zeta(x, q, order=order + 1), _zeta_by_q), "x q", calls="scipy.special.zeta"),
    "Hurwitz' zeta function Σ (q + k)^(-x) over k >= 0, for x = input and q = other; differentiable by both."
    " | [2.0, 3.0]; [1.0, 2.0] -> Tensor([1.6449, 0.2021])",
    order=0,
)
