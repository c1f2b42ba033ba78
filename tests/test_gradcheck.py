"""The gradient checker: it must pass right derivatives and name wrong ones."""

import numpy as np
import pytest

import lucid
from lucid.autograd import Function, checking
from lucid.autograd.checking import GradcheckError, gradcheck, gradgradcheck


def tensor(*values, dtype=None, requires_grad=True):
    return lucid.tensor(list(values), dtype=dtype, requires_grad=requires_grad)


def function(forward, backward):
    """A custom Function from two plain functions; the backward reads the arguments."""

    class Custom(Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.save_for_backward(*[a for a in args if isinstance(a, lucid.Tensor)])
            return forward(*args)

        @staticmethod
        def backward(ctx, *grads):
            return backward(*ctx.saved_tensors, *grads)

    return Custom.apply


class Clamp(Function):
    @staticmethod
    def forward(ctx, x, lo, hi):
        ctx.save_for_backward(x)
        ctx.lo, ctx.hi = lo, hi
        return x.clamp(lo, hi)

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        mask = (x >= ctx.lo) & (x <= ctx.hi)
        return grad_out * mask, None, None


def message_of(fn, inputs, **options):
    assert gradcheck(fn, inputs, raise_exception=False, **options) is False
    with pytest.raises(GradcheckError) as caught:
        gradcheck(fn, inputs, **options)
    return str(caught.value)


square = function(lambda x: x * x, lambda x, g: 2 * x * g)


# What is right passes.


def test_non_tensor_arguments():
    assert gradcheck(Clamp.apply, (tensor(-2.0, 0.5, 3.0), -1.0, 1.0), eps=1e-5) is True


def test_bare_tensor_and_list_of_inputs():
    assert gradcheck(square, tensor(0.5, -2.0))
    assert gradcheck(lambda x, y: x * y, [tensor(0.5, -2.0), tensor(3.0)])


def test_nested_inputs_and_outputs():
    fn = lambda pair, d: {"a": pair[0] * d["k"], "b": [pair[1].sin()]}
    assert gradcheck(fn, ((tensor(1.0), tensor(2.0)), {"k": tensor(3.0)}))


def test_float32_is_checked_in_double_precision():
    x = tensor(0.5, -2.0, dtype=lucid.float32)
    seen = []
    assert gradcheck(lambda x: seen.append(x.dtype) or x.sin(), x, atol=1e-8, rtol=1e-7)
    assert set(seen) == {lucid.float64}
    assert x.dtype is lucid.float32


def test_float32_constants_among_the_inputs_become_double_and_integers_stay():
    dtypes = []

    def fn(x, c, i):
        dtypes.append((c.dtype, i.dtype))
        return x * c + i

    c = tensor(2.0, dtype=lucid.float32, requires_grad=False)
    assert gradcheck(fn, (tensor(1.0), c, lucid.tensor([3])))
    assert set(dtypes) == {(lucid.float64, lucid.int64)}


def test_all_floating_inputs_are_checked_if_none_requires_grad():
    wrong_for_y = function(lambda x, y: x * y, lambda x, y, g: (y * g, 2 * x * g))
    x, y = tensor(3.0, requires_grad=False), tensor(2.0, requires_grad=False)
    assert "input 1" in message_of(wrong_for_y, (x, y))
    assert not x.requires_grad and not y.requires_grad


def test_only_inputs_that_require_grad_are_checked_if_any_does():
    wrong_for_y = function(lambda x, y: x * y, lambda x, y, g: (y * g, 2 * x * g))
    assert gradcheck(wrong_for_y, (tensor(3.0), tensor(2.0, requires_grad=False)))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (2, 3)])
def test_shapes(shape):
    x = lucid.tensor(np.arange(float(np.prod(shape))).reshape(shape) + 0.5, requires_grad=True)
    assert gradcheck(lambda x: (x.sin(), (x * x).sum()), x, check_forward_ad=True)


def test_complex():
    z = tensor(0.5 + 1j, -2.0 + 0.3j)
    fn = lambda z: (z * z, z.exp(), z.abs(), z.conj() * z, z.real * z.imag)
    assert gradcheck(fn, z, check_forward_ad=True)


def test_complex_outputs_of_real_inputs():
    assert gradcheck(lambda x: x * (1 + 2j), tensor(0.5, -1.0), check_forward_ad=True)


def test_complex_convention_is_ct_times_conjugate():
    right = function(lambda z: z * z, lambda z, g: g * (2 * z).conj())
    missing_conj = function(lambda z: z * z, lambda z, g: g * 2 * z)
    z = tensor(0.5 + 1j)
    assert gradcheck(right, z)
    text = message_of(missing_conj, z)
    assert "[0].imag" in text and "[0].real" in text


def test_outputs_that_have_no_derivative_are_left_out():
    assert gradcheck(lambda x: (x * 2, x > 0, x.argmax(), None, "text"), tensor(1.0, 2.0))


