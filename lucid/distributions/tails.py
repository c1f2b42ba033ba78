"""Distributions by closed forms of their tails: waiting times, and what is greater than a bound."""

import math

import lucid
from lucid import Tensor, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric
from lucid.distributions.location_scale import EULER
from lucid.distributions.smooth import expm1_ratio, log1p_ratio

__all__ = ["Exponential", "GeneralizedPareto", "Kumaraswamy", "Pareto", "Weibull"]


class Exponential(Parametric):
    """Waiting times for events that come at `rate`: rate · exp(-rate · x).

    >>> import lucid
    >>> lucid.distributions.Exponential(2.0).mean
    Tensor(0.5)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        return lucid.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    def _draw(self, shape: tuple[int, ...]) -> Tensor:
        return -self._uniform(shape).log() / self.rate


class Weibull(Parametric):
    """Waiting times whose hazard grows with the power concentration - 1: log P(X > x) = -(x / scale)^concentration.

    >>> import lucid
    >>> lucid.distributions.Weibull(1.0, 2.0).cdf(1.0)
    Tensor(0.6321)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True
    scale: Tensor
    concentration: Tensor

    def _moment(self, power: int) -> Tensor:
        return (1 + power / self.concentration).lgamma().exp() * self.scale**power

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return lucid.where(k > 1, self.scale * ((k - 1).clamp(min=0) / k) ** (1 / k), 0.0)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def _log_prob(self, value: Tensor) -> Tensor:
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + special.xlogy(k - 1, z) - z**k

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        return EULER * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1


class Pareto(Parametric):
    """Numbers above `scale` with P(X > x) = (scale / x)^alpha.

    >>> import lucid
    >>> p = lucid.distributions.Pareto(1.0, 3.0)
    >>> p.mean, p.cdf(2.0)
    (Tensor(1.5), Tensor(0.875))
    """

    arg_constraints = {"scale": constraints.positive, "alpha": constraints.positive}
    has_rsample = True
    scale: Tensor
    alpha: Tensor

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha
        return lucid.where(a > 1, a * self.scale / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return lucid.where(a > 2, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -(self.alpha * (self.scale / value).log()).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p() / self.alpha).exp()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class GeneralizedPareto(Parametric):
    """What exceeds `loc`: P(X > x) = (1 + concentration · z)^(-1 / concentration), which is exp(-z) at concentration 0.

    >>> import lucid
    >>> lucid.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(1.0)
    Tensor(0.6321)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        c = self.concentration
        return constraints.interval(self.loc, lucid.where(c < 0, self.loc - self.scale / c, math.inf))

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return lucid.where(c < 1, self.loc + self.scale / (1 - c), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return lucid.where(c < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.inf)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of P(X > value)."""
        z = (self._checked(value) - self.loc) / self.scale
        return -z * log1p_ratio(self.concentration * z)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return self.cdf(value).log()

    def _log_prob(self, value: Tensor) -> Tensor:
        return (1 + self.concentration) * self.log_survival_function(value) - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        rest = -(-value).log1p()
        return self.loc + self.scale * rest * expm1_ratio(self.concentration * rest)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class Kumaraswamy(Parametric):
    """Numbers between 0 and 1 with P(X > x) = (1 - x^a)^b, for a = concentration1 and b = concentration0.

    >>> import lucid
    >>> lucid.distributions.Kumaraswamy(1.0, 1.0).mean
    Tensor(0.5)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def _moment(self, power: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return b * special.betaln(1 + power / a, b).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = ((a - 1).log() - (a * b - 1).log()) / a
        return lucid.where((a < 1) | (b < 1), math.nan, log_mode.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (a * b).log() + special.xlogy(a - 1, value) + special.xlog1py(b - 1, -(value**a))

    def _cdf(self, value: Tensor) -> Tensor:
        return -(self.concentration0 * (-(value**self.concentration1)).log1p()).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return (-((-value).log1p() / self.concentration0).expm1()) ** (1 / self.concentration1)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * ((b + 1).digamma() + EULER) - (a * b).log()
