"""What NumPy says of its arrays: the answers to the questions of `lucid.core.arrays`."""

import math
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.kernels import fill

ndarray = np.ndarray
_FINGERPRINT_LENGTH = 64
_FEW_STEPS, _MOST_STEPS = 4096, 256  # that are kept for the next time, and for how many shapes


def _owner(x: Any) -> Any:
    """What owns the memory of an array; NumPy's as_strided puts objects of its own in between."""
    while getattr(x, "base", None) is not None:
        x = x.base
    return x


def _array_owner(x: Any) -> Any:
    while isinstance(x.base, ndarray):
        x = x.base
    return x


_known_steps: dict[tuple[int, tuple[int, ...]], Any] = {}


def _steps(size: int, behind: tuple[int, ...] = ()) -> Any:
    found = _known_steps.get((size, behind))
    if found is None:
        found = np.arange(size).reshape(size, *behind)
        if size <= _FEW_STEPS:
            found.flags.writeable = False
            if len(_known_steps) >= _MOST_STEPS:
                _known_steps.clear()
            _known_steps[size, behind] = found
    return found


def _holders(view: Any) -> int:
    return getrefcount(view.base)


_ALONE = _holders(np.empty(1)[:])  # where a view is the only one


def _owns_memory(x: Any) -> bool:
    """Also of a view of all elements of an array that is known to nobody else, such as a gradient in another shape."""
    if x.base is None:
        return True
    whole = type(x.base) is ndarray and x.base.base is None and x.base.nbytes == x.nbytes and x.flags.forc
    return whole and _holders(x) == _ALONE


def takes(x: Any, y: Any) -> bool:
    """Whether `y` may be added to `x` in place, as far as one can see by itself."""
    alike = type(x) is ndarray and type(y) is ndarray and x.dtype is y.dtype
    return alike and _owns_memory(x) and x.flags.writeable


def _shares_memory(a: Any, b: Any) -> bool:
    owner = b.base
    if b is a or (owner is not None and (owner is a or owner is a.base)):
        return True
    return owner is not None and _owner(owner) is _owner(a)


def _address(x: Any) -> int:
    address: int = x.__array_interface__["data"][0]
    return address


def restrided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
    """The memory of an array from `offset` bytes behind its start on, with other sizes and strides in bytes.

    Unlike NumPy's `as_strided`, NumPy knows the owner of the result, by which `storage_offset` is counted.
    """
    memory = x if x.flags.c_contiguous else _array_owner(x)
    if not memory.flags.forc:
        start = np.lib.stride_tricks.as_strided(x.view(f"V{x.itemsize}"), (offset + 1,), (1,))[offset:]
        return np.lib.stride_tricks.as_strided(start, shape, strides).view(x.dtype)
    if memory is not x:
        offset += x.ctypes.data - memory.ctypes.data
        memory = memory if memory.flags.c_contiguous else memory.T
    if memory.dtype.isbuiltin != 1:  # types that are not NumPy's own have no buffers, so they go as bytes
        memory = memory.view(f"V{memory.itemsize}")
    kind = x.dtype if x.dtype.isbuiltin == 1 else np.dtype(f"V{x.itemsize}")
    return ndarray(shape, kind, memory, offset, strides).view(x.dtype)


def _unit(shape: tuple[int, ...], k: int, dtype: Any) -> Any:
    out = np.zeros(shape, dtype)
    out.reshape(-1)[k] = 1
    return out


