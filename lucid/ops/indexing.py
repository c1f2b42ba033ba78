"""Reading and writing elements by position: `x[...]`, gather and scatter.

Everything goes through four primitives on the leading dimensions of a tensor: `index` reads at integer
positions, `index_back` is its transpose (contributions add up), `index_put` writes, `index_last` tells which
write to a place was the last one.
"""

import math
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.inplace import write
from lucid.core.primitive import Primitive, lift
from lucid.core.tensor import Tensor
from lucid.ops.dims import numpy_names, one_dim
from lucid.ops.rules import P, Variadic, align, batched_to_front, sum_to


def _linear_positions(positions: tuple[Any, ...], sizes: tuple[int, ...]) -> Any:
    """Row-major numbers of the places that broadcast integer arrays point at."""
    number: Any = 0
    for p, n in zip(positions, sizes, strict=True):
        number = number * n + p
    return number


def _add_at(out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """`np.add.at`, faster: sorted groups are summed by reduceat, single elements by bincount."""
    k = len(positions)
    places = np.asarray(_linear_positions(positions, out.shape[:k])).reshape(-1)
    rows = math.prod(out.shape[:k])
    width = math.prod(out.shape[k:])
    values = np.broadcast_to(values, np.broadcast_shapes(*[p.shape for p in positions]) + out.shape[k:])
    values = values.reshape(places.size, width)
    flat = out.reshape(rows, width)
    if places.size == 0 or width == 0:
        return
    if width == 1 and out.dtype.char in "fd":
        flat[:, 0] += np.bincount(places, weights=values[:, 0], minlength=rows).astype(out.dtype)
        return
    order = np.argsort(places, kind="stable")
    places = places[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    flat[places[starts]] += np.add.reduceat(values[order], starts, axis=0)


def _index_array(x: Any, *positions: Any) -> Any:
    return x[positions]


def _index_back_array(x: Any, *positions: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    _add_at(out, positions, x)
    return out


def _index_put_array(x: Any, values: Any, *positions: Any, accumulate: bool) -> Any:
    out = np.array(x)
    if accumulate:
        _add_at(out, positions, values)
    else:
        out[positions] = values
    return out


def _index_last_array(*positions: Any, shape: tuple[int, ...]) -> Any:
    places = np.asarray(_linear_positions(positions, shape))
    ids = np.arange(places.size).reshape(places.shape)
    last = np.zeros(math.prod(shape), np.int64)
    last[places] = ids
    return last[places] == ids


def _batch_index(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, *positions = values
    if not batched[0]:
        return P.index(x, *align(positions, batched[1:], size))
    if not any(batched[1:]):
        k = len(positions)
        front = P.permute(x, dims=(*range(1, k + 1), 0, *range(k + 1, x.ndim)))
        out = P.index(front, *positions)
        rank = np.broadcast(*[np.empty(p.shape) for p in positions]).ndim if len(positions) > 1 else positions[0].ndim
        return P.permute(out, dims=(rank, *range(rank), *range(rank + 1, out.ndim)))
    return P.index(x, *_with_batch_positions(positions, batched[1:], size))


def _with_batch_positions(positions: Any, batched: Any, size: int) -> list[Any]:
    """Positions that also say which example they are for."""
    aligned = align(positions, batched, size)
    rank = max(p.ndim - b for p, b in zip(positions, batched, strict=True))
    return [Tensor._wrap(np.arange(size).reshape(size, *(1,) * rank)), *aligned]


index_primitive = Variadic(
    "index",
    _index_array,
    lambda i, ct, args, shapes, params: P.index_back(ct, *args[1:], shape=shapes[0]),
    jvp=lambda prim, primals, tangents, out, params: P.index(tangents[0], *primals[1:]),
    batch=_batch_index,
    reads=lambda i, k: k > 0,
)

index_back_primitive = Variadic(
    "index_back",
    _index_back_array,
    lambda i, ct, args, shapes, params: sum_to(P.index(ct, *args[1:]), shapes[0]),
    jvp=lambda prim, primals, tangents, out, params: P.index_back(tangents[0], *primals[1:], **params),
    batch=lambda prim, values, batched, size, params: P.index_back(
        *batched_to_front(values[:1], batched[:1], size),
        *_with_batch_positions(values[1:], batched[1:], size),
        shape=(size, *params["shape"]),
    ),
    reads=lambda i, k: k > 0,
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
    x, values = (
        np.zeros(p.shape, p.np_dtype) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True)
    )
    return P.index_put(lift(x), lift(values), *primals[2:], **params)


def _batch_put(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, source, *positions = values
    (front,) = batched_to_front([x], batched[:1], size)
    aligned = _with_batch_positions(positions, batched[2:], size)
    if batched[1]:
        rank = max(p.ndim for p in aligned) - 1 + x.ndim - batched[0] - len(positions)
        source = P.reshape(source, shape=(size, *(1,) * (rank - source.ndim + 1), *source.shape[1:]))
    return P.index_put(front, source, *aligned, **params)


index_put_primitive = Variadic(
    "index_put",
    _index_put_array,
    _put_pull,
    jvp=_put_jvp,
    batch=_batch_put,
    reads=lambda i, k: k > 1,
)

index_last_primitive = Primitive(
    "index_last",
    _index_last_array,
    batch=lambda prim, values, batched, size, params: P.index_last(
        *_with_batch_positions(values, batched, size), shape=(size, *params["shape"])
    ),
)


_BASIC = (int, slice, type(None), type(Ellipsis))


def getitem(input: Tensor, key: Any) -> Tensor:
    """`input[key]` with integers, slices, None, Ellipsis, masks and integer arrays, in any mixture."""
    if type(key) is not tuple:
        key = (key,)
    for item in key:
        if type(item) not in _BASIC:
            break
    else:
        return _basic(input, key)
    seen, positions, place = _resolve(input, key)
    if not positions:
        return seen
    out = P.index(seen, *positions)
    if not place:
        return out
    rank = _rank(positions)
    return P.permute(out, dims=(*range(rank, rank + place), *range(rank), *range(rank + place, out.ndim)))


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
            for found in _mask_positions(item, x.shape[source : source + item.ndim]):
                arrays[dim] = found
                dim += 1
            source += item.ndim
        else:
            basic.append(slice(None))
            arrays[dim] = _in_range(item, x.shape[source])
            dim += 1
            source += 1
    seen = _basic(x, tuple(basic)) if any(b != slice(None) for b in basic) else x
    return _to_front(seen, arrays)


def _to_front(seen: Tensor, arrays: dict[int, Tensor]) -> tuple[Tensor, list[Tensor], int]:
    dims = list(arrays)
    others = [d for d in range(seen.ndim) if d not in arrays]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims))) if dims else True
    place = dims[0] if dims and adjacent else 0
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
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_):
        return Tensor._wrap(np.asarray(item))
    if isinstance(item, Tensor):
        if item.np_dtype.kind not in "iub":
            raise IndexError(f"index tensors must be integers or booleans, not {item.dtype}")
        return item if item.ndim or item.np_dtype == dtypes.BOOL or type(item) is not Tensor else int(item)
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    if isinstance(item, np.ndarray | list | tuple | range):
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        return _index_item(Tensor._wrap(array) if array.ndim else array.item())
    raise TypeError(f"cannot index with {type(item).__name__}; use integers, slices, None, ..., masks or integer arrays")


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.np_dtype == dtypes.BOOL else 1


def _mask_positions(mask: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    if mask.shape != shape:
        raise IndexError(f"the mask has shape {mask.shape} but the dimensions it indexes have shape {shape}")
    array = mask._concrete("indexing with a mask")
    if not array.ndim:
        return [Tensor._wrap(np.zeros(int(array), np.int64))]
    return [Tensor._wrap(found) for found in np.nonzero(array)]


def _in_range(positions: Tensor, size: int) -> Tensor:
    """Positions counted from the front; those outside are refused."""
    if type(positions) is Tensor:
        array = positions._array
        if array.size:
            low, high = array.min(), array.max()
            if low < -size or high >= size:
                wrong = high if high >= size else low
                raise IndexError(f"index {wrong} is out of range for a dimension of size {size}")
            if low >= 0:
                return positions
    return P.where(positions < 0, positions + size, positions)


def setitem(input: Tensor, key: Any, value: Any) -> None:
    """`input[key] = value`, in place."""
    if type(key) is not tuple:
        key = (key,)
    source = _source(input, value)
    if all(type(item) in _BASIC for item in key):
        _basic(input, key).copy_(source)
        return
    seen, positions, place = _resolve(input, key)
    if not positions:
        seen.copy_(source)
        return
    rank = _rank(positions)
    if place and source.ndim > seen.ndim - len(positions) - place:
        # Bring the value's dimensions into the order of the view: positions first.
        full = seen.ndim - len(positions) + rank
        source = source.reshape((1,) * (full - source.ndim) + tuple(source.shape))
        source = P.permute(source, dims=(*range(place, place + rank), *range(place), *range(place + rank, full)))
    put_(seen, positions, source, False, "setitem")


def _source(input: Tensor, value: Any) -> Tensor:
    source = value if isinstance(value, Tensor) else lift(value)
    if dtypes.category(source.np_dtype) > dtypes.category(input.np_dtype) and not (
        source.ndim == 0 and not source.requires_grad and not isinstance(value, Tensor)
    ):
        raise RuntimeError(f"cannot write values of {source.dtype} into a tensor of {input.dtype}; convert them first")
    return source.to(input.np_dtype) if source.np_dtype != input.np_dtype else source


def put_(target: Tensor, positions: list[Tensor], source: Tensor, accumulate: bool, name: str) -> Tensor:
    """Write into the leading dimensions of `target` at integer positions, in place."""
    shape = np.broadcast_shapes(*[p.shape for p in positions]) + target.shape[len(positions) :]
    try:
        np.broadcast_to(np.empty(source.shape, bool), shape)
    except ValueError:
        raise RuntimeError(f"{name}: values of shape {source.shape} do not fit the selection of shape {shape}") from None

    def direct(array: Any) -> None:
        index = tuple(p._array for p in positions)
        if accumulate:
            _add_at(array, index, source._array)
        else:
            array[index] = source._array

    plain = type(source) is Tensor and all(type(p) is Tensor for p in positions)
    return write(
        target,
        name,
        lambda old: P.index_put(old, source, *positions, accumulate=accumulate),
        (source,),
        direct if plain else None,
    )


@numpy_names
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Tensor:
    """Elements of `input` at `indices` along `dim`; the other dimensions broadcast."""
    x, i = lift(input), lift(indices)
    if dim is None:
        return take_along_dim(x.reshape(-1), i.reshape(-1), 0)
    d = one_dim(dim, x.ndim, "take_along_dim")
    if i.ndim != x.ndim:
        raise RuntimeError(f"take_along_dim: indices have {i.ndim} dimensions and the input {x.ndim}; they must agree")
    return P.index(x, *grid(x.shape, i, d, "take_along_dim", broadcast=True))


def grid(shape: tuple[int, ...], indices: Tensor, dim: int, name: str, broadcast: bool = False) -> list[Tensor]:
    """Positions for every dimension: `indices` along `dim`, each element's own elsewhere."""
    if indices.np_dtype.kind not in "iu":
        raise TypeError(f"{name}: indices must be integers, not {indices.dtype}")
    positions = []
    for d, n in enumerate(shape):
        if d == dim:
            positions.append(_in_range(indices, n))
            continue
        length = indices.shape[d]
        if broadcast and length not in (n, 1) and n != 1:
            raise RuntimeError(f"{name}: indices of shape {indices.shape} do not fit the input's shape {shape}")
        if not broadcast and length > n:
            raise RuntimeError(f"{name}: indices of shape {indices.shape} reach outside the input's shape {shape}")
        own = np.zeros(length, np.int64) if broadcast and n == 1 else np.arange(n if broadcast else length)
        positions.append(Tensor._wrap(own.reshape([-1 if e == d else 1 for e in range(len(shape))])))
    return positions
