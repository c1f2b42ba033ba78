"""Operands of mixed types: what type an elementwise operation computes in, and the way for any mixture of operands."""

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from typing import Any

import ml_dtypes
import numpy as np

from lucid.core import dtypes, modes
from lucid.core.arrays import as_array
from lucid.core.errors import ArgumentError, ElementTypeError
from lucid.core.fields import TensorFields
from lucid.core.primitive import P, apply, element_type, lift
from lucid.core.tensor import Tensor, shape_of

ndarray = np.ndarray
_BF16 = dtypes.bfloat16.numpy
_DIFFERENTIABLE = dtypes.DIFFERENTIABLE
NUMBERS = (bool, int, float, complex)

_ANSWERED = (TensorFields, np.generic, str, bytes, *NUMBERS)  # operands that are computed with, or refused
_COMMON = frozenset({Tensor, list, tuple, *NUMBERS})
# By which method the right operand of an operator is asked, if its class has one.
_REFLECTED = {
    "add": "__radd__",
    "sub": "__rsub__",
    "mul": "__rmul__",
    "div": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "pow": "__rpow__",
    "matmul": "__rmatmul__",
    "lt": "__gt__",
    "le": "__ge__",
    "gt": "__lt__",
    "ge": "__le__",
}

# What becomes of the operands' promoted type. KEEP: the result has it. FLOAT: integers turn into
# the default float first. BOOL: the result is a truth value. INTEGRAL: floats are refused.
KEEP, FLOAT, BOOL, INTEGRAL = "keep", "float", "bool", "integral"


def in_single(x: Any) -> Any:
    """What an operation takes that autocast runs in single precision: inside, 16-bit floats are widened."""
    casting = modes.autocast.get()
    return x if casting is None else casting.high(x)[0]


def cast(x: Tensor, target: np.dtype[Any]) -> Tensor:
    return x if x.np_dtype == target else P.cast(x, dtype=target, source=x.np_dtype)


def raise_mixed(name: str, tensors: Sequence[Any]) -> None:
    """Refuse operands of several types, some of them None, to a layer."""
    given = ", ".join([str(t.dtype) for t in tensors if t is not None])
    raise ElementTypeError(
        f"{name} needs tensors of one floating-point type, not {given}; "
        "convert them, as in x.float() or module.double()"
    )


_SINGLE_AND_LESS = frozenset({dtypes.float32.numpy, dtypes.float16.numpy, _BF16})


def described(value: Any) -> str:
    """What something is that should be a tensor, for an error."""
    if is_of_pytorch(value):
        return "a tensor of PyTorch; lucid.from_dlpack(tensor.detach()) gives one of Lucid over the same memory"
    return type(value).__name__


def is_of_pytorch(value: Any) -> bool:
    """Whether something is a tensor of the real PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def raise_if_of_pytorch(name: str, *values: Any) -> None:
    """Refuse tensors of PyTorch by saying what they are."""
    for value in values:
        if is_of_pytorch(value):
            raise TypeError(f"{name}: expected a tensor, not {described(value)}") from None


def raise_unless_alike(name: str, *tensors: Any) -> None:
    """Refuse operands of several types to a layer, unless all of them are single precision or less."""
    kinds = {t.np_dtype for t in tensors if t is not None}
    if len(kinds) > 1 and not kinds <= _SINGLE_AND_LESS:
        raise_mixed(name, tensors)


def exact(value: Any) -> Tensor:
    """Anything that can be a tensor as one; Python's floats and complex numbers keep all their digits."""
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        return lift(value)
    if type(value) is float:
        return Tensor._wrap(as_array(value))
    found = lift(value)
    if found._level or found.np_dtype not in _DIFFERENTIABLE:  # a level is that of another library's sparse matrix
        return found
    return Tensor.from_data(value, dtype=dtypes.complex128 if found.is_complex() else dtypes.float64)


