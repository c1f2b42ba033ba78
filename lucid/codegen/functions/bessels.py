"""Modified Bessel functions of orders 0 and 1: up to 12 by polynomials of x², beyond by those of 1/x.

All are computed in double; those of float take polynomials of lower degree.
`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen.floats import clamp, even_odd, two_product, where_rare
from lucid.codegen.functions.exponentials import exp
from lucid.codegen.functions.logarithms import in_double
from lucid.codegen.vectors import Function, Value

# I0(x) as a polynomial of x²
# minimax "besseli(0, sqrt(x))" "[0, 144]" --degree 14 --weight "1/(besseli(0, sqrt(x)))"
# minimax "besseli(0, sqrt(x))" "[0, 144]" --degree 19 --weight "1/(besseli(0, sqrt(x)))"
I0_NEAR = {
    "float": (
        *(1.000000000001808, 0.2499999999869803, 0.01562500001375903, 0.00043402777258576985),
        *(6.781684972658243e-06, 6.781674358795124e-08, 4.709563747071031e-10, 2.4025568091409718e-12),
        *(9.392948620895055e-15, 2.8834705095579264e-17, 7.42209745394722e-20, 1.3301061154013411e-22),
        *(3.62939346023467e-25, -1.909182233047979e-29, 1.3441939171008982e-30),
    ),
    "double": (
        *(1.0, 0.25, 0.015625, 0.0004340277777777781, 6.7816840277776935e-06, 6.781684027779275e-08),
        *(4.709502797050904e-10, 2.4028075496555444e-12, 9.385966983161936e-15, 2.8969034207070995e-17),
        *(7.242257626828794e-20, 1.4963363221237036e-22, 2.597769616189095e-25, 3.843340410359729e-28),
        *(4.897272503694042e-31, 5.479569063417821e-34, 5.132323831820153e-37, 5.3431483920416466e-40),
        *(1.5867849302410228e-43, 5.429416961776391e-46),
    ),
}
# √x·e^-x·I0(x) as a polynomial of 1/x
# minimax "besseli(0, 1/x)*exp(-1/x)/sqrt(x)" "[1e-9, 1/mpf(12)]" --degree 6
# minimax "besseli(0, 1/x)*exp(-1/x)/sqrt(x)" "[1e-9, 1/mpf(12)]" --degree 17
I0_FAR = {
    "float": (
        *(0.3989422804140208, 0.04986777120648231, 0.028053107356411023, 0.029054779599730934),
        *(0.049834968388376706, 0.013452252710005577, 0.7411221266276771),
    ),
    "double": (
        *(0.3989422804014327, 0.049867785050186415, 0.028050629081014005, 0.029219410395597126),
        *(0.04474080909547158, 0.09083814613788234, 0.2024617379060339, 2.675553497185519, -106.90191312733121),
        *(4427.633592289014, -132586.20583355136, 2967663.4813404847, -49202304.518760026, 594860954.7621582),
        *(-5080764434.337282, 28946557992.37959, -98267474384.41708, 149666841786.9772),
    ),
}
# I1(x)/x as a polynomial of x²
# minimax "besseli(1, sqrt(x))/sqrt(x)" "[0, 144]" --degree 14 --weight "1/(besseli(1, sqrt(x))/sqrt(x))"
# minimax "besseli(1, sqrt(x))/sqrt(x)" "[0, 144]" --degree 19 --weight "1/(besseli(1, sqrt(x))/sqrt(x))"
I1_NEAR = {
    "float": (
        *(0.5000000000001996, 0.062499999998853424, 0.002604166667676704, 5.425347189375513e-05),
        *(6.781684556259168e-07, 5.651398479184591e-09, 3.3639587383128973e-11, 1.501647188521659e-13),
        *(5.217233196682556e-16, 1.4433447023089933e-18, 3.357049629824138e-21, 5.658053712459012e-24),
        *(1.3438921094230502e-26, 6.735885202953846e-31, 4.324979223159043e-32),
    ),
    "double": (
        *(0.5, 0.0625, 0.0026041666666666665, 5.425347222222224e-05, 6.781684027777738e-07),
        *(5.651403356482134e-09, 3.363930569327389e-11, 1.5017547185018146e-13, 5.21442610322046e-16),
        *(1.4484517055537806e-18, 3.2919354029063014e-21, 6.2347324782831475e-24, 9.991452744125733e-27),
        *(1.372588028793707e-29, 1.63269644788243e-32, 1.7107294323880443e-35, 1.5165547558502797e-38),
        *(1.4636355116778123e-41, 4.5399276679033e-45, 1.3278515208625169e-47),
    ),
}
# √x·e^-x·I1(x) as a polynomial of 1/x
# minimax "besseli(1, 1/x)*exp(-1/x)/sqrt(x)" "[1e-9, 1/mpf(12)]" --degree 6
# minimax "besseli(1, 1/x)*exp(-1/x)/sqrt(x)" "[1e-9, 1/mpf(12)]" --degree 17
I1_FAR = {
    "float": (
        *(0.39894228038739493, -0.1496033396932102, -0.04675381919505664, -0.04072284561779392),
        *(-0.06323822182933053, -0.02397122136856048, -0.8492685814338367),
    ),
    "double": (
        *(0.3989422804014327, -0.1496033551505451, -0.046751048474162386, -0.04090717285839013),
        *(-0.057524207141792696, -0.11098708143185282, -0.2423868236968783, -2.9007089314225296),
        *(112.94066857200858, -4678.015041007983, 139827.93455637663, -3124514.2567845215, 51714186.9149624),
        *(-624150120.3386669, 5321539183.477368, -30263529554.048985, 102545534783.86617, -155876315768.6255),
    ),
}
END = 12.0
GROWTH = (0.188, -0.024, 0.00097)  # nearly I1(u) / (2u·I0(u))
E_TO_8 = 2980.957987041728


def _near(f: Function, u: Value, coefficients: tuple[float, ...]) -> Value:
    """Σ c[k]·u^2k, up to 12, which grows by `GROWTH` of itself with u²: so does what the square loses."""
    u = clamp(f, u, high=END)
    square, error = two_product(f, u, u)
    found = even_odd(f, square, square * square, coefficients)
    return f.fma(found, error * f.polynomial(u, GROWTH), found)


def _far(f: Function, u: Value, coefficients: tuple[float, ...]) -> Value:
    """e^-u times the function, from 12 on."""
    inverse = 1.0 / u
    return even_odd(f, inverse, inverse * inverse, coefficients) / f.sqrt(u)


def _grown(f: Function, u: Value, coefficients: tuple[float, ...]) -> Value:
    """The function from 12 on; it overflows later than e^u, and is nan at infinity, as SciPy's and PyTorch's are."""
    return exp(f, u - 8.0) * (_far(f, u, coefficients) * E_TO_8)


@in_double
def i0(f: Function, x: Value, of: str) -> Value:
    u = f.abs(x)
    return where_rare(f, u > END, lambda: _grown(f, u, I0_FAR[of]), _near(f, u, I0_NEAR[of]))


@in_double
def i0e(f: Function, x: Value, of: str) -> Value:
    u = f.abs(x)
    near = exp(f, -clamp(f, u, high=END)) * _near(f, u, I0_NEAR[of])
    return where_rare(f, u > END, lambda: _far(f, u, I0_FAR[of]), near)


@in_double
def i1(f: Function, x: Value, of: str) -> Value:
    u = f.abs(x)
    near = x * _near(f, u, I1_NEAR[of])
    return where_rare(f, u > END, lambda: f.copysign(_grown(f, u, I1_FAR[of]), x), near)


@in_double
def i1e(f: Function, x: Value, of: str) -> Value:
    u = f.abs(x)
    near = x * (exp(f, -clamp(f, u, high=END)) * _near(f, u, I1_NEAR[of]))
    return where_rare(f, u > END, lambda: f.copysign(_far(f, u, I1_FAR[of]), x), near)
