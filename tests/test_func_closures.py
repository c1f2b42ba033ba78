"""Derivatives reach tensors that a function closes over, through every transform and every pair; none is confused."""

import numpy as np
import pytest
from nestings import MAIN, OTHERS, N, Nesting, X, nestings, tensor

import lucid
from lucid import autograd
from lucid.func import grad, hessian, jacfwd, jacrev, jvp, linearize, make_graph, vjp, vmap

W = np.array([0.8, -0.4, 1.3])
ALL = [*nestings(MAIN + OTHERS, 1), *nestings(MAIN + OTHERS, 2)]
everywhere = pytest.mark.parametrize("nesting", ALL, ids=str)


def function_of(w):
    """x -> sum(w² · (x³ + sin x)), in which w comes from outside."""
    return lambda x: (w**2 * (x**3 + x.sin())).sum()


def expected(nesting: Nesting) -> np.ndarray:
    """The result is linear in w², so each element of w has the result for a unit vector in its place as factor."""

    def coefficient(i):
        return nesting.expected(lambda p: p[0][..., i] ** 3 + np.sin(p[0][..., i]))

    return 2 * W * np.array([coefficient(i) for i in range(N)])


@everywhere
def test_a_leaf_from_outside_gets_its_gradient(nesting):
    w = tensor(W).requires_grad_()
    nesting.of_tensors(function_of(w))(tensor(X)).backward(inputs=[w])
    np.testing.assert_allclose(w.grad.numpy(), expected(nesting), rtol=1e-9, atol=1e-10)


@everywhere
def test_a_value_on_the_way_passes_it_on(nesting):
    w = tensor(W).requires_grad_()
    out = nesting.of_tensors(function_of(w * 1.0))(tensor(X))
    g = autograd.grad(out, w, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), expected(nesting), rtol=1e-9, atol=1e-10)
    second = autograd.grad(g.sum(), w)
    np.testing.assert_allclose(second.numpy(), expected(nesting) / W, rtol=1e-9, atol=1e-10)


@everywhere
def test_transforms_outside_follow_it(nesting):
    def total(w):
        return nesting.of_tensors(function_of(w))(tensor(X))

    want = expected(nesting)
    np.testing.assert_allclose(grad(total)(tensor(W)).numpy(), want, rtol=1e-9, atol=1e-10)
    _, change = jvp(total, (tensor(W),), (tensor(X),))
    np.testing.assert_allclose(change.item(), (want * X).sum(), rtol=1e-9, atol=1e-10)
    batch = vmap(total)(tensor(np.stack([W, 2 * W])))
    np.testing.assert_allclose(batch.numpy(), [(want * W).sum() / 2, (want * W).sum() * 2], rtol=1e-9, atol=1e-10)


# Perturbation confusion: an inner derivative must not see the perturbation of an outer one.


def d_grad(f):
    return grad(f)


def d_jvp(f):
    return lambda x: jvp(f, (x,), (lucid.ones_like(x),))[1]


def d_backward(f):
    def derivative(x):
        y = x.clone().requires_grad_()
        y.retain_grad()
        f(y).backward(create_graph=True, inputs=[y])
        return y.grad

    return derivative


def d_vjp(f):
    return lambda x: vjp(f, x)[1](tensor(1.0))[0]


def d_linearize(f):
    return lambda x: linearize(f, x)[1](lucid.ones_like(x))


def d_duals(f):
    def derivative(x):
        with autograd.forward_ad.dual_level():
            out = f(autograd.forward_ad.make_dual(x, lucid.ones_like(x)))
            tangent = autograd.forward_ad.unpack_dual(out).tangent
            return lucid.zeros_like(x) if tangent is None else tangent

    return derivative


def d_jacrev(f):
    return jacrev(f)


def d_jacfwd(f):
    return jacfwd(f)


def d_vmapped(f):
    """Each example of a batch of one."""
    return lambda x: vmap(grad(f))(x.reshape(1)).reshape(())


def d_vmapped_jvp(f):
    return lambda x: vmap(d_jvp(f))(x.reshape(1)).reshape(())


DERIVATIVES = {
    "grad": d_grad, "jvp": d_jvp, "backward": d_backward, "vjp": d_vjp, "linearize": d_linearize, "duals": d_duals,
    "jacrev": d_jacrev, "jacfwd": d_jacfwd, "vmap(grad)": d_vmapped, "vmap(jvp)": d_vmapped_jvp,
}  # fmt: skip
outer_and_inner = [
    pytest.mark.parametrize("outer", DERIVATIVES.values(), ids=DERIVATIVES),
    pytest.mark.parametrize("inner", DERIVATIVES.values(), ids=DERIVATIVES),
]


def both(test):
    for mark in outer_and_inner:
        test = mark(test)
    return test


@both
def test_the_classic(outer, inner):
    """d/dx (x · d/dy (x + y)) = 1."""
    got = outer(lambda x: x * inner(lambda y: x + y)(tensor(1.0)))(tensor(1.0))
    assert got.item() == pytest.approx(1.0)


@both
def test_the_inner_variable_at_the_outer_point(outer, inner):
    """d/dx (x · d/dy (x y)|y=x) = d/dx x² = 2x."""
    got = outer(lambda x: x * inner(lambda y: x * y)(x))(tensor(3.0))
    assert got.item() == pytest.approx(6.0)


@both
def test_a_constant_inside(outer, inner):
    """d/dx (x · d/dy (x + 0 y)) = 0."""
    got = outer(lambda x: x * inner(lambda y: x + y * 0)(tensor(2.0)))(tensor(5.0))
    assert got.item() == 0.0


