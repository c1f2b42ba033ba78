"""Normalisation: statistics, vmap, types and errors."""

import numpy as np
import pytest

import lucid
from lucid import func
from lucid.autograd import gradcheck, gradgradcheck
from lucid.core import detachments
from lucid.nn.functional import normalization as F
from lucid.nn.layers import normalization as layers
from lucid.ops.nn import normalization as ops

RNG = np.random.default_rng()


@pytest.fixture(autouse=True)
def same_numbers_in_every_order():
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
    lucid.manual_seed(5)


def numbers(*shape, dtype=float):
    return RNG.standard_normal(shape).astype(dtype)


def standard(x, axes, eps=1e-5):
    x = x.astype(float)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


LENGTHS = [1, 2, 64, 65, 255, 256, 300]  # on both sides of every change of method


@pytest.mark.parametrize("length", LENGTHS)
def test_values_for_every_length(length):
    x = numbers(3, 4, length)
    w, b = numbers(4), numbers(4)
    spread = w[:, None], b[:, None]
    tensors = [lucid.tensor(a) for a in (x, w, b)]
    batch = F.batch_norm(tensors[0], None, None, *tensors[1:], training=True)
    np.testing.assert_allclose(batch.numpy(), standard(x, (0, 2)) * spread[0] + spread[1], 1e-10, 1e-10)
    group = F.group_norm(tensors[0], 2, *tensors[1:])
    want = standard(x.reshape(3, 2, -1), (2,)).reshape(x.shape) * spread[0] + spread[1]
    np.testing.assert_allclose(group.numpy(), want, 1e-10, 1e-10)
    layer = F.layer_norm(tensors[0], (4, length), lucid.tensor(np.outer(w, np.ones(length))))
    np.testing.assert_allclose(layer.numpy(), standard(x, (1, 2)) * spread[0], 1e-10, 1e-10)


