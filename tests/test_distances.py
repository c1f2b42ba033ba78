"""Distances between few rows, and vector products: values, gradients and edges of their loops."""

import numpy as np
import pytest

import lucid
from lucid import func, native
from lucid.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(3)


def lengths(x, y):
    return np.sqrt(np.square(x[:, None].astype(np.float64) - y[None]).sum(-1))


def layouts(x):
    yield lucid.tensor(x)
    yield lucid.from_numpy(np.asfortranarray(x))
    yield lucid.from_numpy(np.repeat(x, 2, -1)[..., ::2])
    yield lucid.from_numpy(np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 31, 100])
def test_few_rows(n, dtype):
    x, y = RNG.standard_normal((5, n)).astype(dtype), RNG.standard_normal((7, n)).astype(dtype)
    first = None
    for a in layouts(x):
        d = lucid.cdist(a, lucid.tensor(y))
        first = d if first is None else first
        assert d.numpy().dtype == dtype
        if native.in_use:
            np.testing.assert_array_equal(d.numpy(), first.numpy())
        np.testing.assert_allclose(d.numpy(), lengths(x, y), rtol=20 * np.finfo(dtype).eps)
        pairs = lucid.pdist(a)
        np.testing.assert_allclose(pairs.numpy(), lengths(x, x)[np.triu_indices(5, 1)], rtol=20 * np.finfo(dtype).eps)
        if native.in_use:
            np.testing.assert_array_equal(pairs.numpy(), lucid.cdist(a, a).numpy()[np.triu_indices(5, 1)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_many_rows(n, lead, dtype):
    """Also of several matrices, on all threads, and back; bits do not depend on what is beside a pair of rows."""
    x, y = RNG.standard_normal((*lead, 203, n)).astype(dtype), RNG.standard_normal((*lead, 149, n)).astype(dtype)
    ct = RNG.standard_normal((*lead, 203, 149)).astype(dtype)
    between = x[..., :, None, :].astype(float) - y[..., None, :, :]
    want = np.sqrt(np.square(between).sum(-1))
    a, b = lucid.tensor(x, requires_grad=True), lucid.tensor(y, requires_grad=True)
    d = lucid.cdist(a, b)
    np.testing.assert_allclose(d.detach().numpy(), want, rtol=20 * n * np.finfo(dtype).eps)
    if native.in_use:
        few = lucid.cdist(a.detach()[..., 7:9, :], b.detach()[..., 100:103, :])
        np.testing.assert_array_equal(few.numpy(), d.detach().numpy()[..., 7:9, 100:103])
    weighted = (ct / want)[..., None] * between
    for found, exact in zip(
        lucid.autograd.grad(d, (a, b), lucid.tensor(ct)), (weighted.sum(-2), -weighted.sum(-3)), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), exact, rtol=1e-4, atol=500 * np.finfo(dtype).eps)


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_pairs_of_rows(count, p):
    x = RNG.standard_normal((count, 3))
    want = np.linalg.norm(x[:, None] - x[None], p, -1)[np.triu_indices(count, 1)]
    np.testing.assert_allclose(lucid.pdist(lucid.tensor(x), p).numpy(), want, rtol=1e-7)
    assert lucid.pdist(lucid.zeros(count, 0), p).tolist() == [0] * len(want)


def test_gradients_of_distances():
    x, y = (lucid.tensor(RNG.standard_normal((n, 3)), requires_grad=True) for n in (4, 5))
    assert gradcheck(lucid.cdist, (x, y)) and gradgradcheck(lucid.cdist, (x, y))
    assert gradcheck(lucid.pdist, (x,)) and gradgradcheck(lucid.pdist, (x,))
    assert gradcheck(lambda a: lucid.cdist(a, y.detach()), (x,)) and gradcheck(lambda a: lucid.cdist(a, a[1:]), (x,))
    close = lucid.tensor(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]]), requires_grad=True)
    lucid.pdist(close).sum().backward()
    np.testing.assert_allclose(close.grad.numpy(), [[0, -1], [0, 1]], atol=1e-12)
    same = lucid.ones(3, 2, requires_grad=True)
    (lucid.pdist(same).sum() + lucid.cdist(same, same).sum()).backward()
    assert same.grad.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_out_of_the_range_of_squares(dtype):
    limits = np.finfo(dtype)
    for size in (float(limits.max) / 8, float(limits.tiny) * 8):
        x = np.array([[0, 0], [3, 4]], dtype) * dtype(size / 4)
        np.testing.assert_allclose(lucid.pdist(lucid.tensor(x)).numpy(), [size / 4 * 5], rtol=1e-5)
    x = lucid.tensor([[np.inf, 0.0], [np.inf, 1.0], [np.nan, 0.0], [0.0, 0.0]])
    got = lucid.cdist(x, x).numpy()
    assert np.isnan(got[2]).all() and np.isnan(got[0, 1]) and got[0, 3] == np.inf and got[3, 3] == 0


