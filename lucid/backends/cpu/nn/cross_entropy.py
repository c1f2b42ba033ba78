"""The cross entropy of scores and class indices, by generated functions of rows.

Sums over rows are to be replaced by generated code, too.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import total
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.rows import row_kernel
from lucid.backends.numpy.nn.cross_entropy import flat, safe_targets, shares
from lucid.core import kernels
from lucid.core.kernels import fill
from lucid.ops.nn.cross_entropy import (
    MEAN,
    NONE,
    cross_entropy_back,
    cross_entropy_primitive,
    loss_of_row,
    loss_of_row_back,
)

_loss_kernel, _back_kernel = row_kernel(loss_of_row), row_kernel(loss_of_row_back)


def _cross_entropy(x: Any, target: Any, ignore_index: int, reduction: str) -> tuple[Any, Any]:
    places, keep = safe_targets(target, x.shape[1], ignore_index)
    scores, places = flat(x, places)
    found = _loss_kernel.run((scores, places[:, None].astype(np.int32)), 1, {})
    if found is None:
        out: tuple[Any, Any] = kernels.reference(cross_entropy_primitive)(x, target, ignore_index, reduction)
        return out
    losses, e = found[0][:, 0], found[1].reshape(x.shape)
    if keep is not None:
        losses[~keep.reshape(losses.shape)] = 0
    if reduction == NONE:
        return losses.reshape(target.shape).astype(x.dtype, copy=False), e
    loss = total(losses)
    if reduction == MEAN:
        loss = loss / losses.dtype.type(losses.size if keep is None else np.count_nonzero(keep))
    return np.asarray(loss, x.dtype), e


def _back(e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    places, keep = safe_targets(target, e.shape[1], ignore_index)
    if keep is not None or reduction == NONE:
        counts = target != ignore_index
        weights = np.where(counts, shares(g, counts, reduction, 0), g.dtype.type(0))
    else:
        weights = g if reduction != MEAN else (g / target.size).astype(g.dtype)
    flat_e, places = flat(e, places)
    if weights.ndim:
        weights = weights.reshape(places.shape)[:, None]
    out = _back_kernel.run((flat_e, weights, places[:, None].astype(np.int32)), 1, {})
    if out is None:
        return kernels.reference(cross_entropy_back)(e, g, target, ignore_index, reduction)
    return out.reshape(e.shape)


if support.in_use:
    fill({"cross_entropy": _cross_entropy, "cross_entropy_back": _back}, "cpu")
