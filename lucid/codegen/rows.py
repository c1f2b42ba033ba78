"""Functions of rows as vector code: from a body with folds (`ops.nn.rows`) to loops that finish a row while it is near.

A fold is known when its row has been gone through. So steps are divided into passes: in each, the folds are computed of
which the operands are known, and with the last one all results. What an element costs much to compute is stored for the
passes that follow; the rest is computed again.

There are two forms. Here, where the elements of a row lie side by side or must be brought together, vectors hold elements
of one row. Where neighbours belong to other rows, vectors hold one element of each (`columns`). Here sums are made of blocks
of `_BLOCK` elements, where element i of a block goes into accumulator i mod the length of `_AT_ONCE` vectors. What is
computed of elements before they are summed does not matter for that.

A pass goes over some rows before the next pass begins: the folds of one row, whose steps wait for each other, are
computed while the next row is gone through, and what is one number for a row is computed of many at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.codegen.bodies import NARROW, NotGeneratedError, is_base, type_of, write_step
from lucid.codegen.folds import FoldPlan, fold_plan
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.vectors import COUNT, POINTER, Function, Type, Value
from lucid.ops.expressions import Constant, Operand, Parameter, Result, Step
from lucid.ops.nn.rows import Index, RowBody, read_rows

_BLOCK = 512  # elements
_AT_ONCE = 4  # vectors of a row
_F32 = np.dtype(np.float32)
_DEAR = frozenset([*FUNCTIONS, "div", "sqrt"])  # steps that are not computed twice


class RowPlan:
    """A function of rows for operands of certain types: its passes, and what is stored between them."""

    def __init__(
        self, body: RowBody, types: Sequence[np.dtype[Any]] | None = None, dtypes: Sequence[Any] | None = None
    ) -> None:
        """The types of operands and results in memory are those of the body where nothing else is said."""
        self.body = body
        self.operands = [type_of(t) for t in types or body.types]
        steps = self.body.steps
        self.folds = {k: _fold_plan(self.body, s) for k, s in enumerate(steps) if _is_fold(s)}
        self.numbers = sorted({o.name for s in steps for o in s.operands if isinstance(o, Parameter)})
        self.passes = _passes(steps)  # in which pass a step is first computed
        self.uniform = _uniform(steps)  # steps that are one number for a row
        # Elements are of the types that operands have; numbers of rows stay in the precision that they are computed in.
        self.dtypes = tuple(
            wide if self.is_of_row(r) else own for r, own, wide in zip(body.results, dtypes or body.dtypes, body.dtypes)
        )
        self.results = [type_of(t) for t in self.dtypes]
        self.last = max([self.passes[k] for k in self.folds], default=0)
        widths = [t.itemsize for t in (*self.body.types, *[s.dtype for s in steps])]
        widths += [t.bytes for plan in self.folds.values() for t in plan.states]
        self.lanes = 8 if max(widths) > 4 else 16
        is_cheap = not any(step.primitive.name in FUNCTIONS for step in steps)
        self.column_lanes = 4 * self.lanes if is_cheap else self.lanes  # more of a row of memory at once
        self.kept = self._kept()
        # In units of which an addition of elements in memory has 2: softmax of 96 x 96 numbers takes as long in one thread
        # as in two, with what it takes to share them.
        of_elements = [s.primitive.name for k, s in enumerate(steps) if k not in self.uniform]
        self.cost = 1 + self.last + sum(5.0 if name in FUNCTIONS else 0.4 for name in of_elements)

    @staticmethod
    def of(function: Any, types: Sequence[np.dtype[Any]], params: dict[str, Any]) -> "RowPlan":
        """The plan of a function (`ops.nn.rows`). Numbers of half precision are computed in single."""
        stored = read_rows(function, types, params, is_base)
        return RowPlan(
            read_rows(function, [_F32 if t in NARROW else t for t in types], params, is_base), types, stored.dtypes
        )

    def is_of_row(self, what: Any) -> bool:
        """Whether something is one number for a row, whatever the operands are."""
        if isinstance(what, Result):
            return what.place in self.uniform
        return not isinstance(what, Operand | Index)

    def pass_of(self, what: Any) -> int:
        """The pass in which something can be computed for each element."""
        return self.passes[what.place] if isinstance(what, Result) else 0

    def type_of_step(self, step: int) -> Type:
        return type_of(self.body.steps[step].dtype)

    @property
    def row_room(self) -> tuple[int, int, int]:
        """How many bytes the elements of a row need if they lie apart, those of each row, and the numbers of each row."""
        kept, noted = ([self.type_of_step(k).bytes for k in steps] for steps in (self.kept, self.uniform))
        return sum(t.bytes for t in self.operands), sum(kept), sum(noted)

    @property
    def column_room(self) -> tuple[int, int]:
        """How many bytes each element of a row beside others needs room for, and each row."""
        of_folds = [t.bytes for fold in self.folds.values() for t in (*fold.states, fold.result)]
        noted = [self.type_of_step(k).bytes for k in self.uniform]
        return sum(self.type_of_step(k).bytes for k in self.kept), sum(of_folds) + sum(noted)

    def roots(self, pass_: int) -> list[Any]:
        """What has to be computed for each element in a pass."""
        folded = [self.body.steps[k].operands[0] for k in self.folds_of(pass_)]
        return [*folded, *[self.body.results[k] for k in self.results_of(pass_)]]

    def folds_of(self, pass_: int) -> list[int]:
        return [k for k in self.folds if self.pass_of(self.body.steps[k].operands[0]) == pass_]

    def results_of(self, pass_: int) -> list[int]:
        """Results that are written in a pass, as soon as they can be; of those that are one number, the last."""
        found = self.body.results
        return [k for k, r in enumerate(found) if not self.is_of_row(r) and self.pass_of(r) == pass_]

    def _kept(self) -> list[int]:
        """Steps of elements that cost much and are needed again in a later pass than their own."""
        needed: dict[int, int] = {}
        steps = self.body.steps

        def visit(what: Any, pass_: int, seen: set[int]) -> None:
            if not isinstance(what, Result) or what.place in self.uniform or what.place in seen:
                return
            seen.add(what.place)
            needed[what.place] = max(pass_, needed.get(what.place, 0))
            if self.passes[what.place] < pass_ and self._is_dear(what.place):
                return
            for o in steps[what.place].operands:
                visit(o, pass_, seen)

        for pass_ in range(self.last + 1):
            seen: set[int] = set()
            for root in self.roots(pass_):
                visit(root, pass_, seen)
        return [k for k, at in sorted(needed.items()) if at > self.passes[k] and self._is_dear(k)]

    def _is_dear(self, place: int) -> bool:
        return self.body.steps[place].primitive.name in _DEAR


def _is_fold(step: Step) -> bool:
    return step.primitive.category == "reduction"


def _fold_plan(body: RowBody, step: Step) -> FoldPlan:
    of = step.operands[0]
    if isinstance(of, Result):
        dtype = body.steps[of.place].dtype
    elif isinstance(of, Operand):
        dtype = body.types[of.place]
    else:
        raise NotGeneratedError("a fold of one number")
    return fold_plan(step.primitive.fold, dtype, step.dtype)


def _passes(steps: Sequence[Step]) -> list[int]:
    """The pass of each step: that of its operands, or the one after it, if it is a fold."""
    found: list[int] = []
    for step in steps:
        before = max([found[o.place] for o in step.operands if isinstance(o, Result)], default=0)
        found.append(before + _is_fold(step))
    return found


def _uniform(steps: Sequence[Step]) -> set[int]:
    """Steps that are made of folds and numbers alone."""
    found: set[int] = set()
    for k, step in enumerate(steps):
        parts = [
            o.place in found if isinstance(o, Result) else not isinstance(o, Operand | Index) for o in step.operands
        ]
        if _is_fold(step) or all(parts):
            found.add(k)
    return found


class Writer:
    """Writes the passes of one form; `width` is how many rows a vector holds a number of."""

    def __init__(self, plan: RowPlan, name: str, lanes: int, width: int) -> None:
        self.plan, self.lanes, self.width = plan, lanes, width
        names = [("data", "ptr"), ("strides", "ptr"), ("length", "i64"), ("numbers", "ptr"), ("room", "ptr")]
        f = self.f = Function(name, [*names, ("rows", "i64")])
        self.length = f.argument("length")
        types = [*plan.operands, *plan.results]
        self.places = [f.entry("data", k, POINTER) for k in range(len(types))]
        self.strides = [f.entry("strides", k, COUNT) for k in range(len(types))]
        working = type_of(next(t for t in plan.body.types if t.kind in "fc"))
        numbers = [f.convert(f.entry("numbers", k, Type("double")), working) for k in range(len(plan.numbers))]
        self.numbers = {n: f.constant(v, Type("", width)) for n, v in zip(plan.numbers, numbers)}
        self.known: dict[int, Value] = {}  # steps that are one number for a row

    def rooms(self, base: Value, count: Value, types: Sequence[Type]) -> list[Value]:
        """Memory for so many numbers of each type, one after the other."""
        found, before = [], 0
        for type in types:
            found.append(self.f.beyond(base, count * before))
            before += type.bytes
        return found

    def result_place(self, result: int) -> tuple[Value, Value]:
        """Where a result begins, and how far apart its elements are."""
        k = len(self.plan.operands) + result
        return self.places[k], self.strides[k]

    def uniform(self, what: Any) -> Any:
        """Something that is one number for a row."""
        if isinstance(what, Parameter):
            return self.numbers[what.name]
        if isinstance(what, Constant):
            return self.f.constant(what.value, type_of(what.dtype).wide(self.width))
        if not isinstance(what, Result):
            return what
        if what.place not in self.known and what.place in self.plan.folds:
            self.known[what.place] = self.fold_value(what.place)
        elif what.place not in self.known:
            step = self.plan.body.steps[what.place]
            given = [self.uniform(o) for o in step.operands]
            self.known[what.place] = write_step(self.f, step, given, self.width)
        return self.known[what.place]

    def fold_value(self, step: int) -> Value:
        """What a fold was found to be, where that is not at hand."""
        raise NotImplementedError

    def prepare(self, pass_: int) -> dict[int, Value]:
        """What a pass needs to know of the row, as vectors, written before its loop."""
        needed: dict[int, Value] = {}
        steps = self.plan.body.steps
        seen: set[int] = set()

        def visit(what: Any) -> None:
            if not isinstance(what, Result) or what.place in seen:
                return
            seen.add(what.place)
            if what.place in self.plan.uniform:
                value = self.uniform(what)
                needed[what.place] = self.f.constant(value, value.type.wide(self.lanes))
            elif not self.is_loaded(what.place, pass_):
                for o in steps[what.place].operands:
                    visit(o)

        for root in self.plan.roots(pass_):
            visit(root)
        return needed

    def is_loaded(self, step: int, pass_: int) -> bool:
        return step in self.plan.kept and self.plan.passes[step] < pass_

    def write_results_of_rows(self, first: Value | int) -> None:
        """Results that are one number for a row, from a row on."""
        plan, f = self.plan, self.f
        for k, result in enumerate(plan.body.results):
            if plan.is_of_row(result):
                value = self.uniform(result)
                out = plan.results[k].wide(self.width)
                value = f.convert(value, out) if isinstance(value, Value) else f.constant(value, out)
                f.store(value, f.beyond(self.result_place(k)[0], f.constant(first, COUNT) * out.bytes).text)


Load = Callable[[int], Value]
Place = Callable[[int], Value]


class Pass:
    """One pass over the elements of rows: the folds, results and steps that are stored in it."""

    def __init__(self, writer: Writer, number: int, known: dict[int, Value] | None = None) -> None:
        plan = writer.plan
        self.writer, self.plan, self.number = writer, plan, number
        self.folds, self.results = plan.folds_of(number), plan.results_of(number)
        self.kept = [k for k in plan.kept if plan.passes[k] == number]
        self.known = writer.prepare(number) if known is None else known  # what it needs to know of rows
        self.numbers = {n: writer.f.constant(v, v.type.wide(writer.lanes)) for n, v in writer.numbers.items()}
        self.plans = [plan.folds[k] for k in self.folds]
        self.start = [u for fold in self.plans for u in fold.units(writer.f, writer.lanes)]
        self.is_dear = any(plan.body.steps[k].primitive.name in FUNCTIONS for k in self._computed())

    def _computed(self) -> set[int]:
        """The steps that are computed for each element."""
        found: set[int] = set()
        waiting = list(self.plan.roots(self.number))
        while waiting:
            what = waiting.pop()
            if not isinstance(what, Result) or what.place in found or what.place in self.known:
                continue
            if not self.writer.is_loaded(what.place, self.number):
                found.add(what.place)
                waiting += self.plan.body.steps[what.place].operands
        return found

    def values(self, load: Load, load_kept: Load, index: Value) -> Callable[[Any], Any]:
        """A function that writes the vector of something, each step once."""
        found = dict(self.known)
        writer, f, plan = self.writer, self.writer.f, self.plan

        def value(what: Any) -> Any:
            if isinstance(what, Operand):
                x = load(what.place)
                return f.convert(x, Type("float")) if x.type.of in NARROW.values() else x
            if isinstance(what, Index):
                return index
            if isinstance(what, Parameter):
                return self.numbers[what.name]
            if isinstance(what, Constant):
                return f.constant(what.value, type_of(what.dtype).wide(writer.lanes))
            if not isinstance(what, Result):
                return what
            if what.place not in found:
                if writer.is_loaded(what.place, self.number):
                    found[what.place] = load_kept(what.place)
                else:
                    step = plan.body.steps[what.place]
                    found[what.place] = write_step(f, step, [value(o) for o in step.operands], writer.lanes)
            return found[what.place]

        return value

    def vector(
        self, load: Load, kept_at: Place, result_at: Place, index: Value, states: Sequence[Value], there: Value | None
    ) -> list[Value]:
        """One vector of elements, of which `there` says which exist; gives the states of the folds after it."""
        writer, plan = self.writer, self.plan
        f = writer.f
        value = self.values(load, lambda k: f.load_once(kept_at(k), plan.type_of_step(k).wide(writer.lanes)), index)
        out: list[Value] = []
        for k, fold in zip(self.folds, self.plans):
            x = f.convert(value(plan.body.steps[k].operands[0]), fold.element)
            old = states[len(out) : len(out) + len(fold.states)]
            new = fold.combined(f, old, fold.lifted(f, [x], f.convert(index, COUNT)))
            out += new if there is None else [f.select(there, n, o) for n, o in zip(new, old)]
        for k in self.kept:
            f.store(value(Result(k)), kept_at(k).text)
        for k in self.results:
            x = f.convert(value(plan.body.results[k]), plan.results[k])
            if there is None:
                f.store(x, result_at(k).text)
            else:
                f.store_some(x, result_at(k), there)
        return out

    def combined(self, one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        """The states of all folds of two parts."""
        out: list[Value] = []
        for fold in self.plans:
            first, end = len(out), len(out) + len(fold.states)
            out += fold.combined(self.writer.f, one[first:end], other[first:end])
        return out

    def put_together(self, states: Sequence[Value]) -> Sequence[Value]:
        """The states of all folds of `_AT_ONCE` accumulators."""
        width = len(self.start)
        parts = [states[v * width : (v + 1) * width] for v in range(_AT_ONCE)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [self.combined(a, b) for a, b in zip(parts[:half], parts[half:])]
        return parts[0]

    def finish(self, totals: Sequence[Value], width: int) -> None:
        """Note what the folds are, of states in vectors; those of one row are put together by halves."""
        f = self.writer.f
        for k, fold in zip(self.folds, self.plans):
            state, totals = list(totals[: len(fold.states)]), totals[len(fold.states) :]
            while state[0].type.lanes > width:
                pairs = [f.halves(v) for v in state]
                state = fold.combined(f, [a for a, _ in pairs], [b for _, b in pairs])
            self.writer.known[k] = fold.finished(f, state)


class _RowWriter(Writer):
    """Writes the passes over rows, one after the other; `row` is the one at hand."""

    row: Value

    def __init__(self, plan: RowPlan, name: str, single: Sequence[int]) -> None:
        super().__init__(plan, name, plan.lanes, 1)
        f, lanes = self.f, plan.lanes
        self.rows, self.single = f.argument("rows"), single
        self.steps = [f.entry("strides", len(self.places) + k, COUNT) for k in range(len(self.places))]
        # There is room for whole vectors of elements, and of the numbers of rows.
        self.rounded, many = [(n + (lanes - 1)) & -lanes for n in (self.length, self.rows)]
        base = f.argument("room")
        uniform = sorted(plan.uniform)
        apart, kept, _ = plan.row_room
        self.apart = self.rooms(base, self.rounded, plan.operands)
        base = f.beyond(base, self.rounded * apart)
        self.kept_rooms = self.rooms(base, self.rounded * self.rows, [plan.type_of_step(k) for k in plan.kept])
        base = f.beyond(base, self.rounded * self.rows * kept)
        self.notes = dict(zip(uniform, self.rooms(base, many, [plan.type_of_step(k) for k in uniform]), strict=True))
        self.staging = [f.room(_BLOCK, type) for type in plan.results]

    def gather(self) -> None:
        """Bring elements together that lie apart: of one row, for then there are no others."""
        f = self.f
        for k, (base, stride, type, room) in enumerate(zip(self.places, self.strides, self.plan.operands, self.apart)):
            if k not in self.single:
                size = f.constant(type.bytes, COUNT)
                _copy(f, base, stride, room, size, type, f.select(stride.equals(type.bytes), 0, self.length))

    def begin_row(self, row: Value) -> list[Value]:
        """Where the operands of a row are; the numbers themselves of those that have one."""
        f, found = self.f, list[Value]()
        self.row = row
        for k, type in enumerate(self.plan.operands):
            place = f.beyond(self.places[k], row * self.steps[k])
            if k in self.single:
                one = f.load(place.text, type)
                one = f.convert(one, Type("float")) if type.of in NARROW.values() else one
                found.append(f.spread(one, self.lanes))
            else:
                found.append(f.select(self.strides[k].equals(type.bytes), place, self.apart[k]))
        return found

    def foresee(self, pass_: int, i: Value) -> None:
        """Ask for memory that a later pass reads or writes: processors foresee neither the next row nor writes to this one."""
        f, plan = self.f, self.plan
        for k in plan.results_of(pass_ + 1):
            f.prefetch(f.beyond(self.result_place(k)[0], i * plan.results[k].bytes), is_written=True)
        for k, type in enumerate(plan.operands) if pass_ == plan.last else ():
            if k not in self.single:
                f.prefetch(f.beyond(self.places[k], (self.row + self.rows) * self.steps[k] + i * type.bytes))

    def load(self, operand: int, base: Value, i: Value) -> Value:
        """A vector of an operand, from element i on."""
        if operand in self.single:
            return base
        type = self.plan.operands[operand]
        return self.f.load_once(self.f.beyond(base, i * type.bytes), type.wide(self.lanes))

    def load_tail(self, operand: int, base: Value, i: Value, there: Value) -> Value:
        """The last vector of an operand, with the first element in place of those that do not exist."""
        if operand in self.single:
            return base
        type, f = self.plan.operands[operand], self.f
        other = f.spread(f.load(base.text, type.stored), self.lanes)
        return f.load_some(f.beyond(base, i * type.bytes), type.wide(self.lanes), there, other)

    def kept_at(self, step: int, i: Value) -> Value:
        place = (self.row * self.rounded + i) * self.plan.type_of_step(step).bytes
        return self.f.beyond(self.kept_rooms[self.plan.kept.index(step)], place)

    def result_place(self, result: int) -> tuple[Value, Value]:
        base, stride = super().result_place(result)
        return self.f.beyond(base, self.row * self.steps[len(self.plan.operands) + result]), stride

    def index(self, i: Value) -> Value:
        """The places of a vector's elements in their row, from element i on."""
        return self.f.spread(self.f.convert(i, Type("i32")), self.lanes) + self.f.small_places(self.lanes)

    def note(self, step: int, row: Value) -> Value:
        """Where a step that is one number for a row is noted."""
        return self.f.beyond(self.notes[step], row * self.plan.type_of_step(step).bytes)

    def uniform(self, what: Any) -> Any:
        if isinstance(what, Result):
            return self.f.load_once(self.note(what.place, self.row), self.plan.type_of_step(what.place))
        return super().uniform(what)

    def note_steps(self, pass_: int) -> None:
        """Note the numbers of rows that are known from a pass on, of as many rows at once as a vector holds."""
        f, steps, lanes = self.f, self.plan.body.steps, self.lanes
        chosen = [k for k in sorted(self.plan.uniform) if k not in self.plan.folds and self.plan.passes[k] == pass_]

        def given(what: Any, first: Value) -> Any:
            if isinstance(what, Result):
                return f.load(self.note(what.place, first).text, self.plan.type_of_step(what.place).wide(lanes))
            value = self.uniform(what)
            return f.constant(value, value.type.wide(lanes)) if isinstance(value, Value) else value

        def vector(first: Value) -> Sequence[Value]:
            for k in chosen:
                value = write_step(f, steps[k], [given(o, first) for o in steps[k].operands], lanes)
                f.store(value, self.note(k, first).text)
            return []

        if chosen:
            f.loop(self.rows, lanes, vector)


