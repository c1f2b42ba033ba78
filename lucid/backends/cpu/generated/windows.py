"""Sums and maxima over windows, interpolation, and elements of planes by their places.

Each dimension has a table of the elements that its places put together, made from its `AxisMap`.
"""

import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import gathers as launch_gathers
from lucid.backends.cpu.launch import windows as launch_windows
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.launch.windows import Loops, Places, Table
from lucid.backends.numpy.nn import pooling, resampling
from lucid.backends.numpy.nn.resampling import in_order
from lucid.backends.numpy.precision import NARROW
from lucid.codegen import lock
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.ops.nn.resampling import AxisMap, Maps
from lucid.ops.reductions import SUM

_SINGLE = np.dtype(np.float32)


@cache
def _loops(name: str, dtype: np.dtype[Any], weighted: bool) -> Loops | None:
    """The loops that put together elements of a type, or None if there is no code."""
    with lock:
        from lucid.codegen import bodies, compiled, windows  # loaded when first needed, and LLVM with it

        try:
            plan = windows.WindowPlan(SUM if name == "resample" else P.max_pool.fold, dtype, weighted)
            made = [windows.rows(plan, "rows"), windows.lines(plan, "lines")]
            addresses, code = compiled.addresses(made, "windows", name)
        except bodies.NotGeneratedError:
            return None
    return Loops(addresses, dtype, plan.cost, code)


@cache
def _places(dtype: np.dtype[Any]) -> Places | None:
    """The loop that finds the largest elements, or None if there is no code."""
    with lock:
        from lucid.codegen import bodies, compiled, windows

        try:
            plan = windows.WindowPlan(P.max_pool_indices.fold, dtype, False, np.dtype(np.int64))
            addresses, code = compiled.addresses([windows.places(plan, "places")], "windows", "max_pool_indices")
        except bodies.NotGeneratedError:
            return None
    return Places(addresses, dtype, 5 * plan.cost, code)


@lru_cache(maxsize=512)
def _table(axis: AxisMap, dtype: np.dtype[Any]) -> Table:
    starts, sources, weights = axis.entries
    counts = np.diff(starts)
    begins = np.flatnonzero(np.diff(counts, prepend=-1))
    runs = np.stack([begins, np.append(begins[1:], axis.out), counts[begins]], 1) if axis.out else np.zeros((0, 3), int)
    return Table(axis.size, starts, sources, None if weights is None else weights.astype(dtype), runs)


class Pass(NamedTuple):
    """A fold along one dimension, or along the last two."""

    loops: Loops
    high: Table | None  # of the dimension `dim`, counted from the end
    wide: Table | None  # of the last one
    wide_first: bool
    dim: int


@lru_cache(maxsize=512)
def passes(name: str, maps: Maps, dtype: np.dtype[Any]) -> list[Pass] | None:
    """How windows of elements of a type are folded, one pass after the other; None if there is no code."""
    together: list[list[tuple[int, AxisMap]]] = []
    for dim, axis in in_order(maps):
        before = together[-1] if together else []
        if len(before) == 1 and before[0][0] + dim == -3 and before[0][1].weighs == axis.weighs:
            before.append((dim, axis))
        else:
            together.append([(dim, axis)])
    found = []
    for axes in together:
        weighted = axes[0][1].weighs
        loops = None if weighted and dtype.kind != "f" else _loops(name, dtype, weighted)
        if loops is None:
            return None
        tables = {dim: _table(axis, dtype) for dim, axis in axes}
        dim, wide = min(tables), tables.pop(-1, None)
        found.append(Pass(loops, tables.get(dim), wide, axes[0][0] == -1, dim))
    return found


def _folded(x: Any, found: list[Pass] | None) -> Any:
    """Windows along each dimension; None where there is no code."""
    if found is None:
        return None
    for loops, high, wide, wide_first, dim in found:
        x = launch_windows.fold(loops, contiguous(x), high, wide, wide_first, dim)
    return x


@lru_cache(maxsize=512)
def whole_sums(maps: Maps) -> tuple[tuple[int, ...], Maps]:
    """The dimensions, counted from the end, that are summed as a whole, and what is left to do."""
    sums = tuple([k - len(maps) for k, m in enumerate(maps) if m is not None and m.is_sum])
    return sums, tuple([None if k - len(maps) in sums else m for k, m in enumerate(maps)])


