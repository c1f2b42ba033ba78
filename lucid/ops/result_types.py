"""Which type a result has: promotion by PyTorch's rules, and the limits of types."""

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from lucid.core.dtypes import (
    BOOL,
    CATEGORY_COMPLEX,
    CATEGORY_FLOAT,
    CATEGORY_INT,
    INT64,
    as_dtype,
    as_numpy,
    bfloat16,
    category,
    complex_of,
    default_complex,
    default_float,
    dtype,
    float16,
    float32,
    get_default_dtype,
    of_numpy,
    real_of,
)

_promoted: dict[tuple[Any, Any], np.dtype[Any]] = {}


def promote_pair(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Promotion of two types of equal standing: floats absorb integers of any width.

    PyTorch leaves integers beside uint16, uint32 and uint64 out; they follow NumPy, as the array API standard does.
    """
    if a is b:
        return a
    found = _promoted.get((a, b))
    if found is None:
        high, low = (a, b) if category(a) >= category(b) else (b, a)
        if category(high) >= CATEGORY_FLOAT and category(low) < CATEGORY_FLOAT:
            found = high
        elif {a, b} == {float16.numpy, bfloat16.numpy}:
            found = float32.numpy
        elif category(high) == CATEGORY_COMPLEX and category(low) == CATEGORY_FLOAT:
            found = np.promote_types(high, complex_of(low))
        else:
            found = np.promote_types(a, b)
            if found.kind == "f" and category(high) == CATEGORY_INT:
                raise RuntimeError(f"no integer type holds both {a} and {b}; convert one of the operands first")
        _promoted[a, b] = found
    return found


def scalar_type(value: bool | int | float | complex) -> np.dtype[Any]:
    """The type that a bare Python number takes when it decides the type of a result."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT64
    if isinstance(value, float):
        return default_float()
    return default_complex()


def _combine(strong: np.dtype[Any] | None, weak: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """`weak` decides only if it is of a higher category than `strong`."""
    if strong is None or weak is None:
        return strong or weak
    if category(strong) >= category(weak):
        return strong
    if category(strong) == CATEGORY_FLOAT:
        return complex_of(strong)
    return promote_pair(strong, weak)


def result_type_of(
    tensors: Iterable[np.dtype[Any]],
    zero_dim: Iterable[np.dtype[Any]],
    scalars: Iterable[bool | int | float | complex],
) -> np.dtype[Any]:
    """PyTorch's rule: tensors with dimensions decide, then 0-d tensors, then Python numbers."""
    strong = weak = weakest = None
    for t in tensors:
        strong = t if strong is None else promote_pair(strong, t)
    for t in zero_dim:
        weak = t if weak is None else promote_pair(weak, t)
    for s in scalars:
        st = scalar_type(s)
        weakest = st if weakest is None else promote_pair(weakest, st)
    result = _combine(_combine(strong, weak), weakest)
    assert result is not None
    return result


def promote_types(a: Any, b: Any) -> dtype:
    """The smallest type that holds both, by PyTorch's rules.

    >>> import lucid
    >>> lucid.promote_types(lucid.int64, lucid.float16)
    lucid.float16
    """
    return of_numpy(promote_pair(as_numpy(a), as_numpy(b)))


def raise_if_outside(value: object, target: np.dtype[Any], name: str) -> None:
    """Refuse a Python integer that an integer type cannot hold; NumPy would wrap it around."""
    if type(value) is int and target.kind in "iu":
        limits = np.iinfo(target)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{name}: {value} is outside the range of {target.name}, {limits.min} to {limits.max}")


class finfo:
    """Limits of a floating-point type.

    >>> import lucid
    >>> lucid.finfo(lucid.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        self.dtype = get_default_dtype() if type is None else as_dtype(type)
        if self.dtype.category < CATEGORY_FLOAT:
            raise TypeError(f"finfo needs a floating-point or complex type, not {self.dtype}; use lucid.iinfo")
        info: Any = (ml_dtypes if self.dtype is bfloat16 else np).finfo(real_of(self.dtype.numpy))
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype}, eps={self.eps:g}, min={self.min:g}, max={self.max:g})"


class iinfo:
    """Limits of an integer type.

    >>> import lucid
    >>> lucid.iinfo(lucid.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        self.dtype = as_dtype(type)
        if self.dtype.category != CATEGORY_INT:
            raise TypeError(f"iinfo needs an integer type, not {self.dtype}; use lucid.finfo")
        info = np.iinfo(self.dtype.numpy)
        self.bits, self.min, self.max = info.bits, info.min, info.max

    def __repr__(self) -> str:
        return f"iinfo(dtype={self.dtype}, min={self.min}, max={self.max})"
