"""Hooks on tensors and nodes, saved-tensor hooks, and what a node tells about itself."""

import gc
import weakref

import numpy as np
import pytest

import lucid
from lucid.autograd import backward, grad
from lucid.autograd.graph import Node, save_on_cpu, saved_tensors_hooks


def leaf(*values, **kwargs):
    return lucid.tensor(list(values), requires_grad=True, **kwargs)


# --- order ----------------------------------------------------------------------------------------


def test_order_on_a_result():
    x = leaf(1.0)
    log = []
    y = x * 2
    y.retain_grad()
    y.grad_fn.register_hook(lambda gi, go: log.append("post"))
    y.grad_fn.register_prehook(lambda go: log.append("pre, grad " + ("set" if y.grad is not None else "unset")))
    y.register_hook(lambda g: log.append("tensor"))
    x.register_hook(lambda g: log.append("leaf, grad " + ("set" if y.grad is not None else "unset")))
    (y * 3).backward()
    assert log == ["tensor", "pre, grad unset", "post", "leaf, grad set"]


def test_order_on_a_leaf():
    x = leaf(1.0)
    log = []
    state = lambda: "set" if x.grad is not None else "unset"
    accumulate = x.view_as(x).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda gi, go: log.append(f"post {state()}"))
    x.register_post_accumulate_grad_hook(lambda p: log.append(f"accumulated {state()}"))
    accumulate.register_prehook(lambda go: log.append(f"pre {state()}"))
    x.register_hook(lambda g: log.append(f"tensor {state()}"))
    (x * 3).backward()
    assert log == ["tensor unset", "pre unset", "accumulated set", "post set"]


@pytest.mark.parametrize("kind", ["tensor", "pre", "post", "post_accumulate"])
def test_same_kind_in_order_of_registration(kind):
    x = leaf(1.0)
    y = x * 2
    register = {
        "tensor": y.register_hook,
        "pre": y.grad_fn.register_prehook,
        "post": y.grad_fn.register_hook,
        "post_accumulate": x.register_post_accumulate_grad_hook,
    }[kind]
    log = []
    for k in range(5):
        register(lambda *args, k=k: log.append(k))
    y.backward()
    assert log == [0, 1, 2, 3, 4]


def test_results_before_operands():
    x = leaf(1.0)
    log = []
    a = x * 2
    b = a * 3
    c = b * 4
    for name, t in (("a", a), ("c", c), ("x", x), ("b", b)):
        t.register_hook(lambda g, name=name: log.append(name))
    c.backward()
    assert log == ["c", "b", "a", "x"]


def test_retained_gradient_has_passed_all_hooks():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 100,))
    y.backward()
    assert y.grad.tolist() == [1000.0]
    assert x.grad.tolist() == [2000.0]


# --- tensor hooks ---------------------------------------------------------------------------------


def test_hook_sees_the_summed_gradient_once():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).backward()
    assert seen == [[5.0]]


def test_hook_replaces_the_gradient_further_down():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_hooks_chain():
    x = leaf(1.0)
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: None)
    (x * 2).backward()
    assert x.grad.tolist() == [30.0]


def test_hook_on_leaf_before_and_after_the_graph_is_built():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 2)
    y = x * 3
    x.register_hook(lambda g: g + 1)
    y.backward()
    assert x.grad.tolist() == [7.0]
    a = leaf(1.0)
    b = a * 3
    a.register_hook(lambda g: g * 2)
    b.backward()
    assert a.grad.tolist() == [6.0]


def test_hook_before_one_graph_and_after_another():
    x = leaf(1.0)
    y = x * 3
    x.register_hook(lambda g: g * 2)
    z = x * 4
    (y + z).backward()
    assert x.grad.tolist() == [14.0]


def test_hook_runs_in_grad_too():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 5)
    x.register_hook(lambda g: g * 7)
    gy, gx = grad(y, [y, x])
    assert gy.tolist() == [5.0]
    assert gx.tolist() == [70.0]


