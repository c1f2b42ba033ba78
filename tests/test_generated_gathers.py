"""Gathers and scatters by compiled loops give what the reference gives, to the last bit, with any number of threads."""

from typing import Any

import numpy as np
import pytest

import lucid.nn  # declares what is computed of classes
from lucid.backends.cpu import thread_pool
from lucid.backends.cpu.generated import gathers, support
from lucid.backends.cpu.launch import gathers as launch_gathers
from lucid.backends.numpy import indexing
from lucid.codegen.gathers import LOOPS, plan_of
from lucid.codegen.loops import module
from lucid.codegen.machine import Compiler
from lucid.core import dtypes, kernels
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

TYPES = [
    "bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
FOLDS = {
    "index_put": {"accumulate": True},
    "index_prod": {},
    "index_amax": {"include_self": False},
    "index_amin": {"include_self": True},
}


def numbers(rng: Any, shape: Any, dtype: str) -> Any:
    kind = dtypes.bfloat16.numpy if dtype == "bfloat16" else np.dtype(dtype)
    if kind.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)
    x = rng.standard_normal(shape) * 3
    return (x.astype(np.int64) if kind.kind == "u" else x).astype(kind)  # C knows no negative number without a sign


def layouts(x: Any) -> list[Any]:
    """The same elements, lying in memory in other ways."""
    twice = np.repeat(x, 2, axis=-1)[..., ::2]
    return [x, np.asfortranarray(x), np.flip(np.ascontiguousarray(np.flip(x, 0)), 0), twice]


