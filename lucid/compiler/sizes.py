"""Programs for any number of rows, found from traces at a few of them.

With `dynamic=`, a function is traced for the rows that it was given, for a prime and for a highly composite number of them,
and for very few. Where the four programs differ in numbers alone, each of which is linear in the rows or a number divided by
that, they are one program for all rows up to these: conditions that change once on the way, or with divisors, would have
shown. In the trace for the prime, code outside of Lucid gets sizes that depend on it as a `Size`, and may not compare that
with anything: otherwise each number of rows is traced by itself.
"""

import dis
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial
from types import CellType, FunctionType
from typing import Any

import numpy as np

from lucid.compiler.calls import Specialization
from lucid.compiler.capture import LEAST_COMPACT, Capture, Captured, captured
from lucid.compiler.places import Walk
from lucid.core.fields import users_attributes
from lucid.core.tensor import Tensor
from lucid.ir import placeholders
from lucid.ir.effects import Write
from lucid.ir.program import Program
from lucid.ir.trace import Traced, UserCode
from lucid.ir.values import Instruction, Name

PRIME, COMPOSITE = 10_357, 10_080  # of which the second is divisible by all numbers up to 10, and by 12, 14, 15, 16 ...
FEWEST, MOST = 2, COMPOSITE  # rows that a general program serves for: 0 and 1 have rules of their own
_NEAR = 64  # what is so close to a multiple of the prime depends on it
_LARGEST = 1 << 22  # elements of a constant in such a trace
_LONGER = 64  # instructions that a trace for other rows may have before it is given up


class NotGeneralError(Exception):
    """A function depends on the number of rows in a way that a general program does not show."""


# --- what code outside of Lucid sees --------------------------------------------------------------


