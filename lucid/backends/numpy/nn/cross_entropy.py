"""The cross entropy of scores and class indices, and the linear maps that its derivatives are made of."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.precision import NARROW, in_single
from lucid.core.kernels import fill
from lucid.ops.nn.cross_entropy import MEAN, NONE, SUM


def safe_targets(target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Targets as positions that exist, and where they count; None if all of them do."""
    places = np.ascontiguousarray(target, np.int64)
    # Seen as unsigned, negative numbers are large ones: one comparison finds everything outside.
    if not places.size or (
        np.maximum.reduce(places.view(np.uint64), axis=None) < classes and not 0 <= ignore_index < classes
    ):
        return places, None
    keep = places != ignore_index
    places = np.where(keep, places, 0)
    if np.maximum.reduce(places.view(np.uint64), axis=None) >= classes:
        wrong = places[(places < 0) | (places >= classes)].flat[0]
        raise IndexError(
            f"target {wrong} is out of range for {classes} classes; "
            f"targets must lie between 0 and {classes - 1}, or be ignore_index ({ignore_index})"
        )
    return places, keep


def at(target: Any) -> tuple[Any, ...]:
    """Where each row's class stands in an array of shape (rows, classes) or (rows, classes, inner)."""
    rows = np.arange(len(target))
    return (rows, target) if target.ndim == 1 else (rows[:, None], target, np.arange(target.shape[1]))


def flat(x: Any, target: Any) -> tuple[Any, Any]:
    """Scores with one dimension at most behind the classes, and targets to match."""
    x = np.ascontiguousarray(x)
    if x.ndim == 2:
        return x, target
    inner = math.prod(x.shape[2:])
    shape = x.shape[:2] if inner == 1 else (*x.shape[:2], inner)
    return x.reshape(shape), target.reshape(shape[:1] + shape[2:])


def _pick(x: Any, target: Any, ignore_index: int) -> Any:
    places, keep = safe_targets(target, x.shape[1], ignore_index)
    scores, places = flat(x, places)
    out = scores[at(places)].reshape(target.shape)
    return out if keep is None else np.where(keep, out, x.dtype.type(0))


def _place(x: Any, target: Any, classes: int, ignore_index: int) -> Any:
    places, keep = safe_targets(target, classes, ignore_index)
    out = np.zeros((*x.shape[:1], classes, *x.shape[1:]), x.dtype)
    scores, places = flat(out, places)
    scores[at(places)] = (x if keep is None else np.where(keep, x, x.dtype.type(0))).reshape(places.shape)
    return out


def fold(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    keep = target != ignore_index
    if reduction == NONE:
        return np.where(keep, x, x.dtype.type(0))
    axes = tuple(range(lead, x.ndim))
    total = np.add.reduce(x, axis=axes, where=keep, dtype=np.float32 if x.dtype in NARROW else None)
    return (total if reduction == SUM else total / np.count_nonzero(keep, axis=axes)).astype(x.dtype)


def shares(x: Any, keep: Any, reduction: str, lead: int) -> Any:
    """What a folded value x is of each row that counts, in a shape that broadcasts over the rows."""
    if reduction == NONE:
        return x
    if reduction == MEAN:
        axes = tuple(range(lead, keep.ndim))
        x = (x / (np.count_nonzero(keep, axis=axes) if lead else np.count_nonzero(keep))).astype(x.dtype)
    return x.reshape(x.shape + (1,) * (keep.ndim - lead))


def _spread(x: Any, target: Any, ignore_index: int, reduction: str, lead: int) -> Any:
    keep = target != ignore_index
    return np.where(keep, shares(x, keep, reduction, lead), x.dtype.type(0))


def _nll(x: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    return np.asarray(fold(-_pick(x, target, ignore_index), target, ignore_index, reduction, 0))


def _nll_back(x: Any, target: Any, classes: int, ignore_index: int, reduction: str) -> Any:
    return _place(-_spread(x, target, ignore_index, reduction, 0), target, classes, ignore_index)


@in_single
def _cross_entropy(x: Any, target: Any, ignore_index: int, reduction: str) -> tuple[Any, Any]:
    places, _ = safe_targets(target, x.shape[1], ignore_index)
    shifted = x - np.max(x, axis=1, keepdims=True, initial=-np.inf)
    e = np.exp(shifted)
    losses = np.log(np.sum(e, axis=1)) - np.take_along_axis(shifted, places[:, None], axis=1)[:, 0]
    return np.asarray(fold(losses, target, ignore_index, reduction, 0)), e


@in_single
def _cross_entropy_back(e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    rows = _spread(g, target, ignore_index, reduction, 0)
    return e * (rows / np.sum(e, axis=1))[:, None] - _place(rows, target, e.shape[1], ignore_index)


fill(
    {
        "pick_class": _pick,
        "place_class": _place,
        "fold_rows": fold,
        "spread_rows": _spread,
        "nll": _nll,
        "nll_back": _nll_back,
        "cross_entropy": _cross_entropy,
        "cross_entropy_back": _cross_entropy_back,
    }
)
