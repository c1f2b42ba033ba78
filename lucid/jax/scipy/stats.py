"""`jax.scipy.stats`: densities and distribution functions, by `lucid.distributions`.

>>> import lucid.jax as jax
>>> jax.scipy.stats.norm.logpdf(0.0), jax.scipy.stats.norm.cdf(1.96).round(3)
(Array(-0.9189385, dtype=float32), Array(0.975, dtype=float32))
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid import distributions
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.numpy.doors import outside, plain
from lucid.ops import binary, unary


def _floats(value: Any) -> Any:
    found = plain(lift(DOOR.array(value)))
    return found if found.np_dtype.kind in "fV" else found.to(canonical(np.dtype(float)))


class Continuous:
    """A distribution of SciPy's: parameters of its shape, then `loc` and `scale`.

    `make` gives the one of Lucid's for the shape; what is asked at x is asked of it at (x - loc) / scale.
    """

    def __init__(self, make: Callable[..., Any], shapes: int = 0) -> None:
        self.make, self.shapes = make, shapes

    def _at(self, x: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        given = [_floats(a) for a in args]
        shape, rest = given[: self.shapes], given[self.shapes :]
        loc = rest[0] if rest else _floats(named.get("loc", 0.0))
        scale = rest[1] if len(rest) > 1 else _floats(named.get("scale", 1.0))
        return self.make(*shape), (_floats(x) - loc) / scale, loc, scale

    @outside
    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density; -inf where there is none."""
        own, z, _, scale = self._at(x, args, named)
        inside = own.support.check(z)
        # Where there is no density it is asked for at a place that has one, so that no derivative is nan.
        safe = binary.where(inside, z, _place_in(own.support))
        found = own.log_prob(safe) - unary.log(scale)
        return DOOR.adopted(binary.where(inside, found, -np.inf))

    def pdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The density."""
        return unary.exp(self.logpdf(x, *args, **named))

    @outside
    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of no more than x."""
        own, z, _, _ = self._at(x, args, named)
        inside = own.support.check(z)
        found = own.cdf(binary.where(inside, z, _place_in(own.support)))
        return DOOR.adopted(binary.where(inside, found, (z > _place_in(own.support)).to(found.np_dtype)))

    @outside
    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        return unary.log(self.cdf(x, *args, **named))

    @outside
    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than x."""
        return 1 - self.cdf(x, *args, **named)

    @outside
    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        return unary.log(self.sf(x, *args, **named))

    @outside
    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The place below which a part q lies."""
        own, _, loc, scale = self._at(0.0, args, named)
        return DOOR.adopted(own.icdf(_floats(q)) * scale + loc)


def _place_in(support: Any) -> float:
    """A number that a support contains."""
    return 0.5 if not hasattr(support, "lower_bound") or hasattr(support, "upper_bound") else 1.0


class Normal(Continuous):
    """The normal distribution, whose tails are known better than by differences from 1."""

    @outside
    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the probability of no more than x."""
        from lucid import special

        return DOOR.adopted(special.log_ndtr(self._at(x, args, named)[1]))

    @outside
    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than x."""
        from lucid import special

        return DOOR.adopted(special.ndtr(-self._at(x, args, named)[1]))

    @outside
    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        from lucid import special

        return DOOR.adopted(special.log_ndtr(-self._at(x, args, named)[1]))


class Discrete:
    """A distribution of whole numbers."""

    def __init__(self, make: Callable[..., Any], first: int = 0) -> None:
        self.make, self.first = make, first  # the least number, where Lucid counts from 0

    @outside
    def logpmf(self, k: Any, *args: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k; -inf where it is 0."""
        own = self.make(*(_floats(a) for a in args))
        place = _floats(k) - loc - self.first
        inside = own.support.check(place)
        return DOOR.adopted(binary.where(inside, own.log_prob(binary.where(inside, place, 0.0)), -np.inf))

    def pmf(self, k: Any, *args: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return unary.exp(self.logpmf(k, *args, loc=loc))


def _of(name: str) -> Callable[..., Any]:
    return lambda *parameters: getattr(distributions, name)(*parameters, validate_args=False)


norm = Normal(lambda: _of("Normal")(_floats(0.0), _floats(1.0)))
uniform = Continuous(lambda: _of("Uniform")(_floats(0.0), _floats(1.0)))
expon = Continuous(lambda: _of("Exponential")(_floats(1.0)))
laplace = Continuous(lambda: _of("Laplace")(_floats(0.0), _floats(1.0)))
cauchy = Continuous(lambda: _of("Cauchy")(_floats(0.0), _floats(1.0)))
gamma = Continuous(lambda a: _of("Gamma")(a, _floats(1.0)), 1)
beta = Continuous(_of("Beta"), 2)
t = Continuous(_of("StudentT"), 1)
chi2 = Continuous(_of("Chi2"), 1)
pareto = Continuous(lambda b: _of("Pareto")(_floats(1.0), b), 1)
bernoulli = Discrete(_of("Bernoulli"))
poisson = Discrete(_of("Poisson"))
binom = Discrete(lambda n, p: _of("Binomial")(n, p))
geom = Discrete(_of("Geometric"), first=1)


class _Logistic(Continuous):
    """The logistic distribution."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    @outside
    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density."""
        _, z, _, scale = self._at(x, args, named)
        return DOOR.adopted(unary.log_sigmoid(z) + unary.log_sigmoid(-z) - unary.log(scale))

    @outside
    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of no more than x."""
        return DOOR.adopted(unary.sigmoid(self._at(x, args, named)[1]))

    @outside
    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The place below which a part q lies."""
        _, _, loc, scale = self._at(0.0, args, named)
        return DOOR.adopted(unary.logit(_floats(q)) * scale + loc)


logistic = _Logistic()


class multivariate_normal:
    """The normal distribution of vectors."""

    @staticmethod
    @outside
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: Any = None) -> Any:
        """The logarithm of the density."""
        centre, matrix = _floats(mean), _floats(cov)
        own = distributions.MultivariateNormal(centre, matrix, validate_args=False)
        return DOOR.adopted(own.log_prob(_floats(x)))

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return unary.exp(multivariate_normal.logpdf(x, mean, cov))


class dirichlet:
    """The distribution of points of the simplex."""

    @staticmethod
    @outside
    def logpdf(x: Any, alpha: Any) -> Any:
        """The logarithm of the density."""
        return DOOR.adopted(distributions.Dirichlet(_floats(alpha), validate_args=False).log_prob(_floats(x)))
