"""Distributions of a shape that is moved and stretched."""

import math

import lucid
from lucid import Tensor, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric

EULER = 0.57721566490153286060  # Euler's and Mascheroni's constant
_LOG_2PI = math.log(2 * math.pi)


class LocationScale(Parametric):
    """A shape around `loc` of width `scale`: subclasses speak of z = (x - loc) / scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(LocationScale):
    """The normal distribution: exp(-z²/2) / (scale √(2π)) with z = (x - loc) / scale.

    >>> import lucid
    >>> lucid.distributions.Normal(0.0, 2.0).log_prob(lucid.tensor([0.0, 2.0]))
    Tensor([-1.6121, -2.1121])
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * self._z(value) ** 2 - self.scale.log() - 0.5 * _LOG_2PI

    def _cdf(self, value: Tensor) -> Tensor:
        return special.ndtr(self._z(value))

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 * (1 + _LOG_2PI) + self.scale.log()

    def _draw(self, shape: tuple[int, ...]) -> Tensor:
        return self.loc + self.scale * self._normal(shape)


class Laplace(LocationScale):
    """The Laplace distribution: exp(-|z|) / (2 scale).

    >>> import lucid
    >>> lucid.distributions.Laplace(0.0, 1.0).cdf(lucid.tensor([-1.0, 0.0, 1.0]))
    Tensor([0.1839, 0.5   , 0.8161])
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    def _log_prob(self, value: Tensor) -> Tensor:
        return -self._z(value).abs() - (2 * self.scale).log()

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return lucid.where(z < 0, 0.5 * z.exp(), 1 - 0.5 * (-z).exp())

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * lucid.where(value < 0.5, (2 * value).log(), -(2 - 2 * value).log())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """The Cauchy distribution: 1 / (π scale (1 + z²)), which has no mean.

    >>> import lucid
    >>> lucid.distributions.Cauchy(0.0, 1.0).cdf(lucid.tensor([0.0, 1.0]))
    Tensor([0.5 , 0.75])
    """

    @property
    def mean(self) -> Tensor:
        return self._filled(math.nan)

    @property
    def variance(self) -> Tensor:
        return self._filled(math.inf)

    def _log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._z(value) ** 2).log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        return self._z(value).atan() / math.pi + 0.5

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocationScale):
    """The Gumbel distribution of greatest values: exp(-z - exp(-z)) / scale.

    >>> import lucid
    >>> lucid.distributions.Gumbel(0.0, 1.0).mean
    Tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + EULER * self.scale

    @property
    def variance(self) -> Tensor:
        return math.pi**2 / 6 * self.scale**2

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return -z - (-z).exp() - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return (-(-self._z(value)).exp()).exp()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class HalfNormal(Parametric):
    """The distribution of |x| for normal x of mean 0 and standard deviation `scale`.

    >>> import lucid
    >>> lucid.distributions.HalfNormal(1.0).mean
    Tensor(0.7979)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale: Tensor

    @property
    def mean(self) -> Tensor:
        return math.sqrt(2 / math.pi) * self.scale

    @property
    def mode(self) -> Tensor:
        return lucid.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return (1 - 2 / math.pi) * self.scale**2

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = -0.5 * (value / self.scale) ** 2 - self.scale.log() + 0.5 * math.log(2 / math.pi)
        return lucid.where(value >= 0, inside, -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return (value / self.scale * math.sqrt(0.5)).erf()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * value.erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + 0.5 * (1 + math.log(math.pi / 2))

    def _draw(self, shape: tuple[int, ...]) -> Tensor:
        return self.scale * self._normal(shape).abs()


class HalfCauchy(Parametric):
    """The distribution of |x| for x from the Cauchy distribution around 0.

    >>> import lucid
    >>> lucid.distributions.HalfCauchy(1.0).cdf(lucid.tensor([0.0, 1.0]))
    Tensor([0. , 0.5])
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale: Tensor

    @property
    def mean(self) -> Tensor:
        return self._filled(math.inf)

    @property
    def mode(self) -> Tensor:
        return lucid.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self._filled(math.inf)

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = math.log(2 / math.pi) - self.scale.log() - ((value / self.scale) ** 2).log1p()
        return lucid.where(value >= 0, inside, -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return 2 / math.pi * (value / self.scale).atan()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * (math.pi / 2 * value).tan()

    def entropy(self) -> Tensor:
        return self.scale.log() + math.log(2 * math.pi)


class Uniform(Parametric):
    """The same density everywhere from `low` up to `high`.

    >>> import lucid
    >>> u = lucid.distributions.Uniform(1.0, 3.0)
    >>> u.mean, u.log_prob(2.0)
    (Tensor(2.), Tensor(-0.6931))
    """

    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True
    low: Tensor
    high: Tensor

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    def _check_arguments(self) -> None:
        self._require(self.low < self.high, "low must be less than high")

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self._filled(math.nan)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = (value >= self.low) & (value < self.high)
        return lucid.where(inside, -(self.high - self.low).log(), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def _icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


__all__ = ["Cauchy", "Gumbel", "HalfCauchy", "HalfNormal", "Laplace", "Normal", "Uniform"]
