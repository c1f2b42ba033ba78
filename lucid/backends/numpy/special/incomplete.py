"""Derivatives of the incomplete gamma and beta functions by their parameters, of any order, on bare arrays.

With t = exp(L) the gamma density is that of L = log t, exp(aL - e^L) / Γ(a); with t = 1 / (1 + exp(-L)) the beta density
is exp(a log t + b log(1-t)) / B(a, b). Both are smooth and log-concave in L on the whole line, and a derivative by a
parameter multiplies them by a polynomial in log t. So P, Q and I, differentiated, are integrals over the tail of L that
does not contain the mode (both tails add up to a constant), where nothing cancels and quadrature converges fast.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.numpy.special.precision import special

Array = np.ndarray[Any, np.dtype[np.float64]]

_BLOCK = 2048  # elements integrated at once: a block and its nodes fit into a few megabytes
_SERIES_TERMS = 28  # of a series whose terms fall faster than 1/k!
_FALL = 40.0  # exp(-40) of the density is left out
_NEWTON_STEPS = 12
_LARGE = 20.0  # from here on Stirling's series is exact in double precision


@cache
def _panel_rule() -> tuple[Array, Array]:
    """Gauss' and Legendre's nodes and weights on [0, 1], for tails with one scale."""
    nodes, weights = np.polynomial.legendre.leggauss(56)
    return (nodes + 1) / 2, weights / 2


@cache
def _tail_rule() -> tuple[Array, Array]:
    """Nodes and weights for ∫ f(v) dv over v > 0 by v = exp(u - exp(-u)), for f that falls like exp(-v) in the end."""
    step = 1 / 28
    u = np.arange(-3.6, 3.75, step)
    v = np.exp(u - np.exp(-u))
    return v, v * (1 + np.exp(-u)) * step


def exponential_derivatives(slope: Callable[[int, int], Array], rows: int, columns: int) -> list[list[Array]]:
    """Y[i][j] with ∂ⁱ∂ʲ exp(f) = Y[i][j]·exp(f), from slope(i, j) = ∂ⁱ∂ʲ f: complete Bell polynomials."""
    one = np.ones(())
    table: list[list[Array]] = [[one] * (columns + 1) for _ in range(rows + 1)]

    def product(i: int, j: int, by_row: bool) -> Array:
        # One factor f' by the variable of which there is at least one, the rest by Leibniz' rule.
        above, beside = (i - 1, j) if by_row else (i, j - 1)
        total: Array = np.zeros(())
        for p in range(above + 1):
            for q in range(beside + 1):
                ways = math.comb(above, p) * math.comb(beside, q)
                factor = slope(p + by_row, q + (not by_row))
                total = total + ways * factor * table[above - p][beside - q]
        return total

    for i in range(rows + 1):
        for j in range(columns + 1):
            if i or j:
                table[i][j] = product(i, j, by_row=i > 0)
    return table


def falling_derivatives(a: Array, count: int, order: int) -> list[Array]:
    """The derivatives up to `order` of a (a-1) … (a-count+1) by a."""
    found: list[Array] = [np.ones_like(a), *(np.zeros_like(a) for _ in range(order))]
    for k in range(count):
        found = [
            (a - k) * found[i] + (i * found[i - 1] if i else 0.0)  # Leibniz: the factor is linear in a
            for i in range(order + 1)
        ]
    return found


def _product(left: Array, right: Array) -> Array:
    """left · right where a 0 wins over an infinite factor: powers win over logarithms."""
    return np.where((left == 0) | (right == 0), 0.0, left * right)


def _in_blocks(function: Callable[..., Array], *operands: Array) -> Array:
    """A function of flat arrays on broadcast ones, some thousand elements at a time."""
    spread = np.broadcast_arrays(*operands)
    flat = [a.reshape(-1) for a in spread]
    out = np.empty(flat[0].shape)
    for start in range(0, out.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        out[block] = function(*[a[block] for a in flat])
    return out.reshape(spread[0].shape)


def _put(out: Array, where: Any, function: Callable[..., Array], *operands: Array) -> None:
    """Write the function's values into `out` at some places, if there are any."""
    if where.any():
        out[where] = function(*[a[where] for a in operands])


# --- gamma -------------------------------------------------------------------------------------


def poisson(a: Array, x: Array) -> Array:
    """x^a e^(-x) / Γ(a+1); for large a by Stirling's series around x = a, where the parts would cancel."""
    large = np.where(a > _LARGE, a, _LARGE)
    relative = (x - large) / large
    correction = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / large**2) / large**2) / large**2) / large
    near = np.exp(-large * (relative - np.log1p(relative)) - correction) / np.sqrt(2 * np.pi * large)
    return np.where(a > _LARGE, near, np.exp(special.xlogy(a, x) - x - special.gammaln(a + 1)))


