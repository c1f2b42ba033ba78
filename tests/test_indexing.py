"""Reading and writing by position, gather and scatter, sorting and searching: values, gradients, in-place forms."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lucid
from lucid import Tensor, func
from lucid.api import counting, indexing, scatter, sorting
from lucid.arguments.dims import broadcast_shapes
from lucid.core.levels import new_level
from lucid.core.primitive import lift
from lucid.kinds.batched import Batched
from lucid.kinds.dual import Dual

NAN, INF = float("nan"), float("inf")
rng = np.random.default_rng(0)


def t(data: Any, dtype: Any = None) -> Tensor:
    return lucid.tensor(data, dtype=dtype)


def f64(data: Any) -> Tensor:
    return lucid.tensor(np.asarray(data, np.float64))


def same(out: Tensor, expected: Any, dtype: Any = None) -> None:
    expected = np.asarray(expected)
    assert out.shape == expected.shape
    np.testing.assert_allclose(np.asarray(out.detach()), expected, rtol=1e-6)
    if dtype is not None:
        assert out.dtype is dtype


def contract(f: Callable[..., Tensor], weights: Any, arrays: list[Any]) -> float:
    return float((f(*[f64(a) for a in arrays]) * f64(weights)).sum())


def check_derivatives(f: Callable[..., Tensor], *arrays: Any) -> None:
    """Reverse mode against finite differences, forward mode against reverse, a batch against a loop."""
    random = np.random.default_rng(1)
    arrays = tuple(np.asarray(a, np.float64) for a in arrays)
    inputs = [f64(a).requires_grad_() for a in arrays]
    out = f(*inputs)
    weights = random.standard_normal(out.shape)
    grads = lucid.autograd.grad(out, inputs, f64(weights), create_graph=True)
    eps = 1e-6
    for k, (array, gradient) in enumerate(zip(arrays, grads, strict=True)):
        for place in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[place] = eps
            up, down = ([a + s * step if i == k else a for i, a in enumerate(arrays)] for s in (1, -1))
            slope = (contract(f, weights, up) - contract(f, weights, down)) / (2 * eps)
            assert abs(slope - np.asarray(gradient)[place]) < 1e-6
    tangents = [random.standard_normal(a.shape) for a in arrays]
    pushed = push(f, arrays, tangents)
    expected = sum(float((np.asarray(g) * s).sum()) for g, s in zip(grads, tangents, strict=True))
    assert abs((np.asarray(pushed) * weights).sum() - expected) < 1e-9
    check_batched(f, *arrays)


def push(f: Callable[..., Tensor], arrays: Any, tangents: Any) -> Tensor:
    level = new_level()
    out = f(*[Dual.make(f64(a), f64(s), level) for a, s in zip(arrays, tangents, strict=True)])
    assert isinstance(out, Dual)
    tangent = out._aux
    return f64(np.zeros(out.shape)) if tangent is None else tangent


def check_batched(f: Callable[..., Tensor], *arrays: Any) -> None:
    """Every choice of batched operands gives what a loop gives, and so do the gradients."""
    random = np.random.default_rng(2)
    for choice in range(1, 2 ** len(arrays)):
        stacks = [np.stack([a, a[::-1], random.permuted(a)] if a.ndim else [a, a / 2, a / 4]) for a in arrays]
        level = new_level()
        chosen = [bool(choice >> k & 1) for k in range(len(arrays))]
        leaves = [lift(s if c else a).requires_grad_() for s, a, c in zip(stacks, arrays, chosen, strict=True)]
        out = f(*[Batched.make(x, level) if c else x for x, c in zip(leaves, chosen, strict=True)])
        assert isinstance(out, Batched)
        rows = []
        for i in range(3):
            rows.append(f(*[x[i] if c else x for x, c in zip(leaves, chosen, strict=True)]))
        np.testing.assert_allclose(np.asarray(out._array.detach()), np.stack([np.asarray(r.detach()) for r in rows]))
        weights = f64(random.standard_normal(out._array.shape))
        got = lucid.autograd.grad(out._array, leaves, weights)
        expected = lucid.autograd.grad(rows, leaves, [weights[i] for i in range(3)])
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), atol=1e-12)


INDEX = np.array([[0, 2, 0], [1, 1, 0]])
X = rng.standard_normal((3, 4))
SRC = rng.standard_normal((2, 3))
ROWS = np.array([2, 0, 2])
MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]])
V4 = np.array([0.3, -1.2, 2.0, 0.7])

DERIVATIVES: dict[str, tuple[Callable[..., Tensor], list[Any]]] = {
    "gather": (lambda x: scatter.gather(x, 0, INDEX), [X]),
    "gather dim 1": (lambda x: scatter.gather(x, 1, np.array([[3, 3], [0, 1], [2, 2]])), [X]),
    "take_along_dim": (lambda x: indexing.take_along_dim(x, np.array([[1, -1, 0, 0]]), 0), [X]),
    "take_along_dim broadcast": (lambda x: indexing.take_along_dim(x, np.array([[1], [0], [3]]), 1), [X]),
    "scatter": (lambda x, s: scatter.scatter(x, 0, INDEX, s), [X, SRC]),
    "scatter value": (lambda x: scatter.scatter(x, 1, INDEX, 2.0), [X]),
    "scatter add": (lambda x, s: scatter.scatter(x, 0, INDEX, s, reduce="add"), [X, SRC]),
    "scatter multiply": (lambda x, s: scatter.scatter(x, 0, INDEX, s, reduce="multiply"), [X, SRC]),
    "scatter_add": (lambda x, s: scatter.scatter_add(x, 1, INDEX, s), [X, SRC]),
    "scatter part of src": (lambda x, s: scatter.scatter_add(x, 0, INDEX[:, :2], s), [X, SRC]),
    "index_select": (lambda x: scatter.index_select(x, 1, ROWS), [X]),
    "index_add": (lambda x, s: scatter.index_add(x, 1, ROWS, s, alpha=3), [X, rng.standard_normal((3, 3))]),
    "index_copy": (lambda x, s: scatter.index_copy(x, 1, ROWS, s), [X, rng.standard_normal((3, 3))]),
    "index_fill": (lambda x, v: scatter.index_fill(x, 1, ROWS - 4, v), [X, np.array(2.0)]),
    "index_put": (lambda x, v: scatter.index_put(x, (ROWS, np.array([1, 3, 1])), v), [X, V4[:3]]),
    "index_put mask": (lambda x, v: scatter.index_put(x, (MASK,), v), [X, rng.standard_normal(6)]),
    "index_put rows": (lambda x, v: scatter.index_put(x, (ROWS,), v), [X, V4]),
    "index_put accumulate": (
        lambda x, v: scatter.index_put(x, (ROWS, np.array([1, 3, 1])), v, accumulate=True),
        [X, V4[:3]],
    ),
    "take": (lambda x: scatter.take(x, np.array([[0, -1], [5, 5]])), [X]),
    "masked_select": (lambda x: scatter.masked_select(x, MASK), [X]),
    "masked_fill": (lambda x, v: scatter.masked_fill(x, MASK, v), [X, np.array(0.5)]),
    "masked_scatter": (lambda x, s: scatter.masked_scatter(x, MASK, s), [X, rng.standard_normal((2, 4))]),
    "getitem mixed": (lambda x: x[:, [0, -1, 0]], [X]),
    "getitem pair": (lambda x: x[[0, 2, 0], [1, 1, 1]], [X]),
    "sort": (lambda x: sorting.sort(x, 0, descending=True).values, [X]),
    "topk": (lambda x: sorting.topk(x, 2).values, [X]),
    "topk smallest": (lambda x: sorting.topk(x, 1, 1, largest=False).values, [X]),
    "kthvalue": (lambda x: sorting.kthvalue(x, 2, 0).values, [X]),
    "median": (lambda x: sorting.median(x), [X]),
    "median dim": (lambda x: sorting.median(x, 1).values, [X]),
    "nanmedian": (lambda x: sorting.nanmedian(x, 1).values, [X]),
    "quantile": (lambda x, q: sorting.quantile(x, q, 1), [X, np.array([0.2, 0.55])]),
    "quantile all": (lambda x: sorting.quantile(x, 0.4), [X]),
    "quantile midpoint": (lambda x: sorting.quantile(x, 0.4, 0, interpolation="midpoint"), [X]),
    "nanquantile": (lambda x, q: sorting.nanquantile(x, q, 0, keepdim=True), [X, np.array(0.3)]),
    "msort": (lambda x: sorting.msort(x), [X]),
    "argsort": (lambda x: scatter.gather(x, 1, sorting.argsort(x, 1)), [X]),
} | {
    f"scatter_reduce {reduce} {include_self}": (
        lambda x, s, reduce=reduce, include_self=include_self: scatter.scatter_reduce(
            x, 0, INDEX, s, reduce, include_self=include_self
        ),
        [X, SRC],
    )
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    f, arrays = DERIVATIVES[name]
    check_derivatives(f, *arrays)


@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_prod_is_exact_with_zeros(include_self: bool) -> None:
    x = np.array([0.0, 2.0, 3.0, 0.0])
    src = np.array([5.0, 0.0, 4.0, 0.0, 0.0, 7.0])
    index = np.array([0, 1, 1, 2, 2, 3])
    check_derivatives(lambda x, s: scatter.scatter_reduce(x, 0, index, s, "prod", include_self=include_self), x, src)


@pytest.mark.parametrize(("reduce", "include_self", "share"), [
    ("amax", True, [1 / 3, 1.0, 1 / 3, 1 / 3, 0.0]),
    ("amin", False, [0.0, 1.0, 0.0, 0.0, 1.0]),
])  # fmt: skip
def test_ties_share(reduce: str, include_self: bool, share: list[float]) -> None:
    x = f64([2.0, 9.0]).requires_grad_()
    src = f64([2.0, 2.0, 1.0]).requires_grad_()
    out = scatter.scatter_reduce(x, 0, t([0, 0, 0]), src, reduce, include_self=include_self)
    gx, gs = lucid.autograd.grad(out, [x, src], f64([1.0, 1.0]))
    same(gx, share[:2])
    same(gs, share[2:])


def test_an_infinite_extreme_without_self_belongs_to_the_source() -> None:
    x, src = f64([0.0]).requires_grad_(), f64([-INF]).requires_grad_()
    out = scatter.scatter_reduce(x, 0, t([0]), src, "amax", include_self=False)
    gx, gs = lucid.autograd.grad(out, [x, src], f64([1.0]))
    same(gx, [0.0])
    same(gs, [1.0])


def test_second_derivatives() -> None:
    def f(x: Tensor, s: Tensor) -> Tensor:
        return scatter.scatter_reduce(x * x, 0, t([0, 0, 1]), s, "prod") ** 2

    x, s = f64([1.5, 2.0]).requires_grad_(), f64([0.5, 3.0, -1.0]).requires_grad_()
    gx = lucid.autograd.grad(f(x, s).sum(), x, create_graph=True)
    # f = (x0² s0 s1)² + (x1² s2)²
    same(gx, [4 * 1.5**3 * (0.5 * 3) ** 2, 4 * 2.0**3])
    (mixed,) = lucid.autograd.grad(gx[0], [s], allow_unused=True)
    same(mixed, [8 * 1.5**3 * 0.5 * 9, 8 * 1.5**3 * 0.25 * 3, 0.0])


def test_last_write_gets_the_gradient() -> None:
    v = f64([1.0, 2.0, 3.0]).requires_grad_()
    out = scatter.index_put(f64(np.zeros(2)), (t([0, 0, 1]),), v)
    same(out, [2.0, 3.0])
    same(lucid.autograd.grad(out.sum(), v), [0.0, 1.0, 1.0])


IN_PLACE = {
    "scatter": lambda f, x, s: f(x, 0, INDEX, s),
    "scatter_add": lambda f, x, s: f(x, 1, INDEX, s),
    "scatter_reduce": lambda f, x, s: f(x, 0, INDEX, s, "mean"),
    "index_add": lambda f, x, s: f(x, 1, np.array([3, 3]), s.reshape(3, 2), alpha=2),
    "index_copy": lambda f, x, s: f(x, 1, np.array([3, 1]), s.reshape(3, 2)),
    "index_fill": lambda f, x, s: f(x, 1, np.array([-1, 1]), s.sum()),
    "index_put": lambda f, x, s: f(x, (MASK,), s.reshape(6)),
    "masked_fill": lambda f, x, s: f(x, MASK[0], s.sum()),
    "masked_scatter": lambda f, x, s: f(x, MASK, s),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_in_place_forms(name: str, layout: str) -> None:
    call, plain, in_place = IN_PLACE[name], getattr(scatter, name), getattr(scatter, name + "_")
    base = X if layout == "contiguous" else np.asfortranarray(X)
    expected = call(plain, f64(X), f64(SRC))
    x = Tensor._wrap(base.copy(order="K"))
    assert call(in_place, x, f64(SRC)) is x
    np.testing.assert_allclose(np.asarray(x), np.asarray(expected))

    a, s = f64(X).requires_grad_(), f64(SRC).requires_grad_()
    b, r = f64(X).requires_grad_(), f64(SRC).requires_grad_()
    y = a * 2
    call(in_place, y, s)
    z = call(plain, b * 2, r)
    for got, want in zip(
        lucid.autograd.grad((y * y).sum(), [a, s]), lucid.autograd.grad((z * z).sum(), [b, r]), strict=True
    ):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_on_leaves_is_refused(name: str) -> None:
    leaf = f64(X).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        IN_PLACE[name](getattr(scatter, name + "_"), leaf, f64(SRC))


def test_in_place_through_a_view() -> None:
    x = f64(np.zeros((2, 3)))
    scatter.index_add_(x[1], 0, t([0, 0, 2]), f64([1.0, 2.0, 3.0]))
    scatter.masked_fill_(x[0], t([True, False, True]), 7.0)
    same(x, [[7.0, 0.0, 7.0], [3.0, 0.0, 3.0]])


def test_accumulating_into_memory_that_is_not_contiguous() -> None:
    x = f64(np.zeros((3, 2)))
    scatter.index_put_(x.transpose(0, 1), (t([0, 0]), t([1, 1])), f64([1.0, 2.0]), accumulate=True)
    same(x, [[0, 0], [3, 0], [0, 0]])


def test_scatter_values() -> None:
    x = t([[1.0, 2.0], [3.0, 4.0]])
    same(scatter.gather(x, 1, t([[0, 0], [1, 0]])), [[1, 1], [4, 3]], lucid.float32)
    same(scatter.scatter(x, 0, t([[1, 0]]), t([[8.0, 9.0]])), [[1, 9], [8, 4]])
    same(scatter.scatter(x, 0, t([[1, 0]]), value=0), [[1, 0], [0, 4]], lucid.float32)
    same(scatter.scatter(x, 0, t([[1, 1]]), 2, reduce="add"), [[1, 2], [5, 6]])
    same(scatter.scatter(x, axis=0, index=t([[1, 1]]), src=3.0, reduce="multiply"), [[1, 2], [9, 12]])
    same(scatter.scatter_reduce(t([7, 3]), 0, t([0, 0]), t([1, 3]), "mean"), [3, 3], lucid.int64)
    same(scatter.scatter_reduce(t([1, 9]), 0, t([0, 0]), t([-5, -3]), "amax", include_self=False), [-3, 9])
    same(scatter.scatter_reduce(t([1, 9], lucid.int8), 0, t([1]), t([5], lucid.int8), "amin"), [1, 5], lucid.int8)
    same(scatter.index_fill(t([1, 2, 3]), 0, t([-1]), 9), [1, 2, 9], lucid.int64)
    same(scatter.index_put(t([0, 0, 0]), (t([1, 1, 2]),), t(1), accumulate=True), [0, 2, 1])
    same(scatter.take(x, t([[-1, 0]])), [[4, 1]])
    same(scatter.masked_fill(t([1, 2]), t([True, False]), 1.5), [1, 2], lucid.int64)
    same(scatter.masked_fill(lucid.zeros(2), lucid.ones(3, 2, dtype=lucid.bool), 1.0), np.ones((3, 2)))
    same(scatter.masked_select(t([1, 2]), t([[True, True], [False, True]])), [1, 2, 2])
    same(counting.nonzero(t([[0, 1], [1, 1]])), [[0, 1], [1, 0], [1, 1]], lucid.int64)
    assert counting.argwhere(t(5.0)).shape == (1, 0)
    assert [v.tolist() for v in counting.nonzero(t(5.0), as_tuple=True)] == [[0]]


@pytest.mark.parametrize("dtype", [lucid.int8, lucid.uint8, lucid.int16, lucid.int32, lucid.int64])
def test_index_tensors_of_any_integer_type(dtype: Any) -> None:
    x = f64(np.arange(120.0 * 3).reshape(120, 3))
    index = t([100, 3, 100], dtype)
    same(x[index], np.asarray(x)[[100, 3, 100]])
    same(scatter.index_select(x, 0, index), np.asarray(x)[[100, 3, 100]])
    expected = np.zeros((120, 3))
    expected[100], expected[3] = 2, 1
    same(scatter.index_add(f64(np.zeros((120, 3))), 0, index, f64(np.ones((3, 3)))), expected)
    same(scatter.index_put(f64(np.zeros((120, 3))), (index, t(0, dtype)), f64(1.0), True)[:, 0], expected[:, 0])
    if dtype is lucid.int8:
        same(f64(np.arange(250.0))[t([-128, -1], dtype)], [122, 249])


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.complex64, lucid.bool])
def test_other_element_types(dtype: Any) -> None:
    x, s, i = t([1, 0, 3]).to(dtype), t([2, 1]).to(dtype), t([0, 2])
    assert np.asarray(scatter.gather(x, 0, i)).tolist() == np.asarray(x)[[0, 2]].tolist()
    for out in (scatter.scatter_add(x, 0, i, s), scatter.index_copy(x, 0, i, s), scatter.masked_fill(x, x == 0, 1)):
        assert out.dtype is dtype
    if not dtype.is_complex:
        assert scatter.scatter_reduce(x, 0, i, s, "amax").dtype is dtype
        assert sorting.sort(x).values.dtype is dtype
        assert np.asarray(sorting.argsort(t([3, 1, 2]).to(dtype) if dtype is not lucid.bool else x)).shape == (3,)


def test_half_precision_sorts_nan_last() -> None:
    for dtype in (lucid.float16, lucid.bfloat16):
        x = t([2.0, NAN, 1.0, -INF]).to(dtype)
        assert sorting.argsort(x).tolist() == [3, 2, 0, 1]
        assert sorting.topk(x, 2, largest=False).indices.tolist() == [3, 2]
        assert sorting.kthvalue(x, 2).indices.item() == 2
        same(sorting.unique(t([2.0, 1.0, 2.0]).to(dtype)).float(), [1, 2])


OUT_OF_RANGE: list[Callable[[Tensor, Any], Any]] = [
    lambda x, i: scatter.gather(x, 0, i[:, None]),
    lambda x, i: scatter.scatter(x, 0, i[:, None], 1.0),
    lambda x, i: scatter.scatter_(x, 0, i[:, None], 1.0),
    lambda x, i: scatter.scatter_reduce_(x, 0, i[:, None], f64([[1.0]]), "sum"),
    lambda x, i: scatter.index_select(x, 0, i),
    lambda x, i: scatter.index_add_(x, 0, i, f64([[1.0, 1.0]])),
    lambda x, i: scatter.index_copy_(x, 0, i, f64([[1.0, 1.0]])),
    lambda x, i: scatter.index_fill_(x, 0, i, 1.0),
    lambda x, i: scatter.index_put_(x, (i,), f64(1.0)),
    lambda x, i: scatter.take(x, i),
    lambda x, i: x[i],
    lambda x, i: indexing.setitem(x, i, 5.0),
]


@pytest.mark.parametrize("f", OUT_OF_RANGE)
@pytest.mark.parametrize("position", [9, -9])
@pytest.mark.parametrize("kind", ["plain", "batched"])
def test_out_of_range_is_refused_and_changes_nothing(f: Any, position: int, kind: str) -> None:
    x = f64(np.ones((3, 2)))
    index = t([position])
    if kind == "batched":
        level = new_level()
        index = Batched.make(index.reshape(1, 1), level)
        x = Batched.make(x.reshape(1, 3, 2), level)
    with pytest.raises(IndexError, match=f"index {position} is out of range"):
        f(x, index)
    inner = x._array if kind == "batched" else x
    assert np.asarray(inner).min() == np.asarray(inner).max() == 1


@pytest.mark.parametrize("f", [
    lambda x: scatter.gather(x, 0, t([[-1]])),
    lambda x: scatter.scatter(x, 0, t([[-1]]), 1.0),
    lambda x: scatter.index_select(x, 0, t([-1])),
    lambda x: scatter.index_add(x, 0, t([-1]), f64([[1.0, 1.0]])),
])  # fmt: skip
def test_negative_indices_are_refused_where_they_mean_nothing(f: Any) -> None:
    with pytest.raises(IndexError, match="between 0 and 2"):
        f(f64(np.ones((3, 2))))


@pytest.mark.parametrize(("f", "error"), [
    (lambda x: scatter.gather(x, 0, t([0])), "dimensions"),
    (lambda x: scatter.gather(x, 0, t([[0, 0, 0]])), "reaches outside"),
    (lambda x: scatter.gather(x, 0, t([[0.0]])), "must be integers"),
    (lambda x: scatter.scatter(x, 0, t([[0, 0]]), f64([[1.0]])), "too small"),
    (lambda x: scatter.scatter(x, 0, t([[0]]), t([[1.0]])), "types must agree"),
    (lambda x: scatter.scatter(x, 0, t([[0]]), 1.0, reduce="max"), "'add' or 'multiply'"),
    (lambda x: scatter.scatter_reduce(x, 0, t([[0]]), f64([[1.0]]), "max"), "one of sum"),
    (lambda x: scatter.index_add(x, 0, t([0]), f64([1.0, 2.0])), r"need \(1, 2\)"),
    (lambda x: scatter.index_fill(x, 0, t([0]), f64([1.0])), "0-d"),
    (lambda x: scatter.masked_fill(x, t([1, 0]), 1.0), "boolean"),
    (lambda x: scatter.masked_fill(x, t([True, False, True]), 1.0), "does not fit"),
    (lambda x: scatter.masked_fill_(x, lucid.ones(4, 3, 2, dtype=lucid.bool), 1.0), "does not fit"),
    (lambda x: scatter.masked_fill(x, t([True, False]), 1j), "complex"),
    (lambda x: scatter.masked_scatter(x, t([True, False]), f64([1.0])), "selects 3 elements"),
    (lambda x: scatter.index_put(x, (t([0]),), f64(np.ones((2, 2)))), "do not fit"),
    (lambda x: sorting.topk(x, 3), "out of range"),
    (lambda x: sorting.kthvalue(x, 0), "counts from 1"),
    (lambda x: sorting.quantile(x, 1.5), "between 0 and 1"),
    (lambda x: sorting.quantile(x.long(), 0.5), "floating"),
    (lambda x: sorting.quantile(x, 0.5, interpolation="cubic"), "one of linear"),
    (lambda x: sorting.sort(x.cdouble()), "no order"),
    (lambda x: sorting.searchsorted(x, f64([1.0])), "leading|last"),
    (lambda x: sorting.searchsorted(x[0], f64([1.0]), side="left", right=True), "side"),
])  # fmt: skip
def test_errors(f: Any, error: str) -> None:
    with pytest.raises(RuntimeError, match=error):
        f(f64(np.ones((3, 2))))


def test_scatter_wants_one_of_src_and_value() -> None:
    for arguments in ({}, {"src": t([1.0]), "value": 2.0}):
        with pytest.raises(TypeError, match="either src or value"):
            scatter.scatter(t([1.0]), 0, t([0]), **arguments)


def test_empty_and_0d() -> None:
    empty, x = t([], lucid.int64), t(3.0)
    assert scatter.gather(lucid.ones(2, 3), 0, empty).shape == (0,)
    same(scatter.scatter(lucid.ones(2, 2), 0, empty, 5.0), np.ones((2, 2)))
    same(scatter.scatter_add(lucid.ones(2, 2), 0, empty.reshape(0, 2), lucid.ones(0, 2)), np.ones((2, 2)))
    assert scatter.index_select(lucid.ones(2, 3), 1, empty).shape == (2, 0)
    same(scatter.index_add(lucid.ones(2), 0, empty, lucid.ones(0)), np.ones(2))
    same(scatter.gather(x, 0, t([0, 0])), [3, 3])
    same(scatter.gather(x, 0, t(0)), 3)
    same(scatter.index_select(x, 0, t([0])), 3)
    same(scatter.scatter_add_(t(3.0), 0, t(0), t(4.0)), 7)
    same(scatter.index_fill_(t(3.0), 0, t([0]), 1.0), 1)
    same(scatter.masked_fill(x, t(True), 1.0), 1)
    same(scatter.masked_select(x, t(True)), [3])
    same(scatter.take(x, t([0])), [3])
    for values, indices in (sorting.sort(x), sorting.topk(x, 1), sorting.kthvalue(x, 1), sorting.median(x, 0)):
        same(values, 3)
        same(indices, 0)
    assert sorting.sort(lucid.ones(0, 3), 0).values.shape == (0, 3)
    assert sorting.unique(lucid.ones(0)).shape == (0,)
    assert np.isnan(sorting.median(lucid.ones(0)).item())
    with pytest.raises(IndexError, match="no elements"):
        sorting.median(lucid.ones(0, 2), 0)
    same(x[...], 3)
    assert x[None].shape == (1,)
    assert x[True].shape == (1,)
    assert x[False].shape == (0,)
    assert lucid.ones(3)[empty].shape == (0,)
    assert lucid.ones(3, 2)[[]].shape == (0, 2)


def test_sort_order() -> None:
    x = t([2.0, NAN, 1.0, 2.0, NAN, 1.0])
    assert sorting.argsort(x).tolist() == [2, 5, 0, 3, 1, 4]
    assert sorting.argsort(x, descending=True).tolist() == [1, 4, 0, 3, 2, 5]
    assert sorting.topk(x, 3).indices.tolist() == [1, 4, 0]
    values, indices = sorting.sort(t([[3, 1], [2, 5]]), axis=0)
    same(values, [[2, 1], [3, 5]], lucid.int64)
    same(indices, [[1, 0], [0, 1]], lucid.int64)


@given(st.integers(0, 40), st.integers(0, 40), st.booleans(), st.integers(0, 2**32 - 1))
def test_topk_is_the_front_of_sort(n: int, k: int, largest: bool, seed: int) -> None:
    k = min(k, n)
    x = np.random.default_rng(seed).integers(0, 10, (2, n)).astype(float)
    values, indices = sorting.topk(f64(x), k, 1, largest)
    same(values, (-np.sort(-x) if largest else np.sort(x))[:, :k])
    same(values, np.take_along_axis(x, np.asarray(indices), 1))
    assert all(len(set(row)) == k for row in indices.tolist())
    if k:
        same(sorting.kthvalue(f64(x), k).values, np.sort(x)[:, k - 1])


def test_median_and_quantile_values() -> None:
    x = f64([[4.0, 1.0, 3.0, 2.0], [NAN, 5.0, 1.0, 2.0]])
    same(sorting.median(x, 1).values, [2.0, NAN])
    same(sorting.median(x, 1, keepdim=True).indices, [[3], [0]])
    same(sorting.nanmedian(x, 1).values, [2.0, 2.0])
    same(sorting.median(t([4, 2, 9])), 4, lucid.int64)
    assert np.isnan(sorting.nanmedian(f64([NAN, NAN])).item())
    x_array, q = np.random.default_rng(3).standard_normal((3, 5)), [0.0, 0.3, 0.5, 1.0]
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        got = sorting.quantile(f64(x_array), f64(q), 1, interpolation=how)
        same(got, np.quantile(x_array, q, axis=1, method=how))
        same(sorting.quantile(f64(x_array), 0.3, keepdim=True, interpolation=how),
             np.quantile(x_array, 0.3, keepdims=True, method=how))  # fmt: skip
        x_array[1, 2] = NAN
        same(sorting.nanquantile(f64(x_array), f64(q), 0, interpolation=how),
             np.nanquantile(x_array, q, axis=0, method=how))  # fmt: skip
        assert np.isnan(np.asarray(sorting.quantile(f64(x_array), f64(q), 0))[:, 2]).all()
        x_array[1, 2] = 0.1
    same(sorting.quantile(f64([1.0, INF, INF]), 0.75), INF)
    assert sorting.quantile(t([1.0, 2.0]), 0.5).dtype is lucid.float32


def test_searchsorted() -> None:
    edges = t([1.0, 3.0, 3.0, 5.0])
    same(sorting.searchsorted(edges, t([[3.0], [9.0]])), [[1], [4]], lucid.int64)
    same(sorting.searchsorted(edges, t([3.0]), right=True), [3])
    same(sorting.searchsorted(edges, 3, side="right", out_int32=True), 3, lucid.int32)
    same(sorting.searchsorted(t([5.0, 1.0, 3.0]), t([2.0]), sorter=t([1, 2, 0])), [1])
    rows = t([[1, 3, 5], [2, 4, 6]])
    same(sorting.searchsorted(rows, t([[3, 6], [3, 6]])), [[1, 3], [1, 2]])
    same(sorting.bucketize(t([0.5, 1.0, 7.0]), t([1.0, 5.0]), right=True), [0, 1, 2])
    same(sorting.searchsorted(t([1, 3]), t([2.5])), [1])


def test_searchsorted_batched() -> None:
    sequences, values = np.sort(rng.standard_normal((3, 5)), 1), rng.standard_normal((3, 2, 2))
    for seq_batched in (True, False):
        for val_batched in (True, False):
            level = new_level()
            s = Batched.make(f64(sequences), level) if seq_batched else f64(sequences[0])
            v = Batched.make(f64(values), level) if val_batched else f64(values[0])
            got = sorting.searchsorted(s, v)
            got_array = np.asarray(got._array if isinstance(got, Batched) else got)
            expected = [np.searchsorted(sequences[i * seq_batched], values[i * val_batched]) for i in range(3)]
            np.testing.assert_array_equal(got_array, expected if seq_batched or val_batched else expected[0])


def test_unique() -> None:
    x = t([[3, 1, 3], [1, 1, 2]])
    values, inverse, counts = sorting.unique(x, return_inverse=True, return_counts=True)
    same(values, [1, 2, 3])
    same(values[inverse], np.asarray(x))
    same(counts, [3, 1, 2])
    rows, inverse = sorting.unique(t([[1, 2], [0, 5], [1, 2]]), return_inverse=True, dim=0)
    same(rows, [[0, 5], [1, 2]])
    same(inverse, [1, 0, 1])
    same(sorting.unique(t([NAN, 1.0, NAN])), [1.0, NAN, NAN])
    values, inverse, counts = sorting.unique_consecutive(t([1, 1, 2, 1]), return_inverse=True, return_counts=True)
    same(values, [1, 2, 1])
    same(inverse, [0, 0, 1, 2])
    same(counts, [2, 1, 1])
    same(sorting.unique_consecutive(t([[1, 1, 2], [3, 3, 3]]), dim=1), [[1, 2], [3, 3]])
    w = f64([2.0, 1.0, 2.0]).requires_grad_()
    same(lucid.autograd.grad(sorting.unique(w).sum(), w), [1.0, 1.0, 0.0])


@pytest.mark.parametrize("f", [
    lambda x: counting.nonzero(x),
    lambda x: sorting.unique(x),
    lambda x: scatter.masked_select(x, x > 0),
    lambda x: x[x > 0],
])  # fmt: skip
def test_shapes_that_depend_on_data_are_refused_in_a_batch(f: Any) -> None:
    with pytest.raises(RuntimeError, match="inside vmap"):
        f(Batched.make(f64(X), new_level()))


def test_masks_in_a_batch() -> None:
    x = f64(X)
    mask = Batched.make(t(MASK), (level := new_level()))
    inside = Batched.make(x, level)
    same(scatter.masked_fill(inside, mask, 0.0)._array, np.where(MASK, 0, X))
    inside[mask] = 5.0
    same(x, np.where(MASK, 5, X))
    source = f64(np.arange(4.0))
    same(scatter.masked_scatter(inside, mask, source)._array[0], [0, x[0, 1], 1, 2])


def test_positions_in_a_batch_take_the_place_of_integers() -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    rows = np.array([2, 0])
    every = slice(None)
    for key in (lambda i: (i, every, [0, 1]), lambda i: (every, i, [0, 1]), lambda i: ([0, 1], every, i)):
        got = f64(x)[key(Batched.make(t(rows), new_level()))]
        for k, i in enumerate(rows):
            same(got._array[k], np.asarray(f64(x)[key(int(i))]))


def selected(x: Any, key: Any) -> tuple[Any, Any]:
    """NumPy's view and key for what `x[key]` means here: integers are applied first, then arrays and masks."""
    key = key if isinstance(key, tuple) else (key,)
    taken = [k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else k is not None for k in key]
    rest = x.ndim - sum(taken) + sum(k is Ellipsis for k in key)
    full: list[Any] = []
    for k in key if any(k is Ellipsis for k in key) else (*key, Ellipsis):
        full.extend([slice(None)] * rest if k is Ellipsis else [k])
    first: list[Any] = []
    for k in full:
        is_mask = isinstance(k, np.ndarray) and k.dtype == bool
        first.extend([slice(None)] * k.ndim if is_mask else [slice(None) if isinstance(k, np.ndarray) else k])
    second = tuple(k if isinstance(k, np.ndarray) else slice(None) for k in full if not isinstance(k, int))
    return x[(*first, ...)], second


