"""Pooling and padding: what the table cannot say, layers, and errors."""

import math

import numpy as np
import pytest

import lucid
from lucid import autograd, func
from lucid.nn.functional import padding as pads
from lucid.nn.functional import pooling as F
from lucid.nn.layers import padding as pad_layers
from lucid.nn.layers import pooling as layers
from lucid.ops.nn.pooling import EqualShares, Windows, window_counts, window_map, windows
from lucid.ops.nn.resampling import AxisMap
from lucid.ops.rules import P


def random(*shape, seed=0):
    return lucid.tensor(np.random.default_rng(seed).standard_normal(shape))


def dense(axis):
    """The matrix of a map, from what it does to unit vectors."""
    return np.asarray(P.resample.kernel(np.eye(axis.size), (axis,))).T


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_windows_are_where_they_should_be(size, kernel, stride, ceil_mode):
    for padding in range(kernel // 2 + 1):
        w = windows(size, kernel, stride, padding, 1, ceil_mode)
        if w.out < 1:
            continue
        starts = [o * stride - padding for o in range(w.out)]
        assert all(s < size for s in starts)
        ends = starts[-1] + kernel - (size + padding)
        assert (ends < stride) if ceil_mode else (ends <= 0)
        want = [[float(s <= i < s + kernel) for i in range(size)] for s in starts]
        np.testing.assert_array_equal(dense(window_map(w)), want)
        np.testing.assert_array_equal(w.counts(False), np.sum(want, 1))


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("out", [1, 2, 3, 7, 90])
def test_equal_shares_cover_everything(size, out):
    shares = EqualShares(size, out)
    matrix = dense(window_map(shares))
    for i, row in enumerate(matrix):
        first, last = math.floor(i * size / out), math.ceil((i + 1) * size / out)
        np.testing.assert_array_equal(row, [float(first <= k < last) for k in range(size)])
    np.testing.assert_array_equal(shares.counts(True), matrix.sum(1))
    np.testing.assert_array_equal(dense(window_map(shares).transposed), matrix.T)
    assert (matrix.sum(0) >= 1).all()


def test_counts_are_one_number_where_they_agree():
    even, uneven = Windows(4, 2, 2, 0, 1, 2), Windows(5, 2, 2, 0, 1, 3)
    assert window_counts((even, even), True) == 4
    np.testing.assert_array_equal(window_counts((even, uneven), False), [[4, 4, 2], [4, 4, 2]])


def test_a_map_and_its_transpose():
    rng = np.random.default_rng(0)
    targets, sources = rng.integers(0, 5, 12), rng.integers(0, 7, 12)
    weights = rng.standard_normal(12)
    matrix = np.zeros((5, 7))
    np.add.at(matrix, (targets, sources), weights)
    one_by_one = [(targets[k : k + 1], sources[k : k + 1], weights[k : k + 1]) for k in range(12)]
    axis = AxisMap(7, 5, one_by_one)
    np.testing.assert_allclose(dense(axis), matrix, 1e-12)
    starts, found, factors = axis.entries
    listed = np.zeros((5, 7))
    np.add.at(listed, (np.repeat(np.arange(5), np.diff(starts)), found), factors)
    np.testing.assert_allclose(listed, matrix, 1e-12)
    np.testing.assert_allclose(dense(axis.transposed), matrix.T, 1e-12)
    assert axis.transposed.transposed is axis


def test_infinities_stay_in_their_windows():
    x = np.ones((1, 1, 9))
    x[0, 0, 1], x[0, 0, 5] = np.inf, np.nan
    t = lucid.tensor(x)
    np.testing.assert_array_equal(F.adaptive_avg_pool1d(t, 4).numpy(), [[[np.inf, 1, np.nan, 1]]])
    np.testing.assert_array_equal(F.avg_pool1d(t, 3).numpy(), [[[np.inf, np.nan, 1]]])
    ct = np.array([[[1.0, np.inf, 1.0]]])
    y = random(1, 1, 9).requires_grad_()
    (g,) = autograd.grad(F.max_pool1d(y, 3), [y], lucid.tensor(ct))
    assert np.isinf(g.numpy()).sum() == 1 and not np.isnan(g.numpy()).any()


def test_of_equal_elements_the_first_gets_the_gradient():
    """Row by row, as the indices say."""
    x = lucid.tensor([[[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [5.0, 5.0, 5.0]]], requires_grad=True)
    values, indices = F.max_pool2d(x, 2, stride=1, return_indices=True)
    np.testing.assert_array_equal(indices.numpy(), [[[1, 2], [6, 5]]])
    values.backward(lucid.tensor([[[1.0, 10.0], [100.0, 1000.0]]]))
    np.testing.assert_array_equal(x.grad.numpy(), [[[0, 1, 10], [0, 0, 1000], [100, 0, 0]]])


def test_forward_mode_reads_where_the_indices_point():
    x, t = lucid.tensor([[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]), lucid.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    _, change = func.jvp(lambda x: F.max_pool1d(x, 3), (x,), (t,))
    np.testing.assert_array_equal(change.numpy(), [[1.0, 4.0]])


def test_overlapping_windows_add_up():
    x = lucid.tensor([[0.0, 9.0, 1.0]], requires_grad=True)
    F.max_pool1d(x, 2, stride=1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 2, 0]])


def test_padding_never_wins_and_integers_pool():
    x = lucid.tensor([[-5, -3, -7]])
    np.testing.assert_array_equal(F.max_pool1d(x, 3, 1, 1).numpy(), [[-3, -3, -3]])
    assert F.max_pool1d(x, 2).dtype == lucid.int64


def test_global_pooling_is_the_mean():
    x = random(2, 3, 4, 5)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(x, 1).numpy(), x.numpy().mean((2, 3), keepdims=True), 1e-12)
    np.testing.assert_allclose(F.adaptive_max_pool2d(x, 1).numpy(), x.numpy().max((2, 3), keepdims=True))
    assert F.adaptive_avg_pool2d(x, (None, 2)).shape == (2, 3, 4, 2)
    assert F.adaptive_avg_pool2d(x, 0).shape == (2, 3, 0, 0)


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_pools_inside_and_around_transforms(pool):
    x = random(3, 2, 4, 6)
    per_example = func.vmap(func.grad(lambda v: (pool(v, 2) ** 2).sum()))(x)
    y = x.detach().requires_grad_()
    (pool(y, 2) ** 2).sum().backward()
    np.testing.assert_allclose(per_example.numpy(), y.grad.numpy(), 1e-12)
    assert autograd.gradgradcheck(lambda v: pool(v, 2) ** 3, (x.requires_grad_(),))


