"""Generated scans, places of extreme elements and selections against the reference, over types, strides and shapes."""

import numpy as np
import pytest

import lucid
from lucid import native
from lucid.backends.cpu.generated import support
from lucid.core import dtypes, kernels
from lucid.core.primitive import P

pytestmark = pytest.mark.skipif(not (support.in_use and native.in_use), reason="no code is generated here")

NARROW = [dtypes.float16.numpy, dtypes.bfloat16.numpy]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
WHOLE = [np.dtype(t) for t in "bhilBHIL?"]
REVERSIBLE = ("cumsum", "cumprod", "recurrence")
SCANS = {
    "cumsum": [*FLOATS, *NARROW, *WHOLE],
    "cumprod": [*FLOATS, *NARROW, *WHOLE],
    "recurrence": [*FLOATS, *NARROW, np.dtype(np.int64)],
    "logcumsumexp": [*FLOATS, *NARROW],
    "running_positions": [*FLOATS, *NARROW, *WHOLE],
}
SHAPES = [
    (1,),
    (5,),
    (70,),
    (3, 1),
    (1, 40),
    (2, 33),
    (3, 17),
    (16, 16),
    (35, 50),
    (130, 3),
    (3, 20, 33),
    (2, 3, 2, 19),
    (4, 30, 5),
]


def settings(name):
    if name in REVERSIBLE:
        return [{"reverse": False}, {"reverse": True}]
    return [{"largest": True}, {"largest": False}] if name == "running_positions" else [{}]


def numbers(rng, shape, dtype):
    if dtype.kind in "iub":
        return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    return rng.uniform(-1.2, 1.2, shape).astype(dtype)


def layouts(x):
    """The same numbers, lying in memory in other ways."""
    yield x
    yield np.asfortranarray(x)
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    apart = wide[tuple([slice(None, None, 2)] * x.ndim)]
    apart[...] = x
    yield apart
    turned = np.flip(x).copy()
    yield np.flip(turned)
    fixed = x.copy()
    fixed.flags.writeable = False
    yield fixed


def close(got, want, dtype):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        rtol = {2: 2e-2, 4: 2e-5, 8: 1e-12}[dtype.itemsize]
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", SCANS)
def test_scans_are_those_of_the_reference(name):
    primitive = getattr(P, name)
    rng = np.random.default_rng(0)
    for dtype in SCANS[name]:
        for shape in SHAPES if dtype in FLOATS else SHAPES[4:10:2]:
            operands = [numbers(rng, shape, dtype) for _ in primitive.operands]
            for dim in range(len(shape)):
                for params in settings(name):
                    exact = [x.astype(np.float32) if dtype in NARROW else x for x in operands]
                    want = kernels.reference(primitive)(*exact, dim=dim, **params)
                    want = want if want.dtype == np.int64 else want.astype(dtype)
                    first = None
                    for given in zip(*[layouts(x) for x in operands], strict=True):
                        got = kernels.resolved(primitive)(*given, dim=dim, **params)
                        close(got, want, dtype)
                        first = got if first is None else first
                        assert got.tobytes() == first.tobytes()


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "recurrence"])
def test_sums_and_products_are_the_same_bits(name):
    """Elements are put together in order, as the reference does."""
    primitive = getattr(P, name)
    rng = np.random.default_rng(1)
    for shape in ((40, 1000), (1000, 40), (3000,), (300, 500)):
        operands = [numbers(rng, shape, np.dtype(np.float32)) for _ in primitive.operands]
        for x in operands:
            x[0] = -0.0
        for dim in range(len(shape)):
            for params in settings(name):
                want = kernels.reference(primitive)(*operands, dim=dim, **params)
                got = kernels.resolved(primitive)(*operands, dim=dim, **params)
                assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_sums_of_complex_numbers_are_those_of_their_parts(dtype):
    rng = np.random.default_rng(3)
    for shape in ((0, 3), (7,), (40, 300), (2, 1, 90), (300, 500)):
        x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        for given in (*layouts(x), np.broadcast_to(x[..., :1], shape)):
            for dim in range(len(shape)):
                for params in settings("cumsum"):
                    want = kernels.reference(P.cumsum)(given, dim=dim, **params)
                    got = kernels.resolved(P.cumsum)(given, dim=dim, **params)
                    assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", SCANS)
