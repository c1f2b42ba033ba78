"""Updates in place as vector code: several results of single elements, each written where it belongs, in one pass."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.codegen.bodies import is_base, type_of, write_body
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.vectors import POINTER, Function, Type, Value
from lucid.ops.expressions import Body, Expression, Operand, Parameter, as_expression, in_order


class UpdatePlan:
    """Results of `function(operands, numbers)`, where all operands are of one type and numbers come with each call."""

    def __init__(
        self, function: Callable[..., Sequence[Any]], dtype: np.dtype[Any], operands: int, numbers: int
    ) -> None:
        leaves = [Expression.make(Operand(k), dtype, is_base) for k in range(operands)]
        given = [Expression.make(Parameter(f"c{k}"), dtype, is_base) for k in range(numbers)]
        roots = [as_expression(root, is_base) for root in function(leaves, given)]
        steps, results = in_order(roots)
        self.element = type_of(dtype)
        self.operands, self.numbers = operands, numbers
        self.bodies = [Body((dtype,) * operands, steps, result, dtype) for result in results]
        self.lanes = 8 if dtype.itemsize > 4 else 16
        self.cost = 0.25 * (operands + len(results)) + sum(2 if s.primitive.name in FUNCTIONS else 0.1 for s in steps)

    def compute(self, f: Function, operands: Sequence[Value], numbers: dict[str, Value]) -> list[Value]:
        # What bodies share is written once: it is the same text.
        return [write_body(f, body, operands, self.lanes, numbers) for body in self.bodies]


def update(plan: UpdatePlan, name: str) -> Function:
    """The function `name(data, count, numbers)`; `data` has the places of all operands, then of all results."""
    f = Function(name, [("data", "ptr"), ("count", "i64"), ("numbers", "ptr")])
    lanes, size, count = plan.lanes, plan.element.bytes, f.argument("count")
    places = [f.entry("data", k, POINTER) for k in range(plan.operands + len(plan.bodies))]
    buffers = [f.room(lanes, plan.element) for _ in places]
    for buffer in buffers:
        f.clear(buffer, lanes * size)
    given = [f.convert(f.entry("numbers", k, Type("double")), plan.element) for k in range(plan.numbers)]
    numbers = {f"c{k}": f.constant(number, plan.element.wide(lanes)) for k, number in enumerate(given)}

    def at(where: Sequence[Value]) -> None:
        operands = [f.load(place.text, plan.element.wide(lanes)) for place in where[: plan.operands]]
        for value, place in zip(plan.compute(f, operands, numbers), where[plan.operands :], strict=True):
            f.store(value, place.text)

    def vector(i: Value) -> Sequence[Value]:
        at([f.beyond(place, i * size) for place in places])
        return []

    def rest(i: Value) -> Sequence[Value]:
        left = (count - i) * size
        for place, buffer in zip(places[: plan.operands], buffers):
            f.copy(buffer, f.beyond(place, i * size), left)
        at(buffers)
        for place, buffer in zip(places[plan.operands :], buffers[plan.operands :], strict=True):
            f.copy(f.beyond(place, i * size), buffer, left)
        return []

    whole = count & -lanes
    f.loop(whole, lanes, vector)
    f.loop(count, lanes, rest, start=whole)
    f.effect("ret void")
    return f
