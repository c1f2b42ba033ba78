"""One row for each operation: the function, a NumPy reference, and samples to try it on.

Rows are read by `checks`. A sample's arrays become tensors: those made by `make` are the operands to differentiate
by (their type is the one under test), integer and boolean arrays are indices and masks.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.special as special

from lucid.core import dtypes
from lucid.ops import binary, contractions, indexing, inplace, joining, reductions, shaping, unary

Array = np.ndarray
INTS = ("int64", "int32", "uint8")
BOOLS = (*INTS, "bool")
SPECIAL = (0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)


class Sample(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    smooth: bool = True  # finite differences find the derivative here


def s(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def kink(*args: Any, **kwargs: Any) -> Sample:
    """A point where values are defined but finite differences say nothing about the derivative."""
    return Sample(args, kwargs, smooth=False)


class Domain(NamedTuple):
    low: float = -2.0
    high: float = 2.0
    gap: float = 0.0  # how far values keep from 0


class Make:
    """Makes random operands of one type within a domain."""

    def __init__(self, dtype: str, domain: Domain, seed: int = 0) -> None:
        self.name = dtype
        self.dtype = dtypes.as_numpy(dtype)
        self.kind = dtypes.as_dtype(dtype).category
        self.domain = domain
        self.rng = np.random.default_rng(1234 + seed)

    @property
    def floats(self) -> bool:
        return self.kind == dtypes.CATEGORY_FLOAT

    @property
    def is_complex(self) -> bool:
        return self.kind == dtypes.CATEGORY_COMPLEX

    def __call__(self, *shape: int) -> Array:
        low, high, gap = self.domain
        if self.kind == dtypes.CATEGORY_BOOL:
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        if self.kind == dtypes.CATEGORY_INT:
            low = max(low, 0) if self.dtype.kind == "u" else low
            low = min(math.ceil(low), math.floor(high))
            values = self.rng.integers(low, math.floor(high) + 1, shape)
            return np.asarray(np.where(values == 0, 1, values) if gap else values, self.dtype)
        values = np.asarray(self.rng.uniform(low, high, shape))
        values = values + gap * np.sign(values)
        if self.is_complex:
            values = values + 1j * self.rng.uniform(-1, 1, shape)
        return np.asarray(values).astype(self.dtype)

    def at(self, *values: Any) -> Array:
        """Exactly these values."""
        return np.asarray(values).astype(self.dtype)

    def real(self, *shape: int) -> Array:
        """A real operand beside complex ones."""
        values = self(*shape)
        return values.real.copy() if self.is_complex else values

    def spread(self, *shape: int) -> Array:
        """Values far from each other, in random order: nothing is tied."""
        values = np.linspace(-2, 2, math.prod(shape)) + 0.05
        return self.rng.permutation(values).reshape(shape).astype(self.dtype)


Samples = Callable[[Make], Iterable[Sample]]


@dataclass(frozen=True)
class Row:
    name: str
    op: Callable[..., Any]
    ref: Callable[..., Any]
    samples: Samples
    domain: Domain = Domain()
    # The type of the results: "keep" (the operands'), "float" (integers give the default float), "sum" (integers give
    # int64), "real" (of complex), or a name; one for each result, or one for all.
    result: str | tuple[str, ...] = "keep"
    differentiable: bool = True
    complex: bool = False
    floats: bool = True
    ints: tuple[str, ...] = ()
    # Kinds of operands that vmap cannot batch, because the result's shape depends on their values.
    unbatched: str = ""
    # Checks that make no sense for the row, with the reason.
    without: Mapping[str, str] = field(default_factory=dict)
    # Operands and the gradients stated by convention, where the derivative does not exist.
    pins: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...] = ()

    def __repr__(self) -> str:
        return self.name


# --- unary ---------------------------------------------------------------------------------------


def one_operand(make: Make) -> Iterator[Sample]:
    for shape in ((), (3,), (2, 3), (0,), (2, 0), (1, 1)):
        yield s(make(*shape))
    yield s(make(3, 2).T)
    yield s(make(2, 6)[:, ::2])
    if make.floats:
        yield kink(make.at(*SPECIAL))


def u(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    """A row for an elementwise function of one operand that turns integers into floats."""
    flags = {"op": getattr(unary, name, None), "result": "float", "ints": BOOLS, **flags}
    return Row(name, ref=ref, samples=flags.pop("samples", one_operand), domain=Domain(*domain), **flags)


def keeps(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    """A row for an elementwise function of one operand whose result has its type."""
    return u(name, ref, *domain, **{"result": "keep", "ints": INTS, **flags})


def truth(name: str, ref: Callable[..., Any], **flags: Any) -> Row:
    return u(name, ref, **{"result": "bool", "differentiable": False, **flags})


def round_to(name: str, ref: Callable[..., Any], **flags: Any) -> Row:
    return keeps(name, ref, -3, 3, **flags)


def sigmoid(x: Any) -> Any:
    return special.expit(x) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x))


def sinc_slope(x: Array) -> Array:
    """The derivative of sinc from its integral form: ∫₀¹ -πt sin(πxt) dt by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t = (nodes + 1) / 2
    return -np.pi * (weights / 2 * t * np.sin(np.pi * x[..., None] * t)).sum(-1)


