"""Scans as vector code: from how elements are put together (`ops.categories.Fold`) to loops.

The elements along the dimension of a scan are put together one by one, in order: what comes out depends on nothing else.
Vectors hold elements of different scans. Where neighbours in memory belong to different scans, they are read as they
are. Where they follow each other in one scan, squares of elements are transposed in registers, if there are so many and their
functions take so long that this pays; otherwise a few scans take turns, so that none waits for its own sum.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.codegen.bodies import write_body
from lucid.codegen.folds import FoldPlan, parts_of, reads
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.functions.complexes import joined, load, parts, store
from lucid.codegen.vectors import COUNT, POINTER, Function, Value
from lucid.ops.categories import Fold

_STRIP = 64  # elements that are fetched together
_LINE = 64  # bytes of a line of the cache
_IN_TURNS = 4  # scans; a sum takes as many cycles
_LONG = 64  # elements of products


class ScanPlan(FoldPlan):
    """A scan of operands of a type, with the types of those parts of its states on which results depend."""

    def __init__(self, fold: Fold, operands: int, dtype: np.dtype[Any], result: np.dtype[Any]) -> None:
        super().__init__(fold, dtype, result, operands)
        self.operands = operands
        self.types = [*[self.element] * operands, self.result]
        self.carried = self._carried()
        self.carried_types = parts_of([self.numbers[k] for k in self.carried])
        steps = [s for b in (*self.lift, *[self.combine[k] for k in self.carried], self.finish) for s in b.steps]
        is_dear = any(s.primitive.name in FUNCTIONS for s in steps)
        # Products of many numbers are soon too small to be normal, and processors take a hundred times as long for these.
        is_product = any(s.primitive.name == "mul" for s in steps)
        # One by one, choices between floats are jumps that nobody foresees, but that products are hardly ever too small.
        chooses = self.element.is_float and any(s.primitive.name == "where" for s in steps) and not is_product
        is_narrow = self.element.of in ("half", "bfloat")  # which are converted by many steps
        # Scans of fewer elements than this take turns, any number of them.
        self.in_turns = _LONG if is_product else sys.maxsize
        if is_dear or chooses or is_narrow:
            self.in_turns = 0
        if self.element.is_complex:
            self.in_turns = sys.maxsize
        if self.element.bytes < 8 and all(t.of == "double" for t in self.carried_types):
            self.lanes = 16  # two vectors of states, so that none waits for its own product
        self.cost = 0.4 + 0.1 * sum(12 if s.primitive.name in FUNCTIONS else 1 for s in steps)

    def _carried(self) -> list[int]:
        """The parts of a state that the result reads, and those that the next ones of these read."""
        count = len(self.numbers)
        wanted = [k for k in range(count) if reads(self.finish, k)]
        for k in wanted:
            wanted += [j for j in range(count) if j not in wanted and reads(self.combine[k], j)]
        return sorted(wanted)

    def started(self, f: Function, operands: Sequence[Value], place: Value) -> list[Value]:
        """What is carried on from a first element."""
        lifted = self.lifted_numbers(f, operands, place)
        return parts([lifted[k] for k in self.carried])

    def advanced(self, f: Function, state: Sequence[Value], operands: Sequence[Value], place: Value) -> list[Value]:
        """What is carried on from one more element."""
        whole = self._whole(f, state)
        given = [*whole, *self.lifted_numbers(f, operands, place)]
        return parts([write_body(f, self.combine[k], given, state[0].type.lanes) for k in self.carried])

    def result_of(self, f: Function, state: Sequence[Value]) -> Any:
        return self.finished(f, parts(self._whole(f, state)))

    def _whole(self, f: Function, state: Sequence[Value]) -> list[Any]:
        """A state with anything where nobody reads it."""
        found = joined([f.constant(0, t.wide(state[0].type.lanes)) for t in self.states], self.numbers)
        for k, value in zip(self.carried, joined(state, [self.numbers[k] for k in self.carried]), strict=True):
            found[k] = value
        return found


def transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of numbers: in each step, blocks beside the diagonal change places."""
    found, n = list(rows), len(rows)
    step = 1
    while step < n:
        for i in range(n):
            if i & step:
                continue
            one, other = found[i], found[i + step]
            upper = [n + j - step if j & step else j for j in range(n)]
            lower = [n + j if j & step else j + step for j in range(n)]
            found[i], found[i + step] = f.shuffled(one, other, upper), f.shuffled(one, other, lower)
        step *= 2
    return found