@both
def test_a_product_of_powers(outer, inner):
    """d/dx d/dy (x² y³)|y=x = d/dx 3x⁴ = 12x³."""
    got = outer(lambda x: inner(lambda y: x**2 * y**3)(x))(tensor(2.0))
    assert got.item() == pytest.approx(96.0)


@both
def test_the_outer_variable_in_the_inner_direction(outer, inner):
    """d/dx (d/dy sin(x y)|y=2) = cos(2x) - 2x sin(2x)."""
    got = outer(lambda x: inner(lambda y: (x * y).sin())(tensor(2.0)))(tensor(0.7))
    assert got.item() == pytest.approx(np.cos(1.4) - 1.4 * np.sin(1.4))


@both
def test_three_deep(outer, inner):
    """d/dx (x · d/dy (x · d/dz (x y z)|z=x y)|y=x) = d/dx (x · d/dy x² y) = d/dx x³."""
    got = outer(lambda x: x * inner(lambda y: x * outer(lambda z: x * y * z)(x * y))(x))(tensor(2.0))
    assert got.item() == pytest.approx(12.0)


@both
def test_an_inner_derivative_kept_in_a_closure(outer, inner):
    """A function made inside one derivative and called inside another."""

    def f(x):
        slope = inner(lambda y: y**3 * x)
        return outer(lambda z: slope(z) * z)(x)  # d/dz 3z³x = 9z²x

    assert inner(f)(tensor(2.0)).item() == pytest.approx(27 * 4.0)


@both
def test_inside_vmap(outer, inner):
    xs = np.array([1.0, 2.0, -0.5])
    got = vmap(outer(lambda x: x * inner(lambda y: x + y * x)(x)))(tensor(xs))
    np.testing.assert_allclose(got.numpy(), 2 * xs)


def test_a_tangent_that_is_the_outer_variable():
    """d/dx of the change of y² along x at 3: d/dx 6x = 6."""
    assert grad(lambda x: jvp(lambda y: y**2, (tensor(3.0),), (x,))[1])(tensor(5.0)).item() == 6.0
    assert jvp(lambda x: jvp(lambda y: y**2, (x,), (x,))[1], (tensor(5.0),), (tensor(1.0),))[1].item() == 20.0


def test_a_cotangent_that_is_the_outer_variable():
    def f(x):
        _, pull = vjp(lambda y: y**3, x)
        return pull(x)[0]

    assert grad(f)(tensor(2.0)).item() == 36.0
    assert jvp(f, (tensor(2.0),), (tensor(1.0),))[1].item() == 36.0


def test_a_pullback_called_inside_another_transform():
    """vjp outside, its pull inside jvp, grad and vmap: the pull is linear in its cotangent."""
    x = tensor(X)
    _, pull = vjp(lambda y: y**3, x)
    want = 3 * X**2
    np.testing.assert_allclose(jvp(lambda c: pull(c)[0], (x,), (x,))[1].numpy(), want * X)
    np.testing.assert_allclose(grad(lambda c: pull(c)[0].sum())(x).numpy(), want)
    np.testing.assert_allclose(vmap(lambda c: pull(c)[0])(lucid.eye(3, dtype=lucid.float64)).numpy(), np.diag(want))


def test_a_linear_function_called_inside_another_transform():
    x = tensor(X)
    _, push = linearize(lambda y: y**3, x)
    want = 3 * X**2
    np.testing.assert_allclose(jvp(push, (x,), (x,))[1].numpy(), want * X)
    np.testing.assert_allclose(grad(lambda c: push(c).sum())(x).numpy(), want)
    np.testing.assert_allclose(vmap(push)(lucid.eye(3, dtype=lucid.float64)).numpy(), np.diag(want))


def test_a_value_that_left_its_transform_is_refused_or_constant():
    """A dual or batched tensor that escaped has no place outside; using it must not give numbers silently wrong."""
    kept = []
    vmap(lambda x: kept.append(x) or x)(tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError):
        float(kept[0])
    with pytest.raises(RuntimeError):
        float(kept[0] * 2)
    kept.clear()
    jvp(lambda x: kept.append(x * 2) or x, (tensor(3.0),), (tensor(1.0),))
    _, change = jvp(lambda x: x * kept[0], (tensor(1.0),), (tensor(1.0),))
    assert change.item() == 6.0


def test_mixed_partials_in_one_variable_of_two():
    """d²/dx dy (x³ y²) in every pair of modes is symmetric."""
    f = lambda x, y: x**3 * y**2
    x, y = tensor(2.0), tensor(3.0)
    want = 6 * 4.0 * 3.0
    for outer in DERIVATIVES.values():
        for inner in DERIVATIVES.values():
            assert outer(lambda a, d=inner: d(lambda b: f(a, b))(y))(x).item() == pytest.approx(want)
            assert outer(lambda b, d=inner: d(lambda a: f(a, b))(x))(y).item() == pytest.approx(want)


def test_hessians_of_closures():
    """The Hessian by w of a function that closes over x, whose gradient is taken by x outside."""
    w = tensor(W)
    got = grad(lambda x: hessian(lambda v: (v**3 * x**2).sum())(w).sum())(tensor(X))
    np.testing.assert_allclose(got.numpy(), 12 * W * X)


def test_programs_of_closures_are_differentiated_by_what_they_close_over():
    w = tensor(W).requires_grad_()
    program = make_graph(lambda x: (x * w**2).sum())(tensor(X))
    program(tensor(X)).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * W * X)
