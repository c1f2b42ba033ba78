"""Sparse tensors, under PyTorch's names: matrices of which most elements are 0, with all derivatives.

A sparse tensor has values and their positions. Gradients by it have its pattern, and every transform goes through.

>>> import lucid
>>> a = lucid.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
>>> (a @ lucid.ones(3)).sum().backward()
>>> a.grad.to_dense()
Tensor([[0., 0., 1.],
        [1., 0., 1.]])
"""

from lucid import backends as _backends
from lucid.api.names import public as _public
from lucid.ops.sparse import rules as _rules  # noqa: F401 -- what other operations make of sparse tensors
from lucid.ops.sparse import solvers as _solvers  # noqa: F401 -- as primitives, by name
from lucid.sparse import linalg as linalg
from lucid.sparse.conversion import from_scipy as from_scipy
from lucid.sparse.conversion import to_scipy as to_scipy
from lucid.sparse.creation import spdiags as spdiags
from lucid.sparse.functions import *
from lucid.sparse.linalg import spsolve as spsolve

_backends.load("sparse")

__all__ = _public(globals(), "linalg")
