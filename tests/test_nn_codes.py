"""Layers for codes, positions and noise, attention with shared keys, caches, samplers for replicas, mixed batches."""

import copy
import doctest

import numpy as np
import pytest

import lucid
from lucid import data, nn
from lucid.nn import functional as F
from lucid.nn.layers import attention, noisy, positions, quantization
from lucid.utils import cache

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("module", [attention, noisy, positions, quantization, cache], ids=lambda m: m.__name__)
def test_examples_run(module):
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0


def test_symlog_is_inverted_by_symexp():
    x = lucid.linspace(-50, 50, 101, dtype=lucid.float64)
    np.testing.assert_allclose(F.symexp(F.symlog(x)).numpy(), x.numpy(), atol=1e-12)


def test_two_hot_keeps_the_mean():
    bins = lucid.tensor([-3.0, -1.0, 0.0, 5.0], dtype=lucid.float64)
    x = lucid.tensor(np.random.RandomState(0).uniform(-3, 5, (4, 5)))
    weights = F.two_hot(x, bins)
    np.testing.assert_allclose((weights * bins).sum(-1).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(weights.sum(-1).numpy(), 1)
    with pytest.raises(ValueError, match="two bins"):
        F.two_hot(x, bins[:1])


def test_vector_quantizer():
    lucid.manual_seed(0)
    layer = nn.VectorQuantizer(5, 3, commitment_cost=0.5, dtype=lucid.float64)
    x = lucid.rand(4, 2, 3, dtype=lucid.float64).requires_grad_()
    out = layer(x)
    distances = ((x.detach().numpy()[..., None, :] - layer.weight.detach().numpy()) ** 2).sum(-1)
    np.testing.assert_array_equal(out.indices.numpy(), distances.argmin(-1))
    np.testing.assert_allclose(out.quantized.detach().numpy(), layer.lookup(out.indices).detach().numpy())
    out.quantized.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((4, 2, 3)))
    assert layer.weight.grad is None
    x.grad = None
    layer.loss(layer(x)).backward()
    difference = x.detach() - layer.lookup(out.indices).detach()
    np.testing.assert_allclose(x.grad.numpy(), (0.5 * 2 * difference / x.numel()).numpy())
    want = np.zeros((5, 3))
    np.add.at(want, out.indices.numpy().reshape(-1), (-2 * difference / x.numel()).numpy().reshape(-1, 3))
    np.testing.assert_allclose(layer.weight.grad.numpy(), want)
    p = np.bincount(out.indices.numpy().reshape(-1), minlength=5) / 8
    assert out.perplexity.item() == pytest.approx(np.exp(-(p * np.log(p + 1e-10)).sum()))
    with pytest.raises(ValueError, match="trailing axis"):
        layer(x[..., :2])
    for wrong in ((0, 3), (5, 0), (5, 3, -1.0)):
        with pytest.raises(ValueError, match="VectorQuantizer"):
            nn.VectorQuantizer(*wrong)


