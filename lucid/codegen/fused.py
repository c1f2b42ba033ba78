"""Loops of compiled programs: chains of elementwise operations over one space of elements, and the folds that they feed.

Shapes and strides of a program are known, so they are numbers in the code. A function `name(data, begin, end)` takes
pointers to its arrays, and does a part of the work, so that threads can share it: some elements where the space is one
dimension, and otherwise some of the rows that the innermost dimension makes. What an element is computed to be does not
depend on where it stands: each operation is written by the plan of its own loop (`bodies.Plan`), and rounds as that does.

A fold reads the elements of a block from a small memory of its own, in which the operations before it have left them, and
then by the very functions of an uncompiled reduction (`folds`), so that its tree of sums is the same.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lucid.codegen import folds
from lucid.codegen.bodies import NARROW, type_in_memory
from lucid.codegen.folds import BLOCK, FoldPlan
from lucid.codegen.functions.complexes import Complex, load, store
from lucid.codegen.rows import RowPlan
from lucid.codegen.rows import rows as function_of_rows
from lucid.codegen.vectors import COUNT, POINTER, Function, Type, Value

_ROOM = 256  # elements that lie apart, and are brought together
ROWS = 64  # of columns that are folded, as in the launcher of reductions
COLUMNS = 128  # that are computed together for it


class Operation(NamedTuple):
    """One operation on elements: its plan, and what it is given: places in `Chain.reads`, results before it, numbers."""

    plan: Any
    operands: tuple[tuple[str, Any], ...]  # ("read", k), ("result", k) or ("number", value)


class Access(NamedTuple):
    """How an array lies along the dimensions of a space: its type, and the bytes between elements."""

    dtype: Any
    strides: tuple[int, ...]


class Chain(NamedTuple):
    """Operations over one space: what is read, computed and stored."""

    shape: tuple[int, ...]
    reads: tuple[Access, ...]
    operations: tuple[Operation, ...]
    writes: tuple[tuple[tuple[str, Any], Access], ...]  # what is stored, and where

    @property
    def lanes(self) -> int:
        """How many elements are computed at once: where there are few, so many that none are left over."""
        most, inner = self.most_lanes, self.shape[-1]
        types = [a.dtype for a in (*self.reads, *[a for _, a in self.writes])]
        if inner >= 8 * most or any(t in NARROW for t in types):
            return most
        is_complex = any(t.kind == "c" for t in types)
        for lanes in (16, 8, 4, 2) if is_complex else (16, 8, 4, 2, 1):
            if lanes <= most and inner % lanes == 0:
                return lanes if inner <= 16 * lanes else most
        return most

    @property
    def most_lanes(self) -> int:
        widths = [a.dtype.itemsize // (1 + (a.dtype.kind == "c")) for a in self.reads]
        widths += [a.dtype.itemsize // (1 + (a.dtype.kind == "c")) for _, a in self.writes]
        return min([8 if max(widths) > 4 else 16, *[o.plan.least_lanes for o in self.operations]])

    @property
    def cost(self) -> float:
        """Nanoseconds that an element takes, roughly."""
        return 0.05 * (len(self.reads) + len(self.writes)) + 0.04 * sum(o.plan.cost for o in self.operations)


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """A space with as few dimensions as possible: neighbours over which all arrays step alike are one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(own[-1] == s[d] * n for own, s in zip(steps, strides)):
            sizes[-1] *= n
            for own, s in zip(steps, strides):
                own[-1] = s[d]
            continue
        sizes.append(n)
        for own, s in zip(steps, strides):
            own.append(s[d])
    if not sizes:
        return (1,), [(0,) for _ in strides]
    return tuple(sizes), [tuple(s) for s in steps]


