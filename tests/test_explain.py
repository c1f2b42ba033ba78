"""Explanations name the cause and the user's line."""

import gc
import sys
import weakref

import numpy as np
import pytest

import lucid
from lucid.autograd import Function
from lucid.autograd.explaining import Explanation, explain
from lucid.core import detachments


def leaf(*values, **options):
    return lucid.tensor(list(values), requires_grad=True, **options)


@pytest.fixture(autouse=True)
def no_memory_of_other_tests():
    detachments.log.clear()


@pytest.fixture
def x():
    return leaf(1.0, -2.0)


@pytest.fixture
def w():
    return leaf(3.0, 4.0)


def line_of(marker):
    """The number of the line in the calling function that ends in the comment `marker`."""
    frame = sys._getframe(1)
    with open(__file__) as file:
        lines = file.read().splitlines()
    for number in range(frame.f_code.co_firstlineno, len(lines) + 1):
        if lines[number - 1].endswith(f"# {marker}"):
            return f"test_explain.py:{number}:"
    raise AssertionError(marker)


def only(explanation, *words):
    """The single reason that contains the first of the words; it must contain the others too."""
    found = [r for r in explanation.reasons if words[0] in r]
    assert len(found) == 1, explanation
    for word in words:
        assert word in found[0], explanation
    return found[0]


# Cut off.


def test_detached(x, w):
    y = (x * 2).detach()  # detach
    result = explain((y * w).sum(), x)
    assert not result.connected
    assert result.reasons[0] == "no recorded operation leads from the tensor to the loss"
    assert line_of("detach") in only(result, "a value computed from the tensor was detached")


def test_leaf_itself_detached(x, w):
    y = x.detach()  # detach
    assert line_of("detach") in only(explain((y * w).sum(), x), "the tensor was detached")


def test_data_is_a_detach(x, w):
    y = x.data * 1  # data
    assert line_of("data") in only(explain((y * w).sum(), x), "the tensor was detached")


def test_intermediate_result_detached(x, w):
    h = x * 2
    y = h.exp().detach()  # detach
    assert line_of("detach") in only(explain((y * w).sum(), h), "was detached")


def test_no_grad(x, w):
    with lucid.no_grad():
        y = x.exp()  # no_grad
    assert line_of("no_grad") in only(explain((y * w).sum(), x), "the tensor was used under no_grad")


def test_no_grad_with_a_general_operation(x, w):
    with lucid.no_grad():
        y = x.sum(0)  # no_grad
    assert line_of("no_grad") in only(explain((y * w).sum(), x), "under no_grad")


def test_integer_conversion(x, w):
    y = x.long()  # long
    assert line_of("long") in only(explain((y * w).sum(), x), "converted to int64, which has no gradient")


@pytest.mark.parametrize("leave", [lambda t: t.numpy(), np.asarray, lambda t: np.array(t)])
def test_numpy(x, w, leave):
    y = leave(x)
    reason = only(explain((lucid.tensor(y * 2) * w).sum(), x), "the tensor was taken out of the graph as a NumPy array")
    assert "test_explain.py:" in reason


def test_numpy_names_the_line(x, w):
    y = lucid.tensor((x * 2).numpy())  # numpy
    assert line_of("numpy") in only(explain((y * w).sum(), x), "NumPy array")


def test_loss_does_not_require_grad(x):
    y = x.detach()  # detach
    result = explain(y.sum(), x)
    assert not result.connected
    assert "the loss does not require grad" in result.reasons[0]
    assert line_of("detach") in only(result, "the tensor was detached")


def test_integer_loss(x):
    result = explain(x.argmax(), x)
    assert "int64, which has no gradient" in result.reasons[0]


def test_never_used(x, w):
    result = explain(w.sum(), x)
    assert not result.connected
    only(result, "it was never used for the loss")


def test_cut_after_the_loss_is_no_reason(x, w):
    loss = w.sum()
    x.detach()
    only(explain(loss, x), "never used")


def test_cut_of_another_tensor_is_no_reason(x, w):
    y = w.detach()
    only(explain((y * w).sum(), x), "never used")


def test_latest_cut_comes_first_and_places_are_not_repeated(x, w):
    for _ in range(3):
        x.detach()
    with lucid.no_grad():
        y = x * 2
    reasons = explain((y * w).sum(), x).reasons[1:]
    assert ["no_grad" in r for r in reasons] == [True, False]


def test_cut_far_above_the_leaf(x, w):
    y = x
    for _ in range(50):
        y = y + 1
    z = y.detach()  # detach
    assert line_of("detach") in only(explain((z * w).sum(), x), "a value computed from the tensor was detached")


def test_cut_far_above_a_leaf_whose_graph_is_gone(x, w):
    y = x
    for _ in range(50):
        y = y + 1
    y = y.detach()  # detach
    reason = only(explain((y * w).sum(), x), "a value that may have been computed from the tensor was detached")
    assert line_of("detach") in reason


def test_arguments_the_wrong_way_round(x):
    only(explain(x, (x * 2).sum()), "wrong way round")


def test_changed_in_place_after_the_loss(w):
    h = w * 2
    loss = h.sum()
    h.add_(1)  # add
    result = explain(loss, h)
    assert not result.connected
    assert line_of("add") in only(result, "changed in place by `add_`")
    assert explain(loss, w).connected


# The tensor cannot have a gradient.


def test_tensor_does_not_require_grad(w):
    result = explain(w.sum(), lucid.tensor([1.0]))
    assert not result.connected
    assert "does not require grad: call requires_grad_()" in str(result)