def rows(plan: RowPlan, name: str, single: Sequence[int]) -> Function:
    """`name(data, strides, length, numbers, room, rows)`: rows, of elements at any distance from each other if it is one.

    Of the operands that are `single`, all elements of a row are the same. The first half of the strides leads along rows,
    the other one from each row to the next.
    """
    w = _RowWriter(plan, name, single)
    w.gather()
    w.note_steps(0)
    for number in range(plan.last + 1):

        def row(r: Value, number: int = number) -> Sequence[Value]:
            _pass_of_row(w, w.begin_row(r), number)
            return []

        w.f.loop(w.rows, 1, row)
        w.note_steps(number + 1)

    def finish(r: Value) -> Sequence[Value]:
        w.row = r
        w.write_results_of_rows(0)
        return []

    if any(map(plan.is_of_row, plan.body.results)):
        w.f.loop(w.rows, 1, finish)
    w.f.effect("ret void")
    return w.f


def _pass_of_row(w: _RowWriter, places: Sequence[Value], number: int) -> None:
    """A pass over the row at hand, of operands at `places`."""
    p = Pass(w, number)
    f, lanes = w.f, w.lanes
    width, step, whole = len(p.start), _AT_ONCE * w.lanes, w.length & -w.lanes
    totals, done = p.start, f.constant(0, COUNT)
    if not p.is_dear:  # then some vectors at once: each waits for the one before it in its own accumulator

        def at_once(vector: _Vector, i: Value, *states: Value) -> Sequence[Value]:
            return [s for v in range(_AT_ONCE) for s in vector(i + v * lanes, states[v * width : (v + 1) * width])]

        done = w.length & -step
        totals = f.loop(done, None, lambda c, *t: _block(w, p, places, at_once, step, c, done - c, t), totals)

    def each(vector: _Vector, i: Value, *states: Value) -> Sequence[Value]:
        return [*states[width:], *vector(i, states[:width])]  # the next vector goes into the next accumulator

    def block(c: Value, *totals: Value) -> Sequence[Value]:
        rest = whole - c
        some = f.select(rest >= step, rest & -step, rest)
        return _block(w, p, places, each, lanes, c, some, totals)

    totals = f.loop(whole, None, block, totals, start=done)

    def tail(c: Value, *totals: Value) -> Sequence[Value]:
        left = w.length - c
        there = f.small_places(lanes) < f.spread(f.convert(left, Type("i32")), lanes)
        targets, direct = _targets(w, p, c)
        found = p.vector(
            lambda k: w.load_tail(k, places[k], c, there),
            lambda k: w.kept_at(k, c),
            lambda k: targets[k],
            w.index(c),
            p.start,
            there,
        )
        _deliver(w, p, direct, c, left)
        return p.combined(totals, found)

    p.finish(f.loop(w.length, lanes, tail, totals, start=whole), 1)
    for k in p.folds:
        f.store(w.known[k], w.note(k, w.row).text)