def _gamma_slopes(a: Array, logs: Array) -> Callable[[int, int], Array]:
    """The derivatives by a of aL - log Γ(a+1)."""

    def slope(i: int, j: int) -> Array:
        found: Array = special.polygamma(i - 1, a + 1)
        return logs - found if i == 1 else -found

    return slope


def gamma_density(a: Array, x: Array, by_a: int, by_x: int) -> Array:
    """∂ⁿ/∂aⁿ ∂ᵐ/∂xᵐ of x^(a-1) e^(-x) / Γ(a), limits at x = 0 included."""
    a, x = np.broadcast_arrays(a, x)
    factors = exponential_derivatives(_gamma_slopes(a, np.log(x)), by_a, 0)
    total = np.zeros(a.shape)
    for j in range(by_x + 1):  # j of the derivatives fall on the power, the others on exp(-x)
        # Below 1, x^a may underflow where x^(a-1-j) does not.
        below = np.exp(special.xlogy(a - 1 - j, x) - x - special.gammaln(a + 1))
        power = np.where(x < 1, below, poisson(a, x) * x ** (-1.0 - j))
        polynomial = falling_derivatives(a, j + 1, by_a)
        for i in range(by_a + 1):
            weight = math.comb(by_x, j) * (-1) ** (by_x - j) * math.comb(by_a, i)
            total = total + weight * _product(_product(power, polynomial[by_a - i]), factors[i][0])
    total = np.where(np.isinf(a) | np.isinf(x), 0.0, total)
    return np.where((a < 0) | (x < 0) | np.isnan(a + x), np.nan, total)


def gamma_quantile_by_a(a: Array, x: Array) -> Array:
    """∂x/∂a where P(a, x) stays as it is."""
    slope: Array = -gammainc_by_a(a, x, 1) / gamma_density(a, x, 0, 0)
    return slope


def _gamma_series(a: Array, x: Array, order: int) -> Array:
    """Σ x^(a+k) e^(-x) / Γ(a+k+1), differentiated by a term by term, for x < 1."""
    factors = exponential_derivatives(_gamma_slopes(a, np.log(x)), order, 0)
    first = poisson(a, x)
    terms = [_product(first, np.broadcast_to(f[0], a.shape)) for f in factors]
    total = terms[order]
    for k in range(1, _SERIES_TERMS):
        # term = next · (a+k) / x, and Leibniz' rule for the product.
        following: list[Array] = []
        for i in range(order + 1):
            following.append((x * terms[i] - (i * following[i - 1] if i else 0.0)) / (a + k))
        terms = following
        total = total + terms[order]
    return total


def _gamma_tail(a: Array, x: Array, order: int) -> Array:
    """The integral over the tail beyond x, below where x < a and above elsewhere, for x >= 1."""
    side = np.where(x < a, -1.0, 1.0)

    def fall(v: Array, a: Array, x: Array, side: Array) -> Array:
        """How much the exponent is lower at a distance from x than at x."""
        return x * (np.expm1(side * v) - side * v) - (a - x) * side * v

    # From above; the curvature is x / e at least for v < 1.
    near = np.sqrt(2 * math.e * _FALL / x)
    end = np.where((side > 0) | (near <= 1), near, (_FALL + x) / a)
    for _ in range(_NEWTON_STEPS):
        end = end - (fall(end, a, x, side) - _FALL) / (side * (x * np.exp(side * end) - a))
    nodes, weights = _panel_rule()
    at = [value[:, None] for value in (a, x, side)]
    v = end[:, None] * nodes
    factors = exponential_derivatives(_gamma_slopes(at[0], np.log(at[1]) + at[2] * v), order, 0)
    # 1/Γ(a) = a/Γ(a+1) has a derivative at a = 0 too.
    by_a = at[0] * factors[order][0] + order * factors[order - 1][0]
    found: Array = -side * end * poisson(a, x) * ((np.exp(-fall(v, *at)) * by_a) @ weights)
    return found


def gammainc_by_a(a: Array, x: Array, order: int) -> Array:
    """∂ⁿ/∂aⁿ of P(a, x) = γ(a, x) / Γ(a), n >= 1."""

    def block(a: Array, x: Array) -> Array:
        out = np.full(a.shape, np.nan)
        inside = (a >= 0) & (x >= 0) & np.isfinite(a) & np.isfinite(x)
        _put(out, inside & (x < 1), lambda a, x: _gamma_series(a, x, order), a, x)
        _put(out, inside & (x >= 1), lambda a, x: _gamma_tail(a, x, order), a, x)
        out[(a > 0) & (x == np.inf) | (a == np.inf) & (x >= 0) & (x < np.inf)] = 0.0
        out[(a == 0) & (x == 0)] = np.nan
        return out

    return _in_blocks(block, a, x)