OPERATIONS = [
    (ops.row_norm, (4, 6), (6,), {"ndim": 1, "centred": True}),
    (ops.row_norm, (4, 6), (6,), {"ndim": 1, "centred": False}),
    (ops.row_norm, (2, 3, 300), (3, 300), {"ndim": 2, "centred": True}),
    *[(ops.group_norm, (3, 4, n), (4,), {"groups": g}) for n in LENGTHS for g in (1, 2, 4)],
    *[(ops.batch_norm, (3, 4, n), (4,), {}) for n in LENGTHS],
]
CHANNEL_AFFINE = [(3, 4), *[(3, 4, n) for n in LENGTHS], (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", CHANNEL_AFFINE, ids=str)
def test_scaling_of_channels(shape):
    x, scale, shift = (lucid.tensor(numbers(*s)).requires_grad_() for s in (shape, shape[1:2], shape[1:2]))
    weights = lucid.tensor(numbers(*shape))
    found = []
    for run in (ops.channel_affine, ops.channel_affine.composite):
        out = run(x, scale, shift)
        found.append([out, *lucid.autograd.grad(out, [x, scale, shift], weights)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-10, 1e-10)


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize(("op", "shape", "affine_shape", "params"), OPERATIONS, ids=str)
def test_kernels_agree_with_their_composite(op, shape, affine_shape, params, affine, shift):
    x = lucid.tensor(numbers(*shape) + shift).requires_grad_()
    given = [lucid.tensor(numbers(*affine_shape)).requires_grad_() if a else None for a in affine]
    leaves = [t for t in (x, *given) if t is not None]
    found = []
    for run in (op, op.composite):
        outs = run(x, *given, **params, eps=1e-3)
        outs = outs if isinstance(outs, tuple) else (outs,)
        weights = [lucid.tensor(np.cos(np.arange(o.numel())).reshape(o.shape)) for o in outs]
        found.append([*outs, *lucid.autograd.grad(outs, leaves, weights)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-8, 1e-8)


@pytest.mark.parametrize("shift", [0.0, 100.0, 1e4])
def test_no_digits_are_lost_far_from_zero(shift):
    x = (numbers(4, 6, 50) + shift).astype(np.float32)
    t = lucid.tensor(x)
    spacing = np.spacing(np.float32(shift + 1))  # the data itself is known to this
    for found, axes in (
        (F.layer_norm(t, (50,)), (2,)),
        (F.instance_norm(t), (2,)),
        (F.batch_norm(t, None, None, training=True), (0, 2)),
    ):
        assert np.abs(found.numpy() - standard(x, axes)).max() < 1e-6 + 0.01 * spacing


def test_constant_rows_give_the_bias():
    bias = lucid.tensor([1.0, 2.0, 3.0])
    for value in (0.0, 5.0, 1e4):
        x = lucid.full((2, 3), value).requires_grad_()
        y = F.layer_norm(x, (3,), None, bias)
        np.testing.assert_allclose(
            y.detach().numpy(), np.tile(bias.numpy(), (2, 1)), atol=2e-1 if value == 1e4 else 1e-5
        )
        y.backward(lucid.ones(2, 3))
        assert np.isfinite(x.grad.numpy()).all()


NEGATIVE = {
    "layer_norm": lambda x: F.layer_norm(x, (6,), eps=-0.5),
    "rms_norm": lambda x: F.rms_norm(x, (6,), eps=-0.5),
    "group_norm": lambda x: F.group_norm(x, 2, eps=-0.5),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True, eps=-0.5),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_an_eps_below_zero_is_taken_off_the_variance(name):
    x = 3 * numbers(3, 4, 6)
    rows = x.reshape(3, 2, 12) if name == "group_norm" else x
    axes = (0, 2) if name == "batch_norm" else (2,)
    expected = (
        rows / np.sqrt((rows**2).mean(2, keepdims=True) - 0.5) if name == "rms_norm" else standard(rows, axes, -0.5)
    )
    np.testing.assert_allclose(NEGATIVE[name](lucid.tensor(x)).numpy(), expected.reshape(x.shape), 1e-12, 1e-12)
    leaf = lucid.tensor(x[:2, :, :], requires_grad=True)
    gradcheck(NEGATIVE[name], leaf, check_forward_ad=True)
    gradgradcheck(NEGATIVE[name], leaf)
    small = lucid.compile(lambda x: func.grad(lambda x: (NEGATIVE[name](x) ** 3).sum())(x))(leaf.detach())
    np.testing.assert_allclose(
        small.numpy(), func.grad(lambda x: (NEGATIVE[name](x) ** 3).sum())(leaf).numpy(), 1e-9, 1e-12
    )


def test_batch_norm_follows_the_batches():
    layer = layers.BatchNorm2d(3, momentum=0.25).double()
    mean, variance = np.zeros(3), np.ones(3)
    for k in range(3):
        x = numbers(2, 3, 4, 5) * (k + 1) + k
        layer(lucid.tensor(x))
        mean = 0.75 * mean + 0.25 * x.mean((0, 2, 3))
        variance = 0.75 * variance + 0.25 * x.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean)
    np.testing.assert_allclose(layer.running_var.numpy(), variance)
    assert layer.num_batches_tracked.item() == 3
    x = numbers(2, 3, 4, 5)
    want = (x - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    np.testing.assert_allclose(layer.eval()(lucid.tensor(x)).detach().numpy(), want)
    assert layer.num_batches_tracked.item() == 3


def test_batch_norm_without_momentum_averages():
    layer = layers.BatchNorm1d(2, momentum=None).double()
    batches = [numbers(5, 2) for _ in range(4)]
    for x in batches:
        layer(lucid.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), np.mean([x.mean(0) for x in batches], 0))
    np.testing.assert_allclose(layer.running_var.numpy(), np.mean([x.var(0, ddof=1) for x in batches], 0))


def test_running_statistics_are_on_no_tape():
    layer = layers.BatchNorm1d(2)
    layer(lucid.rand(4, 2).requires_grad_())
    assert not layer.running_mean.requires_grad and not layer.running_var.requires_grad


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.float16, lucid.bfloat16], ids=str)
def test_running_statistics_move_by_the_bits_of_single_operations(dtype):
    wide = lucid.float64 if dtype is lucid.float64 else lucid.float32
    x, mean, variance = [lucid.tensor(numbers(*s)).to(dtype) for s in ((7, 3, 2), (3,), (3,))]
    want = []
    _, *found = ops.batch_norm(x.to(wide), None, None, eps=1e-5)
    for running, new, factor in zip((mean, variance), found, (1.0, 14 / 13), strict=True):
        want.append((running * (1 - 0.3) + new * (0.3 * factor)).to(dtype))
    weight = lucid.ones(3, dtype=wide, requires_grad=True)
    F.batch_norm(x, mean, variance, weight, training=True, momentum=0.3)
    assert mean.dtype is dtype and mean.tolist() == want[0].tolist() and variance.tolist() == want[1].tolist()


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64], ids=str)
def test_evaluation_has_the_bits_of_single_operations(dtype):
    x, mean, variance, weight, bias = [lucid.tensor(numbers(*s)).to(dtype) for s in ((7, 3), (3,), (3,), (3,), (3,))]
    variance = variance.abs()
    scale = lucid.rsqrt(variance + 1e-3) * weight
    want = ops.channel_affine(x, scale, bias - mean * scale)
    for other in (mean, mean.to(lucid.float64)):
        assert F.batch_norm(x, other, variance, weight, bias, eps=1e-3).tolist() == want.tolist()