@st.composite
def keyed(draw: Any) -> tuple[Any, Any]:
    """An array and a key for it: integers, slices, None, Ellipsis, masks and integer arrays, in any mixture."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(float(np.prod(shape))).reshape(shape)
    kinds = draw(st.lists(st.sampled_from(["int", "slice", "array", "mask"]), min_size=x.ndim, max_size=x.ndim))
    # A mask's positions broadcast with other arrays for certain only if those have one element.
    together = (1,) if "mask" in kinds else draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
    items: list[Any] = []
    for d, (n, kind) in enumerate(zip(shape, kinds, strict=True)):
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice" or (kind == "mask" and "mask" in kinds[:d]):
            items.append(draw(st.slices(n)))
        elif kind == "array":
            items.append(draw(hnp.arrays(np.int64, together, elements=st.integers(-n, n - 1))))
        else:
            items.append(draw(hnp.arrays(bool, n)))
    start, stop = sorted(draw(st.tuples(*[st.integers(0, x.ndim)] * 2)))
    items[start:stop] = [] if stop == x.ndim and draw(st.booleans()) else [Ellipsis]
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    return x, items[0] if len(items) == 1 else tuple(items)


def wrapped(key: Any, wrap: Callable[[Any], Any]) -> Any:
    if isinstance(key, tuple):
        return tuple(wrap(k) if isinstance(k, np.ndarray) else k for k in key)
    return wrap(key) if isinstance(key, np.ndarray) else key


@settings(max_examples=400, deadline=None)
@given(keyed(), st.sampled_from([lucid.tensor, np.asarray, lambda a: a.tolist()]))
def test_reading_agrees_with_numpy(case: Any, wrap: Callable[[Any], Any]) -> None:
    x, key = case
    view, rest = selected(x, key)
    expected = view[rest]
    leaf = f64(x).requires_grad_()
    out = leaf[wrapped(key, wrap)]
    same(out, expected)
    if out.numel():
        weights = np.arange(1.0, out.numel() + 1).reshape(out.shape)
        gradient = np.zeros_like(x)
        inside = selected(gradient, key)[0]
        np.add.at(inside, rest, weights)
        same(lucid.autograd.grad(out, leaf, f64(weights)), gradient)


@settings(max_examples=400, deadline=None)
@given(keyed(), st.integers(0, 3), st.booleans())
def test_assignment_agrees_with_numpy(case: Any, dropped: int, recorded: bool) -> None:
    x, key = case
    view, rest = selected(x, key)
    shape = view[rest].shape
    # The value may lack leading dimensions, or have one of size 1 too many.
    shape = (1, *shape) if dropped == 3 else shape[min(dropped, len(shape)) :]
    value = -1.0 - np.arange(float(np.prod(shape))).reshape(shape)
    base, v = f64(x).requires_grad_(recorded), f64(value).requires_grad_(recorded)
    y = base * 1
    y[wrapped(key, lucid.tensor)] = v
    expected = x.copy()
    target, rest = selected(expected, key)
    target[rest] = value[0] if dropped == 3 else value
    same(y, expected)
    if recorded:
        # Each element of the result came from one place; so does its gradient.
        weights = np.arange(1.0, x.size + 1).reshape(x.shape)
        gx, gv = lucid.autograd.grad(y, [base, v], f64(weights), materialize_grads=True)
        same(gx, np.where(expected < 0, 0, weights))
        want = np.zeros(value.size)
        np.add.at(want, (-1 - expected[expected < 0]).astype(int), weights[expected < 0])
        same(gv, want.reshape(value.shape))


@settings(max_examples=150, deadline=None)
@given(keyed())
def test_reading_and_assigning_in_a_batch(case: Any) -> None:
    x, key = case
    stack = np.stack([x, x[::-1], 2 * x])
    level = new_level()
    batch = Batched.make(f64(stack), level)
    got = batch[wrapped(key, lucid.tensor)]
    same(got._array, np.stack([np.asarray(f64(s)[wrapped(key, lucid.tensor)]) for s in stack]))
    batch[wrapped(key, lucid.tensor)] = -7.0
    for s in stack:
        target, rest = selected(s, key)
        target[rest] = -7.0
    same(batch._array, stack)


def test_integers_are_applied_first() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    assert f64(x)[0, :, [0, 1]].shape == (3, 2)
    assert f64(x)[t(0), :, [0, 1]].shape == (3, 2)
    assert f64(x)[[0, 1], :, [0, 1]].shape == (2, 3)
    y = f64(x)
    y[0, :, [0, 3]] = f64(np.ones((3, 2)))
    same(y[0], np.where([True, False, False, True], 1, x[0]))


def test_assignment_of_other_types() -> None:
    x = t([1, 2, 3])
    x[0] = 2.7
    assert x.tolist() == [2, 2, 3]
    x[t([1, 2])] = True
    assert x.tolist() == [2, 1, 1]
    with pytest.raises(RuntimeError, match="cannot write"):
        x[0] = t(2.5)
    with pytest.raises(RuntimeError, match="cannot write"):
        f64([1.0])[0] = 1j
    y = f64(np.zeros((2, 2)))
    y[:, 0] = [1, 2]
    y[t([[True, False], [False, True]])] += 5
    same(y, [[6, 0], [2, 5]])


def test_assignment_from_itself() -> None:
    x = f64(np.arange(5.0))
    x[t([0, 1, 2, 3])] = x[1:]
    same(x, [1, 2, 3, 4, 4])
    x[1:] = x[:-1]
    same(x, [1, 1, 2, 3, 4])
    x[:] = x.flip(0)
    same(x, [4, 3, 2, 1, 1])


@pytest.mark.parametrize(("key", "error"), [
    ((0, 0, 0), "too many"),
    ((t([0]), t([0]), t([0])), "too many"),
    ((t([0, 1]), t([0, 1, 1])), "broadcast"),
    ((..., t([0]), ...), "Ellipsis"),
    (t([0.0]), "integers or booleans"),
    (t([True, False]), "mask has shape"),
])  # fmt: skip
def test_bad_keys(key: Any, error: str) -> None:
    x = f64(np.ones((3, 2)))
    with pytest.raises(IndexError, match=error):
        x[key]
    with pytest.raises(IndexError, match=error):
        x[key] = 0.0
    same(x, np.ones((3, 2)))


def _written(x, v):
    y = x * 1.0
    y[1:3] = v * v
    y[0] += v[1]
    y[3] = 2.0
    y.view(2, 2).t()[1] = v * 3
    return (y * y * x).sum()


def _joined(x, v):
    y = lucid.stack([x[0] + v[1], v[0] * 3, v[1] * v[1], v[1] * 3])
    return (y * y * x).sum()


@pytest.mark.parametrize("operand", [0, 1])
def test_assigned_parts_differentiate_as_joined_ones(operand):
    x, v = lucid.randn(4, dtype=lucid.float64), lucid.randn(2, dtype=lucid.float64)
    expected = func.grad(_joined, operand)(x, v).numpy()
    assert np.allclose(func.grad(_written, operand)(x, v).numpy(), expected)
    assert np.allclose(func.jacfwd(_written, operand)(x, v).numpy(), expected)
    assert np.allclose(func.hessian(_written, operand)(x, v).numpy(), func.hessian(_joined, operand)(x, v).numpy())


def test_a_leaf_assigned_to_several_parts_adds_up_to_second_order():
    leaf = lucid.tensor([2.0, -3.0], dtype=lucid.float64, requires_grad=True)
    whole = lucid.zeros(3, 2, dtype=lucid.float64)
    whole[0] = leaf
    whole[2] = leaf
    whole[0] = leaf * 2
    (grad,) = lucid.autograd.grad((whole * whole).sum(), (leaf,), create_graph=True)
    assert grad.tolist() == [20.0, -30.0]
    grad.sum().backward()
    assert leaf.grad.tolist() == [10.0, 10.0]


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ([1.0, 2.0, 2.0, 3.0], [0, 0.5, 0.5, 0]),
        ([[3.0, 1.0], [3.0, 3.0], [1.0, 1.0]], [[0, 1 / 3], [0, 0], [1 / 3, 1 / 3]]),
        ([0.0, -0.0], [0.5, 0.5]),
        ([2.0], [1]),
        ([np.inf, np.inf, 1.0], [0.5, 0.5, 0]),
        ([-np.inf, 1.0, -np.inf], [0.5, 0, 0.5]),
    ],
)
def test_medians_of_all_elements_share_the_gradient(name, values, shares):
    x = lucid.tensor(values, dtype=lucid.float64, requires_grad=True)
    getattr(lucid, name)(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), shares)
    f = getattr(lucid, name)
    tangent = lucid.tensor(np.random.default_rng(0).standard_normal(x.shape))
    value, change = lucid.func.jvp(f, (x.detach(),), (tangent,))
    assert value.item() == f(x.detach()).item()
    np.testing.assert_allclose(change.item(), (tangent.numpy() * shares).sum())
    batch = lucid.stack([x.detach(), x.detach().flip(0)])
    each = lucid.stack([lucid.func.grad(f)(row) for row in batch])
    np.testing.assert_allclose(lucid.func.vmap(lucid.func.grad(f))(batch).numpy(), each.numpy())


def test_a_median_that_is_nan_shares_among_nans():
    x = lucid.tensor([np.nan, 1.0, np.nan], requires_grad=True)
    lucid.median(x).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]


def test_shapes_are_broadcast_as_by_numpy():
    sizes = [(), (1,), (3,), (0,), (2, 1), (1, 3), (2, 3), (4, 1, 3), (1, 1, 1), (2, 0)]
    for shapes in itertools.product(sizes, repeat=3):
        try:
            expected = np.broadcast_shapes(*shapes)
        except ValueError:
            with pytest.raises(ValueError, match="cannot be broadcast"):
                broadcast_shapes(shapes)
        else:
            assert broadcast_shapes(shapes) == expected
