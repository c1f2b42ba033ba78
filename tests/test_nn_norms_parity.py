"""Normalisation, attention, transformers and recurrent layers against PyTorch: same weights, same numbers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lucid  # noqa: E402
from lucid.nn.functional import attention as attention_functions  # noqa: E402
from lucid.nn.layers import attention, normalization, recurrent, transformer  # noqa: E402
from lucid.nn.utils import rnn  # noqa: E402

LAYERS = {
    name: vars(module)[name]
    for module in (attention, normalization, recurrent, transformer)
    for name in module.__all__
}  # fmt: skip


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def pair(array, requires_grad=True):
    """The same array as a tensor of both libraries."""
    if array is None or isinstance(array, bool | int | float | str):
        return array, array
    array = np.array(array)
    ours, theirs = lucid.tensor(array), torch.tensor(array)
    if requires_grad and array.dtype == np.float64:
        ours, theirs = ours.requires_grad_(), theirs.requires_grad_()
    return ours, theirs


def flat(result):
    if isinstance(result, tuple | list):
        return [leaf for r in result for leaf in flat(r)]
    return [] if result is None else [result]


def as_numpy(x):
    return np.asarray(x.detach())


def assert_same(ours, theirs, what, tol=1e-9):
    assert tuple(ours.shape) == tuple(theirs.shape), what
    np.testing.assert_allclose(as_numpy(ours), as_numpy(theirs), tol, tol, err_msg=what)


def both_layers(name, args, kwargs, train=True):
    """A layer of each library with the same random weights."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **kwargs).double().train(train)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.randn_like(p) * 0.3)
    ours = LAYERS[name](*args, **kwargs).double().train(train)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


def compare(ours, theirs, arrays, kwargs=None, parameters=(), their_parameters=()):
    """Results, gradients of operands and of parameters."""
    pairs = [pair(a) for a in arrays]
    named = {k: pair(v) for k, v in (kwargs or {}).items()}
    our_args, their_args = [a for a, _ in pairs], [b for _, b in pairs]
    our_out = flat(ours(*our_args, **{k: v[0] for k, v in named.items()}))
    their_out = flat(theirs(*their_args, **{k: v[1] for k, v in named.items()}))
    assert len(our_out) == len(their_out)
    for k, (a, b) in enumerate(zip(our_out, their_out, strict=True)):
        assert_same(a, b, f"result {k}")
    seeds = [numbers(*o.shape, seed=7) for o in our_out]
    lucid.autograd.backward(our_out, [lucid.tensor(s) for s in seeds])
    torch.autograd.backward(their_out, [torch.tensor(s) for s in seeds])
    leaves = [*zip(our_args, their_args, strict=True), *named.values()]
    for k, (a, b) in enumerate(leaves):
        if isinstance(b, torch.Tensor) and b.grad is not None:
            assert_same(a.grad, b.grad, f"gradient of operand {k}")
    for (name, a), b in zip(parameters, their_parameters, strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            assert_same(a.grad, b.grad, f"gradient of {name}")


def compare_layer(name, args, kwargs, arrays, call=None, train=True):
    ours, theirs = both_layers(name, args, kwargs, train)
    compare(ours, theirs, arrays, call, list(ours.named_parameters()), list(theirs.parameters()))
    for (key, a), b in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        assert_same(a, b, key)
    return ours, theirs


CHANNELS = {
    "BatchNorm1d": [(4, 3), (4, 3, 5)],
    "BatchNorm2d": [(2, 3, 5, 4)],
    "BatchNorm3d": [(2, 3, 2, 3, 4)],
    "InstanceNorm1d": [(2, 3, 5), (3, 5)],
    "InstanceNorm2d": [(2, 3, 5, 4), (3, 5, 4)],
    "InstanceNorm3d": [(2, 3, 2, 3, 4), (3, 2, 3, 4)],
}
SETTINGS = [
    {},
    {"affine": True, "momentum": 0.3, "eps": 1e-2},
    {"affine": False},
    {"affine": True, "bias": False},
    {"track_running_stats": True},
    {"track_running_stats": False},
]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("name", "shape"), [(n, s) for n, shapes in CHANNELS.items() for s in shapes], ids=str)
def test_channel_norms(name, shape, settings, train):
    ours, theirs = compare_layer(name, (3,), settings, [numbers(*shape) + 1], train=train)
    if train:  # statistics move again, and evaluation uses them
        for layer, x in ((ours, lucid.tensor), (theirs, torch.tensor)):
            layer(x(numbers(*shape, seed=3)))
            layer.eval()
        assert_same(*[f(x) for f, x in zip((ours, theirs), pair(numbers(*shape, seed=4)), strict=True)], "evaluation")


