"""The gamma distribution, and what is made of its draws.

A draw is the quantile of a uniform number, x(a, u) with P(a, x) = u. So its derivative by the concentration is the
implicit one, -∂P/∂a ÷ density, in every mode and of every order.
"""

import math

import lucid
from lucid import Tensor, special
from lucid.distributions import constraints
from lucid.distributions.distribution import Parametric, Shape, _uniform

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]

_SMALLEST = 1e-290  # below it quantiles lose digits, and P(a, x) = x^a / Γ(a + 1) to all digits


def _log_gamma_draws(concentration: Tensor, shape: Shape, caller: str) -> Tensor:
    """Logarithms of draws of rate 1, in double precision: small concentrations give numbers that no type holds."""
    a = concentration.double().expand(shape)
    chance = _uniform(shape, lucid.float64, caller)
    x = special.gammaincinv(a, chance)
    small = x < _SMALLEST
    return lucid.where(small, (chance.log() + (a + 1).lgamma()) / a, lucid.where(small, 1.0, x).log())


def gamma_draws(concentration: Tensor, shape: Shape, caller: str) -> Tensor:
    """Draws of rate 1, at least as large as the smallest number of full precision."""
    dtype = concentration.dtype
    x = special.gammaincinv(concentration.double().expand(shape), _uniform(shape, lucid.float64, caller))
    return x.clamp(min=lucid.finfo(dtype).tiny).to(dtype)


