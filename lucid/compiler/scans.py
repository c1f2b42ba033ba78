"""Scans as native loops: the steps of the body are run again and again, on memory that moves from round to round."""

from typing import Any

import numpy as np

from lucid.codegen.fused import Moving, Repeat, repeat
from lucid.compiler.layout import ARENA, RESULT, Buffer, Place
from lucid.ir.program import Program
from lucid.ir.values import Instruction

STEPS = "loop of steps"  # the kind of functions that call others
_MOST_WORK = 2000.0  # nanoseconds of a round that one thread does, roughly


def scan_steps(emitter: Any, instruction: Instruction) -> bool:
    """A loop of steps; False if some of them call back, or it is no scan."""
    what = instruction.primitive
    body = getattr(what, "body", None)
    if not isinstance(body, Program) or not what.count:
        return False
    inner = type(emitter)(body, emitter.functions, emitter.can_repeat)
    inner.make_steps()
    if inner.calls or any(not isinstance(o, (tuple, Place)) for o in inner.outputs):
        return False
    n, ys = what.carries, what.ys
    starts, xs, held = what.split([emitter.in_order(o) for o in instruction.operands])
    arena = emitter.layout.new(ARENA, (inner.layout.pack(),), np.dtype(np.uint8))
    places = [arena]
    # For each buffer of the body: where it is, and how far it moves from round to round.
    moves: list[tuple[Buffer, Place, Place | None, int]] = []
    inner_arena = inner.layout.new(ARENA, (0,), np.dtype(np.uint8)).buffer
    moves.append((inner_arena, arena, None, 0))
    given = [inner.layout.places[name.number].buffer for name in (*body.inputs, *[n for n, _ in body.captured])]
    results = [(o[0] if isinstance(o, tuple) else o).buffer for o in inner.outputs]
    last = []
    before = instruction.results[n + ys :]
    for k, start in enumerate(starts):
        one, other = [emitter.layout.new(ARENA, start.array.shape, start.array.dtype) for _ in range(2)]
        emitter.copy(start, one)
        places += [one, other]
        moves += [(given[k], one, other, 0), (results[k], other, one, 0)]
        last.append(one if what.count % 2 == 0 else other)
    steps = -1 if what.reverse else 1
    for buffer, x in zip(given[n:], xs, strict=False):
        places.append(x)
        moves.append((buffer, _row(x, what), None, steps * x.array.strides[0]))
    for buffer, x in zip(given[n + len(xs) :], held, strict=True):
        places.append(x)
        moves.append((buffer, x, None, 0))
    for buffer, name in zip(results[n:], instruction.results[n : n + ys], strict=True):
        out = emitter.layout.place(name)
        places.append(out)
        moves.append((buffer, _row(out, what), None, steps * out.array.strides[0]))
    for k, name in enumerate(before):  # the carries before each step, if somebody reads them
        if name.number in emitter.readers:
            out = emitter.layout.place(name)
            row = inner.layout.new(RESULT, starts[k].array.shape, starts[k].array.dtype)
            inner.insert_copy(inner.layout.places[body.inputs[k].number], row)
            places.append(out)
            moves.append((row.buffer, _row(out, what), None, steps * out.array.strides[0]))
    if not _one_loop(emitter, inner, moves[1:], arena, what.count):
        emitter.step("repeat", places, units=what.count, inner=inner, moves=moves, work=0.0)
    for place, name in zip(last, instruction.results[:n], strict=True):
        emitter.copy(place, emitter.layout.place(name))
    emitter.notes.append(f"repeat {what.count} times:")
    emitter.notes += [f"  {note}" for note in inner.notes]
    return True


def _one_loop(emitter: Any, inner: Any, moves: Any, arena: Place, count: int) -> bool:
    """Steps that are so short that one thread does them all: one function; False if they are not."""
    if any(s["kind"] != "loop" for s in inner.steps) or sum(s["work"] for s in inner.steps) > _MOST_WORK:
        return False
    places: list[Place] = []

    def at(place: Place | None) -> int:
        if place is None:
            return -1
        places.append(place)
        return len(places) - 1

    in_arena = at(arena)
    known = {id(buffer): (at(place), at(other), stride) for buffer, place, other, stride in moves}
    steps = []
    for step in inner.steps:
        arrays = []
        for place in step["places"]:
            buffer = place.buffer
            if buffer.kind == ARENA:
                arrays.append(Moving(in_arena, in_arena, 0, buffer.offset + place.offset))
                continue
            if id(buffer) not in known:  # a constant
                emitter.layout.buffers.append(buffer)
                known[id(buffer)] = (at(Place(buffer, buffer.array)), -1, 0)
            base, other, stride = known[id(buffer)]
            arrays.append(Moving(base, base if other < 0 else other, stride, place.offset))
        steps.append((step["name"], step["units"], tuple(arrays)))
    loop = Repeat(count, len(places), tuple(steps))
    name = emitter.function(STEPS, repr(loop), lambda name: [repeat(loop, name)])
    emitter.step("loop", places, name=name, units=1, grain=1, work=0.0)
    return True


def _row(place: Place, what: Any) -> Place:
    """The row of an array with which a loop begins."""
    return place.shown(place.array[what.count - 1 :] if what.reverse else place.array)