class _Writer:
    """Writes the elements of a chain, a segment of the innermost dimension at a time."""

    def __init__(self, f: Function, chain: Chain, exact: bool) -> None:
        self.f, self.chain, self.lanes = f, chain, chain.lanes
        self.exact = exact  # whether segments are whole vectors
        self.types = [type_in_memory(a.dtype) for a in chain.reads]
        self.out_types = [type_in_memory(a.dtype) for _, a in chain.writes]
        # What is one number for all elements of a segment, what lies side by side, and what lies apart.
        self.is_same = [a.strides[-1] == 0 for a in chain.reads]
        self.is_apart = [not one and a.strides[-1] != a.dtype.itemsize for one, a in zip(self.is_same, chain.reads)]
        is_many = chain.shape[-1] > 1
        self.out_apart = [is_many and a.strides[-1] != a.dtype.itemsize for _, a in chain.writes]
        needs_room = not exact
        self.rooms = [
            f.room(max(_ROOM, self.lanes), t) if apart or (needs_room and not one) else None
            for t, one, apart in zip(self.types, self.is_same, self.is_apart)
        ]
        self.out_rooms = [
            f.room(max(_ROOM, self.lanes), t) if apart or needs_room else None
            for t, apart in zip(self.out_types, self.out_apart)
        ]
        self.has_apart = any(self.is_apart) or any(self.out_apart)
        for room, t in zip(self.rooms, self.types):
            if room is not None:  # what is computed of places behind the last one does no harm
                f.clear(room, max(_ROOM, self.lanes) * t.bytes)

    def segment(self, sources: Sequence[Value], targets: Sequence[Value], count: Value) -> None:
        """So many elements, from the first ones of arrays on."""
        f, lanes = self.f, self.lanes
        uniform = [self._spread(s, t) if one else None for s, t, one in zip(sources, self.types, self.is_same)]
        if self.exact and not self.has_apart:
            self._vectors(sources, targets, uniform, count)
            return

        def block(done: Value) -> Sequence[Value]:
            rest = count - done
            is_whole = rest >= lanes
            whole = f.minimum(rest, _ROOM) if self.has_apart else rest
            chunk = f.select(is_whole, whole & -lanes, rest)
            rounded = f.select(is_whole, chunk, lanes)
            places = []
            for k, (source, type, access) in enumerate(zip(sources, self.types, self.chain.reads)):
                places.append(self._place(source, type, access.strides[-1], self.rooms[k], k, done, chunk, is_whole))
            outs = []
            for k, (target, (_, access)) in enumerate(zip(targets, self.chain.writes)):
                at = f.beyond(target, done * access.strides[-1])
                room = self.out_rooms[k]
                outs.append(at if room is None else room if self.out_apart[k] else f.select(is_whole, at, room))
            self._vectors(places, outs, uniform, rounded)
            for k, (target, type, (_, access)) in enumerate(zip(targets, self.out_types, self.chain.writes)):
                room = self.out_rooms[k]
                if room is not None:
                    at = f.beyond(target, done * access.strides[-1])
                    left = chunk if self.out_apart[k] else f.select(is_whole, 0, chunk)
                    _copy(f, room, type.bytes, at, access.strides[-1], type, left)
            return [done + chunk]

        f.loop(count, None, block)

    def _place(
        self,
        source: Value,
        type: Type,
        stride: int,
        room: Value | None,
        k: int,
        done: Value,
        chunk: Value,
        whole: Value,
    ) -> Value:
        """Where the elements of a read are side by side, brought together where they are not."""
        f = self.f
        at = f.beyond(source, done * stride)
        if room is None:
            return at
        _copy(f, at, stride, room, type.bytes, type, chunk if self.is_apart[k] else f.select(whole, 0, chunk))
        return room if self.is_apart[k] else f.select(whole, at, room)

    def _spread(self, source: Value, type: Type) -> Any:
        f, lanes = self.f, self.lanes
        if type.of == "bfloat":  # LLVM has no code for single ones
            bits = f.convert(f.load(source.text, Type("i16", 1, False)), Type("i32", 1, False)) << 16
            return f.spread(f.from_bits(bits, "float"), lanes)
        if not type.is_complex:
            return f.spread(f.load(source.text, type), lanes)
        part = type.part
        re, im = f.load(source.text, part), f.load(f.beyond(source, part.bytes).text, part)
        return Complex(f.spread(re, lanes), f.spread(im, lanes))

    def _vectors(self, places: Sequence[Value], outs: Sequence[Value], uniform: Sequence[Any], count: Value) -> None:
        f, lanes = self.f, self.lanes

        def vector(i: Value) -> Sequence[Value]:
            given = [
                load(f, f.beyond(p, i * t.bytes).text, t.wide(lanes)) if one is None else one
                for p, t, one in zip(places, self.types, uniform)
            ]
            found = self.values(given)
            for (what, _), out, type in zip(self.chain.writes, outs, self.out_types):
                value = self._chosen(what, given, found, type)
                value = f.convert(value, type) if isinstance(value, Value) else value
                store(f, value, f.beyond(out, i * type.bytes).text)
            return []

        f.loop(count, lanes, vector)

    def values(self, given: Sequence[Any]) -> list[Any]:
        """The results of all operations for a vector of elements."""
        found: list[Any] = []
        for operation in self.chain.operations:
            plan = operation.plan
            operands = [self._chosen(o, given, found, t) for o, t in zip(operation.operands, plan.types)]
            numbers = {n: self.f.constant(v, Type("double")) for n, v in plan.given.items()}
            found.append(plan.compute(self.f, operands, numbers, self.lanes))
        return found

    def _chosen(self, what: tuple[str, Any], given: Sequence[Any], found: Sequence[Any], type: Type) -> Any:
        kind, value = what
        if kind != "number":
            return (given if kind == "read" else found)[value]
        if type.is_complex:
            part = type.part.wide(self.lanes)
            return Complex(self.f.constant(value.real, part), self.f.constant(value.imag, part))
        working = Type("float") if type.of in NARROW.values() else type
        return self.f.constant(value, working.wide(self.lanes))