# --- beta --------------------------------------------------------------------------------------


def _beta_slopes(a: Array, b: Array, logs: Array, others: Array) -> Callable[[int, int], Array]:
    """The derivatives by a and b of a log t + b log(1-t) - log B(a, b)."""

    def slope(i: int, j: int) -> Array:
        both: Array = special.polygamma(i + j - 1, a + b)
        if i and j:
            return both
        own = both - special.polygamma(i + j - 1, a if i else b)
        return own + (logs if i else others) if i + j == 1 else own

    return slope


def _beta_power(a: Array, b: Array, x: Array) -> Array:
    """x^a (1-x)^b / B(a, b)."""
    found: Array = np.exp(special.xlogy(a, x) + special.xlog1py(b, -x) - special.betaln(a, b))
    return found


def beta_density(a: Array, b: Array, x: Array, by_a: int, by_b: int, by_x: int) -> Array:
    """∂ⁿ/∂aⁿ ∂ᵐ/∂bᵐ ∂ˡ/∂xˡ of x^(a-1) (1-x)^(b-1) / B(a, b)."""
    a, b, x = np.broadcast_arrays(a, b, x)
    factors = exponential_derivatives(_beta_slopes(a, b, np.log(x), np.log1p(-x)), by_a, by_b)
    total = np.zeros(a.shape)
    for j in range(by_x + 1):
        # Powers are lowered j and by_x - j times; B(a, b) stays.
        low, high = a - 1 - j, b - 1 - (by_x - j)
        power = np.exp(special.xlogy(low, x) + special.xlog1py(high, -x) - special.betaln(a, b))
        left, right = falling_derivatives(a - 1, j, by_a), falling_derivatives(b - 1, by_x - j, by_b)
        for p in range(by_a + 1):
            for q in range(by_b + 1):
                weight = math.comb(by_x, j) * (-1) ** (by_x - j) * math.comb(by_a, p) * math.comb(by_b, q)
                polynomial = left[by_a - p] * right[by_b - q]
                total = total + weight * _product(_product(power, polynomial), factors[p][q])
    return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), total, np.nan)


def _beta_tail(a: Array, b: Array, x: Array, by_a: int, by_b: int) -> Array:
    """The integral over the tail of L beyond logit(x), below where x is below the mean and above elsewhere."""
    side = np.where(x * (a + b) < a, -1.0, 1.0)
    start = np.log(x) - np.log1p(-x)

    def exponent(v: Array) -> tuple[Array, Array, Array]:
        """log t and log(1-t) at a distance from the end of the tail, and the fall of the exponent up to there."""
        dims = (...,) + (None,) * (v.ndim - 1)
        at = start[dims] + side[dims] * v
        bend = np.log1p(np.exp(-np.abs(at)))
        logs, others = np.minimum(at, 0) - bend, np.minimum(-at, 0) - bend
        fall = a[dims] * (np.log(x)[dims] - logs) + b[dims] * (np.log1p(-x)[dims] - others)
        return logs, others, fall

    # Newton's method from above for the distance at which a convex function reaches _FALL.
    outer, inner = np.where(side < 0, a, b), np.where(side < 0, b, a)
    ahead = np.maximum(-side * start, 0) + math.log(2)
    end = (_FALL + inner * ahead) / outer + ahead
    for _ in range(_NEWTON_STEPS):
        logs, others, fall = exponent(end)
        end = end - (fall - _FALL) / -(side * (a * np.exp(others) - b * np.exp(logs)))
    scale = end / _FALL
    nodes, weights = _tail_rule()
    logs, others, fall = exponent(scale[:, None] * nodes)
    factors = exponential_derivatives(_beta_slopes(a[:, None], b[:, None], logs, others), by_a, by_b)
    found: Array = -side * scale * _beta_power(a, b, x) * ((np.exp(-fall) * factors[by_a][by_b]) @ weights)
    return found


def betainc_by_parameters(a: Array, b: Array, x: Array, by_a: int, by_b: int) -> Array:
    """∂ⁿ/∂aⁿ ∂ᵐ/∂bᵐ of I_x(a, b), n + m >= 1."""

    def block(a: Array, b: Array, x: Array) -> Array:
        inside = (a > 0) & (b > 0) & np.isfinite(a + b) & (x >= 0) & (x <= 1)
        out = np.where(inside, 0.0, np.nan)
        _put(out, inside & (x > 0) & (x < 1), lambda a, b, x: _beta_tail(a, b, x, by_a, by_b), a, b, x)
        return out

    return _in_blocks(block, a, b, x)
