"""The values and instructions of programs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from lucid.core.source_lines import Place


class Name(NamedTuple):
    """A value of a program: its number, shape and type."""

    number: int
    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        letters, n = "", self.number
        while True:
            letters = chr(ord("a") + n % 26) + letters
            n = n // 26 - 1
            if n < 0:
                return letters


class Instruction(NamedTuple):
    """One application of a primitive: to names and numbers, with parameters, giving one or more names."""

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[Name, ...]
    place: Place


def run(instruction: Instruction, values: dict[int, Any]) -> None:
    """Run one instruction on values by their numbers, and add its results to them."""
    primitive, operands, params, results, _ = instruction
    out = primitive(*[values[o.number] if isinstance(o, Name) else o for o in operands], **params)
    for name, value in zip(results, out if primitive.multi else (out,), strict=True):
        values[name.number] = value


def reachable(
    instructions: Sequence[Instruction], wanted: Iterable[Any], lasts: Callable[[Instruction], bool]
) -> list[Instruction]:
    """The instructions that last or on which the wanted names depend, in order."""
    needed = {n.number for n in wanted if isinstance(n, Name)}
    kept = []
    for instruction in reversed(instructions):
        if any(r.number in needed for r in instruction.results) or lasts(instruction):
            kept.append(instruction)
            needed.update(o.number for o in instruction.operands if isinstance(o, Name))
    return kept[::-1]