def test_running_statistics_that_are_views_or_not_free():
    x = lucid.tensor(numbers(5, 3))
    want = [lucid.zeros(3, dtype=lucid.float64), lucid.ones(3, dtype=lucid.float64)]
    F.batch_norm(x, *want, training=True)
    columns = lucid.tensor(np.array([[0.0, 1.0]] * 3))
    F.batch_norm(x, columns[:, 0], columns[:, 1], training=True)
    assert columns[:, 0].tolist() == want[0].tolist() and columns[:, 1].tolist() == want[1].tolist()
    mean = lucid.zeros(3, dtype=lucid.float64)
    y = (lucid.ones(3, dtype=lucid.float64, requires_grad=True) * mean).sum()
    F.batch_norm(x, mean, None, training=True)
    with pytest.raises(RuntimeError, match=r"overwritten .* `copy_` at"):
        y.backward()
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        F.batch_norm(x, lucid.from_numpy(fixed), None, training=True)


def test_explain_tells_nothing_of_running_statistics():
    layer, x = layers.BatchNorm1d(2).double(), lucid.tensor(numbers(4, 2)).requires_grad_()
    before = list(detachments.log)
    layer(x)
    assert list(detachments.log) == before


def test_a_compiled_layer_moves_its_statistics_as_the_layer_does():
    layer, other = (layers.BatchNorm1d(3).double() for _ in range(2))
    compiled = lucid.compile(other)
    for _ in range(3):
        x = lucid.tensor(numbers(5, 3))
        np.testing.assert_allclose(compiled(x).detach().numpy(), layer(x).detach().numpy())
    for key, value in layer.state_dict().items():
        np.testing.assert_allclose(other.state_dict()[key].numpy(), value.numpy())
    assert layer.num_batches_tracked.item() == 3


def test_reset():
    layer = layers.BatchNorm1d(2)
    layer(lucid.rand(4, 2))
    with lucid.no_grad():
        layer.weight.fill_(3.0)
    layer.reset_parameters()
    assert layer.weight.tolist() == [1, 1] and layer.running_mean.tolist() == [0, 0]
    assert layer.running_var.tolist() == [1, 1] and layer.num_batches_tracked.item() == 0


def each(run, *batches):
    return np.stack([run(*[lucid.tensor(b[i]) for b in batches]).detach().numpy() for i in range(len(batches[0]))])