def test_hook_result_is_differentiated_with_create_graph():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    g = grad(y, x, create_graph=True)  # x · 2x
    assert g.tolist() == [8.0]
    assert grad(g, x).tolist() == [8.0]


def test_hook_on_one_output_of_several():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    a, b = x.split(2)
    seen = []
    a.register_hook(lambda g: seen.append("a") or g * 10)
    (a * 2 + b * 3).sum().backward()
    assert seen == ["a"]
    assert x.grad.tolist() == [20.0, 20.0, 3.0, 3.0]


def test_hook_on_unused_output_does_not_run():
    x = leaf(1.0, 2.0)
    a, b = (x * 1).unbind()
    seen = []
    b.register_hook(seen.append)
    a.backward()
    assert seen == []


def test_hook_on_output_of_max_with_indices():
    x = lucid.tensor([[1.0, 5.0], [7.0, 2.0]], requires_grad=True)
    values, indices = x.max(dim=1)
    values.register_hook(lambda g: g * 3)
    values.sum().backward()
    assert x.grad.tolist() == [[0.0, 3.0], [3.0, 0.0]]
    assert not indices.requires_grad


def test_removal():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    handle.remove()
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_handle_is_a_context_manager():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 10):
        (x * 2).backward()
    (x * 2).backward()
    assert x.grad.tolist() == [22.0]


def test_hook_may_remove_itself_while_it_runs():
    x = leaf(1.0)
    log = []
    handle = x.register_hook(lambda g: (log.append("once"), handle.remove())[1])
    x.register_hook(lambda g: log.append("always"))
    for _ in range(2):
        (x * 2).backward()
    assert log == ["once", "always", "always"]


def test_hook_may_register_another_which_runs_next_time():
    x = leaf(1.0)
    log = []
    handles = []

    def first(g):
        log.append("first")
        if not handles:
            handles.append(x.register_hook(lambda g: log.append("second")))

    x.register_hook(first)
    (x * 2).backward()
    assert log == ["first"]
    (x * 2).backward()
    assert log == ["first", "first", "second"]


@pytest.mark.parametrize("wrong", [1.0, "g", np.ones(2), [1.0, 2.0], (lucid.ones(2),)])
def test_hook_that_returns_no_tensor_is_an_error(wrong):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: wrong)
    with pytest.raises((TypeError, RuntimeError), match="hook"):
        y.sum().backward()
    assert x.grad is None


def test_hook_that_returns_another_shape_is_an_error():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match=r"hook.*\(\).*\(2,\)"):
        (x * 2).sum().backward()


def test_hook_that_makes_a_real_gradient_complex_is_an_error():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g * 1j)
    with pytest.raises((RuntimeError, TypeError), match="hook"):
        y.sum().backward()


def test_hook_that_returns_another_float_type_is_converted_or_refused():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g.double() * 3)
    try:
        y.sum().backward()
    except (RuntimeError, TypeError) as error:
        assert "hook" in str(error)
    else:
        assert x.grad.dtype is lucid.float32 and x.grad.tolist() == [6.0, 6.0]


def test_hook_that_writes_to_its_argument_reaches_no_other_gradient():
    x, z = leaf(1.0, 2.0), leaf(1.0, 2.0)
    seed = lucid.ones(2)
    y = x + 0

    def write(g):
        g.mul_(5)

    y.register_hook(write)
    try:
        (y + z).backward(seed)
    except RuntimeError as error:
        assert "mul_" in str(error)  # a read-only argument is fine too
    else:
        assert z.grad.tolist() == [1.0, 1.0]
    assert seed.tolist() == [1.0, 1.0]


def test_exception_in_a_hook_reaches_the_caller_and_restores_the_modes():
    x = leaf(1.0)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).backward()
    assert x.grad is None and lucid.is_grad_enabled()


def test_hook_on_a_tensor_without_gradient_is_an_error():
    with pytest.raises(RuntimeError, match="does not require grad"):
        lucid.ones(2).register_hook(lambda g: g)


