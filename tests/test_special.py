"""Special functions beyond the table: accuracy in the tails, limits, differential equations, SciPy's ufuncs."""

import doctest
import math

import mpmath
import numpy as np
import pytest
import scipy.special as scipy
from scipy.integrate import quad

import lucid
from lucid import autograd, special
from lucid.backends.numpy.special import incomplete
from lucid.core.primitive import P
from lucid.func import grad, hessian, vmap
from lucid.interop import scipy_ufuncs

INF, NAN = np.inf, np.nan


def t(*values, dtype=lucid.float64):
    return lucid.tensor(values, dtype=dtype)


def derivatives(function, x, order=1):
    """The derivatives up to some order of a function of one number, at each of the numbers."""
    functions = [function]
    for _ in range(order):
        functions.append(grad(functions[-1]))
    return [vmap(f)(lucid.tensor(np.asarray(x, float))).numpy() for f in functions]


# Weights of the central difference of order 8.
STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


def difference(function, x, step):
    return sum(w * (function(x + k * step) - function(x - k * step)) for k, w in STENCIL.items()) / step


# --- values -------------------------------------------------------------------------------------

EVERYWHERE = np.concatenate([np.linspace(-30, 30, 121), [-700, -200, -75.5, 1e-12, -1e-12, 55.25, 200, 700, 1e4]])
ABOVE = np.concatenate([np.geomspace(1e-8, 700, 80), [1e4]])
CHANCES = np.concatenate([np.geomspace(1e-280, 0.4, 50), 1 - np.geomspace(1e-12, 0.4, 30)])


@np.vectorize
def _ndtr(x):
    """SciPy's loses digits in the tail, where it rounds x²."""
    with mpmath.workprec(200):
        return float(mpmath.ncdf(mpmath.mpf(float(x))))


@np.vectorize
def _log_ndtr(x):
    with mpmath.workprec(200):
        upper = mpmath.ncdf(-mpmath.mpf(float(x)))
        return float(mpmath.log1p(-upper) if x > 0 else mpmath.log(1 - upper if x > -1 else mpmath.ncdf(float(x))))


GRIDS = {
    "bessel_j0": (scipy.j0, EVERYWHERE), "bessel_j1": (scipy.j1, EVERYWHERE), "bessel_y0": (scipy.y0, ABOVE),
    "bessel_y1": (scipy.y1, ABOVE), "i0": (scipy.i0, EVERYWHERE), "i1": (scipy.i1, EVERYWHERE),
    "i0e": (scipy.i0e, EVERYWHERE), "i1e": (scipy.i1e, EVERYWHERE), "modified_bessel_k0": (scipy.k0, ABOVE),
    "modified_bessel_k1": (scipy.k1, ABOVE), "scaled_modified_bessel_k0": (scipy.k0e, ABOVE),
    "scaled_modified_bessel_k1": (scipy.k1e, ABOVE), "airy_ai": (lambda x: scipy.airy(x)[0], EVERYWHERE[:121]),
    "erfcx": (scipy.erfcx, EVERYWHERE), "log_ndtr": (_log_ndtr, EVERYWHERE), "ndtr": (_ndtr, EVERYWHERE),
    "ndtri": (scipy.ndtri, CHANCES), "erfcinv": (scipy.erfcinv, CHANCES), "entr": (scipy.entr, ABOVE),
    "gamma": (scipy.gamma, ABOVE), "spherical_bessel_j0": (lambda x: np.sinc(x / np.pi), EVERYWHERE),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 1e-6)])
def test_values_in_the_tails(name, dtype, rtol):
    reference, x = GRIDS[name]
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        want = np.asarray(reference(x.astype(float))).astype(dtype)
    got = getattr(special, name)(lucid.tensor(x)).numpy()
    # Numbers that single precision rounds to its smallest have no relative accuracy.
    np.testing.assert_allclose(got, want, rtol, atol=1e-15 if name.endswith(("j0", "j1")) else np.finfo(dtype).tiny)


