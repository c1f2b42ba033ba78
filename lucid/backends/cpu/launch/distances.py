"""Distances of rows to others, without an array of all differences.

Generation does not reach it: loops over pairs of rows are no fold of one array, and going back each row adds up what
all others ask of it. This is a stand-in for `distances.pyx`, by which all is left to the definition.
"""

from typing import Any


def distances(x: Any, y: Any, out: Any, low: float, high: float) -> bool:
    """Write the distance of each row of `x` to each of `y` into `out`, all in rows one after the other.

    Whether that was done: it is not where a sum of squares is below `low` or above `high`, unless rows are equal.
    """
    return False


def pull(ct: Any, x: Any, y: Any, out: Any, into: Any) -> None:
    """Add to the cotangent of `x` what that of the distances `out` gives."""
    raise RuntimeError("distances are left to their definition without compiled code")
