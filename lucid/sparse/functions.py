"""Products, sums and normalisations of sparse tensors under the names of `torch.sparse`."""

from typing import Any

import lucid
from lucid.api.contractions import scaled_sum
from lucid.arguments.promotion import KEEP, promote
from lucid.core.tensor import Tensor
from lucid.ops.rules import P
from lucid.ops.sparse.tensor import Sparse

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "sum"]


def mm(sparse: Tensor, dense: Tensor) -> Tensor:
    """The product of two matrices of which one or both are sparse; that of two sparse ones is sparse.

    >>> import lucid
    >>> lucid.sparse.mm(lucid.eye(2).to_sparse(), lucid.ones(2, 3)).shape
    (2, 3)
    """
    return lucid.mm(sparse, dense)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta · mat + alpha · mat1 @ mat2, with a sparse `mat1`. With a `beta` of 0, `mat` is not read.

    >>> import lucid
    >>> lucid.sparse.addmm(lucid.ones(2, 2), lucid.eye(2).to_sparse(), lucid.ones(2, 2))
    Tensor([[2., 2.],
            [2., 2.]])
    """
    return scaled_sum(mat, lucid.mm(mat1, mat2), beta, alpha)


def sampled_addmm(input: Sparse, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Sparse:
    """alpha · mat1 @ mat2 at the positions of `input` alone, plus beta · input. With a `beta` of 0, its values are not read.

    >>> import lucid
    >>> x = lucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> lucid.sparse.sampled_addmm(lucid.eye(2).to_sparse_csr(), x, x).values()
    Tensor([ 8., 23.])
    """
    if not isinstance(input, Sparse) or input.sparse_dim() != 2 or input.dense_dim():
        raise TypeError("sampled_addmm: input must be a sparse matrix")
    layout, whole = input.layout, input.coalesce()
    whole = whole.to_sparse_csr() if whole.is_sparse_csc else whole
    crow, col, values = whole.compressed()
    shape = (mat1.shape[0], mat2.shape[1])
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0] or shape != whole.shape:
        raise RuntimeError(
            f"sampled_addmm: shapes {mat1.shape} and {mat2.shape} do not fit a sparse matrix of shape {input.shape}"
        )
    mat1, mat2, values = promote("sampled_addmm", (mat1, mat2, values), KEEP)
    found = P.csr_sample(crow, col, mat1, P.permute(mat2, dims=(1, 0)))
    return whole.with_values(scaled_sum(values, found, beta, alpha)).in_layout(layout)


def sum(input: Tensor, dim: int | tuple[int, ...] | list[int] | None = None, dtype: Any = None) -> Tensor:
    """The sum over `dim`, or of all elements: sparse where a sparse dimension is left.

    >>> import lucid
    >>> lucid.sparse.sum(lucid.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse(), 0).to_dense()
    Tensor([3., 6.])
    """
    return lucid.sum(input, dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """softmax over the entries along `dim`: where there is no entry, the tensor counts as -inf.

    >>> import lucid
    >>> lucid.sparse.softmax(lucid.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).values()
    Tensor([1. , 0.5, 0.5])
    """
    return lucid.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`.

    >>> import lucid
    >>> lucid.sparse.log_softmax(lucid.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).values()
    Tensor([ 0.    , -0.6931, -0.6931])
    """
    return lucid.log_softmax(input, dim, dtype)
