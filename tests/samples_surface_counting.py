"""Rows of the table for histograms, occurrences, membership and positions; see `samples`."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from samples import ANY_TYPE, INTS, Array, Domain, Make, Row, Sample, calls, kink, s
from samples_surface import row
from scipy import stats

import lucid
from lucid.core.primitive import P


def scattered_values(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 5, -2.5, 2.5)
    yield s(make(7), 3)
    yield s(make(0), 3)
    yield s(make.at(1, 1), 3)
    yield kink(make.at(-3, -1, 0.5, 1, math.nan, 9), 2, -1, 1)


def interval_counts(x: Array, bins: int, low: float = 0, high: float = 0) -> Array:
    if low == high:
        low, high = (x.min(), x.max()) if x.size else (0, 0)
        low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(x[~np.isnan(x)], bins, (low, high))[0].astype(float)


def edges(make: Make) -> Array:
    return make.at(-3.0, -0.5, 2.5) + make(3) * make.at(0.05)[0]


def apart(make: Make, *shape: int) -> Array:
    """Values that are far from each other and from the edges of equal bins."""
    return make.spread(*shape) + make(*shape) * make.at(0.03)[0]


def weights(make: Make, *shape: int) -> Array:
    return np.abs(make(*shape)) + make.at(0.5)[0]


def weighed_values(make: Make) -> Iterator[Sample]:
    yield s(apart(make, 2, 3), 5, range=(-2.5, 2.5))
    yield s(apart(make, 7), 3)
    yield s(apart(make, 7), 3, weights(make, 7), density=True)
    yield s(apart(make, 2, 3), edges(make), weights(make, 2, 3))
    yield s(apart(make, 5), edges(make), weights(make, 5), density=True)
    yield s(apart(make, 5), edges(make))


def histogram(x: Any, bins: Any, weight: Any = None, **kwargs: Any) -> Any:
    return lucid.histogram(x, bins, weight=weight, **kwargs)


def numpy_histogram(x: Array, bins: Any, weight: Any = None, range: Any = None, density: bool = False) -> Any:
    hist, found = np.histogram(x, bins, range, weights=weight, density=density)
    return hist.astype(float), found


def weighed_points(make: Make) -> Iterator[Sample]:
    yield s(apart(make, 7, 2), [2, 3])
    yield s(apart(make, 7, 2), 3, weights(make, 7), density=True)
    yield s(apart(make, 3, 2, 2), [3, 2], weights(make, 3, 2), range=(-2.0, 2.0, -1.0, 1.0))
    yield s(apart(make, 5, 2), [edges(make), edges(make)], weights(make, 5), density=True)


def histogramdd(x: Any, bins: Any, weight: Any = None, **kwargs: Any) -> Any:
    return lucid.histogramdd(x, bins, weight=weight, **kwargs)


def numpy_histogramdd(x: Array, bins: Any, weight: Any = None, range: Any = None, density: bool = False) -> Any:
    limits = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    weight = None if weight is None else weight.reshape(-1)
    hist, found = np.histogramdd(x.reshape(-1, x.shape[-1]), bins, limits, weights=weight, density=density)
    return hist, tuple(found)


def occurrences(make: Make) -> Iterator[Sample]:
    yield s(np.array([1, 3, 1]), make(3))
    yield s(np.array([0, 2, 2, 0, 5], np.int32), make(5), 7)
    yield s(np.zeros(0, np.int64), make(0), 3)


def members(make: Make) -> Iterator[Sample]:
    yield s(make.at([1, 2, 0], [5, 0, 1]), make.at(1, 5, 7))
    yield s(make.at([1, 2, 0], [5, 0, 1]), make.at([1, 5], [0, 0]), invert=True)
    yield s(make.at(1, 2, 0), make.at(2), assume_unique=True)
    yield s(make(), make(0))


def positions(x: Array, size: int, fill_value: int = -1) -> Array:
    found = np.argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)])


def unraveled(x: Array, shape: Any) -> Any:
    return tuple(np.unravel_index(x.astype(np.int64), shape))


COUNTING = [
    row("histc", interval_counts, scattered_values, differentiable=False),
    row("histogram", numpy_histogram, weighed_values, op=histogram),
    row("histogramdd", numpy_histogramdd, weighed_points, op=histogramdd),
    row("bincount", lambda x, w, least=0: np.bincount(x, w, least).astype(float), occurrences,
        op=lambda x, w, least=0: lucid.bincount(x, w, least).to(w.dtype), unbatched="i",
        without={"refused": "weights of all types are added up"}),
    row("isin", np.isin, members, result="bool", differentiable=False, ints=INTS),
    row("nonzero_static", positions, calls(((2, 3), {"size": 5}), ((3,), {"size": 2, "fill_value": 7}),
        ((), {"size": 1})), result="int64", differentiable=False, domain=Domain(-1, 1), **ANY_TYPE),
    row("unravel_index", unraveled, calls(((2, 3), (3, 2)), ((), (2, 1, 3))), domain=Domain(0, 5), floats=False,
        ints=INTS, result="int64", differentiable=False),
]  # fmt: skip


def chances(make: Make) -> Iterator[Sample]:
    chance, prob = abs(make(2, 3)) / make.at(3)[0] + make.at(0.1)[0], abs(make(3)) / make.at(3)[0]
    yield s(chance, make.at(5, 1, 9), prob)
    yield s(chance, make.at(0, 3, 3), make.at(0.5, 0, 1))


INNER = [
    Row("binomial_quantile", lambda chance, n, p: P.binomial_quantile(chance.double(), n.double(), p.double()),
        lambda *a: np.where(a[1] == 0, 0, stats.binom.ppf(*[np.asarray(v, np.float64) for v in a])), chances,
        differentiable=False, result="float64", without={"refused": "the public function checks the types"}),
]  # fmt: skip

ROWS = [*COUNTING, *INNER]
