"""Elements chosen, replaced or combined by index tensors and masks: gather and scatter in all their forms.

Values that meet at one place are folded by `index_amax`, `index_amin` and `index_prod`, which are to
`index_put` what the reductions are to `sum`.
"""

import math
from typing import Any

import numpy as np

from lucid.api.counting import static_positions, taken_or
from lucid.api.indexing import Put, are_alone, fill_where, is_common, is_mask_of, mask_positions
from lucid.arguments import promotion
from lucid.arguments.dims import broadcast_shapes, numpy_names, one_dim
from lucid.arguments.out import memory_of, note_write, takes_out
from lucid.arguments.promotion import beside, cast, exact
from lucid.core import dtypes
from lucid.core.primitive import apply, constant, element_type, lift
from lucid.core.tensor import Tensor, is_plain, of_class, shape_of, wrapped
from lucid.ops.indexing import along, in_range, index_primitive, index_put_primitive, nonzero_positions
from lucid.ops.rules import P, broadcast_to
from lucid.ops.scatter import overwritten
from lucid.tape.inplace import write


def _same_type(x: Tensor, source: Tensor, name: str) -> None:
    if element_type(source) is not element_type(x) and source.np_dtype != x.np_dtype:
        raise RuntimeError(
            f"{name}: values of {source.dtype} for a tensor of {x.dtype}; the types must agree, "
            f"as with .to(lucid.{x.dtype.name})"
        )


def _scalar(x: Tensor, value: Any, name: str) -> Tensor:
    """A number or 0-d tensor in the type of `x`."""
    kind = element_type(x)
    if is_common(value, kind):
        return wrapped(constant(value, kind))
    promotion.raise_if_outside(value, x.np_dtype, name)
    source = exact(value)
    if source.ndim:
        raise RuntimeError(f"{name}: the value must be a number or a 0-d tensor, not of shape {source.shape}")
    if source.is_complex() and not x.is_complex():
        raise RuntimeError(f"{name}: a complex value cannot be written into a tensor of {x.dtype}")
    return cast(source, x.np_dtype)


def _sizes(x: Tensor) -> tuple[int, ...]:
    """The shape, with 0-d tensors taken as vectors of one element."""
    return shape_of(x) or (1,)


def _grid(x: Tensor, dim: int, index: Any, name: str) -> tuple[tuple[int, ...], list[Tensor]]:
    """The index's shape, and positions for every dimension: `index` along `dim`, each element's own elsewhere."""
    sizes = _sizes(x)
    d = one_dim(dim, len(sizes), name)
    i = lift(index)
    shape = shape_of(i)
    if shape != sizes:
        i = _fitting(i, sizes, d, name)
        shape = shape_of(i)
    return shape, along(in_range(i, sizes[d], name, False), shape, d)


def _fitting(i: Tensor, sizes: tuple[int, ...], dim: int, name: str) -> Tensor:
    """An index of another shape than its input, if there is an element for each of its positions."""
    shape = shape_of(i)
    if 0 in shape:
        return P.reshape(i, shape=(0, *(1,) * (len(sizes) - 1)))
    if not shape:
        i, shape = P.reshape(i, shape=(1,)), (1,)
    if len(shape) != len(sizes):
        raise RuntimeError(f"{name}: the index has {len(shape)} dimensions and the input {len(sizes)}; they must agree")
    for d, n in enumerate(shape):
        if d != dim and n > sizes[d]:
            raise RuntimeError(f"{name}: an index of shape {shape} reaches outside the input's shape {sizes}")
    return i


def _scatter_source(x: Tensor, shape: tuple[int, ...], src: Any, name: str, spreads: bool = False) -> Tensor:
    """The part of `src` that an index of this shape covers. If it `spreads`, one value may be for all places."""
    source = src if isinstance(src, Tensor) else beside(src, x.np_dtype)
    _same_type(x, source, name)
    own = shape_of(source)
    if own == shape or (spreads and not own):
        return source
    if 0 in shape:
        return Tensor._wrap(np.zeros(shape, x.np_dtype))
    if not own:
        source, own = P.reshape(source, shape=(1,)), (1,)
    part = []
    for d, n in enumerate(shape):
        if len(own) != len(shape) or own[d] < n:
            raise RuntimeError(f"{name}: src of shape {own} is too small for an index of shape {shape}")
        part.append(slice(0, n))
    return apply(P.slice, (source,), {"index": tuple(part)})


