"""The last stage: buffers get their numbers, loops their machine code, and steps their order."""

import os
from typing import Any

from lucid.codegen import lock, pack
from lucid.codegen.compiled import code_of
from lucid.codegen.recipes import Recipe
from lucid.compiler import runtime
from lucid.compiler.emit import Emitter
from lucid.compiler.layout import ARENA, CONSTANT, GIVEN, HELD, RESULT, Place
from lucid.compiler.scans import STEPS
from lucid.compiler.steps import Call, Code, Output, View
from lucid.ir.program import Program
from lucid.ir.values import Instruction

_FOLDER = os.path.dirname(__file__)
_known: dict[str, tuple[tuple[int, ...], Any]] = {}  # addresses of functions and their code, by what they compute


def linked(program: Program) -> Code:
    """The code of a program."""
    of = Emitter(program)
    of.make_steps()
    last = len(of.steps)
    results = [o[0] if isinstance(o, tuple) else o for o in of.outputs]
    for place in results:
        if isinstance(place, Place):
            place.buffer.used(last)
    arena = of.layout.pack()
    index = 1
    by_kind = {k: [b for b in of.layout.buffers if b.kind == k] for k in (CONSTANT, GIVEN, RESULT, HELD)}
    for buffers in by_kind.values():
        for buffer in buffers:
            buffer.index = index
            index += 1
    given: list[int] = []
    outputs: list[Any] = []
    for place in results:
        if isinstance(place, Place):
            outputs.append(Output(len(given)))
            given.append(place.buffer.index)
        else:
            outputs.append(place)
    index, constants = _number_inner(of, index, by_kind)
    native, segments = _segments(of)
    machine = runtime.Machine(
        arena,
        index,
        constants,
        1 + len(by_kind[CONSTANT]),
        [(b.index, b.array.dtype, b.array.shape, b.donor) for b in by_kind[RESULT]],
        given,
        segments,
        native,
        Call.run,
    )
    calls = [instruction.primitive.name for _, instruction, *_ in of.calls]
    return Code(machine, outputs, of.notes, calls, of.draws.streams if of.draws is not None else [])


def _number_inner(of: Emitter, index: int, by_kind: dict[str, Any]) -> tuple[int, list[Any]]:
    """Give the buffers of the bodies of loops their numbers, behind all others."""
    constants = [(b.index, b.array) for b in by_kind[CONSTANT]]
    for step in of.steps:
        if step["kind"] == "repeat":
            inner: Emitter = step["inner"]
            arena = step["moves"][0][0]
            arena.index = index
            index += 1
            for buffer in inner.layout.buffers:
                if buffer.kind == ARENA:
                    buffer.index = arena.index
                    continue
                buffer.index = index
                index += 1
                if buffer.kind == CONSTANT:
                    constants.append((buffer.index, buffer.array))
            index, more = _number_inner(inner, index, {CONSTANT: []})
            constants += more
    return index, constants


def _native(of: Emitter, addresses: dict[str, int], native: list[Any]) -> None:
    """Add all steps of the body of a loop."""
    own: list[Any] = []
    for step in of.steps:
        own.append(_facts(step, addresses, native))
    native += own


def _facts(step: dict[str, Any], addresses: dict[str, int], native: list[Any]) -> dict[str, Any]:
    """A step as the runtime wants it; the steps of a loop inside of it are added."""
    places = [(-1, 0) if p is None else (p.buffer.index, p.buffer.offset + p.offset) for p in step["places"]]
    facts = {**step, "places": places}
    if step["kind"] == "loop":
        facts["address"] = addresses[step["name"]]
    if step["kind"] == "repeat":
        inner: Emitter = step["inner"]
        _native(inner, addresses, native)
        facts["range"] = (len(native) - len(inner.steps), len(native))
        facts["places"] = []
        facts["moves"] = [
            (
                buffer.index,
                place.buffer.index,
                place.buffer.offset + place.offset,
                -1 if other is None else other.buffer.index,
                0 if other is None else other.buffer.offset + other.offset,
                stride,
            )
            for buffer, place, other, stride in step["moves"]
        ]
    return facts


