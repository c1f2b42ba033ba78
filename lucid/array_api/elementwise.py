"""Elementwise functions: lucid's own, with the standard's names, signatures and type promotion."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any

import lucid
from lucid.api.names import ROWS, Row, having
from lucid.array_api.promotion import array, same_type
from lucid.core.tensor import Tensor

Function = Callable[..., Tensor]


def _strict(name: str, compute: Function) -> Function:
    """A function of one or two arrays, described by lucid's, whose example is its own."""

    def of_one(x: Any, /) -> Tensor:
        return compute(array(x, name))

    def of_two(x1: Any, x2: Any, /) -> Tensor:
        return compute(*same_type(name, x1, x2))

    operands = [p for p in signature(compute).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    function = of_one if len(operands) == 1 else of_two
    function.__name__ = function.__qualname__ = name
    source = f"lucid.{compute.__name__}("
    function.__doc__ = (compute.__doc__ or "").replace(source, f"lucid.array_api.{name}(")
    return function


def standard(rows: Iterable[Row] = ROWS) -> dict[str, Row]:
    """What `lucid.array_api` has, by name; of operations, the form that is as strict as the standard."""
    found = {name: row for row in having("standard", rows) for name in row.named("standard", row.name)}
    return {n: Row(n, __name__, (), {}) if r.home.startswith("lucid.ops.") else r for n, r in found.items()}


def derived(rows: Iterable[Row] = ROWS) -> dict[str, Function]:
    """What the table of names says that the standard has of lucid's operations."""
    operations = [row for row in having("standard", rows) if row.home.startswith("lucid.ops.")]
    return {n: _strict(n, row.function()) for row in operations for n in row.named("standard", row.name)}


globals().update(derived())
if TYPE_CHECKING:

    def __getattr__(name: str) -> Function: ...


def add(x1: Any, x2: Any, /) -> Tensor:
    """The sum of two arrays, element by element.

    >>> import lucid
    >>> lucid.array_api.add(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 4.0]))
    Tensor([4., 6.])
    """
    return lucid.add(*same_type("add", x1, x2))


def round(x: Any, /) -> Tensor:
    """The nearest whole number, of two the even one.

    >>> import lucid
    >>> lucid.array_api.round(lucid.tensor([0.5, 1.2, 1.5]))
    Tensor([0., 1., 2.])
    """
    return lucid.round(array(x, "round"))


def positive(x: Any, /) -> Tensor:
    """A copy of each element.

    >>> import lucid
    >>> lucid.array_api.positive(lucid.tensor([1.0, -2.0]))
    Tensor([ 1., -2.])
    """
    return array(x, "positive").clone()


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements held between `min` and `max`, in the type of `x`.

    >>> import lucid
    >>> lucid.array_api.clip(lucid.tensor([1.0, 5.0, 9.0]), 2, lucid.tensor(6.0))
    Tensor([2., 5., 6.])
    """
    found = array(x, "clip")
    low, high = (b.to(found.dtype) if isinstance(b, Tensor) else b for b in (min, max))
    return found.clone() if low is None and high is None else lucid.clamp(found, low, high)
