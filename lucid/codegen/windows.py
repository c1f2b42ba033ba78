"""Folds over windows as vector code: each place along a dimension puts together the elements that a table names.

A table has the elements of all places one after the other: those of place o stand from `starts[o]` to `starts[o + 1]`,
and are put together in this order, each times its weight where there are weights. `runs` divides the places into
stretches of as many elements each: (first place, the place after the last, elements of a place).
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from lucid.codegen.bodies import type_of
from lucid.codegen.folds import FoldPlan
from lucid.codegen.vectors import COUNT, Function, Value
from lucid.ops.categories import Fold

_AT_ONCE = 4  # elements of a place that are put together in registers


class WindowPlan(FoldPlan):
    """A fold over windows of elements of a type, with weights or without."""

    def __init__(self, fold: Fold, dtype: np.dtype[Any], weighted: bool, result: np.dtype[Any] | None = None) -> None:
        type_of(dtype)  # which is not complex
        super().__init__(fold, dtype, result or dtype)
        self.weighted = weighted


class _Table:
    """What a function reads of a table, given by pointers."""

    def __init__(self, f: Function, plan: WindowPlan) -> None:
        self.f = f
        self.plan = plan

    def number(self, name: str, k: Value) -> Value:
        return self.f.load(self.f.beyond(self.f.argument(name), k * COUNT.bytes).text, COUNT)

    def weight(self, k: Value) -> Value | None:
        if not self.plan.weighted:
            return None
        return self.f.load(
            self.f.beyond(self.f.argument("weights"), k * self.plan.element.bytes).text, self.plan.element
        )

    def element(self, x: Value, weight: Value | None, lanes: int) -> Value:
        """Elements at x times a weight."""
        type = self.plan.element.wide(lanes)
        found = self.f.load(x.text, type)
        return found if weight is None else found * self.f.constant(weight, type)

    def together(self, one: Value, other: Value) -> Value:
        (found,) = self.plan.combined(self.f, [one], [other])
        return found


def _in_vectors(f: Function, width: Value, lanes: int, body: Callable[[Value, int], None]) -> None:
    """A body for so many numbers at once, and for the last ones one by one."""

    def some(count: int) -> Callable[[Value], Sequence[Value]]:
        def step(j: Value) -> Sequence[Value]:
            body(j, count)
            return []

        return step

    whole = width & -lanes
    f.loop(whole, lanes, some(lanes))
    f.loop(width, 1, some(1), start=whole)


def rows(plan: WindowPlan, name: str) -> Function:
    """The function `name(out, x, starts, sources, weights, first, last, width, stride, step)`.

    Each place from `first` on and before `last` is a row of `width` elements; rows of the result are `step` bytes apart,
    the first at `out`, and those of x `stride`.
    """
    pointers, sizes = ("out", "x", "starts", "sources", "weights"), ("first", "last", "width", "stride", "step")
    f = Function(name, [(p, "ptr") for p in pointers] + [(n, "i64") for n in sizes])
    table, size = _Table(f, plan), plan.element.bytes
    first, last, width, stride, step = (f.argument(n) for n in sizes)

    def row(k: Value) -> Value:
        return f.beyond(f.argument("x"), table.number("sources", k) * stride)

    def place(o: Value) -> Sequence[Value]:
        begin, end = table.number("starts", o), table.number("starts", o + 1)
        count = end - begin
        out = f.beyond(f.argument("out"), (o - first) * step)

        def none(j: Value, lanes: int) -> None:
            f.store(plan.units(f, lanes)[0], f.beyond(out, j * size).text)

        def several(taps: int) -> Callable[[Value], Sequence[Value]]:
            def begun(_: Value) -> Sequence[Value]:
                numbers = [begin + k for k in range(taps)]
                given = [(row(k), table.weight(k)) for k in numbers]

                def vector(j: Value, lanes: int) -> None:
                    found, *others = [table.element(f.beyond(x, j * size), weight, lanes) for x, weight in given]
                    for other in others:
                        found = table.together(found, other)
                    f.store(found, f.beyond(out, j * size).text)

                _in_vectors(f, width, plan.lanes, vector)
                return []

            return begun

        def one_more(k: Value) -> Sequence[Value]:
            source, weight = row(k), table.weight(k)

            def vector(j: Value, lanes: int) -> None:
                at = f.beyond(out, j * size).text
                new = table.element(f.beyond(source, j * size), weight, lanes)
                f.store(table.together(f.load(at, plan.element.wide(lanes)), new), at)

            _in_vectors(f, width, plan.lanes, vector)
            return []

        _in_vectors(f, f.select(count.equals(0), width, 0), plan.lanes, none)
        for taps in range(1, _AT_ONCE + 1):
            is_meant = count.equals(taps) if taps < _AT_ONCE else count >= taps
            f.loop(f.select(is_meant, f.constant(1, COUNT), 0), 1, several(taps))
        f.loop(end, 1, one_more, start=f.minimum(begin + _AT_ONCE, end))
        return []

    f.loop(last, 1, place, start=first)
    f.effect("ret void")
    return f


def lines(plan: WindowPlan, name: str) -> Function:
    """The function `name(out, x, starts, sources, weights, runs, many, count, stride, step)`.

    Places are elements, of `count` lines that are `step` bytes apart in the result and `stride` in x; `runs` has `many`
    entries.
    """
    pointers, sizes = ("out", "x", "starts", "sources", "weights", "runs"), ("many", "count", "stride", "step")
    f = Function(name, [(p, "ptr") for p in pointers] + [(n, "i64") for n in sizes])
    table, size = _Table(f, plan), plan.element.bytes
    many, count, stride, step = (f.argument(n) for n in sizes)

    def at(x: Value, k: Value) -> Value:
        return table.element(f.beyond(x, table.number("sources", k) * size), table.weight(k), 1)

    def line(r: Value) -> Sequence[Value]:
        x, out = f.beyond(f.argument("x"), r * stride), f.beyond(f.argument("out"), r * step)

        def run(i: Value) -> Sequence[Value]:
            begin, end, taps = (table.number("runs", i * 3 + k) for k in range(3))
            base = table.number("starts", begin)

            def several(n: int) -> Callable[[Value], Sequence[Value]]:
                def place(o: Value) -> Sequence[Value]:
                    start = base + (o - begin) * n
                    found = plan.units(f, 1)[0] if n == 0 else at(x, start)
                    for k in range(1, n):
                        found = table.together(found, at(x, start + k))
                    f.store(found, f.beyond(out, o * size).text)
                    return []

                return place

            def any_number(o: Value) -> Sequence[Value]:
                start = base + (o - begin) * taps

                def one_more(k: Value, found: Value) -> Sequence[Value]:
                    return [table.together(found, at(x, k))]

                (found,) = f.loop(start + taps, 1, one_more, [at(x, start)], start=start + 1)
                f.store(found, f.beyond(out, o * size).text)
                return []

            for n in range(_AT_ONCE + 1):
                f.loop(f.select(taps.equals(n), end, begin), 1, several(n), start=begin)
            f.loop(f.select(taps > _AT_ONCE, end, begin), 1, any_number, start=begin)
            return []

        f.loop(many, 1, run)
        return []

    f.loop(count, 1, line)
    f.effect("ret void")
    return f


def places(plan: WindowPlan, name: str) -> Function:
    """The function `name(out, x, rows, many, starts, sources, count)`: which place of x the fold finds in each window.

    A window has `many` rows, which begin at the places `rows`, and of each row what the table names for it; it has one
    element at least.
    """
    pointers = ("out", "x", "rows", "starts", "sources")
    f = Function(name, [(p, "ptr") for p in pointers] + [("many", "i64"), ("count", "i64")])
    table = _Table(f, plan)
    one = copy(plan)
    one.lanes = 1

    def state_at(place: Value) -> list[Value]:
        x = f.load(f.beyond(f.argument("x"), place * plan.element.bytes).text, plan.element)
        return one.lifted(f, [x], place)

    def window(o: Value) -> Sequence[Value]:
        begin, end = table.number("starts", o), table.number("starts", o + 1)
        # Not the state of none: the first of equals counts, whatever they are.
        first = state_at(f.load(f.argument("rows").text, COUNT) + table.number("sources", begin))

        def row(r: Value, *state: Value) -> Sequence[Value]:
            base = table.number("rows", r)

            def element(k: Value, *state: Value) -> Sequence[Value]:
                return one.combined(f, state, state_at(base + table.number("sources", k)))

            return f.loop(end, 1, element, state, start=begin)

        found = f.loop(f.argument("many"), 1, row, first)
        f.store(one.finished(f, found), f.beyond(f.argument("out"), o * COUNT.bytes).text)
        return []

    f.loop(f.argument("count"), 1, window)
    f.effect("ret void")
    return f
