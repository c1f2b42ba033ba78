"""How transforms look at the arguments of a function: which are meant, and what to call them in errors."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lucid.core import tree
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.tensor import Tensor


def named(func: Callable[..., Any], number: int) -> str:
    """An argument as its user knows it: its place, and its name if the function's signature shows one."""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return f"argument {number}"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return f"argument {number} ({positional[number].name!r})" if 0 <= number < len(positional) else f"argument {number}"


def leaf_names(func: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """A name for each leaf of the arguments."""
    return [f"{named(func, n)}{path}" for n, arg in enumerate(args) for path in tree.paths(arg)]


def numbers_of(
    transform: str, func: Callable[..., Any], argnums: int | Sequence[int], args: Sequence[Any]
) -> tuple[int, ...]:
    """The arguments that are meant, counted from 0; negative numbers count from the end."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not given:
        raise ValueError(f"{transform}: argnums is empty; name at least one argument to differentiate by")
    found = []
    for number in given:
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{transform}: argnums must be whole numbers, not {number!r}")
        if not -len(args) <= number < len(args):
            raise ValueError(f"{transform}: argnums {number} is out of range for a call with {len(args)} arguments")
        found.append(number % len(args))
    if len(set(found)) != len(found):
        raise ValueError(f"{transform}: argnums {argnums!r} names an argument twice")
    return tuple(found)


def replaced(args: Sequence[Any], numbers: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The arguments with some of them exchanged."""
    new = list(args)
    for n, v in zip(numbers, values, strict=True):
        new[n] = v
    return new


def raise_if_not_differentiable(x: Tensor, transform: str, what: str) -> None:
    if x.np_dtype not in DIFFERENTIABLE:
        raise TypeError(
            f"{transform}: {what} has dtype {x.dtype} and shape {x.shape}; derivatives need floating-point or complex "
            "tensors, as from x.float()"
        )
