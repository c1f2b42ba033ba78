"""Sparse tensors from positions and values."""

from collections.abc import Sequence
from typing import Any

from lucid.arguments.promotion import cast
from lucid.core.arrays import question
from lucid.core.device import as_device
from lucid.core.dtypes import INT64
from lucid.core.tensor import Tensor, is_plain
from lucid.ops.indexing import in_range
from lucid.ops.rules import P
from lucid.ops.sparse.layout import sparse_csc, sparse_csr
from lucid.ops.sparse.tensor import Coo, Csc, Csr, Sparse
from lucid.sparse.conversion import index_tensor, to_sparse

are_compressed = question("are_compressed")  # (crow, col, rows, columns)


def _value_tensor(values: Any, dtype: Any, requires_grad: bool) -> Tensor:
    """Values as they are, with their history; as a leaf if it is one by which to differentiate."""
    found: Tensor = values if isinstance(values, Tensor) else Tensor.from_data(values)
    found = found if dtype is None else found.to(dtype)
    return found.detach().clone().requires_grad_() if requires_grad else found


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Sparse:
    """A tensor with `values` at the positions `indices`, a row of them for each dimension, and 0 elsewhere.

    Values at the same position add up. Gradients go to `values`, or with `requires_grad` to the tensor itself. With
    sizes alone, there are no entries.

    >>> import lucid
    >>> lucid.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    Tensor(indices=Tensor([[0, 1, 1],
                           [2, 0, 2]]),
           values=Tensor([3., 4., 5.]),
           size=(2, 3), nnz=3, layout=lucid.sparse_coo)
    """
    as_device(device)
    if values is None or (isinstance(values, tuple) and size is None and not isinstance(indices, Tensor)):
        sizes = indices if values is None else values
        return _without_entries(tuple(sizes), dtype, requires_grad)
    places = index_tensor(indices, "sparse_coo_tensor")
    numbers = _value_tensor(values, dtype, requires_grad)
    if places.ndim == 1:
        places = places.reshape(1, -1)
    count = places.shape[0]
    if places.ndim != 2 or numbers.ndim == 0 or places.shape[1] != numbers.shape[0]:
        raise RuntimeError(
            f"sparse_coo_tensor: indices of shape (dimensions, entries) are needed for {numbers.shape[:1]} entries, "
            f"not {places.shape}"
        )
    shape = _shape_around(places, numbers) if size is None else tuple(int(n) for n in size)
    if len(shape) != count + numbers.ndim - 1 or shape[count:] != numbers.shape[1:]:
        raise RuntimeError(
            f"sparse_coo_tensor: size {shape} does not fit {count} rows of indices and values of shape {numbers.shape}"
        )
    given = [places[d] for d in range(count)]
    rows = [in_range(row, shape[d], "sparse_coo_tensor", negative=False) for d, row in enumerate(given)]
    if any(row is not same for row, same in zip(rows, given, strict=True)):
        places = P.stack(*rows, dim=0)
    elif isinstance(indices, Tensor):
        places = P.clone(places)  # they were found in range, and stay so
    return Sparse.make(numbers, Coo(places, shape[:count], bool(is_coalesced)))


def _shape_around(places: Tensor, values: Tensor) -> tuple[int, ...]:
    """The smallest shape that has these positions."""
    sizes = [int(row.max()) + 1 if row.numel() else 0 for row in places]
    return (*sizes, *values.shape[1:])


