"""Functions by way of the exponential: x = n·ln 2 + r with a whole number n, a polynomial of r, and 2^n by its bits.

`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from decimal import Decimal

from lucid.codegen import floats
from lucid.codegen.floats import clamp, even_odd, format_of, parts, quotient, where_rare
from lucid.codegen.vectors import Function, Type, Value

LN2 = parts(floats.LN2, 2)
LOG2_E = parts(quotient(1, floats.LN2), 1)
ROOT_HALF = parts(Decimal("0.707106781186547524400844362104849039284835937688474036588339869"), 2)
TWO_BY_ROOT_PI = parts(Decimal("1.12837916709551257389615890312154517168810125865799771368817144"), 2)

# (e^r - 1 - r) / r²
# minimax "(exp(x) - 1 - x) / x**2" "[-log(2)/2, log(2)/2]" --degree 4 --weight "x**2 / expm1(x)" --precision 24
# minimax "(exp(x) - 1 - x) / x**2" "[-log(2)/2, log(2)/2]" --degree 9 --weight "x**2 / expm1(x)"
EXP = {
    "float": (0.49999997, 0.16666543, 0.0416672, 0.008366512, 0.001388254),
    "double": (
        *(0.5000000000000006, 0.16666666666666588, 0.04166666666657682, 0.008333333333389478, 0.001388888893154119),
        *(0.00019841269719141866, 2.4801505304846202e-05, 2.7557407453591776e-06, 2.7626024689656765e-07),
        2.5053791027176592e-08,
    ),
}
# (2^r - 1) / r
# minimax "(2**x - 1) / x" "[-0.5, 0.5]" --degree 5 --weight "x" --precision 24
# minimax "(2**x - 1) / x" "[-0.5, 0.5]" --degree 10 --weight "x"
EXP2 = {
    "float": (0.6931472, 0.2402265, 0.05550328, 0.009618004, 0.0013400267, 0.00015476279),
    "double": (
        *(0.6931471805599453, 0.24022650695910133, 0.05550410866482174, 0.009618129107593331, 0.0013333558146379318),
        *(0.0001540353045807932, 1.5252733867328969e-05, 1.3215434817110988e-06, 1.0178046533760038e-07),
        *(7.073860135168042e-09, 4.4573779449168857e-10),
    ),
}
# (sinh(r) - r) / r³ as a polynomial of r²
# minimax "(sinh(sqrt(x))/sqrt(x) - 1)/x" "[0, (log(2)/2)**2]" --degree 2 --weight "x" --precision 24
# minimax "(sinh(sqrt(x))/sqrt(x) - 1)/x" "[0, (log(2)/2)**2]" --degree 4 --weight "x"
SINH = {
    "float": (0.16666667, 0.008333289, 0.00019904948),
    "double": (
        *(0.16666666666666677, 0.008333333333321626, 0.00019841269886132243, 2.7557244211441926e-06),
        2.5109033624893307e-08,
    ),
}
# (cosh(r) - 1) / r² as a polynomial of r²
# minimax "(cosh(sqrt(x)) - 1)/x" "[0, (log(2)/2)**2]" --degree 2 --weight "x" --precision 24
# minimax "(cosh(sqrt(x)) - 1)/x" "[0, (log(2)/2)**2]" --degree 4 --weight "x"
COSH = {
    "float": (0.5, 0.041666266, 0.0013946218),
    "double": (
        *(0.5000000000000013, 0.04166666666651442, 0.0013888888947224819, 2.4801489763468298e-05),
        2.7631334362274775e-07,
    ),
}
# (-log(erfc(x)) - 2x/√π) / x²
# minimax "(-log(erfc(x))/x - 2/sqrt(pi))/x" "[0, 4]" --degree 7 --weight "erfc(x)*x**2/erf(x)" --precision 24
# minimax "(-log(erfc(x))/x - 2/sqrt(pi))/x" "[0, 6]" --degree 22 --weight "erfc(x)*x**2/erf(x)"
ERF = {
    "float": (
        *(0.6366195, 0.1027768, -0.0191496, -0.00016634639, 0.0016726365, -0.00063575734, 0.000118425334),
        -9.340626e-06,
    ),
    "double": (
        *(0.6366197723675876, 0.10277260330144221, -0.019128446995325076, -0.00020919483169184045),
        *(0.0016962075290746512, -0.0005901318213076525, 2.5902612081467816e-05, 6.442481563308077e-05),
        *(-2.9583273977689776e-05, 3.179996953922591e-06, 3.121951485316401e-06, -2.0278778213742543e-06),
        *(5.643529482834068e-07, -8.32152906654465e-09, -6.719308655212292e-08, 3.508531366561955e-08),
        *(-1.0908706606285943e-08, 2.3889786074992485e-09, -3.806210024175956e-10, 4.355122097403726e-11),
        *(-3.4075298418188635e-12, 1.636417918109822e-13, -3.642082066651718e-15),
    ),
}
# exp(u²)·erfc(u)·(u + 4) as a polynomial of (u - 4) / (u + 4)
# minimax "(lambda u: exp(u**2)*erfc(u)*(u+4))(4*(1+x)/(1-x))" "[-1, (10.1-4)/(10.1+4)]" --degree 10
#   --weight "1/(lambda u: exp(u**2)*erfc(u)*(u+4))(4*(1+x)/(1-x))"
# minimax "(lambda u: exp(u**2)*erfc(u)*(u+4))(4*(1+x)/(1-x))" "[-1, (27.3-4)/(27.3+4)]" --degree 21
#   --weight "1/(lambda u: exp(u**2)*erfc(u)*(u+4))(4*(1+x)/(1-x))"
ERFC = {
    "float": (
        *(1.0959956609105865, -0.9765487453523967, 0.7732087256257819, -0.5408529535359079, 0.33085137351618543),
        *(-0.17402420541040037, 0.076373316200748, -0.026295122576314656, 0.006215179302563047),
        *(-0.0003923181497553008, -0.0007575972736294658),
    ),
    "double": (
        *(1.095995661000491, -0.9765487290808824, 0.7732087022652409, -0.540853831313188, 0.33085158787779106),
        *(-0.174010937241477, 0.0763815149142244, -0.02637005331661514, 0.006112055601937627),
        *(-0.0002809590710904671, -0.00045505235735693154, 0.00017681391773785078, -3.6363273757032988e-06),
        *(-1.8864653681906758e-05, 4.696756686758459e-06, 1.4324899716884427e-06, -8.485387374424826e-07),
        *(-8.687263112877123e-08, 1.2435421314738448e-07, 9.615000887719696e-09, -1.3840543119332676e-08),
        -2.7665725791732597e-09,
    ),
}
# (-log(erfc(u)) - u²) / u - 1/2 as a polynomial of u - 5/2
# minimax "(lambda u: (-log(erfc(u)) - u**2)/u - 0.5)(x + 2.5)" "[1e-9 - 2.5, 2.5]" --degree 12 --weight "x + 2.5"
#   --precision 24
ERFC_NEAR = (
    *(0.12272611, -0.10801814, 0.020764735, -0.003962686, 0.0007189262, -0.00011916424, 1.6806209e-05),
    *(-1.6423413e-06, -2.5271282e-08, 7.9423955e-08, -3.3963293e-08, 8.318563e-09, -8.54339e-10),
)
# (-log(erfc(u/√2)) - u²/2) / u - 3/8 as a polynomial of u - 2.75
# minimax "(lambda u: (-log(erfc(u/sqrt(2))) - u**2/2)/u - 0.375)(x + 2.75)" "[1e-9 - 2.75, 2.75]" --degree 10
#   --weight "x + 2.75" --precision 24
NDTR_NEAR = (
    *(0.11282336, -0.06765449, 0.010227952, -0.0014976371, 0.00020083657, -2.2961425e-05),
    *(1.8864598e-06, 2.4077051e-09, -5.8212667e-08, 1.7280353e-08, -1.9305657e-09),
)
NDTR_NEAR_END = 5.5
# u·e^(u²/2)·erfc(u/√2)/2 as a polynomial of 1/u², from 5.5 to 14.3
# minimax "exp(0.5/x)*ncdf(-sqrt(1/x))*sqrt(1/x)" "[0.00489, 0.03306]" --degree 5 --precision 24
#   --weight "1/(exp(0.5/x)*ncdf(-sqrt(1/x))*sqrt(1/x))"
NDTR_FAR = (0.39894226, -0.3989329, 1.1950835, -5.822122, 33.627613, -137.30315)
GELU_END = {"float": 13.14, "double": 37.6}  # beyond, gelu is smaller than all normal numbers
# -log2(erfc(u/√2)) / u, nearly: the product with u is rounded to a whole number
# minimax "log(1/erfc(x/sqrt(2)))/(x*log(2))" "[1e-9, 5.5]" --degree 2 --weight "x" --precision 24
NDTR_BITS = (1.084095, 0.5513116, 0.012175058)
LN2_SHORT = (355 / 512, float(floats.LN2 - Decimal(355) / 512))  # whose products with whole numbers are exact in float

# Within these, e^x and 2^x are normal numbers.
EXP_NORMAL = {"float": 87.0, "double": 708.0}
EXP2_NORMAL = {"float": 125.0, "double": 1021.0}
# Beyond these, e^x and 2^x are infinite, or nearer to 0 than to the smallest subnormal number.
EXP_BOUNDS = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
EXP2_BOUNDS = {"float": (-151.0, 128.0), "double": (-1076.0, 1024.0)}
SINH_BOUND = {"float": 89.7, "double": 710.7}


def whole_part(f: Function, x: Value, factor: float | Value, more: int = 0) -> tuple[Value, Value]:
    """The whole number n nearest to x · factor: n + more as the low bits of a sum, and n as a number."""
    rounder = format_of(x).rounder + more
    total = f.fma(x, factor, rounder)
    return total, total - rounder


def two_to(f: Function, total: Value) -> Value:
    """2^n of a sum of `whole_part` with n + bias in its low bits, where that is a normal number."""
    return f.from_bits(f.bits(total) << format_of(total).digits, total.type.of)


def scaled(f: Function, x: Value, total: Value) -> Value:
    """x · 2^n of a sum of `whole_part`, for a positive x that is not small; the result may be subnormal or infinite.

    Processors take a hundred times as long for products that are subnormal. These are whole numbers of the smallest one,
    and found as such: the sum with a number whose last digit is 1 rounds to them.
    """
    format, of = format_of(x), x.type.of
    n = f.bits(total) - f.bits(f.constant(format.rounder, x.type))
    grown, up = x, f.maximum(n, 0)
    half = up >> 1
    for part in (half, up - half):
        grown = grown * f.from_bits((part << format.digits) + format.one, of)
    normal = f.bits(x) + (n << format.digits)
    count = f.from_bits(f.bits(x) + ((n + (format.digits + format.bias - 1)) << format.digits), of)
    unit = f.constant(2.0**format.digits, x.type)
    small = f.bits(count + unit) - f.bits(unit)
    is_small = (f.bits(x) >> format.digits) + n <= 0
    found = f.select(n > 0, grown, f.from_bits(f.select(is_small, small, normal), of))
    return f.select(x.is_nan(), x, found)


def times_two_to(f: Function, x: Value, total: Value) -> Value:
    """x · 2^n of a sum of `whole_part`, where both are normal numbers: n is added to the exponent."""
    return f.from_bits(f.bits(x) + (f.bits(total) << format_of(x).digits), x.type.of)


def _reduced(f: Function, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """e^(x + low) as a number near 1 and the sum of `whole_part` for the power of two that it is to be multiplied by."""
    of = x.type.of
    total, n = whole_part(f, x, LOG2_E[of][0])
    high = f.fma(n, -LN2[of][0], x)  # exact
    low = n * -LN2[of][1] if low is None else f.fma(n, -LN2[of][1], low)
    r = high + low
    square = r * r
    return (f.fma(square, even_odd(f, r, square, EXP[of]), low) + high) + 1.0, total


def exp_within(f: Function, x: Value, low: Value | None = None) -> Value:
    """e^(x + low) for x within `EXP_BOUNDS` and a small number beside it."""
    return scaled(f, *_reduced(f, x, low))


def exp(f: Function, x: Value) -> Value:
    of = x.type.of
    total, n = whole_part(f, x, LOG2_E[of][0])
    r = f.fma(n, -LN2[of][1], f.fma(n, -LN2[of][0], x))
    square = r * r
    return _unless_rare(f, x, f.fma(square, even_odd(f, r, square, EXP[of]), r) + 1.0, total)


def _unless_rare(f: Function, x: Value, found: Value, total: Value) -> Value:
    """e^x as the product of a number near 1 and 2^n, if that is normal."""
    is_rare = ~(f.abs(x) <= EXP_NORMAL[x.type.of])
    bounds = EXP_BOUNDS[x.type.of]
    return where_rare(f, is_rare, lambda: exp_within(f, clamp(f, x, *bounds)), times_two_to(f, found, total))


def exp_of_minus_abs(f: Function, x: Value) -> Value:
    """e^-|x|, with as small an error as other functions need that are made of it."""
    x = -f.abs(x)
    return _unless_rare(f, x, *_reduced(f, x))


def exp2(f: Function, x: Value) -> Value:
    of = x.type.of

    def parts_of(x: Value) -> tuple[Value, Value]:
        total, n = whole_part(f, x, 1.0)
        r = x - n
        return f.fma(r, even_odd(f, r, r * r, EXP2[of]), 1.0), total

    is_rare = ~(f.abs(x) <= EXP2_NORMAL[of])
    found = times_two_to(f, *parts_of(x))
    return where_rare(f, is_rare, lambda: scaled(f, *parts_of(clamp(f, x, *EXP2_BOUNDS[of]))), found)


def _expm1(f: Function, x: Value, exponent: int = 0, low: Value | None = None) -> Value:
    """(e^(x + low) - 1) · 2^exponent, where 2^(n + exponent) is a normal number."""
    of = x.type.of
    total, n = whole_part(f, x, LOG2_E[of][0], format_of(x).bias + exponent)
    high = f.fma(n, -LN2[of][0], x)  # exact
    low = n * -LN2[of][1] if low is None else f.fma(n, -LN2[of][1], low)
    r = high + low
    square = r * r
    rest = f.fma(square, even_odd(f, r, square, EXP[of]), low)
    scale = two_to(f, total)
    return f.fma(scale, rest, f.fma(scale, high, scale - 2.0**exponent))


def expm1(f: Function, x: Value) -> Value:
    near_zero = f.abs(x) < 2.0 ** -(format_of(x).digits + 2)
    found = _expm1(f, clamp(f, x, -40.0, EXP_BOUNDS[x.type.of][1]), -1) * 2.0
    return f.select(near_zero, x, found)


def tanh(f: Function, x: Value) -> Value:
    """E / (E + 2) with E = e^(2|x|) - 1; below 1/4, E/2 less a small part, which may be less exact."""
    u = f.abs(x)
    e = _expm1(f, clamp(f, u + u, high=40.0))
    ratio, half = e / (e + 2.0), e * 0.5
    return f.copysign(f.select(e < 0.667, f.fma(-half, ratio, half), ratio), x)


def sigmoid(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x), which is e^x where that is subnormal."""
    bound = EXP_NORMAL[x.type.of]
    e = times_two_to(f, *_reduced(f, -clamp(f, f.abs(x), high=bound)))
    total, low = floats.fast_two_sum(f.constant(1.0, x.type), e)
    quotient = f.select(x < 0.0, e, 1.0) / total
    inverse = f.fma(total, -0.4857, 1.4571)  # nearly, which is enough for what the rounding of the sum changes
    found = f.fma(quotient, low * -inverse, quotient)  # of which no product of small numbers is rounded
    return where_rare(f, ~(x >= -bound), lambda: exp_within(f, clamp(f, x, *EXP_BOUNDS[x.type.of])), found)


