"""Orders of elements, and places among sorted ones."""

from typing import Any, Literal

import numpy as np

from lucid.core import dtypes
from lucid.core.kernels import fill


def comparable(x: Any) -> Any:
    """NumPy orders nan last in its own types only."""
    return x.astype(np.float32) if x.dtype == dtypes.bfloat16.numpy else x


def _argsort_array(x: Any, dim: int, descending: bool) -> Any:
    x = comparable(x)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Reversed twice, so that equal elements keep their order.
    order = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - order


def _topk_array(x: Any, dim: int, k: int, largest: bool) -> tuple[Any, Any]:
    positions = _first_places(comparable(x), dim, k, largest)
    return np.take_along_axis(x, positions, dim), positions


def _first_places(x: Any, dim: int, k: int, largest: bool) -> Any:
    n = x.shape[dim]
    if 4 * k > n:
        return _front(_argsort_array(x, dim, largest), dim, k)
    if not k:
        return np.zeros((*x.shape[:dim], 0, *x.shape[dim + 1 :]), np.int64)
    chosen = np.argpartition(x, n - k if largest else k - 1, axis=dim)
    chosen = np.sort(_front(np.flip(chosen, dim) if largest else chosen, dim, k), axis=dim)
    order = _argsort_array(np.take_along_axis(x, chosen, dim), dim, largest)
    return np.take_along_axis(chosen, order, dim)


def _front(x: Any, dim: int, k: int) -> Any:
    return x[(*(slice(None),) * dim, slice(0, k))]


def _kth_array(x: Any, dim: int, k: int) -> Any:
    """Where the k-th smallest element is, with k counted from 0, equal ones as they stand; `dim` stays with size 1."""
    x = comparable(x)
    value = np.take(np.partition(x, k, axis=dim), [k], axis=dim)
    nan, is_nan = _isnan(x), _isnan(value)
    before = np.where(is_nan, ~nan, x < value).sum(axis=dim, keepdims=True)
    found = np.cumsum(np.where(is_nan, nan, x == value), axis=dim) > k - before
    return np.argmax(found, axis=dim, keepdims=True)


def _isnan(x: Any) -> Any:
    return x != x


def _median_array(x: Any, dim: int) -> Any:
    """Where the lower of the two middle elements is, or the first nan."""
    nan = _isnan(x)
    middle = _kth_array(x, dim, (x.shape[dim] - 1) // 2)
    return np.where(nan.any(axis=dim, keepdims=True), np.argmax(nan, axis=dim, keepdims=True), middle)


def _nanmedian_array(x: Any, dim: int) -> Any:
    count = np.count_nonzero(~_isnan(x), axis=dim, keepdims=True)
    return np.take_along_axis(_argsort_array(x, dim, False), np.maximum(count - 1, 0) // 2, dim)


def searchsorted(sequence: Any, values: Any, right: bool) -> Any:
    side: Literal["left", "right"] = "right" if right else "left"
    sequence, values = comparable(sequence), comparable(values)
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side))
    out = np.empty(values.shape, np.int64)
    for row in np.ndindex(sequence.shape[:-1]):
        out[row] = np.searchsorted(sequence[row], values[row], side)
    return out


def _mode_array(x: Any, dim: int) -> Any:
    """Where the commonest element along `dim` stands last; of equally common ones the smallest counts."""
    x = x.astype(np.float32) if x.dtype == dtypes.bfloat16.numpy else x
    order = np.argsort(x, axis=dim, kind="stable")
    ordered = np.moveaxis(np.take_along_axis(x, order, dim), dim, 0)
    steps = np.arange(len(ordered)).reshape(-1, *(1,) * (x.ndim - 1))
    new = np.ones(ordered.shape, bool)
    new[1:] = ordered[1:] != ordered[:-1]
    run = steps - np.maximum.accumulate(np.where(new, steps, 0), axis=0)
    found = np.moveaxis(np.argmax(run, axis=0, keepdims=True), 0, dim)
    return np.take_along_axis(order, found, dim)


fill(
    {
        "argsort": _argsort_array,
        "topk": _topk_array,
        "kth": _kth_array,
        "median": _median_array,
        "nanmedian": _nanmedian_array,
        "searchsorted": searchsorted,
        "mode": _mode_array,
    }
)
