"""The loops over rows and the gates of activations against plain formulas in double precision."""

import numpy as np
import pytest
from scipy import special

import lucid
import lucid.nn  # declares what is computed of rows
from lucid.backends.cpu import rowwise
from lucid.core import kernels
from lucid.core.primitive import P

SIZES = (1, 7, 16, 17, 33, 64, 100, 129)
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def numbers(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, wanted, dtype):
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def normalize(x, weight, bias, eps, centred):
    return kernel_of("row_norm").forward(x, weight, bias, ndim=1, eps=eps, centred=centred)


def normalize_back(g, x, weight, known, eps, centred):
    given = [g], [x, weight, weight], known, [True] * 3
    return kernel_of("row_norm").backward(*given, ndim=1, eps=eps, centred=centred)


def normal(x, eps, centred):
    x = x.astype(np.float64)
    x = x - x.mean(1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(1, keepdims=True) + eps)


@both
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_rows_are_normalised(dtype, centred, n):
    x, weight, bias = numbers(5, n, dtype=dtype), numbers(n, dtype=dtype, seed=1), numbers(n, dtype=dtype, seed=2)
    y, _ = normalize(x, weight, bias, 1e-5, centred)
    close(y, normal(x, 1e-5, centred) * weight + bias, dtype)


@both
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_cotangents_of_normalised_rows(dtype, centred, n):
    x, g, weight = numbers(5, n, dtype=dtype), numbers(5, n, dtype=dtype, seed=1), numbers(n, dtype=dtype, seed=2)
    _, statistics = normalize(x, weight, weight, 1e-2, centred)
    dx, dweight, dbias = normalize_back(g, x, weight, statistics, 1e-2, centred)
    normed, h = normal(x, 1e-2, centred), g.astype(np.float64) * weight
    base = x.astype(np.float64) - (x.mean(1, keepdims=True, dtype=np.float64) if centred else 0)
    scale = 1 / np.sqrt((base * base).mean(1, keepdims=True) + 1e-2)
    level = h.mean(1, keepdims=True) if centred else 0
    close(dx, scale * (h - level - normed * (h * normed).mean(1, keepdims=True)), dtype)
    close(dweight, (g * normed).sum(0), dtype)
    close(dbias, g.sum(0, dtype=np.float64), dtype)


def test_large_means_cost_no_digits():
    x = (numbers(3, 200) + 1e4).astype(np.float32)
    y, _ = normalize(x, np.ones(200, np.float32), np.zeros(200, np.float32), 1e-5, True)
    np.testing.assert_allclose(y, normal(x, 1e-5, True), atol=2e-6)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_no_rows_and_rows_of_nothing(shape):
    empty, weight = np.empty(shape, np.float32), np.ones(shape[1], np.float32)
    x, w = lucid.tensor(empty, requires_grad=True), lucid.tensor(weight, requires_grad=True)
    y = lucid.nn.functional.layer_norm(x, shape[1:], w)
    assert y.shape == shape
    y.sum().backward()
    assert (x.grad.shape, w.grad.shape) == (shape, shape[1:])
    rowwise.softmax_scores(empty, 1.0, True)
    rowwise.softmax_scores_back(empty, empty, 1.0, True)
    rowwise.add_bias(empty, weight)
    assert not rowwise.column_sums(empty).any()


def scores(x, scale, causal):
    x = x.astype(np.float64) * scale
    if causal:
        x = np.where(np.tri(*x.shape[-2:], dtype=bool), x, -np.inf)
    return special.softmax(x, -1)


@both
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scale", [0.3, -2.0, 300.0])
@pytest.mark.parametrize("shape", [(2, 3, n) for n in SIZES] + [(2, 70, 70), (130, 130), (1, 5, 3)])
def test_softmax_of_scores(dtype, causal, scale, shape):
    x, g = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=1)
    wanted = scores(x, scale, causal)
    found = x.copy()
    rowwise.softmax_scores(found, scale, causal)
    close(found, wanted, dtype) if scale < 100 else np.testing.assert_allclose(found, wanted, atol=1e-3)
    found = g.copy()
    rowwise.softmax_scores_back(found, wanted.astype(dtype), 0.5, causal)
    close(found, 0.5 * wanted * (g - (g * wanted).sum(-1, keepdims=True)), dtype)


