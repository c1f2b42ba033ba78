"""Custom operations: what a `Function` may save, return and refuse."""

import gc
import weakref

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, grad, once_differentiable


def leaf(*values, **kwargs):
    return lucid.tensor(list(values), requires_grad=True, **kwargs)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class CubeNewStyle(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


both_styles = pytest.mark.parametrize("cube", [Cube, CubeNewStyle])


@both_styles
def test_value_and_gradient(cube):
    x = leaf(1.0, 2.0)
    y = cube.apply(x)
    assert y.tolist() == [1.0, 8.0] and y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


@both_styles
def test_double_and_triple_backward(cube):
    x = leaf(2.0)
    g1 = grad(cube.apply(x), x, create_graph=True)
    g2 = grad(g1, x, create_graph=True)
    g3 = grad(g2, x)
    assert [g.item() for g in (g1, g2, g3)] == [12.0, 12.0, 6.0]


@both_styles
def test_inside_a_larger_graph(cube):
    x = leaf(1.0, 2.0)
    (cube.apply(x * 2) * x).sum().backward()  # 8x⁴
    assert x.grad.tolist() == [32.0, 256.0]


@both_styles
def test_without_gradients_nothing_is_recorded(cube):
    y = cube.apply(lucid.ones(2))
    assert not y.requires_grad and y.grad_fn is None
    with lucid.no_grad():
        assert not cube.apply(leaf(1.0)).requires_grad


def test_setup_context_gets_all_inputs_and_the_output():
    seen = []

    class F(Function):
        @staticmethod
        def forward(x, k, name):
            return x * k, k

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((inputs[1:], type(output)))
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g, _):
            return g * ctx.k, None, None

    x = leaf(1.0)
    y, k = F.apply(x, 3, "name")
    assert seen == [((3, "name"), tuple)] and k == 3
    y.backward()
    assert x.grad.tolist() == [3.0]


# --- forward --------------------------------------------------------------------------------------


def test_forward_runs_without_recording():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            assert not lucid.is_grad_enabled()
            assert not (x * 2).requires_grad
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert not lucid.is_grad_enabled()
            return g * 2

    F.apply(leaf(1.0)).backward()
    assert lucid.is_grad_enabled()


def test_backward_records_with_create_graph():
    modes = []

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            modes.append(lucid.is_grad_enabled())
            return g * 2

    x = leaf(1.0)
    grad(F.apply(x), x)
    grad(F.apply(x), x, create_graph=True)
    assert modes == [False, True]


def test_exception_in_forward_restores_recording():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        F.apply(leaf(1.0))
    assert lucid.is_grad_enabled()


def test_attributes_of_the_context():
    class F(Function):
        @staticmethod
        def forward(ctx, x, power):
            ctx.power = power
            ctx.save_for_backward(x)
            return x**power

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.power * x ** (ctx.power - 1), None

    x = leaf(2.0)
    F.apply(x, 3).backward()
    assert x.grad.tolist() == [12.0]


def test_missing_forward_and_backward():
    class Nothing(Function):
        pass

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="backward"):
        NoBackward.apply(leaf(1.0)).backward()


def test_each_application_has_a_context_of_its_own():
    x, y = leaf(1.0), leaf(2.0)
    a, b = Cube.apply(x), Cube.apply(y)
    b.backward()
    a.backward()
    assert x.grad.tolist() == [3.0] and y.grad.tolist() == [12.0]


# --- what is saved --------------------------------------------------------------------------------


def test_save_inputs_outputs_none_and_intermediates():
    class F(Function):
        @staticmethod
        def forward(ctx, x, y):
            inner = x * 2
            out = (inner * y).exp()
            ctx.save_for_backward(x, None, out, inner, y)
            return out

        @staticmethod
        def backward(ctx, g):
            x, nothing, out, inner, y = ctx.saved_tensors
            assert nothing is None
            assert x.tolist() == [0.5] and inner.tolist() == [1.0]
            return g * out * 2 * y, g * out * inner

    x, y = leaf(0.5), leaf(2.0)
    F.apply(x, y).backward()
    np.testing.assert_allclose(x.grad, [4 * np.exp(2.0)], rtol=1e-6)
    np.testing.assert_allclose(y.grad, [np.exp(2.0)], rtol=1e-6)


