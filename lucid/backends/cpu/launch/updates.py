"""Runs generated updates in place, in threads where that pays.

It belongs to compiled code (updates.pyx), as elementwise.py does.
"""

from collections.abc import Sequence
from typing import Any


class Update:
    """The loop `update` of codegen.updates, for so many arrays of a type, results among them, and so many numbers."""

    def __init__(self, address: int, dtype: Any, arrays: int, numbers: int, cost: float, code: Any) -> None:
        pass

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Run it, on arrays of one type and size that lie in order and overlap only where they are the same.

        Whether that was done: what is given may be something else.
        """
        return False
