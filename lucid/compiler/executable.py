"""A program as steps of machine code: loops, products of matrices, and calls of kernels that are not generated.

Values lie in one arena, in row-major order, and share memory where they are not needed at the same time. A view is an
offset and strides. What a call of a kernel gives is held until the program ends.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.codegen.bodies import NotGeneratedError
from lucid.compiler import runtime
from lucid.compiler.link import linked
from lucid.compiler.steps import Code, Output
from lucid.core import kernels, modes
from lucid.core.source_lines import here
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.ir.effects import Write, streams_of
from lucid.ir.program import Program
from lucid.ir.values import Name


class Written(NamedTuple):
    """A result that is a tensor that was given and written."""

    place: int


class Executable:
    """A program that runs on plain tensors, as machine code where there is some."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code: Code | None = None
        self.reason = ""  # why there is no code
        if support.in_use and runtime.is_there and "cpu" in kernels.in_use:
            try:
                self.code = linked(program)
            except NotGeneratedError as error:  # LLVM has no code for this processor
                self.reason = str(error)
        if self.code is not None:
            self._arrange(program, self.code)

    def _arrange(self, program: Program, code: Code) -> None:
        """Work out which outputs are new, and which are tensors that were written."""
        given = {n.number: k for k, n in enumerate((*program.inputs, *[n for n, _ in program.captured]))}
        written = {
            i.results[0].number: Written(given[i.operands[0].number])
            for i in program.instructions
            if isinstance(i.primitive, Write)
        }
        self._streams = streams_of(program)
        self._written = sorted({w.place for w in written.values()})
        self._donated = [given[n.number] for n in program.donated]
        self._outputs = [
            written.get(o.number, c) if isinstance(o, Name) else c
            for o, c in zip(program.outputs, code.outputs, strict=True)
        ]

    def run(self, inputs: Sequence[Tensor], captured: Sequence[Tensor]) -> list[Any]:
        """The results for tensors; nothing is recorded. What the program writes is written."""
        recording = modes.recording.set(modes.SILENT)
        try:
            if self.code is None:
                return self.program.run(inputs, captured)
            given = (*inputs, *captured)
            # Which gives a tensor memory of its own.
            memories = [storage_of(given[k]) for k in (*self._written, *self._donated)]
            arrays = [t._array for t in given]
            apart = [k for k in self._written if not arrays[k].flags.c_contiguous]
            for k in apart:
                arrays[k] = np.ascontiguousarray(arrays[k])
            generators = [s.generator for s in self._streams]
            states = [(g, g.get_state()) for g in generators]
            found = self._found(self.code, arrays, generators)
            if found is None:  # values for which there is no code; nothing was written yet
                for generator, state in states:
                    generator.set_state(state)
                return self.program.run(inputs, captured)
            for k in apart:
                np.copyto(given[k]._array, arrays[k])
            for memory in memories:
                memory.version += 1
                memory.writer = (self.program.name, here())
            return [
                Tensor._wrap(found[o.place]) if type(o) is Output else given[o.place] if type(o) is Written else o
                for o in self._outputs
            ]
        finally:
            modes.recording.reset(recording)

    @staticmethod
    def _found(code: Code, arrays: list[Any], generators: list[Any]) -> list[Any] | None:
        """What the machine gives; None if it cannot serve, as where two streams of the program are one at the moment."""
        if code.streams and len({id(g) for g in generators}) < len(generators):
            return None
        taken = [drawn.stream.generator.taken(drawn.blocks) for drawn in code.streams]
        if None in taken:
            return None
        return code.machine.run([*arrays, *[np.array(t, np.uint64) for t in taken]])