@pytest.mark.parametrize("wrong", [None, 3, lucid.ones(1)])
def test_hook_must_be_callable(wrong):
    x = leaf(1.0)
    with pytest.raises(TypeError):
        x.register_hook(wrong)


def test_hook_computes_with_arrays_as_everywhere():
    x = leaf(1.0, 2.0)
    kinds = []
    x.register_hook(lambda g: kinds.append(type(lucid.exp(np.ones(2)))))
    (x * 2).sum().backward()
    assert kinds == [lucid.Tensor]


def test_hook_runs_without_recording_unless_create_graph():
    x = leaf(1.0)
    modes = []
    x.register_hook(lambda g: modes.append(lucid.is_grad_enabled()))
    (x * 2).backward()
    (x * 2).backward(create_graph=True)
    assert modes == [False, True]


def test_backward_inside_a_hook():
    x, w = leaf(1.0), leaf(2.0)

    def inner(g):
        with lucid.enable_grad():
            (w * w).backward()

    x.register_hook(inner)
    (x * 3).backward()
    assert x.grad.tolist() == [3.0] and w.grad.tolist() == [4.0]


def test_hook_on_leaf_with_restricted_inputs():
    x, y = leaf(1.0), leaf(2.0)
    log = []
    x.register_hook(lambda g: log.append("x"))
    y.register_hook(lambda g: log.append("y"))
    backward(x * y, inputs=[x])
    assert log == ["x"]


def test_hook_on_a_leaf_whose_tensor_is_gone_still_runs():
    x = leaf(1.0)
    log = []
    x.register_hook(lambda g: log.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    y = x * 2
    del x
    y.backward()
    assert log == ["tensor", "accumulated"]


# --- post-accumulate hooks ------------------------------------------------------------------------


def test_post_accumulate_hook_sees_the_sum_and_may_clear_it():
    x = leaf(1.0)
    seen = []

    def step(p):
        assert p is x
        seen.append(p.grad.tolist())
        with lucid.no_grad():
            p.sub_(p.grad)
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2 + x * 3).backward()
    assert seen == [[5.0]] and x.grad is None and x.tolist() == [-4.0]


def test_post_accumulate_hook_on_a_result_is_an_error():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_post_accumulate_hook_can_be_removed():
    x = leaf(1.0)
    log = []
    handle = x.register_post_accumulate_grad_hook(lambda p: log.append(1))
    (x * 2).backward()
    handle.remove()
    (x * 2).backward()
    assert log == [1]


# --- retain_grad ----------------------------------------------------------------------------------


def test_retain_grad_keeps_the_gradient_of_a_result():
    x = leaf(1.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * 3).backward()
    assert y.grad.tolist() == [3.0]


def test_retain_grad_accumulates():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    (y * 3).backward(retain_graph=True)
    (y * 3).backward()
    assert y.grad.tolist() == [6.0]


def test_retain_grad_on_a_leaf_does_nothing():
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_retain_grad_without_requires_grad_is_an_error():
    with pytest.raises(RuntimeError):
        lucid.ones(1).retain_grad()


def test_retain_grad_on_one_output_of_several():
    x = leaf(1.0, 2.0)
    a, b = (x * 1).split(1)
    a.retain_grad()
    (a * 5 + b).backward()
    assert a.grad.tolist() == [5.0] and b.grad is None


def test_retain_grad_with_create_graph_keeps_history():
    x = leaf(2.0)
    y = x * x
    y.retain_grad()
    (y * y).backward(create_graph=True)
    assert y.grad.requires_grad
    assert grad(y.grad, x).tolist() == [8.0]


# --- nodes ----------------------------------------------------------------------------------------


def test_node_of_leaf_and_result():
    x = leaf(1.0)
    assert x.grad_fn is None
    y = x * 2
    assert isinstance(y.grad_fn, Node)
    assert y.grad_fn is y.grad_fn


@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda x: x * 2, "mul"), (lambda x: x.exp(), "exp"), (lambda x: x + 1, "add"), (lambda x: x.sum(), "sum")],
)
def test_node_is_named_after_its_operation(make, name):
    assert make(leaf(1.0)).grad_fn.name() == name


