"""Functions of whole numbers."""

from typing import Any

import numpy as np

from lucid.ops.elementwise import binary
from lucid.ops.promotion import INTEGRAL


def _of_integers(function: np.ufunc) -> Any:
    def impl(x: Any, y: Any) -> Any:
        if np.result_type(x, y).kind == "b":
            raise TypeError(f"{function.__name__} takes integers, not booleans; convert them first, as with .int()")
        return function(x, y)

    return impl


gcd = binary(
    "gcd",
    _of_integers(np.gcd),
    (None, None),
    "The greatest number that divides both. | [12, 5]; [18, 0] -> Tensor([6, 5])",
    INTEGRAL,
)
lcm = binary(
    "lcm",
    _of_integers(np.lcm),
    (None, None),
    "The least positive number that both divide. | [4, 5]; [6, 0] -> Tensor([12,  0])",
    INTEGRAL,
)

METHODS = "gcd lcm"