_Vector = Callable[[Value, Sequence[Value]], list[Value]]  # what a vector from some element on makes of states


def _block(
    w: _RowWriter,
    p: Pass,
    places: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    step: int,
    c: Value,
    count: Value,
    totals: Sequence[Value],
) -> Sequence[Value]:
    """A block of whole vectors, from element c on, as many at once as `body` takes; gives what follows it, and totals."""
    f, plan = w.f, w.plan
    chunk = f.minimum(count, _BLOCK)
    sources = [
        x if k in w.single else f.beyond(x, c * type.bytes) for k, (x, type) in enumerate(zip(places, plan.operands))
    ]
    targets, direct = _targets(w, p, c)

    def vector(at: Value, states: Sequence[Value]) -> list[Value]:
        w.foresee(p.number, c + at)
        return p.vector(
            lambda k: w.load(k, sources[k], at),
            lambda k: w.kept_at(k, c + at),
            lambda k: f.beyond(targets[k], at * plan.results[k].bytes),
            w.index(c + at),
            states,
            None,
        )

    found = f.loop(chunk, step, lambda i, *states: body(vector, i, *states), p.start * _AT_ONCE)
    _deliver(w, p, direct, c, chunk)
    return [c + chunk, *p.combined(totals, p.put_together(found))]