@numpy_names
def gather(input: Any, dim: int, index: Any) -> Tensor:
    """Elements at `index` along `dim`: out[i][j] = input[index[i][j]][j] for dim 0 of a matrix.

    >>> import lucid
    >>> lucid.gather(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, lucid.tensor([[0, 0], [1, 0]]))
    Tensor([[1., 1.],
            [4., 3.]])
    """
    x, i = lift(input), lift(index)
    shape, positions = _grid(x, dim, i, "gather")
    found = apply(index_primitive, (x if shape_of(x) else P.reshape(x, shape=(1,)), *positions), {})
    wanted = shape_of(i)
    return found if shape == wanted else P.reshape(found, shape=wanted)


def _written(x: Tensor, src: Any, value: Any, name: str) -> Tensor:
    """What scatter writes: a tensor, or a number as a 0-d one."""
    if (src is None) == (value is None):
        raise TypeError(f"{name}: give either src or value, and only one of them")
    if isinstance(src, Tensor):
        return src
    if isinstance(src, (np.ndarray, list, tuple)):
        return beside(src, x.np_dtype)
    return _scalar(x, value if src is None else src, name)


def _scatter(x: Tensor, dim: int, index: Any, src: Any, combine: str | None, name: str) -> Put:
    shape, positions = _grid(x, dim, index, name)
    return Put(name, positions, _scatter_source(x, shape, src, name, combine is None), combine, fits=True)


def _scattered(x: Tensor, dim: int, index: Any, src: Any, accumulate: bool, name: str) -> Tensor:
    if not shape_of(x):
        return P.reshape(_scattered(P.reshape(x, shape=(1,)), dim, index, src, accumulate, name), shape=())
    shape, positions = _grid(x, dim, index, name)
    operands = (x, _scatter_source(x, shape, src, name, not accumulate), *positions)
    return apply(index_put_primitive, operands, {"accumulate": accumulate})


def _spread(source: Tensor, index: Any) -> Tensor:
    return source if source.ndim else broadcast_to(source, lift(index).shape)


_SCATTER_REDUCTIONS = {"add": "add", "multiply": "mul"}


def _combine(reduce: str, name: str) -> str:
    if reduce not in _SCATTER_REDUCTIONS:
        raise RuntimeError(f"{name}: reduce must be 'add' or 'multiply', not {reduce!r}; see also scatter_reduce")
    return _SCATTER_REDUCTIONS[reduce]


@numpy_names
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """A copy with the elements of `src`, or one `value`, written at `index` along `dim`: the reverse of gather.

    `reduce` "add" or "multiply" combines them with what is there. Of several writes to one place the last counts.

    >>> import lucid
    >>> lucid.scatter(lucid.zeros(4), 0, lucid.tensor([3, 0]), lucid.tensor([1.0, 2.0]))
    Tensor([2., 0., 0., 1.])
    """
    x = lift(input)
    source = _written(x, src, value, "scatter")
    if reduce is not None:
        return _scatter(x, dim, index, _spread(source, index), _combine(reduce, "scatter"), "scatter").of(x)
    return _scattered(x, dim, index, source, False, "scatter")


