"""Floats as integers: the same on every processor, or refused."""

import warnings

import numpy as np
import pytest

import lucid

SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]
VALUES = [
    0.0,
    -0.7,
    0.7,
    1.0,
    -1.0,
    -1.5,
    127.5,
    128.0,
    -129.0,
    255.9,
    256.0,
    300.0,
    -300.5,
    3e9,
    -3e9,
    2.0**62,
    -(2.0**63),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
def test_narrow_types_take_the_low_bits(dtype, source):
    limits = np.iinfo(dtype)
    kind = getattr(lucid, source)
    with np.errstate(over="ignore"):
        floats = [float(v) for v in np.asarray(VALUES).astype(kind.numpy)]
    finite = [v for v in floats if np.isfinite(v)]
    want = [(int(v) - limits.min) % 2 ** (8 * np.dtype(dtype).itemsize) + limits.min for v in finite]
    x = lucid.tensor(finite, dtype=kind)
    assert x.to(getattr(lucid, dtype)).tolist() == want
    assert lucid.zeros(len(finite), dtype=getattr(lucid, dtype)).copy_(x).tolist() == want
    for value, one in zip(finite, want, strict=True):  # alone, so that no larger one decides how it is converted
        assert lucid.tensor([value], dtype=kind).to(getattr(lucid, dtype)).tolist() == [one]


def test_the_largest_integers_come_back():
    for dtype in (lucid.int64, lucid.uint64):
        x = lucid.tensor([3, lucid.iinfo(dtype).max], dtype=dtype)
        assert x.to(lucid.float64).to(dtype).tolist() == x.tolist()


def test_the_upper_half_of_uint64():
    x = lucid.tensor([2.0**63, 1.8e19, 5.0, 0.0], dtype=lucid.float64)
    assert x.to(lucid.uint64).tolist() == [2**63, 18 * 10**18, 5, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30, 1.8e308 / 2, 2.0**65, -(2.0**64)])
def test_what_64_bits_do_not_hold_is_refused(dtype, value):
    x, kind = lucid.tensor([1.0, value], dtype=lucid.float64), getattr(lucid, dtype)
    for call in (
        lambda: x.to(kind),
        lambda: lucid.full((2,), value, dtype=kind),
        lambda: lucid.zeros(2, dtype=kind).copy_(x),
        lambda: lucid.func.vmap(lambda v: v.to(kind))(x),
        lambda: lucid.tensor(np.array([1.0, value]), dtype=kind),
    ):
        with pytest.raises(ValueError, match="cannot convert"):
            call()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_ends_that_64_bits_do_not_hold_are_refused(value):
    for function in (lucid.linspace, lucid.logspace):
        with pytest.raises(ValueError, match="cannot convert"):
            function(0, value, 3, dtype=lucid.int64)


def test_sums_that_overflow_have_finite_numbers_of_steps():
    huge = lucid.tensor([[1.7e308, 1.7e308], [1.7e308, 1.7e308]], dtype=lucid.float64)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*in cast")
        assert not np.isfinite(np.asarray(lucid.matrix_exp(huge))).all()
        counts = lucid.histc(lucid.tensor([-1.7e308, 0.0, 1.7e308], dtype=lucid.float64), 2, -1.7e308, 1.7e308)
    assert counts.tolist() == [1.0, 2.0]
