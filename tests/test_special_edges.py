"""Special functions at the ends of their domains: huge and tiny arguments, overflow, underflow, poles."""

import cmath
import math

import numpy as np
import pytest
from nestings import MAIN, OTHERS, X, nestings, tensor
from scipy import special as scipy

import lucid
from lucid import autograd, special

WEIGHTS = np.array([0.7, -1.1, 0.4])


def derivatives(f, x, count, dtype=lucid.float64):
    """The value of an elementwise function and its first derivatives, by the tape."""
    t = lucid.tensor(x, dtype=dtype).requires_grad_()
    found = [f(t)]
    for _ in range(count):
        found.append(autograd.grad(found[-1].sum(), t, create_graph=True))
    return [np.asarray(y.detach()) for y in found]


def series(x, order, by, sign, factor):
    """Derivatives of factor · Σ sign^k a_k x^(-k-1/2), Hankel's expansion, by integers and factorials."""
    total = 0.0
    for k in range(12):
        a = math.prod(4 * order**2 - (2 * j - 1) ** 2 for j in range(1, k + 1)) / (math.factorial(k) * 8**k)
        total += sign**k * a * math.prod(-0.5 - k - i for i in range(by)) * x ** (-0.5 - k - by)
    return factor * total


ROOT = 1 / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(
    ("f", "order", "sign", "factor"),
    [
        (special.i0e, 0, -1, ROOT),
        (special.i1e, 1, -1, ROOT),
        (lambda x: special.ive(2.5, x), 2.5, -1, ROOT),
        (special.scaled_modified_bessel_k0, 0, 1, math.sqrt(math.pi / 2)),
        (special.scaled_modified_bessel_k1, 1, 1, math.sqrt(math.pi / 2)),
        (lambda x: special.kve(2.5, x), 2.5, 1, math.sqrt(math.pi / 2)),
    ],
    ids=["i0e", "i1e", "ive", "k0e", "k1e", "kve"],
)
def test_scaled_bessel_functions_of_large_numbers(f, order, sign, factor):
    """Where neighbouring orders agree in all digits, differences of them are noise."""
    x = np.array([150.0, 1e3, 1e6, 1e10, 1e15])
    for by, got in enumerate(derivatives(f, x, 3)):
        np.testing.assert_allclose(got, series(x, order, by, sign, factor), rtol=1e-11)


@pytest.mark.parametrize("f", [special.i0e, special.i1e], ids=["i0e", "i1e"])
def test_scaled_bessel_functions_are_even_or_odd(f):
    parity = 1 if f is special.i0e else -1
    x = np.array([5.0, 39.9, 40.1, 41.5, 300.0])
    for by, (right, left) in enumerate(zip(derivatives(f, x, 3), derivatives(f, -x, 3), strict=True)):
        np.testing.assert_allclose(left, parity * (-1) ** by * right, rtol=1e-12)


def test_the_series_begins_where_the_neighbours_end():
    for f in (special.i0e, special.scaled_modified_bessel_k1, lambda x: special.kve(3, x)):
        for threshold in (40.0, 41.0, 49.0):
            below, above = np.nextafter(threshold, 0), np.nextafter(threshold, 100)
            for low, high in zip(*(derivatives(f, [v], 3) for v in (below, above)), strict=True):
                np.testing.assert_allclose(low, high, rtol=1e-9)


def test_bessel_functions_of_the_smallest_numbers():
    x = [1e-308, 5e-324]
    np.testing.assert_allclose(derivatives(special.i0, x, 2)[2], 0.5)
    np.testing.assert_allclose(derivatives(special.i1, x, 1)[1], 0.5)
    # The highest of several infinite orders decides.
    assert derivatives(special.scaled_modified_bessel_k1, [1e-300], 3)[2:] == [np.inf, -np.inf]
    assert derivatives(special.bessel_y1, [1e-300], 3)[3] == np.inf


def test_airy_function_beyond_its_last_number():
    for value in derivatives(special.airy_ai, [300.0, 1e9, 1e300], 3):
        np.testing.assert_array_equal(value, 0)


@pytest.mark.parametrize("x", [1e-300, 1e-200, 1e-160, 1e-20])
def test_gamma_density_where_the_power_of_the_integral_underflows(x):
    """d/dx P(a, x) = x^(a-1) e^(-x) / Γ(a), though x^a is 0 in double precision."""
    for a in (1.5, 2.0):
        slopes = derivatives(lambda t, a=a: special.gammainc(lucid.tensor([a], dtype=lucid.float64), t), [x], 2)
        np.testing.assert_allclose(slopes[1], x ** (a - 1) / math.gamma(a), rtol=1e-12)
        np.testing.assert_allclose(slopes[2], (a - 1) * x ** (a - 2) / math.gamma(a), rtol=1e-12)


@pytest.mark.parametrize("by_a", [True, False])
def test_gamma_density_across_the_place_where_its_formula_changes(by_a):
    def slope(x):
        a = lucid.tensor([2.5], dtype=lucid.float64).requires_grad_()
        t = lucid.tensor([x], dtype=lucid.float64).requires_grad_()
        first = autograd.grad(special.gammainc(a, t).sum(), t, create_graph=True)
        return autograd.grad(first.sum(), a if by_a else t).item()

    np.testing.assert_allclose(slope(np.nextafter(1, 0)), slope(1.0), rtol=1e-13)