def _opcodes(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


_CACHE = dis.opmap.get("CACHE", -1)
_ATTRIBUTE = _opcodes("LOAD_ATTR")
_CALL = _opcodes("CALL", "CALL_KW", "CALL_FUNCTION_EX", "PRECALL")
_COMPARISON = _opcodes("COMPARE_OP", "CONTAINS_OP")
_LOOK_UP = _CALL | _opcodes(
    "CONTAINS_OP", "STORE_SUBSCR", "BINARY_SUBSCR" if "BINARY_SUBSCR" in dis.opmap else "BINARY_OP"
)
_ARITHMETIC = _opcodes("BINARY_OP", "UNARY_NEGATIVE")


def _is_users(frame: Any, opcodes: frozenset[int]) -> bool:
    """Whether code outside of Lucid is at such an instruction. What compiled code of Lucid does has no frame of its own."""
    if frame.f_globals.get("__name__", "").partition(".")[0] in ("lucid", "sorix", "numpy"):
        return False
    code, place = frame.f_code.co_code, frame.f_lasti
    while code[place] == _CACHE:  # which follows an instruction that calls
        place -= 2
    return code[place] in opcodes


class Size(int):
    """A number that depends on the rows, as code outside of Lucid sees it. Lucid itself takes it as the number it is."""

    __slots__ = ()

    def __hash__(self) -> int:
        if _is_users(sys._getframe(1), _LOOK_UP):
            raise NotGeneralError("it looks something up by the number of rows")
        return int.__hash__(self)


def _comparing(name: str) -> Callable[[Size, Any], Any]:
    plain = getattr(int, name)

    def compare(self: Size, other: Any) -> Any:
        if not isinstance(other, Size) and _is_users(sys._getframe(1), _COMPARISON):
            raise NotGeneralError("it compares the number of rows with something else")
        return plain(self, other)

    return compare


def _computing(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def compute(self: Size, *others: Any) -> Any:
        found = plain(self, *others)
        return Size(found) if type(found) is int and _is_users(sys._getframe(1), _ARITHMETIC) else found

    return compute


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Size, _name, _comparing(_name))
_OPERATORS = "add sub mul floordiv mod pow lshift rshift and or xor".split()
for _name in ("__neg__", *[f"__{side}{name}__" for name in _OPERATORS for side in ("", "r")]):
    setattr(Size, _name, _computing(_name))


def _seen(size: int) -> int:
    return Size(size) if size >= PRIME - _NEAR and (size + _NEAR) % PRIME <= 2 * _NEAR else size


class Sized:
    """A tensor whose sizes are shown as what they are: mixed into the classes of arguments and of traced tensors."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = super().shape  # type: ignore[misc]
        return type(shape)([_seen(n) for n in shape]) if _is_users(sys._getframe(1), _ATTRIBUTE) else shape

    def size(self, *args: Any, **kwargs: Any) -> Any:
        found = super().size(*args, **kwargs)  # type: ignore[misc]
        if not _is_users(sys._getframe(1), _CALL):
            return found
        return _seen(found) if isinstance(found, int) else type(found)([_seen(n) for n in found])

    def numel(self) -> int:
        count: int = super().numel()  # type: ignore[misc]
        return _seen(count) if _is_users(sys._getframe(1), _CALL) else count

    nelement = numel

    def __len__(self) -> int:
        if _is_users(sys._getframe(1), _CALL):
            raise NotGeneralError("it asks for len() of a tensor, which is a plain number; use x.shape[0]")
        count: int = super().__len__()  # type: ignore[misc]
        return count


class SizedTraced(Sized, Traced):
    """A traced tensor in the trace for the prime."""

    __slots__ = ()


@cache
def _sized(cls: Any) -> type:
    return type(cls.__name__, (Sized, cls), {"__slots__": ()})


class Probe(Capture):
    """A trace for other rows than those of the call. It is given up when it gets longer than that of the call."""

    def __init__(self, arguments: Sequence[Tensor], name: str, most: int, kind: type) -> None:
        super().__init__(arguments, name)
        self.kind = kind
        self._most = most + _LONGER

    def emit(self, prim: Any, operands: Sequence[Any], params: Any, outs: Any, place: Any = None) -> list[Name]:
        if len(self.instructions) > self._most:
            raise NotGeneralError("it does something for each row")
        return super().emit(prim, operands, params, outs, place)

    def raise_if_large(self, elements: int) -> None:
        if elements > _LARGEST:
            raise NotGeneralError("it makes a constant of many elements")

    def _constant(self, value: Any) -> Name:
        self.raise_if_large(math.prod(value.shape))
        return super()._constant(value)

    def run(self, what: Any, compute: Any, operands: Sequence[Any]) -> Any:
        raise NotGeneralError(f"{what.name} is called to find out the shape of its result")


# --- what programs have in common -----------------------------------------------------------------


class Formula(ABC):
    """Something in a program that depends on the rows."""

    @abstractmethod
    def at(self, rows: int) -> Any:
        """What it is for so many rows."""


class Linear(Formula):
    def __init__(self, times: int, plus: int) -> None:
        self.times, self.plus = times, plus

    def at(self, rows: int) -> int:
        return self.times * rows + self.plus


class Quotient(Formula):
    def __init__(self, over: float, below: Linear) -> None:
        self.over, self.below = over, below

    def at(self, rows: int) -> float:
        return self.over / self.below.at(rows)


class Nest(Formula):
    def __init__(self, build: Callable[[list[Any]], Any], parts: list[Any]) -> None:
        self.build, self.parts = build, parts

    def at(self, rows: int) -> Any:
        return self.build([at(p, rows) for p in self.parts])


def at(item: Any, rows: int) -> Any:
    return item.at(rows) if isinstance(item, Formula) else item


def common(values: Sequence[Any], rows: Sequence[int]) -> Any:
    """What values are at these rows: the first one where all are the same, or a formula."""
    first = values[0]
    if all(v is first for v in values):
        return first
    kind = int if isinstance(first, int) and not isinstance(first, bool) else type(first)
    if not all(isinstance(v, kind) for v in values):
        raise NotGeneralError(f"it uses {first!r} for some numbers of rows, and {values[-1]!r} for others")
    if kind is int:
        return _linear([int(v) for v in values], rows)
    if kind is float:
        return _number(values, rows)
    if kind is slice:
        return _nest(lambda parts: slice(*parts), [[v.start, v.stop, v.step] for v in values], rows, first)
    if kind is dict:
        keys = list(first)
        if any(list(v) != keys for v in values):
            raise NotGeneralError("its programs have other parameters")
        return _nest(lambda parts: dict(zip(keys, parts, strict=True)), [[*v.values()] for v in values], rows, first)
    if issubclass(kind, tuple | list):
        make: Any = kind
        return _nest(getattr(make, "_make", make), [[*v] for v in values], rows, first)
    if issubclass(kind, Tensor):
        return _constant([v._array for v in values], rows, first)
    if kind is Program:
        return _program(values, rows)
    if kind is FunctionType:
        return _function(values, rows, first)
    if kind is partial:
        parts = [[v.func, v.args, v.keywords] for v in values]
        return _nest(lambda found: partial(found[0], *found[1], **found[2]), parts, rows, first)
    if hasattr(kind, "of_programs"):  # an instruction that runs programs
        parts = _nest(dict, [[*vars(v).items()] for v in values], rows, first)
        return Nest(lambda found: _with_fields(first, found[0]), [parts]) if isinstance(parts, Formula) else first
    if kind is Write:
        if all((v.found, v.history, v.owner) == (first.found, first.history, first.owner) for v in values):
            return first
    elif issubclass(kind, UserCode):
        raise NotGeneralError(f"the function {first.name} is called as it is")
    elif all(_is_same(v, first) for v in values):
        return first
    raise NotGeneralError(f"a {kind.__name__} in its program depends on the number of rows")


def _with_fields(like: Any, fields: dict[str, Any]) -> Any:
    made = copy(like)
    vars(made).update(fields)
    return made


def _function(functions: Sequence[Any], rows: Sequence[int], first: Any) -> Any:
    """A function that was made inside of another one: by what it holds of that."""
    if any(
        (f.__code__, f.__defaults__, f.__kwdefaults__) != (first.__code__, first.__defaults__, first.__kwdefaults__)
        for f in functions
    ):
        raise NotGeneralError(f"it uses another function than {first.__qualname__} for other numbers of rows")
    held = _nest(list, [[c.cell_contents for c in f.__closure__ or ()] for f in functions], rows, first)

    def build(cells: list[Any]) -> Any:
        closure = tuple([CellType(c) for c in cells[0]])
        made = FunctionType(first.__code__, first.__globals__, first.__name__, first.__defaults__, closure)
        made.__kwdefaults__ = first.__kwdefaults__
        return made

    return Nest(build, [held]) if isinstance(held, Formula) else first


def _is_same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except Exception:  # arrays, and what cannot be compared
        return False


def _nest(build: Callable[[list[Any]], Any], values: Sequence[list[Any]], rows: Sequence[int], first: Any) -> Any:
    if any(len(v) != len(values[0]) for v in values):
        raise NotGeneralError("its programs differ in the number of their parts")
    parts = [common(column, rows) for column in zip(*values, strict=True)]
    return Nest(build, parts) if any(isinstance(p, Formula) for p in parts) else first


def _linear(values: Sequence[int], rows: Sequence[int]) -> Any:
    if all(v == values[0] for v in values):
        return values[0]
    times, rest = divmod(values[2] - values[1], rows[2] - rows[1])
    found = Linear(times, values[1] - times * rows[1])
    if rest or any(found.at(n) != v for n, v in zip(rows, values, strict=True)):
        raise NotGeneralError(f"{values[0]} in its program is no linear function of the number of rows")
    return found


def _number(values: Sequence[float], rows: Sequence[int]) -> Any:
    """A float: the same one, a linear function, or a number divided by one."""
    if len({np.float64(v).tobytes() for v in values}) == 1:
        return values[0]
    for over in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5):
        below = [round(over / v) if v else 0 for v in values]
        if all(b and over / b == v for b, v in zip(below, values, strict=True)):
            return Quotient(over, _linear(below, rows))
    shares = {n / v for n, v in zip(rows, values, strict=True) if v}
    if len(shares) == 1 and 0 not in values:
        (whole,) = shares
        if all(n / whole == v for n, v in zip(rows, values, strict=True)):
            return Nest(lambda parts: parts[0] / whole, [Linear(1, 0)])
    unbiased = _unbiased(values, rows)
    if unbiased is not None:
        return unbiased
    if all(v.is_integer() for v in values):
        return Nest(lambda parts: float(parts[0]), [_linear([int(v) for v in values], rows)])
    raise NotGeneralError(f"{values[0]} in its program depends on the number of rows")


def _unbiased(values: Sequence[float], rows: Sequence[int]) -> Formula | None:
    """A share of what makes the variance of `count` numbers one without bias: share · (count / (count - 1)).

    Its inverse is linear in 1 / rows, so that two values give both; all must be met to the last bit.
    """
    if 0 in values:
        return None
    slope = (1 / values[0] - 1 / values[1]) / (1 / rows[0] - 1 / rows[1])
    end = 1 / values[1] - slope / rows[1]
    if not slope or not end:
        return None
    share, each = float(f"{1 / end:.9g}"), round(-end / slope)

    def build(parts: list[int]) -> float:
        return share * (parts[0] / (parts[0] - 1))

    found = Nest(build, [Linear(each, 0)])
    is_met = each > 0 and all(found.at(n) == v for n, v in zip(rows, values, strict=True))
    return found if is_met else None


def _constant(arrays: Sequence[Any], rows: Sequence[int], first: Any) -> Any:
    """A constant: the same elements, one element for all places, or whole numbers that go on from each other."""
    if any(a.dtype != arrays[0].dtype for a in arrays):
        raise NotGeneralError("a constant of its program has another type for other numbers of rows")
    if len({a.shape for a in arrays}) == 1 and len({a.tobytes() for a in arrays}) == 1:
        return first
    shapes = [[*a.shape] for a in arrays]
    elements = {_element(a) for a in arrays}
    if len(elements) == 1 and None not in elements:
        element = arrays[0].reshape(-1)[:1].copy().reshape(())
        return _nest(lambda shape: Tensor._wrap(np.broadcast_to(element, tuple(shape))), shapes, rows, first)
    if all(a.size > 1 for a in arrays):
        numbers = _ramp(arrays[0])
        if all(np.array_equal(a.reshape(-1), numbers(a.size)) for a in arrays):
            return _nest(lambda shape: Tensor._wrap(numbers(math.prod(shape)).reshape(shape)), shapes, rows, first)
    raise NotGeneralError("a constant of its program depends on the number of rows")


def _element(array: Any) -> bytes | None:
    """The element that a constant has everywhere, if it is one: long ones are in memory once (`capture`)."""
    first: bytes = array.reshape(-1)[:1].tobytes()
    if array.size < LEAST_COMPACT:
        return first if array.tobytes() == first * array.size else None
    return None if any(array.strides) else first


def _ramp(array: Any) -> Callable[[int], Any]:
    """Whole numbers that begin as those of an array do, and go on so, as those of `arange`."""
    start, following = array.reshape(-1)[:2].tolist()
    is_whole = array.dtype.kind in "iuf" and math.isfinite(start) and math.isfinite(following)
    begin, step = (int(start), int(following) - int(start)) if is_whole else (0, 0)

    def numbers(count: int) -> Any:
        return (begin + step * np.arange(count)).astype(array.dtype)

    return numbers


def _program(programs: Sequence[Program], rows: Sequence[int]) -> Any:
    first = programs[0]
    lists = [(p.inputs, p.captured, p.constants, p.instructions, p.outputs) for p in programs]
    for name, *found in zip(("inputs", "captured", "constants", "instructions", "outputs"), *lists, strict=True):
        if len({len(f) for f in found}) > 1:
            raise NotGeneralError(f"its programs have {len(found[0])} and {len(found[1])} {name}")
    parts = [
        common([p.inputs for p in programs], rows),
        common([tuple([n for n, _ in p.captured]) for p in programs], rows),
        common([p.constants for p in programs], rows),
        [_instruction(column, rows) for column in zip(*[p.instructions for p in programs], strict=True)],
        common([p.outputs for p in programs], rows),
    ]

    def build(at_rows: list[Any]) -> Program:
        inputs, names, constants, instructions, outputs = at_rows
        held = [(n, t) for n, (_, t) in zip(names, first.captured, strict=True)]
        structures = (first._arguments, first._results, first._static)
        made = Program(first.name, inputs, held, constants, instructions, outputs, structures)
        donated = {n.number for n in first.donated}
        made.fast, made.donated = first.fast, tuple([n for n in inputs if n.number in donated])
        return made

    parts[3] = Nest(list, parts[3])
    return Nest(build, parts)


def _instruction(found: Sequence[Instruction], rows: Sequence[int]) -> Any:
    first = found[0]
    parts = [common([f[k] for f in found], rows) for k in range(4)]
    if not any(isinstance(p, Formula) for p in parts):
        return first
    return Nest(lambda made: Instruction._make([*made, first.place]), parts)


# --- functions ------------------------------------------------------------------------------------


class General:
    """A traced function for any number of rows. `like` is the specialization that the others are made like."""

    def __init__(self, program: Any, inlined: Any, pulled: Any) -> None:
        self.programs = program, inlined, pulled
        self.like: Any = None

    def at(self, rows: int) -> Specialization:
        """The specialization for so many rows."""
        found = self.like.found
        program, inlined, pulled = [at(p, rows) for p in self.programs]
        half = None if found.pulled is None else found.pulled._replace(program=pulled)
        made: Specialization = self.like.with_programs(found._replace(program=program, inlined=inlined, pulled=half))
        return made


def general(
    function: Callable[..., Any],
    found: Captured,
    leaves: Sequence[Any],
    structure: Any,
    varies: Sequence[bool],
    walk: Walk,
) -> General:
    """What a traced function is for any number of rows; raises NotGeneralError where that cannot be said."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    varying = {id(t): t for t, varied in zip(tensors, varies, strict=True) if varied and t.ndim}
    counts = {t.shape[0] for t in varying.values()}
    if len(counts) != 1:
        raise NotGeneralError("its dynamic arguments have different numbers of rows")
    if found.eager:
        raise NotGeneralError(found.eager)
    for t in varying.values():
        if not t.is_contiguous() or users_attributes(t) or (t.requires_grad and not t.is_leaf) or t.grad is not None:
            raise NotGeneralError("an argument has a history, a gradient, attributes, or is no block of memory")
    (rows,) = counts
    points = (rows, PRIME, COMPOSITE, FEWEST + (rows == FEWEST))
    all_found = [found]
    try:
        for point in points[1:]:
            all_found.append(_traced_at(point, function, found, leaves, structure, varying, walk))
        return _general(all_found, points)
    finally:
        for other in all_found[1:]:
            other.trace.release()


def _traced_at(
    rows: int,
    function: Any,
    found: Captured,
    leaves: Sequence[Any],
    structure: Any,
    varying: dict[int, Tensor],
    walk: Walk,
) -> Captured:
    is_shown = rows == PRIME
    stand_ins = {key: _with_rows(t, rows, is_shown) for key, t in varying.items()}
    given = [stand_ins.get(id(leaf), leaf) for leaf in leaves]
    args, kwargs = structure.unflatten(given)
    trace = Probe(
        [leaf for leaf in given if isinstance(leaf, Tensor)],
        found.trace.function,
        len(found.trace.instructions),
        SizedTraced if is_shown else Traced,
    )
    return captured(function, args, kwargs, given, structure, walk, trace)


def _with_rows(like: Tensor, rows: int, is_shown: bool) -> Tensor:
    """A tensor like another one, with other rows and no values."""
    made = placeholders.empty((rows, *like.shape[1:]), like.np_dtype)
    cls: Any = type(like)
    made.__class__ = _sized(cls) if is_shown else cls
    made._requires_grad = like._requires_grad
    return made


def _general(found: Sequence[Captured], rows: Sequence[int]) -> General:
    first = found[0]
    for other in found[1:]:
        if _around(other) != _around(first):
            raise NotGeneralError("it changes something else for other numbers of rows")
    programs = [_common_program([f.program for f in found], found, rows)]
    if all(f.inlined is f.program for f in found):
        programs.append(programs[0])
    else:
        programs.append(_common_program([f.inlined for f in found], found, rows))
    halves = [f.pulled for f in found]
    pulled = None
    if halves[0] is not None:
        for half in halves:
            if half is None or half[:3] != halves[0][:3]:
                raise NotGeneralError("its derivative needs something else for other numbers of rows")
        pulled = common([half.program for half in halves if half is not None], rows)
    elif any(half is not None for half in halves):
        raise NotGeneralError("it has a derivative for some numbers of rows only")
    return General(programs[0], programs[1], pulled)


def _around(found: Captured) -> tuple[Any, ...]:
    """What happens around the runs of a program."""
    assignments = [
        (str(a.place), a.how, str(a.key), [p if _is_plain(p) else type(p) for p in a.value[1]], a.skipped)
        for a in found.assignments
    ]
    afterwards = [places for _, places in found.afterwards]
    numbers = [(n.kind, len(n.tensors)) for n in found.trace.number_readers]
    return found.size, found.spent, assignments, afterwards, numbers, bool(found.eager)


def _is_plain(part: Any) -> bool:
    return isinstance(part, (bool, int, float, str, tuple))


def _common_program(programs: Sequence[Program], found: Sequence[Captured], rows: Sequence[int]) -> Any:
    """What programs have in common; they must read the same tensors from outside, or numbers in their places."""
    numbers = [{id(t) for n in f.trace.number_readers for t in n.tensors} for f in found]
    for column in zip(*[p.captured for p in programs], strict=False):  # `common` compares their numbers
        held = [tensor for _, tensor in column]
        are_numbers = [id(t) in own for t, own in zip(held, numbers, strict=True)]
        if not all(are_numbers) and any(t is not held[0] for t in held):
            raise NotGeneralError("it reads other tensors for other numbers of rows")
    return common(programs, rows)