@both
def test_scores_that_are_no_numbers(dtype):
    x = np.array([[-np.inf] * 3, [1.0, np.nan, 2.0], [np.inf, 0.0, -np.inf]], dtype)
    rowwise.softmax_scores(x, 1.0, False)
    np.testing.assert_array_equal(x, [[0, 0, 0], [np.nan] * 3, [np.nan, 0, 0]])


@both
def test_what_causal_scores_hide_does_no_harm(dtype):
    x = np.array([[1.0, np.nan, np.inf], [1.0, 1.0, np.nan], [0.0, 0.0, 0.0]], dtype)
    rowwise.softmax_scores(x, 1.0, True)
    close(x, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], dtype)
    g = np.array([[1.0, np.nan, np.inf], [1.0, 3.0, np.nan], [0.0, 0.0, 0.0]], dtype)
    rowwise.softmax_scores_back(g, x, 1.0, True)
    close(g, [[0, 0, 0], [-0.5, 0.5, 0], [0, 0, 0]], dtype)


@both
@pytest.mark.parametrize("n", SIZES)
def test_biases(dtype, n):
    x, bias = numbers(2, 3, n, dtype=dtype), numbers(n, dtype=dtype, seed=1)
    wanted = x + bias
    rowwise.add_bias(x, bias)
    np.testing.assert_array_equal(x, wanted)
    flat = x.reshape(6, n)
    close(rowwise.column_sums(flat), flat.sum(0, dtype=np.float64), dtype)


def kernel_of(name):
    return kernels.resolved(getattr(P, {"relu_back": "gate"}.get(name, name)))


def gelu_tanh(x):
    return x * special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


GATES = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: x > 0),
    "silu": (lambda x: x * special.expit(x), lambda x: special.expit(x) * (1 + x * special.expit(-x))),
    "gelu": (lambda x: x * special.ndtr(x), lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh": (gelu_tanh, lambda x: (gelu_tanh(x + 1e-5) - gelu_tanh(x - 1e-5)) / 2e-5),
}


@both
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("n", (*SIZES, 10_001))
def test_gates(dtype, name, n):
    x = np.linspace(-12, 12, n).astype(dtype)
    g = numbers(n, dtype=dtype)
    value, slope = GATES[name]
    atol = 1e-6 if dtype is np.float32 else 1e-9
    out = kernel_of(name)(x)
    np.testing.assert_allclose(out, value(x.astype(np.float64)), atol=atol)
    out = kernel_of(f"{name}_back")(g, x)
    np.testing.assert_allclose(out, g * slope(x.astype(np.float64)), atol=6 * atol)


@both
@pytest.mark.parametrize("name", [name for name in GATES if name != "relu"])
def test_gates_far_out(dtype, name):
    x = np.array([np.nan, np.inf, 1e4, -1e4, 0.0], dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel_of(name)(x), [np.nan, np.inf, 1e4, 0, 0])
        out = kernel_of(f"{name}_back")(np.ones_like(x), x)
    np.testing.assert_array_equal(out[[0, 2, 3, 4]], [np.nan, 1, 0, 0.5])


@both
def test_relu_passes_on_what_is_no_number_and_stops_what_it_should(dtype):
    x = np.array([np.nan, -np.inf, np.inf, -1.0, 2.0, 0.0], dtype)
    np.testing.assert_array_equal(kernel_of("relu")(x), [np.nan, 0, np.inf, 0, 2, 0])
    out = kernel_of("relu_back")(np.array([1, np.inf, 1, np.nan, np.nan, np.inf], dtype), x)
    np.testing.assert_array_equal(out, [0, 0, 1, 0, np.nan, 0])
    large = lucid.tensor(np.tile(x, 20_000).reshape(300, -1), requires_grad=True)
    y = large.relu()
    np.testing.assert_array_equal(y.numpy(), np.maximum(large.detach().numpy(), 0))
    y[1:].nansum().backward()
    np.testing.assert_array_equal(large.grad.numpy()[1:], large.detach().numpy()[1:] > 0)
    assert not large.grad.numpy()[0].any()


