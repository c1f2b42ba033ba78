"""Reductions as vector code: from how elements are put together (`ops.categories.Fold`) to loops.

The tree by which elements are put together depends on the shape alone. The elements of a run are divided into blocks; in
a block, element i goes into accumulator i mod 64, in order; accumulators are put together in halves, and so are the
blocks, by 16 accumulators, or 8 where numbers take more than 4 bytes. Vectors of any width give the same bits, and so do
threads, which take whole blocks. Short blocks are taken side by side: vectors hold the same accumulator of several. Where
the elements that are put together lie apart and their neighbours belong to other results, each result has one accumulator
in a block of rows, and vectors hold neighbours.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lucid.codegen.bodies import (
    NARROW,
    NotGeneratedError,
    is_base,
    is_base_of_complex,
    type_in_memory,
    type_of,
    write_body,
)
from lucid.codegen.functions import FUNCTIONS
from lucid.codegen.functions.complexes import Complex, joined, load, parts, store
from lucid.codegen.vectors import COUNT, POINTER, Function, Type, Value
from lucid.core.errors import ElementTypeError
from lucid.ops.categories import Fold
from lucid.ops.expressions import Body, Expression, Operand, read

ACCUMULATORS = 64
_AHEAD = 4  # rows
BESIDE = 8  # blocks of a few columns that are folded at once, since each waits for its own sums
_FEW = 4  # columns for which short vectors do
BLOCK = 4096  # elements of a row that are put together, at most
_I64, _I32, _F32 = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float32)


FUNCTIONS_OF_A_FOLD = ("run", "merge", "columns", "merge_columns", "beside", "narrow")  # the last where it pays


class FoldPlan:
    """A fold over elements of a type, with the types of its states.

    With two operands, the second one of a reduction is a number for each result. Those of scans are all elements.
    Where places are carried along beside narrower elements, they are counted `within` a block in as many bits as these
    have, from 0: vectors then have twice as many places. `states` are what loops carry: for a complex number, two parts.
    """

    def __init__(
        self,
        fold: Fold,
        dtype: np.dtype[Any],
        result: np.dtype[Any],
        operands: int = 1,
        place: np.dtype[Any] = _I64,
    ) -> None:
        self.element = type_in_memory(dtype)
        self.result = type_in_memory(result)
        known = is_base_of_complex if dtype.kind == "c" else is_base
        self.has_number = operands > 1
        working = _F32 if dtype in NARROW else dtype
        self.lift = _bodies(fold.lift, [*[working] * operands, place], known)
        types = [b.dtype for b in self.lift]
        self.combine = _bodies(lambda *a: fold.combine(a[: len(types)], a[len(types) :]), [*types, *types], known)
        if [b.dtype for b in self.combine] != types:
            raise NotGeneratedError("a fold whose states change their types")
        (self.finish,) = _bodies(lambda *a: (fold.finish(*a),), types, known)
        self.unit = fold.unit(working)
        self.numbers = [type_in_memory(t) for t in types]  # of a state
        self.states = parts_of(self.numbers)
        self.lanes = 8 if max(t.part.bytes for t in (type_in_memory(working), *self.numbers)) > 4 else 16
        self.cost = 0.1 * sum(1 + len(b.steps) for b in (*self.lift, *self.combine))
        # Whether the processor has too much to do with an element to look far ahead by itself.
        self.is_dear = any(s.primitive.name in FUNCTIONS for b in (*self.lift, *self.combine) for s in b.steps)
        self.place = type_of(place)
        self.reads_place = any(reads(b, operands) for b in self.lift)
        # The parts of a state that are places.
        self.is_place = [isinstance(b.result, Operand) and b.result.place == operands for b in self.lift]
        is_narrow = any(self.is_place) and place == _I64 and working.itemsize <= 4
        self.within = FoldPlan(fold, dtype, result, operands, _I32) if is_narrow else self

    def lifted_numbers(self, f: Function, operands: Sequence[Any], place: Value) -> list[Any]:
        given = [f.convert(x, Type("float")) if _is_narrow(x) else x for x in operands]
        return [write_body(f, b, [*given, place], place.type.lanes) for b in self.lift]

    def lifted(self, f: Function, operands: Sequence[Any], place: Value) -> list[Value]:
        return parts(self.lifted_numbers(f, operands, place))

    def combined(self, f: Function, one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        given = joined([*one, *other], [*self.numbers, *self.numbers])
        return parts([write_body(f, b, given, one[0].type.lanes) for b in self.combine])

    def finished(self, f: Function, state: Sequence[Value]) -> Any:
        found = write_body(f, self.finish, joined(state, self.numbers), state[0].type.lanes)
        if isinstance(found, Complex):
            return found
        if found.type.of == "double" and self.result.of in NARROW.values():
            found = f.convert(
                found, Type("float")
            )  # for LLVM has no code of its own that rounds double precision to half
        return f.convert(found, self.result)

    def places_from(self, f: Function, first: Value | int, lanes: int) -> Value:
        """The places of so many elements, one after the other."""
        numbers = f.convert(f.places(lanes), self.place)
        return numbers + f.convert(f.constant(first, COUNT), self.place) if self.reads_place else numbers

    def after_block(self, f: Function, state: Sequence[Value], first: Value) -> list[Value]:
        """A state that was found `within` a block as one of all elements, of which the block has those from `first` on."""
        if self.within is self:
            return list(state)
        found = []
        for value, type, is_place in zip(state, self.states, self.is_place, strict=True):
            found.append(f.convert(value, type) + f.constant(first, type.wide(value.type.lanes)) if is_place else value)
        return found

    def units(self, f: Function, lanes: int) -> list[Value]:
        numbers = [
            (complex(u).real, complex(u).imag) if t.is_complex else (u,) for u, t in zip(self.unit, self.numbers)
        ]
        return [f.constant(u, t.wide(lanes)) for u, t in zip([u for n in numbers for u in n], self.states, strict=True)]


def parts_of(types: Sequence[Type]) -> list[Type]:
    """The types of the `parts` of numbers of these types."""
    return [part for t in types for part in ([t.part, t.part] if t.is_complex else [t])]


def _is_narrow(x: Any) -> bool:
    return isinstance(x, Value) and x.type.of in NARROW.values()


@lru_cache(maxsize=1024)
def fold_plan(fold: Fold, dtype: np.dtype[Any], result: np.dtype[Any]) -> FoldPlan:
    """The plan of a fold of numbers that are not complex, which programs ask for often."""
    type_of(dtype)
    return FoldPlan(fold, dtype, result)


def _bodies(function: Callable[..., Any], types: Sequence[np.dtype[Any]], known: Callable[[Any], bool]) -> list[Body]:
    """The bodies of the numbers of a state, in terms of functions that are `known`."""
    try:
        count = len(function(*[Expression.make(Operand(0), t, known) for t in types])) if types else 0
        return [read(lambda *a, k=k: function(*a)[k], types, {}, known) for k in range(count)]
    except ElementTypeError as error:  # complex numbers have no order
        raise NotGeneratedError(str(error)) from error


def reads(body: Body, place: int) -> bool:
    """Whether a body reads this operand."""
    read_by = (body.result, *[o for s in body.steps for o in s.operands])
    return any(isinstance(o, Operand) and o.place == place for o in read_by)


def _together(f: Function, plan: FoldPlan, accumulators: list[list[Value]]) -> list[Value]:
    """One state of all places of all accumulators: by halves."""
    while len(accumulators) > 1:
        half = len(accumulators) // 2
        accumulators = [plan.combined(f, a, b) for a, b in zip(accumulators[:half], accumulators[half:])]
    state = accumulators[0]
    while state[0].type.lanes > 1:
        pairs = [f.halves(v) for v in state]
        state = plan.combined(f, [a for a, _ in pairs], [b for _, b in pairs])
    return state


def _fold_run(
    f: Function,
    plan: FoldPlan,
    count: Value,
    load: Callable[[Value, int], list[Value]],
    tail: Callable[[Value, int], list[Value]],
    accumulators: int = ACCUMULATORS,
) -> list[Value]:
    """The state of so many elements, or states: `load(i, offset)` gives a vector of states from element i + offset."""
    lanes = plan.lanes
    vectors = accumulators // lanes
    start = [v for _ in range(vectors) for v in plan.units(f, lanes)]
    width = len(plan.states)

    def grouped(values: Sequence[Value]) -> list[list[Value]]:
        return [list(values[k : k + width]) for k in range(0, len(values), width)]

    def whole(i: Value, *values: Value) -> Sequence[Value]:
        found = [plan.combined(f, acc, load(i, k * lanes)) for k, acc in enumerate(grouped(values))]
        return [v for state in found for v in state]

    rounded = count & -accumulators
    values = f.loop(rounded, accumulators, whole, start)

    def rest(i: Value, *values: Value) -> Sequence[Value]:
        """What is left, with the places behind the last one as they are."""
        left = f.spread(f.convert(count - i, Type("i32")), lanes)  # fewer than there are accumulators
        out: list[Value] = []
        for k, acc in enumerate(grouped(values)):
            there = (f.small_places(lanes) + (k * lanes)) < left
            new = plan.combined(f, acc, tail(i, k * lanes))
            out += [f.select(there, n, a) for n, a in zip(new, acc)]
        return out

    return _together(f, plan, grouped(f.loop(count, accumulators, rest, values, start=rounded)))


def spaced(f: Function, base: Value, stride: Value, type: Type, buffer: Value, first: Value, count: Value) -> None:
    """Copy so many elements that lie apart into a buffer."""

    def one(j: Value) -> Sequence[Value]:
        value = f.load(f.beyond(base, (first + j) * stride).text, type.stored, type.part.bytes)
        f.store(value, f.beyond(buffer, j * type.bytes).text, type.part.bytes)
        return []

    f.loop(count, 1, one)


def run(plan: FoldPlan, name: str) -> Function:
    """`name(states, x, stride, count, place, rows, step, given)`: the states of so many rows, which go to `states[k]`.

    Rows begin `step` bytes apart, and have at most BLOCK elements each, `stride` bytes apart. If folds need a number for
    each row, these are given.
    """
    parameters = [("states", "ptr"), ("x", "ptr"), ("stride", "i64"), ("count", "i64"), ("place", "i64")]
    f = Function(name, [*parameters, ("rows", "i64"), ("step", "i64"), ("given", "ptr")])
    x, stride, count, place = [f.argument(n) for n, _ in parameters[1:]]
    within, lanes, element = plan.within, plan.within.lanes, plan.element
    size = element.bytes
    targets = [f.entry("states", k, POINTER) for k in range(len(plan.states))]
    together = f.room(BLOCK, element)  # elements that lie apart
    end = f.room(2 * lanes, element)  # the last elements, as many as a vector holds, and behind them nothing
    f.clear(end, 2 * lanes * size)
    is_dense, is_short = stride.equals(size), count < lanes
    start = f.constant(0, COUNT) if within is not plan else place

    def row(r: Value) -> Sequence[Value]:
        first = f.beyond(x, r * f.argument("step"))
        spaced(f, first, stride, element, together, f.constant(0, COUNT), f.select(is_dense, 0, count))
        base = f.select(is_dense, first, together)
        given = [f.load(f.beyond(f.argument("given"), r * size).text, element)] if plan.has_number else []
        numbers = [f.spread(v, lanes) for v in given]

        def state_of(at: Value, i: Value, offset: int) -> list[Value]:
            vector = load(f, at.text, element.wide(lanes))
            return within.lifted(f, [vector, *numbers], within.places_from(f, start + i + offset, lanes))

        def whole(i: Value, offset: int) -> list[Value]:
            return state_of(f.beyond(base, (i + offset) * size), i, offset)

        def tail(i: Value, offset: int) -> list[Value]:
            if offset == 0:
                of_short = f.beyond(end, (lanes - count) * size)
                one = f.constant(size, COUNT)
                spaced(f, base, one, element, of_short, f.constant(0, COUNT), f.select(is_short, count, 0))
                last = f.select(is_short, end, f.beyond(base, (count - lanes) * size))
                f.store(f.load(last.text, element.stored.wide(lanes), element.part.bytes), end.text)
            left = count - i - offset
            behind = f.beyond(end, (lanes - f.maximum(left, 0)) * size)
            return state_of(f.select(left >= lanes, f.beyond(base, (i + offset) * size), behind), i, offset)

        state = plan.after_block(f, _fold_run(f, within, count, whole, tail), place)
        for value, target, type in zip(state, targets, plan.states):
            f.store(value, f.beyond(target, r * type.bytes).text)
        return []

    f.loop(f.argument("rows"), 1, row)
    f.effect("ret void")
    return f


def beside(plan: FoldPlan, name: str) -> Function:
    """As `run`, of at least as many rows as a vector has places, each of at most ACCUMULATORS elements.

    Vectors hold one element of rows side by side, and the last ones overlap those before them. Each element has an
    accumulator of its own; those without are left out, since they would change nothing.
    """
    parameters = [("states", "ptr"), ("x", "ptr"), ("stride", "i64"), ("count", "i64"), ("place", "i64")]
    f = Function(name, [*parameters, ("rows", "i64"), ("step", "i64"), ("given", "ptr")])
    x, stride, count, place = [f.argument(n) for n, _ in parameters[1:]]
    rows, step = f.argument("rows"), f.argument("step")
    within, lanes, size = plan.within, plan.within.lanes, plan.element.bytes
    targets = [f.entry("states", k, POINTER) for k in range(len(plan.states))]
    accumulators = [f.room(ACCUMULATORS * lanes, t) for t in within.states]
    start = f.constant(0, COUNT) if within is not plan else place
    wide = plan.element.wide(lanes)
    chunk = 1 if wide.is_complex else min(16 // size, lanes)  # elements that one load of each row gets

    def accumulator(i: Value) -> list[tuple[Value, Type]]:
        return [(f.beyond(a, i * (lanes * t.bytes)), t.wide(lanes)) for a, t in zip(accumulators, within.states)]

    def put(i: Value, state: Sequence[Value]) -> None:
        for value, (at, _) in zip(state, accumulator(i), strict=True):
            f.store(value, at.text)

    def state(i: Value) -> list[Value]:
        return [f.load(at.text, t) for at, t in accumulator(i)]

    def some(r: Value) -> Sequence[Value]:
        first = f.minimum(r, rows - lanes)
        base = f.beyond(x, first * step)
        given = [f.load(f.beyond(f.argument("given"), first * size).text, wide)] if plan.has_number else []

        def lift(i: Value, vector: Any) -> None:
            places = f.spread(f.convert(start + i, within.place), lanes)
            put(i, within.combined(f, within.units(f, lanes), within.lifted(f, [vector, *given], places)))

        def chunks(i: Value) -> Sequence[Value]:
            at = f.minimum(i, count - chunk)
            for k, vector in enumerate(_transposed(f, f.beyond(base, at * size), step, wide, chunk)):
                lift(at + k, vector)
            return []

        def one(i: Value) -> Sequence[Value]:
            lift(i, _picked(f, f.beyond(base, i * stride), step, wide))
            return []

        whole = f.constant(0, COUNT)
        if chunk > 1:
            whole = f.select(stride.equals(size) & (count >= chunk), count, 0)
            f.loop(whole, chunk, chunks)
        f.loop(count, 1, one, start=whole)

        def halved(level: Value) -> Sequence[Value]:
            half = f.constant(ACCUMULATORS // 2, COUNT) >> level

            def pair(j: Value) -> Sequence[Value]:
                put(j, within.combined(f, state(j), state(j + half)))
                return []

            f.loop(f.minimum(half, count - half), 1, pair)
            return []

        f.loop(f.constant(ACCUMULATORS.bit_length() - 1, COUNT), 1, halved)
        found = plan.after_block(f, state(f.constant(0, COUNT)), place)
        for value, target, type in zip(found, targets, plan.states):
            f.store(value, f.beyond(target, first * type.bytes).text)
        return []

    f.loop(rows, lanes, some)
    f.effect("ret void")
    return f


def _transposed(f: Function, base: Value, step: Value, wide: Type, chunk: int) -> list[Value]:
    """The first `chunk` elements of rows that are `step` bytes apart: a vector for each, with the rows side by side."""
    stored = wide.stored.wide(chunk)
    rows = [f.load(f.beyond(base, step * k).text, stored, wide.bytes) for k in range(wide.lanes)]
    parts = []  # every chunk-th row, so that what is interleaved below comes in the order of rows
    for q in range(chunk):
        pieces = rows[q::chunk]
        while len(pieces) > 1:
            pieces = [f.joined(a, b) for a, b in zip(pieces[::2], pieces[1::2])]
        parts.append(pieces[0])
    half, groups = chunk // 2, range(0, wide.lanes, chunk)
    masks = [
        [k + j + part * half + other * wide.lanes for k in groups for j in range(half) for other in (0, 1)]
        for part in (0, 1)
    ]
    for _ in range(half.bit_length()):
        parts = [f.shuffled(a, b, mask) for a, b in zip(parts[:half], parts[half:]) for mask in masks]
    return [_as_numbers(f, p, wide) for p in parts]


def _picked(f: Function, base: Value, step: Value, wide: Type) -> Any:
    """One element of each of some rows that are `step` bytes apart."""
    part = wide.part
    found = []
    for offset in range(0, wide.bytes, part.bytes):
        stored = part.stored
        scalars = [f.load(f.beyond(base, step * k + offset).text, stored, part.bytes) for k in range(wide.lanes)]
        found.append(_as_numbers(f, f.gathered(scalars), part))
    return Complex(*found) if wide.is_complex else found[0]


def _as_numbers(f: Function, bits: Value, type: Type) -> Value:
    """Numbers of a type from the bytes that they take."""
    if type.of == "i1":
        return bits.differs(0)
    return f.from_bits(bits, type.of) if type.is_float else Value(f, bits.text, type)


def merge(plan: FoldPlan, name: str) -> Function:
    """`name(out, states, count)`: the result of the states of so many blocks, which follow each other in `states[k]`."""
    f = Function(name, [("out", "ptr"), ("states", "ptr"), ("count", "i64")])
    count = f.argument("count")
    bases = [f.entry("states", k, POINTER) for k in range(len(plan.states))]
    one, many, done = f.fresh("one"), f.fresh("many"), f.fresh("stored")
    f.branch(count.equals(1), one, many)
    f.begin(one)
    only = [f.load(b.text, t) for b, t in zip(bases, plan.states)]
    store(f, plan.finished(f, only), "%out")
    f.jump(done)
    f.begin(many)

    def some(i: Value, offset: int) -> list[Value]:
        return [
            f.load(f.beyond(b, (i + offset) * t.bytes).text, t.wide(plan.lanes)) for b, t in zip(bases, plan.states)
        ]

    state = _fold_run(f, plan, count, some, some, plan.lanes)  # there is room behind the last state
    store(f, plan.finished(f, state), "%out")
    f.jump(done)
    f.begin(done)
    f.effect("ret void")
    return f


def columns(plan: FoldPlan, name: str) -> Function:
    """`name(states, x, stride, rows, count, place, reach, given)`: the states of columns, side by side, of rows apart.

    From x on, so many bytes can be read: vectors may hold what is behind a row. If folds need a number for each column,
    these are given.
    """
    parameters = [("states", "ptr"), ("x", "ptr")]
    parameters += [(n, "i64") for n in ("stride", "rows", "count", "place", "reach")]
    f = Function(name, [*parameters, ("given", "ptr")])
    x, stride, rows, count, place, reach = [f.argument(n) for n, _ in parameters[1:]]
    within, lanes, size = plan.within, plan.within.lanes, plan.element.bytes
    first = f.constant(0, COUNT) if within is not plan else place
    buffer = f.room(lanes, plan.element)
    f.store(f.constant(0, Type(f"i{8 * size}", lanes)), buffer.text)
    targets = [f.entry("states", k, POINTER) for k in range(len(plan.states))]
    is_narrow = count < lanes
    given = []
    if plan.has_number:
        few = f.room(lanes, plan.element)
        f.store(f.constant(0, Type(f"i{8 * size}", lanes)), few.text)
        one, zero = f.constant(size, COUNT), f.constant(0, COUNT)
        spaced(f, f.argument("given"), one, plan.element, few, zero, f.select(is_narrow, count, 0))
        given = [f.select(is_narrow, few, f.argument("given"))]

    def tiles(i: Value, width: int) -> Sequence[Value]:
        """So many vectors of columns at once; the last ones overlap those before them."""
        last = f.select(is_narrow, 0, count - lanes)
        starts = [f.minimum(i + k * lanes, last) for k in range(width)]
        wide = plan.element.wide(lanes)
        numbers = [[f.load(f.beyond(g, start * size).text, wide) for g in given] for start in starts]

        def row(r: Value, *values: Value) -> Sequence[Value]:
            at = f.beyond(x, r * stride)
            source = at
            if width == 1:  # the last columns, if they are fewer than a vector has places, are copied
                is_last = is_narrow & (r * stride + lanes * size > reach)
                one, zero = f.constant(size, COUNT), f.constant(0, COUNT)
                spaced(f, at, one, plan.element, buffer, zero, f.select(is_last, count, 0))
                source = f.select(is_last, buffer, at)
            places = f.spread(f.convert(first + r, within.place), lanes)
            out: list[Value] = []
            for k, start in enumerate(starts):
                if plan.is_dear and width > 1:
                    f.prefetch(f.beyond(at, stride * _AHEAD + start * size))
                vector = load(f, f.beyond(source, start * size).text, wide)
                n = len(plan.states)
                lifted = within.lifted(f, [vector, *numbers[k]], places)
                out += within.combined(f, values[k * n : k * n + n], lifted)
            return out

        found = f.loop(rows, 1, row, [v for _ in range(width) for v in within.units(f, lanes)])
        for k, start in enumerate(starts):
            n = len(plan.states)
            state = plan.after_block(f, found[k * n : k * n + n], place)
            for value, target, t in zip(state, targets, plan.states):
                f.store(value, f.beyond(target, start * t.bytes).text)
        return []

    wide = f.select(is_narrow, f.constant(0, COUNT), count - (count.rest(4 * lanes)))
    f.loop(wide, 4 * lanes, lambda i: tiles(i, 4))
    f.loop(count, lanes, lambda i: tiles(i, 1), start=wide)
    f.effect("ret void")
    return f


def narrow(plan: FoldPlan, name: str) -> Function:
    """`name(states, x, stride, rows, count, place, apart)`: the states of `BESIDE` blocks of fewer columns than a vector has.

    Each block has so many rows, and its states lie `apart` elements from those of the one before it.
    """
    parameters = [("states", "ptr"), ("x", "ptr")]
    parameters += [(n, "i64") for n in ("stride", "rows", "count", "place", "apart")]
    f = Function(name, parameters)
    x, stride, rows, count, place, apart = [f.argument(n) for n, _ in parameters[1:]]
    within, n = plan.within, len(plan.states)
    first = f.constant(0, COUNT) if within is not plan else place
    targets = [f.entry("states", k, POINTER) for k in range(n)]
    few, more, done = f.fresh("few"), f.fresh("more"), f.fresh("folded")
    f.branch(count <= _FEW, few, more)
    for label, lanes in ((few, _FEW), (more, within.lanes)):
        f.begin(label)

        def row(r: Value, *values: Value, lanes: int = lanes) -> Sequence[Value]:
            out: list[Value] = []
            for b in range(BESIDE):
                at = first + r + (rows * b if within is plan else 0)
                places = f.spread(f.convert(at, within.place), lanes)
                vector = load(f, f.beyond(x, (r + rows * b) * stride).text, plan.element.wide(lanes))
                out += within.combined(f, values[b * n : b * n + n], within.lifted(f, [vector], places))
            return out

        found = f.loop(rows, 1, row, [v for _ in range(BESIDE) for v in within.units(f, lanes)])
        for b in range(BESIDE):
            state = plan.after_block(f, found[b * n : b * n + n], place + rows * b)
            for value, target, t in zip(state, targets, plan.states):
                f.store(value, f.beyond(target, apart * (b * t.bytes)).text)
        f.jump(done)
    f.begin(done)
    f.effect("ret void")
    return f


def merge_columns(plan: FoldPlan, name: str) -> Function:
    """`name(out, states, rows, width, count)`: results of states of columns, each row of which is `width` elements long."""
    f = Function(name, [("out", "ptr"), ("states", "ptr"), ("rows", "i64"), ("width", "i64"), ("count", "i64")])
    rows, width, count = [f.argument(n) for n in ("rows", "width", "count")]
    bases = [f.entry("states", k, POINTER) for k in range(len(plan.states))]
    lanes = plan.lanes
    buffer = f.room(lanes, plan.result)

    def some(r: Value, i: Value) -> list[Value]:
        return [f.load(f.beyond(b, (r * width + i) * t.bytes).text, t.wide(lanes)) for b, t in zip(bases, plan.states)]

    def finished(i: Value) -> Any:
        first = some(f.constant(0, COUNT), i)
        state = f.loop(rows, 1, lambda r, *acc: plan.combined(f, acc, some(r, i)), first, start=1)
        return plan.finished(f, state)

    def whole(i: Value) -> Sequence[Value]:
        store(f, finished(i), f.beyond(f.argument("out"), i * plan.result.bytes).text)
        return []

    def rest(i: Value) -> Sequence[Value]:
        store(f, finished(i), buffer.text)
        out = f.beyond(f.argument("out"), i * plan.result.bytes)
        step = f.constant(plan.result.bytes, COUNT)
        spaced(f, buffer, step, plan.result, out, f.constant(0, COUNT), count - i)
        return []

    rounded = count & -lanes
    f.loop(rounded, lanes, whole)
    f.loop(count, lanes, rest, start=rounded)
    f.effect("ret void")
    return f
