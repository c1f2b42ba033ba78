"""Modules as functions of their parameters."""

import threading

import numpy as np
import pytest

import lucid
from lucid.func import grad, hessian, jacrev, jvp, vmap
from lucid.func.modules import functional_call, stack_module_state
from lucid.nn.containers import Sequential
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = Parameter(lucid.randn(outputs, inputs, dtype=lucid.float64))
        self.bias = Parameter(lucid.randn(outputs, dtype=lucid.float64))

    def forward(self, x):
        return x @ self.weight.T + self.bias


class Net(Module):
    def __init__(self):
        super().__init__()
        self.first = Linear(3, 4)
        self.second = Linear(4, 2)
        self.register_buffer("shift", lucid.zeros(2, dtype=lucid.float64))

    def forward(self, x, scale=1.0):
        return self.second(self.first(x).tanh()) * scale + self.shift


class Tied(Module):
    def __init__(self):
        super().__init__()
        self.a = Linear(2, 2)
        self.b = Linear(2, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def x_of(*shape):
    return lucid.tensor(np.random.default_rng(0).normal(size=shape))


def state_of(net):
    return {**dict(net.named_parameters()), **dict(net.named_buffers())}


def snapshot(net):
    return {name: id(t) for name, t in state_of(net).items()}


def doubled(net):
    return {name: (t.detach() * 2 + 1) for name, t in state_of(net).items()}


def reference(state, x):
    s = {k: v.detach().numpy() for k, v in state.items()}
    hidden = np.tanh(x.numpy() @ s["first.weight"].T + s["first.bias"])
    return hidden @ s["second.weight"].T + s["second.bias"] + s["shift"]


def test_values_come_from_the_dictionary_and_the_module_stays():
    net, x = Net(), x_of(5, 3)
    state, before = doubled(net), snapshot(net)
    np.testing.assert_allclose(functional_call(net, state, (x,)).numpy(), reference(state, x))
    np.testing.assert_allclose(functional_call(net, state, x).numpy(), reference(state, x))
    assert lucid.allclose(functional_call(net, state, (x,), {"scale": 0.0}), state["shift"])
    assert snapshot(net) == before
    assert all(isinstance(p, Parameter) for p in net.parameters())
    np.testing.assert_allclose(net(x).detach().numpy(), reference(state_of(net), x))


def test_what_is_not_given_stays():
    net, x = Net(), x_of(5, 3)
    part = {"second.bias": lucid.zeros(2, dtype=lucid.float64)}
    expected = reference({**state_of(net), **part}, x)
    np.testing.assert_allclose(functional_call(net, part, (x,)).detach().numpy(), expected)
    two = (part, {"shift": lucid.ones(2, dtype=lucid.float64)})
    np.testing.assert_allclose(functional_call(net, two, (x,)).detach().numpy(), expected + 1)


def test_no_arguments():
    class Constant(Module):
        def __init__(self):
            super().__init__()
            self.value = Parameter(lucid.zeros(1))

        def forward(self):
            return self.value

    assert functional_call(Constant(), {"value": lucid.ones(1)}).tolist() == [1.0]


def test_exceptions_leave_the_module_as_it_was():
    net = Net()
    before = snapshot(net)
    with pytest.raises(RuntimeError, match="matmul"):
        functional_call(net, doubled(net), (x_of(5, 9),))
    assert snapshot(net) == before


def test_strict():
    net, x = Net(), x_of(5, 3)
    functional_call(net, doubled(net), (x,), strict=True)
    state = doubled(net)
    state["third"] = state.pop("shift")
    with pytest.raises(RuntimeError, match="unexpected third; missing shift"):
        functional_call(net, state, (x,), strict=True)
    functional_call(net, state, (x,))
    assert not hasattr(net, "third")


@pytest.mark.parametrize("given", [3, [3], ({"shift": 1}, {"shift": 2})])
def test_bad_dictionaries(given):
    with pytest.raises(ValueError, match="functional_call"):
        functional_call(Net(), given, (x_of(5, 3),))


def test_tied_weights():
    net, x = Tied(), x_of(4, 2)
    one, two = (lucid.tensor(np.random.default_rng(i).normal(size=(2, 2))) for i in (1, 2))
    a, b = net.a.bias.detach(), net.b.bias.detach()
    both = (x @ one.T + a) @ one.T + b
    for name in ("a.weight", "b.weight"):
        assert lucid.allclose(functional_call(net, {name: one}, (x,)), both)
    assert lucid.allclose(functional_call(net, {"a.weight": one, "b.weight": one}, (x,)), both)
    with pytest.raises(ValueError, match="one shared tensor"):
        functional_call(net, {"a.weight": one, "b.weight": two}, (x,))
    apart = functional_call(net, {"a.weight": one, "b.weight": two}, (x,), tie_weights=False)
    assert lucid.allclose(apart, (x @ one.T + a) @ two.T + b)
    assert net.a.weight is net.b.weight
    functional_call(net, dict(net.named_parameters()), (x,), strict=True)
    with pytest.raises(RuntimeError, match=r"missing b\.weight"):
        functional_call(net, dict(net.named_parameters()), (x,), strict=True, tie_weights=False)


def test_gradients_reach_the_given_tensors():
    net, x = Net(), x_of(5, 3)
    state = {name: t.requires_grad_() for name, t in doubled(net).items()}
    functional_call(net, state, (x,)).sum().backward()
    assert all(t.grad is not None for t in state.values())
    assert all(p.grad is None for p in net.parameters())


def loss_of(net, x):
    def loss(state):
        return (functional_call(net, state, (x,)) ** 2).sum()

    return loss


def test_gradcheck_and_grad():
    net, x = Net(), x_of(2, 3)
    names = list(state_of(net))
    start = [t.detach().clone().requires_grad_() for t in state_of(net).values()]

    def f(*tensors):
        return loss_of(net, x)(dict(zip(names, tensors, strict=True)))

    assert lucid.autograd.gradcheck(f, start)
    assert lucid.autograd.gradgradcheck(f, start)
    found = grad(loss_of(net, x))(dict(zip(names, start, strict=True)))
    for name, t in zip(names, start, strict=True):
        (expected,) = lucid.autograd.grad(f(*start), [t])
        assert lucid.allclose(found[name], expected)


def test_jvp_agrees_with_grad():
    net, x = Net(), x_of(2, 3)
    state = {k: v.detach() for k, v in state_of(net).items()}
    direction = {k: lucid.tensor(np.random.default_rng(3).normal(size=v.shape)) for k, v in state.items()}
    loss = loss_of(net, x)
    _, change = jvp(loss, (state,), (direction,))
    slope = grad(loss)(state)
    assert lucid.allclose(change, sum((slope[k] * direction[k]).sum() for k in state))


def test_gradients_of_each_example():
    net, x = Net(), x_of(6, 3)
    state = {k: v.detach() for k, v in state_of(net).items()}
    each = vmap(grad(lambda s, row: (functional_call(net, s, (row,)) ** 2).sum()), in_dims=(None, 0))(state, x)
    for i in range(6):
        one = grad(loss_of(net, x[i]))(state)
        for name in state:
            assert lucid.allclose(each[name][i], one[name]), name


def test_jacobians_and_second_order():
    net, x = Linear(2, 2), x_of(2)
    state = {k: v.detach() for k, v in net.named_parameters()}
    jacobian = jacrev(lambda b: functional_call(net, {**state, "bias": b}, (x,)))(state["bias"])
    assert lucid.allclose(jacobian, lucid.eye(2, dtype=lucid.float64))
    h = hessian(lambda b: (functional_call(net, {**state, "bias": b}, (x,)) ** 3).sum())(state["bias"])
    out = functional_call(net, state, (x,))
    assert lucid.allclose(h, lucid.diag(6 * out))


def test_ensembles():
    models, x = [Net() for _ in range(4)], x_of(5, 3)
    parameters, buffers = stack_module_state(models)
    assert parameters["first.weight"].shape == (4, 4, 3) and parameters["first.weight"].requires_grad
    assert parameters["first.weight"].is_leaf and not buffers["shift"].requires_grad
    outs = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    for model, out in zip(models, outs, strict=True):
        assert lucid.allclose(out, model(x))
    outs.sum().backward()
    assert parameters["first.weight"].grad.shape == (4, 4, 3)


def test_stacking_needs_models_alike():
    with pytest.raises(ValueError, match="at least one"):
        stack_module_state([])
    with pytest.raises(ValueError, match="different classes"):
        stack_module_state([Net(), Linear(1, 1)])
    with pytest.raises(ValueError, match="training"):
        stack_module_state([Net(), Net().eval()])
    with pytest.raises(ValueError, match=r"weight has different shapes"):
        stack_module_state([Linear(1, 1), Linear(2, 1)])
    frozen = Linear(1, 1)
    frozen.weight.requires_grad_(False)
    with pytest.raises(ValueError, match="requires grad in some"):
        stack_module_state([Linear(1, 1), frozen])
    with pytest.raises(ValueError, match="different names"):
        stack_module_state([Sequential(Linear(1, 1)), Sequential(Linear(1, 1), Linear(1, 1))])


class Counting(Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", lucid.tensor(0))
        self.register_buffer("total", lucid.tensor(0.0))

    def forward(self, x):
        self.calls = self.calls + 1
        self.total += x
        return x


def test_new_buffers_come_back_in_the_dictionary():
    net = Counting()
    state = {"calls": lucid.tensor(10), "total": lucid.tensor(1.0)}
    functional_call(net, state, (lucid.tensor(5.0),))
    assert state["calls"].item() == 11 and state["total"].item() == 6.0
    assert net.calls.item() == 0 and net.total.item() == 0.0


def test_calls_can_be_nested():
    net, x = Linear(2, 2), x_of(2)
    zeros = {k: lucid.zeros_like(v).detach() for k, v in net.named_parameters()}
    ones = {k: lucid.ones_like(v).detach() for k, v in net.named_parameters()}

    class Outer(Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return functional_call(self.net, zeros, (x,)), self.net(x)

    inner, after = functional_call(Outer(), {f"net.{k}": v for k, v in ones.items()}, (x,))
    assert inner.abs().sum().item() == 0
    assert lucid.allclose(after, (x.sum() + 1).expand(2))
    assert all(isinstance(p, Parameter) for p in net.parameters())


def test_threads_take_turns():
    net, x = Net(), x_of(20, 3)
    states = [{k: v.detach() * factor for k, v in state_of(net).items()} for factor in range(4)]
    expected = [reference(s, x) for s in states]
    before, wrong = snapshot(net), []

    def work(i):
        for _ in range(30):
            if not np.allclose(functional_call(net, states[i], (x,)).numpy(), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and snapshot(net) == before
