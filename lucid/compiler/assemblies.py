"""Values that are put together of others: each is copied to its part."""

from typing import Any

import numpy as np

from lucid.compiler.layout import Place, part_of, rolled_parts
from lucid.core.primitive import P
from lucid.ir.values import Instruction
from lucid.tape.geometry import placed


def assembly_steps(emitter: Any, instruction: Instruction) -> None:
    """A value that is put together of others: each is copied to its part."""
    name, params = instruction.primitive.name, instruction.params
    (result,) = instruction.results
    out = emitter.layout.place(result)
    given = [emitter.layout.place(o) for o in instruction.operands]
    array = out.array
    if any(g.array.dtype != array.dtype for g in given):
        emitter.call(instruction)
    elif name == "cat":
        at, before = 0, (slice(None),) * params["dim"]
        for g in given:
            size = g.array.shape[params["dim"]]
            emitter.copy(g, out.shown(array[(*before, slice(at, at + size))]))
            at += size
    elif name == "stack":
        before = (slice(None),) * params["dim"]
        for k, g in enumerate(given):
            emitter.copy(g, out.shown(array[(*before, k, ...)]))
    elif name in ("slice_back", "pad"):
        if params.get("value", 0) == 0:
            emitter.clear(out)
        else:
            emitter.fill(out, params["value"])
        _copy_into(emitter, given[0], out.shown(part_of(array, params["index"])))
    elif name == "parts_back":
        emitter.clear(out)
        for g, place in zip(given, params["places"], strict=True):
            emitter.add_into(g, out.shown(placed(array, place)))
    elif name == "diagonal_back":
        emitter.clear(out)
        shown = {k: params[k] for k in ("offset", "dim1", "dim2")}
        emitter.copy(given[0], out.shown(P.diagonal.kernel(array, **shown)))
    elif name == "write_view":
        emitter.copy(given[0], out)
        _copy_into(emitter, given[1], out.shown(params["through"].kernel(array, **params["settings"])))
    elif name == "flip":
        dims = {d % array.ndim for d in params["dims"]}
        turned = tuple([slice(None, None, -1 if d in dims else 1) for d in range(array.ndim)])
        emitter.copy(given[0].shown(part_of(given[0].array, turned)), out)
    elif name == "roll":
        for read, written in rolled_parts(array.shape, params["shifts"], params["dims"]):
            emitter.copy(given[0].shown(part_of(given[0].array, read)), out.shown(part_of(array, written)))
    else:  # a reshape for which elements have to be moved
        emitter.copy(given[0], out.shown(array.reshape(given[0].array.shape)))


def _copy_into(emitter: Any, source: Place, target: Place) -> None:
    """The elements of one place to another, to which they are broadcast."""
    emitter.copy(source.shown(np.broadcast_to(source.array, target.array.shape)), target)