def _without_entries(shape: tuple[int, ...], dtype: Any, requires_grad: bool) -> Sparse:
    values = Tensor.from_data([], dtype=dtype)
    indices = cast(Tensor.from_data([]), INT64).reshape(1, 0).expand(len(shape), 0)
    values = values.requires_grad_() if requires_grad else values
    return Sparse.make(values, Coo(indices, shape, True))


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Sparse:
    """A matrix in compressed rows: the entries of row i are those from crow_indices[i] to crow_indices[i + 1].

    The columns of a row are in order, each once.

    >>> import lucid
    >>> lucid.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    Tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    as_device(device)
    numbers = _value_tensor(values, dtype, requires_grad)
    return Sparse.make(numbers, _compressed("row", crow_indices, col_indices, numbers, size))


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Sparse:
    """A matrix in compressed columns: the entries of column j are those from ccol_indices[j] to ccol_indices[j + 1].

    The rows of a column are in order, each once.

    >>> import lucid
    >>> lucid.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3.0, 5.0], (2, 3)).to_dense()
    Tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    as_device(device)
    numbers = _value_tensor(values, dtype, requires_grad)
    across = None if size is None else tuple(size)[::-1]
    return Sparse.make(numbers, Csc(_compressed("col", ccol_indices, row_indices, numbers, across)))


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    layout: Any,
    **more: Any,
) -> Sparse:
    """A matrix in compressed rows or columns, by its `layout`: `sparse_csr_tensor` or `sparse_csc_tensor`.

    >>> import lucid
    >>> lucid.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=lucid.sparse_csr).to_dense()
    Tensor([[0., 3.],
            [4., 0.]])
    """
    makers = {sparse_csr: sparse_csr_tensor, sparse_csc: sparse_csc_tensor}
    if layout not in makers:
        raise RuntimeError(f"sparse_compressed_tensor: layout must be lucid.sparse_csr or sparse_csc, not {layout}")
    return makers[layout](compressed_indices, plain_indices, values, size, **more)


def _compressed(what: str, starts: Any, places: Any, numbers: Tensor, size: Sequence[int] | None) -> Csr:
    """Positions in compressed rows, checked; `what` says whether they are rows or those of the transpose."""
    of_rows = what == "row"
    name, compressed, plain = f"sparse_cs{what[0]}_tensor", f"c{what}_indices", f"{'col' if of_rows else 'row'}_indices"
    crow, col = (index_tensor(i, name) for i in (starts, places))
    if crow.ndim != 1 or col.ndim != 1 or numbers.ndim != 1:
        raise RuntimeError(f"{name}: {compressed}, {plain} and values must be vectors")
    shape = (crow.shape[0] - 1, int(col.max()) + 1 if col.numel() else 0) if size is None else tuple(size)
    known = is_plain(crow) and is_plain(col)
    if len(shape) != 2 or (known and not are_compressed(crow._array, col._array, *shape)):
        raise RuntimeError(
            f"{name}: the indices are not those of a matrix of shape {shape if of_rows else shape[::-1]} in compressed "
            f"{'rows' if of_rows else 'columns'}: {compressed} must have {shape[0] + 1} entries and grow from 0 to "
            f"{col.shape[0]}, and {plain} between two of them must be in order, each once, and in range"
        )
    return Csr(crow, col if known else in_range(col, shape[1], name, negative=False), shape)


def spdiags(diagonals: Any, offsets: Any, shape: Sequence[int], layout: Any = None) -> Tensor:
    """A matrix with these diagonals, each at its offset from the main one: element j of a row stands in column j.

    >>> import lucid
    >>> lucid.sparse.spdiags(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([0, 1]), (2, 2)).to_dense()
    Tensor([[1., 4.],
            [0., 2.]])
    """
    rows: Tensor = diagonals if isinstance(diagonals, Tensor) else Tensor.from_data(diagonals)
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    steps = [int(k) for k in index_tensor(offsets, "spdiags").reshape(-1)]
    if len(steps) != rows.shape[0] or len(set(steps)) != len(steps):
        raise RuntimeError(f"spdiags: {rows.shape[0]} diagonals need as many different offsets, got {steps}")
    height, width = (int(n) for n in shape)
    places = []
    for k, step in enumerate(steps):
        first, last = max(0, step), min(width, height + step, rows.shape[1])
        places += [(k, j - step, j) for j in range(first, last)]
    which, row, col = (Tensor.from_data([p[d] for p in places], dtype=int) for d in range(3))
    out = Sparse.make(P.index(rows, which, col), Coo(P.stack(row, col, dim=0), (height, width), False)).coalesce()
    return out if layout is None else to_sparse(out, layout=layout)
