"""Generated kernels in compiled programs: scans, selections, functions of rows side by side, and windows."""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower, most_threads
from lucid.backends.cpu.generated import rows, scans, windows
from lucid.backends.cpu.launch import classes as launch_classes
from lucid.backends.cpu.launch import scans as launch_scans
from lucid.backends.cpu.launch import sorting as launch_sorting
from lucid.backends.cpu.launch import windows as launch_windows
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.ops.nn.cross_entropy import NONE
from lucid.ops.nn.resampling import Maps

_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_POSITIONS = np.dtype(np.int64)


def _are_places(*given: Any) -> bool:
    """Whether operands are all in memory, and have elements."""
    return all(hasattr(g, "array") and g.array.size for g in given)


# --- scans -----------------------------------------------------------------------------------------


def _scan_steps(name: str) -> Any:
    def lowered(steps: Steps, outs: Any, *operands: Any, dim: int, **params: Any) -> Any:
        kernel, (out,) = kernels.resolved(getattr(P, name)), outs
        if not isinstance(kernel, launch_scans.Kernel) or not _are_places(*operands, out):
            return None
        arrays = tuple([p.array for p in operands])
        if any(a.dtype != arrays[0].dtype or a.ndim != out.array.ndim for a in arrays):
            return None
        found = kernel.entry(arrays, out.array, dim=dim, **params)
        if found is None:
            return None
        steps.enter(Entry(*found), (*operands, out))
        return ()

    return lowered


_SCANS = ("cumsum", "cumprod", "logcumsumexp", "recurrence", "running_positions")


def _topk_steps(steps: Steps, outs: Any, x: Any, dim: int, k: int, largest: bool) -> Any:
    from lucid.codegen.selections import MOST

    found = scans.selection_of(x.array.dtype) if _are_places(x, *outs) and k <= MOST else None
    if found is None:
        return None
    steps.enter(Entry(*found.entry(x.array, *[o.array for o in outs], dim, largest)), (x, *outs))
    return ()


def _argsort_steps(steps: Steps, outs: Any, x: Any, dim: int, descending: bool) -> Any:
    (out,) = outs
    found = launch_sorting.entry(x.array, dim, descending, most_threads()) if _are_places(x, out) else None
    if found is None:
        return None
    address, task, room = found
    steps.enter(Entry(address, task), (steps.ordered(x), out, steps.new((room,), np.uint8)))
    return ()


# --- rows side by side -----------------------------------------------------------------------------


def _row_steps(name: str) -> Any:
    def lowered(steps: Steps, outs: Any, *operands: Any, dim: int, **params: Any) -> Any:
        (out,) = outs
        if not _are_places(*operands, out) or any(p.array.shape != out.array.shape for p in operands):
            return None
        kernel = rows.kernel_of(getattr(P, name))
        arrays = tuple([p.array for p in operands])
        found = kernel.entry(arrays, [out.array], dim, params, most_threads())
        if found is None:
            return None
        address, task, room = found
        steps.enter(Entry(address, task), (*operands, out, steps.new((room,), np.uint8)))
        return ()

    return lowered


_ROWS = ("softmax", "log_softmax", "softmax_back", "log_softmax_back")


# --- classes ---------------------------------------------------------------------------------------


def _class_steps(is_negative: bool, places: bool) -> Any:
    def lowered(
        steps: Steps, outs: Any, x: Any, target: Any, ignore_index: int, reduction: str = NONE, classes: int = 0
    ) -> Any:
        if not _is_real(steps, x, *outs) or not _are_places(target) or target.array.dtype != _POSITIONS:
            return None
        scores, single = (outs[0], x) if places else (x, outs[0])
        index = np.empty(target.array.shape, _POSITIONS)
        found = launch_classes.entry(scores.array, index, reduction, is_negative, ignore_index, places)
        if found is None:
            return None
        address, task, room = found
        flag = steps.new((), np.bool_)
        own = steps.ordered(target), steps.ordered(single)
        steps.enter(Entry(address, task), (scores, *own, flag, steps.new((room,), np.uint8)))
        steps.check(flag)
        return ()

    return lowered


# --- windows ---------------------------------------------------------------------------------------


