"""Errors: each says what was given and what to do, points at the user's line, and leaves everything as it was."""

import inspect
import threading

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, backward, grad


def leaf(*values):
    return lucid.tensor(list(values), requires_grad=True)


def here(offset=0):
    return f"{__file__}:{inspect.currentframe().f_back.f_lineno + offset}"


def message_of(call):
    with pytest.raises(Exception) as error:  # the text is what is tested
        call()
    return str(error.value)


# --- places in the user's code --------------------------------------------------------------------


def test_freed_graph_error_names_operation_line_and_freeing_line():
    x = leaf(1.0)
    y, made = x.exp(), here()
    y.backward()
    freed = here(-1)
    text = message_of(y.backward)
    assert "`exp`" in text and made in text and freed in text and "retain_graph=True" in text


def test_freed_graph_error_shows_the_source_lines():
    x = leaf(1.0)
    y = x.exp()
    y.backward()
    text = message_of(y.backward)
    assert "y = x.exp()" in text and "y.backward()" in text


def test_freed_graph_error_through_grad_names_grad():
    x = leaf(1.0)
    y = x * x
    grad(y, x)
    assert "grad(y, x)" in message_of(lambda: grad(y, x))


def test_overwritten_error_shows_the_source_of_both_lines():
    x, w = leaf(1.0), leaf(2.0)
    z = x * 1
    loss = z * w
    z.add_(5)
    text = message_of(loss.backward)
    assert "loss = z * w" in text and "z.add_(5)" in text and "clone()" in text


def test_overwritten_error_for_setitem_names_the_assignment():
    x, w = leaf(1.0, 2.0), leaf(2.0, 3.0)
    z = x * 1
    loss = (z * w).sum()
    z[0] = 5.0
    assert "z[0] = 5.0" in message_of(loss.backward)


def test_overwritten_error_for_augmented_assignment_names_the_line():
    x, w = leaf(1.0, 2.0), leaf(2.0, 3.0)
    z = x * 1
    loss = (z * w).sum()
    z += 1
    assert "z += 1" in message_of(loss.backward)


def test_place_is_the_line_of_the_caller_of_the_library_not_inside_it():
    def model(t):
        return t.var() + t.std()  # composites of many primitives

    x = leaf(1.0, 2.0)
    y = model(x)
    y.backward()
    text = message_of(y.backward)
    assert "test_errors.py" in text and "reductions.py" not in text and "primitive.py" not in text


def test_place_inside_a_lambda_comprehension_and_other_thread():
    x = leaf(1.0)
    out = []
    thread = threading.Thread(target=lambda: out.append(x.exp()))
    thread.start()
    thread.join()
    out[0].backward()
    assert "x.exp()" in message_of(out[0].backward)
    (y,) = [t.exp() for t in (x,)]
    y.backward()
    assert "t.exp()" in message_of(y.backward)


def test_place_without_source_is_still_a_line():
    scope = {"lucid": lucid}
    exec(compile("x = lucid.tensor([1.0], requires_grad=True)\ny = x.exp()\ny.backward()", "<made up>", "exec"), scope)
    assert "<made up>:2" in message_of(scope["y"].backward)


# --- what to do -----------------------------------------------------------------------------------


def test_output_that_does_not_require_grad():
    text = message_of(lambda: lucid.ones(1).backward())
    assert "does not require grad" in text and "requires_grad=True" in text


def test_non_scalar_backward():
    text = message_of(lambda: leaf(1.0, 2.0).backward())
    assert "grad can be implicitly created only for scalar outputs" in text and "(2,)" in text and "sum" in text


def test_unused_input():
    x, y = leaf(1.0), leaf(2.0)
    text = message_of(lambda: grad(x * 2, [x, y]))
    assert "inputs[1]" in text and "allow_unused=True" in text


def test_leaf_in_place():
    text = message_of(lambda: leaf(1.0).add_(1))
    assert "add_" in text and "leaf" in text and "no_grad" in text


