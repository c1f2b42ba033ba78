"""The cross entropy of scores and class indices, by generated functions of rows.

Sums over rows are to be replaced by generated code, too.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import divide
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.rows import row_kernel
from lucid.backends.cpu.launch.classes import narrow
from lucid.backends.cpu.launch.copies import contiguous
from lucid.core import kernels
from lucid.core.kernels import fill
from lucid.core.primitive import P, constant
from lucid.ops.nn.cross_entropy import (
    MEAN,
    NONE,
    cross_entropy_back,
    cross_entropy_primitive,
    loss_of_row,
    loss_of_row_back,
)

loss_kernel, back_kernel = row_kernel(loss_of_row), row_kernel(loss_of_row_back)


def _flat(x: Any) -> Any:
    """Scores with one dimension at most behind the classes, or what belongs to them."""
    x = contiguous(x)
    return x if x.ndim < 4 else x.reshape(*x.shape[:2], -1)


def _mean(total: Any, count: int) -> Any:
    return divide(total, constant(count, total.dtype))


def _cross_entropy(x: Any, target: Any, ignore_index: int, reduction: str) -> tuple[Any, Any]:
    targets = narrow(target, x.shape[1], ignore_index)
    found = None if targets is None else loss_kernel.run((_flat(x), _flat(targets[0])), 1, {})
    if found is None:
        out: tuple[Any, Any] = kernels.reference(cross_entropy_primitive)(x, target, ignore_index, reduction)
        return out
    losses, e = found
    places, kept = targets
    if kept != places.size:
        losses[places.reshape(losses.shape) < 0] = 0
    if e.shape != x.shape:
        e = e.reshape(x.shape)
    if reduction == NONE:
        return losses.reshape(target.shape).astype(x.dtype, copy=False), e
    loss = P.sum.kernel(losses, dims=tuple(range(losses.ndim)), keepdim=False)
    return np.asarray(_mean(loss, kept) if reduction == MEAN else loss, x.dtype), e


def _back(e: Any, g: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    targets = narrow(target, e.shape[1], ignore_index)
    out = None
    if targets is not None:
        places, kept = targets
        weights = (
            g.reshape(places.shape) if reduction == NONE else _mean(np.asarray(g), kept) if reduction == MEAN else g
        )
        if kept != places.size:
            weights = np.where(places >= 0, weights, g.dtype.type(0))
        out = back_kernel.run((_flat(e), _flat(weights) if weights.ndim else weights, _flat(places)), 1, {})
    if out is None:
        return kernels.reference(cross_entropy_back)(e, g, target, ignore_index, reduction)
    return out if out.shape == e.shape else out.reshape(e.shape)


if support.in_use:
    fill({"cross_entropy": _cross_entropy, "cross_entropy_back": _back}, "cpu", has_frames=True)
