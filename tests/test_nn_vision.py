"""Interpolation, grids and channels: what the table cannot say, layers, and errors."""

import numpy as np
import pytest

import lucid
from lucid import autograd, func
from lucid.core.primitive import P
from lucid.nn.functional import vision as F
from lucid.nn.functional.convolution import fold, unfold
from lucid.nn.layers import vision as layers
from lucid.ops.nn.resampling import Sampling, antialias_map, interpolation_map, nearest_map


def random(*shape, seed=0):
    return lucid.tensor(np.random.default_rng(seed).standard_normal(shape))


def matrix_of(axis):
    """A map as the matrix that it stands for."""
    starts, sources, weights = axis.entries
    found = np.zeros((axis.out, axis.size))
    np.add.at(found, (np.repeat(np.arange(axis.out), np.diff(starts)), sources), 1 if weights is None else weights)
    return found


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize(("size", "out"), [(5, 5), (5, 10), (5, 3), (5, 13), (1, 4), (6, 1), (600, 7)])
@pytest.mark.parametrize("align", [False, True])
def test_weights_of_every_place_add_up_to_1(kind, size, out, align):
    scale = (size - 1) / max(out - 1, 1) if align else size / out
    for make in (interpolation_map, antialias_map):
        axis = make(kind, Sampling(size, out, scale, align))
        np.testing.assert_allclose(matrix_of(axis).sum(1), np.ones(out), 1e-12)
        np.testing.assert_allclose(matrix_of(axis.transposed), matrix_of(axis).T, 1e-12)


@pytest.mark.parametrize("size", [(7, 9), (3, 4), (12, 10)])
def test_straight_lines_stay_straight(size):
    rows, columns = np.meshgrid(np.arange(6.0), np.arange(5.0), indexing="ij")
    x = lucid.tensor((2 * rows - 3 * columns)[None, None])
    got = F.interpolate(x, size=size, mode="bilinear", align_corners=True).numpy()[0, 0]
    at = [np.linspace(0, n - 1, m) for n, m in zip((6, 5), size, strict=True)]
    np.testing.assert_allclose(got, 2 * at[0][:, None] - 3 * at[1], 1e-10, 1e-10)


def test_infinities_stay_where_they_are():
    """A product with the whole matrix would spread them."""
    x = np.zeros((1, 1, 8))
    x[0, 0, 0], x[0, 0, 7] = np.inf, np.nan
    out = F.interpolate(lucid.tensor(x), size=16, mode="linear").numpy()[0, 0]
    assert np.isinf(out[:3]).all() and np.isnan(out[-3:]).all() and (out[3:-3] == 0).all()


def test_large_and_small_maps_agree():
    x = random(1, 1, 1024)
    out = F.interpolate(x, size=700, mode="linear").numpy()[0, 0]
    at = np.clip((np.arange(700) + 0.5) * (1024 / 700) - 0.5, 0, None)
    want = np.interp(at, np.arange(1024), x.numpy()[0, 0])
    np.testing.assert_allclose(out, want, 1e-10, 1e-10)
    y = x.detach().requires_grad_()
    ct = random(1, 1, 700, seed=1)
    (g,) = autograd.grad(F.interpolate(y, size=700, mode="linear"), [y], ct)
    np.testing.assert_allclose(float((g * x).sum()), float((ct.numpy()[0, 0] * want).sum()), 1e-10)


