"""Choices among several possibilities."""

import math
from typing import Any

import lucid
from lucid import Tensor
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape, derived
from lucid.distributions.trials import Binomial, times_log

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Choices(Parametric):
    """Possibilities with weights `probs`, or exp(`logits`), along the last dimension; both are normalised."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _choices = ("probs", "logits")

    def _take(self, given: dict[str, Any], validate_args: bool | None) -> None:
        probs, logits = given["probs"], given["logits"]
        if probs is not None:
            probs = lucid.as_tensor(probs)
            given["probs"] = probs / probs.sum(-1, keepdim=True) if probs.ndim else probs
        if logits is not None:
            logits = lucid.as_tensor(logits)
            given["logits"] = logits - logits.logsumexp(-1, keepdim=True) if logits.ndim else logits
        super()._take(given, validate_args)

    @derived
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.logits.exp()

    @derived
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.probs.log()

    @property
    def _num_events(self) -> int:
        return self._likelihood.shape[-1]

    def _information(self) -> Tensor:
        """The entropy of one choice."""
        return -times_log(self.probs, self.logits).sum(-1)

    def _pick(self, shape: Shape) -> Tensor:
        """Places of chosen possibilities, of a shape that ends in batch_shape."""
        batch = self._batch_shape
        count = math.prod(shape[: len(shape) - len(batch)])
        if not math.prod(shape):
            return lucid.zeros(shape, dtype=lucid.int64)
        rows = self.probs.detach().reshape(-1, self._num_events)
        return lucid.multinomial(rows, count, replacement=True).t().reshape(shape)

    def _one_hot(self, places: Tensor) -> Tensor:
        return (places.unsqueeze(-1) == lucid.arange(self._num_events)).to(self._dtype)


class Categorical(Choices):
    """The place of a possibility, chosen with probability `probs`.

    >>> import lucid
    >>> c = lucid.distributions.Categorical(lucid.tensor([1.0, 3.0]))
    >>> c.probs, c.log_prob(lucid.tensor(1)).exp()
    (Tensor([0.25, 0.75]), Tensor(0.75))
    """

    has_enumerate_support = True

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self._filled(math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._filled(math.nan)

    def _log_prob(self, value: Tensor) -> Tensor:
        places, logits = lucid.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return self._information()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._made(lucid.arange(self._num_events)).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _draw(self, shape: Shape) -> Tensor:
        return self._pick(shape)


class OneHotCategorical(Choices):
    """A vector that is 1 at the chosen possibility and 0 elsewhere.

    >>> import lucid
    >>> lucid.distributions.OneHotCategorical(lucid.tensor([0.0, 1.0, 0.0])).sample()
    Tensor([0., 1., 0.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _log_prob(self, value: Tensor) -> Tensor:
        return times_log(value, self.logits).sum(-1)

    def entropy(self) -> Tensor:
        return self._information()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._num_events
        values = self._made(lucid.eye(n, dtype=self._dtype)).reshape(n, *[1] * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values

    def _draw(self, shape: Shape) -> Tensor:
        return self._one_hot(self._pick(shape[:-1]))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with a gradient by the probabilities that is that of the mean, not of the draws.

    >>> import lucid
    >>> logits = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> d = lucid.distributions.OneHotCategoricalStraightThrough(logits=logits)
    >>> lucid.autograd.grad(d.rsample()[0], logits)
    Tensor([ 0.1966, -0.1966])
    """

    has_rsample = True

    def _draw(self, shape: Shape) -> Tensor:
        return super()._draw(shape) + (self.probs - self.probs.detach())


class Multinomial(Choices):
    """How often each possibility is chosen, in `total_count` choices.

    >>> import lucid
    >>> m = lucid.distributions.Multinomial(4, lucid.tensor([0.5, 0.5]))
    >>> m.mean, m.sample().sum()
    (Tensor([2., 2.]), Tensor(4.))
    """

    arg_constraints = Choices.arg_constraints

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if isinstance(total_count, bool) or not isinstance(total_count, int) or total_count < 0:
            raise ValueError(f"Multinomial: total_count must be a whole number and not negative, not {total_count!r}")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def _log_prob(self, value: Tensor) -> Tensor:
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + times_log(value, self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """n H - log n! + Σ E[log xᵢ!], where each xᵢ is binomial."""
        n = self.total_count
        counts = Binomial(n, self.probs, validate_args=False)
        values = lucid.arange(n + 1, dtype=self._dtype).reshape(-1, *[1] * self.probs.ndim)
        weights = (counts._log_prob(values).exp() * (values + 1).lgamma()).sum((0, -1))
        return n * self._information() - math.lgamma(n + 1) + weights

    def _draw(self, shape: Shape) -> Tensor:
        places = self._pick((self.total_count, *shape[:-1]))
        once = lucid.ones(*places.shape[1:], places.shape[0], dtype=self._dtype)
        return lucid.zeros(shape, dtype=self._dtype).scatter_add(-1, places.movedim(0, -1), once)
