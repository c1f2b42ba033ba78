"""NumPy's functions that choose, move, repeat and pad elements, in terms of lucid's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.api import (
    contractions,
    counting,
    creation,
    indexing,
    joining,
    reductions,
    scatter,
    shaping,
    sorting,
    splitting,
)
from lucid.arguments.dims import one_dim
from lucid.arguments.promotion import beside
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.interop.numpy_functions import Function, NoCounterpartError, common, equal_parts
from lucid.ops import binary


def _along(dim: int, item: Any) -> tuple[Any, ...]:
    return (slice(None),) * dim + (item,)


def _flat(a: Any, axis: Any) -> tuple[Tensor, int]:
    x = lift(a)
    return (shaping.reshape(x, -1), 0) if axis is None else (x, one_dim(axis, x.ndim, "axis"))


# --- pad ---------------------------------------------------------------------------------------

# Modes in which every new element is one of the old ones: NumPy's own function says which, of their positions.
_COPIED = ("edge", "reflect", "symmetric", "wrap")
_FOLDS = {np.maximum.__name__: reductions.amax, np.minimum.__name__: reductions.amin}


def _pad(
    array: Any,
    pad_width: Any,
    mode: Any = "constant",
    *,
    constant_values: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
    reflect_type: str | None = None,
) -> Tensor:
    x = lift(array)
    given = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    if not isinstance(mode, str):
        raise NoCounterpartError
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(d, pad_width.get(d - x.ndim, (0, 0))) for d in range(x.ndim)]
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    for dim, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            raise ValueError("pad: widths must not be negative")
        if before or after:
            x = _padded(x, dim, before, after, mode, _of_dim(settings, dim, x.ndim))
    return x


def _of_dim(settings: dict[str, Any], dim: int, rank: int) -> dict[str, Any]:
    """The settings of one dimension; most are given for all, or as a pair for each."""
    return {k: v if k == "reflect_type" else _pair(v, dim, rank) for k, v in settings.items()}


def _pair(value: Any, dim: int, rank: int) -> tuple[Any, Any]:
    """What a setting says of the two ends of a dimension; tensors in it stay what they are."""
    if value is None or isinstance(value, Tensor) or not isinstance(value, (list, tuple, np.ndarray)):
        if isinstance(value, Tensor) and value.ndim:
            return _pair(list(value), dim, rank)
        return value, value
    rows = list(value)
    if len(rows) == rank and any(isinstance(r, (list, tuple, np.ndarray)) for r in rows):
        rows = list(rows[dim]) if isinstance(rows[dim], (list, tuple, np.ndarray)) else [rows[dim]]
    elif len(rows) == 1 and isinstance(rows[0], (list, tuple, np.ndarray)):
        rows = list(rows[0])
    return (rows[0], rows[0]) if len(rows) == 1 else (rows[0], rows[1])


def _padded(x: Tensor, dim: int, before: int, after: int, mode: str, settings: dict[str, Any]) -> Tensor:
    size, odd = x.shape[dim], settings.get("reflect_type", "even") == "odd"
    if mode in _COPIED and not odd:
        order = np.pad(np.arange(size), (before, after), mode)  # type: ignore[call-overload]  # a mode of its own
        return x[_along(dim, lift(order))]
    if mode == "constant" or mode == "empty":
        ends = settings.get("constant_values", (0, 0))
        pieces = [_filled(x, dim, n, v) for n, v in zip((before, after), ends, strict=True)]
    elif mode in _FOLDS or mode == "median":
        lengths = settings.get("stat_length", (None, None))
        parts = [x[_along(dim, _end(size, n, last))] for n, last in zip(lengths, (False, True), strict=True)]
        found = [_statistic(p, dim, mode) for p in parts]
        pieces = [_spread(f, dim, n) for f, n in zip(found, (before, after), strict=True)]
    else:
        return _mapped(x, dim, before, after, mode, settings)
    return joining.cat([pieces[0], x, pieces[1]], dim)


def _filled(x: Tensor, dim: int, count: int, value: Any) -> Tensor:
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return shaping.broadcast_to(beside(value, x.np_dtype).to(x.np_dtype), shape)


def _end(size: int, length: int | None, last: bool) -> slice:
    """The part at one end from which a statistic is taken."""
    if length is None or length >= size:
        return slice(None)
    if length <= 0:
        raise ValueError("pad: stat_length must be at least 1")
    return slice(size - length, None) if last else slice(0, length)


def _statistic(part: Tensor, dim: int, mode: str) -> Tensor:
    if mode in _FOLDS:
        return _FOLDS[mode](part, dim, True)
    if part.np_dtype not in dtypes.DIFFERENTIABLE:  # which NumPy rounds
        raise NoCounterpartError
    return sorting.quantile(part, 0.5, dim, True)


def _spread(found: Tensor, dim: int, count: int) -> Tensor:
    return shaping.broadcast_to(found, (*found.shape[:dim], count, *found.shape[dim + 1 :]))


def _mapped(x: Tensor, dim: int, before: int, after: int, mode: str, settings: dict[str, Any]) -> Tensor:
    """Modes in which new elements are affine functions of the old ones: those that NumPy makes of unit vectors."""
    if x.np_dtype not in dtypes.FLOATING or x.np_dtype == dtypes.bfloat16.numpy:
        raise NoCounterpartError
    ends = settings.pop("end_values", None)
    size, own = x.shape[dim], settings
    weights: Any = np.pad(np.eye(size), ((before, after), (0, 0)), mode, **own)  # type: ignore[call-overload]
    y = contractions.tensordot(lift(weights.astype(x.np_dtype)), x, ([1], [dim]))
    y = shaping.movedim(y, 0, dim)
    if ends is None:
        return y
    ramp: Any = np.pad(np.zeros(size), (before, after), mode, end_values=ends)  # type: ignore[call-overload]
    return y + shaping.reshape(lift(ramp.astype(x.np_dtype)), (-1,) + (1,) * (x.ndim - 1 - dim))


# --- order -------------------------------------------------------------------------------------


def _partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Tensor:
    """Sorted, which is one of the orders that are asked for."""
    x, dim = _flat(a, axis)
    return sorting.sort(x, dim).values


def _argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Tensor:
    x, dim = _flat(a, axis)
    return sorting.argsort(x, dim)


def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    x = lift(a)
    source = one_dim(axis, x.ndim, "rollaxis")
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(start, x.ndim + 1)
    target = start + x.ndim if start < 0 else start
    return shaping.movedim(x, source, target - 1 if source < target else target)


def _resize(a: Any, new_shape: Any) -> Tensor:
    shape = (int(new_shape),) if hasattr(new_shape, "__index__") else tuple(new_shape)
    flat, count = shaping.reshape(lift(a), -1), int(np.prod(shape))
    if not flat.numel():
        return creation.zeros(shape, dtype=flat.np_dtype)
    return shaping.reshape(flat[lift(np.arange(count) % flat.numel())], shape)


def _dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    if lift(ary).ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return equal_parts(ary, indices_or_sections, 2)


def _block(arrays: Any) -> Tensor:
    return _blocks(arrays, -_depth(arrays))


def _depth(arrays: Any) -> int:
    return 1 + max(map(_depth, arrays)) if isinstance(arrays, list) and arrays else 0


def _blocks(arrays: Any, dim: int) -> Tensor:
    if not isinstance(arrays, list):
        return lift(arrays)
    parts = [_blocks(a, dim + 1) for a in arrays]
    rank = max(-dim, *(p.ndim for p in parts))
    return joining.cat([shaping.reshape(p, (1,) * (rank - p.ndim) + tuple(p.shape)) for p in parts], dim)


# --- choices -----------------------------------------------------------------------------------


def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("select: there must be as many conditions as choices, and at least one")
    choices = common([*choicelist, default])
    out = choices.pop()
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        out = binary.where(lift(condition), choice, out)
    return out


def _choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    tensors = list(choices) if isinstance(choices, Tensor) else common(list(choices))
    table = joining.stack(list(shaping.broadcast_tensors(*tensors, lift(a).to(tensors[0].np_dtype))[:-1]))
    index = _bounded(lift(a), table.shape[0], mode)
    return indexing.take_along_dim(table, shaping.broadcast_to(index, table.shape[1:]).unsqueeze(0), 0)[0]


def _bounded(index: Tensor, size: int, mode: str) -> Tensor:
    """Positions that NumPy would take: as they are, at the nearer end, or counted around."""
    if mode == "raise":
        return index
    return index.clamp(0, size - 1) if mode == "clip" else index % size


def _compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    x, dim = _flat(a, axis)
    chosen = np.flatnonzero(lift(condition)._concrete("compress"))
    return x[_along(dim, lift(chosen))]


def _extract(condition: Any, arr: Any) -> Tensor:
    return _compress(shaping.reshape(lift(condition), -1), arr)


def _kept(size: int, obj: Any) -> Any:
    """The positions that `delete` leaves."""
    return np.delete(np.arange(size), obj._concrete("delete") if isinstance(obj, Tensor) else obj)


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x, dim = _flat(arr, axis)
    return x[_along(dim, lift(_kept(x.shape[dim], obj)))]


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """By NumPy's own function on positions: new elements are counted behind the old ones."""
    x, dim = _flat(arr, axis)
    size = x.shape[dim]
    where = obj._concrete("insert") if isinstance(obj, Tensor) else obj
    places: Any = np.arange(size)[where] if isinstance(where, slice) else np.asarray(where)
    new = beside(values, x.np_dtype).to(x.np_dtype)
    if not places.ndim and new.ndim:
        new = shaping.movedim(new, 0, dim) if new.ndim == x.ndim and axis is not None else new
    count = places.size if places.ndim else (new.shape[dim] if new.ndim == x.ndim else 1)
    new = shaping.broadcast_to(new, (*x.shape[:dim], count, *x.shape[dim + 1 :]))
    order = np.insert(np.arange(size), places if places.ndim else int(places), size + np.arange(count))
    return joining.cat([x, new], dim)[_along(dim, lift(order))]


