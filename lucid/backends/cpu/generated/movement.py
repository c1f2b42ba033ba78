"""Kernels of primitives that move elements, and of copies: each says which parts of its result come from where.

A part is a view of the result, and what fills it a view of an operand, or one number.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from lucid.backends.cpu.contraction import contract_into
from lucid.backends.cpu.launch import copies as launch_copies
from lucid.backends.cpu.launch.copies import (
    cleared_around,
    copied,
    empty,
    placed,
    reshaped,
    triangle,
    write,
    write_parts,
    zeros,
)
from lucid.core import kernels
from lucid.core.dtypes import BOOL
from lucid.core.primitive import P
from lucid.tape.geometry import overlaps

_REFERENCE = kernels.tables[kernels.REFERENCE]
Ints = tuple[int, ...]
_SMALL, _MANY = 64, 64  # rows and columns of small matrices, and how many of them are many


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
    out = empty(tuple(shape), x.dtype)  # sizes may be of a class of their own
    if placed(out, P.slice.kernel(out, index), x, around):
        return out
    boxes = _around(index, shape)
    if boxes is None:
        write(out, around)
        boxes = []
    write_parts([out[box] for box in boxes] + [P.slice.kernel(out, index)], [around] * len(boxes) + [x])
    return out


def _slice_back(x: Any, index: tuple[Any, ...], shape: Ints) -> Any:
    return _placed(x, index, shape, _zero(x.dtype))


@cache
def _zero(dtype: Any) -> Any:
    return np.zeros((), dtype)


def _pad(x: Any, index: tuple[Any, ...], shape: Ints, value: Any) -> Any:
    is_simple = type(value) is int or (type(value) is float and value)  # zeros of both signs are equal
    return _placed(x, index, shape, _kept_number(x.dtype, value) if is_simple else _number(x.dtype, value))


def _number(dtype: Any, value: Any) -> Any:
    """A number as an element of a type, or the error that it is none."""
    nothing = (slice(0),)
    return kernels.reference(P.pad)(np.empty(0, dtype), nothing, (1,), value).reshape(())


_kept_number = lru_cache(maxsize=256, typed=True)(_number)


def _diagonal_back(x: Any, shape: Ints, offset: int, dim1: int, dim2: int) -> Any:
    out = zeros(shape, x.dtype)
    write(P.diagonal.kernel(out, offset, dim1, dim2), x)
    return out


def _write_view(base: Any, new: Any, through: Any, settings: dict[str, Any]) -> Any:
    out = copied(base)  # in row-major order: in another one, some views would be copies
    write(through.kernel(out, **settings), new)
    return out


def _triangle(x: Any, diagonal: int, is_lower: bool) -> Any:
    """The triangles of matrices; those of many small ones are one choice between numbers and zeros."""
    many = x.ndim > 2 and x.size >= _MANY * x.shape[-1] * x.shape[-2]
    if not many or x.shape[-1] > _SMALL or x.shape[-2] > _SMALL or not x.flags.c_contiguous:
        return triangle(x, diagonal, is_lower)
    below = np.tri(x.shape[-2], x.shape[-1], diagonal if is_lower else diagonal - 1, dtype=BOOL)
    zero = _zero(x.dtype)
    return P.where.kernel(below, x, zero) if is_lower else P.where.kernel(below, zero, x)


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
        "tril": lambda x, diagonal: _triangle(x, diagonal, True),
        "triu": lambda x, diagonal: _triangle(x, diagonal, False),
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
