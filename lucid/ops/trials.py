"""Random counts of successes."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.primitive import Primitive
from lucid.core.rng import Generator
from lucid.core.tensor import Tensor
from lucid.ops.promotion import KEEP, lift_all, promote
from lucid.ops.random import rand
from lucid.ops.rules import P, align
from lucid.ops.special_arrays import scipy_special


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


binomial_quantile = Primitive(
    "binomial_quantile",
    _binomial_quantile,
    operands=("chance", "count", "prob"),
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
)


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Tensor:
    """The number of successes in `count` trials, each with probability `prob`; both broadcast.

    >>> import lucid
    >>> lucid.binomial(lucid.tensor([10.0, 10.0]), lucid.tensor([0.0, 1.0]))
    Tensor([ 0., 10.])
    """
    n, p = promote("binomial", lift_all(count, prob), KEEP)
    if n.np_dtype not in dtypes.FLOATING:
        raise TypeError(f"binomial: counts and probabilities must be floating-point, not {n.dtype}")
    shape = np.broadcast_shapes(n.shape, p.shape)
    chance = rand(*shape, dtype=dtypes.float64, generator=generator)
    return P.binomial_quantile(chance, n.detach().double(), p.detach().double()).to(n.np_dtype)
