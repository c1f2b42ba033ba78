"""Tensors that stand for values of a program: they have shape, type and place in memory, and nobody reads their elements.

Memory that is never touched costs nothing, however large it is.
"""

import math
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.core import arrays
from lucid.core.primitive import P
from lucid.core.tensor import Tensor
from lucid.kinds.kind import bottom
from lucid.ops.abstract import Abstract

_LARGE = 1 << 24  # bytes from which the system is told that memory is not going to be used
_LAID_OUT_ALIKE = frozenset(["cast", "cat", "flip", "roll", "stack"])  # beside elementwise operations and scans
_NORESERVE = 0x4000 if sys.platform == "linux" else None


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    """A placeholder in row-major order."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _LARGE or _NORESERVE is None:
        return Tensor._wrap(arrays.empty(shape, dtype))
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return Tensor._wrap(np.frombuffer(memory, np.dtype(dtype)).reshape(shape))


def like(x: Tensor) -> Tensor:
    """One that is laid out like a tensor, so that `reshape` and `contiguous` give views of it where they do of `x`."""
    shape = x.shape
    strides = bottom(x).strides
    strides = strides[len(strides) - len(shape) :]  # those in front are of batches
    if x.is_contiguous() or 0 in shape:
        return empty(shape, x.np_dtype)
    return Tensor._wrap(arrays.empty_strided(shape, x.np_dtype, strides))


def results(prim: Any, operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Tensor]:
    """What a primitive gives for placeholders and other operands, by its abstract rule."""
    if prim.is_view and _can_show(prim, operands[0], params):
        return (prim(*operands, **params),)
    found = prim.abstract(*[_abstract(o) for o in operands], **params)
    if prim.multi:
        return [empty(f.shape, f.dtype) for f in found]
    if prim.broadcasts or prim.category == "scan" or prim.name in _LAID_OUT_ALIKE:
        return (_laid_out(prim, operands, params, found),)
    return (empty(found.shape, found.dtype),)


def _abstract(operand: Any) -> Any:
    return Abstract(operand.shape, operand.np_dtype) if isinstance(operand, Tensor) else operand


def _can_show(prim: Any, base: Tensor, params: dict[str, Any]) -> bool:
    """Whether a view needs no copy, as one in another shape may."""
    if prim is not P.reshape or base.is_contiguous():
        return True
    return bool(arrays.can_reshape(base._array, params["shape"]))


def _laid_out(prim: Any, operands: Sequence[Any], params: dict[str, Any], result: Abstract) -> Tensor:
    """Room for the result of an operation that may lie in memory as its operands do.

    Kernels differ in the order in which they lay out the result of operands in another than row-major order; one is
    tried on two elements for each dimension.
    """
    given = [o._array for o in operands if isinstance(o, Tensor) and not o._level]
    if result.ndim < 2 or 0 in result.shape or all(arrays.is_contiguous(a) for a in given):
        return empty(result.shape, result.dtype)
    with np.errstate(all="ignore"):
        tried = prim.kernel(*[_small(o) if isinstance(o, Tensor) else o for o in operands], **params)
    order = sorted(range(result.ndim), key=lambda d: -tried.strides[d])  # the outermost dimension first
    return Tensor._wrap(arrays.empty_in_order(result.shape, result.dtype, order))


def fold_order(prim: Any, x: Any, params: dict[str, Any]) -> tuple[list[int], int] | None:
    """The order of dimensions in which a kernel folds a tensor, and how many of the folded ones are apart.

    None for that of the shape. Kernels fold dimensions as they lie in memory, and side by side for the results along the last
    one that is kept, if that lies so. Dimensions that do not go on from each other are apart: each index of them begins a
    block. Programs have values in row-major order, and fold by the shape. The largest size is the same in any order.
    """
    if prim.row_body is not None or not {"dims", "keepdim"} <= params.keys():
        return None
    if not isinstance(x, Tensor) or 0 in x.shape:
        return None
    shape, strides = x.shape, bottom(x).strides[-x.ndim :]
    folded = sorted({d % x.ndim for d in params["dims"]})
    runs = _joined([[d] for d in folded if shape[d] > 1], shape, strides)
    if not runs:
        return None
    if all(strides[run[-1]] > 0 for run in runs):
        runs = _joined(sorted(runs, key=lambda run: -strides[run[-1]]), shape, strides)
    inner = min(reversed(runs), key=lambda run: abs(strides[run[-1]]))
    apart = [d for run in runs if run is not inner for d in run]
    kept = [d for d in range(x.ndim) if d not in folded]
    ends = [d for d in kept if shape[d] > 1][-1:]
    beside = [d for d in ends if strides[d] == x.itemsize != strides[inner[-1]]]
    flat = [d for d in folded if shape[d] == 1]
    order = [*[d for d in kept if d not in beside], *flat, *apart, *inner, *beside]
    live = [d for d in order if shape[d] > 1]
    return None if live == sorted(live) and not apart else (order, len(apart))


def _joined(runs: Sequence[list[int]], shape: Sequence[int], strides: Sequence[int]) -> list[list[int]]:
    """Runs of dimensions, those joined of which one goes on where the other ends."""
    found: list[list[int]] = []
    for run in runs:
        size = math.prod([shape[d] for d in run])
        if found and strides[found[-1][-1]] == strides[run[-1]] * size:
            found[-1] = [*found[-1], *run]
        else:
            found.append(run)
    return found


def _small(x: Tensor) -> Any:
    shape = tuple([min(n, 2) for n in x.shape])
    return arrays.full(shape, 1, x.np_dtype) if x._level else arrays.ones_laid_out_like(x._array, shape)
