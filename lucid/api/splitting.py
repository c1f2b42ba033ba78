"""Parts of tensors: slices along a dimension, pieces, windows, diagonals and triangles."""

import operator
from itertools import accumulate, pairwise
from typing import Any

from lucid.api.indexing import at_position, known_number
from lucid.arguments.dims import numpy_names, one_dim, real_dim
from lucid.arguments.out import one_primitive
from lucid.arguments.promotion import KEEP
from lucid.core import modes
from lucid.core.levels import active, tracing
from lucid.core.primitive import apply, lift, status_of_view, synced
from lucid.core.storage import NORMAL, ONE_OF_MANY, UNRECORDED, View, new_view, storage_of
from lucid.core.tensor import Tensor, class_of, is_plain, shape_of, wrapped_as
from lucid.ops.indexing import counting, in_range
from lucid.ops.rules import P
from lucid.ops.views import slice_ as slice_primitive

_ALL = slice(None)


def _at(d: int, item: Any) -> tuple[Any, ...]:
    return (*(_ALL,) * d, item)


@numpy_names
def narrow(input: Any, dim: int, start: Any, length: int) -> Tensor:
    """A view of `length` elements from `start` along `dim`.

    A negative `start` counts from the end.

    >>> import lucid
    >>> lucid.narrow(lucid.tensor([1, 2, 3, 4]), 0, 1, 2)
    Tensor([2, 3])
    """
    x = lift(input)
    d = real_dim(x, dim, "narrow")
    size = shape_of(x)[d]
    if isinstance(start, Tensor) and known_number(start) is None:
        ends = in_range(start, size - length + 1, "narrow", negative=False)
        return at_position(x, d, ends + counting(length, 0, 1))
    first = int(start) + (size if int(start) < 0 else 0)
    if length < 0 or not 0 <= first <= size - length:
        raise RuntimeError(f"narrow: {length} elements from {int(start)} do not fit dimension {d} of size {size}")
    return apply(slice_primitive, (x,), {"index": _at(d, slice(first, first + length))})


@numpy_names
def select(input: Any, dim: int, index: Any) -> Tensor:
    """A view of what stands at `index` along `dim`; that dimension goes away.

    >>> import lucid
    >>> lucid.select(lucid.tensor([[1, 2], [3, 4]]), 1, 0)
    Tensor([1, 3])
    """
    x = lift(input)
    shape = shape_of(x)
    if not shape:
        raise IndexError("select: a 0-d tensor has no dimension to select from")
    d = one_dim(dim, len(shape), "select")
    size = shape[d]
    if isinstance(index, Tensor) and known_number(index) is None:
        return at_position(x, d, in_range(index, size, "select"))
    index = int(index)
    if not -size <= index < size:
        raise IndexError(f"select: index {index} is out of range for dimension {d} of size {size}")
    return apply(slice_primitive, (x,), {"index": _at(d, index)})


@numpy_names
def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all that stands along `dim`, one by one; that dimension goes away.

    >>> import lucid
    >>> lucid.unbind(lucid.tensor([[1, 2], [3, 4]]), dim=1)
    (Tensor([1, 3]), Tensor([2, 4]))
    """
    x = lift(input)
    if not shape_of(x):
        raise RuntimeError("unbind: a 0-d tensor has no dimension to unbind")
    d = one_dim(dim, len(shape_of(x)), "unbind")
    before = (_ALL,) * d
    return _parts(x, [{"index": (*before, i)} for i in range(shape_of(x)[d])])


def _parts(x: Tensor, places: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    """Views none of which may be written while gradients are recorded; the tensor is looked at once for all."""
    base = synced(x)
    if not is_plain(x) or tracing() or active.get() or (base._requires_grad and modes.recording.get()):
        parts = [apply(slice_primitive, (x,), place) for place in places]
        for part in parts:
            if type(part._meta) is View and part._meta.status == NORMAL:
                part._meta.status = ONE_OF_MANY
        return tuple(parts)
    storage = storage_of(base)
    array, kind, kernel = base._array, class_of((base,)), slice_primitive.kernel
    status = ONE_OF_MANY if status_of_view(base) == NORMAL else UNRECORDED
    parts = []
    for place in places:
        part = wrapped_as(kind, kernel(array, **place))
        part._meta, part._marked = new_view(base, slice_primitive, place, storage, status), base._marked
        parts.append(part)
    return tuple(parts)


def _pieces(x: Tensor, d: int, bounds: list[int]) -> tuple[Tensor, ...]:
    before = (_ALL,) * d
    places: list[dict[str, Any]] = []
    first = bounds[0]
    for last in bounds[1:]:
        places.append({"index": (*before, slice(first, last))})
        first = last
    return _parts(x, places)


@numpy_names
def split(input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size (the last may be smaller), or of the sizes listed.

    >>> import lucid
    >>> x = lucid.arange(5)
    >>> lucid.split(x, 2)
    (Tensor([0, 1]), Tensor([2, 3]), Tensor([4]))
    >>> lucid.split(x, [1, 4])
    (Tensor([0]), Tensor([1, 2, 3, 4]))
    """
    x = lift(input)
    d = real_dim(x, dim, "split")
    n = shape_of(x)[d]
    if hasattr(split_size_or_sections, "__index__"):
        size = split_size_or_sections.__index__()
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split: the size of the pieces must be positive, got {size}")
        bounds = [*range(0, n, size or 1), n] if n else [0, 0]
    else:
        sizes = [int(s) for s in split_size_or_sections]
        if sum(sizes) != n or any(s < 0 for s in sizes):
            raise RuntimeError(f"split: sizes {sizes} do not add up to dimension {d} of size {n}")
        bounds = [0, *accumulate(sizes)]
    return _pieces(x, d, bounds)


