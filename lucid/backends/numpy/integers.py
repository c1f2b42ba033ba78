"""Functions of whole numbers."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill


def _of_integers(function: np.ufunc) -> Any:
    def impl(x: Any, y: Any) -> Any:
        if np.result_type(x, y).kind == "b":
            raise TypeError(f"{function.__name__} takes integers, not booleans; convert them first, as with .int()")
        return function(x, y)

    return impl


fill(
    {
        "gcd": _of_integers(np.gcd),
        "lcm": _of_integers(np.lcm),
    }
)
