"""Views and other rearrangements: primitives whose results hold the same elements in another shape or order."""

import math
from itertools import accumulate
from typing import Any

import numpy as np

from lucid.core.geometry import placed, restrided
from lucid.core.tensor import Tensor
from lucid.ops.rules import P, Variadic, batched_to_front, linear, shift, sum_to, view, zeros_like

ndarray = np.ndarray


def _broadcast_array(x: Any, shape: tuple[int, ...]) -> Any:
    """`np.broadcast_to`, a few microseconds faster for what backward passes do most."""
    if not x.ndim and type(x) is ndarray and shape and x.dtype.isbuiltin == 1:
        out = ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
        out.flags.writeable = False
        return out
    if x.shape == shape:
        return x.view()
    if type(x) is ndarray and x.dtype.isbuiltin == 1 and x.flags.c_contiguous:
        extra = len(shape) - x.ndim
        strides = (0,) * extra + tuple(
            0 if n == 1 and m != 1 else s for n, m, s in zip(x.shape, shape[extra:], x.strides, strict=True)
        )
        if extra >= 0 and all(n == 1 or n == m for n, m in zip(x.shape, shape[extra:], strict=True)):
            out = ndarray(shape, x.dtype, x, 0, strides)
            # Only where elements share memory must writes be refused.
            out.flags.writeable = x.flags.writeable and x.size == out.size
            return out
    return np.broadcast_to(x, shape)


reshape = view(
    "reshape",
    lambda x, shape: x.reshape(shape),
    transpose=lambda ct, x_shape: P.reshape(ct, shape=x_shape),
    batch=lambda x, size, shape: P.reshape(x, shape=(size, *shape)),
    back=lambda ct, x_shape, shape: ct.reshape(x_shape),
)

permute = view(
    "permute",
    lambda x, dims: x.transpose(dims),
    transpose=lambda ct, dims: P.permute(ct, dims=inverse(dims)),
    batch=lambda x, size, dims: P.permute(x, dims=(0, *shift(dims))),
)


def _batch_broadcast(x: Any, size: int, shape: tuple[int, ...]) -> Any:
    aligned = P.reshape(x, shape=(size, *(1,) * (len(shape) - x.ndim + 1), *x.shape[1:]))
    return P.broadcast_to(aligned, shape=(size, *shape))


broadcast = view(
    "broadcast_to",
    _broadcast_array,
    transpose=lambda ct, x_shape: sum_to(ct, x_shape),
    batch=_batch_broadcast,
    back=lambda ct, x_shape, shape: sum_to(ct, x_shape),
)


def _slice_array(x: Any, index: tuple[Any, ...]) -> Any:
    out = x[index]
    # A full set of integers gives a scalar; with an Ellipsis it is a 0-d view.
    return out if type(out) is ndarray else x[(*index, ...)]