def test_unpooling_reverses_pooling():
    x = random(2, 3, 6, 4)
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, indices, 2)
    kept = back.numpy() != 0
    np.testing.assert_array_equal(back.numpy()[kept], x.numpy()[kept])
    assert kept.sum() == values.numel()
    again, _ = F.max_pool2d(back.abs(), 2, return_indices=True)
    np.testing.assert_array_equal(again.numpy(), values.abs().numpy())


WRONG = [
    (lambda x: F.max_pool2d(x, 0), "at least 1"),
    (lambda x: F.max_pool2d(x, 2, padding=2), "at most half"),
    (lambda x: F.max_pool2d(x, 9), "does not fit"),
    (lambda x: F.max_pool1d(x, 2), "dimensions"),
    (lambda x: F.max_pool2d(x, (2, 2, 2)), "2 of them"),
    (lambda x: F.avg_pool2d(x.byte(), 2), "with a sign"),
    (lambda x: F.avg_pool2d(x, 2, divisor_override=0), "divisor_override"),
    (lambda x: F.max_pool2d(x > 0, 2), "real numbers"),
    (lambda x: F.max_pool2d(x[:, :0], 2), "number of examples"),
    (lambda x: F.adaptive_avg_pool2d(x, (1, 2, 3)), "output_size"),
    (lambda x: F.adaptive_max_pool2d(x, -1), "at least 0"),
    (lambda x: F.lp_pool2d(x.long(), 2, 2), "floating-point"),
    (lambda x: F.max_unpool2d(x, x, 2), "integer indices"),
    (lambda x: F.max_unpool2d(x, x.long() * 0 + 999, 2), "out of range"),
    (lambda x: F.max_unpool2d(x, x.long() * 0, 2, output_size=(20, 20)), "too far"),
    (lambda x: pads.pad(x, (1, 1), mode="mirror"), "mode must be"),
    (lambda x: pads.pad(x, (1, 1, 1)), "3 numbers"),
    (lambda x: pads.pad(x, (1, 1) * 5), "at most 8"),
    (lambda x: pads.pad(x, (1.5, 1)), "integers"),
    (lambda x: pads.pad(x, (0, 0, 5, 0), mode="reflect"), "at most 3"),
    (lambda x: pads.pad(x, (0, 0, 5, 0), mode="circular"), "at most 4"),
    (lambda x: pads.pad(x, (0, 0, -2, -2), mode="replicate"), "leaves nothing"),
    (lambda x: pads.pad(x, (0, 0, -3, -2)), "cuts off more"),
    (lambda x: pads.pad(x, (1, 1), mode="reflect"), "2 or 3 dimensions"),
    (lambda x: pads.pad(x, (1, 1, 1, 1), mode="reflect", value=2.0), "no value"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError), match=words):
        call(lucid.ones(2, 3, 4, 4))


