"""Loops around vector code: one function over elements that lie in memory at any distance from each other.

A function takes pointers to the first elements of its operands and of its result, their strides in bytes, and how many
elements there are. Where all lie side by side, or are one number for all, vectors are read and written in place, the
last of them over elements of the one before it. Fewer elements than a vector has, and elements that lie apart, are copied
into a small buffer first: there is one text of the computation, whatever the strides, and one result. Where that text is
short, it stands there once more, for what needs no buffer: rows of an array may be short, and many.
"""

from collections.abc import Sequence

from lucid.codegen.bodies import Plan
from lucid.codegen.functions.complexes import load, store
from lucid.codegen.vectors import COUNT, POINTER, Function, Type, Value

_BLOCK = 256  # elements of a buffer
_LINE = 64  # bytes of a line of the cache
# Memory is asked for so many bytes ahead. Processors foresee reads, but not through the many instructions of a long body, and
# they foresee no writes: tanh and exp of millions of numbers take a fifth less time, relu a tenth to a fourth.
_AHEAD = 1024


def elementwise(plan: Plan, name: str) -> Function:
    """`name(data, strides, count, numbers, rows, steps)`, for at least one element in each of so many rows.

    Rows begin `steps` apart. The result has memory of its own.
    """
    names = [
        ("data", "ptr"),
        ("strides", "ptr"),
        ("count", "i64"),
        ("numbers", "ptr"),
        ("rows", "i64"),
        ("steps", "ptr"),
    ]
    f = Function(name, names)
    lanes = plan.lanes
    types = [*plan.types, plan.result]
    buffers = [f.room(_BLOCK, t) for t in types]
    starts = [f.entry("data", k, POINTER) for k in range(len(types))]
    strides = [f.entry("strides", k, COUNT) for k in range(len(types))]
    apart = [f.entry("steps", k, COUNT) for k in range(len(types))]
    numbers = {n: f.entry("numbers", k, Type("double")) for k, n in enumerate(plan.numbers)}
    count = f.argument("count")
    same = [s.equals(0) for s in strides[:-1]]  # one number for all elements
    dense = [s.equals(t.bytes) for s, t in zip(strides, types)]
    is_direct = dense[-1]
    for one, beside in zip(same, dense):
        is_direct = is_direct & (one | beside)
    # What lies side by side is one block; its last vector ends with it, whatever is in the one before.
    overlaps = is_direct & (count >= lanes)
    last = f.select(overlaps, count - lanes, count)
    steps = [f.select(one, f.constant(0, COUNT), f.constant(t.bytes, COUNT)) for one, t in zip(same, types)]

    def begun(r: Value) -> list[Value]:
        """Where a row begins. All places of buffers hold some element at all times: what is beyond the last does no harm."""
        bases = [f.beyond(start, r * step) for start, step in zip(starts, apart)]
        for base, buffer, t in zip(bases, buffers, types[:-1]):
            first = f.load(base.text, t.stored, t.part.bytes)
            f.store(f.spread(first, lanes), buffer.text)
        return bases

    def foresee(place: Value, type: Type, is_written: bool = False) -> None:
        for k in range(0, lanes * type.bytes, _LINE):
            f.prefetch(f.beyond(place, _AHEAD + k), is_written)

    def vectors(places: Sequence[Value], stop: Value) -> None:
        def vector(i: Value) -> Sequence[Value]:
            at = f.minimum(i, last)
            result = at * types[-1].bytes
            for p, step, t in zip(places[:-1], steps, types) if not plan.is_short else ():
                foresee(f.beyond(p, at * step), t)
            foresee(f.beyond(places[-1], result), types[-1], is_written=True)
            given = [load(f, f.beyond(p, at * step).text, t.wide(lanes)) for p, step, t in zip(places, steps, types)]
            store(f, plan.compute(f, given, numbers), f.beyond(places[-1], result).text)
            return []

        f.loop(stop, lanes, vector)

    def direct_row(r: Value) -> Sequence[Value]:
        bases = begun(r)
        vectors([*[f.select(one, b, base) for one, b, base in zip(same, buffers, bases)], bases[-1]], count)
        return []

    def row(r: Value) -> Sequence[Value]:
        bases = begun(r)

        def block(done: Value) -> Sequence[Value]:
            rest = count - done
            is_whole = rest >= lanes
            chunk = f.select(overlaps, rest, f.select(is_whole, f.minimum(rest, _BLOCK) & -lanes, rest))
            sources = [f.beyond(base, done * stride) for base, stride in zip(bases, strides)]
            in_place = [is_whole & d for d in dense]
            for source, stride, one, direct, buffer, t in zip(sources, strides, same, in_place, buffers, types):
                _gather(f, source, stride, buffer, t, f.select(one | direct, 0, chunk))
            places = [f.select(direct, s, buffer) for direct, s, buffer in zip(in_place, sources, buffers)]
            vectors(places, f.select(is_whole, chunk, lanes))
            _scatter(f, buffers[-1], sources[-1], strides[-1], types[-1], f.select(in_place[-1], 0, chunk))
            return [done + chunk]

        f.loop(count, None, block)
        return []

    if plan.is_short:
        direct, other = f.fresh("direct"), f.fresh("other")
        f.branch(overlaps, direct, other)
        f.begin(direct)
        f.loop(f.argument("rows"), 1, direct_row)
        f.effect("ret void")
        f.begin(other)
    f.loop(f.argument("rows"), 1, row)
    f.effect("ret void")
    return f


def _gather(f: Function, source: Value, stride: Value, buffer: Value, type: Type, count: Value) -> None:
    def one(j: Value) -> Sequence[Value]:
        from_ = f.beyond(source, j * stride)
        f.store(f.load(from_.text, type.stored, type.part.bytes), f.beyond(buffer, j * type.bytes).text)
        return []

    f.loop(count, 1, one)


def _scatter(f: Function, buffer: Value, target: Value, stride: Value, type: Type, count: Value) -> None:
    def scatter(j: Value) -> Sequence[Value]:
        one = f.load(f.beyond(buffer, j * type.bytes).text, type.stored)
        f.store(one, f.beyond(target, j * stride).text, type.part.bytes)
        return []

    f.loop(count, 1, scatter)


def module(functions: Sequence[Function]) -> str:
    """The text of functions and of what they call."""
    declarations = {name: text for f in functions for name, text in f.declarations.items()}
    return "\n".join([*declarations.values(), *[str(f) for f in functions], ""])
