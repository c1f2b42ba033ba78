"""Sampling on a grid by compiled loops, for places that read their nearest element or the elements around them.

Generation does not reach these: see `grid_loops`.
"""

import math
from typing import Any

import numpy as np

from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.cpu.nn import grid_loops as loops
from lucid.core import kernels
from lucid.core.kernels import WithBackward, fill
from lucid.native import in_use
from lucid.ops.nn.grid_sampling import grid_sample

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_MODES = ("bilinear", "nearest")


_MOST = 1 << 31  # elements of a channel: loops count them by 32 bits


def _is_served(x: Any, grid: Any, mode: str) -> bool:
    is_common = mode in _MODES and x.dtype in _TYPES and grid.dtype == x.dtype
    return is_common and bool(x.size and grid.size) and math.prod(x.shape[2:]) < _MOST


def _forward(x: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> tuple[Any, tuple[Any, ...]]:
    if not _is_served(x, grid, mode):
        found: tuple[Any, tuple[Any, ...]] = kernels.reference(grid_sample).forward(
            x, grid, mode=mode, padding=padding, align_corners=align_corners
        )
        return found
    ordered = contiguous(grid)
    out = np.empty((*x.shape[:2], grid.shape[1]), x.dtype)
    loops.sample("read", contiguous(x), ordered, out, None, mode, padding, align_corners)
    return out, (ordered,)


def _backward(
    cts: Any, operands: Any, residuals: Any, needs: Any, mode: str, padding: str, align_corners: bool
) -> list[Any]:
    (x, _), (grid,), ct, how = operands, residuals, contiguous(cts[0]), (mode, padding, align_corners)
    grads = [np.empty(x.shape, x.dtype) if needs[0] else None, np.empty_like(grid) if needs[1] else None]
    if needs[0]:
        loops.sample("pull_input", grads[0], grid, ct, None, *how)
    if needs[1]:
        loops.sample("pull_grid", contiguous(x), grid, ct, grads[1], *how)
    return grads


def _enter(steps: Steps, action: str, places: Any, how: tuple[Any, ...]) -> None:
    steps.enter(Entry(*loops.entry(action, places[0].array, places[1].array.shape[1], *how)), places)


def _lowered(
    steps: Steps, outs: Any, x: Any, grid: Any, mode: str, padding: str, align_corners: bool
) -> tuple[Any, ...] | None:
    if not _is_served(x.array, grid.array, mode):
        return None
    ordered = steps.ordered(grid)
    _enter(steps, "read", (steps.ordered(x), ordered, outs[0], None), (mode, padding, align_corners))
    return (ordered,)


def _lowered_back(
    steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, mode: str, padding: str, align_corners: bool
) -> bool:
    (grid,), ct, how = residuals, steps.ordered(cts[0]), (mode, padding, align_corners)
    if outs[0] is not None:
        _enter(steps, "pull_input", (outs[0], grid, ct, None), how)
    if outs[1] is not None:
        _enter(steps, "pull_grid", (steps.ordered(operands[0]), grid, ct, outs[1]), how)
    return True


if in_use:
    fill({"grid_sample": WithBackward(_forward, _backward)}, "cpu")
    lower({"grid_sample": Lowering(_lowered, _lowered_back)})
