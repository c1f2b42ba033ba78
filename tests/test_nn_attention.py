"""Attention and transformers: values, masks, dropout, transforms and errors."""

import numpy as np
import pytest
from scipy.special import softmax

import lucid
from lucid import func
from lucid.autograd import gradcheck, gradgradcheck
from lucid.nn.functional import attention as F
from lucid.nn.layers.attention import MultiheadAttention
from lucid.nn.layers.linear import Linear
from lucid.nn.layers.normalization import LayerNorm
from lucid.nn.layers.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from lucid.ops.nn.attention import attention

RNG = np.random.default_rng()


@pytest.fixture(autouse=True)
def same_numbers_in_every_order():
    RNG.bit_generator.state = np.random.default_rng(7).bit_generator.state
    lucid.manual_seed(7)


def numbers(*shape):
    return RNG.standard_normal(shape)


def tensors(*shapes, scale=1.0):
    return [lucid.tensor(numbers(*s) * scale).requires_grad_() for s in shapes]


def gradients(outs, leaves):
    weights = lucid.tensor(np.cos(np.arange(outs.numel())).reshape(outs.shape))
    return lucid.autograd.grad(outs, leaves, weights)


SHAPES = [
    ((5, 4), (6, 4), (6, 3)),
    ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 3)),
    ((5, 4), (2, 6, 4), (3, 1, 6, 3)),
    ((2, 5, 4), (2, 300, 4), (2, 300, 270)),
]