def rehearse(plan: Any) -> None:
    """Write an operation once, for nobody: NotGeneratedError where a step of it has no code."""
    f = Function("rehearsal", [("x", "ptr")])
    f.is_rehearsal = True
    numbers = {n: f.constant(v, Type("double")) for n, v in plan.given.items()}
    plan.compute(f, [load(f, "%x", t.wide(plan.lanes)) for t in plan.types], numbers)


def _copy(f: Function, source: Value, step: int, target: Value, stride: int, type: Type, count: Value) -> None:
    """So many elements from places at one distance to places at another."""

    def one(j: Value) -> Sequence[Value]:
        value = f.load(f.beyond(source, j * step).text, type.stored, type.part.bytes)
        f.store(value, f.beyond(target, j * stride).text, type.part.bytes)
        return []

    f.loop(count, 1, one)


def _offset(f: Function, row: Value, shape: Sequence[int], strides: Sequence[int]) -> Value:
    """Where a row begins: `shape` and `strides` of the dimensions outside of it."""
    found, rest = f.constant(0, COUNT), row
    for k in range(len(shape) - 1, -1, -1):
        index = rest.rest(shape[k]) if k else rest
        if strides[k]:
            found = found + index * strides[k]
        rest = rest.quotient(shape[k]) if k else rest
    return found


def is_exact(chain: Chain) -> bool:
    """Whether all segments are whole vectors."""
    return chain.shape[-1] % chain.lanes == 0


def loop(chain: Chain, name: str) -> Function:
    """`name(data, begin, end)`: some elements, or rows, of a chain. Parts of elements begin at whole vectors."""
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    begin, end = f.argument("begin"), f.argument("end")
    bases = [f.entry("data", k, POINTER) for k in range(len(chain.reads) + len(chain.writes))]
    w = _Writer(f, chain, is_exact(chain))
    accesses = [*chain.reads, *[a for _, a in chain.writes]]
    n = len(chain.reads)
    if len(chain.shape) == 1:
        starts = [f.beyond(b, begin * a.strides[0]) for b, a in zip(bases, accesses)]
        w.segment(starts[:n], starts[n:], end - begin)
    else:

        def row(r: Value) -> Sequence[Value]:
            starts = [f.beyond(b, _offset(f, r, chain.shape[:-1], a.strides[:-1])) for b, a in zip(bases, accesses)]
            w.segment(starts[:n], starts[n:], f.constant(chain.shape[-1], COUNT))
            return []

        f.loop(end, 1, row, start=begin)
    f.effect("ret void")
    return f


# --- rows -------------------------------------------------------------------------------------------


