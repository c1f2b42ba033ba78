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
from scipy import stats

import lucid
from lucid.api import indexing, names
from lucid.api.methods import method_table
from lucid.api.names import having
from lucid.core import dtypes
from lucid.core.primitive import P
from lucid.ops import binary, unary
from lucid.ops.contraction import labelled

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


WIDE = Domain()


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
        """Values far from each other, in random order: nothing is tied (but booleans)."""
        count = math.prod(shape)
        values = np.linspace(-2, 2, count) + 0.05 if self.kind >= dtypes.CATEGORY_FLOAT else np.arange(count) % 100
        values = self.rng.permutation(values).reshape(shape)
        return np.asarray(values + 1j * self(*shape).imag if self.is_complex else values).astype(self.dtype)


Samples = Callable[[Make], Iterable[Sample]]
METHODS = method_table()
# Other names of operations -> the name that they are declared by.
ALIASES = {
    alias: row.name for row in having("method") for alias in row.names[1:] if alias != "to_numpy" and alias[-1] != "_"
}


def named(name: str) -> Any:
    """An operation by its public name, or by its name among the elementwise ones."""
    row = names.listed().get(name)
    if row is not None and not row.home.startswith("lucid.array_api"):  # whose `repeat` is another one
        return getattr(lucid, name)
    return next((place[name] for place in (METHODS, vars(unary), vars(binary)) if name in place), None)


@dataclass(frozen=True)
class Row:
    name: str
    op: Callable[..., Any]
    ref: Callable[..., Any]
    samples: Samples
    domain: Domain = WIDE
    # The type of the results: "keep" (the operands'), "float" (integers give the default float), "sum" (integers give
    # int64), "real" (of complex), or a name; one for each result, or one for all.
    result: str | tuple[str, ...] = "keep"
    differentiable: bool = True
    complex: bool = False
    floats: bool = True
    halves: bool = True  # float16 and bfloat16 too; LAPACK does not have them
    ints: tuple[str, ...] = ()
    # Kinds of operands that vmap cannot batch, because the result's shape depends on their values.
    unbatched: str = ""
    # The first operand is written into, so vmap must batch it if it batches anything.
    inplace: bool = False
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
    flags = {"op": named(name), "result": "float", "ints": BOOLS, **flags}
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


def clamped(x: Array, min: Any = None, max: Any = None) -> Array:
    x = x.astype(np.int64) if x.dtype.kind in "iu" else x
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def bounds(make: Make) -> Iterator[Sample]:
    if make.kind < dtypes.CATEGORY_FLOAT:
        yield s(make(2, 3), 1, 2)
        return
    yield s(make(2, 3), -0.5, 0.5)
    yield s(make(3, 2).T, min=-1.0)
    yield s(make(), max=0.25)
    yield s(make(0, 2), 0.0, 1.0)
    yield s(make(2, 3), make(3) - make.at(2), make(2, 1) + make.at(2))
    yield s(make(3), None, make(2, 3))
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


def logits(make: Make) -> Iterator[Sample]:
    yield from one_operand(make)
    if not make.is_complex:
        yield s(make(2, 3), 0.3)


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
    u("sinc_derivative", sinc_slope, -3, 3, complex=True, samples=lambda make: (x
      for x in one_operand(make) if x.smooth)),
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
    keeps("sgn", np.sign, -2, 2, 0.2, complex=True),
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
    u("logit", logit, 0.15, 0.85, complex=True, samples=logits),
    u("softplus", soft_plus, samples=unary_with(((), {}), ((2.0, 1.5), {}))),
]  # fmt: skip

# --- binary --------------------------------------------------------------------------------------

PAIRS = (
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((2, 3), ()),
    ((1,), (3,)),
    ((0,), (1,)),
    ((2, 0, 3), (3,)),
)


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
    flags = {"op": named(name), "ints": INTS, **flags}
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


def quotient_rounded_down(x: Array, y: Array) -> Array:
    """The array API standard's: infinity divided by a finite number is infinite, where NumPy and Python have nan."""
    is_lost = np.isinf(x) & np.isfinite(y)
    return np.where(is_lost, np.true_divide(x, y), np.floor_divide(x, y)).astype(np.result_type(x, y))


def log_of_sum(x: Any, y: Any) -> Any:
    return np.log(np.exp(x) + np.exp(y)) if np.result_type(x, y).kind == "c" else np.logaddexp(x, y)


TIE = ((([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]), ([0.5, 0, 1], [0.5, 1, 0])),)
LESS = ((([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]), ([0.5, 1, 0], [0.5, 0, 1])),)

