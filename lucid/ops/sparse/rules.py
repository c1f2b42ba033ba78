"""What primitives make of sparse operands, in terms of values and positions.

The result is sparse where it is 0 wherever no operand has an entry; the sum with a dense tensor is dense.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from lucid.core.arrays import any_nonzero, counted, full, question, zeros
from lucid.core.dtypes import INT64
from lucid.core.tensor import Tensor
from lucid.ops.contraction import Labels, labelled
from lucid.ops.rules import P, broadcast_to, conj, np_dtype
from lucid.ops.sparse import products as products
from lucid.ops.sparse.layout import sparse_coo, sparse_csr
from lucid.ops.sparse.tensor import (
    RULES,
    Coo,
    Csc,
    Csr,
    Sparse,
    distinct_positions,
    entries_by,
    held,
    row_of_each,
    same_elements,
    sparse_operands,
)

common_positions = question("common_positions")  # (x, y, shape): where positions that both have stand in each
joined_entries = question("joined_entries")  # (crow, col, crow of another): pairs whose products make up that of both


_WIDE = 8  # columns from which on bringing compressed columns into rows costs less than sums that meet in one row


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what primitives of these names make of sparse operands."""

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declared


def _refuse(name: str, why: str) -> NotImplementedError:
    return NotImplementedError(f"{name}: {why}; call to_dense() first")


# --- functions of single elements --------------------------------------------------------------


@rule("elementwise")
def _elementwise(prim: Any, *args: Any, **params: Any) -> Any:
    """A function of single elements that is 0 for 0: that of the entries."""
    x, *more = sparse_operands(args)
    if more or any(isinstance(a, Tensor) and a is not x for a in args):
        raise _refuse(prim.name, "of a sparse tensor and another tensor, only sums, products and quotients are defined")
    zero = Tensor._wrap(zeros((), np_dtype(x)))
    if any_nonzero(prim(*[zero if a is x else a for a in args], **params)._array):
        raise _refuse(prim.name, "its value at 0 is not 0, so that the result of a sparse tensor would not be sparse")
    whole = x.coalesce()
    return whole.with_values(prim(*[whole._array if a is x else a for a in args], **params))


def _linear(prim: str, x: Sparse, **params: Any) -> Sparse:
    return x.with_values(getattr(P, prim)(x._array, **params))


RULES.update({name: partial(_linear, name) for name in ("neg", "cast", "clone", "alias")})


def _at_positions(x: Any, like: Sparse, name: str) -> Any:
    """A dense tensor at the positions of a sparse one; what has one element as it is."""
    if not isinstance(x, Tensor) or not x.ndim:
        return x
    if np.broadcast_shapes(x.shape, like.shape) != like.shape:
        raise RuntimeError(f"{name}: a tensor of shape {x.shape} does not fit a sparse one of shape {like.shape}")
    return P.index(broadcast_to(x, like.shape), *like._aux.positions())


def _product(name: str, x: Any, y: Any) -> Sparse:
    multiply = getattr(P, name)
    if not isinstance(x, Sparse):
        return y.with_values(multiply(_at_positions(x, y, name), y._array))
    if not isinstance(y, Sparse):
        return x.with_values(multiply(x._array, _at_positions(y, x, name)))
    if x.shape != y.shape or x.dense_dim() != y.dense_dim():
        raise RuntimeError(f"{name}: sparse tensors of shapes {x.shape} and {y.shape} do not fit")
    x, y = x.coalesce(), y.coalesce()
    if x._aux == y._aux:
        return x.with_values(multiply(x._array, y._array))
    layout = x.layout
    x, y = x.to_sparse_coo(), y.to_sparse_coo()
    pattern = x._aux
    mine, theirs = common_positions(held(x._indices(), name), held(y._indices(), name), pattern.shape)
    mine, theirs = Tensor._wrap(mine), Tensor._wrap(theirs)
    values = multiply(P.index(x._array, mine), P.index(y._array, theirs))
    indices = P.stack(*[P.index(p, mine) for p in pattern.positions()], dim=0)
    return Sparse.make(values, Coo(indices, pattern.shape, True)).in_layout(layout)


