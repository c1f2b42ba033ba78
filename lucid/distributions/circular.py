"""Distributions of angles."""

import math
from functools import cache

import numpy as np

import lucid
from lucid import Tensor, func, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape

__all__ = ["VonMises"]

_NODES = 40
_STEPS = 16  # seven would do but for probabilities below 1e-9, in which rounding then decides
_FALL = 40.0  # the density beyond exp(-40) of its greatest value is left out


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Gauss' and Legendre's nodes and weights on [0, 1], as arrays: a program makes constants of them."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _density(angle: Tensor, k: Tensor) -> Tensor:
    return (-2 * k * (angle / 2).sin() ** 2).exp() / (2 * math.pi * special.i0e(k))


def _part(angle: Tensor, k: Tensor) -> Tensor:
    """∫ density from 0 to an angle between -π and π, by quadrature over the part where it matters; in double precision."""
    nodes, weights = (lucid.tensor(x) for x in _rule())
    end = 2 * (_FALL / (2 * k.detach())).clamp(max=1).sqrt().asin()
    angle = lucid.minimum(lucid.maximum(angle, -end), end)
    points = angle.unsqueeze(-1) * nodes
    return angle * (_density(points, k.unsqueeze(-1)) * weights).sum(-1)


@func.custom_jvp
def _quantile(chance: Tensor, k: Tensor) -> Tensor:
    """The angle between -π and π below which lies the part `chance`: Newton's steps, kept in a shrinking bracket."""
    low, high = lucid.full_like(chance, -math.pi), lucid.full_like(chance, math.pi)
    angle = (special.ndtri(chance) / k.clamp(min=0.5).sqrt()).clamp(-3, 3)
    for _ in range(_STEPS):
        missing = _part(angle, k) + 0.5 - chance
        low, high = lucid.where(missing < 0, angle, low), lucid.where(missing < 0, high, angle)
        step = angle - missing / _density(angle, k)
        angle = lucid.where((step >= low) & (step <= high), step, (low + high) / 2)
    return angle


@_quantile.defjvp
def _(primals: tuple[Tensor, Tensor], tangents: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """By the implicit function theorem: dF(x, k) = d chance."""
    (chance, k), (by_chance, by_k) = primals, tangents
    angle = _quantile(chance, k)
    by_parameter = func.jvp(lambda k: _part(angle, k), (k,), (by_k,))[1]
    return angle, (by_chance - by_parameter) / _density(angle, k)


class VonMises(Parametric):
    """Angles around `loc`: exp(concentration · cos(x - loc)), up to a factor; draws lie between -π and π.

    Mean and variance are those of directions. Draws are differentiable: implicitly by the concentration.

    >>> import lucid
    >>> v = lucid.distributions.VonMises(0.0, 1.0)
    >>> v.log_prob(0.0), v.variance
    (Tensor(-1.0738), Tensor(0.5536))
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    concentration: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def _log_factor(self) -> Tensor:
        return math.log(2 * math.pi) + special.i0e(self.concentration).log()

    def _log_prob(self, value: Tensor) -> Tensor:
        return -2 * self.concentration * ((value - self.loc) / 2).sin() ** 2 - self._log_factor()

    def _cdf(self, value: Tensor) -> Tensor:
        """Counted from loc - π: each turn adds 1."""
        angle, k = (value - self.loc).double(), self.concentration.double()
        turns = (angle.detach() / (2 * math.pi)).round()
        angle, k, turns = lucid.broadcast_tensors(angle - 2 * math.pi * turns, k, turns)
        return (turns + 0.5 + _part(angle, k)).to(self._dtype)

    def entropy(self) -> Tensor:
        return self._log_factor() + self.concentration * self.variance

    def _draw(self, shape: Shape) -> Tensor:
        chance = self._uniform(shape).double()
        angle = self.loc + _quantile(chance, self.concentration.double().expand(shape)).to(self._dtype)
        return angle - 2 * math.pi * (angle.detach() / (2 * math.pi)).round()
