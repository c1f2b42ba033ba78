"""Distributions made of others: of their draws, or of several at a time."""

from collections.abc import Sequence
from typing import Any

from lucid import Tensor
from lucid.distributions import constraints
from lucid.distributions.categorical import Categorical
from lucid.distributions.constraints import Constraint
from lucid.distributions.distribution import Distribution, Shape, sum_last
from lucid.distributions.transform import ComposeTransform, Transform

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` dimensions of a batch of distributions, seen as one event.

    >>> import lucid
    >>> d = lucid.distributions
    >>> both = d.Independent(d.Normal(lucid.zeros(2), 1.0), 1)
    >>> both.batch_shape, both.event_shape, both.log_prob(lucid.zeros(2))
    ((), (2,), Tensor(-1.8379))
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if cut < 0:
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims is {reinterpreted_batch_ndims}, but the batch has shape "
                f"{base_distribution.batch_shape}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Independent":
        new = self._copied(_instance)
        new._batch_shape = tuple(batch_shape)
        new.base_dist = self.base_dist.expand(new._batch_shape + self._event_shape[: self.reinterpreted_batch_ndims])
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self) -> Constraint:
        found: Constraint = self.base_dist.support
        return (
            constraints.independent(found, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else found
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Tensor:
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: all combinations of values are not enumerated")
        return self.base_dist.enumerate_support(expand)

    def _draw(self, shape: Shape) -> Tensor:
        return self.base_dist._draw(shape)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of t(x) for x from another one: log p(y) = log p(x) - log |det ∂y/∂x|.

    >>> import lucid
    >>> d = lucid.distributions
    >>> logistic = d.TransformedDistribution(d.Uniform(0.0, 1.0), d.SigmoidTransform().inv)
    >>> logistic.log_prob(lucid.tensor(0.0)).exp()
    Tensor(0.25)
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        parts = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(parts, (list, tuple)) or not all(isinstance(t, Transform) for t in parts):
            raise ValueError(f"{type(self).__name__}: transforms must be a Transform or a list of them, not {parts!r}")
        self.transforms = list(parts)
        whole = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims, needed = len(base_distribution.event_shape), whole.domain.event_dim
        if len(base_shape) < needed:
            raise ValueError(
                f"{type(self).__name__}: the transforms are of tensors of {needed} dimensions, but draws have shape "
                f"{base_shape}"
            )
        shape = whole.forward_shape(base_shape)
        before = whole.inverse_shape(shape)
        if before != base_shape:
            base_distribution = base_distribution.expand(before[: len(before) - base_dims])
        if needed > base_dims:
            base_distribution = Independent(base_distribution, needed - base_dims)
        self.base_dist = base_distribution
        cut = len(shape) - max(whole.codomain.event_dim, base_dims + whole.codomain.event_dim - needed)
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "TransformedDistribution":
        new = self._copied(_instance)
        new._batch_shape = tuple(batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(new._batch_shape + self._event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        found: Constraint = self.transforms[-1].codomain
        extra = len(self._event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _draw(self, shape: Shape) -> Tensor:
        return ComposeTransform(self.transforms)(self.base_dist._draw(self._base_shape(shape)))

    def _base_shape(self, shape: Shape) -> Shape:
        own = len(self._batch_shape) + len(self._event_shape)
        return shape[: len(shape) - own] + self.base_dist.batch_shape + self.base_dist.event_shape

    def _log_prob(self, value: Tensor) -> Tensor:
        dims, y = len(self._event_shape), value
        volume: Any = 0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            volume = volume + sum_last(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return sum_last(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape)) - volume

    def _rising(self, chance: Tensor) -> Tensor:
        """1 - chance where the transforms turn the order of numbers round."""
        sign = ComposeTransform(self.transforms).sign
        return chance if isinstance(sign, int) and sign == 1 else sign * (chance - 0.5) + 0.5

    def _cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._rising(self.base_dist.cdf(value))

    def _icdf(self, value: Tensor) -> Tensor:
        return ComposeTransform(self.transforms)(self.base_dist.icdf(self._rising(value)))

    @property
    def _dtype(self) -> Any:
        return self.base_dist._dtype


class MixtureSameFamily(Distribution):
    """A draw from one of the components along the last dimension of a batch, which a Categorical chooses.

    >>> import lucid
    >>> d = lucid.distributions
    >>> m = d.MixtureSameFamily(d.Categorical(lucid.ones(2)), d.Normal(lucid.tensor([-1.0, 1.0]), 1.0))
    >>> m.mean, m.variance
    (Tensor(0.), Tensor(2.))
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"MixtureSameFamily: a Categorical chooses, not a {type(mixture_distribution).__name__}")
        if not isinstance(component_distribution, Distribution) or not component_distribution.batch_shape:
            raise ValueError("MixtureSameFamily: components are a batch of distributions")
        *batch, count = component_distribution.batch_shape
        if mixture_distribution._num_events != count:
            raise ValueError(
                f"MixtureSameFamily: there are {count} components, but {mixture_distribution._num_events} weights"
            )
        if mixture_distribution.batch_shape not in ((), tuple(batch)):
            raise ValueError(
                f"MixtureSameFamily: weights of batch_shape {mixture_distribution.batch_shape} do not fit components "
                f"of batch_shape {(*batch, count)}"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(batch, component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "MixtureSameFamily":
        new = self._copied(_instance)
        new._batch_shape = tuple(batch_shape)
        count = self._mixture_distribution._num_events
        new._component_distribution = self._component_distribution.expand((*new._batch_shape, count))
        new._mixture_distribution = self._mixture_distribution.expand(new._batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """What is chosen from."""
        return self._component_distribution

    @property
    def _dtype(self) -> Any:
        return self._component_distribution._dtype

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self._event_shape))

    def _over(self, values: Tensor) -> Tensor:
        """The mean of what each component has."""
        return (self._weights() * values).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self._over(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, and the variance of the means."""
        components = self._component_distribution
        around = components.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._over(components.variance + around**2)

    def _beside(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - len(self._event_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        logs = self._component_distribution.log_prob(self._beside(value))
        return (logs + self._mixture_distribution.logits).logsumexp(-1)

    def _cdf(self, value: Tensor) -> Tensor:
        return (self._component_distribution.cdf(self._beside(value)) * self._mixture_distribution.probs).sum(-1)

    def _draw(self, shape: Shape) -> Tensor:
        events = len(self._event_shape)
        lead = shape[: len(shape) - events]
        count = self._mixture_distribution._num_events
        chosen = self._mixture_distribution.expand(self._batch_shape)._draw(lead)
        drawn = self._component_distribution._draw((*lead, count, *self._event_shape))
        places = chosen.reshape(*lead, 1, *[1] * events).expand(*lead, 1, *self._event_shape)
        return drawn.gather(len(lead), places).squeeze(len(lead))

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self._mixture_distribution}, {self._component_distribution})"