@numpy_names
def scatter_(
    self: Tensor, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """In-place form of `scatter`.

    >>> import lucid
    >>> lucid.zeros(3).scatter_(0, lucid.tensor([1]), 5.0)
    Tensor([0., 5., 0.])
    """
    source = _written(self, src, value, "scatter_")
    if reduce is not None:
        combine = _combine(reduce, "scatter_")
        return _scatter(self, dim, index, _spread(source, index), combine, "scatter_").into(self)
    return _scatter(self, dim, index, source, None, "scatter_").into(self)


@numpy_names
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """A copy with the elements of `src` added at `index` along `dim`.

    >>> import lucid
    >>> lucid.scatter_add(lucid.ones(3), 0, lucid.tensor([0, 0, 2]), lucid.tensor([1.0, 2.0, 3.0]))
    Tensor([4., 1., 4.])
    """
    return _scattered(lift(input), dim, index, src, True, "scatter_add")


@numpy_names
def scatter_add_(self: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    """In-place form of `scatter_add`.

    >>> import lucid
    >>> lucid.zeros(2).scatter_add_(0, lucid.tensor([1, 1]), lucid.tensor([1.0, 2.0]))
    Tensor([0., 3.])
    """
    return _scatter(self, dim, index, src, "add", "scatter_add_").into(self)


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
# Those that put together two elements at a time, and the functions that do.
_COMBINED = {"sum": "add", "prod": "mul", "amax": "maximum", "amin": "minimum"}
_SLICE_REDUCTIONS = _REDUCTIONS[1:]  # sums are `index_add`


def _scatter_reduce(x: Tensor, dim: int, index: Any, src: Any, reduce: str, include_self: bool, name: str) -> Tensor:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"{name}: reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}")
    shape, positions = _grid(x, dim, index, name)
    source = _scatter_source(x, shape, src, name)
    out = _reduced(x if x.ndim else P.reshape(x, shape=(1,)), positions, source, reduce, include_self)
    return out if x.ndim else P.reshape(out, shape=())


def _reduced(x: Tensor, positions: list[Tensor], source: Tensor, reduce: str, include_self: bool) -> Tensor:
    if reduce in ("amax", "amin"):
        if x.is_complex():
            raise TypeError(f"scatter_reduce: reduce={reduce!r} takes real tensors, not complex ones")
        return (P.index_amax if reduce == "amax" else P.index_amin)(x, source, *positions, include_self=include_self)
    if reduce == "prod":
        return P.index_prod(x if include_self else overwritten(x, positions, 1), source, *positions)
    base = x if include_self else overwritten(x, positions, 0)
    total = P.index_put(base, source, *positions, accumulate=True)
    return total if reduce == "sum" else _per_count(total, positions, source, include_self)


def _per_count(total: Tensor, positions: list[Tensor], source: Tensor, include_self: bool) -> Tensor:
    """Divide what came together at each place by how many elements did."""
    is_integer = total.np_dtype not in dtypes.DIFFERENTIABLE
    count: Any = Tensor._wrap(np.ones(total.shape, dtypes.INT64 if is_integer else dtypes.real_of(total.np_dtype)))
    if not include_self:
        count = overwritten(count, positions, 0)
    count = P.index_put(count, np.ones(source.shape, count.np_dtype), *positions, accumulate=True)
    return cast(total // count, total.np_dtype) if is_integer else total / cast(count, total.np_dtype)


@numpy_names
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str = "sum", *, include_self: bool = True
) -> Tensor:
    """A copy with the elements of `src` combined at `index` along `dim` by sum, prod, mean, amax or amin.

    Without `include_self`, the old elements at those places have no part in it. Equal extremes share the gradient;
    that of prod is exact when some factors are 0.

    >>> import lucid
    >>> x, src = lucid.tensor([1.0, 2.0]), lucid.tensor([5.0, 3.0])
    >>> lucid.scatter_reduce(x, 0, lucid.tensor([0, 0]), src, "mean")
    Tensor([3., 2.])
    """
    return _scatter_reduce(lift(input), dim, index, src, reduce, include_self, "scatter_reduce")


@numpy_names
def scatter_reduce_(self: Tensor, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """In-place form of `scatter_reduce`.

    >>> import lucid
    >>> x, src = lucid.tensor([1.0, 2.0]), lucid.tensor([5.0, 3.0])
    >>> x.scatter_reduce_(0, lucid.tensor([1, 1]), src, "amax")
    Tensor([1., 5.])
    """
    if include_self and reduce in _COMBINED and not (reduce != "sum" and self.is_complex()):
        return _scatter(self, dim, index, src, _COMBINED[reduce], "scatter_reduce_").into(self)
    return write(
        self,
        "scatter_reduce_",
        lambda x: _scatter_reduce(x, dim, index, src, reduce, include_self, "scatter_reduce_"),
        (src,),
    )


def _rows(x: Tensor, dim: int, index: Any, name: str, negative: bool) -> tuple[int, list[Tensor]]:
    """The dimension, and positions: a vector along it, behind each element's own in the dimensions before."""
    sizes = _sizes(x)
    d = one_dim(dim, len(sizes), name)
    i = lift(index)
    rank = len(shape_of(i))
    if rank > 1:
        raise IndexError(f"{name}: the index must be a vector, not of shape {i.shape}")
    rows = in_range(i if rank else P.reshape(i, shape=(1,)), sizes[d], name, negative)
    return d, along(rows, sizes[: d + 1], d)


def _rows_put(x: Tensor, dim: int, index: Any, source: Tensor, combine: str | None, name: str) -> Put:
    """Write slices of `source`, one for each position along `dim`."""
    d, positions = _rows(x, dim, index, name, negative=False)
    _same_type(x, source, name)
    sizes, count = _sizes(x), shape_of(positions[d])[0]
    expected = (*sizes[:d], count, *sizes[d + 1 :])
    if not source.ndim and len(sizes) == 1:
        source = P.reshape(source, shape=(1,))
    if shape_of(source) != expected:
        raise RuntimeError(
            f"{name}: source has shape {source.shape}, but {count} indices along dim {d} "
            f"of a tensor of shape {x.shape} need {expected}"
        )
    return Put(name, positions, source, combine, fits=True)


@numpy_names
def index_select(input: Any, dim: int, index: Any) -> Tensor:
    """The slices at `index`, a vector of positions, along `dim`.

    >>> import lucid
    >>> lucid.index_select(lucid.tensor([[1, 2, 3], [4, 5, 6]]), 1, lucid.tensor([2, 0]))
    Tensor([[3, 1],
            [6, 4]])
    """
    x = lift(input)
    _, positions = _rows(x, dim, index, "index_select", False)
    if not shape_of(x):
        if positions[0].shape != (1,):
            raise RuntimeError(f"index_select: a 0-d tensor takes exactly one index, not {positions[0].shape[0]}")
        return P.clone(x)
    return apply(index_primitive, (x, *positions), {})


def _index_add(x: Tensor, dim: int, index: Any, source: Any, alpha: Any, name: str) -> Put:
    values = beside(source, x.np_dtype)
    return _rows_put(x, dim, index, values if alpha == 1 else values * alpha, "add", name)


@numpy_names
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """A copy with slices of `alpha * source` added at the positions `index` along `dim`.

    >>> import lucid
    >>> lucid.index_add(lucid.zeros(3), 0, lucid.tensor([2, 2]), lucid.tensor([1.0, 2.0]), alpha=10)
    Tensor([ 0.,  0., 30.])
    """
    x = lift(input)
    return _index_add(x, dim, index, source, alpha, "index_add").of(x)


@numpy_names
def index_add_(self: Tensor, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """In-place form of `index_add`.

    >>> import lucid
    >>> lucid.zeros(2).index_add_(0, lucid.tensor([1]), lucid.tensor([4.0]))
    Tensor([0., 4.])
    """
    return _index_add(self, dim, index, source, alpha, "index_add_").into(self)


@numpy_names
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """A copy with slices of `source` written at the positions `index` along `dim`.

    >>> import lucid
    >>> lucid.index_copy(lucid.zeros(3), 0, lucid.tensor([2, 0]), lucid.tensor([1.0, 2.0]))
    Tensor([2., 0., 1.])
    """
    x = lift(input)
    return _rows_put(x, dim, index, beside(source, x.np_dtype), None, "index_copy").of(x)


@numpy_names
def index_copy_(self: Tensor, dim: int, index: Any, source: Any) -> Tensor:
    """In-place form of `index_copy`.

    >>> import lucid
    >>> lucid.zeros(2).index_copy_(0, lucid.tensor([1]), lucid.tensor([4.0]))
    Tensor([0., 4.])
    """
    return _rows_put(self, dim, index, beside(source, self.np_dtype), None, "index_copy_").into(self)


def _index_fill(x: Tensor, dim: int, index: Any, value: Any, name: str) -> Put:
    _, positions = _rows(x, dim, index, name, negative=True)
    return Put(name, positions, _scalar(x, value, name), fits=True)


@numpy_names
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Tensor:
    """A copy with one value at the positions `index` along `dim`.

    >>> import lucid
    >>> lucid.index_fill(lucid.zeros(2, 2), 1, lucid.tensor([-1]), 7.0)
    Tensor([[0., 7.],
            [0., 7.]])
    """
    x = lift(input)
    return _index_fill(x, dim, index, value, "index_fill").of(x)


@numpy_names
def index_fill_(self: Tensor, dim: int, index: Any, value: Any) -> Tensor:
    """In-place form of `index_fill`.

    >>> import lucid
    >>> lucid.zeros(3).index_fill_(0, lucid.tensor([0, 2]), 1.0)
    Tensor([1., 0., 1.])
    """
    return _index_fill(self, dim, index, value, "index_fill_").into(self)


def _index_put(x: Tensor, indices: Any, values: Any, accumulate: bool, name: str) -> Put:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}: indices must be a tuple of index tensors, not {type(indices).__name__}")
    positions: list[Tensor] = []
    for item in indices:
        i = lift(item)
        taken = len(positions)
        needed = taken + (i.ndim if i.np_dtype == dtypes.BOOL else 1)
        if needed > x.ndim:
            raise IndexError(f"{name}: the indices are for {needed} dimensions, but the tensor has shape {x.shape}")
        if i.np_dtype == dtypes.BOOL:
            if not i.ndim:
                raise IndexError(
                    f"{name}: a mask has at least one dimension; to choose all or nothing, use x[mask] = values"
                )
            positions += mask_positions(i, x.shape[taken:needed])
        else:
            positions.append(in_range(i, x.shape[taken], name))
    if not positions:
        raise RuntimeError(f"{name}: at least one index tensor is needed")
    try:
        broadcast_shapes([p.shape for p in positions])
    except ValueError:
        shapes = ", ".join(str(p.shape) for p in positions)
        raise IndexError(f"{name}: index tensors of shapes {shapes} do not broadcast together") from None
    source = values if isinstance(values, Tensor) else cast(exact(values), x.np_dtype)
    _same_type(x, source, name)
    return Put(name, positions, source, "add" if accumulate else None)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy with `values` written, or added, where a tuple of integer tensors and masks points.

    >>> import lucid
    >>> lucid.index_put(lucid.zeros(2, 2), (lucid.tensor([0, 1]), lucid.tensor([1, 0])), lucid.tensor([5.0, 6.0]))
    Tensor([[0., 5.],
            [6., 0.]])
    """
    x = lift(input)
    return _index_put(x, indices, values, accumulate, "index_put").of(x)


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """In-place form of `index_put`.

    >>> import lucid
    >>> lucid.zeros(3).index_put_((lucid.tensor([1, 1]),), lucid.tensor([2.0, 3.0]), accumulate=True)
    Tensor([0., 5., 0.])
    """
    alone = isinstance(indices, (tuple, list)) and len(indices) == 1 and bool(shape_of(self))
    if alone and not accumulate and is_mask_of(self, indices[0]):
        source = values if isinstance(values, Tensor) else cast(exact(values), self.np_dtype)
        if not shape_of(source):
            _same_type(self, source, "index_put_")
            return fill_where(self, indices[0], source, "index_put_")
    return _index_put(self, indices, values, accumulate, "index_put_").into(self)


def take(input: Any, index: Any) -> Tensor:
    """The elements at `index` of the flattened tensor, in the shape of `index`.

    >>> import lucid
    >>> lucid.take(lucid.tensor([[1, 2], [3, 4]]), lucid.tensor([0, -1]))
    Tensor([1, 4])
    """
    x = lift(input)
    return apply(index_primitive, (_flat(x), in_range(lift(index), math.prod(shape_of(x)), "take")), {})


def _mask(mask: Any, name: str) -> Tensor:
    found = lift(mask)
    if element_type(found) is not dtypes.BOOL:
        raise RuntimeError(f"{name}: the mask must be boolean, not {found.dtype}; compare first, as in mask != 0")
    return found


def _common_shape(x: Tensor, mask: Tensor, name: str) -> tuple[int, ...]:
    if shape_of(x) == shape_of(mask):
        return shape_of(x)
    try:
        return broadcast_shapes([x.shape, mask.shape])
    except ValueError:
        raise RuntimeError(f"{name}: a mask of shape {mask.shape} does not fit a tensor of shape {x.shape}") from None


def _raise_if_too_large(x: Tensor, mask: Tensor, name: str) -> None:
    if _common_shape(x, mask, name) != shape_of(x):
        raise RuntimeError(f"{name}: a mask of shape {mask.shape} does not fit a tensor of shape {x.shape}")


def masked_select(input: Any, mask: Any, *, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """The elements where `mask` holds, as a vector; both broadcast.

    With `size`, the first so many of them, and `fill_value` for those that are missing: also in transforms and compiled
    functions, where a shape cannot depend on values.

    >>> import lucid
    >>> x = lucid.tensor([1.0, -2.0, 3.0])
    >>> lucid.masked_select(x, x > 0)
    Tensor([1., 3.])
    >>> lucid.masked_select(x, x > 0, size=3, fill_value=-1)
    Tensor([ 1.,  3., -1.])
    """
    x, chosen = lift(input), _mask(mask, "masked_select")
    shape = _common_shape(x, chosen, "masked_select") or (1,)
    if size is not None:
        count = math.prod(shape)
        places = static_positions(P.reshape(broadcast_to(chosen, shape), shape=(count,)), size, "masked_select")
        flat = P.reshape(broadcast_to(x, shape), shape=(count,))
        return taken_or(flat, places, fill_value, "masked_select")
    holds = chosen._concrete("masked_select")
    places = nonzero_positions(holds if holds.shape == shape else np.broadcast_to(holds, shape), False)
    return apply(index_primitive, (broadcast_to(x, shape), *[wrapped(p) for p in places]), {})


def masked_fill(input: Any, mask: Any, value: Any) -> Tensor:
    """A copy with one value where `mask` holds; both broadcast.

    >>> import lucid
    >>> x = lucid.tensor([1.0, -2.0, 3.0])
    >>> lucid.masked_fill(x, x < 0, 0.0)
    Tensor([1., 0., 3.])
    """
    x, chosen = lift(input), _mask(mask, "masked_fill")
    _common_shape(x, chosen, "masked_fill")
    return P.where(chosen, _scalar(x, value, "masked_fill"), x)


def masked_fill_(self: Tensor, mask: Any, value: Any) -> Tensor:
    """In-place form of `masked_fill`.

    >>> import lucid
    >>> lucid.zeros(2).masked_fill_(lucid.tensor([True, False]), 3.0)
    Tensor([3., 0.])
    """
    chosen, source = _mask(mask, "masked_fill_"), _scalar(self, value, "masked_fill_")
    _raise_if_too_large(self, chosen, "masked_fill_")
    return fill_where(self, chosen, source, "masked_fill_")


def _scatter_where(array: Any, mask: Tensor, source: Tensor, name: str) -> None:
    """Write the elements of `source` in their order where a mask holds."""
    where = np.broadcast_to(mask._array, array.shape) if mask._array.shape != array.shape else mask._array
    count = int(np.count_nonzero(where))
    _raise_if_too_few(count, math.prod(shape_of(source)), name)
    array[where] = source._array.reshape(-1)[:count]


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor, name: str) -> Tensor:
    shape = _common_shape(x, mask, name)
    if shape == shape_of(x) and are_alone(x, mask, source):
        out = P.clone.kernel(x._array)
        _scatter_where(out, mask, source, name)
        return of_class((x, mask, source), wrapped(out))
    x, mask = broadcast_to(x, shape), broadcast_to(mask, shape)
    if is_plain(mask) or not source.numel():
        _raise_if_too_few(int(np.count_nonzero(mask._concrete(name))), source.numel(), name)
    if not source.numel():
        return P.clone(x)
    flat = P.reshape(mask, shape=(mask.numel(),))
    # Each chosen place takes the element whose number is that of the chosen places before it.
    before = P.cumsum(cast(flat, dtypes.INT64), dim=0, reverse=False) - 1
    turn = in_range(P.where(flat, before, 0), source.numel(), name)
    values = P.index(P.reshape(source, shape=(source.numel(),)), turn)
    return P.where(mask, P.reshape(values, shape=shape), x)


def _raise_if_too_few(count: int, size: int, name: str) -> None:
    if count > size:
        raise RuntimeError(f"{name}: the mask selects {count} elements, but source has only {size}")


def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor:
    """A copy with the elements of `source`, in their order, where `mask` holds.

    >>> import lucid
    >>> lucid.masked_scatter(lucid.zeros(3), lucid.tensor([True, False, True]), lucid.tensor([1.0, 2.0]))
    Tensor([1., 0., 2.])
    """
    x = lift(input)
    values = beside(source, x.np_dtype)
    _same_type(x, values, "masked_scatter")
    return _masked_scatter(x, _mask(mask, "masked_scatter"), values, "masked_scatter")


def masked_scatter_(self: Tensor, mask: Any, source: Any) -> Tensor:
    """In-place form of `masked_scatter`.

    >>> import lucid
    >>> lucid.zeros(3).masked_scatter_(lucid.tensor([False, True, True]), lucid.tensor([1.0, 2.0]))
    Tensor([0., 1., 2.])
    """
    chosen, values = _mask(mask, "masked_scatter_"), beside(source, self.np_dtype)
    _same_type(self, values, "masked_scatter_")
    _raise_if_too_large(self, chosen, "masked_scatter_")
    array = memory_of(self, values) if is_plain(chosen) else None
    if array is None:
        return write(
            self, "masked_scatter_", lambda x: _masked_scatter(x, chosen, values, "masked_scatter_"), (values,)
        )
    _scatter_where(array, chosen, values, "masked_scatter_")
    note_write(self, "masked_scatter_")
    return self


def _flat(x: Tensor) -> Tensor:
    shape = shape_of(x)
    return x if len(shape) == 1 else apply(P.reshape, (x,), {"shape": (math.prod(shape),)})


def _put(x: Tensor, index: Any, source: Any, accumulate: bool, name: str) -> Put:
    """Values for places of the flattened tensor."""
    places, values = lift(index), beside(source, x.np_dtype)
    if values.np_dtype != x.np_dtype:
        raise RuntimeError(f"{name}: source is of {values.dtype} and the input of {x.dtype}; the types must agree")
    count, given = math.prod(shape_of(places)), math.prod(shape_of(values))
    if count != given:
        raise RuntimeError(f"{name}: {count} places for {given} values")
    at = in_range(_flat(places), math.prod(shape_of(x)), name)
    return Put(name, [at], _flat(values), "add" if accumulate else None, fits=True)


@takes_out
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """A copy with the elements of `source` written, or added, at `index` of the flattened tensor.

    >>> import lucid
    >>> lucid.put(lucid.zeros(2, 2), lucid.tensor([1, -1]), lucid.tensor([5.0, 6.0]))
    Tensor([[0., 5.],
            [0., 6.]])
    """
    x = lift(input)
    return _put(x, index, source, accumulate, "put").of_flattened(x)


def put_(self: Tensor, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """In-place form of `put`.

    >>> import lucid
    >>> lucid.zeros(3).put_(lucid.tensor([1, 1]), lucid.tensor([2.0, 3.0]), accumulate=True)
    Tensor([0., 5., 0.])
    """
    return _put(self, index, source, accumulate, "put_").into_flattened(self)


def _index_reduce(x: Tensor, dim: int, index: Any, source: Any, reduce: str, include_self: bool, name: str) -> Tensor:
    if reduce not in _SLICE_REDUCTIONS:
        raise RuntimeError(f"{name}: reduce must be one of {', '.join(_SLICE_REDUCTIONS)}, not {reduce!r}")
    if reduce == "mean" and x.np_dtype == dtypes.BOOL:
        raise RuntimeError(f"{name}: booleans have no mean; convert them, as in x.float()")
    put = _rows_put(x, dim, index, beside(source, x.np_dtype), _COMBINED.get(reduce), name)
    rows = x if shape_of(x) else P.reshape(x, shape=(1,))
    out = _reduced(rows, put.positions, put.source, reduce, include_self)
    return out if shape_of(x) else P.reshape(out, shape=())


@takes_out
@numpy_names
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """A copy with slices of `source` combined at the positions `index` along `dim` by prod, mean, amax or amin.

    Without `include_self`, the old slices at those places have no part in it.

    >>> import lucid
    >>> lucid.index_reduce(lucid.ones(2), 0, lucid.tensor([0, 0]), lucid.tensor([2.0, 3.0]), "prod")
    Tensor([6., 1.])
    """
    return _index_reduce(lift(input), dim, index, source, reduce, include_self, "index_reduce")


@numpy_names
def index_reduce_(self: Tensor, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """In-place form of `index_reduce`.

    >>> import lucid
    >>> lucid.ones(2).index_reduce_(0, lucid.tensor([1, 1]), lucid.tensor([2.0, 3.0]), "amax")
    Tensor([1., 3.])
    """
    if include_self and reduce in _COMBINED and reduce in _SLICE_REDUCTIONS and not self.is_complex():
        combine, values = _COMBINED[reduce], beside(source, self.np_dtype)
        return _rows_put(self, dim, index, values, combine, "index_reduce_").into(self)
    return write(
        self,
        "index_reduce_",
        lambda x: _index_reduce(x, dim, index, source, reduce, include_self, "index_reduce_"),
        (source,),
    )
