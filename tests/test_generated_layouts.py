"""Loops over elements give the bits of each element alone, however short the rows are and wherever they lie."""

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.generated import support
from lucid.nn import functional as F

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")

TYPES = ("float32", "float64", "float16", "complex128", "int64", "int8", "bool")
WIDTHS = (1, 2, 3, 5, 8, 10, 15, 16, 17, 28, 33, 63, 64, 65)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype[0] == "i":
        return rng.integers(-9, 9, shape).astype(dtype)
    if dtype[0] == "c":
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return rng.standard_normal(shape).astype(dtype)


def laid_out(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The same numbers, somewhere else in memory."""
    way = rng.integers(6)
    if way == 0:  # with gaps behind rows
        wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
        wide[..., 1:-2] = x
        return wide[..., 1:-2]
    if way == 1:  # with gaps between elements
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if way == 2:  # in another order of dimensions
        order = rng.permutation(x.ndim)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if way == 3:  # backwards
        back = (slice(None, None, -1),) * x.ndim
        return np.ascontiguousarray(x[back])[back]
    return x if way == 4 else np.repeat(x, 2, axis=0)[::2]


def shapes(rng: np.random.Generator, width: int) -> list[tuple[int, ...]]:
    """A shape with rows of this width, and one that is broadcast to it."""
    full = [(int(rng.integers(1, 200)), width), (int(rng.integers(1, 9)), int(rng.integers(1, 40)), width)][
        rng.integers(2)
    ]
    part = tuple(1 if rng.random() < 0.4 else n for n in full)
    return [full, part[rng.integers(len(part)) :] if rng.random() < 0.3 else part]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_two_operands_in_any_layout(width: int, dtype: str) -> None:
    rng = np.random.default_rng(width)
    for _ in range(12):
        x, y = (numbers(rng, s, dtype) for s in shapes(rng, width))
        given = [lucid.from_numpy(laid_out(rng, a)) for a in (x, y)]
        flat = [lucid.from_numpy(np.broadcast_to(a, x.shape).reshape(-1).copy()) for a in (x, y)]
        for f in (lambda a, b: a + b, lambda a, b: b * a, lambda a, b: lucid.where(a == b, a, b)):
            found = f(*given)
            assert found.numpy().tobytes() == f(*flat).numpy().tobytes()
            assert found.shape == x.shape


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_one_operand_in_any_layout(width: int, dtype: str) -> None:
    rng = np.random.default_rng(width)
    for _ in range(8):
        x = numbers(rng, shapes(rng, width)[0], dtype)
        for f in (lucid.exp, lucid.isfinite, F.gelu):
            wanted = f(lucid.from_numpy(x.reshape(-1))).numpy()
            assert f(lucid.from_numpy(laid_out(rng, x))).numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_results_in_memory_that_exists(width: int, dtype: str) -> None:
    """Of any layout, also where it is an operand; what lies between its elements stays."""
    rng = np.random.default_rng(width)
    for _ in range(8):
        x, y = (numbers(rng, s, dtype) for s in shapes(rng, width))
        wanted = x * y + y
        around = np.full((*x.shape[:-1], width + 3), 7, dtype)
        around[..., 1:-2] = x
        for target, base in ((lucid.from_numpy(around)[..., 1:-2], around), (lucid.from_numpy(x.copy()), None)):
            other = lucid.from_numpy(laid_out(rng, y))
            target.mul_(other).add_(other)
            np.testing.assert_array_equal(target.numpy(), wanted)
            if base is not None:
                assert (base[..., 0] == 7).all() and (base[..., -2:] == 7).all()
        out = lucid.from_numpy(np.zeros((*x.shape[:-1], 2 * width), dtype))[..., ::2]
        lucid.sub(lucid.from_numpy(laid_out(rng, x)), lucid.from_numpy(laid_out(rng, y)), out=out)
        np.testing.assert_array_equal(out.numpy(), x - y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_many_short_rows_on_all_threads(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for width in (2, 3, 10, 17, 40):
        x, row, column = (numbers(rng, s, dtype) for s in ((30000, width), (width,), (30000, 1)))
        shifted = np.zeros((30000, width + 1), dtype)
        shifted[:, 1:] = x
        tensors = [lucid.from_numpy(a) for a in (x, row, column, shifted)]
        np.testing.assert_array_equal((tensors[0] + tensors[1]).numpy(), x + row)
        np.testing.assert_array_equal((tensors[0] + tensors[2]).numpy(), x + column)
        np.testing.assert_array_equal((tensors[3][:, 1:] + tensors[1]).numpy(), x + row)
        np.testing.assert_array_equal(tensors[3][:, 1:].clone().numpy(), x)
        np.testing.assert_array_equal(lucid.cat([tensors[0], tensors[3]], 1).numpy(), np.concatenate([x, shifted], 1))
        np.testing.assert_array_equal(tensors[0].roll(1, 1).numpy(), np.roll(x, 1, 1))
        np.testing.assert_array_equal(tensors[2].expand(-1, width).clone().numpy(), np.repeat(column, width, 1))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "complex128"])
def test_rows_in_place_are_written_once(dtype: str) -> None:
    """The end of a row is no whole vector: elements that were written are not read again, nor those around a part."""
    rng = np.random.default_rng(2)
    for height, width in ((1, 40_001), (3, 17), (500, 333), (2000, 70), (300, 1001)):
        x, row, column = (numbers(rng, s, dtype) for s in ((height, width), (width,), (height, 1)))
        for other in (row, column, x[::-1].copy()):
            base = np.zeros((height, width + 5), dtype)
            for target in (x.copy(), base[:, 2:-3], x.T.copy().T):
                target[...] = x
                lucid.from_numpy(target).add_(lucid.from_numpy(other))
                np.testing.assert_array_equal(target, x + other)
            assert not base[:, :2].any() and not base[:, -3:].any()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_runs_of_every_length(dtype: str) -> None:
    """What is copied, and what lies around it."""
    rng = np.random.default_rng(1)
    for width in (*range(1, 70), 127, 128, 129, 255, 256, 257, 511, 512, 513, 700):
        x = numbers(rng, (3, width + 2), dtype)
        out = np.zeros_like(x)
        lucid.from_numpy(out)[:, 1:-1].copy_(lucid.from_numpy(x)[:, 1:-1])
        np.testing.assert_array_equal(out[:, 1:-1], x[:, 1:-1])
        assert not out[:, 0].any() and not out[:, -1].any()
        rows = lucid.from_numpy(x)[lucid.tensor([2, 0, 2])]
        np.testing.assert_array_equal(rows.numpy(), x[[2, 0, 2]])
        out[...] = 0
        lucid.from_numpy(out)[:, 1:-1].copy_(lucid.from_numpy(x)[:, :1])
        np.testing.assert_array_equal(out[:, 1:-1], np.repeat(x[:, :1], width, 1))
        assert not out[:, 0].any() and not out[:, -1].any()