def test_next_functions_lead_to_the_leaves():
    x, y = leaf(1.0), leaf(2.0)
    z = (x * y) + 3
    ((product, number), (nothing, _)) = z.grad_fn.next_functions
    assert product.name() == "mul" and number == 0 and nothing is None
    first, second = (f for f, _ in product.next_functions)
    assert first.variable is x and second.variable is y
    assert first.next_functions == ()


def test_next_functions_of_a_constant_operand_are_none():
    x = leaf(1.0)
    y = lucid.ones(1) * x
    assert y.grad_fn.next_functions[0][0] is None
    assert y.grad_fn.next_functions[1][0] is not None


def test_next_functions_give_the_number_of_the_output():
    x = lucid.tensor([[1.0, 2.0]], requires_grad=True)

    class Two(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return a + 2 * b

    a, b = Two.apply(x)
    assert a.grad_fn is b.grad_fn
    assert (a.output_nr, b.output_nr) == (0, 1)
    assert (b * 1).grad_fn.next_functions[0] == (b.grad_fn, 1)


def test_same_leaf_has_one_accumulator():
    x = leaf(1.0)
    a, b = (x * 2).grad_fn.next_functions[0][0], (x * 3).grad_fn.next_functions[0][0]
    assert a is b


def test_metadata_is_kept_per_node():
    x = leaf(1.0)
    y, z = x * 2, x * 3
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1} and z.grad_fn.metadata == {}


def test_node_hook_sees_gradients_on_both_sides_and_may_replace_them():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []

    def hook(grad_inputs, grad_outputs):
        seen.append((type(grad_inputs), [None if g is None else g.tolist() for g in grad_inputs]))
        seen.append((type(grad_outputs), [g.tolist() for g in grad_outputs]))
        return tuple(None if g is None else g * 100 for g in grad_inputs)

    y.grad_fn.register_hook(hook)
    y.sum().backward()
    assert seen == [(tuple, [[2.0, 2.0], None]), (tuple, [[1.0, 1.0]])]
    assert x.grad.tolist() == [200.0, 200.0]


def test_node_prehook_may_replace_the_gradients():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_node_prehook_of_an_operation_with_several_outputs():
    class Two(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return a + 2 * b

    x = leaf(1.0)
    a, b = Two.apply(x)
    seen = []
    a.grad_fn.register_prehook(lambda gs: seen.append([None if g is None else g.tolist() for g in gs]))
    (a * 3 + b * 5).backward()
    assert seen == [[[3.0], [5.0]]]
    assert x.grad.tolist() == [13.0]


def test_node_hooks_that_return_the_wrong_number_are_errors():
    x = leaf(1.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0], gs[0]))
    with pytest.raises(RuntimeError, match="hook"):
        y.backward()
    z = x * 2
    z.grad_fn.register_hook(lambda gi, go: (gi[0],) * 5)
    with pytest.raises(RuntimeError, match="hook"):
        z.backward()


@pytest.mark.parametrize("wrong", ["text", 3.0, [1.0], (np.ones(1),)])
def test_node_hooks_that_return_no_tensors_are_errors(wrong):
    x = leaf(1.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: wrong)
    with pytest.raises((TypeError, RuntimeError), match="hook"):
        y.backward()
    z = x.exp()
    z.grad_fn.register_hook(lambda gi, go: wrong)
    with pytest.raises((TypeError, RuntimeError), match="hook"):
        z.backward()


def test_node_hooks_that_return_another_shape_are_errors():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (lucid.ones(3),))
    with pytest.raises(RuntimeError, match="hook"):
        y.sum().backward()


def test_node_hook_can_be_removed():
    x = leaf(1.0)
    y = x * 2
    log = []
    handles = [y.grad_fn.register_hook(lambda *a: log.append(1)), y.grad_fn.register_prehook(lambda *a: log.append(2))]
    for h in handles:
        h.remove()
    y.backward()
    assert log == []


# --- saved-tensor hooks ---------------------------------------------------------------------------


