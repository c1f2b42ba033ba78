"""Runs generated folds over windows of planes, in threads where that pays.

It belongs to compiled code (windows.pyx), as elementwise.py does.
"""

from typing import Any


class Table:
    """The elements that each place along a dimension puts together: see codegen.windows. All numbers are int64."""

    def __init__(self, size: int, starts: Any, sources: Any, weights: Any, runs: Any) -> None:
        pass


class Loops:
    """The loops `rows` and `lines` of codegen.windows, for elements of a type; `code` is kept alive."""

    def __init__(self, addresses: tuple[int, ...], dtype: Any, cost: float, code: Any) -> None:
        pass


class Places:
    """The loop `places`."""

    def __init__(self, addresses: tuple[int, ...], dtype: Any, cost: float, code: Any) -> None:
        pass


def fold(loops: Loops, x: Any, high: Table | None, wide: Table | None, wide_first: bool, dim: int) -> Any:
    """Fold windows along a dimension, counted from the end (by `high`), and along the last one (by `wide`).

    Both are there if `dim` is -2. The elements of x lie in order.
    """
    raise AssertionError("there is no compiled code")


def find(loops: Places, x: Any, tables: tuple[Table, ...]) -> Any:
    """Which place of its plane each window along the last dimensions has found, as int64; no window is empty."""
    raise AssertionError("there is no compiled code")
