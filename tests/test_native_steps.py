"""Kernels that are native steps of programs: the bits of eager calls, and no call back."""

import numpy as np
import pytest
from executables import assert_same, both, values

import lucid
from lucid import nn
from lucid.backends.cpu.generated import support
from lucid.core.primitive import P
from lucid.func import grad
from lucid.nn import functional as F

needs_code = pytest.mark.skipif(not support.in_use, reason="needs generated code")


def assert_native(function, *args, exactly=True):
    """The same numbers, without a call of a kernel."""
    want, got, executable = both(function, *args)
    assert_same(want, got, exactly)
    if executable.code is not None:
        assert not executable.code.calls, executable.code.calls


def gradient(function):
    """A function of one tensor with its derivative, weighted so that all elements count."""

    def loss(x):
        y = function(x)
        weights = lucid.arange(y.numel(), dtype=y.dtype).reshape(y.shape) % 7 - 3
        return (y * weights).sum()

    return lambda x: (function(x), grad(loss)(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(7,), (3, 50), (2, 33, 5), (4, 3, 70)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_scans(name, shape, dtype):
    x, function = values(dtype, *shape), getattr(lucid, name)
    for dim in range(len(shape)):
        assert_native(lambda x, dim=dim: function(x * 0.5, dim), x)
        assert_native(lambda x, dim=dim: function(x.transpose(0, -1), dim), x)
        if not name.startswith("cumm"):
            assert_native(gradient(lambda x, dim=dim: function(x, dim)), x)


def test_running_sums_of_integers_and_from_the_end():
    assert_native(lambda x: x.cumsum(0), values("int64", 40, 3))
    assert_native(lambda x: x.flip(0).cumsum(0).flip(0), values("float32", 40, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
@pytest.mark.parametrize("shape", [(9,), (3, 50), (5, 9000), (70, 33, 5)], ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_the_largest(name, shape, dtype):
    x = values(dtype, *shape) // 1
    for dim in range(len(shape)):
        assert_native(lambda x, dim=dim: (getattr(x, name)(dim), getattr(x * 2, name)(dim, keepdim=True)), x)
    assert_native(lambda x: getattr(x, name)(), x)


def test_places_of_nans_and_of_equals():
    x = values("float32", 6, 100)
    x[2, 40] = x[2, 60] = float("nan")
    x[3] = 1.0
    assert_native(lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), (x + 1).argmax(1)), x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "complex64", "bool"])
def test_triangles(dtype):
    x = values(dtype, 3, 6, 9)
    assert_native(lambda x: (x.tril(), x.triu(), x.tril(-2), x.triu(3), x[0].triu(-1)), x)
    if dtype == "float32":
        assert_native(gradient(lambda x: x.tril(1) * x.triu()), x)


def test_diagonals_and_back():
    assert_native(gradient(lambda x: x.diagonal(1) * 2), values("float32", 6, 8))
    assert_native(gradient(lambda x: x.diagonal(0, 0, 2) * 2), values("float32", 6, 3, 8))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_any_dimension(name, dim):
    for shape in ((5, 7, 40), (2, 300, 33), (3, 2, 1)):
        for dtype in ("float32", "float64"):
            assert_native(gradient(lambda x: getattr(F, name)(x * 2, dim)), values(dtype, *shape))


def test_elements_at_positions():
    x, index = values("float32", 6, 8), lucid.tensor([[0, 3, 3, -1], [5, 0, 2, 2]] * 3) % 6
    rows, some = lucid.tensor([4, 0, 4]), values("float32", 3, 8, seed=1)
    assert_native(gradient(lambda x: x.gather(1, index)), x)
    assert_native(gradient(lambda x: lucid.take_along_dim(x, index.reshape(3, 8), 0)), x)
    assert_native(gradient(lambda x: x.max(1)[0] * x.min(0)[0].sum()), x)
    assert_native(lambda x: (lucid.zeros(6, 9).scatter_add(1, index, x[:, :4]), x.index_add(0, rows, some)), x)
    assert_native(lambda x: (lucid.zeros(6, 9).scatter(1, index, x[:, :4]), x.index_put((rows,), some)), x)
    assert_native(gradient(lambda x: x.index_add(0, rows, x[:3])), x)
    assert_native(gradient(lambda x: lucid.zeros(6, 9).scatter_add(1, index, x[:, :4])), x)


def test_the_first_few_in_order():
    for dtype in ("float32", "int64"):
        x = values(dtype, 6, 50, 7)
        assert_native(lambda x: (*x.topk(3, 1), *x.topk(2, 2, largest=False), *(x * 2).topk(1, 0)), x)
    assert_native(gradient(lambda x: x.topk(3, 1)[0]), values("float32", 6, 50))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(9,), (3, 50), (40, 33, 5), (2, 2000)], ids=str)
