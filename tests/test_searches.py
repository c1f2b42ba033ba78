"""Searches, counts and positions by compiled loops give what the reference gives."""

import numpy as np
import pytest

import lucid
from lucid.backends.cpu import thread_pool
from lucid.backends.cpu.generated import searches
from lucid.backends.numpy import counting, sorting

TYPES = ["float32", "float64", "int32", "int64", "int8", "float16"]


def same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def numbers(rng, shape, dtype, with_nan=False):
    x = np.asarray(rng.integers(-9, 9, shape)).astype(dtype)
    if with_nan and x.size > 2 and x.dtype.kind == "f":
        x.reshape(-1)[::3] = np.nan
    return x


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("with_nan", [False, True])
def test_searchsorted(dtype, right, with_nan):
    rng = np.random.default_rng(1)
    for length in (0, 1, 2, 3, 7, 16, 33):
        for shape in ((), (0,), (9,), (4, 5)):
            sequence, values = np.sort(numbers(rng, length, dtype, with_nan)), numbers(rng, shape, dtype, with_nan)
            same(searches.searchsorted(sequence, values, right), sorting.searchsorted(sequence, values, right))
        rows, values = np.sort(numbers(rng, (3, 2, length), dtype, with_nan)), numbers(rng, (3, 2, 6), dtype, with_nan)
        expected = sorting.searchsorted(rows, values, right)
        same(searches.searchsorted(rows, values, right), expected)
        same(searches.searchsorted(np.asfortranarray(rows), values[..., ::1].copy(order="F"), right), expected)


def test_searches_are_shared_among_threads():
    rng = np.random.default_rng(2)
    rows, values = np.sort(rng.standard_normal((50, 40))), rng.standard_normal((50, 3000))
    before = thread_pool.size()
    try:
        for threads in (1, 2, 5):
            thread_pool.set_size(threads)
            same(searches.searchsorted(rows, values, False), sorting.searchsorted(rows, values, False))
            edges = np.linspace(-2, 2, 11)
            flat = values.reshape(-1)
            same(searches.bin_numbers(flat, edges, True), counting.bin_numbers(flat, edges, True))
    finally:
        thread_pool.set_size(before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_bins(dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.standard_normal(500), [np.nan, np.inf, -np.inf, -2, 2, 0.4, -0.4]]).astype(dtype)
    for count, low, high in ((1, -2, 2), (10, -2, 2), (7, 0, 1e-3), (3, 1, 1), (4, -np.inf, np.inf)):
        with np.errstate(invalid="ignore"):
            edges = np.linspace(low, high, count + 1).astype(dtype)
        for even in (True, False) if np.isfinite(edges).all() else (True,):
            same(searches.bin_numbers(x, edges, even), counting.bin_numbers(x, edges, even))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("invert", [False, True])
def test_members(dtype, invert):
    rng = np.random.default_rng(4)
    for shape in ((), (0,), (5, 6), (200, 100)):
        for size in (0, 1, 8):
            x, test = numbers(rng, shape, dtype, True), numbers(rng, size, dtype, True)
            found = searches.isin(x, test, invert, False)
            same(np.asarray(found), np.asarray(counting.isin(x, test, invert, False)))
    assert lucid.isin(lucid.tensor([0.0, -0.0]), lucid.tensor([-0.0, 1.0])).tolist() == [True, True]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_occurrences(dtype):
    for values in ([], [0], [3, 1, 3, 0], list(range(100)) * 3):
        x = np.array(values, dtype)
        for least in (0, 2, 200):
            same(searches.occurrences(x, least), counting.occurrences(x, least))
            same(searches.occurrences(x[::2], least), counting.occurrences(x[::2], least))
    assert searches.occurrences(np.array([1, -1]), 0) is None
    with pytest.raises(RuntimeError, match="there is -1"):
        lucid.bincount(lucid.tensor([1, -1]))
    with pytest.raises(RuntimeError, match="there is -1"):
        lucid.bincount(lucid.tensor([1, -1]), lucid.ones(2))


@pytest.mark.parametrize("rows", [0, 1, 4, 5])
@pytest.mark.parametrize("columns", [0, 1, 4, 7])
def test_triangles(rows, columns):
    for offset in range(-8, 9):
        for is_lower in (True, False):
            expected = counting.triangle_positions(rows, columns, offset, is_lower)
            same(searches.triangle_positions(rows, columns, offset, is_lower), expected.astype(np.int64))
    assert lucid.tril_indices(rows, columns, dtype=lucid.int32).dtype == lucid.int32


def test_histograms_of_halves_and_of_one_point():
    assert lucid.histc(lucid.tensor([1.0, 1.0]), bins=4).tolist() == [0.0, 0.0, 2.0, 0.0]
    hist, edges = lucid.histogram(lucid.tensor([3.0, 3.0, 3.0]), bins=2)
    assert hist.tolist() == [0.0, 3.0] and edges.tolist() == [2.5, 3.0, 3.5]
    x = lucid.tensor(np.random.default_rng(5).standard_normal(100).astype(np.float32))
    hist, edges = lucid.histogram(x, bins=7)
    expected, at = np.histogram(x.numpy(), 7)
    np.testing.assert_array_equal(hist.numpy(), expected)
    np.testing.assert_allclose(edges.numpy(), at, rtol=1e-6, atol=1e-6)
    pairs = lucid.tensor(np.random.default_rng(6).standard_normal((100, 2)).astype(np.float32))
    expected = np.histogramdd(pairs.numpy(), (3, 4))[0]
    np.testing.assert_array_equal(lucid.histogramdd(pairs, [3, 4]).hist.numpy(), expected)


@pytest.mark.parametrize("find", [searches.bin_numbers, counting.bin_numbers])
@pytest.mark.parametrize("count", [7, 1 << 22])
def test_bins_are_those_between_whose_edges_elements_lie(find, count):
    """Where bins are narrower than the error of a guess by their width, too."""
    edges = np.linspace(1, 1.5, count + 1).astype(np.float32)
    x = np.random.default_rng(0).uniform(1, 1.5, 4001).astype(np.float32)
    x[:3] = 1, 1.5, 1.25
    found, want = find(x, edges, True), np.searchsorted(edges, x, side="right") - 1
    same(found, np.minimum(want, count - 1))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("ends", [(-2.0, 0.5), (-1.25, 1.25), (3.0, 3.0)])
def test_edges_between_extremes_are_those_of_numpy(ends, requires_grad):
    values = np.array([*ends, *np.linspace(*ends, 11)])
    x = lucid.tensor(values, requires_grad=requires_grad)
    hist, edges = lucid.histogram(x, 5)
    want, places = np.histogram(values, 5)
    np.testing.assert_array_equal(edges.detach().numpy(), places)
    np.testing.assert_array_equal(hist.detach().numpy(), want)
