"""Looks at positions and masks, in threads where that pays: whether positions are in range, and where masks hold.

It belongs to compiled code (positions.pyx), as elementwise.py does. Its loops are written by hand: they look at positions,
and compute nothing that a declaration says.
"""

from collections.abc import Callable
from typing import Any


def checking(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The function that gives positions, if they are of int64 and all in range; what the reference says otherwise."""
    return reference


def nonzero(mask: Any, as_rows: bool) -> Any:
    """The positions where a mask holds, an array for each dimension or one of rows; or None."""