EDGES = [
    ("entr", (-1.0,), -INF),
    ("entr", (0.0,), 0.0),
    ("xlogy", (0.0, 0.0), 0.0),
    ("xlogy", (0.0, NAN), NAN),
    ("xlog1py", (0.0, -1.0), 0.0),
    ("xlog1py", (0.0, NAN), NAN),
    ("zeta", (1.0, 3.0), INF),
    ("zeta", (0.5, 3.0), NAN),
    ("gammainc", (0.0, 0.0), NAN),
    ("gammainc", (0.0, 2.0), 1.0),
    ("gammainc", (2.0, 0.0), 0.0),
    ("gammainc", (2.0, INF), 1.0),
    ("gammainc", (-1.0, 1.0), NAN),
    ("gammaincc", (2.0, INF), 0.0),
    ("ndtri", (0.0,), -INF),
    ("ndtri", (1.0,), INF),
    ("ndtri", (1.5,), NAN),
    ("log_ndtr", (-INF,), -INF),
    ("log_ndtr", (INF,), 0.0),
    ("bessel_y0", (0.0,), -INF),
    ("modified_bessel_k0", (0.0,), INF),
    ("modified_bessel_k0", (-1.0,), NAN),
    ("spherical_bessel_j0", (INF,), 0.0),
    ("logit", (0.0, 0.25), float(np.log(1 / 3))),
    ("betainc", (2.0, 3.0, 0.0), 0.0),
    ("betainc", (2.0, 3.0, 1.0), 1.0),
    ("chebyshev_polynomial_t", (0.5, -1), 0.0),
    ("hermite_polynomial_h", (NAN, 2), NAN),
]


@pytest.mark.parametrize(("name", "args", "want"), EDGES, ids=str)
def test_edges(name, args, want):
    got = getattr(special, name)(t(args[0]), *args[1:])
    np.testing.assert_allclose(got, [want], rtol=1e-12)


def test_types():
    for name in ("ndtr", "i0e", "erfcx"):
        function = getattr(special, name)
        assert function(lucid.tensor([1, 2])).dtype == lucid.float32
        assert function(lucid.tensor([True])).dtype == lucid.float32
        assert function(t(1.0, dtype=lucid.bfloat16)).dtype == lucid.bfloat16
        with pytest.raises(TypeError, match=f"{name}|scaled_bessel_i"):
            function(lucid.tensor([1j]))
    assert special.gammainc(lucid.tensor([1]), lucid.tensor([2])).dtype == lucid.float32
    assert special.gammainc(2, t(1.0)).dtype == lucid.float64
    assert special.zeta(2.0, lucid.tensor([1, 2])).dtype == lucid.float32


# --- derivatives of incomplete functions ----------------------------------------------------------

AS = np.array([0.05, 0.5, 1.0, 3.0, 12.0, 60.0, 400.0])


@pytest.mark.parametrize("ratio", [0.01, 0.4, 0.95, 1.0, 1.1, 2.5, 12.0])
def test_gammainc_by_a_is_the_limit_of_differences(ratio):
    x = AS * ratio
    step = 0.02 * np.minimum(AS, np.sqrt(AS))
    want = difference(lambda a: scipy.gammainc(a, x), AS, step)
    a = lucid.tensor(AS, requires_grad=True)
    for function, sign in ((special.gammainc, 1), (special.gammaincc, -1)):
        got = autograd.grad(function(a, lucid.tensor(x)).sum(), a)
        np.testing.assert_allclose(got, sign * want, rtol=1e-9, atol=1e-11)


def gamma_integral(a, x):
    """∂P/∂a as an integral over log t."""

    def integrand(v):
        return np.exp(a * v - np.exp(v) - scipy.gammaln(a)) * (v - scipy.digamma(a))

    low = np.log(x)
    found, _ = quad(integrand, low - 40 / a - 40, low, epsabs=0, epsrel=1e-11, limit=400, points=[low - 1, low - 5])
    return found