def test_a_padded_tensor_is_always_new():
    x = lucid.ones(2, 3)
    for same in (pads.pad(x, (0, 0)), pads.pad(x, (0, 0), mode="reflect")):
        same += 1
    np.testing.assert_array_equal(x.numpy(), np.ones((2, 3)))


POOLS = [
    (layers.MaxPool2d(2), lambda x: F.max_pool2d(x, 2)),
    (layers.MaxPool2d(3, 2, 1, ceil_mode=True), lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
    (layers.AvgPool2d(3, 2, 1, True, False), lambda x: F.avg_pool2d(x, 3, 2, 1, True, False)),
    (layers.AvgPool2d(2, divisor_override=3), lambda x: F.avg_pool2d(x, 2, divisor_override=3)),
    (layers.LPPool2d(2, 3, 1), lambda x: F.lp_pool2d(x, 2, 3, 1)),
    (layers.AdaptiveAvgPool2d((1, 3)), lambda x: F.adaptive_avg_pool2d(x, (1, 3))),
    (layers.AdaptiveMaxPool2d((1, 3)), lambda x: F.adaptive_max_pool2d(x, (1, 3))),
    (pad_layers.ConstantPad2d((1, 2, 0, 1), 7.0), lambda x: pads.pad(x, (1, 2, 0, 1), value=7.0)),
    (pad_layers.ZeroPad2d(1), lambda x: pads.pad(x, (1, 1, 1, 1))),
    (pad_layers.ReflectionPad2d(1), lambda x: pads.pad(x, (1, 1, 1, 1), "reflect")),
    (pad_layers.ReplicationPad2d(2), lambda x: pads.pad(x, (2, 2, 2, 2), "replicate")),
    (pad_layers.CircularPad2d((1, 0, 2, 0)), lambda x: pads.pad(x, (1, 0, 2, 0), "circular")),
]


class TestLayers:
    """Layers do what their functions do."""

    @pytest.mark.parametrize(("layer", "function"), POOLS, ids=[repr(layer) for layer, _ in POOLS])
    def test_layer_is_its_function(self, layer, function):
        x = random(2, 3, 7, 6)
        np.testing.assert_array_equal(layer(x).numpy(), function(x).numpy())
        assert not layer.state_dict()

    def test_indices_go_from_pooling_to_unpooling(self):
        values, indices = layers.MaxPool1d(2, return_indices=True)(random(2, 3, 7))
        assert layers.MaxUnpool1d(2)(values, indices).shape == (2, 3, 6)
        assert layers.MaxUnpool1d(2)(values, indices, output_size=(7,)).shape == (2, 3, 7)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_each_number_of_dimensions(self, n):
        x = lucid.ones(2, 3, *(6,) * n)
        for stem in ("MaxPool", "AvgPool"):
            assert getattr(layers, f"{stem}{n}d")(2)(x).shape == (2, 3, *(3,) * n)
        assert getattr(layers, f"LPPool{n}d")(2, 2)(x).shape == (2, 3, *(3,) * n)
        for stem in ("AdaptiveMaxPool", "AdaptiveAvgPool"):
            assert getattr(layers, f"{stem}{n}d")(4)(x).shape == (2, 3, *(4,) * n)
        for kind in ("Zero", "Reflection", "Replication", "Circular"):
            assert getattr(pad_layers, f"{kind}Pad{n}d")(1)(x).shape == (2, 3, *(8,) * n)
        assert getattr(pad_layers, f"ConstantPad{n}d")(1, 2.0)(x).shape == (2, 3, *(8,) * n)

    def test_printing(self):
        text = "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
        assert repr(layers.MaxPool2d(2)) == text
        assert repr(layers.AvgPool2d(3, 1)) == "AvgPool2d(kernel_size=3, stride=1, padding=0)"
        assert repr(layers.AdaptiveAvgPool2d(1)) == "AdaptiveAvgPool2d(output_size=1)"
        assert repr(pad_layers.ZeroPad1d(1)) == "ZeroPad1d((1, 1))"
        assert repr(pad_layers.ConstantPad1d(1, 2.5)) == "ConstantPad1d(padding=(1, 1), value=2.5)"

    def test_wrong_padding(self):
        with pytest.raises(ValueError, match="one number or 4"):
            pad_layers.ZeroPad2d((1, 2))
