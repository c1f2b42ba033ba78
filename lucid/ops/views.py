"""Views and other rearrangements: primitives whose results hold the same elements in another shape or order."""

import math
from itertools import accumulate
from typing import Any

import numpy as np

from lucid.core.arrays import is_contiguous
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, common, indexed, same, shaped, without
from lucid.ops.categories import Variadic, linear, view
from lucid.ops.rules import P, batched_to_front, shift, sum_to, zeros_like


def _reshape_abstract(x: Abstract, shape: tuple[int, ...]) -> Abstract:
    """A size of -1 is what the others leave."""
    if -1 in shape:
        rest = math.prod(x.shape) // -math.prod(shape)
        shape = tuple([rest if n == -1 else n for n in shape])
    return Abstract(shape, x.dtype)


reshape = view(
    "reshape",
    transpose=lambda ct, x_shape: P.reshape(ct, shape=x_shape),
    batch=lambda x, size, shape: P.reshape(x, shape=(size, *shape)),
    back=lambda ct, x_shape, shape: P.reshape.kernel(ct, x_shape),
    abstract=_reshape_abstract,
    shows_elements=True,
)

permute = view(
    "permute",
    transpose=lambda ct, dims: P.permute(ct, dims=inverse(dims)),
    batch=lambda x, size, dims: P.permute(x, dims=(0, *shift(dims))),
    abstract=lambda x, dims: Abstract(tuple([x.shape[d] for d in dims]), x.dtype),
    shows_elements=True,
)


def _batch_broadcast(x: Any, size: int, shape: tuple[int, ...]) -> Any:
    aligned = P.reshape(x, shape=(size, *(1,) * (len(shape) - x.ndim + 1), *x.shape[1:]))
    return P.broadcast_to(aligned, shape=(size, *shape))


broadcast = view(
    "broadcast_to",
    transpose=lambda ct, x_shape: sum_to(ct, x_shape),
    batch=_batch_broadcast,
    abstract=shaped,
    shows_elements=True,
)


# `dims` more dimensions, along which elements repeat: what a sum over them is the transpose of.
spread = view(
    "spread",
    transpose=lambda ct, x_shape, dims: P.sum(ct, dims=dims, keepdim=False),
    batch=lambda x, size, shape, dims: P.spread(x, shape=(size, *shape), dims=shift(dims)),
    back=lambda ct, x_shape, shape, dims: P.sum.kernel(ct, dims, False),
    abstract=shaped,
)


def _takes_all(ct: Any, x_shape: tuple[int, ...], index: tuple[Any, ...]) -> bool:
    """Whether an index takes all elements in their order, as `x[None]` does."""
    if math.prod(ct.shape) != math.prod(x_shape):
        return False
    return not any(isinstance(i, slice) and i.step is not None and i.step < 0 for i in index)


