"""The first stage: what a program computes, without what changes nothing.

Names for the same value become one, constants are computed, what stands there twice is computed once, and what nobody
reads is dropped. Nothing is reordered that rounds, unless the program allows it: results stay the same to the last bit.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.compiler.algebra import faster
from lucid.compiler.expansions import expansion
from lucid.compiler.rewrites import Making, rewritten
from lucid.compiler.rows import Check, Rewriter, RowFunction, RowKernel
from lucid.core.primitive import Primitive
from lucid.ir import placeholders
from lucid.ir.effects import lasts
from lucid.ir.values import Instruction, Name, reachable
from lucid.ops.expressions import types_of

# The same elements: who made them does not matter in a program that is run.
_SAME = frozenset(["alias", "detach", "no_grad", "clone", "contiguous"])
_PRODUCTS = frozenset(["mul", "chain"])
_MOST_FOLDED = 1 << 16  # elements of constants that are computed beforehand
_MOST_COMPARED = 1 << 20  # bytes of constants that are one if they are equal


class Uniform(NamedTuple):
    """A constant all of whose elements are one number, an array without dimensions."""

    value: Any


class Simplified(NamedTuple):
    """Instructions, the constants that they read, by number, and what became of the program's outputs."""

    instructions: list[Instruction]
    constants: dict[int, Any]  # arrays, or `Uniform`
    outputs: list[Any]
    writes: list[Instruction]


