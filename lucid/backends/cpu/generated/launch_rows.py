"""Runs generated functions of rows over arrays, in threads where that pays.

It belongs to compiled code (launch_rows.pyx), as launch.py does.
"""

from collections.abc import Callable
from typing import Any


class Rows:
    """The loop of a function of rows at its address, for operands of certain types.

    `columns(shared)` gives the address of the loop over rows side by side, of operands that are `shared` by all rows and
    others, and what keeps it alive. `results` are types, `of_rows` says which results are one number for a row, `room` is how many bytes an element needs
    beside its memory, and `numbers` names the parameters.
    """

    def __init__(
        self,
        loop: Callable[[bool, tuple[int, ...]], tuple[int, Any]],
        operands: int,
        results: tuple[Any, ...],
        of_rows: tuple[bool, ...],
        numbers: tuple[str, ...],
        room: int,
        column_room: tuple[int, int],
        lanes: int,
        cost: float,
    ) -> None:
        pass


class Kernel:
    """A function of rows, with loops for each combination of types that it meets.

    `make(types, params)` gives the loops of a combination, or None if there are none. `run(arrays, dim, params)` gives
    the results, a tuple if there are several, or None where there are no loops; numbers of rows keep their dimension.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        pass

    def run(self, arrays: tuple[Any, ...], dim: int, params: dict[str, Any]) -> Any:
        return None
