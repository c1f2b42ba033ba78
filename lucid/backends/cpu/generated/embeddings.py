"""Rows of a table by index, and one class of each row of scores."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.backends.cpu.launch import classes as launch_classes
from lucid.backends.cpu.launch import gathers as launch_gathers
from lucid.backends.numpy.nn import embedding
from lucid.backends.numpy.nn.cross_entropy import fold
from lucid.core import kernels
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.ops.nn.cross_entropy import NONE, SUM, nll, nll_back, pick_class, place_class


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


def _by_classes(primitive: Any, launched: Callable[..., Any], is_negative: bool) -> Callable[..., Any]:
    """The kernel of a primitive that picks or places one class of each row."""

    def kernel(x: Any, target: Any, reduction: str = NONE, **params: Any) -> Any:
        found = launched(x, target, reduction, is_negative, **params)
        if found is not None:
            return found
        return kernels.reference(primitive)(x, target, **params, **({"reduction": reduction} if is_negative else {}))

    return kernel


def _fold_rows(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    if reduction == NONE or lead or not x.size:
        return fold(x, target, ignore_index, reduction, lead)
    keep = target != ignore_index
    kept = np.count_nonzero(keep)
    rows = x if kept == x.size else np.where(keep, x, x.dtype.type(0))
    total = P.sum.kernel(rows, dims=tuple(range(x.ndim)), keepdim=False)
    return total if reduction == SUM else (total / np.int64(kept)).astype(x.dtype)


if support.in_use:
    fill(
        {
            "embedding": _embedding,
            "sparse_embedding": _embedding,
            "gather_rows": _gather_rows,
            "scatter_rows": _scatter_rows,
            "pick_class": _by_classes(pick_class, launch_classes.pick, False),
            "place_class": _by_classes(place_class, launch_classes.place, False),
            "nll": _by_classes(nll, launch_classes.pick, True),
            "nll_back": _by_classes(nll_back, launch_classes.place, True),
            "fold_rows": _fold_rows,
        },
        "cpu",
    )
