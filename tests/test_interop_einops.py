"""einops on tensors: the same results as on arrays, with derivatives, inside transforms, and as layers."""

import subprocess
import sys

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.func import grad, vmap

einops = pytest.importorskip("einops")

PATTERNS = [
    *["a b c -> c b a", "a b c -> (a b) c", "a b c -> a 1 (c b)", "a (b1 b2) c -> b2 a (c b1)", "... c -> c ..."],
    *["a b c -> a b c", "a b c -> (c b a)"],
]
SIZES = {"a (b1 b2) c -> b2 a (c b1)": {"b1": 2}}


def sample(dtype=lucid.float64):
    return lucid.arange(24).reshape(2, 4, 3).to(dtype)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rearrange(pattern):
    x = sample()
    found = einops.rearrange(x, pattern, **SIZES.get(pattern, {}))
    assert type(found) is lucid.Tensor
    np.testing.assert_array_equal(found, einops.rearrange(np.asarray(x), pattern, **SIZES.get(pattern, {})))


@pytest.mark.parametrize("operation", ["min", "max", "sum", "mean", "prod"])
@pytest.mark.parametrize("pattern", ["a b c -> b", "a b c -> a 1 c", "a b c ->", "(a 2) b c -> a c", "a ... -> ..."])
def test_reduce_and_its_gradient(operation, pattern):
    x = sample() / 7 + 1
    np.testing.assert_allclose(
        einops.reduce(x, pattern, operation), einops.reduce(np.asarray(x), pattern, operation), rtol=1e-12
    )
    assert lucid.autograd.gradcheck(lambda t: einops.reduce(t, pattern, operation), (x.requires_grad_(),))


@pytest.mark.parametrize("operation", ["any", "all"])
def test_reduce_truth(operation):
    x = sample(lucid.int64) % 3 == 0
    np.testing.assert_array_equal(
        einops.reduce(x, "a b c -> b", operation), einops.reduce(np.asarray(x), "a b c -> b", operation)
    )


def test_reduce_by_a_function():
    x = sample()
    found = einops.reduce(x, "a b c -> b", lambda t, axes: lucid.logsumexp(t, axes))
    np.testing.assert_allclose(found, np.log(np.exp(np.asarray(x)).sum((0, 2))))


def test_mean_of_integers_is_refused_in_words():
    with pytest.raises(Exception, match="not available for non-floating"):
        einops.reduce(sample(lucid.int64), "a b c -> b", "mean")


@pytest.mark.parametrize("pattern", ["a b c -> a b 2 c", "a b c -> (2 a) b c", "a b c -> a (b 3) c"])
def test_repeat_and_its_gradient(pattern):
    x = sample()
    np.testing.assert_array_equal(einops.repeat(x, pattern), einops.repeat(np.asarray(x), pattern))
    assert lucid.autograd.gradcheck(lambda t: einops.repeat(t, pattern), (x.requires_grad_(),))


def test_lists_of_tensors():
    parts = [sample(), 2 * sample()]
    assert einops.rearrange(parts, "n a b c -> a (n b) c").shape == (2, 8, 3)


def test_pack_and_unpack():
    x, y = sample(), sample()[:, 0]
    packed, shapes = einops.pack([x, y], "a * c")
    assert packed.shape == (2, 5, 3)
    first, second = einops.unpack(packed, shapes, "a * c")
    assert lucid.equal(first, x) and lucid.equal(second, y)


def test_einsum_and_its_gradient():
    x, y = sample(), sample().permute(1, 0, 2)
    found = einops.einsum(x, y, "batch row k, row batch k -> batch row")
    np.testing.assert_allclose(found, np.einsum("brk,rbk->br", np.asarray(x), np.asarray(y)))
    assert lucid.autograd.gradcheck(
        lambda a, b: einops.einsum(a, b, "i j k, j i k -> i"), (x.requires_grad_(), y.detach().requires_grad_())
    )


def test_shapes_and_arrays():
    assert einops.parse_shape(sample(), "a _ c") == {"a": 2, "c": 3}
    assert isinstance(einops.asnumpy(sample()), np.ndarray)


def test_inside_transforms():
    x = sample()
    batched = vmap(lambda row: einops.reduce(row, "b c -> c", "max"))(x)
    np.testing.assert_array_equal(batched, np.asarray(x).max(1))
    slope = grad(lambda t: einops.reduce(einops.rearrange(t, "a b c -> c (a b)") ** 2, "c n ->", "sum"))(x)
    np.testing.assert_array_equal(slope, 2 * np.asarray(x))


def test_array_api_door():
    """einops has another door, for whatever follows the standard."""
    from einops import array_api

    x = sample()
    assert array_api.rearrange(x, "a b c -> (a c) b").shape == (6, 4)
    np.testing.assert_array_equal(array_api.reduce(x, "a b c -> b", "max"), np.asarray(x).max((0, 2)))
    assert array_api.repeat(x, "a b c -> a b c 2").shape == (2, 4, 3, 2)


def test_layers():
    from lucid.interop.einops_layers import EinMix, Rearrange, Reduce

    lucid.manual_seed(0)
    net = nn.Sequential(
        Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        Rearrange("b c h w -> b (h w) c"),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=3, d=5),
        nn.ReLU(),
        EinMix("b t (g d) -> b (t g)", weight_shape="g d", g=1, d=5),
    )
    out = net(lucid.randn(2, 3, 4, 4))
    assert out.shape == (2, 4)
    out.sum().backward()
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 5), (1, 1, 5), (1, 5)]
    assert all(p.grad is not None for p in net.parameters())
    assert "Rearrange('b c h w -> b (h w) c')" in repr(net)
    backend = einops._backends.get_backend(out)
    assert backend.layers().Rearrange is Rearrange


@pytest.mark.parametrize("order", ["lucid, einops", "einops, lucid"])
def test_either_may_be_imported_first(order):
    code = f"import {order}; print(einops.rearrange(lucid.zeros(2, 3), 'a b -> b a').shape)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(3, 2)"


def test_lucid_alone_does_not_import_einops():
    code = "import sys, lucid; lucid.zeros(2).sum(); print('einops' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
