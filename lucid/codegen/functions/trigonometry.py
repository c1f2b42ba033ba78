"""Circular functions and their inverses.

`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen import floats
from lucid.codegen.floats import (
    INF,
    NAN,
    clamp,
    even_odd,
    fast_two_sum,
    flip_sign,
    format_of,
    from_library,
    parts,
    quotient,
    sign_bit,
    two_product,
    two_sum,
    where_rare,
)
from lucid.codegen.vectors import Function, Value

HALF_PI = parts(quotient(floats.PI, 2), 3)
QUARTER_PI = parts(quotient(floats.PI, 4), 2)
BY_HALF_PI = parts(quotient(2, floats.PI), 1)

REDUCED = 1e5  # Farther from 0, the multiples of π need more than three parts: the C library computes these.

# (sin(r) - r) / r³ up to π/4 as a polynomial of r²
# minimax "(sin(sqrt(x))/sqrt(x) - 1)/x" "[0, (pi/4)**2]" --degree 2 --weight "x*sqrt(x)/sin(sqrt(x))" --precision 24
# minimax "(sin(sqrt(x))/sqrt(x) - 1)/x" "[0, (pi/4)**2]" --degree 5 --weight "x*sqrt(x)/sin(sqrt(x))"
SIN = {
    "float": (-0.16666655, 0.008332161, -0.00019515288),
    "double": (
        *(-0.1666666666666663, 0.008333333333322118, -0.000198412698295895, 2.755731362139117e-06),
        *(-2.505074776691202e-08, 1.5896230545913667e-10),
    ),
}
# (cos(r) - 1 + r²/2) / r⁴ up to π/4 as a polynomial of r²
# minimax "(cos(sqrt(x)) - 1 + x/2)/x**2" "[0, (pi/4)**2]" --degree 2 --weight "x**2" --precision 24
# minimax "(cos(sqrt(x)) - 1 + x/2)/x**2" "[0, (pi/4)**2]" --degree 5 --weight "x**2"
COS = {
    "float": (0.041666646, -0.0013887368, 2.4438456e-05),
    "double": (
        *(0.0416666666666666, -0.001388888888887414, 2.480158728949281e-05, -2.7557314355514115e-07),
        *(2.0875723720580813e-09, -1.1359671712159033e-11),
    ),
}
# (atan(t) - t) / t³ up to ½ as a polynomial of t²
# minimax "(atan(sqrt(x))/sqrt(x) - 1)/x" "[0, 0.25]" --degree 4 --weight "x" --precision 24
# minimax "(atan(sqrt(x))/sqrt(x) - 1)/x" "[0, 0.25]" --degree 11 --weight "x"
ATAN = {
    "float": (-0.33333236, 0.1999432, -0.14176144, 0.10165414, -0.05141465),
    "double": (
        *(-0.33333333333332993, 0.19999999999905643, -0.14285714276590003, 0.1111111066783673),
        *(-0.09090896436129026, 0.07692076721417988, -0.06663837623292868, 0.05858471600999796),
        *(-0.051227336006004036, 0.041884467451842364, -0.027464698407340317, 0.010136764749534038),
    ),
}
# (asin(t) - t) / t³ up to ½ as a polynomial of t²
# minimax "(asin(sqrt(x))/sqrt(x) - 1)/x" "[0, 0.25]" --degree 4 --weight "x" --precision 24
# minimax "(asin(sqrt(x))/sqrt(x) - 1)/x" "[0, 0.25]" --degree 11 --weight "x"
ASIN = {
    "float": (0.16666754, 0.074952416, 0.045477085, 0.02414764, 0.04221851),
    "double": (
        *(0.16666666666665383, 0.07500000000343073, 0.044642856823470335, 0.030381959331479743),
        *(0.022371753522250754, 0.017359771079424362, 0.013884599001325035, 0.012173274937491672),
        *(0.006510873841958786, 0.019573849319960007, -0.016293986554439525, 0.03195890873462032),
    ),
}


def _sin_and(f: Function, r: Value, square: Value, other: Value) -> Value:
    """sin(r) - r + other."""
    return f.fma(r * square, f.polynomial(square, SIN[r.type.of]), other)


def _cos_rest(f: Function, square: Value) -> Value:
    """cos(r) - 1."""
    return square * f.fma(square, f.polynomial(square, COS[square.type.of]), -0.5)


def _circular(f: Function, x: Value, name: str, quarters: int, sign: Value | None) -> Value:
    """sin(|x| + quarters · π/2), with another sign, by its remainder r after multiples of π/2."""
    of, format = x.type.of, format_of(x)
    u = f.abs(x)
    total = f.fma(u, BY_HALF_PI[of][0], format.rounder)
    r = u
    for part in HALF_PI[of]:  # The first product cancels exactly.
        r = f.fma(total - format.rounder, -part, r)
    square = r * r
    sine, cosine = _sin_and(f, r, square, r), _cos_rest(f, square) + 1.0
    turns = f.bits(total) + quarters
    found = f.select((turns & 1).differs(0), cosine, sine)
    half_turns = (turns << x.type.bits - 2) & format.sign
    found = flip_sign(f, found, half_turns if sign is None else half_turns ^ sign)
    return where_rare(f, u > REDUCED, lambda: from_library(f, name, x), found)


def sin(f: Function, x: Value) -> Value:
    return _circular(f, x, "sin", 0, sign_bit(f, x))


def cos(f: Function, x: Value) -> Value:
    return _circular(f, x, "cos", 1, None)


def tan(f: Function, x: Value) -> Value:
    """sin(r) / cos(r), or -cos(r) / sin(r), each as a sum of two, for r up to π/4."""
    of, format = x.type.of, format_of(x)
    first, second, third = HALF_PI[of]
    u = f.abs(x)
    total = f.fma(u, BY_HALF_PI[of][0], format.rounder)
    n = total - format.rounder
    product, error = two_product(f, n, -second)
    r, r_low = two_sum(f.fma(n, -first, u), product)
    r_low = r_low + f.fma(n, -third, error)
    square = r * r
    sine, sine_low = fast_two_sum(r, _sin_and(f, r, square, r_low))
    cosine, cosine_low = fast_two_sum(f.constant(1.0, x.type), f.fma(-r, r_low, _cos_rest(f, square)))
    is_odd = (f.bits(total) & 1).differs(0)
    over, over_low = f.select(is_odd, -cosine, sine), f.select(is_odd, -cosine_low, sine_low)
    under, under_low = f.select(is_odd, sine, cosine), f.select(is_odd, sine_low, cosine_low)
    inverse = 1.0 / under
    ratio = over * inverse
    remainder = f.fma(-ratio, under, over) + f.fma(-ratio, under_low, over_low)
    found = flip_sign(f, f.fma(remainder, inverse, ratio), sign_bit(f, x))
    return where_rare(f, u > REDUCED, lambda: from_library(f, "tan", x), found)


def _asin_half(f: Function, u: Value) -> tuple[Value, Value, Value]:
    """For u from 0 on: t up to ½ and asin(t) - t, where t is u or, above ½, √((1 - u)/2), and which it is."""
    is_small = u <= 0.5
    square = f.select(is_small, u * u, (1.0 - u) * 0.5)
    t = f.select(is_small, u, f.sqrt(square))
    rest = t * square * even_odd(f, square, square * square, ASIN[u.type.of])
    return t, rest, is_small


def asin(f: Function, x: Value) -> Value:
    high, low, _ = HALF_PI[x.type.of]
    t, rest, is_small = _asin_half(f, f.abs(x))
    large = high - (f.fma(rest, 2.0, -low) + t * 2.0)
    return f.copysign(f.select(is_small, t + rest, large), x)


def acos(f: Function, x: Value) -> Value:
    high, low, _ = HALF_PI[x.type.of]
    t, rest, is_small = _asin_half(f, f.abs(x))
    sign = sign_bit(f, x)
    middle = high - flip_sign(f, t + flip_sign(f, flip_sign(f, rest, sign) - low, sign), sign)
    double = (t + rest) * 2.0
    far = f.select(x < 0.0, 2.0 * high - (double - 2.0 * low), double)
    return f.select(is_small, middle, far)


def _atan_ratio(f: Function, over: Value, under: Value, is_left: Value | None) -> Value:
    """The angle, from 0 to π, of a point (under, over), of which both are ≥ 0, or the first is negated if `is_left`.

    It is k·π/4 + atan(t), where t is a ratio up to ½.
    """
    of = over.type.of
    is_steep = over > under
    small, large = f.select(is_steep, under, over), f.select(is_steep, over, under)
    is_diagonal = small + small > large
    t = f.select(is_diagonal, small - large, small) / f.select(is_diagonal, small + large, large)
    k = f.select(is_diagonal, f.constant(1.0, over.type), 0.0)
    k, t = f.select(is_steep, 2.0 - k, k), f.select(is_steep, -t, t)
    if is_left is not None:
        k, t = f.select(is_left, 4.0 - k, k), f.select(is_left, -t, t)
    square = t * t
    angle = f.fma(t * square, even_odd(f, square, square * square, ATAN[of]), t)
    high, low = QUARTER_PI[of]
    return f.fma(k, high, f.fma(k, low, angle))


def atan(f: Function, x: Value) -> Value:
    u = clamp(f, f.abs(x), high=2.0**100)
    return f.copysign(_atan_ratio(f, u, f.constant(1.0, x.type), None), x)


def atan2(f: Function, y: Value, x: Value) -> Value:
    over, under = _finite_pair(f, f.abs(y), f.abs(x))
    found = f.copysign(_atan_ratio(f, over, under, f.bits(x) < 0), y)
    return f.select(x.is_nan() | y.is_nan(), NAN, found)


def _finite_pair(f: Function, over: Value, under: Value) -> tuple[Value, Value]:
    """Two numbers from 0 on of the same ratio, whose sum is finite and not 0: infinities count as equal, 0/0 as 0."""
    largest = 2.0 ** format_of(over).bias
    scale = f.select((over >= largest) | (under >= largest), f.constant(0.25, over.type), 1.0)
    is_infinite = over.equals(INF) | under.equals(INF)
    pair = []
    for x in (over, under):
        at_infinity = f.select(x.equals(INF), f.constant(1.0, x.type), 0.0)
        pair.append(f.select(is_infinite, at_infinity, x * scale))
    return pair[0], f.select((over + under).equals(0.0), 1.0, pair[1])