class _Simplifier:
    def __init__(self, program: Any, can_repeat: bool) -> None:
        self.program = program
        self.same: dict[int, Any] = {}  # names that stand for others
        self.constants: dict[int, Any] = {}
        self.known: dict[Any, tuple[Name, ...]] = {}  # results of instructions, by what these do
        self.out: list[Instruction] = []
        self.makers: dict[int, Instruction] = {}  # the instruction that makes a value, by its number
        self._count = 1 << 40  # names of instructions that the program does not have
        self._rows = Rewriter(self._new, self._traced, can_repeat)
        self._making = Making(self._new, self._traced, can_repeat)
        self._constants: dict[Any, Name] = {}  # names of constants, by what they are
        for name, tensor in program.constants:
            self._set(name, _constant(tensor._held_array("lucid.compile")))

    def resolved(self, operand: Any) -> Any:
        while isinstance(operand, Name) and operand.number in self.same:
            operand = self.same[operand.number]
        return operand

    def _set(self, name: Name, constant: Any) -> None:
        """Note what a name stands for: a constant, or another name of the same one."""
        array = _number(constant)
        key = (name.shape, name.dtype, type(constant), array.tobytes() if array.nbytes <= _MOST_COMPARED else id(array))
        first = self._constants.setdefault(key, name)
        if first is name:
            self.constants[name.number] = constant
        else:
            self.same[name.number] = first

    def add(self, instruction: Instruction) -> None:
        operands = tuple([self.resolved(o) for o in instruction.operands])
        if operands != instruction.operands:
            instruction = instruction._replace(operands=operands)
        primitive = instruction.primitive
        expanded = expansion(instruction) if isinstance(primitive, Primitive) else None
        if expanded is not None:
            for part in self._parts(instruction, expanded):
                self.add(part)
            return
        if isinstance(primitive, (RowFunction, RowKernel)):
            self._add_once(instruction)
            return
        if isinstance(primitive, Check) and self._one_number(operands[0]) == 0:
            return
        if lasts(instruction) or not isinstance(primitive, Primitive):
            self.out.append(instruction)
            return
        written = self._rows.written(instruction)
        written = rewritten(instruction, self._making) if written is None else written
        if written is not None:
            for part in written:
                self.add(part)
            return
        result = instruction.results[0]
        if primitive.name in _SAME and isinstance(operands[0], Name):
            self.same[result.number] = operands[0]
            return
        if primitive.name == "other_value":
            self.same[result.number] = operands[1]
            return
        if primitive.name == "cast" and operands[0].dtype == result.dtype:
            self.same[result.number] = operands[0]
            return
        if self._fold(instruction) or self._drop_product(instruction):
            return
        if self.program.fast and primitive.is_scalar:
            instruction = faster(instruction, self.makers, self._one_number, self._function_of)
        self._add_once(instruction)

    def _one_number(self, operand: Any) -> float | None:
        """The real number that an operand is, or that all of its elements are."""
        constant = self.constants.get(operand.number) if isinstance(operand, Name) else operand
        found = constant.value.item() if isinstance(constant, Uniform) else constant
        return float(found) if isinstance(found, (int, float)) else None

    def _function_of(self, primitive: Any, x: Name, place: Any) -> Name:
        """The name of a function of x."""
        made = Instruction(primitive, (x,), {}, (self._new(x.shape, x.dtype),), place)
        self.add(made)
        found: Name = self.resolved(made.results[0])
        return found

    def _add_once(self, instruction: Instruction) -> None:
        """Add an instruction, or take what an earlier one has computed."""
        key = _key(instruction)
        before = self.known.get(key) if key is not None else None
        if before is not None:
            for old, new in zip(instruction.results, before, strict=True):
                self.same[old.number] = new
            return
        if key is not None:
            self.known[key] = instruction.results
        self.makers.update((name.number, instruction) for name in instruction.results)
        self.out.append(instruction)

    def _parts(self, instruction: Instruction, function: Any) -> list[Instruction]:
        """The instructions of a function in place of one."""
        operands = instruction.operands

        def composite(*given: Any) -> Any:
            tensors = iter(given)
            return function(*[next(tensors) if isinstance(o, Name) else o for o in operands], **instruction.params)

        names = [o for o in operands if isinstance(o, Name)]
        return self._traced(composite, names, instruction.results, instruction.place)

    def _new(self, shape: tuple[int, ...], dtype: Any) -> Name:
        """A name that the program does not have."""
        self._count += 1
        return Name(self._count, shape, dtype)

    def _traced(self, function: Any, names: Sequence[Name], results: Sequence[Name], place: Any) -> list[Instruction]:
        """The instructions of a function of names, of which the results are named."""
        from lucid.ir.trace import traced

        program = traced(function, tuple([placeholders.empty(n.shape, n.dtype.numpy) for n in names]), {})
        new: dict[int, Any] = {n.number: o for n, o in zip(program.inputs, names, strict=True)}
        new.update({o.number: name for o, name in zip(program.outputs, results, strict=True)})
        for name, tensor in program.constants:
            new[name.number] = self._new(name.shape, name.dtype)
            self._set(new[name.number], _constant(tensor._held_array("lucid.compile")))

        def renamed(o: Any) -> Any:
            if not isinstance(o, Name):
                return o
            if o.number not in new:
                new[o.number] = self._new(o.shape, o.dtype)
            return new[o.number]

        return [
            Instruction(i.primitive, tuple(map(renamed, i.operands)), i.params, tuple(map(renamed, i.results)), place)
            for i in program.instructions
        ]

    def _fold(self, instruction: Instruction) -> bool:
        """Compute what depends on constants alone."""
        primitive, operands = instruction.primitive, instruction.operands
        given = [self.constants.get(o.number) if isinstance(o, Name) else o for o in operands]
        if (
            primitive.multi
            or primitive.checks is not None
            or any(g is None for g, o in zip(given, operands) if isinstance(o, Name))
        ):
            return False
        (result,) = instruction.results
        is_uniform = all(isinstance(g, Uniform) for g, o in zip(given, operands) if isinstance(o, Name))
        if primitive.is_view and is_uniform and primitive.shows_elements | (primitive.name == "spread"):
            self._set(result, given[0])
            return True
        if not any(isinstance(o, Name) for o in operands):
            return False
        with np.errstate(all="ignore"):
            if primitive.is_scalar and is_uniform:
                found = primitive.kernel(*[_number(g) for g in given], **instruction.params)
                self._set(result, Uniform(np.asarray(found).reshape(())))
                return True
            if max(_size(n) for n in (result, *[o for o in operands if isinstance(o, Name)])) > _MOST_FOLDED:
                return False
            arrays = [_filled(g, o) if isinstance(o, Name) else g for g, o in zip(given, operands)]
            self._set(result, _constant(np.array(primitive.kernel(*arrays, **instruction.params))))
        return True

    def _drop_product(self, instruction: Instruction) -> bool:
        """x · 1 is x."""
        if instruction.primitive.name not in _PRODUCTS:
            return False
        (result,), operands = instruction.results, instruction.operands
        for one, other in (operands, operands[::-1]):
            number = self.constants.get(one.number) if isinstance(one, Name) else one
            if isinstance(number, Uniform):
                number = number.value.item()
            is_one = isinstance(number, (int, float, complex)) and number == 1
            if is_one and isinstance(other, Name) and (other.shape, other.dtype) == (result.shape, result.dtype):
                self.same[result.number] = other
                return True
        return False


