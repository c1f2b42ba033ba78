"""Kernels of primitives that move elements, and of copies: each says which parts of its result come from where.

A part is a view of the result, and what fills it a view of an operand, or one number.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.contraction import contract_into
from lucid.backends.cpu.launch import copies as launch_copies
from lucid.backends.cpu.launch.copies import (
    cleared_around,
    copied,
    empty,
    reshaped,
    triangle,
    write,
    write_parts,
    zeros,
)
from lucid.core import kernels
from lucid.core.primitive import P
from lucid.tape.geometry import overlaps

_REFERENCE = kernels.tables[kernels.REFERENCE]
Ints = tuple[int, ...]
_LEAST_BOXES = 1 << 19  # bytes, up to which one thread has filled all before they are found


def _slices(index: tuple[Any, ...], ndim: int) -> list[slice]:
    """What an index of numbers, slices, None and an Ellipsis takes of each dimension."""
    taken = [i for i in index if i is not None]
    missing = ndim - sum(i is not Ellipsis for i in taken)
    at = taken.index(Ellipsis) if Ellipsis in taken else len(taken)
    taken[at : at + 1] = [slice(None)] * missing
    return [i if isinstance(i, slice) else slice(i, i + 1 or None) for i in taken]


def _around(index: tuple[Any, ...], shape: Ints) -> list[tuple[slice, ...]] | None:
    """Boxes that together hold what an index leaves of a shape; None if it takes elements here and there."""
    boxes: list[tuple[slice, ...]] = []
    inside: tuple[slice, ...] = ()
    for d, part in enumerate(_slices(index, len(shape))):
        start, stop, step = part.indices(shape[d])
        if abs(step) != 1 and len(range(start, stop, step)) > 1:
            return None
        if not len(range(start, stop, step)):
            return [()]
        low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
        high = min(high, low + 1) if abs(step) != 1 else high
        boxes += [(*inside, slice(0, low))] * (low > 0) + [(*inside, slice(high, None))] * (high < shape[d])
        inside = (*inside, slice(low, high))
    return boxes


def _placed(x: Any, index: tuple[Any, ...], shape: Ints, around: Any) -> Any:
    """An array with `x` at an index and one number everywhere else."""
    out = empty(shape, x.dtype)
    boxes = _around(index, shape)
    if boxes is None:
        write(out, around)
        boxes = []
    write_parts([out[box] for box in boxes] + [P.slice.kernel(out, index)], [around] * len(boxes) + [x])
    return out


def _pays(shape: Ints, x: Any) -> bool:
    """Whether threads make up for finding the boxes around a part."""
    return math.prod(shape) * x.itemsize >= _LEAST_BOXES


def _slice_back(x: Any, index: tuple[Any, ...], shape: Ints) -> Any:
    if _pays(shape, x):
        return _placed(x, index, shape, np.zeros((), x.dtype))
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


@cache
def _padded_by_reference() -> Any:
    return kernels.reference(P.pad)


def _pad(x: Any, index: tuple[Any, ...], shape: Ints, value: Any) -> Any:
    padded = _padded_by_reference()
    if not _pays(shape, x):
        return padded(x, index, shape, value)
    nothing = (slice(0),) * x.ndim
    around = padded(
        x[nothing], nothing, (1,) * x.ndim, value
    )  # the number in the type of x, or the error that it is none
    return _placed(x, index, shape, around.reshape(()))


def _diagonal_back(x: Any, shape: Ints, offset: int, dim1: int, dim2: int) -> Any:
    out = zeros(shape, x.dtype)
    write(P.diagonal.kernel(out, offset, dim1, dim2), x)
    return out


def _write_view(base: Any, new: Any, through: Any, settings: dict[str, Any]) -> Any:
    out = copied(base)  # in row-major order: in another one, some views would be copies
    write(through.kernel(out, **settings), new)
    return out


def _triangle_into(out: Any, operands: tuple[Any, ...], diagonal: int, is_lower: bool) -> bool:
    return operands[0] is out and cleared_around(out, diagonal, is_lower)


# What is written into memory that exists, if it can be: the array, the operands and the parameters.
INTO: dict[str, Callable[..., bool]] = {
    "contract": contract_into,
    "tril": lambda out, operands, params: _triangle_into(out, operands, params["diagonal"], True),
    "triu": lambda out, operands, params: _triangle_into(out, operands, params["diagonal"], False),
}
kernels.fill(
    {
        "slice_back": _slice_back,
        "pad": _pad,
        "diagonal_back": _diagonal_back,
        "write_view": _write_view,
        "tril": lambda x, diagonal: triangle(x, diagonal, True),
        "triu": lambda x, diagonal: triangle(x, diagonal, False),
    },
    "cpu",
)
# Copies of bytes never warn.
kernels.fill(
    {
        "clone": lambda x: copied(x),
        "cat": launch_copies.joined,
        "stack": launch_copies.stacked,
        "flip": launch_copies.flipped,
        "roll": launch_copies.rolled,
        "broadcast_to": launch_copies.expanded,
        "reshape": reshaped,
        "permute": launch_copies.permuted,
        "unfold": launch_copies.unfolded(_REFERENCE["unfold"]),
        "diagonal": launch_copies.diagonal(_REFERENCE["diagonal"]),
        "as_strided": launch_copies.strided(_REFERENCE["as_strided"], overlaps),
        "copy": copied,
        "assign": write,
        "zeros": zeros,
        "full": launch_copies.full,
        "counted": launch_copies.counted,
    },
    "cpu",
    has_frames=True,
)
