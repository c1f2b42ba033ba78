"""Linear maps that act on each dimension for itself."""

import math
from typing import Any

import numpy as np

from lucid.core.kernels import fill
from lucid.ops.nn.resampling import AxisMap, Index, Maps


def in_order(maps: Maps) -> list[tuple[int, AxisMap]]:
    """Dimensions, counted from the end, with their maps, in the order that handles the fewest elements.

    Maps that shrink come first and from the outside in, so that most of the work is done on long rows; those that grow
    last and from the inside out.
    """
    pairs = [(k - len(maps), m) for k, m in enumerate(maps) if m is not None]
    shrinking = [p for p in pairs if p[1].out <= p[1].size]
    growing = [p for p in pairs if p[1].out > p[1].size]
    return shrinking + growing[::-1]


def at(dim: int, index: Index) -> tuple[Any, ...]:
    """An index for a dimension counted from the end."""
    return (..., index, *(slice(None),) * (-dim - 1))


def _apply(x: Any, dim: int, axis: AxisMap) -> Any:
    shape = list(x.shape)
    shape[dim] = axis.out
    if axis.is_spread:
        return np.broadcast_to(x, shape).copy()
    out = (np.empty if axis.covers else np.zeros)(shape, x.dtype)
    for target, source, weight, is_first in axis.pieces:
        values = x[at(dim, source)]
        place = at(dim, target)
        if weight is not None:
            values = values * weight.astype(x.dtype).reshape(-1, *(1,) * (-dim - 1))
        if is_first:
            out[place] = values
        else:
            out[place] += values
    return out


def resample_array(x: Any, maps: Maps) -> Any:
    todo = in_order(maps)
    if x.dtype.itemsize == 2 and any(m.adds or m.weighs for _, m in todo):
        return resample_array(x.astype(np.float32), maps).astype(x.dtype)
    if not todo:
        return x.copy()
    sums = tuple([dim for dim, axis in todo if axis.is_sum])
    out = np.add.reduce(x, axis=sums, dtype=x.dtype, keepdims=True) if sums else x
    for dim, axis in todo:
        if not axis.is_sum:
            out = _apply(out, dim, axis)
    return out


def _flat_index(index: Any, size: int) -> Any:
    """Positions in planes of `size` elements as positions in all of them."""
    rows = math.prod(index.shape[:-1])
    return index.reshape(rows, index.shape[-1]) + np.arange(0, rows * size, size)[:, None]


def plane_take_array(x: Any, index: Any, size: int) -> Any:
    return x.reshape(-1).take(_flat_index(index, size)).reshape(index.shape)


def _plane_put_array(y: Any, index: Any, size: int) -> Any:
    places = _flat_index(index, size).reshape(-1)
    total = np.bincount(places, weights=y.reshape(-1), minlength=math.prod(index.shape[:-1]) * size)
    return total.astype(y.dtype).reshape(*index.shape[:-1], size)


fill(
    {
        "resample": resample_array,
        "plane_take": plane_take_array,
        "plane_put": _plane_put_array,
    }
)