class Stack(NamedTuple):
    """Rows of arrays: the dimensions outside of a row, how operands and results lie along these and a row, its length."""

    plan: RowPlan
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # the last is that along the row
    length: int
    room: int  # bytes that a row needs beside its memory


def stack(rows: Stack, name: str) -> list[Function]:
    """`name(data, begin, end)`: some of the rows of a stack; and what it calls for each."""
    single = [k for k in range(len(rows.plan.operands)) if rows.strides[k][-1] == 0]
    inner = function_of_rows(rows.plan, f"{name}_row", single)
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    bases = [f.entry("data", k, POINTER) for k in range(len(rows.strides))]
    data, strides = f.room(len(bases), COUNT), f.room(2 * len(bases), COUNT)
    room = f.room(rows.room + 64, Type("i8"))
    for k, own in enumerate(rows.strides):
        f.store(f.constant(own[-1], COUNT), f.beyond(strides, 8 * k).text)
        f.store(f.constant(0, COUNT), f.beyond(strides, 8 * (len(bases) + k)).text)

    def row(r: Value) -> Sequence[Value]:
        for k, (base, own) in enumerate(zip(bases, rows.strides)):
            f.store(f.beyond(base, _offset(f, r, rows.shape, own[:-1])), f.beyond(data, 8 * k).text, 8)
        length, one = f.constant(rows.length, COUNT), f.constant(1, COUNT)
        _call(f, inner.name, data, strides, length, data, room, one)  # there are no numbers
        return []

    f.loop(f.argument("end"), 1, row, start=f.argument("begin"))
    f.effect("ret void")
    return [inner, f]


# --- loops of loops -----------------------------------------------------------------------------------


class Moving(NamedTuple):
    """An array of a step that is done again and again: its memory, that of every other time, and how far it moves on."""

    base: int
    other: int
    stride: int
    offset: int


class Repeat(NamedTuple):
    """Steps that are done again and again by one thread: functions, how many units each has, and its arrays."""

    times: int
    bases: int
    steps: tuple[tuple[str, int, tuple[Moving, ...]], ...]


def repeat(r: Repeat, name: str) -> Function:
    """`name(data, begin, end)`: all steps, so many times. `data` has the memory that they move in."""
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    bases = [f.entry("data", k, POINTER) for k in range(r.bases)]
    tables = [f.room(max(len(arrays), 1), COUNT) for _, _, arrays in r.steps]

    def once(t: Value, is_odd: bool) -> None:
        for table, (function, units, arrays) in zip(tables, r.steps):
            for k, (base, other, stride, offset) in enumerate(arrays):
                start = f.beyond(bases[other if is_odd else base], t * stride + offset)
                f.store(start, f.beyond(table, 8 * k).text, 8)
            _call(f, function, table, f.constant(0, COUNT), f.constant(units, COUNT))

    def twice(t: Value) -> Sequence[Value]:
        once(t, False)
        once(t + 1, True)
        return []

    f.loop(f.constant(r.times & ~1, COUNT), 2, twice)
    if r.times % 2:
        once(f.constant(r.times - 1, COUNT), False)
    f.effect("ret void")
    return f


# --- folds ------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """One of the folds of a chain: what is folded, how, and the type of its elements."""

    what: tuple[str, Any]
    plan: FoldPlan
    dtype: Any
    is_packed: bool = False  # whether a table in memory says where its functions are, as there is code of them


