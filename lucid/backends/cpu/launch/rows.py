"""Runs generated functions of rows over arrays, in threads where that pays.

It belongs to compiled code (rows.pyx), as elementwise.py does.
"""

from collections.abc import Callable
from typing import Any

GROUP = 64  # rows that are added up one after the other


class Rows:
    """The loops of a function of rows, for operands of certain types.

    `loop(side_by_side, alike)` gives the address of the loop over a row, or over rows side by side, and what keeps it
    alive; the operands that are `alike` have one number for all elements of a row, or for all rows. It gives 0 where there
    is no code. `results` are types, `of_rows` says which results are one number for a row, and `numbers` names the
    parameters. `row_room` is how many bytes an element needs if those of its row lie apart, how many it needs anyway, and how
    many a row does; `column_room` how many an element of a row beside others needs, and how many such a row.
    """

    def __init__(
        self,
        loop: Callable[[bool, tuple[int, ...]], tuple[int, Any]],
        operands: int,
        results: tuple[Any, ...],
        of_rows: tuple[bool, ...],
        numbers: tuple[str, ...],
        row_room: tuple[int, int, int],
        lanes: int,
        column_room: tuple[int, int],
        column_lanes: int,
        cost: float,
    ) -> None:
        pass


class Kernel:
    """A function of rows, with loops for each combination of types that it meets.

    `make(types, params)` gives the loops of a combination, or None if there are none. `run(arrays, dim, params)` gives
    the results, a tuple if there are several, or None where there are no loops; numbers of rows keep their dimension.

    With `totals`, the last operands are sums: matrices with a row for every `GROUP` rows of the others, of which the last
    results, which add something to them, take the place. They are not among the results.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        pass

    def run(self, arrays: tuple[Any, ...], dim: int, params: dict[str, Any], totals: int = 0) -> Any:
        return None

    def entry(
        self, arrays: tuple[Any, ...], outs: list[Any], dim: int, params: dict[str, Any], threads: int
    ) -> tuple[int, bytes, int] | None:
        """An entry point (`entry_points.Entry`) by stand-ins for operands and results; None where there are no loops.

        It takes the operands, of which the first has the whole shape, the results, and as many bytes of workspace as is said.
        """
        return None
