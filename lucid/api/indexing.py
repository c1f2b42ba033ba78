"""Reading and writing elements by position: `x[...]`, and the primitives under gather and scatter.

Everything goes through four primitives on the leading dimensions of a tensor: `index` reads at integer
positions, `index_back` is its transpose (contributions add up), `index_put` writes, `index_last` tells which
write to a place was the last one. `in_range` stands before them all.
"""

from math import isinf
from typing import Any

import numpy as np

from lucid.arguments import promotion
from lucid.arguments.dims import broadcast_shapes, numpy_names, one_dim
from lucid.arguments.out import memory_of, note_write, put
from lucid.arguments.promotion import exact
from lucid.core import dtypes, modes
from lucid.core.fields import TensorFields
from lucid.core.kernels import table
from lucid.core.levels import tracing
from lucid.core.primitive import apply, constant, element_type, lift, note_positions, synced
from lucid.core.tensor import Tensor, is_plain, shape_of, wrapped
from lucid.kinds.batched import Batched
from lucid.kinds.dual import Dual
from lucid.ops.indexing import along, counting, in_range, index_put_primitive, nonzero_positions
from lucid.ops.rules import P
from lucid.ops.scatter import index_amax, index_amin, index_prod
from lucid.tape.inplace import write, write_part

_ALL = slice(None)


def getitem(input: Tensor, key: Any) -> Tensor:
    """`input[key]` with integers, slices, None, Ellipsis, masks and integer arrays, in any mixture."""
    if type(key) is not tuple:
        key = (key,)
    if _is_basic(key):
        return _basic(input, key)
    leading = _leading(input, key)
    if leading is not None:
        return P.index(input, *leading)
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


def _is_basic(key: tuple[Any, ...]) -> bool:
    """Whether a key has only what makes a view."""
    for item in key:
        kind = type(item)
        if kind is slice:
            if isinstance(item.start, TensorFields) or isinstance(item.stop, TensorFields):
                return False
            if isinstance(item.step, TensorFields):
                return False
        elif kind is not int and item is not None and item is not Ellipsis:
            return False
    return True


def _leading(x: Tensor, key: tuple[Any, ...]) -> list[Tensor] | None:
    """The positions in leading dimensions that a key names which is a mask, or `:` and then tensors of integers."""
    sizes = shape_of(x)
    place, rank = 0, 0
    positions: list[Tensor] = []
    for d, item in enumerate(key):
        if not isinstance(item, Tensor):
            if positions or type(item) is not slice or item != _ALL:
                return None
            place += 1
            continue
        shape = shape_of(item)
        kind = element_type(item).kind
        if kind == "b" and len(key) == 1 and 0 < len(shape) <= len(sizes):
            return mask_positions(item, sizes[: len(shape)])
        if kind not in "iu" or not shape or d >= len(sizes) or is_mask_of_bytes(item):
            return None
        if positions and shape != shape_of(positions[0]):
            return None
        rank = len(shape)
        positions.append(in_range(item, sizes[d]))
    if not place or not positions:
        return positions or None
    # Dimensions before the positions have positions too, each element's own: nothing is out of its order.
    return [*[counting(sizes[d], d, place + rank) for d in range(place)], *positions]


def known_number(item: Tensor) -> int | None:
    """The value of a 0-d integer tensor, if inside transforms it is one and known."""
    inner: Any = item
    while not is_plain(inner):
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
        out: Tensor = apply(P.slice, (x,), {"index": key})
        return out
    except IndexError as error:
        raise _index_error(x, error) from None


def _index_error(x: Tensor, error: IndexError) -> IndexError:
    return IndexError(f"{error} (indexing a tensor of shape {x.shape})")


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
    positions = list(arrays.values())
    if place and len(spread) == len(dims):
        # Dimensions before the positions have positions too, each element's own: nothing is out of its order.
        rank = place + _rank(positions)
        positions = [*[counting(n, d, rank) for d, n in enumerate(seen.shape[:place])], *positions]
        place = 0
    elif dims and dims != list(range(len(dims))):
        seen = P.permute(seen, dims=(*dims, *others))
    try:
        broadcast_shapes([p.shape for p in positions])
    except ValueError:
        shapes = ", ".join(str(p.shape) for p in arrays.values())
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast together") from None
    return seen, positions, place


