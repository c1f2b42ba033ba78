"""Copies elements from one array to another, for any shapes and strides, in threads where that pays.

What is copied is bytes, so the types of elements do not matter, only their size. The compiled module (copies.pyx)
does it; without it NumPy does, in one thread.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def write(target: Any, source: Any) -> None:
    """target[...] = source, for memory that may overlap."""
    np.copyto(target, source)


def write_parts(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """The same for several targets that lie apart from each other and from all sources, and have their types."""
    for target, source in zip(targets, sources, strict=True):
        np.copyto(target, source)


def placed(out: Any, part: Any, x: Any, value: Any) -> bool:
    """Write x into a part of a new array and one number everywhere else; whether that was done.

    It is not where rows are long, and where the part does not lie as the array does.
    """
    return False


def copied(x: Any, dtype: Any = None, order: Any = "C") -> Any:
    """A copy in memory of its own, of another type and in another order if these are given."""
    return np.array(x, dtype, order=order)


def contiguous(x: Any) -> Any:
    """The same array if it lies in row-major order, else a copy that does."""
    return x if x.flags.c_contiguous else np.array(x, order="C")


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.empty(shape, dtype)


def zeros(shape: Any, dtype: Any) -> Any:
    return np.zeros(shape, dtype)


def full(shape: Any, value: Any, dtype: Any) -> Any:
    return np.full(shape, value, dtype)


def expanded(x: Any, shape: tuple[int, ...]) -> Any:
    """A view in which elements repeat. It can be written where none does."""
    out = np.broadcast_to(x, shape)
    return x.reshape(shape) if out.size == x.size else out


def counted(count: int, start: Any, step: Any, dtype: Any) -> Any:
    """start + step · i for i below `count`, computed as NumPy would: as int64 or float64, then converted."""
    return (start + step * np.arange(count)).astype(dtype, copy=False)


def permuted(x: Any, dims: tuple[int, ...]) -> Any:
    """A view with the dimensions in another order."""
    return x.transpose(dims)


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """A view if that is possible, else a copy."""
    return x.reshape(shape)


def unfolded(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel that shows windows along a dimension."""
    return reference


def diagonal(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel that shows diagonals."""
    return reference


def strided(reference: Callable[..., Any], overlaps: Callable[..., bool]) -> Callable[..., Any]:
    """The kernel that shows memory in row-major order with other sizes and strides, which may show elements twice."""
    return reference


def triangle(x: Any, diagonal: int, is_lower: bool) -> Any:
    """The lower or upper triangle of the last two dimensions; 0 elsewhere."""
    return np.tril(x, diagonal) if is_lower else np.triu(x, diagonal)


def cleared_around(x: Any, diagonal: int, is_lower: bool) -> bool:
    """Write 0 everywhere but in the triangle, in the array itself; whether that was done."""
    return False


def joined(*xs: Any, dim: int) -> Any:
    """Arrays one behind the other along a dimension."""
    return np.concatenate(xs, axis=dim)


def stacked(*xs: Any, dim: int) -> Any:
    """Arrays of one shape along a new dimension."""
    return np.stack(xs, axis=dim)


def flipped(x: Any, dims: tuple[int, ...]) -> Any:
    """A copy with the order of elements reversed along dimensions."""
    return np.array(np.flip(x, dims))


def rolled(x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """A copy in which the elements before some place go to the end, along each dimension."""
    return np.roll(x, shifts, dims)