class Fold(NamedTuple):
    """A chain some of whose dimensions are folded: first come those that are kept, then those that are folded.

    Where a last one is kept too, its elements are columns, which are folded side by side. Each index of the first `apart`
    of the folded ones begins blocks of its own, as it does in reductions of memory in which others do not go on from it.
    """

    chain: Chain
    parts: tuple[Part, ...]
    kept: int  # dimensions
    folded: int
    apart: int = 0

    @property
    def has_columns(self) -> bool:
        return self.kept + self.folded < len(self.chain.shape)

    @property
    def results(self) -> int:
        """How many rows there are, or stacks of columns."""
        return math.prod(self.chain.shape[: self.kept])

    @property
    def length(self) -> int:
        """How many elements become one, for each index of the dimensions that are apart."""
        return math.prod(self.chain.shape[self.kept + self.apart : self.kept + self.folded])

    @property
    def leads(self) -> int:
        """How many indices these dimensions have."""
        return math.prod(self.chain.shape[self.kept : self.kept + self.apart])

    @property
    def blocks(self) -> int:
        """Into how many parts this length is divided."""
        return -(-self.length // (ROWS if self.has_columns else BLOCK))

    @property
    def is_open(self) -> bool:
        """Whether the code is for any length: there is one row, or one stack of columns, and calls say how long it is."""
        return self.results == 1 and not self.apart

    @property
    def is_exact(self) -> bool:
        """Whether all segments are whole vectors."""
        width = self.chain.shape[-1]
        if not self.has_columns and self.folded - self.apart == 1 and self.blocks > 1:
            width = self.length % BLOCK
        return width % self.chain.lanes == 0

    def extent(self, f: Function, place: int) -> tuple[Value, Value]:
        """The length, and how many blocks it has. Where calls say it, it is in the memory that has this place in `data`."""
        if not self.is_open:
            return f.constant(self.length, COUNT), f.constant(self.blocks, COUNT)
        size = ROWS if self.has_columns else BLOCK
        length = f.load(f.entry("data", place, POINTER).text, COUNT)
        return length, (length + (size - 1)).quotient(size)

    @property
    def pieces(self) -> tuple[int, int]:
        """How many pieces columns are divided into, and how far the states of one row of a piece lie apart."""
        width = self.chain.shape[-1]
        return -(-width // COLUMNS), min(-(-width // 16) * 16, COLUMNS)

    @property
    def in_place(self) -> int | None:
        """The array that is folded, if that is an array that lies side by side and nothing is computed."""
        kind, k = self.parts[0].what
        if kind != "read" or self.chain.operations or self.chain.writes or len(self.parts) > 1:
            return None
        if self.folded - self.apart > 1:
            return None
        access = self.chain.reads[k]
        return int(k) if access.strides[-1] == access.dtype.itemsize else None


def _call(f: Function, name: str, *arguments: Value) -> None:
    """Call a function by its name, or a pointer to it by the pointer's."""
    called = name if name.startswith("%") else f"@{name}"
    f.effect(f"call void {called}({', '.join(f'{a.type} {a.text}' for a in arguments)})")


class _Callees:
    """The functions that put elements together, for each part: those that follow, or those of tables, from a place on."""

    def __init__(self, f: Function, fold: Fold, name: str, place: int) -> None:
        self.f, self.name = f, name
        packed = [j for j, part in enumerate(fold.parts) if part.is_packed]
        self._tables = {j: f.entry("data", place + k, POINTER) for k, j in enumerate(packed)}

    def call(self, part: int, what: str, *arguments: Value) -> None:
        f, table = self.f, self._tables.get(part)
        if table is None:
            _call(f, f"{self.name}_{part}_{what}", *arguments)
            return
        at = f.beyond(table, 8 * folds.FUNCTIONS_OF_A_FOLD.index(what))
        _call(f, f.load(at.text, POINTER, 8).text, *arguments)


class _Folding:
    """What the functions of a fold share: its arrays, the states of its parts, and room for a block of elements."""

    def __init__(self, fold: Fold, name: str, room: int) -> None:
        f = self.f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
        self.fold, self.name = fold, name
        chain = fold.chain
        self.accesses = [*chain.reads, *[a for _, a in chain.writes]]
        n = len(self.accesses)
        states = [len(p.plan.states) for p in fold.parts]
        bases = [f.entry("data", k, POINTER) for k in range(n + sum(states))]
        self.bases, rest = bases[:n], bases[n:]
        self.states = [[rest.pop(0) for _ in range(count)] for count in states]
        self.length, self.blocks = fold.extent(f, len(bases))
        self.callees = _Callees(f, fold, name, len(bases) + fold.is_open)
        self.table = f.room(max(states), COUNT)
        self.plain = fold.in_place
        if self.plain is None:
            self.rooms = [f.room(room, type_in_memory(p.dtype)) for p in fold.parts]
            lead = (0,) * (len(chain.shape) - 1)
            more = [(p.what, Access(p.dtype, (*lead, p.dtype.itemsize))) for p in fold.parts]
            self.writer = _Writer(f, chain._replace(writes=(*chain.writes, *more)), fold.is_exact)

    def kept_offset(self, row: Value, k: int) -> Value:
        """Where a row, or a stack of columns, begins in array k; one for each index of the dimensions that are apart."""
        n = self.fold.kept + self.fold.apart
        return _offset(self.f, row, self.fold.chain.shape[:n], self.accesses[k].strides[:n])

    def segment(self, starts: Sequence[Value], at: Value, count: Value) -> None:
        """Some elements, into the rooms from element `at` on."""
        n = len(self.fold.chain.reads)
        rooms = [self.f.beyond(r, at * p.dtype.itemsize) for r, p in zip(self.rooms, self.fold.parts)]
        self.writer.segment(starts[:n], [*starts[n:], *rooms], count)

    def point(self, part: int, at: Value) -> None:
        """Let the table of a part's states begin at one of them."""
        f = self.f
        for k, (base, type) in enumerate(zip(self.states[part], self.fold.parts[part].plan.states)):
            f.store(f.beyond(base, at * type.bytes), f.beyond(self.table, 8 * k).text, 8)

    def finish(self, unit: Callable[[Value], Sequence[Value]]) -> Function:
        self.f.loop(self.f.argument("end"), 1, unit, start=self.f.argument("begin"))
        self.f.effect("ret void")
        return self.f


def rows(fold: Fold, name: str) -> Function:
    """`name(data, begin, end)`: the states of some blocks of rows, in the order of memory.

    `data` has the arrays of the chain, then the memory of each number of the states of each part, that of the length
    where calls say it, and the tables of functions of parts that have some.
    """
    chain = fold.chain
    inner = chain.shape[-1]
    w = _Folding(fold, name, BLOCK + 64)
    f, count, blocks = w.f, w.length, w.blocks
    divided = fold.is_open or fold.blocks > 1
    # The folded dimensions but for the innermost.
    outside = slice(fold.kept + fold.apart, len(chain.shape) - 1)

    def unit(u: Value) -> Sequence[Value]:
        row = u.quotient(blocks) if divided else u
        first = u.rest(blocks) * BLOCK if divided else f.constant(0, COUNT)
        here = f.minimum(count - first, BLOCK) if divided else count
        starts = [f.beyond(b, w.kept_offset(row, k)) for k, b in enumerate(w.bases)]
        if fold.folded - fold.apart == 1:
            starts = [f.beyond(s, first * a.strides[-1]) for s, a in zip(starts, w.accesses)]
            if w.plain is None:
                w.segment(starts, f.constant(0, COUNT), here)
        else:
            stop = first + here

            def line(at: Value) -> Sequence[Value]:
                which, column = at.quotient(inner), at.rest(inner)
                length = f.minimum(f.constant(inner, COUNT) - column, stop - at)
                places = [
                    f.beyond(s, _offset(f, which, chain.shape[outside], a.strides[outside]) + column * a.strides[-1])
                    for s, a in zip(starts, w.accesses)
                ]
                w.segment(places, at - first, length)
                return [at + length]

            f.loop(stop, None, line, start=first)
        for j, part in enumerate(fold.parts):
            w.point(j, u)
            source = starts[w.plain] if w.plain is not None else w.rooms[j]
            size, one, zero = f.constant(part.dtype.itemsize, COUNT), f.constant(1, COUNT), f.constant(0, COUNT)
            w.callees.call(j, "run", w.table, source, size, here, first, one, zero)
        return []

    return w.finish(unit)


def columns(fold: Fold, name: str) -> Function:
    """The same where columns are folded: units are blocks of pieces of columns."""
    chain = fold.chain
    width = chain.shape[-1]
    many, apart = fold.pieces
    w = _Folding(fold, name, ROWS * apart + 64)
    f, count, blocks, leads = w.f, w.length, w.blocks, fold.leads
    within = slice(fold.kept + fold.apart, len(chain.shape) - 1)

    def unit(u: Value) -> Sequence[Value]:
        block, rest = u.rest(blocks), u.quotient(blocks)
        lead, rest = (rest.rest(leads), rest.quotient(leads)) if leads > 1 else (0, rest)
        piece, outer = rest.rest(many), rest.quotient(many) * leads + lead
        first, column = block * ROWS, piece * COLUMNS
        here, wide = f.minimum(count - first, ROWS), f.minimum(width - column, COLUMNS)
        starts = [
            f.beyond(b, w.kept_offset(outer, k) + column * a.strides[-1])
            for k, (b, a) in enumerate(zip(w.bases, w.accesses))
        ]

        def row(r: Value) -> Sequence[Value]:
            at = [
                f.beyond(s, _offset(f, first + r, chain.shape[within], a.strides[within]))
                for s, a in zip(starts, w.accesses)
            ]
            w.segment(at, r * apart, wide)
            return []

        if w.plain is None:
            f.loop(here, 1, row)
        for j, part in enumerate(fold.parts):
            size = part.dtype.itemsize
            if w.plain is None:
                source, step, reach = w.rooms[j], apart * size, f.constant(ROWS * apart * size, COUNT)
            else:
                step = chain.reads[w.plain].strides[-2]
                source, reach = f.beyond(starts[w.plain], first * step), wide * size
            w.point(j, u * apart)
            w.callees.call(j, "columns", w.table, source, f.constant(step, COUNT), here, wide, first, reach)
        return []

    return w.finish(unit)


def merged(fold: Fold, name: str) -> Function:
    """`name(data, begin, end)`: some results. `data` has the results of all parts, and the same as before from states on."""
    f = Function(f"{name}_merged", [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    begin, end = f.argument("begin"), f.argument("end")
    place = len(fold.parts)
    tables = []
    for part in fold.parts:
        n = len(part.plan.states)
        tables.append(([f.entry("data", place + k, POINTER) for k in range(n)], f.room(n, COUNT)))
        place += n
    blocks = fold.extent(f, place)[1] * fold.leads
    callees = _Callees(f, fold, name, place + fold.is_open)
    for j, (part, (states, table)) in enumerate(zip(fold.parts, tables)):
        out, plan, size = f.entry("data", j, POINTER), part.plan, part.plan.result.bytes

        def point(at: Value, states: Any = states, table: Value = table, plan: FoldPlan = plan) -> None:
            for k, (base, type) in enumerate(zip(states, plan.states)):
                f.store(f.beyond(base, at * type.bytes), f.beyond(table, 8 * k).text, 8)

        def of_row(
            r: Value, j: int = j, out: Value = out, table: Value = table, size: int = size, point: Any = point
        ) -> Any:
            point(r * blocks)
            callees.call(j, "merge", f.beyond(out, r * size), table, blocks)
            return []

        def of_piece(
            p: Value, j: int = j, out: Value = out, table: Value = table, size: int = size, point: Any = point
        ) -> Any:
            width = fold.chain.shape[-1]
            many, apart = fold.pieces
            column, outer = p.rest(many) * COLUMNS, p.quotient(many)
            point(p * blocks * apart)
            wide = f.minimum(width - column, COLUMNS)
            target = f.beyond(out, (outer * width + column) * size)
            callees.call(j, "merge_columns", target, table, blocks, f.constant(apart, COUNT), wide)
            return []

        if fold.has_columns or fold.is_open or fold.blocks * fold.leads > 1:
            f.loop(end, 1, of_piece if fold.has_columns else of_row, start=begin)
        else:  # one state each
            point(begin)
            target = f.beyond(out, begin * size)
            callees.call(j, "merge_columns", target, table, f.constant(1, COUNT), end - begin, end - begin)
    f.effect("ret void")
    return f


def functions(fold: Fold, name: str) -> list[Function]:
    """All functions of a fold; those that others call are `name` and `name_merged`."""
    found = []
    for j, part in enumerate(fold.parts):
        if part.is_packed:
            continue
        makers = [folds.columns] if fold.has_columns else [folds.run, folds.merge]
        found += [make(part.plan, f"{name}_{j}_{make.__name__}") for make in (*makers, folds.merge_columns)]
    return [*found, (columns if fold.has_columns else rows)(fold, name), merged(fold, name)]