BINARY = [
    b("add", lambda x, y, alpha=1: x + alpha * y, samples=with_alpha, complex=True),
    b("sub", lambda x, y, alpha=1: x - alpha * y, samples=with_alpha, complex=True),
    b("mul", np.multiply, complex=True, ints=BOOLS, samples=whole_numbers),
    b("div", divided, -2, 2, 0.3, samples=with_rounding, result="float", complex=True),
    b("true_divide", np.divide, -2, 2, 0.3, result="float", complex=True),
    b("floor_divide", quotient_rounded_down, -2, 2, 0.4),
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
    b("logaddexp", log_of_sum, result="float", complex=True),
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

# --- reductions and scans ------------------------------------------------------------------------

ALL_DIMS: tuple[dict[str, Any], ...] = (
    {},
    {"dim": 0},
    {"dim": -1, "keepdim": True},
    {"dim": (0, 2)},
    {"dim": [-1, 0], "keepdim": True},
)
ONE_DIM: tuple[dict[str, Any], ...] = ({"dim": 0}, {"dim": -1}, {"dim": 1, "keepdim": True})


def reduced(make: Make) -> Iterator[Sample]:
    """Every way to name dimensions, on tensors with something to reduce."""
    for kwargs in ALL_DIMS:
        yield s(make.spread(2, 1, 3), **kwargs)
    yield s(make.spread(3, 2).T, dim=1)
    yield s(make.spread(2, 6)[:, ::2], dim=0)
    yield s(make())
    yield s(make(), dim=-1)
    yield s(make(1, 1), dim=1)
    yield s(make(2, 0), dim=0)


def with_empty(make: Make) -> Iterator[Sample]:
    """Also over no elements."""
    yield from reduced(make)
    yield s(make(0))
    yield s(make(2, 0), dim=1)


def random_values(samples: Samples) -> Samples:
    """The samples with random numbers in the place of well separated ones, for types that cannot hold those."""

    def redrawn(make: Make) -> Iterator[Sample]:
        for x in samples(make):
            yield x._replace(args=(make(*x.args[0].shape), *x.args[1:]))

    return redrawn


def with_points(samples: Samples, *points: Any, smooth: bool = True, **kwargs: Any) -> Samples:
    """Samples and awkward points: zeros for products, ties for choices, nan and infinities."""

    def both(make: Make) -> Iterator[Sample]:
        yield from samples(make)
        for point in points if make.floats or (smooth and make.is_complex) else ():
            yield Sample((make.at(*point),), kwargs, smooth)

    return both


def numpy_reduction(ref: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy reduction with our names; 0-d arrays have nothing to reduce."""

    def call(x: Array, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        axis = tuple(dim) if isinstance(dim, list | tuple) else dim
        return ref(x, axis=axis if x.ndim else None, keepdims=keepdim and x.ndim > 0, **kwargs)

    return call


def r(name: str, ref: Callable[..., Any], *domain: float, **flags: Any) -> Row:
    flags = {"samples": reduced, "op": named(name), **flags}
    return Row(name, ref=numpy_reduction(ref), domain=Domain(*domain), **flags)


def chosen(values: Callable[..., Any], positions: Callable[..., Any]) -> Callable[..., Any]:
    """max and min: elements alone, or with their places along one dimension."""

    def call(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return values(x)
        axis = dim if x.ndim else None
        keep = keepdim and x.ndim > 0
        return values(x, axis=axis, keepdims=keep), positions(x, axis=axis, keepdims=keep)

    return call


def along_one(make: Make) -> Iterator[Sample]:
    for kwargs in ONE_DIM:
        yield s(make.spread(2, 3), **kwargs)
    yield s(make.spread(3, 2).T, dim=1)
    yield s(make(), dim=0)
    yield s(make(2, 1), dim=1)
    yield s(make(0, 3), dim=1)
    if make.floats:
        yield kink(make.at(1, 3, 3, 2), dim=0)
        yield kink(make.at(1, math.nan, 3, 2), dim=0)


def scanned(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), dim=0)
    yield s(make(2, 3), dim=-1)
    yield s(make(3, 1, 2).T, dim=1)
    yield s(make(2, 6)[:, ::2], dim=1)
    yield s(make(), dim=0)
    yield s(make(3), dim=0)
    yield s(make(0), dim=0)
    yield s(make(2, 0), dim=0)


def chooser_scans(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), dim=0)
    yield s(make.spread(3, 2).T, dim=-1)
    yield s(make(), dim=0)
    yield s(make(2, 0), dim=0)
    if make.floats:
        yield kink(make.at(1, 3, 3, 2, 3, 4), dim=0)


def numpy_scan(ref: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim: ref(x, axis=dim) if x.ndim else x


def running(ufunc: np.ufunc, later_wins: Callable[..., Any]) -> Callable[..., Any]:
    """The running extreme and where it stands; of equal elements the last counts."""

    def call(x: Array, dim: int) -> Any:
        if not x.ndim:
            return x, np.array(0)
        front = np.moveaxis(x, dim, 0)
        places = np.zeros(front.shape, np.int64)
        for i in range(1, len(front)):
            best = np.take_along_axis(front, places[i - 1 : i], 0)[0]
            places[i] = np.where(later_wins(front[i], best), i, places[i - 1])
        return ufunc.accumulate(x, axis=dim), np.moveaxis(places, 0, dim)

    return call


def p_norm(x: Array, p: Any = 2, axis: Any = None, keepdims: bool = False) -> Array:
    size = np.abs(x)
    p = 2 if p == "fro" else p
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keepdims)
    if p == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdims).astype(size.dtype)
    return np.sum(size**p, axis=axis, keepdims=keepdims) ** (1 / p)


def norms(make: Make) -> Iterator[Sample]:
    yield from with_empty(make)
    for p in (2, "fro", 1, 0, 3, 0.5, -1, math.inf, -math.inf):
        yield s(make.spread(2, 3), p)
        yield s(make.spread(2, 3), p, dim=-1, keepdim=True)


def log_sums(make: Make) -> Iterator[Sample]:
    yield from reduced(make)
    yield kink(make(0))
    yield kink(make(2, 0), dim=1)


def log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Array:
    return (
        special.logsumexp(x, axis=axis, keepdims=keepdims)
        if x.size
        else np.log(np.sum(x, axis=axis, keepdims=keepdims))
    )


def variances(make: Make) -> Iterator[Sample]:
    yield from (x for x in with_empty(make) if math.prod(x.args[0].shape) != 1)
    yield s(make(2, 3), 1, False)
    yield s(make(2, 3), dim=0, correction=0)
    yield s(make(2, 3), False)
    yield kink(make(1, 3), dim=0)


def mean(x: Array, axis: Any, keepdims: bool) -> Array:
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return total / np.divide(x.size, total.size)


def variance(x: Array, axis: Any, keepdims: bool, unbiased: bool = True, correction: Any = None) -> Array:
    less = int(unbiased) if correction is None else correction
    count = x.size if axis is None else math.prod(np.array(x.shape)[list(np.atleast_1d(axis))])
    centred = np.abs(x - mean(x, axis, True)) ** 2
    return np.sum(centred, axis=axis, keepdims=keepdims) / max(count - less, 0)


def with_unbiased(ref: Callable[..., Any]) -> Callable[..., Any]:
    inner = numpy_reduction(ref)

    def call(x: Array, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **kwargs: Any) -> Any:
        dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
        return inner(x, dim, keepdim, unbiased=unbiased, **kwargs)

    return call


ZEROS = ([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0], [1.0, 2.0, 3.0], [1.0, 2.0, 0.0]],)
NANS = ([[1.0, math.nan, 3.0], [math.nan, math.nan, 2.0]],)
INFINITE = ([[-math.inf, 0.0, 1.0], [-math.inf, -math.inf, -math.inf], [math.inf, 0.0, -math.inf]],)
VALUES_INDICES = ("keep", "int64")

REDUCTIONS = [
    r("sum", np.sum, result="sum", samples=random_values(with_empty), complex=True, ints=BOOLS),
    r("mean", mean, samples=with_empty, complex=True),
    r("prod", np.prod, result="sum", complex=True, ints=BOOLS,
      samples=with_points(with_points(random_values(with_empty), *ZEROS, dim=1), *ZEROS)),
    r("amax", np.max, ints=BOOLS, samples=with_points(reduced, *NANS, smooth=False),
      pins=((([1.0, 3.0, 3.0, 3.0],), ([0, 1 / 3, 1 / 3, 1 / 3],)),)),
    r("amin", np.min, ints=BOOLS, samples=with_points(reduced, *NANS, smooth=False),
      pins=((([1.0, 1.0, 3.0],), ([0.5, 0.5, 0],)),)),
    Row("max", lucid.max, chosen(np.max, np.argmax), along_one, result=VALUES_INDICES, ints=BOOLS,
        pins=((([1.0, 3.0, 3.0], 0), ([0, 1, 0],)),)),
    Row("min", lucid.min, chosen(np.min, np.argmin), along_one, result=VALUES_INDICES, ints=BOOLS,
        pins=((([3.0, 1.0, 1.0], 0), ([0, 1, 0],)),)),
    r("argmax", np.argmax, result="int64", differentiable=False, ints=BOOLS, samples=along_one),
    r("argmin", np.argmin, result="int64", differentiable=False, ints=BOOLS, samples=along_one),
    Row("var", lucid.var, with_unbiased(variance), variances, result="float real", complex=True, ints=BOOLS),
    Row("std", lucid.std, with_unbiased(lambda *a, **k: np.sqrt(variance(*a, **k))), variances, result="float real",
        complex=True, ints=BOOLS, pins=((([2.0, 2.0, 2.0],), ([0, 0, 0],)),)),
    Row("norm", lucid.norm,
        lambda x, p=2, dim=None, keepdim=False: numpy_reduction(p_norm)(x, dim, keepdim, p=p),
        norms, result="real", complex=True, domain=Domain(-2, 2, 0.1), pins=((([0.0, 0.0],), ([0, 0],)),)),
    r("logsumexp", log_sum_exp, complex=True, result="float", ints=BOOLS,
      samples=with_points(log_sums, *INFINITE, smooth=False, dim=1)),
    r("all", np.all, -1, 1, result="bool", differentiable=False, samples=random_values(with_empty), complex=True,
      ints=BOOLS),
    r("any", np.any, -1, 1, result="bool", differentiable=False, samples=random_values(with_empty), complex=True,
      ints=BOOLS),
    r("count_nonzero", np.count_nonzero, -1, 1, result="int64", differentiable=False, complex=True, ints=BOOLS,
      samples=lambda make: (x for x in random_values(with_empty)(make) if "keepdim" not in x.kwargs)),
    r("nansum", np.nansum, result="sum", ints=BOOLS, complex=True, samples=with_points(random_values(with_empty),
      *NANS, dim=1)),
    r("nanmean", lambda x, axis, keepdims: np.nansum(x, axis=axis, keepdims=keepdims) / np.sum(~np.isnan(x),
      axis=axis, keepdims=keepdims),
      complex=True, samples=with_points(with_empty, *NANS, dim=1)),
    Row("cumsum", lucid.cumsum, numpy_scan(np.cumsum), scanned, result="sum", complex=True, ints=BOOLS),
    Row("cumprod", lucid.cumprod, numpy_scan(np.cumprod), with_points(scanned, *ZEROS, dim=1), result="sum",
        complex=True, ints=BOOLS),
    Row("logcumsumexp", lucid.logcumsumexp, numpy_scan(lambda x, axis: np.log(np.cumsum(np.exp(x), axis))
        if x.dtype.kind == "c" else np.logaddexp.accumulate(x, axis=axis)),
        with_points(scanned, *INFINITE, smooth=False, dim=1), complex=True),
    Row("cummax", lucid.cummax, running(np.maximum, np.greater_equal), chooser_scans, result=VALUES_INDICES, ints=INTS),
    Row("cummin", lucid.cummin, running(np.minimum, np.less_equal), chooser_scans, result=VALUES_INDICES, ints=INTS),
]  # fmt: skip

# --- shapes --------------------------------------------------------------------------------------

ANY_TYPE: dict[str, Any] = {"complex": True, "ints": BOOLS}


def calls(*samples: tuple[Any, ...]) -> Samples:
    """Samples written as (shape, arguments…, keywords?); the tensor comes first. A shape in reverse order is one
    that `make` is asked for and then transposed: ("T", 3, 2) is a (2, 3) tensor with strides of a (3, 2)."""

    def made(make: Make) -> Iterator[Sample]:
        for shape, *args in samples:
            kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
            x = make(*shape[1:]).T if shape[:1] == ("T",) else make(*shape)
            yield Sample((x, *args), kwargs)

    return made


def v(name: str, ref: Callable[..., Any], *samples: tuple[Any, ...], **flags: Any) -> Row:
    return Row(name, named(name), ref, calls(*samples), **{**ANY_TYPE, **flags})


def pieces(ref: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: tuple(ref(*args, **kwargs))


def split_up(x: Array, size: Any, dim: int = 0) -> Any:
    n = x.shape[dim]
    cuts = list(range(size, n, size or 1)) if isinstance(size, int) else list(np.cumsum(size)[:-1])
    return tuple(np.split(x, cuts, dim))


def chunks(x: Array, count: int, dim: int = 0) -> Any:
    if not x.shape[dim]:
        return (x,) * count
    return split_up(x, max(1, -(-x.shape[dim] // count)), dim)


def windows(x: Array, dim: int, size: int, step: int) -> Array:
    if not x.ndim:
        return x.reshape(1)[:size]
    dim %= x.ndim
    seen = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return np.moveaxis(np.moveaxis(seen, dim, 0)[::step], 0, dim)


def embedded(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    at = np.arange(x.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def unflattened(x: Array, dim: int, sizes: tuple[int, ...]) -> Array:
    sizes = np.empty(x.shape[dim]).reshape(sizes).shape  # a size of -1 follows from this dimension alone
    return np.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim:][1:]))


def squeezed(x: Array, dim: Any = None) -> Array:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    places = [d % x.ndim for d in dims if x.ndim]
    return x.reshape([n for d, n in enumerate(x.shape) if n != 1 or d not in places])


def expanded(x: Array, sizes: tuple[int, ...]) -> Array:
    extra = len(sizes) - x.ndim
    return np.broadcast_to(x, [x.shape[d - extra] if n == -1 else n for d, n in enumerate(sizes)])


def on_vectors(ref: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that takes 0-d arrays as vectors of one element, as operations along dimensions do."""

    def call(x: Array, *args: Any, **kwargs: Any) -> Any:
        out = ref(x if x.ndim else x.reshape(1), *args, **kwargs)
        return out if x.ndim or out.size != 1 else out.reshape(())

    return call


def flat_between(x: Array, start: int = 0, end: int = -1) -> Array:
    shape = x.shape or (1,)
    end %= len(shape)
    return x.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def rolled(x: Array, shifts: Any, dim: Any = None, dims: Any = None) -> Array:
    return np.roll(x, shifts, dims if dims is not None else dim)


def pairs(*shapes: tuple[tuple[int, ...], ...]) -> Samples:
    """Samples of several tensors of the shapes given."""
    return lambda make: (s(*[make(*shape) for shape in one]) for one in shapes)


SHAPES = [
    v("reshape", np.reshape, ((2, 3), (3, 2)), ((2, 3), (-1,)), ((), (1, 1)), (("T", 3, 2), (6,)), ((0, 3), (3, 0))),
    v("view", np.reshape, ((2, 3), (3, 2)), ((2, 3), (-1,)), ((), (1,)), ((1, 3), (3,))),
    v("flatten", flat_between, ((2, 3),), ((2, 1, 3), 1), (("T", 2, 3), 0, 1), ((),), ((2, 0),)),
    v("ravel", lambda x: x.reshape(-1), ((2, 3),), (("T", 2, 3),), ((),)),
    v("unflatten", unflattened,
      ((2, 6), 1, (2, 3)), ((6,), 0, (-1, 2)), ((0, 6), 1, (3, 2))),
    v("squeeze", squeezed, ((1, 2, 1),), ((1, 2, 1), 0), ((1, 2, 1), (0, -1)), ((),), ((1, 0),)),
    v("unsqueeze", np.expand_dims, ((2, 3), 0), ((2, 3), -1), ((), 0), (("T", 2, 3), 1)),
    v("expand_dims", np.expand_dims, ((2, 3), 1)),
    v("permute", np.transpose, ((2, 1, 3), (2, 0, 1)), ((2, 3), (-1, 0)), ((), ()), ((0, 2), (1, 0))),
    *[v(name, on_vectors(np.swapaxes), ((2, 1, 3), 0, 2), ((2, 3), -1, -2), (("T", 2, 3), 0, 1)) for name in
      ("transpose", "swapaxes", "swapdims")],
    v("t", np.transpose, ((2, 3),), ((3,),), ((),)),
    *[v(name, np.moveaxis, ((2, 1, 3), 0, -1), ((2, 1, 3), (0, 1), (2, 0))) for name in ("movedim", "moveaxis")],
    v("expand", expanded, ((1, 3), (2, 3)), ((3,), (2, 2, 3)), ((), (2,)), ((2, 1), (0, 2, 3))),
    v("broadcast_to", expanded, ((1, 3), (2, 3)), ((3,), (2, 2, 3)), ((), (2,)), ((2, 1), (2, 0))),
    *[Row(name, named(name), ref, pairs(*shapes), **ANY_TYPE) for name, ref, shapes in (
        ("view_as", lambda x, y: x.reshape(y.shape), (((2, 3), (3, 2)), ((), (1,)))),
        ("reshape_as", lambda x, y: x.reshape(y.shape), (((2, 3), (3, 2)), ((), (1,)))),
        ("expand_as", lambda x, y: np.broadcast_to(x, y.shape), (((1, 3), (2, 3)), ((), (2,)))),
        ("broadcast_tensors", pieces(np.broadcast_arrays), (((2, 1), (3,)), ((), (2, 0)), ((2, 1), (1, 3), (1,)))),
        ("meshgrid", pieces(lambda *xs: np.meshgrid(*xs, indexing="ij")), (((2,), (3,)), ((3,), (), (2,)), ((0,),
        (2,)))),
    )],
    Row("meshgrid_xy", lambda *xs: lucid.meshgrid(*xs, indexing="xy"), pieces(np.meshgrid),
        pairs(((2,), (3,)), ((2,), (3,), (2,))), **ANY_TYPE),
    v("repeat", np.tile, ((2, 3), (2, 1)), ((3,), (2, 2)), ((), (2,)), ((2, 3), (0, 1)), (("T", 3, 2), (1, 2))),
    v("tile", np.tile, ((2, 3), (2, 1)), ((2, 3), (2,)), ((3,), (2, 2)), ((), (2,))),
    v("repeat_interleave", lambda x, n, dim=None, output_size=None: np.repeat(x, n, dim),
      ((2, 3), np.array([2, 1]), {"dim": 0, "output_size": 3}),
      ((2, 3), 2), ((2, 3), 2, {"dim": 1}), ((2, 3), np.array([1, 0, 2]), {"dim": -1}), ((0, 3), 2, {"dim": 0}),
      unbatched="i"),
    v("flip", on_vectors(lambda x, dims: np.flip(x, dims)), ((2, 3), (0,)), ((2, 3), {"dims": (1,)}), ((2, 3), (0, -1)), ((2, 0), (1,)), (("T", 2, 3), (1,))),
    v("fliplr", np.fliplr, ((2, 3),)),
    v("flipud", np.flipud, ((2, 3),), ((3,),)),
    v("roll", rolled, ((2, 3), 1), ((2, 3), -2, 1), ((2, 3), (1, 2), (0, 1)), ((0, 3), 1, 0), ((2, 3), 1, {"dims": 0})),
    v("rot90", np.rot90, ((2, 3),), ((2, 3), 2), ((2, 3), -1), ((2, 1, 3), 1, (1, 2)), ((2, 3), 4)),
    v("narrow", lambda x, dim, start, length: np.take(x, range(start, start + length), dim),
      ((2, 3), 1, 1, 2), ((2, 3), 0, 0, 0), (("T", 2, 3), -2, 1, 2)),
    v("select", lambda x, dim, i: np.take(x, i, dim), ((2, 3), 1, 1), ((2, 3), 0, -1), ((3,), 0, 2), (("T", 2, 3),
      -1, 0)),
    v("unbind", lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)), ((2, 3),), ((2, 3), 1), ((2, 1, 3), -1), ((2, 0),)),
    v("split", split_up, ((2, 3), 2, 1), ((3, 2), 2), ((2, 3), (1, 0, 2), 1), ((2, 3), 5)),
    v("chunk", chunks, ((3, 2), 2), ((2, 3), 2, 1), ((2, 3), 7, 1)),
    v("tensor_split", pieces(np.array_split), ((3, 2), 2), ((2, 3), 4, 1), ((2, 3), (1, 2), 1), ((3,), (2, 1)),
      ((5,), np.array([1, 3])), unbatched="i"),
    v("unfold", windows, ((5,), 0, 2, 1), ((2, 5), 1, 3, 2), ((5, 2), 0, 2, 3), ((2, 3), -1, 1, 1), ((), 0, 1, 1)),
    v("diagonal", np.diagonal, ((2, 3),), ((3, 2), 1), ((2, 3, 2), -1, 1, 2), ((2, 3, 3), 0, -1, 0), ((0, 3),), ((2,
      2), 5)),
    v("diag_embed", embedded, ((3,),), ((2, 3), 1), ((2, 3), -1, 0, 2), ((2, 0),), ((2, 3), 0, 1, 0)),
    v("diag", np.diag, ((3,),), ((3,), -1), ((2, 3),), ((3, 2), 1)),
    v("tril", np.tril, ((2, 3),), ((3, 2), 1), ((2, 3, 3), -1), (("T", 2, 3),), ((0, 2),)),
    v("triu", np.triu, ((2, 3),), ((3, 2), 1), ((2, 3, 3), -1), (("T", 2, 3),), ((0, 2),)),
    v("clone", np.copy, ((2, 3),), ((),), (("T", 2, 3),), ((0,),)),
    v("contiguous", lambda x: np.copy(x, order="C"), ((2, 3),), (("T", 2, 3),), ((0, 2),)),
    v("detach", np.copy, ((2, 3),), ((),), (("T", 2, 3),), differentiable=False),
]  # fmt: skip

