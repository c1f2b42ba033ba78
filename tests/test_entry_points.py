"""Kernels that are compiled C inside compiled programs: the same bits as in eager calls, the same errors, no call back."""

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.thread_pool import set_size, size
from lucid.nn import functional as F

pytestmark = pytest.mark.skipif(not support.in_use, reason="needs generated code")
REAL = ("float32", "float64")


def values(dtype, *shape, seed=0):
    return lucid.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def calls_of(step):
    """The kernels that compiled programs call."""
    return {name for group in step._known.values() for known in group for name in known.calls_back()}


def assert_same(want, got, exactly=True):
    for w, g in zip(want, got, strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        if exactly:
            np.testing.assert_array_equal(g.numpy(), w.numpy())
        else:
            tolerance = 1e-12 if w.dtype == lucid.float64 else 2e-5
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=tolerance, atol=tolerance)


def pulled(function, wanted):
    """A function that gives results and the cotangents of operands by weights of the results' elements."""

    def both(*operands):
        leaves = [o.detach().requires_grad_(k in wanted) for k, o in enumerate(operands)]
        out = function(*leaves)
        outs = out if isinstance(out, tuple) else (out,)
        total = sum((o * lucid.arange(o.numel(), dtype=o.dtype).reshape(o.shape).cos()).sum() for o in outs)
        return *outs, *lucid.autograd.grad(total, [leaves[k] for k in wanted])

    return both


def check(function, *operands, exactly=True):
    """Compare a function as it is with the compiled one, twice: memory is used again."""
    want, step = function(*operands), lucid.compile(function)
    for _ in range(2):
        assert_same(want, step(*operands), exactly)
    assert not calls_of(step)


# --- attention -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(8, 8), (40, 40), (33, 70), (70, 33)])
def test_attention(dtype, causal, queries, keys):
    q, k, v = (
        values(dtype, 2, 3, queries, 16),
        values(dtype, 2, 3, keys, 16, seed=1),
        values(dtype, 2, 3, keys, 20, seed=2),
    )
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    check(pulled(function, (0, 1, 2)), q, k, v)
    for wanted in ((0,), (1,), (2,), (0, 2)):
        check(pulled(function, wanted), q, k, v)


@pytest.mark.parametrize("lead", [(), (4,), (2, 2, 3)])
def test_attention_of_other_stacks(lead):
    q, k, v = (values("float32", *lead, 16, 8, seed=s) for s in range(3))
    check(pulled(F.scaled_dot_product_attention, (0, 1, 2)), q, k, v)


