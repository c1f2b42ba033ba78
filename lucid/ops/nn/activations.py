"""Activation functions as elementwise primitives."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.arguments.out import one_primitive
from lucid.arguments.promotion import FLOAT
from lucid.core import dtypes
from lucid.core.tensor import Tensor
from lucid.ops.categories import DERIVED, Elementwise, Pair, Partial
from lucid.ops.elementwise import called, of_one, of_two
from lucid.ops.nn.constants import A, B
from lucid.ops.rules import P, chained, np_dtype, typed_as

_FLOATING = dtypes.FLOATING


def activation(name: str, body: Callable[..., Any], d: Partial) -> Callable[..., Any]:
    """Declare an activation without parameters and give its function."""
    return of_one(Elementwise(name, (d,), ("x",), body=body, real=True), FLOAT, "")


def with_parameters(name: str, body: Callable[..., Any], d: Partial) -> Callable[..., Tensor]:
    """Declare an activation whose parameters are keywords, and give its function."""
    prim = Elementwise(name, (d,), ("x",), body=body, real=True)

    def call(input: Any, **params: Any) -> Tensor:
        return called(prim, (input,), FLOAT, params)

    call.__name__ = call.__qualname__ = name
    return one_primitive(prim, has_parameters=True, policy=FLOAT)(call)


# --- piecewise ---------------------------------------------------------------------------------


def _within(g: Any, x: Any, lo: Any, hi: Any, inside: bool) -> Any:
    return P.where((x <= lo) | (x >= hi) if inside else (x >= lo) & (x <= hi), 0, g)


# g where x lies between two bounds (or, with inside=False, outside them), and 0 elsewhere, bounds included.
within = Elementwise(
    "within",
    (Pair(lambda ct, x, lo, hi, inside: P.within(ct, x, lo=lo, hi=hi, inside=inside)), 0),
    ("g", "x"),
    body=_within,
    real=True,
)
# One number above 0, and another at 0 and below.
step = Elementwise(
    "step",
    (0,),
    ("x",),
    body=lambda x, above, below: P.where(x > 0, typed_as(x, above), typed_as(x, below)),
    real=True,
)


hardtanh = with_parameters(
    "hardtanh",
    lambda x, lo, hi: P.minimum(P.maximum(x, lo), hi),
    Pair(lambda ct, x, lo, hi: P.within(ct, x, lo=lo, hi=hi, inside=True)),
)


leaky_relu = with_parameters(
    "leaky_relu",
    lambda x, slope: P.maximum(x, 0) + chained(slope, P.minimum(x, 0)),  # 0 if the slope is, also at -∞
    lambda x, slope: P.step(x, above=1.0, below=slope),
)


def _prelu_slope(x: Any, weight: Any) -> Any:
    return P.step(x, above=1.0, below=0.0) + weight * P.step(x, above=0.0, below=1.0)


# x above 0, weight · x below; the weight broadcasts.
prelu = of_two(
    Elementwise(
        "prelu",
        (_prelu_slope, lambda x: P.clamp(x, lo=None, hi=0)),
        ("x", "weight"),
        body=lambda x, weight: P.where(x > 0, x, x * weight),
        real=True,
    ),
    FLOAT,
    "",
)


softshrink = with_parameters(
    "softshrink",
    lambda x, lambd: x - P.hardtanh(x, lo=-lambd, hi=lambd),
    Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False)),
)
hardshrink = with_parameters(
    "hardshrink",
    lambda x, lambd: P.within(x, x, lo=-lambd, hi=lambd, inside=False),
    Pair(lambda ct, x, lambd: P.within(ct, x, lo=-lambd, hi=lambd, inside=False)),
)


threshold = with_parameters(
    "threshold",
    lambda x, threshold, value: P.where(x <= threshold, value, x),
    Pair(lambda ct, x, threshold: P.within(ct, x, lo=-math.inf, hi=threshold, inside=False)),
)


def _within_3(g: Any, x: Any) -> Any:
    return P.within(g, x, lo=-3.0, hi=3.0, inside=True)


hardsigmoid = activation(
    "hardsigmoid",
    lambda x: P.hardtanh(x * (1 / 6) + 0.5, lo=0.0, hi=1.0),
    Pair(lambda ct, x: _within_3(ct * (1 / 6), x)),
)


hardswish_slope = activation(
    "hardswish_slope",
    lambda x: P.where(x <= -3, 0, P.where(x >= 3, 1, x * (1 / 3) + 0.5)),
    Pair(lambda ct, x: _within_3(ct * (1 / 3), x)),
)
hardswish = activation("hardswish", lambda x: x * P.hardsigmoid(x), lambda x: P.hardswish_slope(x))

# --- smooth ------------------------------------------------------------------------------------


def _elu_curvature(x: Any, alpha: float, scale: float, rate: float) -> Any:
    exponential = P.exp(rate * P.clamp(x, lo=None, hi=0))
    return P.where(x > 0, 0, alpha * scale * rate * rate * exponential)


elu_slope = with_parameters(
    "elu_slope",
    lambda x, alpha, scale, rate: P.where(x > 0, scale, alpha * scale * rate * P.exp(P.minimum(x, 0) * rate)),
    _elu_curvature,
)
# scale · x above 0, and scale · alpha · (exp(rate · x) - 1) below.
elu = with_parameters(
    "elu",
    lambda x, alpha, scale, rate: P.maximum(x, 0) * scale + P.expm1(P.minimum(x, 0) * rate) * (alpha * scale),
    lambda x, alpha, scale, rate: P.elu_slope(x, alpha=alpha, scale=scale, rate=rate),
)


def gated(
    name: str, body: Callable[..., Any], slope: Callable[..., Any], curvature: Callable[..., Any]
) -> Callable[..., Any]:
    """Declare an activation with its first and second derivative, and give its function."""
    back = f"{name}_back"
    Elementwise(
        back,
        (Pair(lambda ct, x: getattr(P, back)(ct, x)), lambda g, x: g * curvature(x)),
        ("g", "x"),
        body=lambda g, x: chained(g, slope(x)),
        real=True,
    )
    return activation(name, body, Pair(lambda ct, x: getattr(P, back)(ct, x)))


def _silu_slope(x: Any) -> Any:
    s = P.sigmoid(x)
    return chained(s, 1 + chained(1 - s, x))


def _silu_curvature(x: Any) -> Any:
    s = P.sigmoid(x)
    return chained(s * (1 - s), 2 + x * (1 - 2 * s))


_FAR = 40.0  # from where on the normal distribution and its density are 0 or 1 in double precision


def _density(x: Any) -> Any:
    return P.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _end_of(x: Any) -> float:
    """From here on, gelu and its slope on the left are smaller than all normal numbers, and taken for 0.

    Products of matrices of subnormal numbers take a hundred times as long. The code generator has the same bounds in its own
    sources (`GELU_END`), by which cached code is found; a test holds the two together.
    """
    return 37.6 if np_dtype(x) == np.float64 else 13.14


def _gelu_slope(x: Any) -> Any:
    end = _end_of(x)
    density = P.exp(P.maximum(x * x * -0.5, -0.5 * end * end)) * (1 / math.sqrt(2 * math.pi))
    return P.where(x < -end, 0, P.ndtr(x) + density * P.minimum(P.maximum(x, -_FAR), _FAR))


def _gelu_tanh_slope(x: Any) -> Any:
    square = x * x
    s = P.sigmoid(x * (A + B * square))
    return chained(s, 1 + chained(1 - s, x * (A + 3 * B * square)))


def _gelu_tanh_curvature(x: Any) -> Any:
    square = x * x
    s = P.sigmoid(x * (A + B * square))
    growth = A + 3 * B * square
    return chained(s * (1 - s), 2 * growth + x * (growth * growth * (1 - 2 * s) + 6 * B * x))


silu = gated("silu", lambda x: chained(P.sigmoid(x), x), _silu_slope, _silu_curvature)
gelu = gated(
    "gelu",
    lambda x: P.where(x < -_end_of(x), -0.0, P.ndtr(x) * P.maximum(x, -_FAR)),
    _gelu_slope,
    lambda x: chained(_density(x), 2 - x * x),
)
gelu_tanh = gated(
    "gelu_tanh",
    lambda x: chained(P.sigmoid(x * (A + B * (x * x))), x),
    _gelu_tanh_slope,
    _gelu_tanh_curvature,
)


def _mish_curvature(x: Any) -> Any:
    t = P.tanh(P.softplus(x, beta=1.0, threshold=20.0))
    s = P.sigmoid(x)
    slope = (1 - t * t) * s
    return slope * (2 + x * (1 - s - 2 * t * s))


# tanh(log(1 + e)) = w / (w + 2) with e = exp(x) and w = e (e + 2). It is 1 to all digits from x = 20 on.
_MISH_LIMIT = 20


def _mish(x: Any) -> Any:
    e = P.exp(P.minimum(x, _MISH_LIMIT))
    w = e * (e + 2)
    return x * (w / (w + 2))


def _mish_slope(x: Any) -> Any:
    """t + x (1 - t²) sigmoid(x), where the product of 1 - t² and sigmoid is 4 e (e + 1) / (w + 2)²."""
    limited = P.minimum(x, _MISH_LIMIT)
    e = P.exp(limited)
    w = e * (e + 2)
    return w / (w + 2) + limited * e * (e + 1) / (w + 2) / (w + 2) * 4


mish_slope = activation("mish_slope", _mish_slope, lambda x: _mish_curvature(x))
mish = activation("mish", _mish, lambda x: P.mish_slope(x))


softsign = activation("softsign", lambda x: x / (1 + P.abs(x)), DERIVED)
tanhshrink = activation("tanhshrink", lambda x: x - P.tanh(x), DERIVED)


# Logarithm and exponential for both signs. Written out: by sign and abs their slope at 0 would be 0.
symlog = activation("symlog", lambda x: P.sign(x) * P.log1p(P.abs(x)), lambda x: 1 / (1 + P.abs(x)))
symexp = activation("symexp", lambda x: P.sign(x) * P.expm1(P.abs(x)), lambda x: P.exp(P.abs(x)))