def _basis(count: int, start: int, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.eye(count, math.prod(shape), -start, dtype).reshape(count, *shape)


def _empty_strided(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> Any:
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    before = -sum(r for r in reach if r < 0)
    memory = np.empty(before + sum(r for r in reach if r > 0) + dtype.itemsize, np.uint8)
    return ndarray(shape, dtype, memory, before, strides)


def _can_reshape(x: Any, shape: tuple[int, ...]) -> bool:
    try:
        x.reshape(shape, copy=False)
    except ValueError:
        return False
    return True


def _empty_in_order(shape: tuple[int, ...], dtype: Any, dims: Any) -> Any:
    strides, step = [0] * len(shape), dtype.itemsize
    for d in reversed(dims):
        strides[d] = step
        step *= max(shape[d], 1)
    return np.ndarray(shape, dtype, strides=strides)  # of memory of its own, unlike one that is turned


def _ones_laid_out_like(x: Any, shape: tuple[int, ...]) -> Any:
    part = x[tuple([slice(n if step else min(n, 1)) for n, step in zip(shape, x.strides, strict=True)])]
    return np.broadcast_to(np.ones_like(part), shape)  # expanded where x is


def _set_writable(x: Any, whether: bool) -> None:
    if whether and x.base is not None:  # the array whose elements it shows, which nobody else knows
        x.base.flags.writeable = True
    x.flags.writeable = whether


def _expanded_copy(x: Any) -> Any:
    each = x[tuple([slice(None) if step else slice(1) for step in x.strides])].copy()
    steps = tuple([new if old else 0 for new, old in zip(each.strides, x.strides, strict=True)])
    shown = ndarray(x.shape, x.dtype, each, 0, steps)
    shown.flags.writeable = False
    return shown


def _read_only(x: Any) -> Any:
    seen = np.asarray(x).view()
    seen.flags.writeable = False
    return seen


def _format(x: Any, prefix: str, precision: int, threshold: int, edgeitems: int, linewidth: int) -> str:
    if x.dtype == dtypes.bfloat16.numpy:
        x = x.astype(np.float32)
    return np.array2string(
        x, linewidth, precision, separator=", ", prefix=prefix, threshold=threshold, edgeitems=edgeitems
    )


def _fingerprint(x: Any) -> int:
    """A hash of up to 64 evenly spread elements: notices most writes by NumPy code at a constant cost."""
    if x.size <= _FINGERPRINT_LENGTH:
        return hash(x.tobytes())
    flat = x.reshape(-1) if x.flags.c_contiguous else x.flat
    step = max(1, x.size // _FINGERPRINT_LENGTH)
    return hash(np.asarray(flat[::step]).tobytes())


def _roots_of_unity(n: int, dtype: Any) -> Any:
    return np.exp(2j * np.pi * np.arange(n) / n).astype(dtype)


@lru_cache(maxsize=256)
def _multiplicity(size: int, behind: int, dtype: Any) -> Any:
    """For how many of all `size` frequencies each of the first half stands, with `behind` dimensions behind it."""
    count = np.full((size // 2 + 1, *(1,) * behind), 2, dtype)
    count[0] = 1
    if size % 2 == 0:
        count[-1] = 1
    count.flags.writeable = False
    return count


# What is asked at every step and never warns needs no frame.
fill(
    {
        "to_numpy": lambda x: x,
        "owns_memory": _owns_memory,
        "takes": takes,
        "shares_memory": _shares_memory,
        "is_writable": lambda x: x.flags.writeable,
        "is_contiguous": lambda x: x.flags.c_contiguous,
        "empty": lambda shape, dtype: np.empty(shape, dtype),
        "steps": _steps,
        "read_only": _read_only,
        "set_writable": _set_writable,
    },
    has_frames=True,
)
fill(
    {
        "as_array": lambda value, dtype=None: np.asarray(value, dtype),
        "from_numpy": lambda value, dtype=None: np.asarray(value, dtype),
        "zeros": lambda shape, dtype: np.zeros(shape, dtype),
        "full": lambda shape, value, dtype: np.full(shape, value, dtype),
        "counted": lambda count, start, step, dtype: (start + step * np.arange(count)).astype(dtype, copy=False),
        "eye": lambda rows, columns, dtype: np.eye(rows, columns, dtype=dtype),
        "roots_of_unity": _roots_of_unity,
        "multiplicity": _multiplicity,
        "unit": _unit,
        "basis": _basis,
        "empty_strided": _empty_strided,
        "empty_in_order": _empty_in_order,
        "copy": lambda x, dtype=None, order="C": np.array(x, dtype, order=order),
        "expanded_copy": _expanded_copy,
        "assign": lambda x, value: np.copyto(x, value),
        "threads": lambda: 1,
        "call_into": lambda primitive, out, operands, params: False,
        "item": lambda x: x.item(),
        "first": lambda x: x.flat[0],
        "is_finite": lambda x: bool(np.isfinite(x).all()),
        "has_nan": lambda x: bool(np.isnan(x).any()),
        "are_within": lambda x, low, high: bool(((x >= low) & (x <= high)).all()),
        "has_negative": lambda x: bool((x < 0).any()),
        "any_nonzero": lambda x: bool(np.any(x)),
        "all_nonzero": lambda x: bool(np.all(x)),
        "are_all": lambda x, number: bool((x == number).all()),
        "format": _format,
        "fingerprint": _fingerprint,
        "address": _address,
        "bounds": lambda x: np.lib.array_utils.byte_bounds(x) if x.size else (0, 0),
        "offset": lambda x: x.ctypes.data - _array_owner(x).ctypes.data,
        "can_reshape": _can_reshape,
        "ones_laid_out_like": _ones_laid_out_like,
        "restrided": restrided,
    }
)
