"""Arguments that speak of spatial dimensions, as users give them: one number for all, or one for each."""

from collections.abc import Callable
from typing import Any

from lucid import Tensor
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.primitive import element_type, lift

Sizes = tuple[int, ...]


def hashable(value: Any) -> Any:
    """An argument as a key for a cache."""
    return tuple(value) if isinstance(value, list) else value


def each(value: Any, n: int, name: str, least: int = 0) -> Sizes:
    """One number for each of `n` dimensions from one number or a sequence; `name` says which argument of what it is."""
    if type(value) is int:
        numbers: Sizes = (value,) * n
    else:
        numbers = _integers(value, name)
        if len(numbers) == 1:
            numbers = numbers * n
    if len(numbers) != n:
        raise ValueError(f"{name}: expected one number or {n} of them, not {value!r}")
    for number in numbers:
        if number < least:
            raise ValueError(f"{name}: expected numbers of at least {least}, not {value!r}")
    return numbers


def _integers(value: Any, name: str) -> Sizes:
    items = [value] if hasattr(value, "__index__") else value
    try:
        return tuple(item.__index__() for item in items)
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: expected an integer or a sequence of integers, not {value!r}") from None


def with_batch(input: Any, n: int, name: str) -> tuple[Tensor, bool]:
    """The input with a dimension for examples, and whether it had one: shape (N, C, …) or (C, …)."""
    x = lift(input)
    if x.ndim == n + 2:
        return x, True
    if x.ndim != n + 1:
        raise RuntimeError(
            f"{name}: expected {n + 2} dimensions (examples, channels and {n} more) or {n + 1} for one example, "
            f"not shape {x.shape}"
        )
    return x.reshape(1, *x.shape), False


def without_batch(out: Tensor, is_batched: bool) -> Tensor:
    """A result as `with_batch` found the input."""
    return out if is_batched else out.reshape(out.shape[1:])


def require_fractions(x: Tensor, name: str) -> None:
    """Linear maps with weights between 0 and 1 are for floating-point and complex numbers."""
    if element_type(x) not in DIFFERENTIABLE:
        raise RuntimeError(f"{name}: expected a floating-point tensor, not {x.dtype}; convert it, as in x.float()")


def for_dimensions(make: Callable[[int], Callable[..., Any]], stem: str, doc: str) -> list[Callable[..., Any]]:
    """The functions `stem1d`, `stem2d` and `stem3d`, made for each number of dimensions, named and documented.

    `doc` may contain {name}, {n}, and {s1} to {s9} for a size in every dimension: "4, 4" for {s4} and two of them.
    """
    made = []
    for n in (1, 2, 3):
        function = make(n)
        name = f"{stem}{n}d"
        function.__name__ = function.__qualname__ = name
        function.__module__ = make.__module__
        sizes = {f"s{k}": ", ".join([str(k)] * n) for k in range(1, 10)}
        function.__doc__ = doc.format(name=name, n=n, **sizes)
        made.append(function)
    return made
