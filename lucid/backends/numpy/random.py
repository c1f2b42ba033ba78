"""What turns uniform numbers into draws from other distributions, and the check of their arguments."""

from typing import Any

import numpy as np

from lucid.backends.numpy.scalars import scipy_special
from lucid.core.kernels import fill


def _poisson_quantile(chance: Any, rates: Any) -> Any:
    """The smallest count whose cumulative probability reaches `chance`."""
    if not np.all(rates >= 0) or np.isinf(rates).any():
        raise ValueError("poisson: rates must be finite and not negative")
    cumulative, inverse = scipy_special("pdtr"), scipy_special("pdtrik")
    safe = np.where(rates == 0, 1.0, rates)
    count = np.ceil(inverse(chance, safe))
    # The inverse is found by iteration: it may end just above a whole number and be rounded up too far.
    fewer = np.maximum(count - 1, 0)
    return np.where(rates == 0, 0, np.where(cumulative(fewer, safe) >= chance, fewer, count))


def _pick(weights: Any, chance: Any, count: int, replacement: bool) -> Any:
    """Places in rows of weights, from as many random numbers as there are samples (with replacement) or weights."""
    raise_unless_weights(weights, count, replacement)
    lead = weights.shape[:-1]
    rows, chances = weights.reshape(-1, weights.shape[-1]), chance.reshape(-1, chance.shape[-1])
    found = _with_replacement(rows, chances) if replacement else _without_replacement(rows, chances, count)
    return found.reshape(*lead, count)


def raise_unless_weights(weights: Any, num_samples: int, replacement: bool) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("multinomial: weights must be finite and not negative")
    possible = (weights > 0).sum(-1)
    if not possible.all():
        raise ValueError("multinomial: a row of weights has no positive one")
    if not replacement and num_samples > possible.min(initial=num_samples):
        raise ValueError(
            f"multinomial: {num_samples} samples without replacement, but only {possible.min()} weights are positive"
        )


def _with_replacement(rows: Any, chance: Any) -> Any:
    """By inverse transform: how many cumulative weights lie at or below a random part of the total."""
    found = np.empty(chance.shape, np.int64)
    for row, (weights, u) in enumerate(zip(rows, chance, strict=True)):
        sums = np.cumsum(weights)
        found[row] = np.searchsorted(sums, u * sums[-1], side="right")
        np.minimum(found[row], np.flatnonzero(weights)[-1], out=found[row])
    return found


def _without_replacement(rows: Any, chance: Any, num_samples: int) -> Any:
    """By racing: of exponential waiting times, with the weights as rates, the shortest come first."""
    waits = -np.log(chance)
    waits = np.divide(waits, rows, out=np.full(rows.shape, np.inf), where=rows > 0)
    first = np.argpartition(waits, num_samples - 1, axis=-1)[:, :num_samples]
    order = np.argsort(np.take_along_axis(waits, first, -1), axis=-1)
    return np.take_along_axis(first, order, -1)


def _binomial_quantile(chance: Any, count: Any, prob: Any) -> Any:
    """The smallest number of successes whose cumulative probability reaches `chance`."""
    if not (np.all((count >= 0) & (count < 2.0**63)) and np.all((prob >= 0) & (prob <= 1))):
        raise ValueError(
            "binomial: counts must not be negative or have more than 63 bits, and probabilities lie between 0 and 1"
        )
    cumulative, inverse = scipy_special("bdtr"), scipy_special("bdtrik")
    trials = np.floor(count)
    certain = (trials == 0) | (prob == 0) | (prob == 1)
    n, p = np.where(certain, 1.0, trials), np.where(certain, 0.5, prob)
    found = np.clip(np.ceil(inverse(chance, n, p)), 0, n)
    # The inverse is found by iteration: it may end just above a whole number and be rounded up too far.
    fewer = np.maximum(found - 1, 0)
    found = np.where(cumulative(fewer, n.astype(np.int64), p) >= chance, fewer, found)
    return np.where(certain, np.where(prob == 1, trials, 0), found)


def _satisfied(holds: Any, what: str) -> Any:
    if not holds.all():
        raise ValueError(f"{what}; {holds.size - np.count_nonzero(holds)} of {holds.size} are not")
    return holds


fill(
    {
        "satisfied": _satisfied,
        "poisson_quantile": _poisson_quantile,
        "weighted_pick": _pick,
        "binomial_quantile": _binomial_quantile,
    }
)
