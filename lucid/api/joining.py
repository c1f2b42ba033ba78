"""Concatenation, and what is concatenation underneath; tensors made of pieces, and taken apart by rows and columns."""

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from lucid.api import joining, shaping, splitting
from lucid.arguments.dims import numpy_names, one_dim, shape_from
from lucid.arguments.out import takes_out
from lucid.arguments.promotion import KEEP, are_alike, cast, lift_all, promote
from lucid.core import dtypes, levels
from lucid.core.errors import ArgumentError
from lucid.core.levels import tracing
from lucid.core.primitive import apply, lift
from lucid.core.tensor import Tensor, shape_of
from lucid.ops.rules import P, sum_to
from lucid.ops.views import cat_primitive, stack_primitive


def _tensors(tensors: Any, name: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        tensors = tensors.unbind(0)
    found = list(tensors)
    if not found:
        raise ArgumentError(f"{name}: expected at least one tensor")
    return found if are_alike(found) else promote(name, lift_all(*found), KEEP)


@numpy_names
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along a dimension that they have.

    >>> import lucid
    >>> lucid.cat([lucid.zeros(2, 1), lucid.ones(2, 2)], dim=1)
    Tensor([[0., 1., 1.],
            [0., 1., 1.]])
    """
    found = _tensors(tensors, "cat")
    shapes = [shape_of(t) for t in found]
    if (0,) in shapes:  # as in PyTorch, empty 1-d tensors join with anything
        found = [t for t in found if t.shape != (0,)] or found[:1]
        shapes = [shape_of(t) for t in found]
    first = shapes[0]
    if not first:
        raise RuntimeError("cat: 0-d tensors cannot be joined; use stack")
    d = one_dim(dim, len(first), "cat")
    for shape in shapes:
        if shape != first and (
            len(shape) != len(first) or (*shape[:d], *shape[d + 1 :]) != (*first[:d], *first[d + 1 :])
        ):
            raise ArgumentError(f"cat: shapes {first} and {shape} differ outside dimension {d}")
    joined: Tensor = apply(cat_primitive, found, {"dim": d})
    return joined


concat = concatenate = cat


@numpy_names
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension.

    >>> import lucid
    >>> x, y = lucid.tensor([1, 2]), lucid.tensor([3, 4])
    >>> lucid.stack([x, y], dim=1)
    Tensor([[1, 3],
            [2, 4]])
    """
    found = _tensors(tensors, "stack")
    shape = shape_of(found[0])
    for t in found:
        if shape_of(t) != shape:
            raise ArgumentError(f"stack: shapes {shape} and {t.shape} differ")
    d = one_dim(dim, len(shape) + 1, "stack")
    stacked: Tensor = apply(stack_primitive, found, {"dim": d})
    return stacked


def hstack(tensors: Any) -> Tensor:
    """Join along dimension 1 (0 for 1-d tensors).

    >>> import lucid
    >>> lucid.hstack([lucid.tensor([1, 2]), lucid.tensor([3])])
    Tensor([1, 2, 3])
    """
    found = [t.reshape(1) if t.ndim == 0 else t for t in _tensors(tensors, "hstack")]
    return cat(found, 0 if found[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    """Join along dimension 0; 1-d tensors are rows.

    >>> import lucid
    >>> lucid.vstack([lucid.tensor([1, 2]), lucid.tensor([3, 4])])
    Tensor([[1, 2],
            [3, 4]])
    """
    return cat([t.reshape(1, -1) if t.ndim < 2 else t for t in _tensors(tensors, "vstack")], 0)


def dstack(tensors: Any) -> Tensor:
    """Join along dimension 2, which matrices get; 1-d tensors count as one row.

    >>> import lucid
    >>> lucid.dstack([lucid.tensor([1, 2]), lucid.tensor([3, 4])])
    Tensor([[[1, 3],
             [2, 4]]])
    """
    found = [t.reshape(1, -1) if t.ndim < 2 else t for t in _tensors(tensors, "dstack")]
    return cat([t.unsqueeze(2) if t.ndim == 2 else t for t in found], 2)


def _given(tensors: tuple[Any, ...]) -> list[Tensor]:
    """Tensors given one by one or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    return lift_all(*tensors)


def _at_least(tensors: tuple[Any, ...], widen: Any) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], list | tuple):
        return widen(lift(tensors[0]))
    return tuple(widen(t) for t in _given(tensors))


def _as_1d(x: Tensor) -> Tensor:
    return x if x.ndim else P.reshape(x, shape=(1,))


def _as_2d(x: Tensor) -> Tensor:
    return x if x.ndim > 1 else P.reshape(x, shape=(1, x.numel()))


def _as_3d(x: Tensor) -> Tensor:
    return x if x.ndim > 2 else P.reshape(x, shape=(*_as_2d(x).shape, 1))


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension.

    >>> import lucid
    >>> lucid.atleast_1d(lucid.tensor(2.0))
    Tensor([2.])
    """
    return _at_least(tensors, _as_1d)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions; vectors become rows.

    >>> import lucid
    >>> lucid.atleast_2d(lucid.tensor([1.0, 2.0]))
    Tensor([[1., 2.]])
    """
    return _at_least(tensors, _as_2d)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions; a matrix gets the new one last.

    >>> import lucid
    >>> lucid.atleast_3d(lucid.zeros(2, 3)).shape
    (2, 3, 1)
    """
    return _at_least(tensors, _as_3d)


@takes_out
def column_stack(tensors: Any) -> Tensor:
    """Join along dimension 1; vectors are columns.

    >>> import lucid
    >>> lucid.column_stack([lucid.tensor([1, 2]), lucid.tensor([3, 4])])
    Tensor([[1, 3],
            [2, 4]])
    """
    return joining.hstack([P.reshape(t, shape=(t.numel(), 1)) if t.ndim < 2 else t for t in map(lift, tensors)])


row_stack = takes_out(joining.vstack)


def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given ones on its diagonal, and zeros elsewhere; vectors are rows.

    >>> import lucid
    >>> lucid.block_diag(lucid.tensor([[1, 2]]), lucid.tensor([3]))
    Tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    found = _given(tensors)
    if any(t.ndim > 2 for t in found):
        raise RuntimeError(f"block_diag: expected matrices, not shapes {', '.join(str(t.shape) for t in found)}")
    if not found:
        return shaping.reshape(Tensor([]), (1, 0))
    blocks = [_as_2d(t) for t in promote("block_diag", found, KEEP)]
    width, start, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        index = (slice(None), slice(start, start + b.shape[1]))
        rows.append(P.slice_back(b, index=index, shape=(b.shape[0], width)))
        start += b.shape[1]
    return P.cat(*rows, dim=0)


def _vectors(found: Sequence[Tensor], name: str) -> None:
    for t in found:
        if t.ndim != 1:
            raise RuntimeError(f"{name}: expected vectors, not shape {t.shape}")


def cartesian_prod(*tensors: Any) -> Tensor:
    """All rows that have one element of each vector, the last one changing fastest.

    >>> import lucid
    >>> lucid.cartesian_prod(lucid.tensor([1, 2]), lucid.tensor([4, 5]))
    Tensor([[1, 4],
            [1, 5],
            [2, 4],
            [2, 5]])
    """
    found = _given(tensors)
    if not found:
        raise RuntimeError("cartesian_prod: expected at least one vector")
    _vectors(found, "cartesian_prod")
    if len(found) == 1:
        return found[0]
    grids = shaping.meshgrid(*promote("cartesian_prod", found, KEEP))
    return joining.stack([P.reshape(g, shape=(g.numel(),)) for g in grids], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, one in each row, in its order; `with_replacement` takes them repeatedly.

    >>> import lucid
    >>> lucid.combinations(lucid.tensor([1, 2, 3]))
    Tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    x = lift(input)
    _vectors([x], "combinations")
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}")
    if not r:
        return P.slice(x, index=(slice(0, 0),))
    return P.index(x, Tensor._wrap(_choices(x.shape[0], r, with_replacement)))


def _choices(count: int, r: int, with_replacement: bool) -> Any:
    """The places of all choices of r things out of so many, one in each row."""
    if tracing() and (trace := levels.trace.get()) is not None:
        trace.raise_if_large(r * comb(count + with_replacement * (r - 1), r))
    places = np.arange(count)[:, None]
    for _ in range(r - 1):
        first = places[:, -1] + (not with_replacement)  # the least that may follow in each row
        counts = count - first
        starts = np.cumsum(counts) - counts
        following = np.repeat(first - starts, counts) + np.arange(counts.sum())
        places = np.concatenate([np.repeat(places, counts, axis=0), following[:, None]], axis=1)
    return places


def diagflat(input: Any, offset: int = 0) -> Tensor:
    """The matrix with all elements, in their order, on a diagonal.

    >>> import lucid
    >>> lucid.diagflat(lucid.tensor([[1], [2]]), 1)
    Tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    x = lift(input)
    return splitting.diag_embed(P.reshape(x, shape=(x.numel(),)), offset)


def _split_along(x: Tensor, indices_or_sections: Any, dim: int, name: str) -> tuple[Tensor, ...]:
    if hasattr(indices_or_sections, "__index__"):
        count = indices_or_sections.__index__()
        if count < 1 or x.shape[dim] % count:
            raise RuntimeError(f"{name}: dimension {dim} of shape {x.shape} does not divide into {count} equal parts")
    return splitting.tensor_split(x, indices_or_sections, dim)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of equal pieces along dimension 1 (0 of a vector), or cut before the indices listed.

    >>> import lucid
    >>> lucid.hsplit(lucid.arange(4), 2)
    (Tensor([0, 1]), Tensor([2, 3]))
    """
    x = lift(input)
    if not x.ndim:
        raise RuntimeError("hsplit: a 0-d tensor has no dimension to split")
    return _split_along(x, indices_or_sections, 0 if x.ndim == 1 else 1, "hsplit")


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of equal pieces along dimension 0 of a matrix, or cut before the indices listed.

    >>> import lucid
    >>> lucid.vsplit(lucid.tensor([[1, 2], [3, 4]]), 2)
    (Tensor([[1, 2]]), Tensor([[3, 4]]))
    """
    x = lift(input)
    if x.ndim < 2:
        raise RuntimeError(f"vsplit: expected at least 2 dimensions, not shape {x.shape}")
    return _split_along(x, indices_or_sections, 0, "vsplit")


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of equal pieces along dimension 2, or cut before the indices listed.

    >>> import lucid
    >>> [part.shape for part in lucid.dsplit(lucid.zeros(2, 2, 4), [1])]
    [(2, 2, 1), (2, 2, 3)]
    """
    x = lift(input)
    if x.ndim < 3:
        raise RuntimeError(f"dsplit: expected at least 3 dimensions, not shape {x.shape}")
    return _split_along(x, indices_or_sections, 2, "dsplit")


@numpy_names
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces of the sizes listed.

    >>> import lucid
    >>> lucid.split_with_sizes(lucid.arange(5), [1, 4])
    (Tensor([0]), Tensor([1, 2, 3, 4]))
    """
    return splitting.split(input, list(split_sizes), dim)


def sum_to_size(input: Any, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting from `size` would have added or widened; integers are added up in int64.

    >>> import lucid
    >>> lucid.ones(2, 3).sum_to_size(1, 3)
    Tensor([[2., 2., 2.]])
    """
    x = lift(input)
    shape = shape_from(size, "sum_to_size")
    extra = x.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, x.shape[extra:], strict=True)):
        raise RuntimeError(f"sum_to_size: a tensor of shape {x.shape} does not sum to {shape}")
    if (x.shape != shape or not shape) and x.np_dtype not in dtypes.DIFFERENTIABLE:
        x = cast(x, dtypes.INT64)
    out: Tensor = sum_to(x, shape)
    return out


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes have after broadcasting.

    >>> import lucid
    >>> lucid.broadcast_shapes((2, 1), (3,), 1)
    (2, 3)
    """
    found = [shape_from((s,), "broadcast_shapes") for s in shapes]
    if any(n < 0 for s in found for n in s):
        raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {', '.join(map(str, found))}")
    try:
        return np.broadcast_shapes(*found)
    except ValueError:
        raise RuntimeError(f"shapes {', '.join(map(str, found))} do not broadcast together") from None