def test_batch_norm_averages_all_batches_without_momentum():
    ours, theirs = both_layers("BatchNorm1d", (3,), {"momentum": None})
    for seed in range(3):
        for layer, x in zip((ours, theirs), pair(numbers(4, 3, seed=seed)), strict=True):
            layer(x)
    for (key, a), b in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        assert_same(a, b, key)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"),
    [
        ("LayerNorm", (5,), {}, (3, 5)),
        ("LayerNorm", ((2, 5),), {"eps": 0.1}, (3, 4, 2, 5)),
        ("LayerNorm", (5,), {"elementwise_affine": False}, (3, 5)),
        ("LayerNorm", (5,), {"bias": False}, (3, 5)),
        ("LayerNorm", (300,), {}, (2, 300)),
        ("RMSNorm", (5,), {}, (3, 5)),
        ("RMSNorm", ((2, 5),), {"eps": 0.1}, (3, 2, 5)),
        ("RMSNorm", (5,), {"elementwise_affine": False}, (3, 5)),
        ("GroupNorm", (2, 6), {}, (3, 6)),
        ("GroupNorm", (3, 6), {"eps": 0.1}, (3, 6, 2, 4)),
        ("GroupNorm", (6, 6), {"affine": False}, (3, 6, 300)),
        ("GroupNorm", (1, 6), {}, (3, 6, 70)),
        ("LocalResponseNorm", (3,), {"alpha": 0.5}, (2, 5, 3)),
        ("LocalResponseNorm", (4, 0.5, 0.5, 2.0), {}, (2, 5, 3, 2)),
        ("LocalResponseNorm", (7,), {"alpha": 1.0}, (1, 2, 3)),
    ],
    ids=str,
)
def test_other_norms(name, args, kwargs, shape):
    compare_layer(name, args, kwargs, [numbers(*shape) + 1])


Q, K, V = (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2)
MASK = numbers(2, 1, 5, 6) > -0.5


@pytest.mark.parametrize(
    ("shapes", "kwargs"),
    [
        ((Q, K, V), {}),
        ((Q, K, V), {"is_causal": True}),
        ((Q, K, V), {"attn_mask": MASK}),
        ((Q, K, V), {"attn_mask": np.where(np.arange(5)[:, None] == 2, False, MASK)}),
        ((Q, K, V), {"attn_mask": numbers(5, 6)}),
        ((Q, K, V), {"scale": 0.3}),
        ((Q, K, V), {"scale": 300.0}),
        (((5, 4), (6, 4), (6, 2)), {}),
        (((2, 6, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2)), {"enable_gqa": True}),
        (((2, 6, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2)), {"enable_gqa": True, "is_causal": True}),
    ],
    ids=str,
)
def test_scaled_dot_product_attention(shapes, kwargs):
    arrays = [numbers(*s, seed=k) for k, s in enumerate(shapes)]
    theirs = torch.nn.functional.scaled_dot_product_attention
    compare(attention_functions.scaled_dot_product_attention, theirs, arrays, kwargs)


PADDING = np.array([[False, False, True, False], [False, False, False, True], [False] * 4])
CAUSAL = np.triu(np.ones((4, 4), bool), 1)
HEADS = [
    ({}, {}),
    ({"bias": False}, {"need_weights": False}),
    ({}, {"key_padding_mask": PADDING}),
    ({}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL}),
    ({}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL, "need_weights": False}),
    ({}, {"attn_mask": numbers(4, 4)}),
    ({}, {"attn_mask": numbers(6, 4, 4)}),
    ({}, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    ({}, {"attn_mask": CAUSAL, "is_causal": True}),
    ({}, {"average_attn_weights": False}),
    ({"add_bias_kv": True}, {}),
    ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL}),
    ({"add_zero_attn": True}, {"need_weights": False, "attn_mask": numbers(4, 4)}),
]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("settings", "call"), HEADS, ids=str)
def test_multihead_attention(settings, call, batch_first):
    shape = (3, 4, 8) if batch_first else (4, 3, 8)
    arrays = [numbers(*shape, seed=k) for k in range(3)]
    settings = {**settings, "batch_first": batch_first}
    compare_layer("MultiheadAttention", (8, 2), settings, arrays, call)


