"""Runs generated draws of random numbers, in threads where that pays.

It belongs to compiled code (draws.pyx), as elementwise.py does.
"""

from typing import Any


class Stream:
    """The loop `stream` of codegen.draws, for numbers of a type that take so many bits each."""

    def __init__(self, address: int, dtype: Any, bits: int, cost: float, code: Any) -> None:
        pass


def draw(loop: Stream, key: int, first: int, count: int, numbers: tuple[float, ...]) -> Any:
    """So many numbers of the stream of a key, from the block `first` on."""
    raise AssertionError("there is no compiled code")
