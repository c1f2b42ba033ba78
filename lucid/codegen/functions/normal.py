"""Quantiles of the normal distribution, and its tails by way of slowly varying functions of them.

All are computed in double; those of float take polynomials of lower degree.
`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen.floats import clamp, even_odd, two_product, where_rare
from lucid.codegen.functions.exponentials import (
    ERFC,
    EXP_BOUNDS,
    exp_within,
    ndtr_in_double,
    slow_tail,
    times_root_half,
)
from lucid.codegen.functions.logarithms import in_double, log, log1p
from lucid.codegen.vectors import Function, Value

# erfinv(x) / x as a polynomial of w - 25/8 with w = -log(1 - x²)
# minimax "(lambda v: erfinv(v)/v)(sqrt(-expm1(-(x + 3.125))))" "[-3.125, 3.126]" --degree 12
# minimax "(lambda v: erfinv(v)/v)(sqrt(-expm1(-(x + 3.125))))" "[-3.125, 3.126]" --degree 24
NEAR = {
    "float": (
        *(1.6536545628131385, 0.24015817880921314, -0.006033672036260033, -0.0007406917760841079),
        *(0.00018673589983645727, -1.3891714310226252e-05, -1.3663766966751133e-06, 4.268851867405291e-07),
        *(-2.88472317787313e-08, -4.742515127621359e-09, 1.0260580880770948e-09, 5.307631052206312e-12),
        -1.2213588263061871e-11,
    ),
    "double": (
        *(1.6536545626831027, 0.24015818242558834, -0.006033670871426948, -0.0007407025341546154),
        *(0.00018673420802028682, -1.3882523394033192e-05, -1.3654691767910948e-06, 4.23478816917124e-07),
        *(-2.9070390370477792e-08, -4.1126605030244696e-09, 1.0512228476237668e-09, -5.414300497573867e-11),
        *(-1.297860916957339e-11, 2.630519276195097e-12, -8.076710142416914e-14, -4.0018690547485604e-14),
        *(6.5291127680568885e-15, -3.955674375577373e-17, -1.2299158968436883e-16, 1.5522006853556687e-17),
        *(6.643565876734524e-19, -3.478108187211282e-19, 1.7770091545200828e-20, 3.2023111411529586e-21),
        -3.2131544066895257e-22,
    ),
}
# The same as a polynomial of w, in float
# minimax "(lambda v: erfinv(v)/v)(sqrt(-expm1(-x)))" "[0, 6.26]" --degree 12
#   --precision 24
NEAR_IN_FLOAT = (
    *(0.8862269520759583, 0.23201362788677216, 0.01154970470815897, -0.0023362564388662577),
    *(-0.00012618550681509078, 4.492828156799078e-05, 2.89343620352156e-06, -1.2351163150015054e-06),
    *(-4.5665967007835206e-08, 4.766148720136698e-08, -6.985966916062125e-09, 4.6061646163941816e-10),
    -1.2138563591779228e-11,
)
# erfinv(x) / (x√w) as a polynomial of 1/√w - center
# minimax "(lambda s: s*findroot(lambda y: log(erfc(y)) + s**-2 + log1p(sqrt(-expm1(-s**-2))),
#   0.95/s)/sqrt(-expm1(-s**-2)))(x + 0.25)" "[-0.153, 0.151]" --degree 15
# minimax "(lambda s: s*findroot(lambda y: log(erfc(y)) + s**-2 + log1p(sqrt(-expm1(-s**-2))),
#   0.95/s)/sqrt(-expm1(-s**-2)))(x + 0.28)" "[-0.116, 0.121]" --degree 26
MIDDLE = {
    "float": (
        *(0.9599459492778863, -0.19818918717853234, 0.080630716239494, 0.5672643945914452, -0.570688141076436),
        *(5.387995681065462, 37.02213647764251, 136.469723608435, -863.7557407899267, -7987.333856392693),
        *(8929.059587807431, 233135.83524756515, -14020.798377636484, -4032762.4364930764, -583863.5889147808),
        32069516.4536646,
    ),
    "double": (
        *(0.9540878553789524, -0.19185361420084954, 0.1305535950236846, 0.5694516513585404, 0.7957808459208755),
        *(12.682912937791288, 29.843743117920525, -256.3557537147783, -1776.0883920399076, 5927.932492910695),
        *(60792.01079267214, -214053.52509407944, -1690005.7321545626, 9634422.765604382, 30197646.15481726),
        *(-381567769.1196903, 272881257.4474589, 11238060185.29248, -48474508273.23277, -204271270446.10178),
        *(2075754969995.913, 880074122902.47, -50506937882291.29, 47714106231931.45, 683017099873793.8),
        *(-796728961435157.4, -3799666410501663.0),
    ),
}
MIDDLE_CENTER = {"float": 0.25, "double": 0.28}
# The same beyond w = 37
# minimax "(lambda s: s*findroot(lambda y: log(erfc(y)) + s**-2 + log1p(sqrt(-expm1(-s**-2))),
#   0.95/s)/sqrt(-expm1(-s**-2)))(x + 0.1)" "[-0.0635, 0.0668]" --degree 23
FAR = (
    *(0.9890609132540967, -0.16908702367111175, -0.34980850858392787, 1.6380160858038948),
    *(-4.203305380198486, 16.294549649359066, -83.19573176854729, 477.8435116118651, -2984.4936193101744),
    *(19885.98039431456, -139447.54455788882, 1012883.9419936781, -7346756.160682324, 57276046.62559358),
    *(-587384978.4707007, 4319525714.2553625, 15777879237.963728, -12719381422.677366, -12351610280780.672),
    *(81757271863294.97, 1243188785834184.5, -8288048369642542.0, -1.0195953452320554e17),
    7.784642946861507e17,
)
FAR_CENTER = 0.1
# e^(u²)·erfc(u)·(u + 4) as a polynomial of (u - 4) / (u + 4)
# minimax "(lambda u: exp(u**2)*erfc(u)*(u + 4))(4*(1 + x)/(1 - x))" "[-1, 1]" --degree 13
# minimax "(lambda u: exp(u**2)*erfc(u)*(u + 4))(4*(1 + x)/(1 - x))" "[-1, 1]" --degree 26
ERFCX = {
    "float": (
        *(1.0959956612652262, -0.9765487273627437, 0.7732086752969269, -0.5408538899315921),
        *(0.33085203631390825, -0.17401035242990423, 0.07637870605505587, -0.0263726532283876),
        *(0.006120531756737377, -0.000274956599973175, -0.0004685310516313594, 0.00016927717817722738),
        *(7.711846700964256e-06, -1.3905851712513086e-05),
    ),
    "double": (
        *(1.095995661000491, -0.976548729080882, 0.7732087022652371, -0.5408538313132364, 0.33085158787800684),
        *(-0.17401093723987593, 0.07638151490953153, -0.026370053341506477, 0.0061120556516386084),
        *(-0.00028095885269503805, -0.0004550526444221221, 0.00017681273599846222, -3.6354042526482302e-06),
        *(-1.886055234027612e-05, 4.6952978838520624e-06, 1.4233203827845018e-06, -8.48408527534899e-07),
        *(-7.407267069242069e-08, 1.2772786279701816e-07, -5.993228731982158e-10, -1.8971172688428804e-08),
        *(9.086244301248846e-10, 2.804352254049794e-09, -1.504258447691614e-10, -3.606653579207032e-10),
        *(1.1827941276941836e-11, 2.7914369815696524e-11),
    ),
}
NEAR_END, MIDDLE_END = 6.25, 37.0
FAR_TAIL = 64.0  # from here on, e^(u²)·erfc(u) is its series in 1/u², and the terms of a polynomial would cancel
SERIES = (1.0, -0.5, 0.75, -1.875, 6.5625)  # of e^(u²)·erfc(u)·u√π: (-1)ᵏ·(2k - 1)!! / 2ᵏ
ONE_BY_ROOT_PI = 0.5641895835477563
ROOT_2 = 1.4142135623730951


def _quantile(f: Function, x: Value, rest: Value, of: str) -> Value:
    """erfinv(x) with rest = 1 - x², each as exact as it can be: x times a function of -log(rest)."""
    w = -log(f, rest)
    v = w - NEAR_END / 2
    near = even_odd(f, v, v * v, NEAR[of])
    return x * where_rare(f, ~(w <= NEAR_END), lambda: _far_quotient(f, w, of), near)


def _far_quotient(f: Function, w: Value, of: str) -> Value:
    """erfinv(x) / x where 1 - x² = e^-w is small, nearly √w."""
    root = f.sqrt(w)
    s = 1.0 / root

    def of_table(center: float, coefficients: tuple[float, ...]) -> Value:
        v = s - center
        return even_odd(f, v, v * v, coefficients) / s

    middle = of_table(MIDDLE_CENTER[of], MIDDLE[of])
    if of == "float":
        return middle
    return where_rare(f, ~(w <= MIDDLE_END), lambda: of_table(FAR_CENTER, FAR), middle)


def erfinv(f: Function, x: Value) -> Value:
    if x.type.of == "double":
        return _erfinv(f, x)
    w = -log(f, (1.0 - x) * (x + 1.0))
    near = x * f.fma(w, even_odd(f, w, w * w, NEAR_IN_FLOAT[1:]), NEAR_IN_FLOAT[0])
    return where_rare(f, ~(w <= NEAR_END), lambda: _erfinv(f, x), near)


@in_double
def _erfinv(f: Function, x: Value, of: str) -> Value:
    return _quantile(f, x, (1.0 - x) * (x + 1.0), of)


@in_double
def erfcinv(f: Function, x: Value, of: str) -> Value:
    return _quantile(f, 1.0 - x, (2.0 - x) * x, of)


@in_double
def ndtri(f: Function, x: Value, of: str) -> Value:
    """√2·erfinv(2x - 1)."""
    return _quantile(f, f.fma(x, 2.0, -1.0), (x * 4.0) * (1.0 - x), of) * ROOT_2


def _slow(f: Function, u: Value, rest: Value, of: str) -> Value:
    """e^(v²)·erfc(v) of any positive v = u + rest."""
    inverse = 1.0 / u
    far = (inverse * ONE_BY_ROOT_PI) * f.polynomial(inverse * inverse, SERIES)
    return f.select(u > FAR_TAIL, far, slow_tail(f, u, rest, ERFCX[of]))


@in_double
def erfcx(f: Function, x: Value, of: str) -> Value:
    """e^(x²)·erfc(x), which for negative numbers is 2e^(x²) less that of |x|."""
    u = f.abs(x)
    slow = _slow(f, u, f.constant(0.0, u.type), of)

    def grown() -> Value:
        high, low = two_product(f, *[clamp(f, u, high=27.0)] * 2)
        return exp_within(f, clamp(f, high, high=EXP_BOUNDS["double"][1]), low) * 2.0 - slow

    return where_rare(f, x < 0.0, grown, slow)


@in_double
def log_ndtr(f: Function, x: Value, of: str) -> Value:
    """log(ndtr(x)): below -1 by the logarithm of e^(x²/2)·ndtr(x)."""

    def far() -> Value:
        u = f.abs(x)
        return log(f, _slow(f, *times_root_half(f, u), of) * 0.5) - u * u * 0.5

    near = log1p(f, -ndtr_in_double(f, -clamp(f, x, low=-1.0), ERFC[of], 38.6 if of == "double" else 14.28))
    return where_rare(f, x < -1.0, far, near)