def test_integer_requires_grad():
    text = message_of(lambda: lucid.tensor([1], requires_grad=True))
    assert "int64" in text and "floating-point" in text


def test_shapes_that_do_not_broadcast():
    text = message_of(lambda: lucid.ones(2, 3) + lucid.ones(4))
    assert "add" in text and "(2, 3)" in text and "(4,)" in text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lucid.ones(2, 3) @ lucid.ones(2, 3), ["matmul", "(2, 3)"]),
        (lambda: lucid.ones(2, 3).view(4), ["view", "(2, 3)", "4"]),
        (lambda: lucid.ones(2, 3).reshape(-1, -1), ["reshape", "-1"]),
        (lambda: lucid.ones(2, 3).t().view(6), ["view", "reshape"]),
        (lambda: lucid.ones(2, 3).sum(2), ["2"]),
        (lambda: lucid.ones(2, 3).sum((0, 0)), ["0"]),
        (lambda: lucid.ones(2, 3).permute(0, 0), ["permute"]),
        (lambda: lucid.ones(2, 3).expand(5, 3), ["expand", "(2, 3)"]),
        (lambda: lucid.ones(2)[5], ["5", "(2,)"]),
        (lambda: lucid.ones(2)[0, 0], ["(2,)"]),
        (lambda: lucid.ones(2)[1.5], ["float"]),
        (lambda: lucid.ones(2)[[0, 7]], ["7", "2"]),
        (lambda: lucid.cat([]), ["cat"]),
        (lambda: lucid.cat([lucid.ones(2, 3), lucid.ones(2, 4)]), ["cat", "(2, 4)"]),
        (lambda: lucid.stack([lucid.ones(2), lucid.ones(3)]), ["stack"]),
        (lambda: lucid.zeros(-1), ["-1"]),
        (lambda: lucid.ones(2) + "a", ["add", "str"]),
        (lambda: lucid.ones(0).max(), ["max"]),
        (lambda: lucid.ones(2, 3).split(0), ["split"]),
        (lambda: lucid.ones(2, 3).squeeze(5), ["5"]),
        (lambda: lucid.ones(2).item(), ["item", "2"]),
    ],
)
def test_messages_name_what_was_given(call, words):
    text = message_of(call)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "call",
    [
        lambda: lucid.ones(2, 3) @ lucid.ones(2, 3),
        lambda: lucid.ones(2, 3) * lucid.ones(4),
        lambda: lucid.ones(2)[5],
        lambda: lucid.ones(2, 3).view(4),
        lambda: lucid.cat([lucid.ones(2, 3), lucid.ones(2, 4)]),
    ],
)
def test_failed_operations_show_no_inner_traceback(call):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
        call()
    assert error.value.__cause__ is None
    assert error.value.__context__ is None or error.value.__suppress_context__


# --- after an error -------------------------------------------------------------------------------


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise ZeroDivisionError("in backward")


@pytest.mark.parametrize("create_graph", [False, True])
def test_modes_are_restored_after_a_failed_pass(create_graph):
    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError):
        backward(Fails.apply(x), create_graph=create_graph)
    assert lucid.is_grad_enabled()
    assert (x * 2).requires_grad
    assert isinstance(lucid.exp(np.ones(1)), lucid.Tensor)


def test_no_grad_mode_is_restored_after_a_failed_pass():
    x = leaf(1.0)
    y = Fails.apply(x)
    with lucid.no_grad():
        with pytest.raises(ZeroDivisionError):
            y.backward(create_graph=True)
        assert not lucid.is_grad_enabled()


def test_graph_can_be_used_again_after_a_hook_failed():
    x = leaf(1.0)
    y = x * 3
    fail = [True]

    def hook(g):
        if fail.pop():
            raise KeyError

    fail.insert(0, False)
    x.register_hook(hook)
    with pytest.raises(KeyError):
        y.backward(retain_graph=True)
    assert x.grad is None
    y.backward()
    assert x.grad.tolist() == [3.0]


def test_retained_gradient_is_not_half_written_by_a_failed_pass():
    x = leaf(1.0)
    y = Fails.apply(x) * 2
    y.retain_grad()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert x.grad is None