def test_saved_output_is_connected_in_second_order():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            (out,) = ctx.saved_tensors
            return g * out

    x = lucid.tensor([0.3], dtype=lucid.float64, requires_grad=True)
    g = y = Exp.apply(x)
    for _ in range(3):
        g = grad(g, x, create_graph=True)
        np.testing.assert_allclose(g.item(), np.exp(0.3))
    assert y.grad_fn is not None


def test_saved_outputs_of_several_are_connected_in_second_order():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            s, c = x.sin(), x.cos()
            ctx.save_for_backward(s, c)
            return s, c

        @staticmethod
        def backward(ctx, gs, gc_):
            s, c = ctx.saved_tensors
            return gs * c - gc_ * s

    x = lucid.tensor([0.3], dtype=lucid.float64, requires_grad=True)
    s, _ = SinCos.apply(x)
    g = grad(s, x, create_graph=True)
    h = grad(g, x, create_graph=True)
    np.testing.assert_allclose([g.item(), h.item()], [np.cos(0.3), -np.sin(0.3)])
    np.testing.assert_allclose(grad(h, x).item(), -np.cos(0.3))


def test_saved_input_is_the_input_itself():
    seen = []

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0])
            return g * 2

    x = leaf(1.0)
    F.apply(x).backward()
    assert seen[0].requires_grad and np.shares_memory(seen[0].numpy(), x.numpy())


@pytest.mark.parametrize("wrong", [3.0, "x", np.ones(2), [1.0]])
def test_saving_what_is_no_tensor_is_an_error(wrong):
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(wrong)
            return x * 2

    with pytest.raises(TypeError, match="save_for_backward"):
        F.apply(leaf(1.0))


def test_saved_values_are_freed_by_the_backward():
    x = leaf(1.0)
    y = Cube.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time.*Cube"):
        y.backward()


def test_saved_values_are_kept_on_request():
    x = leaf(1.0)
    y = Cube.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_in_place_change_of_a_saved_input_is_detected():
    x = leaf(1.0, 2.0)
    z = x * 1
    y = Cube.apply(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match=r"overwritten.*Cube"):
        y.sum().backward()


def test_in_place_change_of_a_saved_output_is_detected():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(1.0, 2.0)
    y = Exp.apply(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"overwritten.*Exp"):
        y.sum().backward()


# --- needs_input_grad -----------------------------------------------------------------------------


def test_needs_input_grad():
    seen = []

    class F(Function):
        @staticmethod
        def forward(ctx, x, y, k):
            seen.append(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, None

    F.apply(leaf(1.0), lucid.ones(1), 3).backward()
    assert seen == [(True, False, False)] * 2


def test_gradients_for_inputs_that_need_none_are_ignored():
    class F(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g * 2, g * 3

    x, y = leaf(1.0), lucid.ones(1)
    F.apply(x, y).backward()
    assert x.grad.tolist() == [2.0] and y.grad is None


# --- what backward returns ------------------------------------------------------------------------


def returning(result):
    class Returns(Function):
        @staticmethod
        def forward(ctx, x, y, k):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return result(g)

    return Returns


def test_none_means_no_gradient():
    x, y = leaf(1.0), leaf(2.0)
    returning(lambda g: (g * 5, None, None)).apply(x, y, 3).backward()
    assert x.grad.tolist() == [5.0] and y.grad is None


def test_more_nones_than_arguments_are_allowed():
    x, y = leaf(1.0), leaf(2.0)
    returning(lambda g: (g, g, None, None, None)).apply(x, y, 3).backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize("result", [lambda g: g, lambda g: (g, g), lambda g: (g, g, None, g)])
def test_wrong_number_of_gradients(result):
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match=r"Returns.backward"):
        returning(result).apply(x, y, 3).backward()
    assert x.grad is None and y.grad is None


@pytest.mark.parametrize("wrong", [3.0, "g", np.ones(1, np.float32), [1.0]])
def test_gradient_that_is_no_tensor(wrong):
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises((TypeError, RuntimeError), match=r"Returns.backward"):
        returning(lambda g: (wrong, None, None)).apply(x, y, 3).backward()


def test_gradient_for_an_argument_that_is_no_tensor():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match="argument 2"):
        returning(lambda g: (g, g, g)).apply(x, y, 3).backward()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,)])
