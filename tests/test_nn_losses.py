"""Losses beyond the table: the fused cross entropy on the tape and in transforms, CTC, edges, errors, layers."""

import math
from typing import Any

import numpy as np
import pytest
from checks import array
from cycles import no_cycles
from samples_nn_softmax import cross_entropy as reference
from samples_nn_softmax import softmax, spelled

import lucid
from lucid import autograd, func
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch.classes import narrow
from lucid.core import kernels
from lucid.nn import functional as F
from lucid.nn.functional import activations, classification, losses
from lucid.nn.layers import losses as layers
from lucid.nn.layers.adaptive import AdaptiveLogSoftmaxWithLoss
from lucid.ops.nn import cross_entropy as ops
from lucid.ops.nn.softmax import log_softmax

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(6, 5)), np.array([0, 4, 2, 2, 1, 3])


def leaf(values: Any, dtype: str = "float64") -> Any:
    return lucid.tensor(np.asarray(values, dtype), requires_grad=True)


def by_parts(x: Any, y: Any, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """The cross entropy as the two functions that it is made of."""
    return classification.nll_loss(log_softmax(x, 1), y, ignore_index=ignore_index, reduction=reduction)


def onehot(y: Any, classes: int) -> np.ndarray:
    return np.eye(classes)[y]


# --- cross entropy: the tape ---------------------------------------------------------------------


def test_gradient_is_softmax_less_onehot():
    x = leaf(X)
    classification.cross_entropy(x, lucid.tensor(Y)).backward()
    np.testing.assert_allclose(array(x.grad), (softmax(X, 1) - onehot(Y, 5)) / 6, 1e-12, 1e-15)


def test_one_operation_that_keeps_one_array_of_the_scores_size():
    """The tape keeps the exponentials and the targets, not the scores."""
    x = leaf(X)
    scores = x * 1
    loss = classification.cross_entropy(scores, lucid.tensor(Y))
    node = loss.grad_fn.next_functions[0][0] if loss.grad_fn.name() == "output" else loss.grad_fn
    assert node.name() == "cross_entropy"
    arrays = [getattr(s, "value", s) for s in node.saved if s is not None]
    sizes = [a._array.size if isinstance(a, lucid.Tensor) else a.size for a in arrays]
    assert sorted(sizes) == [6, 30]
    assert not any(a is scores for a in arrays)


def test_graph_is_freed_without_the_garbage_collector():
    def steps():
        x = leaf(X)
        classification.cross_entropy(x, lucid.tensor(Y)).backward()
        classification.cross_entropy(x * 2, lucid.tensor(Y))

    steps()  # what is loaded and compiled at the first use leaves cycles
    with no_cycles():
        steps()


def test_backward_twice_needs_the_graph_to_be_retained():
    x = leaf(X)
    loss = classification.cross_entropy(x, lucid.tensor(Y))
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_allclose(array(x.grad), 2 * (softmax(X, 1) - onehot(Y, 5)) / 6)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_overwritten_scores_do_not_matter_but_targets_do():
    x, y = leaf(X), lucid.tensor(Y)
    scores = x * 1
    loss = classification.cross_entropy(scores, y)
    scores.mul_(0)
    loss.backward()
    np.testing.assert_allclose(array(x.grad), (softmax(X, 1) - onehot(Y, 5)) / 6, 1e-12, 1e-15)
    loss = classification.cross_entropy(x * 1, y)
    y.fill_(0)
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_no_grad_records_nothing():
    x = leaf(X)
    with lucid.no_grad():
        loss = classification.cross_entropy(x, lucid.tensor(Y))
    assert not loss.requires_grad
    np.testing.assert_allclose(array(loss), reference(X, Y))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_second_order_is_that_of_the_parts(reduction):
    """Gradients of gradients on the tape, also through saved-tensor hooks that copy everything."""
    y, weights = lucid.tensor(np.where(Y == 1, -100, Y)), lucid.tensor(rng.normal(size=X.shape))

    def curvature(loss_function: Any) -> np.ndarray:
        x = leaf(X)
        loss = loss_function(x * x, y, ignore_index=-100, reduction=reduction)
        (g,) = autograd.grad((loss * loss).sum(), [x], create_graph=True)
        return array(autograd.grad((g * weights).sum(), [x])[0])

    expected = curvature(by_parts)
    np.testing.assert_allclose(curvature(classification.cross_entropy), expected, 1e-10, 1e-12)
    with autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        np.testing.assert_allclose(curvature(classification.cross_entropy), expected, 1e-10, 1e-12)


def test_hessian():
    """diag(p) - p pᵀ."""
    x, p = X[0], softmax(X[0], 0)
    found = func.hessian(lambda t: classification.cross_entropy(t, lucid.tensor(2)))(lucid.tensor(x))
    np.testing.assert_allclose(array(found), np.diag(p) - np.outer(p, p), 1e-10, 1e-12)


@pytest.mark.parametrize("outer", [func.grad, func.jacfwd])
@pytest.mark.parametrize("inner", [func.grad, func.jacfwd])
@pytest.mark.parametrize("batched", ["outside", "between", "inside"])
def test_nestings_with_vmap(outer, inner, batched):
    """Two derivatives with vmap over scores and targets in all places, against those of the parts."""

    def derivative(loss_function: Any) -> np.ndarray:
        def loss(s: Any, x: Any, y: Any) -> Any:
            return loss_function(x * s, y, ignore_index=3, reduction="mean")

        def run(f: Any, x: Any, y: Any) -> Any:
            return lambda s: func.vmap(lambda u, v: f(s, u, v))(x, y).sum()

        x, y = lucid.tensor(X.reshape(3, 2, 5)), lucid.tensor(Y.reshape(3, 2))
        s = lucid.tensor(0.7, dtype=lucid.float64)
        if batched == "inside":
            return array(outer(inner(run(loss, x, y)))(s))
        if batched == "between":
            return array(outer(run(inner(loss), x, y))(s))
        return array(func.vmap(outer(inner(loss)), in_dims=(None, 0, 0))(s, x, y))

    np.testing.assert_allclose(derivative(classification.cross_entropy), derivative(by_parts), 1e-9, 1e-12)


def test_gradients_for_each_example():
    one = func.grad(lambda x, y: classification.cross_entropy(x, y))
    found = func.vmap(one)(lucid.tensor(X), lucid.tensor(Y))
    np.testing.assert_allclose(array(found), softmax(X, 1) - onehot(Y, 5), 1e-12, 1e-15)


def test_targets_alone_may_be_batched():
    rows = np.stack([Y, np.roll(Y, 1), np.full(6, -100)])
    found = func.vmap(lambda y: classification.cross_entropy(lucid.tensor(X), y, reduction="sum"))(lucid.tensor(rows))
    np.testing.assert_allclose(array(found), [reference(X, r, reduction="sum") for r in rows])


# --- cross entropy: sizes, types and edges -------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 7), (9, 5, 6), (4, 3, 2, 5)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("grad", [True, False])
def test_scores_of_any_shape(shape, reduction, grad):
    x = rng.normal(size=shape) * 3
    x[0] += 500
    y = rng.integers(-1, shape[1], (shape[0], *shape[2:]))
    t = lucid.tensor(x, requires_grad=grad)
    loss = classification.cross_entropy(t, lucid.tensor(y), ignore_index=-1, reduction=reduction)
    np.testing.assert_allclose(array(loss), reference(x, y, None, -1, reduction), 1e-12, 1e-12)
    if grad:
        u = leaf(x)
        seed = lucid.tensor(rng.normal(size=loss.shape))
        (g,) = autograd.grad(loss, [t], [seed])
        (e,) = autograd.grad(by_parts(u, lucid.tensor(y), -1, reduction), [u], [seed])
        np.testing.assert_allclose(array(g), array(e), 1e-10, 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_types(dtype):
    """Half precision is computed in single: scores of 60000 are nothing special."""
    x = lucid.tensor(np.array([[60000.0, 59000.0, 0.0], [1.0, 2.0, 3.0]], np.float32)).to(getattr(lucid, dtype))
    x.requires_grad_()
    loss = classification.cross_entropy(x, lucid.tensor([0, 2]))
    loss.backward()
    wide = array(x.detach().double())
    assert loss.dtype == x.dtype == x.grad.dtype
    np.testing.assert_allclose(float(loss), reference(wide, np.array([0, 2])), 1e-2, 1e-2)
    np.testing.assert_allclose(array(x.grad.double()), (softmax(wide, 1) - onehot([0, 2], 3)) / 2, 1e-2, 1e-2)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_targets_of_any_integer_type(dtype):
    found = classification.cross_entropy(lucid.tensor(X), lucid.tensor(Y).to(getattr(lucid, dtype)))
    np.testing.assert_allclose(float(found), reference(X, Y))


def test_a_target_that_is_impossible():
    """The loss is infinite, and the gradient still the softmax less one."""
    x = leaf([[0.0, -math.inf, 1.0]])
    loss = classification.cross_entropy(x, lucid.tensor([1]))
    loss.backward()
    assert float(loss) == math.inf
    np.testing.assert_allclose(array(x.grad), softmax(array(x.detach()), 1) - onehot([1], 3))


def test_very_unlikely_targets_do_not_spoil_the_gradient():
    x = np.array([[0.0, -1e9, 1.0]])
    t = leaf(x, "float32")
    classification.cross_entropy(t, lucid.tensor([1])).backward()
    np.testing.assert_allclose(array(t.grad), softmax(x, 1) - onehot([1], 3), 1e-6)


def test_all_targets_ignored():
    x = leaf(X)
    loss = classification.cross_entropy(x, lucid.tensor(np.full(6, -100)))
    assert math.isnan(float(loss))
    loss.backward()
    np.testing.assert_array_equal(array(x.grad), 0)


def test_no_rows():
    x = leaf(np.zeros((0, 5)))
    loss = classification.cross_entropy(x, lucid.tensor(np.zeros(0, int)), reduction="sum")
    loss.backward()
    assert float(loss) == 0
    assert x.grad.shape == (0, 5)


def test_ignored_rows_may_hold_anything():
    x = leaf([[1.0, 2.0], [math.inf, -math.inf]])
    loss = classification.cross_entropy(x, lucid.tensor([1, -100]))
    assert math.isfinite(float(loss))


def test_weights_have_gradients():
    """PyTorch has none for them."""
    y = lucid.tensor(np.where(Y == 1, -100, Y))
    assert autograd.gradcheck(
        lambda x, w: classification.cross_entropy(x, y, w), (leaf(X), leaf(rng.uniform(0.5, 1, 5)))
    )


CLASS_ERRORS = [
    (np.zeros((2, 3)), np.array([0, 3]), IndexError, "target 3 is out of range for 3 classes"),
    (np.zeros((2, 3)), np.array([0, -1]), IndexError, "target -1 is out of range"),
    (np.zeros((2, 3)), np.array([0, 1, 2]), ValueError, r"need shape \(2,\)"),
    (np.zeros((2, 3, 4)), np.array([0, 1]), ValueError, r"need shape \(2, 4\)"),
    (np.zeros((2, 3), int), np.array([0, 1]), TypeError, "floating-point"),
    (np.zeros((2, 3)), np.array([True, False]), TypeError, "integers"),
]


@pytest.mark.parametrize("function", [classification.cross_entropy, classification.nll_loss])
@pytest.mark.parametrize(("x", "y", "kind", "message"), CLASS_ERRORS)
def test_targets_that_do_not_fit(function, x, y, kind, message):
    with pytest.raises(kind, match=message):
        function(lucid.tensor(x), lucid.tensor(y))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight": lucid.ones(4)}, "each of 5 classes"),
        ({"label_smoothing": 1.5}, "between 0 and 1"),
        ({"reduction": "median"}, "'none', 'mean' or 'sum'"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        classification.cross_entropy(lucid.tensor(X), lucid.tensor(Y), **settings)
    with pytest.raises(ValueError, match="probabilities of shape"):
        classification.cross_entropy(lucid.tensor(X), lucid.tensor(X[:, :3]))


def test_bad_targets_leave_everything_as_it_was():
    x = leaf(X)
    with pytest.raises(IndexError):
        ops.cross_entropy(x, lucid.tensor(np.full(6, 9)))
    assert x.grad is None
    assert x.is_leaf


# --- CTC -----------------------------------------------------------------------------------------


def log_probs(*shape: int, dtype: str = "float64") -> np.ndarray:
    x = rng.normal(size=shape)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(dtype)


def test_ctc_second_order():
    x = leaf(log_probs(4, 2, 3))
    y, inputs, lengths = lucid.tensor([[1, 2], [2, 2]]), [4, 3], [2, 2]
    call = lambda t: classification.ctc_loss(t, y, inputs, lengths, reduction="none")
    assert autograd.gradcheck(call, (x,))
    assert autograd.gradgradcheck(call, (x,))


def test_ctc_gradient_is_the_probability_of_being_there():
    """-d loss / d log p[t, c] is the share of alignments that have c at time t: it adds up to 1 at each time."""
    x = leaf(log_probs(30, 2, 6))
    loss = classification.ctc_loss(x, lucid.tensor([[1, 2, 2, 5], [3, 0, 0, 0]]), [30, 20], [4, 1], reduction="sum")
    loss.backward()
    shares = -array(x.grad).sum(-1)
    np.testing.assert_allclose(shares[:, 0], 1)
    np.testing.assert_allclose(shares[:20, 1], 1)
    np.testing.assert_array_equal(array(x.grad)[20:, 1], 0)


def test_ctc_of_long_sequences_in_single_precision():
    x = log_probs(400, 3, 30)
    y = lucid.tensor(rng.integers(1, 30, (3, 80)))
    narrow, wide = leaf(x, "float32"), leaf(x)
    found, expected = (classification.ctc_loss(t, y, [400] * 3, [80] * 3) for t in (narrow, wide))
    np.testing.assert_allclose(float(found), float(expected), 1e-5)
    found.backward()
    expected.backward()
    np.testing.assert_allclose(array(narrow.grad), array(wide.grad), 1e-3, 1e-5)


def test_ctc_inside_vmap():
    """Over scores, targets and lengths at once, values and gradients against a loop."""
    x = np.stack([log_probs(5, 2, 4) for _ in range(3)])
    y = rng.integers(1, 4, (3, 2, 2))
    inputs, lengths = np.array([[5, 4], [5, 5], [3, 5]]), np.array([[2, 1], [0, 2], [1, 2]])

    def one(x: Any, y: Any, inputs: Any, lengths: Any) -> Any:
        return classification.ctc_loss(x, y, inputs, lengths, reduction="sum")

    operands = [lucid.tensor(v) for v in (x, y, inputs, lengths)]
    together = array(func.vmap(one)(*operands))
    np.testing.assert_allclose(
        together, [spelled(*v, reduction="sum") for v in zip(x, y, inputs, lengths, strict=True)]
    )
    gradients = array(func.vmap(func.grad(one))(*operands))
    loop = [array(func.grad(one)(*(o[k] for o in operands))) for k in range(3)]
    np.testing.assert_allclose(gradients, np.stack(loop), 1e-10, 1e-12)


def test_ctc_target_that_is_too_long():
    x = leaf(log_probs(3, 2, 4))
    y = lucid.tensor([[1, 1, 1], [1, 2, 3]])  # the first needs blanks in between: 5 steps
    loss = classification.ctc_loss(x, y, [3, 3], [3, 3], reduction="none")
    assert float(loss[0]) == math.inf
    assert math.isfinite(float(loss[1]))
    quiet = classification.ctc_loss(x, y, [3, 3], [3, 3], reduction="sum", zero_infinity=True)
    quiet.backward()
    assert float(quiet) == float(loss[1])
    np.testing.assert_array_equal(array(x.grad)[:, 0], 0)
    assert np.isfinite(array(x.grad)).all()


def test_ctc_ignores_what_stands_behind_the_end_of_a_target():
    x = lucid.tensor(log_probs(5, 1, 4))
    found = [float(classification.ctc_loss(x, lucid.tensor([[1, 2, pad]]), [5], [2])) for pad in (0, 1, 3, -7, 100)]
    assert len(set(found)) == 1


CTC_ERRORS = [
    ({"blank": 4}, ValueError, "one of the 4 classes"),
    ({"input_lengths": [6, 5]}, ValueError, "between 1 and 5"),
    ({"target_lengths": [3, 1]}, ValueError, "between 0 and 2"),
    ({"input_lengths": [5]}, ValueError, "a batch of 2"),
    ({"target_lengths": lucid.tensor([1.0, 1.0])}, TypeError, "integers"),
    ({"targets": lucid.tensor([1, 2, 1])}, ValueError, "add up to 2"),
    ({"targets": lucid.tensor([[1, 4], [1, 1]]), "target_lengths": [2, 2]}, IndexError, "out of range"),
    ({"reduction": "median"}, ValueError, "reduction"),
]


@pytest.mark.parametrize(("wrong", "kind", "message"), CTC_ERRORS)
def test_ctc_errors(wrong, kind, message):
    settings = {
        "log_probs": lucid.tensor(log_probs(5, 2, 4)),
        "targets": lucid.tensor([[1, 2], [3, 1]]),
        "input_lengths": [5, 5],
        "target_lengths": [1, 1],
        **wrong,
    }
    with pytest.raises(kind, match=message):
        classification.ctc_loss(**settings)


# --- losses of numbers ---------------------------------------------------------------------------

OPERANDS: dict[str, int] = {
    "margin_ranking_loss": 3, "cosine_embedding_loss": 3, "triplet_margin_loss": 3,
    "triplet_margin_with_distance_loss": 3, "gaussian_nll_loss": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", losses.__all__)
def test_unknown_reductions_are_refused(name):
    operands = [lucid.ones(2, 3) * 0.5 for _ in range(OPERANDS.get(name, 2))]
    if name in ("multi_margin_loss", "cosine_embedding_loss"):
        operands[-1] = lucid.tensor([0, 1])
    if name == "multilabel_margin_loss":
        operands[-1] = lucid.zeros(2, 3, dtype=lucid.int64)
    with pytest.raises(ValueError, match="reduction must be"):
        getattr(losses, name)(*operands, reduction="median")


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_broadcasting_is_warned_of(name):
    with pytest.warns(UserWarning, match="rarely meant"):
        getattr(losses, name)(lucid.ones(2, 3), lucid.ones(2, 1))


SHAPE_ERRORS = [
    (lambda: losses.binary_cross_entropy(lucid.ones(2), lucid.ones(3)), "same shape"),
    (lambda: losses.binary_cross_entropy_with_logits(lucid.ones(2), lucid.ones(3)), "same shape"),
    (lambda: losses.gaussian_nll_loss(lucid.ones(2, 3), lucid.ones(2, 3), lucid.ones(3)), "does not fit"),
    (lambda: losses.gaussian_nll_loss(lucid.ones(2), lucid.ones(2), lucid.ones(2), eps=0.0), "eps must be positive"),
    (
        lambda: losses.cosine_embedding_loss(lucid.ones(2, 3), lucid.ones(2, 3), lucid.ones(3, 1)),
        "takes inputs of shape",
    ),
    (lambda: losses.multi_margin_loss(lucid.ones(2, 3), lucid.tensor([1])), "do not fit"),
    (lambda: losses.multi_margin_loss(lucid.ones(2, 3), lucid.tensor([1, 1]), p=3), "p must be 1 or 2"),
    (lambda: losses.multilabel_margin_loss(lucid.ones(2, 3), lucid.tensor([[1, 1]])), "do not fit"),
    (lambda: losses.mse_loss(lucid.ones(2), lucid.ones(2), weight=lucid.ones(3)), "weight must have the shape"),
    (lambda: losses.huber_loss(lucid.ones(2), lucid.ones(2), delta=0.0), "delta must be positive"),
    (lambda: losses.smooth_l1_loss(lucid.ones(2), lucid.ones(2), beta=-1.0), "beta must not be negative"),
    (
        lambda: losses.triplet_margin_loss(lucid.ones(2, 1), lucid.ones(2, 1), lucid.ones(2, 1), margin=0.0),
        "margin must be positive",
    ),
]


@pytest.mark.parametrize(("call", "message"), SHAPE_ERRORS)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_mse_is_one_operation_for_tensors_of_one_shape():
    x, y = leaf(X), leaf(X * 2)
    loss = losses.mse_loss(x, y)
    assert loss.grad_fn.name() == "sum_of_squares"
    loss.backward()
    np.testing.assert_allclose(array(x.grad), -2 * X / X.size)
    np.testing.assert_allclose(array(y.grad), 2 * X / X.size)
    assert math.isnan(float(losses.mse_loss(lucid.zeros(0), lucid.zeros(0))))


def test_mse_of_integers_and_mixed_types():
    assert float(losses.mse_loss(lucid.tensor([1, 2]), lucid.tensor([1.0, 4.0]))) == 2
    x = leaf([1.0], "float32")
    loss = losses.mse_loss(x, lucid.tensor([3.0], dtype=lucid.float64))
    loss.backward()
    assert (loss.dtype, x.grad.dtype) == (lucid.float64, lucid.float32)


def test_binary_cross_entropy_at_the_ends():
    """Logarithms stop at -100, and the gradient leads away from certain mistakes."""
    x = leaf([0.0, 1.0, 0.0, 1.0])
    loss = losses.binary_cross_entropy(x, lucid.tensor([0.0, 1.0, 1.0, 0.0], dtype=lucid.float64), reduction="none")
    np.testing.assert_array_equal(array(loss), [0, 0, 100, 100])
    loss.sum().backward()
    np.testing.assert_allclose(array(x.grad), [0, 0, -1e12, 1e12])


def test_logit_entropy_keeps_small_numbers():
    """log(1 + exp(-40)) is far below the smallest step at 1."""
    x = np.array([40.0, 60.0], np.float32)
    found = losses.binary_cross_entropy_with_logits(lucid.tensor(x), lucid.ones(2), reduction="none")
    np.testing.assert_allclose(array(found), np.exp(-x.astype(float)), 1e-6)


def test_kl_divergence_of_zero_probabilities():
    x = leaf(np.log([[0.5, 0.5]]))
    y = leaf([[1.0, 0.0]])
    loss = losses.kl_div(x, y, reduction="batchmean")
    loss.backward()
    assert float(loss) == pytest.approx(math.log(2))
    np.testing.assert_array_equal(array(x.grad), [[-1, 0]])
    assert np.isfinite(array(y.grad)[0, 0])


def test_gaussian_variance_below_the_bound_still_has_a_gradient():
    var = leaf([1e-9, 1.0])
    loss = losses.gaussian_nll_loss(leaf([0.0, 0.0]), leaf([0.0, 0.0]), var, eps=1e-2, reduction="sum")
    loss.backward()
    assert float(loss) == pytest.approx(0.5 * math.log(1e-2))
    np.testing.assert_allclose(array(var.grad), [0.5 / 1e-2, 0.5])


@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "binary_cross_entropy_with_logits", "poisson_nll_loss"])
def test_losses_for_each_example(name):
    """vmap of grad against a loop."""
    x, y = lucid.tensor(rng.normal(size=(4, 3))), lucid.tensor(rng.uniform(size=(4, 3)))
    one = func.grad(lambda a, b: getattr(losses, name)(a, b, reduction="sum"))
    np.testing.assert_allclose(
        array(func.vmap(one)(x, y)), np.stack([array(one(a, b)) for a, b in zip(x, y, strict=True)]), 1e-12, 1e-14
    )


# --- layers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in layers.__all__ if n != "CTCLoss"])
def test_layer_refuses_unknown_reductions(name):
    with pytest.raises(ValueError, match="reduction must be one of"):
        getattr(layers, name)(reduction="median")


def test_loss_layer_weights_are_state_and_move_with_the_module():
    layer = layers.CrossEntropyLoss(weight=lucid.tensor([1.0, 2.0]))
    assert list(layer.state_dict()) == ["weight"]
    assert list(layer.parameters()) == []
    layer.double()
    assert layer.weight.dtype == lucid.float64
    assert list(layers.CrossEntropyLoss().state_dict()) == []


def test_loss_layers_train():
    """A few steps of descent on each kind of loss lower it."""
    x = rng.normal(size=(20, 3))
    target = lucid.tensor((x[:, 0] > 0).astype(int))
    for loss_function, goal in (
        (layers.CrossEntropyLoss(), target),
        (layers.CrossEntropyLoss(label_smoothing=0.1), target),
        (layers.MultiMarginLoss(), target),
        (layers.MSELoss(), lucid.tensor(x[:, :2])),
        (layers.BCEWithLogitsLoss(), lucid.tensor((x[:, :2] > 0).astype(float))),
    ):
        w = leaf(np.zeros((3, 2)))
        history = []
        for _ in range(20):
            loss = loss_function(lucid.tensor(x) @ w, goal)
            history.append(float(loss))
            (g,) = autograd.grad(loss, [w])
            w = (w - 0.5 * g).detach().requires_grad_()
        assert history[-1] < 0.7 * history[0]


def test_adaptive_softmax_is_a_distribution_and_its_loss_reads_it():
    layer = AdaptiveLogSoftmaxWithLoss(6, 30, [5, 12], div_value=2.0)
    x, y = lucid.tensor(rng.normal(size=(7, 6)).astype(np.float32)), np.array([0, 4, 5, 11, 12, 29, 3])
    logs = array(layer.log_prob(x).detach())
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, 1e-5)
    output, loss = layer(x, lucid.tensor(y))
    np.testing.assert_allclose(array(output.detach()), logs[np.arange(7), y], 1e-5)
    assert float(loss) == pytest.approx(-logs[np.arange(7), y].mean(), rel=1e-5)
    for wrong in ([], [5, 5], [0, 5], [5, 30], [8, 3]):
        with pytest.raises(ValueError, match="cutoffs"):
            AdaptiveLogSoftmaxWithLoss(6, 30, wrong)
    with pytest.raises(IndexError, match="between 0 and 29"):
        layer(x, lucid.tensor(y + 1))
    with pytest.raises(ValueError, match=r"\(N, 6\)"):
        layer(x[:, :3], lucid.tensor(y))


def test_log_softmax_and_nll_are_cross_entropy():
    x, y = lucid.tensor(X), lucid.tensor(Y)
    apart = layers.NLLLoss()(activations.log_softmax(x, 1), y)
    np.testing.assert_allclose(float(layers.CrossEntropyLoss()(x, y)), float(apart), 1e-12)


@pytest.mark.parametrize("bad", [1.5, -0.25, float("nan"), float("inf")])
def test_probabilities_lie_between_0_and_1(bad: float) -> None:
    good = lucid.tensor([0.0, 0.5, 1.0])
    other = lucid.tensor([0.5, bad, 0.5])
    for function in (F.binary_cross_entropy, lucid.nn.BCELoss()):
        assert function(good, good).isfinite()
        with pytest.raises(ValueError, match="input must lie between 0 and 1"):
            function(other, good)
        with pytest.raises(ValueError, match="target must lie between 0 and 1"):
            function(good, other)
    with pytest.raises(ValueError, match="between 0 and 1"):
        lucid.vmap(F.binary_cross_entropy)(other.unsqueeze(0), good.unsqueeze(0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_one_class_has_no_choice(dtype: str) -> None:
    """Softmax of one element is exactly 1, its logarithm exactly 0, and logsumexp the element itself."""
    x = lucid.tensor(np.random.default_rng(0).normal(size=(50, 1))).to(dtype)
    target = lucid.zeros(50, dtype=lucid.int64)
    for y, dim in ((x, 1), (x.t().contiguous(), 0), (x.reshape(5, 1, 10), 1)):
        for logs in (lucid.log_softmax, F.log_softmax, lucid.special.log_softmax, lucid.masked.log_softmax):
            assert (logs(y, dim) == 0).all(), logs
        assert (lucid.softmax(y, dim) == 1).all() and (F.softmin(y, dim) == 1).all()
        assert (lucid.logsumexp(y, dim) == y.squeeze(dim)).all()
    assert all(v == 0 for v in F.cross_entropy(x, target, reduction="none").tolist())
    assert lucid.log_softmax(x[0, 0], 0).item() == 0
    leaf = x.clone().requires_grad_()
    F.cross_entropy(leaf, target).backward()
    assert (leaf.grad == 0).all()


@pytest.mark.skipif(not support.in_use, reason="no code is generated here")
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("ignored", (False, True))
def test_cross_entropy_and_its_gradient_are_generated(reduction, ignored, monkeypatch):
    reference_of = kernels.reference

    def watched(primitive):
        assert not primitive.name.startswith("cross_entropy")
        return reference_of(primitive)

    y = np.where(Y == 2, -100, Y) if ignored else Y
    expected = leaf(X)
    by_parts(expected, lucid.tensor(y), reduction=reduction).sum().backward()
    monkeypatch.setattr(kernels, "reference", watched)
    x = leaf(X)
    classification.cross_entropy(x, lucid.tensor(y), reduction=reduction).sum().backward()
    np.testing.assert_allclose(array(x.grad), array(expected.grad), 1e-12, 1e-14)


@pytest.mark.skipif(not support.in_use, reason="no code is generated here")
@pytest.mark.parametrize("dtype", ("int64", "int32", "uint8"))
@pytest.mark.parametrize("shape", ((6,), (2, 3), (2, 3, 4), (0,)))
def test_targets_as_numbers_of_32_bits(shape, dtype):
    target = rng.integers(0, 5, shape).astype(dtype)
    for given in (target, target.T, target[::2]):
        places, kept = narrow(given, 5, 3)
        np.testing.assert_array_equal(places, np.where(given == 3, -1, given.astype(int))[:, None])
        assert places.dtype == np.int32
        assert kept == np.count_nonzero(given != 3)
        assert not given.size or narrow(given, int(given.max()), -1) is None
