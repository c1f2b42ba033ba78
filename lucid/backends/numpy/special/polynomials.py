"""Orthogonal polynomials, by their recurrences: values and derivatives of any order at once.

    p_(k+1)(x) = (A x + B) p_k(x) - C p_(k-1)(x)

Differentiated m times, the same recurrence has one more term, m A p_k^(m-1)(x).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.special.precision import in_double
from lucid.core.kernels import fill

Steps = Callable[[int], tuple[float, float, float]]
Array = Any


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


_T, _U, _V, _W = _chebyshev(1.0, 0.0), _chebyshev(2.0, 0.0), _chebyshev(2.0, -1.0), _chebyshev(2.0, 1.0)


fill(
    {
        "chebyshev_polynomial_t": in_double(_evaluator(_T)),
        "chebyshev_polynomial_u": in_double(_evaluator(_U)),
        "chebyshev_polynomial_v": in_double(_evaluator(_V)),
        "chebyshev_polynomial_w": in_double(_evaluator(_W)),
        "shifted_chebyshev_polynomial_t": in_double(_evaluator(_shifted(_T))),
        "shifted_chebyshev_polynomial_u": in_double(_evaluator(_shifted(_U))),
        "shifted_chebyshev_polynomial_v": in_double(_evaluator(_shifted(_V))),
        "shifted_chebyshev_polynomial_w": in_double(_evaluator(_shifted(_W))),
        "hermite_polynomial_h": in_double(_evaluator(lambda k: (2.0, 0.0, 2.0 * k))),
        "hermite_polynomial_he": in_double(_evaluator(lambda k: (1.0, 0.0, float(k)))),
        "laguerre_polynomial_l": in_double(_evaluator(lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)))),
        "legendre_polynomial_p": in_double(_evaluator(lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1)))),
    }
)
