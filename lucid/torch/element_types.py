"""Element types as PyTorch prints them: `torch.float32`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.core import dtypes


class Type(dtypes.dtype):
    """A type of Lucid's under PyTorch's name, equal to it.

    >>> import lucid, lucid.torch as torch
    >>> str(torch.float32), torch.float32 == lucid.float32, torch.ones(2).dtype is torch.float32
    ('torch.float32', True, True)
    """

    __slots__ = ("_hash",)

    def __init__(self, original: dtypes.dtype) -> None:
        super().__init__(original.name, original.numpy)
        self._hash = hash(original)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtypes.dtype) and self.numpy == other.numpy

    def __hash__(self) -> int:
        return self._hash  # that of the original, so that tables know either

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    def to_complex(self) -> "Type":
        """The complex type of this precision."""
        return typed(super().to_complex())

    def to_real(self) -> "Type":
        """The real type of this precision."""
        return typed(super().to_real())


BY_NUMPY = {original.numpy: Type(original) for original in dtypes.ALL}


def typed(found: dtypes.dtype) -> Type:
    """A type of Lucid's as one of the front door."""
    return BY_NUMPY[found.numpy]


def named(name: str) -> Type:
    """The type of a name."""
    return typed(dtypes.as_dtype(name))


def giving_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result is a type, such that it is one of the front door."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Type:
        return typed(function(*args, **kwargs))

    return call
