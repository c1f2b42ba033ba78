"""The logarithm of the gamma function and its derivative: by polynomials up to 5, by Stirling's series beyond.

All are computed in double; those of float take polynomials of lower degree.
`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen.floats import INF, NAN, even_odd, where_rare
from lucid.codegen.functions.logarithms import in_double, log
from lucid.codegen.vectors import Function, Value

# lgamma(y) / ((y - 1)(y - 2)) as a polynomial of (y - 9/4) / (y + 9/4)
# minimax "(lambda y: loggamma(y)/((y - 1)*(y - 2)))(2.25*(1 + x)/(1 - x))" "[-1.25/3.25, 2.76/7.26]" --degree 11
# minimax "(lambda y: loggamma(y)/((y - 1)*(y - 2)))(2.25*(1 + x)/(1 - x))" "[-1.25/3.25, 2.76/7.26]" --degree 22
LGAMMA = {
    "float": (
        *(0.39958948739422906, -0.3864638099516469, 0.12522050125364914, -0.13438037339550657),
        *(0.08177464096392582, -0.0846481215683834, 0.06179064653046753, -0.0632114812816852),
        *(0.04576745993686349, -0.043856718398033484, 0.06144142290228443, -0.06767937855091513),
    ),
    "double": (
        *(0.3995894876556691, -0.38646381398067464, 0.1252203739449272, -0.13437971566892984),
        *(0.08178463682777483, -0.08467900995542131, 0.061505969385863106, -0.0625910849422679),
        *(0.04937303119418965, -0.04982234507661337, 0.04124048076039427, -0.04143299186039575),
        *(0.03539985087384388, -0.03551814885454505, 0.03108375984348058, -0.030675358542996793),
        *(0.026916471289097826, -0.03027265435212846, 0.029082962891939616, -0.012838999713311308),
        *(0.006336435199592401, -0.051054461773524074, 0.05364954295328),
    ),
}
# ψ(y) / (y - its zero) as a polynomial of (y - 9/4) / (y + 9/4)
# minimax "(lambda y: digamma(y)/(y -
#   mpf('1.46163214496836234126265954232572132846819620400644635129598840859878644')))(2.25*(1 + x)/(1 - x))"
#   "[-1.25/3.25, 2.76/7.26]" --degree 12
# minimax "(lambda y: digamma(y)/(y -
#   mpf('1.46163214496836234126265954232572132846819620400644635129598840859878644')))(2.25*(1 + x)/(1 - x))"
#   "[-1.25/3.25, 2.76/7.26]" --degree 24
DIGAMMA = {
    "float": (
        *(0.7262427854586003, -0.9641581740742912, 0.6383232179772721, -0.6539860009493969, 0.6062195441350092),
        *(-0.6194135523338791, 0.6031416325516774, -0.6202841457160287, 0.6207013088560124),
        *(-0.5300218656314399, 0.47500418919744813, -1.0101237234037101, 1.1237698653960921),
    ),
    "double": (
        *(0.7262427849760034, -0.9641582064244778, 0.6383234945806071, -0.6539798979575725, 0.6061934336404933),
        *(-0.6197407150757601, 0.6040676343848035, -0.612839826367425, 0.6051635938341845, -0.6107822783245495),
        *(0.6060976414824767, -0.6098971197229688, 0.6067101649366844, -0.6092692883057985, 0.6067248107817255),
        *(-0.6109970869917272, 0.6115471941157048, -0.590359486017675, 0.571961525816617, -0.7273600612007272),
        *(0.8048430455850841, -0.13808054919286286, -0.07161214263342089, -1.6027013735897089),
        1.8440988641896414,
    ),
}
# (lgamma(y) - (y - 1/2)(log(y) - 1) - (log(2π) - 1)/2)·y as a polynomial of 1/y²
# minimax "(lambda y: (loggamma(y) - (y - 0.5)*(log(y) - 1) - (log(2*pi) - 1)/2)*y)(1/sqrt(x))" "[0, 0.04]" --degree 3
# minimax "(lambda y: (loggamma(y) - (y - 0.5)*(log(y) - 1) - (log(2*pi) - 1)/2)*y)(1/sqrt(x))" "[0, 0.04]" --degree 7
STIRLING = {
    "float": (*(0.08333333331964349, -0.002777766604704873, 0.0007922194681336705, -0.0005354873113302823),),
    "double": (
        *(0.08333333333333331, -0.002777777777738486, 0.0007936507723835567, -0.0005952336876745743),
        *(0.0008412975886861158, -0.00189169751070861, 0.00555919673750535, -0.013306319427752688),
    ),
}
# (log(y) - ψ(y) - 1/(2y))·y² as a polynomial of 1/y²
# minimax "(lambda y: (log(y) - digamma(y) - 0.5/y)*y*y)(1/sqrt(x))" "[0, 0.04]" --degree 3
# minimax "(lambda y: (log(y) - digamma(y) - 0.5/y)*y*y)(1/sqrt(x))" "[0, 0.04]" --degree 8
PSI = {
    "float": (*(0.0833333332153229, -0.00833323660998382, 0.003955799250239882, -0.003642034907096132),),
    "double": (
        *(0.08333333333333333, -0.008333333333288378, 0.003968253937227325, -0.004166658383376915),
        *(0.0075746396241477745, -0.021006616894790824, 0.07930655311907271, -0.32622302055539437),
        0.9066181702996277,
    ),
}
# (sin(πr)/(πr) - 1) / r² as a polynomial of r²
# minimax "(sin(pi*sqrt(x))/(pi*sqrt(x)) - 1)/x" "[0, 0.25]" --degree 8 --weight "x"
SINE = (
    *(-1.6449340668482264, 0.8117424252833536, -0.19075182412208275, 0.026147847817615255),
    *(-0.0023460810348494786, 0.0001484287874151576, -6.975841608390959e-06, 2.530114213473997e-07),
    -7.094449664638908e-09,
)
CENTER, END = 2.25, 5.0
STIRLING_CONSTANT = 0.4189385332046728  # (log(2π) - 1) / 2
DIGAMMA_ZERO = (0.46163214496836236, -1.5522348162858677e-17)  # less 1
PI = 3.141592653589793


def _near(f: Function, y: Value, coefficients: tuple[float, ...]) -> Value:
    """A polynomial of (y - 2.25) / (y + 2.25)."""
    t = (y - CENTER) / (y + CENTER)
    return even_odd(f, t, t * t, coefficients)


def _beyond_1(f: Function, x: Value) -> tuple[Value, Value]:
    """y ≥ 1 and y - 1 for a number that is not negative: the number, or 1 more."""
    is_low = x < 1.0
    return f.select(is_low, x + 1.0, x), f.select(is_low, x, x - 1.0)


def _sine(f: Function, r: Value) -> Value:
    """sin(πr)/π between -½ and ½."""
    square = r * r
    return f.fma(r * square, even_odd(f, square, square * square, SINE), r)


def _lgamma(f: Function, y: Value, before: Value, of: str) -> Value:
    """lgamma(y) for y ≥ 1, and y - 1."""
    near = f.fma(before, (before - 1.0) * _near(f, y, LGAMMA[of]), 0.0)  # and no -0
    inverse = 1.0 / y
    series = f.polynomial(inverse * inverse, STIRLING[of])
    far = f.fma(y - 0.5, log(f, y) - 1.0, f.fma(series, inverse, STIRLING_CONSTANT))
    return f.select(y < END, near, far)


@in_double
def lgamma(f: Function, x: Value, of: str) -> Value:
    """log|Γ(x)|; below 1 by Γ(x) = Γ(1 + x) / x, below 0 by Γ(x) = -π / (sin(πu)·Γ(1 + u)) with u = |x|.

    The logarithms of the latter may cancel, so that they are those for double.
    """
    found = _lgamma(f, *_beyond_1(f, x), of)

    def negative() -> Value:
        u = f.abs(x)
        sine = f.abs(_sine(f, u - f.round(u)))
        return f.select(u.equals(INF), x, -log(f, sine) - _lgamma(f, u + 1.0, u, "double"))

    found = where_rare(f, x < 1.0, lambda: found - log(f, x), found)
    return where_rare(f, x < 0.0, negative, found)


def _digamma(f: Function, y: Value, before: Value, of: str) -> Value:
    """The derivative of lgamma for y ≥ 1, and y - 1."""
    near = ((before - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1]) * _near(f, y, DIGAMMA[of])
    inverse = 1.0 / y
    square = inverse * inverse
    far = log(f, y) - f.fma(square, f.polynomial(square, PSI[of]), inverse * 0.5)
    return f.select(y < END, near, far)


@in_double
def digamma(f: Function, x: Value, of: str) -> Value:
    """The derivative of lgamma; below 1 by ψ(x) = ψ(1 + x) - 1/x, below 0 by ψ(x) = ψ(1 + u) + π·cot(πu) with u = |x|."""
    found = _digamma(f, *_beyond_1(f, x), of)

    def negative() -> Value:
        u = f.abs(x)
        r = u - f.round(u)
        cotangent = _sine(f, 0.5 - f.abs(r)) / _sine(f, r) * PI
        return f.select(r.equals(0.0), NAN, cotangent + _digamma(f, u + 1.0, u, "double"))

    found = where_rare(f, x < 1.0, lambda: found - 1.0 / x, found)
    return where_rare(f, x < 0.0, negative, found)
