"""Loops over channels against sums written out in double precision, for odd sizes and every way to slide a kernel."""

from itertools import product

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid.backends.cpu import batch_norm, windows
from lucid.backends.cpu.nn import convolution
from lucid.ops.nn.convolution import geometry

# Sizes, kernel, stride, padding, dilation.
SLIDES = [
    ((1,), (1,), (1,), (0,), (1,)),
    ((33,), (4,), (3,), (2,), (2,)),
    ((7, 17), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((17, 33), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((16, 32), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((9, 7), (2, 5), (2, 1), (0, 3), (3, 2)),
    ((8, 19), (2, 3), (5, 4), (1, 2), (1, 1)),
    ((3, 3), (1, 1), (2, 2), (2, 2), (1, 1)),
    ((5, 6, 17), (2, 3, 3), (1, 2, 2), (1, 0, 1), (2, 1, 1)),
]
TYPES = ["float32", "float64", "complex64", "complex128", "int32", "int64"]


def numbers(*shape, dtype="float64"):
    rng = np.random.default_rng(sum(shape))
    found = rng.integers(-9, 10, shape).astype(dtype)
    return found + 1j * rng.integers(-9, 10, shape).astype(dtype) if np.dtype(dtype).kind == "c" else found


def slide(size, kernel, stride, padding, dilation, groups=1):
    return geometry(size, kernel, stride, tuple((p, p) for p in padding), dilation, groups)


def meetings(g):
    """Each tap and each window with the place of the input where they meet, outside of the padding."""
    for tap, window in product(np.ndindex(*g.kernel), np.ndindex(*g.out)):
        parts = zip(window, g.stride, tap, g.dilation, g.padding)
        place = tuple(o * s + k * d - low for o, s, k, d, (low, _) in parts)
        if all(0 <= p < n for p, n in zip(place, g.size)):
            yield tap, window, place


@pytest.mark.parametrize("how", SLIDES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_columns_and_back(how, dtype):
    g = slide(*how)
    x = numbers(2, 3, *g.size, dtype=dtype)
    columns = np.full((2, 3, *g.kernel, *g.out), 77, x.dtype)
    windows.im2col(x, g, 0, g.out[0], columns.reshape(2, 3 * g.taps, -1))
    expected, back = np.zeros_like(columns), np.ones_like(x)
    for tap, window, place in meetings(g):
        expected[(..., *tap, *window)] = x[(..., *place)]
        back[(..., *place)] += columns[(..., *tap, *window)]
    np.testing.assert_array_equal(columns, expected)
    out = np.ones_like(x)
    windows.col2im(columns.reshape(2, 3 * g.taps, -1), g, 0, g.out[0], out)
    np.testing.assert_array_equal(out, back)


@pytest.mark.parametrize("how", SLIDES, ids=str)
def test_some_rows_of_columns_that_lie_apart(how):
    g = slide(*how)
    x = numbers(2, 3, *g.size)
    whole = np.empty((2, 3 * g.taps, *g.out))
    windows.im2col(x, g, 0, g.out[0], whole.reshape(2, 3 * g.taps, -1))
    out, expected = np.zeros_like(x), np.zeros_like(x)
    windows.col2im(whole.reshape(2, 3 * g.taps, -1), g, 0, g.out[0], expected)
    for first in range(0, g.out[0], 2):
        part = whole[:, :, first : first + 2]
        columns = np.empty((3 * g.taps, 2, part[0, 0].size)).swapaxes(0, 1)
        windows.im2col(x, g, first, part.shape[2], columns)
        np.testing.assert_array_equal(columns.reshape(part.shape), part)
        windows.col2im(columns, g, first, part.shape[2], out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("how", SLIDES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_depthwise(how, dtype):
    g = slide(*how)
    x, w, y = (numbers(*shape, dtype=dtype) for shape in ((2, 3, *g.size), (6, 1, *g.kernel), (2, 6, *g.out)))
    bias = numbers(6, dtype=dtype)
    found = [np.empty_like(a) for a in (y, x, w)]
    expected = [np.zeros_like(a) for a in (y, x, w)]
    expected[0] += bias.reshape(-1, *(1,) * len(g.out))
    for q, (tap, window, place) in product(range(6), meetings(g)):
        expected[0][(slice(None), q, *window)] += w[(q, 0, *tap)] * x[(slice(None), q // 2, *place)]
        expected[1][(slice(None), q // 2, *place)] += w[(q, 0, *tap)] * y[(slice(None), q, *window)]
        expected[2][(q, 0, *tap)] += x[(slice(None), q // 2, *place)] @ y[(slice(None), q, *window)]
    windows.depthwise(x, w, bias, g, found[0])
    windows.depthwise_input(y, w, g, found[1])
    windows.depthwise_weight(x, y, g, found[2])
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(params=[1, 200, 5000])
def small_blocks(request, monkeypatch):
    monkeypatch.setattr(convolution, "_BLOCK", request.param)
    convolution._blocks.cache_clear()
    yield
    convolution._blocks.cache_clear()


@pytest.mark.parametrize("how", SLIDES, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_blocks_of_every_size_make_the_same_convolution(small_blocks, how, groups):
    g = slide(*how, groups)
    x, w, y = numbers(5, 4, *g.size), numbers(8, 4 // groups, *g.kernel), numbers(5, 8, *g.out)
    out, dx, dw = np.zeros_like(y), np.zeros_like(x), np.zeros_like(w)
    for q, (tap, window, place) in product(range(8), meetings(g)):
        group = slice(q // (8 // groups) * w.shape[1], (q // (8 // groups) + 1) * w.shape[1])
        weight, seen = w[(q, slice(None), *tap)], x[(slice(None), group, *place)]
        out[(slice(None), q, *window)] += seen @ weight
        dx[(slice(None), group, *place)] += np.outer(y[(slice(None), q, *window)], weight)
        dw[(q, slice(None), *tap)] += y[(slice(None), q, *window)] @ seen
    np.testing.assert_array_equal(convolution._convolution_array(x, w, g), out)
    np.testing.assert_array_equal(convolution._convolution_input_array(y, w, g), dx)
    np.testing.assert_array_equal(convolution._convolution_weight_array(x, y, g), dw)


def test_a_nan_stays_in_the_windows_that_see_it():
    x = np.ones((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.nan
    for groups in (1, 2):
        out = F.conv2d(lucid.tensor(x.repeat(groups, 1)), lucid.ones(groups, 1, 3, 3), padding=1, groups=groups)
        assert np.isnan(out.numpy()).sum() == 9 * groups


# --- normalisation -------------------------------------------------------------------------------


def normalized(x, eps):
    """Mean, variance and result in double precision, for each channel."""
    x = x.astype(np.float64)
    mean, variance = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    return mean.reshape(-1), variance.reshape(-1), (x - mean) / np.sqrt(variance + eps)


def forward(x, w, b, eps=1e-5):
    y, mean, rstd, narrow_mean, variance, is_extreme = batch_norm.normalize(x, w, b, eps, 1e-30, 1e30)
    assert not is_extreme
    assert y.dtype == narrow_mean.dtype == variance.dtype == x.dtype and mean.dtype == rstd.dtype == np.float64
    np.testing.assert_array_equal(narrow_mean, mean.astype(x.dtype))
    return y, mean, 1 / rstd**2 - eps


def drawn(*shape, dtype=np.float64):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("length", [1, 7, 17, 33, 1025])
@pytest.mark.parametrize("has_affine", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("offset", [0, 1000])
def test_normalization(length, has_affine, dtype, tolerance, offset):
    x, w, b = (drawn(3, 6, length) + offset).astype(dtype), drawn(6, dtype=dtype), drawn(6, dtype=dtype)
    y, mean, variance = forward(x, w if has_affine else None, b if has_affine else None, 1e-2)
    expected_mean, expected_variance, expected = normalized(x, 1e-2)
    np.testing.assert_allclose(mean, expected_mean, tolerance, tolerance)
    np.testing.assert_allclose(variance, expected_variance, tolerance, tolerance)
    expected = expected * w[:, None] + b[:, None] if has_affine else expected
    np.testing.assert_allclose(y, expected, tolerance, 10 * tolerance)


@pytest.mark.parametrize("length", [1, 17, 33])
@pytest.mark.parametrize("has_weight", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normalization_back(length, has_weight, dtype):
    x, g, w = ((drawn(3, 6, length) + 100).astype(dtype), drawn(3, 6, length, dtype=dtype), drawn(6, dtype=dtype))
    w = w if has_weight else None
    _, mean, variance = forward(x, w, w)
    rstd = 1 / np.sqrt(variance + 1e-5)
    by_mean, by_variance = drawn(*mean.shape), drawn(*mean.shape) / 2
    dx, dw, db = batch_norm.normalize_back(g, x, w, mean, rstd, by_mean, by_variance, True)

    def total(shifted):
        m, v, found = normalized(shifted, 1e-5)
        found = found * w[:, None] if has_weight else found
        return (found * g).sum() + (m * by_mean).sum() + (v * by_variance).sum()

    for index in [(0, 0, 0), (2, 5, length - 1), (1, 3, length // 2)]:
        step = np.zeros(x.shape)
        step[index] = 1e-4
        slope = (total(x + step) - total(x - step)) / 2e-4
        np.testing.assert_allclose(dx[index], slope, 2e-4, 2e-4)
    hat = normalized(x, 1e-5)[2]
    np.testing.assert_allclose(dw, (g * hat).sum((0, 2)), 1e-4, 1e-4)
    np.testing.assert_allclose(db, g.astype(float).sum((0, 2)), 1e-5, 1e-5)
    nothing, *only = batch_norm.normalize_back(g, x, w, mean, rstd, by_mean, by_variance, False)
    assert nothing is None
    np.testing.assert_array_equal(only, (dw, db))
    zeros = np.zeros(6)
    np.testing.assert_array_equal(
        batch_norm.normalize_back(g, x, w, mean, rstd, None, None, True)[0],
        batch_norm.normalize_back(g, x, w, mean, rstd, zeros, zeros, True)[0],
    )


@pytest.mark.parametrize("shape", [(40, 3, 700), (2, 1, 50_000), (300, 5, 20)])
def test_bits_of_channels_do_not_depend_on_threads_or_neighbours(shape):
    x, g, w = [lucid.tensor(drawn(*s, dtype=np.float32)) for s in (shape, shape, shape[1:2])]

    def both(x, g, w):
        x = x.detach().requires_grad_()
        y = F.batch_norm(x, None, None, w, training=True)
        return [v.detach().numpy() for v in (y, *lucid.autograd.grad(y, [x], g))]

    whole, before = both(x, g, w), lucid.get_num_threads()
    try:
        lucid.set_num_threads(1)
        alone = both(x, g, w)
    finally:
        lucid.set_num_threads(before)
    last = both(x[:, -1:], g[:, -1:], w[-1:])
    for found, one, channel in zip(whole, alone, last):
        np.testing.assert_array_equal(found, one)
        np.testing.assert_array_equal(found[:, -1:], channel)


def test_statistics_of_values_far_from_zero():
    x = (drawn(8, 2, 500) * 1e-2 + 1e3).astype(np.float32)
    _, mean, variance = forward(x, np.ones(2, np.float32), np.zeros(2, np.float32))
    expected = normalized(x, 1e-5)
    np.testing.assert_allclose(mean, expected[0], 1e-9)
    np.testing.assert_allclose(variance, expected[1], 1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_channel(bad):
    x = drawn(2, 3, 40, dtype=np.float32)
    x[0, 1, 5] = bad
    with np.errstate(invalid="ignore"):
        y, mean, _, _, _, is_extreme = batch_norm.normalize(x, None, None, 1e-5, 1e-30, 1e30)
    assert is_extreme
    assert np.isnan(y).all((0, 2)).tolist() == [False, True, False]
    assert np.isfinite(mean).tolist() == [True, False, True]


@pytest.mark.parametrize("length", [1, 7, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_affine(length, dtype):
    x, scale, shift = drawn(3, 5, length, dtype=dtype), drawn(5, dtype=dtype), drawn(5, dtype=dtype)
    expected = x * scale[:, None]
    np.testing.assert_allclose(batch_norm.affine(x, scale, None), expected, 1e-6, 1e-6)
    np.testing.assert_allclose(batch_norm.affine(x, scale, shift), expected + shift[:, None], 1e-6, 1e-6)