def test_orders(shape, dtype):
    x = values(dtype, *shape) // 1
    for dim in range(len(shape)):
        for descending in (False, True):
            assert_native(lambda x, d=dim, down=descending: (*x.sort(d, down), (x * 2).argsort(d, down)), x)
            assert_native(lambda x, d=dim, down=descending: x.transpose(0, -1).argsort(d, down), x)
        if dtype.startswith("float"):
            assert_native(gradient(lambda x, d=dim: x.sort(d)[0]), x)
            assert_native(gradient(lambda x, d=dim: x.quantile(0.3, d)), x)
    step = lucid.compile(lambda x: x.sort(-1), dynamic=(0,))
    for n in (shape[0], 2):
        assert_same(x[:n].sort(-1), step(x[:n]))
    assert "are called by" not in step.explain(), step.explain()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(40, 6), (3000, 5), (4, 6, 50)], ids=str)
def test_losses_of_classes(shape, reduction, dtype):
    target = lucid.randint(0, shape[1], (shape[0], *shape[2:]), generator=lucid.Generator(seed=1))
    target[1] = -100
    assert_native(gradient(lambda x: F.nll_loss(x, target, reduction=reduction)), values(dtype, *shape))
    step = lucid.compile(lambda x, t: F.nll_loss(x, t, reduction=reduction))
    wrong = target.clone()
    wrong[0] = shape[1]
    step(values(dtype, *shape), target)
    with pytest.raises(IndexError):
        step(values(dtype, *shape), wrong)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(40, 6), (4, 6, 50), (2, 21, 9, 7), (3, 5, 1), (2, 300, 33)], ids=str)
def test_cross_entropy_with_positions_and_smoothing(shape, reduction, dtype):
    target = lucid.randint(0, shape[1], (shape[0], *shape[2:]), generator=lucid.Generator(seed=1))
    x, weight = values(dtype, *shape), values(dtype, shape[1], seed=4).abs()
    for ignored in (False, True):
        if ignored:
            target[1] = -100
        for options in ({}, {"label_smoothing": 0.1}, {"weight": weight}, {"weight": weight, "label_smoothing": 0.2}):
            assert_native(gradient(lambda x, o=options: F.cross_entropy(x, target, reduction=reduction, **o)), x)
    step = lucid.compile(lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1), dynamic=(0, 0))
    wrong = target.clone()
    wrong[0] = shape[1]
    for n in (shape[0], 2):
        assert_same(
            [F.cross_entropy(x[:n], target[:n], reduction=reduction, label_smoothing=0.1)], [step(x[:n], target[:n])]
        )
    with pytest.raises(IndexError):
        step(x, wrong)


def test_positions_outside_are_errors():
    step = lucid.compile(lambda x, i: x[i, i])
    x = values("float32", 4, 4)
    assert_same([step(x, lucid.tensor([0, -1]))], [x.diagonal()[[0, 3]]])
    with pytest.raises(IndexError):
        step(x, lucid.tensor([0, 4]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logsumexp_along_the_last_dimension(dtype):
    for shape in ((7,), (5, 100), (2, 3, 9000)):
        x = values(dtype, *shape)
        x[..., 2] = -float("inf")
        assert_native(gradient(lambda x: x.logsumexp(-1)), x)
        assert_native(lambda x: (x * 2).logsumexp(-1, keepdim=True), x)


@pytest.mark.parametrize("p", [1, 2])
def test_norms(p):
    for shape, dim in (((40,), None), ((6, 700), 1), ((6, 700), 0), ((3, 4, 5), (1, 2))):
        for dtype in ("float32", "float64"):
            assert_native(gradient(lambda x, dim=dim: lucid.linalg.vector_norm(x, p, dim)), values(dtype, *shape))
    zeros = values("float32", 6, 8) * 0
    assert_native(lambda x: lucid.linalg.vector_norm(x, p, 1), zeros)
    for scale in (1e-30, 1e30):  # these are left to the kernel
        want, got, _ = both(lambda x: lucid.linalg.vector_norm(x, p, 1), values("float32", 6, 8) * scale)
        assert_same(want, got)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 6, 5, 7), (64, 4, 10), (3, 8, 32, 32)], ids=str)
