"""Searches in sorted elements, counts of numbers and positions of triangles, in threads where that pays.

It belongs to compiled code (searches.pyx), as elementwise.py does. Its loops are written by hand: where they read next
depends on what they have read, which no declaration says. What gives None leaves it to the reference.
"""

from typing import Any


def searchsorted(sequence: Any, values: Any, right: bool) -> Any:
    """How many elements of the sorted last dimension come before each value; or None."""


def bin_numbers(x: Any, edges: Any) -> Any:
    """The number of the bin of each element of a vector between even edges, outside of them that of all bins; or None."""


def counted(numbers: Any, least: int) -> Any:
    """How often each number from 0 to the largest, or to `least`, occurs in a vector of int64; or None."""


def triangle(rows: int, columns: int, offset: int, is_lower: bool) -> Any:
    """The rows and columns of the elements of a triangle, in row-major order, as two rows of int64; or None."""
