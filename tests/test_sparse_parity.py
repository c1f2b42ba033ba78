"""Sparse tensors beside PyTorch's: the same calls in both libraries, with values, gradients, layouts and errors."""

import numpy as np
import pytest

import lucid
import lucid.torch

torch = pytest.importorskip("torch")
# PyTorch says once in a process that compressed tensors are in beta state, and that nobody asked for checks.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

INDICES = [[0, 2, 1, 0, 2], [1, 0, 2, 3, 1]]
VALUES = [1.0, -2.0, 3.0, 0.5, 4.0]


def dense(x):
    x = x.detach()
    return np.array((x if x.layout in (torch.strided, lucid.torch.strided, lucid.strided) else x.to_dense()).tolist())


def both(function):
    """The result and the gradients of values and a dense operand, in both libraries."""
    found = []
    for m in (torch, lucid.torch):
        values = m.tensor(VALUES, dtype=m.float64, requires_grad=True)
        x = m.tensor(np.linspace(-1, 1, 8).reshape(4, 2), requires_grad=True)
        s = m.sparse_coo_tensor(m.tensor(INDICES), values, (3, 4)).coalesce()
        out = function(m, s, x)
        whole = out.to_dense() if out.layout is not m.strided else out
        (whole * whole).sum().backward()
        found.append((out, values.grad, x.grad))
    return found


CALLS = {
    "mm": lambda m, s, x: m.sparse.mm(s, x),
    "matmul": lambda m, s, x: s @ x,
    "mv": lambda m, s, x: m.mv(s, x[:, 0]),
    "addmm": lambda m, s, x: m.sparse.addmm(x[:3], s, x, beta=0.5, alpha=2.0),
    "transposed": lambda m, s, x: m.sparse.mm(s.t(), x[:3]),
    "sum of rows": lambda m, s, x: m.sparse.sum(s, dim=1),
    "sum": lambda m, s, x: m.sparse.sum(s),
    "softmax": lambda m, s, x: m.sparse.softmax(s, dim=1),
    "log_softmax": lambda m, s, x: m.sparse.log_softmax(s, dim=0),
    "twice": lambda m, s, x: s * 2.0,
    "sum of two": lambda m, s, x: s + s,
    "product of two": lambda m, s, x: s * s,
    "sparse product": lambda m, s, x: m.sparse.mm(s, s.t()),
    "dense": lambda m, s, x: s.to_dense() @ x,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    (theirs, *wanted), (ours, *found) = both(CALLS[name])
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.layout) == str(theirs.layout)
    np.testing.assert_allclose(dense(ours), dense(theirs), rtol=1e-10, atol=1e-12)
    for got, want in zip(found, wanted, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(dense(got), dense(want), rtol=1e-10, atol=1e-12)


def test_texts():
    for make in (
        lambda m: m.sparse_coo_tensor(m.tensor(INDICES), m.tensor([1.0, -2.0, 3.0, 5.0, 4.0]), (3, 4)),
        lambda m: m.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr(),
    ):
        found, wanted = repr(make(lucid.torch)), repr(make(torch))
        assert found == wanted


def test_questions():
    for m in (torch, lucid.torch):
        s = m.sparse_coo_tensor(m.tensor(INDICES), m.tensor(VALUES), (3, 4))
        assert (s.is_sparse, s.is_coalesced(), s._nnz(), s.sparse_dim(), s.dense_dim()) == (True, False, 5, 2, 0)
        assert s.layout == m.sparse_coo and s.coalesce().is_coalesced() and s.to_sparse_csr().layout == m.sparse_csr
        assert s.coalesce().indices().tolist() == [[0, 0, 1, 2, 2], [1, 3, 2, 0, 1]]
        assert s.to_sparse_csr().crow_indices().tolist() == [0, 2, 3, 5]
        with pytest.raises(RuntimeError):
            s.values()


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_steps(name):
    weights = []
    for m in (torch, lucid.torch):
        layer = m.nn.Embedding(6, 3, sparse=True)
        with m.no_grad():
            layer.weight.copy_(m.tensor(np.linspace(-1, 1, 18).reshape(6, 3), dtype=m.float32))
        optimizer = getattr(m.optim, name)(list(layer.parameters()), lr=0.1)
        for index in ([1, 2, 1], [4], [1, 5]):
            optimizer.zero_grad()
            (layer(m.tensor(index)) ** 2).sum().backward()
            optimizer.step()
        weights.append(layer.weight.detach().numpy())
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-5, atol=1e-7)