# --- contractions --------------------------------------------------------------------------------


def c(name: str, ref: Callable[..., Any], *shapes: tuple[tuple[int, ...], ...], **flags: Any) -> Row:
    samples = flags.pop("samples", pairs(*shapes))
    return Row(name, named(name), ref, samples, **{"complex": True, "ints": INTS, **flags})


def products(make: Make) -> Iterator[Sample]:
    for x, y in (
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3, 2)), ((3, 2), (2, 2, 3)),
        ((2, 2, 3), (3,)), ((3,), (2, 3, 1)), ((2, 1, 2, 3), (3, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
        ((1, 2, 3), (2, 3, 1)),
    ):  # fmt: skip
        yield s(make(*x), make(*y))
    yield s(make(3, 2).T, make(2, 3).T)
    yield s(make(2, 6)[:, ::2], make(2, 3).T)
    if make.is_complex:
        yield s(make.real(2, 3), make(3, 2))
        yield s(make(2, 3), make.real(3))


EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 2))), ("ij,jk", ((2, 3), (3, 2))), ("i,i", ((3,), (3,))), ("i,j->ij", ((2,), (3,))),
    ("ij->ji", ((2, 3),)), ("ij->", ((2, 3),)), ("ij->j", ((2, 3),)), ("ii->i", ((3, 3),)), ("ii", ((3, 3),)),
    ("iij->ij", ((2, 2, 3),)), ("iji->j", ((2, 3, 2),)), ("...ij,...jk->...ik", ((2, 2, 3), (3, 2))),
    ("...i,...i->...", ((2, 3), (3,))), ("bij,bjk,bkl->bil", ((2, 2, 3), (2, 3, 1), (2, 1, 2))),
    ("ij,j->i", ((2, 3), (3,))), ("i...,i->...", ((3, 2), (3,))), ("ij,ij->ij", ((2, 3), (2, 3))),
    (",ij->ij", ((), (2, 3))), ("ij,kj->ik", ((0, 3), (2, 3))), ("ij,jk->ik", ((2, 0), (0, 3))),
    ("ii,i->i", ((3, 3), (3,))),
    ("i,j->", ((2,), (3,))), ("ii,jj->ij", ((2, 2), (3, 3))),
)  # fmt: skip


