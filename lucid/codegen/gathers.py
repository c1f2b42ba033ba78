"""Scatters as vector code: what is put together at places that offsets name, in their order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.codegen.bodies import Plan, type_of
from lucid.codegen.vectors import COUNT, Function, Value
from lucid.ops.expressions import Source

_UNROLLED = 4  # elements of one iteration, which take less time than the counting


def plan_of(source: Source, dtype: np.dtype[Any], values: np.dtype[Any]) -> Plan:
    """A function of two numbers of a type, the second of which is in memory as one of another type."""
    types = [type_of(dtype), type_of(values)]
    plan = Plan(source, (dtype, dtype), {})
    plan.types = types
    return plan


def _combine(f: Function, plan: Plan, x: Value, v: Value, lanes: int) -> None:
    """Put together elements that lie side by side."""
    element, value = plan.types
    given = [f.load(x.text, element.wide(lanes)), f.load(v.text, value.wide(lanes))]
    found: Any = plan.compute(f, given, {}, lanes)  # real numbers
    f.store(found, x.text)


def fold_at(plan: Plan, name: str) -> Function:
    """The function `name(x, places, values, sources, count, width, stride, step)`.

    For each of `count` pairs of offsets in bytes, `width` elements from `places[i]` on, at distances of `stride`, are
    put together with as many from `sources[i]` on, at distances of `step`.
    """
    pointers, sizes = ("x", "places", "values", "sources"), ("count", "width", "stride", "step")
    f = Function(name, [(p, "ptr") for p in pointers] + [(n, "i64") for n in sizes])
    count, width, stride, step = (f.argument(n) for n in sizes)
    element, value = plan.types

    def place(base: str, offsets: str, i: Value) -> Value:
        return f.beyond(f.argument(base), f.load(f.beyond(f.argument(offsets), i * COUNT.bytes).text, COUNT))

    def element_at(i: Value) -> Sequence[Value]:
        _combine(f, plan, place("x", "places", i), place("values", "sources", i), 1)
        return []

    def row_at(i: Value) -> Sequence[Value]:
        x, v = place("x", "places", i), place("values", "sources", i)

        def vector(j: Value) -> Sequence[Value]:
            _combine(f, plan, f.beyond(x, j * element.bytes), f.beyond(v, j * value.bytes), plan.lanes)
            return []

        def one(j: Value) -> Sequence[Value]:
            _combine(f, plan, f.beyond(x, j * stride), f.beyond(v, j * step), 1)
            return []

        f.loop(whole, plan.lanes, vector)
        f.loop(width, 1, one, start=whole)
        return []

    is_single = width.equals(1)
    is_dense = stride.equals(element.bytes) & step.equals(value.bytes)
    whole = f.select(is_dense, width & -plan.lanes, 0)
    rows = f.select(is_single, 0, count)
    f.loop(f.select(is_single, count, 0), 1, element_at)
    f.loop(rows, 1, row_at)
    f.effect("ret void")
    return f


def fold_along(plan: Plan, name: str) -> Function:
    """The function `name(x, positions, stride, values, step, count)`: one element at each position, none of them negative."""
    f = Function(
        name,
        [("x", "ptr"), ("positions", "ptr"), ("stride", "i64"), ("values", "ptr"), ("step", "i64"), ("count", "i64")],
    )

    count, stride, step = f.argument("count"), f.argument("stride"), f.argument("step")
    element, value = plan.types

    def along(stride: Value | int, step: Value | int) -> None:
        def one(i: Value) -> Sequence[Value]:
            position = f.load(f.beyond(f.argument("positions"), i * COUNT.bytes).text, COUNT)
            _combine(f, plan, f.beyond(f.argument("x"), position * stride), f.beyond(f.argument("values"), i * step), 1)
            return []

        def some(i: Value) -> Sequence[Value]:
            for k in range(_UNROLLED):
                one(i + k)
            return []

        whole = count & -_UNROLLED
        f.loop(whole, _UNROLLED, some)
        f.loop(count, 1, one, start=whole)
        f.effect("ret void")

    dense, other = f.fresh("dense"), f.fresh("other")
    f.branch(stride.equals(element.bytes) & step.equals(value.bytes), dense, other)
    f.begin(dense)
    along(element.bytes, value.bytes)
    f.begin(other)
    along(stride, step)
    return f


LOOPS = (fold_at, fold_along)