@pytest.mark.parametrize("scale", [0.5, 400.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("extra", ["nothing", "mask", "dropout"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_kernels_agree_with_their_composite(shapes, extra, causal, scale):
    q, k, v = leaves = tensors(*shapes)
    mask = keep = None
    if extra == "mask":
        (mask,) = tensors((shapes[0][-2], shapes[1][-2]))
        leaves = [*leaves, mask]
    if extra == "dropout":
        keep = lucid.tensor((numbers(shapes[0][-2], shapes[1][-2]) > 0) * 2.0)
    found = []
    for run in (attention, attention.composite):
        out = run(q, k, v, mask, keep, scale=scale, causal=causal)
        found.append([out, *gradients(out, leaves)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-9, 1e-9)


def test_large_scores_stay_finite_in_single_precision():
    for factor in (1, 10, 1000):
        q = lucid.tensor((numbers(3, 4) * factor).astype(np.float32)).requires_grad_()
        out = F.scaled_dot_product_attention(q, q, q)
        s = q.detach().numpy().astype(float) @ q.detach().numpy().T.astype(float) / 2
        np.testing.assert_allclose(out.detach().numpy(), softmax(s, -1) @ q.detach().numpy(), 2e-4, 1e-5)
        out.sum().backward()
        assert np.isfinite(q.grad.numpy()).all()


def test_very_negative_scores_are_no_division_by_zero():
    q, k = lucid.full((2, 1), 30.0), lucid.tensor([[-30.0], [-31.0]])
    out = F.scaled_dot_product_attention(q, k, lucid.tensor([[1.0], [2.0]]), scale=1.0)
    np.testing.assert_allclose(out.numpy(), 1.0, 1e-6)


def test_a_row_that_sees_nothing_is_zero_with_zero_gradients():
    q, k, v = tensors((2, 3), (4, 3), (4, 2))
    mask = lucid.tensor([[True, False, True, False], [False, False, False, False]])
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert out[1].tolist() == [0, 0] and out[0].tolist() != [0, 0]
    (dq,) = gradients(out, [q])
    assert dq[1].tolist() == [0, 0, 0] and np.isfinite(dq.numpy()).all()


def test_masks_of_both_kinds_mean_the_same():
    q, k, v = tensors((2, 5, 4), (2, 6, 4), (2, 6, 3))
    seen = numbers(5, 6) > -0.5
    added = np.where(seen, 0.0, -np.inf)
    a, b = (F.scaled_dot_product_attention(q, k, v, lucid.tensor(m)) for m in (seen, added))
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    causal = F.scaled_dot_product_attention(q, k, v, lucid.tensor(np.tril(np.ones((5, 6), bool))))
    np.testing.assert_allclose(
        causal.detach().numpy(), F.scaled_dot_product_attention(q, k, v, is_causal=True).detach().numpy()
    )


def test_what_is_hidden_does_not_matter():
    q, k, v = tensors((3, 4), (3, 4), (3, 2))
    before = F.scaled_dot_product_attention(q, k, v, is_causal=True).detach().numpy()
    changed_k, changed_v = k.detach().clone(), v.detach().clone()
    changed_k[2], changed_v[2] = 100.0, -50.0
    after = F.scaled_dot_product_attention(q, changed_k, changed_v, is_causal=True).detach().numpy()
    np.testing.assert_array_equal(before[:2], after[:2])
    assert not np.allclose(before[2], after[2])


def test_groups_of_queries_share_keys():
    q, k, v = tensors((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 2))
    grouped = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    repeated = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    for a, b in zip(
        [grouped, *gradients(grouped, [q, k, v])], [repeated, *gradients(repeated, [q, k, v])], strict=True
    ):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-12, 1e-12)


def test_dropout_drops_weights_and_keeps_the_mean():
    q, k, v = lucid.zeros(1, 2), lucid.zeros(1000, 2), lucid.ones(1000, 1)
    lucid.manual_seed(3)
    first = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).item()
    lucid.manual_seed(3)
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).item() == first
    assert first != 1 and abs(first - 1) < 0.1
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).item() == 0


def test_attention_under_vmap_and_both_modes():
    q, k, v = (numbers(3, 5, 4), numbers(6, 4), numbers(3, 6, 2))

    def run(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    found = func.vmap(run, in_dims=(0, None, 0))(*map(lucid.tensor, (q, k, v)))
    want = [run(lucid.tensor(q[i]), lucid.tensor(k), lucid.tensor(v[i])).numpy() for i in range(3)]
    np.testing.assert_allclose(found.numpy(), np.stack(want), 1e-12, 1e-12)
    hessian = func.hessian(lambda q: run(q, lucid.tensor(k), lucid.tensor(v[0])).square().sum())(lucid.tensor(q[0]))
    np.testing.assert_allclose(hessian.numpy().reshape(20, 20), hessian.numpy().reshape(20, 20).T, 1e-8, 1e-8)


def test_no_keys_give_zeros():
    (q,) = tensors((2, 3))
    empty = lucid.zeros(0, 3, dtype=lucid.float64)
    out = F.scaled_dot_product_attention(q, empty, empty)
    assert out.tolist() == [[0, 0, 0], [0, 0, 0]] and gradients(out, [q])[0].tolist() == [[0, 0, 0], [0, 0, 0]]
    found = func.vmap(lambda q: F.scaled_dot_product_attention(q, empty, empty))(q.detach()[:, None])
    assert found.shape == (2, 1, 3)
    _, change = func.jvp(lambda q: F.scaled_dot_product_attention(q, empty, empty), (q.detach(),), (q.detach(),))
    assert not change.numpy().any()


def test_half_precision():
    q, k, v = (t.detach().to("float16") for t in tensors((5, 4), (6, 4), (6, 3)))
    out = F.scaled_dot_product_attention(q, k, v, lucid.zeros(5, 6))
    assert out.dtype == lucid.float16
    wide = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    np.testing.assert_allclose(out.float().numpy(), wide.numpy(), 1e-2, 1e-2)


def by_hand(layer, query, key, value, hidden=None):
    """Attention with several heads from its definition, for (length, size)."""
    w, b = (p.detach().numpy() for p in (layer.in_proj_weight, layer.in_proj_bias))
    size = layer.embed_dim
    q, k, v = (
        t @ w[i * size : (i + 1) * size].T + b[i * size : (i + 1) * size] for i, t in enumerate((query, key, value))
    )
    outs, weights = [], []
    for h in range(layer.num_heads):
        at = slice(h * layer.head_dim, (h + 1) * layer.head_dim)
        scores = q[:, at] @ k[:, at].T / np.sqrt(layer.head_dim)
        if hidden is not None:
            scores = np.where(hidden, -np.inf, scores)
        weights.append(softmax(scores, -1))
        outs.append(weights[-1] @ v[:, at])
    joined = np.concatenate(outs, -1)
    out = joined @ layer.out_proj.weight.detach().numpy().T + layer.out_proj.bias.detach().numpy()
    return out, np.stack(weights)


@pytest.fixture
def heads():
    lucid.manual_seed(1)
    layer = MultiheadAttention(6, 3).double()
    with lucid.no_grad():
        for p in layer.parameters():
            p.copy_(lucid.tensor(numbers(*p.shape)))
    return layer


def test_multihead_attention_by_hand(heads):
    q, k, v = numbers(4, 6), numbers(5, 6), numbers(5, 6)
    hidden = np.array([[False, True, False, False, True]] * 4)
    for call, mask in (({}, None), ({"attn_mask": lucid.tensor(hidden)}, hidden)):
        out, weights = heads(*map(lucid.tensor, (q, k, v)), **call, average_attn_weights=False)
        want, want_weights = by_hand(heads, q, k, v, mask)
        np.testing.assert_allclose(out.detach().numpy(), want, 1e-10, 1e-10)
        np.testing.assert_allclose(weights.detach().numpy(), want_weights, 1e-10, 1e-10)
        _, mean = heads(*map(lucid.tensor, (q, k, v)), **call)
        np.testing.assert_allclose(mean.detach().numpy(), want_weights.mean(0), 1e-10, 1e-10)
        fast, nothing = heads(*map(lucid.tensor, (q, k, v)), **call, need_weights=False)
        np.testing.assert_allclose(fast.detach().numpy(), want, 1e-10, 1e-10)
        assert nothing is None


def test_padding_hides_keys_of_each_sequence(heads):
    x = numbers(4, 2, 6)
    padding = lucid.tensor([[False, False, False, False], [False, False, True, True]])
    out, _ = heads(*[lucid.tensor(x)] * 3, key_padding_mask=padding)
    for i, length in enumerate((4, 2)):
        want, _ = by_hand(heads, x[:, i], x[:length, i], x[:length, i])
        np.testing.assert_allclose(out[:, i].detach().numpy(), want, 1e-10, 1e-10)


def test_batch_first_is_a_matter_of_order(heads):
    x = lucid.tensor(numbers(4, 2, 6))
    out, weights = heads(x, x, x)
    heads.batch_first = True
    other, same = heads(*[x.transpose(0, 1)] * 3)
    np.testing.assert_allclose(other.transpose(0, 1).detach().numpy(), out.detach().numpy(), 1e-10, 1e-10)
    np.testing.assert_allclose(same.detach().numpy(), weights.detach().numpy(), 1e-10, 1e-10)


def test_multihead_attention_is_attention_of_its_function(heads):
    x = lucid.tensor(numbers(4, 2, 6))
    arguments = (6, 3, heads.in_proj_weight, heads.in_proj_bias, None, None, False, 0.0)
    out, weights = F.multi_head_attention_forward(
        x, x, x, *arguments, heads.out_proj.weight, heads.out_proj.bias, is_causal=True
    )
    want, want_weights = heads(x, x, x, is_causal=True)
    np.testing.assert_array_equal(out.detach().numpy(), want.detach().numpy())
    np.testing.assert_array_equal(weights.detach().numpy(), want_weights.detach().numpy())
    np.testing.assert_array_equal(np.triu(weights.detach().numpy(), 1), 0)


def test_multihead_attention_under_vmap(heads):
    x = numbers(3, 4, 6)
    found = func.vmap(lambda x: heads(x, x, x, need_weights=False)[0])(lucid.tensor(x))
    want = [heads(*[lucid.tensor(e)] * 3)[0].detach().numpy() for e in x]
    np.testing.assert_allclose(found.detach().numpy(), np.stack(want), 1e-10, 1e-10)


def test_initial_weights():
    layer = MultiheadAttention(8, 2, add_bias_kv=True)
    bound = np.sqrt(6 / (24 + 8))
    assert np.abs(layer.in_proj_weight.detach().numpy()).max() <= bound
    assert layer.in_proj_bias.tolist() == [0] * 24 and layer.out_proj.bias.tolist() == [0] * 8
    assert layer.bias_k.shape == (1, 1, 8) and layer.bias_k.tolist() != layer.bias_v.tolist()


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_is_its_parts(norm_first):
    layer = TransformerEncoderLayer(6, 2, 10, dropout=0.0, activation="gelu", norm_first=norm_first).double()
    x = lucid.tensor(numbers(4, 3, 6))

    def attend(x):
        return layer.self_attn(x, x, x, is_causal=True)[0]

    def feed(x):
        return layer.linear2(lucid.nn.functional.activations.gelu(layer.linear1(x)))

    if norm_first:
        h = x + attend(layer.norm1(x))
        want = h + feed(layer.norm2(h))
    else:
        h = layer.norm1(x + attend(x))
        want = layer.norm2(h + feed(h))
    np.testing.assert_allclose(layer(x, is_causal=True).detach().numpy(), want.detach().numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_is_its_parts(norm_first):
    layer = TransformerDecoderLayer(6, 2, 10, dropout=0.0, norm_first=norm_first).double()
    x, memory = lucid.tensor(numbers(4, 3, 6)), lucid.tensor(numbers(5, 3, 6))

    def attend(x):
        return layer.self_attn(x, x, x)[0]

    def look(x):
        return layer.multihead_attn(x, memory, memory)[0]

    def feed(x):
        return layer.linear2(layer.linear1(x).clamp(min=0))

    want = x
    for k, block in enumerate((attend, look, feed), 1):
        norm = getattr(layer, f"norm{k}")
        want = want + block(norm(want)) if norm_first else norm(want + block(want))
    np.testing.assert_allclose(layer(x, memory).detach().numpy(), want.detach().numpy(), 1e-12, 1e-12)


def test_stacks_hold_copies():
    layer = TransformerEncoderLayer(6, 2, 10, dropout=0.0)
    encoder = TransformerEncoder(layer, 3, LayerNorm(6))
    ids = {id(p) for p in encoder.parameters()}
    assert len(ids) == 3 * 12 + 2 and not ids & {id(p) for p in layer.parameters()}
    assert [m.linear1.weight.tolist() for m in encoder.layers] == [layer.linear1.weight.tolist()] * 3
    x = lucid.rand(4, 2, 6)
    want = encoder.norm(layer(layer(layer(x))))
    np.testing.assert_allclose(encoder(x).detach().numpy(), want.detach().numpy(), 1e-5, 1e-5)
    decoder = TransformerDecoder(TransformerDecoderLayer(6, 2, 10, dropout=0.0), 2)
    assert decoder.norm is None and decoder(x, x).shape == (4, 2, 6)


def test_dropout_acts_in_training_only():
    layer = TransformerEncoderLayer(6, 2, 10, dropout=0.5)
    x = lucid.rand(4, 2, 6)
    assert not np.allclose(layer(x).detach().numpy(), layer(x).detach().numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())


def test_transformer_trains():
    lucid.manual_seed(0)
    model = Transformer(8, 2, 1, 1, 16, dropout=0.0)
    src, tgt, goal = lucid.rand(4, 3, 8), lucid.rand(5, 3, 8), lucid.rand(5, 3, 8)
    mask = Transformer.generate_square_subsequent_mask(5)
    losses = []
    for _ in range(20):
        loss = ((model(src, tgt, tgt_mask=mask) - goal) ** 2).mean()
        model.zero_grad()
        loss.backward()
        with lucid.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_derivatives_of_an_encoder_layer():
    layer = TransformerEncoderLayer(2, 1, 3, dropout=0.0, activation="gelu").double()
    x = lucid.tensor(numbers(3, 1, 2)).requires_grad_()
    assert gradcheck(lambda x: layer(x, is_causal=True), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: layer(x, is_causal=True), (x,))


def test_gradients_of_each_example():
    layer = TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True).double()
    x = numbers(3, 5, 4)
    weight = layer.linear1.weight.detach().clone()

    def loss(weight, x):
        layer.linear1.weight.data.copy_(weight.detach())
        return layer(x).square().sum()

    found = func.vmap(lambda x: func.grad(lambda x: layer(x).square().sum())(x))(lucid.tensor(x))
    for i in range(3):
        want = func.grad(lambda x: loss(weight, x))(lucid.tensor(x[i]))
        np.testing.assert_allclose(found[i].detach().numpy(), want.detach().numpy(), 1e-9, 1e-9)


ONES = lucid.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.scaled_dot_product_attention(ONES[0], ONES, ONES), RuntimeError, "2 dimensions"),
        (lambda: F.scaled_dot_product_attention(ONES, lucid.ones(2, 4), ONES), RuntimeError, "same size"),
        (lambda: F.scaled_dot_product_attention(ONES, ONES, lucid.ones(3, 3)), RuntimeError, "each key"),
        (
            lambda: F.scaled_dot_product_attention(ONES, ONES, ONES, lucid.ones(2, 2), is_causal=True),
            RuntimeError,
            "not both",
        ),
        (lambda: F.scaled_dot_product_attention(ONES, ONES, ONES, dropout_p=1.5), ValueError, "dropout_p"),
        (lambda: F.scaled_dot_product_attention(ONES, ONES, ONES.double()), TypeError, "one floating-point type"),
        (
            lambda: F.scaled_dot_product_attention(ONES, ONES, ONES, lucid.ones(2, 2, dtype="int64")),
            TypeError,
            "truth values",
        ),
        (lambda: F.scaled_dot_product_attention(ONES, ONES, ONES, enable_gqa=True), RuntimeError, "enable_gqa"),
        (lambda: MultiheadAttention(6, 4), ValueError, "4 heads"),
        (lambda: MultiheadAttention(3, 1)(ONES, ONES[None], ONES[None]), RuntimeError, "3 dimensions"),
        (lambda: MultiheadAttention(3, 1)(ONES, ONES, lucid.ones(3, 3)), RuntimeError, "lengths"),
        (lambda: MultiheadAttention(3, 1)(ONES, ONES, ONES, attn_mask=lucid.ones(3, 3)), RuntimeError, "attn_mask"),
        (
            lambda: MultiheadAttention(3, 1)(ONES, ONES, ONES, key_padding_mask=lucid.ones(3)),
            RuntimeError,
            "key_padding_mask",
        ),
        (lambda: TransformerEncoderLayer(4, 2, activation="sine"), RuntimeError, "sine"),
        (lambda: Transformer(4, 2, 1, 1, 4)(ONES, ONES), RuntimeError, "size 4"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_activations_may_be_functions_or_modules():
    assert isinstance(TransformerEncoderLayer(4, 2, 4, activation=lucid.tanh)(lucid.rand(3, 1, 4)), lucid.Tensor)
    assert "activation.weight" in TransformerEncoderLayer(4, 2, 4, activation=Linear(4, 4)).state_dict()


def test_one_query_for_all_rows_of_a_mask():
    rng = np.random.default_rng(0)
    q, k, v = (lucid.tensor(rng.standard_normal(s), requires_grad=True) for s in ((2, 1, 2), (2, 5, 2), (2, 5, 3)))
    mask = lucid.tensor(rng.random((3, 5)) < 0.7)
    attend = lucid.nn.functional.scaled_dot_product_attention
    out = attend(q, k, v, mask)
    assert out.shape == (2, 3, 3)
    weights = rng.standard_normal(out.shape)
    got = lucid.autograd.grad(out, [q, k, v], lucid.tensor(weights))
    wide = attend(q.expand(2, 3, 2), k, v, mask)
    for g, want in zip(got, lucid.autograd.grad(wide, [q, k, v], lucid.tensor(weights)), strict=True):
        np.testing.assert_allclose(g, want, rtol=1e-12)
