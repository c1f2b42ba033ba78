"""Gamma, beta and zeta functions."""

from typing import Any

from lucid.api.inplace import inplace
from lucid.arguments.out import into
from lucid.arguments.promotion import FLOAT
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.elementwise import called
from lucid.ops.rules import P
from lucid.special.functions import one, two

gamma = one(
    P.gamma,
    "Γ(x), which is (x-1)! for whole numbers. | [0.5, 5.0] -> Tensor([ 1.7725, 24.    ])",
)

# --- incomplete gamma functions ----------------------------------------------------------------

_LOWER = (
    "The part of ∫ t^(a-1) exp(-t) dt that lies below x, for a = input and x = other; differentiable by both."
    " | [1.0, 2.0]; [1.0, 3.0] -> Tensor([0.6321, 0.8009])"
)
_UPPER = (
    "The part of ∫ t^(a-1) exp(-t) dt that lies above x, for a = input and x = other; differentiable by both."
    " | [1.0, 2.0]; [1.0, 3.0] -> Tensor([0.3679, 0.1991])"
)
gammainc, igamma = two(P.gammainc, _LOWER), two(P.gammainc, _LOWER, "lucid", "igamma")
gammaincc, igammac = two(P.gammaincc, _UPPER), two(P.gammaincc, _UPPER, "lucid", "igammac")
igamma_, igammac_ = inplace(igamma), inplace(igammac)

gammaincinv = two(
    P.gammaincinv,
    "The x below which lies the part `other` of ∫ t^(a-1) exp(-t) dt, for a = input: the inverse of gammainc by its second"
    " argument; differentiable by both. | [1.0, 2.0]; [0.6321, 0.8009] -> Tensor([0.9999, 3.0003])",
)

# --- several dimensions ------------------------------------------------------------------------


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
    return called(P.multigammaln, (x,), FLOAT, {"p": p})


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
    P.beta,
    "B(a, b) = Γ(a) Γ(b) / Γ(a + b). | [1.0, 2.0]; [2.0, 3.0] -> Tensor([0.5   , 0.0833])",
)
betaln = two(
    P.betaln,
    "log |B(a, b)|, without overflow. | [1.0, 2.0]; [2.0, 3.0] -> Tensor([-0.6931, -2.4849])",
)


def betainc(a: Any, b: Any, x: Any, *, out: Any = None) -> Tensor:
    """The part of ∫ t^(a-1) (1-t)^(b-1) dt over [0, 1] that lies below x; differentiable by all three.

    >>> import lucid
    >>> lucid.special.betainc(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 3.0]), lucid.tensor([0.25, 0.5]))
    Tensor([0.25  , 0.6875])
    """
    if out is not None:
        return into(out, betainc, (a, b, x), {})
    return called(P.betainc, (a, b, x), FLOAT, {})


def betaincinv(a: Any, b: Any, y: Any, *, out: Any = None) -> Tensor:
    """The x below which lies the part `y` of ∫ t^(a-1) (1-t)^(b-1) dt over [0, 1]; differentiable by all three.

    >>> import lucid
    >>> lucid.special.betaincinv(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 3.0]), lucid.tensor([0.25, 0.6875]))
    Tensor([0.25, 0.5 ])
    """
    if out is not None:
        return into(out, betaincinv, (a, b, y), {})
    return called(P.betaincinv, (a, b, y), FLOAT, {})


# --- zeta --------------------------------------------------------------------------------------


zeta = two(
    P.zeta,
    "Hurwitz' zeta function Σ (q + k)^(-x) over k >= 0, for x = input and q = other; differentiable by both."
    " | [2.0, 3.0]; [1.0, 2.0] -> Tensor([1.6449, 0.2021])",
    order=0,
)
