"""Distributions of trials that succeed with some probability, and of counts."""

import math

import lucid
from lucid import Tensor, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape, derived
from lucid.distributions.gamma import gamma_draws
from lucid.distributions.smooth import expm1_ratio, langevin, langevin_slope, log1p_ratio, log_sinhc

__all__ = ["Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "NegativeBinomial", "Poisson"]


def times_log(count: Tensor, log: Tensor) -> Tensor:
    """count · log, and 0 for what is impossible and never happened, which has no part in gradients either."""
    return lucid.where((count == 0) & (log == -math.inf), 0.0, count * log)


class Trials(Parametric):
    """Trials that succeed with probability `probs`, or with odds exp(`logits`)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _choices = ("probs", "logits")

    @derived
    def probs(self) -> Tensor:
        """The probability of success."""
        return self.logits.sigmoid()

    @derived
    def logits(self) -> Tensor:
        """The logarithm of the odds of success."""
        return self.probs.log() - (-self.probs).log1p()

    def _logs(self) -> tuple[Tensor, Tensor]:
        """The logarithms of the probabilities of success and of failure."""
        if "probs" in self._given:
            return self.probs.log(), (-self.probs).log1p()
        return lucid.log_sigmoid(self.logits), lucid.log_sigmoid(-self.logits)

    def _failure(self) -> Tensor:
        """The probability of failure."""
        return 1 - self.probs if "probs" in self._given else (-self.logits).sigmoid()


class Bernoulli(Trials):
    """1 with probability `probs`, else 0.

    >>> import lucid
    >>> lucid.distributions.Bernoulli(0.25).log_prob(lucid.tensor([0.0, 1.0])).exp()
    Tensor([0.75, 0.25])
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return lucid.where(self.probs == 0.5, math.nan, (self.probs > 0.5).to(self._dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * self._failure()

    def _log_prob(self, value: Tensor) -> Tensor:
        success, failure = self._logs()
        return times_log(value, success) + times_log(1 - value, failure)

    def entropy(self) -> Tensor:
        success, failure = self._logs()
        return -times_log(self.probs, success) - times_log(self._failure(), failure)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._made(lucid.arange(2, dtype=self._dtype)).reshape(2, *[1] * len(self._batch_shape))
        return values.expand(2, *self._batch_shape) if expand else values

    def _draw(self, shape: Shape) -> Tensor:
        return (lucid.rand(shape, dtype=self._dtype) < self.probs).to(self._dtype)


class Geometric(Trials):
    """The number of failures before the first success.

    >>> import lucid
    >>> lucid.distributions.Geometric(0.25).mean
    Tensor(3.)
    """

    support = constraints.nonnegative_integer

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if "probs" in self._given:
            self._require(self.probs > 0, "probs must be greater than 0")

    @property
    def mean(self) -> Tensor:
        return self._failure() / self.probs

    @property
    def mode(self) -> Tensor:
        return lucid.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return self._failure() / self.probs**2

    def _log_prob(self, value: Tensor) -> Tensor:
        success, failure = self._logs()
        return times_log(value, failure) + success

    def _cdf(self, value: Tensor) -> Tensor:
        return -((value.floor() + 1) * self._logs()[1]).expm1()

    def entropy(self) -> Tensor:
        success, failure = self._logs()
        return -times_log(self._failure(), failure) / self.probs - success

    def _draw(self, shape: Shape) -> Tensor:
        return (self._uniform(shape).log() / self._logs()[1]).floor()


class Binomial(Trials):
    """The number of successes in `total_count` trials.

    >>> import lucid
    >>> lucid.distributions.Binomial(2, 0.5).log_prob(lucid.tensor([0.0, 1.0, 2.0])).exp()
    Tensor([0.25, 0.5 , 0.25])
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **Trials.arg_constraints}
    _defaults = {"total_count": 1}
    has_enumerate_support = True
    total_count: Tensor

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return lucid.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.mean * self._failure()

    def _log_prob(self, value: Tensor) -> Tensor:
        success, failure = self._logs()
        rest = self.total_count - value
        ways = (self.total_count + 1).lgamma() - (value + 1).lgamma() - (rest + 1).lgamma()
        return ways + times_log(value, success) + times_log(rest, failure)

    def _cdf(self, value: Tensor) -> Tensor:
        count = value.floor()
        below = (count >= 0) & (count < self.total_count)
        count = lucid.where(below, count, 0.0)
        rest = lucid.where(below, self.total_count - count, 1.0)
        return lucid.where(below, special.betainc(rest, count + 1, self._failure()), (value >= 0).to(self._dtype))

    def entropy(self) -> Tensor:
        """The sum over all counts, up to the greatest `total_count` of the batch."""
        values = lucid.arange(int(self.total_count.max()) + 1, dtype=self._dtype)
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        possible = values <= self.total_count
        logs = self._log_prob(lucid.where(possible, values, 0.0))
        return -lucid.where(possible, times_log(logs.exp(), logs), 0.0).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Binomial: enumerate_support needs the same total_count in the whole batch")
        values = self._made(lucid.arange(most + 1, dtype=self._dtype)).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _draw(self, shape: Shape) -> Tensor:
        return lucid.binomial(self.total_count.expand(shape), self.probs.expand(shape))


class NegativeBinomial(Trials):
    """The number of successes before `total_count` failures, which may be any positive number.

    >>> import lucid
    >>> lucid.distributions.NegativeBinomial(3.0, 0.5).mean
    Tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def _odds(self) -> Tensor:
        return self.probs / (1 - self.probs) if "probs" in self._given else self.logits.exp()

    @property
    def mean(self) -> Tensor:
        return self.total_count * self._odds()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self._odds()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / self._failure()

    def _log_prob(self, value: Tensor) -> Tensor:
        success, failure = self._logs()
        none = self.total_count + value == 0  # no failure was waited for, and nothing happened before it
        count = lucid.where(none, 1.0, self.total_count)
        ways = (count + value).lgamma() - (value + 1).lgamma() - count.lgamma()
        return lucid.where(none, 0.0, ways) + self.total_count * failure + times_log(value, success)

    def _cdf(self, value: Tensor) -> Tensor:
        return special.betainc(self.total_count, value.floor() + 1, self._failure())

    def _draw(self, shape: Shape) -> Tensor:
        some = self.total_count > 0
        rate = gamma_draws(lucid.where(some, self.total_count, 1.0), shape, "NegativeBinomial") * self._odds()
        return lucid.poisson(lucid.where(some, rate, 0.0))


class Poisson(Parametric):
    """The number of events of which `rate` are expected: rate^k exp(-rate) / k!.

    >>> import lucid
    >>> lucid.distributions.Poisson(2.0).log_prob(lucid.tensor([0.0, 2.0])).exp()
    Tensor([0.1353, 0.2707])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        return special.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return special.gammaincc(value.floor() + 1, self.rate)

    def _draw(self, shape: Shape) -> Tensor:
        return lucid.poisson(self.rate.expand(shape))


class ContinuousBernoulli(Trials):
    """Numbers between 0 and 1 of density probs^x (1 - probs)^(1 - x), up to a factor.

    With l for the logits the density is exp(l·x - A(l)), where A(l) = l/2 + log(sinh(l/2) / (l/2)), smooth at 0.

    >>> import lucid
    >>> lucid.distributions.ContinuousBernoulli(0.5).mean
    Tensor(0.5)
    """

    support = constraints.unit_interval
    has_rsample = True

    def _log_normalizer(self) -> Tensor:
        return self.logits / 2 + log_sinhc(self.logits / 2)

    @property
    def mean(self) -> Tensor:
        return 0.5 + 0.5 * langevin(self.logits / 2)

    @property
    def variance(self) -> Tensor:
        return 0.25 * langevin_slope(self.logits / 2)

    def _log_prob(self, value: Tensor) -> Tensor:
        return value * self.logits - self._log_normalizer()

    def _falling(self) -> tuple[Tensor, Tensor]:
        """Whether the density falls, and the slope of its logarithm as it then is: nothing overflows, with 1 - x for x."""
        falls = self.logits <= 0
        return falls, lucid.where(falls, self.logits, -self.logits)

    def _cdf(self, value: Tensor) -> Tensor:
        falls, slope = self._falling()
        x = lucid.where(falls, value, 1 - value)
        part = x * expm1_ratio(x * slope) / expm1_ratio(slope)
        return lucid.where(falls, part, 1 - part)

    def _icdf(self, value: Tensor) -> Tensor:
        falls, slope = self._falling()
        part = lucid.where(falls, value, 1 - value) * expm1_ratio(slope)
        x = part * log1p_ratio(part * slope)
        return lucid.where(falls, x, 1 - x)

    def entropy(self) -> Tensor:
        return self._log_normalizer() - self.logits * self.mean