def _number(given: Any) -> Any:
    return given.value if isinstance(given, Uniform) else given


def _size(name: Name) -> int:
    return int(np.prod(name.shape, dtype=np.int64))


def _filled(given: Any, name: Name) -> Any:
    """A constant as an array."""
    return np.full(name.shape, given.value, given.value.dtype) if isinstance(given, Uniform) else given


def _constant(array: Any) -> Any:
    """A constant as one number, if all of its elements are."""
    first = array.reshape(-1)[:1]
    if array.size and array.dtype.kind in "fiubcV" and array.tobytes() == first.tobytes() * array.size:
        return Uniform(first.reshape(()).copy())
    return np.ascontiguousarray(array)


def _key(instruction: Instruction) -> Any:
    """What an instruction does, so that another one that does the same is found; None where that is not known."""
    try:
        key = (
            id(instruction.primitive),
            tuple([o.number if isinstance(o, Name) else ("number", type(o), repr(o)) for o in instruction.operands]),
            tuple(
                [
                    (k, repr(v) if isinstance(v, (slice, tuple, list, dict)) else v)
                    for k, v in instruction.params.items()
                ]
            ),
        )
        hash(key)
    except TypeError:
        return None
    return key


def simplified(program: Any, can_repeat: bool) -> Simplified:
    """A program without what changes nothing. Writes to memory from outside stand apart: they come last.

    If it `can_repeat`, machine code may give up before them, and leave the run to the program itself.
    """
    from lucid.ir.effects import Write

    work = _Simplifier(program, can_repeat)
    for instruction in program.instructions:
        work.add(instruction)
    writes = [i for i in work.out if isinstance(i.primitive, Write)]
    # What a write gives is the tensor that was written: its value.
    for write in writes:
        work.same[write.results[0].number] = write.operands[1]
    rest = [i for i in work.out if not isinstance(i.primitive, Write)]
    outputs = [work.resolved(o) for o in program.outputs]
    writes = [w._replace(operands=tuple([work.resolved(o) for o in w.operands])) for w in writes]
    wanted = [*outputs, *[w.operands[1] for w in writes]]
    return Simplified(reachable(rest, wanted, lasts), work.constants, outputs, writes)


def fits_type(number: Any, kind: np.dtype[Any]) -> bool:
    """Whether a Python number beside elements of a type becomes one of these."""
    if kind.kind == "b":
        return False
    if isinstance(number, complex):
        return kind.kind == "c"
    if isinstance(number, float):
        return kind.kind not in "iu"
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return int(info.min) <= number <= int(info.max)
    return True


def operand_types(operands: Sequence[Any]) -> Sequence[np.dtype[Any]] | None:
    """The types of the operands of an elementwise instruction; None where numbers have another type in common."""
    return _types_of(tuple([_Typed(o.dtype.numpy) if isinstance(o, Name) else (type(o), o) for o in operands]))


@functools.lru_cache(maxsize=4096)
def _types_of(operands: Sequence[Any]) -> Sequence[np.dtype[Any]] | None:
    """The same for types, and for numbers with theirs: 1 and 1.0 are not the same."""
    if not any(isinstance(o, _Typed) for o in operands):
        return None
    types = types_of([o if isinstance(o, _Typed) else o[1] for o in operands])
    for o, kind in zip(operands, types, strict=True):
        if not isinstance(o, _Typed) and (isinstance(o[1], bool) or not fits_type(o[1], kind)):
            return None
    return types


class _Typed(NamedTuple):
    dtype: np.dtype[Any]