def test_under_vmap_each_example_has_statistics_of_its_own():
    x = numbers(3, 4, 2, 5)
    layer = layers.BatchNorm1d(2, track_running_stats=False).double()
    np.testing.assert_allclose(func.vmap(layer)(lucid.tensor(x)).detach().numpy(), each(layer, x), 1e-10, 1e-10)
    fixed = layers.BatchNorm1d(2).double().eval()
    np.testing.assert_allclose(func.vmap(fixed)(lucid.tensor(x)).detach().numpy(), each(fixed, x), 1e-10, 1e-10)


@pytest.mark.parametrize("make", [layers.BatchNorm1d, lambda n: layers.InstanceNorm1d(n, track_running_stats=True)])
def test_running_statistics_shared_by_examples_are_an_error(make):
    layer = make(2)
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    with pytest.raises(RuntimeError, match="track_running_stats=False"):
        func.vmap(layer)(lucid.rand(3, 4, 2, 5))
    for key, value in layer.state_dict().items():
        assert value.tolist() == before[key].tolist()


def test_running_statistics_that_vmap_batches_follow_each_example():
    x, mean, variance = numbers(3, 4, 2), numbers(3, 2), np.ones((3, 2))

    def step(x, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        y = F.batch_norm(x, mean, variance, training=True)
        return y, mean, variance

    _, means, variances = func.vmap(step)(*[lucid.tensor(a) for a in (x, mean, variance)])
    np.testing.assert_allclose(means.numpy(), 0.9 * mean + 0.1 * x.mean(1))
    np.testing.assert_allclose(variances.numpy(), 0.9 * variance + 0.1 * x.var(1, ddof=1))


def test_running_statistics_under_forward_mode_follow_the_values():
    layer = layers.BatchNorm1d(2).double()
    x = numbers(4, 2)
    _, change = func.jvp(layer, (lucid.tensor(x),), (lucid.tensor(numbers(4, 2)),))
    assert np.isfinite(change.detach().numpy()).all()
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean(0))


