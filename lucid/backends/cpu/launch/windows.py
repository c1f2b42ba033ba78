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


def entry(
    loops: Loops, x: Any, high: Table | None, wide: Table | None, wide_first: bool, dim: int
) -> tuple[int, bytes, tuple[int, ...]]:
    """An entry point (`entry_points.Entry`) that folds as `fold` does, by a stand-in for x; and the shape of the result.

    It takes the operand, the result, and a byte that becomes 1 where there is no memory. The tables have to be kept.
    """
    raise AssertionError("there is no compiled code")


def search_entry(loops: Places, x: Any, tables: tuple[Table, ...]) -> tuple[int, bytes]:
    """The same for `find`: the operand, the places, and the byte."""
    raise AssertionError("there is no compiled code")


def planes_entry(count: int, size: int, many: int, is_single: bool, puts: bool) -> tuple[int, bytes]:
    """An entry point that adds `many` numbers of each plane to zeros at their places, in order, or takes them from there.

    It is given the numbers, the places as int64, which are all inside, and the planes, of so many elements each.
    """
    raise AssertionError("there is no compiled code")