def test_norms_of_groups(shape, dtype):
    x, w, b = values(dtype, *shape), values(dtype, shape[1], seed=1), values(dtype, shape[1], seed=2)

    def normal(x, w, b):
        return F.group_norm(x, 2, w, b)

    def loss(x, w, b):
        return (normal(x, w, b) * x.detach().sin()).sum()

    assert_native(lambda *args: (normal(*args), *grad(loss, argnums=(0, 1, 2))(*args)), x, w, b)
    assert_native(gradient(lambda x: F.group_norm(x, 2)), x)
    assert_native(gradient(lambda x: F.instance_norm(x)), x)
    want, got, _ = both(normal, x * 1e-25 if dtype == "float32" else x * 1e-200, w, b)
    assert_same(want, got)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 6), (70, 8), (100, 4, 10), (130, 6, 3, 3)], ids=str)
def test_norms_of_groups_of_matrices_and_of_many_examples(shape, dtype):
    x, w, b = values(dtype, *shape), values(dtype, shape[1], seed=1), values(dtype, shape[1], seed=2)

    def loss(x, w, b):
        return (F.group_norm(x, 2, w, b) * x.detach().sin()).sum()

    assert_native(lambda *args: (F.group_norm(args[0], 2, *args[1:]), *grad(loss, argnums=(0, 1, 2))(*args)), x, w, b)
    assert_native(gradient(lambda x: F.group_norm(x, 2)), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 2), (70, 16), (3, 5, 17), (200, 33), (2, 63), (1, 8)], ids=str)
def test_norms_of_short_rows(shape, dtype):
    x, w, b = values(dtype, *shape), values(dtype, shape[-1], seed=1), values(dtype, shape[-1], seed=2)

    def layer(x, w, b):
        return F.layer_norm(x, shape[-1:], w, b)

    def rms(x, w, b):
        return F.rms_norm(x, shape[-1:], w) + b

    for normal in (layer, rms):

        def loss(x, w, b, normal=normal):
            return (normal(x, w, b) * x.detach().sin()).sum()

        assert_native(lambda *args, f=normal, g=loss: (f(*args), *grad(g, argnums=(0, 1, 2))(*args)), x, w, b)
        assert_native(grad(loss, argnums=1), x, w, b)
        step = lucid.compile(lambda x, w, b, g=loss: grad(g, argnums=(0, 1, 2))(x, w, b), dynamic=(0,))
        for n in {shape[0], 3}:
            some = values(dtype, n, *shape[1:], seed=3)
            assert_same(grad(loss, argnums=(0, 1, 2))(some, w, b), step(some, w, b))
        want, got, _ = both(normal, x * 1e-25 if dtype == "float32" else x * 1e-200, w, b)
        assert_same(want, got)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3), (40, 6), (70, 64), (300, 17), (8, 5, 1, 1)], ids=str)
def test_batch_norm_of_matrices(shape, dtype):
    x, w, b = values(dtype, *shape), values(dtype, shape[1], seed=1), values(dtype, shape[1], seed=2)

    def normal(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True)

    def loss(x, w, b):
        return (normal(x, w, b) * x.detach().sin()).sum()

    assert_native(lambda *args: (normal(*args), *grad(loss, argnums=(0, 1, 2))(*args)), x, w, b)
    assert_native(grad(loss, argnums=2), x, w, b)
    assert_native(gradient(lambda x: F.batch_norm(x, None, None, training=True)), x)
    want, got, _ = both(normal, x * 1e-25 if dtype == "float32" else x * 1e-200, w, b)
    assert_same(want, got)
    found = []
    for compiled in (False, True):
        layer = nn.BatchNorm1d(shape[1]).to(x.dtype) if len(shape) == 2 else nn.BatchNorm2d(shape[1]).to(x.dtype)

        def step(x, layer=layer):
            y = layer(x)
            (y * y.detach().sin()).sum().backward()
            return y

        run = lucid.compile(step, dynamic=(0,)) if compiled else step
        outs = [run(x), run(x * 2), run(x[:2])]
        found.append([*outs, layer.running_mean, layer.running_var, layer.weight.grad, layer.bias.grad])
    assert_same(*found)


POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max, dilated": lambda x: F.max_pool2d(x, (3, 2), (2, 1), dilation=2),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average, overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average, padding left out": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive average of a row": lambda x: F.adaptive_avg_pool2d(x, (1, 4)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (3, 5)),
    "whole": lambda x: F.adaptive_avg_pool2d(x, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, size=(9, 20), mode="bilinear"),
    "reflected": lambda x: F.pad(x, (1, 2, 2, 1), "reflect"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", POOLS)
def test_windows(kind, dtype):
    for shape in ((2, 3, 11, 13), (1, 20, 32, 32)):
        assert_native(gradient(POOLS[kind]), values(dtype, *shape))


def test_windows_of_one_and_three_dimensions():
    assert_native(gradient(lambda x: F.max_pool1d(x, 3, 2)), values("float32", 4, 5, 30))
    assert_native(gradient(lambda x: F.avg_pool1d(x, 3, 2)), values("float32", 4, 5, 30))
    assert_native(gradient(lambda x: F.max_pool3d(x, 2)), values("float32", 2, 3, 6, 8, 10))
    assert_native(gradient(lambda x: F.avg_pool3d(x, 2)), values("float32", 2, 3, 6, 8, 10))


@pytest.mark.parametrize("examples", [1, 4])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_with_kernels_of_one_place(examples, groups):
    x, w, b = values("float32", examples, 8, 6, 7), values("float32", 10, 8 // groups, 1, 1), values("float32", 10)

    def loss(x, w, b):
        return F.conv2d(x, w, b, groups=groups).square().sum()

    assert_native(grad(loss, argnums=(0, 1, 2)), x, w, b, exactly=False)


# Examples, channels, results, groups, sizes, and other options.
CONVOLUTIONS = {
    "depthwise": (5, 6, 6, 6, (9, 11), {"padding": 1}),
    "depthwise, several results": (2, 3, 12, 3, (9, 8), {"stride": 2}),
    "depthwise, one example": (1, 64, 64, 64, (20, 20), {"padding": 2, "dilation": 2}),
    "depthwise, one dimension": (3, 4, 4, 4, (30,), {"padding": 1}),
    "few places": (7, 6, 33, 1, (4, 4), {"padding": 1}),
    "few places in groups": (40, 6, 8, 2, (3, 3), {}),
    "few places of one example": (1, 70, 130, 1, (3, 3), {"padding": 1}),
    "few places by strides": (5, 40, 36, 1, (7, 5), {"stride": 2, "padding": 1}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_small_and_depthwise_convolutions(kind, dtype):
    examples, channels, results, groups, size, options = CONVOLUTIONS[kind]
    x, w = (
        values(dtype, examples, channels, *size),
        values(dtype, results, channels // groups, *[3] * len(size), seed=1),
    )
    b, convolved = values(dtype, results, seed=2), F.conv1d if len(size) == 1 else F.conv2d

    def loss(x, w, b):
        return convolved(x, w, b, groups=groups, **options).square().sum()

    assert_native(lambda x, w: (convolved(x, w, groups=groups, **options),), x, w)
    assert_native(lambda x, w, b: grad(loss, argnums=(0, 1, 2))(x, w, b), x, w, b)
    compiled = lucid.compile(lambda x: convolved(x, w, b, groups=groups, **options), dynamic=(0,))
    for n in {examples, 2, 3}:
        some = values(dtype, n, channels, *size, seed=3)
        assert_same([convolved(some, w, b, groups=groups, **options)], [compiled(some)])
    assert "are called by" not in compiled.explain(), compiled.explain()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["truth values", "numbers", "few queries", "dropout"])
def test_attention_with_masks(kind, dtype):
    q, k, v = [values(dtype, 2, 3, 20, 16, seed=s) * 0.3 for s in range(3)]
    mask = values("float32", 2, 1, 20, 20, seed=5) > -2
    mask[0, 0, 3] = False  # all of a row
    numbers, keep = values(dtype, 20, 20, seed=6), (values(dtype, 2, 3, 20, 20, seed=7) > 0).to(q.dtype) * 2
    options = {
        "truth values": {"attn_mask": mask},
        "numbers": {"attn_mask": numbers},
        "few queries": {"attn_mask": numbers[:3]},
        "dropout": {},
    }[kind]

    def attended(q, k, v):
        if kind == "dropout":
            return P.attention(q, k, v, None, keep, scale=0.25, causal=False)
        return F.scaled_dot_product_attention(q[:, :, :3] if "few" in kind else q, k, v, **options)

    assert_native(lambda *args: (attended(*args),), q, k, v, exactly=False)
    assert_native(grad(lambda *args: attended(*args).square().sum(), argnums=(0, 1, 2)), q, k, v, exactly=False)


def test_the_gradient_of_a_mask_of_attention():
    q, k, v = [values("float64", 2, 3, 20, 16, seed=s) * 0.3 for s in range(3)]

    def loss(mask, q):
        return F.scaled_dot_product_attention(q, k, v, mask).square().sum()

    assert_native(grad(loss, argnums=(0, 1)), values("float64", 20, 20, seed=6), q, exactly=False)


# --- draws -----------------------------------------------------------------------------------------


def runs(function, *args, seed=0):
    """What three calls give, each of the function itself and compiled, from the same seed; and where generators are then."""
    found = []
    compiled = lucid.compile(function)
    for call in (function, compiled):
        lucid.manual_seed(seed)
        found.append([[t.numpy() for t in call(*args)] for _ in range(3)] + [lucid.get_rng_state()])
    assert "are called by" not in compiled.explain(), compiled.explain()
    return found


def assert_same_draws(function, *args):
    eager, compiled = runs(function, *args)
    assert eager[-1] == compiled[-1]
    for want, got in zip(eager[:-1], compiled[:-1], strict=True):
        for w, g in zip(want, got, strict=True):
            np.testing.assert_array_equal(g, w)


@needs_code
def test_draws_are_those_of_eager_calls():
    x = values("float32", 30, 20)
    assert_same_draws(lambda: (lucid.rand(3), lucid.randn(1001), lucid.rand(7, 9, dtype=lucid.float64)))
    assert_same_draws(lambda x: (F.dropout(x, 0.3), F.dropout(x * 2, 0.5), F.dropout1d(x, 0.4)), x)
    assert_same_draws(lambda x: (F.rrelu(x, training=True), lucid.rand_like(x)), x)


@needs_code
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_numbers_and_fills(dtype):
    x = values(dtype, 30, 21)
    assert_same_draws(
        lambda: (lucid.randint(0, 10, (3,)), lucid.randint(-7, 1 << 31, (1001,)), lucid.randint(5, (7, 9)))
    )
    assert_same_draws(lambda: (lucid.randint(0, 1 << 32, (50,)), lucid.randint(-(1 << 53), 3 - (1 << 53), (50,))))
    assert_same_draws(lambda x: (lucid.empty_like(x).uniform_(), lucid.empty_like(x).uniform_(-3, 0.7)), x)
    assert_same_draws(lambda x: (lucid.empty_like(x).exponential_(), lucid.empty_like(x).exponential_(2.5)), x)
    assert_same_draws(lambda x: (lucid.empty_like(x).normal_(), (x * 2).normal_(1.5, 0.1) + x), x)
    outside = values(dtype, 40)
    assert_same_draws(lambda: (outside.uniform_(1, 2) * 2, outside.exponential_().clone()))


@needs_code
def test_draws_of_several_generators():
    one, other = lucid.Generator(seed=1), lucid.Generator(seed=2)

    @lucid.compile
    def step():
        return lucid.rand(5, generator=one), lucid.randn(4, generator=other), lucid.rand(3, generator=one)

    got = [step(), step()]
    one.manual_seed(1), other.manual_seed(2)
    for found in got:
        want = lucid.rand(5, generator=one), lucid.randn(4, generator=other), lucid.rand(3, generator=one)
        assert_same(want, found)


@needs_code
def test_a_draw_of_another_kind_keeps_the_order_of_all():
    def step():
        return lucid.rand(5), lucid.randperm(7), lucid.rand(5)

    lucid.manual_seed(0)
    want = step(), step()
    lucid.manual_seed(0)
    compiled = lucid.compile(step)
    for w, g in zip(want, (compiled(), compiled()), strict=True):
        assert_same(w, g)


@needs_code
def test_two_streams_that_are_one_draw_in_turns():
    own = lucid.Generator(seed=3)

    def step():
        return lucid.rand(5, generator=own), lucid.rand(4), lucid.rand(3, generator=own)

    compiled = lucid.compile(step)
    compiled()
    from lucid.api import rng

    found = []
    for call in (step, compiled):
        own.manual_seed(5)
        token = rng._current.set(own)
        try:
            found.append(call())
        finally:
            rng._current.reset(token)
    assert_same(*found)


@needs_code
def test_draws_far_in_a_stream():
    g = lucid.Generator(seed=4)
    step = lucid.compile(lambda: lucid.rand(6, generator=g))
    for offset in ((1 << 62) - 1, 1 << 62, 1 << 40):
        g.set_state((4, offset))
        got, behind = step(), g.get_state()
        g.set_state((4, offset))
        assert_same([lucid.rand(6, generator=g)], [got])
        assert behind == g.get_state()


@needs_code
def test_a_training_step_of_a_small_network_calls_nothing_back():
    lucid.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 5),
    )  # fmt: skip
    optimizer = lucid.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @lucid.compile
    def step(x, y):
        optimizer.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, (scores.argmax(1) == y).sum()

    x, y = values("float32", 4, 3, 12, 12), lucid.tensor([0, 4, 2, 1])
    losses = [step(x, y)[0].item() for _ in range(4)]
    assert losses[-1] < losses[0]
    assert "are called by" not in step.explain(), step.explain()
