"""Clipping, vectors, parametrizations and normalized weights."""

import copy
import math
import pickle

import numpy as np
import pytest

import lucid
from lucid.func.modules import functional_call
from lucid.nn.module import Module
from lucid.nn.parameter import Parameter
from lucid.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    parametrizations,
    parametrize,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    vector_to_parameters,
    weight_norm,
)


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        rng = np.random.default_rng(inputs * 10 + outputs)
        self.weight = Parameter(lucid.tensor(rng.normal(size=(outputs, inputs))))
        self.bias = Parameter(lucid.tensor(rng.normal(size=outputs)))

    def forward(self, x):
        return x @ self.weight.T + self.bias


class ConvTranspose1d(Module):
    """Only its name and the shape of its weight matter here."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(lucid.tensor(np.random.default_rng(0).normal(size=(2, 3, 5))))

    def forward(self):
        return self.weight


def x_of(*shape):
    return lucid.tensor(np.random.default_rng(0).normal(size=shape))


def with_grads(*arrays, dtype=lucid.float32):
    parameters = []
    for array in arrays:
        p = Parameter(lucid.zeros(np.shape(array), dtype=dtype))
        p.grad = lucid.tensor(array, dtype=dtype)
        parameters.append(p)
    return parameters


# Clipping.


@pytest.mark.parametrize("order", [0.5, 1, 2, 3.0, math.inf, "inf"])
@pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64, lucid.float16])
def test_clip_grad_norm(order, dtype):
    arrays = [[[3.0, -4.0], [0.5, 0.0]], [-2.0], 1.0]
    parameters = [*with_grads(*arrays, dtype=dtype), Parameter(lucid.zeros(3))]
    everything = np.abs(np.concatenate([np.ravel(a) for a in arrays]))
    p = float(order)
    total = everything.max() if p == math.inf else (everything**p).sum() ** (1 / p)
    rtol = 1e-2 if dtype is lucid.float16 else 1e-5
    held = [q.grad for q in parameters[:3]]
    found = clip_grad_norm_(iter(parameters), 1.0, order)
    assert isinstance(found, lucid.Tensor) and found.shape == ()
    np.testing.assert_allclose(found.item(), total, rtol=rtol)
    for q, a, g in zip(parameters[:3], arrays, held, strict=True):
        assert q.grad is g and g.dtype is dtype
        np.testing.assert_allclose(g.numpy().astype(float), np.array(a) / (total + 1e-6), rtol=rtol)
    assert parameters[3].grad is None


def test_small_gradients_are_left_alone():
    (p,) = with_grads([3.0, 4.0])
    version = p.grad._version
    assert clip_grad_norm_(p, 10.0).item() == pytest.approx(5.0)
    assert p.grad.tolist() == [3.0, 4.0] and p.grad._version == version


def test_norms_of_nothing_and_of_mixed_types():
    assert clip_grad_norm_([], 1.0).item() == 0.0
    assert get_total_norm([], 3.0).item() == 0.0
    mixed = [lucid.tensor([3.0]), lucid.tensor([4.0], dtype=lucid.float64)]
    for order in (2, 3):
        assert get_total_norm(mixed, order).dtype is lucid.float64
    assert get_total_norm(lucid.tensor([3.0, 4.0], requires_grad=True)).requires_grad is False
    assert get_total_norm([lucid.tensor([3 + 4j])]).item() == pytest.approx(5.0)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("order", [2.0, math.inf])
def test_nonfinite_norms(bad, order):
    parameters = with_grads([1.0, bad])
    with pytest.raises(RuntimeError, match="cannot be clipped"):
        clip_grad_norm_(parameters, 1.0, order, error_if_nonfinite=True)
    assert parameters[0].grad[0].item() == 1.0
    assert not math.isfinite(clip_grad_norm_(parameters, 1.0, order, foreach=True).item())


def test_clip_grad_norm_keeps_the_direction_for_huge_gradients():
    parameters = with_grads([3e25, 4e25])
    clip_grad_norm_(parameters, 1.0)
    found = parameters[0].grad.numpy()
    assert np.isfinite(found).all() and found[1] >= found[0]


def test_clipping_by_value_and_by_given_norm():
    parameters = with_grads([3.0, -4.0, 0.5])
    clip_grad_value_(parameters, 2)
    assert parameters[0].grad.tolist() == [2.0, -2.0, 0.5]
    clip_grads_with_norm_(parameters, 1.0, lucid.tensor(4.0))
    np.testing.assert_allclose(parameters[0].grad.numpy(), [0.5, -0.5, 0.125], rtol=1e-5)


def test_clipping_gradients_that_have_history():
    x = lucid.tensor([3.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    clip_grad_norm_([x], 1.0)
    assert x.grad.item() == pytest.approx(1.0, rel=1e-5)


# Vectors.


def test_vectors_and_back():
    net = Linear(3, 2)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (8,) and vector.requires_grad
    held = list(net.parameters())
    vector_to_parameters(lucid.arange(8.0), net.parameters())
    assert [p is q for p, q in zip(held, net.parameters(), strict=True)] == [True, True]
    assert net.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and net.bias.tolist() == [6, 7]
    assert net.weight.dtype is lucid.float64 and net.weight.requires_grad
    source = lucid.zeros(8)
    vector_to_parameters(source, net.parameters())
    source.fill_(5.0)
    assert net.weight.sum().item() == 0, "the parameters have memory of their own"
    for bad, error in ((lucid.zeros(7), ValueError), ([1.0] * 8, TypeError)):
        with pytest.raises(error, match="vector_to_parameters"):
            vector_to_parameters(bad, net.parameters())
    with pytest.raises(ValueError, match="no parameters"):
        parameters_to_vector([])


# Parametrizations.


class Symmetric(Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, x):
        return x.triu()


class Double(Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


class Exp(Module):
    """Has no right_inverse."""

    def forward(self, x):
        return x.exp()


class Pair(Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x / 4, 3 * x / 4


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_parametrized_weights_are_computed_when_read():
    net = Linear(3, 3)
    held, before = net.weight, net.weight.detach().numpy().copy()
    assert parametrize.register_parametrization(net, "weight", Symmetric()) is net
    expected = np.triu(before) + np.triu(before, 1).T
    np.testing.assert_allclose(net.weight.detach().numpy(), expected)
    assert names(net) == ["bias", "parametrizations.weight.original"]
    assert net.parametrizations.weight.original is held
    assert parametrize.is_parametrized(net) and parametrize.is_parametrized(net, "weight")
    assert not parametrize.is_parametrized(net, "bias")
    assert isinstance(net, Linear) and parametrize.type_before_parametrizations(net) is Linear
    x = x_of(2, 3)
    net(x).sum().backward()
    assert held.grad is not None and np.array_equal(held.grad.numpy(), np.triu(held.grad.numpy()))


def test_assigning_goes_through_the_inverse():
    net = Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Double())
    value = x_of(3, 3)
    for given in (value, Parameter(value)):
        net.weight = given
        np.testing.assert_allclose(net.weight.detach().numpy(), value.numpy())
        np.testing.assert_allclose(net.parametrizations.weight.original.detach().numpy(), value.numpy() / 2)
        assert names(net) == ["bias", "parametrizations.weight.original"]
    with pytest.raises(ValueError, match="right_inverse gives"):
        net.weight = x_of(2, 2)
    parametrize.register_parametrization(net, "weight", Exp())
    with pytest.raises(RuntimeError, match="Exp has no right_inverse"):
        net.weight = value


def test_parametrizations_chain():
    net = Linear(2, 2)
    before = net.weight.detach().numpy().copy()
    parametrize.register_parametrization(net, "weight", Double())
    parametrize.register_parametrization(net, "weight", Symmetric())
    np.testing.assert_allclose(net.weight.detach().numpy(), np.triu(before) + np.triu(before, 1).T)
    value = lucid.tensor([[1.0, 2.0], [2.0, 3.0]], dtype=lucid.float64)
    net.weight = value
    np.testing.assert_allclose(net.weight.detach().numpy(), value.numpy())
    assert len(net.parametrizations.weight) == 2


def test_parametrizations_of_several_tensors_and_buffers():
    net = Linear(2, 2)
    before = net.weight.detach().numpy().copy()
    parametrize.register_parametrization(net, "weight", Pair())
    np.testing.assert_allclose(net.weight.detach().numpy(), before)
    assert names(net)[1:] == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    net.weight = x_of(2, 2)
    np.testing.assert_allclose(net.parametrizations.weight.original1.detach().numpy(), 0.75 * x_of(2, 2).numpy())
    with pytest.raises(ValueError, match="2 tensors"):
        parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(net, "weight")
    assert names(net) == ["bias", "weight"]
    net.register_buffer("scale", lucid.ones(2))
    parametrize.register_parametrization(net, "scale", Exp())
    assert [n for n, _ in net.named_buffers()] == ["parametrizations.scale.original"]
    parametrize.remove_parametrizations(net, "scale")
    assert [n for n, _ in net.named_buffers()] == ["scale"]
    np.testing.assert_allclose(net.scale.numpy(), np.exp([1, 1]), rtol=1e-6)


@pytest.mark.parametrize("leave", [True, False])
def test_removal(leave):
    net = Linear(2, 2)
    held, before = net.weight, net.weight.detach().numpy().copy()
    parametrize.register_parametrization(net, "weight", Exp())
    parametrize.register_parametrization(net, "bias", Exp())
    assert parametrize.remove_parametrizations(net, "weight", leave) is net
    assert net.weight is held and isinstance(held, Parameter)
    np.testing.assert_allclose(held.detach().numpy(), np.exp(before) if leave else before)
    assert parametrize.is_parametrized(net, "bias")
    parametrize.remove_parametrizations(net, "bias")
    assert type(net) is Linear and not hasattr(net, "parametrizations")
    assert sorted(names(net)) == ["bias", "weight"]
    with pytest.raises(ValueError, match="no parametrization"):
        parametrize.remove_parametrizations(net, "weight")


class Wrong(Module):
    def forward(self, x):
        return x[0]


class WrongInverse(Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return 3


@pytest.mark.parametrize(
    ("name", "parametrization", "message"),
    [
        ("weight", Wrong(), "the parametrization gives"),
        ("weight", WrongInverse(), "not int"),
        ("nothing", Double(), "no parameter or buffer 'nothing'"),
        ("forward", Double(), "no parameter or buffer"),
    ],
)
def test_bad_parametrizations_change_nothing(name, parametrization, message):
    net = Linear(2, 2)
    before = net.weight.detach().numpy().copy()
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(net, name, parametrization)
    assert type(net) is Linear and names(net) == ["weight", "bias"]
    assert np.array_equal(net.weight.detach().numpy(), before)
    parametrize.register_parametrization(net, "weight", Double())
    if name == "weight":
        with pytest.raises(ValueError, match=r"gives|int"):
            parametrize.register_parametrization(net, name, parametrization)
        assert len(net.parametrizations.weight) == 1


def test_unsafe_parametrizations_may_change_the_shape():
    net = Linear(2, 2)
    parametrize.register_parametrization(net, "weight", Wrong(), unsafe=True)
    assert net.weight.shape == (2,)


def test_caching():
    calls = []

    class Noting(Module):
        def forward(self, x):
            calls.append(1)
            return x * 2

        def right_inverse(self, x):
            return x / 2

    net = Linear(2, 2)
    parametrize.register_parametrization(net, "weight", Noting())
    calls.clear()
    with parametrize.cached():
        first = net.weight
        with parametrize.cached():
            assert net.weight is first
        assert net.weight is first and len(calls) == 1
        net.weight = x_of(2, 2)
        assert net.weight is not first and len(calls) == 2
    assert net.weight is not first and len(calls) == 3


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_parametrized_modules_can_be_copied(duplicate):
    net = Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    parametrizations.weight_norm(net, "bias")
    other = duplicate(net)
    assert parametrize.is_parametrized(other, "weight") and type(other) is not type(net)
    x = x_of(2, 3)
    assert lucid.equal(other(x), net(x))
    parametrize.remove_parametrizations(other, "weight")
    assert parametrize.is_parametrized(net, "weight")
    net.load_state_dict(duplicate(net).state_dict())


def test_parametrized_modules_are_functions_of_their_originals():
    net = Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Exp())
    state = {k: v.detach() for k, v in net.named_parameters()}

    def loss(state):
        return functional_call(net, state, (x_of(2, 3),)).sum()

    found = lucid.func.grad(loss)(state)["parametrizations.weight.original"]
    expected = np.outer(np.ones(3), x_of(2, 3).numpy().sum(0)) * np.exp(
        state["parametrizations.weight.original"].numpy()
    )
    np.testing.assert_allclose(found.numpy(), expected)


# Normalized weights.

WEIGHT_NORMS = {
    "parametrization": (
        parametrizations.weight_norm,
        parametrize.remove_parametrizations,
        ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ),
    "hook": (weight_norm, lambda m, name: remove_weight_norm(m, name), ("weight_g", "weight_v")),
}


def norm_except(w, dim):
    if dim is None:
        return np.linalg.norm(w)
    return np.sqrt((w**2).sum(tuple(d for d in range(w.ndim) if d != dim % w.ndim), keepdims=True))


@pytest.mark.parametrize("way", WEIGHT_NORMS)
@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_weight_norm(way, dim):
    attach, remove, (length, direction) = WEIGHT_NORMS[way]
    net = Linear(3, 2)
    before = net.weight.detach().numpy().copy()
    assert attach(net, "weight", dim) is net
    state = dict(net.named_parameters())
    assert list(state) == ["bias", length, direction]
    np.testing.assert_allclose(state[length].detach().numpy(), norm_except(before, dim))
    np.testing.assert_allclose(state[direction].detach().numpy(), before)
    np.testing.assert_allclose(net.weight.detach().numpy(), before)
    with lucid.no_grad():
        state[length].mul_(3.0)
        state[direction].mul_(7.0)
    x = x_of(4, 3)
    np.testing.assert_allclose(net(x).detach().numpy(), x.numpy() @ (3 * before).T + net.bias.detach().numpy())
    net(x).sum().backward()
    assert state[length].grad is not None and state[direction].grad is not None
    # The weight does not depend on the length of v, so the gradient is at right angles to it.
    assert abs((state[direction].grad * state[direction]).sum().item()) < 1e-10
    remove(net, "weight")
    assert sorted(names(net)) == ["bias", "weight"]
    np.testing.assert_allclose(net.weight.detach().numpy(), 3 * before)
    assert net._hooks is None or not net._hooks.forward_pre
    assert net.weight.requires_grad


def test_weight_norm_of_three_dimensions():
    net = ConvTranspose1d()
    parametrizations.weight_norm(net, dim=1)
    assert net.parametrizations.weight.original0.shape == (1, 3, 1)


def test_bad_weight_norms():
    net = Linear(2, 2)
    for attach in (weight_norm, spectral_norm, parametrizations.weight_norm, parametrizations.spectral_norm):
        with pytest.raises(ValueError, match="'nothing'"):
            attach(net, "nothing")
    for remove in (remove_weight_norm, remove_spectral_norm):
        with pytest.raises(ValueError, match="was not found"):
            remove(net)
    with pytest.raises(ValueError, match="out of range"):
        weight_norm(net, dim=5)
    assert names(net) == ["weight", "bias"]
    weight_norm(net)
    with pytest.raises(RuntimeError, match="already"):
        weight_norm(net)
    for attach in (spectral_norm, parametrizations.spectral_norm):
        with pytest.raises(ValueError, match="positive"):
            attach(Linear(2, 2), n_power_iterations=0)


@pytest.mark.parametrize("way", ["parametrization", "hook"])
def test_spectral_norm(way):
    net = Linear(4, 3)
    before = net.weight.detach().numpy().copy()
    largest = np.linalg.svd(before)[1][0]
    if way == "hook":
        assert spectral_norm(net, n_power_iterations=50) is net
        assert list(net.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
        original = net.weight_orig
    else:
        parametrizations.spectral_norm(net, n_power_iterations=50)
        assert set(net.state_dict()) == {
            "bias",
            "parametrizations.weight.original",
            "parametrizations.weight.0._u",
            "parametrizations.weight.0._v",
        }
        original = net.parametrizations.weight.original
    x = x_of(2, 4)
    np.testing.assert_allclose(net(x).detach().numpy(), x.numpy() @ (before / largest).T + net.bias.detach().numpy())
    net(x).sum().backward()
    # W / σ does not change with the length of W.
    assert abs((original.grad * original).sum().item()) < 1e-8
    net.eval()
    vectors = [b.numpy().copy() for b in net.buffers()]
    net(x)
    assert all(np.array_equal(b.numpy(), v) for b, v in zip(net.buffers(), vectors, strict=True))
    if way == "hook":
        remove_spectral_norm(net)
    else:
        parametrize.remove_parametrizations(net, "weight")
    np.testing.assert_allclose(net.weight.detach().numpy(), before / largest)
    assert sorted(net.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("way", ["parametrization", "hook"])
def test_spectral_norm_goes_on_from_saved_vectors_in_the_order_of_pytorch(way):
    net = Linear(4, 3)
    matrix = net.weight.detach().numpy().astype(np.float64)
    u, v = (np.random.RandomState(n).randn(n) for n in (3, 4))
    if way == "hook":
        spectral_norm(net)
        held = net.weight_u, net.weight_v
        v = matrix.T @ u / np.linalg.norm(matrix.T @ u)
        found = matrix @ v / np.linalg.norm(matrix @ v), v
    else:
        parametrizations.spectral_norm(net)
        held = net.parametrizations.weight[0]._u, net.parametrizations.weight[0]._v
        u_next = matrix @ v / np.linalg.norm(matrix @ v)
        found = u_next, matrix.T @ u_next / np.linalg.norm(matrix.T @ u_next)
        assert repr(net.parametrizations.weight[0]) == "_SpectralNorm()"
    for vector, start in zip(held, (u, v), strict=True):
        vector.copy_(lucid.tensor(start if way == "parametrization" or vector is held[0] else start * 0))
    net(x_of(2, 4).to(net.bias.dtype))
    for vector, wanted in zip(held, found, strict=True):
        np.testing.assert_allclose(vector.numpy(), wanted, rtol=1e-5)


def test_spectral_norm_gradients():
    net = Linear(4, 3)
    parametrizations.spectral_norm(net, n_power_iterations=100)
    net.weight  # noqa: B018  # the power iteration converges
    net.eval()
    name = "parametrizations.weight.original"
    start = net.parametrizations.weight.original.detach().clone().requires_grad_()

    def f(w):
        return functional_call(net, {name: w}, (x_of(2, 4),))

    (found,) = lucid.autograd.grad(f(start).sum(), [start])
    # At fixed vectors the derivative of σ is exact to first order, so differences of the true norm agree.
    w, x, step = start.detach().numpy(), x_of(2, 4).numpy(), 1e-6

    def value(w):
        return (x @ (w / np.linalg.svd(w)[1][0]).T).sum()

    for i, j in [(0, 0), (1, 2), (2, 3)]:
        e = np.zeros_like(w)
        e[i, j] = step
        np.testing.assert_allclose(found[i, j].item(), (value(w + e) - value(w - e)) / (2 * step), rtol=1e-4, atol=1e-6)


def test_spectral_norm_of_transposed_convolutions_and_vectors():
    net = ConvTranspose1d()
    parametrizations.spectral_norm(net, n_power_iterations=100)
    matrix = np.moveaxis(net.parametrizations.weight.original.detach().numpy(), 1, 0).reshape(3, -1)
    np.testing.assert_allclose(
        np.linalg.norm(net().detach().numpy()), np.linalg.norm(matrix) / np.linalg.svd(matrix)[1][0]
    )
    other = Linear(2, 3)
    parametrizations.spectral_norm(other, "bias")
    np.testing.assert_allclose(np.linalg.norm(other.bias.detach().numpy()), 1.0)
    with pytest.raises(IndexError, match="out of range"):
        parametrizations.spectral_norm(Linear(2, 3), dim=2)


def test_random_vectors_come_from_lucids_generator():
    found = []
    for _ in range(2):
        lucid.manual_seed(1)
        net = parametrizations.spectral_norm(Linear(4, 3))
        found.append(net.get_buffer("parametrizations.weight.0._u").numpy().copy())
    assert np.array_equal(*found)