def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    x = lift(filt)
    if x.ndim != 1:
        raise NoCounterpartError
    there = np.flatnonzero(x._concrete("trim_zeros"))
    if not there.size:
        return x[:0]
    return x[there[0] if "f" in trim.lower() else 0 : there[-1] + 1 if "b" in trim.lower() else None]


def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    t = lift(x)
    conditions = [lift(c) for c in condlist] if isinstance(condlist, (list, tuple)) else [lift(condlist)]
    if len(funclist) == len(conditions) + 1:
        some = conditions[0]
        for c in conditions[1:]:
            some = some | c
        conditions.append(~some)
    if len(funclist) != len(conditions):
        raise ValueError(
            f"piecewise: with {len(conditions)} conditions there are {len(conditions)} functions, or one more"
        )
    out = creation.zeros_like(t)
    for condition, function in zip(conditions, funclist, strict=True):
        # A function sees what it is meant for; elsewhere an element for which that is safe has no derivative to lose.
        chosen = shaping.broadcast_to(condition, t.shape)
        if callable(function):
            places = counting.nonzero(chosen, as_tuple=True)
            out = scatter.index_put(out, places, lift(function(t[places], *args, **kw)).to(t.np_dtype))
        else:
            out = binary.where(chosen, beside(function, t.np_dtype).to(t.np_dtype), out)
    return out


