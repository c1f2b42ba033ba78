"""Writing the same function of elements down again, for tensors of other sizes.

A step of an optimizer applies one formula to each of hundreds of parameters. What the formula is made of follows from the
types of its operands alone, so it is traced for the first parameter, and its instructions are copied for the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lucid.core.primitive import Primitive
from lucid.core.source_lines import here
from lucid.core.tensor import Tensor
from lucid.ir import placeholders
from lucid.ir.primitives import UNRECORDED_VALUE
from lucid.ir.trace import Trace, Traced
from lucid.ir.values import Instruction, Name


class _Written(NamedTuple):
    """Instructions, the names of their operands, and of what they give."""

    given: list[Name]
    instructions: list[Instruction]
    outputs: list[Name]


class Repeated:
    """A function of tensors, element by element, that a trace writes down once for each kind of operands.

    `function` takes tensors of one shape and tensors without dimensions, writes to nothing, and gives a sequence of tensors.
    """

    def __init__(self, trace: Trace, function: Callable[..., Sequence[Any]]) -> None:
        self._trace = trace
        self._function = function
        self._known: dict[Any, _Written | None] = {}

    def __call__(self, *operands: Any) -> Sequence[Any]:
        trace = self._trace
        operands = trace.captured_operands(operands) or operands
        shapes = {o.shape for o in operands if o.ndim}
        if len(shapes) != 1 or not all(o.is_contiguous() for o in operands):
            return self._function(*operands)
        (shape,) = shapes
        given = [trace.refer(o) for o in operands]
        key = tuple([(n.dtype, bool(n.shape)) for n in given])
        if key not in self._known:
            start = len(trace.instructions)
            outs = self._function(*operands)
            self._known[key] = self._written(given, shape, trace.instructions[start:], outs)
            return outs
        known = self._known[key]
        return self._function(*operands) if known is None else self._again(known, given, shape)

    def _written(
        self, given: list[Name], shape: tuple[int, ...], instructions: list[Instruction], outs: Sequence[Any]
    ) -> _Written | None:
        """What has been written down, if it is the same for other sizes."""
        if not all(isinstance(o, Traced) and o._level == self._trace.level for o in outs):
            return None
        outputs = [o.current() for o in outs]
        known = {n.number for n in given}
        for instruction in instructions:
            if not _is_of_elements(instruction.primitive) or any(map(_has_sizes, instruction.params.values())):
                return None
            names = [o for o in instruction.operands if isinstance(o, Name)]
            if any(n.number not in known for n in names) or any(
                r.shape not in (shape, ()) for r in instruction.results
            ):
                return None
            known.update(r.number for r in instruction.results)
        return _Written(given, instructions, outputs) if all(o.number in known for o in outputs) else None

    def _again(self, known: _Written, given: Sequence[Name], shape: tuple[int, ...]) -> list[Traced]:
        trace, place = self._trace, here()
        new = {old.number: name for old, name in zip(known.given, given, strict=True)}
        for primitive, operands, params, results, _ in known.instructions:
            own = [new[o.number] if type(o) is Name else o for o in operands]
            outs = [r._replace(shape=shape) if r.shape else r for r in results]
            names = trace.emit(primitive, own, params, outs, place)
            new.update((r.number, n) for r, n in zip(results, names, strict=True))
        outputs = [new[o.number] for o in known.outputs]
        return [Traced.make(placeholders.empty(n.shape, n.dtype.numpy), trace, n) for n in outputs]


def _is_of_elements(primitive: Any) -> bool:
    if primitive is UNRECORDED_VALUE:
        return True
    return isinstance(primitive, Primitive) and primitive.is_scalar and not primitive.is_view and not primitive.multi


def _has_sizes(param: Any) -> bool:
    """Whether a parameter may depend on shapes."""
    return isinstance(param, (tuple, list, dict, slice, Tensor))
