"""What the elementary functions share: formats of floating point, constants in parts, exact sums and products."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import NamedTuple

import numpy as np

from .vectors import Function, Number, Type, Value


class Format(NamedTuple):
    """A binary format of IEEE 754: how many digits its fraction has, and the bias of its exponent."""

    digits: int
    bias: int

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.digits

    @property
    def fraction(self) -> int:
        """The bits of a fraction."""
        return (1 << self.digits) - 1

    @property
    def sign(self) -> int:
        """The bit of the sign, as an integer with sign."""
        return -2 * (self.bias + 1) << self.digits

    @property
    def rounder(self) -> float:
        """Added to a small number, it leaves the nearest whole number in the low bits of the sum."""
        return 1.5 * 2.0**self.digits

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"float": Format(23, 127), "double": Format(52, 1023)}
INF = float("inf")
NAN = float("nan")

LN2 = Decimal("0.69314718055994530941723212145817656807550013436025525412068000949")
LN10 = Decimal("2.30258509299404568401799145468436420760110148862877297603332790097")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459231")


_EXACT = Context(prec=65)


def quotient(number: Decimal | int, by: Decimal | int) -> Decimal:
    """A quotient with as many digits as the constants have."""
    return _EXACT.divide(Decimal(number), Decimal(by))


def parts(number: Decimal, count: int) -> dict[str, tuple[float, ...]]:
    """A constant as a sum of numbers of each format, every one of them nearest to what is left."""
    found = {}
    for of, kind in (("float", np.float32), ("double", np.float64)):
        rest, terms = number, []
        for _ in range(count):
            terms.append(float(kind(float(rest))))
            rest = _EXACT.subtract(rest, Decimal(terms[-1]))
        found[of] = tuple(terms)
    return found


def format_of(x: Value) -> Format:
    return FORMATS[x.type.of]


def unsigned_bits(f: Function, x: Value) -> Value:
    """The bits of floating-point numbers as integers without signs."""
    return f.convert(f.bits(x), Type(f"i{x.type.bits}", is_signed=False))


def clamp(f: Function, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """x, or the bound that it is beyond; nan stays."""
    if low is not None:
        x = f.select(x < low, low, x)
    if high is not None:
        x = f.select(x > high, high, x)
    return x


def sign_bit(f: Function, x: Value) -> Value:
    return f.bits(x) & format_of(x).sign


def flip_sign(f: Function, x: Value, sign: Value) -> Value:
    """x, negated where the bit of a sign is set."""
    return f.from_bits(f.bits(x) ^ sign, x.type.of)


def even_odd(f: Function, x: Value, square: Value, coefficients: Sequence[float]) -> Value:
    """Σ c[k]·x^k as two polynomials of x², which the processor computes at the same time."""
    even = f.polynomial(square, coefficients[0::2])
    odd = f.polynomial(square, coefficients[1::2])
    return f.fma(odd, x, even)


def two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y, and the error of its rounding (Knuth)."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def fast_two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y, and the error of its rounding, where x is zero or not smaller than y (Dekker)."""
    total = x + y
    return total, y - (total - x)


def two_product(f: Function, x: Value, y: Number) -> tuple[Value, Value]:
    """x · y, and the error of its rounding."""
    product = x * y
    return product, f.fma(x, y, -product)


def any_lane(f: Function, condition: Value) -> Value:
    """Whether a condition holds anywhere in a vector."""
    if condition.type.lanes == 1:
        return condition
    return f.call(f"llvm.vector.reduce.or.{condition.type.short}", Type("i1"), condition)


def where_rare(f: Function, condition: Value, compute: Callable[[], Value], otherwise: Value) -> Value:
    """What `compute` writes where a condition holds, and another value elsewhere; it is skipped where none holds."""
    before, rare, done = f.block, f.fresh("rare"), f.fresh("done")
    f.branch(any_lane(f, condition), rare, done)
    f.begin(rare)
    found = f.select(condition, compute(), otherwise)
    last = f.block
    f.jump(done)
    f.begin(done)
    return f.write(f"phi {found.type} [ {otherwise.text}, %{before} ], [ {found.text}, %{last} ]", found.type)


def from_library(f: Function, name: str, x: Value) -> Value:
    """The C library's function of each number."""
    of = Type(x.type.of)
    symbol = name + ("f" if x.type.of == "float" else "")
    if x.type.lanes == 1:
        return f.call(symbol, of, x)
    found = x
    for lane in range(x.type.lanes):
        one = f.call(symbol, of, f.write(f"extractelement {x.type} {x.text}, i64 {lane}", of))
        found = f.write(f"insertelement {x.type} {found.text}, {of} {one.text}, i64 {lane}", x.type)
    return found
