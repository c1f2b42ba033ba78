"""The tape inside vmap: leaves inside and outside, backward, hooks and modes."""

import numpy as np
import pytest

import lucid
from lucid import autograd
from lucid.func import grad, vmap

rng = np.random.default_rng(1)
A = rng.standard_normal((4, 3))
B = rng.standard_normal((4, 3))


def t(values, **kwargs):
    return lucid.tensor(np.asarray(values), **kwargs)


def test_backward_with_a_leaf_inside():
    def f(x):
        leaf = x.clone().requires_grad_()
        loss = (leaf**3).sum()
        loss.backward()
        assert leaf.grad.shape == (3,)
        return leaf.grad, loss

    g, loss = vmap(f)(t(A))
    np.testing.assert_allclose(g.numpy(), 3 * A**2)
    np.testing.assert_allclose(loss.detach().numpy(), (A**3).sum(1))


def test_requires_grad_on_the_example_itself():
    x = t(A)

    def f(row):
        row.requires_grad_()
        (row**2).sum().backward()
        return row.grad

    np.testing.assert_allclose(vmap(f)(x).numpy(), 2 * A)
    assert not x.requires_grad and x.grad is None


def test_backward_twice_accumulates_inside():
    def f(x):
        leaf = x.clone().requires_grad_()
        (leaf**2).sum().backward()
        (leaf**3).sum().backward()
        return leaf.grad

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 2 * A + 3 * A**2)


@pytest.mark.parametrize("how", [{}, {"chunk_size": 3}, {"chunk_size": "auto"}], ids=str)
def test_a_leaf_outside_gets_the_sum_over_examples(how):
    w = t([1.0, 2.0, 3.0], requires_grad=True)

    def f(x):
        loss = ((w * x) ** 2).sum()
        loss.backward()
        return loss.detach()

    vmap(f, **how)(t(A))
    assert type(w.grad) is lucid.Tensor
    np.testing.assert_allclose(w.grad.numpy(), (2 * w.detach().numpy() * A**2).sum(0))


def test_a_leaf_outside_adds_to_what_it_has():
    w = t([1.0, 2.0, 3.0], requires_grad=True)
    (w * 100).sum().backward()
    vmap(lambda x: (w * x).sum().backward() or x)(t(A))
    np.testing.assert_allclose(w.grad.numpy(), 100 + A.sum(0))


@pytest.mark.parametrize("how", [{}, {"chunk_size": 3}], ids=str)
def test_a_leaf_outside_whose_gradient_is_the_same_for_all_examples(how):
    """A loop over the four examples adds it four times, and so does every chunk for its own."""
    w = t([1.0, 2.0, 3.0], requires_grad=True)
    vmap(lambda x: (w + x).sum().backward() or x, **how)(t(A))
    assert w.grad.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("how", [{}, {"chunk_size": 3}], ids=str)
def test_autograd_grad_whose_gradient_is_the_same_for_all_examples(how):
    w = t([1.0, 2.0, 3.0], requires_grad=True)
    got = vmap(lambda x: autograd.grad((w + x).sum(), w), **how)(t(A))
    assert got.tolist() == [[1.0, 1.0, 1.0]] * 4


def test_leaves_inside_and_outside_in_two_vmaps():
    w = t([1.0, 2.0, 3.0], requires_grad=True)

    def f(x, y):
        leaf = x.clone().requires_grad_()
        (w * leaf * y).sum().backward()
        return leaf.grad

    got = vmap(vmap(f, in_dims=(None, 0)), in_dims=(0, None))(t(A), t(B))
    np.testing.assert_allclose(got.numpy(), np.broadcast_to(w.detach().numpy() * B, (4, 4, 3)))
    np.testing.assert_allclose(w.grad.numpy(), (A[:, None] * B).sum((0, 1)))


def test_gradients_with_autograd_grad_inside_are_per_example():
    w = t([1.0, 2.0, 3.0], requires_grad=True)
    got = vmap(lambda x: autograd.grad(((w * x) ** 2).sum(), w))(t(A))
    np.testing.assert_allclose(got.numpy(), 2 * w.detach().numpy() * A**2)
    assert w.grad is None


def test_backward_outside_through_vmap():
    x, w = t(A, requires_grad=True), t([1.0, 2.0, 3.0], requires_grad=True)
    vmap(lambda row: (row**2 * w).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * A * np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(w.grad.numpy(), (A**2).sum(0))


def test_hooks_inside():
    seen = []

    def f(x):
        leaf = x.clone().requires_grad_()
        y = leaf**2
        y.register_hook(lambda g: seen.append(g.shape) or g * 10)
        leaf.register_hook(lambda g: g + 1)
        leaf.register_post_accumulate_grad_hook(lambda p: seen.append("done"))
        y.sum().backward()
        return leaf.grad

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 20 * A + 1)
    assert seen == [(3,), "done"]


def test_a_hook_that_differs_between_examples():
    def f(x):
        y = x**2
        y.register_hook(lambda g: g * x)
        return y.sum()

    np.testing.assert_allclose(vmap(grad(f))(t(A)).numpy(), 2 * A**2)


def test_a_hook_on_a_leaf_outside_sees_what_it_gets():
    w, seen = t([1.0, 2.0, 3.0], requires_grad=True), []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    vmap(lambda x: (w * x).sum().backward() or x)(t(A))
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0], A.sum(0))


def test_retain_grad_inside():
    def f(x):
        leaf = x.clone().requires_grad_()
        y = leaf.sin()
        y.retain_grad()
        (y**2).sum().backward()
        return y.grad

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 2 * np.sin(A))


def test_no_grad_inside_and_outside():
    def f(x):
        with lucid.no_grad():
            y = x * 2
        return (y * x).sum()

    np.testing.assert_allclose(vmap(grad(f))(t(A)).numpy(), 2 * A)
    with lucid.no_grad():
        np.testing.assert_allclose(vmap(grad(f))(t(A)).numpy(), 2 * A)
        assert lucid.is_grad_enabled() is False


def test_saved_tensor_hooks_inside():
    shapes = []

    def f(x):
        leaf = x.clone().requires_grad_()
        with autograd.graph.saved_tensors_hooks(lambda v: shapes.append(v.shape) or v * 1, lambda v: v * 2):
            loss = (leaf * leaf.sin().detach()).sum()
        loss.backward()
        return leaf.grad

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 2 * np.sin(A))
    assert (3,) in shapes


def test_a_hook_on_a_leaf_outside_changes_what_it_gets():
    w = t([1.0, 2.0, 3.0], requires_grad=True)
    w.register_hook(lambda g: g * 2)
    vmap(lambda x: (w * x).sum().backward() or x)(t(A))
    np.testing.assert_allclose(w.grad.numpy(), 2 * A.sum(0))


def test_data_inside():
    np.testing.assert_allclose(vmap(grad(lambda x: (x.data * x).sum()))(t(A)).numpy(), A)

    def f(x):
        y = x.clone()
        y.data = x * 3
        return y

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 3 * A)


def test_backward_twice_through_one_graph():
    def f(x):
        leaf = x.clone().requires_grad_()
        y = (leaf**2).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return leaf.grad

    np.testing.assert_allclose(vmap(f)(t(A)).numpy(), 4 * A)
