"""Remainders and rounded quotients as generated code, against NumPy's; powers by numbers are one loop."""

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.generated import support
from lucid.core import kernels
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not support.in_use, reason="needs generated code")
SPECIAL = [0.0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 5e-324, 3, -3, 7, 0.1, -0.3, 1e300]


def pairs(dtype):
    """Special values with each other, quotients of all sizes, and those that are nearly whole."""
    rng = np.random.default_rng(0)
    n = 4000
    grid = np.meshgrid(SPECIAL, SPECIAL)
    x = [grid[0].ravel(), rng.standard_normal(n) * 10.0 ** rng.integers(-3, 8, n), rng.integers(-50, 50, n) * 0.1]
    y = [grid[1].ravel(), rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n), rng.integers(1, 9, n) * 0.1]
    with np.errstate(all="ignore"):
        return np.concatenate(x).astype(dtype), np.concatenate(y).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide", "truncated_divide", "nextafter"])
def test_values_are_those_of_the_reference(name, dtype):
    x, y = pairs(dtype)
    primitive = getattr(P, name)
    with np.errstate(all="ignore"):
        got, expected = kernels.resolved(primitive)(x, y), kernels.reference(primitive)(x, y)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)
    assert same.all(), [(x[i], y[i], got[i], expected[i]) for i in np.flatnonzero(~same)[:5]]


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_half_precision_is_computed_in_single(name):
    x, y = pairs(np.float16)
    primitive = getattr(P, name)
    with np.errstate(all="ignore"):
        got, expected = kernels.resolved(primitive)(x, y), kernels.reference(primitive)(x, y)
    assert got.dtype == np.float16
    assert np.array_equal(got, expected, equal_nan=True)


def integers(dtype):
    """Quotients of all sizes, among them those that double precision would round, and the ends of the range."""
    rng, ends, n = np.random.default_rng(0), np.iinfo(dtype), 3000
    x = [rng.integers(ends.min, ends.max, n, dtype, endpoint=True), rng.integers(max(ends.min, -99), 99, n, dtype)]
    y = [rng.integers(max(ends.min, -99), 99, n, dtype), rng.integers(ends.min, ends.max, n, dtype, endpoint=True)]
    last = np.array([ends.min, ends.max, ends.max // 2, 0], dtype)
    x, y = np.concatenate([*x, np.repeat(last, 4)]), np.concatenate([*y, np.tile(last - np.array(1, dtype), 4)])
    return x, np.where(y == 0, np.array(1, dtype), y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide", "truncated_divide"])
def test_integers_are_divided_as_the_reference_does(name, dtype):
    x, y = integers(dtype)
    primitive = getattr(P, name)
    with np.errstate(all="ignore"):
        got, expected = kernels.resolved(primitive)(x, y), kernels.reference(primitive)(x, y)
        assert np.array_equal(got, expected) and got.dtype == expected.dtype
        by_one = kernels.resolved(primitive)(x, 7)
    assert np.array_equal(by_one, kernels.reference(primitive)(x, 7)) and by_one.dtype == expected.dtype


def test_integers_are_not_divided_by_zero():
    x = lucid.tensor([1, 2])
    for call in (lucid.remainder, lucid.fmod, lucid.floor_divide):
        with pytest.raises(ZeroDivisionError):
            call(x, lucid.tensor([1, 0]))
        with pytest.raises(ZeroDivisionError):
            call(x, 0)


def test_powers_by_many_numbers():
    x = lucid.tensor([0.5, 2.0, 3.0], dtype=lucid.float64, requires_grad=True)
    for exponent in np.linspace(-2.9, 2.9, 80).tolist():
        y = x**exponent
        assert np.allclose(y.detach().numpy(), x.detach().numpy() ** exponent, rtol=1e-14)
        (g,) = lucid.autograd.grad(y.sum(), [x])
        assert np.allclose(g.numpy(), exponent * x.detach().numpy() ** (exponent - 1), rtol=1e-13)
