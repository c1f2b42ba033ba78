"""Runs generated reductions over arrays of any shapes and strides, in threads where that pays.

It belongs to compiled code (folds.pyx), as elementwise.py does.
"""

from collections.abc import Callable
from typing import Any


class Reduction:
    """Generated loops of a fold over elements of a type: those of `codegen.folds.FUNCTIONS_OF_A_FOLD`, of which `narrow` may
    be missing, with vectors of so many `lanes`.
    """

    def __init__(
        self, addresses: tuple[int, ...], states: tuple[int, ...], lanes: int, result: Any, cost: float, code: Any
    ) -> None:
        pass


class Kernel:
    """A reduction by generated loops, one for each type that it meets, which `make(dtype)` gives.

    Where that gives None, and where no elements are put together, `reference` computes.
    """

    def __init__(self, make: Callable[[Any], Any], reference: Callable[..., Any]) -> None:
        self.reference = reference

    def run(self, x: Any, dims: tuple[int, ...], keepdim: bool, given: Any = None) -> Any:
        """The result, of elements and, for each result, a number that is given; None if the reference is to compute it."""
        return None


def of_dims(kernel: Kernel) -> Callable[..., Any]:
    """The kernel as a function of an array, `dims` and `keepdim`."""
    return kernel.reference


def of_one_dim(kernel: Kernel) -> Callable[..., Any]:
    """The kernel as a function of an array and `dim`."""
    return kernel.reference


def of_roots(
    squares: Kernel, limits: dict[int, tuple[float, float]], general: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel of norms: roots of sums of squares, where these are within the limits for their type, by its number."""
    return general


def of_variance(
    sums: Kernel, squares: Kernel, by: Callable[..., Any], general: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel of the variance: `squares` puts together those of distances from numbers that are given.

    `by(x, divisor)` divides large arrays.
    """
    return general


def of_deviation(
    sums: Kernel, squares: Kernel, limits: dict[int, tuple[float, float]], by: Callable[..., Any]
) -> Callable[..., Any]:
    """The root of the variance, of an array; None where there are no loops, or sums are not within the limits."""
    return lambda x, dims, keepdim, divisor: None
