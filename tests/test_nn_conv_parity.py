"""Convolution, pooling, padding and resampling against PyTorch: values, gradients, and state of layers."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lucid  # noqa: E402  # after the check that there is something to compare with
from lucid.nn.functional import convolution, padding, pooling, vision  # noqa: E402
from lucid.nn.layers import convolution as conv_layers  # noqa: E402
from lucid.nn.layers import padding as padding_layers  # noqa: E402
from lucid.nn.layers import pooling as pooling_layers  # noqa: E402
from lucid.nn.layers import vision as vision_layers  # noqa: E402

FUNCTIONS = {n: getattr(m, n) for m in (convolution, padding, pooling, vision) for n in m.__all__}
LAYERS = {n: getattr(m, n) for m in (conv_layers, padding_layers, pooling_layers, vision_layers) for n in m.__all__}


def operands(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    # Values far from each other: no maximum is tied.
    return [(rng.permutation(int(np.prod(shape))).reshape(shape) / np.prod(shape) * 4 - 2) for shape in shapes]


def flat(result):
    return list(result) if isinstance(result, tuple | list) else [result]


def assert_same(ours, theirs, arrays, rtol=1e-9, atol=1e-9):
    """Both functions give the same results, and pull the same cotangents back to the same gradients."""
    mine = [lucid.tensor(a, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    got, want = flat(ours(*mine)), flat(theirs(*other))
    assert len(got) == len(want)
    rng = np.random.default_rng(7)
    for g, w in zip(got, want, strict=True):
        assert tuple(g.shape) == tuple(w.shape)
        np.testing.assert_allclose(np.asarray(g), w.detach().numpy(), rtol, atol)
    g, w = got[0], want[0]
    weights = rng.standard_normal(tuple(w.shape))
    mine_grads = lucid.autograd.grad(g, mine, lucid.tensor(weights), allow_unused=True)
    other_grads = torch.autograd.grad(w, other, torch.tensor(weights), allow_unused=True)
    for a, b in zip(mine_grads, other_grads, strict=True):
        # No connection and a gradient of 0 say the same.
        got = np.zeros(tuple(b.shape)) if a is None else np.asarray(a)
        np.testing.assert_allclose(got, b.numpy(), rtol, atol)


def check(name, arrays, *args, tolerance=1e-9, **kwargs):
    theirs = getattr(torch.nn.functional, name)
    assert_same(
        lambda *x: FUNCTIONS[name](*x, *args, **kwargs),
        lambda *x: theirs(*x, *args, **kwargs),
        arrays,
        tolerance,
        tolerance,
    )


CONVOLUTIONS = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": 3, "padding": 2, "dilation": 2},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"groups": 2, "stride": 2},
    {"groups": 4, "padding": 1},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_conv(n, options):
    groups = options.get("groups", 1)
    x, w, b = operands((2, 4, *(9, 7, 6)[:n]), (8, 4 // groups, *(3, 2, 3)[:n]), (8,))
    check(f"conv{n}d", (x, w, b), **options)
    check(f"conv{n}d", (x[0], w), **options)


TRANSPOSED = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": 3, "padding": 1, "dilation": 2},
    {"stride": 2, "dilation": 3, "output_padding": 2},
    {"groups": 2, "stride": 2},
]


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_conv_transpose(n, options):
    groups = options.get("groups", 1)
    x, w, b = operands((2, 4, *(5, 4, 3)[:n]), (4, 6 // groups, *(3, 2, 3)[:n]), (6,))
    check(f"conv_transpose{n}d", (x, w, b), **options)
    check(f"conv_transpose{n}d", (x[0], w), **options)


@pytest.mark.parametrize("options", [{}, {"dilation": 2, "padding": 1, "stride": 2}, {"stride": (1, 2)}], ids=str)
def test_unfold_and_fold(options):
    (x,) = operands((2, 3, 7, 6))
    check("unfold", (x,), (3, 2), **options)
    check("unfold", (x[0],), 2, **options)
    columns = np.asarray(convolution.unfold(lucid.tensor(x), (3, 2), **options))
    check("fold", (columns,), (7, 6), (3, 2), **options)


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1},
]


@pytest.mark.parametrize("options", WINDOWS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools(n, options):
    (x,) = operands((2, 3, *(8, 7, 5)[:n]))
    for array in (x, x[0]):
        check(f"max_pool{n}d", (array,), **options)
        check(f"avg_pool{n}d", (array,), **options)
    check(f"avg_pool{n}d", (x,), **options, count_include_pad=False)
    if n > 1:
        check(f"avg_pool{n}d", (x,), **options, divisor_override=5)
    check(f"max_pool{n}d", (x,), **options, return_indices=True)
    check(f"max_pool{n}d", (x,), **options, dilation=2)
    if "padding" not in options:
        check(f"lp_pool{n}d", (np.abs(x) + 0.1,), 3.0, **options)
        check(f"lp_pool{n}d", (x,), 2, **options)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_adaptive_pools(n, size):
    (x,) = operands((2, 3, *(8, 7, 5)[:n]))
    for array in (x, x[0]):
        check(f"adaptive_avg_pool{n}d", (array,), size)
        check(f"adaptive_max_pool{n}d", (array,), size)
    check(f"adaptive_max_pool{n}d", (x,), size, return_indices=True)
    if n == 2:
        check("adaptive_avg_pool2d", (x,), (None, size))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_max_unpool(n):
    (x,) = operands((2, 3, *(8, 6, 4)[:n]))
    values, indices = getattr(torch.nn.functional, f"max_pool{n}d")(torch.tensor(x), 2, return_indices=True)
    name, index = f"max_unpool{n}d", indices.numpy()
    theirs = getattr(torch.nn.functional, name)
    for options in ({}, {"output_size": tuple(m + 1 for m in x.shape[2:])}):
        assert_same(
            lambda v: FUNCTIONS[name](v, lucid.tensor(index), 2, **options),  # noqa: B023  # called at once
            lambda v: theirs(v, indices, 2, **options),  # noqa: B023
            (values.numpy(),),
        )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode):
    for shape, pads in [((2, 5), (2, 3)), ((2, 3, 5), (1, 2)), ((3, 4, 5), (1, 2, 3, 0)), ((2, 3, 4, 5), (2, 1, 0, 3)),
                        ((1, 2, 3, 4, 5), (1, 2, 0, 1, 2, 1)), ((2, 3, 6), (-1, 2)), ((2, 3, 6), (-1, -2))]:  # fmt: skip
        check("pad", operands(shape), pads, mode=mode)
    check("pad", operands((2, 3)), (1, 1, 2, 0), value=2.5)


SIZES = [{"size": 5}, {"size": 9}, {"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6}, {"size": 1}]


@pytest.mark.parametrize("options", [*SIZES, {"scale_factor": 1.7, "recompute_scale_factor": True}], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "trilinear"])
def test_interpolate(mode, options):
    smooth = {"linear": [1], "bilinear": [2], "bicubic": [2], "trilinear": [3]}
    for n in smooth.get(mode, [1, 2, 3]):
        x = operands((2, 3, *(6, 5, 4)[:n]))
        for align in (None, True, False) if mode in smooth else (None,):
            # PyTorch computes the scale in single precision for some modes.
            check("interpolate", x, mode=mode, align_corners=align, tolerance=2e-6, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 3), (4, 9), (11, 2)])
@pytest.mark.parametrize("align", [None, True])
def test_antialias(mode, size, align):
    check(
        "interpolate", operands((2, 3, 8, 7)), size=size, mode=mode, antialias=True, align_corners=align, tolerance=2e-6
    )


@pytest.mark.parametrize(
    ("mode", "padding_mode", "align"),
    list(itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True])),
)
def test_grid_sample(mode, padding_mode, align):
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align}
    check("grid_sample", operands((2, 3, 5, 4), (2, 3, 6, 2)), **options)
    if mode != "bicubic":
        check("grid_sample", operands((2, 3, 5, 4, 3), (2, 3, 2, 3, 3)), **options)


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    check("affine_grid", operands((2, 2, 3)), (2, 1, 3, 5), align_corners=align)
    check("affine_grid", operands((2, 3, 4)), (2, 1, 3, 2, 4), align_corners=align)


def test_grid_sample_on_an_affine_grid_of_corners():
    """Places exactly on the border have the gradient that PyTorch gives them."""
    (x,) = operands((1, 2, 4, 5))
    theta = np.asarray([[[1.0, 0, 0], [0, 1.0, 0]]])
    for padding_mode in ("zeros", "border", "reflection"):

        def sample(module, x, theta, mode=padding_mode):
            grid = module.affine_grid(theta, (1, 2, 4, 5), align_corners=True)
            return module.grid_sample(x, grid, padding_mode=mode, align_corners=True)

        assert_same(lambda *v: sample(vision, *v), lambda *v: sample(torch.nn.functional, *v), (x, theta))


def test_channels():
    check("pixel_shuffle", operands((2, 8, 3, 2)), 2)
    check("pixel_unshuffle", operands((2, 2, 6, 4)), 2)
    mine = vision.channel_shuffle(lucid.arange(24.0).reshape(2, 6, 2), 3)
    want = torch.nn.functional.channel_shuffle(torch.arange(24.0).reshape(2, 6, 2), 3)
    np.testing.assert_array_equal(np.asarray(mine), want.numpy())


def conv_cases():
    for n in (1, 2, 3):
        yield f"Conv{n}d", (4, 6, 3), {}
        yield f"Conv{n}d", (4, 6, 2), {"stride": 2, "padding": 1, "groups": 2, "bias": False}
        yield f"Conv{n}d", (4, 6, 3), {"padding": "same", "dilation": 2}
        for mode in ("reflect", "replicate", "circular"):
            yield f"Conv{n}d", (4, 6, 3), {"padding": 1, "padding_mode": mode}
            yield f"Conv{n}d", (4, 6, 2), {"padding": "same", "padding_mode": mode}
        yield f"ConvTranspose{n}d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}
        yield f"ConvTranspose{n}d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}


def layer_cases():
    yield from conv_cases()
    for n in (1, 2, 3):
        yield f"MaxPool{n}d", (2,), {}
        yield f"MaxPool{n}d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True, "return_indices": True}
        yield f"AvgPool{n}d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}
        yield f"LPPool{n}d", (2, 2), {}
        yield f"AdaptiveMaxPool{n}d", (3,), {}
        yield f"AdaptiveAvgPool{n}d", (2,), {}
        yield f"ConstantPad{n}d", (1, 2.5), {}
        for kind in ("Zero", "Reflection", "Replication", "Circular"):
            yield f"{kind}Pad{n}d", (1,), {}
    yield "ReflectionPad2d", ((1, 2, 0, 1),), {}
    yield "AvgPool2d", (2,), {"divisor_override": 3}
    yield "Upsample", (), {"scale_factor": 2}
    yield "Upsample", (), {"size": (9, 3), "mode": "bicubic", "align_corners": True}
    yield "UpsamplingNearest2d", (), {"scale_factor": 2}
    yield "UpsamplingBilinear2d", (), {"size": (9, 8)}
    yield "PixelShuffle", (2,), {}
    yield "PixelUnshuffle", (2,), {}
    yield "ChannelShuffle", (2,), {}
    yield "Unfold", (3,), {"padding": 1, "stride": 2}


@pytest.mark.parametrize(("name", "args", "options"), list(layer_cases()), ids=str)
def test_layer(name, args, options):
    if name == "LPPool3d" and not hasattr(torch.nn, name):
        pytest.skip("this version of PyTorch has none")
    mine, other = LAYERS[name](*args, **options), getattr(torch.nn, name)(*args, **options)
    mine, other = mine.double(), other.double()
    n = int(name[-2]) if name[-2].isdigit() else 2
    assert list(mine.state_dict()) == list(other.state_dict())
    for key, value in mine.state_dict().items():
        assert tuple(value.shape) == tuple(other.state_dict()[key].shape)
    mine.load_state_dict({k: lucid.tensor(v.numpy()) for k, v in other.state_dict().items()})
    x = operands((2, 4, *(8, 6, 6)[:n]))
    assert_same(mine, other, x)
    if list(mine.parameters()):
        (mine(lucid.tensor(x[0])) ** 2).sum().backward()
        (other(torch.tensor(x[0])) ** 2).sum().backward()
        for p, q in zip(mine.parameters(), other.parameters(), strict=True):
            np.testing.assert_allclose(np.asarray(p.grad), q.grad.numpy(), 1e-9, 1e-9)


@pytest.mark.parametrize(("name", "args", "options"), list(conv_cases()), ids=str)
def test_layer_prints_alike(name, args, options):
    assert repr(LAYERS[name](*args, **options)) == repr(getattr(torch.nn, name)(*args, **options))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_layer_with_output_size(n):
    args = (3, 2, 3)
    mine = LAYERS[f"ConvTranspose{n}d"](*args, stride=2, padding=1).double()
    other = getattr(torch.nn, f"ConvTranspose{n}d")(*args, stride=2, padding=1).double()
    mine.load_state_dict({k: lucid.tensor(v.numpy()) for k, v in other.state_dict().items()})
    x, size = operands((2, 3, *(4,) * n)), (8,) * n
    assert_same(lambda v: mine(v, output_size=size), lambda v: other(v, output_size=list(size)), x)


def test_fold_and_unpool_layers():
    (columns,) = operands((2, 8, 6))
    options = {"output_size": (3, 4), "kernel_size": 2}
    assert_same(LAYERS["Fold"](**options), torch.nn.Fold(**options), (columns,))
    (x,) = operands((2, 3, 6, 4))
    values, indices = LAYERS["MaxPool2d"](2, return_indices=True)(lucid.tensor(x))
    back = LAYERS["MaxUnpool2d"](2)(values, indices)
    theirs = torch.nn.MaxUnpool2d(2)(*torch.nn.MaxPool2d(2, return_indices=True)(torch.tensor(x)))
    np.testing.assert_array_equal(np.asarray(back), theirs.numpy())


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_initial_weights_have_the_same_spread(name):
    lucid.manual_seed(0)
    torch.manual_seed(0)
    mine, other = LAYERS[name](16, 64, 3), getattr(torch.nn, name)(16, 64, 3)
    for key, value in mine.state_dict().items():
        a, b = np.abs(np.asarray(value)), np.abs(other.state_dict()[key].numpy())
        # Both are even between the same bounds.
        assert 0.9 < a.max() / b.max() < 1.1
        assert 0.7 < a.mean() / b.mean() < 1.4


def test_nan_and_infinities_in_pools():
    x = np.asarray([[[1.0, np.nan, 2.0, -np.inf, -np.inf, -np.inf, 3.0, np.inf]]])
    got, where = pooling.max_pool1d(lucid.tensor(x), 2, return_indices=True)
    want, places = torch.nn.functional.max_pool1d(torch.tensor(x), 2, return_indices=True)
    np.testing.assert_array_equal(np.asarray(got), want.numpy())
    np.testing.assert_array_equal(np.asarray(where), places.numpy())
    got = pooling.avg_pool1d(lucid.tensor(x), 2)
    np.testing.assert_array_equal(np.asarray(got), torch.nn.functional.avg_pool1d(torch.tensor(x), 2).numpy())


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_windows_are_where_the_samples_say(n):
    (x,), u = operands((2, 3, 9, 7, 6)[: n + 2]), np.random.default_rng(1).uniform(size=(2, 3, n))
    name = f"fractional_max_pool{n}d"
    want = getattr(torch.nn.functional, name)(
        torch.tensor(x), 2, (5, 3, 2)[:n], return_indices=True, _random_samples=torch.tensor(u)
    )
    got = getattr(lucid.nn.functional, name)(
        lucid.tensor(x), 2, (5, 3, 2)[:n], return_indices=True, _random_samples=lucid.tensor(u)
    )
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
