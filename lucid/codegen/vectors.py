"""Writes LLVM's language: values that answer to Python's operators, and the function that they are written into.

A value is a number, or a vector of numbers that are computed side by side: `x * y + 1` writes two instructions. No
instruction carries a flag that would allow LLVM to reorder or to contract what is written, and none rounds twice unless
it says so: what a function computes does not depend on the width of vectors or on the processor.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

_FLOATS = {"half": 2, "bfloat": 2, "float": 4, "double": 8}
_PARTS = {"cfloat": "float", "cdouble": "double"}  # of complex numbers
_BYTES = {**_FLOATS, "cfloat": 8, "cdouble": 16, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "i128": 16}
_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_HEX: dict[str, tuple[str, Any, Any, int]] = {
    "half": ("0xH", np.float16, np.uint16, 4),
    "double": ("0x", np.float64, np.uint64, 16),
}


class Type(NamedTuple):
    """The type of a value: what its numbers are (`float`, `i32`, …), how many, and whether integers have signs."""

    of: str
    lanes: int = 1
    is_signed: bool = True

    def __str__(self) -> str:
        return self.of if self.lanes == 1 else f"<{self.lanes} x {self.of}>"

    @property
    def is_float(self) -> bool:
        return self.of in _FLOATS

    @property
    def is_complex(self) -> bool:
        return self.of in _PARTS

    @property
    def part(self) -> "Type":
        """The type of a part of complex numbers; of others, the type itself."""
        return self.with_(_PARTS[self.of]) if self.is_complex else self

    @property
    def bytes(self) -> int:
        """How many bytes one number takes in memory."""
        return _BYTES[self.of]

    @property
    def bits(self) -> int:
        return 1 if self.of == "i1" else 8 * self.bytes

    @property
    def short(self) -> str:
        """How the names of LLVM's own functions call it."""
        of = _SHORT.get(self.of, self.of)
        return of if self.lanes == 1 else f"v{self.lanes}{of}"

    def with_(self, of: str, is_signed: bool = True) -> "Type":
        """As many numbers of another type."""
        return Type(of, self.lanes, is_signed)

    def wide(self, lanes: int) -> "Type":
        """So many numbers of this type."""
        return Type(self.of, lanes, self.is_signed)

    @property
    def stored(self) -> "Type":
        """One number as bytes, whatever they mean."""
        return Type(f"i{8 * self.bytes}")


COUNT, POINTER = Type("i64"), Type("ptr")


class Value:
    """A number or vector that a function computes."""

    __slots__ = ("function", "text", "type")

    def __init__(self, function: "Function", text: str, type: Type) -> None:
        self.function = function
        self.text = text
        self.type = type

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    def _binary(self, float_name: str, int_name: str, other: "Number", swapped: bool = False) -> "Value":
        beside = self.function.constant(other, self.type)
        name = float_name if self.type.is_float else int_name
        if not name:
            raise TypeError(f"values of type {self.type} have no such operation")
        x, y = (beside, self) if swapped else (self, beside)
        return self.function.write(f"{name} {self.type} {x.text}, {y.text}", self.type)

    def __add__(self, other: "Number") -> "Value":
        return self._binary("fadd", "add", other)

    def __radd__(self, other: "Number") -> "Value":
        return self._binary("fadd", "add", other, True)

    def __sub__(self, other: "Number") -> "Value":
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: "Number") -> "Value":
        return self._binary("fsub", "sub", other, True)

    def __mul__(self, other: "Number") -> "Value":
        return self._binary("fmul", "mul", other)

    def __rmul__(self, other: "Number") -> "Value":
        return self._binary("fmul", "mul", other, True)

    def __truediv__(self, other: "Number") -> "Value":
        return self._binary("fdiv", "", other)

    def __rtruediv__(self, other: "Number") -> "Value":
        return self._binary("fdiv", "", other, True)

    def quotient(self, other: "Number") -> "Value":
        """Integers divided and rounded towards zero."""
        return self._binary("", "sdiv" if self.type.is_signed else "udiv", other)

    def rest(self, other: "Number") -> "Value":
        """What is left of integers after `quotient`."""
        return self._binary("", "srem" if self.type.is_signed else "urem", other)

    def __and__(self, other: "Number") -> "Value":
        return self._binary("", "and", other)

    def __or__(self, other: "Number") -> "Value":
        return self._binary("", "or", other)

    def __xor__(self, other: "Number") -> "Value":
        return self._binary("", "xor", other)

    def __invert__(self) -> "Value":
        return self ^ -1

    def __lshift__(self, other: "Number") -> "Value":
        return self._binary("", "shl", other)

    def __rshift__(self, other: "Number") -> "Value":
        """Integers with signs keep theirs."""
        return self._binary("", "ashr" if self.type.is_signed else "lshr", other)

    def __neg__(self) -> "Value":
        if self.type.is_float:
            return self.function.write(f"fneg {self.type} {self.text}", self.type)
        return 0 - self

    def _compare(self, ordered: str, name: str, other: "Number") -> "Value":
        beside = self.function.constant(other, self.type)
        if self.type.is_float:
            what = f"fcmp {ordered}"
        elif name in ("eq", "ne"):
            what = f"icmp {name}"
        else:
            what = f"icmp {'s' if self.type.is_signed and self.type.of != 'i1' else 'u'}{name}"
        return self.function.write(f"{what} {self.type} {self.text}, {beside.text}", self.type.with_("i1"))

    def __lt__(self, other: "Number") -> "Value":
        return self._compare("olt", "lt", other)

    def __le__(self, other: "Number") -> "Value":
        return self._compare("ole", "le", other)

    def __gt__(self, other: "Number") -> "Value":
        return self._compare("ogt", "gt", other)

    def __ge__(self, other: "Number") -> "Value":
        return self._compare("oge", "ge", other)

    def equals(self, other: "Number") -> "Value":
        return self._compare("oeq", "eq", other)

    def differs(self, other: "Number") -> "Value":
        """Whether two are different; nan is different from everything."""
        return self._compare("une", "ne", other)

    def is_nan(self) -> "Value":
        return self._compare("uno", "", self)


