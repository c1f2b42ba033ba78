"""Functions of single elements that are made of several operations: one loop does them all where nothing is recorded."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.arguments.out import memory_for_numbers, note_write
from lucid.core import dtypes, kernels, modes
from lucid.core.fields import TensorFields
from lucid.core.kernels import table
from lucid.core.levels import tracing
from lucid.core.primitive import constant, element_type, registry
from lucid.core.tensor import is_plain, of_class, wrapped
from lucid.ops.categories import Elementwise
from lucid.ops.expressions import Source
from lucid.ops.rules import is_array

SILENT = modes.SILENT
_recording = modes.recording.get


def one_loop(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of so many operands, which must be a function of their elements; its parameters are numbers with names.

    The first operand is a tensor, and others are tensors or Python numbers, which take its type. Numbers that change from
    call to call are operands better than parameters: loops are looked for by these.
    Half precision is not computed in one loop, which would round once where single operations round often.
    """

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        source = Source(function)
        loops: list[Any] = []

        @wraps(function)
        def call(*operands: Any, **params: float) -> Any:
            arrays = _arrays_of(operands)
            if arrays is None:
                return function(*operands, **params)
            if not loops:
                loops.append(kernels.scalar(source, count, bool(params)))
            return of_class(operands, wrapped(loops[0](*arrays, **params)))

        return call

    return made


def one_loop_into(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of a tensor and others, as `one_loop` has it, whose result is written into that tensor."""

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{function.__module__}.{function.__name__}"
        primitive = Elementwise(name, (None,) * count, [f"x{k}" for k in range(count)], body=function)
        registry.pop(name)  # nobody calls it by name: it is recorded nowhere, and only computes into memory

        @wraps(function)
        def call(target: Any, *others: Any) -> Any:
            memory, arrays = memory_for_numbers(target), _arrays_of((target, *others))
            if memory is None or arrays is None or not table["call_into"](primitive, memory, arrays, {}):
                return target.copy_(function(target, *others))
            note_write(target, "copy_")
            return target

        return call

    return made


def _arrays_of(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Operands of one type that are plain, as arrays; None if there are others."""
    kind = element_type(operands[0])
    if kind not in dtypes.SINGLE_AND_DOUBLE:
        return None
    found = []
    for x in operands:
        if isinstance(x, TensorFields):
            fields = x
            if element_type(fields) is not kind or not _is_alone(fields):
                return None
            found.append(fields._array)
        elif type(x) is float:
            found.append(constant(x, kind))
        else:
            return None
    return tuple(found)


def _is_alone(x: Any) -> bool:
    """Whether nobody records or sees what is done to a tensor; nobody is to be told, either, where the library is silent."""
    return is_array(x) or (_recording() is SILENT and not tracing() and is_plain(x))