def equations(make: Make) -> Iterator[Sample]:
    for equation, shapes in EQUATIONS:
        yield s(equation, *[make(*shape) for shape in shapes])
    yield s("ij,jk->ik", make(3, 2).T, make(2, 3).T)


def tensor_products(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(3, 2), 1)
    yield s(make(2, 1, 3), make(1, 3, 2))
    yield s(make(2, 3), make(3, 2), dims=([0, 1], [1, 0]))
    yield s(
        make(2, 3),
        make(
            2,
        ),
        dims=([-2], [0]),
    )
    yield s(make(2), make(3), 0)
    yield s(make(2, 0), make(0, 3), 1)
    yield s(make(1, 1, 3), make(2, 1, 3), dims=([0, 1], [2, 0]))
    yield s(make(2, 3), make(1, 2), dims=([1, 0], [0, 1]))


def tensor_dot(x: Array, y: Array, dims: Any = 2) -> Array:
    """With sizes of 1 that stand for any."""
    left, right = (range(x.ndim - dims, x.ndim), range(dims)) if isinstance(dims, int) else dims
    for i, j in zip(left, right, strict=True):
        n, m = x.shape[i], y.shape[j]
        x = np.repeat(x, m, i) if n == 1 else x
        y = np.repeat(y, n, j) if m == 1 else y
    return np.tensordot(x, y, dims)


def matrix_sums(*shapes: tuple[int, ...]) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        yield s(*[make(*shape) for shape in shapes])
        yield s(make(shapes[0][-1]), *[make(*shape) for shape in shapes[1:]], beta=2, alpha=3)
        yield s(*[make(*shape) for shape in shapes], beta=0)

    return samples


