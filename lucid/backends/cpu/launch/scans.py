"""Runs generated scans and selections over arrays of any shapes and strides, in threads where that pays.

It belongs to compiled code (scans.pyx), as elementwise.py does.
"""

from collections.abc import Callable
from typing import Any


class Scan:
    """Generated loops of a scan over elements of a type: `line`, `rows` and `columns` of codegen.scans.

    `rows` takes as many scans at once as vectors have `lanes`, and more of them if they have fewer elements than `in_turns`.
    """

    def __init__(
        self, addresses: tuple[int, ...], lanes: int, states: int, in_turns: int, result: Any, cost: float, code: Any
    ) -> None:
        pass


class Kernel:
    """A scan by generated loops, one for each type and parameters that it meets, which `make(dtype, params)` gives.

    Where that gives None `reference` computes.
    """

    def __init__(self, make: Callable[..., Any], reference: Callable[..., Any]) -> None:
        self.reference = reference

    def __call__(self, *arrays: Any, dim: int, **params: Any) -> Any:
        return self.reference(*arrays, dim=dim, **params)

    def entry(self, arrays: tuple[Any, ...], out: Any, dim: int, **params: Any) -> tuple[int, bytes] | None:
        """An entry point (`entry_points.Entry`) that writes a scan, by stand-ins for operands and result, of one shape.

        None where there are no loops. Operands may be broadcast.
        """
        raise AssertionError("there is no compiled code")

    def before(self, x: Any, dim: int, first: Any, params: dict[str, Any]) -> Any:
        """What a scan holds before each element, `first` where it begins; None where there are no loops."""
        return None


class Selection:
    """The generated loop `select` of codegen.selections, for elements of a type."""

    def __init__(self, address: int, lanes: int, result: Any, cost: float, code: Any) -> None:
        pass

    def entry(self, x: Any, values: Any, places: Any, dim: int, largest: bool) -> tuple[int, bytes]:
        """An entry point (`entry_points.Entry`) that writes as many elements, and their places, as the results have."""
        raise AssertionError("there is no compiled code")


def selecting(make: Callable[[Any], Any], reference: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A kernel that finds up to so many elements by generated loops, which `make(dtype)` gives; others by the reference."""
    return reference