def line(plan: ScanPlan, name: str) -> Function:
    """`name(data, strides, count)`: one scan of elements that lie at any distance from each other."""
    f = Function(name, [("data", "ptr"), ("strides", "ptr"), ("count", "i64")])
    _scan_in_turns(f, plan, [[f.entry("data", k, POINTER) for k in range(len(plan.types))]])
    f.effect("ret void")
    return f


def _scan_in_turns(f: Function, plan: ScanPlan, scans: Sequence[Sequence[Value]]) -> None:
    """Scans that begin at these places, in each an element at a time."""
    strides = [f.entry("strides", k, COUNT) for k in range(len(plan.types))]
    width = len(plan.carried_types)

    def at(bases: Sequence[Value], k: int, i: Value | int) -> str:
        return f.beyond(bases[k], f.constant(i, COUNT) * strides[k]).text

    def elements(bases: Sequence[Value], i: Value | int) -> list[Any]:
        return [load(f, at(bases, k, i), plan.element) for k in range(plan.operands)]

    def put(states: Sequence[Sequence[Value]], i: Value | int) -> None:
        for bases, state in zip(scans, states, strict=True):
            store(f, plan.result_of(f, state), at(bases, -1, i))

    def step(i: Value, *flat: Value) -> Sequence[Value]:
        states = [flat[j * width : (j + 1) * width] for j in range(len(scans))]
        after = [plan.advanced(f, s, elements(bases, i), i) for bases, s in zip(scans, states, strict=True)]
        put(after, i)
        return [value for s in after for value in s]

    start = [plan.started(f, elements(bases, 0), f.constant(0, COUNT)) for bases in scans]
    put(start, 0)
    f.loop(f.argument("count"), 1, step, [value for s in start for value in s], start=1)


def columns(plan: ScanPlan, name: str) -> Function:
    """`name(data, strides, count, width, states, place)`: scans side by side, for elements from `place` on.

    There are at least as many scans as a vector has places. What they carry on is in `states[k]`, with room for as many
    numbers, rounded up to whole vectors. The last vector overlaps the one before, and has states of its own.
    """
    parameters = [
        ("data", "ptr"),
        ("strides", "ptr"),
        ("count", "i64"),
        ("width", "i64"),
        ("states", "ptr"),
        ("place", "i64"),
    ]
    f = Function(name, parameters)
    lanes = plan.lanes
    bases = [f.entry("data", k, POINTER) for k in range(len(plan.types))]
    strides = [f.entry("strides", k, COUNT) for k in range(len(plan.types))]
    memory = [f.entry("states", k, POINTER) for k in range(len(plan.carried_types))]
    count, width, place = [f.argument(n) for n in ("count", "width", "place")]
    last = width - lanes

    def tile(i: Value) -> Sequence[Value]:
        column = f.minimum(i, last)
        sources = [f.beyond(b, column * t.bytes) for b, t in zip(bases, plan.types, strict=True)]
        rooms = [f.beyond(m, i * t.bytes).text for m, t in zip(memory, plan.carried_types, strict=True)]
        known = [f.load(r, t.wide(lanes)) for r, t in zip(rooms, plan.carried_types, strict=True)]

        def at(k: int, r: Value) -> str:
            return f.beyond(sources[k], r * strides[k]).text

        def elements(r: Value) -> list[Any]:
            return [load(f, at(k, r), plan.element.wide(lanes)) for k in range(plan.operands)]

        def put(result: Any, r: Value) -> None:
            store(f, result, at(-1, r))

        state = _scanned(f, plan, count, place, elements, put, known)
        for room, value in zip(rooms, state, strict=True):
            f.store(value, room)
        return []

    f.loop(width, lanes, tile)
    f.effect("ret void")
    return f