@pytest.mark.parametrize(("a", "x"), [(2.5, 0.01), (2.5, 1.5), (8.0, 0.5), (30.0, 8.0), (100.0, 70.0), (5.0, 4.9)])
def test_gammainc_by_a_has_relative_accuracy_in_the_lower_tail(a, x):
    got = incomplete.gammainc_by_a(np.array(a), np.array(x), 1)
    np.testing.assert_allclose(got, gamma_integral(a, x), rtol=1e-10)


def test_gammainc_by_a_of_large_parameters():
    # The median of Poisson's and the gamma distribution: ∂P/∂a -> -1/sqrt(2πa) (1 + O(1/a)) at x = a.
    a = np.array([1e6, 1e8])
    got = incomplete.gammainc_by_a(a, a, 1)
    np.testing.assert_allclose(got, -1 / np.sqrt(2 * np.pi * a), rtol=1e-5)
    far = incomplete.gammainc_by_a(np.array([1e6]), np.array([1.003e6]), 1)
    step = 100.0
    want = difference(lambda s: -scipy.gammaincc(s, 1.003e6), 1e6, step)
    np.testing.assert_allclose(far, want, rtol=1e-8)


def test_gammainc_to_the_third_order():
    a, x = t(0.7, 2.0, 9.0), t(0.4, 2.5, 20.0)

    def value(a, x):
        return special.gammainc(a, x)

    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
        inner = grad(grad(value, first), second)
        got = vmap(grad(inner, 0))(a, x)
        want = difference(lambda s, inner=inner: vmap(inner)(lucid.tensor(s), x).numpy(), a.numpy(), 1e-2)
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_second_derivatives_commute():
    h = hessian(lambda p: special.gammainc(p[0], p[1]))(t(1.5, 2.0)).numpy()
    np.testing.assert_allclose(h, h.T, rtol=1e-13)
    h = hessian(lambda p: special.betainc(p[0], p[1], p[2]))(t(1.5, 2.0, 0.3)).numpy()
    np.testing.assert_allclose(h, h.T, rtol=1e-12)
    h = hessian(lambda p: special.zeta(p[0], p[1]))(t(1.5, 2.0)).numpy()
    np.testing.assert_allclose(h, h.T, rtol=1e-13)