LAYERS = [
    (layers.BatchNorm1d(2, track_running_stats=False), (3, 2)),
    (layers.BatchNorm2d(2, track_running_stats=False), (2, 2, 2, 1)),
    (layers.BatchNorm3d(2).eval(), (1, 2, 1, 2, 1)),
    (layers.InstanceNorm1d(2, affine=True), (2, 2, 3)),
    (layers.InstanceNorm2d(2), (2, 2, 3)),
    (layers.InstanceNorm3d(1), (1, 1, 2, 2, 1)),
    (layers.LayerNorm((2, 3)), (2, 2, 3)),
    (layers.RMSNorm(3), (2, 3)),
    (layers.GroupNorm(2, 4), (2, 4, 2)),
    (layers.LocalResponseNorm(2, alpha=1.0), (1, 3, 2)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=str)
def test_derivatives_of_layers(layer, shape):
    layer.double()
    with lucid.no_grad():
        for p in layer.parameters():
            p.copy_(lucid.tensor(numbers(*p.shape)))
    x = lucid.tensor(numbers(*shape)).requires_grad_()
    assert gradcheck(layer, (x,), check_forward_ad=True)
    assert gradgradcheck(layer, (x,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=str)
def test_half_precision_is_computed_in_single(layer, shape, dtype):
    layer.to(dtype)
    x = lucid.tensor(numbers(*shape)).to(dtype).requires_grad_()
    y = layer(x)
    assert y.dtype.name == dtype
    y.backward(lucid.ones_like(y))
    assert x.grad.dtype.name == dtype
    wide = layer.float()(x.detach().float()).detach().numpy()
    np.testing.assert_allclose(y.detach().float().numpy(), wide, 1e-2, 1e-2)


def test_half_precision_beside_weights_in_single():
    x = lucid.tensor(numbers(4, 3)).to("bfloat16").requires_grad_()
    for layer in (layers.LayerNorm(3), layers.BatchNorm1d(3), layers.BatchNorm1d(3).eval(), layers.GroupNorm(1, 3)):
        y = layer(x)
        y.backward(lucid.ones_like(y))
        assert y.dtype == x.grad.dtype == lucid.bfloat16 and layer.weight.grad.dtype == lucid.float32


def test_a_value_overwritten_after_it_was_saved_is_an_error():
    x = lucid.rand(3, 4).requires_grad_()
    h = x * 2
    y = F.layer_norm(h, (4,))
    h.zero_()
    with pytest.raises(RuntimeError, match="overwritten"):
        y.sum().backward()


def test_backward_twice_needs_the_graph():
    x = lucid.rand(3, 4).requires_grad_()
    y = F.layer_norm(x, (4,))
    y.backward(lucid.ones(3, 4), retain_graph=True)
    first = x.grad.clone()
    y.backward(lucid.ones(3, 4))
    np.testing.assert_allclose(x.grad.numpy(), 2 * first.numpy(), atol=1e-6)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward(lucid.ones(3, 4))


def test_saved_tensor_hooks_see_what_is_kept():
    x = lucid.tensor(numbers(3, 4)).requires_grad_()
    seen = []

    def pack(t):
        seen.append(t.shape)
        return t.clone()

    with lucid.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = F.layer_norm(x, (4,))
    weights = lucid.tensor(numbers(3, 4))
    y.backward(weights)
    assert (3, 4) in seen
    (want,) = lucid.autograd.grad(F.layer_norm(x, (4,)), [x], weights)
    np.testing.assert_allclose(x.grad.numpy(), want.numpy())


def test_bare_arrays_are_taken():
    np.testing.assert_allclose(F.layer_norm(numbers(2, 3, dtype=np.float32), (3,)).numpy().mean(1), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.layer_norm(lucid.ones(2, 3), (2,)), RuntimeError, "normalized_shape"),
        (lambda: F.layer_norm(lucid.ones(2, 3), ()), RuntimeError, "normalized_shape"),
        (lambda: F.layer_norm(lucid.ones(2, 3), (3,), lucid.ones(2)), RuntimeError, "weight"),
        (lambda: F.layer_norm(lucid.ones(2, 3), (3,), lucid.ones(3).double()), TypeError, "one floating-point type"),
        (lambda: F.rms_norm(lucid.ones(2, 3, dtype="int64"), (3,)), TypeError, "int64"),
        (lambda: F.batch_norm(lucid.ones(3), None, None, training=True), RuntimeError, "2 dimensions"),
        (lambda: F.batch_norm(lucid.ones(1, 3), None, None, training=True), ValueError, "more than one value"),
        (lambda: F.batch_norm(lucid.ones(2, 3), None, None), ValueError, "running_mean"),
        (lambda: F.batch_norm(lucid.ones(2, 3), lucid.ones(2), lucid.ones(3)), RuntimeError, "running_mean"),
        (lambda: F.batch_norm(lucid.ones(2, 3), None, None, lucid.ones(2), training=True), RuntimeError, "3 channels"),
        (lambda: F.instance_norm(lucid.ones(2, 3, 1)), ValueError, "more than one value"),
        (lambda: F.instance_norm(lucid.ones(2, 3, 2), use_input_stats=False), ValueError, "running_mean"),
        (lambda: F.group_norm(lucid.ones(2, 3), 2), RuntimeError, "2 groups"),
        (lambda: F.group_norm(lucid.ones(2, 3), 0), RuntimeError, "0 groups"),
        (lambda: F.local_response_norm(lucid.ones(2, 3, 1), 0), ValueError, "size"),
        (lambda: layers.GroupNorm(2, 3), ValueError, "2 groups"),
        (lambda: layers.BatchNorm2d(3)(lucid.ones(2, 3)), ValueError, "4 dimensions"),
        (lambda: layers.BatchNorm1d(3)(lucid.ones(2, 4)), ValueError, "3 features"),
        (lambda: layers.InstanceNorm1d(3)(lucid.ones(4, 2)), ValueError, "dimension 0"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_error_leaves_the_statistics_as_they_were():
    layer = layers.BatchNorm1d(3)
    with pytest.raises(ValueError, match="larger batch"):
        layer(lucid.ones(1, 3))
    assert layer.num_batches_tracked.item() == 0 and layer.running_mean.tolist() == [0, 0, 0]


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_nothing(training):
    """No elements have no channels: there is nothing to refuse, and nothing to learn from them."""
    x = lucid.zeros(0, dtype=lucid.float64).requires_grad_()
    y = F.batch_norm(x, lucid.zeros(0), lucid.ones(0), training=training)
    assert y.shape == (0,) and y.dtype == x.dtype and y is not x
    assert lucid.autograd.grad(y, [x], lucid.zeros_like(y))[0].shape == (0,)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float64", 1e200), ("float64", 1e300), ("float32", 1e30), ("float32", 1e37)]
)
@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_rows_whose_squares_overflow(norm, dtype, size):
    """The result does not depend on the size of a row, and its gradient falls with it."""
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((2, 3, 5)).astype(dtype)
    found = []
    for scale in (1, size):
        scaled = np.concatenate([values[:2] * values.dtype.type(scale), values[2:]])
        x = lucid.tensor(scaled).requires_grad_()
        y = norm(x, (5,), eps=0.0)
        (gradient,) = lucid.autograd.grad(y, [x], lucid.tensor(weights))
        gradient = np.asarray(gradient)
        found.append((np.asarray(y.detach()), np.concatenate([gradient[:2] * scale, gradient[2:]])))
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, tolerance, tolerance)


def test_tiny_rows_without_eps():
    x = np.array([[3e-200, 4e-200], [0.6, 0.8], [0.0, 0.0]])
    with np.errstate(invalid="ignore", divide="ignore"):
        y = np.asarray(F.rms_norm(lucid.tensor(x), (2,), eps=0.0))
    np.testing.assert_allclose(y[0], y[1], 1e-12)
    assert np.isnan(y[2]).all()


def _pulls(x, weight, bias, ct, needs, centred):
    """Cotangents of those operands that need them."""
    given = [v if v is None else lucid.tensor(v) for v in (x, weight, bias)]
    leaves = [v.requires_grad_() for v, need in zip(given, needs, strict=True) if v is not None and need]
    size = x.shape[-1:]
    y = F.layer_norm(given[0], size, *given[1:]) if centred else F.rms_norm(given[0], size, given[1])
    return [g.numpy() for g in lucid.autograd.grad(y, leaves, lucid.tensor(ct))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("centred", [True, False])
def test_pulls_of_rows_and_weights_together_are_those_of_each(centred, dtype):
    before = lucid.get_num_threads()
    try:
        for shape in ((65, 64), (3, 50, 70), (200, 129), (64, 64), (130, 63)):
            x, ct = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype)
            weight, bias = numbers(shape[-1], dtype=dtype), numbers(shape[-1], dtype=dtype) if centred else None
            alone = []
            for k in range(2 + centred):
                alone += _pulls(x, weight, bias, ct, [k == j for j in range(3)], centred)
            for threads in (1, 2, 3):
                lucid.set_num_threads(threads)
                together = _pulls(x, weight, bias, ct, [True] * 3, centred)
                assert [g.tobytes() for g in together] == [g.tobytes() for g in alone]
            wide = [v if v is None else v.astype(np.float64) for v in (x, weight, bias, ct)]
            normal = standard(wide[0], -1) if centred else x / np.sqrt((wide[0] ** 2).mean(-1, keepdims=True) + 1e-12)
            lead = tuple(range(x.ndim - 1))
            tolerance = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-6}[dtype]
            np.testing.assert_allclose(together[1], (wide[3] * normal).sum(lead), tolerance, 40 * tolerance)
            if centred:
                np.testing.assert_allclose(together[2], wide[3].sum(lead), tolerance, 40 * tolerance)
    finally:
        lucid.set_num_threads(before)
