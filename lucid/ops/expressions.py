"""Scalar expressions: what an elementwise operation computes, read from its body.

A body is a Python function over primitives, as `lambda x: x * P.sigmoid(x)`. Called with expressions in place of its
operands it gives one for its result, in which only *base functions* are left: elementwise primitives without a body of
their own. The rules of derivatives are such functions too. So the types of results, the kernels of the reference
backend, those of first derivatives, and machine code are made of one and the same text.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core.arrays import item, zeros
from lucid.core.fields import new_tensor
from lucid.core.levels import OUTERMOST
from lucid.core.tensor import Tensor
from lucid.kinds.kind import Kind, NeedsValueError
from lucid.ops.abstract import Abstract

_ALWAYS = 1 << 62  # later than every transform, so that none takes an expression for a tensor from outside
_NUMBERS = (bool, int, float, complex)
_PRODUCTS = ("mul", "chain")
_MOST_BODIES = 256  # of one function, in which parameters are fixed


class Operand(NamedTuple):
    """An operand of the operation, by its place."""

    place: int


class Parameter(NamedTuple):
    """A number that each call gives, by its name."""

    name: str


class Constant(NamedTuple):
    """A number of a certain type."""

    value: Any
    dtype: np.dtype[Any]


class Result(NamedTuple):
    """What a step before gave, by its place."""

    place: int


class Application(NamedTuple):
    """A base function of expressions and Python numbers."""

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any]


class Term(NamedTuple):
    """What an expression is, and which primitives are left as they are where it is read."""

    what: Any
    is_base: Callable[[Any], bool]


class NotScalarError(TypeError):
    """A body or rule that is not made of scalar functions."""


class Expression(Kind):
    """A number that is not known yet: a tensor without dimensions, of which only the type is known."""

    __slots__ = ()
    transform_name = "an expression"

    @staticmethod
    def make(what: Any, dtype: np.dtype[Any], is_base: Callable[[Any], bool]) -> "Expression":
        out: Expression = new_tensor(Expression, _typed(dtype), Term(what, is_base), OUTERMOST)
        out._born = _ALWAYS
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def interpret(self, prim: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A primitive of expressions: that of its body, or one step if it is a base function."""
        is_base = self._aux.is_base
        if not prim.is_scalar:
            if prim.category != "reduction":
                raise NotScalarError(f"{prim.name} is no function of single elements")
            found = prim.abstract(Abstract((1,), self.np_dtype), dims=(0,), keepdim=True)
            return Expression.make(Application(prim, tuple(args), {}), found.dtype, is_base)
        operands = tuple([_scalar(a, is_base) for a in args])
        if prim.name in _PRODUCTS and any(_is_one(o) for o in operands):
            return operands[1] if _is_one(operands[0]) else operands[0]
        is_open = any(isinstance(v, Expression) for v in params.values())
        if not is_base(prim) or (is_open and prim.body is not None):
            return as_expression(prim.body(*operands, **params), is_base)
        if is_open:
            raise NeedsValueError(f"{prim.name} needs its parameters as values")
        types = [Abstract((), o.np_dtype) if isinstance(o, Expression) else o for o in operands]
        found = prim.abstract(*types, **params)
        return Expression.make(Application(prim, operands, params), found.dtype, is_base)

    def _held_array(self, wanted_by: str) -> Any:
        raise NeedsValueError(f"{wanted_by} needs a value, but this is an expression")


_types: dict[Any, Tensor] = {}


def _typed(dtype: np.dtype[Any]) -> Tensor:
    """The tensor inside an expression, which says of what type it is."""
    found = _types.get(dtype)
    if found is None:
        found = _types[dtype] = Tensor._wrap(zeros((), dtype))
    return found


def _scalar(value: Any, is_base: Callable[[Any], bool]) -> Any:
    """An operand inside a body as an expression or a Python number."""
    if isinstance(value, Expression) or type(value) in _NUMBERS:
        return value
    array = value._array if isinstance(value, Tensor) and not value._level else value
    if getattr(array, "shape", None) != ():
        raise NotScalarError(f"{value!r} is no number")
    return Expression.make(Constant(item(array), array.dtype), array.dtype, is_base)


def _is_one(value: Any) -> bool:
    return isinstance(value, Expression) and isinstance(value._aux.what, Constant) and value._aux.what.value == 1


def as_expression(value: Any, is_base: Callable[[Any], bool]) -> Expression:
    """What a body gives as an expression."""
    found = _scalar(value, is_base)
    if isinstance(found, Expression):
        return found
    dtype = np.result_type(type(found))
    return Expression.make(Constant(found, dtype), dtype, is_base)