def test_gradient_of_wrong_shape(shape):
    x, y = leaf(1.0, 2.0), leaf(2.0, 3.0)
    with pytest.raises(RuntimeError, match="shape"):
        returning(lambda g: (lucid.ones(shape), None, None)).apply(x, y, 3).sum().backward()


def test_gradient_of_broadcast_shape_is_summed():
    x, y = leaf(1.0), leaf(2.0, 3.0)
    returning(lambda g: (g, g, None)).apply(x, y, 3).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_gradient_of_another_type_is_converted():
    x, y = leaf(1.0), leaf(2.0)
    returning(lambda g: (g.double(), g, None)).apply(x, y, 3).backward()
    assert x.grad.dtype is lucid.float32


def test_complex_gradient_of_a_real_input_keeps_its_real_part():
    x, y = leaf(1.0), leaf(2.0)
    returning(lambda g: (lucid.tensor([3 + 4j]), g, None)).apply(x, y, 3).backward()
    assert x.grad.dtype is lucid.float32 and x.grad.tolist() == [3.0]


def test_list_of_gradients_is_accepted():
    x, y = leaf(1.0), leaf(2.0)
    returning(lambda g: [g, g * 2, None]).apply(x, y, 3).backward()
    assert y.grad.tolist() == [2.0]


def test_returned_gradient_is_not_aliased():
    kept = []

    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[0]

    x = leaf(1.0)
    F.apply(x).backward()
    x.grad.zero_()
    assert kept[0].tolist() == [2.0]


# --- several outputs ------------------------------------------------------------------------------


class Two(Function):
    log: list = []  # noqa: RUF012  # what arrived

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        Two.log.append([None if g is None else g.tolist() for g in (a, b)])
        return a * 2 + b * 3


def test_several_outputs_run_backward_once():
    x = leaf(1.0)
    Two.log = []
    a, b = Two.apply(x)
    (a * 5 + b * 7).backward()
    assert Two.log == [[[5.0], [7.0]]]
    assert x.grad.tolist() == [31.0]


def test_unused_output_arrives_as_zeros():
    x = leaf(1.0, 2.0)
    Two.log = []
    a, _ = Two.apply(x)
    a.sum().backward()
    assert Two.log == [[[1.0, 1.0], [0.0, 0.0]]]


def test_unused_output_arrives_as_none_without_materialization():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return b * 3

    x = leaf(1.0)
    _, b = F.apply(x)
    b.backward()
    assert x.grad.tolist() == [3.0]


def test_both_outputs_as_roots_run_backward_once():
    x = leaf(1.0)
    Two.log = []
    grad(Two.apply(x), x)
    assert len(Two.log) == 1


def test_one_output_in_a_tuple_stays_a_tuple():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2,)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    out = F.apply(leaf(1.0))
    assert type(out) is tuple and len(out) == 1


def test_outputs_that_are_no_tensors_pass_through():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return "name", x * 2, None, 7

        @staticmethod
        def backward(ctx, *grads):
            assert [g is None for g in grads] == [True, False, True, True]
            return grads[1] * 2

    x = leaf(1.0)
    name, y, nothing, seven = F.apply(x)
    assert (name, nothing, seven) == ("name", None, 7)
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_integer_outputs_require_no_grad():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, lucid.tensor([1, 2])

        @staticmethod
        def backward(ctx, g, _):
            return g * 2

    y, n = F.apply(leaf(1.0))
    assert y.requires_grad and not n.requires_grad
    y.backward()


def test_mark_non_differentiable():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            mask = (x > 0).float()
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(mask)
            return x * mask, mask

        @staticmethod
        def backward(ctx, g, unused):
            assert not unused.numpy().any()
            return g * ctx.saved_tensors[0]

    x = leaf(-1.0, 2.0)
    y, mask = F.apply(x)
    assert y.requires_grad and not mask.requires_grad and mask.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


def test_same_tensor_returned_twice():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 20  # tells the two apart

    x = leaf(1.0)
    a, b = F.apply(x)
    (a * 3 + b * 5).backward()
    assert x.grad.tolist() == [106.0]


# --- inputs as outputs ----------------------------------------------------------------------------


def test_input_returned_unchanged_is_a_new_tensor_with_history():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1.0)
    y = Identity.apply(x)
    assert y is not x and y.grad_fn is not None and x.is_leaf
    y.backward()
    assert x.grad.tolist() == [5.0]


