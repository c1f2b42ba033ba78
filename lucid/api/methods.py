"""Hands the operations to `Tensor` as methods and operators."""

from collections.abc import Callable, Sequence
from typing import Any

from lucid.api import contractions, conversion, dlpack, indexing, inplace, shaping, splitting
from lucid.api.names import ROWS, Row, having
from lucid.core.errors import ElementTypeError
from lucid.core.tensor import Tensor
from lucid.ops import binary, complex_parts, unary
from lucid.ops.sparse.layout import strided


def method_table(rows: Sequence[Row] = ROWS) -> dict[str, Callable[..., Any]]:
    """Every method that operations give to `Tensor`, by name."""
    at_once = {row.home for row in rows if "lazy" not in row.columns}
    table: dict[str, Callable[..., Any]] = {}
    for row in having("method", rows):
        adapter = row.columns["method"]
        function = globals()[adapter] if adapter else row.function() if row.home in at_once else _loaded_later(row)
        for name in row.names:
            table[name] = function
    return table | (inplace.FORMS if rows is ROWS else inplace.forms(rows)) | conversion.CONVERTERS


def _loaded_later(row: Row) -> Callable[..., Any]:
    """A method that gives way to the one in its module when it is first called, under all of its names."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        function = row.function()
        for name in row.names:
            setattr(Tensor, name, function)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = row.name
    method.__doc__ = f"`lucid.{row.name}` of this tensor."
    method.home = row.home  # type: ignore[attr-defined]  # where the stubs find the signature
    return method


def where_method(self: Tensor, condition: Any, other: Any) -> Tensor:
    """Elements of this tensor where `condition` holds, of `other` elsewhere."""
    return binary.where(condition, self, other)


def split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size (the last may be smaller), or of the sizes listed."""
    return splitting.split(self, split_size, dim)


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return unary.polygamma(n, self)


def _swapped(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def op(self: Tensor, other: Any) -> Any:
        return function(other, self)

    op.__name__ = op.__qualname__ = name
    return op


def _comparison(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """== and != with something that cannot be a tensor are left to the other side."""

    def op(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            return NotImplemented

    op.__name__ = op.__qualname__ = name
    return op


def _contains(self: Tensor, item: Any) -> bool:
    found: Any = self == item
    if not isinstance(found, Tensor):
        raise ElementTypeError(f"a tensor contains numbers, and is not asked for {type(item).__name__} {item!r}")
    return bool(found.any())


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": binary.plus,
    "sub": binary.minus,
    "mul": binary.mul,
    "truediv": binary.true_divide,
    "floordiv": binary.floor_divide,
    "mod": binary.remainder,
    "pow": binary.pow,
    "matmul": contractions.matmul,
    "and": binary.bitwise_and,
    "or": binary.bitwise_or,
    "xor": binary.bitwise_xor,
    "lshift": binary.bitwise_left_shift,
    "rshift": binary.bitwise_right_shift,
}
_COMMUTATIVE = ("add", "mul", "and", "or", "xor")
_INPLACE_OPERATORS = {
    "add": "add_",
    "sub": "sub_",
    "mul": "mul_",
    "truediv": "div_",
    "floordiv": "floor_divide_",
    "mod": "remainder_",
    "pow": "pow_",
    "and": "bitwise_and_",
    "or": "bitwise_or_",
    "xor": "bitwise_xor_",
    "lshift": "bitwise_left_shift_",
    "rshift": "bitwise_right_shift_",
}


def operator_table() -> dict[str, Any]:
    """Python's operators on tensors."""
    table: dict[str, Any] = {}
    for name, function in _OPERATORS.items():
        table[f"__{name}__"] = function
        table[f"__r{name}__"] = function if name in _COMMUTATIVE else _swapped(function, f"__r{name}__")
    for name, method in _INPLACE_OPERATORS.items():
        table[f"__i{name}__"] = getattr(inplace, method)
    table |= {f"__{n}__": getattr(binary, n) for n in ("lt", "le", "gt", "ge")}
    table |= {f"__{n}__": _comparison(getattr(binary, n), f"__{n}__") for n in ("eq", "ne")}
    table |= {
        "__neg__": unary.neg,
        "__pos__": unary.positive,
        "__abs__": unary.abs,
        "__invert__": unary.bitwise_not,
        "__getitem__": indexing.getitem,
        "__setitem__": indexing.setitem,
        "__iter__": lambda self: iter(_rows(self)),
        "__contains__": _contains,
        "__array__": conversion.to_array,
        "__dlpack__": dlpack.dlpack,
        "__dlpack_device__": dlpack.dlpack_device,
        "__hash__": Tensor.__hash__,
        "T": property(_transposed, doc="The dimensions in reverse order."),
        "mT": property(_matrix_transposed, doc="The last two dimensions exchanged."),
        "H": property(
            lambda self: unary.conj(shaping.transpose(_square_dims(self, "H"), 0, 1)), doc="The adjoint of a matrix."
        ),
        "mH": property(lambda self: unary.conj(_matrix_transposed(self)), doc="The adjoint of matrices."),
        "is_cuda": property(lambda self: self.device.type == "cuda", doc="Whether a GPU holds the elements."),
        "is_meta": property(lambda self: False, doc="Whether the tensor has no elements, only a shape."),
        "is_quantized": property(lambda self: False, doc="Whether small integers stand for the elements: never."),
        "is_sparse": property(lambda self: False, doc="Whether entries are stored with their coordinates."),
        "is_sparse_csc": property(lambda self: False, doc="Whether entries are stored in compressed columns."),
        "is_sparse_csr": property(lambda self: False, doc="Whether entries are stored in compressed rows."),
        "layout": property(lambda self: strided, doc="How the elements are stored."),
        "real": _part(complex_parts.real),
        "imag": _part(complex_parts.imag),
    }
    return table


def _part(function: Callable[[Tensor], Tensor]) -> property:
    """A part of the memory as a property; assigning to it writes there."""

    def assign(self: Tensor, value: Any) -> None:
        inplace.copy_(function(self), value)

    return property(function, assign, doc=function.__doc__)


def _rows(self: Tensor) -> Any:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return self.unbind(0)


def _transposed(self: Tensor) -> Tensor:
    return shaping.transpose(self)


def _matrix_transposed(self: Tensor) -> Tensor:
    if self.ndim < 2:
        raise RuntimeError(f"mT needs at least 2 dimensions, not shape {self.shape}")
    return shaping.transpose(self, -2, -1)


def _square_dims(self: Tensor, name: str) -> Tensor:
    if self.ndim != 2:
        raise RuntimeError(f"{name} needs a matrix, not shape {self.shape}; use m{name} for stacks")
    return self


def attach_methods() -> None:
    for name, function in {**method_table(), **operator_table()}.items():
        setattr(Tensor, name, function)


attach_methods()