def _apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    x = lift(arr)
    dim = one_dim(axis, x.ndim, "apply_along_axis")
    rows = shaping.movedim(x, dim, -1)
    lead = tuple(rows.shape[:-1])
    found = [lift(func1d(row, *args, **kwargs)) for row in shaping.reshape(rows, (-1, rows.shape[-1]))]
    out = joining.stack(found)
    out = shaping.reshape(out, (*lead, *out.shape[1:]))
    return shaping.movedim(out, tuple(range(len(lead), out.ndim)), tuple(range(dim, dim + out.ndim - len(lead))))


def _apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    x = lift(a)
    for axis in (axes,) if hasattr(axes, "__index__") else axes:
        found = lift(func(x, axis))
        x = found if found.ndim == x.ndim else found.unsqueeze(one_dim(axis, x.ndim, "apply_over_axes"))
    return x


def _full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    value = lift(fill_value) if dtype is None else lift(fill_value).to(dtype)
    return shaping.broadcast_to(value, (shape,) if hasattr(shape, "__index__") else tuple(shape)).clone()


def _real_if_close(a: Any, tol: float = 100) -> Tensor:
    x = lift(a)
    if not x.is_complex():
        return x
    close = tol * float(np.finfo(x.np_dtype).eps) if tol > 1 else tol
    values = x._concrete("real_if_close")
    return x.real if np.all(np.absolute(values.imag) < close) else x


def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    """Of vectors of three elements, or of two, whose third is 0; of two pairs of which the third alone is given."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = common([a, b])
    x, y = shaping.movedim(x, axisa, -1), shaping.movedim(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(f"cross: vectors have 2 or 3 elements, not {x.shape[-1]} and {y.shape[-1]}")
    if x.shape[-1] == y.shape[-1] == 2:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    x, y = (_pad(t, [(0, 0)] * (t.ndim - 1) + [(0, 3 - t.shape[-1])]) for t in (x, y))
    x, y = shaping.broadcast_tensors(x, y)
    return shaping.movedim(contractions.cross(x, y, -1), -1, axisc)


def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: Any = False, writeable: bool = False
) -> Any:
    """All windows of a shape, as dimensions behind those of the array."""
    t = lift(x)
    sizes = tuple(window_shape) if isinstance(window_shape, (list, tuple)) else (window_shape,)
    axes = tuple(range(t.ndim)) if axis is None else tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    if len(sizes) != len(axes):
        raise ValueError(f"sliding_window_view: {len(sizes)} sizes of windows are given for {len(axes)} axes")
    for d, size in zip(axes, sizes, strict=True):
        t = splitting.unfold(t, d % lift(x).ndim, size, 1)
    return t


FUNCTIONS: dict[Any, Function] = {
    np.lib.stride_tricks.sliding_window_view: _sliding_window_view,
    np.pad: _pad,
    np.partition: _partition,
    np.argpartition: _argpartition,
    np.rollaxis: _rollaxis,
    np.resize: _resize,
    np.dsplit: _dsplit,
    np.block: _block,
    np.select: _select,
    np.choose: _choose,
    np.compress: _compress,
    np.extract: _extract,
    np.delete: _delete,
    np.insert: _insert,
    np.trim_zeros: _trim_zeros,
    np.piecewise: _piecewise,
    np.apply_along_axis: _apply_along_axis,
    np.apply_over_axes: _apply_over_axes,
    np.full: _full,
    np.real_if_close: _real_if_close,
    np.cross: _cross,
    np.tril_indices_from: lambda arr, k=0: tuple(lift(i) for i in np.tril_indices(arr.shape[-2], k, arr.shape[-1])),
    np.triu_indices_from: lambda arr, k=0: tuple(lift(i) for i in np.triu_indices(arr.shape[-2], k, arr.shape[-1])),
    np.diag_indices_from: lambda arr: tuple(lift(i) for i in np.diag_indices(arr.shape[0], arr.ndim)),
}
