"""Attention without mask and dropout, head by head, against plain formulas in double precision."""

import numpy as np
import pytest

import lucid
from lucid import func
from lucid.autograd import gradcheck, gradgradcheck
from lucid.backends.cpu import attention
from lucid.nn.functional.attention import scaled_dot_product_attention

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
causal_or_not = pytest.mark.parametrize("causal", [False, True])

# (queries, keys, size, size of the values)
LENGTHS = [(n, m, 5, 3) for n in (1, 7, 17, 33, 64, 67, 256) for m in (1, 7, 17, 33, 64, 67, 256)]
WIDTHS = [(9, 11, n, m) for n in (1, 7, 17, 33) for m in (1, 31, 32, 70)]


def numbers(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, wanted, dtype):
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def weights(q, k, scale, causal):
    """Softmax of the scores, row by row."""
    s = scale * np.einsum("bhid,bhjd->bhij", q, k)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference(q, k, v, g, scale, causal):
    """The result and the cotangents of q, k and v."""
    q, k, v, g = (a.astype(np.float64) for a in (q, k, v, g))
    p = weights(q, k, scale, causal)
    dp = np.einsum("bhid,bhjd->bhij", g, v)
    ds = scale * p * (dp - (p * dp).sum(-1, keepdims=True))
    return (
        np.einsum("bhij,bhjd->bhid", p, v),
        np.einsum("bhij,bhjd->bhid", ds, k),
        np.einsum("bhij,bhid->bhjd", ds, q),
        np.einsum("bhij,bhid->bhjd", p, g),
    )