def beside(value: Any, kind: np.dtype[Any]) -> Tensor:
    """Anything that can be a tensor as one, beside a tensor of type `kind`.

    Python numbers, alone or in lists, take that type, or the complex type of its precision; numbers of a higher category
    than integers have the default type.
    """
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        return lift(value)
    found = exact(value)
    if found._level:
        return found
    category = dtypes.category(kind)
    if dtypes.category(found.np_dtype) <= category:
        return found if found.np_dtype == kind else Tensor.from_data(value, dtype=kind)
    if category == dtypes.CATEGORY_FLOAT:
        return cast(found, dtypes.complex_of(kind))
    return lift(value)


def lift_all(*values: Any) -> list[Tensor]:
    """Several operands as tensors: Python numbers among them follow those that have a type, as `beside` says."""
    for v in values:
        if not isinstance(v, Tensor):
            break
    else:
        return list(values)
    kinds = [lift(v).np_dtype for v in values if isinstance(v, Tensor) or hasattr(v, "__array__")]
    if not kinds:
        return [lift(v) for v in values]
    kind = reduce(promote_pair, kinds)
    return [beside(v, kind) for v in values]


def promote(name: str, args: Sequence[Any], policy: str) -> list[Any]:
    """Operands as tensors of one type and Python numbers that do not change it."""
    if are_alike(args) and (policy is KEEP or args[0].np_dtype in _DIFFERENTIABLE) and policy is not INTEGRAL:
        return list(args)
    operands = [_operand(name, a) for a in args]
    if all(isinstance(a, NUMBERS) for a in operands):
        operands = [lift(a) for a in operands]
    target = _result_type(name, args, operands, policy)
    if policy == INTEGRAL and target in _DIFFERENTIABLE:
        raise TypeError(f"{name} takes integer or boolean tensors, not {dtypes.of_numpy(target)}")
    if target is _BF16:
        # NumPy does not know that a Python number leaves this type as it is.
        operands = [a if isinstance(a, Tensor) else Tensor._wrap(as_array(a, target)) for a in operands]
    # Lists are read anew: in the default type their numbers may have lost digits.
    return [
        cast(exact(given) if isinstance(given, (list, tuple)) else a, target) if isinstance(a, Tensor) else a
        for a, given in zip(operands, args, strict=True)
    ]


def _result_type(name: str, given: Sequence[Any], operands: Sequence[Any], policy: str) -> np.dtype[Any]:
    """The type in which operands meet: by PyTorch's rules, or by those of the front door that they came through."""
    tensors = [a for a in operands if isinstance(a, Tensor)]
    lattice = lattice_of(tensors)
    if lattice is not None:
        numbers = [g for g, a in zip(given, operands, strict=True) if not isinstance(a, Tensor)]
        target: np.dtype[Any] = lattice.result_type([t.np_dtype for t in tensors], numbers)
        return lattice.floating(target, name) if policy == FLOAT and target not in _DIFFERENTIABLE else target
    target = result_type_of(
        [t.np_dtype for t in tensors if t.ndim],
        [t.np_dtype for t in tensors if not t.ndim],
        [a for a in operands if not isinstance(a, Tensor)],
    )
    return dtypes.default_float() if policy == FLOAT and target not in _DIFFERENTIABLE else target


def lattice_of(operands: Sequence[Any]) -> Any:
    """The promotion of the class of tensors that operands are of, or, inside transforms, were; None for PyTorch's.

    A subclass of `Tensor` has it as `lattice`: `result_type(kinds, numbers)` is the type in which tensors of some types
    meet numbers, `floating(kind, name)` the one in which a function of floats takes integers.
    """
    for a in operands:
        while isinstance(a, TensorFields):
            fields: TensorFields = a
            if not fields._level:
                found = getattr(type(a), "lattice", None)
                if found is not None:
                    return found
                break
            a = fields._array
    return None


def float_type_of(operands: Sequence[Any], name: str = "") -> np.dtype[Any]:
    """The type of floats that are made beside operands: the default, or that of the front door they came through."""
    lattice = lattice_of(operands)
    return dtypes.default_float() if lattice is None else lattice.floating(np.dtype(np.int64), name)


