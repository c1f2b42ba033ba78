"""Element types: the public `dtype` objects, the default, and PyTorch's promotion rules."""

from typing import Any, Final

import ml_dtypes
import numpy as np

from lucid.core.errors import ResultError

CATEGORY_BOOL, CATEGORY_INT, CATEGORY_FLOAT, CATEGORY_COMPLEX = range(4)
_CATEGORY_OF_KIND: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


class dtype:
    """The element type of a tensor.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).dtype
    lucid.float32
    """

    __slots__ = ("category", "kind", "name", "numpy")

    def __init__(self, name: str, array_type: Any) -> None:
        self.name = name
        self.numpy = np.dtype(array_type)
        self.kind = self.numpy.kind  # as on numpy dtypes, so that rules may ask either
        self.category = CATEGORY_FLOAT if name == "bfloat16" else _CATEGORY_OF_KIND[self.numpy.kind]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type; NumPy looks here, so that np.zeros(3, dtype=x.dtype) works."""
        return self.numpy

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def is_floating_point(self) -> bool:
        return self.category == CATEGORY_FLOAT

    @property
    def is_complex(self) -> bool:
        return self.category == CATEGORY_COMPLEX

    @property
    def is_signed(self) -> bool:
        return self.numpy.kind not in "bu"

    def to_complex(self) -> Any:
        return of_numpy(complex_of(self.numpy))

    def to_real(self) -> Any:
        return of_numpy(real_of(self.numpy))

    def __repr__(self) -> str:
        return f"lucid.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


bool_ = dtype("bool", np.bool_)
uint8 = dtype("uint8", np.uint8)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
float16 = dtype("float16", np.float16)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16)
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)

ALL: Final = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip

_BY_NUMPY: Final = {d.numpy: d for d in ALL}
_BY_NAME: Final = {d.name: d for d in ALL} | {
    "bool_": bool_, "half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
_BY_PYTHON: Final[dict[type, dtype]] = {bool: bool_, int: int64, float: float64, complex: complex128}

# The numpy types that can carry a gradient; membership is tested on hot paths.
FLOATING: Final = frozenset(d.numpy for d in ALL if d.category == CATEGORY_FLOAT)
SINGLE_AND_DOUBLE: Final = frozenset({float32.numpy, float64.numpy})
COMPLEX: Final = frozenset(d.numpy for d in ALL if d.category == CATEGORY_COMPLEX)
DIFFERENTIABLE: Final = FLOATING | COMPLEX
BOOL: Final = bool_.numpy
INT64: Final = int64.numpy
UINT64: Final = uint64.numpy

_default = float32


def set_default_dtype(new: "dtype | str") -> None:
    """Make `new` the type of floats that are given no type of their own.

    >>> import lucid
    >>> lucid.set_default_dtype(lucid.float64)
    >>> lucid.tensor([0.5]).dtype
    lucid.float64
    >>> lucid.set_default_dtype(lucid.float32)
    """
    global _default
    chosen = as_dtype(new)
    if chosen.category != CATEGORY_FLOAT:
        raise TypeError(f"the default dtype must be a floating-point type, not {chosen}")
    _default = chosen


def get_default_dtype() -> dtype:
    """The type of floats that are given no type of their own.

    >>> import lucid
    >>> lucid.get_default_dtype()
    lucid.float32
    """
    return _default


def default_float() -> np.dtype[Any]:
    return _default.numpy


def default_complex() -> np.dtype[Any]:
    return complex_of(_default.numpy)


def of_numpy(array_type: Any) -> dtype:
    """The public object for a numpy dtype."""
    try:
        return _BY_NUMPY[array_type]
    except KeyError:
        raise TypeError(
            f"numpy dtype {array_type} has no counterpart in lucid; convert to one of {', '.join(d.name for d in ALL)}"
        ) from None


def as_dtype(spec: Any) -> dtype:
    """Read a dtype given as a lucid, numpy or Python type, or as a name."""
    if isinstance(spec, dtype):
        return spec if type(spec) is dtype else _BY_NUMPY[spec.numpy]  # a front door has its own
    if isinstance(spec, np.dtype) and spec in _BY_NUMPY:
        return _BY_NUMPY[spec]
    if isinstance(spec, type) and spec in _BY_PYTHON:
        return _BY_PYTHON[spec]
    if isinstance(spec, str) and spec.lower() in _BY_NAME:
        return _BY_NAME[spec.lower()]
    if spec is None:
        raise TypeError("not a dtype: None")
    try:
        return of_numpy(np.dtype(spec))
    except (TypeError, SyntaxError, ValueError):
        what = "Unknown dtype string" if isinstance(spec, str) else "not a dtype"
        raise ResultError(f"{what}: {spec!r}; use one of {', '.join(d.name for d in ALL)}") from None


def as_numpy(spec: Any) -> np.dtype[Any]:
    """The numpy dtype of any dtype spelling."""
    return as_dtype(spec).numpy


def category(array_type: np.dtype[Any]) -> int:
    return _BY_NUMPY[array_type].category


def complex_of(array_type: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type with the precision of `array_type`."""
    if array_type in COMPLEX:
        return array_type
    return complex128.numpy if array_type == float64.numpy else complex64.numpy


def real_of(array_type: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the real part of `array_type`."""
    if array_type not in COMPLEX:
        return array_type
    return float64.numpy if array_type == complex128.numpy else float32.numpy


def can_cast(source: Any, target: Any) -> bool:
    """Whether a result of type `source` may be written into a tensor of type `target`.

    >>> import lucid
    >>> lucid.can_cast(lucid.float32, lucid.int64)
    False
    """
    return as_dtype(source).category <= as_dtype(target).category