Number = Value | bool | int | float


class Function:
    """A function of LLVM that is being written, instruction by instruction, with the blocks that they stand in."""

    is_rehearsal = False  # whether it is written only to see whether there is code for all of it

    def __init__(self, name: str, parameters: Sequence[tuple[str, str]] = ()) -> None:
        self.name = name
        self.parameters = list(parameters)
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.count = 0
        self.block = "entry"
        self._known: dict[Any, Value] = {}  # what was written in this block, by its text: nothing stands there twice

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def write(self, instruction: str, type: Type) -> Value:
        """An instruction without effects, which is written once in a block."""
        key = (instruction, type)
        if key not in self._known:
            name = f"%{self.fresh()}"
            self.lines.append(f"  {name} = {instruction}")
            self._known[key] = Value(self, name, type)
        return self._known[key]

    def effect(self, instruction: str) -> None:
        """An instruction that gives nothing."""
        self.lines.append(f"  {instruction}")

    def load(self, pointer: str, type: Type, align: int = 0) -> Value:
        """Numbers from memory, which need lie on no more than a multiple of `align`, or of their own size."""
        name = f"%{self.fresh()}"
        stored = type.with_("i8") if type.of == "i1" else type
        self.effect(f"{name} = load {stored}, ptr {pointer}, align {align or type.bytes}")
        found = Value(self, name, stored)
        return found.differs(0) if type.of == "i1" else found

    def load_once(self, pointer: Value, type: Type) -> Value:
        """The same, of memory that nothing writes to within a block."""
        key = ("load", pointer.text, type)
        if key not in self._known:
            self._known[key] = self.load(pointer.text, type)
        return self._known[key]

    def store(self, value: Value, pointer: str, align: int = 0) -> None:
        if value.type.of == "i1":
            value = self.convert(value, value.type.with_("i8", False))
        self.effect(f"store {value.type} {value.text}, ptr {pointer}, align {align or value.type.bytes}")

    def load_some(self, place: Value, type: Type, there: Value, other: Value) -> Value:
        """The numbers of a vector in memory that exist, and another one, as bytes, for the others."""
        bits = type.stored.wide(type.lanes)
        name, given = f"llvm.masked.load.{bits.short}.p0", f"{there.type} {there.text}, {bits} {other.text}"
        self.declarations[name] = f"declare {bits} @{name}(ptr, i32, {there.type}, {bits})"
        found = Value(self, f"%{self.fresh()}", bits)
        self.effect(f"{found.text} = call {bits} @{name}(ptr {place.text}, i32 {type.bytes}, {given})")
        if type.of == "i1":
            return found.differs(0)
        return self.from_bits(found, type.of) if type.is_float else Value(self, found.text, type)

    def store_some(self, value: Value, place: Value, there: Value) -> None:
        """Write those numbers of a vector that exist."""
        if value.type.of == "i1":
            value = self.convert(value, value.type.with_("i8", False))
        size = value.type.bytes
        value = self.bits(value) if value.type.is_float else value
        name = f"llvm.masked.store.{value.type.short}.p0"
        self.declarations[name] = f"declare void @{name}({value.type}, ptr, i32, {there.type})"
        given = f"{value.type} {value.text}, ptr {place.text}, i32 {size}, {there.type} {there.text}"
        self.effect(f"call void @{name}({given})")

    def argument(self, name: str) -> Value:
        """A parameter of the function."""
        kind = dict(self.parameters)[name]
        return Value(self, f"%{name}", Type(kind))

    def beyond(self, base: Value, offset: Value | int) -> Value:
        """The place so many bytes on."""
        return self.write(f"getelementptr i8, ptr {base.text}, i64 {self.constant(offset, COUNT).text}", POINTER)

    def entry(self, table: str, k: int, type: Type) -> Value:
        """A number or pointer of a table in memory, which does not change."""
        place = self.write(f"getelementptr {type}, ptr %{table}, i64 {k}", POINTER)
        return self.write(f"load {type}, ptr {place.text}", type)

    def room(self, count: int, type: Type) -> Value:
        """Memory of the function's own for so many numbers."""
        return self.write(f"alloca [{count} x {type.stored}], align 64 ; {self.fresh()}", POINTER)

    def copy(self, target: Value, source: Value, size: Value) -> None:
        """So many bytes to memory that is not where they are."""
        self.effect(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target.text}, ptr {source.text}, i64 {size.text}, i1 false)"
        )
        self.declarations["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"

    def clear(self, memory: Value, size: int) -> None:
        """Set so many bytes to 0."""
        self.effect(f"call void @llvm.memset.p0.i64(ptr {memory.text}, i8 0, i64 {size}, i1 false)")
        self.declarations["llvm.memset.p0.i64"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"

    def prefetch(self, place: Value, is_written: bool = False) -> None:
        """Begin to bring memory near, to be read or written; nothing happens where there is none."""
        self.effect(f"call void @llvm.prefetch.p0(ptr {place.text}, i32 {is_written:d}, i32 3, i32 1)")
        self.declarations["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"

    # --- blocks ---------------------------------------------------------------------------------

    def begin(self, block: str) -> None:
        """Go on in a new block."""
        self.lines.append(f"{block}:")
        self.block = block
        self._known.clear()

    def jump(self, block: str) -> None:
        self.effect(f"br label %{block}")

    def branch(self, condition: Value, then: str, otherwise: str) -> None:
        self.effect(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def loop(
        self,
        stop: Value,
        step: int | None,
        body: Callable[..., Sequence[Value]],
        carried: Sequence[Value] = (),
        start: Value | int = 0,
    ) -> list[Value]:
        """`body(i, *carried)` for i from `start` below `stop`; it gives the next of what is carried, and so does this.

        Where `step` is None, it gives the next i besides, before the others.
        """
        first = self.constant(start, COUNT)
        before, head, done = self.block, self.fresh("loop"), self.fresh("done")
        inside = self.fresh("inside")
        self.jump(head)
        self.begin(head)
        place = len(self.lines)
        i = Value(self, f"%{self.fresh('i')}", COUNT)
        names = [Value(self, f"%{self.fresh('c')}", c.type) for c in carried]
        self.branch(i < stop, inside, done)
        self.begin(inside)
        after = list(body(i, *names))
        following = after.pop(0) if step is None else i + step
        last = self.block
        self.jump(head)
        phis = [f"  {i.text} = phi i64 [ {first.text}, %{before} ], [ {following.text}, %{last} ]"]
        for name, old, new in zip(names, carried, after, strict=True):
            phis.append(f"  {name.text} = phi {name.type} [ {old.text}, %{before} ], [ {new.text}, %{last} ]")
        self.lines[place:place] = phis
        self.begin(done)
        return names

    # --- numbers --------------------------------------------------------------------------------

    def constant(self, value: Number, type: Type) -> Value:
        """A number as a value of a type; a value is taken as it is, repeated where a vector is wanted."""
        if isinstance(value, Value):
            if value.type.lanes == type.lanes:
                return value
            return self.spread(value, type.lanes)
        text = _text(value, type.of)
        return Value(self, text if type.lanes == 1 else f"splat ({type.of} {text})", type)

    def spread(self, value: Value, lanes: int) -> Value:
        """One number in every place of a vector."""
        if lanes == 1:
            return value
        wide = Type(value.type.of, lanes, value.type.is_signed)
        one = self.write(f"insertelement {wide} poison, {value.type} {value.text}, i64 0", wide)
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.write(f"shufflevector {wide} {one.text}, {wide} poison, {mask}", wide)

    def gathered(self, values: Sequence[Value]) -> Value:
        """A vector of single numbers."""
        wide = values[0].type.wide(len(values))
        found = "poison"
        for k, value in enumerate(values):
            found = self.write(f"insertelement {wide} {found}, {value.type} {value.text}, i64 {k}", wide).text
        return Value(self, found, wide)

    def places(self, lanes: int) -> Value:
        """The numbers 0, 1, 2, … of the places of a vector."""
        numbers = ", ".join(f"i64 {k}" for k in range(lanes))
        return Value(self, f"<{numbers}>", Type("i64", lanes))

    def small_places(self, lanes: int) -> Value:
        """The same in half as many bytes."""
        numbers = ", ".join(f"i32 {k}" for k in range(lanes))
        return Value(self, f"<{numbers}>", Type("i32", lanes))

    def shuffled(self, one: Value, other: Value, chosen: Sequence[int]) -> Value:
        """A vector of these places of two vectors, of which the second goes on counting."""
        n = len(chosen)
        mask = ", ".join(f"i32 {k}" for k in chosen)
        text = f"shufflevector {one.type} {one.text}, {other.type} {other.text}, <{n} x i32> <{mask}>"
        return self.write(text, one.type.wide(n))

    def joined(self, first: Value, second: Value) -> Value:
        """A vector of the numbers of two."""
        return self.shuffled(first, second, range(2 * first.type.lanes))

    def halves(self, value: Value) -> tuple[Value, Value]:
        """The first and the second half of a vector."""
        n = value.type.lanes // 2
        type = Type(value.type.of, n, value.type.is_signed)
        found = []
        for start in (0, n):
            chosen = ", ".join(f"i32 {k}" for k in range(start, start + n))
            text = f"shufflevector {value.type} {value.text}, {value.type} poison, <{n} x i32> <{chosen}>"
            if n == 1:
                text = f"extractelement {value.type} {value.text}, i64 {start}"
            found.append(self.write(text, type))
        return found[0], found[1]

    def call(self, name: str, type: Type, *arguments: Value) -> Value:
        """A function that is defined elsewhere and has no effects."""
        types = ", ".join(str(a.type) for a in arguments)
        self.declarations[name] = f"declare {type} @{name}({types})"
        given = ", ".join(f"{a.type} {a.text}" for a in arguments)
        return self.write(f"call {type} @{name}({given})", type)

    def intrinsic(self, name: str, x: Value, *others: Number) -> Value:
        """One of LLVM's own functions, of values of one type."""
        values = [x, *[self.constant(v, x.type) for v in others]]
        return self.call(f"llvm.{name}.{x.type.short}", x.type, *values)

    def fma(self, x: Value, y: Number, z: Number) -> Value:
        """x * y + z, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def abs(self, x: Value) -> Value:
        if x.type.is_float:
            return self.intrinsic("fabs", x)
        return x if not x.type.is_signed else self.select(x < 0, -x, x)

    def copysign(self, x: Value, sign: Number) -> Value:
        """x with the sign of another number."""
        return self.intrinsic("copysign", x, sign)

    def round(self, x: Value) -> Value:
        """The nearest whole number, the even one of two."""
        return self.intrinsic("roundeven", x)

    def floor(self, x: Value) -> Value:
        return self.intrinsic("floor", x)

    def ceil(self, x: Value) -> Value:
        return self.intrinsic("ceil", x)

    def trunc(self, x: Value) -> Value:
        return self.intrinsic("trunc", x)

    def maximum(self, x: Value, y: Number) -> Value:
        """The larger number, and nan if one is."""
        if not x.type.is_float:
            return self.select(x > y, x, y)
        y = self.constant(y, x.type)
        return self.select((x <= y) | y.is_nan(), y, x)

    def minimum(self, x: Value, y: Number) -> Value:
        """The smaller number, and nan if one is."""
        if not x.type.is_float:
            return self.select(x < y, x, y)
        y = self.constant(y, x.type)
        return self.select((x >= y) | y.is_nan(), y, x)

    def select(self, condition: Value, x: Number, y: Number) -> Value:
        """x where the condition holds, and y elsewhere; one of them is a value."""
        type = x.type if isinstance(x, Value) else y.type  # type: ignore[union-attr]
        x, y = self.constant(x, type), self.constant(y, type)
        what = f"select {condition.type} {condition.text}, {type} {x.text}, {type} {y.text}"
        return self.write(what, type)

    def any(self, x: Value) -> Value:
        """Whether one of the truth values of a vector holds."""
        joined = Type(f"i{x.type.lanes}")
        return self.write(f"bitcast {x.type} {x.text} to {joined}", joined).differs(0)

    def bits(self, x: Value) -> Value:
        """The bits of floating-point numbers as integers."""
        type = x.type.with_(f"i{x.type.bits}")
        return self.write(f"bitcast {x.type} {x.text} to {type}", type)

    def from_bits(self, x: Value, of: str) -> Value:
        """Floating-point numbers of these bits."""
        type = x.type.with_(of)
        return self.write(f"bitcast {x.type} {x.text} to {type}", type)

    def convert(self, x: Value, to: Type) -> Value:
        """Numbers of another type, as C would have them; what becomes a truth value is compared with 0."""
        to = Type(to.of, x.type.lanes, to.is_signed)
        if x.type.of == to.of:
            return Value(self, x.text, to)
        if to.of == "i1":
            return x.differs(0)
        if x.type.of == "bfloat":
            upper = self.convert(self.bits(x), x.type.with_("i32", False)) & 0xFFFF
            return self.convert(self.from_bits(upper << 16, "float"), to)
        if x.type.of == "half" and to.of != "float":
            return self.convert(self.convert(x, x.type.with_("float")), to)
        if to.of == "half" and x.type.of != "float":
            return self.convert(self.convert(x, x.type.with_("float")), to)
        if to.of == "bfloat":
            return self._bfloat(self.convert(x, x.type.with_("float")))
        return self.write(f"{_conversion(x.type, to)} {x.type} {x.text} to {to}", to)

    def _bfloat(self, x: Value) -> Value:
        """The upper half of the bits of a single-precision number, rounded to the nearest, to even ones of two."""
        bits = self.bits(x)
        rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
        upper = self.select(x.is_nan(), (bits >> 16) | 0x40, rounded)
        return self.from_bits(self.convert(upper, x.type.with_("i16")), "bfloat")

    def polynomial(self, x: Value, coefficients: Sequence[float | Value]) -> Value:
        """Σ c[k]·x^k by Horner's rule, each step rounded once."""
        found = self.constant(coefficients[-1], x.type)
        for c in reversed(coefficients[:-1]):
            found = self.fma(found, x, c)
        return found

    def __str__(self) -> str:
        parameters = ", ".join(f"{kind} %{name}" for name, kind in self.parameters)
        lines = [f"define void @{self.name}({parameters}) nounwind {{", "entry:", *self.lines, "}"]
        return "\n".join(lines)


def _conversion(source: Type, to: Type) -> str:
    if source.is_float and to.is_float:
        return "fpext" if to.bytes > source.bytes else "fptrunc"
    if source.is_float:
        return "fptosi" if to.is_signed else "fptoui"
    signed = source.is_signed and source.of != "i1"
    if to.is_float:
        return "sitofp" if signed else "uitofp"
    if to.bits < source.bits:
        return "trunc"
    return "sext" if signed else "zext"


def _text(value: Any, of: str) -> str:
    """A number as LLVM writes it; those of floating point by their bits."""
    if of == "i1":
        return "true" if value else "false"
    if of not in _FLOATS:
        return str(int(value))
    if of == "bfloat":
        return f"0xR{np.float32(value).view(np.uint32) >> 16:04X}"
    if of == "float":  # as the double that it is
        with np.errstate(over="ignore"):
            value = np.float64(np.float32(value))
        of = "double"
    prefix, kind, unsigned, digits = _HEX[of]
    return f"{prefix}{int(kind(value).view(unsigned)):0{digits}X}"
