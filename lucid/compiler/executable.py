"""A program as steps of machine code: loops, products of matrices, and calls of kernels that are not generated.

Values lie in one arena, in row-major order, and share memory where they are not needed at the same time. A view is an
offset and strides. What a call of a kernel gives is held until the program ends.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.backends.cpu.generated import support
from lucid.compiler import runtime
from lucid.core import modes
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ir.effects import Write
from lucid.ir.program import Program


class View(NamedTuple):
    """An array of a call: a part of a buffer."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    is_whole: bool


class Call(NamedTuple):
    """A kernel, or another function, that is called from Python."""

    primitive: Any
    operands: tuple[Any, ...]  # views, and anything else as it is
    params: dict[str, Any]
    results: tuple[int, ...]  # the numbers of buffers
    takes_tensors: bool
    keeps: int | None  # under which number the residuals of a fused primitive are kept
    uses: int | None  # the number of those that a derivative uses


class Frame:
    """The memory of one run."""

    def __init__(self, code: "Code") -> None:
        self.arena = np.empty(code.arena + 64, np.uint8)
        start = -self.arena.ctypes.data % 64
        self.arena = self.arena[start:]
        self.bases = np.zeros(code.buffers, np.int64)
        self.arrays: list[Any] = [None] * code.buffers
        self.arrays[0] = self.arena
        runtime.addresses([self.arena], self.bases, 0)
        for index, array in code.constants:
            self.arrays[index] = array
            runtime.addresses([array], self.bases, index)
        self.views: dict[View, Any] = {}  # of the arena and constants, which do not change
        self.residuals: dict[int, Any] = {}

    def view(self, view: Any) -> Any:
        if type(view) is not View:
            return view
        if view.is_whole:
            return self.arrays[view.buffer]
        found = self.views.get(view)
        if found is None:
            base = self.arrays[view.buffer]
            found = np.ndarray(view.shape, view.dtype, base, view.offset, view.strides)
            found.flags.writeable = False
            if view.buffer == 0:
                self.views[view] = found
        return found


class Code:
    """What the stages before made of a program."""

    arena: int
    buffers: int  # how many there are
    constants: list[tuple[int, Any]]
    given: int  # the number of the first of the arrays that are given
    results: list[tuple[int, tuple[int, ...], Any]]  # new arrays: their buffers, shapes and types
    outputs: list[Any]  # the numbers of buffers, or anything else as it is
    segments: list[Any]  # (begin, end) of native steps, or a `Call`
    steps: Any
    text: str


class Executable:
    """A program that runs on arrays, as machine code where there is some."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.writes = [i for i in program.instructions if isinstance(i.primitive, Write)]
        self.code: Code | None = None
        self._frames: list[Frame] = []
        self._first = len(program.inputs)
        if support.in_use and runtime.is_there:
            from lucid.compiler.emit import emitted

            self.code = emitted(program)
            self._written = {
                write.results[0].number: write.primitive for write in self.writes
            }
            self._outputs = [
                self._written.get(o.number, p) if hasattr(o, "number") else p
                for o, p in zip(program.outputs, self.code.outputs, strict=True)
            ]

    def run(self, inputs: Sequence[Tensor], captured: Sequence[Tensor]) -> list[Any]:
        """The results for tensors; nothing is recorded. What the program writes is written."""
        recording = modes.recording.set(modes.SILENT)
        try:
            if self.code is None:
                return self.program.run(inputs, captured)
            arrays = [_row_major(t._array) for t in (*inputs, *captured)]
            found = self._run(arrays)
            return [self._given_back(o, found, captured) for o in self._outputs]
        finally:
            modes.recording.reset(recording)

    def _given_back(self, output: Any, found: dict[int, Any], captured: Sequence[Tensor]) -> Any:
        if isinstance(output, Write):
            return output.target
        return Tensor._wrap(found[output.number]) if isinstance(output, Output) else output

    def _run(self, arrays: list[Any]) -> dict[int, Any]:
        code = self.code
        assert code is not None
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(code)
        held, bases = frame.arrays, frame.bases
        first = code.given
        runtime.addresses(arrays, bases, first)
        held[first : first + len(arrays)] = arrays
        new = {index: np.empty(shape, dtype) for index, shape, dtype in code.results}
        for index, array in new.items():
            held[index] = array
            runtime.addresses([array], bases, index)
        for segment in code.segments:
            if type(segment) is tuple:
                code.steps.run(segment[0], segment[1], bases)
            else:
                self._call(segment, frame)
        found = {o.number: held[o.number] for o in code.outputs if isinstance(o, Output)}
        for k in range(first, code.buffers):
            held[k] = None
        frame.views = {v: a for v, a in frame.views.items() if v.buffer == 0}
        self._frames.append(frame)
        return found

    def _call(self, call: Call, frame: Frame) -> None:
        given = [frame.view(o) for o in call.operands]
        if call.takes_tensors:
            tensors = [Tensor._wrap(g) if isinstance(g, np.ndarray) else g for g in given]
            out = call.primitive(*tensors, **call.params)
            outs = [o._array for o in (out if call.primitive.multi else (out,))]
        elif call.keeps is not None:
            out, frame.residuals[call.keeps] = call.primitive.kernel.forward(*given, **call.params)
            outs = list(out) if call.primitive.multi else [out]
        elif call.uses is not None:
            gradient, count = call.primitive, len(call.primitive.of.results)
            kept = frame.residuals.pop(call.uses)
            outs = list(gradient.from_residuals(given[:count], given[count:], kept, call.params))
        else:
            out = call.primitive.kernel(*given, **call.params)
            outs = list(out) if call.primitive.multi else [out]
        for index, array in zip(call.results, outs, strict=True):
            array = np.asarray(array)
            if not array.flags.c_contiguous or _is_shared(array, given):
                array = np.array(array, order="C")
            frame.arrays[index] = array
            runtime.addresses([array], frame.bases, index)


class Output(NamedTuple):
    """An output of a program: the number of its buffer."""

    number: int


def _is_shared(array: Any, given: Sequence[Any]) -> bool:
    return any(isinstance(g, np.ndarray) and np.may_share_memory(array, g) for g in given)


def _row_major(array: Any) -> Any:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
