"""Copies and primitives that move elements: by the kernels of the cpu backend as by those of the reference."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucid
import lucid.nn
from lucid.backends.cpu.launch import copies as launch_copies
from lucid.backends.cpu.launch.copies import write
from lucid.core import dtypes, kernels
from lucid.core.primitive import P

if "cpu" not in kernels.in_use:
    pytest.skip("the reference computes by itself", allow_module_level=True)

TYPES = ["bool", "int8", "float16", "int32", "float32", "int64", "float64", "complex64", "complex128"]
SHAPES: list[tuple[int, ...]] = [
    (),
    (0,),
    (1,),
    (7,),
    (3, 0, 2),
    (5, 1),
    (17, 33),
    (64, 64),
    (3, 170, 330),
    (2, 3, 4, 5, 6),
]


def _numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return rng.integers(0, 100, shape).astype(dtype)


def _layouts(shape: tuple[int, ...], dtype: Any) -> Iterator[tuple[str, Any]]:
    """Arrays of one shape that lie in memory in all sorts of ways."""
    plain = _numbers(shape, dtype)
    yield "in order", plain
    yield "by columns", plain.copy(order="F")
    if not shape:
        return
    yield "backwards", plain[(slice(None, None, -1),) * len(shape)]
    yield "every second", _numbers(tuple(2 * n for n in shape), dtype)[(slice(None, None, 2),) * len(shape)]
    yield "rolled dims", np.moveaxis(_numbers((shape[-1], *shape[:-1]), dtype), 0, -1)
    yield "one row", np.broadcast_to(_numbers(shape[-1:], dtype), shape)
    yield "one column", np.broadcast_to(_numbers((*shape[:-1], 1), dtype), shape)
    bytes_ = np.zeros(plain.nbytes + 1, np.uint8)
    yield "unaligned", np.ndarray(shape, plain.dtype, bytes_, 1)


def _same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


CALLS: dict[str, Any] = {
    "clone": lambda shape: {},
    "flip": lambda shape: {"dims": tuple(range(0, len(shape), 2))},
    "tril": lambda shape: {"diagonal": 1} if len(shape) > 1 else None,
    "triu": lambda shape: {"diagonal": -2} if len(shape) > 1 else None,
    "roll": lambda shape: (
        {"shifts": (3, -1, 5)[: len(shape)], "dims": tuple(range(min(3, len(shape))))} if shape else None
    ),
    "reshape": lambda shape: {"shape": (-1,)} if 0 not in shape else None,
    "slice_back": lambda shape: {
        "index": tuple(slice(1, n + 1) for n in shape),
        "shape": tuple(n + 2 for n in shape),
    },
    "pad": lambda shape: {
        "index": tuple(slice(d, n + d) for d, n in enumerate(shape)),
        "shape": tuple(n + 2 * d for d, n in enumerate(shape)),
        "value": 1,
    },
    "diagonal_back": lambda shape: {
        "shape": (*shape[:-1], shape[-1], shape[-1] + 2), "offset": 1, "dim1": len(shape) - 1, "dim2": len(shape)
    } if shape and shape[-1] < 100 else None,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_like_reference(name: str) -> None:
    primitive = getattr(P, name)
    kernel, reference = kernels.resolved(primitive), kernels.reference(primitive)
    for shape in SHAPES:
        params = CALLS[name](shape)
        if params is None:
            continue
        for dtype in TYPES:
            for _, x in _layouts(shape, dtype):
                before = x.tobytes()
                found = kernel(x, **params)
                _same(found, reference(x, **params))
                assert name == "reshape" or not np.may_share_memory(found, x)
                assert x.tobytes() == before


@pytest.mark.parametrize("dtype", TYPES)
def test_write(dtype: str) -> None:
    for shape in SHAPES:
        for _, x in _layouts(shape, dtype):
            for _, target in _layouts(shape, dtype):
                if target.flags.writeable:
                    launch_copies.write(target, x)
                    _same(target, x)
            for order in "CK":
                found = launch_copies.copied(x, None, order)
                _same(found, x)
                assert found.strides == np.array(x, order=order).strides or 0 in shape or 1 in shape


def test_write_broadcasts_and_converts() -> None:
    target = np.zeros((3, 4), np.float32)
    launch_copies.write(target, np.arange(4, dtype=np.float32))
    assert (target == np.arange(4)).all()
    launch_copies.write(target, np.arange(3, dtype=np.int8).reshape(3, 1))
    assert (target == np.arange(3).reshape(3, 1)).all()
    launch_copies.write(target, 5)
    assert (target == 5).all()
    with pytest.raises(ValueError, match="broadcast"):
        launch_copies.write(target, np.zeros(3, np.float32))
    target.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        launch_copies.write(target, np.zeros(4, np.float32))


@pytest.mark.parametrize("size", [50, 300])
def test_overlapping_memory(size: int) -> None:
    for index, from_ in (
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:], np.s_[::-1]),
        (np.s_[:, 2:], np.s_[:, :-2]),
    ):
        x = _numbers((size, size), np.float32)
        expected = x.copy()
        expected[index] = x[from_].copy()
        launch_copies.write(x[index], x[from_])
        _same(x, expected)
    x = _numbers((size, size), np.float32)
    expected = x.T.copy()
    launch_copies.write(x, x.T)
    _same(x, expected)


def test_cat() -> None:
    reference = kernels.reference(P.cat)
    for shape in SHAPES[1:]:
        for dim in range(len(shape)):
            for dtype in ("int8", "float32", "complex128"):
                first = [x for _, x in _layouts(shape, dtype)]
                longer = (*shape[:dim], shape[dim] + 3, *shape[dim + 1 :])
                second = [x for _, x in _layouts(longer, dtype)]
                for x, y in zip(first, second, strict=True):
                    for xs in ((x,), (x, y), (y, x, x), (first[0], y), (first[1], y)):
                        found, expected = P.cat.kernel(*xs, dim=dim), reference(*xs, dim=dim)
                        _same(found, expected)
                        assert found.strides == expected.strides
    x, y = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
    _same(P.cat.kernel(x, y, dim=1), reference(x, y, dim=1))
    with pytest.raises(ValueError, match="dimensions"):
        P.cat.kernel(x, x[:1], dim=1)


def test_stack() -> None:
    reference = kernels.reference(P.stack)
    for shape in SHAPES:
        for dim in range(len(shape) + 1):
            for dtype in ("int8", "float32", "complex128"):
                plain = _numbers(shape, dtype)
                for _, x in _layouts(shape, dtype):
                    for xs in ((x,), (x, plain), (plain, x, x)):
                        _same(P.stack.kernel(*xs, dim=dim), reference(*xs, dim=dim))
    x, y = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
    _same(P.stack.kernel(x, y, dim=1), reference(x, y, dim=1))
    large = [_numbers((300, 500), "float32") + k for k in range(3)]
    for dim in range(3):
        _same(P.stack.kernel(*large, dim=dim), np.stack(large, dim))


def test_slice_back_of_any_index() -> None:
    reference = kernels.reference(P.slice_back)
    shape = (40, 50, 60)
    for index in (
        (3,),
        (-1, ..., 5),
        (slice(None), None, slice(4, 30)),
        (slice(None, None, -1), slice(20, 3, -1), slice(7, 8)),
        (slice(2, None, 3), slice(0, 50, 49)),
        (..., slice(10, 5)),
        (slice(5, 30, 40), -50, slice(None, -1)),
        (),
        (1, 2, 3),
    ):
        x = _numbers(np.zeros(shape)[index].shape, np.float64)
        _same(P.slice_back.kernel(x, index, shape), reference(x, index, shape))


def test_random_copies() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        dims = int(rng.integers(1, 6))
        whole = tuple(int(n) for n in rng.integers(1, 12 if dims > 2 else 200, dims))
        x = rng.integers(0, 255, whole).astype(rng.choice(["uint8", "int16", "float32", "float64", "complex128"]))
        steps = [int(s) for s in rng.choice([-3, -2, -1, 1, 1, 2, 5], dims)]
        view = x[tuple([slice(None, None, s) for s in steps])].transpose(rng.permutation(dims))
        _same(launch_copies.copied(view), np.array(view))
        target = np.empty_like(x)[tuple([slice(None, None, s) for s in steps])]
        target = np.empty(target.shape[::-1], x.dtype).T
        source = x[tuple([slice(None, None, s) for s in steps])]
        launch_copies.write(target, source)
        _same(target, source)


def test_large_ones_in_threads() -> None:
    """More than one block, in threads where there are some, bit by bit as in one."""
    x = np.random.default_rng(0).integers(0, 1 << 60, (701, 1303))
    threads = lucid.get_num_threads()
    results = []
    for count in (1, threads):
        lucid.set_num_threads(count)
        results.append(
            [
                P.clone.kernel(x.T),
                P.clone.kernel(x[::-1, ::2]),
                P.cat.kernel(x, x[:5], x.T.copy().T, dim=0),
                P.cat.kernel(x, x[:, 100:200], dim=1),
                P.flip.kernel(x, (0, 1)),
                P.roll.kernel(x, (300, -7), (0, 1)),
                P.tril.kernel(x, 3),
                P.triu.kernel(x.T, -30),
                P.slice_back.kernel(x, (slice(1, 702), slice(2, 1305)), (703, 1306)),
                P.slice_back.kernel(x, (slice(0, 1402, 2),), (1402, 1303)),
                P.pad.kernel(x, (slice(1, 702), slice(2, 1305)), (703, 1306), 7),
                kernels.table["zeros"]((701, 1303), x.dtype),
                kernels.table["full"]((701, 1303), 7, x.dtype),
            ]
        )
    lucid.set_num_threads(threads)
    for one, many in zip(*results, strict=True):
        _same(one, many)
    expected = [
        x.T, x[::-1, ::2], np.concatenate([x, x[:5], x]), np.concatenate([x, x[:, 100:200]], 1), np.flip(x),
        np.roll(x, (300, -7), (0, 1)), np.tril(x, 3), np.triu(x.T, -30),
    ]  # fmt: skip
    for found, wanted in zip(results[0], expected, strict=False):
        _same(found, wanted)
    assert not results[0][-2].any() and (results[0][-1] == 7).all()


def test_numbers_of_numpy() -> None:
    """Kernels may give one for an array without dimensions."""
    number = np.float64(3)
    assert P.reshape.kernel(number, (1, 1)).tolist() == [[3]]
    assert P.clone.kernel(number) == 3
    assert P.slice_back.kernel(number, (2,), (4,)).tolist() == [0, 0, 3, 0]
    assert P.slice_back.kernel(number, (2,), (100_000,))[2] == 3


def test_other_types() -> None:
    x = _numbers((30, 40), np.float32).astype(dtypes.bfloat16.numpy)
    for call in (lambda a: P.clone.kernel(a.T), lambda a: P.cat.kernel(a, a, dim=1), lambda a: P.tril.kernel(a, 0)):
        found = call(x)
        assert found.dtype == x.dtype
        _same(found.view(np.uint16), call(x.view(np.uint16)))


@pytest.mark.parametrize("dtype", [None, lucid.int64, lucid.int32, lucid.float32, lucid.float64, lucid.uint8])
@pytest.mark.parametrize(("start", "step"), [(0, 1), (-7, 3), (5, -2), (0.5, 0.1), (3, 0.3)])
def test_arange(dtype: Any, start: Any, step: Any) -> None:
    for count in (0, 1, 100, 5000, 300_000):
        if dtype in (lucid.int64, lucid.int32, lucid.uint8) and isinstance(step, float):
            continue
        if dtype == lucid.uint8 and (count > 50 or start or step != 1):
            continue
        end = start + count * step
        found = lucid.arange(start, end, step, dtype=dtype)
        expected = (start + step * np.arange(found.shape[0])).astype(found.np_dtype)
        _same(found.numpy(), expected)
        assert abs(found.shape[0] - count) <= 1


def test_gradients_have_memory_of_their_own() -> None:
    x, y = (lucid.ones(400, 500, requires_grad=True) for _ in range(2))
    ct = lucid.full((400, 500), 2.0)
    for call in (lambda: x + y, lambda: x - y, lambda: lucid.cat([x[:200], y[200:]])):
        a, b = lucid.autograd.grad(call(), (x, y), ct)
        before = b.clone()
        a += 1
        assert (b == before).all() and (ct == 2).all()
        ct += 1
        assert (b == before).all()
        ct -= 1


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_rows_joined_in_threads(dtype: str) -> None:
    for rows, widths in [(700, (300, 500)), (5000, (1, 7, 0, 120)), (3, (40_000, 90_000)), (900, (3,) * 200)]:
        parts = [_numbers((rows, n), dtype) for n in widths]
        for threads in (1, 2, 5):
            before = lucid.get_num_threads()
            lucid.set_num_threads(threads)
            try:
                _same(launch_copies.joined(*parts, dim=1), np.concatenate(parts, 1))
            finally:
                lucid.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("count", [2, 8, 9, 40])
def test_the_same_memory_to_several_places(count: int, dtype: str) -> None:
    for shape in [(20_011,), (300, 67), (5,), (3, 1)]:
        x = np.broadcast_to(_numbers(shape, dtype), (count, *shape))
        _same(launch_copies.copied(x), np.array(x))
        target = np.zeros((count, *shape[:-1], shape[-1] + 3), dtype)
        launch_copies.write(target[..., 1:-2], x)
        _same(target[..., 1:-2].copy(), np.array(x))
        assert not target[..., 0].any() and not target[..., -2:].any()


def test_large_results_begin_with_a_line_of_the_cache() -> None:
    if not lucid.native.in_use:
        pytest.skip("NumPy allocates")
    x = lucid.ones(400, 401)
    moved = [lucid.flip(x, (1,)), lucid.roll(x, 3, 1), lucid.nn.functional.pad(x, (1, 1)), lucid.cumsum(x, 1)]
    moved += [lucid.cat([x, x]), x.repeat(2, 1), lucid.flip(x.t(), (0,)), lucid.arange(40000)]
    for made in (x, x + 1, x.clone(), x.sum(0) + x, lucid.zeros(400, 401), *moved):
        array = made._array if made._array.base is None else made._array.base
        assert array.ctypes.data % 64 == 0 and array.flags.owndata
    kept = [
        (x + 1)._array for _ in range(50)
    ]  # other memory is NumPy's as before, and all of it is freed as it was made
    kept += [np.ones(100_000) for _ in range(50)]
    for array in kept:
        array.resize(3, refcheck=False)
        assert array[0] == array.flat[2]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int64"])
def test_operands_that_lie_across_each_other(dtype: str) -> None:
    for shape, order in [
        ((301, 402), (1, 0)),
        ((20, 90, 70), (2, 1, 0)),
        ((20, 90, 70), (1, 2, 0)),
        ((9, 9000), (1, 0)),
    ]:
        x, y = _numbers(shape, dtype), _numbers(tuple(shape[d] for d in order), dtype)
        y = np.ascontiguousarray(y).transpose(np.argsort(order))
        for a, b in [(x, y), (y, x), (y[::-1], x), (x, y[..., ::-1]), (y, x[:1]), (x, y[..., :1])]:
            found = lucid.from_numpy(a) * lucid.from_numpy(b)
            plain = lucid.from_numpy(np.array(a, order="C")) * lucid.from_numpy(np.array(b, order="C"))
            _same(found.numpy().copy("C"), plain.numpy())
            expected = (a * b) if dtype != "float16" else (a.astype("f4") * b.astype("f4")).astype("f2")
            _same(found.numpy().copy("C"), np.array(expected, order="C"))
            first = lucid.from_numpy(a) + 1
            assert found.stride() == first.stride() or a.shape != found.shape


@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (1, 1), (300,), ()])
def test_what_is_taken_off_may_be_broadcast(shape: tuple[int, ...]) -> None:
    x, y = lucid.randn(300, 300, dtype=lucid.float64), lucid.randn(*shape, dtype=lucid.float64)
    ct = lucid.randn(300, 300, dtype=lucid.float64)
    y.requires_grad_()
    found = lucid.autograd.grad(x - y, y, ct)
    summed = (
        -ct.numpy().sum(tuple(d for d in (0, 1) if d - 2 + y.ndim < 0 or shape[d - 2 + y.ndim] == 1)).reshape(shape)
    )
    np.testing.assert_allclose(found.numpy(), summed, 1e-10, 1e-12)
    (recorded,) = lucid.autograd.grad(x - y, [y], ct, create_graph=True)
    np.testing.assert_allclose(recorded.detach().numpy(), summed, 1e-10, 1e-12)


@pytest.mark.parametrize("kind", [lucid.float64, lucid.bool, lucid.uint8, lucid.bfloat16, lucid.complex64], ids=str)
@pytest.mark.parametrize("make", [lucid.zeros_like, lucid.ones_like, lucid.empty_like])
def test_tensors_like_others_lie_in_memory_as_these_do(make: Any, kind: Any) -> None:
    x = lucid.zeros(3, 4, 5)
    for like, strides in (
        (x, (20, 5, 1)),
        (x.permute(2, 0, 1), (1, 20, 5)),
        (x.mT, (20, 1, 5)),
        (x[:, ::2], (10, 5, 1)),
        (x.flip(0).permute(1, 2, 0), (5, 1, 20)),
        (x[:1].expand(3, 4, 5), (20, 5, 1)),
    ):
        made = make(like, dtype=kind)
        assert made.shape == like.shape and made.stride() == strides and made.dtype == kind
        if make is not lucid.empty_like:
            assert bool((made == (make is lucid.ones_like)).all())


def test_rows_of_any_length_and_number_are_broadcast() -> None:
    for shape, other in (
        ((5, 16), (16,)),
        ((130, 17), (17,)),
        ((3, 7, 100), (7, 1)),
        ((3, 7, 100), (3, 1, 100)),
        ((9, 3), (3,)),
    ):
        for dtype in ("float32", "float64", "int32"):
            x, y = (np.arange(np.prod(s)).reshape(s).astype(dtype) for s in (shape, other))
            for a, b in (
                (x, y),
                (x[::-1], y),
                (np.asfortranarray(x), y),
                (x[..., ::2], y[..., ::2] if y.shape[-1] > 1 else y),
            ):
                np.testing.assert_array_equal((lucid.from_numpy(a) * lucid.from_numpy(b)).numpy(), a * b)
                np.testing.assert_array_equal((lucid.from_numpy(b) - lucid.from_numpy(a)).numpy(), b - a)


def test_what_lies_in_order_is_not_copied():
    x = _numbers((40, 50), np.float32)
    assert launch_copies.contiguous(x) is x
    for name, each in _layouts((40, 50), np.float32):
        found = launch_copies.contiguous(each)
        assert found.flags.c_contiguous, name
        np.testing.assert_array_equal(found, each, strict=True)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_squares_of_any_size_are_transposed(dtype: str) -> None:
    """Whole squares fill lines of the cache; what is left of rows and columns is copied one by one."""
    side = 64 // np.dtype(dtype).itemsize
    for rows in (side - 1, side, 2 * side + 1, 5 * side):
        for count in (side - 1, side, 3 * side, 4 * side + 3):
            x = np.random.default_rng(rows).integers(-100, 100, (rows + 1, count + 1)).astype(dtype)
            for view in (x[1:, 1:], x[:-1, :-1], x[::-1][1:, 1:]):
                out = np.zeros(view.shape[::-1], dtype)
                write(out, view.T)
                np.testing.assert_array_equal(out, view.T)


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (2, 3, 4), (0, 3), (600, 500)], ids=str)
def test_triangles_in_place(name, shape):
    """The other elements become 0 where they stand, in any layout, and the gradient knows it."""
    x = np.random.default_rng(3).standard_normal(shape)
    for diagonal in (-9, -1, 0, 2, 9):
        want = getattr(np, name)(x, diagonal)
        wide = lucid.zeros(*[2 * n for n in shape], dtype=lucid.float64)
        by_columns = lucid.tensor(x).transpose(-1, -2).contiguous().transpose(-1, -2)
        for target in (lucid.tensor(x), by_columns, wide[tuple([slice(None, None, 2)] * len(shape))]):
            target.copy_(lucid.tensor(x))
            memory = target.data_ptr()
            assert getattr(target, f"{name}_")(diagonal) is target and target.data_ptr() == memory
            np.testing.assert_array_equal(target.numpy(), want)
        out = lucid.zeros(*shape, dtype=lucid.float64)
        getattr(lucid, name)(lucid.tensor(x), diagonal, out=out)
        np.testing.assert_array_equal(out.numpy(), want)
        leaf = lucid.tensor(x, requires_grad=True)
        getattr(leaf * 1, f"{name}_")(diagonal).sum().backward()
        np.testing.assert_array_equal(leaf.grad.numpy(), getattr(np, name)(np.ones(shape), diagonal))


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize(
    "shape", [(3000, 5), (5, 3000), (3, 400, 4), (70, 5, 6), (2, 60, 7, 3), (80, 65, 3), (3, 0, 2)], ids=str
)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_triangles(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Rows that the diagonal does not cross are moved together, and so are small matrices; nan becomes 0 as well."""
    primitive, x = getattr(P, name), _numbers(shape, np.dtype(dtype))
    if x.dtype.kind in "fc" and x.size:
        x[..., ::2, :] = np.nan
    for diagonal in (-2999, -7, -1, 0, 1, 4, 2999):
        for laid_out in (x, np.asfortranarray(x), x[..., ::-1, :][..., ::-1, :]):
            _same(primitive.kernel(laid_out, diagonal=diagonal), getattr(np, name)(x, diagonal))


def test_sizes_of_a_class_of_their_own() -> None:
    import lucid.torch as torch

    for n in (4, 400):
        shape = torch.Size((n, n))
        x = np.ones((n - 2, n))
        assert P.slice_back.kernel(x, (slice(1, -1),), shape).sum() == x.size
        assert P.pad.kernel(x, (slice(1, -1), slice(None)), shape, 0.5).sum() == x.size + n
