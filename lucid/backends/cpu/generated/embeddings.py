"""Rows of a table by index, and one class of each row of scores."""

from typing import Any

import numpy as np

from lucid.backends.cpu.generated import launch_copies, launch_gathers, launch_positions, support
from lucid.backends.cpu.generated.gathers import into
from lucid.backends.numpy.nn import embedding
from lucid.backends.numpy.nn.cross_entropy import fold, safe_targets
from lucid.core.arrays import steps
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.ops.nn.cross_entropy import NONE, SUM


def _embedding(table: Any, index: Any, skip: int | None, period: int) -> Any:
    found = launch_gathers.gather(table, index)
    return embedding.take_array(table, index, skip, period) if found is None else found


def _gather_rows(table: Any, index: Any, skip: int | None, period: int) -> Any:
    found = launch_gathers.gather(table, index) if skip is None else None
    return embedding.gather_array(table, index, skip, period) if found is None else found


def _scatter_rows(rows: Any, index: Any, count: int, skip: int | None, period: int) -> Any:
    out = P.index_back.kernel(rows, index, shape=(count, *rows.shape[index.ndim :]))
    if skip is not None:
        out[skip::period] = 0
    return out


def _at_classes(shape: tuple[int, ...], target: Any) -> tuple[Any, ...]:
    """Positions of targets in scores of shape (rows, classes, …)."""
    rest = len(shape) - 2
    inner = [steps(n, (1,) * (rest - 1 - d)) for d, n in enumerate(shape[2:])]
    return (steps(shape[0], (1,) * rest), target, *inner)


def _nowhere(*given: Any) -> None:
    """Instead of targets that are outside."""


def _places(target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """As `safe_targets`, and in one pass where all targets count."""
    if not 0 <= ignore_index < classes and launch_positions.in_range(target, classes, "", False, _nowhere) is target:
        return target, None
    return safe_targets(target, classes, ignore_index)


def _pick_class(x: Any, target: Any, ignore_index: int) -> Any:
    places, keep = _places(target, x.shape[1], ignore_index)
    out = P.index.kernel(x, *_at_classes(x.shape, places))
    return out if keep is None else np.where(keep, out, x.dtype.type(0))


def _place_class(x: Any, target: Any, classes: int, ignore_index: int) -> Any:
    places, keep = _places(target, classes, ignore_index)
    shape = (*x.shape[:1], classes, *x.shape[1:])
    values = x if keep is None else np.where(keep, x, x.dtype.type(0))
    out = launch_copies.zeros(shape, x.dtype)
    into(out, values, _at_classes(shape, places), False)
    return out


def _fold_rows(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    if reduction == NONE or lead or not x.size or (target == ignore_index).any():
        return fold(x, target, ignore_index, reduction, lead)
    total = P.sum.kernel(x, dims=tuple(range(x.ndim)), keepdim=False)
    return total if reduction == SUM else (total / np.int64(x.size)).astype(x.dtype)


if support.in_use:
    fill(
        {
            "embedding": _embedding,
            "gather_rows": _gather_rows,
            "scatter_rows": _scatter_rows,
            "pick_class": _pick_class,
            "place_class": _place_class,
            "fold_rows": _fold_rows,
        },
        "cpu",
    )