def test_attention_of_parts_of_one_tensor():
    def attend(x):
        q, k, v = (p.view(2, 24, 4, 8).transpose(1, 2) for p in x.split(32, dim=2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 24, 32)

    check(pulled(attend, (0,)), values("float32", 2, 24, 96))


def test_columns_that_lie_apart_are_copied():
    def attend(x):
        return F.scaled_dot_product_attention(x.transpose(-1, -2), x.transpose(-1, -2), x.transpose(-1, -2))

    check(pulled(attend, (0,)), values("float64", 2, 2, 8, 16))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_may_change_after_a_program_was_made(threads):
    before = size()
    q = values("float32", 4, 8, 64, 32)
    function = pulled(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (0,))
    want, step = function(q), lucid.compile(function)
    step(q)
    try:
        set_size(threads)
        assert_same(want, step(q))
    finally:
        set_size(before)


# --- recurrent layers ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True}, {"num_layers": 2}], ids=str)
def test_recurrent_layers(dtype, layer, options):
    lucid.manual_seed(0)
    model = layer(5, 7, **options).to(getattr(lucid, dtype))
    x = values(dtype, 6, 3, 5)

    def step(x):
        model.zero_grad()
        x = x.detach().requires_grad_()
        out, state = model(x)
        states = state if isinstance(state, tuple) else (state,)
        (out.square().sum() + sum((s * s * s).sum() for s in states)).backward()
        return out, *states, x.grad, *[p.grad for p in model.parameters()]

    check(step, x, exactly=False)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_of_which_only_the_last_state_counts(layer):
    lucid.manual_seed(0)
    model, x = layer(4, 6).double(), values("float64", 5, 2, 4)
    first = [values("float64", 1, 2, 6, seed=s) for s in (1, 2)][: 2 if layer is nn.LSTM else 1]

    def function(x, *first):
        state = model(x, first if len(first) > 1 else first[0])[1]
        return state[0] if isinstance(state, tuple) else state

    check(pulled(function, tuple(range(1 + len(first)))), x, *first, exactly=False)


def test_sequences_of_several_lengths_are_left_to_the_kernel():
    lucid.manual_seed(0)
    model, x = nn.LSTM(4, 6), values("float32", 5, 2, 4)

    def function(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lucid.tensor([5, 3]))
        return model(packed)[0].data

    step = lucid.compile(function)
    assert_same([function(x)], [step(x)], exactly=False)
    assert calls_of(step) == {"lstm"}


# --- rows of tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("shape", [(), (1,), (200,), (4, 5)])
def test_embedding(dtype, padding, shape):
    index = lucid.tensor(np.random.default_rng(0).integers(7, size=shape))
    function = lambda table: F.embedding(index, table, padding_idx=padding)
    check(pulled(function, (0,)), values(dtype, 7, 33))
    check(lambda table: (function(table),), values("float16", 7, 3))


@pytest.mark.parametrize("kind", ["int64", "int32", "uint8"])
def test_positions_of_other_types(kind):
    table = values("float32", 300, 2)
    check(lambda i: (F.embedding(i, table),), lucid.tensor(np.array([[250, 0], [3, 3]], kind)))


def test_many_rows_for_few_places_are_added_in_order():
    index = lucid.tensor(np.random.default_rng(0).integers(3, size=5000))
    check(pulled(lambda table: F.embedding(index, table), (0,)), values("float32", 3, 64))


@pytest.mark.parametrize("bad", [7, -1, 1 << 40])
def test_positions_outside_are_refused_before_anything_is_written(bad):
    layer, total = nn.Embedding(7, 4), lucid.zeros(())
    optimizer = lucid.optim.SGD(layer.parameters(), lr=0.1)

    @lucid.compile
    def step(index):
        total.add_(1)
        optimizer.zero_grad()
        loss = layer(index).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step(lucid.tensor([1, 2]))
    step(lucid.tensor([1, 2]))
    before = layer.weight.detach().clone()
    with pytest.raises(IndexError, match="embedding: index") as error:
        step(lucid.tensor([1, bad]))
    with pytest.raises(IndexError) as eager:
        layer(lucid.tensor([1, bad]))
    assert str(error.value) == str(eager.value)
    assert_same([before], [layer.weight.detach()])
    assert total.item() == 2
    step(lucid.tensor([1, 2]))
    assert total.item() == 3
    assert not calls_of(step)


def test_positions_from_the_end():
    index = lucid.tensor([[-1, 4], [0, -5]])
    check(pulled(lambda x: x[index], (0,)), values("float32", 5, 3))
    step = lucid.compile(lambda x, i: x[i])
    with pytest.raises(IndexError):
        step(values("float32", 5), lucid.tensor([-6]))


def test_positions_that_are_known_when_a_program_is_made():
    table = values("float32", 4, 3)
    check(lambda x: (F.embedding(lucid.arange(4), x) + F.embedding(lucid.tensor([3, 2, 1, 0]), x),), table)
    with pytest.raises(IndexError):
        lucid.compile(lambda x: F.embedding(lucid.arange(5), x))(table)


# --- sums ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("shape", [(), (1,), (1, 160), (16, 10), (8192,), (8193,), (3, 8192), (5, 40, 50)], ids=str)
def test_squares_are_summed_as_by_the_kernel(dtype, shape):
    for reduction in ("mean", "sum"):
        function = lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r)
        check(pulled(function, (0, 1)), values(dtype, *shape), values(dtype, *shape, seed=1))


@pytest.mark.parametrize("dtype", REAL)
def test_means_over_all_places(dtype):
    check(pulled(nn.AdaptiveAvgPool2d(1), (0,)), values(dtype, 3, 4, 5, 6))


# --- convolution and batch norm --------------------------------------------------------------------