def test_distances_in_transforms():
    x = lucid.tensor(RNG.standard_normal((2, 4, 3)))
    each = [lucid.pdist(v).numpy() for v in x]
    np.testing.assert_allclose(func.vmap(lucid.pdist)(x).numpy(), each, rtol=1e-12)
    out, change = func.jvp(lucid.pdist, (x[0],), (x[1],))
    step = 1e-6
    near = (lucid.pdist(x[0] + step * x[1]) - lucid.pdist(x[0] - step * x[1])) / (2 * step)
    np.testing.assert_allclose(change.numpy(), near.numpy(), rtol=1e-6, atol=1e-8)
    compiled = lucid.compile(lambda a: lucid.pdist(a) * 2)
    np.testing.assert_allclose(compiled(x[0]).numpy(), out.numpy() * 2, rtol=1e-12)


# --- vector products -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.int32, np.uint8])
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((4, 3), 1), ((3, 4), 0), ((2, 3, 5), 1), ((0, 3), 1)])
def test_vector_products(shape, dim, dtype):
    numbers = [RNG.standard_normal(shape) * 20 for _ in range(2)]
    x, y = (np.abs(n).astype(dtype) if dtype is np.uint8 else n.astype(dtype) for n in numbers)
    want = np.cross(x, y, axis=dim)
    for a in layouts(x) if len(shape) == 2 and x.size else (lucid.tensor(x),):
        got = lucid.linalg.cross(a, lucid.tensor(y), dim=dim).numpy()
        np.testing.assert_array_equal(got, want) if dtype is not np.complex64 else np.testing.assert_allclose(got, want)
        assert got.dtype == dtype


def test_a_vector_has_no_product_with_itself():
    x = lucid.tensor(RNG.standard_normal((50, 3)).astype(np.float32))
    assert not lucid.cross(x, x, dim=1).any() and not lucid.cross(x[0], x[0]).any()


def test_gradients_of_vector_products():
    x, y = (lucid.tensor(RNG.standard_normal(shape), requires_grad=True) for shape in ((4, 3), (1, 3)))
    assert gradcheck(lucid.linalg.cross, (x, y)) and gradgradcheck(lucid.linalg.cross, (x, y))
    z = lucid.tensor(RNG.standard_normal((3, 2)) + 1j, requires_grad=True)
    w = lucid.tensor(RNG.standard_normal((3, 2)) - 2j, requires_grad=True)
    assert gradcheck(lambda a, b: lucid.cross(a, b, 0), (z, w))
    batched = func.vmap(lambda a: lucid.cross(a, y.detach()[0]))(x.detach())
    np.testing.assert_array_equal(batched.numpy(), np.cross(x.detach().numpy(), y.detach().numpy()))


def test_vector_products_of_booleans_are_refused():
    with pytest.raises(TypeError, match="cross does not take booleans"):
        lucid.cross(lucid.ones(3, dtype=lucid.bool), lucid.ones(3, dtype=lucid.bool))
