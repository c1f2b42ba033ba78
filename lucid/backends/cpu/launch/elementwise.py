"""Runs generated loops over arrays of any shapes and strides, in threads where that pays.

It belongs to compiled code (elementwise.pyx): without it there are no generated loops, and kernels let the
reference compute. The same is true of the other modules of this folder.
"""

from collections.abc import Callable
from typing import Any

is_there = False


def enable(on: bool) -> None:
    """Use generated loops, or let the reference compute."""


def listen(into: list[Any] | None) -> None:
    """Add the address of every generated function that is run to a list, until another one or None is given."""


def write_by(function: Callable[[Any, Any], None]) -> None:
    """Copy operands that lie across the others by `function(target, source)`."""


class Loop:
    """A generated loop at an address, for operands of certain types; `code` is kept alive as long as it is."""

    def __init__(
        self, address: int, types: tuple[Any, ...], result: Any, numbers: tuple[str, ...], cost: float, code: Any
    ) -> None:
        pass


class Kernel:
    """A kernel of generated loops, one for each combination of types that it meets.

    `make(types, params)` gives the loop of a combination, or None if there is none: then `reference` computes.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        key: Callable[..., Any],
        reference: Callable[..., Any],
    ) -> None:
        self.reference = reference

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return self.reference(*arrays, **params)


def of_one(kernel: Kernel) -> Callable[..., Any]:
    """The kernel as a function of one operand and no parameters, which is called in less time."""
    return kernel


def of_two(kernel: Kernel) -> Callable[..., Any]:
    """The same for two operands."""
    return kernel