def sgn(x: Array) -> Array:
    return np.sign(x)


def clamped(x: Array, min: Any = None, max: Any = None) -> Array:
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def bounds(make: Make) -> Iterator[Sample]:
    if make.kind == dtypes.CATEGORY_INT:
        yield s(make(2, 3), 1, 2)
        return
    yield s(make(2, 3), -0.5, 0.5)
    yield s(make(3, 2).T, min=-1.0)
    yield s(make(), max=0.25)
    yield s(make(0, 2), 0.0, 1.0)
    yield s(make(2, 3), make(3) - make.at(2), make(2, 1) + make.at(2))
    yield s(make(3), max=make(2, 3))
    yield kink(make.at(*SPECIAL), -1.0, 1.0)
    yield kink(make.at(1, 2), 3.0, 0.0)


def unary_with(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> Samples:
    """The samples of one operand with each of the further arguments."""

    def samples(make: Make) -> Iterator[Sample]:
        for args, kwargs in calls:
            for sample in one_operand(make):
                yield sample._replace(args=(*sample.args, *args), kwargs=kwargs)

    return samples


def nan_replaced(x: Array, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def without_infinities(samples: Samples) -> Samples:
    """The largest number of a type is not that of the reference's."""

    def finite(make: Make) -> Iterator[Sample]:
        yield from (x for x in samples(make) if x.smooth)
        if make.floats:
            yield kink(make.at(*SPECIAL), 2.0, 3.0, -3.0)
            yield kink(make.at(0, 1, math.nan))

    return finite


def rounded(make: Make) -> Iterator[Sample]:
    yield from one_operand(make)
    if make.name not in ("float16", "bfloat16"):
        yield s(make(2, 3), decimals=1)
        yield s(make(2, 3), -1)


def logit(x: Array, eps: float | None = None) -> Array:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x) - np.log1p(-x)


def soft_plus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 700))) / beta)


def polygamma_samples(make: Make) -> Iterator[Sample]:
    yield from (s(n, make(2, 3)) for n in (0, 1, 2))
    yield s(1, make())
    yield s(2, make(0, 2))


