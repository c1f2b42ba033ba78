"""Functions of rows as vector code where neighbours belong to other rows.

Vectors hold one element of each of some rows. Rows side by side are gone through together, some elements of each at a
time, so that memory is read in its order. Sums are made of blocks of `_FEW` elements.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lucid.codegen.rows import Pass, RowPlan, Writer
from lucid.codegen.vectors import Function, Type, Value

_FEW = 64  # elements of rows


class _ColumnWriter(Writer):
    """Writes the passes over rows side by side, of which a vector holds the numbers of some, from row `first` on.

    Those of the last vector may be among those of the one before it: its numbers are those from row `at` on.
    """

    first: Value
    at: Value

    def __init__(self, plan: RowPlan, name: str) -> None:
        super().__init__(plan, name, plan.column_lanes, plan.column_lanes)
        f = self.f
        self.count = f.argument("rows")
        self.rounded = (self.count + (self.lanes - 1)) & -self.lanes
        folds = list(plan.folds.values())
        base = f.argument("room")
        types = [t for fold in folds for t in (*fold.states, fold.result)]
        uniform = sorted(plan.uniform)
        totals = self.rooms(base, self.rounded, [*types, *map(plan.type_of_step, uniform)])
        self.totals: dict[int, list[Value]] = {}  # the states of a fold, and what it is found to be
        for k, fold in plan.folds.items():
            self.totals[k], totals = totals[: len(fold.states) + 1], totals[len(fold.states) + 1 :]
        self.notes = dict(zip(uniform, totals, strict=True))  # steps that are one number for a row
        kept = f.beyond(base, self.rounded * plan.column_room[1])
        self.kept_rooms = self.rooms(kept, self.rounded * self.length, [plan.type_of_step(k) for k in plan.kept])

    def each(self, body: Callable[[], Any]) -> None:
        """Write what is done for each vector of rows."""

        def vector(first: Value) -> Sequence[Value]:
            self.first, self.at = first, self.f.minimum(first, self.count - self.lanes)
            self.known.clear()
            body()
            return []

        self.f.loop(self.count, self.lanes, vector)

    def total(self, fold: int, number: int) -> Value:
        """Where a number of a fold is."""
        plan = self.plan.folds[fold]
        return self.f.beyond(self.totals[fold][number], self.first * (*plan.states, plan.result)[number].bytes)

    def fold_value(self, step: int) -> Value:
        plan = self.plan.folds[step]
        return self.f.load(self.total(step, len(plan.states)).text, plan.result.wide(self.lanes))

    def note(self, step: int) -> Value:
        """Where a step that is one number for a row is noted."""
        return self.f.beyond(self.notes[step], self.first * self.plan.type_of_step(step).bytes)

    def kept_at(self, step: int, i: Value) -> Value:
        place = (i * self.rounded + self.first) * self.plan.type_of_step(step).bytes
        return self.f.beyond(self.kept_rooms[self.plan.kept.index(step)], place)


def columns(plan: RowPlan, name: str, shared: Sequence[int]) -> Function:
    """`name(data, strides, length, numbers, room, rows)`: rows side by side, at least as many as a vector holds.

    Strides lead along rows. Of the operands that are `shared`, all rows have the same element.
    """
    w = _ColumnWriter(plan, name)
    for number in range(plan.last + 1):
        _pass_of_columns(w, number, shared)
    w.each(lambda: w.write_results_of_rows(w.at))
    w.f.effect("ret void")
    return w.f


def _pass_of_columns(w: _ColumnWriter, number: int, shared: Sequence[int]) -> None:
    f, plan, lanes = w.f, w.plan, w.lanes
    folds = plan.folds_of(number)

    def load(k: int, i: Value) -> Value:
        place, type = f.beyond(w.places[k], i * w.strides[k]), plan.operands[k]
        if k in shared:
            return f.spread(f.load_once(place, type), lanes)
        return f.load_once(f.beyond(place, w.at * type.bytes), type.wide(lanes))

    def result_at(k: int, i: Value) -> Value:
        base, stride = w.result_place(k)
        return f.beyond(base, i * stride + w.at * plan.results[k].bytes)

    def vector(p: Pass, i: Value, states: Sequence[Value]) -> list[Value]:
        index = f.spread(f.convert(i, Type("i32")), lanes)
        given = lambda k: load(k, i), lambda k: w.kept_at(k, i), lambda k: result_at(k, i)
        return p.vector(*given, index, states, None)

    def block(c: Value) -> Sequence[Value]:
        end = f.minimum(w.length, c + _FEW)

        def elements() -> None:
            p = Pass(w, number)
            states = f.loop(end, 1, lambda i, *states: vector(p, i, states), p.start, start=c)
            places = [w.total(k, n) for k in folds for n in range(len(plan.folds[k].states))]
            before = [f.select(c.equals(0), u, f.load(at.text, u.type)) for at, u in zip(places, p.start)]
            for value, at in zip(p.combined(before, states), places):
                f.store(value, at.text)

        w.each(elements)
        return [end]

    def finish() -> None:
        for k in folds:
            fold = plan.folds[k]
            state = [f.load(w.total(k, n).text, t.wide(lanes)) for n, t in enumerate(fold.states)]
            f.store(fold.finished(f, state), w.total(k, len(state)).text)

    if folds:
        f.loop(w.length, None, block)
        w.each(finish)
        return

    noted: dict[int, Type] = {}

    def note() -> None:
        for k, value in Pass(w, number).known.items():
            noted[k] = value.type
            f.store(value, w.note(k).text)

    def across(i: Value) -> Sequence[Value]:
        w.each(lambda: vector(Pass(w, number, {k: f.load(w.note(k).text, t) for k, t in noted.items()}), i, []))
        return []

    # Nothing is put together: results are written in the order of memory.
    w.each(note)
    f.loop(w.length, 1, across)