@pytest.mark.parametrize("bias", [True, False])
def test_noisy_linear(bias):
    lucid.manual_seed(0)
    layer = nn.NoisyLinear(3, 2, bias=bias)
    x = lucid.rand(4, 3)
    first = layer(x)
    f = lambda t: np.sign(t) * np.sqrt(np.abs(t))  # as in the formula
    inner, outer = f(layer.noise_in.numpy()), f(layer.noise_out.numpy())
    weight = layer.weight_mu.detach().numpy() + layer.weight_sigma.detach().numpy() * np.outer(outer, inner)
    want = x.numpy() @ weight.T
    if bias:
        want = want + layer.bias_mu.detach().numpy() + layer.bias_sigma.detach().numpy() * outer
    np.testing.assert_allclose(first.detach().numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(layer.weight_sigma.detach().numpy(), 0.5 / np.sqrt(3))
    layer.resample()
    assert not np.allclose(layer(x).detach().numpy(), first.detach().numpy())
    plain = F.linear(x, layer.weight_mu, layer.bias_mu)
    np.testing.assert_array_equal(layer.eval()(x).detach().numpy(), plain.detach().numpy())
    with pytest.raises(ValueError, match="sigma_zero"):
        nn.NoisyLinear(3, 2, sigma_zero=0)
    with pytest.raises(ValueError, match="come together"):
        F.noisy_linear(x, layer.weight_mu, layer.weight_sigma, lucid.zeros(2))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_fused_linear(activation):
    layer = nn.FusedLinear(3, 2, activation)
    x = lucid.rand(4, 3) - 0.5
    plain = F.linear(x, layer.weight, layer.bias)
    want = plain.relu() if activation == "relu" else F.gelu(plain, approximate="tanh")
    np.testing.assert_allclose(layer(x).detach().numpy(), want.detach().numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="unsupported activation"):
        nn.FusedLinear(3, 2, "tanh")


def test_positions():
    table = nn.SinusoidalEmbedding(7, 6)()
    p, i = np.arange(7)[:, None], np.arange(3)
    angles = p * 10000.0 ** (-2 * i / 6)
    np.testing.assert_allclose(table.numpy()[:, ::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(table.numpy()[:, 1::2], np.cos(angles), atol=1e-6)
    plane = nn.SinusoidalEmbedding2D(2, 3, 8)().reshape(2, 3, 8)
    np.testing.assert_array_equal(plane[0, :, :4].numpy(), F.sinusoidal_embedding(3, 4).numpy())
    np.testing.assert_array_equal(plane[:, 1, 4:].numpy(), F.sinusoidal_embedding(2, 4).numpy())
    assert list(nn.SinusoidalEmbedding(7, 6).state_dict()) == []
    for wrong in (lambda: nn.SinusoidalEmbedding(3, 5), lambda: nn.SinusoidalEmbedding2D(3, 3, 6), lambda: nn.RotaryEmbedding(3, 2), lambda: nn.TimestepEmbedding(3, 2)):  # fmt: skip
        with pytest.raises(ValueError, match=r"even|divisible by 4"):
            wrong()


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotations_make_scores_depend_on_distances(interleaved):
    """⟨R(m) q, R(n) k⟩ depends on n - m alone, and positions may be picked."""
    lucid.manual_seed(0)
    cos, sin = nn.RotaryEmbedding(8, 16)()
    if interleaved:
        cos, sin = (t[:, :4].repeat_interleave(2, 1) for t in (cos, sin))
    q, k = lucid.rand(1, 1, 1, 8).expand(1, 1, 10, 8), lucid.rand(1, 1, 1, 8).expand(1, 1, 10, 8)
    a, b = F.apply_rotary_emb(q, k, cos, sin, interleaved=interleaved)
    scores = (a @ b.mT)[0, 0].numpy()
    for shift in range(-4, 5):
        diagonal = np.diagonal(scores, shift)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-4)
    ids = lucid.arange(3, 13).unsqueeze(0)
    shifted, _ = F.apply_rotary_emb(q, k, cos, sin, ids, interleaved=interleaved)
    np.testing.assert_allclose(shifted[0, 0, :7].numpy(), a[0, 0, 3:].numpy(), rtol=1e-5, atol=1e-6)


def test_timesteps():
    layer = nn.TimestepEmbedding(6, 4)
    times = lucid.tensor([[0, 5], [2, 7]])
    rates = 10000.0 ** (-np.arange(3) / 2)
    angles = times.numpy()[..., None] * rates
    first = np.concatenate([np.cos(angles), np.sin(angles)], -1)
    want = layer.linear_2(nn.SiLU()(layer.linear_1(lucid.tensor(first, dtype=lucid.float32))))
    np.testing.assert_allclose(layer(times).detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_first", [True, False])
def test_shared_heads_are_repeated_ones(batch_first):
    lucid.manual_seed(0)
    grouped = nn.GroupedQueryAttention(12, 6, 2, batch_first=batch_first)
    full = nn.MultiheadAttention(12, 6, batch_first=batch_first, kdim=12, vdim=12)
    with lucid.no_grad():
        repeated = [w.unflatten(0, (2, 2)).repeat_interleave(3, 0).flatten(0, 1) for w in (grouped.k_proj_weight, grouped.v_proj_weight)]  # fmt: skip
        full.in_proj_weight.copy_(lucid.cat([grouped.q_proj_weight, *repeated]))
        nn.init.normal_(grouped.in_proj_bias)
        q, k, v = grouped.in_proj_bias.split([12, 4, 4])
        wide = [b.unflatten(0, (2, 2)).repeat_interleave(3, 0).flatten() for b in (k, v)]
        full.in_proj_bias.copy_(lucid.cat([q, *wide]))
        full.out_proj.load_state_dict(grouped.out_proj.state_dict())
    x = lucid.rand(4, 5, 12)
    for a, b in zip(grouped(x, x, x), full(x, x, x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert nn.MultiQueryAttention(12, 6).num_kv_heads == 1 and full.num_kv_heads == 6
    with pytest.raises(ValueError, match="num_kv_heads"):
        nn.GroupedQueryAttention(12, 6, 4)


def test_caches_hold_what_was_added():
    steps = [(lucid.rand(2, 3, n, 4), lucid.rand(2, 3, n, 4)) for n in (2, 1, 3)]
    dynamic, static = cache.DynamicCache(), cache.StaticCache(6)
    for layer in (0, 1):
        for i, (k, v) in enumerate(steps):
            for held in (dynamic, static):
                keys, values = held.update(k, v, layer)
                np.testing.assert_array_equal(keys.numpy(), lucid.cat([s[0] for s in steps[: i + 1]], 2).numpy())
                np.testing.assert_array_equal(values.numpy(), lucid.cat([s[1] for s in steps[: i + 1]], 2).numpy())
    assert len(dynamic) == 2 and dynamic.get_seq_length(1) == static.get_seq_length(1) == 6
    with pytest.raises(ValueError, match="do not fit"):
        static.update(*steps[0], 0)
    other = copy.deepcopy(dynamic)
    other.reorder_cache(lucid.tensor([1, 0]))
    np.testing.assert_array_equal(other[0][0].numpy(), dynamic[0][0].flip(0).numpy())
    dynamic.crop(4)
    assert dynamic.get_seq_length() == 4
    both = cache.EncoderDecoderCache(cache.DynamicCache(), cache.DynamicCache())
    both.update(*steps[0], 0)
    both.update(*steps[2], 0, {"is_cross_attention": True})
    assert (
        both.get_seq_length() == 2 and both.cross_attention_cache.get_seq_length() == 3 and both.is_updated == {0: True}
    )
    for held in (dynamic, static, both):
        held.reset()
        assert held.get_seq_length() == 0


def test_replicas_share_the_dataset():
    for count, parts, drop in ((10, 3, False), (10, 3, True), (2, 5, False)):
        samplers = [data.DistributedSampler(range(count), parts, rank, seed=3, drop_last=drop) for rank in range(parts)]
        for s in samplers:
            s.set_epoch(2)
        found = [list(s) for s in samplers]
        assert all(len(f) == len(s) for f, s in zip(found, samplers, strict=True))
        seen = {i for part in found for i in part}
        assert len(seen) == (count // parts * parts if drop else count)
    again = data.DistributedSampler(range(10), 1, 0, seed=3)
    first = list(again)
    assert list(again) == first
    again.set_epoch(1)
    assert list(again) != first
    repeated = [list(data.RASampler(range(8), 2, rank, shuffle=False)) for rank in (0, 1)]
    assert repeated == [[0, 0, 0, 1], [4, 4, 4, 5]]
    for wrong in ({"num_replicas": 0}, {"num_replicas": 2, "rank": 2}):
        with pytest.raises(ValueError, match="DistributedSampler"):
            data.DistributedSampler(range(4), **wrong)


def test_mixed_batches():
    lucid.manual_seed(0)
    batch = [(lucid.full((1, 8, 8), float(i)), i) for i in range(4)]
    values = np.arange(4.0)
    for collate in (data.MixupCollator(num_classes=4), data.CutMixCollator(num_classes=4), data.RandomMixupCutMixCollator(num_classes=4)):  # fmt: skip
        for _ in range(5):
            images, targets = collate(batch)
            np.testing.assert_allclose(images.mean((1, 2, 3)).numpy(), targets.numpy() @ values, atol=1e-5)
            np.testing.assert_allclose(targets.sum(1).numpy(), 1, rtol=1e-6)
    images, targets = data.MixupCollator(num_classes=4, p=0.0)(batch)
    np.testing.assert_array_equal(targets.numpy(), np.eye(4))
    for wrong in ({"alpha": 0}, {"p": 2.0}, {"num_classes": 0}):
        with pytest.raises(ValueError, match="MixupCollator"):
            data.MixupCollator(**{"num_classes": 4, **wrong})


def test_noam():
    optimizer = lucid.optim.SGD([lucid.zeros(1)], lr=9.0)
    schedule = lucid.optim.lr_scheduler.NoamLR(optimizer, 16, 3)
    found = []
    for _ in range(6):
        found.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    want = [0.25 * min(max(1, s) ** -0.5, max(1, s) * 3**-1.5) for s in range(6)]
    np.testing.assert_allclose(found, want)


def test_a_window_with_an_exponent():
    k = np.arange(7) - 3
    np.testing.assert_allclose(
        lucid.signal.windows.general_gaussian(7, 1.5, 2.0).numpy(), np.exp(-0.5 * np.abs(k / 2) ** 3), rtol=1e-6
    )
    g = lucid.signal.windows
    np.testing.assert_allclose(
        g.general_gaussian(6, sig=2.0, sym=False).numpy(), g.gaussian(6, std=2.0, sym=False).numpy()
    )


def test_folders_hold_checkpoints(tmp_path):
    state = nn.Linear(30, 40).state_dict()
    lucid.save_sharded(state, tmp_path / "a", shard_size_mb=0.003)
    assert len(list((tmp_path / "a").glob("*.safetensors"))) > 1
    for name, value in lucid.load_sharded(str(tmp_path / "a")).items():
        np.testing.assert_array_equal(value.numpy(), state[name].numpy())
    with pytest.raises(TypeError, match="folder"):
        lucid.save_sharded(state, 3)
    with pytest.raises(ValueError, match="positive"):
        lucid.save_sharded(state, tmp_path / "b", shard_size_mb=0)
