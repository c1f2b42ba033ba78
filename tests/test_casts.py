"""Floats as integers: the same on every processor, or refused."""

import warnings

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.generated import support
from lucid.core import kernels
from lucid.core.primitive import P

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


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("source", ["float64", "float32"])
def test_one_number_anywhere_decides(dtype, source):
    """Loops find numbers that are too large for them while they convert, in vectors, rests of these, and threads."""
    rng = np.random.default_rng(5)
    for shape in ((1,), (37,), (300, 7), (90_001,)):
        given = rng.integers(-100, 100, shape).astype(source) / 2
        twice = np.repeat(given, 2, axis=-1)[..., ::2]
        for x in (given, twice, given[::-1]):
            x = x.copy() if x is not twice else x
            place = tuple(int(rng.integers(n)) for n in shape)
            for value in (3.0, -4e9, 2.0**40, -(2.0**62)):
                x[place] = value
                found = lucid.from_numpy(x).to(getattr(lucid, dtype)).numpy()
                np.testing.assert_array_equal(found, x.astype(np.int64).astype(dtype))
            x[place] = np.nan
            with pytest.raises(ValueError, match="cannot convert"):
                lucid.from_numpy(x).to(getattr(lucid, dtype))


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


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", SIGNED + UNSIGNED)
def test_many_floats_as_integers(source, target):
    """Loops convert what the type has; the reference what it has not, and it says what no integer is."""
    rng, kind = np.random.default_rng(0), np.dtype(target)
    for scale in (0.9, 100, 250, 9e3, 1e9, 1e17):
        if source == "float16" and scale > 1e4:
            continue
        numbers = rng.standard_normal((100, 90)) * scale
        x = lucid.tensor(abs(numbers) - 0.9 if kind.kind == "u" else numbers).to(getattr(lucid, source))._array
        for view in (x, x.T, x[::2, ::-1]):
            found, wanted = [k(view, dtype=kind, source=x.dtype) for k in (P.cast.kernel, kernels.reference(P.cast))]
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    x = lucid.zeros(5000, dtype=getattr(lucid, source))
    x[77] = lucid.nan
    with pytest.raises(ValueError, match="nan or inf"):
        x.to(getattr(lucid, target))


@pytest.mark.skipif(not support.in_use, reason="no code is generated here")
def test_loops_convert_floats_to_integers():
    x = lucid.linspace(-100, 100, 5000)
    assert "conversion" in lucid.kernels.source(lambda x: x.int(), x, parts="expression")
    x[3] = 2.0**33 + 2.0**12  # they refuse it, and the reference takes its low bits
    assert x.int()[3] == 2**12


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_true_unless_both_parts_are_zero(dtype):
    values = np.array([0, 1, 1j, -0.0j, complex(0, np.nan), complex(np.nan, 0)], dtype)
    x, want = lucid.tensor(values), values.astype(bool)
    assert x.bool().tolist() == want.tolist()
    assert lucid.zeros(6, dtype=lucid.bool).copy_(x).tolist() == want.tolist()
    assert lucid.compile(lambda x: x.bool())(x).tolist() == want.tolist()
    assert [bool(v) for v in x] == want.tolist()
