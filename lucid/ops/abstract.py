"""Values of which only shape and type are known: what abstract rules take and give."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.core.dtypes import BOOL, complex_of, real_of

_ELEMENT = np.zeros((), np.bool_)  # which seen in any shape takes no memory


class Abstract(NamedTuple):
    """The shape and NumPy type of a value."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)


def broadcast(*values: Any) -> tuple[int, ...]:
    """The shape of operands that are broadcast against each other; numbers among them have none."""
    shapes = [v.shape for v in values if isinstance(v, Abstract)]
    if shapes and all(s == shapes[0] for s in shapes):
        return shapes[0]
    return np.broadcast_shapes(*shapes)


def indexed(shape: tuple[int, ...], index: Any) -> tuple[int, ...]:
    """The shape of what basic indexing shows of an array."""
    return np.broadcast_to(_ELEMENT, shape)[index].shape


def common(*values: Any) -> np.dtype[Any]:
    """The type of operands, beside numbers that leave it as it is. In derivatives, complex ones meet real ones."""
    found = {v.dtype for v in values if isinstance(v, Abstract)}
    return found.pop() if len(found) == 1 else np.result_type(*found)


def same(x: Abstract, *others: Any, **params: Any) -> Abstract:
    """Shape and type of the first operand."""
    return Abstract(x.shape, x.dtype)


def of_type(dtype: np.dtype[Any]) -> Callable[..., Abstract]:
    """A rule: broadcast, and of this type."""
    return lambda *values, **params: Abstract(broadcast(*values), dtype)


def counting_truth(dtype: np.dtype[Any]) -> Callable[..., Abstract]:
    """A rule: broadcast, and of the operands' type, but numbers of this one if they are truth values."""

    def rule(*values: Any, **params: Any) -> Abstract:
        kind = common(*values)
        return Abstract(broadcast(*values), dtype if kind == BOOL else kind)

    return rule


def shaped(x: Abstract, shape: tuple[int, ...], *others: Any, **params: Any) -> Abstract:
    """The shape that a parameter names, and the type of the operand."""
    return Abstract(shape, x.dtype)


def reduced(x: Abstract, dims: Sequence[int], keepdim: bool = False) -> Abstract:
    """The operand with some dimensions reduced."""
    return Abstract(without(x.shape, dims, keepdim), x.dtype)


def real_part(x: Abstract, **params: Any) -> Abstract:
    """The operand as real numbers."""
    return Abstract(x.shape, real_of(x.dtype))


def as_complex(*values: Any, **params: Any) -> Abstract:
    """Broadcast, as complex numbers."""
    return Abstract(broadcast(*values), complex_of(common(*values)))


def without(shape: Sequence[int], dims: Sequence[int], keepdim: bool = False) -> tuple[int, ...]:
    """A shape whose dimensions `dims` were reduced."""
    return tuple([1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims])