RULES.update({name: partial(_product, name) for name in ("mul", "chain", "chain_both")})


@rule("div")
def _quotient(x: Any, y: Any) -> Sparse:
    if isinstance(y, Sparse):
        raise _refuse("div", "most elements of a sparse divisor are 0")
    return x.with_values(P.div(x._array, _at_positions(y, x, "div")))


def _sum_of(name: str, x: Any, y: Any) -> Any:
    if isinstance(x, Sparse) and isinstance(y, Sparse):
        return _joined(name, x, y if name == "add" else y.with_values(-y._array))
    dense = y if isinstance(x, Sparse) else x
    if not isinstance(dense, Tensor):
        raise _refuse(name, "the sum of a sparse tensor and a number is dense")
    x, y = (t.to_dense() if isinstance(t, Sparse) else t for t in (x, y))
    return getattr(P, name)(x, y)


RULES.update({name: partial(_sum_of, name) for name in ("add", "sub")})


def _joined(name: str, x: Sparse, y: Sparse) -> Sparse:
    """All entries of both, which add up where they meet."""
    if x.shape != y.shape or x.dense_dim() != y.dense_dim():
        raise RuntimeError(f"{name}: sparse tensors of shapes {x.shape} and {y.shape} do not fit")
    if x._aux is y._aux:
        return x.with_values(x._array + y._array)
    layout = _common_layout((x, y))
    x, y = x.to_sparse_coo(), y.to_sparse_coo()
    indices = P.cat(x._indices(), y._indices(), dim=1)
    return Sparse.make(P.cat(x._array, y._array, dim=0), Coo(indices, x._aux.shape, False)).in_layout(layout)


def _common_layout(xs: Sequence[Sparse]) -> Any:
    """How what is put together of some is stored: as all of them are, or by coordinates."""
    first = xs[0].layout
    return first if all(x.layout == first for x in xs) else sparse_coo


def _sum_with_factor(name: str, x: Any, y: Any, alpha: Any) -> Any:
    return _sum_of(name, x, P.mul(y, alpha))


RULES.update({f"{name}_scaled": partial(_sum_with_factor, name) for name in ("add", "sub")})


# --- sums and rows -----------------------------------------------------------------------------


