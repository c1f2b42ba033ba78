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


def write_by(function: Callable[[Any, Any], None], blocks: list[int]) -> None:
    """Copy operands that lie across the others by `function(target, source)`, and rows of them by functions of C.

    There is one for elements of 1, 2, 4, 8 and 16 bytes.
    """


class Loop:
    """A generated loop at an address, for operands of certain types; `code` is kept alive as long as it is.

    If it `takes_rows`, those that fill a vector need no buffer.
    """

    def __init__(
        self,
        address: int,
        types: tuple[Any, ...],
        result: Any,
        numbers: tuple[str, ...],
        cost: float,
        lanes: int,
        takes_rows: bool,
        code: Any,
    ) -> None:
        pass


class Kernel:
    """A kernel of generated loops, one for each combination of types that it meets.

    Where it `checks_integers`, which are not to be written before, it writes into no array of them that exists. It writes
    into one for `count` operands. `in_numbers(dtype)`, where it gives truth values, is the kernel that gives these as numbers.
    `make(types, params)` gives the loop of a combination, or None if there is none: then `reference` computes.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        key: Callable[..., Any],
        reference: Callable[..., Any],
    ) -> None:
        self.reference = reference
        self.checks_integers, self.count = False, 0
        self.in_numbers: Callable[[Any], Kernel] | None = None

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        return self.reference(*arrays, **params)


def into_by(
    kernels: dict[str, Kernel | None], find: Callable[[Any], Kernel | None], others: dict[str, Callable[..., bool]]
) -> Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], bool]:
    """What computes a primitive into an array, which may be one of the operands, and says whether that was done.

    It is not done for a result of another shape or type, nor for operands that share some memory with the array, nor for
    memory that cannot be written. `find` puts the kernel of a primitive into the table, or None. `others` do it for primitives
    that have none, by their names: functions of the array, the operands and the parameters.
    """
    return lambda primitive, out, operands, params: False


def of_one(kernel: Kernel) -> Callable[..., Any]:
    """The kernel as a function of one operand and no parameters, which is called in less time."""
    return kernel


def of_two(kernel: Kernel) -> Callable[..., Any]:
    """The same for two operands."""
    return kernel