def test_multihead_attention_with_sizes_of_its_own():
    arrays = [numbers(4, 3, 8), numbers(5, 3, 3), numbers(5, 3, 6)]
    compare_layer("MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 6}, arrays)


def test_multihead_attention_without_a_batch():
    arrays = [numbers(4, 8), numbers(4, 8, seed=1), numbers(4, 8, seed=2)]
    compare_layer("MultiheadAttention", (8, 2), {"add_bias_kv": True}, arrays, {"key_padding_mask": PADDING[0]})
    compare_layer("MultiheadAttention", (8, 2), {"batch_first": True}, arrays, {"attn_mask": CAUSAL})


@pytest.mark.parametrize("static", [False, True])
def test_multi_head_attention_forward(static):
    shapes = [(4, 3, 8), (5, 3, 8), (5, 3, 8)]
    arrays = [numbers(*s, seed=k) for k, s in enumerate(shapes)]
    weights = [numbers(24, 8), numbers(24), None, None, False, 0.0, numbers(8, 8), numbers(8)]
    call = {"static_k": numbers(6, 7, 4), "static_v": numbers(6, 7, 4, seed=1)} if static else {}
    compare(
        attention_functions.multi_head_attention_forward,
        torch.nn.functional.multi_head_attention_forward,
        [*arrays, 8, 2, *weights],
        call,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_first": True},
        {"activation": "gelu", "batch_first": True},
        {"bias": False, "layer_norm_eps": 0.1},
        {"norm_first": True, "activation": "gelu"},
    ],
    ids=str,
)
def test_transformer_layers(settings):
    settings = {"dim_feedforward": 16, "dropout": 0.0, **settings}
    shape = (4, 3, 8)
    length = 3 if settings.get("batch_first") else 4
    encoder = {"src_mask": CAUSAL[:length, :length]}
    compare_layer("TransformerEncoderLayer", (8, 2), settings, [numbers(*shape)], encoder)
    decoder = {"tgt_mask": CAUSAL[:length, :length], "memory_mask": numbers(length, length)}
    arrays = [numbers(*shape), numbers(*shape, seed=1)]
    compare_layer("TransformerDecoderLayer", (8, 2), settings, arrays, decoder)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer(norm_first):
    settings = {"dim_feedforward": 16, "dropout": 0.0, "norm_first": norm_first}
    settings |= {"num_encoder_layers": 2, "num_decoder_layers": 2}
    padding = {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64).numpy()
    np.testing.assert_array_equal(
        transformer.Transformer.generate_square_subsequent_mask(5, dtype=lucid.float64).numpy(), mask
    )
    call = {**padding, "tgt_mask": np.isinf(mask)}
    compare_layer("Transformer", (8, 2), settings, [numbers(4, 3, 8), numbers(5, 3, 8, seed=1)], call)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_encoder_and_decoder_stacks():
    for name, stack, inputs in (("Encoder", "encoder_layer", 1), ("Decoder", "decoder_layer", 2)):
        our_layer, their_layer = both_layers(f"Transformer{name}Layer", (8, 2, 16), {"dropout": 0.0})
        ours = LAYERS[f"Transformer{name}"](**{stack: our_layer}, num_layers=2, norm=LAYERS["LayerNorm"](8).double())
        theirs = getattr(torch.nn, f"Transformer{name}")(
            **{stack: their_layer}, num_layers=2, norm=torch.nn.LayerNorm(8).double()
        )
        assert list(ours.state_dict()) == list(theirs.state_dict())
        compare(
            ours, theirs, [numbers(4, 3, 8, seed=k) for k in range(inputs)], {},
            list(ours.named_parameters()), list(theirs.parameters()),
        )  # fmt: skip