def _hyperbolic(f: Function, x: Value) -> tuple[Value, ...]:
    """Of x = n·ln 2 + r: 2^n/4, 2^-n/4, and r without its last digits, sinh(r) without that, cosh(r) without 1."""
    of, format = x.type.of, format_of(x)
    total, n = whole_part(f, x, LOG2_E[of][0])
    high, low = f.fma(n, -LN2[of][0], x), n * -LN2[of][1]
    r = high + low
    square = r * r
    sinh_rest = f.fma(r * square, f.polynomial(square, SINH[of]), low)
    cosh_rest = square * f.polynomial(square, COSH[of])
    quarter = format.bias - 2 << format.digits
    whole = f.bits(total) - f.bits(f.constant(format.rounder, x.type))
    grown = f.from_bits((whole << format.digits) + quarter, of)
    shrunk = f.from_bits(quarter - (f.minimum(whole, format.bias - 3) << format.digits), of)
    return grown, shrunk, high, sinh_rest, cosh_rest


def sinh(f: Function, x: Value) -> Value:
    u = f.abs(x)
    grown, shrunk, high, sinh_rest, cosh_rest = _hyperbolic(f, clamp(f, u, high=SINH_BOUND[x.type.of]))
    total, difference = grown + shrunk, grown - shrunk
    found = f.fma(total, high, difference) + f.fma(difference, cosh_rest, total * sinh_rest)
    near_zero = u < 2.0 ** -(format_of(x).digits // 2 + 2)
    return f.select(near_zero, x, f.copysign(found * 2.0, x))


def cosh(f: Function, x: Value) -> Value:
    grown, shrunk, high, sinh_rest, cosh_rest = _hyperbolic(f, clamp(f, f.abs(x), high=SINH_BOUND[x.type.of]))
    total, difference = grown + shrunk, grown - shrunk
    rest = f.fma(total, cosh_rest, f.fma(difference, sinh_rest, shrunk))
    return (f.fma(difference, high, grown) + rest) * 2.0


def erf(f: Function, x: Value) -> Value:
    """1 - e^-y, where y = -log(erfc(x)) is nearly a parabola."""
    of = x.type.of
    u = clamp(f, f.abs(x), high=4.0 if of == "float" else 6.0)
    first, rest = TWO_BY_ROOT_PI[of]
    small = u * -f.fma(u, even_odd(f, u, u * u, ERF[of]), rest)
    y = f.fma(u, -first, small)
    return f.copysign(_expm1(f, y, low=f.fma(u, -first, -y) + small), x)


def erfc(f: Function, x: Value) -> Value:
    if x.type.of == "double":
        return _erfc(f, x, ERFC["double"], 27.3)

    def far() -> Value:
        wide = f.convert(x, Type("double"))
        return f.convert(_erfc(f, wide, ERFC["float"], 10.1), x.type)

    return where_rare(f, ~(x <= 4.0), far, _erfc_near(f, x))


def _erfc_near(f: Function, x: Value) -> Value:
    """erfc in float up to 4: e^-(u² + u/2 + a small function of u), of which the first two are exact."""
    u = clamp(f, f.abs(x), high=5.0)
    v = u - 2.5
    square, error = floats.two_product(f, u, u)
    small = f.fma(u * v, f.polynomial(v, ERFC_NEAR[1:]), f.fma(u, ERFC_NEAR[0], error))
    total, n = whole_part(f, -(f.fma(u, 0.5, square) + small), LOG2_E["float"][0])
    high = f.fma(u, -0.5, f.fma(n, -LN2_SHORT[0], -square)) - small
    low = n * -LN2_SHORT[1]
    r = high + low
    square = r * r
    found = f.fma(square, even_odd(f, r, square, EXP["float"]), low) + high
    tail = times_two_to(f, found + 1.0, total)
    return f.select(x < 0.0, 2.0 - tail, tail)


def _erfc(f: Function, x: Value, coefficients: tuple[float, ...], end: float) -> Value:
    """For float in double, where the degree for float suffices."""
    u = clamp(f, f.abs(x), high=end)
    tail = _tail(f, u, f.constant(0.0, u.type), *floats.two_product(f, u, u), coefficients)
    return f.select(x < 0.0, 2.0 - tail, tail)


def _tail(f: Function, u: Value, rest: Value, high: Value, low: Value, coefficients: tuple[float, ...]) -> Value:
    """erfc(u + rest) as e^-(high + low), its square, times a slowly varying function."""
    return slow_tail(f, u, rest, coefficients) * exp_within(f, -high, -low)


def slow_tail(f: Function, u: Value, rest: Value, coefficients: tuple[float, ...]) -> Value:
    """e^(v²)·erfc(v) for v = u + rest, in double, by its product with v + 4 as a polynomial of (v - 4) / (v + 4)."""
    under = u + 4.0
    t = (under - 8.0) / under
    slow = even_odd(f, t, t * t, coefficients) / under
    # That is e^(u²)·erfc(u) at u = under - 4, which differs by the rounding of the sum. Its derivative takes that back.
    moved = (u - (under - 4.0)) + rest
    return f.fma(moved, f.fma(u + u, slow, -TWO_BY_ROOT_PI["double"][0]), slow)


def ndtr(f: Function, x: Value) -> Value:
    """The normal distribution function: erfc(-x/√2) / 2, of which the square is that of x."""
    if x.type.of == "double":
        return ndtr_in_double(f, x, ERFC["double"], 38.6)

    def far() -> Value:
        u = clamp(f, f.abs(x), high=14.28)
        slow, rest, total = _far_tail(f, u)
        quotient = slow / u
        lost = f.fma(-quotient, u, slow) * (quotient * 2.5)  # 1 / u, nearly
        return scaled(f, f.fma(rest, quotient, lost) + quotient, total)

    tail = _normal_tail(f, _up_to_near_end(f, x))
    return where_rare(f, ~(x >= -NDTR_NEAR_END), far, f.select(x < 0.0, tail, 1.0 - tail))


def _far_tail(f: Function, u: Value) -> tuple[Value, Value, Value]:
    """u·(1 - ndtr(u)) in float from 5.5 on, as a·(1 + b)·2^n: a, b, and the sum of `whole_part` for n."""
    square, error = floats.two_product(f, u, u * 0.5)
    total, n = whole_part(f, -square, LOG2_E["float"][0])
    high, low = f.fma(n, -LN2["float"][0], -square), f.fma(n, -LN2["float"][1], -error)
    r = high + low
    rest = f.fma(r * r, even_odd(f, r, r * r, EXP["float"]), low) + high
    t = 1.0 / (u * u)
    return even_odd(f, t, t * t, NDTR_FAR), rest, total


def gelu(f: Function, x: Value) -> Value:
    """x times the normal distribution function: in float mostly max(x, 0) - u·tail with u = |x|, up to where that is x.

    Where that would be subnormal it is 0: products of matrices of such numbers take a hundred times as long.
    """
    end = GELU_END[x.type.of]
    if x.type.of == "double":
        return f.select(x < -end, -0.0, ndtr_in_double(f, x, ERFC["double"], 38.6) * clamp(f, x, low=-end))

    def far() -> Value:
        slow, rest, total = _far_tail(f, clamp(f, f.abs(x), high=end))
        found = times_two_to(f, f.fma(rest, slow, slow), total)
        return f.select(x.is_nan(), x, f.select(x < -end, -0.0, -found))

    u = _up_to_near_end(f, x)
    return where_rare(f, ~(x >= -NDTR_NEAR_END), far, f.fma(-u, _normal_tail(f, u), clamp(f, x, low=0.0)))


def times_root_half(f: Function, u: Value) -> tuple[Value, Value]:
    """u/√2 in double, and what its rounding left."""
    first, second = ROOT_HALF["double"]
    scaled = u * first
    return scaled, f.fma(u, second, f.fma(u, first, -scaled))


def ndtr_in_double(f: Function, x: Value, coefficients: tuple[float, ...], end: float) -> Value:
    u = clamp(f, f.abs(x), high=end)
    tail = _tail(f, *times_root_half(f, u), *floats.two_product(f, u, u * 0.5), coefficients) * 0.5
    return f.select(x < 0.0, tail, 1.0 - tail)


def _up_to_near_end(f: Function, x: Value) -> Value:
    return clamp(f, f.abs(x), high=NDTR_NEAR_END)


def _normal_tail(f: Function, u: Value) -> Value:
    """1 - ndtr(u) in float, up to 5.5: e^-(u²/2 + 3u/8 + a small function of u) / 2, of which the first two are exact."""
    square, error = floats.two_product(f, u, u * 0.5)
    v = u - 2.75
    rest = even_odd(f, v, v * v, NDTR_NEAR[2:])
    small = f.fma(u, f.polynomial(v, (*NDTR_NEAR[:2], rest)), error)
    total, n = whole_part(f, -u, f.polynomial(u, NDTR_BITS))
    r = f.fma(n, -LN2_SHORT[1], f.fma(u, -0.375, f.fma(n, -LN2_SHORT[0], -square)) - small)
    rest = f.fma(r * r, even_odd(f, r, r * r, EXP["float"]), r)
    return times_two_to(f, f.fma(rest, 0.5, 0.5), total)
