"""Rows of a table, and elements at positions, in compiled programs; `backends.cpu.generated.embeddings` has the kernels.

To be replaced by generated code: the loops of programs read and write no places that positions name.
"""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu import table_rows
from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower
from lucid.backends.cpu.generated import gathers
from lucid.backends.cpu.launch import gathers as launch_gathers

_POSITIONS = np.dtype(np.int64)
_ADDED = (np.dtype(np.float32), np.dtype(np.float64))


def _is_lowered(steps: Steps, table: Any, index: Any, skip: int | None) -> bool:
    """Positions are checked: the run is given up where one is outside, and the kernel says so."""
    return steps.can_check and index.array.dtype == _POSITIONS and table.array.ndim > 0 and (skip is None or skip >= 0)


def _enter(steps: Steps, table: Any, rows: Any, index: Any, skip: int | None, period: int, kind: Any) -> tuple[()]:
    size = math.prod(table.array.shape[1:]) * table.array.itemsize
    found = table_rows.entry(len(table.array), index.array.size, size, skip, period, kind)
    flag = steps.new((), np.bool_)
    steps.enter(Entry(*found), (table, rows, steps.ordered(index), flag))
    steps.check(flag)
    return ()


def _embedding(steps: Steps, outs: Any, table: Any, index: Any, skip: int | None, period: int) -> Any:
    """The row that is skipped has no gradient; it is read as any other."""
    return _gather_rows(steps, outs, table, index, None, period)


def _gather_rows(steps: Steps, outs: Any, table: Any, index: Any, skip: int | None, period: int) -> Any:
    if not _is_lowered(steps, table, index, skip):
        return None
    return _enter(steps, steps.ordered(table), outs[0], index, skip, period, None)


def _scatter_rows(steps: Steps, outs: Any, rows: Any, index: Any, count: int, skip: int | None, period: int) -> Any:
    kind = rows.array.dtype
    if kind not in _ADDED or not _is_lowered(steps, outs[0], index, skip):
        return None
    return _enter(steps, outs[0], steps.ordered(rows), index, skip, period, kind)


def _index(steps: Steps, outs: Any, x: Any, *positions: Any) -> Any:
    found = _gather_rows(steps, outs, x, *positions, None, 0) if len(positions) == 1 else None
    return _move(steps, x, outs[0], positions, None, True) if found is None else found


def _index_back(steps: Steps, outs: Any, rows: Any, *positions: Any, shape: tuple[int, ...]) -> Any:
    found = _scatter_rows(steps, outs, rows, *positions, shape[0], None, 0) if len(positions) == 1 else None
    if found is not None or rows.array.dtype not in _ADDED:
        return found
    fold = gathers.fold_of("add", rows.array.dtype)
    return None if fold is None else _move(steps, outs[0], rows, positions, fold, False)


def _index_put(steps: Steps, outs: Any, x: Any, values: Any, *positions: Any, accumulate: bool) -> Any:
    fold = gathers.fold_of("add", x.array.dtype) if accumulate and x.array.dtype in _ADDED else None
    if (accumulate and fold is None) or not hasattr(values, "array"):
        return None
    return _move(steps, outs[0], values, positions, fold, False, x)


def _move(
    steps: Steps, x: Any, values: Any, positions: tuple[Any, ...], fold: Any, reads: bool, start: Any = None
) -> Any:
    """Elements at positions of x to values, or values there: into zeros, or into a copy of what is there at the start."""
    if not steps.can_check:
        return None
    clears = not reads and start is None
    found = launch_gathers.entry(x.array, values.array, tuple([p.array for p in positions]), fold, reads, clears)
    if found is None:
        return None
    if start is not None:
        steps.copy(start, x)
    flag = steps.new((), np.bool_)
    steps.enter(Entry(*found, fold), (x, values, flag, *positions))
    steps.check(flag)
    return ()


lower(
    {
        "index": Lowering(_index),
        "index_back": Lowering(_index_back),
        "index_put": Lowering(_index_put),
        "embedding": Lowering(_embedding),
        "gather_rows": Lowering(_gather_rows),
        "scatter_rows": Lowering(_scatter_rows),
    }
)
