"""Orthogonal polynomials: `by` counts how often they are differentiated."""

from typing import Any

from lucid.ops.categories import Check
from lucid.ops.rules import P
from lucid.ops.special.declaration import declare


def _polynomial(name: str) -> None:
    def slope(x: Any, n: Any, by: int) -> Any:
        return getattr(P, name)(x, n, by=by + 1)

    # The degree is a whole number (others lose their fraction), so nothing changes with it.
    checks = Check("that degrees are not too large")
    declare(name, (slope, 0), "x n", calls="a recurrence", checks=checks)


for _name in (
    *(f"{which}chebyshev_polynomial_{kind}" for which in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    _polynomial(_name)
