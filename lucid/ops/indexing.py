"""Elements at places that integers name: reading, writing and adding there."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.arrays import question, steps, zeros
from lucid.core.kernels import table
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor, is_plain, wrapped
from lucid.ops.abstract import Abstract, broadcast, of_type, same
from lucid.ops.categories import Check, Variadic, each
from lucid.ops.rules import P, align, batched_to_front, sum_to, zeros_like

_INT64 = dtypes.INT64
nonzero_positions = question("nonzero_positions")  # (x, as_rows): an array for each dimension, or one with a row each


def _batch_index(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    x, *positions = values
    if not batched[0]:
        return P.index(x, *align(positions, batched[1:], size))
    if not any(batched[1:]):
        k = len(positions)
        front = P.permute(x, dims=(*range(1, k + 1), 0, *range(k + 1, x.ndim)))
        out = P.index(front, *positions)
        rank = len(np.broadcast_shapes(*[p.shape for p in positions]))
        # In row-major order, as one example would be: what is a view of that must be a view here.
        return P.clone(P.permute(out, dims=(rank, *range(rank), *range(rank + 1, out.ndim))))
    return P.index(x, *_with_batch_positions(positions, batched[1:], size))


def _with_batch_positions(positions: Any, batched: Any, size: int) -> list[Any]:
    """Positions that also say which example they are for."""
    aligned = align(positions, batched, size)
    rank = max(p.ndim - b for p, b in zip(positions, batched, strict=True))
    return [Tensor._wrap(steps(size, (1,) * rank)), *aligned]


index_primitive = Variadic(
    "index",
    each(lambda i, ct, args, shapes, params: P.index_back(ct, *args[1:], shape=shapes[0])),
    jvp=lambda prim, primals, tangents, out, params: P.index(tangents[0], *primals[1:]),
    batch=_batch_index,
    reads=1,
    abstract=lambda x, *positions: Abstract((*broadcast(*positions), *x.shape[len(positions) :]), x.dtype),
    category="gather",
    positions=1,
    linear_in=(0,),
)

index_back_primitive = Variadic(
    "index_back",
    each(lambda i, ct, args, shapes, params: sum_to(P.index(ct, *args[1:]), shapes[0])),
    jvp=lambda prim, primals, tangents, out, params: P.index_back(tangents[0], *primals[1:], **params),
    batch=lambda prim, values, batched, size, params: P.index_back(
        *batched_to_front(values[:1], batched[:1], size),
        *_with_batch_positions(values[1:], batched[1:], size),
        shape=(size, *params["shape"]),
    ),
    reads=1,
    abstract=lambda x, *positions, shape: Abstract(shape, x.dtype),
    category="scatter",
    positions=1,
    combine="add",
    linear_in=(0,),
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
    zero = Tensor._wrap(zeros((), ct.np_dtype if isinstance(ct, Tensor) else ct.dtype))
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
    each(_put_pull),
    jvp=_put_jvp,
    batch=batch_put,
    reads=2,
    abstract=same,
    category="scatter",
    positions=2,
    combine="add",
    linear_in=(0, 1),
)

index_last_primitive = Primitive(
    "index_last",
    batch=lambda prim, values, batched, size, params: P.index_last(
        *_with_batch_positions(values, batched, size), shape=(size, *params["shape"])
    ),
    abstract=of_type(dtypes.BOOL),
    category="gather",
)


in_range_primitive = Primitive(
    "in_range",
    batch=lambda prim, values, batched, size, params: prim(*values, **params),
    abstract=of_type(dtypes.INT64),
    category="gather",
    checks=Check("that indices are in range"),
)


def along(positions: Tensor, sizes: tuple[int, ...], dim: int) -> list[Tensor]:
    """Positions for every dimension: those given along `dim`, and each element's own elsewhere."""
    rank = len(sizes)
    return [positions if d == dim else counting(n, d, rank) for d, n in enumerate(sizes)]


def counting(n: int, dim: int, ndim: int) -> Tensor:
    """0, 1, …, n - 1 along one of `ndim` dimensions."""
    return wrapped(table["steps"](n, (1,) * (ndim - 1 - dim)))


def in_range(positions: Tensor, size: int, name: str = "indexing", negative: bool = True) -> Tensor:
    """Positions of type int64 counted from the front; those outside a dimension of `size` are refused."""
    fields: Any = positions
    plain = is_plain(positions)
    kind = fields._array.dtype if plain else positions.np_dtype
    if kind is not _INT64 and kind.kind not in "iu":
        raise RuntimeError(f"{name}: index tensors must be integers, not {positions.dtype}; convert with .long()")
    if not plain:
        return P.in_range(positions, size=size, name=name, negative=negative)
    found = table["in_range_or_same"](fields._array, size, name, negative)
    return positions if found is fields._array else wrapped(found)
