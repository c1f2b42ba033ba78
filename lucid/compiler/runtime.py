"""Runs the steps of a compiled program: loops on all threads, products of matrices, and nothing of Python between them.

This is a stand-in for `runtime.pyx`; without compiled code, programs run instruction by instruction.
"""

from typing import Any

is_there = False


class Steps:
    """The steps of a program as a table of C, with what keeps their machine code in memory."""

    def __init__(self, steps: list[dict[str, Any]], kept: Any) -> None:
        raise RuntimeError("steps of machine code need Lucid's compiled modules; build them with tools/build_native.py")

    def run(self, begin: int, end: int, bases: Any) -> None:
        """Some steps, with the addresses of all memory."""


def addresses(arrays: list[Any], bases: Any, first: int) -> None:
    """Write where arrays lie into the table."""
