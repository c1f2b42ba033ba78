"""`lax.gather` and the scatters against loops over windows, printing in compiled functions, and distributions."""

from typing import Any

import numpy as np
import pytest

import lucid.jax as jax
import lucid.jax.numpy as jnp
from lucid.jax import lax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 3)).astype(np.float32)
GATHERS = {
    "rows": (lax.GatherDimensionNumbers((1, 2), (0,), (0, 1)), (1, 2, 3), np.array([[0, 1], [4, 2], [2, 0], [9, 1]])),
    "front": (lax.GatherDimensionNumbers((0, 2), (0,), (0,)), (1, 4, 2), np.array([[0], [4], [-1]])),
    "middle": (lax.GatherDimensionNumbers((2, 3), (1,), (1,)), (5, 1, 3), np.array([[[1], [2]], [[0], [3]]])),
    "swapped": (lax.GatherDimensionNumbers((1,), (0, 2), (2, 0)), (1, 3, 1), np.array([[2, 1], [0, 4]])),
}


def looped(numbers: Any, sizes: Any, starts: np.ndarray, mode: str) -> np.ndarray:
    """The definition: window by window."""
    batch = starts.shape[:-1]
    kept = [d for d in range(X.ndim) if d not in numbers.collapsed_slice_dims]
    rank = len(batch) + len(kept)
    windows = [d for d in range(rank) if d in numbers.offset_dims]
    batches = [d for d in range(rank) if d not in numbers.offset_dims]
    shape = [0] * rank
    for d, n in zip(batches, batch, strict=True):
        shape[d] = n
    for d, k in zip(windows, kept, strict=True):
        shape[d] = sizes[k]
    out = np.zeros(shape, np.float32)
    for place in np.ndindex(*batch):
        begin = [0] * X.ndim
        for k, d in enumerate(numbers.start_index_map):
            begin[d] = int(starts[place][k])
        last = [n - s for n, s in zip(X.shape, sizes, strict=True)]
        outside = any(not 0 <= b <= top for b, top in zip(begin, last, strict=True))
        begin = [min(max(b, 0), top) for b, top in zip(begin, last, strict=True)]
        window = X[tuple(slice(b, b + s) for b, s in zip(begin, sizes, strict=True))]
        window = window.squeeze(tuple(numbers.collapsed_slice_dims))
        where: list[Any] = [slice(None)] * rank
        for d, p in zip(batches, place, strict=True):
            where[d] = p
        out[tuple(where)] = np.nan if outside and mode == "fill" else window
    return out


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str, mode: str) -> None:
    numbers, sizes, starts = GATHERS[name]
    expected = looped(numbers, sizes, starts, mode)

    def f(x: Any) -> Any:
        return lax.gather(x, jnp.array(starts), numbers, sizes, mode=mode)

    np.testing.assert_array_equal(f(jnp.array(X)), expected)
    np.testing.assert_array_equal(jax.jit(f)(jnp.array(X)), expected)
    weights = RNG.normal(size=expected.shape).astype(np.float32)
    slope = jax.grad(lambda x: (jnp.where(jnp.isnan(f(x)), 0.0, f(x)) * weights).sum())(jnp.array(X))
    counted = np.zeros_like(X)
    for place in np.ndindex(*X.shape):  # the function is linear: its slope is its value at a unit
        unit = np.zeros_like(X)
        unit[place] = 1.0
        counted[place] = np.nansum(np.asarray(f(jnp.array(unit))) * weights)
    np.testing.assert_allclose(slope, counted, rtol=1e-5, atol=1e-6)


def test_gather_by_examples() -> None:
    numbers = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    places = np.array([1, 0, 2, 3, 1])
    found = lax.gather(jnp.array(X), jnp.array(places)[:, None], numbers, (1, 1, 3))
    np.testing.assert_array_equal(found, X[np.arange(5), places])