def test_works_inside_no_grad():
    with lucid.no_grad():
        assert gradcheck(square, tensor(1.0))
        assert gradgradcheck(square, tensor(1.0))


def test_nothing_of_the_users_is_touched():
    x, w = tensor(0.5, -2.0), tensor(3.0, 4.0)
    x.grad = lucid.tensor([7.0, 7.0])
    before = x.numpy().copy()
    assert gradcheck(lambda x: x * w, x)
    assert np.array_equal(x.grad.numpy(), [7.0, 7.0])
    assert w.grad is None and x._version == 0
    assert np.array_equal(x.numpy(), before)


def test_function_that_writes_in_place():
    def fn(x, y):
        y.mul_(2)
        return x * y

    y = tensor(3.0, requires_grad=False)
    assert gradcheck(fn, (tensor(2.0), y))
    assert y.item() == 3.0


# What is wrong is named.


def test_wrong_value():
    text = message_of(function(lambda x: x * x, lambda x, g: 3 * x * g), tensor(2.0, 5.0))
    assert "the derivative of output 0 by input 0 is wrong in 2 of 4 entries" in text
    assert "d output 0[1] / d input 0[1]: backward 15, central differences 10" in text
    assert "All entries are 1.5 × the right ones." in text


def test_wrong_sign():
    assert "The sign is wrong." in message_of(function(lambda x: x * x, lambda x, g: -2 * x * g), tensor(2.0, 5.0))


def test_wrong_element_only():
    def backward(x, g):
        factor = np.ones((2, 3))
        factor[1, 2] = 1.01
        return 2 * x * g * lucid.tensor(factor)

    x = lucid.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    text = message_of(function(lambda x: x * x, backward), x)
    assert "wrong in 1 of 36 entries" in text
    assert "d output 0[1, 2] / d input 0[1, 2]: backward 12.12, central differences 12" in text


def test_wrong_second_input_and_second_output():
    bad = function(lambda x, y: (x + y, x * y), lambda x, y, g, h: (g + h * y, g + h * y))
    text = message_of(bad, (tensor(2.0), tensor(5.0)))
    assert "d output 1[0] / d input 1[0]: backward 5, central differences 2" in text


def test_input_numbers_count_all_arguments():
    bad = function(lambda k, x: x * k, lambda x, g: (None, g))
    assert "input 1" in message_of(bad, (3.0, tensor(2.0)))


def test_scalar_tensors_have_no_index():
    x = lucid.tensor(2.0, requires_grad=True)
    assert "d output 0 / d input 0: backward 1" in message_of(function(lambda x: x * x, lambda x, g: g), x)


def test_wrong_type():
    text = message_of(function(lambda x: x * x, lambda x, g: (2 * x * g).float()), tensor(2.0))
    assert "Custom.backward returned float32 for argument 0, whose type is float64" in text


def test_complex_gradient_of_a_real_input():
    text = message_of(function(lambda x: x * x, lambda x, g: 2 * x * g + 0j), tensor(2.0))
    assert "returned complex128 for argument 0, whose type is float64" in text


def test_backward_that_forgets_the_incoming_gradient():
    text = message_of(function(lambda x: (x * x).sum(), lambda x, g: 2 * x), tensor(2.0, 3.0))
    assert "not linear" in text and "multiply by the incoming gradient" in text


def test_output_that_was_cut_off():
    text = message_of(lambda x: x.detach() * 2, tensor(2.0))
    assert "backward 0, central differences 2" in text and "does not require grad" in text


def test_gradient_of_none_counts_as_zero():
    assert "All entries are zero." in message_of(function(lambda x: x * x, lambda x, g: None), tensor(2.0))


def test_random_function():
    rng = np.random.default_rng(0)
    text = message_of(lambda x: x * float(rng.standard_normal()), tensor(2.0))
    assert "not deterministic" in text and "twice" in text


def test_random_backward():
    rng = np.random.default_rng(0)
    noisy = function(lambda x: x * x, lambda x, g: 2 * x * g * (1 + 1e-7 * float(rng.standard_normal())))
    assert "two passes" in message_of(noisy, tensor(2.0))
    assert gradcheck(noisy, tensor(2.0), nondet_tol=1e-5)


def test_single_precision_inside_the_function():
    assert "too coarse" in message_of(lambda x: x.float() * x.float(), tensor(2.3))


def test_function_undefined_at_the_input():
    assert "not finite" in message_of(lambda x: x.sqrt(), tensor(0.0))


def test_nan_is_never_right():
    assert "nan" in message_of(function(lambda x: x * x, lambda x, g: g * float("nan")), tensor(2.0))


def test_kink_disagrees():
    assert "central differences 0.5" in message_of(lambda x: x.relu(), tensor(0.0))


