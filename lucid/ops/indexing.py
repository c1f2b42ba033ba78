"""Reading and writing elements by position: `x[...]`, and the primitives under gather and scatter.

Everything goes through four primitives on the leading dimensions of a tensor: `index` reads at integer
positions, `index_back` is its transpose (contributions add up), `index_put` writes, `index_last` tells which
write to a place was the last one. `in_range` stands before them all.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from lucid.core import dtypes
from lucid.core.batched import Batched
from lucid.core.dual import Dual
from lucid.core.fields import TensorFields
from lucid.core.inplace import write
from lucid.core.primitive import Primitive, apply_to_one, lift, note_positions
from lucid.core.tensor import Tensor
from lucid.ops.dims import numpy_names, one_dim
from lucid.ops.promotion import exact
from lucid.ops.rules import P, Variadic, align, batched_to_front, each, sum_to, zeros_like
from lucid.ops.views import inverse


def _linear_positions(positions: tuple[Any, ...], sizes: tuple[int, ...]) -> Any:
    """Row-major numbers of the places that broadcast integer arrays point at."""
    number: Any = 0
    for p, n in zip(positions, sizes, strict=True):
        number = number * n + p
    return number


def fold_at(ufunc: np.ufunc, out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """`ufunc.at`, faster: rows for one place are sorted together and folded by reduceat, numbers added by bincount."""
    k = len(positions)
    places = np.asarray(_linear_positions(positions, out.shape[:k])).reshape(-1)
    rows = math.prod(out.shape[:k])
    width = math.prod(out.shape[k:])
    values = np.broadcast_to(values, np.broadcast_shapes(*[p.shape for p in positions]) + out.shape[k:])
    values = values.reshape(places.size, width)
    if places.size == 0 or width == 0:
        return
    flat = out.reshape(rows, width)
    if ufunc is np.add and width == 1 and out.dtype.char in "fd":
        flat[:, 0] += np.bincount(places, weights=values[:, 0], minlength=rows).astype(out.dtype)
    elif width == 1:
        ufunc.at(flat[:, 0], places, values[:, 0])
    else:
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        at = places[starts]
        flat[at] = ufunc(flat[at], ufunc.reduceat(values[order], starts, axis=0))
    if not np.may_share_memory(flat, out):
        out[...] = flat.reshape(out.shape)


def _index_array(x: Any, *positions: Any) -> Any:
    found = x[positions]  # in the order of the positions
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def _index_back_array(x: Any, *positions: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    fold_at(np.add, out, positions, x)
    return out


def _index_put_array(x: Any, values: Any, *positions: Any, accumulate: bool) -> Any:
    out = np.array(x, order="C")
    if accumulate:
        fold_at(np.add, out, positions, values)
    else:
        put_at(out, positions, values)
    return out


def put_at(out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """`out[positions] = values`; of several values for one place, the last in row-major order stays.

    NumPy goes over index arrays in the order in which they lie in memory. One that has the shape of the selection and
    lies there in row-major order decides for all.
    """
    shape = positions[0].shape if len(positions) == 1 else np.broadcast_shapes(*[p.shape for p in positions])
    if not any(p.shape == shape and p.flags.c_contiguous for p in positions):
        positions = (np.ascontiguousarray(np.broadcast_to(positions[0], shape)), *positions[1:])
    out[positions] = values


def _index_last_array(*positions: Any, shape: tuple[int, ...]) -> Any:
    places = np.asarray(_linear_positions(positions, shape))
    row_major = places.reshape(-1)
    ids = np.arange(places.size)
    last = np.zeros(math.prod(shape), np.int64)
    last[row_major] = ids
    return (last[row_major] == ids).reshape(places.shape)


def _batch_index(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, *positions = values
    if not batched[0]:
        return P.index(x, *align(positions, batched[1:], size))
    if not any(batched[1:]):
        k = len(positions)
        front = P.permute(x, dims=(*range(1, k + 1), 0, *range(k + 1, x.ndim)))
        out = P.index(front, *positions)
        rank = np.broadcast(*[np.empty(p.shape) for p in positions]).ndim if len(positions) > 1 else positions[0].ndim
        # In row-major order, as one example would be: what is a view of that must be a view here.
        return P.clone(P.permute(out, dims=(rank, *range(rank), *range(rank + 1, out.ndim))))
    return P.index(x, *_with_batch_positions(positions, batched[1:], size))


def _with_batch_positions(positions: Any, batched: Any, size: int) -> list[Any]:
    """Positions that also say which example they are for."""
    aligned = align(positions, batched, size)
    rank = max(p.ndim - b for p, b in zip(positions, batched, strict=True))
    return [Tensor._wrap(np.arange(size).reshape(size, *(1,) * rank)), *aligned]


index_primitive = Variadic(
    "index",
    _index_array,
    each(lambda i, ct, args, shapes, params: P.index_back(ct, *args[1:], shape=shapes[0])),
    jvp=lambda prim, primals, tangents, out, params: P.index(tangents[0], *primals[1:]),
    batch=_batch_index,
    reads=lambda needed, count: range(1, count),
)

index_back_primitive = Variadic(
    "index_back",
    _index_back_array,
    each(lambda i, ct, args, shapes, params: sum_to(P.index(ct, *args[1:]), shapes[0])),
    jvp=lambda prim, primals, tangents, out, params: P.index_back(tangents[0], *primals[1:], **params),
    batch=lambda prim, values, batched, size, params: P.index_back(
        *batched_to_front(values[:1], batched[:1], size),
        *_with_batch_positions(values[1:], batched[1:], size),
        shape=(size, *params["shape"]),
    ),
    reads=lambda needed, count: range(1, count),
)


def _put_pull(i: int, ct: Any, args: Any, shapes: Any, params: Any) -> Any:
    positions = args[2:]
    if i == 0:
        if params["accumulate"]:
            return ct
        return _zero_at(ct, positions)
    read = P.index(ct, *positions)
    if not params["accumulate"]:
        k = len(positions)
        last = P.index_last(*positions, shape=shapes[0][:k])
        last = P.reshape(last, shape=(*last.shape, *(1,) * (len(shapes[0]) - k)))
        read = P.where(last, read, 0)
    return sum_to(read, shapes[1])


def _zero_at(ct: Any, positions: Any) -> Any:
    zero = np.zeros((), ct.np_dtype if isinstance(ct, Tensor) else ct.dtype)
    return P.index_put(ct, zero, *positions, accumulate=False)


def _put_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    x, values = (zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True))
    return P.index_put(x, values, *primals[2:], **params)


def batch_put(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, source, *positions = values
    (front,) = batched_to_front([x], batched[:1], size)
    aligned = _with_batch_positions(positions, batched[2:], size)
    if batched[1]:
        rank = max(p.ndim for p in aligned) - 1 + x.ndim - batched[0] - len(positions)
        source = P.reshape(source, shape=(size, *(1,) * (rank - source.ndim + 1), *source.shape[1:]))
    return prim(front, source, *aligned, **params)


index_put_primitive = Variadic(
    "index_put",
    _index_put_array,
    each(_put_pull),
    jvp=_put_jvp,
    batch=batch_put,
    reads=lambda needed, count: range(2, count),
)

index_last_primitive = Primitive(
    "index_last",
    _index_last_array,
    batch=lambda prim, values, batched, size, params: P.index_last(
        *_with_batch_positions(values, batched, size), shape=(size, *params["shape"])
    ),
)


def _in_range_array(positions: Any, size: int, name: str, negative: bool) -> Any:
    array = np.asarray(positions, np.int64)
    if not array.size:
        return array
    low, high = array.min(), array.max()
    if high >= size or low < (-size if negative else 0):
        wrong = high if high >= size else low
        least = -size if negative else 0
        raise IndexError(
            f"{name}: index {wrong} is out of range for a dimension of size {size}"
            + (f"; indices must lie between {least} and {size - 1}" if size else "")
        )
    return np.where(array < 0, array + size, array) if low < 0 else array


def _in_range_copied(positions: Any, size: int, name: str, negative: bool) -> Any:
    found = _in_range_array(positions, size, name, negative)
    return found.copy() if found is positions else found  # the result of a primitive has memory of its own


in_range_primitive = Primitive(
    "in_range",
    _in_range_copied,
    batch=lambda prim, values, batched, size, params: prim(*values, **params),
)


def in_range(positions: Tensor, size: int, name: str = "indexing", negative: bool = True) -> Tensor:
    """Positions of type int64 counted from the front; those outside a dimension of `size` are refused."""
    if positions.np_dtype.kind not in "iu":
        raise RuntimeError(f"{name}: index tensors must be integers, not {positions.dtype}; convert with .long()")
    if type(positions) is not Tensor:
        return P.in_range(positions, size=size, name=name, negative=negative)
    array = positions._array
    found = _in_range_array(array, size, name, negative)
    return positions if found is array else Tensor._wrap(found)


_BASIC = (int, slice, type(None), type(Ellipsis))


def getitem(input: Tensor, key: Any) -> Tensor:
    """`input[key]` with integers, slices, None, Ellipsis, masks and integer arrays, in any mixture."""
    if type(key) is not tuple:
        key = (key,)
    for item in key:
        if type(item) not in _BASIC or (type(item) is slice and _has_tensors(item)):
            break
    else:
        if type(input) is not Tensor:
            return _basic(input, key)
        try:
            return apply_to_one(P.slice, input, {"index": key})
        except IndexError as error:
            raise IndexError(f"{error} (indexing a tensor of shape {input.shape})") from None
    seen, positions, place = _resolve(input, key)
    if not positions:
        return seen
    out = P.index(seen, *positions)
    if not _rank(positions):
        note_positions(P.index, seen, positions, out)
    if not place:
        return out
    rank = _rank(positions)
    return P.permute(out, dims=(*range(rank, rank + place), *range(rank), *range(rank + place, out.ndim)))


def _has_tensors(item: slice) -> bool:
    return (
        isinstance(item.start, TensorFields)
        or isinstance(item.stop, TensorFields)
        or isinstance(item.step, TensorFields)
    )


def known_number(item: Tensor) -> int | None:
    """The value of a 0-d integer tensor, if inside transforms it is one and known."""
    inner: Any = item
    while type(inner) is not Tensor:
        if not isinstance(inner, Dual) and not (isinstance(inner, Batched) and inner._aux is not None):
            return None
        inner = inner._array
    return int(inner)


def at_position(x: Tensor, dim: int, positions: Tensor) -> Tensor:
    """A view at positions along `dim` that only the program, or each example, knows; they name no element twice."""
    front = x.movedim(dim, 0)
    out = P.index(front, positions)
    note_positions(P.index, front, [positions], out)
    return out.movedim(0, dim) if positions.ndim else out


def _basic(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    try:
        return P.slice(x, index=key)
    except IndexError as error:
        raise IndexError(f"{error} (indexing a tensor of shape {x.shape})") from None


def _rank(positions: list[Tensor]) -> int:
    return max(p.ndim for p in positions)


def _resolve(x: Tensor, key: tuple[Any, ...]) -> tuple[Tensor, list[Tensor], int]:
    """Split a key into a view and integer positions on the view's leading dimensions.

    Third comes how many of the view's other dimensions stand before those of the positions in the result.
    """
    items = [_index_item(item) for item in key]
    consumed = sum(_consumes(i) for i in items)
    if consumed > x.ndim:
        raise IndexError(f"too many indices: {consumed} for a tensor of shape {x.shape}")
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can have only one Ellipsis")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    spread: list[Any] = []
    for item in items:
        spread.extend([slice(None)] * (x.ndim - consumed) if item is Ellipsis else [item])
    basic: list[Any] = []
    arrays: dict[int, Tensor] = {}
    dim = 0  # in the view
    source = 0  # in x
    for item in spread:
        if not isinstance(item, Tensor):
            basic.append(item)
            source += item is not None
            dim += not isinstance(item, int)
        elif item.np_dtype == dtypes.BOOL:
            basic.extend([slice(None)] * item.ndim if item.ndim else [None])
            for found in mask_positions(item, x.shape[source : source + item.ndim]):
                arrays[dim] = found
                dim += 1
            source += item.ndim
        else:
            basic.append(slice(None))
            arrays[dim] = in_range(item, x.shape[source])
            dim += 1
            source += 1
    seen = _basic(x, tuple(basic)) if any(b != slice(None) for b in basic) else x
    return _to_front(seen, arrays)


def _to_front(seen: Tensor, arrays: dict[int, Tensor]) -> tuple[Tensor, list[Tensor], int]:
    dims = list(arrays)
    others = [d for d in range(seen.ndim) if d not in arrays]
    # 0-d positions act as integers do: they take their dimension away and have no say in the order of the rest.
    spread = [d for d in dims if arrays[d].ndim]
    before = {sum(o < d for o in others) for d in spread}
    place = before.pop() if len(before) == 1 else 0
    if dims and dims != list(range(len(dims))):
        seen = P.permute(seen, dims=(*dims, *others))
    positions = list(arrays.values())
    try:
        np.broadcast_shapes(*[p.shape for p in positions])
    except ValueError:
        shapes = ", ".join(str(p.shape) for p in positions)
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast together") from None
    return seen, positions, place


def _index_item(item: Any) -> Any:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        # Bounds are numbers from here on: a view must not change with a tensor that once gave a bound.
        bounds = (item.start, item.stop, item.step)
        return slice(*[b.__index__() if isinstance(b, Tensor) else b for b in bounds])
    if isinstance(item, bool | np.bool_):
        return Tensor._wrap(np.asarray(item))
    if isinstance(item, Tensor):
        if item.np_dtype.kind not in "iub":
            raise IndexError(f"index tensors must be integers or booleans, not {item.dtype}")
        known = None if item.ndim or item.np_dtype == dtypes.BOOL else known_number(item)
        return item if known is None else known
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    if isinstance(item, np.ndarray | list | tuple | range):
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        return _index_item(Tensor._wrap(array) if array.ndim else array.item())
    raise TypeError(
        f"cannot index with {type(item).__name__}; use integers, slices, None, ..., masks or integer arrays"
    )


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.np_dtype == dtypes.BOOL else 1


def mask_positions(mask: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    if mask.shape != shape:
        raise IndexError(f"the mask has shape {mask.shape} but the dimensions it indexes have shape {shape}")
    array = mask._concrete("indexing with a mask")
    if not array.ndim:
        return [Tensor._wrap(np.zeros(int(array), np.int64))]
    return [Tensor._wrap(found) for found in np.nonzero(array)]


def setitem(input: Tensor, key: Any, value: Any) -> None:
    """`input[key] = value`, in place."""
    if type(key) is not tuple:
        key = (key,)
    source = _source(input, value)
    if all(type(item) in _BASIC and not (type(item) is slice and _has_tensors(item)) for item in key):
        _copy(_basic(input, key), source)
        return
    if len(key) == 1 and _hides_its_count(key[0]) and key[0].shape == input.shape and not source.ndim:
        write(input, "setitem", lambda old: P.where(key[0], source, old), (source,))
        return
    seen, positions, place = _resolve(input, key)
    if not positions:
        _copy(seen, source)
        return
    rank = _rank(positions)
    full = seen.ndim - len(positions) + rank
    source = _without_leading_ones(source, full)
    if place and full >= source.ndim > full - rank - place:
        # Bring the value's dimensions into the order of the view: positions first.
        source = source.reshape((1,) * (full - source.ndim) + tuple(source.shape))
        source = P.permute(source, dims=(*range(place, place + rank), *range(place), *range(place + rank, full)))
    Put("setitem", positions, source).into(seen)


def _hides_its_count(item: Any) -> bool:
    """A mask inside a transform: it can choose between values, but not say how many places it selects."""
    return isinstance(item, Tensor) and type(item) is not Tensor and item.np_dtype == dtypes.BOOL


def _copy(target: Tensor, source: Tensor) -> None:
    target.copy_(_without_leading_ones(source, target.ndim))


def _without_leading_ones(source: Tensor, rank: int) -> Tensor:
    """An assigned value may have more dimensions than its target, if those are of size 1."""
    extra = source.ndim - rank
    if extra <= 0 or any(n != 1 for n in source.shape[:extra]):
        return source
    return P.reshape(source, shape=source.shape[extra:])


def _source(input: Tensor, value: Any) -> Tensor:
    """The value of an assignment in the type of its target. Numbers lose what does not fit; tensors must fit."""
    dtypes.raise_if_outside(value, input.np_dtype, "setitem")
    source = exact(value)
    is_number = source.ndim == 0 and not isinstance(value, Tensor)
    if not dtypes.can_cast(source.np_dtype, input.np_dtype) and not (is_number and not source.is_complex()):
        raise RuntimeError(f"cannot write values of {source.dtype} into a tensor of {input.dtype}; convert them first")
    return source.to(input.np_dtype) if source.np_dtype != input.np_dtype else source


class Put(NamedTuple):
    """Values to be written at integer positions of a tensor's leading dimensions.

    `order`, if given, is the permutation that brings the dimensions with positions to the front. Values have
    their dimensions in that order too: first those of the positions, broadcast together, then the others.
    """

    name: str
    positions: list[Tensor]
    source: Tensor
    accumulate: bool = False
    order: tuple[int, ...] | None = None

    def of(self, x: Tensor) -> Tensor:
        """A copy of `x` with the values written."""
        if not x.ndim:
            return self.of(x.reshape(1)).reshape(())
        self._check(x.shape)
        front = x if self.order is None else P.permute(x, dims=self.order)
        out = P.index_put(front, self.source, *self.positions, accumulate=self.accumulate)
        return out if self.order is None else P.permute(out, dims=inverse(self.order))

    def into(self, target: Tensor) -> Tensor:
        """Write the values into `target`, in place."""
        if not target.ndim:
            self.into(target.reshape(1))
            return target
        self._check(target.shape)
        plain = type(self.source) is Tensor and all(type(p) is Tensor for p in self.positions)
        return write(target, self.name, self.of, (self.source,), self._direct if plain else None)

    def _direct(self, array: Any) -> None:
        front = array if self.order is None else array.transpose(self.order)
        index = tuple(p._array for p in self.positions)
        if self.accumulate:
            fold_at(np.add, front, index, self.source._array)
        else:
            put_at(front, index, self.source._array)

    def _check(self, sizes: tuple[int, ...]) -> None:
        front = sizes if self.order is None else tuple(sizes[d] for d in self.order)
        shape = np.broadcast_shapes(*[p.shape for p in self.positions]) + front[len(self.positions) :]
        given = self.source.shape
        extra = len(shape) - len(given)
        if extra < 0 or any(n not in (1, m) for n, m in zip(given, shape[extra:], strict=True)):
            raise RuntimeError(f"{self.name}: values of shape {given} do not fit the selection of shape {shape}")


@numpy_names
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Tensor:
    """Elements of `input` at `indices` along `dim`; the other dimensions broadcast.

    Without `dim`, both are flattened.

    >>> import lucid
    >>> lucid.take_along_dim(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]), lucid.tensor([[1], [0]]), 1)
    Tensor([[2.],
            [3.]])
    """
    x, i = lift(input), lift(indices)
    if dim is None:
        return take_along_dim(x.reshape(-1), i.reshape(-1), 0)
    d = one_dim(dim, x.ndim, "take_along_dim")
    if i.ndim != x.ndim:
        raise RuntimeError(f"take_along_dim: indices have {i.ndim} dimensions and the input {x.ndim}; they must agree")
    if not x.ndim:
        return take_along_dim(x.reshape(1), i.reshape(1), 0).reshape(())
    for e, (n, length) in enumerate(zip(x.shape, i.shape, strict=True)):
        if e != d and n != length and 1 not in (n, length):
            raise RuntimeError(f"take_along_dim: indices of shape {i.shape} do not fit the input's shape {x.shape}")
    along = in_range(i, x.shape[d], "take_along_dim")
    return P.index(x, *[along if e == d else counting(n, e, x.ndim) for e, n in enumerate(x.shape)])


def counting(n: int, dim: int, ndim: int) -> Tensor:
    """0, 1, …, n - 1 along one of `ndim` dimensions."""
    return Tensor._wrap(np.arange(n).reshape([-1 if d == dim else 1 for d in range(ndim)]))
