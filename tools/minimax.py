"""Coefficients of the polynomial nearest to a function on an interval, by Remez's exchange algorithm.

    python tools/minimax.py "(exp(x) - 1 - x) / x**2" "[-log(2)/2, log(2)/2]" --degree 4 --weight "x**2 / exp(x)"

minimises the largest |weight · (function - polynomial)| and prints the coefficients from the constant term on, rounded to
`--precision` bits, with the error before and after the rounding. Expressions are Python's, over the functions of mpmath.
"""

import argparse
from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

GRID = 40  # points of the grid for each coefficient


def function_of_x(text: str) -> Callable[[mp.mpf], mp.mpf]:
    code = compile(text, text, "eval")
    return lambda x: mp.mpf(eval(code, vars(mp), {"x": x}))


def value(coefficients: Sequence[mp.mpf], x: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def alternation(errors: Sequence[mp.mpf], count: int) -> list[int]:
    """Places of `count` errors of alternating sign, each the largest between two changes of sign."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if not peaks or (error > 0) != (errors[peaks[-1]] > 0):
            peaks.append(i)
        elif abs(error) > abs(errors[peaks[-1]]):
            peaks[-1] = i
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def minimax(
    function: Callable[[mp.mpf], mp.mpf],
    weight: Callable[[mp.mpf], mp.mpf],
    low: mp.mpf,
    high: mp.mpf,
    degree: int,
) -> tuple[list[mp.mpf], mp.mpf]:
    """The coefficients and the largest weighted error on a grid that is dense near both ends of the interval."""
    count = degree + 2
    size = GRID * count
    angles = [mp.pi * (2 * i + 1) / (2 * size) for i in range(size)]
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(a) for a in angles]
    values = [function(x) for x in points]
    weights = [abs(weight(x)) for x in points]
    chosen = [GRID * i + GRID // 2 for i in range(count)]
    for _ in range(60):
        rows = [[points[i] ** k for k in range(degree + 1)] + [(-1) ** j / weights[i]] for j, i in enumerate(chosen)]
        *coefficients, levelled = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i] for i in chosen]))
        errors = [w * (v - value(coefficients, x)) for w, v, x in zip(weights, values, points, strict=True)]
        largest = max(abs(e) for e in errors)
        if largest < abs(levelled) * 1.001:
            break
        peaks = alternation(errors, count)
        if len(peaks) < count:
            raise ArithmeticError("the error changes its sign too rarely: try another degree or precision")
        chosen = peaks
    return coefficients, largest


def rounded(x: mp.mpf, precision: int) -> float:
    return float(np.float32(float(x))) if precision == 24 else float(x)


def minimax_of_rounded(
    function: Callable[[mp.mpf], mp.mpf],
    weight: Callable[[mp.mpf], mp.mpf],
    low: mp.mpf,
    high: mp.mpf,
    degree: int,
    precision: int,
) -> list[float]:
    """Rounded coefficients, each fitted again to what the rounding of those before it left."""
    first = rounded(minimax(function, weight, low, high, degree)[0][0], precision)
    if degree == 0:
        return [first]
    return [
        first,
        *minimax_of_rounded(
            lambda x: (function(x) - first) / x, lambda x: weight(x) * x, low, high, degree - 1, precision
        ),
    ]


def table(arguments: Sequence[str] | None = None) -> tuple[tuple[float, ...], float, float]:
    """What a command line asks for: coefficients, and the binary logarithms of their error before and after rounding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function")
    parser.add_argument("interval", help="[low, high]")
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--weight", default="1")
    parser.add_argument("--precision", type=int, default=53, choices=(24, 53))
    parser.add_argument("--refit", action="store_true", help="fit again after rounding each; 0 must not be inside")
    given = parser.parse_args(arguments)
    with mp.workprec(250):
        function, weight = function_of_x(given.function), function_of_x(given.weight)
        low, high = (mp.mpf(end) for end in eval(given.interval, vars(mp)))
        coefficients, error = minimax(function, weight, low, high, given.degree)
        written = [rounded(c, given.precision) for c in coefficients]
        if given.refit:
            written = minimax_of_rounded(function, weight, low, high, given.degree, given.precision)
        inside = [low + (high - low) * (2 * i + 1) / 1000 for i in range(500)]
        after = max(abs(weight(x) * (function(x) - value([mp.mpf(c) for c in written], x))) for x in inside)
        return tuple(written), float(mp.log(error, 2)), float(mp.log(after, 2))


def main() -> None:
    coefficients, error, after = table()
    shortest = [np.float32(c) if float(np.float32(c)) == c else c for c in coefficients]
    print("(" + ", ".join(str(c) for c in shortest) + ",)")
    print(f"error 2^{error:.1f}, rounded 2^{after:.1f}")


if __name__ == "__main__":
    main()
