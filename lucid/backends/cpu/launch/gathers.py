"""Moves elements to and from places that positions name, or puts them together there, in threads where that pays.

Positions are arrays of int64 for the first dimensions of an array, and are broadcast; negative ones count from the end.
It belongs to compiled code (gathers.pyx), as elementwise.py does. What gives None or False leaves it to the reference.
"""

from collections.abc import Callable
from typing import Any


def of_gather(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an array and positions that gives the elements there."""
    return reference


def gather(x: Any, *positions: Any) -> Any:
    """The elements at positions, or None."""


class Fold:
    """Generated loops (`fold_at` and `fold_along` of codegen.gathers), for arrays of a type and values of another.

    An element may consist of several numbers, which are put together apart from each other. `code` is kept alive.
    """

    dtype: Any

    def __init__(self, addresses: tuple[int, ...], dtype: Any, values: Any, parts: int, code: Any) -> None:
        pass


def into_zeros(
    make: Callable[[Any], Fold | None], cast: Callable[..., Any], reference: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel that puts values together at positions of zeros, by the loops that `make` gives for their type."""
    return reference


def into_copy(
    make: Callable[[Any], Fold | None],
    cast: Callable[..., Any],
    start: Callable[..., Any],
    reference: Callable[..., Any],
) -> Callable[..., Any]:
    """The same for a copy of an array; `start` is what its elements are taken for where they do not count."""
    return reference


def into_memory(make: Callable[[str, Any], Fold | None], reference: Callable[..., None]) -> Callable[..., None]:
    """Writes values into an array at positions that were checked, or puts them together with what is there, in order.

    `make` gives the loops for what puts together two numbers of a type.
    """
    return reference


def entry(
    x: Any, v: Any, positions: tuple[Any, ...], fold: Fold | None, reads: bool, clears: bool
) -> tuple[int, bytes] | None:
    """An entry point (`entry_points.Entry`) by stand-ins: elements of x to v, or v to x, put together if there is a fold.

    It takes x, which may be cleared before, v, a byte that becomes 1 if a position is outside, else 0, and the positions.
    """
    return None
