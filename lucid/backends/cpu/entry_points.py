"""What compiled programs call in place of a kernel: C functions that need no interpreter.

An entry point is a function `void (const void *task, char **data)`. The task is a plain struct of sizes, strides and
numbers, made once for arrays of known shapes; `data` has the addresses of operands, results and workspace. A kernel calls
the same function, with the memory of its arrays.

A kernel's `Lowering` says of which such calls, products of matrices and copies it consists. It is given places, which have
an `array` that shows shape, strides and type of what will lie there, and `shown(array)` for views of it; what is absent is
None. It writes to the places of the results, which lie in row-major order, and leaves what it does not serve to the
kernel: then it must not have made any step.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from lucid.backends.cpu.blas import cores
from lucid.backends.cpu.thread_pool import size


class Entry(NamedTuple):
    """A C function and what it is given beside memory."""

    address: int
    task: bytes
    kept: Any = None  # what the task points to


class Steps(Protocol):
    """What a lowering is made of: each call adds a step to a program."""

    can_check: bool  # whether `check` may be used

    def new(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A place of its own."""

    def constant(self, array: Any) -> Any:
        """The place of an array that is known."""

    def ordered(self, place: Any) -> Any:
        """What a place shows, in row-major order."""

    def copy(self, source: Any, target: Any) -> None:
        """The elements of one place to another of the same shape."""

    def clear(self, place: Any) -> None:
        """Zeros to the whole of a place that `new` gave, or of a result."""

    def add_into(self, source: Any, target: Any) -> None:
        """target += source, of one type."""

    def sum(self, place: Any, dims: tuple[int, ...], out: Any) -> None:
        """The sums over dimensions that follow each other, of float32 or float64, as `P.sum` makes them."""

    def can_multiply(self, dtype: Any) -> bool:
        """Whether there are products of matrices of a type."""

    def multiply(self, x: Any, y: Any, out: Any) -> None:
        """The products of stacks of matrices; that of the result lies in row-major order."""

    def enter(self, entry: Entry, places: Sequence[Any]) -> None:
        """Call an entry point; None stands for the address 0."""

    def check(self, place: Any) -> None:
        """Give the run up if a place holds anything but 0: the program is then run by kernels."""


class Lowering(NamedTuple):
    """The steps of a kernel, and of its derivative, if it is one `WithBackward`.

    `forward(steps, outs, *operands, **params)` gives the places of the residuals, or None for what it does not serve.
    `backward(steps, outs, cts, operands, residuals, **params)` has a place in `outs` for each operand whose cotangent is
    needed, and gives whether it serves.
    """

    forward: Callable[..., Sequence[Any] | None]
    backward: Callable[..., bool] | None = None


lowerings: dict[str, Lowering] = {}  # by the names of primitives


def lower(found: Mapping[str, Lowering]) -> None:
    """Declare the steps of kernels."""
    lowerings.update(found)


def most_threads() -> int:
    """So many threads find room in the workspace of an entry point."""
    return max(size(), cores())
