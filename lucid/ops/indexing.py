"""Elements at places that integers name: reading, writing and adding there."""

import math
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.rules import P, Variadic, align, batched_to_front, each, sum_to, zeros_like


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


def in_range_array(positions: Any, size: int, name: str, negative: bool) -> Any:
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
    found = in_range_array(positions, size, name, negative)
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
    found = in_range_array(array, size, name, negative)
    return positions if found is array else Tensor._wrap(found)
