"""Results that are computed in memory which exists, instead of an array of their own."""

from threading import get_ident
from typing import Any

from lucid.core.kernels import table
from lucid.native import PyObject_Call

waiting: dict[int, tuple[Any, list[Any]]] = {}  # for threads: a tensor, and those of which its result is a function


def compute_into(target: Any, tensors: list[Any], function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """What a function gives that applies one primitive to all tensors, unrecorded: `target` if its memory has it."""
    thread = get_ident()
    waiting[thread] = target, tensors
    try:
        return PyObject_Call(function, args, params)
    finally:
        waiting.pop(thread, None)


def filled_by(prim: Any, args: tuple[Any, ...], arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The tensor into whose memory the result was computed, if this thread has one that takes it."""
    target, tensors = waiting.pop(get_ident(), (None, [prim]))
    count = len(tensors)
    for a in args:
        for t in tensors:
            if a is t:
                count -= 1
                break
    return target if not count and table["call_into"](prim, target._array, arrays, params) else None