def test_saved_tensor_hooks_see_each_saved_value():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        z = (x * y).exp()
    assert packed[:2] == [[1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_allclose(packed[2], np.exp([3.0, 8.0]), rtol=1e-6)
    z.sum().backward()
    np.testing.assert_allclose(x.grad, np.exp([3.0, 8.0]) * [3.0, 4.0], rtol=1e-6)


def test_saved_tensor_hooks_do_not_see_what_is_not_saved():
    packed = []
    x, y = leaf(1.0), leaf(2.0)
    with saved_tensors_hooks(lambda t: packed.append(t), lambda t: t):
        x + y
        x - 3
        x.view(1)
    x * y
    assert packed == []


def test_saved_tensor_hooks_change_the_value():
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: t * 10, lambda t: t):
        y = x * x
    y.backward()
    assert x.grad.tolist() == [60.0]


def test_innermost_saved_tensor_hooks_win():
    log = []
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: log.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: log.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    assert log == ["inner", "outer"]


def test_unpack_runs_in_each_backward():
    log = []
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: t, lambda t: log.append(1) or t):
        y = x.exp()
    assert log == []
    y.backward(retain_graph=True)
    y.backward()
    assert log == [1, 1]


def test_unpack_hook_computes_with_arrays_as_everywhere():
    x = leaf(4.0)
    with saved_tensors_hooks(lambda t: t.numpy().copy() ** 2, lambda a: lucid.sqrt(a)):
        y = x * x
    y.backward()
    assert x.grad.tolist() == [8.0]


def test_unpack_that_gives_no_tensor_is_an_error():
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: t, lambda t: 3.0):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack"):
        y.backward()


def test_exception_in_pack_restores_the_hooks():
    x = leaf(3.0)
    with pytest.raises(ZeroDivisionError), saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        x.exp()
    x.exp().backward()
    assert x.grad is not None


def test_saved_tensor_hooks_and_second_order():
    x = leaf(2.0)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), lucid.from_numpy):
        y = x * x * x
        g = grad(y, x, create_graph=True)
    assert g.tolist() == [12.0]
    assert grad(g, x).tolist() == [12.0]


def test_saved_tensor_hooks_around_a_function():
    class Scale(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return g * w, None

    x, w = leaf(2.0), leaf(5.0)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), lucid.from_numpy):
        y = Scale.apply(x, w)
    (g,) = grad(y, [x], create_graph=True)
    assert g.tolist() == [5.0]
    gx, gw = grad(g * 3, [x, w], allow_unused=True)
    assert gx is None and gw.tolist() == [3.0]


def test_saved_tensor_hooks_see_what_operations_with_several_outputs_save():
    x = lucid.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        values, _ = x.max(dim=1)
    values.sum().backward()
    assert len(packed) > 0
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]


def test_saved_tensor_hooks_under_no_grad_see_nothing():
    log = []
    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: log.append(1), lambda t: t), lucid.no_grad():
        x.exp()
    assert log == []


def test_save_on_cpu_gives_the_same_gradients():
    x = leaf(1.0, 2.0)
    with save_on_cpu():
        y = (x * x).exp().sum()
    y.backward()
    np.testing.assert_allclose(x.grad, 2 * np.array([1.0, 2.0]) * np.exp([1.0, 4.0]), rtol=1e-6)


def test_save_on_cpu_keeps_copies():
    x = leaf(1.0, 2.0)
    y = x * 1
    with save_on_cpu():
        z = y * y
    y.detach().zero_()  # the copies were made before
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_packed_values_are_freed_with_the_graph():
    class Handle:
        pass

    handles = []

    def pack(t):
        h = Handle()
        h.value = t
        handles.append(weakref.ref(h))
        return h

    gc.disable()
    try:
        x = leaf(1.0)
        with saved_tensors_hooks(pack, lambda h: h.value):
            y = x.exp() * x
        y.backward()
        assert len(handles) == 3 and all(h() is None for h in handles)
    finally:
        gc.enable()