def test_gammainc_at_its_ends():
    a, x = t(0.5, 1.0, 2.0, 3.0, 2.0, 0.0), t(0.0, 0.0, 0.0, 0.0, INF, 2.0)
    by_a = vmap(grad(special.gammainc, 0))(a, x)
    # At a = 0: the derivative of -a ∫ exp(-t)/t dt over t > x.
    np.testing.assert_allclose(by_a, [0, 0, 0, 0, 0, -scipy.exp1(2.0)], rtol=1e-12)
    np.testing.assert_array_equal(vmap(grad(special.gammainc, 1))(a, x), [INF, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(vmap(grad(grad(special.gammainc, 1), 1))(a, x)[1:5], [-1, 1, 0, 0])


PARAMETERS = np.array([0.1, 0.8, 2.0, 15.0, 120.0])


@pytest.mark.parametrize("x", [1e-6, 0.02, 0.3, 0.6, 0.97])
def test_betainc_by_parameters_is_the_limit_of_differences(x):
    a, b = (p.reshape(-1) for p in np.meshgrid(PARAMETERS, PARAMETERS))
    for which in (0, 1):
        moved = (a, b)[which]

        def value(s, which=which):
            return scipy.betainc(*((s, b) if which == 0 else (a, s)), x)

        want = difference(value, moved, 0.02 * np.minimum(moved, np.sqrt(moved)))
        inputs = [lucid.tensor(a).requires_grad_(), lucid.tensor(b).requires_grad_()]
        got = autograd.grad(special.betainc(*inputs, x).sum(), inputs[which])
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=2e-11)


def test_betainc_by_x_is_the_density():
    x = lucid.tensor([0.1, 0.5, 0.9], requires_grad=True, dtype=lucid.float64)
    got = autograd.grad(special.betainc(2.0, 3.0, x).sum(), x)
    np.testing.assert_allclose(got, 12 * x.numpy() * (1 - x.numpy()) ** 2, rtol=1e-13)


def test_many_elements_are_integrated_in_blocks():
    rng = np.random.default_rng(0)
    a, x = rng.uniform(0.1, 9, (70, 90)), rng.uniform(0.1, 9, (70, 90))
    whole = incomplete.gammainc_by_a(a, x, 1)
    np.testing.assert_array_equal(whole[69], incomplete.gammainc_by_a(a[69], x[69], 1))
    assert incomplete.gammainc_by_a(a[:0], x[:0], 1).shape == (0, 90)


# --- other derivatives ---------------------------------------------------------------------------


def test_zeta_by_x():
    known = derivatives(lambda x: special.zeta(x, 1.0), [2.0], 2)
    np.testing.assert_allclose(known[1], [-0.9375482543158437], rtol=1e-14)
    np.testing.assert_allclose(known[2], [1.9892802342989011], rtol=1e-14)
    x, q = (v.reshape(-1) for v in np.meshgrid([1.1, 1.7, 3.0, 8.0], [0.2, 1.0, 4.5, 300.0]))
    got = vmap(grad(special.zeta))(lucid.tensor(x), lucid.tensor(q))
    want = difference(lambda s: scipy.zeta(s, q), x, np.minimum(0.02, 0.01 * (x - 1)))
    np.testing.assert_allclose(got, want, rtol=1e-9)
    by_q = vmap(grad(special.zeta, 1))(lucid.tensor(x), lucid.tensor(q))
    np.testing.assert_allclose(by_q, -x * scipy.zeta(x + 1, q), rtol=1e-13)


def test_log_ndtr_in_both_tails():
    y = np.array([50.0, 1e3, 1e5])
    _, first, second = derivatives(special.log_ndtr, -y, 2)
    np.testing.assert_allclose(first, y + 1 / y - 2 / y**3, rtol=1e-9)
    np.testing.assert_allclose(second, -(1 - 1 / y**2 + 6 / y**4), rtol=1e-8)
    np.testing.assert_allclose(second[1:], -(1 - 1 / y[1:] ** 2 + 6 / y[1:] ** 4), rtol=1e-14)
    x = np.array([0.0, 3.0, 20.0, 37.0, 200.0])
    _, first, second = derivatives(special.log_ndtr, x, 2)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(first, density / scipy.ndtr(x), rtol=1e-12)
    np.testing.assert_allclose(second, -first * (x + first), rtol=1e-12)


def test_erfcx_far_out():
    # exp(x²) erfc(x) ~ (1 - 1/(2x²) + 3/(4x⁴)) / (x √π), differentiated term by term
    x = np.array([1e3, 1e5])
    _, first, second = derivatives(special.erfcx, x, 2)
    root = np.sqrt(np.pi)
    np.testing.assert_allclose(first, -(x**-2 - 1.5 * x**-4) / root, rtol=1e-11)
    np.testing.assert_allclose(second, (2 * x**-3 - 6 * x**-5) / root, rtol=1e-10)


def test_scaled_functions_far_out_in_single_precision():
    # exp(-x) I_0(x) ~ (1 + 1/(8x)) / sqrt(2πx): its slope is 10⁴ times smaller than the terms it is made of.
    x = np.array([1e4], np.float32)
    for name, factor in (("i0e", 1 / np.sqrt(2 * np.pi)), ("scaled_modified_bessel_k0", np.sqrt(np.pi / 2))):
        sign = 1 if name == "i0e" else -1
        (got,) = autograd.grad(getattr(special, name)(v := lucid.tensor(x, requires_grad=True)), [v])
        want = factor * (-0.5 * 1e4**-1.5 - sign * 1.5 / 8 * 1e4**-2.5)
        np.testing.assert_allclose(got, [want], rtol=1e-6)


def test_inverses_have_the_inverse_slope():
    p = np.array([1e-20, 0.01, 0.5, 0.99])
    for inverse, function in ((special.ndtri, special.ndtr), (special.erfcinv, special.erfc)):
        value, slope = derivatives(inverse, p)
        np.testing.assert_allclose(slope * derivatives(function, value)[1], 1, rtol=1e-12)


X = np.array([0.3, 1.0, 2.7, 6.0, 15.0])
EQUATIONS = {
    # y, y' and y'' are in proportion as the differential equation says.
    "bessel_j0": lambda x, y, dy, ddy: x * x * ddy + x * dy + x * x * y,
    "bessel_j1": lambda x, y, dy, ddy: x * x * ddy + x * dy + (x * x - 1) * y,
    "bessel_y0": lambda x, y, dy, ddy: x * x * ddy + x * dy + x * x * y,
    "bessel_y1": lambda x, y, dy, ddy: x * x * ddy + x * dy + (x * x - 1) * y,
    "modified_bessel_i0": lambda x, y, dy, ddy: x * x * ddy + x * dy - x * x * y,
    "modified_bessel_i1": lambda x, y, dy, ddy: x * x * ddy + x * dy - (x * x + 1) * y,
    "modified_bessel_k0": lambda x, y, dy, ddy: x * x * ddy + x * dy - x * x * y,
    "modified_bessel_k1": lambda x, y, dy, ddy: x * x * ddy + x * dy - (x * x + 1) * y,
    "spherical_bessel_j0": lambda x, y, dy, ddy: x * ddy + 2 * dy + x * y,
    "airy_ai": lambda x, y, dy, ddy: ddy - x * y,
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_differential_equations(name):
    y, dy, ddy = derivatives(getattr(special, name), X, 2)
    size = X * X * (abs(y) + abs(dy) + abs(ddy))
    np.testing.assert_allclose(EQUATIONS[name](X, y, dy, ddy) / size, 0, atol=1e-13)


def test_airy_of_higher_order():
    third = derivatives(special.airy_ai, X, 4)
    np.testing.assert_allclose(third[3], third[0] + X * third[1], rtol=1e-13)
    np.testing.assert_allclose(third[4], 2 * third[1] + X * X * third[0], rtol=1e-13)


def test_derivatives_at_zero():
    for name, want in {
        "bessel_j0": [1, 0, -1 / 2, 0, 3 / 8],
        "bessel_j1": [0, 1 / 2, 0, -3 / 8],
        "i0": [1, 0, 1 / 2, 0, 3 / 8],
        "i1": [0, 1 / 2, 0, 3 / 8],
        "spherical_bessel_j0": [1, 0, -1 / 3, 0, 1 / 5],
        "sinc": [1, 0, -(np.pi**2) / 3],
    }.items():
        got = np.ravel(derivatives(getattr(special, name), [0.0], len(want) - 1))
        np.testing.assert_allclose(got, want, atol=1e-15, err_msg=name)


def hermite(k, n):
    return lambda x, y, dy, ddy: ddy - k * x * dy + k * n * y


POLYNOMIAL_EQUATIONS = {
    "chebyshev_polynomial_t": lambda n: lambda x, y, dy, ddy: (1 - x * x) * ddy - x * dy + n * n * y,
    "chebyshev_polynomial_u": lambda n: lambda x, y, dy, ddy: (1 - x * x) * ddy - 3 * x * dy + n * (n + 2) * y,
    "chebyshev_polynomial_v": lambda n: lambda x, y, dy, ddy: (1 - x * x) * ddy + (1 - 2 * x) * dy + n * (n + 1) * y,
    "chebyshev_polynomial_w": lambda n: lambda x, y, dy, ddy: (1 - x * x) * ddy - (1 + 2 * x) * dy + n * (n + 1) * y,
    "hermite_polynomial_h": lambda n: hermite(2, n),
    "hermite_polynomial_he": lambda n: hermite(1, n),
    "laguerre_polynomial_l": lambda n: lambda x, y, dy, ddy: x * ddy + (1 - x) * dy + n * y,
    "legendre_polynomial_p": lambda n: lambda x, y, dy, ddy: (1 - x * x) * ddy - 2 * x * dy + n * (n + 1) * y,
}


@pytest.mark.parametrize("name", POLYNOMIAL_EQUATIONS)
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_polynomials_satisfy_their_equations(name, n):
    x = np.array([-1.0, -0.4, 0.0, 0.7, 1.0, 2.5])
    y, dy, ddy = derivatives(lambda v: getattr(special, name)(v, n), x, 2)
    size = 1 + n * n * abs(y) + abs(dy) + abs(ddy) * (1 + x * x)
    np.testing.assert_allclose(POLYNOMIAL_EQUATIONS[name](n)(x, y, dy, ddy) / size, 0, atol=1e-13)


def test_shifted_polynomials_are_those_of_the_shifted_argument():
    for kind in "tuvw":
        plain, shifted = (getattr(special, f"{p}chebyshev_polynomial_{kind}") for p in ("", "shifted_"))
        x = np.array([-0.5, 0.0, 0.3, 1.0])
        for k, (a, b) in enumerate(
            zip(derivatives(lambda v, f=shifted: f(v, 6), x, 3), derivatives(lambda v, f=plain: f(v, 6), 2 * x - 1, 3))
        ):
            np.testing.assert_allclose(a, 2**k * b, rtol=1e-12, atol=1e-9)


def test_polynomials_of_high_degree():
    x = np.linspace(-1, 1, 11)
    got = special.chebyshev_polynomial_t(lucid.tensor(x), 400)
    np.testing.assert_allclose(got, np.cos(400 * np.arccos(x)), atol=1e-11)
    np.testing.assert_allclose(
        special.legendre_polynomial_p(lucid.tensor(x), 200), scipy.eval_legendre(200, x), atol=1e-13
    )


def test_the_degree_has_no_gradient():
    n = lucid.tensor([2.0], requires_grad=True)
    x = lucid.tensor([0.5], requires_grad=True)
    by_x, by_n = autograd.grad(special.legendre_polynomial_p(x, n), (x, n))
    assert (by_x.item(), by_n.item()) == (1.5, 0.0)


def test_products_with_logarithms_at_zero():
    x, y = t(0.0).requires_grad_(), t(-1.0)
    assert autograd.grad(special.xlog1py(x, y), x).item() == 0
    assert autograd.grad(special.entr(x), x).item() == INF


# --- doors ---------------------------------------------------------------------------------------


def test_names_at_the_top_and_methods():
    x, y = t(1.5, 2.5), t(1.0, 3.0)
    assert lucid.equal(lucid.igamma(x, y), special.gammainc(x, y))
    assert lucid.equal(x.igammac(y), special.gammaincc(x, y))
    assert lucid.equal(x.mvlgamma(2), special.multigammaln(x, 2))
    assert lucid.equal(x.i0(), special.i0(x))
    for name, args in (("igamma_", (y,)), ("igammac_", (y,)), ("mvlgamma_", (2,)), ("i0_", ())):
        z = x.clone()
        assert getattr(z, name)(*args) is z
        assert lucid.equal(z, getattr(x, name[:-1])(*args))


def test_in_place_goes_on_the_tape():
    x = t(1.5).requires_grad_()
    z = (x * 1).i0_()
    np.testing.assert_allclose(autograd.grad(z, x), scipy.i1([1.5]))


def test_out():
    x, out = t(1.5, 2.5), lucid.empty(2, dtype=lucid.float64)
    for call in (
        lambda out: special.i0(x, out=out),
        lambda out: special.gammainc(x, x, out=out),
        lambda out: special.betainc(x, x, 0.5, out=out),
        lambda out: special.multigammaln(x, 2, out=out),
        lambda out: special.chebyshev_polynomial_t(x, 2, out=out),
        lambda out: special.polygamma(1, x, out=out),
    ):
        assert call(out) is out
        assert lucid.equal(out, call(None))


def test_bad_arguments_get_words():
    x = t(1.5)
    with pytest.raises(RuntimeError, match="p must be a whole number from 1 on, not 0"):
        special.multigammaln(x, 0)
    with pytest.raises(TypeError, match="the order must be a Python number"):
        special.jv(x, x)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        special.gammainc(lucid.ones(2), lucid.ones(3))
    with pytest.raises(TypeError, match="expected a tensor, an array or a number, not str"):
        special.ndtr("x")


# --- SciPy's ufuncs ------------------------------------------------------------------------------

ARGUMENTS = {
    **dict.fromkeys(("betainc", "betaincinv"), (1.5, 2.5, 0.25)),
    **dict.fromkeys(("ndtri", "erfcinv", "erfinv", "logit", "round"), (0.25,)),
}


@pytest.mark.parametrize("ufunc", scipy_ufuncs.UFUNCS, ids=lambda u: u.__name__)
def test_ufuncs_of_scipy_record(ufunc):
    name = ufunc.__name__
    first = (2,) if name.startswith("eval") or name in "iv ive jv kv kve yv".split() else ()
    numbers = ARGUMENTS.get(name, (1.5, 0.75)[: ufunc.nin - len(first)])
    inputs = [t(v).requires_grad_() for v in numbers]
    out = ufunc(*first, *inputs)
    assert isinstance(out, lucid.Tensor)
    np.testing.assert_allclose(out, ufunc(*first, *[[v] for v in numbers]), rtol=1e-13)
    for k, g in enumerate(autograd.grad(out, inputs)):
        moved = [lambda s, j=j, k=k: s if j == k else numbers[j] for j in range(len(numbers))]
        want = difference(lambda s, moved=moved: ufunc(*first, *[m(s) for m in moved]), numbers[k], 2e-3)
        np.testing.assert_allclose(g, [want], rtol=1e-9)


def test_ufuncs_without_a_counterpart_do_not_lose_gradients():
    x = t(0.5).requires_grad_()
    for call in (lambda v: scipy.eval_chebyt(2.5, v), lambda v: scipy.jv(np.array([1.0, 2.0]), v), scipy.airy):
        with pytest.raises(TypeError, match="a gradient would be lost"):
            call(x)
        np.testing.assert_allclose(np.asarray(call(x.detach())), np.asarray(call(np.array([0.5]))))


def test_zeta_of_scipy():
    x = t(2.5).requires_grad_()
    out = scipy.zeta(x, 1.5)
    np.testing.assert_allclose(autograd.grad(out, x), [difference(lambda s: scipy.zeta(s, 1.5), 2.5, 1e-2)], rtol=1e-9)


def test_the_example_of_the_module_runs():
    assert doctest.testmod(special, optionflags=doctest.NORMALIZE_WHITESPACE) == (0, 3)


def test_sinc_near_0_to_the_third_derivative():
    x = lucid.tensor([1e-300, 1e-8, 0.05, 0.29, 0.31], dtype=lucid.float64, requires_grad=True)
    found = lucid.sinc(x)
    for _ in range(3):
        found = lucid.autograd.grad(found.sum(), x, create_graph=True)
    t = np.pi * x.detach().numpy()
    want = np.pi**3 * sum((-1) ** k * t ** (2 * k - 3) / math.factorial(2 * k - 3) / (2 * k + 1) for k in range(2, 14))
    np.testing.assert_allclose(found.detach().numpy(), want, rtol=1e-8)


def test_norm_of_order_0_counts_nan():
    assert lucid.norm(lucid.tensor([lucid.nan, 1.0, 0.0]), 0).item() == 2


@pytest.mark.parametrize("name", POLYNOMIAL_EQUATIONS)
def test_degrees_that_would_take_for_ever_are_refused(name):
    with pytest.raises(ValueError, match=r"degree 1e\+300"):
        getattr(special, name)(lucid.tensor([0.5], dtype=lucid.float64), 1e300)


def _shapes_and_chances():
    numbers = np.random.default_rng(3)
    a = np.exp(numbers.uniform(np.log(1e-3), np.log(2e3), 4000))
    p = np.where(numbers.random(4000) < 0.5, numbers.random(4000), 10.0 ** numbers.uniform(-15, 0, 4000))
    a[:6], p[:6] = [0.5, 2.0, -1.0, np.nan, 2.0, 3.0], [0.0, 1.0, 0.5, 0.5, np.nan, 2.0]
    return a, p


def test_gamma_quantiles_are_those_of_the_reference():
    a, p = _shapes_and_chances()
    found = special.gammaincinv(lucid.tensor(a), lucid.tensor(p)).numpy()
    np.testing.assert_allclose(found, scipy.gammaincinv(a, p), rtol=2e-12)


def test_slopes_of_gamma_quantiles_are_those_of_the_reference():
    a, p = (v[6:] for v in _shapes_and_chances())
    x = scipy.gammaincinv(a, p)
    a, x = a[x > 1e-250], x[x > 1e-250]
    found = P.gammaincinv_by_a(lucid.tensor(a), lucid.tensor(x)).numpy()
    np.testing.assert_allclose(found, incomplete.gamma_quantile_by_a(a, x), rtol=2e-11)


@pytest.mark.parametrize("name", ["gammaincinv", "gammaincinv_by_a"])
def test_gamma_quantiles_do_not_depend_on_what_is_computed_beside_them(name):
    a, p = (v[6:] for v in _shapes_and_chances())
    kernel = getattr(P, name)
    whole = kernel(lucid.tensor(a), lucid.tensor(p)).numpy()
    for part in (slice(0, 1), slice(5, 22), slice(7, 3000), slice(None, None, -3)):
        np.testing.assert_array_equal(
            kernel(lucid.tensor(a[part].copy()), lucid.tensor(p[part].copy())).numpy(), whole[part]
        )
    same = kernel(lucid.tensor(a[9]).expand(len(p)), lucid.tensor(p)).numpy()
    each = kernel(lucid.tensor(np.full(len(p), a[9])), lucid.tensor(p)).numpy()
    np.testing.assert_array_equal(same, each)


def test_gamma_quantiles_broadcast():
    a, p = np.array([[0.5], [3.0]]), np.array([0.1, 0.5, 0.9])
    for left, right in ((a, p), (a[0], p), (a[:0], p), (a, p[:0]), (a[0, 0], p[1])):
        found = special.gammaincinv(lucid.tensor(left), lucid.tensor(right)).numpy()
        np.testing.assert_allclose(found, scipy.gammaincinv(left, right), rtol=1e-13)
    found = special.gammaincinv(lucid.tensor(a, dtype=lucid.float32), lucid.tensor(p, dtype=lucid.float32))
    assert found.dtype == lucid.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_derivative_of_digamma(dtype):
    x = np.concatenate([np.linspace(-20.3, 30, 503), np.geomspace(1e-8, 1e8, 99), [0.5, 0.0, -1.0]]).astype(dtype)
    want = scipy.polygamma(1, x.astype(np.float64))
    got = lucid.polygamma(1, lucid.tensor(x)).numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=3e-15 if dtype == np.float64 else 1e-7)
    limits = lucid.polygamma(1, lucid.tensor([np.inf, -np.inf, np.nan, -0.0], dtype=lucid.float64)).tolist()
    np.testing.assert_array_equal(limits, [0, np.inf, np.nan, np.inf])
    gradient = lucid.func.grad(lambda v: lucid.digamma(v).sum())(lucid.tensor([0.3, 1.7], dtype=lucid.float64))
    np.testing.assert_allclose(gradient.numpy(), scipy.polygamma(1, [0.3, 1.7]), rtol=1e-14)