class Gamma(Parametric):
    """The gamma distribution: x^(concentration - 1) exp(-rate · x), up to a factor.

    >>> import lucid
    >>> a = lucid.tensor(2.0, requires_grad=True)
    >>> lucid.distributions.Gamma(a, 1.0).log_prob(1.0).backward()
    >>> a.grad
    Tensor(-0.4228)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration, self.rate
        return a * b.log() + special.xlogy(a - 1, value) - b * value - a.lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return special.gammainc(self.concentration, self.rate * value)

    def _icdf(self, value: Tensor) -> Tensor:
        return special.gammaincinv(self.concentration, value) / self.rate

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def _draw(self, shape: Shape) -> Tensor:
        return gamma_draws(self.concentration, shape, type(self).__name__) / self.rate


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> import lucid
    >>> lucid.distributions.Chi2(3.0).mean
    Tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}
    df: Tensor

    @property
    def concentration(self) -> Tensor:  # type: ignore[override]  # which is an attribute of other distributions
        return 0.5 * self.df

    @property
    def rate(self) -> Tensor:  # type: ignore[override]
        return lucid.full_like(self.df, 0.5)


class InverseGamma(Parametric):
    """The distribution of 1 / x for x from `Gamma(concentration, rate)`.

    >>> import lucid
    >>> lucid.distributions.InverseGamma(3.0, 2.0).mean
    Tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return lucid.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return lucid.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration, self.rate
        return a * b.log() - (a + 1) * value.log() - b / value - a.lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return special.gammaincc(self.concentration, self.rate / value)

    def _icdf(self, value: Tensor) -> Tensor:
        return self.rate / special.gammaincinv(self.concentration, 1 - value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()

    def _draw(self, shape: Shape) -> Tensor:
        return self.rate / gamma_draws(self.concentration, shape, type(self).__name__)


def _greatest_density(concentration: Tensor) -> Tensor:
    """The mode of a Dirichlet distribution; where no concentration exceeds 1, the corner of the greatest."""
    above = (concentration - 1).clamp(min=0)
    total = above.sum(-1, keepdim=True)
    places = lucid.arange(concentration.shape[-1])
    corner = (places == concentration.argmax(-1, keepdim=True)).to(concentration.dtype)
    return lucid.where(total > 0, above / total, corner)


class Dirichlet(Parametric):
    """Vectors of parts that add up to 1: Π xᵢ^(concentrationᵢ - 1), up to a factor.

    >>> import lucid
    >>> d = lucid.distributions.Dirichlet(lucid.tensor([1.0, 2.0, 3.0]))
    >>> d.event_shape, d.mean
    ((3,), Tensor([0.1667, 0.3333, 0.5   ]))
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    concentration: Tensor

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        return _greatest_density(self.concentration)

    @property
    def variance(self) -> Tensor:
        return self.mean * (1 - self.mean) / (self.concentration.sum(-1, keepdim=True) + 1)

    def _log_factor(self) -> Tensor:
        return self.concentration.sum(-1).lgamma() - self.concentration.lgamma().sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        return special.xlogy(self.concentration - 1, value).sum(-1) + self._log_factor()

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        rest = (total - a.shape[-1]) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
        return rest - self._log_factor()

    def _draw(self, shape: Shape) -> Tensor:
        logs = _log_gamma_draws(self.concentration, shape, "Dirichlet")
        return logs.softmax(-1).to(self._dtype)


class Beta(Parametric):
    """Numbers between 0 and 1: x^(concentration1 - 1) (1 - x)^(concentration0 - 1), up to a factor.

    >>> import lucid
    >>> b = lucid.distributions.Beta(2.0, 3.0)
    >>> b.mean, b.cdf(0.5)
    (Tensor(0.4), Tensor(0.6875))
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return _greatest_density(lucid.stack([self.concentration1, self.concentration0], -1))[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return special.xlogy(a - 1, value) + special.xlog1py(b - 1, -value) - special.betaln(a, b)

    def _cdf(self, value: Tensor) -> Tensor:
        return special.betainc(self.concentration1, self.concentration0, value)

    def _icdf(self, value: Tensor) -> Tensor:
        return special.betaincinv(self.concentration1, self.concentration0, value)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        rest = (a + b - 2) * (a + b).digamma() - (a - 1) * a.digamma() - (b - 1) * b.digamma()
        return special.betaln(a, b) + rest

    def _draw(self, shape: Shape) -> Tensor:
        ones, zeros = (_log_gamma_draws(c, shape, "Beta") for c in (self.concentration1, self.concentration0))
        info = lucid.finfo(self._dtype)
        return (ones - zeros).sigmoid().to(self._dtype).clamp(info.tiny, 1 - info.eps / 2)


class FisherSnedecor(Parametric):
    """The ratio of two mean squares of normal numbers, of df1 and of df2 degrees of freedom.

    >>> import lucid
    >>> lucid.distributions.FisherSnedecor(4.0, 6.0).mean
    Tensor(1.5)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    @property
    def mean(self) -> Tensor:
        return lucid.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return lucid.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        return lucid.where(n > 4, 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4)), math.nan)

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        rest = a * ratio.log() + special.xlogy(a - 1, value) - (a + b) * (ratio * value).log1p()
        return rest - special.betaln(a, b)

    def _cdf(self, value: Tensor) -> Tensor:
        part = self.df1 * value
        return special.betainc(self.df1 / 2, self.df2 / 2, part / (part + self.df2))

    def _icdf(self, value: Tensor) -> Tensor:
        part = special.betaincinv(self.df1 / 2, self.df2 / 2, value)
        return self.df2 * part / (self.df1 * (1 - part))

    def entropy(self) -> Tensor:
        a, b = self.df1 / 2, self.df2 / 2
        rest = (1 - a) * a.digamma() - (1 + b) * b.digamma() + (a + b) * (a + b).digamma()
        return special.betaln(a, b) + rest + (b / a).log()

    def _draw(self, shape: Shape) -> Tensor:
        above, below = (_log_gamma_draws(df / 2, shape, "FisherSnedecor") - df.log() for df in (self.df1, self.df2))
        return (above - below).exp().clamp(min=lucid.finfo(self._dtype).tiny).to(self._dtype)


class StudentT(Parametric):
    """Student's distribution of `df` degrees of freedom: (1 + z² / df)^(-(df + 1) / 2), up to a factor.

    >>> import lucid
    >>> lucid.distributions.StudentT(5.0).variance
    Tensor(1.6667)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    _defaults = {"loc": 0.0, "scale": 1.0}
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    @property
    def mean(self) -> Tensor:
        return lucid.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        heavy = lucid.where(self.df > 1, math.inf, math.nan).to(self._dtype)
        return lucid.where(self.df > 2, self.scale**2 * self.df / (self.df - 2), heavy)

    def _log_factor(self) -> Tensor:
        return self.scale.log() + 0.5 * self.df.log() + special.betaln(self.df / 2, lucid.full_like(self.df, 0.5))

    def _log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale / self.df.sqrt()
        # log(1 + z²), also where the square overflows.
        return -(self.df + 1) * lucid.hypot(lucid.ones_like(z), z).log() - self._log_factor()

    def entropy(self) -> Tensor:
        half = (self.df + 1) / 2
        return half * (half.digamma() - (self.df / 2).digamma()) + self._log_factor()

    def _draw(self, shape: Shape) -> Tensor:
        half = (self.df / 2).double()
        spread = ((half.log() - _log_gamma_draws(half, shape, "StudentT")) / 2).exp().to(self._dtype)
        return self.loc + self.scale * self._normal(shape) * spread