class Step(NamedTuple):
    """One base function of operands, parameters, numbers and earlier results."""

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any]
    dtype: np.dtype[Any]


class Body(NamedTuple):
    """An expression in the order in which it is computed; what occurs twice stands there once."""

    types: tuple[np.dtype[Any], ...]
    steps: tuple[Step, ...]
    result: Any
    dtype: np.dtype[Any]


def has_no_body(primitive: Any) -> bool:
    """Whether a primitive is a base function."""
    return primitive.body is None


def read(
    function: Callable[..., Any],
    types: Sequence[np.dtype[Any]],
    params: dict[str, Any],
    is_base: Callable[[Any], bool] = has_no_body,
    opened: bool = False,
) -> Body:
    """The body of a function of numbers of these types, in terms of what `is_base`.

    Parameters that are floats may be left open, to be given at each call; NeedsValueError if something is decided by
    them.
    """
    leaves = [Expression.make(Operand(k), dtype, is_base) for k, dtype in enumerate(types)]
    if opened:
        working = next((t for t in types if t.kind in "fcV"), types[0])
        params = {
            n: Expression.make(Parameter(n), working, is_base) if type(v) is float else v for n, v in params.items()
        }
    root = as_expression(function(*leaves, **params), is_base)
    steps, (result,) = in_order([root])
    if any(s.primitive.category == "reduction" for s in steps):
        raise NotScalarError("a sum over elements is no function of single ones")
    return Body(tuple(types), steps, result, root.np_dtype)


def in_order(roots: Sequence[Expression]) -> tuple[tuple[Step, ...], list[Any]]:
    """The steps of expressions, each once and after those that it needs, and what each expression is in terms of them."""
    steps: list[Step] = []
    places: dict[Any, Any] = {}  # where expressions that are equal were computed
    found: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        expression = waiting[-1]
        what = expression._aux.what
        if id(expression) in found or not isinstance(what, Application):
            found.setdefault(id(expression), what)
            waiting.pop()
            continue
        missing = [o for o in what.operands if isinstance(o, Expression) and id(o) not in found]
        if missing:
            waiting += missing
            continue
        operands = tuple([found[id(o)] if isinstance(o, Expression) else o for o in what.operands])
        key = (what.primitive.name, tuple(map(repr, operands)), repr(what.params))
        if key not in places:
            places[key] = Result(len(steps))
            steps.append(Step(what.primitive, operands, what.params, expression.np_dtype))
        found[id(expression)] = places[key]
    return tuple(steps), [found[id(root)] for root in roots]


class Source:
    """A function and its bodies, one for each combination of types.

    Parameters that are floats are left open, so that one body serves for all of them, unless the function decides
    something by them. Others are part of the combination.
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.function = function
        self.name = name or getattr(function, "name", "")  # of the operation, for readers
        self.leaves_open = True
        self._bodies: dict[Any, Body] = {}

    def key(self, types: Sequence[Any], params: dict[str, Any]) -> Any:
        """What decides about the body."""
        if not params:
            return tuple(types)
        is_open = self.leaves_open
        return (*types, *[Parameter if type(v) is float and is_open else (type(v), v) for v in params.values()])

    def body(self, types: Sequence[np.dtype[Any]], params: dict[str, Any]) -> Body:
        """The steps by which numbers of these types are computed, in base functions."""
        found = self._bodies.get(self.key(types, params))
        if found is None:
            found = self.read(types, params)
            if len(self._bodies) > _MOST_BODIES:
                self._bodies.clear()
            self._bodies[self.key(types, params)] = found
        return found

    def read(
        self, types: Sequence[np.dtype[Any]], params: dict[str, Any], is_base: Callable[[Any], bool] = has_no_body
    ) -> Body:
        """The same in terms of other functions."""
        if self.leaves_open and any(type(v) is float for v in params.values()):
            try:
                return read(self.function, types, params, is_base, opened=True)
            except NeedsValueError:
                self.leaves_open = False
        return read(self.function, types, params, is_base)


def types_of(values: Sequence[Any]) -> tuple[np.dtype[Any], ...]:
    """The types of operands; Python numbers take that of the numbers beside them."""
    known = [v.dtype for v in values if hasattr(v, "dtype")]
    beside = next((t for t in known if t.kind != "b"), known[0])
    return tuple([getattr(v, "dtype", beside) for v in values])
