"""Where PyTorch is installed: `lucid.special` has its names, values and gradients.

PyTorch has no derivative for many of them; those that it has are compared, the others are checked elsewhere.
"""

import numpy as np
import pytest

import lucid
from lucid import special

torch = pytest.importorskip("torch")

X = np.array([0.0, 0.3, 1.0, 1.7, 4.0, 9.5, 25.0])
BOTH = np.concatenate([-X[::-1], X])
CHANCES = np.array([0.0, 0.02, 0.4, 0.5, 0.9, 1.0])
POSITIVE = X[1:]
DOMAINS = {
    **dict.fromkeys(["erfinv"], 2 * CHANCES - 1),
    **dict.fromkeys(["logit", "ndtri"], CHANCES),
    **dict.fromkeys(["digamma", "psi", "gammaln", "entr", "log1p"], POSITIVE),
    "erfcx": BOTH[BOTH > -20],
    "exp2": BOTH,
}
ONE = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln i0 i0e "
    "i1 i1e log1p log_ndtr logit modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr ndtri "
    "psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 sinc spherical_bessel_j0"
).split()
TWO = "gammainc gammaincc xlog1py xlogy zeta".split()
POLYNOMIALS = [n for n in dir(torch.special) if "polynomial" in n]
REDUCED = "log_softmax logsumexp softmax".split()
WITH_NUMBER = "multigammaln polygamma".split()
# PyTorch's own approximations are good to fewer digits there.
LOOSE = {"airy_ai": 1e-8, "log_ndtr": 1e-10, "ndtri": 1e-9, "digamma": 1e-9, "psi": 1e-9}
LOOSE |= dict.fromkeys(["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"], 1e-7)


def both(name, *arrays, numbers=(), first=(), dtype="float64"):
    """The value and the gradients in both libraries: None where PyTorch has none."""
    found = []
    for library in (lucid, torch):
        operands = [library.tensor(np.asarray(a, dtype)).requires_grad_() for a in arrays]
        out = getattr(library.special, name)(*first, *operands, *numbers)
        gradients = None
        if out.requires_grad:
            try:
                gradients = library.autograd.grad(out.sum(), operands)
            except RuntimeError as error:
                assert library is torch and "not implemented" in str(error), error
        found.append((np.asarray(out.detach()), None if gradients is None else [np.asarray(g) for g in gradients]))
    return found


def compare(name, *arrays, rtol=1e-11, atol=1e-13, **how):
    (value, gradients), (wanted, slopes) = both(name, *arrays, **how)
    assert value.dtype == wanted.dtype
    np.testing.assert_allclose(value, wanted, rtol, atol)
    assert gradients is not None
    for g, w in zip(gradients, slopes or [], strict=slopes is not None):
        np.testing.assert_allclose(g, w, rtol, atol)


def test_every_name_is_there():
    theirs = {n for n in dir(torch.special) if not n.startswith("_") and callable(getattr(torch.special, n))} - {
        "Tensor"
    }
    assert not theirs - set(special.__all__)
    assert theirs == {*ONE, *TWO, *POLYNOMIALS, *REDUCED, *WITH_NUMBER}


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name):
    x = DOMAINS.get(name, BOTH)
    compare(name, x, rtol=LOOSE.get(name, 1e-11))
    if name not in ("airy_ai", "bessel_y0", "bessel_y1", "bessel_j0", "bessel_j1"):  # zeros, near which digits are lost
        compare(name, x, dtype="float32", rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", ONE)
def test_infinities_and_nan(name):
    (value, _), (wanted, _) = both(name, [np.inf, -np.inf, np.nan])
    if name == "gammaln":  # poles lie ever closer together towards -inf: there is no limit
        value, wanted = value[[0, 2]], wanted[[0, 2]]
    np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_with_logarithms(name):
    x, y = np.meshgrid([0.0, 1.5, -2.0, np.nan], [0.5, 3.0, 0.0, -1.0, -2.0, np.nan])
    compare(name, x, y)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gammas(name):
    a, x = np.meshgrid([0.0, 0.2, 1.0, 3.5, 30.0, 200.0], [0.0, 0.1, 1.0, 4.0, 28.0, 210.0])
    (value, (_, by_x)), (wanted, _) = both(name, a, x)
    np.testing.assert_allclose(value, wanted, 1e-8, 1e-300)
    # PyTorch cannot differentiate by a, and refuses to try when a requires grad.
    second = torch.tensor(x.copy(), requires_grad=True)
    out = getattr(torch.special, name)(torch.tensor(a.copy()), second)
    want = torch.autograd.grad(out.sum(), second)[0].numpy()
    inside = (a > 0) & (x > 0)
    np.testing.assert_allclose(by_x[inside], want[inside], 1e-11, 1e-300)


def test_zeta():
    x, q = np.meshgrid([0.5, 1.0, 1.5, 2.0, 7.0], [-1.5, -1.0, 0.0, 0.3, 1.0, 50.0])
    (value, _), (wanted, _) = both("zeta", x, q)
    np.testing.assert_allclose(value, wanted, 1e-13)
    # PyTorch can differentiate by q only.
    x, q = np.full(3, 2.5), np.array([0.3, 1.0, 50.0])
    mine, theirs = lucid.tensor(q).requires_grad_(), torch.tensor(q, requires_grad=True)
    got = lucid.autograd.grad(special.zeta(lucid.tensor(x), mine).sum(), mine)
    (want,) = torch.autograd.grad(torch.special.zeta(torch.tensor(x), theirs).sum(), theirs)
    np.testing.assert_allclose(got, want, 1e-12)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    x, n = np.meshgrid([-2.0, -1.0, -0.6, 0.0, 0.4, 1.0, 1.5], [-1.0, 0.0, 1.0, 2.7, 5.0, 8.0, 11.0])
    (value, _), (wanted, _) = both(name, x, n)
    np.testing.assert_allclose(value, wanted, 1e-9, 1e-11)


@pytest.mark.parametrize("name", REDUCED)
def test_reduced(name):
    x = np.random.default_rng(0).normal(size=(3, 4))
    compare(name, x, numbers=(1,))


def test_with_a_number():
    compare("multigammaln", [1.2, 3.0, 40.0], numbers=(3,))
    for order in (0, 1, 2, 4):
        compare("polygamma", [0.3, 1.0, 12.5], first=(order,), rtol=1e-9)
    compare("logit", [0.001, 0.3, 0.9999], numbers=(0.01,))


@pytest.mark.parametrize("name", ["igamma", "igammac", "mvlgamma", "i0"])
def test_top_level_and_methods(name):
    x = np.array([1.5, 2.5])
    args = {"mvlgamma": (2,), "i0": ()}.get(name)
    for call in (lambda m, x, *a: getattr(m, name)(x, *a), lambda m, x, *a: getattr(x, name)(*a)):
        got = call(lucid, lucid.tensor(x), *((lucid.tensor(x),) if args is None else args))
        want = call(torch, torch.tensor(x), *((torch.tensor(x),) if args is None else args))
        np.testing.assert_allclose(got, want, 1e-12)
