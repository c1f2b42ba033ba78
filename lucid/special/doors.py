"""How special functions are declared: computed in double precision, found under `lucid.special`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from lucid.ops.out import into
from lucid.ops.promotion import FLOAT, general
from lucid.ops.rules import Elementwise, Partial

special: Any = import_module("scipy.special")  # which has no types
Function = Callable[..., Any]
_NO_PARAMS: dict[str, Any] = {}


def in_double(name: str, function: Function) -> Function:
    """A function of arrays in double precision, rounded to the operands' type; complex numbers are refused."""

    def impl(*operands: Any, **params: Any) -> Any:
        kind = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        if kind.kind == "c":
            raise TypeError(f"{name} takes real tensors, not complex ones; take abs(), real or imag first")
        with np.errstate(all="ignore"):
            result = function(*[np.asarray(a, np.float64) for a in operands], **params)
        return np.asarray(result).astype(kind, copy=False)

    return impl


def declare(name: str, function: Function, partials: tuple[Partial, ...], operands: str = "x") -> Elementwise:
    """An elementwise primitive by its function on arrays and its partial derivatives."""
    return Elementwise(name, in_double(name, function), partials, operands.split())


def one(prim: Elementwise, doc: str, home: str = "lucid.special", name: str = "", **params: Any) -> Function:
    """The public function of a primitive of one operand, with these parameters."""

    def op(input: Any, *, out: Any = None) -> Any:
        return into(out, op, (input,), _NO_PARAMS) if out is not None else general(prim, (input,), FLOAT, params)

    return documented(op, prim, doc, home, name or prim.name)


def two(prim: Elementwise, doc: str, home: str = "lucid.special", name: str = "", **params: Any) -> Function:
    """The public function of a primitive of two operands."""

    def op(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, other), _NO_PARAMS)
        return general(prim, (input, other), FLOAT, params)

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
