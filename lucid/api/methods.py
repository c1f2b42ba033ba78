"""Hands the operations to `Tensor` as methods and operators."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from lucid.api import (
    contractions,
    conversion,
    creation,
    dlpack,
    indexing,
    inplace,
    random,
    random_fills,
    reductions,
    scatter,
    shape_writes,
    shaping,
    sorting,
    splitting,
)
from lucid.api.aliases import with_aliases
from lucid.core.tensor import Tensor
from lucid.ops import binary, complex_parts, floating, integers, unary
from lucid.ops.nn import softmax

_UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh sigmoid logit relu softplus erf erfc erfinv lgamma digamma sinc floor ceil round trunc frac "
    "clamp clamp_min clamp_max nan_to_num isnan isinf isfinite sign logical_not bitwise_not deg2rad rad2deg positive"
)
_BINARY = (
    "add sub mul div true_divide floor_divide remainder fmod pow float_power atan2 hypot maximum minimum fmax fmin "
    "logaddexp logaddexp2 heaviside copysign xlogy lerp addcmul addcdiv eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift isclose allclose equal"
)
_REDUCTIONS = (
    "sum mean prod max min amax amin var std norm logsumexp all any argmax argmin cumsum cumprod cummax cummin "
    "logcumsumexp count_nonzero nansum nanmean"
)
_SHAPING = (
    "adjoint reshape view view_as reshape_as flatten ravel unflatten squeeze unsqueeze transpose "
    "permute t movedim moveaxis expand broadcast_to expand_as repeat tile repeat_interleave flip fliplr flipud "
    "roll rot90 clone contiguous detach"
)
_SPLITTING = "split chunk tensor_split unbind narrow select unfold diagonal diag_embed diag tril triu"
_CONTRACTIONS = "matmul mm bmm mv dot inner outer tensordot kron cross trace addmm baddbmm"
_CREATION = "new_tensor new_zeros new_ones new_empty new_full"
_CONVERSION = "to type_as cpu numpy"
_INDEXING = "take_along_dim"

NAMES: dict[Any, str] = {
    unary: _UNARY,
    binary: _BINARY,
    complex_parts: complex_parts.METHODS,
    floating: floating.METHODS,
    integers: integers.METHODS,
    reductions: _REDUCTIONS,
    shaping: _SHAPING,
    splitting: _SPLITTING,
    contractions: _CONTRACTIONS,
    creation: _CREATION,
    conversion: _CONVERSION,
    indexing: _INDEXING,
    scatter: scatter.METHODS,
    softmax: "softmax log_softmax",
    sorting: sorting.METHODS,
    random: random.METHODS,
    random_fills: random_fills.METHODS,
}

# Methods whose code loads on first use, by the module that has it.
LATER: dict[str, str] = {
    "lucid.array_api.data_types": "astype",
    "lucid.array_api.methods": "__array_namespace__ to_device",
    "lucid.signal.spectra": "istft stft",
    "lucid.linalg": "cholesky_inverse cholesky_solve",
    "lucid.linalg.classic": "cholesky geqrf lu lu_solve orgqr ormqr qr svd triangular_solve",
    "lucid.linalg.determinants": "det logdet slogdet",
    "lucid.linalg.least_squares": "pinverse",
    "lucid.linalg.powers": "matrix_exp matrix_power",
    "lucid.linalg.solvers": "inverse",
    "lucid.nn.functional": "hardshrink prelu",
    "lucid.api.joining": "diagflat dsplit hsplit split_with_sizes sum_to_size vsplit",
    "lucid.api.counting": "bincount histc histogram nonzero_static",
    "lucid.api.differences": "diff",
    "lucid.api.distances": "dist renorm renorm_",
    "lucid.api.contractions": "addbmm addbmm_ addmv addmv_ addr addr_ vdot",
    "lucid.api.put": "index_reduce index_reduce_ put put_",
    "lucid.api.conversion": "get_device is_pinned is_same_size is_shared is_signed ndimension new type",
    "lucid.api.statistics": "aminmax corrcoef cov mode",
    "lucid.special.bessel": "i0 i0_",
    "lucid.special.gamma_functions": "igamma igamma_ igammac igammac_ mvlgamma mvlgamma_",
    "lucid.api.strides": "as_strided as_strided_scatter diagonal_scatter narrow_copy new_empty_strided "
    "select_scatter slice_scatter",
}


def method_table() -> dict[str, Callable[..., Any]]:
    """Every method that operations give to `Tensor`, by name."""
    table: dict[str, Callable[..., Any]] = {
        name: getattr(module, name) for module, names in NAMES.items() for name in names.split()
    }
    table |= inplace.INPLACE | shape_writes.METHODS | conversion.CONVERTERS
    table |= {"to_numpy": conversion.numpy}  # the name by which matplotlib asks for arrays
    table |= {"where": _where_method, "polygamma": _polygamma_method, "split": _split_method}
    table |= {name: _loaded_later(module, name) for module, names in LATER.items() for name in names.split()}
    return with_aliases(table)


def _loaded_later(module: str, name: str) -> Callable[..., Any]:
    """A method that gives way to the one in `module` when it is first called."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        function = getattr(import_module(module), name)
        setattr(Tensor, name, function)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`lucid.{name}` of this tensor."
    method.home = module  # type: ignore[attr-defined]  # where the stubs find the signature
    return method


def _where_method(self: Tensor, condition: Any, other: Any) -> Tensor:
    """Elements of this tensor where `condition` holds, of `other` elsewhere."""
    out: Tensor = binary.where(condition, self, other)
    return out


def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size (the last may be smaller), or of the sizes listed."""
    return splitting.split(self, split_size, dim)


def _polygamma_method(self: Tensor, n: int) -> Tensor:
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
        table[f"__i{name}__"] = inplace.INPLACE[method]
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
        "__contains__": lambda self, item: bool((self == item).any()),
        "__array__": conversion.to_array,
        "__dlpack__": dlpack.dlpack,
        "__dlpack_device__": dlpack.dlpack_device,
        "__hash__": Tensor.__hash__,
        "T": property(_transposed, doc="The dimensions in reverse order."),
        "mT": property(_matrix_transposed, doc="The last two dimensions exchanged."),
        "H": property(lambda self: unary.conj(_square_dims(self, "H").transpose(0, 1)), doc="The adjoint of a matrix."),
        "mH": property(lambda self: unary.conj(_matrix_transposed(self)), doc="The adjoint of matrices."),
        "is_cuda": property(lambda self: self.device.type == "cuda", doc="Whether a GPU holds the elements."),
        "is_meta": property(lambda self: False, doc="Whether the tensor has no elements, only a shape: never."),
        "is_quantized": property(lambda self: False, doc="Whether small integers stand for the elements: never."),
        "is_sparse": property(lambda self: False, doc="Whether zeros are left out; lucid.sparse has such matrices."),
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
    return self.permute(tuple(reversed(range(self.ndim))))


def _matrix_transposed(self: Tensor) -> Tensor:
    if self.ndim < 2:
        raise RuntimeError(f"mT needs at least 2 dimensions, not shape {self.shape}")
    return self.transpose(-2, -1)


def _square_dims(self: Tensor, name: str) -> Tensor:
    if self.ndim != 2:
        raise RuntimeError(f"{name} needs a matrix, not shape {self.shape}; use m{name} for stacks")
    return self


def attach_methods() -> None:
    for name, function in {**method_table(), **operator_table()}.items():
        setattr(Tensor, name, function)


attach_methods()