def test_forward_mode_is_compared_too(monkeypatch):
    right = checking.unpack_dual

    def wrong(out):
        primal, tangent = right(out)
        return primal, tangent * 2

    assert gradcheck(lambda x: x.sin(), tensor(1.0), check_forward_ad=True)
    monkeypatch.setattr(checking, "unpack_dual", wrong)
    text = message_of(lambda x: x.sin(), tensor(1.0), check_forward_ad=True)
    assert "d output 0[0] / d input 0[0]: jvp 1.0806" in text


def test_tolerances():
    almost = function(lambda x: x * x, lambda x, g: 2.002 * x * g)
    assert gradcheck(almost, tensor(2.0), rtol=1e-2)
    assert not gradcheck(almost, tensor(2.0), rtol=1e-4, raise_exception=False)


def test_errors_of_the_function_come_through():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        gradcheck(broken, tensor(1.0), raise_exception=False)


def test_nothing_to_check():
    with pytest.raises(ValueError, match="no floating-point or complex tensor among the inputs"):
        gradcheck(lambda i: i, lucid.tensor([1]))
    with pytest.raises(GradcheckError, match="returned no floating-point"):
        gradcheck(lambda x: x > 0, tensor(1.0))
    with pytest.raises(ValueError, match="eps"):
        gradcheck(square, tensor(1.0), eps=0)


def test_error_is_a_runtime_error():
    assert issubclass(GradcheckError, RuntimeError)


# Second order.


def test_second_order():
    assert gradgradcheck(lambda x, y: (x**3 * y.sin(), x.exp()), (tensor(0.5, -2.0), tensor(1.0, 2.0)))
    assert gradgradcheck(square, tensor(0.5, -2.0))


def test_second_order_complex():
    assert gradgradcheck(lambda z: (z * z * z, z.exp()), tensor(0.5 + 1j))


def test_second_order_in_forward_mode():
    assert gradgradcheck(lambda x: x**3, tensor(0.5, -2.0), check_forward_ad=True)


def test_second_order_notices_a_detached_backward():
    detached = function(lambda x: x**3, lambda x, g: 3 * x.detach() ** 2 * g)
    x = tensor(0.5, -2.0)
    assert gradcheck(detached, x)
    assert gradgradcheck(detached, x, raise_exception=False) is False
    with pytest.raises(GradcheckError, match=r"the gradient by input 0.* by input 0 is wrong"):
        gradgradcheck(detached, x)


def test_second_order_seeds_may_be_given_and_are_named():
    wrong_in_g = function(lambda x: x * 2, lambda x, g: g * 2 + 0 * x)
    assert gradgradcheck(wrong_in_g, tensor(1.0), grad_outputs=lucid.tensor([3.0]))
    squared = function(lambda x: x * 2, lambda x, g: 2 * g.detach() + 0 * x)
    with pytest.raises(GradcheckError, match="grad_output 0"):
        gradgradcheck(squared, tensor(1.0))
    with pytest.raises(ValueError, match="2 grad_outputs for 1"):
        gradgradcheck(wrong_in_g, tensor(1.0), grad_outputs=[lucid.tensor([3.0]), lucid.tensor([3.0])])


def test_second_order_needs_an_output_that_requires_grad():
    with pytest.raises(GradcheckError, match="requires grad"):
        gradgradcheck(lambda x: x.detach(), tensor(1.0))


def test_functions_with_a_forward_rule_only():
    @lucid.func.custom_jvp
    def cube(x):
        return x**3

    cube.defjvps(lambda t, value, x: 3 * x**2 * t)
    assert gradcheck(cube, tensor(0.5, -2.0)) and gradgradcheck(cube, tensor(0.5, -2.0))

    @lucid.func.custom_jvp
    def wrong(x):
        return x**3

    wrong.defjvps(lambda t, value, x: 2 * x**2 * t)
    assert gradcheck(wrong, tensor(0.5, -2.0), raise_exception=False) is False


def test_gradients_of_many_at_once(monkeypatch):
    x = lucid.tensor([0.5, 1.5], requires_grad=True)
    z = lucid.tensor([0.5 + 1.0j], requires_grad=True)
    assert gradcheck(lambda x, z: (x.sin(), z * x[0], lucid.ones(2)), (x, z), check_batched_grad=True, fast_mode=True)
    assert gradgradcheck(func=lambda x: x**3, inputs=x, check_batched_grad=True)
    grad = checking.grad

    def wrong(*args, is_grads_batched=False, **kwargs):
        found = grad(*args, is_grads_batched=is_grads_batched, **kwargs)
        return [None if g is None else 2 * g for g in found] if is_grads_batched else found

    monkeypatch.setattr(checking, "grad", wrong)
    assert gradcheck(lucid.sin, x)
    with pytest.raises(GradcheckError, match="batched backward"):
        gradcheck(lucid.sin, x, check_batched_grad=True)
