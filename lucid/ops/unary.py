"""Elementwise functions of one operand."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.arguments import promotion
from lucid.arguments.out import compute_apart, one_primitive
from lucid.arguments.promotion import BOOL as TRUTH
from lucid.arguments.promotion import FLOAT, INTEGRAL, KEEP, lift_all
from lucid.core import dtypes
from lucid.core.primitive import element_type, lift
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, real_part
from lucid.ops.categories import DERIVED, Elementwise, Linear, Pair, Selects, linear
from lucid.ops.complex_parts import angle as angle
from lucid.ops.complex_parts import conj as conj
from lucid.ops.complex_parts import imag as imag
from lucid.ops.complex_parts import real as real
from lucid.ops.complex_parts import sgn as sgn
from lucid.ops.elementwise import binary, called, unary
from lucid.ops.rules import P, chained, is_complex, np_dtype

LOG2, LOG10 = math.log(2.0), math.log(10.0)


def _cast_back(ct: Any, dtype: Any, source: Any) -> Any:
    """The cotangent in the type that was cast; gradients of integers, which a front door may ask for, keep fractions."""
    return P.cast(ct, dtype=dtype if source.kind in "biu" else source, source=dtype)


cast = linear(
    "cast",
    transpose=_cast_back,
    batch=lambda x, size, dtype, source: P.cast(x, dtype=dtype, source=source),
    abstract=lambda x, dtype, source: Abstract(x.shape, dtype),
    category="elementwise",
    is_scalar=True,
)


def counted(x: Any) -> Any:
    """Truth values as the integers that they count as."""
    return P.cast(x, dtype=dtypes.INT64, source=dtypes.BOOL) if np_dtype(x) == dtypes.BOOL else x


neg = unary("neg", -1, "The negative of each element. | [1.0, -2.0] -> Tensor([-1.,  2.])", KEEP, linear_in=(0,))
exp = unary("exp", "out", "e to the power of each element. | [0.0, 1.0] -> Tensor([1.    , 2.7183])")
exp2 = unary("exp2", lambda out: out * LOG2, "2 to the power of each element. | [1.0, 3.0] -> Tensor([2., 8.])")


expm1 = unary("expm1", lambda out: out + 1, "exp(x) - 1, accurate near 0. | [0.0, 1.0] -> Tensor([0.    , 1.7183])")
log = unary("log", lambda x: 1 / x, "Natural logarithm. | [1.0, 2.0] -> Tensor([0.    , 0.6931])")
log2 = unary("log2", lambda x: 1 / (x * LOG2), "Logarithm to base 2. | [1.0, 8.0] -> Tensor([0., 3.])")
log10 = unary("log10", lambda x: 1 / (x * LOG10), "Logarithm to base 10. | [1.0, 100.0] -> Tensor([0., 2.])")
log1p = unary("log1p", lambda x: 1 / (x + 1), "log(1 + x), accurate near 0. | [0.0, 1.0] -> Tensor([0.    , 0.6931])")
sqrt = unary("sqrt", lambda out: 0.5 / out, "Square root. | [4.0, 9.0] -> Tensor([2., 3.])")
rsqrt = unary(
    "rsqrt",
    lambda out: -0.5 * (out * out * out),
    "1 / sqrt(x). | [4.0, 16.0] -> Tensor([0.5 , 0.25])",
    body=lambda x: 1 / P.sqrt(x),
)
square = unary(
    "square",
    lambda x: x + x,
    "Each element times itself. | [2.0, -3.0] -> Tensor([4., 9.])",
    KEEP,
    body=lambda x: counted(x) * counted(x),
)
reciprocal = unary(
    "reciprocal", lambda out: -(out * out), "1 / x. | [2.0, 4.0] -> Tensor([0.5 , 0.25])", body=lambda x: 1 / x
)

sin = unary("sin", lambda x: P.cos(x), "Sine. | [0.0, 1.0] -> Tensor([0.    , 0.8415])")
cos = unary("cos", lambda x: -P.sin(x), "Cosine. | [0.0, 1.0] -> Tensor([1.    , 0.5403])")
tan = unary("tan", lambda out: 1 + out * out, "Tangent. | [0.0, 1.0] -> Tensor([0.    , 1.5574])")


def _asin_partial(x: Any) -> Any:
    """1 / sqrt(1 - x²). Of complex numbers a product of roots on the side of the branch cut where the sine is.

    That side is the sign of an imaginary zero: `-(x - 1)` and `x - -1` keep it, `1 - x` and `x + 1` lose it.
    """
    return P.rsqrt(-(x - 1)) * P.rsqrt(x - -1) if is_complex(x) else P.rsqrt(1 - x * x)


asin = unary("asin", _asin_partial, "Inverse sine. | [0.0, 0.5] -> Tensor([0.    , 0.5236])")
acos = unary("acos", lambda x: -_asin_partial(x), "Inverse cosine. | [0.0, 0.5] -> Tensor([1.5708, 1.0472])")
atan = unary("atan", lambda x: 1 / (1 + x * x), "Inverse tangent. | [0.0, 1.0] -> Tensor([0.    , 0.7854])")


# A change passing a function whose value is known, and what the derivatives of that consist of: one node and one piece
# of memory, where the formula written out would have three.
Elementwise(
    "tanh_slope",
    (Linear(lambda ct, y: P.tanh_slope(ct, y)), Linear(lambda ct, x, y: P.tanh_bend(ct, x, y))),
    ("x", "y"),
    body=lambda x, y: chained(x, 1 - y * y),
)
Elementwise(
    "tanh_bend",
    (
        Linear(lambda ct, y, z: P.tanh_bend(ct, y, z)),
        Linear(lambda ct, x, z: P.tanh_bend(ct, x, z)),
        Linear(lambda ct, x, y: P.tanh_bend(ct, x, y)),
    ),
    ("x", "y", "z"),
    body=lambda x, y, z: chained(x, y * -2 * z),
)
Elementwise(
    "sigmoid_slope",
    (Linear(lambda ct, y: P.sigmoid_slope(ct, y)), Linear(lambda ct, x, y: P.sigmoid_bend(ct, x, y))),
    ("x", "y"),
    body=lambda x, y: chained(x, y * (1 - y)),
)
Elementwise(
    "sigmoid_bend",
    (
        Linear(lambda ct, y, z: P.sigmoid_bend(ct, y, z)),
        Linear(lambda ct, x, z: P.sigmoid_bend(ct, x, z)),
        Linear(lambda ct, x, y: P.tanh_bend(ct, x, y)),
    ),
    ("x", "y", "z"),
    body=lambda x, y, z: chained(x, y * (1 - 2 * z)),
)

sinh = unary("sinh", lambda x: P.cosh(x), "Hyperbolic sine. | [0.0, 1.0] -> Tensor([0.    , 1.1752])")
cosh = unary("cosh", lambda x: P.sinh(x), "Hyperbolic cosine. | [0.0, 1.0] -> Tensor([1.    , 1.5431])")
tanh = unary(
    "tanh",
    Linear(lambda ct, out: P.tanh_slope(ct, out)),
    "Hyperbolic tangent. | [0.0, 1.0] -> Tensor([0.    , 0.7616])",
)
asinh = unary(
    "asinh",
    lambda x: 1 / P.cosh(P.asinh(x)) if is_complex(x) else P.rsqrt(x * x + 1),  # on the right side of the cuts
    "Inverse hyperbolic sine. | [0.0, 1.0] -> Tensor([0.    , 0.8814])",
)
acosh = unary(
    "acosh",
    lambda x: P.rsqrt(x - 1) * P.rsqrt(x - -1),  # which keeps the sign of an imaginary zero, the side of the cut
    "Inverse hyperbolic cosine. | [1.0, 2.0] -> Tensor([0.   , 1.317])",
)
atanh = unary(
    "atanh",
    lambda x: 1 / (1 - x * x),
    "Inverse hyperbolic tangent. | [0.0, 0.5] -> Tensor([0.    , 0.5493])",
)


def _sigmoid(x: Any) -> Any:
    """Of real numbers without overflow: the exponent is never positive."""
    if is_complex(x):
        return 1 / (1 + P.exp(-x))
    e = P.exp(-P.abs(x))
    return P.where(x >= 0, 1, e) / (1 + e)


sigmoid = unary(
    "sigmoid",
    Linear(lambda ct, out: P.sigmoid_slope(ct, out)),
    "1 / (1 + exp(-x)). | [0.0, 2.0] -> Tensor([0.5   , 0.8808])",
    body=_sigmoid,
)
log_sigmoid = unary(
    "log_sigmoid",
    lambda x: P.sigmoid(-x),
    "log(sigmoid(x)), without overflow. | [0.0, 2.0] -> Tensor([-0.6931, -0.1269])",
    body=lambda x: P.minimum(x, 0) - P.log1p(P.exp(-P.abs(x))),
    real=True,
)
gate = binary(
    "gate",
    (Selects(lambda y: y > 0), 0),
    "x where y is positive, and exactly 0 elsewhere.",
    body=lambda x, y: P.where(y > 0, counted(x), 0),
    real=True,
    linear_in=(0,),
)
relu = unary(
    "relu",
    Pair(lambda ct, out: P.gate(ct, out)),
    "max(x, 0); the derivative at 0 is 0. | [-1.0, 2.0] -> Tensor([0., 2.])",
    KEEP,
    body=lambda x: P.maximum(counted(x), 0),
    real=True,
)

erf = unary(
    "erf",
    lambda x: P.exp(-(x * x)) * (2 / math.sqrt(math.pi)),
    "Error function. | [0.0, 1.0] -> Tensor([0.    , 0.8427])",
    calls="scipy.special.erf",
)
erfc = unary(
    "erfc",
    lambda x: P.exp(-(x * x)) * (-2 / math.sqrt(math.pi)),
    "1 - erf(x), accurate for large x. | [0.0, 1.0] -> Tensor([1.    , 0.1573])",
    calls="scipy.special.erfc",
)
Elementwise(
    "ndtr",  # the normal distribution function; `lucid.special` has it for users
    (lambda x: P.exp(-0.5 * (x * x)) / math.sqrt(2 * math.pi),),
    ("x",),
    real=True,
    calls="scipy.special.ndtr",
)
erfinv = unary(
    "erfinv",
    lambda out: P.exp(out * out) * (math.sqrt(math.pi) / 2),
    "The inverse of erf. | [0.0, 0.5] -> Tensor([0.    , 0.4769])",
    calls="scipy.special.erfinv",
)
lgamma = unary(
    "lgamma",
    lambda x: P.digamma(x),
    "Logarithm of the absolute value of Γ(x). | [1.0, 4.0] -> Tensor([0.    , 1.7918])",
    calls="scipy.special.gammaln",
)
# Of the asymptotic series Σ B[2k] / y^(2k + 1) of the derivative of digamma: exact to the last digits from y = 10 on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_STEPS = 10


def _trigamma(x: Any) -> Any:
    """Σ 1 / (x + k)², of single precision in double; below 1/2 by its reflection, (π / sin πx)² - trigamma(1 - x)."""
    if np_dtype(x) == np.float32:
        wide = _trigamma(P.cast(x, dtype=np.dtype(np.float64), source=np.dtype(np.float32)))
        return P.cast(wide, dtype=np.dtype(np.float32), source=np.dtype(np.float64))
    is_reflected = x < 0.5
    y = P.where(is_reflected, 1 - x, x)
    inverse = 1 / (y + _STEPS)
    square = inverse * inverse
    series: Any = _BERNOULLI[-1]
    for number in reversed(_BERNOULLI[:-1]):
        series = number + square * series
    found = inverse + square * 0.5 + inverse * square * series
    for k in reversed(range(_STEPS)):
        found = found + 1 / P.square(y + k)
    fraction = P.where(x == -math.inf, 0, x - P.round(x, decimals=0))
    return P.where(is_reflected, P.square(math.pi / P.sin(math.pi * fraction)) - found, found)


trigamma_primitive = Elementwise(
    "trigamma", (lambda x: P.polygamma(x, order=2),), ("x",), body=lambda x: _trigamma(x), real=True
)
digamma = unary(
    "digamma",
    lambda x: P.trigamma(x),
    "The derivative of lgamma. | [1.0, 2.0] -> Tensor([-0.5772,  0.4228])",
    real=True,
    calls="scipy.special.psi",
)


polygamma_primitive = Elementwise(
    "polygamma", (lambda x, order: P.polygamma(x, order=order + 1),), ("x",), calls="scipy.special.polygamma"
)


def _sinc_derivative(x: Any) -> Any:
    """d/dx sin(πx)/(πx); a power series near 0, where the closed form cancels."""
    y = x * math.pi
    near = P.abs(y) < 0.1
    safe = P.where(near, 1, y)
    closed = math.pi * (P.cos(safe) - P.sin(safe) / safe) / safe
    y2 = y * y
    series = -math.pi * y / 3 * (1 - y2 / 10 * (1 - y2 / 28 * (1 - y2 / 54)))
    return P.where(near, series, closed)


sinc_derivative = unary("sinc_derivative", lambda x: sinc_second(x), "The derivative of sinc.", body=_sinc_derivative)


# sinc''(x) = -π² Σ cₖ (πx)²ᵏ near 0, where the closed form cancels.
_SINC_SECOND = [-(math.pi**2) * (-1) ** k / math.factorial(2 * k) / (2 * k + 3) for k in range(12)]
_NEAR_0 = 0.3


def sinc_second(x: Any) -> Any:
    """The second derivative of sinc: from sinc itself away from 0, by a power series near it."""
    near = P.abs(x) < _NEAR_0
    safe = P.where(near, 1, x)
    far = -(math.pi**2) * P.sinc(safe) - 2 * P.sinc_derivative(safe) / safe
    square = P.where(near, x * math.pi, 0) ** 2
    series = _SINC_SECOND[-1]
    for c in reversed(_SINC_SECOND[:-1]):
        series = series * square + c
    return P.where(near, series, far)


def _sinc(x: Any) -> Any:
    y = P.where(x == 0, 1, x) * math.pi
    return P.where(x == 0, 1, P.sin(y) / y)


sinc = unary(
    "sinc",
    lambda x: P.sinc_derivative(x),
    "sin(πx) / (πx), and 1 at 0. | [0.0, 0.5] -> Tensor([1.    , 0.6366])",
    body=_sinc,
)

sign = unary(
    "sign",
    0,
    "-1, 0 or 1 by the sign of each element. | [-2.0, 0.0, 3.0] -> Tensor([-1.,  0.,  1.])",
    KEEP,
    real=True,
)
floor = unary(
    "floor",
    0,
    "Round down. | [1.5, -1.5] -> Tensor([ 1., -2.])",
    KEEP,
)
ceil = unary(
    "ceil",
    0,
    "Round up. | [1.5, -1.5] -> Tensor([ 2., -1.])",
    KEEP,
)
trunc = unary(
    "trunc",
    0,
    "Round towards 0. | [1.5, -1.5] -> Tensor([ 1., -1.])",
    KEEP,
)
frac = unary(
    "frac",
    1,
    "The part after the decimal point. | [1.5, -1.5] -> Tensor([ 0.5, -0.5])",
    body=lambda x: x - P.trunc(x),
)


def _scaled_by(name: str, factor: float, doc: str) -> Any:
    return unary(name, lambda: factor, doc, body=lambda x: x * factor, real=True)


deg2rad = _scaled_by("deg2rad", math.pi / 180, "Degrees as radians. | [180.0, 90.0] -> Tensor([3.1416, 1.5708])")
rad2deg = _scaled_by("rad2deg", 180 / math.pi, "Radians as degrees. | [1.0, 3.0] -> Tensor([ 57.2958, 171.8873])")

isnan = unary("isnan", None, 'Where elements are nan. | [1.0, float("nan")] -> Tensor([False,  True])', TRUTH)
isinf = unary("isinf", None, 'Where elements are infinite. | [1.0, float("inf")] -> Tensor([False,  True])', TRUTH)
isfinite = unary(
    "isfinite",
    None,
    'Where elements are neither nan nor infinite. | [1.0, float("inf")] -> Tensor([ True, False])',
    TRUTH,
)
logical_not = unary(
    "logical_not",
    None,
    "Where elements are zero or false. | [True, False] -> Tensor([False,  True])",
    TRUTH,
)
bitwise_not = unary(
    "bitwise_not",
    None,
    "Each bit inverted; logical not for booleans. | [0, 5] -> Tensor([-1, -6])",
    INTEGRAL,
)

# Maps between the complex numbers and the reals have no complex derivative: both directions are spelled out.
abs = unary(
    "abs",
    Pair(
        lambda ct, x: chained(ct, P.sgn(x)),
        lambda t, x: P.real(chained(t, P.conj(P.sgn(x)))) if is_complex(x) else chained(t, P.sign(x)),
    ),
    "Absolute value; the derivative at 0 is 0. | [-1.0, 2.0] -> Tensor([1., 2.])",
    KEEP,
    abstract=real_part,
)


clamp_primitive = Elementwise(
    "clamp",
    (Selects(lambda x, lo, hi: _within(x, lo, hi)),),
    ("x",),
    body=lambda x, lo, hi: _limited(x, lo, hi),
    real=True,
)


def _limited(x: Any, lo: Any, hi: Any) -> Any:
    if lo is not None:
        x = P.maximum(x, lo)
    return x if hi is None else P.minimum(x, hi)


def _within(x: Any, lo: Any, hi: Any) -> Any:
    """Where the element itself is the value: inside the bounds, or nan, unless that comes from a bound."""
    above, below = (None if lo is None else x >= lo), (None if hi is None else x <= hi)
    inside = below if above is None else above if below is None else above & below
    return inside if lo != lo or hi != hi else inside | (x != x)


def _is_below(x: Any, bound: Any) -> Any:
    """Where a lower bound takes the place of x; one that is nan does."""
    return (x < bound) | (bound != bound)


def _is_above(x: Any, bound: Any) -> Any:
    return (x > bound) | (bound != bound)


def _bounded(name: str, is_beyond: Callable[[Any, Any], Any]) -> Elementwise:
    """Declare the bound of an element where it is beyond that, and the element elsewhere."""
    return Elementwise(
        name,
        (Selects(lambda x, bound: ~is_beyond(x, bound)), Selects(is_beyond)),
        ("x", "bound"),
        body=lambda x, bound: P.where(is_beyond(x, bound), bound, x),
        real=True,
    )


clamp_min_primitive = _bounded("clamp_min", _is_below)
clamp_max_primitive = _bounded("clamp_max", _is_above)


def _raised(x: Any, lo: Any) -> Any:
    return P.where(_is_below(x, lo), lo, x)


# Between two bounds of the same type; the upper one counts where it is below the other.
clamp_both_primitive = Elementwise(
    "clamp_both",
    (
        Selects(lambda x, lo, hi: ~(_is_below(x, lo) | _is_above(x, hi))),
        Selects(lambda x, lo, hi: _is_below(x, lo) & ~_is_above(lo, hi)),
        Selects(lambda x, lo, hi: _is_above(_raised(x, lo), hi)),
    ),
    ("x", "lo", "hi"),
    body=lambda x, lo, hi: P.where(_is_above(_raised(x, lo), hi), hi, _raised(x, lo)),
    real=True,
)

_BOUNDS = (float, int, type(None))  # which do not change the type of floats


def _is_common(x: Any) -> bool:
    return isinstance(x, Tensor) and element_type(x) in dtypes.FLOATING


@one_primitive()
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limit each element to [min, max]; the gradient passes at the bounds.

    The bounds are numbers or tensors; where `min` is above `max`, the result is `max`.

    >>> import lucid
    >>> lucid.clamp(lucid.tensor([-1.0, 0.5, 2.0]), min=0, max=1)
    Tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        raise ValueError("clamp needs at least one of min and max")
    if type(min) in _BOUNDS and type(max) in _BOUNDS and _is_common(input):
        lo, hi = min if min is None else float(min), max if max is None else float(max)
        return called(clamp_primitive, (input,), KEEP, {"lo": lo, "hi": hi})
    x = lift_all(input, *[b for b in (min, max) if isinstance(b, Tensor | np.ndarray)])[0]
    if isinstance(min, Tensor | np.ndarray) or isinstance(max, Tensor | np.ndarray):
        if isinstance(min, Tensor) and isinstance(max, Tensor):
            kind = element_type(x)
            if element_type(min) is kind and element_type(max) is kind:
                return called(clamp_both_primitive, (x, min, max), KEEP, {})
        if min is not None:
            if max is not None:
                compute_apart()
            x = called(clamp_min_primitive, (x, min), KEEP, {})
        return x if max is None else called(clamp_max_primitive, (x, max), KEEP, {})
    target = promotion.result_type_of([x.np_dtype], [], [b for b in (min, max) if b is not None])
    if target.kind in "iu":
        min, max = _bounds_within(target, min, max)
    return called(clamp_primitive, (x.to(target),), KEEP, {"lo": min, "hi": max})


@one_primitive()
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Raise each element to at least `min`, a number or a tensor.

    >>> import lucid
    >>> lucid.clamp_min(lucid.tensor([-1.0, 0.5]), 0)
    Tensor([0. , 0.5])
    """
    return clamp(input, min=min)