def test_nearest_takes_existing_elements():
    x = lucid.arange(5).reshape(1, 1, 5)
    np.testing.assert_array_equal(F.interpolate(x, size=10).numpy()[0, 0], np.arange(10) // 2)
    np.testing.assert_array_equal(F.interpolate(x, size=3).numpy()[0, 0], [0, 1, 3])
    np.testing.assert_array_equal(F.interpolate(x, size=3, mode="nearest-exact").numpy()[0, 0], [0, 2, 4])
    axis = nearest_map(5, 10, 0.5, False)
    assert matrix_of(axis).sum() == 10


def test_scale_factor_is_used_as_given():
    """5 elements times 1.5 are 7, but the scale stays 1.5 unless it is to be computed anew."""
    x = random(1, 1, 5)
    as_given = F.interpolate(x, scale_factor=1.5, mode="linear")
    anew = F.interpolate(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True)
    by_size = F.interpolate(x, size=7, mode="linear")
    assert as_given.shape == anew.shape == by_size.shape == (1, 1, 7)
    np.testing.assert_array_equal(anew.numpy(), by_size.numpy())
    assert not np.allclose(as_given.numpy(), by_size.numpy())


def test_sizes_are_looked_at_by_value_and_type():
    """What is done along each dimension is found once; numbers of other types that are equal are refused as before."""
    x = random(1, 1, 5)
    F._known_plan.cache_clear()
    assert F.interpolate(x, size=4).shape == F.interpolate(x + 1, size=4).shape == (1, 1, 4)
    assert F._known_plan.cache_info().hits == 1
    with pytest.raises(TypeError, match="integer"):
        F.interpolate(x, size=4.0)
    with pytest.raises(ValueError, match="only one"):
        F.interpolate(x, size=4, scale_factor=2)
    assert F.interpolate(x, scale_factor=(2,)).shape == F.interpolate(x, scale_factor=np.float32(2)).shape == (1, 1, 10)


def test_upsample_is_interpolate():
    x = random(1, 2, 3, 4)
    for options in ({"scale_factor": 2}, {"size": (5, 7), "mode": "bilinear", "align_corners": True}):
        np.testing.assert_array_equal(F.upsample(x, **options).numpy(), F.interpolate(x, **options).numpy())


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_the_identity_grid_gives_the_image_back(mode, align):
    x = random(2, 3, 5, 4)
    theta = lucid.tensor([[[1.0, 0, 0], [0, 1.0, 0]]] * 2, dtype=lucid.float64)
    grid = F.affine_grid(theta, x.shape, align_corners=align)
    out = F.grid_sample(x, grid, mode=mode, padding_mode="border", align_corners=align)
    np.testing.assert_allclose(out.numpy(), x.numpy(), 1e-9, 1e-9)


def test_a_flip_by_a_grid_of_volumes():
    x = random(1, 2, 3, 4, 5)
    theta = lucid.tensor([[[-1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]]], dtype=lucid.float64)
    out = F.grid_sample(x, F.affine_grid(theta, x.shape))
    np.testing.assert_allclose(out.numpy(), x.numpy()[:, :, ::-1, :, ::-1], 1e-9, 1e-9)


def test_gradients_through_a_spatial_transformer():
    image = random(1, 2, 4, 5).requires_grad_()
    theta = lucid.tensor([[[0.8, 0.1, 0.05], [-0.2, 0.9, 0.1]]], dtype=lucid.float64, requires_grad=True)

    def transformed(image, theta):
        return F.grid_sample(image, F.affine_grid(theta, (1, 2, 3, 3)), padding_mode="border")

    assert autograd.gradcheck(transformed, (image, theta))
    assert autograd.gradgradcheck(transformed, (image, theta))
    # The same image under several maps at once.
    many = lucid.stack([theta.detach(), theta.detach() * 0.5])
    out = func.vmap(lambda t: transformed(image.detach(), t))(many)
    for i in range(2):
        np.testing.assert_allclose(out[i].numpy(), transformed(image.detach(), many[i]).numpy(), 1e-12)


SHAPES = [
    ((2, 3, 5, 4), (2, 3, 2, 2)),
    ((2, 1, 3, 2, 4), (2, 2, 1, 2, 3)),
    ((1, 2, 1, 1), (1, 2, 2, 2)),
    ((1, 1, 1, 1, 1), (1, 1, 2, 1, 3)),
    ((0, 2, 3, 4), (0, 2, 2, 2)),
    ((2, 2, 3, 3), (2, 0, 3, 2)),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("image", "grid", "mode"),
    [
        (image, grid, mode)
        for image, grid in SHAPES
        for mode in ("bilinear", "nearest", *["bicubic"] * (len(image) == 4))  # volumes have no cubic mode
    ],
)
def test_second_derivatives_of_grid_sample_agree(image, grid, mode, padding, align, dtype):
    """By image, by grid and by both; on the tape, forward over reverse, reverse over forward, and batched."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(image), rng.uniform(-1.4, 1.4, grid[::-1]).T]  # a grid that is not contiguous
    values = [lucid.tensor(a.astype(dtype)) if k == 0 else lucid.tensor(a.T.astype(dtype)).permute(*range(a.ndim)[::-1])
              for k, a in enumerate(arrays)]  # fmt: skip
    along = [lucid.tensor(rng.standard_normal(v.shape).astype(dtype)) for v in values]
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    for chosen in ((0,), (1,), (0, 1)):

        def loss(*some, chosen=chosen):
            operands = [some[chosen.index(k)] if k in chosen else v for k, v in enumerate(values)]
            out = F.grid_sample(*operands, mode, padding, align)
            return (out * out).sum()

        at, tangents, each = (
            tuple(values[k] for k in chosen),
            tuple(along[k] for k in chosen),
            tuple(range(len(chosen))),
        )
        leaves = [v.detach().requires_grad_() for v in at]
        first = autograd.grad(loss(*leaves), leaves, create_graph=True)
        total = sum((g * t).sum() for g, t in zip(first, tangents, strict=True))
        if total.requires_grad:
            taped = autograd.grad(total, leaves)
        else:  # the gradient is 0 everywhere
            taped = [lucid.zeros_like(v) for v in leaves]
        gradient = func.grad(loss, argnums=each)
        forward = func.jvp(gradient, at, tangents)[1]
        reverse = func.grad(lambda *some, loss=loss, t=tangents: func.jvp(loss, some, t)[1], argnums=each)(*at)
        push = lambda *ts, gradient=gradient, at=at: func.jvp(gradient, at, ts)[1]
        batched = func.vmap(push)(*[lucid.stack([t, 2 * t]) for t in tangents])
        for a, b, c, d in zip(taped, forward, reverse, batched, strict=True):
            for other in (b, c, d[0], d[1] / 2):
                np.testing.assert_allclose(a, other, tolerance, tolerance)


def test_the_nearest_element_does_not_depend_on_small_changes_of_the_grid():
    """Its gradient is 0, and not missing."""
    grid = lucid.zeros(1, 2, 2, 2, requires_grad=True)
    (found,) = autograd.grad(F.grid_sample(random(1, 1, 3, 3).float(), grid, "nearest").sum(), [grid])
    assert found is not None and not found.any()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("place", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.filterwarnings("error:invalid value encountered in cast")
def test_grids_that_are_not_finite_read_no_memory_by_chance(mode, padding, place):
    x = lucid.arange(1.0, 7.0).reshape(1, 1, 2, 3)
    grid = lucid.tensor([[[[place, 0.2], [0.2, place], [0.1, 0.2]]]])
    found = np.asarray(F.grid_sample(x, grid, mode, padding)).ravel()
    alone = np.asarray(F.grid_sample(x, grid[:, :, 2:], mode, padding)).ravel()
    assert found[2] == alone[0]
    if mode == "nearest" or (mode == "bilinear" and padding == "border" and place == place):
        assert np.isfinite(found).all()


def test_nan_in_a_grid_reads_nothing_outside():
    grid = lucid.tensor([[[[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 0.0]]]])
    with np.errstate(invalid="ignore"):
        out = F.grid_sample(lucid.ones(1, 1, 3, 3), grid, mode="nearest")
    np.testing.assert_array_equal(out.numpy(), np.zeros((1, 1, 1, 3)))


def test_shuffles_reverse_each_other():
    x = random(2, 8, 3, 2)
    np.testing.assert_array_equal(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).numpy(), x.numpy())
    np.testing.assert_array_equal(F.channel_shuffle(F.channel_shuffle(x, 2), 4).numpy(), x.numpy())


SHUFFLES = {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "of one": lambda x: F.pixel_shuffle(x, 1),
}


@pytest.mark.parametrize("shuffle", SHUFFLES.values(), ids=SHUFFLES)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2)])
def test_shuffled_elements_have_memory_of_their_own_in_every_mode(shuffle, order):
    x = random(2, 4, 4, 4).permute(order)
    want = shuffle(x)
    assert want.is_contiguous() and not want.is_view()
    before = x.numpy().copy()
    shuffle(x).zero_()
    np.testing.assert_array_equal(x.numpy(), before)
    recorded = shuffle(x.clone().requires_grad_())
    for found in (recorded.detach(), func.vmap(shuffle)(x[None])[0], lucid.compile(shuffle)(x)):
        np.testing.assert_array_equal(found.numpy(), want.numpy())
    base, factor = random(2, 2, 4, 4, 4), lucid.tensor(2.0, dtype=lucid.float64, requires_grad=True)
    view = base[0]
    base.mul_(factor)
    (change,) = autograd.grad(shuffle(view).sum(), [factor])
    np.testing.assert_allclose(change.item(), (view / factor).sum().item())


WRONG = [
    (lambda x: F.interpolate(x), "either size or scale_factor"),
    (lambda x: F.interpolate(x, size=3, scale_factor=2), "only one"),
    (lambda x: F.interpolate(x, size=3, mode="cubic"), "mode must be"),
    (lambda x: F.interpolate(x, size=3, mode="linear"), "1 spatial"),
    (lambda x: F.interpolate(x, size=3, align_corners=True), "no meaning"),
    (lambda x: F.interpolate(x, size=3, mode="nearest", antialias=True), "antialias"),
    (lambda x: F.interpolate(x, size=0), "at least 1"),
    (lambda x: F.interpolate(x, scale_factor=-1.0), "positive"),
    (lambda x: F.interpolate(x, scale_factor=0.1), "leaves nothing"),
    (lambda x: F.interpolate(x, size=3, recompute_scale_factor=True), "recompute_scale_factor"),
    (lambda x: F.interpolate(x.long(), size=3, mode="bilinear"), "floating-point"),
    (lambda x: F.interpolate(x[0, 0], size=3), "expected shape"),
    (lambda x: F.grid_sample(x, x), "expected an input"),
    (lambda x: F.grid_sample(x, lucid.ones(1, 2, 2, 2), mode="cubic"), "mode must be"),
    (lambda x: F.grid_sample(x, lucid.ones(1, 2, 2, 2), padding_mode="circular"), "padding_mode must be"),
    (lambda x: F.grid_sample(x, lucid.ones(1, 2, 2, 2).double()), "one floating-point type"),
    (lambda x: F.affine_grid(lucid.ones(2, 2, 3), (1, 1, 2, 2)), r"\(1, 2, 3\)"),
    (lambda x: F.affine_grid(lucid.ones(1, 2, 3), (1, 1, 0, 2)), "positive"),
    (lambda x: F.pixel_shuffle(x, 2), "multiple"),
    (lambda x: F.pixel_unshuffle(x, 3), "divided by 3"),
    (lambda x: F.channel_shuffle(x, 2), "2 groups"),
    (lambda x: F.pixel_shuffle(x[0, 0], 2), "at least 3"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        call(lucid.ones(1, 3, 4, 4))


LAYERS = [
    (layers.Upsample(scale_factor=2), lambda x: F.interpolate(x, scale_factor=2)),
    (layers.Upsample((5, 6), mode="bilinear", align_corners=True),
     lambda x: F.interpolate(x, (5, 6), mode="bilinear", align_corners=True)),
    (layers.Upsample(scale_factor=(1.5, 2.5), mode="bicubic"), lambda x: F.interpolate(x, None, (1.5, 2.5), "bicubic")),
    (layers.UpsamplingNearest2d(scale_factor=3), lambda x: F.interpolate(x, scale_factor=3)),
    (layers.UpsamplingBilinear2d(size=7), lambda x: F.interpolate(x, 7, mode="bilinear", align_corners=True)),
    (layers.PixelShuffle(2), lambda x: F.pixel_shuffle(x, 2)),
    (layers.PixelUnshuffle(2), lambda x: F.pixel_unshuffle(x, 2)),
    (layers.ChannelShuffle(2), lambda x: F.channel_shuffle(x, 2)),
    (layers.Unfold(2, padding=1, stride=2), lambda x: unfold(x, 2, padding=1, stride=2)),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "function"), LAYERS, ids=[repr(layer) for layer, _ in LAYERS])
def test_layer_is_its_function(layer, function):
    x = random(2, 4, 4, 6)
    np.testing.assert_array_equal(layer(x).numpy(), function(x).numpy())
    assert not layer.state_dict()


def test_fold_layer():
    columns = random(2, 12, 9)
    layer = layers.Fold((4, 4), 2)
    np.testing.assert_array_equal(layer(columns).numpy(), fold(columns, (4, 4), 2).numpy())
    assert repr(layer) == "Fold(output_size=(4, 4), kernel_size=2, dilation=1, padding=0, stride=1)"


# --- loops of sampling ---------------------------------------------------------------------------

SAMPLED = [((2, 3, 5, 4), 70), ((1, 40, 33, 20), 900), ((2, 2, 3, 4, 5), 45), ((3, 1, 1, 1), 33), ((2, 3, 5, 4), 0)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize(("shape", "length"), SAMPLED)
def test_loops_sample_as_the_composite_says(shape, length, mode, padding, align, dtype):
    rng = np.random.default_rng(length)
    n, how = len(shape) - 2, {"mode": mode, "padding": padding, "align_corners": align}
    x, ct = rng.standard_normal(shape).astype(dtype), rng.standard_normal((*shape[:2], length)).astype(dtype)
    grid = rng.uniform(-2, 2, (shape[0], n, length)).astype(dtype)
    if length:
        grid[0, 0, :4] = 1e30, np.nan, np.inf, -np.inf
        grid[0, -1, 4:8] = 0, 1, -1, 0.5
    grid = grid.swapaxes(1, 2)
    operands = [lucid.tensor(x).requires_grad_(), lucid.tensor(grid).requires_grad_()]
    with np.errstate(all="ignore"):
        want = P.grid_sample.composite(*operands, **how)
        pulled = autograd.grad(want, operands, lucid.tensor(ct))
        results = []
        before = lucid.get_num_threads()
        for threads in (1, 2):
            lucid.set_num_threads(threads)
            found = P.grid_sample(*operands, **how)
            results.append([found.detach(), *autograd.grad(found, operands, lucid.tensor(ct))])
        lucid.set_num_threads(before)
        compiled = lucid.compile(lambda *xs: autograd.grad(P.grid_sample(*xs, **how), xs, lucid.tensor(ct)))(*operands)
    tolerance = 1e-3 if dtype == "float32" else 1e-11
    for alone, both, expected in zip(*results, [want, *pulled], strict=True):
        np.testing.assert_array_equal(alone.numpy(), both.numpy())
        np.testing.assert_allclose(both.numpy(), expected.detach().numpy(), tolerance, tolerance)
    for a, b in zip(compiled, results[0][1:], strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
