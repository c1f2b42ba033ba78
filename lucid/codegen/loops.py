"""Loops around vector code: one function over elements that lie in memory at any distance from each other.

A function takes pointers to the first elements of its operands and of its result, their strides in bytes, and how many
elements there are. Where all lie side by side, or are one number for all, vectors are read and written in place. What
is left over, and elements that lie apart, are copied into a small buffer first: there is one text of the computation,
whatever the strides, and one result.
"""

from collections.abc import Sequence

from lucid.codegen.bodies import Plan
from lucid.codegen.vectors import Function, Type, Value

_BLOCK = 256  # elements of a buffer
_COUNT = Type("i64")
_POINTER = Type("ptr")


def _at(f: Function, base: Value, offset: Value) -> Value:
    """The place so many bytes on."""
    return f.write(f"getelementptr i8, ptr {base.text}, i64 {offset.text}", _POINTER)


def _entry(f: Function, table: str, k: int, type: Type) -> Value:
    place = f.write(f"getelementptr {type}, ptr {table}, i64 {k}", _POINTER)
    return f.write(f"load {type}, ptr {place.text}", type)


def _buffer(f: Function, type: Type) -> Value:
    return f.write(f"alloca [{_BLOCK} x i{8 * type.bytes}], align 64 ; {f.count}", _POINTER)


def elementwise(plan: Plan, name: str) -> Function:
    """The function `name(data, strides, count, numbers)`, for at least one element."""
    f = Function(name, [("data", "ptr"), ("strides", "ptr"), ("count", "i64"), ("numbers", "ptr")])
    lanes = plan.lanes
    types = [*plan.types, plan.result]
    buffers = [_buffer(f, t) for t in types]
    bases = [_entry(f, "%data", k, _POINTER) for k in range(len(types))]
    strides = [_entry(f, "%strides", k, _COUNT) for k in range(len(types))]
    numbers = {n: _entry(f, "%numbers", k, Type("double")) for k, n in enumerate(plan.numbers)}
    count = Value(f, "%count", _COUNT)
    same = [s.equals(0) for s in strides[:-1]]  # one number for all elements
    dense = [s.equals(t.bytes) for s, t in zip(strides, types)]
    is_direct = dense[-1]
    for one, beside in zip(same, dense):
        is_direct = is_direct & (one | beside)
    # Every place of a buffer holds some element at all times: what is computed beyond the last one does no harm.
    for base, buffer, t in zip(bases, buffers, types[:-1]):
        first = f.load(base.text, _stored(t, 1))
        f.store(f.spread(first, lanes), buffer.text)
    most = f.select(is_direct, count, _BLOCK)

    def block(done: Value) -> Sequence[Value]:
        rest = count - done
        is_whole = rest >= lanes
        chunk = f.select(is_whole, f.minimum(rest, most) & -lanes, rest)
        rounded = f.select(is_whole, chunk, lanes)
        sources = [_at(f, base, done * stride) for base, stride in zip(bases, strides)]
        in_place = [is_whole & d for d in dense]
        for source, stride, one, direct, buffer, t in zip(sources, strides, same, in_place, buffers, types):
            _gather(f, source, stride, buffer, t, f.select(one | direct, 0, chunk))
        places = [f.select(direct, s, buffer) for direct, s, buffer in zip(in_place, sources, buffers)]
        steps = [f.select(one, f.constant(0, _COUNT), f.constant(t.bytes, _COUNT)) for one, t in zip(same, types)]

        def vector(i: Value) -> Sequence[Value]:
            given = [f.load(_at(f, p, i * step).text, _wide(t, lanes)) for p, step, t in zip(places, steps, types)]
            f.store(plan.compute(f, given, numbers), _at(f, places[-1], i * types[-1].bytes).text)
            return []

        f.loop(rounded, lanes, vector)
        _scatter(f, buffers[-1], sources[-1], strides[-1], types[-1], f.select(in_place[-1], 0, chunk))
        return [done + chunk]

    _while_below(f, count, block)
    f.effect("ret void")
    return f


def _wide(type: Type, lanes: int) -> Type:
    return Type(type.of, lanes, type.is_signed)


def _stored(type: Type, lanes: int) -> Type:
    """Bytes of a number as they are."""
    return Type(f"i{8 * type.bytes}", lanes)


def _gather(f: Function, source: Value, stride: Value, buffer: Value, type: Type, count: Value) -> None:
    def one(j: Value) -> Sequence[Value]:
        from_ = _at(f, source, j * stride)
        f.store(f.load(from_.text, _stored(type, 1)), _at(f, buffer, j * type.bytes).text)
        return []

    f.loop(count, 1, one)


def _scatter(f: Function, buffer: Value, target: Value, stride: Value, type: Type, count: Value) -> None:
    def one(j: Value) -> Sequence[Value]:
        f.store(f.load(_at(f, buffer, j * type.bytes).text, _stored(type, 1)), _at(f, target, j * stride).text)
        return []

    f.loop(count, 1, one)


def _while_below(f: Function, stop: Value, body: object) -> None:
    """Repeat until what the body gives, and begins with 0, reaches `stop`."""
    before, head, inside, done = f.block, f.fresh("while"), f.fresh("inside"), f.fresh("done")
    f.jump(head)
    f.begin(head)
    at = len(f.lines)
    i = Value(f, f"%{f.fresh('i')}", _COUNT)
    f.branch(i < stop, inside, done)
    f.begin(inside)
    (following,) = body(i)  # type: ignore[operator]
    f.lines.insert(at, f"  {i.text} = phi i64 [ 0, %{before} ], [ {following.text}, %{f.block} ]")
    f.jump(head)
    f.begin(done)


def module(functions: Sequence[Function]) -> str:
    """The text of functions and of what they call."""
    declarations = {name: text for f in functions for name, text in f.declarations.items()}
    return "\n".join([*declarations.values(), *[str(f) for f in functions], ""])