def matrix_sum(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = alpha * np.matmul(a, b)
    return beta * np.broadcast_to(x, product.shape) + product


def crosses(make: Make) -> Iterator[Sample]:
    yield s(make(3), make(3))
    yield s(make(2, 3), make(3), dim=-1)
    yield s(make(3, 2), make(3, 2))
    yield s(make(3, 2).T, make(2, 3), dim=1)
    yield s(make(0, 3), make(3), dim=1)


def cross(x: Array, y: Array, dim: int | None = None) -> Array:
    x, y = np.broadcast_arrays(x, y)
    return np.cross(x, y, axis=x.shape.index(3) if dim is None else dim)


CONTRACTIONS = [
    c("matmul", np.matmul, samples=products),
    c("einsum", np.einsum, samples=equations),
    c("mm", np.matmul, ((2, 3), (3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 2))),
    c("bmm", np.matmul, ((2, 2, 3), (2, 3, 1)), ((0, 2, 3), (0, 3, 1))),
    c("mv", np.matmul, ((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))),
    c("dot", lambda x, y: np.sum(x * y, dtype=x.dtype), ((3,), (3,)), ((0,), (0,)), ((1,), (1,))),
    c("inner", np.inner, ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((), (2, 3)), ((2, 1, 3), (2, 3)), ((2, 0),
      (3, 0))),
    c("outer", np.outer, ((2,), (3,)), ((0,), (3,)), ((1,), (1,))),
    c("tensordot", tensor_dot, samples=tensor_products),
    c("kron", np.kron, ((2, 3), (3, 2)), ((3,), (2, 2)), ((), (2,)), ((2, 1), (2,))),
    c("cross", cross, samples=crosses),
    c("trace", lambda x: np.sum(np.diagonal(x)), ((2, 3),), ((3, 3),), ((0, 2),), result="sum"),
    c("addmm", matrix_sum, samples=matrix_sums((2, 2), (2, 3), (3, 2))),
    c("baddbmm", matrix_sum, samples=matrix_sums((2, 2, 1), (2, 2, 3), (2, 3, 1))),
]  # fmt: skip

# --- joining -------------------------------------------------------------------------------------


def j(name: str, ref: Callable[..., Any], *samples: tuple[Any, ...], **flags: Any) -> Row:
    """Samples written as (shapes, arguments…)."""

    def made(make: Make) -> Iterator[Sample]:
        for shapes, *args in samples:
            yield s([make(*shape) for shape in shapes], *args)
        first = samples[0][0][0]
        yield s((make(*first[::-1]).T, make(*first)), *samples[0][1:])

    return Row(name, named(name), ref, made, **{**ANY_TYPE, **flags})


def joined(arrays: Any, axis: int = 0) -> Array:
    """Vectors without elements may stand beside arrays of any shape."""
    return np.concatenate([a for a in arrays if a.shape != (0,)] or arrays, axis)


def side_by_side(arrays: Any) -> Array:
    arrays = [np.atleast_1d(a) for a in arrays]
    return joined(arrays, 0 if arrays[0].ndim == 1 else 1)


CATS = ((((2, 3), (1, 3)),), (((2, 1), (2, 3), (2, 0)), 1), (((2, 3), (2, 1)), -1), (((3,),),))
JOINING = [
    *[j(name, joined, *CATS) for name in ("cat", "concat", "concatenate")],
    j("stack", np.stack, (((2, 3), (2, 3)),), (((2, 3), (2, 3), (2, 3)), -1), (((), ()),), (((2, 0), (2, 0)), 1)),
    j("hstack", side_by_side, (((2, 3), (2, 1)),), (((3,), (2,)),), (((), (2,)),)),
    j("vstack", np.vstack, (((2, 3), (1, 3)),), (((3,), (3,)),), (((3,), (2, 3)),)),
    j("dstack", np.dstack, (((2, 3), (2, 3)),), (((3,), (3,)),), (((2, 3, 1), (2, 3, 2)),)),
]

# --- indexing ------------------------------------------------------------------------------------


def keys() -> Iterator[tuple[tuple[int, ...], Any]]:
    """Shapes and keys: integers, slices, None, Ellipsis, integer arrays and masks, next to each other and apart."""
    i, k = np.array([1, 0, 1]), np.array([[0], [-1]])
    rows = np.array([True, False])
    whole = np.array([[True, False, True], [False, True, False]])
    yield (3,), 1
    yield (3,), slice(None, None, 2)
    yield (2, 3), (slice(None), 1)
    yield (2, 3), (..., None, -1)
    yield (2, 3), (slice(1, None), slice(None, None, -1))
    yield (2, 3), ()
    yield (), ...
    yield (), None
    yield (0, 3), (slice(None), 1)
    yield (2, 3), i
    yield (2, 3), (slice(None), i)
    yield (2, 3), (k, i)
    yield (2, 1, 3), (i, slice(None), i)
    yield (2, 1, 3), (slice(None), 0, i)
    yield (2, 3, 2), (0, slice(None), i)
    yield (2, 3, 2), (slice(None), i, k)
    yield (2, 3), (k,)
    yield (2, 3), (None, i, ..., None)
    yield (2, 3), np.zeros(0, np.int64)
    yield (2, 3), rows
    yield (2, 3), whole
    yield (2, 3), (rows, slice(1, None))
    yield (2, 3), (slice(None), np.array([True, False, True]))
    yield (2, 3), np.zeros((2, 3), bool)
    yield (2, 2, 3), (slice(None), whole)


def reads(make: Make) -> Iterator[Sample]:
    for shape, key in keys():
        yield s(make(*shape), key)
    yield s(make(3, 2).T, (slice(None), np.array([2, 0, 2])))


def writes(make: Make) -> Iterator[Sample]:
    for shape, key in keys():
        x = make(*shape)
        yield s(x, _unrepeated(key), make(*np.shape(read(x, _unrepeated(key)))))
    yield s(make(2, 3), (slice(None), np.array([2, 0])), make())
    yield s(make(2, 3), (slice(None), np.array([2, 0])), make(2))
    yield s(make(2, 3), (slice(None), slice(1, None)), make(2, 1))
    yield s(make(3), np.array([0, 1, 0]), make(3))


def _unrepeated(key: Any) -> Any:
    """Integer arrays that name each place once."""
    if isinstance(key, tuple):
        return tuple(_unrepeated(item) for item in key)
    return np.unique(key) if isinstance(key, Array) and key.dtype.kind == "i" and key.ndim == 1 else key


def integers_first(key: Any) -> tuple[Any, Any]:
    """A key as two: as in PyTorch, and not in NumPy, integers beside arrays select before the arrays are looked at."""
    if not isinstance(key, tuple) or not any(isinstance(k, Array) for k in key):
        return (), key
    first: list[Any] = []
    then = [item for item in key if not isinstance(item, int)]
    for item in key:
        if item is Ellipsis:
            break
        masks = isinstance(item, Array) and item.dtype == bool
        first += [item] if isinstance(item, int) else [slice(None)] * (item.ndim if masks else item is not None)
    return tuple(first), tuple(then)


def read(x: Array, key: Any) -> Array:
    first, then = integers_first(key)
    return x[(*first, ...)][then]


def write(x: Array, key: Any, value: Any) -> Array:
    out = x.copy()
    first, then = integers_first(key)
    out[(*first, ...)][then] = value
    return out


def setitem(x: Any, key: Any, value: Any) -> Any:
    """`x[key] = value` as a function."""
    out = x.clone()
    out[key] = value
    return out


def taken_along(x: Array, i: Array, dim: int | None = None) -> Array:
    if dim is None:
        return x.reshape(-1)[i.reshape(-1)]
    return np.take_along_axis(x, i, axis=dim) if x.ndim else x.reshape(1)[i]


def along(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), np.array([[0, 2], [1, 1]]), 1)
    yield s(make(2, 3), np.array([[1, 0, 1]]), 0)
    yield s(make(2, 3), np.array([[2], [0]]), dim=-1)
    yield s(make(2, 1), np.array([[0, 0, 0]]), dim=1)
    yield s(make(2, 3), np.array([5, 0, 0]))
    yield s(make(3, 2).T, np.zeros((2, 0), np.int64), dim=1)


INDEXING = [
    Row("getitem", indexing.getitem, read, reads, unbatched="b", **ANY_TYPE),
    Row("setitem", setitem, write, writes, unbatched="b", inplace=True, **ANY_TYPE),
    Row("take_along_dim", lucid.take_along_dim,
        taken_along, along, **ANY_TYPE),
]  # fmt: skip


