"""The functions that users call, of primitives of one and two operands."""

from collections.abc import Callable
from typing import Any

from lucid.arguments.out import into
from lucid.arguments.promotion import FLOAT
from lucid.ops.categories import Elementwise
from lucid.ops.elementwise import called

Function = Callable[..., Any]
_NO_PARAMS: dict[str, Any] = {}


def one(prim: Elementwise, doc: str, home: str = "lucid.special", name: str = "", **params: Any) -> Function:
    """The public function of a primitive of one operand, with these parameters."""

    def op(input: Any, *, out: Any = None) -> Any:
        return into(out, op, (input,), _NO_PARAMS) if out is not None else called(prim, (input,), FLOAT, params)

    return documented(op, prim, doc, home, name or prim.name)


def two(prim: Elementwise, doc: str, home: str = "lucid.special", name: str = "", **params: Any) -> Function:
    """The public function of a primitive of two operands."""

    def op(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, other), _NO_PARAMS)
        return called(prim, (input, other), FLOAT, params)

    return documented(op, prim, doc, home, name or prim.name)


def documented(op: Function, prim: Elementwise, doc: str, home: str, name: str) -> Function:
    """Name the function and write its docstring: `doc` is a sentence, " | " and an example `operands -> result`."""
    text, _, example = doc.partition(" | ")
    operands, _, result = example.partition(" -> ")
    call = ", ".join(f"lucid.tensor({o})" if o.startswith("[") else o for o in operands.split("; "))
    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"{text}\n\n    >>> import lucid\n    >>> {home}.{name}({call})\n    {result}\n    "
    op.primitive = prim  # type: ignore[attr-defined]  # as the functions of lucid.ops.elementwise have it
    return op
