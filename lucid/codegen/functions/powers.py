"""Powers, and roots but for square ones.

`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen.floats import INF, NAN, clamp, even_odd, fast_two_sum, format_of, parts, quotient, two_product
from lucid.codegen.functions.exponentials import EXP_BOUNDS, LN2, exp_within, two_to, whole_part
from lucid.codegen.functions.logarithms import split
from lucid.codegen.vectors import Function, Type, Value

# log2(1 + g) / g
# minimax "log1p(x)/log(2)/x" "[sqrt(0.5) - 1, sqrt(2) - 1]" --degree 12 --weight "x/log1p(x)"
LOG2_SHORT = (
    *(1.4426950408687083, -0.7213475208686574, 0.48089836139402664, -0.36067367484460733, 0.28853729359629565),
    *(-0.24045316495882538, 0.20617535539740692, -0.18030060916046062, 0.15876985785155193, -0.1431564442436637),
    *(0.14474814993142743, -0.14283916314475342, 0.07737063134838568),
)
# (2^r - 1) / r
# minimax "(2**x - 1) / x" "[-0.5, 0.5]" --degree 5 --weight "x"
EXP2_SHORT = (
    *(0.693147206246735, 0.2402265134537617, 0.05550327795423812, 0.009618003963680831, 0.0013400267890450316),
    0.00015476279243970345,
)
# (log((1 + s) / (1 - s)) / s - 2 - 2/3·s²) / s⁴ as a polynomial of s²
# minimax "(2*atanh(sqrt(x))/sqrt(x) - 2 - 2*x/3)/x**2" "[0, (3 - sqrt(8))**2]" --degree 6 --weight "x**2/2"
LOG_LONG = (
    *(0.40000000000002256, 0.2857142857010001, 0.22222222519832296, 0.18181784375984383, 0.15386756886225458),
    *(0.13256828863499745, 0.13196219239388415),
)
# 1/∛(1 + g)
# minimax "(1+x)**(-1/mpf(3))" "[sqrt(0.5) - 1, sqrt(2) - 1]" --degree 3 --precision 24
# minimax "(1+x)**(-1/mpf(3))" "[sqrt(0.5) - 1, sqrt(2) - 1]" --degree 6
CBRT = {
    "float": (0.9997643, -0.3344501, 0.23820053, -0.16119227),
    "double": (
        *(1.0000007001023365, -0.3333447121982065, 0.22208428256749327, -0.17200115534916535, 0.1476400368164761),
        *(-0.1419548488578952, 0.09497990402170048),
    ),
}
TWO_THIRDS = parts(quotient(2, 3), 2)["double"]


def hypot(f: Function, x: Value, y: Value) -> Value:
    """√(x² + y²), also where the squares are too large or too small; that of float in double, where they are not."""
    is_infinite = f.abs(x).equals(INF) | f.abs(y).equals(INF)
    if x.type.of == "float":
        u, v = f.convert(x, Type("double")), f.convert(y, Type("double"))
        return f.select(is_infinite, INF, f.convert(f.sqrt(f.fma(u, u, v * v)), x.type))
    u, v = f.abs(x), f.abs(y)
    large, small = f.select(u > v, u, v), f.select(u > v, v, u)
    is_large, is_small = large > 2.0**500, large < 2.0**-400
    scale = f.select(is_large, 2.0**-600, f.select(is_small, f.constant(2.0**600, x.type), 1.0))
    back = f.select(is_large, 2.0**600, f.select(is_small, f.constant(2.0**-600, x.type), 1.0))
    large, small = large * scale, small * scale
    return f.select(is_infinite, INF, f.sqrt(f.fma(large, large, small * small)) * back)


def cbrt(f: Function, x: Value) -> Value:
    """By 1/∛m for m · 2^j with j from -1 to 1, x = m · 2^(j + 3q)."""
    of, format = x.type.of, format_of(x)
    u = f.abs(x)
    lift = 27 if of == "float" else 54
    is_tiny = u < format.smallest
    k, g, _ = split(f, f.select(is_tiny, u * 2.0**lift, u))
    total, q = whole_part(f, k, 1 / 3, format.bias)
    j = f.fma(q, -3.0, k)
    m = (g + 1.0) * _choice(f, j, 2.0, 0.5)
    inverse = f.polynomial(g, CBRT[of]) * _choice(f, j, 2.0 ** (-1 / 3), 2.0 ** (1 / 3))
    missing = f.fma(inverse * inverse * inverse, -m, 1.0)
    inverse = f.fma(inverse * missing, f.fma(missing, 2 / 9, 1 / 3), inverse)
    square = inverse * inverse
    root = m * square
    root_square, error = two_product(f, root, root)
    remainder = f.fma(-root_square, root, m) - error * root
    found = f.fma(remainder, square * (1 / 3), root) * two_to(f, total)
    found = f.select(is_tiny, found * 2.0 ** (-lift // 3), found)
    return f.copysign(f.select((u > 0.0) & (u < INF), found, u), x)


def _choice(f: Function, j: Value, above: float, below: float) -> Value:
    """A constant where j is 1, another where it is -1, and 1 where it is 0."""
    return f.select(j > 0.5, above, f.select(j < -0.5, f.constant(below, j.type), 1.0))


def pow(f: Function, x: Value, y: Value) -> Value:
    """x to the power of y, with the special values of C's pow."""
    u = f.abs(x)
    found = _float_power(f, u, y) if x.type.of == "float" else _double_power(f, u, y)
    inf, zero = f.constant(INF, x.type), f.constant(0.0, x.type)
    found = f.select(u.equals(0.0), f.select(y < 0.0, inf, zero), found)
    found = f.select(u.equals(INF), f.select(y < 0.0, zero, inf), found)
    is_whole = f.floor(y).equals(y)
    half = y * 0.5
    is_odd = is_whole & f.floor(half).differs(half)
    found = f.select((f.bits(x) < 0) & is_odd, -found, found)
    is_undefined = (x < 0.0) & (u < INF) & ~is_whole | x.is_nan() | y.is_nan()
    return f.select(x.equals(1.0) | y.equals(0.0), 1.0, f.select(is_undefined, NAN, found))


