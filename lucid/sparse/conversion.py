"""Dense tensors and SciPy's matrices as sparse tensors, and the other way."""

from typing import Any

from lucid.core.arrays import question
from lucid.core.dtypes import INT64
from lucid.core.tensor import Tensor
from lucid.ops.indexing import nonzero_positions
from lucid.ops.rules import P
from lucid.ops.sparse import rules as rules
from lucid.ops.sparse.layout import sparse_coo, sparse_csc, sparse_csr
from lucid.ops.sparse.tensor import Coo, Csc, Csr, Sparse, held

as_scipy = question("as_scipy")  # (crow, col, values, columns): a matrix of SciPy over this memory


def to_sparse(input: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Tensor:
    """The elements that are not 0, with their positions as coordinates, or in the `layout` that is asked for.

    With `sparse_dim`, positions are those along so many leading dimensions, and entries are tensors themselves.

    >>> import lucid
    >>> lucid.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    Tensor(indices=Tensor([[0, 1],
                           [1, 0]]),
           values=Tensor([2., 3.]),
           size=(2, 2), nnz=2, layout=lucid.sparse_coo)
    """
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(f"to_sparse: layout must be lucid.sparse_coo, sparse_csr or sparse_csc, not {layout}")
    layout = sparse_coo if layout is None else layout
    if isinstance(input, Sparse):
        return input.in_layout(layout)
    count = input.ndim if sparse_dim is None else sparse_dim
    if not 0 < count <= input.ndim:
        raise RuntimeError(f"to_sparse: sparse_dim must lie between 1 and {input.ndim}, got {count}")
    seen = input.detach()
    seen = seen if count == input.ndim else (seen != 0).reshape(*seen.shape[:count], -1).any(-1)
    positions = [Tensor._wrap(p) for p in nonzero_positions(held(seen, "to_sparse()"), False)]
    values = P.index(input, *positions)
    return Sparse.make(values, Coo(P.stack(*positions, dim=0), input.shape[:count], True)).in_layout(layout)


def to_sparse_coo(input: Tensor) -> Tensor:
    """The elements that are not 0, with their positions as coordinates."""
    return to_sparse(input)


def to_sparse_csr(input: Tensor) -> Tensor:
    """The elements of a matrix that are not 0, in compressed rows.

    >>> import lucid
    >>> lucid.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr()
    Tensor(crow_indices=Tensor([0, 1, 2]),
           col_indices=Tensor([1, 0]),
           values=Tensor([2., 3.]), size=(2, 2), nnz=2, layout=lucid.sparse_csr)
    """
    if input.ndim != 2:
        raise RuntimeError(f"to_sparse_csr: compressed rows are for matrices, not shape {input.shape}")
    return to_sparse(input, layout=sparse_csr)


def to_sparse_csc(input: Tensor) -> Tensor:
    """The elements of a matrix that are not 0, in compressed columns.

    >>> import lucid
    >>> lucid.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csc()
    Tensor(ccol_indices=Tensor([0, 1, 2]),
           row_indices=Tensor([1, 0]),
           values=Tensor([3., 2.]), size=(2, 2), nnz=2, layout=lucid.sparse_csc)
    """
    if input.ndim != 2:
        raise RuntimeError(f"to_sparse_csc: compressed columns are for matrices, not shape {input.shape}")
    return to_sparse(input, layout=sparse_csc)


def to_dense(input: Tensor, dtype: Any = None) -> Tensor:
    """A dense tensor is returned as it is.

    >>> import lucid
    >>> lucid.ones(2).to_dense()
    Tensor([1., 1.])
    """
    return input if dtype is None else input.to(dtype)


def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The elements at the positions of a sparse tensor.

    >>> import lucid
    >>> lucid.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(lucid.eye(2).to_sparse()).values()
    Tensor([1., 4.])
    """
    if not isinstance(mask, Sparse):
        raise TypeError("sparse_mask: the mask must be a sparse tensor")
    if input.shape != mask.shape:
        raise RuntimeError(f"sparse_mask: a mask of shape {mask.shape} does not fit shape {input.shape}")
    whole = mask.coalesce()
    return whole.with_values(P.index(_whole(input), *whole._aux.positions()))


def _whole(input: Tensor) -> Tensor:
    return input.to_dense() if isinstance(input, Sparse) else input


def from_scipy(matrix: Any) -> Sparse:
    """A matrix or array of `scipy.sparse`: in compressed rows or columns over the same memory, all others as coordinates.

    >>> import lucid
    >>> import scipy.sparse
    >>> lucid.sparse.from_scipy(scipy.sparse.eye_array(2, format="csr", dtype="float32")).values()
    Tensor([1., 1.])
    """
    layout = getattr(matrix, "format", None)
    if layout in ("csr", "csc") and matrix.ndim == 2:
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        crow, col, values = (Tensor._wrap(a) for a in (matrix.indptr, matrix.indices, matrix.data))
        if layout == "csc":
            return Sparse.make(values, Csc(Csr(crow, col, matrix.shape[::-1])))
        return Sparse.make(values, Csr(crow, col, matrix.shape))
    if not hasattr(matrix, "tocoo"):
        raise TypeError(f"from_scipy: a sparse matrix or array of SciPy is needed, not a {type(matrix).__name__}")
    found = matrix.tocoo()
    places = found.coords if hasattr(found, "coords") else (found.row, found.col)
    positions = [Tensor._wrap(p.astype("int64")) for p in places]
    return Sparse.make(Tensor._wrap(found.data), Coo(P.stack(*positions, dim=0), found.shape, False))


def to_scipy(input: Sparse) -> Any:
    """A sparse matrix as a `scipy.sparse.csr_array`, or `csc_array` for compressed columns, which share memory with it.

    >>> import lucid
    >>> lucid.sparse.to_scipy(lucid.eye(2).to_sparse_csr()).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not isinstance(input, Sparse) or input.sparse_dim() != 2 or input.dense_dim():
        raise TypeError("to_scipy: a sparse matrix is needed")
    if input.requires_grad:
        raise RuntimeError("to_scipy: SciPy records no gradients; detach() the tensor first")
    if isinstance(input._aux, Csc):
        return to_scipy(input.with_pattern(input._aux.across)).T
    crow, col, values = input.to_sparse_csr().compressed()
    arrays = (t._concrete("to_scipy()") for t in (crow, col, values))
    return as_scipy(*arrays, input.shape[1])


def index_tensor(indices: Any, name: str) -> Tensor:
    """Positions as integers."""
    found = indices if isinstance(indices, Tensor) else Tensor.from_data(indices)
    if not found.numel() and found.np_dtype.kind == "f":  # of an empty list
        return P.cast(found, dtype=INT64, source=found.np_dtype)
    if found.np_dtype.kind not in "iu":
        raise RuntimeError(f"{name}: indices must be integers, not {found.dtype}")
    return found.detach()
