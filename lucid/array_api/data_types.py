"""Data type functions."""

from functools import reduce
from typing import Any

import lucid
from lucid.arguments import promotion
from lucid.array_api.promotion import array
from lucid.core import dtypes
from lucid.core.tensor import Tensor

KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("b",),
    "signed integer": ("i",),
    "unsigned integer": ("u",),
    "integral": ("i", "u"),
    "real floating": ("f", "V"),
    "complex floating": ("c",),
    "numeric": ("i", "u", "f", "V", "c"),
}


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another type; a new array unless `copy` is False and it has that type already.

    >>> import lucid
    >>> lucid.astype(lucid.tensor([1.5, 2.5]), lucid.int32)
    Tensor([1, 2], dtype=lucid.int32)
    """
    found = array(x, "astype")
    target = dtypes.as_dtype(dtype)
    if found.is_complex() and not target.is_complex:
        raise TypeError(
            f"astype: {found.dtype} has an imaginary part, which {target} cannot hold; take real or abs first"
        )
    return found.to(target, device=device, copy=copy)


def _dtype_of(value: Any) -> dtypes.dtype:
    return value.dtype if isinstance(value, Tensor) else dtypes.as_dtype(value)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the standard's promotion leads from one type, or an array's, to another.

    >>> import lucid
    >>> lucid.array_api.can_cast(lucid.float32, lucid.float64), lucid.array_api.can_cast(lucid.int64, lucid.int32)
    (True, False)
    """
    source, target = _dtype_of(from_), _dtype_of(to)
    if source.category != target.category and not (source.is_floating_point and target.is_complex):
        return False
    try:
        return promotion.promote_pair(source.numpy, target.numpy) == target.numpy
    except RuntimeError:
        return False


def finfo(type: Any, /) -> lucid.finfo:
    """Limits of a floating-point type, or of an array's; of a complex type, those of its parts.

    >>> import lucid
    >>> lucid.array_api.finfo(lucid.complex64).dtype
    lucid.float32
    """
    found = _dtype_of(type)
    return lucid.finfo(found.to_real() if found.is_complex else found)


def iinfo(type: Any, /) -> lucid.iinfo:
    """Limits of an integer type, or of an array's.

    >>> import lucid
    >>> lucid.array_api.iinfo(lucid.tensor([1, 2])).bits
    64
    """
    return lucid.iinfo(_dtype_of(type))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind: another type, one of the standard's names of kinds, or any in a tuple of these.

    >>> import lucid
    >>> lucid.isdtype(lucid.int32, "integral"), lucid.isdtype(lucid.int32, ("bool", lucid.float32))
    (True, False)
    """
    found = dtypes.as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if not isinstance(kind, str):
        return found is dtypes.as_dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: unknown kind {kind!r}; the kinds are {', '.join(KINDS)}")
    return found.kind in KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> dtypes.dtype:
    """The type of the result of an operation on arrays (of any rank), types and numbers.

    >>> import lucid
    >>> lucid.array_api.result_type(lucid.zeros(2), lucid.tensor(1.0, dtype=lucid.float64))
    lucid.float64
    """
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    others = [_dtype_of(a).numpy for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))]
    if not others:
        raise ValueError("result_type needs at least one array or type")
    return dtypes.of_numpy(promotion.result_type_of([reduce(promotion.promote_pair, others)], (), numbers))