def _slice_back_array(x: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


# Basic indexing: integers, slices, None and Ellipsis. Its transpose writes into zeros.
slice_ = view(
    "slice",
    _slice_array,
    transpose=lambda ct, x_shape, index: P.slice_back(ct, index=index, shape=x_shape),
    batch=lambda x, size, index: P.slice(x, index=(slice(None), *index)),
    back=lambda ct, x_shape, index: _slice_back_array(ct, index, x_shape),
)


slice_back = linear(
    "slice_back",
    _slice_back_array,
    transpose=lambda ct, index: P.slice(ct, index=index),
    batch=lambda x, size, index, shape: P.slice_back(x, index=(slice(None), *index), shape=(size, *shape)),
)


def _parts_back_array(*xs: Any, places: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, np.result_type(*{x.dtype for x in xs}))
    for x, place in zip(xs, places, strict=True):
        part = placed(out, place)
        part += x
    return out


def _pull_parts(needed: list[int], ct: Any, args: Any, shapes: Any, params: Any) -> list[Any]:
    row_major = ct.is_contiguous() if isinstance(ct, Tensor) else ct.flags.c_contiguous
    ct = ct if row_major else P.clone(ct)  # once, and not for each part
    places = [params["places"][i] for i in needed]
    return [P.as_strided(ct, size=shape, stride=steps, offset=offset, lead=0) for offset, shape, steps in places]


def _parts_back_jvp(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    live = [(t, place) for t, place in zip(tangents, params["places"], strict=True) if t is not None]
    return prim(*[t for t, _ in live], places=tuple([place for _, place in live]), shape=params["shape"])


def _batch_parts(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    shape = params["shape"]
    step = math.prod(shape)
    places = [(offset, (size, *part), (step, *steps)) for offset, part, steps in params["places"]]
    return prim(*batched_to_front(values, batched, size), places=tuple(places), shape=(size, *shape))


# The sum of the transposes of several views of one tensor, each with its `core.geometry.Geometry.place`, none of which
# shows an element twice: n of them take the work of one and of what they hold.
parts_back = Variadic(
    "parts_back",
    _parts_back_array,
    _pull_parts,
    jvp=_parts_back_jvp,
    batch=_batch_parts,
    reads=lambda needed, count: (),
)

diagonal = view(
    "diagonal",
    lambda x, offset, dim1, dim2: _writable(np.diagonal(x, offset, dim1, dim2), x),
    transpose=lambda ct, x_shape, offset, dim1, dim2: P.diagonal_back(
        ct, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2
    ),
    batch=lambda x, size, offset, dim1, dim2: P.diagonal(x, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),
)


def _writable(out: Any, x: Any) -> Any:
    """NumPy hands out diagonals read-only."""
    if type(out) is ndarray and isinstance(x, ndarray) and x.flags.writeable:
        out.flags.writeable = True
    return out


def _diagonal_back_array(x: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    out = np.zeros(shape, x.dtype)
    _writable(np.diagonal(out, offset, dim1, dim2), out)[...] = x
    return out


diagonal_back = linear(
    "diagonal_back",
    _diagonal_back_array,
    transpose=lambda ct, offset, dim1, dim2: P.diagonal(ct, offset=offset, dim1=dim1, dim2=dim2),
    batch=lambda x, size, shape, offset, dim1, dim2: P.diagonal_back(
        x, shape=(size, *shape), offset=offset, dim1=dim1 + 1, dim2=dim2 + 1
    ),
)


def _unfold_array(x: Any, dim: int, size: int, step: int) -> Any:
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    if 0 in shape:
        return x.reshape(-1)[:0].reshape(shape)
    out = restrided(x, shape, strides)
    out.flags.writeable = (step >= size or count == 1) and x.flags.writeable
    return out


def _unfold_back_array(x: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    out = np.zeros(shape, x.dtype)
    if step >= size:  # windows that do not overlap
        _unfold_array(out, dim, size, step)[...] = x
        return out
    index: list[Any] = [slice(None)] * len(shape)
    count = x.shape[dim]
    for k in range(size):
        index[dim] = slice(k, k + (count - 1) * step + 1, step)
        out[tuple(index)] += x[..., k]
    return out


# Windows of `window` elements along `dim`, in a new last dimension; overlapping windows add up on the way back.
unfold = view(
    "unfold",
    lambda x, dim, window, step: _unfold_array(x, dim, window, step),
    transpose=lambda ct, x_shape, dim, window, step: P.unfold_back(
        ct, shape=x_shape, dim=dim, window=window, step=step
    ),
    batch=lambda x, size, dim, window, step: P.unfold(x, dim=dim + 1, window=window, step=step),
)

unfold_back = linear(
    "unfold_back",
    lambda x, shape, dim, window, step: _unfold_back_array(x, shape, dim, window, step),
    transpose=lambda ct, dim, window, step: P.unfold(ct, dim=dim, window=window, step=step),
    batch=lambda x, size, shape, dim, window, step: P.unfold_back(
        x, shape=(size, *shape), dim=dim + 1, window=window, step=step
    ),
)

flip = linear(
    "flip",
    lambda x, dims: np.array(np.flip(x, dims), order="C"),
    transpose=lambda ct, dims: P.flip(ct, dims=dims),
    batch=lambda x, size, dims: P.flip(x, dims=shift(dims)),
)

roll = linear(
    "roll",
    lambda x, shifts, dims: np.roll(x, shifts, dims),
    transpose=lambda ct, shifts, dims: P.roll(ct, shifts=tuple(-s for s in shifts), dims=dims),
    batch=lambda x, size, shifts, dims: P.roll(x, shifts=shifts, dims=shift(dims)),
)

clone = linear(
    "clone",
    lambda x: x.copy(),
    transpose=lambda ct: ct,
    batch=lambda x, size: P.clone(x),
)

# The same elements in the same memory, as a tensor of its own.
alias = view(
    "alias",
    lambda x: x.view(),
    transpose=lambda ct: ct,
    batch=lambda x, size: P.alias(x),
)

for _prim in (reshape, permute, broadcast, slice_, diagonal, unfold, alias):
    _prim.shows_elements = True
for _prim in (slice_, diagonal, unfold):
    _prim.shows_part = True

# The lower or upper triangle of the last two dimensions; the rest becomes zero.
tril = linear(
    "tril",
    lambda x, diagonal: np.tril(x, diagonal),
    transpose=lambda ct, diagonal: P.tril(ct, diagonal=diagonal),
    batch=lambda x, size, diagonal: P.tril(x, diagonal=diagonal),
)

triu = linear(
    "triu",
    lambda x, diagonal: np.triu(x, diagonal),
    transpose=lambda ct, diagonal: P.triu(ct, diagonal=diagonal),
    batch=lambda x, size, diagonal: P.triu(x, diagonal=diagonal),
)


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


def _cat_pull(needed: list[int], ct: Any, args: Any, shapes: Any, params: Any) -> list[Any]:
    dim = params["dim"]
    bounds = [0, *accumulate(s[dim] for s in shapes)]
    before = (slice(None),) * dim
    return [P.slice(ct, index=(*before, slice(bounds[i], bounds[i + 1]))) for i in needed]


cat_primitive = Variadic(
    "cat",
    lambda *xs, dim: np.concatenate(xs, axis=dim),
    _cat_pull,
    jvp=lambda prim, primals, tangents, out, params: P.cat(
        *[zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)], **params
    ),
    batch=lambda prim, values, batched, size, params: P.cat(
        *batched_to_front(values, batched, size), dim=params["dim"] + 1
    ),
    reads=lambda needed, count: (),
)
