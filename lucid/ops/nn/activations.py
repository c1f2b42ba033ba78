"""Activation functions as elementwise primitives."""

import math
from collections.abc import Callable
from typing import Any

from lucid.core import dtypes
from lucid.core.tensor import Tensor
from lucid.ops.elementwise import called, of_one, of_two
from lucid.ops.nn.constants import A, B
from lucid.ops.promotion import FLOAT
from lucid.ops.rules import Elementwise, P, Pair, Partial

_FLOATING = dtypes.FLOATING


def activation(name: str, d: Partial, doc: str = "") -> Callable[..., Any]:
    """Declare an activation without parameters and give its function."""
    return of_one(Elementwise(name, (d,), ("x",)), FLOAT, doc)


def with_parameters(name: str, d: Partial) -> Callable[..., Tensor]:
    """Declare an activation whose parameters are keywords, and give its function."""
    prim = Elementwise(name, (d,), ("x",))

    def call(input: Any, **params: Any) -> Tensor:
        return called(prim, (input,), FLOAT, params)

    call.__name__ = call.__qualname__ = name
    return call


# --- piecewise ---------------------------------------------------------------------------------


# g where x lies between two bounds (or, with inside=False, outside them), and 0 elsewhere, bounds included.
within = Elementwise(
    "within",
    (Pair(lambda ct, x, lo, hi, inside: P.within(ct, x, lo=lo, hi=hi, inside=inside)), 0),
    ("g", "x"),
)
# One number above 0, and another at 0 and below.
step = Elementwise(
    "step",
    (0,),
    ("x",),
)


hardtanh = with_parameters("hardtanh", Pair(lambda ct, x, lo, hi: P.within(ct, x, lo=lo, hi=hi, inside=True)))


leaky_relu = with_parameters("leaky_relu", lambda x, slope: P.step(x, above=1.0, below=slope))


def _prelu_slope(x: Any, weight: Any) -> Any:
    return P.step(x, above=1.0, below=0.0) + weight * P.step(x, above=0.0, below=1.0)


# x above 0, weight · x below; the weight broadcasts.
prelu = of_two(
    Elementwise(
        "prelu",
        (_prelu_slope, lambda x: P.clamp(x, lo=None, hi=0)),
        ("x", "weight"),
    ),
    FLOAT,
    "",
)


softshrink = with_parameters(
    "softshrink", Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False))
)
hardshrink = with_parameters(
    "hardshrink",
    Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False)),
)


threshold = with_parameters(
    "threshold",
    Pair(lambda ct, x, threshold: P.within(ct, x, lo=-math.inf, hi=threshold, inside=False)),
)


def _within_3(g: Any, x: Any) -> Any:
    return P.within(g, x, lo=-3.0, hi=3.0, inside=True)


hardsigmoid = activation("hardsigmoid", Pair(lambda ct, x: _within_3(ct * (1 / 6), x)))


hardswish_slope = activation("hardswish_slope", Pair(lambda ct, x: _within_3(ct * (1 / 3), x)))
hardswish = activation("hardswish", lambda x: P.hardswish_slope(x))

# --- smooth ------------------------------------------------------------------------------------


def _elu_curvature(x: Any, alpha: float, scale: float, rate: float) -> Any:
    exponential = P.exp(rate * P.clamp(x, lo=None, hi=0))
    return P.where(x > 0, 0, alpha * scale * rate * rate * exponential)


elu_slope = with_parameters("elu_slope", _elu_curvature)
# scale · x above 0, and scale · alpha · (exp(rate · x) - 1) below.
elu = with_parameters(
    "elu",
    lambda x, alpha, scale, rate: P.elu_slope(x, alpha=alpha, scale=scale, rate=rate),
)


def gated(name: str, curvature: Callable[..., Any]) -> Callable[..., Any]:
    """Declare an activation of `gates`, whose second derivative is given, and give its function."""
    back = f"{name}_back"
    Elementwise(
        back,
        (Pair(lambda ct, x: getattr(P, back)(ct, x)), lambda g, x: g * curvature(x)),
        ("g", "x"),
    )
    return activation(name, Pair(lambda ct, x: getattr(P, back)(ct, x)))


def _silu_curvature(x: Any) -> Any:
    s = P.sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _gelu_tanh_curvature(x: Any) -> Any:
    square = x * x
    s = P.sigmoid(x * (A + B * square))
    growth = A + 3 * B * square
    return s * (1 - s) * (2 * growth + x * (growth * growth * (1 - 2 * s) + 6 * B * x))


silu = gated("silu", _silu_curvature)
gelu = gated("gelu", lambda x: P.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)) * (2 - x * x))
gelu_tanh = gated("gelu_tanh", _gelu_tanh_curvature)


def _mish_curvature(x: Any) -> Any:
    t = P.tanh(P.softplus(x, beta=1.0, threshold=20.0))
    s = P.sigmoid(x)
    slope = (1 - t * t) * s
    return slope * (2 + x * (1 - s - 2 * t * s))


mish_slope = activation("mish_slope", lambda x: _mish_curvature(x))
mish = activation("mish", lambda x: P.mish_slope(x))


def _softsign_slope(x: Any) -> Any:
    inverse = P.reciprocal(1 + P.abs(x))
    return inverse * inverse


softsign = activation("softsign", lambda x: _softsign_slope(x))


def _tanhshrink_slope(x: Any) -> Any:
    t = P.tanh(x)
    return t * t


tanhshrink = activation("tanhshrink", lambda x: _tanhshrink_slope(x))
