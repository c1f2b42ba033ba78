"""Complex numbers as pairs of vectors, their real and their imaginary parts, which lie in memory in turns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lucid.codegen.floats import INF, format_of, where_rare
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.vectors import Function, Number, Type, Value


class Complex(NamedTuple):
    """Complex numbers that a function computes."""

    re: Value
    im: Value


Part = Number | Complex | complex


def as_complex(f: Function, x: Part, part: Type) -> Complex:
    """A number or value as complex numbers, whose parts are of a type."""
    if isinstance(x, Complex):
        return Complex(f.convert(x.re, part), f.convert(x.im, part))
    if isinstance(x, Value):
        return Complex(f.convert(x, part), f.constant(0.0, part))
    number = complex(x)
    return Complex(f.constant(number.real, part), f.constant(number.imag, part))


def load(f: Function, pointer: str, type: Type) -> Any:
    """Numbers from memory, complex or not."""
    if not type.is_complex:
        return f.load(pointer, type)
    n = type.lanes
    both = f.load(pointer, type.part.wide(2 * n))
    if n == 1:
        return Complex(*f.halves(both))
    return Complex(f.shuffled(both, both, range(0, 2 * n, 2)), f.shuffled(both, both, range(1, 2 * n, 2)))


def store(f: Function, x: Any, pointer: str) -> None:
    if not isinstance(x, Complex):
        f.store(x, pointer)
        return
    n = x.re.type.lanes
    if n == 1:
        f.store(f.shuffled(f.spread(x.re, 2), f.spread(x.im, 2), [0, 2]), pointer)
        return
    f.store(f.shuffled(x.re, x.im, [k // 2 + n * (k % 2) for k in range(2 * n)]), pointer)


def parts(values: Sequence[Any]) -> list[Value]:
    """Numbers as what loops carry: the real and the imaginary parts of those that are complex."""
    return [part for v in values for part in (v if isinstance(v, Complex) else (v,))]


def joined(values: Sequence[Value], types: Sequence[Type]) -> list[Any]:
    """Numbers of these types, of which `parts` were made."""
    left = iter(values)
    return [Complex(next(left), next(left)) if t.is_complex else next(left) for t in types]


def _mul(f: Function, x: Complex, y: Complex) -> Complex:
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _div(f: Function, x: Complex, y: Complex) -> Complex:
    """By the ratio of the smaller part of the divisor to the larger one, so that no square overflows (Smith)."""
    is_tall = ~(f.abs(y.re) >= f.abs(y.im))
    large, small = f.select(is_tall, y.im, y.re), f.select(is_tall, y.re, y.im)
    beside, across = f.select(is_tall, x.im, x.re), f.select(is_tall, x.re, x.im)
    ratio = small / large
    inverse = 1.0 / (large + small * ratio)
    re = (beside + across * ratio) * inverse
    im = (across - beside * ratio) * inverse
    im = f.select(is_tall, -im, im)
    is_zero = large.equals(0.0)
    return Complex(
        where_rare(f, is_zero, lambda: x.re / f.abs(y.re), re), where_rare(f, is_zero, lambda: x.im / f.abs(y.re), im)
    )


def _exp(f: Function, x: Complex) -> Complex:
    """e^re·(cos(im) + i·sin(im)), with the special values of C's cexp."""
    size, cosine, sine = FUNCTIONS["exp"](f, x.re), FUNCTIONS["cos"](f, x.im), FUNCTIONS["sin"](f, x.im)
    is_rare = ~((size >= format_of(size).smallest) & (size < INF) & (f.abs(x.im) < INF))
    re = where_rare(f, is_rare, lambda: _exp_of_any(f, x, cosine, size)[0], size * cosine)
    im = where_rare(f, is_rare, lambda: _exp_of_any(f, x, sine, size)[1], size * sine)
    return Complex(re, f.select(x.im.equals(0.0), x.im, im))


def _exp_of_any(f: Function, x: Complex, turn: Value, size: Value) -> tuple[Value, Value]:
    """Both parts where e^re is no normal number, or the imaginary part is not finite, by the cosine or sine of that."""
    root = FUNCTIONS["exp"](f, x.re * 0.5)
    product = root * turn * root  # finite also where the square of the root is not
    is_real = x.im.equals(0.0)
    has_no_angle = ~(f.abs(x.im) < INF)
    is_nothing = x.re.equals(-INF) & has_no_angle
    product = f.select(is_nothing, 0.0, product)
    re = f.select(is_real, size, f.select(x.re.equals(INF) & has_no_angle, INF, product))
    return re, product


def _equals(f: Function, x: Complex, y: Complex) -> Value:
    return x.re.equals(y.re) & x.im.equals(y.im)


def _is_infinite(f: Function, x: Complex) -> Value:
    return f.abs(x.re).equals(INF) | f.abs(x.im).equals(INF)


# What is written for a base function of complex numbers.
OF_COMPLEX: dict[str, Callable[..., Complex | Value]] = {
    "add": lambda f, x, y: Complex(x.re + y.re, x.im + y.im),
    "sub": lambda f, x, y: Complex(x.re - y.re, x.im - y.im),
    "mul": _mul,
    "div": _div,
    "neg": lambda f, x: Complex(-x.re, -x.im),
    "conj": lambda f, x: Complex(x.re, -x.im),
    "exp": _exp,
    "abs": lambda f, x: FUNCTIONS["hypot"](f, x.re, x.im),
    "real": lambda f, x: x.re,
    "imag": lambda f, x: x.im,
    "complex": lambda f, x, y: Complex(x.re, y.re),  # of real numbers
    "cast": lambda f, x: x,
    "eq": _equals,
    "ne": lambda f, x, y: ~_equals(f, x, y),
    "isnan": lambda f, x: x.re.is_nan() | x.im.is_nan(),
    "isinf": _is_infinite,
    "isfinite": lambda f, x: (f.abs(x.re) < INF) & (f.abs(x.im) < INF),
}


def select(f: Function, condition: Value, x: Complex, y: Complex) -> Complex:
    """x where a condition holds, and y elsewhere."""
    return Complex(f.select(condition, x.re, y.re), f.select(condition, x.im, y.im))


def part_of(operands: Sequence[Any], result: Type, lanes: int) -> Type:
    """The type of the parts of what a step computes: of its result, or of its operands if that is real."""
    if result.is_complex:
        return result.part.wide(lanes)
    types: list[Type] = [o.re.type for o in operands if isinstance(o, Complex)]
    return max(types, key=lambda t: t.bytes)