UNARY = [
    keeps("neg", np.negative, complex=True),
    u("exp", np.exp, complex=True),
    u("exp2", np.exp2, complex=True),
    u("expm1", np.expm1, complex=True),
    u("log", np.log, 0.3, 3, complex=True),
    u("log2", np.log2, 0.3, 3, complex=True),
    u("log10", np.log10, 0.3, 3, complex=True),
    u("log1p", np.log1p, -0.6, 3, complex=True),
    u("sqrt", np.sqrt, 0.3, 3, complex=True),
    u("rsqrt", lambda x: 1 / np.sqrt(x), 0.3, 3, complex=True),
    keeps("square", np.square, complex=True),
    u("reciprocal", lambda x: 1 / x, -2, 2, 0.3, complex=True),
    u("sin", np.sin, complex=True),
    u("cos", np.cos, complex=True),
    u("tan", np.tan, -1.2, 1.2, complex=True),
    u("asin", np.arcsin, -0.9, 0.9, complex=True),
    u("acos", np.arccos, -0.9, 0.9, complex=True),
    u("atan", np.arctan, complex=True),
    u("sinh", np.sinh, complex=True),
    u("cosh", np.cosh, complex=True),
    u("tanh", np.tanh, complex=True),
    u("asinh", np.arcsinh, complex=True),
    u("acosh", np.arccosh, 1.2, 3, complex=True),
    u("atanh", np.arctanh, -0.9, 0.9, complex=True),
    u("sigmoid", sigmoid, complex=True),
    u("log_sigmoid", special.log_expit),
    keeps("relu", lambda x: np.where(np.isnan(x) | (x > 0), x, 0), pins=((([-1.0, 0.0, 2.0],), ([0, 0, 1],)),)),
    u("erf", special.erf, complex=True),
    u("erfc", special.erfc, complex=True),
    u("erfinv", special.erfinv, -0.9, 0.9),
    u("lgamma", special.gammaln, 0.3, 3),
    u("digamma", special.digamma, 0.3, 3),
    u("polygamma", special.polygamma, 0.5, 3, samples=polygamma_samples, ints=INTS),
    u("sinc", np.sinc, complex=True, pins=((([0.0],), ([0],)),)),
    u("sinc_derivative", sinc_slope, -3, 3, samples=lambda make: (x for x in one_operand(make) if x.smooth)),
    keeps("sign", np.sign, -2, 2, 0.1, pins=((([0.0],), ([0],)),)),
    round_to("floor", np.floor),
    round_to("ceil", np.ceil),
    round_to("trunc", np.trunc),
    round_to(
        "round",
        lambda x, decimals=0: np.round(x, decimals),
        samples=rounded,
        complex=True,
    ),
    u("frac", lambda x: x - np.trunc(x), -3, 3),
    truth("isnan", np.isnan, complex=True),
    truth("isinf", np.isinf, complex=True),
    truth("isfinite", np.isfinite, complex=True),
    truth("logical_not", np.logical_not, complex=True),
    u("bitwise_not", np.invert, result="keep", floats=False, differentiable=False),
    keeps("abs", np.abs, -2, 2, 0.1, complex=True, result="real", pins=((([0.0],), ([0],)),)),
    keeps("sgn", sgn, -2, 2, 0.2, complex=True),
    keeps("conj", np.conjugate, complex=True, ints=BOOLS),
    u("angle", np.angle, -2, 2, 0.2, complex=True, result="float real"),
    keeps("real", np.real, complex=True, result="real", ints=BOOLS),
    keeps("imag", np.imag, complex=True, result="real", floats=False, ints=()),
    keeps(
        "clamp",
        clamped,
        samples=bounds,
        pins=((([-1.0, 1.0, 2.0], -1.0, 1.0), ([1, 1, 0],)),),
    ),
    keeps(
        "nan_to_num",
        nan_replaced,
        samples=without_infinities(unary_with(((), {}))),
        complex=True,
        pins=((([math.nan, math.inf, 1.0],), ([0, 0, 1],)),),
    ),
    u("logit", logit, 0.15, 0.85, complex=True, samples=unary_with(((), {}), ((0.3,), {}))),
    u("softplus", soft_plus, samples=unary_with(((), {}), ((2.0, 1.5), {}))),
]  # fmt: skip

# --- binary --------------------------------------------------------------------------------------

PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ()), ((1,), (3,)), ((0,), (1,)), ((2, 0, 3), (3,)))


def two_operands(make: Make) -> Iterator[Sample]:
    for a, b in PAIRS:
        yield s(make(*a), make(*b))
    yield s(make(3, 2).T, make(2, 6)[:, ::2])
    if make.kind > dtypes.CATEGORY_BOOL:
        yield s(make(2, 3), 2)
        yield s(2, make(3))
    if make.is_complex:
        yield s(make.real(2, 3), make(3))
        yield s(make(2, 1), make.real(3))
    if make.floats:
        yield s(make(3), 1.5)
        yield kink(make.at(*SPECIAL)[:, None], make.at(*SPECIAL))


