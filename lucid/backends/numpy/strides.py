"""Memory seen through sizes, strides and other types."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.indexing import fold_at
from lucid.backends.numpy.memory import restrided
from lucid.core.kernels import fill
from lucid.tape.geometry import overlaps

Ints = tuple[int, ...]


def seen_array(x: Any, size: Ints, stride: Ints, offset: int, lead: int = 0) -> Any:
    """The first `lead` dimensions, those of batches, stay as they are, wherever they lie in memory."""
    x = np.asarray(x)
    if not _is_row_major(x, lead):
        x = np.ascontiguousarray(x)
    shape = (*x.shape[:lead], *size)
    if 0 in shape:
        return x.reshape(-1)[:0].reshape(shape)
    out = restrided(x, shape, (*x.strides[:lead], *(s * x.itemsize for s in stride)), offset * x.itemsize)
    out.flags.writeable = x.flags.writeable and not overlaps(size, stride)
    return out


def _is_row_major(x: Any, lead: int) -> bool:
    step = x.itemsize
    for d in range(x.ndim - 1, lead - 1, -1):
        if x.shape[d] > 1 and x.strides[d] != step:
            return False
        step *= x.shape[d]
    return True


def _back_array(ct: Any, shape: Ints, size: Ints, stride: Ints, offset: int) -> Any:
    out = np.zeros(math.prod(shape), ct.dtype)
    if 0 in size:
        return out.reshape(shape)
    outer = _repeating(size, stride)
    loops = math.prod(size[d] for d in outer)
    if loops > 64 and loops * 16 > ct.size:
        places: Any = np.asarray(offset)
        for d, (n, s) in enumerate(zip(size, stride, strict=True)):
            places = places + (np.arange(n) * s).reshape([-1 if e == d else 1 for e in range(len(size))])
        fold_at(np.add, out, (np.broadcast_to(places, size),), ct)
        return out.reshape(shape)
    # Each slice shows every element at most once.
    seen = restrided(out, size, tuple(s * out.itemsize for s in stride), offset * out.itemsize)
    index: list[Any] = [slice(None)] * len(size)
    for at in np.ndindex(*[size[d] for d in outer]):
        for d, i in zip(outer, at, strict=True):
            index[d] = i
        seen[(*index, ...)] += ct[(*index, ...)]
    return out.reshape(shape)


def _repeating(size: Ints, stride: Ints) -> list[int]:
    """Dimensions without which no element is seen twice, as few places of them as can be."""
    kept: list[int] = []
    for d in sorted(range(len(size)), key=lambda d: -size[d]):
        if not overlaps(tuple(size[e] for e in (*kept, d)), tuple(stride[e] for e in (*kept, d))):
            kept.append(d)
    return [d for d in range(len(size)) if d not in kept]


def bits_array(x: Any, dtype: np.dtype[Any]) -> Any:
    try:
        return x.view(dtype)
    except ValueError as error:
        raise RuntimeError(f"view(dtype): {x.dtype} of shape {x.shape} cannot be seen as {dtype}: {error}") from None


fill(
    {
        "as_strided": seen_array,
        "as_strided_back": _back_array,
        "bits": bits_array,
    }
)
