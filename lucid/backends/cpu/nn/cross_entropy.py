"""The cross entropy of scores and class indices, and the linear maps that its derivatives are made of.

To be replaced by generated code.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu import loops, rowwise
from lucid.backends.cpu.arithmetic import total
from lucid.backends.cpu.softmax import NARROW, blocks, exponentials, row_sums
from lucid.backends.numpy.nn.cross_entropy import at, flat, safe_targets, shares
from lucid.core import dtypes
from lucid.core.kernels import fill
from lucid.native import in_use
from lucid.ops.nn.cross_entropy import MEAN, NONE

_REAL = dtypes.SINGLE_AND_DOUBLE


def _simple(x: Any, target: Any) -> bool:
    """Whether scores and targets are for the loops of `rows`."""
    return (
        x.ndim == 2
        and x.size > 0
        and x.dtype in _REAL
        and x.flags.c_contiguous
        and target.dtype == dtypes.INT64
        and target.shape == x.shape[:1]
        and target.flags.c_contiguous
    )


def _back_array(e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    if not g.ndim and reduction != NONE and _simple(e, target) and not 0 <= ignore_index < e.shape[1]:
        out = np.empty(e.shape, e.dtype)
        if rowwise.losses_back(e, target, g.item() / (len(e) if reduction == MEAN else 1), out):
            return out
    if e.dtype in NARROW:
        wide = _back_array(e.astype(np.float32), g.astype(np.float32), target, ignore_index, reduction)
        return wide.astype(e.dtype)
    keep = target != ignore_index
    count = np.count_nonzero(keep)
    weights: Any = None
    if count < keep.size or reduction == NONE:
        weights = np.where(keep, shares(g, keep, reduction, 0), e.dtype.type(0))
        target = np.where(keep, target, 0)
    out = np.empty(e.shape, e.dtype)
    flat_e, places = flat(e, target)
    rows = out.reshape(flat_e.shape)
    if weights is None:
        # All rows weigh the same, which is the usual case.
        share = g.item() / count if reduction == MEAN and count else g.item()
        for b in blocks(rows.shape):
            np.multiply(flat_e[b], share / row_sums(flat_e[b]), out=rows[b])
        _take_off(rows, places, share)
        return out
    weights = weights.reshape(places.shape)
    for b in blocks(rows.shape):
        np.multiply(flat_e[b], weights[b][:, None] / row_sums(flat_e[b]), out=rows[b])
    rows[at(places)] -= weights
    return out


def _block_losses(x: Any, target: Any, e: Any) -> Any:
    """log Σ exp(x) - x[target] of each row, by way of exponentials, which are written to `e`."""
    total, shift = exponentials(x, e)
    losses = np.log(total[:, 0])
    picked = _picked(x, target)
    losses -= picked if shift is None else picked - shift[:, 0]
    return losses


def _picked(x: Any, places: Any) -> Any:
    """x[i, places[i]] for each row."""
    if not in_use or x.ndim != 2 or x.dtype not in _REAL:
        return x[at(places)]
    out = np.empty(len(x), x.dtype)
    loops.pick(x, places, out)
    return out


def _take_off(x: Any, places: Any, amount: float) -> None:
    """x[i, places[i]] -= amount for each row."""
    if not in_use or x.ndim != 2 or x.dtype not in _REAL:
        x[at(places)] -= amount
    else:
        loops.take_off(x, np.ascontiguousarray(places, np.int64), amount)


def _losses(x: Any, places: Any) -> tuple[Any, Any]:
    """The loss of each row, and exp(x) up to a factor for each row."""
    scores, places = flat(x, places)
    if not scores.size:
        return np.zeros(places.shape, x.dtype), np.empty(x.shape, x.dtype)
    parts = blocks(scores.shape)
    e = np.empty(x.shape, x.dtype)
    flat_e = e.reshape(scores.shape)
    if len(parts) == 1:
        return _block_losses(scores, places, flat_e), e
    losses = np.empty(places.shape, x.dtype)
    for b in parts:
        losses[b] = _block_losses(scores[b], places[b], flat_e[b])
    return losses, e


def _in_single(x: Any) -> Any:
    """Half precision as single, shifted so that the exponentials will fit."""
    wide = x.astype(np.float32)
    return wide - np.maximum.reduce(wide, axis=1, keepdims=True) if wide.size else wide


def _cross_entropy_array(x: Any, target: Any, ignore_index: int, reduction: str) -> tuple[Any, Any]:
    if _simple(x, target) and not 0 <= ignore_index < x.shape[1]:
        e, losses = np.empty(x.shape, x.dtype), np.empty(len(x), x.dtype)
        if rowwise.losses(x, target, e, losses):
            if reduction == NONE:
                return losses, e
            loss = total(losses)
            return np.asarray(loss / x.dtype.type(len(x)) if reduction == MEAN else loss), e
    if x.dtype in NARROW:
        loss, e = _cross_entropy_array(_in_single(x), target, ignore_index, reduction)
        return loss.astype(x.dtype), e.astype(x.dtype)
    places, keep = safe_targets(target, x.shape[1], ignore_index)
    losses, e = _losses(x, places)
    if keep is not None:
        losses[~keep.reshape(losses.shape)] = 0
    if reduction == NONE:
        return losses.reshape(target.shape), e
    loss = total(losses)
    if reduction == MEAN:
        loss = loss / x.dtype.type(losses.size if keep is None else np.count_nonzero(keep))
    return np.asarray(loss), e


fill(
    {
        "cross_entropy_back": _back_array,
        "cross_entropy": _cross_entropy_array,
    },
    "cpu",
)
