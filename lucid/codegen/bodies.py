"""The bodies of elementwise operations as vector code: each step by the function that writes it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lucid.codegen.floats import where_rare
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.functions.complexes import OF_COMPLEX, Complex, as_complex, part_of, select
from lucid.codegen.functions.remainders import REMAINDERS
from lucid.codegen.functions.roots import sqrt
from lucid.codegen.vectors import Function, Number, Type, Value
from lucid.core import dtypes
from lucid.native import processor_levels
from lucid.ops.expressions import Body, Constant, Operand, Parameter, Result, Source, Step

NARROW = {dtypes.float16.numpy: "half", dtypes.bfloat16.numpy: "bfloat"}
_F32 = np.dtype(np.float32)
_COMPLEX = {np.dtype(np.complex64): "cfloat", np.dtype(np.complex128): "cdouble"}
_NAMES = {"f4": "float", "f8": "double", "b1": "i1"}


# Long functions wait less for their own results if one iteration takes four vectors of them. Those of AVX-512 hold all
# numbers that are computed at once, those of AVX2 half of them, and those of ARM a quarter.
_LONGER = {"x86-64-v4": 4, "x86-64-v3": 2}
level = processor_levels()[0]  # of the processors that code is for

_FEW_STEPS = 4  # of bodies that are written twice
REFUSED = 8  # which of a loop's numbers says that it did not compute: see launch/elementwise.pyx
_NO_NUMBERS: Mapping[str, Value] = {}


class NotGeneratedError(TypeError):
    """An operation or a type that there is no code for; the reference computes it."""


def type_of(dtype: np.dtype[Any]) -> Type:
    """The type of numbers in memory."""
    if dtype in NARROW:
        return Type(NARROW[dtype])
    if not dtype.isnative or dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise NotGeneratedError(f"numbers of type {dtype}")
    if dtype.kind in "iu":
        return Type(f"i{8 * dtype.itemsize}", 1, dtype.kind == "i")
    return Type(_NAMES[dtype.str[1:]])


def type_in_memory(dtype: np.dtype[Any]) -> Type:
    """The same, also of complex numbers, which only loops over elements know."""
    return Type(_COMPLEX[dtype]) if dtype in _COMPLEX else type_of(dtype)


# --- steps: what is written for a base function ----------------------------------------------------

Writer = Callable[..., Value]


def _add(f: Function, x: Value, y: Value) -> Value:
    return x | y if x.type.of == "i1" else x + y


def _sub(f: Function, x: Value, y: Value) -> Value:
    if x.type.of == "i1":
        raise NotGeneratedError("differences of truth values")
    return x - y


def _mul(f: Function, x: Value, y: Value) -> Value:
    return x & y if x.type.of == "i1" else x * y


def _neg(f: Function, x: Value) -> Value:
    if x.type.of == "i1":
        raise NotGeneratedError("negative truth values")
    return -x


def _abs(f: Function, x: Value) -> Value:
    return x if x.type.of == "i1" else f.abs(x)


def _fmax(f: Function, x: Value, y: Value) -> Value:
    return f.select((x >= y) | y.is_nan(), x, y) if x.type.is_float else f.maximum(x, y)


def _fmin(f: Function, x: Value, y: Value) -> Value:
    return f.select((x <= y) | y.is_nan(), x, y) if x.type.is_float else f.minimum(x, y)


def _sign(f: Function, x: Value) -> Value:
    if x.type.of == "i1":
        return x
    if not x.type.is_float:
        return f.select(x > 0, 1, f.select(x < 0, f.constant(-1, x.type), f.constant(0, x.type)))
    whole = f.select(x > 0.0, f.constant(1.0, x.type), f.select(x < 0.0, f.constant(-1.0, x.type), 0.0 * x))
    return f.select(x.is_nan() | x.equals(0.0), x + 0.0, whole)


def _unless_whole(function: Callable[[Function, Value], Value]) -> Writer:
    return lambda f, x: function(f, x) if x.type.is_float else x


def _false_of(f: Function, x: Value) -> Value:
    return f.constant(False, x.type.with_("i1"))


def _is_nan(f: Function, x: Value) -> Value:
    return x.is_nan() if x.type.is_float else _false_of(f, x)


def _is_inf(f: Function, x: Value) -> Value:
    return f.abs(x).equals(np.inf) if x.type.is_float else _false_of(f, x)


def _is_finite(f: Function, x: Value) -> Value:
    return f.abs(x) < np.inf if x.type.is_float else f.constant(True, x.type.with_("i1"))


def _signbit(f: Function, x: Value) -> Value:
    if x.type.of == "i1" or not x.type.is_signed:
        return _false_of(f, x)
    return f.bits(x) < 0 if x.type.is_float else x < 0


def _not(f: Function, x: Value) -> Value:
    return x ^ True if x.type.of == "i1" else ~x


def _shift_left(f: Function, x: Value, y: Value) -> Value:
    bits = x.type.bits
    fits = Value(f, y.text, y.type.with_(y.type.of, False)) < bits
    return f.select(fits, x << f.select(fits, y, 0), 0)


def _shift_right(f: Function, x: Value, y: Value) -> Value:
    bits = x.type.bits
    fits = Value(f, y.text, y.type.with_(y.type.of, False)) < bits
    return x >> f.select(fits, y, bits - 1) if x.type.is_signed else f.select(fits, x >> f.select(fits, y, 0), 0)


# Operands have the type of the result.
OF_RESULT: dict[str, Writer] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": lambda f, x, y: x / y,
    "neg": _neg,
    "abs": _abs,
    "sqrt": sqrt,
    "maximum": lambda f, x, y: f.maximum(x, y),
    "minimum": lambda f, x, y: f.minimum(x, y),
    "fmax": _fmax,
    "fmin": _fmin,
    "copysign": lambda f, x, y: f.copysign(x, y),
    "sign": _sign,
    "floor": _unless_whole(Function.floor),
    "ceil": _unless_whole(Function.ceil),
    "trunc": _unless_whole(Function.trunc),
    "bitwise_and": lambda f, x, y: x & y,
    "bitwise_or": lambda f, x, y: x | y,
    "bitwise_xor": lambda f, x, y: x ^ y,
    "bitwise_not": _not,
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
    "conj": lambda f, x: x,  # numbers here are real
    **REMAINDERS,
}
_INTEGERS_ONLY = frozenset(name for name in OF_RESULT if name.startswith("bitwise"))
_FLOATS_ONLY = frozenset(["div", "sqrt", "copysign", "nextafter", *FUNCTIONS])
_OF_ONE_PRECISION = frozenset(["nextafter"])  # what is not the same when it is computed in a wider type and rounded
# Operands have one type, that of none or all; the result is a truth value.
OF_COMMON: dict[str, Writer] = {
    "eq": lambda f, x, y: x.equals(y),
    "ne": lambda f, x, y: x.differs(y),
    "lt": lambda f, x, y: x < y,
    "le": lambda f, x, y: x <= y,
    "gt": lambda f, x, y: x > y,
    "ge": lambda f, x, y: x >= y,
    "isnan": _is_nan,
    "isinf": _is_inf,
    "isfinite": _is_finite,
    "signbit": _signbit,
}
# Operands are truth values.
OF_TRUTH: dict[str, Writer] = {
    "logical_and": lambda f, x, y: x & y,
    "logical_or": lambda f, x, y: x | y,
    "logical_xor": lambda f, x, y: x ^ y,
    "logical_not": lambda f, x: x ^ True,
}
WITH_PARAMETERS = frozenset(["cast", "round"])
WRITTEN = frozenset(
    [*OF_RESULT, *FUNCTIONS, *OF_COMMON, *OF_TRUTH, "where", "complex", *WITH_PARAMETERS]
)  # functions that are written here


def is_base(primitive: Any) -> bool:
    """Whether a step of this function is written as it is, and not by its body."""
    return primitive.body is None or primitive.name in WRITTEN


def is_base_of_complex(primitive: Any) -> bool:
    """The same where numbers are complex."""
    return primitive.body is None or primitive.name in OF_COMPLEX


class Plan:
    """A body for operands of certain types, and the types in which it reads, computes and writes.

    Numbers of half precision are computed in single, and rounded once.
    """

    def __init__(self, source: Source, types: Sequence[np.dtype[Any]], params: dict[str, Any]) -> None:
        self.name = source.name
        is_complex = any(t.kind == "c" for t in types)
        known = is_base_of_complex if is_complex else is_base
        self.dtype = source.read(types, params, known).dtype
        self.types = [type_in_memory(t) for t in types]
        self.result = type_in_memory(self.dtype)
        self.body: Body = source.read([_F32 if t in NARROW else t for t in types], params, known)
        if any(t in NARROW for t in types) and any(s.primitive.name in _OF_ONE_PRECISION for s in self.body.steps):
            raise NotGeneratedError("neighbours of numbers of half precision")
        self.numbers = sorted({o.name for s in self.body.steps for o in s.operands if isinstance(o, Parameter)})
        widths = [
            t.itemsize // (1 + (t.kind == "c"))
            for t in (*self.body.types, *[s.dtype for s in self.body.steps], self.body.dtype)
        ]
        long = sum(s.primitive.name in FUNCTIONS or s.primitive.name in REMAINDERS for s in self.body.steps)
        self.least_lanes = 8 if max(widths) > 4 else 16 if max(widths) > 1 or long else 64
        self.lanes = self.least_lanes * (_LONGER.get(level, 1) if long and not is_complex else 1)
        self.cost = 1 + 11 * long + len(self.body.steps)
        self.is_short = not long and len(self.body.steps) <= _FEW_STEPS
        self.given: dict[str, float] = {}  # the numbers, where code is made for certain ones

    def compute(
        self, f: Function, operands: Sequence[Value | Complex], numbers: dict[str, Value], lanes: int | None = None
    ) -> Value | Complex:
        """Write all steps; operands as they are in memory, parameters in double precision."""
        lanes = lanes or self.lanes
        working = next((t for t in self.body.types if t.kind in "fcV"), self.body.types[0])
        given = [
            f.convert(v, Type("float")) if isinstance(v, Value) and v.type.of in NARROW.values() else v
            for v in operands
        ]
        part = type_in_memory(working).part
        opened = {n: f.constant(f.convert(v, part), Type("", lanes)) for n, v in numbers.items()}
        found = write_body(f, self.body, given, lanes, opened)
        return found if isinstance(found, Complex) else _converted(f, found, self.result)


class Conversion(Plan):
    """A cast from floating-point numbers to integers, with their fractions dropped, and all but the low bits.

    Where a number is too large, or nan, the loop refuses.
    """

    def compute(
        self, f: Function, operands: Sequence[Value | Complex], numbers: dict[str, Value], lanes: int | None = None
    ) -> Value | Complex:
        (x,) = operands
        if not isinstance(x, Value):
            raise NotGeneratedError("complex numbers as integers")
        # The signed type whose low bits the result has.
        by = dtypes.int32.numpy if self.dtype.itemsize < 4 or self.dtype == dtypes.int32.numpy else dtypes.INT64
        x = f.convert(x, Type("float")) if x.type.of in NARROW.values() else x

        def refused() -> Value:
            f.store(f.constant(1, Type("double")), f.beyond(f.argument("numbers"), 8 * REFUSED).text)
            return f.constant(0, x.type)

        held = where_rare(f, ~(f.abs(x) < 2.0 ** (8 * by.itemsize - 1)), refused, x)
        return f.convert(f.convert(held, type_in_memory(by)), self.result)


def write_body(
    f: Function, body: Body, operands: Sequence[Any], lanes: int, parameters: Mapping[str, Value] = _NO_NUMBERS
) -> Any:
    """Write the steps of a body, of vectors of its types."""
    found: list[Any] = []

    def typed(what: Any) -> Any:
        if isinstance(what, Operand):
            return operands[what.place]
        if isinstance(what, Result):
            return found[what.place]
        if isinstance(what, Parameter):
            return parameters[what.name]
        if isinstance(what, Constant) and what.dtype in _COMPLEX:
            return as_complex(f, what.value, Type(_COMPLEX[what.dtype], lanes).part)
        if isinstance(what, Constant):
            return f.constant(what.value, Type(type_of(what.dtype).of, lanes, what.dtype.kind != "u"))
        return what

    for step in body.steps:
        found.append(write_step(f, step, [typed(o) for o in step.operands], lanes))
    result = typed(body.result)
    if body.dtype in _COMPLEX:
        return as_complex(f, result, Type(_COMPLEX[body.dtype], lanes).part)
    return _number(f, result, Type(type_of(body.dtype).of, lanes, body.dtype.kind != "u"))


def _converted(f: Function, x: Value, type: Type) -> Value:
    """A value as it is stored. LLVM has no code of its own that rounds double precision to half."""
    if x.type.of == "double" and type.of in NARROW.values():
        raise NotGeneratedError("a cast from double to half precision")
    return f.convert(x, type)


def _number(f: Function, value: Number, type: Type) -> Value:
    """An operand of a step in the type that it computes in."""
    if isinstance(value, Value):
        return f.convert(value, type)
    if isinstance(value, complex) or (not type.is_float and value != int(value)):
        raise NotGeneratedError(f"{value!r} beside numbers of type {type.of}")
    return f.constant(value, type)


def _write_complex(f: Function, step: Step, operands: Sequence[Any], lanes: int) -> Value | Complex:
    """Write one step of complex numbers."""
    name = step.primitive.name
    part = part_of(operands, type_in_memory(step.dtype), lanes)
    if name == "where":
        x, y = [as_complex(f, o, part) for o in operands[1:]]
        return select(f, _number(f, operands[0], Type("i1", lanes)), x, y)
    if name not in OF_COMPLEX or (step.params and name != "cast") or (name == "cast" and step.dtype not in _COMPLEX):
        raise NotGeneratedError(f"{name} of complex numbers has no code")
    return OF_COMPLEX[name](f, *[as_complex(f, o, part) for o in operands])


def write_step(f: Function, step: Step, operands: Sequence[Any], lanes: int) -> Any:
    """Write one step, of vectors of so many numbers."""
    name = step.primitive.name
    if step.dtype in _COMPLEX or any(isinstance(o, Complex) for o in operands):
        return _write_complex(f, step, operands, lanes)
    kind = type_of(step.dtype)
    type = Type(kind.of, lanes, kind.is_signed)
    if (name in OF_RESULT or name in FUNCTIONS) and not step.params:
        is_truth = type.of == "i1" and name in REMAINDERS
        if is_truth or (type.is_float and name in _INTEGERS_ONLY) or (not type.is_float and name in _FLOATS_ONLY):
            raise NotGeneratedError(f"{name} of numbers of type {type.of}")
        given = [_number(f, o, type) for o in operands]
        if f.is_rehearsal and name in FUNCTIONS:  # there is code of them all, and it is long
            return given[0]
        return (OF_RESULT[name] if name in OF_RESULT else FUNCTIONS[name])(f, *given)
    if name in OF_COMMON and not step.params:
        common = _common([o for o in operands if isinstance(o, Value)])
        return OF_COMMON[name](f, *[_number(f, o, common) for o in operands])
    if name in OF_TRUTH and not step.params:
        truth = Type("i1", lanes)
        return OF_TRUTH[name](f, *[_number(f, o, truth) for o in operands])
    if name == "where":
        condition = _number(f, operands[0], Type("i1", lanes))
        return f.select(condition, *[_number(f, o, type) for o in operands[1:]])
    if name == "cast":
        x = operands[0]
        if x.type.is_float and not type.is_float and type.of != "i1":
            raise NotGeneratedError("a cast that is checked")
        return _converted(f, x, type)
    if name == "round" and step.params == {"decimals": 0}:
        return f.round(operands[0]) if type.is_float else operands[0]
    raise NotGeneratedError(f"{name} has no code")


def _common(values: Sequence[Value]) -> Type:
    """The type that comparisons of these are made in."""
    first = values[0].type
    for v in values[1:]:
        if v.type.of != first.of or v.type.is_signed != first.is_signed:
            raise NotGeneratedError(f"comparisons of {first} with {v.type}")
    return first
