"""Folds over windows by generated loops: against the reference, for all types, shapes and thread counts."""

import itertools

import numpy as np
import pytest

import lucid
from lucid import func
from lucid.autograd import gradcheck, gradgradcheck
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.threads import get_num_threads, set_num_threads
from lucid.core import kernels
from lucid.nn import functional as F
from lucid.ops.nn.pooling import EqualShares, window_map, windows
from lucid.ops.nn.resampling import AxisMap, Sampling, antialias_map, interpolation_map, nearest_map, transposed

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

SIZES = [(5, 7, 10, 14), (40, 33, 17, 70), (16, 50, 45, 20), (9, 1, 9, 4), (3, 300, 1, 1), (1, 1, 3, 3)]
KINDS = ("nearest", "linear", "cubic", "antialias", "pool", "equal")
TOLERANCE = {"f2": 2e-3, "f4": 1e-5, "c8": 1e-5, "f8": 1e-12}


def map_of(kind, size, out):
    if kind == "nearest":
        return nearest_map(size, out, size / out, False)
    if kind == "antialias":
        return antialias_map("cubic", Sampling(size, out, size / out))
    if kind == "pool":
        return window_map(windows(size, 3, 2, 1, 1, True))
    if kind == "equal":
        return window_map(EqualShares(size, min(size, out)))
    return interpolation_map(kind, Sampling(size, out, size / out))


def both(name, *arrays, maps):
    kernels.load_all()
    return [kernels.tables[backend][name](*arrays, maps=maps) for backend in ("cpu", "numpy")]


def some(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = 10 * rng.standard_normal(shape)
    if dtype == "u1":  # C knows no negative number without a sign
        x = x.astype(np.int64)
    return (x + 1j * rng.standard_normal(shape) if dtype == "c8" else x).astype(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8", "i4", "i8", "u1", "?"])
def test_maps_of_planes_are_those_of_the_reference(dtype, kind):
    if dtype in ("i4", "i8", "u1", "?") and kind in ("linear", "cubic", "antialias"):
        pytest.skip("weights are for numbers with fractions")
    tol = TOLERANCE.get(dtype, 0)
    for lead, (h, w, high, wide) in itertools.product([(), (2,), (2, 3), (0,)], SIZES):
        pair = map_of(kind, h, high), map_of(kind, w, wide)
        for maps in (pair, (pair[0], None), (None, pair[1])):
            for way in (maps,) if dtype == "?" else (maps, transposed(maps)):
                sizes = [n if m is None else m.size for n, m in zip((h, w), way)]
                found, wanted = both("resample", some((*lead, *sizes), dtype), maps=way)
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=tol, atol=50 * tol)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1"])
def test_maxima_are_those_of_the_reference(dtype):
    for lead, (h, w, high, wide), kind in itertools.product([(), (2, 3), (0,)], SIZES, ("pool", "equal")):
        maps = map_of(kind, h, high), map_of(kind, w, wide)
        x = some((*lead, h, w), dtype)
        if dtype[0] == "f":  # many equal ones, infinities and nan
            rng = np.random.default_rng(1)
            x = np.floor(x / 8)
            x[rng.random(x.shape) < 0.3] = -np.inf
            x[rng.random(x.shape) < 0.1] = np.nan
        for name in ("max_pool", "max_pool_indices"):
            found, wanted = both(name, x, maps=maps)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        if dtype[0] == "f":
            y, t = some(both("max_pool", x, maps=maps)[0].shape, dtype, 2), some(x.shape, dtype, 3)
            tol = 2e-2 if dtype == "f2" else 1e-5
            for name, given in (("max_pool_put", y), ("max_pool_take", t)):
                found, wanted = both(name, given, x, maps=maps)
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol)


