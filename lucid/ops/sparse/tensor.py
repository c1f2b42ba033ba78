"""The sparse tensor: some of its entries, as a tensor of values, and a pattern that says where they stand.

The values may be of any kind. They have the place on the tape, the tangent or the batch, and whatever is computed of a
sparse tensor is computed of them: its level is the innermost, so that it is asked first what a primitive means.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NoReturn, Self

from lucid.core import dtypes, modes
from lucid.core.arrays import counted, empty, full, question
from lucid.core.dtypes import INT64
from lucid.core.fields import TensorFields, new_tensor, users_attributes
from lucid.core.levels import INNERMOST
from lucid.core.tensor import Tensor, is_plain, of_class
from lucid.ops.rules import P
from lucid.ops.sparse import layout as layouts
from lucid.tape.inplace import raise_if_leaf

# (indices, shape): in order, each once; the order of those given; where in it equal ones begin, None if there are none
distinct_positions = question("distinct_positions")
row_of_each = question("row_of_each")  # (crow): the row of each entry
same_elements = question("same_elements")

# What a primitive makes of sparse operands, by its name: rule(*operands, **params). See `ops.sparse.rules`.
RULES: dict[str, Callable[..., Any]] = {}


def held(index: Tensor, wanted_by: str) -> Any:
    """The array of a tensor of positions, for what depends on them."""
    return index._held_array(wanted_by)


def raise_if_written(indices: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Refuse positions that were written to since they were found in range: kernels do not look again."""
    if [i._version for i in indices] != versions:
        raise RuntimeError("the indices of a sparse tensor were written to in place after it was made; make it again")


def on_arrays(prim: Any, *tensors: Tensor, **params: Any) -> Any:
    """The result of a primitive on positions, for a pattern to keep: no transform may follow it."""
    found = prim.kernel(*[t._array for t in tensors], **params)
    return [Tensor._wrap(f) for f in found] if prim.multi else Tensor._wrap(found)


def _in_rows(
    row: Tensor, col: Tensor, shape: tuple[int, ...], are_in_order: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the rows of a matrix begin, the columns of its entries, and their order there."""
    run: Any = (
        on_arrays if is_plain(row) and is_plain(col) else lambda prim, *tensors, **params: prim(*tensors, **params)
    )
    order, crow = run(P.coo_order, row, col, rows=shape[0], columns=shape[1])
    return crow, col if are_in_order else run(P.index, col, order), order


def entries_by(places: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Where the entries at each of the places along a dimension begin, and their order there."""
    numbers = Tensor._wrap(counted(places.shape[0], 0, 1, INT64))
    crow, _, order = _in_rows(places, numbers, (size, places.shape[0]))
    return crow, order


class Coo:
    """Positions as coordinates: `indices` has a row for each sparse dimension and a column for each entry.

    They are `coalesced` if they stand in row-major order, each once.
    """

    layout = layouts.sparse_coo

    def __init__(self, indices: Tensor, shape: tuple[int, ...], coalesced: bool) -> None:
        self.indices, self.shape, self.coalesced = indices, shape, coalesced
        self._versions = [indices._version]
        self._compressed: Any = None

    @property
    def count(self) -> int:
        """How many entries there are."""
        return self.indices.shape[1]

    def positions(self) -> list[Tensor]:
        """The places of the entries along each dimension."""
        return [P.slice(self.indices, index=(d,)) for d in range(len(self.shape))]

    def compressed(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The rows and columns of a matrix in compressed rows, and the order of the entries in them if it is another."""
        raise_if_written((self.indices,), self._versions)
        if self._compressed is not None:
            known: tuple[Tensor, Tensor, Tensor | None] = self._compressed
            return known
        if is_plain(self.indices):
            row, col = (on_arrays(P.slice, self.indices, index=(d,)) for d in (0, 1))
            crow, col, order = _in_rows(row, col, self.shape, self.coalesced)
            self._compressed = crow, col, None if self.coalesced else order
            return self.compressed()
        row, col = self.positions()
        return _in_rows(row, col, self.shape)

    def __reduce__(self) -> Any:
        return Coo, (self.indices, self.shape, self.coalesced)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Coo) and self.shape == other.shape and _same(self.indices, other.indices)

    def __hash__(self) -> int:
        return hash((self.shape, self.count))


class Csr:
    """Positions of the entries of a matrix, row by row: their columns, and where each row begins and ends."""

    layout = layouts.sparse_csr
    coalesced = True

    def __init__(self, crow: Tensor, col: Tensor, shape: tuple[int, ...]) -> None:
        self.crow, self.col, self.shape = crow, col, shape
        self._versions = [crow._version, col._version]
        self._rows: Any = None
        self._transposed: Any = None

    @property
    def count(self) -> int:
        """How many entries there are."""
        return self.col.shape[0]

    def positions(self) -> list[Tensor]:
        """The places of the entries along each dimension."""
        raise_if_written((self.crow, self.col), self._versions)
        if self._rows is None:
            self._rows = Tensor._wrap(row_of_each(held(self.crow, "the rows of a sparse tensor")))
        return [self._rows, self.col]

    def compressed(self) -> tuple[Tensor, Tensor, None]:
        """The rows and columns, and None since the entries are in their order."""
        raise_if_written((self.crow, self.col), self._versions)
        return self.crow, self.col, None

    def transposed(self) -> tuple["Csr", Tensor]:
        """Those of the transpose, and the order of the entries in it."""
        raise_if_written((self.crow, self.col), self._versions)
        if self._transposed is None:
            row, col = self.positions()
            crow, across, order = _in_rows(col, row, self.shape[::-1])
            self._transposed = Csr(crow, across, self.shape[::-1]), order
        found: tuple[Csr, Tensor] = self._transposed
        return found

    def __reduce__(self) -> Any:
        return Csr, (self.crow, self.col, self.shape)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Csr) or self.shape != other.shape:
            return False
        return _same(self.crow, other.crow) and _same(self.col, other.col)

    def __hash__(self) -> int:
        return hash((self.shape, self.count))


class Csc:
    """Positions of the entries of a matrix, column by column: those of its transpose, `across`, row by row."""

    layout = layouts.sparse_csc
    coalesced = True

    def __init__(self, across: Csr) -> None:
        self.across, self.shape = across, across.shape[::-1]

    @property
    def count(self) -> int:
        """How many entries there are."""
        return self.across.count

    def positions(self) -> list[Tensor]:
        """The places of the entries along each dimension."""
        return self.across.positions()[::-1]

    def compressed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows and columns of the matrix in compressed rows, and the order of the entries in them."""
        found, order = self.across.transposed()
        return found.crow, found.col, order

    def __reduce__(self) -> Any:
        return Csc, (self.across,)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Csc) and self.across == other.across)

    def __hash__(self) -> int:
        return hash((self.shape, self.count))