@one_primitive()
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Lower each element to at most `max`, a number or a tensor.

    >>> import lucid
    >>> lucid.clamp_max(lucid.tensor([0.5, 2.0]), 1)
    Tensor([0.5, 1. ])
    """
    return clamp(input, max=max)


def positive(input: Tensor) -> Tensor:
    """The tensor itself, as `+x` gives it.

    >>> import lucid
    >>> lucid.positive(lucid.tensor([1.0, -2.0]))
    Tensor([ 1., -2.])
    """
    x = lift(input)
    if x.np_dtype == dtypes.BOOL:
        raise RuntimeError("positive: truth values have no sign; convert them to numbers first, as with .int()")
    return x


def _bounds_within(target: np.dtype[Any], lo: int | None, hi: int | None) -> tuple[int | None, int | None]:
    """Integer bounds as numbers of the type; one that no number of the type satisfies is refused."""
    limits = np.iinfo(target)
    if (lo is not None and lo > limits.max) or (hi is not None and hi < limits.min):
        raise ValueError(f"clamp: no {target.name} lies within min={lo} and max={hi}")
    return lo if lo is None or lo > limits.min else int(limits.min), hi if hi is None or hi < limits.max else int(
        limits.max
    )


clip = clamp

round_primitive = Elementwise("round", (0,), ("x",))


@one_primitive(round_primitive, policy=KEEP, defaults={"decimals": 0})
def round(input: Tensor, decimals: int = 0) -> Tensor:
    """Round to the nearest integer, or to `decimals` digits behind the point; halves go to the even neighbour.

    >>> import lucid
    >>> lucid.round(lucid.tensor([0.5, 1.5, 2.6]))
    Tensor([0., 2., 3.])
    >>> lucid.round(lucid.tensor([1.234]), decimals=1)
    Tensor([1.2])
    """
    return called(round_primitive, (input,), KEEP, {"decimals": decimals})


nan_to_num_primitive = Elementwise(
    "nan_to_num",
    (Selects(lambda x: P.isfinite(x)),),
    ("x",),
    body=lambda x, nan, posinf, neginf: _finite(x, nan, posinf, neginf),
)


def _finite(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """Of complex numbers each part by itself."""
    kind = np_dtype(x)
    if kind.kind not in "fcV":
        return x
    if kind.kind == "c":
        return P.complex(_finite(P.real(x), nan, posinf, neginf), _finite(P.imag(x), nan, posinf, neginf))
    limits = promotion.finfo(dtypes.of_numpy(kind))
    x = P.where(x != x, nan, x)
    x = P.where(x == math.inf, limits.max if posinf is None else posinf, x)
    return P.where(x == -math.inf, limits.min if neginf is None else neginf, x)


@one_primitive(nan_to_num_primitive, defaults={"nan": 0.0, "posinf": None, "neginf": None})
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replace nan and the infinities by numbers (by default 0 and the largest of the type).

    >>> import lucid
    >>> lucid.nan_to_num(lucid.tensor([1.0, lucid.nan, lucid.inf]), nan=-1.0, posinf=100.0)
    Tensor([  1.,  -1., 100.])
    """
    x = lift(input)
    if x.np_dtype in dtypes.DIFFERENTIABLE and x.np_dtype.itemsize == 2:  # loops compute in a type with other limits
        limits = promotion.finfo(dtypes.of_numpy(x.np_dtype))
        posinf, neginf = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    return called(nan_to_num_primitive, (x,), KEEP, {"nan": nan, "posinf": posinf, "neginf": neginf})