def test_threads_do_not_change_bits(name):
    primitive = getattr(P, name)
    rng = np.random.default_rng(2)
    operands = [numbers(rng, (600, 500), np.dtype(np.float32)) for _ in primitive.operands]
    for dim in (0, 1):
        params = settings(name)[0]
        whole = kernels.resolved(primitive)(*operands, dim=dim, **params)
        other = 1 - dim
        for k in range(0, operands[0].shape[other], 97):
            part = [np.take(x, range(k, min(k + 3, x.shape[other])), other) for x in operands]
            got = kernels.resolved(primitive)(*part, dim=dim, **params)
            assert got.tobytes() == np.take(whole, range(k, k + got.shape[other]), other).copy().tobytes()


def test_scans_of_nothing_and_of_operands_that_are_broadcast():
    for shape in ((0,), (0, 3), (3, 0)):
        for dim in range(len(shape)):
            assert kernels.resolved(P.cumsum)(np.zeros(shape), dim=dim, reverse=True).shape == shape
    a, b = np.random.default_rng(3).normal(size=(2, 20, 30))
    for one, other in ((a[:1], b), (a, b[:, :1]), (a[:1], b[:, :1]), (np.broadcast_to(a[0], a.shape), b)):
        for dim in (0, 1):
            want = kernels.reference(P.recurrence)(one, other, dim=dim, reverse=False)
            np.testing.assert_array_equal(kernels.resolved(P.recurrence)(one, other, dim=dim, reverse=False), want)


def test_the_first_element_is_taken_as_it_is():
    x = np.array([-0.0, 1.0])
    assert np.signbit(kernels.resolved(P.cumsum)(x, dim=0, reverse=False)[0])
    assert kernels.resolved(P.recurrence)(np.array([np.inf, 2.0]), x, dim=0, reverse=False).tolist() == [-0.0, 1.0]


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *NARROW])
def test_products_of_single_precision_are_found_in_double(dtype):
    """What is too large or too small in between does not stay so, in lines and columns, forwards and backwards."""
    factors = np.array([2.0**100, 2.0**100, 2.0**-100, 2.0**-140, 2.0**-10, 2.0**60])
    if dtype.itemsize == 2:
        factors = np.array([2.0**14, 2.0**14, 2.0**-14, 2.0**-20, 2.0**-6, 2.0**12])
    x = np.repeat(factors[None], 40, 0)
    given = x.astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        want = np.cumprod(x, 1).astype(dtype)
    for one, dim in ((given, 1), (given.T, 0), (given[:1], 1), (given[:, ::-1][:, ::-1], 1)):
        got = kernels.resolved(P.cumprod)(one, dim=dim, reverse=False)
        assert np.ascontiguousarray(np.moveaxis(got, dim, 1)).tobytes() == want[: len(one) if dim else 40].tobytes()
        product = kernels.resolved(P.prod)(one, dims=(dim,), keepdim=False)
        assert product.dtype == dtype and set(product.astype(float)) == {float(want[0, -1])}


