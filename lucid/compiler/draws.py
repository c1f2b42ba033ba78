"""Random draws as native steps: each knows how far from where its generator is at the start it draws."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lucid.api.random import DRAW
from lucid.backends.cpu.entry_points import Entry
from lucid.backends.cpu.generated import draws
from lucid.compiler.layout import GIVEN, Layout, Place
from lucid.core.tensor import Tensor
from lucid.ir.effects import of_program
from lucid.ir.program import Program
from lucid.ir.values import Instruction


class Drawn(NamedTuple):
    """A stream of which all draws of a program are native: how many blocks of it they take."""

    stream: Any
    blocks: int


class Draws:
    """The native draws of a program, with the places of where their generators are when it starts: seed and block."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self.streams: list[Drawn] = []
        self._known: dict[
            int, tuple[Place, int]
        ] = {}  # by the draw: where its generator is, and how far it is from there
        for stream, instructions in _by_stream(program).items():
            if all(offset is not None and _loop_of(i) is not None for i, offset in instructions):
                state = layout.new(GIVEN, (2,), np.dtype(np.uint64))
                self.streams.append(Drawn(stream, sum(DRAW.effects(**i.params)[0][1][1] for i, _ in instructions)))
                self._known.update({id(i): (state, offset) for i, offset in instructions if offset is not None})

    def lower(self, emitter: Any, instruction: Instruction) -> bool:
        """The step of a draw; False if it is to be called."""
        if id(instruction) not in self._known:
            return False
        state, offset = self._known[id(instruction)]
        out = emitter.layout.place(instruction.results[0])
        if out.array.size:
            found = _loop_of(instruction).entry(out.array.size, offset, _recipe_of(instruction).numbers)
            emitter.enter(Entry(*found), (state, out))
        return True


def _by_stream(program: Program) -> dict[Any, list[tuple[Instruction, int | None]]]:
    """What a program does with streams, in order: instructions, and how far from the start they draw, if that is known."""
    found: dict[Any, list[tuple[Instruction, int | None]]] = {}
    for instruction, stream, offset in _uses(program):
        found.setdefault(stream, []).append((instruction, offset))
    return found


def _uses(program: Program) -> Iterator[tuple[Instruction, Any, int | None]]:
    for kind, place, target in of_program(program):
        if kind == "draw":
            yield program.instructions[place], target.stream, target.offset
        elif kind in ("read", "write") and not isinstance(target, Tensor):  # the state of a generator
            yield program.instructions[place], target, None


def _recipe_of(instruction: Instruction) -> Any:
    """How a backend makes the numbers of a draw at once; None if they are made of others."""
    if instruction.primitive is not DRAW:
        return None
    distribution = instruction.params["distribution"]
    recipe = distribution.source.recipes.get(distribution.kind)
    is_plain = distribution.finish is None and recipe is not None and recipe.dtype == distribution.kind
    return recipe if is_plain and instruction.results[0].dtype.numpy == distribution.kind else None


def _loop_of(instruction: Instruction) -> Any:
    recipe = _recipe_of(instruction)
    return None if recipe is None else draws.stream(*recipe[:4])
