"""What a compiled program is made of: native steps, calls from Python between them, and where results are found."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.compiler import runtime
from lucid.compiler.draws import Drawn
from lucid.compiler.runtime import Frame
from lucid.core.tensor import Tensor


class View(NamedTuple):
    """An array of a call: a part of a buffer."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    is_whole: bool

    def of(self, frame: Frame) -> Any:
        if self.is_whole:
            return frame.arrays[self.buffer]
        found = frame.views.get(self)
        if found is None:
            found = np.ndarray(self.shape, self.dtype, frame.arrays[self.buffer], self.offset, self.strides)
            found.flags.writeable = False
            if self.buffer == 0:
                frame.views[self] = found
        return found


class Call(NamedTuple):
    """A kernel, or another function, that is called from Python."""

    primitive: Any
    operands: tuple[Any, ...]  # views, and anything else as it is
    params: dict[str, Any]
    results: tuple[tuple[int, Any], ...]  # the numbers of buffers, and the types of their elements
    takes_tensors: bool
    keeps: int | None  # under which number the residuals of a fused primitive are kept
    uses: int | None  # the number of those that a derivative uses
    is_last: bool  # whether no other derivative uses them after it
    spent: tuple[int, ...]  # buffers that nobody reads from here on: what calls before gave

    def run(self, frame: Frame) -> None:
        for index in self.spent:
            frame.arrays[index] = None
        given = [o.of(frame) if type(o) is View else o for o in self.operands]
        for (index, dtype), array in zip(self.results, self._computed(given, frame), strict=True):
            array = np.asarray(array, dtype)
            if not array.flags.c_contiguous or _is_shared(array, given):
                array = np.array(array, order="C")
            frame.hold(index, array)

    def _computed(self, given: list[Any], frame: Frame) -> Sequence[Any]:
        primitive, params = self.primitive, self.params
        if self.takes_tensors:
            out = primitive(*[Tensor._wrap(g) if isinstance(g, np.ndarray) else g for g in given], **params)
            return [o._array for o in (out if primitive.multi else (out,))]
        if self.uses is not None:
            count = len(primitive.of.results)
            kept = frame.residuals.pop(self.uses) if self.is_last else frame.residuals[self.uses]
            found: Sequence[Any] = primitive.from_residuals(given[:count], given[count:], kept, params)
            return found
        if self.keeps is not None:
            out, frame.residuals[self.keeps] = primitive.kernel.forward(*given, **params)
        else:
            out = primitive.kernel(*given, **params)
        return out if primitive.multi else (out,)


def _is_shared(array: Any, given: Sequence[Any]) -> bool:
    return any(isinstance(g, np.ndarray) and np.may_share_memory(array, g) for g in given)


class Code(NamedTuple):
    """What the stages before made of a program."""

    machine: runtime.Machine
    outputs: list[Any]  # numbers among what the machine gives, as `Output`, or anything else as it is
    notes: list[str]  # what its steps are
    calls: list[str]  # the names of those that call back
    streams: list[Drawn]  # from which it draws; the machine is given where they are, behind all else


class Output(NamedTuple):
    """Which of a machine's outputs a result is."""

    place: int
