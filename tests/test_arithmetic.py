"""Arithmetic on bare arrays gives what NumPy gives, bit by bit, whatever way it takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lucid.backends.cpu import arithmetic

BINARY = {name: getattr(np, name) for name in ("add", "subtract", "multiply", "divide")}
REAL = (np.float32, np.float64)
SHAPES = ((), (0,), (1,), (3,), (7,), (2, 3), (1, 3), (4, 2, 3), (2, 1), (3, 0, 2), (0, 3), (130,), (16385,))


def same(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[~nan], np.signbit(expected)[~nan])


def values(shape, dtype, seed=0):
    x = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    x.reshape(-1)[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan][: x.size]
    return x


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_two_operands(name, left, right, dtype):
    x, y = values(left, dtype), values(right, dtype, 1)
    try:
        expected = BINARY[name](x, y)
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            getattr(arithmetic, name)(x, y)
        return
    same(getattr(arithmetic, name)(x, y), expected)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_operand(shape, dtype):
    x = values(shape, dtype)
    same(arithmetic.negative(x), -x)
    same(arithmetic.square(x), x * x)


AWKWARD = {
    "strided": lambda: values((6, 4), np.float32)[::2, 1:],
    "transposed": lambda: values((3, 5), np.float64).T,
    "swapped bytes": lambda: values((4,), np.float64).astype(">f8"),
    "unaligned": lambda: np.frombuffer(b"\0" * 3 + values((4,), np.float32).tobytes(), np.float32, offset=3),
    "half": lambda: values((4,), np.float16),
    "integers": lambda: np.arange(5),
    "complex": lambda: np.arange(3) * (1 + 2j),
    "read-only": lambda: np.broadcast_to(np.float32(2), (4,)),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_other_arrays_are_numpys(name):
    x = AWKWARD[name]()
    for function, ufunc in BINARY.items():
        np.testing.assert_array_equal(getattr(arithmetic, function)(x, x), ufunc(x, x))
    np.testing.assert_array_equal(arithmetic.negative(x), -x)
    np.testing.assert_array_equal(arithmetic.square(x), x * x)
    np.testing.assert_array_equal(arithmetic.total(x), np.add.reduce(x, axis=None))


def test_two_types_meet_as_in_numpy():
    found = arithmetic.multiply(values((4,), np.float32), values((4,), np.float64))
    assert found.dtype == np.float64


def test_booleans_squared_are_integers():
    np.testing.assert_array_equal(arithmetic.square(np.array([True, False])), [1, 0])
    assert arithmetic.square(np.array([True])).dtype == np.int64


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("size", [*range(20), 127, 128, 129, 136, 137, 255, 257, 1000, 1023, 4097, 8191, 8192, 8193])
def test_a_total_is_added_up_in_numpys_order(size, dtype):
    x = np.random.default_rng(size).normal(size=size).astype(dtype)
    same(arithmetic.total(x), np.add.reduce(x, axis=None))
    same(arithmetic.total(x[::-1]), np.add.reduce(x[::-1], axis=None))


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, min_side=0)), st.data())
def test_adding_in_place(x, data):
    y = data.draw(hnp.arrays(np.float64, x.shape))
    with np.errstate(all="ignore"):
        expected = x + y
        arithmetic.add_into(x, y)
    same(x, expected)


def test_adding_in_place_refuses_what_does_not_fit():
    x = np.zeros(3)
    with pytest.raises(ValueError, match="broadcast"):
        arithmetic.add_into(x, np.ones(4))
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        arithmetic.add_into(x, np.ones(3))
    assert not x.any()


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strange", (None, -0.1, 2.1, np.nan, np.inf))
def test_bounds_of_all_elements_and_their_roots(shape, dtype, strange):
    x = np.random.default_rng(0).uniform(0, 2, shape).astype(dtype)
    if strange is not None:
        x.reshape(-1)[-1:] = strange
    for given_ in (x, x.T, x[::2] if x.ndim else x):
        expected = bool(((given_ >= 0) & (given_ <= 2)).all())
        assert arithmetic.within(given_, 0.0, 2.0) is expected
        found = arithmetic.roots(given_, 0.0, 2.0)
        if expected:
            same(found, np.sqrt(given_))
        else:
            assert found is None