# --- gather and scatter --------------------------------------------------------------------------

FOLDS: dict[str, Callable[..., Any]] = {
    "last": lambda v: v[-1], "sum": sum, "prod": math.prod, "add": sum, "multiply": math.prod, "amax": max, "amin": min,
    "mean": lambda v: sum(v) // len(v) if v[0].dtype.kind in "iu" else sum(v) / len(v),
}  # fmt: skip


def scattered(x: Array, dim: int, index: Array, src: Any, fold: str = "last", include_self: bool = True) -> Array:
    """Every scatter, one element after the other."""
    out, found = np.array(x).reshape(x.shape or (1,)), {}
    index = index.reshape(index.shape or (1,))
    src = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    for i in np.ndindex(index.shape):
        place = list(i)
        place[dim] = index[i]
        place = tuple(int(p) % n for p, n in zip(place, out.shape, strict=True))
        found.setdefault(place, [out[place]] if include_self else []).append(src[i])
    for place, values in found.items():
        out[place] = FOLDS[fold](values)
    return out.reshape(x.shape)


def gathered(x: Array, dim: int, index: Array) -> Array:
    shape = x.shape or (1,)
    if not index.size:
        return np.empty(index.shape, x.dtype)
    grid = list(np.indices(index.shape or (1,)))
    grid[dim] = index.reshape(index.shape or (1,))
    return x.reshape(shape)[tuple(grid)].reshape(index.shape)


PLACES = (  # shape of the input, dimension, index
    ((2, 3), 1, np.array([[0, 2], [1, 1]])),
    ((2, 3), 0, np.array([[1, 0, 1]])),
    ((2, 3), -1, np.array([[2], [0]])),
    ((3,), 0, np.array([2, 2, 0, 1])),
    ((3, 2), 0, np.zeros((0, 2), np.int64)),
    ((), 0, np.array(0)),
)


def gathers(make: Make) -> Iterator[Sample]:
    for shape, dim, index in PLACES:
        yield s(make(*shape), dim, index)
    yield s(make(3, 2).T, 1, np.array([[0, 2], [1, 1]]))


def scatters(*more: Any, **kwargs: Any) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        for shape, dim, index in PLACES:
            yield s(make.spread(*shape), dim, index, make(*index.shape), *more, **kwargs)
        yield s(make(3, 2).T, 1, np.array([[0, 2]]), make(2, 3), *more, **kwargs)

    return samples


def every(*families: Samples) -> Samples:
    return lambda make: (sample for family in families for sample in family(make))


def zero_factors(make: Make) -> Iterator[Sample]:
    """No, one, two and three zeros among the factors of a place."""
    x, source = make.at(2, 0, 3, 0, 0), make.at(3, 2, 0, 2, 0, 5, 0, 0)
    yield s(x, 0, np.array([0, 0, 1, 2, 2, 3, 3, 4]), source, "prod")


def scatter_numbers(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 1, np.array([[0, 2], [1, 1]]), 2)
    yield s(make(2, 3), 1, np.array([[0, 2], [1, 0]]), make(2, 2), reduce="add")
    yield s(make(2, 3), 1, np.array([[0, 0], [1, 0]]), make(2, 2), reduce="multiply")


def slices(make: Make) -> Iterator[Sample]:
    """(input, dim, index) for operations on slices; no place occurs twice."""
    yield s(make(2, 3), 1, np.array([2, 0]))
    yield s(make(3, 2).T, -2, np.array([1]))
    yield s(make(3), 0, np.zeros(0, np.int64))
    yield s(make(2, 1, 3), 2, np.array([1, 2, 0]))


def with_source(samples: Samples) -> Samples:
    """Slices and a source of the shape that fits."""

    def both(make: Make) -> Iterator[Sample]:
        for x, dim, index in (sample.args for sample in samples(make)):
            shape = list(x.shape)
            shape[dim] = len(index)
            yield s(x, dim, index, make(*shape))

    return both


def on_rows(ref: Callable[..., Any]) -> Callable[..., Any]:
    """`ref(out, index, …)` changes the leading dimension of a copy; this does the same along `dim`."""

    def call(x: Array, dim: int, index: Array, source: Any, **kwargs: Any) -> Array:
        out = np.moveaxis(x if x.ndim else x.reshape(1), dim, 0).copy()
        source = np.moveaxis(source, dim, 0) if np.ndim(source) else source
        ref(out, np.atleast_1d(index), source, **kwargs)
        return np.moveaxis(out, 0, dim).reshape(x.shape)

    return call


def added(out: Array, index: Array, source: Array, alpha: Any = 1) -> None:
    np.add.at(out, index, alpha * source)


def assigned(out: Array, index: Array, source: Array) -> None:
    out[index] = source


def puts(make: Make) -> Iterator[Sample]:
    i, k = np.array([0, 1, 0]), np.array([2, 0, 1])
    yield s(make(2, 3), (i, k), make(3))
    yield s(make(2, 3), (i[:2],), make(2, 3))
    yield s(make(2, 3), (i, k), make(3), True)
    yield s(make(2, 3), (np.array([1, 1]),), make(3), True)
    yield s(make(2, 3), (np.array([[True, False, True], [False, True, False]]),), make(3))
    yield s(make(2, 3), (i, k), make())


def put(x: Array, indices: tuple[Array, ...], values: Array, accumulate: bool = False) -> Array:
    out = x.copy()
    if accumulate:
        np.add.at(out, indices, values)
    else:
        out[indices] = values
    return out


MASK = np.array([[True, False, True], [False, True, False]])


