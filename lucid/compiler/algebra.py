"""Algebra that changes rounding, for programs that allow it (`fast=True`): fewer and cheaper instructions."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from lucid.arguments.promotion import finfo
from lucid.core.primitive import P
from lucid.ir.values import Instruction, Name

Number = Callable[[Any], float | None]  # the number that an operand is, if it is one


def faster(
    instruction: Instruction,
    makers: Mapping[int, Instruction],
    number: Number,
    add: Callable[[Any, Name, Any], Name],
) -> Instruction:
    """An elementwise instruction on real numbers as a cheaper one, or as it is.

    `makers` has the instructions of values, by number. `add(primitive, x, place)` gives the name of a function of x.
    """
    if not instruction.results[0].dtype.is_floating_point or instruction.params:
        return instruction
    if instruction.primitive is P.div:
        instruction = _product(instruction, makers, number, add)
    return _joined(instruction, makers, number) if instruction.primitive in (P.mul, P.add) else instruction


def _product(instruction: Instruction, makers: Any, number: Number, add: Any) -> Instruction:
    """A quotient by a number, by something that is broadcast, or by a square root as a product."""
    x, y = instruction.operands
    divisor = number(y)
    if divisor is not None:
        inverse = 1.0 / divisor if divisor else math.inf
        small = finfo(instruction.results[0].dtype).tiny
        return _as(instruction, P.mul, x, inverse) if small <= abs(inverse) < 1.0 / small else instruction
    if not isinstance(y, Name) or not isinstance(x, Name):
        return instruction
    maker = makers.get(y.number)
    if maker is not None and maker.primitive is P.sqrt and isinstance(maker.operands[0], Name):
        return _as(instruction, P.mul, x, add(P.rsqrt, maker.operands[0], instruction.place))
    if math.prod(y.shape) < math.prod(instruction.results[0].shape):
        return _as(instruction, P.mul, x, add(P.reciprocal, y, instruction.place))
    return instruction


def _joined(instruction: Instruction, makers: Any, number: Number) -> Instruction:
    """(x · a) · b as x · (a b) for numbers a and b; sums likewise."""
    inside, outer = _apart(instruction, number)
    maker = makers.get(inside.number) if isinstance(inside, Name) and outer is not None else None
    if maker is None or maker.primitive is not instruction.primitive or maker.results[0].dtype != inside.dtype:
        return instruction
    x, inner = _apart(maker, number)
    if inner is None or not isinstance(x, Name) or x.dtype != inside.dtype:
        return instruction
    both = inner * outer if instruction.primitive is P.mul else inner + outer
    kept = math.isfinite(both) and (instruction.primitive is P.add or bool(both))
    return _as(instruction, instruction.primitive, x, both) if kept else instruction


def _apart(instruction: Instruction, number: Number) -> tuple[Any, Any]:
    """The operand that is no number, and the number beside it, or None."""
    x, y = instruction.operands
    return (x, number(y)) if number(x) is None else (y, number(x))


def _as(instruction: Instruction, primitive: Any, *operands: Any) -> Instruction:
    return instruction._replace(primitive=primitive, operands=operands)