def _scanned(
    f: Function,
    plan: ScanPlan,
    count: Value,
    place: Value,
    elements: Callable[[Value], list[Any]],
    put: Callable[[Any, Value], None],
    known: Sequence[Value],
) -> list[Value]:
    """Go on with so many elements, the first of which may be the very first, with which a scan begins."""
    zero = f.constant(0, COUNT)
    is_first = place.equals(0)
    begun = plan.started(f, elements(zero), f.spread(place, plan.lanes))
    state = [f.select(is_first, b, k) for b, k in zip(begun, known, strict=True)]
    put(plan.result_of(f, state), zero)  # unless it is the very first, the loop writes there again

    def step(i: Value, *state: Value) -> Sequence[Value]:
        after = plan.advanced(f, state, elements(i), f.spread(place + i, plan.lanes))
        put(plan.result_of(f, after), i)
        return after

    return f.loop(count, 1, step, state, start=f.select(is_first, f.constant(1, COUNT), 0))


def rows(plan: ScanPlan, name: str) -> Function:
    """`name(data, strides, steps, rows, count)`: as many scans as a vector has places, or fewer; any number of short ones.

    `strides` lead from element to element of a scan, and `steps` from one scan to the next.
    """
    parameters = [("data", "ptr"), ("strides", "ptr"), ("steps", "ptr"), ("rows", "i64"), ("count", "i64")]
    f = Function(name, parameters)
    if not plan.in_turns:
        return _rows_by_squares(f, plan)
    if plan.in_turns == sys.maxsize:
        return _rows_in_turns(f, plan)
    short, long = f.fresh("short"), f.fresh("long")
    f.branch(f.argument("count") < plan.in_turns, short, long)
    f.begin(short)
    _rows_in_turns(f, plan)
    f.begin(long)
    return _rows_by_squares(f, plan)


def _rows_by_squares(f: Function, plan: ScanPlan) -> Function:
    squares = [_Square(f, plan, k) for k in range(len(plan.types))]
    count = f.argument("count")
    start = [f.constant(0, t.wide(plan.lanes)) for t in plan.carried_types]

    def block(done: Value, *state: Value) -> Sequence[Value]:
        rest = count - done
        chunk = f.minimum(rest, plan.lanes)
        is_whole = rest >= plan.lanes
        for square in squares:
            square.move_to(done, is_whole)
        is_next = (done & (_STRIP - 1)).equals(0)
        for square in squares:
            square.prefetch(f.select(is_next, f.argument("rows"), 0))
        for square in squares[:-1]:
            square.read(chunk)

        def elements(i: Value) -> list[Value]:
            return [s.column(i) for s in squares[:-1]]

        after = _scanned(f, plan, chunk, done, elements, squares[-1].put, state)
        squares[-1].write(chunk)
        return after

    f.loop(count, plan.lanes, block, start)
    f.effect("ret void")
    return f


def _rows_in_turns(f: Function, plan: ScanPlan) -> Function:
    bases = [f.entry("data", k, POINTER) for k in range(len(plan.types))]
    steps = [f.entry("steps", k, COUNT) for k in range(len(plan.types))]
    last = f.argument("rows") - 1

    def some(first: Value) -> Sequence[Value]:
        # In the place of scans that are not there, the last one is done again.
        at = [f.minimum(first + j, last) for j in range(_IN_TURNS)]
        _scan_in_turns(f, plan, [[f.beyond(b, r * s) for b, s in zip(bases, steps, strict=True)] for r in at])
        return []

    f.loop(f.argument("rows"), _IN_TURNS, some)
    f.effect("ret void")
    return f