def masked(*more: Any) -> Samples:
    """(input, mask, …) with masks that broadcast."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape, mask in (
            ((2, 3), MASK),
            ((2, 3), MASK[0]),
            ((2, 3), MASK[:, :1]),
            ((0, 3), MASK[0]),
            ((), np.array(True)),
        ):
            yield s(make(*shape), mask, *[m(make) if callable(m) else m for m in more])
        yield s(make(3, 2).T, MASK, *[m(make) if callable(m) else m for m in more])

    return samples


def masked_write(x: Array, mask: Array, source: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    out = x.copy()
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def sc(name: str, ref: Callable[..., Any], samples: Samples, **flags: Any) -> Row:
    return Row(name, named(name), ref, samples, **{"complex": True, "ints": INTS, **flags})


def searched(make: Make) -> Iterator[Sample]:
    yield from (sample for sample in random_values(with_empty)(make) if not sample.kwargs)


DATA_DEPENDENT = {"vmap": "the shape of the result depends on the values"}

SCATTER = [
    sc("gather", gathered, gathers, ints=BOOLS),
    sc("scatter", lambda x, d, i, v, reduce="last": scattered(x, d, i, v, reduce), every(scatters(), scatter_numbers)),
    sc("scatter_add", lambda *a: scattered(*a, "sum"), scatters()),
    sc("scatter_reduce", scattered,
       every(*[scatters(how, **kw) for how in ("sum", "prod", "mean") for kw in ({}, {"include_self": False})],
             zero_factors)),
    Row("scatter_extreme", lucid.scatter_reduce, scattered, ints=INTS,
        samples=every(*[scatters(how, **kw) for how in ("amax", "amin") for kw in ({}, {"include_self": False})])),
    sc("index_select", on_vectors(lambda x, dim, i: np.take(x, np.atleast_1d(i), dim)), every(slices, calls(((2, 3),
      0, np.array([1, 0, 1])))), ints=BOOLS),
    sc("index_add", on_rows(added), every(with_source(slices), lambda make: iter([
        s(make(2, 3), 0, np.array([1, 1]), make(2, 3)), s(make(2, 3), 0, np.array([1, 0]), make(2, 3), alpha=2)]))),
    sc("index_copy", on_rows(assigned), with_source(slices)),
    sc("index_fill", on_rows(assigned), lambda make: (s(*x.args, v) for x in slices(make) for v in (2, make()))),
    sc("index_put", put, puts, unbatched="b"),
    sc("take", lambda x, i: x.reshape(-1)[i], calls(((2, 3), np.array([[5, 0], [1, -1]])), (("T", 3, 2), np.array(2)),
       ((2, 3), np.zeros(0, np.int64))), ints=BOOLS),
    sc("masked_select", lambda x, m: np.broadcast_arrays(x, m)[0][np.broadcast_arrays(x, m)[1]], masked(),
      unbatched="b"),
    sc("masked_fill", lambda x, m, v: np.where(m, np.asarray(v, x.dtype), x), every(masked(2),
      masked(lambda make: make()))),
    sc("masked_scatter", masked_write, masked(lambda make: make(6)), inplace=True),
    sc("nonzero", np.argwhere, searched, domain=Domain(-1, 1), result="int64", differentiable=False, ints=BOOLS,
      without=DATA_DEPENDENT),
    sc("argwhere", np.argwhere, searched, domain=Domain(-1, 1), result="int64", differentiable=False, ints=BOOLS,
      without=DATA_DEPENDENT),
]  # fmt: skip

# --- sorting -------------------------------------------------------------------------------------


def order_of(x: Array, dim: int = -1, descending: bool = False) -> Array:
    """Positions in order; equal elements keep theirs."""
    if not x.ndim:
        return np.array(0)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)


def picked(x: Array, places: Array, dim: int) -> Any:
    return (np.take_along_axis(x, places, dim) if x.ndim else x), places


def sorted_ref(x: Array, dim: int = -1, descending: bool = False) -> Any:
    return picked(x, order_of(x, dim, descending), dim)


def best(x: Array, k: int, dim: int = -1, largest: bool = True) -> Any:
    x = x if x.ndim or k else x.reshape(1)
    return picked(x, np.take(order_of(x, dim, largest), range(k), dim) if x.ndim else np.array(0), dim)


def kth(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, places = picked(x, np.take(order_of(x, dim), [k - 1], dim) if x.ndim else np.array(0), dim)
    return (values, places) if keepdim or not x.ndim else (np.squeeze(values, dim), np.squeeze(places, dim))


def middle(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    return kth(x, ((x.shape[dim] if x.ndim else 1) + 1) // 2, dim, keepdim)


def sorts(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3))
    yield s(make.spread(2, 3), 0)
    yield s(make.spread(2, 3), descending=True)
    yield s(make.spread(3, 2).T, -2)
    yield s(make())
    yield s(make(2, 0))
    yield s(make(2, 1), 1)
    if make.floats:
        yield kink(make.at(1, 3, 1, 3, 2))
        yield kink(make.at(1, math.nan, -math.inf, math.inf, 0))


def first_few(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), 2)
    yield s(make.spread(2, 3), 1, 0)
    yield s(make.spread(3, 2).T, 3, dim=-1, largest=False)
    yield s(make.spread(5), 0)
    yield s(make(), 1)


def kths(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), 2)
    yield s(make.spread(2, 3), 1, 0, True)
    yield s(make.spread(3, 2).T, 3, dim=-1)
    yield s(make(), 1)


def middles(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), -1)
    yield s(make.spread(2, 3), 0, True)
    yield s(make.spread(3, 2).T, dim=1)
    yield s(make(), 0)


def quantiles(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), 0.3)
    yield s(make.spread(2, 3), make.at(0.3, 0.8), 1)
    yield s(make.spread(2, 3), make.at(0.6), 0, True)
    yield s(make.spread(3, 2).T, 0.4, -1)
    yield s(make(), 0.5)
    for how in ("lower", "higher", "nearest", "midpoint"):
        yield s(make.spread(5), 0.3, interpolation=how)


def quantile(x: Array, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Array:
    return np.quantile(x, q, axis=dim if x.ndim else None, keepdims=keepdim, method=interpolation)


def insertions(make: Make) -> Iterator[Sample]:
    edges = np.sort(make.spread(3))
    yield s(edges, make(2, 3))
    yield s(edges, make())
    yield s(edges, edges.copy(), right=True)
    yield s(np.sort(make.spread(2, 3)), make(2, 2), side="left")
    yield s(edges, make(0, 2))


def inserted(edges: Array, values: Array, right: bool = False, side: str = "left") -> Array:
    side = "right" if right else side
    if edges.ndim == 1:
        return np.searchsorted(edges, values, side)
    out = np.zeros(values.shape, np.int64)
    for i in np.ndindex(values.shape):
        out[i] = np.searchsorted(edges[i[:-1]], values[i], side)
    return out


def repeats(make: Make) -> Iterator[Sample]:
    yield s(make.spread(2, 3), return_inverse=True, return_counts=True)
    yield kink(make.at(2, 1, 1, 0, 2, 2), return_inverse=True, return_counts=True)
    yield kink(make.at([1, 0], [0, 1], [1, 0]), return_inverse=True, return_counts=True, dim=0)
    yield s(make(0), return_inverse=True, return_counts=True)


def distinct(x: Array, dim: int | None = None, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = np.unique(x, axis=dim, return_inverse=True, return_counts=True, equal_nan=False)
    inverse = inverse.reshape(x.shape if dim is None else (x.shape[dim],))
    return (values, *[inverse] * return_inverse, *[counts] * return_counts)


def distinct_runs(x: Array, dim: int | None = None, return_inverse: bool = False, return_counts: bool = False) -> Any:
    rows = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0)
    new = np.array([i == 0 or not np.array_equal(rows[i], rows[i - 1]) for i in range(len(rows))], bool)
    inverse, kept = np.cumsum(new) - 1, rows[new]
    values = kept.reshape(-1) if dim is None else np.moveaxis(kept, 0, dim)
    counts = np.bincount(inverse, minlength=len(kept))
    inverse = inverse.reshape(x.shape if dim is None else (x.shape[dim],))
    return (values, *[inverse] * return_inverse, *[counts] * return_counts)


def so(name: str, ref: Callable[..., Any], samples: Samples, **flags: Any) -> Row:
    return Row(name, named(name), ref, samples, **{"ints": INTS, "result": VALUES_INDICES, **flags})


SORTING = [
    so("sort", sorted_ref, sorts, ints=BOOLS),
    so("argsort", order_of, sorts, ints=BOOLS, result="int64", differentiable=False),
    so("msort", on_vectors(lambda x: np.sort(x, 0)), calls(((3, 2),), ((3,),), ((0, 2),)), result="keep"),
    so("topk", best, first_few),
    so("kthvalue", kth, kths),
    so("median", middle, middles),
    so("nanmedian", middle, middles),
    so("quantile", quantile, quantiles, ints=(), result="keep"),
    so("nanquantile", quantile, quantiles, ints=(), result="keep"),
    so("searchsorted", inserted, insertions, result="int64", differentiable=False),
    so("bucketize", lambda x, edges, **how: inserted(edges, x, **how), result="int64", differentiable=False,
       samples=lambda make: (s(x.args[1], x.args[0], **x.kwargs)
         for x in insertions(make) if x.args[0].ndim == 1 and "side" not in x.kwargs)),
    so("unique", distinct, repeats, complex=True, result=("keep", "int64", "int64"), without=DATA_DEPENDENT,
      ints=BOOLS),
    so("unique_consecutive", distinct_runs, repeats, complex=True, result=("keep", "int64", "int64"),
      without=DATA_DEPENDENT, ints=BOOLS),
]  # fmt: skip

CONVERSIONS = [
    keeps("to_complex", lambda x: x.astype(complex), op=lambda x: x.to(dtypes.complex128), result="complex128",
      complex=True, ints=BOOLS),
    keeps("to_double", lambda x: np.asarray(x.real, float), op=lambda x: x.to(dtypes.float64), result="float64",
      complex=True, ints=BOOLS),
]  # fmt: skip

# --- in place ------------------------------------------------------------------------------------


def in_place(row: Row) -> Row:
    """The in-place form of a row, as a function: it writes into a copy. The result has the type of the target."""
    method = METHODS[row.name + "_"]

    def fits(sample: Sample, make: Make) -> bool:
        target = sample.args[0]
        shapes = [a.shape for a in sample.args if isinstance(a, Array)]
        broadcast = row in UNARY + BINARY and np.broadcast_shapes(*shapes) != shapes[0]
        return isinstance(target, Array) and target.dtype == make.dtype and not broadcast

    # What integers would turn into does not fit into them.
    ints = () if row.result in ("float", "double") else row.ints
    return replace(
        row,
        name=row.name + "_",
        op=lambda x, *args, **kwargs: method(x.clone(), *args, **kwargs),
        ref=lambda x, *args, **kwargs: np.asarray(row.ref(x, *args, **kwargs)).astype(x.dtype),
        samples=lambda make: (x for x in row.samples(make) if fits(x, make)),
        result="keep",
        # Comparisons write numbers, and the gradient of the target is 0.
        differentiable=row.floats or row.complex,
        ints=ints,
        inplace=True,
        pins=(),
    )


def overwrites(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(3))
    yield s(make(3, 2).T, make(2, 1))
    yield s(make(), make())
    yield s(make(0, 3), make(3))
    yield s(make(2, 3), 2)


def spread_over(x: Array, y: Any) -> Array:
    return np.broadcast_to(np.asarray(y, x.dtype), x.shape).copy()


IN_PLACE = [
    *[in_place(row) for row in UNARY + BINARY + SCATTER if row.name + "_" in METHODS and row.name != "polygamma"],
    u("polygamma_", special.polygamma, 0.5, 3, op=lambda n, x: x.clone().polygamma_(n), samples=polygamma_samples,
      result="keep", ints=(), inplace=True),
    Row("copy_", lambda x, y: x.clone().copy_(y), spread_over, overwrites, inplace=True, **ANY_TYPE),
    Row("fill_", lambda x, y: x.clone().fill_(y), spread_over,
        lambda make: (x for x in overwrites(make) if np.ndim(x.args[1]) == 0), inplace=True, **ANY_TYPE),
    Row("zero_", lambda x: x.clone().zero_(), np.zeros_like, calls(((2, 3),), ((),)), **ANY_TYPE),
]  # fmt: skip


def weights_and_chances(make: Make) -> Iterator[Sample]:
    yield s(abs(make(4)) + make.at(0.1), abs(make(3)) % make.at(1.0))
    yield s(abs(make(2, 4)) + make.at(0.1), abs(make(2, 3)) % make.at(1.0))


def weighted(weights: Array, chance: Array) -> Array:
    sums = np.cumsum(np.asarray(weights, np.float64), -1)
    return (sums[..., None, :] <= (np.asarray(chance, np.float64) * sums[..., -1:])[..., None]).sum(-1)


def pairs_to_scale(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(2, 3))
    yield s(make(3), make(2, 3))
    yield s(make(2, 3), make(3))
    yield s(make(), make())


def triples_to_scale(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(2, 3), make(2, 3))
    yield s(make(3), make(2, 3), make(2, 1))
    yield s(make(), make(), make())


def into_row(base: Array, new: Array) -> Array:
    out = base.copy()
    out[1] = new
    return out


# What the library is made of beneath its public names, which check the types.
def contracted(spec, x, y):
    return P.contract(x, y, labels=labelled(*spec.replace("->", ",").split(",")))


def contractions(make):
    """Matrices as they are and transposed, vectors, stacks, several labels of each kind, products without a sum."""
    shapes = {
        "ij,jk->ik": ((3, 4), (4, 2)), "ji,kj->ki": ((4, 3), (2, 4)), "i,i->": ((5,), (5,)), "i,ij->j": ((3,), (3, 4)),
        "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)), "ij,bjk->bik": ((3, 4), (2, 4, 5)), "bij,jk->bik": ((2, 3, 4), (4, 5)),
        "abij,bj->iab": ((2, 3, 2, 4), (3, 4)), "bi,bj->bij": ((9, 8), (9, 3)), "ij,ij->ij": ((2, 3), (2, 3)),
        "i,jk->jik": ((2,), (3, 2)), "abc,bca->": ((2, 3, 2), (3, 2, 2)), "ij,ij->i": ((3, 4), (3, 4)),
        "ijk,kl->ilj": ((2, 3, 4), (4, 2)), "ij,jk->ki": ((3, 0), (0, 2)), "i,bi->b": ((3,), (0, 3)),
    }  # fmt: skip
    return [s(spec, make(*x), make(*y)) for spec, (x, y) in shapes.items()]


CHECKED_ABOVE = {"refused": "public functions check the types"}
INNER = [
    Row("satisfied", lambda x: P.satisfied(lucid.isfinite(x), what="numbers must be finite"), np.isfinite,
        lambda make: [s(make(2, 3)), s(make(0))], differentiable=False, result="bool", complex=True,
        without=CHECKED_ABOVE),
    Row("poisson_quantile", lambda chance, rates: P.poisson_quantile(chance.double(), rates.double()),
        lambda chance, rates: stats.poisson.ppf(np.asarray(chance, np.float64), np.asarray(rates, np.float64)),
        lambda make: [s(abs(make(3)) / make.at(3.0) + make.at(0.1), abs(make(2, 3)) + make.at(0.5))],
        differentiable=False, result="float64", without=CHECKED_ABOVE),
    Row("weighted_pick",
        lambda weights, chance: P.weighted_pick(weights.double(), chance.double(), count=3, replacement=True),
        weighted, weights_and_chances, differentiable=False, result="int64", without=CHECKED_ABOVE),
    Row("chain", lambda x, y: P.chain(x, y), np.multiply, pairs_to_scale, complex=True, without=CHECKED_ABOVE),
    Row("chain_both", lambda x, y: P.chain_both(x, y), np.multiply, pairs_to_scale, complex=True, without=CHECKED_ABOVE),
    Row("tanh_slope", lambda x, y: P.tanh_slope(x, y), lambda x, y: x * (1 - y * y), pairs_to_scale, complex=True,
        without=CHECKED_ABOVE),
    Row("sigmoid_slope", lambda x, y: P.sigmoid_slope(x, y), lambda x, y: x * y * (1 - y), pairs_to_scale, complex=True,
        without=CHECKED_ABOVE),
    Row("tanh_bend", lambda x, y, z: P.tanh_bend(x, y, z), lambda x, y, z: -2 * x * y * z, triples_to_scale,
        complex=True, without=CHECKED_ABOVE),
    Row("sigmoid_bend", lambda x, y, z: P.sigmoid_bend(x, y, z), lambda x, y, z: x * y * (1 - 2 * z), triples_to_scale,
        complex=True, without=CHECKED_ABOVE),
    Row("log_odds", lambda x: P.log_odds(x), logit, unary_with(((), {})), complex=True,
        domain=Domain(0.15, 0.85), without=CHECKED_ABOVE),
    Row("alias", lambda x: P.alias(x), lambda x: x.copy(), lambda make: [s(make(2, 3)), s(make())], complex=True,
        without=CHECKED_ABOVE),
    Row("contract", contracted, np.einsum, contractions, complex=True, without=CHECKED_ABOVE),
    Row("write_view",
        lambda base, new: P.write_view(base, new, through=P.slice, settings={"index": (1,)}), into_row,
        lambda make: [s(make(3, 2), make(2))], complex=True, without=CHECKED_ABOVE),
]  # fmt: skip

ROWS = (
    UNARY
    + BINARY
    + REDUCTIONS
    + SHAPES
    + CONTRACTIONS
    + JOINING
    + INDEXING
    + SCATTER
    + SORTING
    + CONVERSIONS
    + IN_PLACE
    + INNER
)