def test_view_of_an_input_as_output():
    class Flat(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(ctx.shape) * 5

    x = lucid.ones(2, 2, requires_grad=True)
    Flat.apply(x).sum().backward()
    assert x.grad.tolist() == [[5.0, 5.0], [5.0, 5.0]]


class AddOne(Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


def test_mark_dirty_changes_history_in_place():
    x = leaf(1.0, 2.0)
    z = x * 2
    version = z._version
    out = AddOne.apply(z)
    assert out is z and z.tolist() == [3.0, 5.0] and z._version > version
    z.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_mark_dirty_on_a_view_changes_the_base():
    x = leaf(1.0, 2.0)
    z = x * 2
    AddOne.apply(z[:1])
    z.sum().backward()
    assert x.grad.tolist() == [20.0, 2.0]


def test_mark_dirty_on_a_leaf_that_requires_grad_is_an_error():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        AddOne.apply(x)
    assert x.is_leaf
    with pytest.raises(RuntimeError, match="leaf"):
        AddOne.apply(leaf(1.0, 2.0)[:1])


def test_mark_dirty_overwrites_values_saved_before():
    x, y = leaf(1.0), leaf(2.0)
    z = x * 1
    w = z * y
    AddOne.apply(z)
    with pytest.raises(RuntimeError, match="overwritten"):
        w.backward()


def test_mark_dirty_of_a_constant():
    z = lucid.ones(2)
    assert AddOne.apply(z) is z
    assert not z.requires_grad and z.tolist() == [2.0, 2.0]


# --- higher order ---------------------------------------------------------------------------------


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert not lucid.is_grad_enabled()
        return 2 * x * g


def test_once_differentiable_first_order():
    x = leaf(3.0)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6.0]


def test_once_differentiable_refuses_the_second_order():
    x = leaf(3.0)
    g = grad(Once.apply(x) ** 2, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_backward_may_call_apply():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * Cube.apply(ctx.saved_tensors[0])

    x = leaf(2.0)
    g = grad(F.apply(x), x, create_graph=True)
    assert g.tolist() == [16.0]
    assert grad(g, x).tolist() == [24.0]


def test_backward_may_differentiate_inside():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with lucid.enable_grad():
                y = x.detach().requires_grad_()
                return g * grad(y.sin(), y)

    x = leaf(0.5)
    F.apply(x).backward()
    np.testing.assert_allclose(x.grad, np.cos([0.5]), rtol=1e-6)


def test_gradients_reach_only_what_is_asked_for():
    x, y = leaf(1.0), leaf(2.0)
    z = returning(lambda g: (g * 2, g * 3, None)).apply(x * 1, y * 1, 0)
    assert grad(z, y).tolist() == [3.0]


# --- names and memory -----------------------------------------------------------------------------


def test_node_is_named_after_the_function():
    y = Cube.apply(leaf(1.0))
    assert "Cube" in y.grad_fn.name()


def test_error_in_backward_is_not_wrapped():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        F.apply(leaf(1.0)).backward()


@pytest.mark.parametrize("function", [Cube, CubeNewStyle, Two])
def test_everything_is_freed_by_reference_counting(function):
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        inner = x * 2
        out = function.apply(inner)
        out = out[0] if isinstance(out, tuple) else out
        refs = [weakref.ref(inner), weakref.ref(out), weakref.ref(out.grad_fn)]
        del inner, out
        assert [r() for r in refs] == [None] * 3
    finally:
        gc.enable()


def test_saved_tensors_are_freed_after_backward_while_the_output_lives():
    gc.disable()
    try:
        x = leaf(1.0)
        inner = x * 2
        out = Cube.apply(inner)
        ref = weakref.ref(inner._array)
        del inner
        assert ref() is not None
        out.backward()
        assert ref() is None
    finally:
        gc.enable()


def test_saved_output_makes_no_cycle():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    gc.collect()
    gc.disable()
    try:
        out = Exp.apply(leaf(1.0))
        node = weakref.ref(out.grad_fn)
        ref = weakref.ref(out)
        del out
        assert ref() is None and node() is None
    finally:
        gc.enable()


def test_inputs_that_are_not_saved_are_not_kept():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    gc.disable()
    try:
        x = leaf(1.0)
        inner = x * 1
        out = Double.apply(inner)
        ref = weakref.ref(inner)
        del inner
        assert ref() is None
        out.backward()
    finally:
        gc.enable()