Pattern = Coo | Csr | Csc


def _same(x: Tensor, y: Tensor) -> bool:
    return x is y or bool(same_elements(held(x, "comparing patterns"), held(y, "comparing patterns")))


class Sparse(Tensor):
    """A tensor of which some entries are stored. `lucid.sparse_coo_tensor` and its relatives make them.

    >>> import lucid
    >>> x = lucid.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> x.to_dense()
    Tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """

    __slots__ = ()
    _level = TensorFields._level  # which `Tensor` hides behind its 0
    _aux: Pattern

    @staticmethod
    def make(values: Tensor, pattern: Pattern) -> "Sparse":
        """The tensor of these values, in the first dimension of which is one entry after the other."""
        if values.ndim == 0 or values.shape[0] != pattern.count:
            raise RuntimeError(
                f"a sparse tensor with {pattern.count} entries needs as many values in the first dimension, not shape "
                f"{values.shape}. In transforms that add a dimension in front, such as vmap and jacfwd, take values() as the "
                "argument or result, and make the sparse tensor inside"
            )
        out: Sparse = new_tensor(Sparse, values, pattern, INNERMOST)
        return out

    def with_values(self, values: Tensor) -> "Sparse":
        """Other values at the same positions."""
        return Sparse.make(values, self._aux)

    def with_pattern(self, pattern: Pattern) -> "Sparse":
        """The same values at other positions."""
        return Sparse.make(self._array, pattern)

    def interpret(self, prim: Any, args: Any, params: dict[str, Any]) -> Any:
        rule = RULES.get(prim.name)
        if rule is None and prim.is_scalar:
            return RULES["elementwise"](prim, *args, **params)
        if rule is None:
            raise NotImplementedError(
                f"`{prim.name}` is not defined for sparse tensors; call to_dense() first, or take values()"
            )
        return rule(*args, **params)

    # What is known of it.

    @property
    def shape(self) -> tuple[int, ...]:
        values = self._array.shape
        return type(values)((*self._aux.shape, *values[1:]))  # a size where that of the values is one

    @property
    def dtype(self) -> Any:
        return self._array.dtype

    @property
    def np_dtype(self) -> Any:
        return self._array.np_dtype

    @property
    def layout(self) -> layouts.layout:  # type: ignore[override]  # properties of `Tensor` are stubs
        return layouts.named(self._aux.layout.name, self._array.layout.home)

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return isinstance(self._aux, Coo)

    @property
    def is_sparse_csc(self) -> bool:  # type: ignore[override]
        return isinstance(self._aux, Csc)

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return isinstance(self._aux, Csr)

    def sparse_dim(self) -> int:
        """The number of dimensions along which entries have positions."""
        return len(self._aux.shape)

    def dense_dim(self) -> int:
        """The number of dimensions of each entry."""
        return self._array.ndim - 1

    def _nnz(self) -> int:
        """The number of entries that are stored.

        >>> import lucid
        >>> lucid.eye(3).to_sparse()._nnz()
        3
        """
        return self._aux.count

    def is_coalesced(self) -> bool:
        """Whether entries stand in row-major order and no position has two."""
        return self._aux.coalesced

    def is_contiguous(self) -> bool:
        """Whether elements lie in one piece: the stored ones do not."""
        return False

    def _held_array(self, wanted_by: str) -> NoReturn:
        raise TypeError(f"{wanted_by} needs all elements, but this tensor is sparse; call to_dense() first")

    # Its parts.

    def _values(self) -> Tensor:
        values: Tensor = self._array
        return values

    def values(self) -> Tensor:
        """The entries, one after the other.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().values()
        Tensor([2., 3.])
        """
        self._raise_unless_coalesced("values")
        return self._values()

    def _indices(self) -> Tensor:
        return of_class((self._array,), self._coo("_indices").indices)

    def indices(self) -> Tensor:
        """The positions of the entries, a row for each dimension.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().indices()
        Tensor([[0, 1],
                [1, 0]])
        """
        self._raise_unless_coalesced("indices")
        return self._indices()

    def crow_indices(self) -> Tensor:
        """Where among the entries each row begins, and the last one ends.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr().crow_indices()
        Tensor([0, 1, 3])
        """
        return of_class((self._array,), self._csr("crow_indices").crow)

    def col_indices(self) -> Tensor:
        """The columns of the entries.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr().col_indices()
        Tensor([1, 0, 1])
        """
        return of_class((self._array,), self._csr("col_indices").col)

    def ccol_indices(self) -> Tensor:
        """Where among the entries each column begins, and the last one ends.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csc().ccol_indices()
        Tensor([0, 1, 3])
        """
        return of_class((self._array,), self._csc("ccol_indices").crow)

    def row_indices(self) -> Tensor:
        """The rows of the entries.

        >>> import lucid
        >>> lucid.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csc().row_indices()
        Tensor([1, 0, 1])
        """
        return of_class((self._array,), self._csc("row_indices").col)

    def _raise_unless_coalesced(self, name: str) -> None:
        if not self._aux.coalesced:
            raise RuntimeError(f"{name}(): positions may occur twice in this tensor; call coalesce() first")

    def _coo(self, name: str) -> Coo:
        if not isinstance(self._aux, Coo):
            raise RuntimeError(f"{name}() is for tensors of layout lucid.sparse_coo, not {self.layout}")
        return self._aux

    def _csr(self, name: str) -> Csr:
        if not isinstance(self._aux, Csr):
            raise RuntimeError(f"{name}() is for tensors of layout lucid.sparse_csr, not {self.layout}")
        return self._aux

    def _csc(self, name: str) -> Csr:
        if not isinstance(self._aux, Csc):
            raise RuntimeError(f"{name}() is for tensors of layout lucid.sparse_csc, not {self.layout}")
        return self._aux.across

    # Other forms.

    def coalesce(self) -> "Sparse":
        """The same tensor with entries in row-major order; those at the same position are added up.

        >>> import lucid
        >>> x = lucid.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,)).coalesce()
        >>> x.indices(), x.values()
        (Tensor([[0, 1]]), Tensor([2., 4.]))
        """
        if self._aux.coalesced:
            return self
        pattern = self._coo("coalesce")
        found, order, starts = distinct_positions(held(pattern.indices, "coalesce()"), pattern.shape)
        values = P.index(self._array, Tensor._wrap(order))
        if starts is not None:
            which = Tensor._wrap(row_of_each(starts))
            values = P.index_back(values, which, shape=(found.shape[1], *values.shape[1:]))
        return Sparse.make(values, Coo(Tensor._wrap(found), pattern.shape, True))

    def to_dense(self, dtype: Any = None) -> Tensor:
        """All elements, with 0 where no entry is.

        >>> import lucid
        >>> lucid.eye(2).to_sparse().to_dense()
        Tensor([[1., 0.],
                [0., 1.]])
        """
        values = self._array if dtype is None else self._array.to(dtype)
        out: Tensor = P.index_back(values, *self._aux.positions(), shape=self.shape)
        return out

    def to_sparse_coo(self) -> "Sparse":
        """The tensor with positions as coordinates."""
        if isinstance(self._aux, Coo):
            return self
        if isinstance(self._aux, Csc):
            return self.to_sparse_csr().to_sparse_coo()
        indices = P.stack(*[P.cast(p, dtype=INT64, source=p.np_dtype) for p in self._aux.positions()], dim=0)
        return Sparse.make(self._array, Coo(indices, self._aux.shape, True))

    def to_sparse_csr(self) -> "Sparse":
        """The matrix in compressed rows."""
        if isinstance(self._aux, Csr):
            return self
        if self.sparse_dim() != 2:
            raise RuntimeError(f"to_sparse_csr: compressed rows are for matrices, not shape {self.shape}")
        whole = self.coalesce()
        crow, col, values = whole.compressed()
        return Sparse.make(values, Csr(crow, col, whole._aux.shape))

    def to_sparse_csc(self) -> "Sparse":
        """The matrix in compressed columns."""
        if isinstance(self._aux, Csc):
            return self
        if self.sparse_dim() != 2:
            raise RuntimeError(f"to_sparse_csc: compressed columns are for matrices, not shape {self.shape}")
        rows = self.to_sparse_csr()
        across, order = rows._csr("to_sparse_csc").transposed()
        return Sparse.make(P.index(rows._array, order), Csc(across))

    def in_layout(self, layout: layouts.layout) -> "Sparse":
        """The same tensor, stored in another way."""
        found: Sparse = getattr(self, f"to_{layout.name}")()
        return found

    def compressed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows, columns and values of a matrix in compressed rows; positions may occur twice."""
        crow, col, order = self._aux.compressed()
        return crow, col, self._array if order is None else P.index(self._array, order)

    # The place on the tape is that of the values.

    @property
    def requires_grad(self) -> bool:
        return bool(self._array.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._array.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self._array.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return bool(self._array.is_leaf)

    @property
    def grad_fn(self) -> Any:
        return self._array.grad_fn

    @property
    def grad(self) -> Tensor | None:
        """The gradient, with the pattern of the tensor."""
        found = self._array.grad
        return None if found is None else self.with_values(found)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and (not isinstance(value, Sparse) or value._aux != self._aux):
            raise RuntimeError("the gradient of a sparse tensor must be sparse and have its pattern")
        self._array.grad = None if value is None else value._array

    @grad.deleter
    def grad(self) -> None:
        self._array.grad = None

    def retain_grad(self) -> None:
        self._array.retain_grad()

    def shell(self) -> "Sparse":
        return self.with_values(self._array.shell())

    def _detached(self) -> "Sparse":
        return self.with_values(self._array._detached())

    def zero_(self) -> Self:
        """Drop all entries, in place."""
        pattern = self._aux
        kept = Coo(P.slice(self.to_sparse_coo()._indices(), index=(slice(None), slice(0, 0))), pattern.shape, True)
        values = P.slice(self._array, index=(slice(0, 0),)).detach()
        empty = Sparse.make(values, kept)
        empty = empty.in_layout(pattern.layout)
        self._array, self._aux = empty._array, empty._aux
        return self

    def sparse_resize_(self, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Self:
        """Give the tensor another size, in place, in which all entries stay where they are.

        >>> import lucid
        >>> lucid.eye(2).to_sparse().sparse_resize_((3, 4), 2, 0).shape
        (3, 4)
        """
        pattern, shape = self._coo("sparse_resize_"), tuple(int(n) for n in size)
        same = (sparse_dim, dense_dim) == (self.sparse_dim(), self.dense_dim()) and len(shape) == self.ndim
        if not same or any(new < old for new, old in zip(shape, self.shape, strict=False)):
            raise RuntimeError(
                f"sparse_resize_: a tensor of shape {self.shape} with {self.sparse_dim()} sparse dimensions can grow, but "
                f"not become one of shape {shape} with {sparse_dim}; sparse_resize_and_clear_ drops its entries"
            )
        if shape[sparse_dim:] != self.shape[sparse_dim:]:
            raise RuntimeError(f"sparse_resize_: entries keep their shape {self.shape[sparse_dim:]}")
        self._aux = Coo(pattern.indices, shape[:sparse_dim], pattern.coalesced)
        return self

    def sparse_resize_and_clear_(self, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Self:
        """Give the tensor another size, in place, and no entries."""
        self._coo("sparse_resize_and_clear_")
        shape = tuple(int(n) for n in size)
        if sparse_dim + dense_dim != len(shape):
            raise RuntimeError(
                f"sparse_resize_and_clear_: {sparse_dim} and {dense_dim} dimensions are not those of {shape}"
            )
        none = P.reshape(P.slice(self._array.detach(), index=(slice(0, 0),)), shape=(0, *shape[sparse_dim:]))
        indices = P.slice(self._aux.positions()[0], index=(slice(0, 0),))
        self._array = none
        self._aux = Coo(P.stack(*[indices] * sparse_dim, dim=0), shape[:sparse_dim], True)
        return self

    def write(self, name: str, compute: Callable[[Any], Any], others: Sequence[Any]) -> Self:
        """Become `compute` of this tensor: in the memory of the values where entries stay where they are."""
        recorded = modes.recording.get() and any(isinstance(t, Tensor) and t.requires_grad for t in (self, *others))
        new = compute(self.with_values(P.clone(self._array) if recorded else self._array))
        if not isinstance(new, Sparse) or new.shape != self.shape or new.sparse_dim() != self.sparse_dim():
            what = f"a {'sparse' if isinstance(new, Sparse) else 'dense'} tensor of shape {new.shape}"
            raise RuntimeError(f"{name}: the result is {what} and cannot be written into a sparse one of {self.shape}")
        if not dtypes.can_cast(new.dtype, self.dtype):
            raise RuntimeError(f"{name}: a result of type {new.dtype} cannot be written into a tensor of {self.dtype}")
        new = new.in_layout(self.layout)
        if new._aux == self._aux:
            self._array.copy_(new._array)
            return self
        if recorded:
            raise_if_leaf(self._array, name)
        self._array, self._aux = new._array.to(self.dtype), new._aux
        return self

    def filled(self, value: Any, kind: Any, requires_grad: bool) -> "Sparse":
        """One value for each entry, of a type; where it is 0 or no matter, coordinates have no entries."""
        pattern = self._aux
        if value == 0 or (value is None and isinstance(pattern, Coo)):
            values = P.cast(self._array.detach(), dtype=kind, source=self.np_dtype)
            found = Sparse.make(values, pattern)
            found.zero_()
        elif isinstance(pattern, Coo):
            raise NotImplementedError(
                "a sparse tensor of coordinates has no other elements than 0 without its entries; call to_dense() first, or "
                "take values()"
            )
        else:
            array = empty(self._array.shape, kind) if value is None else full(self._array.shape, value, kind)
            found = Sparse.make(of_class((self._array,), Tensor._wrap(array)), pattern)
        return found.requires_grad_() if requires_grad else found

    def _raise_if_read_only(self, name: str) -> None:
        raise RuntimeError(f"{name}: a sparse tensor has no memory that can be written; write to its values")

    # Copies.

    def __copy__(self) -> "Sparse":
        out = self.with_values(self._array)
        out.__setstate__(users_attributes(self) or {})
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sparse":
        values = self._array.detach().clone().requires_grad_(self._array.requires_grad)
        memo[id(self)] = out = self.with_values(values)
        out.__setstate__(deepcopy(users_attributes(self) or {}, memo))
        return out

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Sparse.make, (self._array, self._aux), users_attributes(self)

    def __repr__(self) -> str:
        values = repr(self._array)
        kind, _, _ = values.partition("(")
        home = "torch" if kind == "tensor" else "lucid"
        pattern = self._aux
        parts: list[tuple[str, Tensor]] = (
            [("indices", pattern.indices)]
            if isinstance(pattern, Coo)
            else [("crow_indices", pattern.crow), ("col_indices", pattern.col)]
            if isinstance(pattern, Csr)
            else [("ccol_indices", pattern.across.crow), ("row_indices", pattern.across.col)]
        )
        texts = [(name, repr(part)) for name, part in parts]
        texts = [(name, f"{kind}({text.partition('(')[2]}") for name, text in texts]
        texts.append(("values", repr(self._array.detach())))
        indent = " " * (len(kind) + 1)
        lines = [f"{name}={text.replace(chr(10), chr(10) + indent + ' ' * (len(name) + 1))}" for name, text in texts]
        notes = f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={home}.{self.layout.name}"
        if self.grad_fn is not None:
            notes += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            notes += ", requires_grad=True"
        below = f",\n{indent}"
        return f"{kind}({below.join(lines)}{below if self.is_sparse else ', '}{notes})"


def sparse_operands(args: Sequence[Any]) -> list[Sparse]:
    """Those among operands that are sparse."""
    return [a for a in args if isinstance(a, Sparse)]
