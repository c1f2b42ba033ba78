"""Loops of compiled programs: chains of elementwise operations over one space of elements, and the folds that they feed.

Shapes and strides of a program are known, so they are numbers in the code. A function `name(data, begin, end)` takes
pointers to its arrays, and does a part of the work, so that threads can share it: some elements where the space is one
dimension, and otherwise some of the rows that the innermost dimension makes. What an element is computed to be does not
depend on where it stands: each operation is written by the plan of its own loop (`bodies.Plan`), and rounds as that does.

A fold reads the elements of a block from a small memory of its own, in which the operations before it have left them, and
then by the very functions of an uncompiled reduction (`folds`), so that its tree of sums is the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lucid.codegen.bodies import type_in_memory
from lucid.codegen.folds import BLOCK, FoldPlan
from lucid.codegen.functions.complexes import Complex
from lucid.codegen.functions.complexes import load as load_complex
from lucid.codegen.functions.complexes import store as store_complex
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
        self.out_apart = [a.strides[-1] != a.dtype.itemsize for _, a in chain.writes]
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
            for k, (target, type, (_, access)) in enumerate(zip(targets, self.out_types, self.chain.writes)):
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
        self, source: Value, type: Type, stride: int, room: Value | None, k: int, done: Value, chunk: Value, whole: Value
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
        if not type.is_complex:
            return f.spread(f.load(source.text, type), lanes)
        part = type.part
        re, im = f.load(source.text, part), f.load(f.beyond(source, part.bytes).text, part)
        return Complex(f.spread(re, lanes), f.spread(im, lanes))

    def _vectors(self, places: Sequence[Value], outs: Sequence[Value], uniform: Sequence[Any], count: Value) -> None:
        f, lanes = self.f, self.lanes

        def vector(i: Value) -> Sequence[Value]:
            given = [
                _load(f, f.beyond(p, i * t.bytes).text, t.wide(lanes)) if one is None else one
                for p, t, one in zip(places, self.types, uniform)
            ]
            found = self.values(given)
            for (what, _), out, type in zip(self.chain.writes, outs, self.out_types):
                _store(f, self._chosen(what, given, found, type), f.beyond(out, i * type.bytes).text)
            return []

        f.loop(count, lanes, vector)

    def values(self, given: Sequence[Any]) -> list[Any]:
        """The results of all operations for a vector of elements."""
        found: list[Any] = []
        for operation in self.chain.operations:
            plan = operation.plan
            plan.lanes = self.lanes
            operands = [self._chosen(o, given, found, t) for o, t in zip(operation.operands, plan.types)]
            numbers = {n: self.f.constant(v, Type("double")) for n, v in plan.given.items()}
            found.append(plan.compute(self.f, operands, numbers))
        return found

    def _chosen(self, what: tuple[str, Any], given: Sequence[Any], found: Sequence[Any], type: Type) -> Any:
        kind, value = what
        if kind != "number":
            return (given if kind == "read" else found)[value]
        if type.is_complex:
            part = type.part.wide(self.lanes)
            return Complex(self.f.constant(value.real, part), self.f.constant(value.imag, part))
        return self.f.constant(value, type.wide(self.lanes))


def _load(f: Function, pointer: str, type: Type) -> Any:
    return load_complex(f, pointer, type) if type.is_complex else f.load(pointer, type)


def _store(f: Function, value: Any, pointer: str) -> None:
    if isinstance(value, Complex):
        store_complex(f, value, pointer)
    else:
        f.store(value, pointer)


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


# --- folds ------------------------------------------------------------------------------------------


class Fold(NamedTuple):
    """A chain of which the last dimension, or the one before it, is folded: what, and where its states go."""

    chain: Chain  # over (rows, elements), or (outer, elements, columns)
    what: tuple[str, Any]  # what is folded
    plan: FoldPlan
    dtype: Any  # of what is folded

    @property
    def blocks(self) -> int:
        """Into how many parts a row, or a column, is divided."""
        return -(-self.chain.shape[1] // (BLOCK if len(self.chain.shape) == 2 else ROWS))


def _call(f: Function, name: str, *arguments: Value) -> None:
    f.effect(f"call void @{name}({', '.join(f'{a.type} {a.text}' for a in arguments)})")


def _folding(fold: Fold, room: Value | None) -> Chain:
    """The chain with the room for a block as one more target."""
    chain = fold.chain
    kind = fold.dtype
    strides = (0,) * (len(chain.shape) - 1) + (kind.itemsize,)
    return chain._replace(writes=(*chain.writes, (fold.what, Access(kind, strides))))


def _in_place(fold: Fold) -> int | None:
    """The array that is folded, if that is an array that lies side by side and nothing is computed."""
    kind, k = fold.what
    if kind == "read" and not fold.chain.operations and not fold.chain.writes:
        access = fold.chain.reads[k]
        if access.strides[-1] == access.dtype.itemsize:
            return int(k)
    return None


def rows(fold: Fold, name: str) -> Function:
    """`name(data, begin, end)`: the states of some blocks of rows, in the order of memory.

    `data` has the arrays of the chain, and then the memory of each number of a state.
    """
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    chain, plan = fold.chain, fold.plan
    count, blocks = chain.shape[1], fold.blocks
    accesses = [*chain.reads, *[a for _, a in chain.writes]]
    bases = [f.entry("data", k, POINTER) for k in range(len(accesses) + len(plan.states))]
    states = bases[len(accesses) :]
    table = f.room(len(states), COUNT)
    plain = _in_place(fold)
    size = fold.dtype.itemsize
    length = min(count, BLOCK)
    if plain is None:
        room = f.room(BLOCK + 64, type_in_memory(fold.dtype))
        w = _Writer(f, _folding(fold, room), count % BLOCK % chain.lanes == 0 if blocks > 1 else count % chain.lanes == 0)
    n = len(chain.reads)

    def unit(u: Value) -> Sequence[Value]:
        row = u.quotient(blocks) if blocks > 1 else u
        first = u.rest(blocks) * BLOCK if blocks > 1 else f.constant(0, COUNT)
        here = f.minimum(f.constant(count, COUNT) - first, BLOCK) if blocks > 1 else f.constant(length, COUNT)
        starts = [f.beyond(b, row * a.strides[0] + first * a.strides[1]) for b, a in zip(bases, accesses)]
        if plain is None:
            w.segment(starts[:n], [*starts[n:], room], here)
        source = starts[plain] if plain is not None else room
        for k, (base, type) in enumerate(zip(states, plan.states)):
            f.store(f.beyond(base, u * type.bytes), f.beyond(table, 8 * k).text, 8)
        one = f.constant(1, COUNT)
        zero = f.constant(0, COUNT)
        _call(f, f"{name}_run", table, source, f.constant(size, COUNT), here, first, one, zero)
        return []

    f.loop(f.argument("end"), 1, unit, start=f.argument("begin"))
    f.effect("ret void")
    return f


def merged_rows(fold: Fold, name: str) -> Function:
    """`name(data, begin, end)`: some results of the states of rows. `data` has the result, and the states."""
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    plan, blocks = fold.plan, fold.blocks
    out, *states = [f.entry("data", k, POINTER) for k in range(1 + len(plan.states))]
    table = f.room(len(states), COUNT)
    begin, end = f.argument("begin"), f.argument("end")
    if blocks == 1:
        for k, (base, type) in enumerate(zip(states, plan.states)):
            f.store(f.beyond(base, begin * type.bytes), f.beyond(table, 8 * k).text, 8)
        count = end - begin
        target = f.beyond(out, begin * plan.result.bytes)
        _call(f, f"{name}_merge_columns", target, table, f.constant(1, COUNT), count, count)
    else:

        def result(r: Value) -> Sequence[Value]:
            for k, (base, type) in enumerate(zip(states, plan.states)):
                f.store(f.beyond(base, r * (blocks * type.bytes)), f.beyond(table, 8 * k).text, 8)
            target = f.beyond(out, r * plan.result.bytes)
            _call(f, f"{name}_merge", target, table, f.constant(blocks, COUNT))
            return []

        f.loop(end, 1, result, start=begin)
    f.effect("ret void")
    return f


def pieces(fold: Fold) -> tuple[int, int]:
    """How many pieces columns are divided into, and how far the states of one row of a piece lie apart."""
    width = fold.chain.shape[2]
    return -(-width // COLUMNS), min(-(-width // 16) * 16, COLUMNS)


def columns(fold: Fold, name: str) -> Function:
    """The same as `rows`, where the dimension before the last one is folded: units are blocks of pieces of columns."""
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    chain, plan, blocks = fold.chain, fold.plan, fold.blocks
    _, count, width = chain.shape
    many, apart = pieces(fold)
    accesses = [*chain.reads, *[a for _, a in chain.writes]]
    bases = [f.entry("data", k, POINTER) for k in range(len(accesses) + len(plan.states))]
    states = bases[len(accesses) :]
    table = f.room(len(states), COUNT)
    plain = _in_place(fold)
    size = fold.dtype.itemsize
    n = len(chain.reads)
    if plain is None:
        room = f.room(ROWS * apart + 64, type_in_memory(fold.dtype))
        w = _Writer(f, _folding(fold, room), width % chain.lanes == 0)

    def unit(u: Value) -> Sequence[Value]:
        block, rest = u.rest(blocks), u.quotient(blocks)
        piece, outer = rest.rest(many), rest.quotient(many)
        first, column = block * ROWS, piece * COLUMNS
        here, wide = f.minimum(f.constant(count, COUNT) - first, ROWS), f.minimum(width - column, COLUMNS)
        starts = [
            f.beyond(b, outer * a.strides[0] + first * a.strides[1] + column * a.strides[2])
            for b, a in zip(bases, accesses)
        ]
        if plain is None:

            def row(r: Value) -> Sequence[Value]:
                at = [f.beyond(s, r * a.strides[1]) for s, a in zip(starts, accesses)]
                w.segment(at[:n], [*at[n:], f.beyond(room, r * (apart * size))], wide)
                return []

            f.loop(here, 1, row)
        source = starts[plain] if plain is not None else room
        step = f.constant(chain.reads[plain].strides[1] if plain is not None else apart * size, COUNT)
        for k, (base, type) in enumerate(zip(states, plan.states)):
            f.store(f.beyond(base, u * (apart * type.bytes)), f.beyond(table, 8 * k).text, 8)
        _call(f, f"{name}_columns", table, source, step, here, wide, first)
        return []

    f.loop(f.argument("end"), 1, unit, start=f.argument("begin"))
    f.effect("ret void")
    return f


def merged_columns(fold: Fold, name: str) -> Function:
    """`name(data, begin, end)`: the results of some pieces of columns."""
    f = Function(name, [("data", "ptr"), ("begin", "i64"), ("end", "i64")])
    plan, blocks = fold.plan, fold.blocks
    width = fold.chain.shape[2]
    many, apart = pieces(fold)
    out, *states = [f.entry("data", k, POINTER) for k in range(1 + len(plan.states))]
    table = f.room(len(states), COUNT)

    def piece(p: Value) -> Sequence[Value]:
        column, outer = p.rest(many) * COLUMNS, p.quotient(many)
        for k, (base, type) in enumerate(zip(states, plan.states)):
            f.store(f.beyond(base, p * (blocks * apart * type.bytes)), f.beyond(table, 8 * k).text, 8)
        target = f.beyond(out, (outer * width + column) * plan.result.bytes)
        wide = f.minimum(width - column, COLUMNS)
        _call(f, f"{name}_merge_columns", target, table, f.constant(blocks, COUNT), f.constant(apart, COUNT), wide)
        return []

    f.loop(f.argument("end"), 1, piece, start=f.argument("begin"))
    f.effect("ret void")
    return f


Maker = Callable[[Any, str], Function]
