"""The examples of the documents that define Lucid's public contract."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lucid
import lucid.autograd as autograd
import lucid.func as F


class Clamp(autograd.Function):
    """The custom operation of the document."""

    @staticmethod
    def forward(ctx: autograd.FunctionCtx, x: lucid.Tensor, lo: float, hi: float) -> lucid.Tensor:
        ctx.save_for_backward(x)
        ctx.lo, ctx.hi = lo, hi
        return x.clamp(lo, hi)

    @staticmethod
    def backward(ctx: autograd.FunctionCtx, grad_out: lucid.Tensor) -> tuple[lucid.Tensor, None, None]:
        (x,) = ctx.saved_tensors
        mask = (x >= ctx.lo) & (x <= ctx.hi)
        return grad_out * mask, None, None


def test_grad_of_one_input_is_bare() -> None:
    x = lucid.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = lucid.sum(x * x)
    dx = lucid.autograd.grad(y, x)
    assert isinstance(dx, lucid.Tensor)
    assert np.allclose(dx, [2.0, -4.0, 6.0])


def test_grad_of_several_outputs_and_inputs() -> None:
    a = lucid.tensor([2.0, -1.0, 0.5], requires_grad=True)
    b = lucid.tensor([3.0, 4.0, -2.0], requires_grad=True)
    out1 = lucid.sum(a * b)
    out2 = lucid.sum(a * a)
    da, db = lucid.autograd.grad((out1, out2), (a, b))
    assert np.allclose(da, [7.0, 2.0, -1.0])
    assert np.allclose(db, [2.0, -1.0, 0.5])


def test_grad_of_a_list_of_one_is_a_tuple() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    found = lucid.autograd.grad((x * x).sum(), [x])
    assert isinstance(found, tuple) and len(found) == 1
    assert np.allclose(found[0], [2.0, 4.0])


def test_grad_is_an_array_to_numpy() -> None:
    x = lucid.tensor([1.0, -2.0, 3.0], requires_grad=True)
    dx = lucid.autograd.grad(lucid.sum(x * x), x)
    assert np.asarray(dx).tolist() == [2.0, -4.0, 6.0]
    assert np.allclose(np.add(dx, 1), [3.0, -3.0, 7.0])


def test_grad_leaves_stored_gradients_alone() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    before = x.grad = lucid.tensor([10.0, 20.0])
    lucid.autograd.grad((x * x).sum(), x)
    assert x.grad is before
    assert x.grad.tolist() == [10.0, 20.0]


def test_grad_seeds_are_ones_for_any_shape() -> None:
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert np.allclose(lucid.autograd.grad(x * x, x), [2.0, 4.0, 6.0])


@pytest.mark.parametrize("seeds", [[3.0], [3], (3.0,)])
def test_grad_seeds_may_be_numbers(seeds: Any) -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    assert np.allclose(lucid.autograd.grad((x * x).sum(), x, grad_outputs=seeds), [6.0, 12.0])


def test_grad_seeds_may_be_tensors() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    seed = lucid.tensor([1.0, 10.0])
    assert np.allclose(lucid.autograd.grad(x * x, x, grad_outputs=seed), [2.0, 40.0])
    assert np.allclose(lucid.autograd.grad(x * x, x, grad_outputs=[seed]), [2.0, 40.0])


def test_grad_twice_needs_retain_graph() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    first = lucid.autograd.grad(y, x, retain_graph=True)
    assert np.allclose(lucid.autograd.grad(y, x), first)
    with pytest.raises(RuntimeError):
        lucid.autograd.grad(y, x)


def test_grad_of_an_unconnected_input() -> None:
    x = lucid.tensor([1.0], requires_grad=True)
    other = lucid.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused"):
        lucid.autograd.grad((x * x).sum(), other)
    assert lucid.autograd.grad((x * x).sum(), other, allow_unused=True) is None
    dx, nothing = lucid.autograd.grad((x * x).sum(), (x, other), allow_unused=True)
    assert np.allclose(dx, [2.0]) and nothing is None


def test_grad_of_an_output_that_does_not_require_grad() -> None:
    x = lucid.tensor([1.0], requires_grad=True)
    constant = lucid.tensor([1.0]).sum()
    with pytest.raises(RuntimeError, match="does not require grad"):
        lucid.autograd.grad(constant, x)
    assert lucid.autograd.grad(constant, x, allow_unused=True) is None


def test_backward_and_how_gradients_print() -> None:
    from lucid.autograd import backward

    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum()
    assert backward(y) is None
    assert repr(x.grad) == "Tensor([2., 4., 6.])"


def test_backward_sums_over_roots_with_their_seeds() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    roots = [x * x, (3 * x).sum()]
    lucid.autograd.backward(roots, [lucid.tensor([1.0, 10.0]), None])
    assert np.allclose(x.grad, [5.0, 43.0])


def test_backward_needs_a_seed_for_several_elements() -> None:
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="scalar"):
        lucid.autograd.backward(x * x)


def test_backward_into_some_leaves_only() -> None:
    x, w = (lucid.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    lucid.autograd.backward((x * w).sum(), inputs=[x])
    assert np.allclose(x.grad, [3.0])
    assert w.grad is None


def test_backward_with_create_graph_can_be_differentiated() -> None:
    x = lucid.tensor([2.0], requires_grad=True)
    lucid.autograd.backward((x**3).sum(), create_graph=True)
    assert np.allclose(lucid.autograd.grad(x.grad, x), [12.0])


def test_computation_graph() -> None:
    x = lucid.tensor([2.0, 3.0], requires_grad=True)
    y = x**2
    z = y.sum()
    z.backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_retain_graph() -> None:
    x = lucid.tensor([2.0, 3.0], requires_grad=True)
    loss = (x**2).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == [8.0, 12.0]
    with pytest.raises(RuntimeError, match="retain_graph"):
        loss.backward()


def test_gradients_accumulate_until_reset() -> None:
    x = lucid.tensor([1.0], requires_grad=True)
    for _ in range(3):
        (2 * x).sum().backward()
    assert x.grad.tolist() == [6.0]
    x.grad = None
    (2 * x).sum().backward()
    assert x.grad.tolist() == [2.0]


class Line:
    """The smallest model: y = w x + b."""

    def __init__(self) -> None:
        self.w = lucid.tensor(0.0, requires_grad=True)
        self.b = lucid.tensor(0.0, requires_grad=True)

    def __call__(self, x: lucid.Tensor) -> lucid.Tensor:
        return x * self.w + self.b


class Descent:
    """The smallest optimizer."""

    def __init__(self, parameters: list[lucid.Tensor], rate: float) -> None:
        self.parameters, self.rate = parameters, rate

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        with lucid.no_grad():
            for p in self.parameters:
                p -= self.rate * p.grad


def batches() -> Iterator[tuple[lucid.Tensor, lucid.Tensor]]:
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = lucid.tensor(rng.uniform(-1, 1, 16), dtype=lucid.float32)
        yield x, 3 * x - 1


def test_training_loop() -> None:
    model, loader = Line(), batches()
    optimizer = Descent([model.w, model.b], rate=0.3)
    criterion: Callable[..., lucid.Tensor] = lambda pred, y: ((pred - y) ** 2).mean()
    for x_batch, y_batch in loader:
        pred = model(x_batch)
        loss = criterion(pred, y_batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.allclose([model.w.item(), model.b.item()], [3.0, -1.0], atol=1e-3)


def test_no_grad() -> None:
    model, x_val = Line(), lucid.tensor([1.0, 2.0])
    with lucid.no_grad():
        output = model(x_val)
    assert not output.requires_grad and output.grad_fn is None
    assert model(x_val).requires_grad


def test_custom_function() -> None:
    x = lucid.tensor([-2.0, 0.5, 3.0], requires_grad=True)
    out = Clamp.apply(x, -1.0, 1.0)
    assert out.tolist() == [-1.0, 0.5, 1.0]
    out.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_gradcheck_of_the_custom_function() -> None:
    x = lucid.tensor([-2.0, 0.5, 3.0], dtype=lucid.float64, requires_grad=True)
    assert lucid.autograd.gradcheck(Clamp.apply, (x, -1.0, 1.0), eps=1e-5)


def cubes(x: lucid.Tensor) -> lucid.Tensor:
    return (x**3).sum()


def test_functional_gradient_and_hessian() -> None:
    x = lucid.tensor([1.0, 2.0])
    assert np.allclose(F.grad(cubes)(x), [3.0, 12.0])
    assert np.allclose(F.hessian(cubes)(x), [[6.0, 0.0], [0.0, 12.0]])


def test_every_functional_transform() -> None:
    x, tangent = lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 10.0])
    rows = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    diagonal = [[3.0, 0.0], [0.0, 12.0]]
    assert np.allclose(F.vmap(F.grad(cubes))(rows), 3 * rows**2)
    value, pull = F.vjp(lambda t: t**3, x)
    assert np.allclose(value, [1.0, 8.0])
    assert np.allclose(pull(tangent)[0], [3.0, 120.0])
    value, pushed = F.jvp(lambda t: t**3, (x,), (tangent,))
    assert np.allclose(value, [1.0, 8.0])
    assert np.allclose(pushed, [3.0, 120.0])
    assert np.allclose(F.jacrev(lambda t: t**3)(x), diagonal)
    assert np.allclose(F.jacfwd(lambda t: t**3)(x), diagonal)