def _index_item(item: Any) -> Any:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        # Bounds are numbers from here on: a view must not change with a tensor that once gave a bound.
        bounds = (item.start, item.stop, item.step)
        return slice(*[b.__index__() if isinstance(b, Tensor) else b for b in bounds])
    if isinstance(item, (bool, np.bool_)):
        return Tensor._wrap(np.asarray(item))
    if isinstance(item, Tensor):
        if item.np_dtype.kind not in "iub":
            raise IndexError(f"index tensors must be integers or booleans, not {item.dtype}")
        if is_mask_of_bytes(item):
            return P.ne(item, 0)
        known = None if item.ndim or item.np_dtype == dtypes.BOOL else known_number(item)
        return item if known is None else known
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    if isinstance(item, (np.ndarray, list, tuple, range)):
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        return _index_item(Tensor._wrap(array) if array.ndim else array.item())
    raise TypeError(
        f"cannot index with {type(item).__name__}; use integers, slices, None, ..., masks or integer arrays"
    )


def is_mask_of_bytes(item: Tensor) -> bool:
    """Whether the elements of an index are truths, of a class that keeps them in bytes."""
    return item.bytes_are_masks and item.np_dtype == dtypes.uint8.numpy


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
    return [Tensor._wrap(found) for found in nonzero_positions(array, False)]


def setitem(input: Tensor, key: Any, value: Any) -> None:
    """`input[key] = value`, in place."""
    source = _source(input, value)
    if key is ... or (type(key) is slice and key == _ALL):
        own, given = shape_of(input), shape_of(source)
        if (own or key is ...) and (not given or given == own) and put(input, source, "setitem"):
            return
    if type(key) is not tuple:
        key = (key,)
    if _is_basic(key):
        try:
            if write_part(input, P.slice, {"index": key}, source, "setitem"):
                return
        except IndexError as error:
            raise _index_error(input, error) from None
        _copy(_basic(input, key), source)
        return
    if len(key) == 1 and not source.ndim and is_mask_of(input, key[0]):
        fill_where(input, key[0], source, "setitem")
        return
    leading = _leading(input, key)
    seen, positions, place = _resolve(input, key) if leading is None else (input, leading, 0)
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


def is_mask_of(x: Tensor, item: Any) -> bool:
    """Whether each element has a truth of its own: inside a transform, where it cannot be said how many hold, too."""
    return isinstance(item, Tensor) and element_type(item) is dtypes.BOOL and shape_of(item) == shape_of(x)


def fill_where(target: Tensor, mask: Tensor, source: Tensor, name: str) -> Tensor:
    """Write one value where a mask holds."""
    array = memory_of(target, source) if is_plain(mask) else None
    if array is not None and table["call_into"](P.where, array, (mask._array, source._array, array), {}):
        note_write(target, name)
        return target
    return write(target, name, lambda old: P.where(mask, source, old), (source,))


def _copy(target: Tensor, source: Tensor) -> None:
    target.copy_(_without_leading_ones(source, target.ndim))


def _without_leading_ones(source: Tensor, rank: int) -> Tensor:
    """An assigned value may have more dimensions than its target, if those are of size 1."""
    extra = source.ndim - rank
    if extra <= 0 or any(n != 1 for n in source.shape[:extra]):
        return source
    return P.reshape(source, shape=source.shape[extra:])


def is_common(value: Any, kind: Any) -> bool:
    """Whether it is a number that needs no look before it is converted, as most are."""
    if type(value) is float:
        if not -1e38 < value < 1e38 and not isinf(value):
            return False
    elif type(value) is not int or not -(1 << 24) < value < 1 << 24:
        return False
    return kind in dtypes.SINGLE_AND_DOUBLE or (kind in dtypes.FLOATING and (-65504 <= value <= 65504 or isinf(value)))


