"""Normal numbers, transformed."""

from typing import Any

from lucid import Tensor
from lucid.distributions import constraints
from lucid.distributions.joint_transforms import StickBreakingTransform
from lucid.distributions.location_scale import Normal
from lucid.distributions.transform import ExpTransform
from lucid.distributions.transformed import TransformedDistribution

__all__ = ["LogNormal", "LogisticNormal"]


class LogNormal(TransformedDistribution):
    """Numbers whose logarithms are normal.

    >>> import lucid
    >>> lucid.distributions.LogNormal(0.0, 1.0).mean
    Tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithms."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithms."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Parts that add up to 1, broken off a stick by normal numbers.

    >>> import lucid
    >>> lucid.distributions.LogisticNormal(lucid.zeros(3), lucid.ones(3)).event_shape
    (4,)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))  # type: ignore[assignment]
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]