def as_floats(x: Any, otherwise: np.dtype[Any] | None = None) -> Tensor:
    """Floating-point and complex numbers as they are, others in `otherwise` or the type of `float_type_of`."""
    t = lift(x)
    if element_type(t) in _DIFFERENTIABLE:
        return t
    return cast(t, float_type_of((t,)) if otherwise is None else otherwise)


def as_floats_alike(operands: Sequence[Any], otherwise: np.dtype[Any] | None = None) -> list[Any]:
    """The same for operands of one layer: integers take the type of the first one that has floats. None stays None."""
    for a in operands:
        if a is not None and not (isinstance(a, TensorFields) and element_type(a) in _DIFFERENTIABLE):
            break
    else:
        return list(operands)
    kinds = [a.np_dtype for a in operands if isinstance(a, Tensor) and a.np_dtype in _DIFFERENTIABLE]
    return [None if a is None else as_floats(a, kinds[0] if kinds else otherwise) for a in operands]


def are_alike(args: Sequence[Any]) -> bool:
    """Whether all operands are tensors of one type."""
    kind: Any = None
    for a in args:
        if not isinstance(a, TensorFields):
            return False
        own = element_type(a)
        if kind is None:
            kind = own
        elif own is not kind:
            return False
    return kind is not None


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Tensor) or type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (ndarray, list, tuple)):
        return lift(value)
    if isinstance(value, NUMBERS):
        return value
    raise TypeError(f"{name}: expected a tensor, an array or a number, not {described(value)}")


def answer(name: str, args: Sequence[Any]) -> Any:
    """What the class of the right operand says of an operator, as Python asks it; NotImplemented if there is none to ask.

    Arrays and matrices of other libraries are not asked: they would compute without a gradient.
    """
    other = args[-1]
    if isinstance(other, _ANSWERED) or any(hasattr(other, a) for a in ("__array__", "__array_priority__")):
        return NotImplemented
    method = getattr(type(other), _REFLECTED.get(name, ""), None)
    is_own = method is not None and not any(
        method is getattr(kind, _REFLECTED[name], None) for kind in (list, tuple, object)
    )
    return method(other, args[0]) if method is not None and is_own else NotImplemented


def general(prim: Any, args: Sequence[Any], policy: str, params: dict[str, Any]) -> Any:
    """An elementwise primitive of any mixture of operands."""
    if type(args[-1]) not in _COMMON and (found := answer(prim.name, args)) is not NotImplemented:
        return found
    condition, values = (args[:1], args[1:]) if prim.has_condition else ((), args)
    operands = promote(prim.name, values, policy)
    if prim.real:
        raise_if_complex(prim, _type_beside(operands))
    for a in operands:
        if type(a) is int and policy != BOOL:
            raise_if_outside(a, _type_beside(operands), prim.name)
    operands = [*condition, *operands]
    try:
        return apply(prim, operands, params)
    except (ValueError, TypeError) as error:
        raise refusal(prim.name, operands, error) from None


def raise_if_complex(prim: Any, kind: np.dtype[Any]) -> None:
    """Refuse complex numbers to a function of ordered ones; NumPy would compare real parts first."""
    if kind.kind == "c":
        raise ElementTypeError(f"{prim.name} takes real tensors, not complex ones; take abs(), real or imag first")


def _type_beside(operands: Sequence[Any]) -> np.dtype[Any]:
    """The type that promotion gave to the tensors among the operands."""
    return next(a.np_dtype for a in operands if isinstance(a, Tensor))


def refusal(name: str, operands: Sequence[Any], error: Exception) -> Exception:
    """The error for truth values that an operation does not take, or for operands that do not broadcast, or the original one."""
    if isinstance(error, TypeError):
        if all(type(a) is bool or (isinstance(a, Tensor) and a.np_dtype.kind == "b") for a in operands):
            return ElementTypeError(
                f"{name} does not take booleans; use ~, ^ or logical_not, or convert them, as in x.int()"
            )
        return error
    shapes = [shape_of(a) for a in operands]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " and ".join(str(s) for s in shapes)
        return ArgumentError(
            f"{name}: shapes {shown} do not broadcast: aligned from the right, "
            "each pair of sizes must be equal or contain a 1"
        )
    return error