@lru_cache(maxsize=512)
def _sums(maps: Maps, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], list[Pass] | None]:
    """The dimensions, counted from the end, that are summed as a whole, and the passes after that."""
    sums, rest = whole_sums(maps) if dtype.kind == "f" else ((), maps)
    return sums, passes("resample", rest, dtype) if any(rest) or sums else None


def _resample(x: Any, maps: Maps) -> Any:
    if x.dtype in NARROW:
        return _cast(_resample(_cast(x, _SINGLE), maps), x.dtype)
    if x.dtype.kind == "c":
        real = x.real.dtype
        out = _resample(contiguous(x).view(real).reshape(*x.shape, 2), (*maps, None))
        return out.view(x.dtype).reshape(out.shape[:-1])
    sums, then = _sums(maps, x.dtype)
    whole = P.sum.kernel(x, dims=tuple([x.ndim + k for k in sums]), keepdim=True) if sums else x
    found = _folded(whole, then)
    return resampling.resample_array(x, maps) if found is None else found


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    return P.cast.kernel(x, dtype=dtype, source=x.dtype)


def _max_pool(x: Any, maps: Maps) -> Any:
    if x.dtype in NARROW:
        return _cast(_max_pool(_cast(x, _SINGLE), maps), x.dtype)
    found = _folded(x, passes("max_pool", maps, x.dtype)) if maps else None
    return pooling.max_pool_array(x, maps) if found is None else found


# --- where the largest elements are ----------------------------------------------------------------


@lru_cache(maxsize=512)
def found_by(maps: Maps, dtype: np.dtype[Any]) -> tuple[Places, tuple[Table, ...]] | None:
    """What finds the largest elements of windows of a type; None if there is no code, or windows without elements."""
    loops = _places(dtype)
    axes = [m for m in maps if m is not None]
    if loops is None or not 1 <= len(axes) == len(maps) <= 3 or any((np.diff(m.entries[0]) == 0).any() for m in axes):
        return None
    return loops, tuple([_table(axis, dtype) for axis in axes])


def _max_pool_indices(x: Any, maps: Maps) -> Any:
    found = found_by(maps, x.dtype)
    return (
        pooling.max_pool_indices_array(x, maps)
        if found is None
        else launch_windows.find(found[0], contiguous(x), found[1])
    )


def _planes(x: Any, dims: int) -> Any:
    """An array in which the last dimensions are one, and those before them too."""
    lead = math.prod(x.shape[: x.ndim - dims])
    return contiguous(x).reshape(lead, math.prod(x.shape[x.ndim - dims :]))


def _max_pool_put(y: Any, x: Any, maps: Maps) -> Any:
    found = found_by(maps, x.dtype)
    if found is None:
        return pooling.max_pool_put_array(y, x, maps)
    places = launch_windows.find(found[0], contiguous(x), found[1])
    size = math.prod(x.shape[x.ndim - len(maps) :])
    return _plane_put(_planes(y, len(maps)), _planes(places, len(maps)), size).reshape(x.shape)


def _max_pool_take(t: Any, x: Any, maps: Maps) -> Any:
    found = found_by(maps, x.dtype)
    if found is None:
        return pooling.max_pool_take_array(t, x, maps)
    places = launch_windows.find(found[0], contiguous(x), found[1])
    size = math.prod(x.shape[x.ndim - len(maps) :])
    return _plane_take(_planes(t, len(maps)), _planes(places, len(maps)), size).reshape(places.shape)


# --- elements of planes ----------------------------------------------------------------------------


def _rows(index: Any) -> tuple[Any, Any]:
    """Positions in the last dimension, with those of the planes."""
    flat = index.reshape(math.prod(index.shape[:-1]), index.shape[-1])
    return np.arange(len(flat)).reshape(-1, 1), flat


def _plane_take(x: Any, index: Any, size: int) -> Any:
    found = launch_gathers.gather(x.reshape(-1, size), *_rows(index)) if index.size else None
    return resampling.plane_take_array(x, index, size) if found is None else found.reshape(index.shape)


def _plane_put(y: Any, index: Any, size: int) -> Any:
    rows, flat = _rows(index)
    out = P.index_back.kernel(y.reshape(flat.shape), rows, flat, shape=(len(rows), size))
    return out.reshape(*index.shape[:-1], size)


if support.in_use:
    kernels.fill(
        {
            "resample": _resample,
            "max_pool": _max_pool,
            "max_pool_indices": _max_pool_indices,
            "max_pool_put": _max_pool_put,
            "max_pool_take": _max_pool_take,
            "plane_take": _plane_take,
            "plane_put": _plane_put,
        },
        "cpu",
    )
