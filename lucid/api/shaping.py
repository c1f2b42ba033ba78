"""Shapes as users change them: functions over the view primitives, with PyTorch's names and errors."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.api import indexing
from lucid.arguments.dims import by_name, many_dims, numpy_names, one_dim, real_dim, shape_from
from lucid.arguments.promotion import lift_all
from lucid.core import dtypes
from lucid.core.detachments import cut
from lucid.core.errors import ArgumentError
from lucid.core.primitive import apply, lift
from lucid.core.storage import DETACHED, View, new_view, storage_of
from lucid.core.tensor import Tensor, is_plain, shape_of
from lucid.kinds.dual import Dual
from lucid.ops.rules import P

_ALL = slice(None)
_NO_PARAMS: dict[str, Any] = {}
_TYPES = (dtypes.dtype, np.dtype)


def _full_shape(x: Tensor, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Fill in a -1, and see that the number of elements is right."""
    known, open_sizes = 1, 0
    for n in shape:
        if n == -1:
            open_sizes += 1
        else:
            known *= n
        if n < -1 or open_sizes > 1:
            raise RuntimeError(f"{name}: {shape} is not a shape: sizes are positive, and at most one is -1")
    count = 1
    for n in shape_of(x):
        count *= n
    if open_sizes:
        if known == 0 or count % known:
            raise ArgumentError(f"{name}: {count} elements of shape {x.shape} do not fit {shape}")
        shape = tuple([count // known if n == -1 else n for n in shape])
    elif known != count:
        raise ArgumentError(f"{name}: {count} elements of shape {x.shape} do not fit {shape}")
    return shape


def reshape(input: Any, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape; a view where possible. One size may be -1.

    >>> import lucid
    >>> lucid.reshape(lucid.arange(6), (2, -1))
    Tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    x = lift(input)
    wanted = shape_from(by_name(shape, named, "shape", "reshape") if named else shape, "reshape")
    shown: Tensor = apply(P.reshape, (x,), {"shape": _full_shape(x, wanted, "reshape")})
    return shown


def view(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """The same memory in another shape, or as elements of another type.

    Never a copy: a shape that the memory cannot be seen in is refused; a type of another width changes the last size.

    >>> import lucid
    >>> x = lucid.zeros(4)
    >>> x.view(2, 2)[0] = 1.0
    >>> x
    Tensor([1., 1., 0., 0.])
    """
    if named:
        size = by_name(size, named, "dtype" if "dtype" in named else "size", "view")
    if len(size) == 1 and isinstance(size[0], _TYPES):
        return _reinterpret(input, dtypes.as_numpy(size[0]))
    wanted = _full_shape(input, shape_from(size, "view"), "view")
    out = apply(P.reshape, (input,), {"shape": wanted})
    if not isinstance(out._meta, View) and input.numel():
        raise RuntimeError(f"view: elements of shape {input.shape} do not lie in memory as {wanted} needs; use reshape")
    return out


def _reinterpret(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    if dtype == x.np_dtype:
        return P.alias(x)
    if not x.ndim and dtype.itemsize != x.np_dtype.itemsize:
        raise RuntimeError(
            f"view(dtype): {x.dtype} without dimensions cannot be seen as {dtype}, which has another width"
        )
    if type(x) is not Tensor or not is_plain(x) or x.requires_grad:
        return _reinterpret_followed(x, dtype)
    out = Tensor._wrap(P.bits.kernel(x.shell()._array, dtype))
    out._meta = new_view(None, P.alias, {}, storage_of(x), DETACHED)
    return out


def _reinterpret_followed(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """The same for tensors of transforms and of the tape: complex numbers and their parts can be differentiated."""
    if x.ndim and dtype == dtypes.real_of(x.np_dtype):
        return view(P.view_as_real(x), (*x.shape[:-1], 2 * x.shape[-1]))
    if x.ndim and x.np_dtype == dtypes.real_of(dtype) and not x.shape[-1] % 2:
        out: Tensor = P.view_as_complex(view(x, (*x.shape[:-1], x.shape[-1] // 2, 2)))
        return out
    inner: Any = x
    while isinstance(inner, Tensor):
        if inner.requires_grad or (isinstance(inner, Dual) and inner._aux is not None):
            raise RuntimeError(
                "view(dtype): the bits of a tensor that requires grad cannot be reinterpreted; detach() it"
            )
        inner = inner._array
    seen: Tensor = P.bits(x, dtype=dtype)
    return seen


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of another tensor.

    >>> import lucid
    >>> lucid.arange(4).view_as(lucid.zeros(2, 2))
    Tensor([[0, 1],
            [2, 3]])
    """
    return view(input, other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of another tensor.

    >>> import lucid
    >>> lucid.arange(4).reshape_as(lucid.zeros(2, 2))
    Tensor([[0, 1],
            [2, 3]])
    """
    return reshape(input, other.shape)


def flatten(
    input: Any, start_dim: int = 0, end_dim: int = -1, *, start: int | None = None, end: int | None = None
) -> Tensor:
    """Make one dimension of those from `start_dim` to `end_dim`, which may also be called `start` and `end`.

    >>> import lucid
    >>> lucid.flatten(lucid.zeros(2, 3, 4), start_dim=1).shape
    (2, 12)
    """
    x = lift(input)
    sizes = shape_of(x)
    ndim = len(sizes)
    first = one_dim(start_dim if start is None else start, ndim, "flatten")
    last = one_dim(end_dim if end is None else end, ndim, "flatten")
    if first > last:
        raise RuntimeError(f"flatten: start_dim {first} comes after end_dim {last}, of {ndim} dimensions")
    if first == last and ndim:
        return x
    shape = (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :])
    return apply(P.reshape, (x,), {"shape": shape})


def ravel(input: Any) -> Tensor:
    """All elements in one dimension, in row-major order; a view if that is how they lie in memory.

    >>> import lucid
    >>> lucid.ravel(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([1, 2, 3, 4])
    """
    x = contiguous(lift(input))
    return apply(P.reshape, (x,), {"shape": (x.numel(),)})


@numpy_names
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Tensor:
    """Make several dimensions of one; one size may be -1.

    >>> import lucid
    >>> lucid.unflatten(lucid.zeros(2, 12), 1, (3, -1)).shape
    (2, 3, 4)
    """
    x = lift(input)
    d = real_dim(x, dim, "unflatten")
    parts = [int(s) for s in sizes]
    shape = shape_of(x)
    known = math.prod([s for s in parts if s != -1])
    if -1 in parts and known and shape[d] % known == 0:
        parts = [shape[d] // known if s == -1 else s for s in parts]
    if math.prod(parts) != shape[d]:
        raise RuntimeError(f"unflatten: dimension {d} of {shape} does not factor into {tuple(sizes)}")
    return apply(P.reshape, (x,), {"shape": (*shape[:d], *parts, *shape[d + 1 :])})


@numpy_names
def squeeze(input: Any, *dims: Any, **named: Any) -> Tensor:
    """Drop dimensions of size 1: all of them, or those in `dim`, one or several.

    >>> import lucid
    >>> lucid.squeeze(lucid.zeros(1, 3, 1)).shape
    (3,)
    >>> lucid.squeeze(lucid.zeros(1, 3, 1), dim=0).shape
    (3, 1)
    """
    x = lift(input)
    given = by_name(dims, named, "dim", "squeeze")
    dim = given if len(given) > 1 else given[0] if given else None
    shape = shape_of(x)
    dropped = () if dim == () else many_dims(dim, len(shape), "squeeze")
    return apply(P.reshape, (x,), {"shape": tuple([n for d, n in enumerate(shape) if n != 1 or d not in dropped])})


@numpy_names
def unsqueeze(input: Any, dim: int) -> Tensor:
    """Insert a dimension of size 1 at `dim`.

    >>> import lucid
    >>> lucid.unsqueeze(lucid.zeros(2, 3), 1).shape
    (2, 1, 3)
    """
    x = lift(input)
    shape = shape_of(x)
    d = one_dim(dim, len(shape) + 1, "unsqueeze")
    return apply(P.reshape, (x,), {"shape": (*shape[:d], 1, *shape[d:])})


expand_dims = unsqueeze


def permute(input: Any, *dims: Any, **named: Any) -> Tensor:
    """The dimensions in another order.

    >>> import lucid
    >>> lucid.permute(lucid.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = lift(input)
    ndim = x.ndim
    order = [one_dim(d, ndim, "permute") for d in shape_from(by_name(dims, named, "dims", "permute"), "permute")]
    if len(order) != ndim or len(set(order)) != ndim:
        raise RuntimeError(f"permute: {tuple(order)} does not name each of the {ndim} dimensions once")
    return apply(P.permute, (x,), {"dims": tuple(order)})


def transpose(input: Any, dim0: int | None = None, dim1: int | None = None) -> Tensor:
    """Two dimensions exchanged, or without arguments all in reverse order.

    >>> import lucid
    >>> lucid.transpose(lucid.tensor([[1, 2], [3, 4]]), 0, 1)
    Tensor([[1, 3],
            [2, 4]])
    """
    x = lift(input)
    if dim0 is None and dim1 is None:
        return apply(P.permute, (x,), {"dims": _backwards(x.ndim)})
    if dim0 is None or dim1 is None:
        raise TypeError("transpose: give both dimensions, or none")
    ndim = x.ndim
    a, b = one_dim(dim0, ndim, "transpose"), one_dim(dim1, ndim, "transpose")
    order = list(range(ndim))
    if order:
        order[a], order[b] = b, a
    return apply(P.permute, (x,), {"dims": tuple(order)})


swapdims = transpose


def swapaxes(input: Any, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged, under the names of NumPy.

    >>> import lucid
    >>> lucid.swapaxes(lucid.zeros(2, 3), axis0=0, axis1=1).shape
    (3, 2)
    """
    return transpose(input, axis0, axis1)


def _backwards(ndim: int) -> tuple[int, ...]:
    """The dimensions in reverse order."""
    return (1, 0) if ndim == 2 else tuple(range(ndim - 1, -1, -1))


def t(input: Any) -> Tensor:
    """The transpose of a matrix; vectors stay as they are.

    >>> import lucid
    >>> lucid.t(lucid.tensor([[1, 2, 3]]))
    Tensor([[1],
            [2],
            [3]])
    """
    x = lift(input)
    ndim = x.ndim
    if ndim > 2:
        raise RuntimeError(f"t: expected at most 2 dimensions, not shape {x.shape}; use mT or transpose")
    return apply(P.permute, (x,), {"dims": _backwards(ndim)})


def adjoint(input: Any) -> Tensor:
    """The last two dimensions exchanged, and the elements conjugated.

    >>> import lucid
    >>> lucid.adjoint(lucid.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([[1., 3.],
            [2., 4.]])
    """
    x = lift(input)
    if x.ndim < 2:
        raise RuntimeError(f"adjoint: expected matrices, not shape {x.shape}")
    turned = apply(P.permute, (x,), {"dims": (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)})
    return P.conj(turned) if x.is_complex() else turned


def movedim(input: Any, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places; the rest keep their order.

    `source` and `destination` are one dimension each, or lists that pair up.

    >>> import lucid
    >>> lucid.movedim(lucid.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    x = lift(input)
    sources = [source] if hasattr(source, "__index__") else list(source)
    targets = [destination] if hasattr(destination, "__index__") else list(destination)
    if len(sources) != len(targets):
        raise RuntimeError(f"movedim: {len(sources)} sources and {len(targets)} destinations")
    a = [one_dim(d, x.ndim, "movedim") for d in sources]
    b = [one_dim(d, x.ndim, "movedim") for d in targets]
    if len(set(a)) != len(a) or len(set(b)) != len(b):
        raise RuntimeError(f"movedim: {source} to {destination} names a dimension twice")
    order = [d for d in range(x.ndim) if d not in a]
    for target, origin in sorted(zip(b, a, strict=True)):
        order.insert(target, origin)
    return apply(P.permute, (x,), {"dims": tuple(order)})


moveaxis = movedim


def expand(input: Any, *sizes: Any, **named: Any) -> Tensor:
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    More sizes than dimensions add new ones in front.

    >>> import lucid
    >>> lucid.tensor([[1], [2]]).expand(-1, 3)
    Tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    x = lift(input)
    own, wanted = shape_of(x), shape_from(by_name(sizes, named, "size", "expand") if named else sizes, "expand")
    extra = len(wanted) - len(own)
    if extra < 0:
        raise RuntimeError(f"expand: {wanted} has fewer dimensions than shape {own}")
    shape = list(wanted)
    for d, n in enumerate(own, extra):
        if shape[d] == -1:
            shape[d] = n
        elif n != 1 and n != shape[d]:
            raise RuntimeError(
                f"expand: shape {own} cannot be expanded to {wanted}: dimension {d - extra} has size {n}"
            )
    if shape and min(shape) < 0:
        raise RuntimeError(f"expand: {wanted} has a negative size that keeps no dimension of {own}")
    return apply(P.broadcast_to, (x,), {"shape": tuple(shape)})


def broadcast_to(input: Any, size: Any = None, *, shape: Any = None) -> Tensor:
    """Repeat dimensions of size 1 without copying, to the shape given.

    >>> import lucid
    >>> lucid.broadcast_to(lucid.tensor([1, 2, 3]), (2, 3))
    Tensor([[1, 2, 3],
            [1, 2, 3]])
    """
    if (size is None) == (shape is None):
        raise TypeError("broadcast_to: give the shape, once")
    return expand(input, tuple(shape if size is None else size))


def expand_as(input: Any, other: Tensor) -> Tensor:
    """Expand to the shape of another tensor.

    >>> import lucid
    >>> lucid.tensor([1, 2, 3]).expand_as(lucid.zeros(2, 3))
    Tensor([[1, 2, 3],
            [1, 2, 3]])
    """
    return expand(input, other.shape)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    >>> import lucid
    >>> x, y = lucid.broadcast_tensors(lucid.zeros(3, 1), lucid.zeros(4))
    >>> x.shape, y.shape
    ((3, 4), (3, 4))
    """
    found = lift_all(*tensors)
    try:
        shape = np.broadcast_shapes(*[x.shape for x in found])
    except ValueError:
        raise RuntimeError(f"shapes {', '.join(str(x.shape) for x in found)} do not broadcast together") from None
    return tuple(P.broadcast_to(x, shape=shape) for x in found)


def in_own_memory(found: Tensor, source: Tensor) -> Tensor:
    """What steps that may be views made of `source`, copied if it shows the memory of another tensor."""
    return P.clone(found) if found is source or found.is_view() else found


def repeat(input: Any, *repeats: Any, **named: Any) -> Tensor:
    """Copies side by side: `repeats` of them along each dimension.

    More counts than dimensions add new ones in front.

    >>> import lucid
    >>> lucid.tensor([1, 2]).repeat(2, 3)
    Tensor([[1, 2, 1, 2, 1, 2],
            [1, 2, 1, 2, 1, 2]])
    """
    x = lift(input)
    counts = shape_from(by_name(repeats, named, "repeats", "repeat"), "repeat")
    if len(counts) < x.ndim:
        raise RuntimeError(f"repeat: {len(counts)} repeats for {x.ndim} dimensions")
    if any(c < 0 for c in counts):
        raise RuntimeError(f"repeat: repeats must not be negative, got {counts}")
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    spread = apply(P.reshape, (x,), {"shape": tuple(m for n in shape for m in (1, n))})
    copies = P.broadcast_to(spread, shape=tuple(m for c, n in zip(counts, shape, strict=True) for m in (c, n)))
    return in_own_memory(P.reshape(copies, shape=tuple(c * n for c, n in zip(counts, shape, strict=True))), x)


def tile(input: Any, *dims: Any, **named: Any) -> Tensor:
    """Copies side by side, as `repeat`, with missing counts taken as 1.

    >>> import lucid
    >>> lucid.tile(lucid.tensor([[1, 2], [3, 4]]), (2,))
    Tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    x = lift(input)
    counts = shape_from(by_name(dims, named, "dims", "tile"), "tile")
    return repeat(x, (1,) * (x.ndim - len(counts)) + counts)


@numpy_names
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element `repeats` times in a row, along `dim` or flattened.

    `repeats` is one number for all elements or a tensor with one for each. With counts alone, each index is repeated as
    often as its count says. `output_size`, the size along `dim` afterwards, is checked if it is given.

    >>> import lucid
    >>> x = lucid.tensor([1, 2, 3])
    >>> lucid.repeat_interleave(x, 2)
    Tensor([1, 1, 2, 2, 3, 3])
    >>> lucid.repeat_interleave(x, lucid.tensor([0, 1, 3]))
    Tensor([2, 3, 3, 3])
    """
    x = lift(input)
    if repeats is None:
        x, repeats = Tensor._wrap(np.arange(x.numel())), x
    if dim is None:
        x, dim = x.reshape(-1), 0
    shape = shape_of(x)
    d = one_dim(dim, len(shape), "repeat_interleave")
    size = shape[d] if shape else 1
    number, counts = _repeats(repeats, size, d)
    total = size * number if counts is None else int(counts.sum())
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but the repeats give {total}")
    if counts is not None:
        return indexing.getitem(x, (*(_ALL,) * d, Tensor._wrap(np.repeat(np.arange(size), counts))))
    before, behind = shape[:d], shape[d + 1 :]
    each = apply(P.reshape, (x,), {"shape": (*before, size, 1, *behind)})
    copies = apply(P.broadcast_to, (each,), {"shape": (*before, size, number, *behind)})
    return in_own_memory(apply(P.reshape, (copies,), {"shape": (*before, total, *behind)}), x)


def _repeats(repeats: Any, size: int, dim: int) -> tuple[int, Any]:
    """One number for all elements, or the number of each."""
    if type(repeats) is int and repeats >= 0:
        return repeats, None
    counts = lift(repeats)._concrete("repeat_interleave")
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise RuntimeError("repeat_interleave: repeats must be integers that are not negative")
    if counts.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must have at most one dimension, not shape {counts.shape}")
    if counts.size not in (1, size):
        raise RuntimeError(f"repeat_interleave: {counts.size} repeats for dimension {dim} of size {size}")
    return (int(counts.item()), None) if counts.size == 1 else (0, counts)


def flip(input: Any, *dims: Any, **named: Any) -> Tensor:
    """The order of the elements reversed along `dims`.

    >>> import lucid
    >>> lucid.flip(lucid.tensor([[1, 2], [3, 4]]), (0, 1))
    Tensor([[4, 3],
            [2, 1]])
    """
    x = lift(input)
    if "axis" in named:
        named["dims"] = named.pop("axis")
    along = shape_from(by_name(dims, named, "dims", "flip"), "flip")
    return apply(P.flip, (x,), {"dims": many_dims(along, x.ndim, "flip") if along else ()})


def fliplr(input: Any) -> Tensor:
    """Columns in reverse order.

    >>> import lucid
    >>> lucid.fliplr(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[2, 1],
            [4, 3]])
    """
    return flip(input, 1)


def flipud(input: Any) -> Tensor:
    """Rows in reverse order.

    >>> import lucid
    >>> lucid.flipud(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[3, 4],
            [1, 2]])
    """
    x = lift(input)
    if not x.ndim:
        raise RuntimeError("flipud: a 0-d tensor has no rows")
    return flip(x, 0)


@numpy_names
def roll(input: Any, shifts: Any, dim: Any = None, dims: Any = None) -> Tensor:
    """Elements moved along `dims`; those that leave at one end come in at the other.

    `shifts` has one number for each of `dims` (`dim` is the same); without them, the flattened elements move.

    >>> import lucid
    >>> lucid.roll(lucid.tensor([1, 2, 3, 4]), 1)
    Tensor([4, 1, 2, 3])
    """
    x = lift(input)
    along = dims if dims is not None else dim
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if along is None:
        if len(moves) != 1:
            raise RuntimeError(f"roll: {len(moves)} shifts for a flattened tensor")
        return P.reshape(P.roll(P.reshape(x, shape=(x.numel(),)), shifts=moves, dims=(0,)), shape=x.shape)
    places = (along,) if isinstance(along, int) else tuple(along)
    if len(places) != len(moves):
        raise RuntimeError(f"roll: {len(moves)} shifts for {len(places)} dims")
    if places and not x.ndim:
        raise IndexError(f"roll: a 0-d tensor has no dimension {places[0]}")
    return P.roll(x, shifts=moves, dims=tuple(one_dim(d, x.ndim, "roll") for d in places))


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarter turns in the plane of two dimensions.

    The turn goes from the first of `dims` towards the second; a negative k turns back.

    >>> import lucid
    >>> lucid.rot90(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[2, 4],
            [1, 3]])
    """
    x = lift(input)
    if len(dims) != 2:
        raise RuntimeError(f"rot90: a plane has two dims, not {tuple(dims)}")
    a, b = (one_dim(d, x.ndim, "rot90") for d in dims)
    if a == b:
        raise RuntimeError(f"rot90: dims {tuple(dims)} are the same dimension")
    turns = k % 4
    if turns == 0:
        return x.clone()
    if turns == 2:
        return flip(x, a, b)
    return transpose(flip(x, b), a, b) if turns == 1 else flip(transpose(x, a, b), b)


def clone(input: Any) -> Tensor:
    """A copy in new memory that gradients flow through.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> y = lucid.clone(x).zero_()
    >>> x
    Tensor([1., 2.])
    """
    return apply(P.clone, (lift(input),), _NO_PARAMS)


def contiguous(input: Tensor) -> Tensor:
    """The tensor itself if its memory is in row-major order, else a copy that is.

    >>> import lucid
    >>> x = lucid.zeros(2, 3).t()
    >>> x.is_contiguous(), lucid.contiguous(x).is_contiguous()
    (False, True)
    """
    return input if input.is_contiguous() else apply(P.clone, (input,), _NO_PARAMS)


def detach(input: Tensor) -> Tensor:
    """The same memory without history: gradients stop here.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> lucid.detach(x * 2).requires_grad
    False
    """
    if input.requires_grad:
        cut("detach()", input)
    return input._detached()


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates on a grid: each vector spread over the dimensions of all.

    `indexing` "ij" gives the first vector the first dimension, "xy" the second, as plots have it.

    >>> import lucid
    >>> rows, columns = lucid.meshgrid(lucid.tensor([1, 2]), lucid.tensor([3, 4, 5]))
    >>> rows
    Tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> columns
    Tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    found = lift_all(*tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing must be 'ij' or 'xy', not {indexing!r}")
    if any(x.ndim > 1 for x in found):
        raise RuntimeError(f"meshgrid: expected vectors, not shapes {', '.join(str(x.shape) for x in found)}")
    swap = indexing == "xy" and len(found) > 1
    if swap:
        found[0], found[1] = found[1], found[0]
    shape = tuple(x.numel() for x in found)
    grids = [
        P.broadcast_to(x.reshape([-1 if d == i else 1 for d in range(len(found))]), shape=shape)
        for i, x in enumerate(found)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