GEOMETRIES = [
    {},
    {"padding": 1},
    {"padding": 1, "stride": 2},
    {"padding": 2, "dilation": 2},
    {"groups": 2, "stride": (1, 2)},
    {"padding": (0, 3), "stride": 3},
]


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("channels", [(4, 6), (6, 4), (4, 20)])
def test_convolution(dtype, options, channels):
    inputs, results = channels
    x = values(dtype, 2, inputs, 17, 19)
    w = values(dtype, results, inputs // options.get("groups", 1), 3, 3, seed=1)
    function = lambda x, w: F.conv2d(x, w, **options)
    check(pulled(function, (0, 1)), x, w)
    check(pulled(function, (0,)), x, w)
    check(pulled(function, (1,)), x, w)
    biased = lambda x, w, b: F.conv2d(x, w, b, **options)
    for wanted in ((0, 1, 2), (0, 2), (2,), (1,)):
        check(pulled(biased, wanted), x, w, values(dtype, results, seed=2))


@pytest.mark.parametrize("dims", [1, 3])
def test_convolution_in_other_dimensions(dims):
    x, w = values("float32", 3, 4, *[9] * dims, 64)[..., 0], values("float32", 5, 4, *[3] * dims, seed=1)
    x = x if dims == 3 else values("float32", 3, 4, 90)
    check(pulled(lambda x, w: getattr(F, f"conv{dims}d")(x, w, padding=1), (0, 1)), x, w)


def test_convolution_of_one_place_at_a_time():
    x, w = values("float32", 3, 8, 9, 9), values("float32", 6, 8, 1, 1, seed=1)
    check(pulled(lambda x, w: F.conv2d(x, w), (0,)), x, w, exactly=False)


def test_convolution_of_views():
    x, w = values("float64", 17, 19, 4, 2), values("float64", 3, 3, 4, 6, seed=1)
    check(pulled(lambda x, w: F.conv2d(x.permute(3, 2, 0, 1), w.permute(3, 2, 0, 1), padding=1), (0, 1)), x, w)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_windows_out(threads):
    before = size()
    x, w = values("float32", 8, 16, 16, 16), values("float32", 32, 16, 3, 3, seed=1)
    function = pulled(lambda x, w: F.conv2d(x, w, stride=2, padding=1), (0, 1))
    try:
        set_size(1)
        want = function(x, w)
        set_size(threads)
        check(function, x, w)
        assert_same(want, function(x, w))
    finally:
        set_size(before)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("shape", [(4, 3, 24, 24), (70, 16, 4), (8, 3, 10, 3, 7)], ids=str)
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm(dtype, shape, affine):
    layer = {3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    kind = getattr(lucid, dtype)
    layers = [layer(shape[1], affine=affine).to(kind) for _ in range(2)]
    x, g = values(dtype, *shape) * 3 + 1, values(dtype, *shape, seed=1)

    def step(layer, x, g):
        layer.zero_grad()
        x = x.detach().requires_grad_()
        out = layer(x)
        (out * g).sum().backward()
        return out, x.grad, *[p.grad for p in layer.parameters()]

    compiled = lucid.compile(lambda x, g: step(layers[1], x, g))
    for _ in range(2):
        assert_same(step(layers[0], x, g), compiled(x, g))
        assert_same(list(layers[0].buffers()), list(layers[1].buffers()))
    assert not calls_of(compiled)


@pytest.mark.parametrize("scale", [1e-30, 1e30, np.inf, np.nan, 0.0])
def test_batch_norm_of_numbers_that_need_care(scale):
    x = values("float32", 4, 3, 24, 24) * scale
    function = pulled(lambda x: F.batch_norm(x, None, None, training=True, eps=0.0), (0,))
    with np.errstate(all="ignore"):
        assert_same(function(x), lucid.compile(function)(x))


def test_training_steps_call_nothing_back():
    lucid.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 12, 3, padding=1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5),
    )  # fmt: skip
    optimizer = lucid.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @lucid.compile
    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    x, target = values("float32", 16, 3, 16, 16), lucid.arange(16) % 5
    losses = [step(x, target).item() for _ in range(5)]
    assert losses[-1] < losses[0]
    assert not calls_of(step)
