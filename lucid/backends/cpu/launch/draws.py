"""Runs generated draws of random numbers, in threads where that pays.

It belongs to compiled code (draws.pyx), as elementwise.py does.
"""

from collections.abc import Callable
from typing import Any


class Stream:
    """The loop `stream` of codegen.draws, for numbers of a type that take so many bits each."""

    def __init__(self, address: int, dtype: Any, bits: int, cost: float, code: Any) -> None:
        pass

    def entry(self, count: int, offset: int, numbers: tuple[float, ...]) -> tuple[int, bytes]:
        """An entry point (`entry_points.Entry`) that draws so many numbers, so many blocks from where a program begins.

        It takes the seed and that place, as two numbers of 64 bits, and where the numbers go.
        """
        raise AssertionError("there is no compiled code")


def drawing(make: Callable[..., Stream | None]) -> Callable[..., Any]:
    """`draw(recipe, key, first, shape, into)`: an array of the stream of a key, from the block `first` on; None without a loop.

    It is a new one, or `into`, which has the shape and the type. `make` gives the loop for all that a recipe (`lucid.api.rng.Recipe`) says but its numbers.
    """
    raise AssertionError("there is no compiled code")