RECURRENT = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"bias": False, "batch_first": True},
    {"num_layers": 3, "batch_first": True, "bidirectional": True},
]
SIZES = [(3, 5), (3, 64)]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("settings", RECURRENT, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "relu", "proj"])
def test_recurrent_layers(name, size, settings, given):
    kwargs = dict(settings)
    if name == "relu":
        name, kwargs["nonlinearity"] = "RNN", "relu"
    if name == "proj":
        name, kwargs["proj_size"] = "LSTM", 2
    count = kwargs.get("num_layers", 1) * (2 if kwargs.get("bidirectional") else 1)
    arrays = [numbers(4, 6, 3)]
    batch = 4 if kwargs.get("batch_first") else 6
    states = [numbers(count, batch, kwargs.get("proj_size") or size[1]), numbers(count, batch, size[1], seed=1)]
    ours, theirs = both_layers(name, size, kwargs)

    def run(layer):
        if name != "LSTM":
            return layer
        return lambda x, *hx: layer(x, hx or None)

    arrays += states[: 2 if name == "LSTM" else 1] if given else []
    compare(run(ours), run(theirs), arrays, {}, list(ours.named_parameters()), list(theirs.parameters()))
    assert [len(w) for w in ours.all_weights] == [len(w) for w in theirs.all_weights]


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_without_a_batch(name):
    compare_layer(name, (3, 5), {"bidirectional": True}, [numbers(4, 3)])


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_recurrent_layers_on_packed_sequences(name, settings, enforce_sorted):
    lengths = [5, 3, 3, 1] if enforce_sorted else [3, 5, 1, 3]
    ours, theirs = both_layers(name, (3, 4), settings)
    count = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)

    def run(layer, utils):
        def call(x, *hx):
            packed = utils.pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
            output, state = layer(packed, (hx if len(hx) == 2 else hx[0]) if hx else None)
            padded, found = utils.pad_packed_sequence(output, padding_value=0.5, total_length=6)
            assert found.tolist() == lengths
            return padded, state

        return call

    states = [numbers(count, 4, 4, seed=k) for k in range(2 if name == "LSTM" else 1)]
    for first in ([], states):
        ours.zero_grad()
        theirs.zero_grad()
        compare(
            run(ours, rnn), run(theirs, torch.nn.utils.rnn), [numbers(5, 4, 3), *first], {},
            list(ours.named_parameters()), list(theirs.parameters()),
        )  # fmt: skip


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell", "relu"])
def test_cells(name, bias, alone):
    kwargs = {"bias": bias}
    if name == "relu":
        name, kwargs["nonlinearity"] = "RNNCell", "relu"
    shape = () if alone else (3,)
    states = [numbers(*shape, 4, seed=k) for k in range(2 if name == "LSTMCell" else 1)]
    ours, theirs = both_layers(name, (2, 4), kwargs)

    def run(layer):
        return (lambda x, *hx: layer(x, hx or None)) if name == "LSTMCell" else layer

    for first in ([], states):
        ours.zero_grad()
        theirs.zero_grad()
        parameters = list(ours.named_parameters()), list(theirs.parameters())
        compare(run(ours), run(theirs), [numbers(*shape, 2), *first], {}, *parameters)


def test_packing_is_the_same():
    sequences = [numbers(n, 2, seed=n) for n in (2, 4, 1)]
    for enforce_sorted, chosen in ((False, sequences), (True, sorted(sequences, key=len, reverse=True))):
        ours = rnn.pack_sequence([lucid.tensor(s) for s in chosen], enforce_sorted)
        theirs = torch.nn.utils.rnn.pack_sequence([torch.tensor(s) for s in chosen], enforce_sorted)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_same(a, b, "packed")
        for a, b in zip(rnn.unpack_sequence(ours), torch.nn.utils.rnn.unpack_sequence(theirs), strict=True):
            assert_same(a, b, "unpacked")
        for batch_first in (False, True):
            a = rnn.pad_packed_sequence(ours, batch_first, -1.0, 5)
            b = torch.nn.utils.rnn.pad_packed_sequence(theirs, batch_first, -1.0, 5)
            for x, y in zip(a, b, strict=True):
                assert_same(x, y, "padded")
            for side in ("left", "right"):
                a = rnn.pad_sequence([lucid.tensor(s) for s in chosen], batch_first, 2.0, side)
                b = torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in chosen], batch_first, 2.0, side)
                assert_same(a, b, side)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("BatchNorm2d", (3,), {}),
        ("InstanceNorm1d", (3,), {}),
        ("LayerNorm", (3,), {}),
        ("GroupNorm", (3, 6), {}),
        ("LocalResponseNorm", (3,), {}),
        ("LSTM", (3, 4), {"num_layers": 2, "proj_size": 2}),
        ("GRU", (3, 4), {"bidirectional": True, "bias": False}),
        ("LSTMCell", (3, 4), {}),
        ("GRUCell", (3, 4), {"bias": False}),
    ],
    ids=str,
)
def test_layers_print_alike(name, args, kwargs):
    assert repr(LAYERS[name](*args, **kwargs)) == repr(getattr(torch.nn, name)(*args, **kwargs))
