"""Convolution: what the table cannot say, and errors."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from samples_nn_conv import conv

import lucid
from lucid import autograd, func, native
from lucid.backends.cpu import implicit_gemm, parallel
from lucid.backends.cpu.blas import Blas, library
from lucid.backends.cpu.nn import convolution as kernels
from lucid.nn.functional import convolution as F
from lucid.nn.layers import convolution as layers
from lucid.ops.nn import convolution as ops


def random(*shape, seed=0, dtype=np.float64):
    return lucid.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


GEOMETRIES = [
    ((9,), (3,), (1,), ((1, 1),), (1,), 1),
    ((9, 7), (3, 2), (2, 1), ((1, 1), (0, 0)), (1, 2), 2),
    ((7, 8), (2, 3), (3, 2), ((2, 1), (1, 0)), (2, 1), 1),
    ((5, 6, 4), (3, 2, 2), (2, 1, 2), ((1, 1), (1, 0), (0, 1)), (1, 2, 1), 2),
    ((6, 5), (2, 2), (4, 3), ((0, 0), (0, 0)), (1, 1), 1),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("block", [1, 200, 1 << 19])
def test_results_do_not_depend_on_the_size_of_blocks(geometry, block, monkeypatch):
    g = ops.geometry(*geometry)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 4, *g.size))
    w = rng.standard_normal((6, 4 // g.groups, *g.kernel))
    y = rng.standard_normal((5, 6, *g.out))
    monkeypatch.setattr(kernels, "_BLOCK", block)
    made = {
        "x": ops.convolution_input.kernel(y, w, geometry=g),
        "w": ops.convolution_weight.kernel(x, y, geometry=g),
        "y": ops.convolution.kernel(x, w, geometry=g),
    }
    padded = np.pad(x, ((0, 0), (0, 0), *g.padding))
    want = conv(padded, w, None, g.stride, 0, g.dilation, g.groups)
    np.testing.assert_allclose(made["y"], want, 1e-10, 1e-10)
    # One form that is linear in all three, whichever of them is made from the others.
    form = np.sum(want * y)
    np.testing.assert_allclose(np.sum(made["x"] * x), form, 1e-10)
    np.testing.assert_allclose(np.sum(made["w"] * w), form, 1e-10)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_results_do_not_depend_on_threads(geometry, monkeypatch):
    g = ops.geometry(*geometry)
    x, w = random(5, 4, *g.size), random(6, 4 // g.groups, *g.kernel, seed=1)
    y = random(5, 6, *g.out, seed=2)
    calls = [(ops.convolution, x, w), (ops.convolution_input, y, w), (ops.convolution_weight, x, y)]
    alone = [prim(a, b, geometry=g).numpy() for prim, a, b in calls]
    counts = []

    def in_three(work, count, multiplications, each):
        counts.append(count)
        return [work(slice(0, 2)), work(slice(2, 4)), work(slice(4, count))]

    monkeypatch.setattr(kernels, "in_parts", in_three)
    monkeypatch.setattr(kernels, "LEAST_WORK", 0)
    monkeypatch.setattr(implicit_gemm, "correlate", lambda *given: False)
    monkeypatch.setattr(implicit_gemm, "weigh", lambda *given: False)
    monkeypatch.setattr(implicit_gemm, "spread", lambda *given: False)
    for want, (prim, a, b) in zip(alone, calls, strict=True):
        np.testing.assert_allclose(prim(a, b, geometry=g).numpy(), want, 1e-10, 1e-10)
    assert counts == [5, 5, 5]


# Channels, results, groups, and a geometry: rows of windows that panels end within, more taps than are summed at a time,
# results that fill no panel, one example in several parts; and examples that have a panel together.
LOOPS = [
    (7, 6, 33, (1, (4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))),
    (40, 6, 8, (2, (3, 3), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))),
    (1, 70, 130, (1, (3, 3), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))),
    (5, 40, 36, (1, (7, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), (1, 1))),
    (1, 3, 5, (1, (20, 11), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))),
    (2, 40, 33, (1, (12, 12), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))),
    (3, 4, 6, (2, (9, 21), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2))),
    (17, 2, 40, (1, (40,), (5,), (1,), ((2, 2),), (1,))),
    (1, 3, 4, (1, (30, 30), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1))),
    (2, 3, 4, (1, (5, 6, 7), (2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (1, 0)), (2, 1, 1))),
    (2, 3, 4, (1, (9, 9), (2, 2), (1, 1), ((-1, 0), (0, -1)), (1, 1))),
]


@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64], ids=str)
@pytest.mark.parametrize(("examples", "channels", "results", "geometry"), LOOPS, ids=str)
def test_loops_give_what_products_give(examples, channels, results, geometry, dtype, monkeypatch):
    groups, *rest = geometry
    g = ops.geometry(*rest, groups)
    x, w = random(examples, channels, *g.size), random(results, channels // groups, *g.kernel, seed=1)
    y, bias = random(examples, results, *g.out, seed=2), random(results, seed=3)
    x, w, y, bias = (a.to(dtype) for a in (x, w, y, bias))

    def found():
        made = [ops.convolution(x, w, geometry=g), ops.convolution_weight(x, y, geometry=g)]
        made += [ops.convolution_input(y, w, geometry=g), ops.convolution.kernel(x.numpy(), w.numpy(), geometry=g)]
        made += [kernels._convolution_array(x.numpy(), w.numpy(), g, bias.numpy())]
        return [np.asarray(m) for m in made]

    counts = lucid.get_num_threads()
    by_threads = []
    for threads in (1, counts, 2 * counts):
        lucid.set_num_threads(threads)
        by_threads.append(found())
    lucid.set_num_threads(counts)
    monkeypatch.setattr(implicit_gemm, "correlate", lambda *given: False)
    monkeypatch.setattr(implicit_gemm, "weigh", lambda *given: False)
    monkeypatch.setattr(implicit_gemm, "spread", lambda *given: False)
    tolerance = 1e-4 if dtype == lucid.float32 else 1e-11
    for want, first, *others in zip(found(), *by_threads, strict=True):
        np.testing.assert_allclose(first, want, tolerance, 10 * tolerance)
        for other in others:  # to the last bit
            np.testing.assert_array_equal(first, other)


@pytest.mark.skipif(not native.in_use, reason="products of NumPy alone depend on the threads of BLAS")
@pytest.mark.parametrize("groups", [1, 32])
@pytest.mark.parametrize("size", [1, 3])
def test_sums_over_examples_do_not_depend_on_threads(size, groups):
    x, y = random(37, 32, 26, 26, dtype=np.float32), random(37, 64, 26, 26, seed=1, dtype=np.float32)
    g = ops.geometry((26, 26), (size, size), (1, 1), ((size // 2,) * 2,) * 2, (1, 1), groups)
    counts, found = lucid.get_num_threads(), []
    for threads in (1, 2):
        lucid.set_num_threads(threads)
        found.append(ops.convolution_weight(x, y, geometry=g).numpy())
    lucid.set_num_threads(counts)
    np.testing.assert_array_equal(*found)


def test_partial_sums_of_large_weights_are_few():
    x, y = (lucid.rand(32, 256, 8, 8) for _ in range(2))
    g = ops.geometry((8, 8), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    weights = ops.convolution_weight(x, y, geometry=g)
    tracemalloc.start()
    ops.convolution_weight(x, y, geometry=g)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * weights.nbytes


def test_planes_too_large_for_a_cache_give_the_same():
    x, w = random(1, 5, 1000, 300, dtype=np.float32), random(2, 5, 3, 3, seed=1, dtype=np.float32)
    whole = F.conv2d(x, w, padding=1)
    parts = [F.conv2d(x[:, :, lo:hi], w, padding=(0, 1)) for lo, hi in ((0, 500), (498, 1000))]
    np.testing.assert_allclose(whole[:, :, 1:-1].numpy(), lucid.cat(parts, 2).numpy(), 1e-4, 1e-4)


def test_adding_up_and_turning_around_give_the_same_gradient():
    """Both ways to make the gradient of the input, whichever the sizes choose."""
    for channels, results in ((1, 9), (9, 1)):
        x, w = random(2, channels, 6, 5).requires_grad_(), random(results, channels, 3, 2, seed=1)
        ct = random(2, results, 6, 6, seed=2)
        (g,) = autograd.grad(F.conv2d(x, w, padding=(1, 1)), [x], ct)
        direction = random(2, channels, 6, 5, seed=3)
        want = (F.conv2d(direction, w, padding=(1, 1)) * ct).sum()
        np.testing.assert_allclose(float((g * direction).sum()), float(want), 1e-10)


class TestParts:
    """Work that is split among threads."""

    @staticmethod
    def with_blas(monkeypatch, threads):
        settings = [threads]
        blas = Blas(lambda: settings[-1], settings.append)
        monkeypatch.setattr(parallel, "library", lambda: blas)
        return settings

    def test_slices_cover_everything_once(self, monkeypatch):
        settings = self.with_blas(monkeypatch, 3)
        seen = parallel.in_parts(lambda some: list(range(10))[some], 10, 1e12)
        assert len(seen) == 3
        assert [item for part in seen for item in part] == list(range(10))
        assert settings == [3, 1, 3]

    def test_blas_gets_its_threads_back_after_an_error(self, monkeypatch):
        settings = self.with_blas(monkeypatch, 2)

        def fail(some):
            raise ArithmeticError(some)

        with pytest.raises(ArithmeticError):
            parallel.in_parts(fail, 10, 1e12)
        assert settings == [2, 1, 2]
        assert parallel.in_parts(lambda some: some, 10, 1e12) == [slice(0, 5), slice(5, 10)]

    def test_nested_work_leaves_the_setting_to_the_outer_one(self, monkeypatch):
        settings = self.with_blas(monkeypatch, 2)
        parallel.in_parts(lambda some: parallel.in_parts(lambda inner: inner, 4, 1e12), 2, 1e12)
        assert settings == [2, 1, 2]

    @pytest.mark.parametrize(("threads", "count", "work"), [(2, 10, 10.0), (1, 10, 1e12), (2, 1, 1e12)])
    def test_small_work_stays_in_one_piece(self, monkeypatch, threads, count, work):
        settings = self.with_blas(monkeypatch, threads)
        assert parallel.in_parts(lambda some: some, count, work) == [slice(0, count)]
        assert settings == [threads]

    def test_without_a_known_library_there_are_no_parts(self, monkeypatch):
        monkeypatch.setattr(parallel, "library", lambda: None)
        assert parallel.in_parts(lambda some: some, 10, 1e12) == [slice(0, 10)]

    def test_library_of_this_installation_keeps_its_number_of_threads(self):
        blas = library()
        if blas is None:
            pytest.skip("NumPy came without OpenBLAS")
        before = blas.threads()
        total = parallel.in_parts(lambda some: np.ones((64, 64))[some] @ np.ones((64, 64)), 64, 1e12)
        np.testing.assert_array_equal(np.concatenate(total), np.full((64, 64), 64.0))
        assert blas.threads() == before


def test_gradient_of_each_example():
    """vmap over grad, with the weights shared, gives what single backward passes give."""
    x, w, b = random(4, 2, 6, 5), random(3, 2, 3, 3, seed=1), random(3, seed=2)

    def loss(w, b, x):
        return (F.conv2d(x, w, b, stride=2, padding=1) ** 2).sum()

    gw, gb = func.vmap(func.grad(loss, argnums=(0, 1)), in_dims=(None, None, 0))(w, b, x)
    for i in range(4):
        want = func.grad(loss, argnums=(0, 1))(w, b, x[i])
        np.testing.assert_allclose(gw[i].numpy(), want[0].numpy(), 1e-10, 1e-10)
        np.testing.assert_allclose(gb[i].numpy(), want[1].numpy(), 1e-10, 1e-10)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("which", [(0, None), (None, 0), (0, 0), (1, 2)])
def test_ensembles(groups, which):
    """vmap over inputs, over weights, over both, and over other dimensions."""
    shapes = [(2, 4, 7), (6, 4 // groups, 3)]
    arrays = [random(*s, seed=k) for k, s in enumerate(shapes)]
    stacked = [
        a if d is None else lucid.stack([a * (i + 1) for i in range(5)], d) for a, d in zip(arrays, which, strict=True)
    ]
    out = func.vmap(lambda x, w: F.conv1d(x, w, groups=groups, padding=1), in_dims=which)(*stacked)
    twice = func.vmap(
        lambda s: func.vmap(lambda x, w: F.conv1d(x * s, w, groups=groups, padding=1), in_dims=which)(*stacked)
    )(lucid.tensor([1.0, 3.0], dtype=lucid.float64))
    for i in range(5):
        x, w = (a if d is None else a * (i + 1) for a, d in zip(arrays, which, strict=True))
        want = F.conv1d(x, w, groups=groups, padding=1).numpy()
        np.testing.assert_allclose(out[i].numpy(), want, 1e-10, 1e-10)
        np.testing.assert_allclose(twice[1, i].numpy(), want * 3, 1e-10, 1e-10)


def test_hessian_vector_products_agree():
    x, w = random(1, 2, 5, 4), random(2, 2, 2, 2, seed=1)
    v = random(2, 2, 2, 2, seed=2)

    def loss(w):
        return lucid.sin(F.conv2d(x, w, dilation=2)).sum()

    _, forward = func.jvp(func.grad(loss), (w,), (v,))
    hessian = func.hessian(loss)(w)
    np.testing.assert_allclose((hessian * v).sum((4, 5, 6, 7)).numpy(), forward.numpy(), 1e-9, 1e-9)


def test_third_order():
    x, w = random(1, 1, 6), random(1, 1, 3, seed=1)

    def loss(w):
        return (F.conv1d(x, w, padding=1) ** 4).sum()

    assert autograd.gradgradcheck(func.grad(lambda w: loss(w)), (w.requires_grad_(),))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transposed_convolution_is_the_transpose(n):
    x, w = random(2, 4, *(7, 6, 5)[:n]), random(6, 2, *(3, 2, 2)[:n], seed=1)
    how = {"stride": 2, "padding": 1, "groups": 2}
    conv_n, transpose = getattr(F, f"conv{n}d"), getattr(F, f"conv_transpose{n}d")
    y = conv_n(x, w, **how)
    more = tuple(int((m + 2 - k) % 2) for m, k in zip(x.shape[2:], w.shape[2:], strict=True))
    ct = random(*y.shape, seed=2)
    back = transpose(ct, w, output_padding=more, **how)
    assert back.shape == x.shape
    np.testing.assert_allclose(float((y * ct).sum()), float((x * back).sum()), 1e-10)


def test_large_image_needs_little_memory():
    """Windows are laid out in blocks: never all of them at once."""
    x, w = random(1, 8, 256, 256, dtype=np.float32), random(8, 8, 5, 5, seed=1, dtype=np.float32)
    all_windows = 8 * 25 * 252 * 252 * 4

    def peak(run):
        run()
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: F.conv2d(x, w)) < all_windows / 3
    operands = [x.requires_grad_(), w.requires_grad_()]
    assert peak(lambda: autograd.grad(F.conv2d(*operands).sum(), operands)) < all_windows / 3


def test_types_are_kept_and_half_precision_sums_in_single():
    x, w = lucid.ones(1, 1000, 3), lucid.ones(1, 1000, 3)
    for dtype in (lucid.float16, lucid.bfloat16):
        out = F.conv1d(x.to(dtype), w.to(dtype))
        assert out.dtype == dtype
        assert abs(float(out) - 3000) <= 8


def test_gradient_of_a_sum_with_shared_memory():
    """The gradient of a sum is one number in the memory of many, which must not be written to."""
    w = random(2, 1, 3).requires_grad_()
    x = random(1, 1, 5).requires_grad_()
    F.conv1d(x, w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy()[0], w.grad.numpy()[1])
    assert x.grad.shape == x.shape


WRONG = [
    ((2, 3, 5), (4, 2, 3), {}, "2 input channels"),
    ((3, 5), (4, 3, 3), {"stride": 0}, "at least 1"),
    ((2, 3, 5), (4, 3, 3), {"padding": -1}, "at least 0"),
    ((2, 3, 5), (4, 3, 3), {"padding": "full"}, "'same' or 'valid'"),
    ((2, 3, 5), (4, 3, 3), {"padding": "same", "stride": 2}, "stride of 1"),
    ((2, 3, 5), (4, 3, 6), {}, "does not fit"),
    ((2, 3, 5), (4, 3), {}, "3 dimensions"),
    ((2, 3, 5, 5), (4, 3, 3), {}, "not shape"),
    ((2, 3, 5), (4, 3, 3), {"groups": 3}, "groups"),
    ((2, 3, 5), (4, 3, 3), {"stride": (1, 2)}, "1 of them"),
    ((2, 3, 5), (4, 3, 3), {"dilation": 1.5}, "integer"),
]


@pytest.mark.parametrize(("x", "w", "options", "words"), WRONG, ids=str)
def test_wrong_arguments_are_named(x, w, options, words):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        F.conv1d(lucid.ones(x), lucid.ones(w), **options)


def test_other_wrong_arguments():
    with pytest.raises(RuntimeError, match="float64"):
        F.conv1d(lucid.ones(1, 1, 3), lucid.ones(1, 1, 2).double())
    with pytest.raises(RuntimeError, match=r"bias of shape \(2,\)"):
        F.conv1d(lucid.ones(1, 1, 3), lucid.ones(2, 1, 2), lucid.ones(3))
    with pytest.raises(RuntimeError, match="uint8"):
        F.conv1d(lucid.arange(3).reshape(1, 1, 3).byte(), lucid.arange(2).reshape(1, 1, 2).byte())
    with pytest.raises(ValueError, match="output_padding"):
        F.conv_transpose1d(lucid.ones(1, 1, 3), lucid.ones(1, 1, 2), stride=2, output_padding=2)
    with pytest.raises(RuntimeError, match="empty result"):
        F.conv_transpose1d(lucid.ones(1, 1, 1), lucid.ones(1, 1, 2), padding=1)
    with pytest.raises(RuntimeError, match="so the input must have shape"):
        F.fold(lucid.ones(1, 5, 4), (3, 3), 2)


class TestLayers:
    """Convolutions as layers, without PyTorch to compare with."""

    @pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
    def test_padding_modes_pad_what_they_say(self, mode):
        layer = layers.Conv2d(2, 3, (3, 2), padding=(1, 0), padding_mode=mode).double()
        x = random(2, 2, 5, 4)
        numpy_mode = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (0, 0)), mode=numpy_mode)
        want = conv(padded, layer.weight.detach().numpy(), layer.bias.detach().numpy())
        np.testing.assert_allclose(layer(x).detach().numpy(), want, 1e-10, 1e-10)

    def test_state_and_printing(self):
        layer = layers.Conv2d(4, 6, 3, padding=1, groups=2)
        assert {k: v.shape for k, v in layer.state_dict().items()} == {"weight": (6, 2, 3, 3), "bias": (6,)}
        assert repr(layer) == "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)"
        layer = layers.ConvTranspose1d(4, 6, 3, bias=False)
        assert {k: v.shape for k, v in layer.state_dict().items()} == {"weight": (4, 6, 3)}
        assert repr(layer) == "ConvTranspose1d(4, 6, kernel_size=(3,), stride=(1,), bias=False)"

    def test_subclasses_and_copies(self):
        class Mine(layers.Conv1d):
            """A layer of a user."""

        layer = Mine(2, 3, 2)
        assert layer(lucid.ones(1, 2, 4)).shape == (1, 3, 3)
        assert Mine.__doc__ == "A layer of a user."
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layers.Conv2d(2, 3, 2)))):
            assert set(other.state_dict()) == {"weight", "bias"}

    def test_output_size(self):
        layer = layers.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
        x = lucid.ones(1, 2, 4, 5)
        assert layer(x).shape == (1, 3, 7, 9)
        assert layer(x, output_size=(8, 9)).shape == (1, 3, 8, 9)
        assert layer(x, output_size=(1, 3, 7, 10)).shape == (1, 3, 7, 10)
        with pytest.raises(ValueError, match=r"from \(7, 9\)"):
            layer(x, output_size=(9, 9))

    def test_a_step_of_training_lowers_the_loss(self):
        lucid.manual_seed(0)
        first, second = layers.Conv2d(1, 4, 3, padding=1), layers.ConvTranspose2d(4, 1, 2, stride=2)
        x, target = random(3, 1, 6, 6, dtype=np.float32), random(3, 1, 12, 12, seed=1, dtype=np.float32)
        losses = []
        for _ in range(10):
            loss = ((second(lucid.relu(first(x))) - target) ** 2).mean()
            losses.append(float(loss))
            loss.backward()
            with lucid.no_grad():
                for p in (*first.parameters(), *second.parameters()):
                    p -= 0.1 * p.grad
                    p.grad = None
        assert losses[-1] < losses[0]

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: layers.Conv1d(3, 4, 2, groups=2), "groups"),
            (lambda: layers.Conv1d(3, 4, 2, padding_mode="mirror"), "padding_mode"),
            (lambda: layers.Conv1d(3, 4, 2, padding="same", stride=2), "'same'"),
            (lambda: layers.Conv1d(3, 4, 0), "kernel_size"),
            (lambda: layers.ConvTranspose1d(3, 4, 2, padding_mode="reflect"), "zeros"),
        ],
    )
    def test_wrong_settings(self, make, words):
        with pytest.raises(ValueError, match=words):
            make()
