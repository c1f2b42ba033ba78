"""What an instruction does beside giving its results."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lucid.ir.primitives import check_of
from lucid.ir.values import Instruction, Name

# What must happen in each run, and in order, whether or not somebody asks for the results.
LASTING = ("draw", "write")


class Effect(NamedTuple):
    """One effect: its kind, the number of the instruction that has it, and what it is on.

    - "read": of a captured tensor, or of the state of a generator; `place` is the first instruction that looks at it,
    - "write": the same,
    - "draw": `target` is a `Position`,
    - "check": the instruction may raise for some values; `target` says of what.
    """

    kind: str
    place: int
    target: Any


class Position(NamedTuple):
    """A place in a stream of random numbers, in blocks from where its generator is when the program starts.

    `offset` is None if it depends on values, or if the program moves the generator itself.
    """

    stream: Any
    offset: int | None

    def __str__(self) -> str:
        return f"{self.stream.name} at {'?' if self.offset is None else self.offset}"


def of_instruction(instruction: Instruction) -> Sequence[tuple[str, Any]]:
    """Kinds and targets. For a draw the target is the stream, and how many blocks it takes, if that is known."""
    declared = getattr(instruction.primitive, "effects", None)
    if declared is not None:
        return declared(**instruction.params)
    check = check_of(instruction)
    return () if check is None else (("check", check),)


def lasts(instruction: Instruction) -> bool:
    """Whether an instruction is part of the program even if nobody asks for its results."""
    return any(kind in LASTING for kind, _ in of_instruction(instruction))


def of_program(program: Any) -> Iterator[Effect]:
    """The effects of a program, in the order in which they happen."""
    captured = {name.number: tensor for name, tensor in program.captured}
    offsets: dict[Any, int | None] = {}
    for place, instruction in enumerate(program.instructions):
        for operand in instruction.operands:
            if isinstance(operand, Name) and operand.number in captured:
                yield Effect("read", place, captured.pop(operand.number))
        for kind, target in of_instruction(instruction):
            if kind == "draw":
                stream, blocks = target
                start = offsets.get(stream, 0)
                offsets[stream] = None if start is None or blocks is None else start + blocks
                target = Position(stream, start)
            elif kind == "write":
                offsets[target] = None
            yield Effect(kind, place, target)
    for tensor in captured.values():
        yield Effect("read", len(program.instructions), tensor)


def moved_streams(effects: Iterable[tuple[str, Any]]) -> list[Any]:
    """The streams whose generators some effects move on."""
    found = {(t if kind == "write" else t[0]): None for kind, t in effects if kind in LASTING}
    return list(found)


def of_programs(*programs: Any) -> list[tuple[str, Any]]:
    """The effects of an instruction that runs programs: which, and how often, depends on values."""
    found = dict.fromkeys((e.kind, e.target) for p in programs for e in p.effects if e.kind != "read")
    return [(k, (t.stream, None)) if k == "draw" else (k, t) for k, t in found]