def _targets(w: _RowWriter, p: Pass, c: Value) -> tuple[dict[int, Value], dict[int, Value]]:
    """Where results from element c on are written to, and whether that is their own place."""
    targets, direct = {}, {}
    for k in p.results:
        base, stride = w.result_place(k)
        direct[k] = stride.equals(w.plan.results[k].bytes)
        targets[k] = w.f.select(direct[k], w.f.beyond(base, c * stride), w.staging[k])
    return targets, direct


def _deliver(w: _RowWriter, p: Pass, direct: dict[int, Value], c: Value, chunk: Value) -> None:
    """Bring results from where they were staged to their places."""
    f, plan = w.f, w.plan
    for k in p.results:
        base, stride = w.result_place(k)
        size = f.constant(plan.results[k].bytes, COUNT)
        apart = f.select(direct[k], 0, chunk)
        _copy(f, w.staging[k], size, f.beyond(base, c * stride), stride, plan.results[k], apart)


def _copy(f: Function, source: Value, step: Value, target: Value, stride: Value, type: Type, count: Value) -> None:
    """So many elements from places at one distance to places at another."""

    def one(j: Value) -> Sequence[Value]:
        f.store(f.load(f.beyond(source, j * step).text, type.stored), f.beyond(target, j * stride).text)
        return []

    f.loop(count, 1, one)