def _fold_steps(steps: Steps, name: str, x: Any, maps: Maps, out: Any) -> bool:
    """Windows along each dimension, one pass after the other."""
    passes = windows.passes(name, maps, x.array.dtype)
    if not passes:
        return False
    flag = steps.new((), np.bool_)
    for k, (loops, high, wide, wide_first, dim) in enumerate(passes):
        x = steps.ordered(x)
        address, task, shape = launch_windows.entry(loops, x.array, high, wide, wide_first, dim)
        target = out if k == len(passes) - 1 else steps.new(shape, x.array.dtype)
        steps.enter(Entry(address, task, (loops, high, wide)), (x, target, flag))
        steps.check(flag)
        x = target
    return True


def _is_real(steps: Steps, *places: Any) -> bool:
    return steps.can_check and _are_places(*places) and all(p.array.dtype in _REAL for p in places)


def _resample_steps(steps: Steps, outs: Any, x: Any, maps: Maps) -> Any:
    if not _is_real(steps, x, *outs):
        return None
    sums, rest = windows.whole_sums(maps)
    dims = tuple([x.array.ndim + k for k in sums])
    follow = not dims or (dims[-1] - dims[0] == len(dims) - 1 and x.array.flags.c_contiguous)
    if not any(rest) or not follow or not windows.passes("resample", rest, x.array.dtype):
        return None
    if dims:
        shape = tuple([1 if d in dims else n for d, n in enumerate(x.array.shape)])
        whole = steps.new(shape, x.array.dtype)
        steps.sum(x, dims, whole)
        x = whole
    return () if _fold_steps(steps, "resample", x, rest, outs[0]) else None


def _max_pool_steps(steps: Steps, outs: Any, x: Any, maps: Maps) -> Any:
    served = _is_real(steps, x, *outs) and _fold_steps(steps, "max_pool", x, maps, outs[0])
    return () if served else None


def _find_steps(steps: Steps, x: Any, maps: Maps, shape: tuple[int, ...], out: Any = None) -> Any:
    """Where the largest elements are, in a place of its own if none is given; None if there is no code."""
    found = windows.found_by(maps, x.array.dtype) if _is_real(steps, x) else None
    if found is None:
        return None
    loops, tables = found
    x, flag = steps.ordered(x), steps.new((), np.bool_)
    places = steps.new(shape, _POSITIONS) if out is None else out
    entry = launch_windows.search_entry(loops, x.array, tables)
    steps.enter(Entry(*entry, found), (x, places, flag))
    steps.check(flag)
    return places


def _max_pool_indices_steps(steps: Steps, outs: Any, x: Any, maps: Maps) -> Any:
    (out,) = outs
    return None if not out.array.size or _find_steps(steps, x, maps, out.array.shape, out) is None else ()


def _move_steps(steps: Steps, moved: Any, x: Any, planes: Any, maps: Maps, puts: bool) -> Any:
    """Numbers to, or from, the places of planes where the largest elements of x stand."""
    if not _is_real(steps, moved, planes):
        return None
    places = _find_steps(steps, x, maps, moved.array.shape)
    if places is None:
        return None
    size, many = [math.prod(p.array.shape[p.array.ndim - len(maps) :]) for p in (planes, moved)]
    is_single = planes.array.dtype == _REAL[0]
    entry = launch_windows.planes_entry(planes.array.size // size, size, many, is_single, puts)
    steps.enter(Entry(*entry), (steps.ordered(moved), places, steps.ordered(planes)))
    return ()


def _max_pool_put_steps(steps: Steps, outs: Any, y: Any, x: Any, maps: Maps) -> Any:
    return _move_steps(steps, y, x, outs[0], maps, True)


def _max_pool_take_steps(steps: Steps, outs: Any, t: Any, x: Any, maps: Maps) -> Any:
    return _move_steps(steps, outs[0], x, t, maps, False)


lower(
    {
        **{name: Lowering(_scan_steps(name)) for name in _SCANS},
        **{name: Lowering(_row_steps(name)) for name in _ROWS},
        "topk": Lowering(_topk_steps),
        "argsort": Lowering(_argsort_steps),
        "pick_class": Lowering(_class_steps(False, False)),
        "place_class": Lowering(_class_steps(False, True)),
        "nll": Lowering(_class_steps(True, False)),
        "nll_back": Lowering(_class_steps(True, True)),
        "resample": Lowering(_resample_steps),
        "max_pool": Lowering(_max_pool_steps),
        "max_pool_indices": Lowering(_max_pool_indices_steps),
        "max_pool_put": Lowering(_max_pool_put_steps),
        "max_pool_take": Lowering(_max_pool_take_steps),
    }
)