def test_volumes_and_lines():
    for sizes, out in (((9,), (4,)), ((6, 5, 8), (12, 3, 11))):
        maps = tuple(map_of("linear", n, m) for n, m in zip(sizes, out))
        found, wanted = both("resample", some((2, *sizes), "f8"), maps=maps)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        maps = tuple(map_of("pool", n, m) for n, m in zip(sizes, out))
        for name in ("max_pool", "max_pool_indices"):
            np.testing.assert_array_equal(*both(name, some((2, *sizes), "f4"), maps=maps))


def test_strided_planes():
    x = some((6, 40, 30), "f4")[::2, ::-1].swapaxes(1, 2)
    maps = map_of("cubic", 30, 50), map_of("cubic", 40, 17)
    np.testing.assert_allclose(*both("resample", x, maps=maps), rtol=1e-5, atol=1e-4)
    maps = map_of("pool", 30, 0), map_of("pool", 40, 0)
    np.testing.assert_array_equal(*both("max_pool_indices", x, maps=maps))


def test_a_window_without_elements_has_no_gradient():
    x = lucid.full((1, 1, 1), 5.0, requires_grad=True)
    out = F.max_pool1d(x, 2, stride=1, padding=2, dilation=4)
    assert out.tolist() == [[[-np.inf]]]
    out.backward(lucid.ones_like(out))
    assert x.grad.tolist() == [[[0.0]]]


def test_places_without_entries_and_maps_of_nothing():
    gap = AxisMap(4, 3, [(np.array([0, 2]), np.array([3, 1]), None)])
    found, wanted = both("resample", some((2, 4), "f4"), maps=(gap,))
    np.testing.assert_array_equal(found, wanted)
    assert (found[:, 1] == 0).all()
    np.testing.assert_array_equal(*both("resample", some((2, 4), "f4"), maps=(None,)))


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinities_stay_where_they_belong(value):
    x = np.ones((1, 1, 8, 8), np.float32)
    x[..., 3, 3] = value
    out = F.interpolate(lucid.tensor(x), scale_factor=2, mode="bilinear").numpy()
    assert not np.isfinite(out).all() and np.isfinite(out[..., :5, :]).all() and np.isfinite(out[..., 9:]).all()


def test_bits_do_not_depend_on_threads():
    before = get_num_threads()
    x = lucid.tensor(some((1, 2, 400, 300), "f4"), requires_grad=True)
    found = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results = [
                F.interpolate(x, scale_factor=1.7, mode="bicubic"),
                F.avg_pool2d(x, 3, 2, 1),
                F.max_pool2d(x, 3, 2, 1),
            ]
            grads = [lucid.autograd.grad(out, x, lucid.ones_like(out)) for out in results]
            found.append([t.numpy().tobytes() for t in (*results, *grads)])
    finally:
        set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x, size=(7, 3), mode="bicubic"),
        lambda x: F.interpolate(x, scale_factor=2.5),
        lambda x: F.interpolate(x, size=(3, 9), mode="bilinear", antialias=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, (1, 3)),
    ],
)
def test_gradients_and_batches(function):
    x = lucid.tensor(some((2, 2, 5, 6), "f8"), requires_grad=True)
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))
    rows = lucid.tensor(some((3, 2, 2, 5, 6), "f8"))
    wanted = lucid.stack([function(row) for row in rows])
    np.testing.assert_allclose(func.vmap(function)(rows).numpy(), wanted.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "target", [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64-v3")]
)
def test_code_for_other_processors(target):
    from lucid.codegen.loops import module
    from lucid.codegen.machine import Compiler
    from lucid.codegen.windows import WindowPlan, lines, places, rows
    from lucid.core.primitive import P
    from lucid.ops.reductions import SUM

    single, whole = np.dtype(np.float32), np.dtype(np.int64)
    plan, places_plan = WindowPlan(SUM, single, True), WindowPlan(P.max_pool_indices.fold, single, False, whole)
    functions = [rows(plan, "rows"), lines(plan, "lines"), places(places_plan, "places")]
    assembly = Compiler(*target, "").assembly(module(functions))
    assert all(f"{name}:" in assembly for name in ("rows", "lines", "places"))
