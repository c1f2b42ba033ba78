"""Orders of the elements of rows along a dimension, and ranks among them, in threads where that pays.

It belongs to compiled code (sorting.pyx), as elementwise.py does. Its loops are written by hand: they compare bits of numbers,
and compute nothing that a declaration says.
"""

from typing import Any


def argsort(x: Any, dim: int, descending: bool) -> Any:
    """The places of elements in order, those of equal ones as they stand; nan is the largest. None without loops."""
    return None


def chosen(x: Any, dim: int, which: str, rank: int = 0) -> Any:
    """The place of one element along a dimension, which stays with size 1; of equal ones as they stand in order.

    `which` is "kth", of a rank from 0, "median", "nanmedian" or "mode". None without loops.
    """
    return None


def entry(x: Any, dim: int, descending: bool, threads: int) -> tuple[int, bytes, int] | None:
    """An entry point (`entry_points.Entry`) by a stand-in for an array in row-major order; None without loops.

    It takes the array, the places, and as many bytes of workspace as is said.
    """
    return None