@rule("sum")
def _sum(x: Sparse, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Over all sparse dimensions the sum is dense, and otherwise sparse."""
    count = x.sparse_dim()
    kept = [d for d in range(count) if d not in dims]
    values = P.sum(x._array, dims=tuple([d - count + 1 for d in dims if d >= count]), keepdim=keepdim)
    if not kept:
        total = P.sum(values, dims=(0,), keepdim=False)
        return P.reshape(total, shape=(*(1,) * count, *total.shape)) if keepdim else total
    if len(kept) == count:
        return x.with_values(values)
    positions = [P.cast(p, dtype=INT64, source=np_dtype(p)) for p in x._aux.positions()]
    nothing = Tensor._wrap(zeros((x._nnz(),), INT64))
    rows = [positions[d] if d in kept else nothing for d in range(count) if keepdim or d in kept]
    shape = tuple([x.shape[d] if d in kept else 1 for d in range(count) if keepdim or d in kept])
    return Sparse.make(values, Coo(P.stack(*rows, dim=0), shape, False)).coalesce()


def _segments(x: Sparse, dim: int) -> tuple[Tensor, int]:
    """For each entry which of the lines along a dimension it is in, and how many there are."""
    others = [p for d, p in enumerate(x._aux.positions()) if d != dim]
    shape = tuple([n for d, n in enumerate(x._aux.shape) if d != dim])
    if len(others) == 1:
        return others[0], shape[0]
    if not others:
        return Tensor._wrap(zeros((x._nnz(),), INT64)), 1
    found, order, starts = distinct_positions(held(P.stack(*others, dim=0), "softmax"), shape)
    which = counted(x._nnz(), 0, 1, INT64) if starts is None else row_of_each(starts)
    return P.index_back(Tensor._wrap(which), Tensor._wrap(order), shape=(x._nnz(),)), found.shape[1]


def _normalised(log: bool, x: Sparse, dim: int) -> Sparse:
    """exp(x) / Σ exp(x) over the entries along a dimension, or its logarithm: where there is no entry, x counts as -inf."""
    x = x.coalesce()
    if dim >= x.sparse_dim():
        prim = P.log_softmax if log else P.softmax
        return x.with_values(prim(x._array, dim=dim - x.sparse_dim() + 1))
    line, count = _segments(x, dim)
    values, shape = x._array, (count, *x._array.shape[1:])
    low = Tensor._wrap(full(shape, -np.inf, np_dtype(values)))
    top = P.index(P.index_amax(low, values.detach(), line, include_self=True), line)
    shifted = values - P.where(
        P.abs(top) == np.inf, 0, top
    )  # a constant for derivatives: softmax does not depend on it
    powers = P.exp(shifted)
    total = P.index(P.index_back(powers, line, shape=shape), line)
    return x.with_values(shifted - P.log(total) if log else powers / total)


RULES.update({"softmax": partial(_normalised, False), "log_softmax": partial(_normalised, True)})


@rule("permute")
def _permute(x: Sparse, dims: tuple[int, ...]) -> Sparse:
    count = x.sparse_dim()
    if dims == tuple(range(x.ndim)):
        return x
    if set(dims[:count]) != set(range(count)):
        raise _refuse("permute", "sparse and dense dimensions do not change places")
    pattern = x._aux
    if isinstance(pattern, Csr):
        return x.with_pattern(Csc(pattern))
    if isinstance(pattern, Csc):
        return x.with_pattern(pattern.across)
    values = P.permute(x._array, dims=(0, *[d - count + 1 for d in dims[count:]]))
    if dims[:count] == tuple(range(count)):
        return x.with_values(values)
    positions = pattern.positions()
    indices = P.stack(*[positions[d] for d in dims[:count]], dim=0)
    return Sparse.make(values, Coo(indices, tuple([pattern.shape[d] for d in dims[:count]]), False))


@rule("slice")
def _slice(x: Sparse, index: tuple[Any, ...]) -> Any:
    """Rows and other parts by numbers and slices without steps."""
    count = x.sparse_dim()
    if any(i is None or (isinstance(i, slice) and i.step not in (None, 1)) for i in index):
        raise _refuse("indexing", "of a sparse tensor, numbers and slices without steps show a part")
    index = (*index, *[slice(None)] * (x.ndim - len(index)))
    bounds = [(i, i + 1) if isinstance(i, int) else i.indices(n)[:2] for i, n in zip(index, x.shape, strict=True)]
    bounds = [(a % n if n else a, a % n + 1) if isinstance(i, int) else (a, max(a, b))
              for i, (a, b), n in zip(index, bounds, x.shape, strict=True)]  # fmt: skip
    inner = (slice(None), *index[count:])
    if isinstance(x._aux, Csr) and bounds[1] == (0, x.shape[1]) and not isinstance(index[1], int):
        rows = _some_rows(x, *bounds[0])
        if isinstance(index[0], slice):
            return rows
        x, index, bounds = rows.to_sparse_coo(), (0, *index[1:]), [(0, 1), *bounds[1:]]
    return _part(x.to_sparse_coo(), index[:count], bounds[:count], inner)


def _some_rows(x: Sparse, first: int, last: int) -> Sparse:
    """Rows of a matrix in compressed rows: its entries lie side by side."""
    pattern: Any = x._aux
    start, stop = int(pattern.crow[first]), int(pattern.crow[last])
    among = (slice(start, stop),)
    crow = P.slice(pattern.crow, index=(slice(first, last + 1),)) - start
    return Sparse.make(
        P.slice(x._array, index=among), Csr(crow, P.slice(pattern.col, index=among), (last - first, x.shape[1]))
    )


def _part(x: Sparse, index: tuple[Any, ...], bounds: list[tuple[int, int]], inner: tuple[Any, ...]) -> Any:
    positions = x._aux.positions()
    inside: Any = None
    for place, (a, b), n in zip(positions, bounds, x._aux.shape, strict=True):
        if (a, b) != (0, n):
            fits = (place >= a) & (place < b)
            inside = fits if inside is None else inside & fits
    chosen = None if inside is None else inside.nonzero().reshape(-1)
    values = P.slice(x._array if chosen is None else P.index(x._array, chosen), index=inner)
    rows = [
        (place if chosen is None else P.index(place, chosen)) - a
        for place, (a, _), i in zip(positions, bounds, index, strict=True)
        if isinstance(i, slice)
    ]
    if not rows:
        return P.sum(values, dims=(0,), keepdim=False)
    shape = tuple([b - a for (a, b), i in zip(bounds, index, strict=True) if isinstance(i, slice)])
    return Sparse.make(values, Coo(P.stack(*rows, dim=0), shape, x._aux.coalesced))


@rule("overwrite")
def _overwrite(x: Any, y: Any) -> Sparse:
    if not isinstance(x, Sparse) or not isinstance(y, Sparse):
        raise _refuse("copy_", "a sparse tensor is copied into a sparse one")
    return _linear("clone", y).in_layout(x.layout)


@rule("cat")
def _cat(*xs: Any, dim: int) -> Sparse:
    if not all(isinstance(x, Sparse) and x.sparse_dim() == xs[0].sparse_dim() for x in xs):
        raise _refuse("cat", "sparse tensors are joined with sparse ones that have as many sparse dimensions")
    if dim >= xs[0].sparse_dim():
        return _cat_entries(xs, dim)
    layout = _common_layout(xs)
    xs = tuple([x.to_sparse_coo() for x in xs])
    offset, columns = 0, []
    for x in xs:
        places = x._aux.positions()
        places[dim] = places[dim] + offset
        columns.append(P.stack(*places, dim=0))
        offset += x.shape[dim]
    shape = xs[0]._aux.shape
    whole = Coo(P.cat(*columns, dim=1), (*shape[:dim], offset, *shape[dim + 1 :]), False)
    return Sparse.make(P.cat(*[x._array for x in xs], dim=0), whole).in_layout(layout)


def _cat_entries(xs: Sequence[Sparse], dim: int) -> Sparse:
    """Along a dimension of entries: each has zeros where those of others are."""
    xs = [x.to_sparse_coo() for x in xs]
    place, sizes = dim - xs[0].sparse_dim() + 1, [x.shape[dim] for x in xs]
    values = []
    for k, x in enumerate(xs):
        around = [sum(sizes[:k]), sum(sizes[k + 1 :])]
        shapes = [(*x._array.shape[:place], n, *x._array.shape[place + 1 :]) for n in around]
        before, after = (Tensor._wrap(zeros(shape, np_dtype(x))) for shape in shapes)
        values.append(P.cat(before, x._array, after, dim=place))
    indices = P.cat(*[x._indices() for x in xs], dim=1)
    return Sparse.make(P.cat(*values, dim=0), Coo(indices, xs[0]._aux.shape, False))


@rule("stack")
def _stack(*xs: Any, dim: int) -> Sparse:
    return _cat(
        *[_reshape(x, (*x.shape[:dim], 1, *x.shape[dim:])) if isinstance(x, Sparse) else x for x in xs], dim=dim
    )


@rule("reshape")
def _reshape(x: Sparse, shape: tuple[int, ...]) -> Sparse:
    """Other dimensions of positions, and of entries: as many positions, and as many elements of each entry, as before."""
    if shape == x.shape:
        return x
    size, each = math.prod(x._aux.shape), x._array.shape[1:]
    fits = [k for k in range(1, len(shape) + 1) if math.prod(shape[:k]) == size]
    fits = [k for k in fits if math.prod(shape[k:]) == math.prod(each) and (each or k == len(shape))]
    if not fits or not size:
        raise _refuse("reshape", f"a sparse tensor of shape {x.shape} does not become one of shape {shape}")
    count = fits[-1]
    x = x.to_sparse_coo()
    values = P.reshape(x._array, shape=(x._nnz(), *shape[count:]))
    return Sparse.make(values, Coo(_places(x._aux, shape[:count]), shape[:count], x._aux.coalesced))


def _places(pattern: Any, shape: tuple[int, ...]) -> Tensor:
    """The same elements in another shape: by their number, counted row by row."""
    number: Any = 0
    for place, n in zip(pattern.positions(), pattern.shape, strict=True):
        number = number * n + place
    found = []
    for n in reversed(shape):
        found.append(number % n)
        number = number // n
    return P.stack(*found[::-1], dim=0)


@rule("index")
def _index(x: Sparse, *index: Tensor) -> Sparse:
    """Slices at the positions that a vector has along one sparse dimension; before it, all are asked for in order."""
    *whole, chosen = index
    dim = len(whole)
    if (
        dim >= x.sparse_dim()
        or chosen.ndim != 1
        or not all(_is_whole(i, n) for i, n in zip(whole, x.shape, strict=False))
    ):
        raise _refuse("indexing", "of a sparse tensor, one vector of positions along a sparse dimension shows slices")
    layout, x = x.layout, x.to_sparse_coo()
    pattern = x._aux
    crow, order = entries_by(pattern.positions()[dim], pattern.shape[dim])
    count = chosen.shape[0]
    pairs = joined_entries(counted(count + 1, 0, 1, INT64), held(chosen, "index_select"), held(crow, "index_select"))
    place, which = (Tensor._wrap(p) for p in pairs)
    taken = P.index(order, which)
    rows = [P.index(p, taken) for p in pattern.positions()]
    rows[dim] = place
    shape = (*pattern.shape[:dim], count, *pattern.shape[dim + 1 :])
    return Sparse.make(P.index(x._array, taken), Coo(P.stack(*rows, dim=0), shape, False)).in_layout(layout)


def _is_whole(index: Tensor, size: int) -> bool:
    """Whether positions are all of a dimension, in order."""
    return index.numel() == size == index.shape[0] and bool(
        same_elements(held(P.reshape(index, shape=(size,)), "index_select"), counted(size, 0, 1, INT64))
    )


def _of_all(name: str, x: Sparse, dims: tuple[int, ...], keepdim: bool, **params: Any) -> Any:
    """A reduction to which elements without an entry add nothing."""
    if len(dims) != x.ndim:
        raise _refuse(name, "it is known of all elements of a sparse tensor, and not along some dimensions")
    values = x.coalesce()._array
    found = getattr(P, name)(values, dims=tuple(range(values.ndim)), keepdim=False, **params)
    return P.reshape(found, shape=(1,) * x.ndim) if keepdim else found


RULES["any"] = partial(_of_all, "any")


@rule("norm")
def _norm(x: Sparse, p: float, dims: tuple[int, ...], keepdim: bool, **params: Any) -> Any:
    if p <= 0:
        raise _refuse("norm", f"elements without an entry count in the norm of order {p}")
    return _of_all("norm", x, dims, keepdim, p=p, **params)


# --- products ----------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """How the product of a sparse matrix and a dense tensor is that with a dense matrix."""

    summed: int  # the dimension of the sparse matrix over which it goes
    place: int  # that of the dense tensor
    order: tuple[int, ...] | None  # the dimensions of the result, where they are not those that come out


@cache
def _plan(labels: Labels) -> _Plan:
    (summed,) = [c for c in labels.left if c in labels.right]
    found = labels.left.replace(summed, "") + labels.right.replace(summed, "")
    order = tuple([found.index(c) for c in labels.out])
    where = labels.left.index(summed), labels.right.index(summed)
    return _Plan(*where, None if order == tuple(range(len(order))) else order)


@cache
def _is_over_one(labels: Labels) -> bool:
    shared = [c for c in labels.left if c in labels.right]
    return len(shared) == 1 and shared[0] not in labels.out


@rule("contract")
def _contract(x: Any, y: Any, labels: Labels) -> Any:
    if not isinstance(x, Sparse):
        swapped = labelled(labels.right, labels.left, labels.out, labels.conj_right, labels.conj_left)
        return _contract(y, x, swapped)
    if x.sparse_dim() == 3 and not x.dense_dim() and not isinstance(y, Sparse) and _is_batch(labels):
        return _batch_product(x, y, labels)
    if x.dense_dim() or x.sparse_dim() != 2 or not _is_over_one(labels):
        raise _refuse("matmul", f"products of sparse matrices are over one dimension, not {labels}")
    if isinstance(y, Sparse):
        return _sparse_product(x, y, labels)
    summed, place, order = _plan(labels)
    pattern, values = x._aux, x._array
    if isinstance(pattern, Csc) and y.numel() < _WIDE * pattern.shape[summed]:
        pattern, summed = pattern.across, 1 - summed
    crow, col, moved = pattern.compressed()
    values = values if moved is None else P.index(values, moved)
    values, y = (conj(values) if labels.conj_left else values), (conj(y) if labels.conj_right else y)
    front = P.permute(y, dims=(place, *[d for d in range(y.ndim) if d != place])) if place else y
    flat = front if front.ndim == 2 else P.reshape(front, shape=(front.shape[0], math.prod(front.shape[1:])))
    if summed == 1:
        out = P.csr_matmul(crow, col, values, flat)
    else:
        out = P.csr_matmul_back(crow, col, values, flat, columns=pattern.shape[1])
    out = out if front.ndim == 2 else P.reshape(out, shape=(out.shape[0], *front.shape[1:]))
    return out if order is None else P.permute(out, dims=order)


def _is_batch(labels: Labels) -> bool:
    """Whether it is the product of each matrix of a batch with its own."""
    left, right = labels.left, labels.right
    return len(right) == 3 and right[:2] == left[0] + left[2] and labels.out == left[:2] + right[2]


def _batch_product(x: Sparse, y: Any, labels: Labels) -> Any:
    """As the product of one matrix, with those of the batch along its diagonal, and one with more rows."""
    size, rows, columns = x.shape
    batch, row, col = x._aux.positions()
    places = P.stack(batch * rows + row, batch * columns + col, dim=0)
    whole = x.with_pattern(Coo(places, (size * rows, size * columns), x._aux.coalesced))
    below = P.reshape(y, shape=(size * columns, y.shape[2]))
    out = _contract(whole, below, labelled("ij", "jk", "ik", labels.conj_left, labels.conj_right))
    return P.reshape(out, shape=(size, rows, y.shape[2]))


def _sparse_product(x: Sparse, y: Sparse, labels: Labels) -> Sparse:
    """The product of two sparse matrices, from the products of all pairs of entries that meet."""
    if y.dense_dim() or y.sparse_dim() != 2:
        raise _refuse("matmul", f"products of sparse tensors are those of matrices, not of shape {y.shape}")
    layout = sparse_coo if x.is_sparse else sparse_csr
    summed, place, order = _plan(labels)
    left = x if summed == 1 else _permute(x, (1, 0))
    right = y if place == 0 else _permute(y, (1, 0))
    crow, col, values = left.compressed()
    other_crow, other_col, others = right.compressed()
    values, others = (conj(values) if labels.conj_left else values), (conj(others) if labels.conj_right else others)
    pairs = joined_entries(*[held(i, "matmul") for i in (crow, col, other_crow)])
    mine, theirs = (Tensor._wrap(p) for p in pairs)
    rows = Csr(crow, col, left._aux.shape).positions()[0]
    places = [P.index(rows, mine), P.index(other_col, theirs)]
    places = [P.cast(p, dtype=INT64, source=np_dtype(p)) for p in places]
    products = P.mul(P.index(values, mine), P.index(others, theirs))
    shape = (left.shape[0], right.shape[1])
    out = Sparse.make(products, Coo(P.stack(*places, dim=0), shape, False)).coalesce()
    return (out if order is None else _permute(out, order)).in_layout(layout)