@numpy_names
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: at most `chunks`, all of one size (the last may be smaller).

    >>> import lucid
    >>> lucid.chunk(lucid.arange(5), 3)
    (Tensor([0, 1]), Tensor([2, 3]), Tensor([4]))
    """
    x = lift(input)
    if chunks <= 0:
        raise RuntimeError(f"chunk: the number of chunks must be positive, got {chunks}")
    d = real_dim(x, dim, "chunk")
    size = shape_of(x)[d]
    if not size:
        return _pieces(x, d, [0] * (chunks + 1))
    return _pieces(x, d, [*range(0, size, -(-size // chunks)), size])


@numpy_names
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: a number of nearly equal ones, or cut before the indices listed.

    >>> import lucid
    >>> x = lucid.arange(5)
    >>> lucid.tensor_split(x, 2)
    (Tensor([0, 1, 2]), Tensor([3, 4]))
    >>> lucid.tensor_split(x, [1, 3])
    (Tensor([0]), Tensor([1, 2]), Tensor([3, 4]))
    """
    x = lift(input)
    d = real_dim(x, dim, "tensor_split")
    n = x.shape[d]
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.ndim:
        indices_or_sections = indices_or_sections.tolist()
    if hasattr(indices_or_sections, "__index__"):
        count = indices_or_sections.__index__()
        if count <= 0:
            raise RuntimeError(f"tensor_split: the number of sections must be positive, got {count}")
        small, larger = divmod(n, count)
        bounds = [i * small + min(i, larger) for i in range(count + 1)]
        return _pieces(x, d, bounds)
    cuts = [slice(None, int(i)).indices(n)[1] for i in indices_or_sections]
    places: list[dict[str, Any]] = [{"index": _at(d, slice(a, max(a, b)))} for a, b in pairwise([0, *cuts, n])]
    return _parts(x, places)


def unfold(input: Any, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements, `step` apart, along a dimension; they stand in a new last one.

    >>> import lucid
    >>> lucid.arange(5).unfold(0, 3, 1)
    Tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    x = lift(input)
    shape = shape_of(x)
    d = one_dim(dimension, len(shape), "unfold")
    length = shape[d] if shape else 1
    if size < 0 or size > length or step <= 0:
        raise RuntimeError(f"unfold: windows of {size} every {step} do not fit dimension {d} of size {length}")
    if not shape:
        return x.reshape(1)[:size]
    return apply(P.unfold, (x,), {"dim": d, "window": size, "step": step})


def _matrices(input: Any, name: str) -> Tensor:
    x = lift(input)
    if len(shape_of(x)) < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, not shape {x.shape}")
    return x


def _plane(given: Tensor, dim1: int, dim2: int, name: str) -> tuple[int, int]:
    ndim = len(shape_of(_matrices(given, name)))
    a, b = one_dim(dim1, ndim, name), one_dim(dim2, ndim, name)
    if a == b:
        raise RuntimeError(f"{name}: dim1 and dim2 are both {a}")
    return a, b


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal, in the last dimension; `offset` counts from the main one, upwards if positive.

    >>> import lucid
    >>> lucid.diagonal(lucid.tensor([[1, 2, 3], [4, 5, 6]]), offset=1)
    Tensor([2, 6])
    """
    x = lift(input)
    a, b = _plane(x, dim1, dim2, "diagonal")
    return apply(P.diagonal, (x,), {"offset": offset, "dim1": a, "dim2": b})


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as a diagonal of new matrices, zeros elsewhere.

    >>> import lucid
    >>> lucid.diag_embed(lucid.tensor([1, 2]), offset=1)
    Tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    x = lift(input)
    if not x.ndim:
        raise RuntimeError("diag_embed: expected at least 1 dimension")
    rank = x.ndim + 1
    a, b = one_dim(dim1, rank, "diag_embed"), one_dim(dim2, rank, "diag_embed")
    if a == b:
        raise RuntimeError(f"diag_embed: dim1 and dim2 are both {a}")
    n = x.shape[-1] + abs(offset)
    others = iter(x.shape[:-1])
    shape = tuple(n if d in (a, b) else next(others) for d in range(rank))
    return P.diagonal_back(x, shape=shape, offset=offset, dim1=a, dim2=b)


def diag(input: Any, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector as its diagonal.

    >>> import lucid
    >>> lucid.diag(lucid.tensor([1, 2]))
    Tensor([[1, 0],
            [0, 2]])
    >>> lucid.diag(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([1, 4])
    """
    x = lift(input)
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise RuntimeError(f"diag: expected a vector or a matrix, not shape {x.shape}")
    return P.clone(P.diagonal(x, offset=diagonal, dim1=0, dim2=1))


@one_primitive(P.tril, policy=KEEP, defaults={"diagonal": 0})
def tril(input: Any, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros elsewhere; `diagonal` is the last one kept, 0 for the main one.

    >>> import lucid
    >>> lucid.tril(lucid.ones(3, 3), diagonal=-1)
    Tensor([[0., 0., 0.],
            [1., 0., 0.],
            [1., 1., 0.]])
    """
    return P.tril(_matrices(input, "tril"), diagonal=operator.index(diagonal))


@one_primitive(P.triu, policy=KEEP, defaults={"diagonal": 0})
def triu(input: Any, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros elsewhere; `diagonal` is the first one kept, 0 for the main one.

    >>> import lucid
    >>> lucid.triu(lucid.ones(3, 3), diagonal=1)
    Tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    return P.triu(_matrices(input, "triu"), diagonal=operator.index(diagonal))
