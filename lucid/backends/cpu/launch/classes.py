"""Picks one class of each row of scores, or places what belongs to it, in threads where that pays.

It belongs to compiled code (classes.pyx), as elementwise.py does. What gives None leaves it to the reference.
Its loops are written by hand: each row has one element, and memory is the whole cost, so generated code would gain nothing.
"""

from typing import Any


def pick(x: Any, target: Any, reduction: str, is_negative: bool, ignore_index: int) -> Any:
    """x[n, target[n, …], …], their sum or their mean, negative if asked for; targets that are ignored do not count.

    None for targets that are no classes, and where the reference is to compute.
    """


def place(x: Any, target: Any, reduction: str, is_negative: bool, classes: int, ignore_index: int) -> Any:
    """The transpose of `pick`: zeros, and x at the targets."""


def narrow(target: Any, classes: int, ignore_index: int) -> Any:
    """Targets (rows, …) as 32-bit numbers (rows, 1, …), -1 for those that are ignored, and how many are not."""


def entry(
    x: Any, target: Any, reduction: str, is_negative: bool, ignore_index: int, places: bool
) -> tuple[int, bytes, int] | None:
    """An entry point (`entry_points.Entry`) that picks, or places, by stand-ins for all classes and targets.

    It takes all classes, targets, what belongs to these, a byte that becomes 1 if one of them is no class, else 0, and as
    many bytes of workspace as is said.
    """
    return None
