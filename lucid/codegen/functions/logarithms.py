"""Functions by way of the logarithm: x = m · 2^k with m between √½ and √2, and log(m) by a polynomial.

`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from collections.abc import Callable

from lucid.codegen import floats
from lucid.codegen.floats import (
    INF,
    NAN,
    clamp,
    even_odd,
    format_of,
    parts,
    quotient,
    two_sum,
    unsigned_bits,
    where_rare,
)
from lucid.codegen.functions.exponentials import exp_of_minus_abs
from lucid.codegen.vectors import Function, Type, Value

# The logarithms of 2 and of e to each base, in two parts.
BASE_E = (parts(floats.LN2, 2), None)
BASE_2 = (None, parts(quotient(1, floats.LN2), 2))
BASE_10 = (parts(quotient(floats.LN2, floats.LN10), 2), parts(quotient(1, floats.LN10), 2))

# (log(1 + g) - g + g²/2) / g³
# minimax "(log1p(x) - x + x**2/2) / x**3" "[sqrt(0.5) - 1, sqrt(2) - 1]" --degree 7 --weight "x**3 / log1p(x)"
#   --precision 24
LOG_FLOAT = (0.3333333, -0.2500082, 0.20001225, -0.16623361, 0.14201784, -0.13160183, 0.12761386, -0.076342426)
# (log((1 + s) / (1 - s)) / s - 2) / s² as a polynomial of s²
# minimax "(2*atanh(sqrt(x))/sqrt(x) - 2)/x" "[0, (3 - sqrt(8))**2]" --degree 6 --weight "x/2"
LOG_DOUBLE = (
    *(0.6666666666666734, 0.39999999999414754, 0.28571428742368865, 0.2222219857524484, 0.18183564212842138),
    *(0.1531405359343265, 0.14795917983239942),
)
# (log(1 + e) - e) / e² for e from 0 to 1
# minimax "(log1p(x) - x)/x**2" "[0, 1]" --degree 8 --weight "x**2/log1p(x)" --precision 24 --refit
LOG_UNIT_FLOAT = (
    *(-0.4999993, 0.33330464, -0.24958019, 0.19692104, -0.15344895, 0.10661148, -0.057456918, 0.02008551),
    -0.003290116,
)
# (log((1 + s) / (1 - s)) / s - 2) / s² for s from 0 to 1/3 as a polynomial of s²
# minimax "(2*atanh(sqrt(x))/sqrt(x) - 2)/x" "[0, 1/mpf(9)]" --degree 9 --weight "x/2"
LOG_UNIT_DOUBLE = (
    *(0.6666666666666631, 0.4000000000015723, 0.28571428547854744, 0.22222223969681437, 0.18181743926636165),
    *(0.15386559886845846, 0.13300974062033846, 0.12106082474792079, 0.08340118116354661, 0.17018544309354156),
)

FEW = 8  # numbers

ROOT_HALF = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}  # the bits of √½


def split(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """k, m - 1 and the bits of 2^k for x = m · 2^k, a positive normal number."""
    of, format = x.type.of, format_of(x)
    beyond = f.bits(x) - ROOT_HALF[of]
    m = f.from_bits((beyond & format.fraction) + ROOT_HALF[of], of)
    power = (beyond & (format.fraction ^ -1)) + format.one
    return _exponent(f, beyond), m - 1.0, power


def _exponent(f: Function, bits: Value) -> Value:
    """The upper bits, those of an exponent, as a number; not every processor converts integers of 64 bits."""
    if bits.type.of == "i32":
        return f.convert(bits >> floats.FORMATS["float"].digits, Type("float"))
    format = floats.FORMATS["double"]
    shifted = f.convert(bits + format.one, Type("i64", is_signed=False)) >> format.digits
    whole = f.from_bits(shifted | f.bits(f.constant(2.0**format.digits, bits.type.with_("double"))), "double")
    return whole - (2.0**format.digits + format.bias)


def log_rest(f: Function, g: Value) -> Value:
    """log(1 + g) - g for 1 + g between √½ and √2."""
    square = g * g
    if g.type.of == "float":
        return square * f.fma(g, even_odd(f, g, square, LOG_FLOAT), -0.5)
    s = g / (g + 2.0)
    z = s * s
    half = square * 0.5
    return f.fma(s, f.fma(z, even_odd(f, z, z * z, LOG_DOUBLE), half), -half)


def _combined(f: Function, k: Value, g: Value, base: tuple) -> Value:
    """k·log(2) + log(1 + g) to a base."""
    of, rest = g.type.of, log_rest(f, g)
    of_two, of_e = base
    if of_e is not None:
        high, low = floats.two_product(f, g, of_e[of][0])
        g, rest = high, f.fma(rest, of_e[of][0], f.fma(g, of_e[of][1], low))
    if of_two is None:
        return k + (g + rest)
    return f.fma(k, of_two[of][0], g + f.fma(k, of_two[of][1], rest))


def _log(f: Function, x: Value, base: tuple) -> Value:
    format = format_of(x)
    smallest = 1 << format.digits
    infinite = 2 * format.bias + 1 << format.digits
    is_normal = unsigned_bits(f, x) - smallest < infinite - smallest
    k, g, _ = split(f, x)
    return where_rare(f, ~is_normal, lambda: _log_of_any(f, x, base), _combined(f, k, g, base))


def _log_of_any(f: Function, x: Value, base: tuple) -> Value:
    """The logarithm of a number that may be subnormal, infinite or not positive."""
    format = format_of(x)
    is_tiny = x < format.smallest
    k, g, _ = split(f, f.select(is_tiny, x * 2.0 ** (format.digits + 1), x))
    k = k - f.select(is_tiny, f.constant(format.digits + 1.0, x.type), 0.0)
    return _with_ends(f, x, _combined(f, k, g, base))


def _with_ends(f: Function, x: Value, found: Value) -> Value:
    """The logarithm, also of what is not a positive number."""
    end = f.select(x.equals(0.0), f.constant(-INF, x.type), NAN)
    return f.select(x > 0.0, f.select(x < INF, found, INF), end)


def log(f: Function, x: Value) -> Value:
    return _log(f, x, BASE_E)


def log2(f: Function, x: Value) -> Value:
    return _log(f, x, BASE_2)


def log10(f: Function, x: Value) -> Value:
    return _log(f, x, BASE_10)


def _log1p(f: Function, x: Value) -> tuple[Value, Value]:
    """log(1 + x) where 1 + x is positive and finite, and 1 + x rounded."""
    u, error = two_sum(f.constant(1.0, x.type), x)
    k, g, power = split(f, u)
    return _combined(f, k, f.fma(error, _inverse_power(f, power, x.type.of), g), BASE_E), u


def _inverse_power(f: Function, power: Value, of: str) -> Value:
    """1/2^k of the bits of 2^k; the largest are left out, where errors are nothing."""
    format = floats.FORMATS[of]
    return f.from_bits(2 * format.one - f.minimum(power, 2 * format.bias - 1 << format.digits), of)


def log1p(f: Function, x: Value) -> Value:
    found, u = _log1p(f, x)
    is_tiny = f.abs(x) < 2.0 ** -(format_of(x).digits + 2)
    return f.select(is_tiny, x, _with_ends(f, u, found))


def _log1p_unit(f: Function, e: Value) -> Value:
    """log(1 + e) for e from 0 to 1."""
    if e.type.of == "float":
        return f.fma(e * e, f.polynomial(e, LOG_UNIT_FLOAT), e)
    s = e / (e + 2.0)
    z = s * s
    return f.fma(-s, e - z * even_odd(f, z, z * z, LOG_UNIT_DOUBLE), e)


def log_sigmoid(f: Function, x: Value) -> Value:
    """log(1 / (1 + e^-x))."""
    return clamp(f, x, high=0.0) - _log1p_unit(f, exp_of_minus_abs(f, x))


def _in_double(f: Function, function: Callable[[Function, Value], Value], x: Value) -> Value:
    """A function of float that is computed in double, of half as many numbers at once, as functions of double are."""

    def part(x: Value) -> Value:
        return f.convert(function(f, f.convert(x, Type("double"))), x.type)

    return f.joined(*[part(half) for half in f.halves(x)]) if x.type.lanes > FEW else part(x)


def in_double(function: Callable[[Function, Value, str], Value]) -> Callable[[Function, Value], Value]:
    """A long function of double that is told which type it is for, as one of both types."""

    def written(f: Function, x: Value) -> Value:
        of = x.type.of
        if of == "double":
            return function(f, x, of)
        return _in_double(f, lambda f, wide: function(f, wide, of), x)

    return written


def log_odds(f: Function, x: Value) -> Value:
    """log(x / (1 - x)), where what the difference and the quotient lose is added to the latter."""
    below = 1.0 - x
    lost = (1.0 - below) - x
    inverse = 1.0 / below
    odds = x * inverse
    error = f.fma(-odds, lost, f.fma(-odds, below, x)) * inverse
    k, g, power = split(f, odds)
    found = _combined(f, k, f.fma(error, _inverse_power(f, power, x.type.of), g), BASE_E)
    return where_rare(f, ~(f.abs(x - 0.5) < 0.5), lambda: log(f, x / below), found)


def asinh(f: Function, x: Value) -> Value:
    if x.type.of == "float":
        return _in_double(f, asinh, x)
    u = f.abs(x)
    is_large = u > 2.0**30
    v = f.select(is_large, 1.0, u)
    square = v * v
    near = _log1p(f, v + square / (f.sqrt(square + 1.0) + 1.0))[0]
    found = f.select(is_large, _twice(f, u), near)
    return f.copysign(f.select(u < 2.0**-28, u, found), x)


def _twice(f: Function, x: Value) -> Value:
    """log(2x) for large x."""
    k, g, _ = split(f, x)
    return f.select(x < INF, _combined(f, k + 1.0, g, BASE_E), x)


def acosh(f: Function, x: Value) -> Value:
    if x.type.of == "float":
        return _in_double(f, acosh, x)
    is_large = x > 2.0**30
    t = f.select(is_large, 1.0, x - 1.0)
    near = _log1p(f, t + f.sqrt(f.fma(t, t, t * 2.0)))[0]
    return f.select(x < 1.0, NAN, f.select(is_large, _twice(f, x), near))


def atanh(f: Function, x: Value) -> Value:
    """½·log((1 + u) / (1 - u)) for u = |x|."""
    if x.type.of == "float":
        return _in_double(f, atanh, x)
    u = f.abs(x)
    found = log1p(f, (u + u) / (1.0 - u)) * 0.5
    found = f.select(u.equals(1.0), INF, f.select(u > 1.0, NAN, found))
    return f.copysign(f.select(u < 2.0**-28, u, found), x)