def _bounded(f: Function, y: Value) -> Value:
    """An exponent that is as good as infinite, but whose product with a logarithm of 0 is 0."""
    return clamp(f, y, -(2.0**80), 2.0**80)


def _float_power(f: Function, u: Value, y: Value) -> Value:
    """u^y = 2^(y·log2(u)) for positive finite u: in double, where polynomials for the precision of float suffice."""
    double = Type("double")
    k, g, _ = split(f, f.convert(u, double))
    square = g * g
    logarithm = f.fma(g, even_odd(f, g, square, LOG2_SHORT), k)
    exponent = clamp(f, _bounded(f, f.convert(y, double)) * logarithm, -200.0, 200.0)
    total, n = whole_part(f, exponent, 1.0, format_of(exponent).bias)
    r = exponent - n
    found = f.fma(r, even_odd(f, r, r * r, EXP2_SHORT), 1.0) * two_to(f, total)
    return f.convert(found, u.type)


def _long_log(f: Function, u: Value) -> tuple[Value, Value]:
    """log(u) of a positive number as a sum of two, with about 65 digits: log(m) = 2s + s³·(2/3 + …), s = (m-1)/(m+1)."""
    format = format_of(u)
    is_tiny = u < format.smallest
    k, g, _ = split(f, f.select(is_tiny, u * 2.0 ** (format.digits + 1), u))
    k = k - f.select(is_tiny, f.constant(format.digits + 1.0, u.type), 0.0)
    under, under_low = fast_two_sum(f.constant(2.0, u.type), g)
    inverse = 1.0 / under
    s = g * inverse
    s_low = inverse * (f.fma(-s, under, g) - s * under_low)
    z, z_low = two_product(f, s, s)
    z_low = f.fma(s + s, s_low, z_low)
    series, series_low = fast_two_sum(f.constant(TWO_THIRDS[0], u.type), z * even_odd(f, z, z * z, LOG_LONG))
    series_low = series_low + TWO_THIRDS[1]
    w, w_low = two_product(f, z, series)
    w_low = w_low + f.fma(z, series_low, z_low * series)
    v, v_low = two_product(f, s, w)
    v_low = v_low + f.fma(s, w_low, s_low * w)
    whole, whole_low = two_product(f, k, LN2["double"][0])
    first, first_low = fast_two_sum(whole, s + s)
    high, high_low = fast_two_sum(first, v)
    low = (first_low + high_low) + (v_low + f.fma(k, LN2["double"][1], f.fma(s_low, 2.0, whole_low)))
    return fast_two_sum(high, low)


def _double_power(f: Function, u: Value, y: Value) -> Value:
    """u^y = e^(y·log(u)) for positive finite u."""
    high, low = _long_log(f, u)
    y = _bounded(f, y)
    product, error = two_product(f, y, high)
    error = f.fma(y, low, error)
    bounded = clamp(f, product, *EXP_BOUNDS["double"])
    return exp_within(f, bounded, f.select(bounded.equals(product), error, 0.0))