def _segments(of: Emitter) -> tuple[Any, list[Any]]:
    """Native steps, and the order of runs of them and of calls."""
    addresses, kept = _compile(of)
    main: list[Any] = []
    inner: list[Any] = []  # steps of the bodies of loops, which stand behind all others
    segments: list[Any] = []
    calls = {at: call for at, *call in of.calls}
    last = {uses: at for at, (*_, uses) in calls.items()}  # the last calls that use residuals
    held = [b for b in of.layout.buffers if b.kind == HELD]
    for k, step in enumerate(of.steps):
        if step["kind"] == "call":
            spent = tuple([b.index for b in held if b.last < k])
            held = [b for b in held if b.last >= k]
            instruction, operands, results, takes_tensors, uses = calls[k]
            is_last = last[uses] == k
            segments.append(_called(of, instruction, operands, results, takes_tensors, uses, is_last, spent))
            continue
        if segments and type(segments[-1]) is tuple:
            segments[-1] = (segments[-1][0], len(main) + 1)
        else:
            segments.append((len(main), len(main) + 1))
        main.append(_facts(step, addresses, inner))
    for facts in (*main, *inner):
        if facts["kind"] == "repeat":
            facts["range"] = tuple([len(main) + place for place in facts["range"]])
    native = main + inner
    return runtime.Steps(native, kept), segments


def _called(
    of: Emitter,
    instruction: Instruction,
    operands: Any,
    results: Any,
    takes_tensors: bool,
    uses: int | None,
    is_last: bool,
    spent: tuple[int, ...],
) -> Call:
    views = tuple([o if p is None else _view(p) for o, p in zip(instruction.operands, operands, strict=True)])
    numbers = tuple([(r.buffer.index, r.buffer.array.dtype) for r in results])
    keeps = id(instruction) if id(instruction) in of.kept else None
    return Call(instruction.primitive, views, instruction.params, numbers, takes_tensors, keeps, uses, is_last, spent)


def _compile(of: Emitter) -> tuple[dict[str, int], Any]:
    """The addresses of functions by their names, and what keeps their code in memory.

    What another program has is not compiled again, as one for another number of rows has most of it.
    """
    title = of.program.name
    if any(key.startswith(STEPS) for key in of.functions):  # these call others by their names
        return _compiled(of.functions, title)
    with lock:
        new = {key: made for key, made in of.functions.items() if key not in _known}
        if new:
            addresses, code = _compiled(new, title)
            for key, (name, _) in new.items():
                _known[key] = (tuple([addresses[n] for n in _names(key, name)]), code)
        found = {key: (_names(key, name), *_known[key]) for key, (name, _) in of.functions.items()}
    addresses = {n: a for names, own, _ in found.values() for n, a in zip(names, own, strict=True)}
    return addresses, [code for _, _, code in found.values()]


def _compiled(functions: dict[str, tuple[str, Any]], title: str) -> tuple[dict[str, int], Any]:
    """The same for functions that are compiled together."""
    written_by = f"written by {pack.sources(_FOLDER)}"  # the keys say what functions compute, and not how
    text = "\n\n".join([*[f"{name}:\n{key}" for key, (name, _) in functions.items()], written_by])
    names = [n for key, (name, _) in functions.items() for n in _names(key, name)]
    makers = list(functions.values())  # which know nothing of the program: code is kept longer than that

    def write() -> list[Any]:
        return [f for name, make in makers for f in make(name)]

    with lock:
        code = code_of(Recipe("program", title, text, tuple(names), write))
    return dict(zip(names, code.addresses, strict=True)), code


def _names(key: str, name: str) -> list[str]:
    """What steps call of a function."""
    return [name] if key.startswith("loop") else [name, f"{name}_merged"]


def _view(place: Place) -> View:
    buffer, array = place.buffer, place.array
    is_whole = place.is_whole and buffer.kind != ARENA
    return View(buffer.index, buffer.offset + place.offset, array.shape, array.strides, array.dtype, is_whole)