def test_running_products_that_are_too_small_for_double_precision_are_zero():
    """They keep their signs, and do not come back; a product with infinity is nan, as with any zero."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.2, 1.2, (40, 3000)).astype(np.float32)
    x[3, 2000], x[4, 2500], x[5, 2500:2530] = np.inf, np.nan, 2.0**100
    for one, dim in ((x, 1), (np.asfortranarray(x), 1), (x.T, 0), (x[:1], 1)):
        for reverse in (False, True):
            with np.errstate(all="ignore"):
                want = kernels.reference(P.cumprod)(one, dim=dim, reverse=reverse)
            got = kernels.resolved(P.cumprod)(one, dim=dim, reverse=reverse)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])
    ends = kernels.resolved(P.cumprod)(x, dim=1, reverse=False)[:, -1]
    assert np.isnan(ends[[3, 4]]).all() and (np.delete(ends, [3, 4]) == 0).all()


EXTREMES = np.array([[1, np.nan, 3, np.nan], [-np.inf] * 4, [2, 7, 7, 2], [np.inf, -np.inf, np.inf, 0]])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_those_of_the_reference(name):
    primitive = getattr(P, name)
    rng = np.random.default_rng(4)
    for dtype in [*FLOATS, *NARROW, *WHOLE]:
        shapes = [*SHAPES, (9000,), (9, 5000), (5000, 21)] if dtype in FLOATS else SHAPES[4:10:2]
        for shape in shapes:
            x = np.round(3 * numbers(rng, shape, dtype)).astype(dtype)  # with many that are equal
            for dim in range(len(shape)):
                want = kernels.reference(primitive)(x, dim=dim)
                for given in layouts(x):
                    np.testing.assert_array_equal(kernels.resolved(primitive)(given, dim=dim), want)
    for scale in (1, 50):
        x = np.repeat(EXTREMES, scale, axis=1)
        for dtype in FLOATS:
            for given, dim in ((x, 1), (x.T.copy(), 0)):
                given = given.astype(dtype)
                want = kernels.reference(primitive)(given, dim=dim)
                np.testing.assert_array_equal(kernels.resolved(primitive)(given, dim=dim), want)


def test_an_extreme_far_behind_is_found():
    x = np.zeros(2**20, np.float32)
    for place in (0, 1, 4095, 4096, 2**20 - 1):
        x[place] = 1
        assert kernels.resolved(P.argmax)(x, dim=0) == place
        x[place] = 0


@pytest.mark.parametrize("shape", [(7,), (2, 3), (3, 1, 4), (1, 1)])
def test_gradients_of_products_with_zeros(shape):
    x = np.random.default_rng(5).uniform(0.5, 2, shape)
    for zeros in range(4):
        x.reshape(-1)[: min(zeros, x.size)] = 0
        t = lucid.tensor(x, requires_grad=True)
        t.prod().backward()
        flat = x.reshape(-1)
        want = [np.prod(np.delete(flat, i)) for i in range(flat.size)]
        np.testing.assert_allclose(t.grad.numpy().reshape(-1), want, rtol=1e-12)


@pytest.mark.parametrize("largest", [True, False])
def test_selections_are_in_order(largest):
    """Of equal elements the first one comes first; nan counts as largest."""
    rng = np.random.default_rng(6)
    for dtype in [*FLOATS, *NARROW, *WHOLE]:
        for shape in [*SHAPES[1:], (3, 2000), (700, 3)] if dtype in FLOATS else SHAPES[4:10:2]:
            x = np.round(3 * numbers(rng, shape, dtype)).astype(dtype)
            if dtype in FLOATS:
                x[rng.random(shape) < 0.03] = np.nan
            for dim in range(len(shape)):
                order = kernels.reference(P.argsort)(x, dim=dim, descending=largest)
                for k in {1, min(4, shape[dim]), min(64, shape[dim]), shape[dim]} - {2000, 700}:
                    want = np.take(order, range(k), dim)
                    for given in layouts(x):
                        values, places = kernels.resolved(P.topk)(given, dim=dim, k=k, largest=largest)
                        assert places.dtype == np.int64 and values.dtype == dtype
                        np.testing.assert_array_equal(places, want)
                        np.testing.assert_array_equal(values, np.take_along_axis(x, want, dim))


@pytest.mark.parametrize("dtype", [*FLOATS, *NARROW, *WHOLE], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (0, 3), (3, 0), (300, 40), (2, 5000)], ids=str)
def test_orders(shape, dtype):
    x = np.round(np.random.default_rng(0).standard_normal(shape) * 5)
    if dtype in WHOLE and dtype.kind == "u":
        x = x.astype(np.int64)  # what negative floats become without a sign depends on the processor
    x = x.astype(dtype)
    if dtype in FLOATS:
        least = np.finfo(dtype).smallest_subnormal
        for k, special in enumerate((np.nan, -0.0, np.inf, -np.inf, least, -least, -np.nan)):
            x.reshape(-1)[k :: 7 + 2 * k] = special
    elif dtype in WHOLE and dtype.kind == "i":
        x.reshape(-1)[::7], x.reshape(-1)[1::9] = np.iinfo(dtype).min, np.iinfo(dtype).max
    for dim in range(len(shape)):
        for descending in (False, True):
            for given in (*layouts(x), np.sort(x, axis=dim)):
                got = kernels.resolved(P.argsort)(given, dim=dim, descending=descending)
                assert got.dtype == np.int64
                want = kernels.reference(P.argsort)(given, dim=dim, descending=descending)
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [*FLOATS, *NARROW, *WHOLE], ids=str)
@pytest.mark.parametrize(
    "shape", [(1,), (32,), (33,), (700,), (4, 33), (40, 3), (3, 70, 2), (2, 5000), (300, 300)], ids=str
)
def test_ranks(shape, dtype):
    """One place of each row: of equal elements as they stand in order, nan last."""
    rng = np.random.default_rng(1)
    for spread in (0, 3, 1e6 if dtype in FLOATS else 30):
        x = np.round(rng.standard_normal(shape) * spread)
        x = (x.astype(np.int64) if dtype in WHOLE else x).astype(dtype)  # negative floats are no unsigned numbers
        if dtype in FLOATS and spread:
            for special in (np.nan, -0.0, np.inf, -np.inf):
                x[rng.random(shape) < 0.1] = special
        for dim, n in enumerate(shape):
            order = kernels.reference(P.argsort)(x, dim=dim, descending=False)
            for given in layouts(x):
                for k in {0, n // 2, n - 1}:
                    np.testing.assert_array_equal(P.kth.kernel(given, dim=dim, k=k), np.take(order, [k], dim))
                for primitive in (P.kth, P.median, P.nanmedian, P.mode):
                    params = {"dim": dim, "k": n // 3} if primitive is P.kth else {"dim": dim}
                    got = primitive.kernel(given, **params)
                    assert got.dtype == np.int64
                    np.testing.assert_array_equal(got, kernels.reference(primitive)(given, **params))


def test_loops_are_written_for_other_processors():
    from lucid.codegen import loops, scans, selections
    from lucid.codegen.machine import Compiler

    compiler = Compiler("aarch64-unknown-linux-gnu", "generic", "")
    made = []
    for dtype in FLOATS:
        for name in ("recurrence", "logcumsumexp"):
            primitive = getattr(P, name)
            plan = scans.ScanPlan(primitive.fold, len(primitive.operands), dtype, dtype)
            made += [make(plan, f"{name}{dtype}{make.__name__}") for make in (scans.line, scans.rows, scans.columns)]
        made.append(selections.select(selections.SelectionPlan(dtype), f"select{dtype}"))
    assert compiler.object_code(loops.module(made))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [*SHAPES, (0, 3), (3, 0), (1, 1)])
def test_products_before_are_running_products_one_place_later(shape, dtype):
    x = numbers(np.random.default_rng(0), shape, dtype)
    for dim in range(len(shape)):
        for reverse in (False, True):
            for each in layouts(x):
                found = P.products_before.kernel(each, dim=dim, reverse=reverse)
                close(found, kernels.reference(P.products_before)(each, dim=dim, reverse=reverse), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_products_are_the_same_on_the_tape(dtype):
    x = lucid.from_numpy(numbers(np.random.default_rng(0), (30, 40), dtype)).requires_grad_()
    for dims in (0, 1, (0, 1), None):
        plain, recorded = [
            lucid.autograd.grad(lucid.prod(x, dims).sum(), x, create_graph=create) for create in (False, True)
        ]
        np.testing.assert_array_equal(plain.numpy(), recorded.detach().numpy())
