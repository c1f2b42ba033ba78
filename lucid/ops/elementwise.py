# cython: annotation_typing=True
"""The public functions of elementwise primitives: type promotion, and then the dispatcher."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.arguments.out import into, one_primitive
from lucid.arguments.promotion import BOOL, FLOAT, INTEGRAL, KEEP, general, raise_if_complex, refusal
from lucid.core import dtypes
from lucid.core.fields import TensorFields
from lucid.core.levels import tracing
from lucid.core.primitive import apply, element_type, run_plain, synced
from lucid.core.storage import View
from lucid.ops.abstract import of_type
from lucid.ops.categories import Elementwise, Partial

ndarray = np.ndarray
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)
_LARGEST_HALF = 65504
_LARGEST = (1 << 31) - 1  # integer of either type, with or without its sign
_BOOL, _DIFFERENTIABLE = dtypes.BOOL, dtypes.DIFFERENTIABLE
_NO_PARAMS: dict[str, Any] = {}


def called(prim: Any, args: tuple[Any, ...], policy: str, params: dict[str, Any]) -> Any:
    """An elementwise primitive of operands as users give them.

    Tensors of one floating-point type, and numbers beside them, need no promotion, nor do integers beside common ones.
    """
    kind: Any = None
    numbers = need = False
    unlike = large = False  # whether some number may be none of the integers' type, or of half precision
    inside = tracing() != 0  # whether a transform takes part
    needs, bit = 0, 1
    for a in args:
        if isinstance(a, TensorFields):
            fields: TensorFields = a
            if fields._level:
                inside = True
                own = element_type(a)
            else:
                own = fields._array.dtype
            if fields._meta is not None and type(fields._meta) is View:
                view: View = fields._meta
                if view.version != view.storage.version:
                    synced(fields)
            if kind is None:
                kind = own
            elif own is not kind:
                if bit != 2 or kind is not _BOOL or not prim.has_condition:
                    return general(prim, args, policy, params)
                kind = own
            if fields._requires_grad:
                need = True
                needs |= bit
        elif type(a) is int:
            numbers = True
            unlike = unlike or not -_LARGEST <= a <= _LARGEST
            large = large or not -_LARGEST_HALF <= a <= _LARGEST_HALF
        elif type(a) is float:
            numbers = unlike = True
            large = large or not -_LARGEST_HALF <= a <= _LARGEST_HALF
        else:
            return general(prim, args, policy, params)
        bit += bit
    floats = common = kind is _F32 or kind is _F64
    if not common and prim.real:
        raise_if_complex(prim, kind)
    if not common:
        floats = kind in _DIFFERENTIABLE
        if inside or (floats and large):
            return general(prim, args, policy, params)
        if numbers and not floats and (unlike or prim.has_condition or not (kind is _I64 or kind is _I32)):
            return general(prim, args, policy, params)
        if (policy is FLOAT or policy is INTEGRAL) and floats is (policy is INTEGRAL):
            return general(prim, args, policy, params)
    try:
        if inside:
            return apply(prim, args, params)
        return run_plain(prim, args, kind if numbers and floats else None, need, needs, params)
    except (ValueError, TypeError) as error:
        raise refusal(prim.name, args, error) from None


Abstraction = Callable[..., Any] | None
Body = Callable[..., Any] | None
_TRUTH = of_type(dtypes.BOOL)


def _abstract(policy: str, declared: Abstraction, body: Body) -> Abstraction:
    """The abstract rule of a primitive, by its policy if there is neither a rule nor a body."""
    return _TRUTH if declared is None and body is None and policy == BOOL else declared


def unary(
    name: str,
    d: Partial | None,
    doc: str,
    policy: str = FLOAT,
    abstract: Abstraction = None,
    body: Body = None,
    real: bool = False,
    calls: str = "",
    **facts: Any,
) -> Callable[..., Any]:
    """Declare an elementwise primitive of one operand and give its function."""
    rule = _abstract(policy, abstract, body)
    return of_one(Elementwise(name, (d,), ("x",), rule, body, real, calls, **facts), policy, doc)


def of_one(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    """The public function of a primitive of one operand."""

    def op(input: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input,), _NO_PARAMS)
        return called(prim, (input,), policy, _NO_PARAMS)

    return _named(op, prim, policy, doc)


def binary(
    name: str,
    d: tuple[Partial, Partial] | tuple[None, None],
    doc: str,
    policy: str = KEEP,
    abstract: Abstraction = None,
    body: Body = None,
    real: bool = False,
    calls: str = "",
    **facts: Any,
) -> Callable[..., Any]:
    """Declare an elementwise primitive of two operands and give its function."""
    rule = _abstract(policy, abstract, body)
    return of_two(Elementwise(name, d, ("x", "y"), rule, body, real, calls, **facts), policy, doc)


def of_two(prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    """The public function of a primitive of two operands."""

    def op(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, other), _NO_PARAMS)
        return called(prim, (input, other), policy, _NO_PARAMS)

    return _named(op, prim, policy, doc)


def _named(op: Callable[..., Any], prim: Elementwise, policy: str, doc: str) -> Callable[..., Any]:
    """Name the function and write its docstring: `doc` is a sentence, " | " and an example `operands -> result`."""
    text, _, example = doc.partition(" | ")
    op.__name__ = op.__qualname__ = prim.name
    if example:
        operands, _, result = example.partition(" -> ")
        call = ", ".join(f"lucid.tensor({o})" for o in operands.split("; "))
        text += f"\n\n    >>> import lucid\n    >>> lucid.{prim.name}({call})\n    {result}\n    "
    op.__doc__ = text
    op.primitive = prim  # type: ignore[attr-defined]  # where checks and NumPy's protocol find it
    prim.public = op
    return one_primitive(prim, policy=policy)(op)
