"""Choices made continuous, so that they have gradients: softer at higher temperatures."""

import math
from typing import Any

from lucid import Tensor, log_sigmoid
from lucid.distributions import constraints
from lucid.distributions.categorical import Choices
from lucid.distributions.distribution import Parametric, Shape
from lucid.distributions.transform import ExpTransform, SigmoidTransform
from lucid.distributions.transformed import TransformedDistribution
from lucid.distributions.trials import Trials

__all__ = ["RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(Trials):
    """The logits of a relaxed Bernoulli distribution: (logits + logistic noise) / temperature.

    >>> import lucid
    >>> from lucid.distributions.relaxed import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(1.0, probs=0.5).log_prob(0.0).exp()
    Tensor(0.25)
    """

    arg_constraints = {"temperature": constraints.positive, **Trials.arg_constraints}
    support = constraints.real
    has_rsample = True
    temperature: Tensor

    def _log_prob(self, value: Tensor) -> Tensor:
        difference = self.logits - value * self.temperature
        return self.temperature.log() + log_sigmoid(difference) + log_sigmoid(-difference)

    def _draw(self, shape: Shape) -> Tensor:
        chance = self._uniform(shape)
        return (chance.log() - (-chance).log1p() + self.logits) / self.temperature


class ExpRelaxedCategorical(Choices):
    """The logarithms of a relaxed one-hot vector: (logits + Gumbel noise) / temperature, normalised.

    >>> import lucid
    >>> from lucid.distributions.relaxed import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(1.0, probs=lucid.ones(2)).rsample().exp().sum()
    Tensor(1.)
    """

    arg_constraints = {"temperature": constraints.positive, **Choices.arg_constraints}
    support = constraints.real_vector
    has_rsample = True
    temperature: Tensor

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._num_events
        score = self.logits - value * self.temperature.unsqueeze(-1)
        score = score - score.logsumexp(-1, keepdim=True)
        return score.sum(-1) + math.lgamma(n) + (n - 1) * self.temperature.log()

    def _draw(self, shape: Shape) -> Tensor:
        noise = -(-self._uniform(shape).log()).log()
        return ((self.logits + noise) / self.temperature.unsqueeze(-1)).log_softmax(-1)


class _Relaxed(TransformedDistribution):
    """What has its parameters from the distribution that it transforms."""

    has_rsample = True
    _base: type[Parametric]
    _transform: Any

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = self._base(temperature, probs, logits, validate_args)
        super().__init__(base, self._transform(), validate_args)

    @property
    def temperature(self) -> Tensor:
        """How soft choices are."""
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        """The probabilities of the choices."""
        return self.base_dist.probs  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        """Their logarithms, or those of the odds."""
        return self.base_dist.logits  # type: ignore[attr-defined]


class RelaxedBernoulli(_Relaxed):
    """Numbers between 0 and 1 that become 0 or 1 as the temperature falls, with gradients by the probability.

    >>> import lucid
    >>> logits = lucid.zeros(3, requires_grad=True)
    >>> x = lucid.distributions.RelaxedBernoulli(0.5, logits=logits).rsample()
    >>> x.shape, bool((lucid.autograd.grad(x.sum(), logits) > 0).all())
    ((3,), True)
    """

    arg_constraints = LogitRelaxedBernoulli.arg_constraints
    support = constraints.unit_interval
    _base, _transform = LogitRelaxedBernoulli, SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """Vectors of the simplex that become one-hot as the temperature falls, with gradients by the probabilities.

    >>> import lucid
    >>> x = lucid.distributions.RelaxedOneHotCategorical(0.5, logits=lucid.zeros(4)).rsample((2,))
    >>> x.shape, lucid.allclose(x.sum(-1), lucid.ones(2))
    ((2, 4), True)
    """

    arg_constraints = ExpRelaxedCategorical.arg_constraints
    support = constraints.simplex
    _base, _transform = ExpRelaxedCategorical, ExpTransform