def _source(input: Tensor, value: Any) -> Tensor:
    """The value of an assignment in the type of its target. Numbers lose what does not fit; tensors must fit."""
    kind = element_type(input)
    if isinstance(value, Tensor) and element_type(value) is kind:
        return value
    if is_common(value, kind):
        return wrapped(constant(value, kind))
    promotion.raise_if_outside(value, kind, "setitem")
    source = exact(value)
    is_number = source.ndim == 0 and not isinstance(value, Tensor)
    if not dtypes.can_cast(source.np_dtype, kind) and not (is_number and not source.is_complex()):
        raise RuntimeError(f"cannot write values of {source.dtype} into a tensor of {input.dtype}; convert them first")
    return source.to(kind) if source.np_dtype != kind else source


class Put:
    """Values to be written at integer positions of a tensor's leading dimensions.

    Values have the dimensions of the positions, broadcast together, and then the others. `combine` names the function
    of two numbers that puts them together with what is there, add, mul, maximum or minimum. `fits` says that they have the
    right shape, or one that is broadcast to it.
    """

    __slots__ = ("combine", "fits", "name", "positions", "source")

    def __init__(
        self, name: str, positions: list[Tensor], source: Tensor, combine: str | None = None, fits: bool = False
    ) -> None:
        self.name, self.positions, self.source, self.combine, self.fits = name, positions, source, combine, fits

    def of(self, x: Tensor) -> Tensor:
        """A copy of `x` with the values written."""
        sizes = shape_of(x)
        if not sizes:
            return self.of(x.reshape(1)).reshape(())
        if not self.fits:
            self._check(sizes)
        primitive, params = _PUTS[self.combine]
        return apply(primitive, (x, self.source, *self.positions), params)

    def into(self, target: Tensor) -> Tensor:
        """Write the values into `target`, in place."""
        sizes = shape_of(target)
        if not sizes:
            self.into(target.reshape(1))
            return target
        if not self.fits:
            self._check(sizes)
        array = memory_of(target, self.source)
        positions = None if array is None else _arrays(self.positions)
        if positions is None:
            return write(target, self.name, self.of, (self.source,))
        table["index_into"](array, self.source._array, positions, self.combine)
        note_write(target, self.name)
        return target

    def of_flattened(self, x: Tensor) -> Tensor:
        """The same for positions among the elements in row-major order."""
        return P.reshape(self.of(P.reshape(x, shape=(x.numel(),))), shape=shape_of(x))

    def into_flattened(self, target: Tensor) -> Tensor:
        """The same for positions among the elements in row-major order, in place."""
        array = memory_of(target, self.source)
        positions = None if array is None or not table["is_contiguous"](array) else _arrays(self.positions)
        if positions is None:
            return write(target, self.name, self.of_flattened, (self.source,))
        table["index_into"](P.reshape.kernel(array, (array.size,)), self.source._array, positions, self.combine)
        note_write(target, self.name)
        return target

    def _check(self, sizes: tuple[int, ...]) -> None:
        shapes = [shape_of(p) for p in self.positions]
        shape = (shapes[0] if len(shapes) == 1 else broadcast_shapes(shapes)) + sizes[len(shapes) :]
        given = shape_of(self.source)
        if given == shape:
            return
        extra = len(shape) - len(given)
        if extra < 0 or any(n not in (1, m) for n, m in zip(given, shape[extra:], strict=True)):
            raise RuntimeError(f"{self.name}: values of shape {given} do not fit the selection of shape {shape}")


_PUTS: dict[str | None, tuple[Any, dict[str, Any]]] = {
    None: (index_put_primitive, {"accumulate": False}),
    "add": (index_put_primitive, {"accumulate": True}),
    getattr(index_prod, "combine", ""): (index_prod, {}),
    **{getattr(p, "combine", ""): (p, {"include_self": True}) for p in (index_amax, index_amin)},
}


def _arrays(tensors: list[Tensor]) -> tuple[Any, ...] | None:
    """The arrays of tensors, or None if they are not all plain."""
    found = []
    for t in tensors:
        fields = t
        if not is_plain(t):
            return None
        found.append(fields._array)
    return tuple(found)


def are_alone(*tensors: Tensor) -> bool:
    """Whether all that is computed of tensors is what their arrays give: none is another kind, recorded or traced."""
    if tracing():
        return False
    recording = modes.recording.get()
    return not [t for t in tensors if not is_plain(t) or (synced(t)._requires_grad and recording)]


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
    return P.index(x, *along(in_range(i, shape_of(x)[d], "take_along_dim"), shape_of(x), d))