Elementwise("log_odds", (lambda x: 1 / (x * (1 - x)),), ("x",), body=lambda x: P.log(x / (1 - x)))
logit_primitive = Elementwise(
    "logit",
    (DERIVED,),
    ("x",),
    body=lambda x, eps: P.log_odds(x if eps is None else P.clamp(x, lo=eps, hi=1 - eps)),
)


@one_primitive(logit_primitive, policy=FLOAT, defaults={"eps": None})
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; `eps` keeps x within [eps, 1 - eps].

    >>> import lucid
    >>> lucid.logit(lucid.tensor([0.5, 0.9]))
    Tensor([0.    , 2.1972])
    """
    return called(logit_primitive, (input,), FLOAT, {"eps": eps})


softplus_primitive = Elementwise(
    "softplus",
    (lambda x, beta, threshold: P.where(x * beta > threshold, 1, P.sigmoid(x * beta)),),
    ("x",),
    body=lambda x, beta, threshold: _softplus(x, beta, threshold),
    real=True,
)


def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    y = P.where(x * beta > threshold, threshold, x * beta)
    return P.where(x * beta > threshold, x, P.log_sigmoid(-y) / -beta)


@one_primitive(softplus_primitive, policy=FLOAT, defaults={"beta": 1.0, "threshold": 20.0})
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(βx)) / β, a smooth relu; equal to x where βx exceeds `threshold`.

    >>> import lucid
    >>> lucid.softplus(lucid.tensor([-1.0, 0.0, 30.0]))
    Tensor([ 0.3133,  0.6931, 30.    ])
    """
    return called(softplus_primitive, (input,), FLOAT, {"beta": beta, "threshold": threshold})


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma; n is 0 or a positive integer.

    >>> import lucid
    >>> lucid.polygamma(1, lucid.tensor([1.0, 2.0]))
    Tensor([1.6449, 0.6449])
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"polygamma: n must be at least 0, not {n}")
    if n < 2:
        return called(trigamma_primitive, (input,), FLOAT, {}) if n else digamma(input)
    return called(polygamma_primitive, (input,), FLOAT, {"order": n})