@pytest.mark.parametrize(
    ("function", "combine"),
    [
        (lax.scatter, lambda old, new: new),
        (lax.scatter_add, np.add),
        (lax.scatter_sub, np.subtract),
        (lax.scatter_mul, np.multiply),
        (lax.scatter_min, np.minimum),
        (lax.scatter_max, np.maximum),
    ],
)
@pytest.mark.parametrize("mode", [None, "clip"])
def test_scatter(function: Any, combine: Any, mode: Any) -> None:
    numbers = lax.ScatterDimensionNumbers((1, 2), (0,), (0, 1))
    starts = np.array([[0, 1], [4, 2], [2, 0], [9, 1]])
    updates = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    expected = X.copy()
    for (row, column), update in zip(starts, updates, strict=True):
        if row > 4 and mode is None:
            continue  # dropped
        place = min(row, 4), slice(column, column + 2)
        expected[place] = combine(expected[place], update)
    found = function(jnp.array(X), jnp.array(starts), jnp.array(updates), numbers, mode=mode)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert function.__name__ in ("scatter", *[f"scatter_{n}" for n in ("add", "sub", "mul", "min", "max")])


def test_printing_in_compiled_functions(capsys: pytest.CaptureFixture[str]) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.print("x = {}, twice {y}", x, y=2 * x)
        return x + 1

    seen: list[Any] = []

    @jax.jit
    def g(x: Any) -> Any:
        jax.debug.callback(lambda a, n: seen.append((a.tolist(), n)), x, 7)
        return x * 2

    for value in (1.0, 2.0, 3.0):
        assert float(f(jnp.array(value))) == value + 1
        assert float(g(jnp.array(value))) == 2 * value
    assert capsys.readouterr().out.splitlines() == [f"x = {v}, twice {2 * v}" for v in (1.0, 2.0, 3.0)]
    assert seen == [(1.0, 7), (2.0, 7), (3.0, 7)]


def test_other_functions() -> None:
    assert lax.unstack(jnp.arange(4).reshape(2, 2), 1)[1].tolist() == [1, 3]
    assert lax.broadcast_to_rank(jnp.ones(3), 3).shape == (1, 1, 3)
    assert lax.reduce_xor(jnp.array([5, 1, 7]), (0,)).tolist() == 5 ^ 1 ^ 7
    assert lax.shift_right_logical(jnp.array([-8, 8, 5, 5]), jnp.array([1, 1, 0, 40])).tolist() == [2147483644, 4, 5, 0]
    x = np.array([0.01, 0.5, 1.0, 20.0])
    np.testing.assert_allclose(jax.nn.log1mexp(jnp.array(x)), np.log(-np.expm1(-x)), rtol=1e-5)
    mask = X > 0
    expected = np.log(np.where(mask, np.exp(X), 0).sum(1) / mask.sum(1))
    np.testing.assert_allclose(jax.nn.logmeanexp(jnp.array(X), axis=1, where=mask), expected, rtol=1e-5)
    drawn = lax.rng_uniform(2.0, 3.0, (1000,))
    assert float(drawn.min()) >= 2 and float(drawn.max()) < 3


def test_distributions() -> None:
    key, size = jax.random.key(0), (40000,)
    wald = np.asarray(jax.random.wald(key, 2.0, size))
    assert wald.mean() == pytest.approx(2.0, rel=0.05) and wald.var() == pytest.approx(8.0, rel=0.2)
    assert np.asarray(jax.random.f(key, 5.0, 9.0, size)).mean() == pytest.approx(9 / 7, rel=0.05)
    normal = np.asarray(jax.random.generalized_normal(key, 2.0, size))
    assert normal.std() == pytest.approx(0.5**0.5, rel=0.03) and abs(normal.mean()) < 0.02
    sided = np.asarray(jax.random.double_sided_maxwell(key, 1.0, 2.0, size))
    assert sided.mean() == pytest.approx(1.0, abs=0.1) and sided.std() == pytest.approx(2 * 3**0.5, rel=0.03)
