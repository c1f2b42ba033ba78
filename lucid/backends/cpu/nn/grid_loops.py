"""Images and volumes read at the places of a grid, and the cotangents of both.

This is a stand-in for `grid_loops.pyx`: without compiled code the composite of the operation computes.

Generation does not reach it: what a loop reads, and how much of it counts, is found by branches from other elements.
"""

from typing import Any


def entry(action: str, x: Any, length: int, mode: str, padding: str, aligns_corners: bool) -> tuple[int, bytes]:
    """The entry point: its address and its task, for inputs like `x` and so many places.

    "read" takes the input, the grid and the result, "pull_input" the cotangent of the input, which it writes, the grid and
    the cotangent of the result, and "pull_grid" the input, the grid, the cotangent of the result and that of the grid.
    """
    raise RuntimeError("entry points need compiled code")


def sample(
    action: str, x: Any, grid: Any, out: Any, grid_ct: Any, mode: str, padding: str, aligns_corners: bool
) -> None:
    """Run the entry point on arrays of one type, float or double, in row-major order."""
    raise RuntimeError("entry points need compiled code")
