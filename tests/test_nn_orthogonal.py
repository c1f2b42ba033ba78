"""Weights that stay orthonormal while they are trained."""

import copy
from importlib.util import find_spec

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid.nn.utils import parametrizations, parametrize

MAPS = ("matrix_exp", "cayley", "householder")
SHAPES = [(3, 3), (5, 3), (2, 5)]


class Holder(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)


def holder(shape, seed=0, complex=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    return Holder(lucid.tensor(values + 1j * rng.normal(size=shape) if complex else values))


def assert_orthonormal(weight, tolerance=1e-10):
    w = weight.detach().numpy()
    w = w if w.shape[-2] >= w.shape[-1] else w.swapaxes(-1, -2)
    gram = np.conj(w).swapaxes(-1, -2) @ w
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(w.shape[-1]), gram.shape), atol=tolerance)


def orthonormal(shape, seed=1):
    n, k = max(shape[-2:]), min(shape[-2:])
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(*shape[:-2], n, k)))[0]
    return lucid.tensor(np.ascontiguousarray(q if shape[-2] >= shape[-1] else q.swapaxes(-1, -2)))


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 5, 3)], ids=str)
@pytest.mark.parametrize("map", MAPS)
def test_weights_stay_orthonormal_in_training(map, shape, trivialized):
    layer = parametrizations.orthogonal(holder(shape), "weight", map, use_trivialization=trivialized)
    assert layer.weight.shape == shape
    assert_orthonormal(layer.weight)
    goal = orthonormal(shape)
    optimizer = lucid.optim.SGD(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (layer.weight - goal).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert_orthonormal(layer.weight)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("map", MAPS)
def test_orthonormal_weights_can_be_assigned(map, shape):
    layer = parametrizations.orthogonal(holder(shape), "weight", map)
    goal = orthonormal(shape)
    layer.weight = goal
    np.testing.assert_allclose(layer.weight.detach().numpy(), goal.numpy(), atol=1e-12)
    start = holder(shape)
    start.weight.data = goal
    np.testing.assert_allclose(
        parametrizations.orthogonal(start, "weight", map).weight.detach().numpy(), goal.numpy(), atol=1e-12
    )


@pytest.mark.parametrize("shape", [*SHAPES, (2, 5, 3)], ids=str)
def test_reflections_take_any_orthonormal_weight(shape):
    layer = parametrizations.orthogonal(holder(shape), "weight", "householder", use_trivialization=False)
    for goal in (orthonormal(shape), lucid.eye(*shape[-2:]).double().expand(*shape).clone()):
        layer.weight = goal
        np.testing.assert_allclose(layer.weight.detach().numpy(), goal.numpy(), atol=1e-12)


@pytest.mark.parametrize("map", ["matrix_exp", "cayley"])
def test_complex_weights_become_unitary(map):
    layer = parametrizations.orthogonal(holder((3, 2), complex=True), "weight", map)
    assert_orthonormal(layer.weight)
    layer.weight.abs().sum().backward()
    assert layer.parametrizations.weight.original.grad.is_complex()


def test_maps_that_are_chosen():
    def chosen(shape, **how):
        return parametrizations.orthogonal(holder(shape, **how)).parametrizations.weight[0].orthogonal_map

    assert chosen((3, 3)) == "matrix_exp"
    assert chosen((3, 2)) == "householder"
    assert chosen((3, 2), complex=True) == "matrix_exp"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("map", MAPS)
def test_derivatives(map, shape):
    layer = parametrizations.orthogonal(holder(shape), "weight", map, use_trivialization=False)
    made = layer.parametrizations.weight[0]
    x = lucid.tensor(np.random.default_rng(2).normal(size=shape), requires_grad=True)
    if map == "householder":
        # The diagonal counts by its signs, which have no derivative.
        x = (x.detach() * 0.3 + 2 * lucid.eye(*shape)).requires_grad_()
    assert lucid.autograd.gradcheck(made, (x,))
    assert lucid.autograd.gradgradcheck(made, (x,))


def test_the_base_is_saved_copied_and_kept_on_removal():
    layer = parametrizations.orthogonal(holder((5, 3)))
    other = parametrizations.orthogonal(holder((5, 3), seed=4))
    other.load_state_dict(layer.state_dict())
    weight = layer.weight.detach().numpy()
    assert "parametrizations.weight.0.base" in layer.state_dict()
    np.testing.assert_array_equal(other.weight.detach().numpy(), weight)
    np.testing.assert_array_equal(copy.deepcopy(layer).weight.detach().numpy(), weight)
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weight)


def test_errors():
    with pytest.raises(ValueError, match="'nothing'"):
        parametrizations.orthogonal(holder((3, 3)), "nothing")
    with pytest.raises(ValueError, match="matrix_exp, cayley, householder"):
        parametrizations.orthogonal(holder((3, 3)), "weight", "qr")
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        parametrizations.orthogonal(holder((3,)))
    with pytest.raises(ValueError, match="complex"):
        parametrizations.orthogonal(holder((3, 3), complex=True), "weight", "householder")
    layer = parametrizations.orthogonal(holder((3, 3)))
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        layer.weight = lucid.zeros(2, 3).double()
    fixed = parametrizations.orthogonal(holder((3, 3)), "weight", "cayley", use_trivialization=False)
    with pytest.raises(RuntimeError, match="no right_inverse"):
        fixed.weight = lucid.eye(3).double()


@pytest.mark.skipif(find_spec("torch") is None, reason="compares with PyTorch")
@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("map", MAPS)
def test_parity(map, shape, trivialized):
    import torch

    ours = parametrizations.orthogonal(holder(shape), "weight", map, use_trivialization=trivialized)
    theirs = torch.nn.Module()
    theirs.weight = torch.nn.Parameter(torch.tensor(holder(shape).weight.detach().numpy()))
    torch.nn.utils.parametrizations.orthogonal(theirs, "weight", map, use_trivialization=trivialized)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    # What a base has beyond the weight is drawn at random.
    theirs.load_state_dict({name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()})
    step = np.tril(np.random.default_rng(3).normal(size=shape), -1) * 0.3
    ours.parametrizations.weight.original.data += lucid.tensor(step)
    theirs.parametrizations.weight.original.data += torch.tensor(step)
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-10)
    weights = np.random.default_rng(4).normal(size=shape)
    (ours.weight * lucid.tensor(weights)).sum().backward()
    (theirs.weight * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(
        ours.parametrizations.weight.original.grad.numpy(),
        theirs.parametrizations.weight.original.grad.numpy(),
        atol=1e-9,
    )
