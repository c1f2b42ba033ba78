"""Runs the steps of a compiled program: loops on all threads, products of matrices, and nothing of Python between them.

This is a stand-in for `runtime.pyx`; without compiled code, programs run instruction by instruction.
"""

from typing import Any

is_there = False


class Steps:
    """The steps of a program as a table of C, with what keeps their machine code in memory."""

    def __init__(self, steps: list[dict[str, Any]], kept: Any) -> None:
        raise RuntimeError("steps of machine code need Lucid's compiled modules; build them with tools/build_native.py")


class Frame:
    """The memory of one run: all arrays by the numbers of their buffers, of which the first is the arena."""

    arrays: list[Any]
    views: dict[Any, Any]  # of the arena
    residuals: dict[int, Any]  # what calls keep for others

    def hold(self, index: int, array: Any) -> None:
        """Put an array into a buffer."""


class Machine:
    """A compiled program that runs on arrays. Runs at the same time have frames of their own."""

    def __init__(
        self,
        arena: int,
        buffers: int,
        constants: list[tuple[int, Any]],
        given: int,
        results: list[tuple[int, Any, tuple[int, ...], int]],
        outputs: list[int],
        segments: list[Any],
        steps: Steps,
        call: Any,
    ) -> None: ...

    def run(self, arrays: list[Any]) -> list[Any] | None:
        """The outputs for arrays that are given: new arrays; None if a check has failed."""
        raise RuntimeError("programs of machine code need Lucid's compiled modules")