@pytest.mark.parametrize("leaf", [True, False])
def test_gradients_of_parts_meet_in_the_whole(leaf):
    x = lucid.tensor(numbers(4, 6), requires_grad=True)
    whole = x if leaf else x * 1
    a, b = whole.split(3, dim=1)
    total = (a * 2).sum() + (b * b).sum() + whole[1].sum() + whole[2, 3] * 5 + (whole[::2, None] * 3).sum()
    total.backward(retain_graph=True)
    wanted = np.concatenate([np.full((4, 3), 2.0), 2 * x.numpy()[:, 3:]], 1)
    wanted[1] += 1
    wanted[2, 3] += 5
    wanted[::2] += 3
    np.testing.assert_allclose(x.grad.numpy(), wanted)
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * wanted)


def test_a_gradient_that_others_hold_is_not_added_to():
    x = lucid.zeros(3, requires_grad=True)
    y = x * 1
    seed = lucid.ones(3)
    lucid.autograd.backward([y, y[0]], [seed, lucid.tensor(1.0)])
    assert seed.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [2, 1, 1]


@pytest.mark.parametrize("moved", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_attention_in_any_order_of_memory(moved):
    arrays, g = [numbers(3, 2, 5, 4, seed=seed) for seed in range(3)], lucid.tensor(numbers(3, 2, 5, 4, seed=3))

    def gradients(moved):
        leaves = [lucid.tensor(a.swapaxes(0, 1).copy() if i in moved else a) for i, a in enumerate(arrays)]
        for leaf in leaves:
            leaf.requires_grad_()
        operands = [leaf.transpose(0, 1) if i in moved else leaf for i, leaf in enumerate(leaves)]
        lucid.nn.functional.scaled_dot_product_attention(*operands, is_causal=True).backward(g)
        return [(leaf.grad.transpose(0, 1) if i in moved else leaf.grad).numpy() for i, leaf in enumerate(leaves)]

    for found, wanted in zip(gradients(moved), gradients(()), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def log_sum_exp(x):
    most = x.max(1, keepdims=True)
    return (np.log(np.exp(x - most).sum(1, keepdims=True)) + most)[:, 0]


@both
@pytest.mark.parametrize("n", SIZES)
def test_losses_of_rows(dtype, n):
    x = numbers(9, n, dtype=dtype) * 30
    places = np.random.default_rng(1).integers(0, n, 9)
    out, e = kernel_of("cross_entropy")(x, places, -100, "none")
    wide = x.astype(np.float64)
    close(out, log_sum_exp(wide) - wide[np.arange(9), places], dtype)
    back = kernel_of("cross_entropy_back")(e, np.full(9, 0.25, dtype), places, -100, "none")
    chances = np.exp(wide - log_sum_exp(wide)[:, None])
    close(back, 0.25 * (chances - np.eye(n)[places]), dtype)


@pytest.mark.parametrize("place", [-1, 3, 1 << 40, -(1 << 62)])
def test_places_outside_of_the_row_are_refused(place):
    x, g = np.zeros((2, 3), np.float32), np.ones(2, np.float32)
    with pytest.raises(IndexError, match="out of range for 3 classes"):
        kernel_of("cross_entropy")(x, np.array([0, place]), -100, "none")
    with pytest.raises(IndexError, match="out of range for 3 classes"):
        kernel_of("cross_entropy_back")(x, g, np.array([place, 0]), -100, "none")


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_the_loss_of_scores_that_are_no_numbers_is_nan(score):
    x = np.array([[0.0, 1.0, 2.0], [score, 1.0, 2.0]], np.float32)
    with np.errstate(invalid="ignore"):
        out, _ = kernel_of("cross_entropy")(x, np.array([0, 1]), -100, "none")
    assert np.isfinite(out[0])
    assert np.isnan(out[1])


@pytest.mark.parametrize("range", [1.0, 30.0, 700.0])
def test_doubles_are_as_exact_as_numpys(range):
    x = np.linspace(-range, range, 10001)
    np.testing.assert_allclose(kernel_of("silu")(x), x * special.expit(x), rtol=1e-15, atol=1e-300)
