"""What an instruction does beside giving its results."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from lucid.core import arrays, modes
from lucid.core.tensor import Tensor
from lucid.ir.primitives import check_of
from lucid.ir.values import Instruction, Name
from lucid.kinds.kind import bottom

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


# What becomes of the history of a tensor from outside: it was written through detached tensors only; under no_grad; or
# recorded, so that it has the history of the written values.
DROPPED, KEPT, TAKEN = range(3)


class Write:
    """The instruction that writes a value to a tensor from outside, and gives that tensor.

    It stands at the end of a program: nothing is written before everything is computed and checked.
    """

    name = "write"
    multi = False

    def __init__(self, target: Tensor, history: int, owner: Tensor | None) -> None:
        self.found = target
        self.history = history
        self.owner = owner  # whose gradient it is, if it is one

    @property
    def target(self) -> Tensor:
        return self.found if self.owner is None else gradient_of(self.owner)

    def effects(self) -> tuple[tuple[str, Any], ...]:
        return (("write", self.found),)

    def __call__(self, target: Tensor, value: Tensor) -> Tensor:
        recording = modes.recording.set(modes.recording.get() if self.history == TAKEN else False)
        try:
            (target.detach() if self.history == DROPPED else target).copy_(value)
        finally:
            modes.recording.reset(recording)
        return target


def owners(tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """Those of the tensors whose gradients are among them, by the identities of the gradients."""
    known = {id(t) for t in tensors}
    return {id(t._grad): t for t in tensors if id(t._grad) in known}


def gradient_of(tensor: Tensor) -> Tensor:
    """The gradient that a tensor has in this run."""
    if tensor._grad is None:
        raise RuntimeError(
            f"the program uses the .grad that a tensor of shape {tensor.shape} had when it was traced, but now it has none"
        )
    found: Tensor = tensor._grad
    return found


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors may lie in the same memory, whoever made them."""
    return np.may_share_memory(bottom(a), bottom(b))


class Memories:
    """Where tensors lie, so that those that may share memory with another one are found without a look at all of them."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        spans = [(*arrays.bounds(bottom(t)), place) for place, t in enumerate(tensors)]
        self._spans = sorted(s for s in spans if s[0] < s[1])
        self._tops = list(accumulate([high for _, high, _ in self._spans], max))

    def beside(self, tensor: Tensor) -> Iterator[int]:
        """The places of the tensors that may share memory with one, its own among them."""
        low, high = arrays.bounds(bottom(tensor))
        k = bisect_left(self._spans, (high,)) if low < high else 0
        while k and self._tops[k - 1] > low:
            k -= 1
            if self._spans[k][1] > low:
                yield self._spans[k][2]


def is_part(tensor: Tensor) -> bool:
    """Whether a tensor does not own its memory."""
    return bottom(tensor).base is not None


def of_instruction(instruction: Instruction) -> Sequence[tuple[str, Any]]:
    """Kinds and targets. For a draw the target is the stream, and how many blocks it takes, if that is known."""
    declared = getattr(instruction.primitive, "effects", None)
    if declared is not None:
        return declared(**instruction.params)
    check = check_of(instruction)
    return () if check is None else (("check", check),)


def lasts(instruction: Instruction) -> bool:
    """Whether an instruction is part of the program even if nobody asks for its results."""
    if getattr(instruction.primitive, "lasting", False):
        return True
    declared = getattr(instruction.primitive, "effects", None)  # what others have are checks
    return declared is not None and any(kind in LASTING for kind, _ in declared(**instruction.params))


def of_program(program: Any) -> Iterator[Effect]:
    """The effects of a program, in the order in which they happen."""
    captured = {name.number: tensor for name, tensor in program.captured}
    offsets: dict[Any, int | None] = {}
    for place, instruction in enumerate(program.instructions):
        reads = instruction.operands[1:] if isinstance(instruction.primitive, Write) else instruction.operands
        for operand in reads:
            if isinstance(operand, Name) and operand.number in captured:
                yield Effect("read", place, captured.pop(operand.number))
        for kind, target in of_instruction(instruction):
            if kind == "draw":
                stream, blocks = target
                start = offsets.get(stream, 0)
                offsets[stream] = None if start is None or blocks is None else start + blocks
                target = Position(stream, start)
            elif kind == "write" and not isinstance(target, Tensor):
                offsets[target] = None
            yield Effect(kind, place, target)
    returned = {name.number for name in program.outputs if isinstance(name, Name)}
    for number, tensor in captured.items():
        if number in returned:
            yield Effect("read", len(program.instructions), tensor)


def moved_streams(effects: Iterable[tuple[str, Any]]) -> list[Any]:
    """The streams whose generators some effects move on."""
    moved = [t if kind == "write" else t[0] for kind, t in effects if kind in LASTING]
    return list(dict.fromkeys(t for t in moved if not isinstance(t, Tensor)))


def streams_of(program: Any) -> list[Any]:
    """The streams whose generators a run moves on."""
    return moved_streams([e for i in program.instructions for e in of_instruction(i)])


def generators_of(program: Any) -> list[Any]:
    """These generators."""
    return [s.generator for s in streams_of(program)]


def can_repeat(program: Any) -> bool:
    """Whether a run can be given up before anything is written: generators are set back, and nobody sees anything else."""
    lasting = [i for i in program.instructions if lasts(i) and not isinstance(i.primitive, Write)]
    return all(kind in ("draw", "check") for i in lasting for kind, _ in of_instruction(i)) and not any(
        getattr(i.primitive, "lasting", False) for i in lasting
    )


def of_programs(*programs: Any) -> list[tuple[str, Any]]:
    """The effects of an instruction that runs programs: which, and how often, depends on values."""
    effects = [e for p in programs for e in p.effects if e.kind != "read"]
    if any(isinstance(e.target, Tensor) for e in effects):
        raise RuntimeError(
            "a branch or loop writes to a tensor from outside, and whether it runs is not known while a program is traced; "
            "return the value, and write it outside of the branch or loop"
        )
    found = dict.fromkeys((e.kind, e.target) for e in effects)
    return [(k, (t.stream, None)) if k == "draw" else (k, t) for k, t in found]