def b(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    """A row for an elementwise function of two operands whose result has their type."""
    flags = {"op": getattr(binary, name, None), "ints": INTS, **flags}
    return Row(name, ref=ref, samples=flags.pop("samples", two_operands), domain=Domain(*domain), **flags)


def compare(name: str, ref: Callable[..., Any], **flags: Any) -> Row:
    return b(name, ref, -1, 1, **{"result": "bool", "differentiable": False, "ints": BOOLS, **flags})


def bits(name: str, ref: Callable[..., Any], **flags: Any) -> Row:
    return b(name, ref, **{"floats": False, "differentiable": False, "ints": BOOLS, **flags})


def whole_numbers(make: Make) -> Iterator[Sample]:
    return (x for x in two_operands(make) if not any(isinstance(a, float) for a in x.args))


def small_shifts(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(3))
    yield s(make(2, 3), 2)
    yield s(make(), make(2, 1))


def powers(make: Make) -> Iterator[Sample]:
    """Exponents that are tensors for positive bases, and numbers for all."""
    yield from (x for x in two_operands(make) if x.smooth)
    sign = make.at(-1) if make.name != "uint8" else make.at(1)
    for exponent in (0, 1, 2, 3, 4, 5):
        yield s(make(2, 3) * sign, exponent)
    if make.kind >= dtypes.CATEGORY_FLOAT:
        for number in (-1, -2, 0.5, 1.5, -0.5, 0.0):
            yield s(make(2, 3), number)
    if make.floats:
        yield kink(make.at(0.0, 0.0, 0.0), make.at(0.0, 2.0, 0.5))
        yield kink(make.at(*SPECIAL)[:, None], make.at(*SPECIAL))


def with_alpha(make: Make) -> Iterator[Sample]:
    yield from two_operands(make)
    yield s(make(2, 3), make(3), alpha=2)


def with_rounding(make: Make) -> Iterator[Sample]:
    yield from two_operands(make)
    if make.floats:
        yield s(make(2, 3), make(3), rounding_mode="floor")
        yield s(make(2, 3), make(3), rounding_mode="trunc")


def divided(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(np.divide(x, y)) if rounding_mode == "trunc" else np.divide(x, y)


def truncated(x: Any, y: Any) -> Any:
    quotient = np.trunc(np.divide(x, y, dtype=float))
    return quotient if np.result_type(x, y).kind == "f" else quotient.astype(np.result_type(x, y))


def three_operands(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(2, 3), make(2, 3))
    yield s(make(3), make(2, 1), make())
    yield s(make(2, 1), make(3, 2).T[:, :1], make(0, 1, 3))
    yield s(make(2, 3), make(3), make(3), value=2)


def lerps(make: Make) -> Iterator[Sample]:
    yield from (x for x in three_operands(make) if not x.kwargs)
    if make.kind >= dtypes.CATEGORY_FLOAT:
        yield s(make(2, 3), make(3), 0.25)


def choices(make: Make) -> Iterator[Sample]:
    mask = np.array([[True, False, True], [False, False, True]])
    yield s(mask, make(2, 3), make(2, 3))
    yield s(mask, make(3), make(2, 1))
    yield s(mask[0], make(2, 1), make())
    yield s(np.array(True), make(), make(0, 2))
    yield s(mask.T.copy().T, make(2, 3), 2)
    yield s(mask, 2, make(2, 3))
    if make.floats:
        yield kink(mask[0], make.at(math.nan, 1, math.inf), make.at(0, math.nan, 1))


def close_pairs(make: Make) -> Iterator[Sample]:
    yield from two_operands(make)
    x = make(2, 3)
    yield s(x, x.copy())
    if make.floats:
        yield kink(x, x * make.at(1.001), rtol=0.01)
        yield kink(make.at(*SPECIAL), make.at(*SPECIAL), equal_nan=True)


TIE = ((([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]), ([0.5, 0, 1], [0.5, 1, 0])),)
LESS = ((([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]), ([0.5, 1, 0], [0.5, 0, 1])),)

BINARY = [
    b("add", lambda x, y, alpha=1: x + alpha * y, samples=with_alpha, complex=True),
    b("sub", lambda x, y, alpha=1: x - alpha * y, samples=with_alpha, complex=True),
    b("mul", np.multiply, complex=True, ints=BOOLS, samples=whole_numbers),
    b("div", divided, -2, 2, 0.3, samples=with_rounding, result="float", complex=True),
    b("true_divide", np.divide, -2, 2, 0.3, result="float", complex=True),
    b("floor_divide", np.floor_divide, -2, 2, 0.4),
    b("truncated_divide", truncated, -2, 2, 0.4),
    b("remainder", np.remainder, -2, 2, 0.4),
    b("fmod", np.fmod, -2, 2, 0.4),
    b("pow", np.power, 0.3, 2, samples=powers, complex=True),
    b("float_power", np.float_power, 0.3, 2, samples=powers, result="double", complex=True),
    b("atan2", np.arctan2, -2, 2, 0.3, result="float"),
    b("hypot", np.hypot, -2, 2, 0.3, result="float", pins=((([0.0], [0.0]), ([0], [0])),)),
    b("maximum", np.maximum, pins=TIE, ints=BOOLS, samples=whole_numbers),
    b("minimum", np.minimum, pins=LESS, ints=BOOLS, samples=whole_numbers),
    b("fmax", np.fmax, pins=((([1.0, math.nan], [math.nan, 1.0]), ([1, 0], [0, 1])), *TIE)),
    b("fmin", np.fmin, pins=((([1.0, math.nan], [math.nan, 1.0]), ([1, 0], [0, 1])), *LESS)),
    b("logaddexp", np.logaddexp, result="float"),
    b("copysign", np.copysign, -2, 2, 0.1, result="float"),
    b("xlogy", special.xlogy, 0.3, 2, result="float", pins=((([0.0], [2.0]), ([math.log(2)], [0])),)),
    b("gate", lambda x, y: np.where(y > 0, x, 0), -2, 2, 0.1, op=unary.gate,
      samples=lambda make: (s(make(*a), make(*c)) for a, c in PAIRS)),
    compare("eq", np.equal, complex=True),
    compare("ne", np.not_equal, complex=True),
    compare("lt", np.less),
    compare("le", np.less_equal),
    compare("gt", np.greater),
    compare("ge", np.greater_equal),
    compare("logical_and", np.logical_and, complex=True),
    compare("logical_or", np.logical_or, complex=True),
    compare("logical_xor", np.logical_xor, complex=True),
    compare("isclose", np.isclose, samples=close_pairs, complex=True),
    compare("allclose", np.allclose, samples=close_pairs, complex=True, without={"vmap": "it gives a Python bool"}),
    compare("equal", lambda x, y: np.shape(x) == np.shape(y) and bool(np.all(x == y)), samples=two_operands,
            complex=True, without={"vmap": "it gives a Python bool"}),
    bits("bitwise_and", np.bitwise_and, samples=whole_numbers, ints=INTS),
    bits("bitwise_or", np.bitwise_or, samples=whole_numbers, ints=INTS),
    bits("bitwise_xor", np.bitwise_xor, samples=whole_numbers, ints=INTS),
    b("bitwise_left_shift", np.left_shift, 0, 3, samples=small_shifts, floats=False, differentiable=False),
    b("bitwise_right_shift", np.right_shift, 0, 3, samples=small_shifts, floats=False, differentiable=False),
    b("where", np.where, samples=choices, complex=True),
    b("lerp", lambda x, y, w: x + w * (y - x), samples=lerps, complex=True),
    b("addcmul", lambda x, y, z, value=1: x + value * y * z, samples=three_operands, complex=True),
    b("addcdiv", lambda x, y, z, value=1: x + value * y / z, -2, 2, 0.4, samples=three_operands, complex=True,
      result="float"),
]  # fmt: skip
ROWS = UNARY + BINARY