def test_gradients_at_the_edges_of_the_domain():
    cases = [
        (special.gammainc, (1.0, 0.0), 1, 1.0),
        (special.gammainc, (2.0, 0.0), 1, 0.0),
        (special.gammainc, (0.5, 0.0), 1, np.inf),
        (special.gammainc, (2.0, np.inf), 1, 0.0),
        (special.gammaincc, (1.0, 0.0), 1, -1.0),
        (special.xlog1py, (0.0, -1.0), 0, 0.0),
        (special.zeta, (2.0, np.inf), 1, 0.0),
        (special.gammainc, (-1.0, 2.0), 1, np.nan),
    ]
    for f, values, which, want in cases:
        operands = [lucid.tensor(v, dtype=lucid.float64).requires_grad_() for v in values]
        got = autograd.grad(f(*operands), operands[which]).item()
        np.testing.assert_array_equal(got, want, err_msg=f"{f.__name__}{values}")


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.float32])
def test_types_of_derivatives(dtype):
    for f in (special.i0e, special.log_ndtr, special.erfcx, special.airy_ai, special.entr, special.bessel_j1):
        x = lucid.tensor([0.5, 2.0], dtype=dtype).requires_grad_()
        slope = autograd.grad(f(x).sum(), x, create_graph=True)
        assert f(x).dtype == slope.dtype == autograd.grad(slope.sum(), x).dtype == dtype


# --- nested transforms, against the functions of complex numbers -----------------------------------


def gammainc_ref(a, x):
    return x**a * np.exp(-x) * sum(x**n * scipy.rgamma(a + n + 1) for n in range(60))


def betainc_ref(a, b, x):
    total, factor = 0.0, 1.0
    for n in range(200):
        total, factor = total + factor * x**n / (a + n), factor * (n + 1 - b) / (n + 1)
    return x**a * total * scipy.rgamma(a) * scipy.rgamma(b) * scipy.gamma(a + b)


FUNCTIONS = {
    "gammainc": (lambda x: special.gammainc(x * 0.4 + 1.5, x.exp()), lambda x: gammainc_ref(x * 0.4 + 1.5, np.exp(x))),
    "betainc": (
        lambda x: special.betainc(x * 0.4 + 1.5, x * -0.3 + 2.2, x * 0.2 + 0.4),
        lambda x: betainc_ref(x * 0.4 + 1.5, x * -0.3 + 2.2, x * 0.2 + 0.4),
    ),
    "multigammaln": (
        lambda x: special.multigammaln(x + 3, 2),
        lambda x: 0.5 * np.log(np.pi) + scipy.loggamma(x + 3) + scipy.loggamma(x + 2.5),
    ),
    "log_ndtr": (lambda x: special.log_ndtr(x - 2), lambda x: scipy.log_ndtr(x - 2)),
    "erfcx": (lambda x: special.erfcx(x + 0.9), lambda x: scipy.erfcx(x + 0.9)),
    "airy_ai": (lambda x: special.airy_ai(x), lambda x: scipy.airy(x)[0]),
    "i1e": (lambda x: special.i1e(x + 2), lambda x: scipy.iv(1, x + 2) * np.exp(-x - 2)),
    "i0e-far": (lambda x: special.i0e(x + 60), lambda x: scipy.iv(0, x + 60) * np.exp(-x - 60)),
    "k0e-far": (lambda x: special.scaled_modified_bessel_k0(x + 60), lambda x: scipy.kve(0, x + 60)),
    "yv": (lambda x: special.yv(-1.5, x + 2), lambda x: scipy.yv(-1.5, x + 2)),
    "legendre": (lambda x: special.legendre_polynomial_p(x, 3), lambda x: (5 * x**3 - 3 * x) / 2),
    "xlog1py": (lambda x: special.xlog1py(x, x * x), lambda x: x * np.log1p(x * x)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nestings(name):
    f, formula = FUNCTIONS[name]

    def total(x):
        return (f(x) * tensor(WEIGHTS)).sum()

    def ref(points):
        return (formula(points[0]) * WEIGHTS).sum(-1)

    for nesting in (*nestings(MAIN, 2), *nestings(MAIN[:3], 3)[::4], *nestings(OTHERS, 1)):
        got = nesting.of_tensors(total)(tensor(X)).item()
        np.testing.assert_allclose(got, nesting.expected(ref), rtol=1e-7, atol=1e-8, err_msg=str(nesting))


def _running(column):
    """log Σ exp(x) of ever more elements, by the principal logarithm of the sum itself."""
    for n in range(1, len(column) + 1):
        peak = max([v.real for v in column[:n]])
        total = sum(cmath.exp(v - peak) for v in column[:n] if v.real > -np.inf)
        yield cmath.log(total) + peak if total else complex(-np.inf, 0)


@pytest.mark.parametrize("turns", [1.0, np.pi, 10.0, 1e6])
@pytest.mark.parametrize("size", [0.0, 1.0, 1000.0])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_logcumsumexp_has_principal_phases(turns, size, dim):
    rng = np.random.default_rng(0)
    x = size * rng.standard_normal((5, 6)) + 1j * turns * rng.standard_normal((5, 6))
    x.real[0, :2] = x.real[2, 3] = x.real[:2, 0] = -np.inf
    want = np.apply_along_axis(lambda column: np.array(list(_running(column))), dim, x)
    found = np.asarray(lucid.logcumsumexp(lucid.tensor(x), dim))
    np.testing.assert_allclose(found.real, want.real, 1e-9, 1e-9)
    turned = np.exp(1j * (found.imag - want.imag))  # phases of π and -π are the same
    np.testing.assert_allclose(turned, 1, 1e-8)
    assert (np.abs(found.imag) <= np.pi).all()


def test_logcumsumexp_of_one_complex_number():
    for x in (np.array(1 + 7j), np.array([1 + 7j])):
        found = lucid.logcumsumexp(lucid.tensor(x).requires_grad_(), 0)
        np.testing.assert_allclose(found.detach(), 1 + 1j * (x.imag - 2 * np.pi))
        assert found.requires_grad
