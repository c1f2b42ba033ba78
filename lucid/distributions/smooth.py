"""Functions that are smooth at 0 where their usual formulas are not: a series near it, with its derivatives."""

from collections.abc import Callable, Sequence

import lucid
from lucid import Tensor


def _series(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = lucid.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def near_zero(
    x: Tensor, radius: float, coefficients: Sequence[float], formula: Callable[[Tensor], Tensor], power: int = 1
) -> Tensor:
    """Σ cₖ x^(power·k) for |x| < radius, elsewhere the formula."""
    near = x.abs() < radius
    inside = lucid.where(near, x, 0.0)
    return lucid.where(near, _series(coefficients, inside**power), formula(lucid.where(near, radius, x)))


def log1p_ratio(x: Tensor) -> Tensor:
    """log(1 + x) / x."""
    return near_zero(x, 0.01, [(-1) ** k / (k + 1) for k in range(10)], lambda x: x.log1p() / x)


def expm1_ratio(x: Tensor) -> Tensor:
    """(exp(x) - 1) / x."""
    coefficients, factorial = [], 1.0
    for k in range(1, 11):
        factorial *= k
        coefficients.append(1 / factorial)
    return near_zero(x, 0.1, coefficients, lambda x: x.expm1() / x)


# log(sinh(x) / x) in powers of x².
_SINHC = [0, 1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250, 2 / 127702575, -3617 / 2605132530000]


def log_sinhc(x: Tensor) -> Tensor:
    """log(sinh(x) / x)."""

    def formula(x: Tensor) -> Tensor:
        a = x.abs()
        return a + (-(-2 * a).exp()).log1p() - (2 * a).log()

    return near_zero(x, 0.3, _SINHC, formula, power=2)


def langevin(x: Tensor) -> Tensor:
    """coth(x) - 1/x, the derivative of log_sinhc."""
    slopes = [2 * k * c for k, c in enumerate(_SINHC)][1:]
    near = x.abs() < 0.3
    return lucid.where(near, x, 1.0) * near_zero(x, 0.3, slopes, lambda x: 1 / x.tanh() - 1 / x, power=2)


def langevin_slope(x: Tensor) -> Tensor:
    """1/x² - 1/sinh(x)², the derivative of langevin."""
    bends = [2 * k * (2 * k - 1) * c for k, c in enumerate(_SINHC)][1:]

    def formula(x: Tensor) -> Tensor:
        fall = (-2 * x.abs()).exp()
        return 1 / x**2 - 4 * fall / (1 - fall) ** 2

    return near_zero(x, 0.3, bends, formula, power=2)
