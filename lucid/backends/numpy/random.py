"""What turns uniform numbers into draws from other distributions, and the check of their arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.backends.numpy.scalars import scipy_special
from lucid.core.kernels import fill

_SUMMED = 64.0  # rates below which probabilities are added up: adding takes as many steps as a count has units
_CENTRAL = 4.0  # standard deviations
_FINE = (
    1e9  # rates from which on a count, more or less, is a smaller part of a distribution than double precision shows
)
_BLOCK = 1 << 13  # elements whose temporaries stay in the cache
# Temme's uniform expansion of the incomplete gamma function, solved for its order: the count is the whole part of
# λ r + c - 0.0218 / (x + 0.065 λ / x), with r and c by powers of s = w / √λ, where w is a normal number of that chance. It is
# off by less than 0.01 / λ (M. B. Giles, Algorithm 955).
_SERIES_R = (1, 1, 1 / 6, -1 / 72, 1 / 270, -23 / 17280, 19 / 34020, -11237 / 43545600, 13 / 102060,
             -2482411 / 37623398400, 53741 / 1515591000)  # fmt: skip
_SERIES_C = (1 / 3, -1 / 36, 7 / 810, -137 / 38880, 5 / 3024, -165779 / 195955200, 301 / 656100,
             -1219369 / 4702924800, 32976641 / 218245104000)  # fmt: skip


Adding = Callable[[Any, Any, Any, Any], Any]
Extent = Callable[[Any], tuple[float, float]]


def extent(x: Any) -> tuple[float, float]:
    """The least number, infinity if there is none, and the largest one that is not below 0; nan if that is among them."""
    return x.min(initial=np.inf), x.max(initial=0)


def poisson_quantile(chance: Any, rates: Any, added_up: Adding, extent: Extent = extent) -> Any:
    """The smallest count whose cumulative probability reaches `chance`."""
    least, largest = extent(rates)
    if not (least >= 0 and largest < np.inf):
        raise ValueError("poisson: rates must be finite and not negative")
    if chance.shape != rates.shape:
        chance, rates = np.broadcast_arrays(chance, rates)
    if largest < _SUMMED:
        return added_up(chance, np.exp(-rates), rates, 0.0)
    shape, chance, rates = chance.shape, chance.reshape(-1), rates.reshape(-1)
    out, few = np.empty(rates.size), rates < _SUMMED
    low = rates[few]
    out[few] = added_up(chance[few], np.exp(-low), low, 0.0)
    many = np.flatnonzero(~few)
    for start in range(0, many.size, _BLOCK):
        at = many[start : start + _BLOCK]
        out[at] = _approximated(chance[at], rates[at])
    return out.reshape(shape)


def added_up(chance: Any, none: Any, rise: Any, fall: Any) -> Any:
    """The smallest count k for which the probabilities up to it add up to `chance`, or from which on they add nothing more.

    That of 0 is `none`, and that of k is that of k - 1 times (rise - fall · k) / k; `fall` may be one number.
    """
    shape = rise.shape
    chance, none, rise, fall = (x.reshape(-1) for x in (chance, none, rise, np.broadcast_to(fall, shape)))
    out, places, term, total, count = np.zeros(rise.size), np.arange(rise.size), none, none, 0
    while True:
        left = np.flatnonzero(total < chance)
        if not left.size:
            return out.reshape(shape)
        places, chance, rise, fall, term, total = (x[left] for x in (places, chance, rise, fall, term, total))
        count += 1
        share = (rise - fall * count) / count
        term = term * share
        sums = total + term
        ended = (sums == total) & (share < 1)
        out[places] = np.where(ended, count - 1, count)
        total = np.where(ended, np.inf, sums)


def _approximated(chance: Any, rates: Any) -> Any:
    """By the expansion, unless it says a number so near to a whole one that this may be on its other side."""
    normal = scipy_special("ndtri")(chance)
    s = normal / np.sqrt(rates)
    x = np.polynomial.polynomial.polyval(s, _SERIES_R) * rates + np.polynomial.polynomial.polyval(s, _SERIES_C)
    x -= 0.0218 / (x + 0.065 * rates / x)
    count = np.floor(x)
    error = 0.01 / rates + 1e-15 * rates
    unsure = ~((x - error > count) & (x + error < count + 1) & (np.abs(normal) < _CENTRAL)) & (rates < _FINE)
    if unsure.any():
        count[unsure] = _searched(chance[unsure], rates[unsure])
    return count


def _searched(chance: Any, rates: Any) -> Any:
    cumulative, inverse = scipy_special("pdtr"), scipy_special("pdtrik")
    count = np.ceil(inverse(chance, rates))
    # The inverse is found by iteration: it may end just above a whole number and be rounded up too far.
    fewer = np.maximum(count - 1, 0)
    return np.where(cumulative(fewer, rates) >= chance, fewer, count)


class Choices:
    """Choices by weights, of functions that give the extent of weights and that search in rows of them."""

    def __init__(self, extent: Extent, picked: Callable[[Any, Any], Any]) -> None:
        self.extent, self.picked = extent, picked

    def pick(self, weights: Any, chance: Any, count: int, replacement: bool) -> Any:
        """Places in rows of weights, from as many random numbers as there are samples (with replacement) or weights."""
        self.require(weights, count, replacement)
        lead = weights.shape[:-1]
        rows, chances = weights.reshape(-1, weights.shape[-1]), chance.reshape(-1, chance.shape[-1])
        found = self.picked(rows, chances) if replacement else _without_replacement(rows, chances, count)
        return found.reshape(*lead, count)

    def require(self, weights: Any, num_samples: int, replacement: bool) -> None:
        """Raise unless so many can be chosen."""
        least, largest = self.extent(weights)
        if not (least >= 0 and largest < np.inf):
            raise ValueError("multinomial: weights must be finite and not negative")
        if least > 0 and (replacement or num_samples <= weights.shape[-1]):
            return
        possible = (weights > 0).sum(-1)
        if not possible.all():
            raise ValueError("multinomial: a row of weights has no positive one")
        if not replacement and num_samples > possible.min(initial=num_samples):
            raise ValueError(
                f"multinomial: {num_samples} samples without replacement, but only {possible.min()} weights are positive"
            )


_COMPARED = 1 << 14  # comparisons, up to which they take less time than a search in each row
_SORTED = 64  # weights, up to which all are sorted


def picked(rows: Any, chance: Any) -> Any:
    """By inverse transform: how many cumulative weights lie at or below a random part of the total."""
    sums = np.cumsum(rows, -1)
    parts = chance * sums[:, -1:]
    last = rows.shape[-1] - 1 - np.argmax(rows[:, ::-1] > 0, -1)
    if parts.size * rows.shape[-1] <= _COMPARED:
        found = np.count_nonzero(sums[:, None, :] <= parts[..., None], -1)
    else:
        found = np.empty(chance.shape, np.int64)
        for row, (of_row, wanted) in enumerate(zip(sums, parts, strict=True)):
            found[row] = np.searchsorted(of_row, wanted, side="right")
    return np.minimum(found, last[:, None])


def _without_replacement(rows: Any, chance: Any, num_samples: int) -> Any:
    """By racing: of exponential waiting times, with the weights as rates, the shortest come first."""
    waits = -np.log(chance)
    waits = np.divide(waits, rows, out=np.full(rows.shape, np.inf), where=rows > 0)
    if rows.shape[-1] <= _SORTED:
        return np.argsort(waits, axis=-1)[:, :num_samples]
    first = np.argpartition(waits, num_samples - 1, axis=-1)[:, :num_samples]
    order = np.argsort(np.take_along_axis(waits, first, -1), axis=-1)
    return np.take_along_axis(first, order, -1)


_ADDED = 1024.0  # means below which that takes less time than a search
_LEAST = -700.0  # the logarithm of a probability of which numbers keep all digits


def binomial_quantile(chance: Any, count: Any, prob: Any, added_up: Adding) -> Any:
    """The smallest number of successes whose cumulative probability reaches `chance`."""
    if not (np.all((count >= 0) & (count < 2.0**63)) and np.all((prob >= 0) & (prob <= 1))):
        raise ValueError(
            "binomial: counts must not be negative or have more than 63 bits, and probabilities lie between 0 and 1"
        )
    chance, trials, prob = np.broadcast_arrays(chance, np.floor(count), prob)
    shape, chance, trials, prob = chance.shape, chance.reshape(-1), trials.reshape(-1), prob.reshape(-1)
    certain = (trials == 0) | (prob == 0) | (prob == 1)
    n, p = np.where(certain, 1.0, trials), np.where(certain, 0.5, prob)
    log_none, odds = n * np.log1p(-p), p / (1 - p)
    few = (n * p < _ADDED) & (log_none > _LEAST)
    if few.all():
        found = added_up(chance, np.exp(log_none), (n + 1) * odds, odds)
    else:
        found, many = np.empty(n.shape), ~few
        found[few] = added_up(chance[few], np.exp(log_none[few]), (n[few] + 1) * odds[few], odds[few])
        found[many] = _successes(chance[many], n[many], p[many])
    return np.where(certain, np.where(prob == 1, trials, 0), found).reshape(shape)


def _successes(chance: Any, n: Any, p: Any) -> Any:
    cumulative, inverse = scipy_special("bdtr"), scipy_special("bdtrik")
    found = np.clip(np.ceil(inverse(chance, n, p)), 0, n)
    # The inverse is found by iteration: it may end just above a whole number and be rounded up too far.
    fewer = np.maximum(found - 1, 0)
    return np.where(cumulative(fewer, n.astype(np.int64), p) >= chance, fewer, found)


def _satisfied(holds: Any, what: str) -> Any:
    if not holds.all():
        raise ValueError(f"{what}; {holds.size - np.count_nonzero(holds)} of {holds.size} are not")
    return holds


_CHOICES = Choices(extent, picked)
fill(
    {
        "satisfied": _satisfied,
        "poisson_quantile": lambda chance, rates: poisson_quantile(chance, rates, added_up),
        "weighted_pick": _CHOICES.pick,
        "require_weights": _CHOICES.require,
        "binomial_quantile": lambda chance, count, prob: binomial_quantile(chance, count, prob, added_up),
    }
)
