"""Elements at places that integers name: reading, writing and adding there."""

import math
from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _linear_positions(positions: tuple[Any, ...], sizes: tuple[int, ...]) -> Any:
    """Row-major numbers of the places that broadcast integer arrays point at."""
    number: Any = 0
    for p, n in zip(positions, sizes, strict=True):
        number = number * n + p
    return number


def fold_at(ufunc: np.ufunc, out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """`ufunc.at`, faster: rows for one place are sorted together and folded by reduceat, numbers added by bincount."""
    k = len(positions)
    places = np.asarray(_linear_positions(positions, out.shape[:k])).reshape(-1)
    rows = math.prod(out.shape[:k])
    width = math.prod(out.shape[k:])
    values = np.broadcast_to(values, np.broadcast_shapes(*[p.shape for p in positions]) + out.shape[k:])
    values = values.reshape(places.size, width)
    if places.size == 0 or width == 0:
        return
    flat = out.reshape(rows, width)
    if ufunc is np.add and width == 1 and out.dtype.char in "fd":
        flat[:, 0] += np.bincount(places, weights=values[:, 0], minlength=rows).astype(out.dtype)
    elif width == 1:
        ufunc.at(flat[:, 0], places, values[:, 0])
    else:
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        at = places[starts]
        flat[at] = ufunc(flat[at], ufunc.reduceat(values[order], starts, axis=0))
    if not np.may_share_memory(flat, out):
        out[...] = flat.reshape(out.shape)


def _index_array(x: Any, *positions: Any) -> Any:
    found = x[positions]  # in the order of the positions
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def _index_back_array(x: Any, *positions: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    fold_at(np.add, out, positions, x)
    return out


def _index_put_array(x: Any, values: Any, *positions: Any, accumulate: bool) -> Any:
    out = np.array(x, order="C")
    if accumulate:
        fold_at(np.add, out, positions, values)
    else:
        put_at(out, positions, values)
    return out


def put_at(out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """`out[positions] = values`; of several values for one place, the last in row-major order stays.

    NumPy goes over index arrays in the order in which they lie in memory. One that has the shape of the selection and
    lies there in row-major order decides for all.
    """
    shape = positions[0].shape if len(positions) == 1 else np.broadcast_shapes(*[p.shape for p in positions])
    if not any(p.shape == shape and p.flags.c_contiguous for p in positions):
        positions = (np.ascontiguousarray(np.broadcast_to(positions[0], shape)), *positions[1:])
    out[positions] = values


def _index_last_array(*positions: Any, shape: tuple[int, ...]) -> Any:
    places = np.asarray(_linear_positions(positions, shape))
    row_major = places.reshape(-1)
    ids = np.arange(places.size)
    last = np.zeros(math.prod(shape), np.int64)
    last[row_major] = ids
    return (last[row_major] == ids).reshape(places.shape)


def in_range_array(positions: Any, size: int, name: str, negative: bool) -> Any:
    array = np.asarray(positions, np.int64)
    if not array.size:
        return array
    low, high = array.min(), array.max()
    if high >= size or low < (-size if negative else 0):
        wrong = high if high >= size else low
        least = -size if negative else 0
        raise IndexError(
            f"{name}: index {wrong} is out of range for a dimension of size {size}"
            + (f"; indices must lie between {least} and {size - 1}" if size else "")
        )
    return np.where(array < 0, array + size, array) if low < 0 else array


def _in_range_copied(positions: Any, size: int, name: str, negative: bool) -> Any:
    found = in_range_array(positions, size, name, negative)
    return found.copy() if found is positions else found  # the result of a primitive has memory of its own


fill(
    {
        "index": _index_array,
        "index_back": _index_back_array,
        "index_put": _index_put_array,
        "index_last": _index_last_array,
        "in_range": _in_range_copied,
        "in_range_or_same": in_range_array,  # the array itself where nothing changes
    }
)
