"""Writes at places in the target's memory, and parts and windows that show it."""

import numpy as np
import pytest

import lucid

REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


def leaf(rng, *shape):
    return lucid.tensor(rng.standard_normal(shape)).requires_grad_()


def gradients(function, *leaves):
    out = function(*leaves)
    weights = lucid.tensor(np.random.default_rng(9).standard_normal(out.shape))
    return out.detach(), *lucid.autograd.grad((out * weights).sum(), leaves)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_in_place_give_those_of_a_copy(reduce, include_self):
    rng = np.random.default_rng(1)
    index, rows = lucid.tensor(rng.integers(0, 5, (4, 3))), lucid.tensor(np.array([1, 1, 4]))
    x, source = leaf(rng, 5, 3), leaf(rng, 4, 3)
    kept = {"include_self": include_self}
    there = gradients(lambda x, s: x.scatter_reduce(0, index, s, reduce, **kept), x, source)
    here = gradients(lambda x, s: (x * 1).scatter_reduce_(0, index, s, reduce, **kept), x, source)
    with lucid.no_grad():
        plain = x.clone().scatter_reduce_(0, index, source, reduce, **kept)
        turned = x.t().contiguous().t().scatter_reduce_(0, index, source, reduce, **kept)
    for one, other in zip((*there, there[0], there[0]), (*here, plain, turned), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    if reduce == "sum":
        return
    source = leaf(rng, 3, 3)
    there = gradients(lambda x, s: x.index_reduce(0, rows, s, reduce, **kept), x, source)
    here = gradients(lambda x, s: (x * 1).index_reduce_(0, rows, s, reduce, **kept), x, source)
    spread = rows.reshape(3, 1).expand(3, 3)
    grid = gradients(lambda x, s: x.scatter_reduce(0, spread, s, reduce, **kept), x, source)
    for one, other, third in zip(there, here, grid, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_allclose(one.numpy(), third.numpy(), rtol=1e-13, atol=1e-15)


def test_index_reduce_along_other_dimensions_and_of_numbers():
    x, rows = lucid.zeros(2, 3, 4), lucid.tensor([2, 0, 2])
    out = x.index_reduce(1, rows, lucid.arange(24.0).reshape(2, 3, 4), "amax")
    np.testing.assert_array_equal(out[0].numpy(), [[4, 5, 6, 7], [0, 0, 0, 0], [8, 9, 10, 11]])
    assert lucid.tensor(2.0).index_reduce(0, lucid.tensor([0]), lucid.tensor(3.0), "prod").item() == 6.0
    with pytest.raises(RuntimeError, match="source has shape"):
        x.index_reduce(1, rows, lucid.zeros(2, 2, 4), "amax")
    with pytest.raises(RuntimeError, match="reduce must be one of"):
        x.index_reduce_(1, rows, lucid.zeros(2, 3, 4), "sum")
    with pytest.raises(TypeError, match="real tensors"):
        x.to(lucid.complex64).scatter_reduce_(0, lucid.zeros(1, 3, 4).long(), x.to(lucid.complex64), "amax")


def test_one_value_is_scattered_to_all_places():
    index = lucid.tensor([[0, 1], [1, 1]])
    value, x = lucid.tensor(2.0, requires_grad=True), lucid.zeros(2, 3, requires_grad=True)
    out = x.scatter(1, index, value)
    assert out.tolist() == [[2.0, 2.0, 0.0], [0.0, 2.0, 0.0]]
    by_x, by_value = lucid.autograd.grad(out.sum(), [x, value])
    assert by_x.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]] and by_value.item() == 3.0
    assert lucid.zeros(2, 3).scatter_(1, index, 2.0).tolist() == out.tolist()
    assert lucid.ones(2, 3).scatter_(1, index, 2.0, reduce="multiply").tolist() == [[2.0, 2.0, 1.0], [1.0, 4.0, 1.0]]
    with pytest.raises(RuntimeError, match="reduce must be"):
        lucid.ones(2, 3).scatter_(1, index, 2.0, reduce="sum")
    with pytest.raises(RuntimeError, match="too small"):
        lucid.zeros(2, 3).scatter_add_(1, index, lucid.tensor(1.0))
    batch = lucid.func.vmap(lambda x, v: x.scatter(0, index[0], v))(lucid.zeros(3, 2), lucid.tensor([1.0, 2.0, 3.0]))
    assert batch.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert lucid.zeros(2).scatter(0, lucid.zeros(0).long(), 1.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("accumulate", [False, True])
def test_put_in_place(accumulate):
    rng = np.random.default_rng(2)
    index = lucid.tensor(np.array([[1, -1], [5, 1]]))
    for layout in (lambda x: x * 1, lambda x: (x * 1).t().contiguous().t()):
        x, source = leaf(rng, 2, 3), leaf(rng, 2, 2)
        there = gradients(lambda x, s: x.put(index, s, accumulate), x, source)
        here = gradients(lambda x, s, layout=layout: layout(x).put_(index, s, accumulate), x, source)
        with lucid.no_grad():
            plain = layout(x).put_(index, source, accumulate)
        for one, other in zip((*there, there[0]), (*here, plain), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    with pytest.raises(RuntimeError, match="leaf"):
        x.put_(index, source)
    with pytest.raises(IndexError):
        lucid.zeros(2).put_(lucid.tensor([2]), lucid.ones(1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool", "complex64"])
def test_writes_of_values_that_lie_in_the_target(dtype):
    kind = getattr(lucid, dtype)
    x = lucid.arange(6).to(kind)
    x.index_copy_(0, lucid.tensor([5, 4, 3, 2, 1, 0]), x)
    assert x.tolist() == lucid.arange(6).flip(0).to(kind).tolist()
    y = lucid.arange(4).to(kind)
    expected = y.index_add(0, lucid.tensor([0, 0, 1]), y[1:].clone())
    assert y.index_add_(0, lucid.tensor([0, 0, 1]), y[1:]).tolist() == expected.tolist()


def test_keys_of_several_tensors():
    rng = np.random.default_rng(3)
    array = rng.standard_normal((4, 5, 6))
    i, j, k = (rng.integers(-n, n, (2, 3)) for n in array.shape)
    keys = [
        (i, j), (i, j, k), (slice(None), j), (slice(None), j, k), (slice(None), slice(None), k), (i, slice(None), k),
        (slice(None), j[0], k), (i[0], j), (slice(0, 4), j), (..., k), (i, None, k), (slice(None), j[0, 0], k),
    ]  # fmt: skip
    for key in keys:
        x = leaf(rng, 4, 5, 6)
        with lucid.no_grad():
            x.copy_(lucid.tensor(array))
        ours = tuple(lucid.tensor(part) if isinstance(part, np.ndarray) else part for part in key)
        np.testing.assert_array_equal(x[ours].detach().numpy(), array[key])
        values, written = rng.standard_normal(array[key].shape), array.copy()
        written[key] = values
        target = lucid.tensor(array)
        target[ours] = lucid.tensor(values)
        np.testing.assert_array_equal(target.numpy(), written)
        (found,) = lucid.autograd.grad(x[ours].sum(), [x])
        counts = np.zeros_like(array)
        np.add.at(counts, key, 1)
        np.testing.assert_array_equal(found.numpy(), counts)
    with pytest.raises(IndexError):
        lucid.zeros(2, 2)[lucid.tensor([0]), lucid.tensor([0]), lucid.tensor([0])]
    with pytest.raises(IndexError, match="broadcast"):
        lucid.zeros(2, 2)[lucid.tensor([0, 1]), lucid.tensor([0, 1, 1])]


def test_masks_in_index_put():
    x, mask = lucid.zeros(2, 2), lucid.tensor([[True, False], [False, True]])
    assert x.index_put_((mask,), lucid.tensor(3.0)).tolist() == [[3.0, 0.0], [0.0, 3.0]]
    with pytest.raises(RuntimeError, match="types must agree"):
        x.index_put_((mask,), lucid.tensor(1))
    value = lucid.tensor(2.0, requires_grad=True)
    (x.clone().index_put_((mask,), value) * 2).sum().backward()
    assert value.grad.item() == 4.0


def test_masked_scatter_of_plain_tensors():
    mask = lucid.tensor([[True, False, True], [False, True, False]])
    source = lucid.arange(1.0, 5.0)
    out = lucid.zeros(2, 3).masked_scatter(mask, source)
    assert out.tolist() == [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]
    assert lucid.zeros(3, 2).t().masked_scatter_(mask, source).tolist() == out.tolist()
    assert lucid.zeros(3).masked_scatter(mask, source).tolist() == out.tolist()
    assert lucid.zeros(2, 3).masked_scatter(lucid.tensor([True, False, False]), source)[:, 0].tolist() == [1.0, 2.0]
    for call in (lucid.zeros(2, 3).masked_scatter, lucid.zeros(2, 3).masked_scatter_):
        with pytest.raises(RuntimeError, match="selects 3 elements"):
            call(mask, lucid.ones(2))
    x, values = lucid.zeros(2, 3, requires_grad=True), lucid.ones(4, requires_grad=True)
    (x.masked_scatter(mask, values) * lucid.arange(6.0).reshape(2, 3)).sum().backward()
    assert values.grad.tolist() == [0.0, 2.0, 4.0, 0.0] and x.grad[0, 1].item() == 1.0


def test_parts_are_views_that_may_not_be_written_on_the_tape():
    x = lucid.arange(12.0).reshape(3, 4).clone()
    for parts in (x.unbind(1), x.split(2), x.chunk(2, 1), lucid.tensor_split(x, (1, 1, 9)), tuple(x)):
        assert all(p.is_view() and p._base is x for p in parts)
        for p in parts:
            if p.numel():
                p.zero_()
        assert not x.any()
        x.copy_(lucid.arange(12.0).reshape(3, 4))
    leaf = lucid.zeros(2, 2, requires_grad=True)
    first = (leaf * 1).unbind(0)[0]
    with pytest.raises(RuntimeError, match="one of several views"):
        first.add_(1)
    y = lucid.zeros(2, 2)
    first, _ = y.unbind(0)
    with pytest.raises(RuntimeError, match="one of several views"):
        first.mul_(lucid.ones(2, requires_grad=True))
    base = leaf * 1
    with lucid.no_grad():
        first, _ = base.unbind(0)
    with pytest.raises(RuntimeError, match="under no_grad"):
        first.add_(1)
    assert [p.shape for p in lucid.zeros(0, 2).chunk(3)] == [(0, 2)] * 3
    assert lucid.arange(3).unbind()[2].item() == 2 and lucid.zeros(0, 2).unbind() == ()


def test_parts_follow_a_write_of_what_requires_grad():
    base, weight = lucid.zeros(2, 2), lucid.tensor(3.0, requires_grad=True)
    first, _ = base.split(1)
    base.mul_(0).add_(weight)
    first.sum().backward()
    assert weight.grad.item() == 2.0
    rows = lucid.func.vmap(lambda r: lucid.stack(r.unbind(0)[::-1]))(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert rows.tolist() == [[2.0, 1.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    "layout", [lambda x: x, lambda x: np.asfortranarray(x), lambda x: x[::-1, ::2], lambda x: x[1:]]
)
def test_windows_and_diagonals(layout):
    array = layout(np.arange(60.0).reshape(5, 12))
    x = lucid.from_numpy(array)
    for window, step in ((2, 1), (2, 2), (3, 5), (1, 1), (4, 3), (0, 1)):
        expected = np.stack([array[:, i : i + window] for i in range(0, array.shape[1] - window + 1, step)], 1)
        found = x.unfold(1, window, step)
        np.testing.assert_array_equal(found.numpy(), expected)
        if window and step >= window:
            assert found._array.flags.writeable == array.flags.writeable
        elif window and found.shape[1] > 1:
            assert not found._array.flags.writeable
    for offset in range(-6, 14):
        np.testing.assert_array_equal(x.diagonal(offset).numpy(), array.diagonal(offset))
        cube = lucid.from_numpy(array.reshape(array.shape[0], -1, 2, 1))
        np.testing.assert_array_equal(cube.diagonal(offset, 2, 0).numpy(), cube.numpy().diagonal(offset, 2, 0))
    if x.diagonal()._array.flags.writeable:
        x.diagonal().zero_()
        assert not array.diagonal().any()


def test_strided_views():
    x = lucid.arange(12.0)
    with_gradient = x.clone().requires_grad_()
    assert x.as_strided((3, 2), (4, 1), 1).tolist() == [[1.0, 2.0], [5.0, 6.0], [9.0, 10.0]]
    assert x[4:].as_strided((2,), (3,)).tolist() == [4.0, 7.0]
    assert x[4:].as_strided((2,), (3,), 0).tolist() == [0.0, 3.0]
    assert x.reshape(3, 4).as_strided((), ()).item() == 0.0 and x.as_strided((0, 3), (1, 1)).shape == (0, 3)
    overlapping = with_gradient.as_strided((3, 3), (1, 1), 2)
    (found,) = lucid.autograd.grad(overlapping.sum(), [with_gradient])
    assert found.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert not x.as_strided((3, 3), (1, 1))._array.flags.writeable
    x.as_strided((3,), (4,)).fill_(-1)
    assert x[::4].tolist() == [-1.0] * 3
    for wrong in (((13,), (1,), 0), ((3,), (6,), 0), ((1,), (1,), 12)):
        with pytest.raises(RuntimeError, match="reach outside"):
            x.as_strided(*wrong)
    with pytest.raises(RuntimeError, match="must not be negative"):
        x.as_strided((1,), (-1,))


def test_repeat_interleave():
    x = leaf(np.random.default_rng(4), 2, 3)
    for repeats, dim in ((2, 0), (3, 1), (1, 0), (0, 1), (2, None), (lucid.tensor(2), 1), (lucid.tensor([2]), -1)):
        number = repeats if isinstance(repeats, int) else int(repeats.sum())
        out = x.repeat_interleave(repeats, dim)
        np.testing.assert_array_equal(out.detach().numpy(), np.repeat(x.detach().numpy(), number, dim))
        assert not out.is_view() and out.is_contiguous()
        (found,) = lucid.autograd.grad(out.sum(), [x])
        assert found.tolist() == [[float(number)] * 3] * 2
    assert x.repeat_interleave(lucid.tensor([0, 2]), 0).shape == (2, 3)
    assert lucid.tensor(5).repeat_interleave(3).tolist() == [5, 5, 5]
    assert lucid.tensor(5).repeat_interleave(2, 0).tolist() == [5, 5]
    for wrong in (-1, 1.5, True):
        with pytest.raises(RuntimeError, match="must be integers"):
            x.repeat_interleave(wrong, 0)
    with pytest.raises(RuntimeError, match="output_size"):
        x.repeat_interleave(2, 0, output_size=5)
    assert lucid.func.vmap(lambda r: r.repeat_interleave(2))(x.detach()).shape == (2, 6)


def test_parts_replaced():
    x = lucid.arange(9.0).reshape(3, 3)
    for turned in (x, x.t().contiguous().t()):
        assert turned.select_scatter(lucid.zeros(3), 1, -1)[:, 2].tolist() == [0.0] * 3
        assert turned.slice_scatter(lucid.zeros(1, 3), 0, 1, 2)[1].tolist() == [0.0] * 3
        assert turned.diagonal_scatter(lucid.zeros(2), 1).diagonal(1).tolist() == [0.0, 0.0]
        assert turned.tolist() == lucid.arange(9.0).reshape(3, 3).tolist()
    with pytest.raises(RuntimeError, match="types must agree"):
        x.select_scatter(lucid.zeros(3).double(), 1, 0)
    with pytest.raises(RuntimeError, match="place for it"):
        x.select_scatter(lucid.zeros(2), 1, 0)


def test_diagonals_filled():
    for shape, wrap in (((3, 3), False), ((5, 2), False), ((5, 2), True), ((2, 2, 2), False), ((0, 2), False)):
        expected = np.ones(shape)
        if expected.size:
            np.fill_diagonal(expected, 7, wrap)
        for x in (lucid.ones(*shape).double(), lucid.ones(*shape[::-1]).double().permute(*range(len(shape))[::-1])):
            np.testing.assert_array_equal(x.fill_diagonal_(7, wrap).numpy(), expected)
    x = lucid.ones(2, 2, requires_grad=True)
    (x * 1).fill_diagonal_(3).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]