def operands(lengths, dtype, lead=(2, 3)):
    queries, keys, size, values = lengths
    shapes = ((queries, size), (keys, size), (keys, values), (queries, values))
    return [numbers(*lead, *shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


def everything(q, k, v, g, scale, causal, needs=(True, True, True)):
    out, p = attention.forward(q, k, v, scale, causal)
    return out, *attention.backward(g, q, k, v, p, scale, causal, needs)


@both
@causal_or_not
@pytest.mark.parametrize("lengths", LENGTHS + WIDTHS, ids=str)
def test_results_and_cotangents(lengths, causal, dtype):
    q, k, v, g = operands(lengths, dtype)
    for found, wanted in zip(everything(q, k, v, g, 0.4, causal), reference(q, k, v, g, 0.4, causal), strict=True):
        close(found, wanted, dtype)


@causal_or_not
def test_work_for_several_threads(causal):
    q, k, v, g = operands((130, 140, 40, 40), np.float32, lead=(3, 11))
    for found, wanted in zip(everything(q, k, v, g, 0.1, causal), reference(q, k, v, g, 0.1, causal), strict=True):
        close(found, wanted, np.float32)


def split_heads(x):
    """The same numbers, lying as a projection to queries, keys and values leaves them."""
    joined = np.zeros((x.shape[0], x.shape[2], 3, x.shape[1], x.shape[3]), x.dtype)
    joined[:, :, 1] = x.swapaxes(1, 2)
    return joined[:, :, 1].swapaxes(1, 2)


def at_odd_addresses(x):
    record = np.zeros(x.shape, np.dtype([("before", np.uint8), ("x", x.dtype)]))
    record["x"] = x
    return record["x"]


ORDERS = {
    "split": split_heads,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3),
    "backwards": lambda x: np.ascontiguousarray(x[::-1, :, ::-1, ::-1])[::-1, :, ::-1, ::-1],
    "every second": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "odd addresses": at_odd_addresses,
}


@both
@pytest.mark.parametrize("order", ORDERS)
def test_any_order_in_memory(order, dtype):
    plain = operands((10, 12, 5, 7), dtype)
    moved = [ORDERS[order](x) for x in plain]
    for found, wanted in zip(everything(*moved, 0.5, True), reference(*plain, 0.5, True), strict=True):
        close(found, wanted, dtype)


@both
def test_repeated_memory(dtype):
    q, k, v, g = operands((6, 6, 4, 4), dtype)
    k, g = np.broadcast_to(k[:, :1], k.shape), np.broadcast_to(g[..., :1], g.shape)
    for found, wanted in zip(everything(q, k, v, g, 0.5, False), reference(q, k, v, g, 0.5, False), strict=True):
        close(found, wanted, dtype)


@pytest.mark.parametrize("needs", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_what_is_needed(needs):
    q, k, v, g = operands((40, 41, 4, 3), np.float64)
    found, wanted = everything(q, k, v, g, 0.5, True, needs)[1:], reference(q, k, v, g, 0.5, True)[1:]
    for need, mine, right in zip(needs, found, wanted, strict=True):
        assert (mine is not None) == need
        if need:
            close(mine, right, np.float64)


@both
@causal_or_not
def test_large_scores_do_not_overflow(causal, dtype):
    q, k, v, g = operands((20, 20, 6, 6), dtype)
    found = everything(q * 100, k * 100, v, g, 1.0, causal)
    assert all(np.isfinite(x).all() for x in found)
    np.testing.assert_allclose(found[0], reference(q * 100, k * 100, v, g, 1.0, causal)[0], atol=1e-2)


@both
def test_scores_that_are_no_numbers(dtype):
    q = np.ones((1, 1, 3, 1), dtype)
    k, v = np.array([1.0, 2.0, -np.inf], dtype).reshape(1, 1, 3, 1), np.ones((1, 1, 3, 1), dtype)
    close(attention.forward(q, k, v, 1.0, False)[0], np.ones((1, 1, 3, 1)), dtype)
    close(attention.forward(q, np.full_like(k, -np.inf), v, 1.0, False)[0], np.zeros((1, 1, 3, 1)), dtype)
    for strange in (np.nan, np.inf):
        k[0, 0, 1] = strange
        assert np.isnan(attention.forward(q, k, v, 1.0, False)[0]).all()


@both
def test_keys_that_come_later_do_no_harm(dtype):
    q, k, v = operands((40, 40, 4, 3), dtype)[:3]
    wanted = attention.forward(q, k, v, 0.5, True)[0]
    k[:, :, 30:] = np.nan
    close(attention.forward(q, k, v, 0.5, True)[0][:, :, :30], wanted[:, :, :30], dtype)


@causal_or_not
@pytest.mark.parametrize("lead", [(), (2,), (2, 2), (2, 1, 2), (1, 2, 1, 2)], ids=str)
def test_derivatives_for_any_leading_dimensions(lead, causal):
    leaves = [lucid.tensor(x).requires_grad_() for x in operands((9, 6, 3, 2), np.float64, lead)[:3]]

    def attend(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    assert attend(*leaves).shape == (*lead, 9, 2)
    assert gradcheck(attend, leaves)
    assert gradgradcheck(attend, leaves)


def test_forward_mode_and_batches_agree():
    q, k, v, g = (lucid.tensor(x) for x in operands((9, 6, 3, 2), np.float64, (4, 2)))
    out, pull = func.vjp(scaled_dot_product_attention, q, k, v)
    _, change = func.jvp(scaled_dot_product_attention, (q, k, v), (q, k, v))
    paired = sum((d * x).sum() for d, x in zip(pull(g), (q, k, v), strict=True))
    np.testing.assert_allclose((change * g).sum().item(), paired.item())
    np.testing.assert_allclose(func.vmap(scaled_dot_product_attention)(q, k, v).numpy(), out.numpy())


def test_joining_heads_of_a_result():
    q, k, v = (lucid.tensor(x).requires_grad_() for x in operands((9, 9, 4, 4), np.float32)[:3])
    out = scaled_dot_product_attention(q, k, v, is_causal=True)
    joined = out.transpose(1, 2).reshape(2, 9, 12)
    (joined * joined).sum().backward()
    wanted = reference(*(x.detach().numpy() for x in (q, k, v)), 2 * out.detach().numpy(), 0.5, True)
    close(joined.detach().numpy(), wanted[0].swapaxes(1, 2).reshape(2, 9, 12), np.float32)
    for leaf, right in zip((q, k, v), wanted[1:], strict=True):
        close(leaf.grad.numpy(), right, np.float32)