def test_integer_tensor(w):
    assert "int64: only floating-point and complex" in str(explain(w.sum(), lucid.tensor([1])))


def test_detached_tensor(x, w):
    y = x.detach()
    only(explain((y * w).sum(), y), "it is the result of detach()")


# Connected.


def test_connected_before_backward(x):
    result = explain((x * x).sum(), x)
    assert result.connected
    only(result, ".grad is None because backward() has not run")


def test_connected_after_backward(x):
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    result = explain(loss, x)
    assert result.connected
    assert result.reasons == ["the gradient flows through 2 operations to the tensor"]


def test_graph_was_freed(x):
    loss = (x * x).sum()
    loss.backward()  # backward
    result = explain(loss, x)
    assert result.connected
    assert line_of("backward") in only(result, "the graph was freed")


def test_non_leaf_without_retain_grad(x):
    h = x * 2
    loss = h.sum()
    result = explain(loss, h)
    assert result.connected
    only(result, "not a leaf", "retain_grad()")
    h.retain_grad()
    assert "not a leaf" not in str(explain(loss, h))


def test_the_loss_itself(x):
    loss = x.sum()
    assert explain(loss, loss).connected


def test_nan(x):
    only(explain((x * 0).sqrt().sum(), x), "nan or inf")


def test_overwritten_value(x):
    h = x * 2
    loss = h.exp()
    total = loss.sum()
    loss.add_(1)
    result = explain(total, x)
    assert result.connected
    only(result, "the backward pass fails", "in-place")


# Connected, but zero.


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "trunc", "round"])
def test_zero_everywhere(x, w, name):
    y = getattr(x * 1.5, name)()  # steps
    loss = (y * w).exp().sum()
    result = explain(loss, x)
    assert result.connected
    assert result.reasons[0] == "the gradient is zero everywhere"
    assert line_of("steps") in only(result, f"the derivative of `{name}` is zero everywhere")


def test_relu_of_negative_numbers():
    x = leaf(-1.0, -2.0)
    y = x.relu()  # relu
    assert line_of("relu") in only(explain(y.sum(), x), "`relu` lets no gradient through", "negative or zero")


def test_clamp_outside(x):
    y = x.clamp(5, 6)  # clamp
    assert line_of("clamp") in only(explain(y.sum(), x), "`clamp`", "outside the bounds")


def test_where_selects_the_other(x, w):
    y = lucid.where(x > 100, x, w)  # where
    assert line_of("where") in only(explain(y.sum(), x), "`where`", "selects the other operand")
    assert "zero everywhere" not in str(explain(y.sum(), w))


def test_multiplied_by_zeros(x):
    y = x.exp() * 0  # zero
    assert line_of("zero") in only(explain(y.sum(), x), "`mul`", "multiplies by zeros")


def test_contracted_with_zeros(x):
    y = lucid.zeros(x.shape[-1], 2)
    assert only(explain((x @ y).sum(), x), "`contract`", "multiplies by zeros")


def test_cancelled(x, w):
    result = explain((x - x + w).sum(), x)
    only(result, "cancel each other", "at the tensor")
    h = x.exp()
    only(explain((h - h + w).sum(), x), "cancel each other", "the result of `exp`")


def test_operand_without_elements(x):
    only(explain(x[:0].sum(), x), "the operand of `sum` has no elements")


def test_two_operations_that_stop_the_gradient(x):
    y = x.floor() + (x * 0)
    result = explain(y.sum(), x)
    only(result, "`floor`")
    only(result, "`mul`")


def test_custom_function_that_returns_none(x):
    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    result = explain(Nothing.apply(x).sum(), x)
    assert result.reasons[0] == "the gradient is None"
    only(result, "`Nothing` gives None")


# Without effects.


def test_nothing_changes(x):
    calls = []
    h = x * 2
    h.register_hook(lambda g: calls.append(g))
    h.retain_grad()
    loss = (h * h).sum()
    noted = len(detachments.log)
    only(explain(loss, x), "hooks on the result of `mul`")
    assert not calls and x.grad is None and h.grad is None and len(detachments.log) == noted
    loss.backward()
    assert np.array_equal(x.grad.numpy(), 8 * np.array([1.0, -2.0]))


def test_text(x):
    result = explain((x * 0).sum(), x)
    assert isinstance(result, Explanation)
    assert repr(result) == str(result)
    assert str(result).splitlines()[0] == "connected:"
    assert str(result).splitlines()[1] == f"  - {result.reasons[0]}"
    assert str(explain(x.sum(), lucid.tensor([1]))).startswith("not connected: the tensor is")


def test_only_tensors(x):
    with pytest.raises(TypeError, match="explain: tensor must be a Tensor, not float"):
        explain(x, 1.0)


def test_long_chains(x):
    y = x
    for _ in range(20_000):
        y = y + 1
    assert explain(y.sum(), x).connected


def test_cuts_keep_nothing_alive():
    gc.disable()
    try:
        x = leaf(1.0)
        y = x
        for _ in range(30):
            y = y.exp()
        y.detach()
        x.numpy()
        with lucid.no_grad():
            y * 2
        refs = [weakref.ref(t) for t in (x, y, y.grad_fn)]
        del x, y
        assert all(r() is None for r in refs)
    finally:
        gc.enable()


def test_cuts_are_bounded(x):
    for _ in range(detachments.log.maxlen + 10):
        x.detach()
    assert len(detachments.log) == detachments.log.maxlen
