"""The third stage: where each value of a program lies.

Every value that is stored has a buffer: memory that is given, a constant, a place in the arena, a result, or what a call
of a kernel gave. A `Place` is a part of a buffer as strides show it. Shapes and strides are worked out by NumPy itself:
each buffer has an array that stands for it, of which nobody reads the elements.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.compiler.simplify import Uniform
from lucid.core import arrays
from lucid.ir.values import Instruction, Name

GIVEN, CONSTANT, ARENA, RESULT, HELD = "given", "constant", "arena", "result", "held"
_LINE = 64  # bytes to which values are aligned


class Buffer:
    """Memory of a value: of which kind, its number in the table of addresses, and when it is in use."""

    def __init__(self, kind: str, array: Any) -> None:
        self.kind = kind
        self.array = array  # stands for it; a constant's own
        self.index = -1
        self.offset = 0  # in the arena
        self.donor = -1  # the input whose memory a result may lie in
        self.first = self.last = -1  # the steps that use it

    @property
    def size(self) -> int:
        return int(self.array.nbytes)

    def used(self, step: int) -> None:
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)


class Place:
    """A part of a buffer, as an array that stands for it."""

    __slots__ = ("_offset", "array", "buffer")

    def __init__(self, buffer: Buffer, array: Any) -> None:
        self.buffer = buffer
        self.array = array
        self._offset = 0 if array is buffer.array or not array.size else None

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the buffer."""
        if self._offset is None:
            self._offset = self.array.ctypes.data - self.buffer.array.ctypes.data
        return self._offset

    def strides_in(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The steps along a shape to which it is broadcast."""
        array = self.array
        found: tuple[int, ...] = (array if array.shape == shape else np.broadcast_to(array, shape)).strides
        return tuple([0 if n == 1 else s for n, s in zip(shape, found, strict=True)])

    @property
    def is_whole(self) -> bool:
        return self.array is self.buffer.array

    def shown(self, array: Any) -> "Place":
        return Place(self.buffer, array)


class Layout:
    """The places of all values of a program."""

    def __init__(self, given: list[Name], constants: dict[int, Any]) -> None:
        self.constants = constants
        self.buffers: list[Buffer] = []
        self.places: dict[int, Place] = {}
        for name in given:
            self.places[name.number] = self.new(GIVEN, name.shape, name.dtype.numpy)

    def new(self, kind: str, shape: tuple[int, ...], dtype: Any) -> Place:
        buffer = Buffer(kind, np.empty(shape, dtype))
        self.buffers.append(buffer)
        return Place(buffer, buffer.array)

    def constant(self, array: Any) -> Place:
        buffer = Buffer(CONSTANT, np.ascontiguousarray(array).reshape(array.shape))
        self.buffers.append(buffer)
        return Place(buffer, buffer.array)

    def place(self, name: Name) -> Place:
        """Where a value lies; one that nobody has placed yet gets a place in the arena."""
        found = self.places.get(name.number)
        if found is None:
            constant = self.constants.get(name.number)
            if constant is None:
                found = self.new(ARENA, name.shape, name.dtype.numpy)
            else:
                found = self.constant(constant.value if isinstance(constant, Uniform) else constant)
                found = found.shown(np.broadcast_to(found.array, name.shape))
            self.places[name.number] = found
        return found

    def shows(self, instruction: Instruction) -> bool:
        """Whether an instruction is a view of memory, whose place is then known."""
        (result,), operand = instruction.results, instruction.operands[0]
        base = self.place(operand)
        if instruction.primitive.name == "reshape" and not arrays.can_reshape(base.array, result.shape):
            return False
        seen = _shown(instruction.primitive, base.array, instruction.params)
        if seen.size and not np.may_share_memory(seen, base.buffer.array):
            return False
        self.places[result.number] = base.shown(seen)
        return True

    def pack(self) -> int:
        """Give all buffers their numbers and places; gives the size of the arena."""
        for buffer in self.buffers:
            buffer.index = 0 if buffer.kind == ARENA else -1
        arena = sorted([b for b in self.buffers if b.kind == ARENA and b.first >= 0], key=lambda b: -b.size)
        first, last = np.array([b.first for b in arena]), np.array([b.last for b in arena])
        offsets, ends = np.zeros((2, len(arena)), np.int64)
        total = 0
        for k, buffer in enumerate(arena):
            beside = np.flatnonzero((first[:k] <= buffer.last) & (last[:k] >= buffer.first))
            beside = beside[np.argsort(offsets[beside], kind="stable")]
            free = np.maximum.accumulate([0, *ends[beside]])  # from where there may be room, before each and at last
            fits = np.flatnonzero(offsets[beside] - free[:-1] >= buffer.size)
            buffer.offset = int(free[fits[0] if len(fits) else -1])
            end = buffer.offset + buffer.size
            offsets[k], ends[k] = buffer.offset, -(-end // _LINE) * _LINE
            total = max(total, end)
        return total + 16 * _LINE  # vectors may reach beyond the last element


def _shown(primitive: Any, array: Any, params: dict[str, Any]) -> Any:
    """What a view shows of an array. Kernels copy what is expanded, where that is small."""
    if primitive.name == "spread":
        return np.broadcast_to(np.expand_dims(array, params["dims"]), params["shape"])
    if primitive.name == "broadcast_to":
        return np.broadcast_to(array, params["shape"])
    return primitive.kernel(array, **params)


def part_of(array: Any, index: tuple[Any, ...]) -> Any:
    """A part of an array, also where that is one element."""
    found = array[index]
    return found if isinstance(found, np.ndarray) else array[(*index, ...)]


def rolled_parts(shape: Sequence[int], shifts: Sequence[int], dims: Sequence[int]) -> list[tuple[Any, Any]]:
    """Which parts of an array go to which when it is rolled: two for every dimension that is."""
    parts: list[tuple[Any, Any]] = [((), ())]
    for d, n in enumerate(shape):
        by = sum(s for s, dim in zip(shifts, dims, strict=True) if dim % len(shape) == d) % max(n, 1)
        pairs = [(slice(0, n - by), slice(by, n)), (slice(n - by, n), slice(0, by))][: 2 if by else 1]
        parts = [((*read, r), (*written, w)) for read, written in parts for r, w in pairs]
    return parts