def _slice_transpose(ct: Any, x_shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    if _takes_all(ct, x_shape, index):
        return P.reshape(ct, shape=x_shape)
    return P.slice_back(ct, index=index, shape=x_shape)


def _slice_pull(ct: Any, x_shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    if _takes_all(ct, x_shape, index):
        return P.reshape.kernel(ct, shape=x_shape)
    return P.slice_back.kernel(ct, index, x_shape)


# Basic indexing: integers, slices, None and Ellipsis. Its transpose writes into zeros.
slice_ = view(
    "slice",
    transpose=_slice_transpose,
    batch=lambda x, size, index: P.slice(x, index=(slice(None), *index)),
    back=_slice_pull,
    abstract=lambda x, index: Abstract(indexed(x.shape, index), x.dtype),
    shows_elements=True,
    shows_part=True,
)


slice_back = linear(
    "slice_back",
    transpose=lambda ct, index: P.slice(ct, index=index),
    batch=lambda x, size, index, shape: P.slice_back(x, index=(slice(None), *index), shape=(size, *shape)),
    abstract=lambda x, index, shape: Abstract(shape, x.dtype),
)


def _pull_parts(needed: list[int], ct: Any, args: Any, shapes: Any, params: Any) -> list[Any]:
    row_major = ct.is_contiguous() if isinstance(ct, Tensor) else is_contiguous(ct)
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


# The sum of the transposes of several views of one tensor, each with its `tape.geometry.Geometry.place`, none of which
# shows an element twice: n of them take the work of one and of what they hold.
parts_back = Variadic(
    "parts_back",
    _pull_parts,
    jvp=_parts_back_jvp,
    batch=_batch_parts,
    reads=None,
    abstract=lambda *xs, places, shape: Abstract(shape, np.result_type(*{x.dtype for x in xs})),
    category="scatter",
)


def _diagonal_abstract(x: Abstract, offset: int, dim1: int, dim2: int) -> Abstract:
    length = min(x.shape[dim1] + min(offset, 0), x.shape[dim2] - max(offset, 0))
    return Abstract((*without(x.shape, (dim1, dim2)), max(length, 0)), x.dtype)


diagonal = view(
    "diagonal",
    transpose=lambda ct, x_shape, offset, dim1, dim2: P.diagonal_back(
        ct, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2
    ),
    batch=lambda x, size, offset, dim1, dim2: P.diagonal(x, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),
    abstract=_diagonal_abstract,
    shows_elements=True,
    shows_part=True,
)


diagonal_back = linear(
    "diagonal_back",
    transpose=lambda ct, offset, dim1, dim2: P.diagonal(ct, offset=offset, dim1=dim1, dim2=dim2),
    batch=lambda x, size, shape, offset, dim1, dim2: P.diagonal_back(
        x, shape=(size, *shape), offset=offset, dim1=dim1 + 1, dim2=dim2 + 1
    ),
    abstract=shaped,
)


def _unfold_abstract(x: Abstract, dim: int, window: int, step: int) -> Abstract:
    count = (x.shape[dim] - window) // step + 1
    return Abstract((*x.shape[:dim], count, *x.shape[dim + 1 :], window), x.dtype)


# Windows of `window` elements along `dim`, in a new last dimension; overlapping windows add up on the way back.
unfold = view(
    "unfold",
    transpose=lambda ct, x_shape, dim, window, step: P.unfold_back(
        ct, shape=x_shape, dim=dim, window=window, step=step
    ),
    batch=lambda x, size, dim, window, step: P.unfold(x, dim=dim + 1, window=window, step=step),
    abstract=_unfold_abstract,
    category="gather",
    shows_elements=True,
    shows_part=True,
)

unfold_back = linear(
    "unfold_back",
    transpose=lambda ct, dim, window, step: P.unfold(ct, dim=dim, window=window, step=step),
    batch=lambda x, size, shape, dim, window, step: P.unfold_back(
        x, shape=(size, *shape), dim=dim + 1, window=window, step=step
    ),
    abstract=shaped,
    category="scatter",
)

flip = linear(
    "flip",
    transpose=lambda ct, dims: P.flip(ct, dims=dims),
    batch=lambda x, size, dims: P.flip(x, dims=shift(dims)),
    abstract=same,
)

roll = linear(
    "roll",
    transpose=lambda ct, shifts, dims: P.roll(ct, shifts=tuple(-s for s in shifts), dims=dims),
    batch=lambda x, size, shifts, dims: P.roll(x, shifts=shifts, dims=shift(dims)),
    abstract=same,
)

clone = linear(
    "clone",
    transpose=lambda ct: ct,
    batch=lambda x, size: P.clone(x),
    abstract=same,
    is_scalar=True,
    body=lambda x: x,
)

# The same elements in the same memory, as a tensor of its own.
alias = view(
    "alias",
    transpose=lambda ct: ct,
    batch=lambda x, size: P.alias(x),
    abstract=same,
    shows_elements=True,
    is_scalar=True,
    body=lambda x: x,
)

# The lower or upper triangle of the last two dimensions; the rest becomes zero.
tril = linear(
    "tril",
    transpose=lambda ct, diagonal: P.tril(ct, diagonal=diagonal),
    batch=lambda x, size, diagonal: P.tril(x, diagonal=diagonal),
    abstract=same,
)

triu = linear(
    "triu",
    transpose=lambda ct, diagonal: P.triu(ct, diagonal=diagonal),
    batch=lambda x, size, diagonal: P.triu(x, diagonal=diagonal),
    abstract=same,
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


def _cat_abstract(*xs: Abstract, dim: int) -> Abstract:
    shape = xs[0].shape
    return Abstract((*shape[:dim], sum([x.shape[dim] for x in xs]), *shape[dim + 1 :]), common(*xs))


def _push_all(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    return prim(*[zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)], **params)


def _batch_all(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), dim=params["dim"] + 1)


cat_primitive = Variadic(
    "cat",
    _cat_pull,
    jvp=_push_all,
    batch=_batch_all,
    reads=None,
    abstract=_cat_abstract,
    linear_in=None,
)


def _stack_pull(needed: list[int], ct: Any, args: Any, shapes: Any, params: Any) -> list[Any]:
    before = (slice(None),) * params["dim"]
    return [P.slice(ct, index=(*before, i)) for i in needed]


def _stack_abstract(*xs: Abstract, dim: int) -> Abstract:
    shape = xs[0].shape
    return Abstract((*shape[:dim], len(xs), *shape[dim:]), common(*xs))


stack_primitive = Variadic(
    "stack",
    _stack_pull,
    jvp=_push_all,
    batch=_batch_all,
    reads=None,
    abstract=_stack_abstract,
    linear_in=None,
)
