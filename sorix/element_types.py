"""Types of elements as Sorix prints and compares them."""

from typing import Any

import numpy as np

from lucid.core import dtypes

_PYTHON = {int: "int64", float: "float64", bool: "bool"}


class DType(dtypes.dtype):
    """A type of elements. Two compare by name; against anything else widths of 32 and 64 bits are not told apart.

    >>> import sorix
    >>> sorix.float32, sorix.float32 == "float64", sorix.float32 == sorix.float64, sorix.int64 == int
    (sorix.float32, True, False, True)
    """

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, np.dtype(name))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtypes.dtype):
            return self.name == other.name
        return _without_width(self.name) == _without_width(_name_of(other))

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"sorix.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (self.name,)


def _name_of(value: Any) -> str:
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    return value.removeprefix("sorix.") if isinstance(value, str) else str(getattr(value, "name", value))


def _without_width(name: str) -> str:
    return name[:-2] if name in ("float32", "float64", "int32", "int64") else name


float16, float32, float64 = DType("float16"), DType("float32"), DType("float64")
int16, int32, int64, uint8, bool_ = DType("int16"), DType("int32"), DType("int64"), DType("uint8"), DType("bool")
NAMES = {
    "float16": float16, "float32": float32, "float64": float64, "int16": int16, "int32": int32, "int64": int64,
    "uint8": uint8, "bool_": bool_, "half": float16, "float": float32, "double": float64, "short": int16, "int": int32,
    "long": int64, "byte": uint8, "bool": bool_,
}  # fmt: skip
_BY_NUMPY = {t.numpy: t for t in NAMES.values()}


def typed(kind: np.dtype[Any]) -> DType:
    """A type of NumPy's as one of Sorix's."""
    return _BY_NUMPY.get(kind) or DType(kind.name)


def as_numpy(kind: Any) -> np.dtype[Any] | None:
    """A type given in any of the ways that Sorix takes, as NumPy has it; None for none."""
    if kind is None or isinstance(kind, np.dtype):
        return kind
    if isinstance(kind, dtypes.dtype):
        return kind.numpy
    return np.dtype(kind.removeprefix("sorix.") if isinstance(kind, str) else kind)
