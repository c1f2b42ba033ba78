"""Elements at places that integers name: reading, writing and adding there."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.precision import NARROW
from lucid.core.errors import PositionError
from lucid.core.kernels import fill, table


def _linear_positions(positions: tuple[Any, ...], sizes: tuple[int, ...]) -> Any:
    """Row-major numbers of the places that broadcast integer arrays point at."""
    number: Any = 0
    for p, n in zip(positions, sizes, strict=True):
        number = number * n + p
    return number


def fold_at(ufunc: np.ufunc, out: Any, positions: tuple[Any, ...], values: Any) -> None:
    """Put values together with the elements at positions, one after the other in row-major order.

    Half precision is put together in single precision, and rounded once.
    """
    if out.dtype in NARROW:
        wide = out.astype(np.float32)
        fold_at(ufunc, wide, positions, np.asarray(values, np.float32))
        out[...] = wide
        return
    k = len(positions)
    width = math.prod(out.shape[k:])
    numbers = np.arange(math.prod(out.shape[:k])).reshape(out.shape[:k])
    places = np.asarray(numbers[positions]).reshape(-1, 1)
    values = np.broadcast_to(values, np.broadcast_shapes(*[p.shape for p in positions]) + out.shape[k:])
    flat = out.reshape(-1)
    # `ufunc.at` is fast for vectors alone.
    ufunc.at(flat, (places * width + np.arange(width)).reshape(-1), values.reshape(-1))
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
    index_into(out, values, positions, "add" if accumulate else None)
    return out


# By the functions of two numbers that put together what meets at one place.
_FOLDS = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def index_into(x: Any, values: Any, positions: tuple[Any, ...], combine: str | None) -> None:
    """Write values into x, or put them together with what is there, at positions that were checked, in their order."""
    if combine is None:
        _put_at(x, positions, values)
    else:
        fold_at(_FOLDS[combine], x, positions, values)


def _put_at(out: Any, positions: tuple[Any, ...], values: Any) -> None:
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
        raise PositionError(
            f"{name}: index {wrong} is out of range for a dimension of size {size}"
            + (f"; indices must lie between {least} and {size - 1}" if size else "")
        )
    return np.where(array < 0, array + size, array) if low < 0 else array


def nonzero(x: Any, as_rows: bool) -> Any:
    """Where elements are not 0: an array of positions for each dimension, or one of rows."""
    return np.argwhere(x) if as_rows else np.nonzero(x)


def _in_range_copied(positions: Any, size: int, name: str, negative: bool) -> Any:
    found = table["in_range_or_same"](positions, size, name, negative)
    return found.copy() if found is positions else found  # the result of a primitive has memory of its own


fill(
    {
        "index": _index_array,
        "index_back": _index_back_array,
        "index_put": _index_put_array,
        "index_last": _index_last_array,
        "index_into": index_into,
        "nonzero_positions": nonzero,
        "in_range": _in_range_copied,
        "in_range_or_same": in_range_array,  # the array itself where nothing changes
    }
)
