"""`grad` and `backward`: what they return, accumulate, keep and refuse."""

import inspect
import threading

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, backward, grad


def leaf(*values, **kwargs):
    return lucid.tensor(list(values), requires_grad=True, **kwargs)


def same(found, expected, **kwargs):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, **kwargs)


class Counted(Function):
    """Twice its input; counts how often its derivative runs."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Counted.calls += 1
        return g * 2


# --- grad: form of the result ---------------------------------------------------------------------


def test_bare_input_gives_bare_gradient():
    x = leaf(1.0, 2.0)
    g = grad((x * x).sum(), x)
    assert isinstance(g, lucid.Tensor)
    same(g, [2.0, 4.0])


@pytest.mark.parametrize("form", [list, tuple, iter, lambda xs: (x for x in xs), lambda xs: dict.fromkeys(xs).keys()])
def test_iterable_of_inputs_gives_a_tuple(form):
    x, y = leaf(1.0), leaf(2.0)
    found = grad((x * y).sum(), form([x, y]))
    assert type(found) is tuple
    same(found[0], [2.0])
    same(found[1], [1.0])


def test_single_input_in_a_list_gives_a_tuple_of_one():
    x = leaf(1.0)
    found = grad(x * 3, [x])
    assert type(found) is tuple and len(found) == 1


def test_gradient_is_a_tensor_that_numpy_takes():
    x = leaf(1.0, 2.0)
    g = grad((x * x).sum(), x)
    assert np.allclose(g, [2.0, 4.0])
    assert np.asarray(g).dtype == np.float32
    assert not g.requires_grad


def test_gradient_has_shape_and_dtype_of_its_input():
    x = lucid.ones(2, 1, 3, dtype=lucid.float64, requires_grad=True)
    y = lucid.ones(4, 3, requires_grad=True)
    gx, gy = grad((x * y).sum(), (x, y))
    assert gx.shape == (2, 1, 3) and gx.dtype is lucid.float64
    assert gy.shape == (4, 3) and gy.dtype is lucid.float32


def test_same_input_twice_gives_two_separate_gradients():
    x = leaf(1.0, 2.0)
    a, b = grad((x * x).sum(), [x, x])
    same(a, [2.0, 4.0])
    a.zero_()
    same(b, [2.0, 4.0])


def test_same_output_twice_counts_twice():
    x = leaf(1.0, 2.0)
    y = x * 3
    same(grad([y, y], x), [6.0, 6.0])


def test_gradient_of_a_leaf_by_itself_is_one():
    x = leaf(1.0, 2.0)
    same(grad(x, x), [1.0, 1.0])


def test_gradient_of_a_result_by_itself_is_the_seed():
    x = leaf(1.0, 2.0)
    y = x * 5
    same(grad(y, y, lucid.tensor([2.0, 3.0])), [2.0, 3.0])


# --- grad: seeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3)])
def test_omitted_seed_is_ones_for_any_shape(shape):
    x = lucid.ones(shape, requires_grad=True)
    same(grad(x * 3, x), np.full(shape, 3.0))


@pytest.mark.parametrize("seed", [2, 2.0, True, np.float32(2), np.float64(2)])
def test_scalar_seed_holds_for_every_element(seed):
    x = leaf(1.0, 2.0)
    if isinstance(seed, np.generic):
        x = lucid.tensor(1.0, requires_grad=True)
    same(grad(x * 3, x, seed), np.full(x.shape, 3.0 * float(seed)))


def test_complex_scalar_seed():
    z = lucid.tensor([1 + 2j], requires_grad=True)
    same(grad(z * 2, z, 1j), [2j])
    same(grad(z * 2, z, 3), [6.0])


def test_seeds_in_a_list_may_mix_tensors_numbers_arrays_and_none():
    x = leaf(1.0, 2.0)
    outs = [x * 1, x * 10, x * 100, x * 1000]
    seeds = [lucid.tensor([1.0, 2.0]), 2, np.array([1.0, 3.0]), None]
    same(grad(outs, x, seeds), [1 + 20 + 100 + 1000, 2 + 20 + 300 + 1000])


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        (lucid.ones(3), RuntimeError),
        (lucid.tensor(1.0), RuntimeError),
        (lucid.ones(1, 2), RuntimeError),
        (np.ones(3), RuntimeError),
        (1j, RuntimeError),
        (lucid.tensor([1j, 1j]), RuntimeError),
        ([lucid.ones(2), lucid.ones(2)], RuntimeError),
        ([], RuntimeError),
        (["a"], (TypeError, RuntimeError)),
    ],
)
def test_wrong_seeds_are_refused(seed, error):
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(error):
        grad(y, x, seed)
    with pytest.raises(error):
        backward(y, seed)
    assert x.grad is None
    same(grad(y, x), [2.0, 2.0])  # the graph is still there


def test_wrong_seed_error_names_both_shapes():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"\(3,\).*\(2,\)"):
        grad(x * 2, x, lucid.ones(3))


def test_seed_of_another_float_type_is_converted():
    x = leaf(1.0, 2.0)
    g = grad(x * 2, x, lucid.ones(2, dtype=lucid.float64))
    assert g.dtype is lucid.float32


def test_seed_is_not_changed_and_not_aliased():
    x = leaf(1.0, 2.0)
    seed = lucid.tensor([3.0, 4.0])
    g = grad(x.view(2), x, seed)
    g.zero_()
    same(seed, [3.0, 4.0])
    x.backward(seed)
    x.grad.zero_()
    same(seed, [3.0, 4.0])


def test_gradient_flows_to_the_seed_with_create_graph():
    x, seed = leaf(1.0, 2.0), leaf(3.0, 4.0)
    g = grad(x * x, x, seed, create_graph=True)
    same(grad(g.sum(), seed), [2.0, 4.0])


# --- grad: one sweep ------------------------------------------------------------------------------


def test_several_outputs_run_each_node_once():
    x = leaf(1.0, 2.0)
    y = Counted.apply(x)
    Counted.calls = 0
    same(grad([y * 1, y * 2, y.sum()], x, [None, 10, None]), [44.0, 44.0])
    assert Counted.calls == 1


def test_backward_of_several_roots_runs_each_node_once():
    x = leaf(1.0, 2.0)
    y = Counted.apply(x)
    Counted.calls = 0
    backward([y.sum(), (y * y).sum()])
    same(x.grad, [2.0 + 8.0, 2.0 + 16.0])
    assert Counted.calls == 1


def test_diamonds_run_each_node_once():
    x = leaf(1.0)
    y = x
    for _ in range(5):
        y = Counted.apply(y)
        y = y + y
    Counted.calls = 0
    same(grad(y, x), [4.0**5])
    assert Counted.calls == 5


def test_output_that_is_also_an_intermediate_of_another():
    x = leaf(1.0, 2.0)
    a = x * 2
    b = a * a
    same(grad([a, b], x), [2 + 8.0, 2 + 16.0])


def test_only_nodes_on_the_way_run():
    x, y = leaf(1.0), leaf(2.0)
    a, b = Counted.apply(x), y * 3
    Counted.calls = 0
    same(grad(a + b, y), [3.0])
    assert Counted.calls == 0


# --- grad: inputs that are results ----------------------------------------------------------------


def test_input_may_be_a_result():
    x = leaf(1.0, 2.0)
    y = x * 3
    z = (y * y).sum()
    gy, gx = grad(z, [y, x])
    same(gy, [6.0, 12.0])
    same(gx, [18.0, 36.0])


def test_input_below_another_input():
    x = leaf(2.0)
    a = x * x
    b = a * a
    found = grad(b * 1, [b, a, x])
    for g, expected in zip(found, [1.0, 8.0, 32.0], strict=True):
        same(g, [expected])


def test_input_may_be_one_output_of_several():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    a, b = (x * 1).split(2)
    ga, gb = grad((a * b).sum(), [a, b])
    same(ga, [3.0, 4.0])
    same(gb, [1.0, 2.0])


def test_input_may_be_a_view():
    x = leaf(1.0, 2.0)
    v = x[:1]
    same(grad(v * 5, v), [5.0])


def test_grad_of_input_before_in_place_write_uses_its_present_value():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.add_(1)
    same(grad((y * y).sum(), y), [6.0, 10.0])


def test_grad_leaves_every_grad_alone():
    x, y = leaf(1.0), leaf(2.0)
    mid = x * y
    mid.retain_grad()
    y.grad = lucid.tensor([7.0])
    grad(mid * mid, [x, y])
    assert x.grad is None and mid.grad is None
    same(y.grad, [7.0])


def test_grad_does_not_run_post_accumulate_hooks():
    x = leaf(1.0)
    called = []
    x.register_post_accumulate_grad_hook(lambda p: called.append(p))
    grad(x * 2, x)
    assert called == []


# --- grad: unconnected inputs ---------------------------------------------------------------------


def test_unconnected_input_is_an_error_that_names_it():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match=r"inputs\[1\].*not used"):
        grad(x * 2, [x, y])


def test_unconnected_input_gives_none_if_allowed():
    x, y = leaf(1.0), leaf(2.0)
    gx, gy = grad(x * 2, [x, y], allow_unused=True)
    same(gx, [2.0])
    assert gy is None


def test_unconnected_bare_input_gives_none_if_allowed():
    x, y = leaf(1.0), leaf(2.0)
    assert grad(x * 2, y, allow_unused=True) is None


def test_unconnected_input_gives_zeros_if_materialized():
    x, y = leaf(1.0), lucid.ones(2, 3, dtype=lucid.float64, requires_grad=True)
    g = grad(x * 2, y, materialize_grads=True)
    assert g.shape == (2, 3) and g.dtype is lucid.float64 and not g.numpy().any()


def test_materialize_contradicts_disallowed_unused():
    x = leaf(1.0)
    with pytest.raises(ValueError, match="materialize"):
        grad(x * 2, x, allow_unused=False, materialize_grads=True)


def test_everything_unconnected_gives_none_if_allowed():
    x = leaf(1.0)
    assert grad(lucid.ones(2), [x], allow_unused=True) == (None,)


def test_output_without_history_is_an_error():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(lucid.ones(2), x)
    with pytest.raises(RuntimeError, match="does not require grad"):
        lucid.ones(1).backward()


def test_input_that_does_not_require_grad_is_an_error():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"inputs\[0\]"):
        grad(x * 2, lucid.ones(1))
    with pytest.raises(RuntimeError, match=r"inputs\[1\]"):
        backward(x * 2, inputs=[x, lucid.ones(1)])


def test_detached_path_is_unconnected():
    x = leaf(1.0)
    y = x.detach() * x
    same(grad(y, x), [1.0])
    with pytest.raises(RuntimeError):
        grad(x.detach() * 2, x)


@pytest.mark.parametrize("wrong", [[], None, 3, "x", [1.0], [None]])
def test_inputs_that_are_no_tensors_are_refused(wrong):
    x = leaf(1.0)
    with pytest.raises((TypeError, ValueError)):
        grad(x * 2, wrong)
    with pytest.raises((TypeError, ValueError)):
        grad(wrong, x)


# --- grad: batched seeds --------------------------------------------------------------------------


def test_batched_seeds_give_a_jacobian_in_one_pass():
    x = leaf(1.0, 2.0, 3.0)
    same(grad(x * x, x, lucid.eye(3), is_grads_batched=True), np.diag([2.0, 4.0, 6.0]))


def test_batched_seeds_run_each_rule_once():
    x = leaf(1.0, 2.0)
    y = Counted.apply(x)
    Counted.calls = 0
    same(grad(y, x, lucid.eye(2), is_grads_batched=True), 2 * np.eye(2))
    assert Counted.calls == 1


def test_batched_seeds_agree_with_one_by_one():
    x = lucid.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=lucid.float64, requires_grad=True)
    y = (x @ x).exp().sum(0) * x[0]
    seeds = lucid.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]], dtype=lucid.float64)
    batched = grad(y, x, seeds, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        same(batched[i], np.asarray(grad(y, x, seeds[i], retain_graph=True)))


def test_batched_seeds_of_several_outputs_and_inputs():
    x, y = leaf(1.0, 2.0), leaf(3.0)
    gx, gy = grad([x * y, y * 2], [x, y], [lucid.eye(2), lucid.ones(2, 1)], is_grads_batched=True)
    same(gx, 3 * np.eye(2))
    same(gy, [[1 + 2.0], [2 + 2.0]])


def test_batched_seeds_without_dependence_on_the_batch_repeat():
    x = leaf(1.0, 2.0)
    g = grad(x * 1, x, lucid.ones(4, 2), is_grads_batched=True)
    assert g.shape == (4, 2)
    same(g, np.ones((4, 2)))


def test_batched_seeds_with_create_graph():
    x = leaf(1.0, 2.0)
    j = grad((x**3), x, lucid.eye(2), is_grads_batched=True, create_graph=True)
    same(j, np.diag([3.0, 12.0]))
    same(grad(j.sum(), x), [6.0, 12.0])


def test_batched_seeds_of_wrong_shape():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        grad(x * 2, x, lucid.ones(3, 3), is_grads_batched=True)
    with pytest.raises(RuntimeError):
        grad(x * 2, x, is_grads_batched=True)


# --- higher order ---------------------------------------------------------------------------------


def test_third_order():
    x = leaf(2.0)
    g1 = grad(x**4, x, create_graph=True)
    g2 = grad(g1, x, create_graph=True)
    g3 = grad(g2, x)
    same(g1, [32.0])
    same(g2, [48.0])
    same(g3, [48.0])
    assert not g3.requires_grad


def test_third_order_through_many_operations():
    x = lucid.tensor([0.3], dtype=lucid.float64, requires_grad=True)
    y = (x.sin() * x.exp()).tanh()
    d = [y]
    for _ in range(3):
        d.append(grad(d[-1], x, create_graph=True))
    h = 1e-4

    def second(v):
        t = lucid.tensor([v], dtype=lucid.float64, requires_grad=True)
        g = grad((t.sin() * t.exp()).tanh(), t, create_graph=True)
        return grad(g, t).item()

    np.testing.assert_allclose(d[3].item(), (second(0.3 + h) - second(0.3 - h)) / (2 * h), rtol=1e-6)


def test_mixed_second_derivatives_are_symmetric():
    x, y = leaf(0.5), leaf(1.5)
    f = (x * y).sin() * x.exp()
    gx, gy = grad(f, (x, y), create_graph=True)
    same(grad(gx, y, retain_graph=True), grad(gy, x).numpy())


def test_backward_with_create_graph_gives_grad_a_history():
    x = leaf(2.0)
    (x**3).backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.grad = None
    g.backward()
    same(x.grad, [12.0])


def test_gradient_penalty_trains_through_the_gradient():
    w, x = leaf(1.0, -2.0), leaf(0.5, 0.25)
    out = (w * x).sum().tanh()
    (gx,) = grad(out, [x], create_graph=True)
    ((gx**2).sum() - 1).pow(2).backward()
    assert w.grad is not None and np.isfinite(w.grad.numpy()).all()


def test_create_graph_of_linear_function_gives_constant_gradient():
    x = leaf(1.0, 2.0)
    g = grad((x * 3).sum(), x, create_graph=True)
    same(g, [3.0, 3.0])
    assert grad(g.sum() + x.sum() * 0, x).numpy().tolist() == [0.0, 0.0]


# --- retain_graph ---------------------------------------------------------------------------------


def test_graph_is_freed_by_default():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)


def test_graph_is_kept_on_request():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    for _ in range(3):
        same(grad(y, x, retain_graph=True), [2.0, 4.0])
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_create_graph_keeps_the_graph_by_default():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    grad(y, x, create_graph=True)
    same(grad(y, x), [2.0, 4.0])


def test_create_graph_can_free_the_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    g = grad(y, x, create_graph=True, retain_graph=False)
    same(g, [2.0, 4.0])
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)


def test_second_pass_error_names_operation_and_both_lines():
    x = leaf(1.0, 2.0)
    y, made = x.sin(), inspect.currentframe().f_lineno
    loss = y.sum()
    loss.backward()
    freed = inspect.currentframe().f_lineno - 1
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    message = str(error.value)
    assert "sin" in message and f"{__file__}:{made}" in message and f"{__file__}:{freed}" in message
    assert "retain_graph=True" in message


def test_second_pass_error_names_the_innermost_freed_operation_of_a_product():
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="`mul`"):
        loss.backward()


def test_failed_second_pass_changes_no_gradient():
    x, y = leaf(1.0), leaf(2.0)
    loss = x * 3 + y * y
    loss.backward()
    before = (x.grad.tolist(), y.grad.tolist())
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    assert (x.grad.tolist(), y.grad.tolist()) == before


def test_two_losses_share_a_subgraph_that_saved_nothing():
    x = leaf(1.0, 2.0)
    y = x + 1
    (y * 2).sum().backward()
    (y * 3).sum().backward()
    same(x.grad, [5.0, 5.0])


@pytest.mark.parametrize(
    "shared",
    [
        lambda x: x + 1,
        lambda x: -x,
        lambda x: x.view(2, 1),
        lambda x: x[:1],
        lambda x: x.reshape(1, 2).expand(3, 2),
        lambda x: x - lucid.ones(3, 2),
        lambda x: x.clone(),
        lambda x: x.sum(0, keepdim=True),
        lambda x: x.t() if x.ndim == 2 else x.flip(0),
        lambda x: lucid.cat([x, x]),
        lambda x: lucid.stack([x, x]),
    ],
)
def test_linear_operations_can_be_shared_by_two_losses(shared):
    x = leaf(1.0, 2.0)
    y = shared(x)
    y.sum().backward()
    (y * 2).sum().backward()
    assert x.grad is not None


def test_two_losses_share_a_freed_product_is_an_error():
    x = leaf(1.0, 2.0)
    y = x * x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        (y * 2).sum().backward()


def test_only_the_visited_part_of_the_graph_is_freed():
    x, w = leaf(1.0), leaf(2.0)
    a, b = x * x, w * w
    loss = a + b
    grad(loss, x)
    same(grad(loss, w), [4.0])


# --- backward -------------------------------------------------------------------------------------


def test_backward_of_more_than_one_element_needs_a_seed():
    x = leaf(1.0, 2.0)
    for shape in ((2,), (2, 1)):
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            (x * 2).view(shape).backward()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        lucid.zeros(0, requires_grad=True).backward()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)])
def test_one_element_of_any_shape_counts_as_scalar(shape):
    x = lucid.full(shape, 3.0, requires_grad=True)
    (x * x).backward()
    same(x.grad, np.full(shape, 6.0))


def test_backward_takes_a_seed():
    x = leaf(1.0, 2.0)
    (x * x).backward(lucid.tensor([1.0, 10.0]))
    same(x.grad, [2.0, 40.0])


def test_backward_takes_the_seed_by_keyword():
    x = leaf(1.0, 2.0)
    (x * x).backward(gradient=lucid.ones(2))
    backward(x * x, grad_tensors=lucid.ones(2))
    same(x.grad, [4.0, 8.0])


def test_backward_of_several_roots_takes_seeds():
    x = leaf(1.0, 2.0)
    backward([x * 2, (x * x).sum()], [lucid.ones(2), None])
    same(x.grad, [4.0, 6.0])


def test_backward_accumulates():
    x = leaf(1.0, 2.0)
    for k in range(1, 4):
        (x * x).sum().backward()
        same(x.grad, [2.0 * k, 4.0 * k])


def test_backward_adds_to_an_assigned_gradient():
    x = leaf(1.0, 2.0)
    x.grad = lucid.tensor([10.0, 20.0])
    (x * x).sum().backward()
    same(x.grad, [12.0, 24.0])


def test_held_gradient_sees_later_accumulation():
    x = leaf(1.0)
    (x * 2).backward()
    g = x.grad
    (x * 2).backward()
    assert x.grad is g
    same(g, [4.0])


def test_accumulation_with_create_graph_does_not_write_into_the_old_gradient():
    x = leaf(1.0)
    (x * x).backward()
    g = x.grad
    (x * x).backward(create_graph=True)
    same(g, [2.0])
    same(x.grad, [4.0])


def test_backward_reaches_leaves_only():
    x = leaf(1.0)
    y = x * 2
    (y * 3).backward()
    assert y.grad is None
    same(x.grad, [6.0])


def test_backward_on_a_leaf():
    x = leaf(5.0)
    x.backward()
    same(x.grad, [1.0])


def test_inputs_restrict_accumulation():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward(inputs=[x])
    same(x.grad, [2.0])
    assert y.grad is None


def test_inputs_may_be_one_tensor():
    x, y = leaf(1.0), leaf(2.0)
    backward(x * y, inputs=y)
    assert x.grad is None
    same(y.grad, [1.0])


def test_inputs_may_be_results():
    x = leaf(1.0)
    y = x * 2
    (y * 3).backward(inputs=[y])
    assert x.grad is None
    same(y.grad, [3.0])


def test_inputs_restrict_what_runs():
    x, y = leaf(1.0), leaf(2.0)
    z = Counted.apply(x) * y
    Counted.calls = 0
    z.backward(inputs=[y])
    assert Counted.calls == 0
    same(y.grad, [2.0])


def test_inputs_result_and_its_leaf():
    x = leaf(1.0)
    y = x * 2
    (y * y).backward(inputs=[y, x])
    same(y.grad, [4.0])
    same(x.grad, [8.0])


def test_inputs_with_retained_gradient_counts_once():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    (y * 3).backward(inputs=[y])
    same(y.grad, [3.0])


def test_empty_inputs_are_refused():
    x = leaf(1.0)
    with pytest.raises((RuntimeError, ValueError)):
        (x * 2).backward(inputs=[])


def test_unconnected_input_of_backward_is_left_alone():
    x, y = leaf(1.0), leaf(2.0)
    (x * 2).backward(inputs=[x, y])
    assert y.grad is None


def test_failing_backward_writes_no_gradient():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("in backward")

    x, y = leaf(1.0), leaf(2.0)
    loss = Fails.apply(x) + y * y * y
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    assert x.grad is None and y.grad is None
    assert lucid.is_grad_enabled()
    assert isinstance(lucid.exp(np.ones(2)), lucid.Tensor)


def test_grad_setter_checks_what_it_is_given():
    x = leaf(1.0, 2.0)
    for wrong in (lucid.ones(3), lucid.ones(2, dtype=lucid.float64), np.ones(2, np.float32), 1.0, x):
        with pytest.raises((RuntimeError, TypeError)):
            x.grad = wrong
    x.grad = lucid.ones(2)
    x.grad = None
    assert x.grad is None
    x.grad = lucid.ones(2)
    del x.grad
    assert x.grad is None


# --- gradients never share memory -----------------------------------------------------------------


def assert_separate(*tensors):
    for i, a in enumerate(tensors):
        for b in tensors[i + 1 :]:
            assert not np.shares_memory(a.numpy(), b.numpy())


ALIASING = {
    "sum": lambda x, z: x + z,
    "sum thrice": lambda x, z: x + z + x,
    "view": lambda x, z: x.view(2, 2) + z,
    "transpose": lambda x, z: x.t() + z.t(),
    "reshape": lambda x, z: (x.reshape(4) + z.reshape(4)).reshape(2, 2),
    "clone": lambda x, z: x.clone() + z,
    "expand": lambda x, z: x.expand(1, 2, 2) + z.expand(1, 2, 2),
    "cat": lambda x, z: lucid.cat([x, z]),
    "stack": lambda x, z: lucid.stack([x, z]),
    "whole slice": lambda x, z: x[:] + z[...],
    "difference": lambda x, z: x - z,
    "where": lambda x, z: lucid.where(lucid.tensor([[True, False], [True, True]]), x, z),
    "sum of sums": lambda x, z: x.sum() + z.sum(),
    "to same": lambda x, z: x.to(lucid.float32) + z.float(),
}


@pytest.mark.parametrize("build", ALIASING.values(), ids=ALIASING)
def test_gradients_of_leaves_do_not_share_memory(build):
    x, z = lucid.ones(2, 2, requires_grad=True), lucid.ones(2, 2, requires_grad=True)
    y = build(x, z)
    seed = lucid.ones(y.shape)
    y.backward(seed, retain_graph=True)
    assert_separate(x.grad, z.grad, seed)
    first = z.grad.clone()
    x.grad.add_(100)
    same(z.grad, first.numpy())
    same(seed, np.ones(y.shape))
    gx, gz = grad(y, [x, z], seed)
    assert_separate(gx, gz, seed)
    gx.add_(100)
    same(gz, first.numpy())


def test_gradients_can_be_written_even_if_they_were_broadcast():
    x = lucid.ones(3, requires_grad=True)
    x.sum().backward()
    x.grad.add_(1)
    same(x.grad, [2.0, 2.0, 2.0])
    g = grad(x.sum(), x)
    g[0] = 5
    same(g, [5.0, 1.0, 1.0])
    y = x.expand(4, 3)
    g = grad(y.sum(), y)
    g.mul_(2)
    same(g, 2 * np.ones((4, 3)))


def test_retained_gradient_does_not_share_memory_with_the_leaf():
    x = leaf(1.0, 2.0)
    y = x + 0
    y.retain_grad()
    y.sum().backward()
    assert_separate(x.grad, y.grad)


def test_gradient_is_separate_from_a_hook_argument():
    x = leaf(1.0, 2.0)
    seen = []
    x.register_hook(seen.append)
    (x + 1).backward(lucid.ones(2))
    x.grad.zero_()
    same(seen[0], [1.0, 1.0])


def test_writing_to_the_argument_of_a_hook_does_not_reach_the_seed():
    x = leaf(1.0, 2.0)
    seed = lucid.ones(2)
    y = x + 0
    y.register_hook(lambda g: None)
    y.backward(seed)
    x.grad.mul_(5)
    same(seed, [1.0, 1.0])


def test_gradient_does_not_alias_a_saved_value():
    x = leaf(1.0, 2.0)
    w = lucid.tensor([3.0, 4.0])
    y = (x * w).sum()
    g = grad(y, x, retain_graph=True)
    g.zero_()
    same(w, [3.0, 4.0])
    same(grad(y, x), [3.0, 4.0])


def test_gradient_with_create_graph_does_not_alias_the_seed_or_other_gradients():
    x, z = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = lucid.ones(2)
    gx, gz = grad(x + z, [x, z], seed, create_graph=True)
    assert_separate(gx, gz, seed)


def test_one_gradient_reaches_two_leaves_and_is_accumulated_separately():
    x, z = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + z).backward(lucid.ones(2))
    (x * 2).backward(lucid.ones(2))
    same(x.grad, [3.0, 3.0])
    same(z.grad, [1.0, 1.0])


# --- subgradients ---------------------------------------------------------------------------------


def gradient_at(f, *values, dtype=lucid.float64):
    x = lucid.tensor(list(values), dtype=dtype, requires_grad=True)
    return grad(f(x).sum(), x).tolist()


def test_abs_at_zero():
    assert gradient_at(lambda x: x.abs(), -2.0, 0.0, 3.0) == [-1.0, 0.0, 1.0]


def test_relu_at_zero():
    assert gradient_at(lambda x: x.relu(), -2.0, 0.0, 3.0) == [0.0, 0.0, 1.0]


def test_amax_and_amin_ties_share():
    assert gradient_at(lambda x: x.amax(), 1.0, 3.0, 3.0) == [0.0, 0.5, 0.5]
    assert gradient_at(lambda x: x.amin(), 1.0, 1.0, 3.0) == [0.5, 0.5, 0.0]
    assert gradient_at(lambda x: x.amax(dim=0), 2.0, 2.0, 2.0, 2.0) == [0.25] * 4


def test_max_along_a_dimension_gives_all_to_the_index_it_returns():
    x = lucid.tensor([[1.0, 3.0, 3.0]], requires_grad=True)
    values, indices = x.max(dim=1)
    values.sum().backward()
    expected = np.zeros((1, 3))
    expected[0, indices.item()] = 1
    same(x.grad, expected)


def test_full_max_ties_share():
    assert gradient_at(lambda x: x.max(), 1.0, 3.0, 3.0) == [0.0, 0.5, 0.5]


def test_maximum_tie_halves():
    x, y = leaf(1.0, 2.0, 3.0), leaf(2.0, 2.0, 2.0)
    gx, gy = grad(lucid.maximum(x, y).sum(), (x, y))
    same(gx, [0.0, 0.5, 1.0])
    same(gy, [1.0, 0.5, 0.0])


def test_clamp_passes_at_the_bounds():
    assert gradient_at(lambda x: x.clamp(1, 3), 0.0, 1.0, 2.0, 3.0, 4.0) == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_norm_at_zero():
    assert gradient_at(lambda x: x.norm(), 0.0, 0.0) == [0.0, 0.0]
    same(gradient_at(lambda x: x.norm(), 3.0, 4.0), [0.6, 0.8])
    assert gradient_at(lambda x: lucid.norm(x.view(2, 2), dim=1), 0.0, 0.0, 0.0, 2.0) == [0.0, 0.0, 0.0, 1.0]


def test_prod_with_zeros():
    assert gradient_at(lambda x: x.prod(), 2.0, 3.0, 4.0) == [12.0, 8.0, 6.0]
    assert gradient_at(lambda x: x.prod(), 2.0, 0.0, 4.0) == [0.0, 8.0, 0.0]
    assert gradient_at(lambda x: x.prod(), 0.0, 0.0, 4.0) == [0.0, 0.0, 0.0]
    assert gradient_at(lambda x: x.prod(), 0.0) == [1.0]


def test_prod_with_zeros_second_order():
    x = lucid.tensor([2.0, 0.0, 0.0], dtype=lucid.float64, requires_grad=True)
    g = grad(x.prod(), x, create_graph=True)
    assert grad(g[1], x).tolist() == [0.0, 0.0, 2.0]


def test_sign_and_rounding_have_zero_gradient():
    for f in (lambda x: x.sign(), lambda x: x.floor(), lambda x: x.round(), lambda x: x.trunc()):
        assert gradient_at(f, -1.5, 0.0, 2.0) == [0.0, 0.0, 0.0]


def test_pow_at_zero():
    assert gradient_at(lambda x: x**2, 0.0) == [0.0]
    assert gradient_at(lambda x: x**1, 0.0) == [1.0]
    assert gradient_at(lambda x: x**0, 0.0, 2.0) == [0.0, 0.0]
    assert gradient_at(lambda x: lucid.pow(0.0, x), 2.0) == [0.0]


def test_sqrt_at_zero_is_infinite():
    assert gradient_at(lambda x: x.sqrt(), 0.0) == [np.inf]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("danger", "at"),
    [
        (lambda x: x.sqrt(), 0.0),
        (lambda x: x.log(), 0.0),
        (lambda x: 1 / x, 0.0),
        (lambda x: x.sqrt(), -1.0),
        (lambda x: x.pow(-1.5), 0.0),
        (lambda x: x.exp(), 1e4),
        (lambda x: x.acos(), 1.0),
    ],
)
def test_unselected_branch_of_where_contributes_exactly_zero_to_its_operand(danger, at, order):
    x = lucid.tensor([at, 0.5], dtype=lucid.float64, requires_grad=True)
    y = danger(x)
    safe = x * 3
    chosen = lucid.where(lucid.tensor([False, False]), y, safe)
    (gy,) = grad(chosen.sum(), [y], create_graph=order == 2)
    assert gy.tolist() == [0.0, 0.0]


def test_where_sends_exact_zero_even_for_an_infinite_cotangent():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    out = lucid.where(lucid.tensor([True, False]), a, b)
    seed = lucid.tensor([np.inf, np.nan])
    ga, gb = grad(out, (a, b), seed)
    assert ga.tolist() == [np.inf, 0.0]
    assert gb[0].item() == 0.0 and np.isnan(gb[1].item())


@pytest.mark.parametrize(
    "select",
    [lambda x: x.relu(), lambda x: x.clamp(min=0.0), lambda x: lucid.maximum(x, lucid.zeros(2)), lambda x: x[x > 0]],
)
def test_selecting_operations_give_exact_zero_for_infinite_cotangents(select):
    x = leaf(-1.0, 2.0)
    y = select(x)
    g = grad(y, x, lucid.full(y.shape, np.inf))
    assert g.tolist() == [0.0, np.inf]


# --- complex --------------------------------------------------------------------------------------


def test_gradient_of_a_real_loss_is_the_conjugate_cogradient():
    z = lucid.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    loss = (z * z.conj()).real.sum()  # |z|², dL/dz* = z; PyTorch's convention doubles it
    loss.backward()
    same(z.grad, [2 + 4j, 6 - 2j])


def test_gradient_of_abs_is_the_direction():
    z = lucid.tensor([3 + 4j, 0j], requires_grad=True)
    z.abs().sum().backward()
    same(z.grad, [0.6 + 0.8j, 0j])


def test_holomorphic_functions_pull_back_by_the_conjugate_derivative():
    z = lucid.tensor([0.5 + 0.25j], dtype=lucid.complex128, requires_grad=True)
    v = np.array([0.5 + 0.25j])
    same(grad(z.exp(), z), np.conj(np.exp(v)))
    same(grad(z.sin(), z, 1j), 1j * np.conj(np.cos(v)))
    same(grad(z * (2 + 3j), z), [2 - 3j])


def test_real_and_imaginary_parts():
    z = lucid.tensor([1 + 2j], requires_grad=True)
    same(grad(z.real, z), [1 + 0j])
    same(grad(z.imag, z), [1j])


def test_real_input_of_a_complex_operation_gets_a_real_gradient():
    x = leaf(1.0, 2.0)
    c = lucid.tensor([1 + 1j, 2 - 1j])
    y = x * c
    g = grad(y.real.sum() + 3 * y.imag.sum(), x)
    assert g.dtype is lucid.float32
    same(g, [4.0, -1.0])


def test_real_input_added_to_a_complex_tensor_gets_a_real_gradient():
    x = leaf(1.0)
    g = grad(x + lucid.tensor([1j]), x, lucid.tensor([2 + 5j]))
    assert g.dtype is lucid.float32
    same(g, [2.0])


def test_complex_second_order():
    z = lucid.tensor([1 + 2j], dtype=lucid.complex128, requires_grad=True)
    loss = ((z * z.conj()).real ** 2).sum()  # |z|⁴
    g = grad(loss, z, create_graph=True)
    same(g, 4 * 5 * np.array([1 + 2j]))
    h = grad(g.real.sum(), z)  # gradient of 4|z|²x
    same(h, [12 * 1 + 4 * 4 + 1j * 8 * 2])


def test_complex_backward_needs_no_seed_for_one_element_only_if_real():
    z = lucid.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(RuntimeError, match="real"):
        (z * 2).backward()


# --- threads and large graphs ---------------------------------------------------------------------


def test_eight_threads_with_graphs_and_modes_of_their_own():
    failures = []
    barrier = threading.Barrier(8)

    def work(k):
        try:
            barrier.wait()
            for step in range(50):
                x = leaf(float(k), float(step))
                with lucid.set_grad_enabled(k % 2 == 0):
                    y = (x * x).sum()
                    assert y.requires_grad == (k % 2 == 0)
                z = (x * x * x).sum()
                z.backward()
                assert x.grad.tolist() == [3.0 * k * k, 3.0 * step * step]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_threads_accumulate_into_shared_parameters_with_grad():
    w = leaf(2.0)
    found = []
    threads = [threading.Thread(target=lambda k=k: found.append(grad(w * w * k, w).item())) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [4.0 * k for k in range(8)]


def test_wide_fan_out_and_in():
    x = leaf(1.0)
    lucid.stack([x * k for k in range(500)]).sum().backward()
    same(x.grad, [sum(range(500))])


def test_order_of_recording_does_not_matter():
    x = leaf(2.0)
    late = x * 3
    early = x * x
    y = early * late
    z = y + early + late * late
    same(grad(z, x), [3 * 3 * 4 + 4 + 36.0])


def test_product_with_an_array_goes_back_to_the_tensor_alone() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    factor = np.array([3.0, 4.0], np.float32)
    (x * factor).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), factor)
    (factor * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * factor)


def test_gradient_of_another_shape_than_the_leaf_is_refused() -> None:
    x = lucid.ones(2, requires_grad=True)
    other = lucid.ones(2, requires_grad=True)
    loss = (other + x * 3).sum()
    x.data = lucid.ones(3)
    with pytest.raises(RuntimeError, match=r"shape \(2,\) arrived at a leaf of shape \(3,\)"):
        loss.backward()
    assert x.grad is None and other.grad is None
