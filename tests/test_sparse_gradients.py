"""Sparse gradients of embeddings, and the optimizers that take them."""

import numpy as np
import pytest

import lucid
from lucid import nn, optim
from lucid.nn import functional as F

INDEX = lucid.tensor([[1, 3, 5], [1, 0, 3]])


def table(sparse, **settings):
    lucid.manual_seed(0)
    return nn.Embedding(7, 4, sparse=sparse, **settings)


@pytest.mark.parametrize("settings", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}])
def test_the_gradient_has_the_rows_that_were_read(settings):
    grads = []
    for sparse in (True, False):
        layer = table(sparse, **settings)
        (layer(INDEX) ** 2).sum().backward()
        grads.append(layer.weight.grad)
    found, want = grads
    assert found.is_sparse and found.shape == (7, 4) and found.sparse_dim() == 1
    np.testing.assert_allclose(found.to_dense().numpy(), want.numpy(), rtol=1e-6)
    rows = {0, 1, 5} if settings.get("padding_idx") == 3 else {0, 1, 3, 5}
    assert set(found.coalesce().indices()[0].tolist()) == rows


def test_gradients_add_up():
    sparse, dense = table(True), table(False)
    for layer in (sparse, dense):
        (layer(INDEX) ** 2).sum().backward()
        (layer(INDEX[0]).sin() + layer(INDEX[1])).sum().backward()
    np.testing.assert_allclose(sparse.weight.grad.to_dense().numpy(), dense.weight.grad.numpy(), rtol=1e-6)
    mixed = table(True)
    ((mixed(INDEX) ** 2).sum() + mixed.weight.sum()).backward()
    assert not mixed.weight.grad.is_sparse
    ((mixed(INDEX) ** 2).sum()).backward()
    want = 2 * (dense(INDEX) ** 2).sum() + dense.weight.sum()
    dense.weight.grad = None
    want.backward()
    np.testing.assert_allclose(mixed.weight.grad.numpy(), dense.weight.grad.numpy(), rtol=1e-6)


def test_derivatives_are_dense_where_they_go_on():
    weight = table(True).weight.detach().double().requires_grad_()
    f = lambda w: (F.embedding(INDEX, w, sparse=True) ** 3).sum()
    (first,) = lucid.autograd.grad(f(weight), [weight], create_graph=True)
    assert not first.is_sparse
    (second,) = lucid.autograd.grad(first.sum(), [weight])
    counts = np.bincount(INDEX.numpy().ravel(), minlength=7)[:, None]
    np.testing.assert_allclose(second.to_dense().numpy(), 6 * weight.detach().numpy() * counts)
    f(weight * 1.0).backward()
    assert not weight.grad.is_sparse
    many = lucid.stack([weight.detach(), 2 * weight.detach()])
    found = lucid.func.vmap(lucid.func.grad(f))(many)
    np.testing.assert_allclose(found[1].numpy(), lucid.func.grad(f)(many[1]).to_dense().numpy())
    assert lucid.autograd.grad(f(weight), weight).is_sparse


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    grads = []
    for sparse in (True, False):
        lucid.manual_seed(0)
        layer = nn.EmbeddingBag(7, 4, mode=mode, sparse=sparse, padding_idx=3)
        (layer(INDEX.reshape(-1), lucid.tensor([0, 2])) ** 2).sum().backward()
        grads.append(layer.weight.grad)
    assert grads[0].is_sparse
    np.testing.assert_allclose(grads[0].to_dense().numpy(), grads[1].numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {}),
        ("SGD", {"maximize": True}),
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {"weight_decay": 0.1}),
        ("Adagrad", {}),
        ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
        ("Adagrad", {"weight_decay": 0.1}),
    ],
)
def test_steps_are_those_of_dense_gradients(name, settings):
    weights = []
    for sparse in (True, False):
        layer = table(sparse)
        optimizer = getattr(optim, name)(layer.parameters(), lr=0.1, **settings)
        for k in range(4):
            optimizer.zero_grad()
            (layer(INDEX[:, : k + 1]) ** 2).sum().backward()
            optimizer.step()
        weights.append(layer.weight.detach().numpy())
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-7)


def test_sparse_adam_is_lazy():
    layer = table(True)
    layer.weight.data = layer.weight.data.double()
    p, m, v = (layer.weight.detach().numpy().copy(), *np.zeros((2, 7, 4)))
    optimizer = optim.SparseAdam(layer.parameters(), lr=0.1)
    for step, index in enumerate(([1, 2, 1], [2, 4], [1]), 1):
        optimizer.zero_grad()
        (layer(lucid.tensor(index)) ** 2).sum().backward()
        optimizer.step()
        counts = np.bincount(index, minlength=7)[:, None]
        rows = counts[:, 0] > 0
        g = (2 * p * counts)[rows]
        m[rows] += 0.1 * (g - m[rows])
        v[rows] = 0.999 * v[rows] + 0.001 * g**2
        p[rows] -= 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m[rows] / (np.sqrt(v[rows]) + 1e-8)
        np.testing.assert_allclose(layer.weight.detach().numpy(), p, rtol=1e-10)
    again = optim.SparseAdam(layer.parameters(), lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    np.testing.assert_allclose(again.state[layer.weight]["exp_avg"].numpy(), m, rtol=1e-10)


def test_optimizers_say_what_they_take():
    layer = table(True)
    layer(INDEX).sum().backward()
    for name in ("Adam", "RMSprop", "Adadelta"):
        with pytest.raises(RuntimeError, match="takes no sparse gradients"):
            getattr(optim, name)(layer.parameters()).step()
    layer.weight.grad = lucid.zeros(7, 4)
    with pytest.raises(RuntimeError, match="sparse gradients only"):
        optim.SparseAdam(layer.parameters()).step()
    layer.weight.grad = None
    layer(INDEX).sum().backward()
    optim.SGD(layer.parameters()).zero_grad(set_to_none=False)
    assert layer.weight.grad._nnz() == 0
    with pytest.raises(ValueError, match="lr"):
        optim.SparseAdam(layer.parameters(), lr=-1.0)