class _Square:
    """As many elements of as many scans as a vector has places, in a buffer in which those of one place are vectors.

    Where the elements of a scan lie side by side, forwards or backwards, they are read and written in place.
    """

    def __init__(self, f: Function, plan: ScanPlan, k: int) -> None:
        self.f = f
        self.type = plan.types[k]
        self.lanes = plan.lanes
        self.base = f.entry("data", k, POINTER)
        self.stride = f.entry("strides", k, COUNT)
        step = f.entry("steps", k, COUNT)
        self.buffer = f.room(self.lanes * self.lanes, self.type)
        self.rows = f.argument("rows")
        last = self.rows - 1
        # Vectors have places for scans that are not there: the last one is computed again in these.
        self.offsets = [f.minimum(f.constant(r, COUNT), last) * step for r in range(self.lanes)]
        self.step, self.last = step, last
        self.is_forward = self.stride.equals(self.type.bytes)
        self.is_backward = self.stride.equals(-self.type.bytes)

    def move_to(self, first: Value, is_whole: Value) -> None:
        """Go on at this element of all scans."""
        f, size = self.f, self.type.bytes * self.lanes
        self.source = f.beyond(self.base, first * self.stride)
        self.is_direct = is_whole & (self.is_forward | self.is_backward)
        turned = is_whole & self.is_backward
        self.first = f.select(turned, f.constant((self.lanes - 1) * size, COUNT), 0)
        self.next = f.select(turned, f.constant(-size, COUNT), size)
        back = f.select(turned, f.constant((1 - self.lanes) * self.type.bytes, COUNT), 0)
        self.lowest = f.beyond(self.source, back)

    def prefetch(self, rows: Value) -> None:
        """Bring what these scans need next nearer, one after the other: processors do not foresee so many at once."""
        f = self.f
        ahead = f.beyond(self.source, self.stride * _STRIP)
        onwards = f.select(self.is_backward, f.constant(-_LINE, COUNT), _LINE)

        def of_row(r: Value) -> Sequence[Value]:
            at = f.beyond(ahead, r * self.step)
            for _ in range(_STRIP * self.type.bytes // _LINE):
                f.prefetch(at)
                at = f.beyond(at, onwards)
            return []

        f.loop(f.select(self.is_direct, rows, 0), 1, of_row)

    def _place(self, i: Value) -> str:
        return self.f.beyond(self.buffer, self.first + i * self.next).text

    def column(self, i: Value) -> Value:
        return self.f.load(self._place(i), self.type.wide(self.lanes))

    def put(self, value: Value, i: Value) -> None:
        self.f.store(value, self._place(i))

    def read(self, count: Value) -> None:
        f, wide = self.f, self.type.stored.wide(self.lanes)

        def square() -> None:
            lines = [f.load(f.beyond(self.lowest, o).text, wide) for o in self.offsets]
            for k, column in enumerate(transposed(f, lines)):
                f.store(column, f.beyond(self.buffer, k * self.lanes * self.type.bytes).text)

        def one(outside: Value, inside: str) -> None:
            f.store(f.load(outside.text, self.type.stored), inside)

        self._either(square, lambda: self._singly(self.lanes, count, one))

    def write(self, count: Value) -> None:
        f, wide = self.f, self.type.stored.wide(self.lanes)

        def square() -> None:
            size = self.lanes * self.type.bytes
            columns = [f.load(f.beyond(self.buffer, k * size).text, wide) for k in range(self.lanes)]
            for line, o in zip(transposed(f, columns), self.offsets, strict=True):
                f.store(line, f.beyond(self.lowest, o).text)

        def one(outside: Value, inside: str) -> None:
            f.store(f.load(inside, self.type.stored), outside.text)

        self._either(square, lambda: self._singly(self.rows, count, one))

    def _either(self, square: Callable[[], None], singly: Callable[[], None]) -> None:
        f = self.f
        direct, apart, done = f.fresh("direct"), f.fresh("apart"), f.fresh("moved")
        f.branch(self.is_direct, direct, apart)
        for block, move in ((direct, square), (apart, singly)):
            f.begin(block)
            move()
            f.jump(done)
        f.begin(done)

    def _singly(self, rows: Value | int, count: Value, move: Callable[[Value, str], None]) -> None:
        f, size = self.f, self.type.bytes

        def of_row(r: Value) -> Sequence[Value]:
            outside = f.beyond(self.source, f.minimum(r, self.last) * self.step)
            inside = f.beyond(self.buffer, r * size)

            def element(i: Value) -> Sequence[Value]:
                move(f.beyond(outside, i * self.stride), f.beyond(inside, i * (self.lanes * size)).text)
                return []

            f.loop(count, 1, element)
            return []

        f.loop(f.constant(rows, COUNT), 1, of_row)