# --- which type a result has --------------------------------------------------------------------------

_promoted: dict[tuple[Any, Any], np.dtype[Any]] = {}


def promote_pair(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Promotion of two types of equal standing: floats absorb integers of any width.

    PyTorch leaves integers beside uint16, uint32 and uint64 out; they follow NumPy, as the array API standard does.
    """
    if a is b:
        return a
    found = _promoted.get((a, b))
    if found is None:
        high, low = (a, b) if dtypes.category(a) >= dtypes.category(b) else (b, a)
        if dtypes.category(high) >= dtypes.CATEGORY_FLOAT and dtypes.category(low) < dtypes.CATEGORY_FLOAT:
            found = high
        elif {a, b} == {dtypes.float16.numpy, dtypes.bfloat16.numpy}:
            found = dtypes.float32.numpy
        elif dtypes.category(high) == dtypes.CATEGORY_COMPLEX and dtypes.category(low) == dtypes.CATEGORY_FLOAT:
            found = np.promote_types(high, dtypes.complex_of(low))
        else:
            found = np.promote_types(a, b)
            if found.kind == "f" and dtypes.category(high) == dtypes.CATEGORY_INT:
                raise RuntimeError(f"no integer type holds both {a} and {b}; convert one of the operands first")
        _promoted[a, b] = found
    return found


def scalar_type(value: bool | int | float | complex) -> np.dtype[Any]:
    """The type that a bare Python number takes when it decides the type of a result."""
    if isinstance(value, bool):
        return dtypes.BOOL
    if isinstance(value, int):
        return dtypes.INT64
    if isinstance(value, float):
        return dtypes.default_float()
    return dtypes.default_complex()


def _combine(strong: np.dtype[Any] | None, weak: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """`weak` decides only if it is of a higher dtypes.category than `strong`."""
    if strong is None or weak is None:
        return strong or weak
    if dtypes.category(strong) >= dtypes.category(weak):
        return strong
    if dtypes.category(strong) == dtypes.CATEGORY_FLOAT:
        return dtypes.complex_of(strong)
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


def promote_types(a: Any, b: Any) -> dtypes.dtype:
    """The smallest type that holds both, by PyTorch's rules.

    >>> import lucid
    >>> lucid.promote_types(lucid.int64, lucid.float16)
    lucid.float16
    """
    return dtypes.of_numpy(promote_pair(dtypes.as_numpy(a), dtypes.as_numpy(b)))


@cache
def bounds(kind: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    found = np.iinfo(kind)
    return int(found.min), int(found.max)


def raise_if_outside(value: object, target: np.dtype[Any], name: str) -> None:
    """Refuse a Python integer that an integer type cannot hold; NumPy would wrap it around."""
    if type(value) is int and target.kind in "iu":
        least, largest = bounds(target)
        if not least <= value <= largest:
            raise ValueError(f"{name}: {value} is outside the range of {target.name}, {least} to {largest}")


class finfo:
    """Limits of a floating-point type.

    >>> import lucid
    >>> lucid.finfo(lucid.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        self.dtype = dtypes.get_default_dtype() if type is None else dtypes.as_dtype(type)
        if self.dtype.category < dtypes.CATEGORY_FLOAT:
            raise TypeError(f"finfo needs a floating-point or complex type, not {self.dtype}; use lucid.iinfo")
        info: Any = (ml_dtypes if self.dtype is dtypes.bfloat16 else np).finfo(dtypes.real_of(self.dtype.numpy))
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(str(info.resolution))  # 0.001, not the nearest number of the type

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype.name})"
        )


class iinfo:
    """Limits of an integer type.

    >>> import lucid
    >>> lucid.iinfo(lucid.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        self.dtype = dtypes.as_dtype(type)
        if self.dtype.category != dtypes.CATEGORY_INT:
            raise TypeError(f"iinfo needs an integer type, not {self.dtype}; use lucid.finfo")
        info = np.iinfo(self.dtype.numpy)
        self.bits, self.min, self.max = info.bits, info.min, info.max

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"
