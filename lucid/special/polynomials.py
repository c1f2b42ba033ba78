"""Orthogonal polynomials, by their recurrences: values and derivatives of any order at once.

    p_(k+1)(x) = (A x + B) p_k(x) - C p_(k-1)(x)

Differentiated m times, the same recurrence has one more term, m A p_k^(m-1)(x).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.ops.out import into
from lucid.ops.promotion import FLOAT, general
from lucid.ops.rules import Elementwise, P
from lucid.special.doors import declare, documented

Array = Any
Steps = Callable[[int], tuple[float, float, float]]
_MOST = 10**6  # steps, each over the whole array


def _evaluator(steps: Steps) -> Callable[..., Array]:
    def evaluate(x: Array, n: Array, by: int) -> Array:
        x, n = np.broadcast_arrays(x, n)
        degree = np.trunc(n)
        before, now = [np.zeros(x.shape)] * (by + 1), [np.ones(x.shape), *[np.zeros(x.shape)] * by]
        out = np.where(degree == 0, now[by], 0.0)
        highest = np.max(degree, initial=0.0, where=np.isfinite(degree))
        if highest > _MOST:
            raise ValueError(
                f"a polynomial of degree {highest:g} takes as many steps; degrees up to {_MOST} are supported"
            )
        for k in range(int(highest)):
            a, b, c = steps(k)
            before, now = (
                now,
                [
                    (a * x + b) * now[m] + (m * a * now[m - 1] if m else 0.0) - (c * before[m] if c else 0.0)
                    for m in range(by + 1)
                ],
            )
            out = np.where(degree == k + 1, now[by], out)
        return np.where(np.isfinite(degree), out, np.nan)

    return evaluate


def _chebyshev(a: float, b: float) -> Steps:
    """T, U, V and W differ in the polynomial of degree 1."""
    return lambda k: (2.0, 0.0, 1.0) if k else (a, b, 0.0)


def _shifted(steps: Steps) -> Steps:
    """The same polynomials of 2x - 1."""

    def shifted(k: int) -> tuple[float, float, float]:
        a, b, c = steps(k)
        return 2 * a, b - a, c

    return shifted


def _public(name: str, steps: Steps, text: str, result: str) -> Callable[..., Any]:
    def slope(x: Any, n: Any, by: int) -> Any:
        return getattr(P, name)(x, n, by=by + 1)

    # The degree is a whole number (others lose their fraction), so nothing changes with it.
    prim: Elementwise = declare(name, _evaluator(steps), (slope, 0), "x n")

    def op(input: Any, n: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, op, (input, n), {})
        return general(prim, (input, n), FLOAT, {"by": 0})

    sentence = f"{text} of degree `n`; 0 for negative degrees."
    return documented(op, prim, f"{sentence} | [0.5, 2.0]; 3 -> Tensor([{result}])", "lucid.special", name)


_T, _U, _V, _W = _chebyshev(1.0, 0.0), _chebyshev(2.0, 0.0), _chebyshev(2.0, -1.0), _chebyshev(2.0, 1.0)

chebyshev_polynomial_t = _public(
    "chebyshev_polynomial_t", _T, "Chebyshev polynomial of the first kind, cos(n arccos x),", "-1., 26."
)
chebyshev_polynomial_u = _public("chebyshev_polynomial_u", _U, "Chebyshev polynomial of the second kind", "-1., 56.")
chebyshev_polynomial_v = _public("chebyshev_polynomial_v", _V, "Chebyshev polynomial of the third kind", "-1., 41.")
chebyshev_polynomial_w = _public("chebyshev_polynomial_w", _W, "Chebyshev polynomial of the fourth kind", "-1., 71.")
shifted_chebyshev_polynomial_t = _public(
    "shifted_chebyshev_polynomial_t", _shifted(_T), "Chebyshev polynomial of the first kind at 2x - 1,", " 0., 99."
)
shifted_chebyshev_polynomial_u = _public(
    "shifted_chebyshev_polynomial_u", _shifted(_U), "Chebyshev polynomial of the second kind at 2x - 1,", "  0., 204."
)
shifted_chebyshev_polynomial_v = _public(
    "shifted_chebyshev_polynomial_v", _shifted(_V), "Chebyshev polynomial of the third kind at 2x - 1,", "  1., 169."
)
shifted_chebyshev_polynomial_w = _public(
    "shifted_chebyshev_polynomial_w", _shifted(_W), "Chebyshev polynomial of the fourth kind at 2x - 1,", " -1., 239."
)
hermite_polynomial_h = _public(
    "hermite_polynomial_h", lambda k: (2.0, 0.0, 2.0 * k), "Hermite polynomial (of physics)", "-5., 40."
)
hermite_polynomial_he = _public(
    "hermite_polynomial_he", lambda k: (1.0, 0.0, float(k)), "Hermite polynomial (of probability)", "-1.375,  2.   "
)
laguerre_polynomial_l = _public(
    "laguerre_polynomial_l",
    lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)),
    "Laguerre polynomial",
    "-0.1458, -0.3333",
)
legendre_polynomial_p = _public(
    "legendre_polynomial_p",
    lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1)),
    "Legendre polynomial",
    "-0.4375, 17.    ",
)