def test_operations_that_fail_record_nothing():
    x = leaf(1.0, 2.0)
    for call in (lambda: x + lucid.ones(3), lambda: x @ lucid.ones(3), lambda: x.view(5), lambda: x[7]):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            call()
    assert x.is_leaf and x.grad_fn is None and x._version == 0


def test_backward_inside_no_grad_works():
    x = leaf(2.0)
    y = x * x
    with lucid.no_grad():
        y.backward()
    assert x.grad.tolist() == [4.0]


@pytest.mark.parametrize("wrong", [3.0, "loss", None, [3.0], [None], []])
def test_roots_that_are_no_tensors(wrong):
    with pytest.raises((TypeError, ValueError)):
        backward(wrong)


def test_wrong_number_of_seeds():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="2 seeds for 1"):
        backward(x * 2, [lucid.ones(1), lucid.ones(1)])
    with pytest.raises(RuntimeError, match=r"1 seeds? for 2"):
        backward([x * 2, x * 3], [lucid.ones(1)])


@pytest.mark.parametrize(
    "write",
    [
        lambda u: u + (-1),
        lambda u: 300 * u,
        lambda u: u.fill_(-1),
        lambda u: u.masked_fill(u > 1, 256),
        lambda u: u.__setitem__(0, 999),
    ],
)
def test_integers_that_a_type_cannot_hold_are_refused(write):
    u = lucid.tensor([1, 2], dtype=lucid.uint8)
    with pytest.raises(ValueError, match="outside the range of uint8"):
        write(u)
    assert u.tolist() == [1, 2]


def test_integers_that_a_type_cannot_hold_can_be_compared_with():
    u = lucid.tensor([1, 2], dtype=lucid.uint8)
    assert (u < 300).all() and not (u == -1).any()


# --- what belongs to others ------------------------------------------------------------------------


def test_files_of_others_say_what_they_are(tmp_path):
    from lucid.checkpoints import CheckpointError

    for name, head, words in (("a.pt", b"PK\x03\x04rest", "lucid.torch.load"), ("a.pkl", b"\x80\x04rest", "a pickle")):
        (tmp_path / name).write_bytes(head)
        with pytest.raises(CheckpointError, match=words):
            lucid.load(tmp_path / name)


def test_headers_of_any_length_are_read(tmp_path):
    """The length of a header may look like the first byte of a pickle."""
    for length in range(1, 400, 7):
        lucid.save({"text": "x" * length, "t": lucid.ones(2)}, tmp_path / "a.safetensors")
        assert len(lucid.load(tmp_path / "a.safetensors")["text"]) == length


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_show_the_shape_that_was_given(name):
    layer = getattr(lucid.nn, name)(3, 4, batch_first=True)
    with pytest.raises(RuntimeError, match=r"3 features in its last dimension, not shape \(2, 5, 7\)"):
        layer(lucid.ones(2, 5, 7))


def test_parameters_say_so():
    assert repr(lucid.nn.Parameter(lucid.ones(2))) == "Parameter containing:\nTensor([1., 1.], requires_grad=True)"
    assert repr(lucid.nn.Buffer(lucid.ones(2))) == "Tensor([1., 1.])"


def test_tensors_of_pytorch_are_told_from_others():
    torch = pytest.importorskip("torch")
    x, t = lucid.ones(2), torch.ones(2, requires_grad=True)
    for call in (
        lambda: x + t,
        lambda: lucid.exp(t),
        lambda: lucid.nn.Linear(2, 1)(t),
        lambda: lucid.cat([x, t]),
        lambda: lucid.nn.functional.mse_loss(x, t),
        lambda: lucid.optim.SGD([t], lr=0.1),
        lambda: lucid.tensor(t),
    ):
        with pytest.raises(TypeError, match=r"a tensor of PyTorch; lucid.from_dlpack\(tensor.detach\(\)\)"):
            call()
    assert lucid.from_dlpack(t.detach()).tolist() == [1.0, 1.0]
