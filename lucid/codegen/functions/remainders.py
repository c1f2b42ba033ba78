"""Quotients that are rounded, what they leave over, and the neighbours of floating-point numbers."""

from lucid.codegen.floats import INF, NAN, format_of, where_rare
from lucid.codegen.vectors import Function, Type, Value


def _quotient(f: Function, x: Value, y: Value) -> Value:
    """x / y of integers, rounded towards 0; 0 where y is. That of double precision is exact up to 52 binary digits."""
    y = f.select(y.equals(0), 1, y)
    double, whole = Type("double"), Type("i64")
    found = f.convert(f.convert(f.trunc(f.convert(x, double) / f.convert(y, double)), whole), x.type)
    if x.type.bits < 64:
        return found
    unsigned = Type("i64", is_signed=False)
    start = 1 << 52 if x.type.is_signed else 0  # from which on the small ones count
    is_large = [f.convert(v + start, unsigned) >= (1 << 52) + start for v in (x, y)]

    def divided() -> Value:
        if not x.type.is_signed:
            return x.quotient(y)
        is_minus = y.equals(-1)  # of which the processor divides all but the smallest number
        return f.select(is_minus, 0 - x, x.quotient(f.select(is_minus, 1, y)))

    return where_rare(f, is_large[0] | is_large[1], divided, found)


def _rest(f: Function, x: Value, y: Value) -> Value:
    """What `_quotient` leaves of integers; 0 where y is."""
    return f.select(y.equals(0), 0, x - _quotient(f, x, y) * y)


def _rounds_up(f: Function, rest: Value, y: Value) -> Value:
    """Where quotients of integers that are rounded towards 0 are larger than those that are rounded down."""
    if not y.type.is_signed:
        return f.constant(False, y.type.with_("i1"))
    return ((rest ^ y) < 0) & rest.differs(0)


def fmod(f: Function, x: Value, y: Value) -> Value:
    """x - n·y with the whole number n next to x / y on the side of 0; it is exact. The C library knows large quotients."""
    if not x.type.is_float:
        return _rest(f, x, y)
    u, v = f.abs(x), f.abs(y)
    quotient = u / v
    rest = f.fma(-f.trunc(quotient), v, u)
    rest = f.select(rest < 0.0, rest + v, rest)  # where the quotient was rounded up to a whole number
    is_rare = ~((quotient < 2.0 ** (format_of(x).digits - 1)) & (v < INF))
    by_library = f"frem {x.type} {x.text}, {y.text}"
    return where_rare(f, is_rare, lambda: f.write(by_library, x.type), f.copysign(rest, x))


def _differ_in_sign(f: Function, rest: Value, y: Value) -> Value:
    """Where a remainder is not 0 and not on the side of the divisor."""
    return ((rest < 0.0) ^ (y < 0.0)) & rest.differs(0.0)


def remainder(f: Function, x: Value, y: Value) -> Value:
    """x - n·y with the whole number n next to x / y on the side of -∞."""
    if not x.type.is_float:
        rest = _rest(f, x, y)
        return f.select(_rounds_up(f, rest, y), rest + y, rest)
    rest = fmod(f, x, y)
    moved = f.select(_differ_in_sign(f, rest, y), rest + y, rest)
    return f.select(rest.equals(0.0), f.copysign(f.constant(0.0, x.type), y), moved)


def floor_divide(f: Function, x: Value, y: Value) -> Value:
    """That n: the nearest whole number to (x - rest) / y, which is one but for rounding."""
    if not x.type.is_float:
        quotient = _quotient(f, x, y)
        return f.select(_rounds_up(f, x - quotient * y, y), quotient - 1, quotient)
    rest = fmod(f, x, y)
    ratio = x / y
    quotient = (x - rest) / y
    quotient = f.select(_differ_in_sign(f, rest, y), quotient - 1.0, quotient)
    below = f.floor(quotient)
    found = f.select(quotient - below > 0.5, below + 1.0, below)
    found = f.select(quotient.equals(0.0), f.copysign(f.constant(0.0, x.type), ratio), found)
    has_no_rest = y.equals(0.0) | (f.abs(x).equals(INF) & (f.abs(y) < INF))
    return f.select(has_no_rest, ratio, found)


def truncated_divide(f: Function, x: Value, y: Value) -> Value:
    return f.trunc(x / y) if x.type.is_float else _quotient(f, x, y)


def nextafter(f: Function, x: Value, y: Value) -> Value:
    """The neighbour of x on the way to y: its bits count up or down."""
    of = x.type.of
    one = f.constant(1, f.bits(x).type)
    step = f.select((x < y) ^ (x < 0.0), one, -one)
    found = f.from_bits(f.bits(x) + step, of)
    smallest = f.from_bits(one, of)
    found = f.select(x.equals(0.0), f.copysign(smallest, y), found)
    return f.select(x.is_nan() | y.is_nan(), NAN, f.select(x.equals(y), y, found))


REMAINDERS = {w.__name__: w for w in (fmod, remainder, floor_divide, truncated_divide, nextafter)}