def positions_for(rng: Any, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Some ways to index an array of three dimensions."""
    n, m, k = shape
    rows = np.arange(n).reshape(n, 1, 1)
    return [
        (rng.integers(-n, n, 7),),
        (rng.integers(0, n, (4, 3)), rng.integers(0, m, (1, 3))),
        (rows, rng.integers(0, m, (n, 2, 1)), np.arange(k)),
        (np.asarray(n - 1), np.asarray(0)),
        (rng.integers(0, n, (6, 2)).T, rng.integers(-m, m, 6)[None, ::-1]),
    ]


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.flags.c_contiguous
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_gathers(dtype):
    rng = np.random.default_rng(1)
    x = numbers(rng, (5, 4, 3), dtype)
    for laid_out in layouts(x):
        for positions in positions_for(rng, x.shape):
            found = launch_gathers.gather(laid_out, *positions)
            same(found, x[positions])
            same(P.index.kernel(laid_out, *positions), x[positions])


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_at_the_same_positions(dtype):
    """Some of the rows are taken together: even and odd numbers of rows and of positions, which count from the end or not."""
    rng = np.random.default_rng(2)
    for shape, count in (((5, 4, 7), 9), ((4, 3, 7), 1), ((1, 6, 5), 8), ((2, 7, 600), 1201)):
        x, (n, m, k) = numbers(rng, shape, dtype), shape
        for first, second in ((np.arange(n), np.arange(m)), (rng.integers(-n, n, n), rng.integers(-m, m, m))):
            for least in (0, -k):
                positions = (first.reshape(n, 1, 1), second.reshape(m, 1), rng.integers(least, k, count))
                for laid_out in layouts(x):
                    same(launch_gathers.gather(laid_out, *positions), x[positions])
                    same(launch_gathers.gather(laid_out[0], *positions[1:]), x[0][positions[1:]])


@pytest.mark.parametrize("dtype", TYPES)
def test_short_rows_that_have_positions_of_their_own(dtype):
    """Some of them are looked through together; one position that counts from the end, or is wrong, may be in any row."""
    rng = np.random.default_rng(4)
    for rows, k, count in ((1, 3, 2), (7, 5, 1), (900, 3, 10), (40, 300, 256), (40, 300, 257), (30000, 2, 3)):
        x, places = numbers(rng, (rows, k), dtype), rng.integers(0, k, (rows, count))
        values, each = numbers(rng, (rows, count), dtype), np.arange(rows).reshape(rows, 1)
        for place in (None, 0, rows // 2, rows - 1):
            if place is not None:
                places[place, -1] = -k
            for laid_out in layouts(x):
                positions = (each, places)
                same(P.index.kernel(laid_out, *positions), x[positions])
                put = {"accumulate": True}
                want = kernels.reference(P.index_put)(laid_out, values, *positions, **put)
                same(P.index_put.kernel(laid_out, values, *positions, **put), want)
        places[rows // 2, 0] = k
        with pytest.raises(IndexError):
            P.index.kernel(x, each, places)


def test_a_wrong_position_of_a_later_row_is_refused():
    x = np.arange(70.0).reshape(10, 7)
    for row in range(10):
        rows = np.arange(10).reshape(10, 1)
        rows[row] = 10
        with pytest.raises(IndexError):
            P.index.kernel(x, rows, np.arange(7))


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_folds(name, dtype):
    primitive, params = getattr(P, name), FOLDS[name]
    if "complex" in dtype and name != "index_put":
        pytest.skip("no code for complex numbers, or no order among them")
    rng = np.random.default_rng(2)
    x = numbers(rng, (5, 4, 3), dtype)
    kernel = gathers.of_positions(primitive)
    for laid_out in layouts(x):
        for positions in positions_for(rng, x.shape):
            shape = x[positions].shape
            for values in (*layouts(numbers(rng, shape or (1,), dtype))[: 4 if shape else 1], numbers(rng, (), dtype)):
                values = values.reshape(shape) if not shape else values
                expected = kernels.reference(primitive)(x, values, *positions, **params)
                same(kernel(laid_out, values, *positions, **params), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_writes_and_transposes(dtype):
    rng = np.random.default_rng(3)
    x = numbers(rng, (5, 4, 3), dtype)
    for laid_out in layouts(x):
        for positions in positions_for(rng, x.shape):
            values = numbers(rng, x[positions].shape, dtype)
            put = kernels.reference(P.index_put)(x, values, *positions, accumulate=False)
            same(P.index_put.kernel(laid_out, values, *positions, accumulate=False), put)
            back = kernels.reference(P.index_back)(values, *positions, shape=x.shape)
            same(P.index_back.kernel(values, *positions, shape=x.shape), back)
            for combine in (None, "add") if dtype.startswith("complex") else (None, "add", "mul", "maximum", "minimum"):
                here, there = laid_out.copy(order="K"), x.copy()
                gathers.into(here, values, positions, combine)
                indexing.index_into(there, values, positions, combine)
                same(np.ascontiguousarray(here), there)


LARGE = {
    "rows": ((400, 300), lambda rng: (rng.integers(0, 400, 700),)),
    "few wide rows": ((3, 200000), lambda rng: (rng.integers(0, 3, 2),)),
    "along columns": ((300, 400), lambda rng: (np.arange(300)[:, None], rng.integers(0, 400, (300, 500)))),
    "along rows": ((300, 400), lambda rng: (rng.integers(0, 300, (500, 400)), np.arange(400))),
    "anywhere": ((300, 400), lambda rng: (rng.integers(-300, 300, 90000), rng.integers(0, 400, 90000))),
    "one place": ((5,), lambda rng: (rng.integers(0, 5, 200000),)),
    "behind": ((50, 7, 40, 3), lambda rng: (rng.integers(0, 50, 400), rng.integers(0, 7, 400))),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex64"])
def test_threads_give_the_same(case, dtype):
    rng = np.random.default_rng(4)
    shape, make = LARGE[case]
    positions = make(rng)
    x = numbers(rng, shape, dtype)
    values = numbers(rng, x[positions].shape, dtype)
    transposed = np.asfortranarray(x)
    before = thread_pool.size()
    found = []
    try:
        for threads in (1, 2, 5):
            thread_pool.set_size(threads)
            into = transposed.copy(order="K")
            gathers.into(into, values, positions, "add")
            found.append(
                [
                    P.index.kernel(x, *positions),
                    P.index.kernel(transposed, *positions),
                    P.index_put.kernel(x, values, *positions, accumulate=True),
                    P.index_put.kernel(x, values, *positions, accumulate=False),
                    P.index_back.kernel(values, *positions, shape=shape),
                    np.ascontiguousarray(into),
                ]
            )
    finally:
        thread_pool.set_size(before)
    same(found[0][0], x[positions])
    expected = kernels.reference(P.index_put)(x, values, *positions, accumulate=True)
    same(found[0][2], expected)
    same(found[0][5], expected)
    same(found[0][3], kernels.reference(P.index_put)(x, values, *positions, accumulate=False))
    for other in found[1:]:
        for one, more in zip(found[0], other, strict=True):
            same(more, one)


def test_half_precision_is_rounded_once():
    x, values = np.zeros(1, np.float16), np.full(4096, 0.1, np.float16)
    out = P.index_put.kernel(x, values, np.zeros(4096, np.int64), accumulate=True)
    total = np.float32(0)
    for v in values.astype(np.float32):
        total += v
    assert out[0] == np.float16(total)


@pytest.mark.parametrize("wrong", [5, -6, 1 << 62, -(1 << 62)])
@pytest.mark.parametrize("count", [1, 3, 70000])
def test_wrong_positions_are_refused_before_anything_is_written(wrong, count):
    x, places = np.arange(10.0).reshape(5, 2), np.zeros(count, np.int64)
    places[-1] = wrong
    values = np.ones((count, 2))
    seen, index, source = (lucid.from_numpy(a) for a in (x, places, values))
    for call in (
        lambda: P.index.kernel(x, places),
        lambda: P.index_put.kernel(x, values, places, accumulate=False),
        lambda: seen.index_put_((index,), source),
        lambda: seen.index_put_((index,), source, accumulate=True),
        lambda: seen.index_reduce_(0, index, source, "amax"),
    ):
        with pytest.raises(IndexError):
            call()
    np.testing.assert_array_equal(x, np.arange(10.0).reshape(5, 2))


def test_values_that_share_memory_are_read_before_they_are_written():
    x = np.arange(6.0)
    gathers.into(x, x[::-1], (np.arange(6),), None)
    np.testing.assert_array_equal(x, np.arange(6.0)[::-1])


def test_what_is_empty():
    x, none = np.ones((3, 2)), np.zeros(0, np.int64)
    assert P.index.kernel(x, none).shape == (0, 2)
    same(P.index_put.kernel(x, np.ones((0, 2)), none, accumulate=True), x)
    same(P.index_back.kernel(np.ones((0, 2)), none, shape=(3, 2)), np.zeros((3, 2)))
    assert P.index.kernel(np.ones((3, 0)), np.array([1])).shape == (1, 0)


@pytest.mark.parametrize("shape", [(1,), (7,), (1000, 3), (600, 700), (2, 3, 4, 5), (300000,), (0, 3)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_masks(shape, share):
    rng = np.random.default_rng(5)
    mask = rng.random(shape) < share
    for found, expected in zip(gathers.nonzero(mask, False), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(gathers.nonzero(mask, True), np.argwhere(mask))
    np.testing.assert_array_equal(gathers.nonzero(np.asfortranarray(mask), True), np.argwhere(mask))


CLASSES = [((5, 3), -100), ((4, 6, 3), 2), ((3, 2, 1, 5), -1), ((6000, 4), -100), ((2, 3, 40, 50), 0), ((1, 1), -100)]


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize(("shape", "ignored"), CLASSES)
def test_classes(shape, ignored, dtype, reduction):
    rng = np.random.default_rng(7)
    x, target = numbers(rng, shape, dtype), rng.integers(0, shape[1], shape[:1] + shape[2:])
    if ignored < 0:
        target.flat[:: max(2, target.size // 3)] = ignored
        target.flat[-1] = 0
    how = {"ignore_index": ignored, "reduction": reduction}
    expected = kernels.reference(P.nll)(x, target, **how)
    ct = numbers(rng, expected.shape, dtype)  # a number of NumPy's where there is one, which is as good as an array
    close = {"rtol": 4 * np.finfo(dtype).eps, "atol": 4 * np.finfo(dtype).eps * abs(x).sum() / x.shape[1]}
    for laid_out in layouts(x):
        np.testing.assert_allclose(P.nll.kernel(laid_out, target, **how), expected, **close)
        picked = kernels.reference(P.pick_class)(x, target, ignore_index=ignored)
        same(P.pick_class.kernel(laid_out, target, ignore_index=ignored), picked)
    back = kernels.reference(P.nll_back)(ct, target, classes=shape[1], **how)
    for places in (target, np.asfortranarray(target), target.astype(np.int32)):
        found = P.nll_back.kernel(ct, places, classes=shape[1], **how)
        assert found.dtype == back.dtype
        np.testing.assert_array_equal(found, back)


def test_classes_with_any_number_of_threads():
    rng = np.random.default_rng(8)
    x, target = rng.standard_normal((70000, 5)), rng.integers(0, 5, 70000)
    before = thread_pool.size()
    found = []
    try:
        for threads in (1, 2, 5):
            thread_pool.set_size(threads)
            loss = P.nll.kernel(x, target, ignore_index=3, reduction="mean")
            found.append((loss, P.nll_back.kernel(loss, target, classes=5, ignore_index=3, reduction="mean")))
    finally:
        thread_pool.set_size(before)
    np.testing.assert_allclose(found[0][0], -x[np.arange(70000), target][target != 3].mean(), rtol=1e-12)
    for loss, back in found[1:]:
        same(loss, found[0][0])
        same(back, found[0][1])


@pytest.mark.parametrize("wrong", [-1, 5])
@pytest.mark.parametrize("count", [3, 70000])
def test_what_is_no_class_is_refused(wrong, count):
    x, target = np.zeros((count, 5), np.float32), np.zeros(count, np.int64)
    target[-1] = wrong
    for reduction in ("none", "mean"):
        with pytest.raises(IndexError, match=f"target {wrong} is out of range for 5 classes"):
            P.nll.kernel(x, target, ignore_index=-100, reduction=reduction)
    with pytest.raises(IndexError, match=f"target {wrong} is out of range for 5 classes"):
        P.nll_back.kernel(np.ones((), np.float32), target, classes=5, ignore_index=-100, reduction="sum")


def test_only_ignored_targets():
    x, target = np.ones((3, 2), np.float32), np.full(3, -100)
    how = {"ignore_index": -100}
    assert np.isnan(P.nll.kernel(x, target, **how, reduction="mean"))
    assert P.nll.kernel(x, target, **how, reduction="sum") == 0
    assert not P.nll_back.kernel(np.ones((), np.float32), target, classes=2, **how, reduction="mean").any()


def test_bounds():
    rng = np.random.default_rng(6)
    inside = rng.integers(0, 9, 300000)
    assert gathers.in_range(inside, 9, "test", False) is inside
    inside[-1] = -2
    found = gathers.in_range(inside, 9, "test", True)
    assert found[-1] == 7
    with pytest.raises(IndexError, match="test: index -2 is out of range"):
        gathers.in_range(inside, 9, "test", False)
    np.testing.assert_array_equal(gathers.in_range(np.array([1, 2], np.int8), 3, "test", True), [1, 2])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", ["add", "mul", "maximum", "minimum"])
def test_code_for_other_processors(name, dtype):
    plan = plan_of(getattr(P, name).source, np.dtype(dtype), np.dtype(dtype))
    assembly = Compiler("aarch64-unknown-linux-gnu", "generic", "").assembly(
        module([make(plan, make.__name__) for make in LOOPS])
    )
    assert "fold_at" in assembly


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_elements_that_are_not_zero(dtype):
    """Whatever their type and wherever they lie, loops find where they are."""
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.integers(-1, 2, (70, 90))).to(getattr(lucid, dtype))
    for view in (x, x.t(), x[::3, 1:], x[0], x[:0]):
        array = view.numpy()
        wanted = np.argwhere(array != 0)
        np.testing.assert_array_equal(lucid.nonzero(view).numpy(), wanted)
        for found, expected in zip(lucid.nonzero(view, as_tuple=True), wanted.T, strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)
    assert gathers.nonzero(np.array([0.0, np.nan, -0.0, 2.0]), False)[0].tolist() == [1, 3]


@pytest.mark.parametrize("places", ["spread", "alike", "negative", "few"])
def test_wide_rows_are_added_up_in_their_order_by_any_number_of_threads(places):
    rng = np.random.default_rng(0)
    index = {
        "spread": rng.integers(0, 600, 900), "alike": np.minimum(rng.integers(0, 600, 900), 3),
        "negative": rng.integers(-600, 600, 900), "few": rng.integers(0, 600, 20),
    }[places]  # fmt: skip
    x, values = (rng.standard_normal((n, 700)).astype(np.float32) for n in (600, len(index)))
    expected = x.copy()
    np.add.at(expected, index, values)
    before = lucid.get_num_threads()
    try:
        for threads in (1, 2, 3):
            lucid.set_num_threads(threads)
            found = lucid.tensor(x).index_put((lucid.tensor(index),), lucid.tensor(values), accumulate=True)
            assert np.array_equal(np.asarray(found), expected), threads
    finally:
        lucid.set_num_threads(before)
