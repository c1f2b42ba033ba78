"""The Kullback-Leibler divergence KL(p ‖ q) = E_p[log p(x) - log q(x)].

For numbers it is -E_p[log q] - entropy(p), and E_p[log q] needs of p only expected values of a few functions. They stand
in a table for each p, and what is made of them in a table for each q. Where p can take values that q cannot, the
divergence is infinite.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import lucid
from lucid import Tensor, special
from lucid.distributions.categorical import Categorical, Choices, OneHotCategorical
from lucid.distributions.distribution import Distribution, ExponentialFamily, sum_last
from lucid.distributions.gamma import Beta, Dirichlet, Gamma, InverseGamma
from lucid.distributions.gaussian import Gaussian
from lucid.distributions.location_scale import EULER, Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, Uniform
from lucid.distributions.matrices import Wishart
from lucid.distributions.tails import Exponential, Pareto, Weibull
from lucid.distributions.transformed import Independent, TransformedDistribution
from lucid.distributions.trials import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    Poisson,
    times_log,
)

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
_RULES: dict[tuple[type, type], Rule] = {}
_FOUND: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """A decorator: the function computes the divergence for these classes and their subclasses.

    >>> import lucid
    >>> d = lucid.distributions
    >>> class Fixed(d.Normal):
    ...     pass
    >>> @d.register_kl(Fixed, Fixed)
    ... def _(p, q):
    ...     return lucid.zeros(p.batch_shape)
    >>> d.kl_divergence(Fixed(0.0, 1.0), Fixed(1.0, 1.0))
    Tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type) or not issubclass(kind, Distribution):
            raise TypeError(f"register_kl: expected classes of distributions, not {kind!r}")

    def register(rule: Rule) -> Rule:
        _RULES[type_p, type_q] = rule
        _FOUND.clear()
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) for each distribution of the batch, by the rule for the nearest classes.

    >>> import lucid
    >>> d = lucid.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    Tensor(0.5)
    """
    key = type(p), type(q)
    if key not in _FOUND:
        _FOUND[key] = _nearest(*key)
    rule = _FOUND[key]
    if rule is None:
        raise NotImplementedError(
            f"kl_divergence: none is known of {key[0].__name__} from {key[1].__name__}; register_kl takes one"
        )
    return rule(p, q)


def _nearest(type_p: type, type_q: type) -> Rule | None:
    """The rule of the nearest base classes, counted first from p; it should be the one counted first from q."""
    away = {
        (a, b): (type_p.__mro__.index(a), type_q.__mro__.index(b))
        for a, b in _RULES
        if issubclass(type_p, a) and issubclass(type_q, b)
    }
    if not away:
        return None
    first = min(away, key=lambda pair: away[pair])
    other = min(away, key=lambda pair: away[pair][::-1])
    if _RULES[first] is not _RULES[other]:
        warnings.warn(
            f"kl_divergence of {type_p.__name__} from {type_q.__name__} is ambiguous; "
            f"register_kl({first[0].__name__}, {other[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _RULES[first]


# --- numbers: what p knows -----------------------------------------------------------------------


def _mean_of_log(low: Any, high: Any) -> Any:
    """The mean of log x over an interval."""
    return (special.xlogy(high, high) - special.xlogy(low, low)) / (high - low) - 1


# E[log x]
_LOG: dict[type, Callable[[Any], Any]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + 1 / p.alpha,
    Uniform: lambda p: _mean_of_log(p.low, p.high),
}
# E[log(1 - x)]
_LOG_REST: dict[type, Callable[[Any], Any]] = {
    Beta: lambda p: p.concentration0.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Uniform: lambda p: _mean_of_log(1 - p.high, 1 - p.low),
}
# E[exp(-t x)]
_FALL: dict[type, Callable[[Any, Any], Any]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate) ** -p.concentration,
    Gumbel: lambda p, t: ((1 + t * p.scale).lgamma() - t * p.loc).exp(),
    Normal: lambda p, t: (0.5 * (t * p.scale) ** 2 - t * p.loc).exp(),
    Uniform: lambda p, t: ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low)),
}


def _normal_distance(p: Any, point: Any) -> Any:
    z = (p.loc - point) / p.scale
    return p.scale * (math.sqrt(2 / math.pi) * (-0.5 * z**2).exp() + z * (z * math.sqrt(0.5)).erf())


def _laplace_distance(p: Any, point: Any) -> Any:
    away = (p.loc - point).abs()
    return away + p.scale * (-away / p.scale).exp()


# E|x - point|
_DISTANCE: dict[type, Callable[[Any, Any], Any]] = {Laplace: _laplace_distance, Normal: _normal_distance}


def _expected(table: dict[type, Callable[..., Any]], p: Distribution, *args: Any) -> Any:
    """An expected value; nan if it is not known, which happens only where the divergence is infinite."""
    found = next((table[c] for c in type(p).__mro__ if c in table), None)
    return math.nan if found is None else found(p, *args)


# --- numbers: what q asks for --------------------------------------------------------------------


def _from_normal(p: Any, q: Any) -> Tensor:
    square = p.variance + (p.mean - q.loc) ** 2
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + square / (2 * q.scale**2)


def _from_gamma(p: Any, q: Any) -> Tensor:
    a, b = q.concentration, q.rate
    return a.lgamma() - a * b.log() - (a - 1) * _expected(_LOG, p) + b * p.mean


def _from_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    return special.betaln(a, b) - (a - 1) * _expected(_LOG, p) - (b - 1) * _expected(_LOG_REST, p)


def _from_gumbel(p: Any, q: Any) -> Tensor:
    fall = (q.loc / q.scale).exp() * _expected(_FALL, p, 1 / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + fall


# -E_p[log q(x)]
_CROSS_ENTROPY: dict[type, Rule] = {
    Beta: _from_beta,
    ContinuousBernoulli: lambda p, q: q._log_normalizer() - q.logits * p.mean,
    Exponential: lambda p, q: q.rate * p.mean - q.rate.log(),
    Gamma: _from_gamma,
    Gumbel: _from_gumbel,
    HalfNormal: lambda p, q: q.scale.log() + 0.5 * math.log(math.pi / 2) + (p.variance + p.mean**2) / (2 * q.scale**2),
    Laplace: lambda p, q: (2 * q.scale).log() + _expected(_DISTANCE, p, q.loc) / q.scale,
    Normal: _from_normal,
    Pareto: lambda p, q: (q.alpha + 1) * _expected(_LOG, p) - q.alpha.log() - q.alpha * q.scale.log(),
    Uniform: lambda p, q: (q.high - q.low).log(),
}


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    shape = lucid.broadcast_shapes(p.batch_shape, q.batch_shape)
    return lucid.full(shape, math.inf, dtype=lucid.promote_types(p._dtype, q._dtype))


def _by_cross_entropy(cross_entropy: Rule) -> Rule:
    def divergence(p: Distribution, q: Distribution) -> Tensor:
        ours, theirs = p.support, q.support
        outside = (ours.lower_bound < theirs.lower_bound) | (ours.upper_bound > theirs.upper_bound)
        if outside is True:
            return _infinite(p, q)
        found = cross_entropy(p, q) - p.entropy()
        return found if outside is False else lucid.where(outside, math.inf, found)

    return divergence


_PAIRS: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    ContinuousBernoulli: (ContinuousBernoulli, Exponential, Normal, Pareto, Uniform),
    Exponential: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
    HalfNormal: (Exponential, HalfNormal, Normal),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Laplace, Normal, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Exponential, Gamma, Normal, Pareto, Uniform),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
}
_BY_CLASS = {q: _by_cross_entropy(rule) for q, rule in _CROSS_ENTROPY.items()}
for _p, _all in _PAIRS.items():
    for _q in _all:
        register_kl(_p, _q)(_BY_CLASS[_q])


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    """As one formula of ratios, exactly 0 for equal distributions."""
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchys(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    """That of the whole distributions around 0: both sides are the same."""
    return 2 * (p.scale + q.scale).log() - (4 * p.scale * q.scale).log()


@register_kl(InverseGamma, InverseGamma)
def _inverse_gammas(p: InverseGamma, q: InverseGamma) -> Tensor:
    """That of 1 / x, a bijection."""
    return kl_divergence(*(Gamma(d.concentration, d.rate, validate_args=False) for d in (p, q)))


@register_kl(Weibull, Weibull)
def _weibulls(p: Weibull, q: Weibull) -> Tensor:
    """With E[(x / q.scale)^k] = (p.scale / q.scale)^k Γ(1 + k / p.concentration), for k = q.concentration."""
    ratio, k = p.scale / q.scale, q.concentration
    power = k * ratio.log() + (1 + k / p.concentration).lgamma()
    slope = (1 - k / p.concentration) * EULER
    return (p.concentration / k).log() - k * ratio.log() - slope + power.exp() - 1


# --- counts and choices --------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    success, failure = q._logs()
    return -times_log(p.probs, success) - times_log(p._failure(), failure) - p.entropy()


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("kl_divergence: none is known of a Binomial from one with a greater total_count")
    one = _bernoullis(*(Bernoulli(d.probs, validate_args=False) for d in (p, q)))
    return lucid.where(p.total_count > q.total_count, math.inf, p.total_count * one)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    success, failure = q._logs()
    return -success - times_log(p.mean, failure) - p.entropy()


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return special.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - special.xlogy(p.probs, q.rate) - p.entropy()


register_kl(Poisson, Bernoulli)(_infinite)
register_kl(Poisson, Binomial)(_infinite)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _choices(p: Choices, q: Choices) -> Tensor:
    return -times_log(p.probs, q.logits).sum(-1) - p._information()


# --- vectors -------------------------------------------------------------------------------------


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    slopes = p.concentration.digamma() - p.concentration.sum(-1, keepdim=True).digamma()
    return p._log_factor() - q._log_factor() + ((p.concentration - q.concentration) * slopes).sum(-1)


@register_kl(Gaussian, Gaussian)
def _gaussians(p: Gaussian, q: Gaussian) -> Tensor:
    """The trace of Σq⁻¹ Σp is a sum of squares of the columns of a factor of Σp, in the metric of q."""
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: vectors of {p.event_shape[0]} and of {q.event_shape[0]} elements differ")
    columns = p._factor().movedim(-1, 0)
    trace = q._square(columns).sum(0)
    rest = trace + q._square(p.loc - q.loc) - p.event_shape[0]
    return q._log_volume() - p._log_volume() + 0.5 * rest


@register_kl(Wishart, Wishart)
def _wisharts(p: Wishart, q: Wishart) -> Tensor:
    """By E[x] and E[log det x], of which the density of q is made."""
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: matrices of {p.event_shape[0]} and of {q.event_shape[0]} rows differ")
    n = p.event_shape[0]
    log_det = 2 * p._log_factor() + p._slopes()
    cross = special.multigammaln(q.df / 2, n) + q.df * q._log_factor() - (q.df - n - 1) / 2 * log_det
    return cross + p.df / 2 * q._trace_of(p.covariance_matrix) - p.entropy()


# --- of others -----------------------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the two take different numbers of dimensions for one event")
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: none is known of distributions by different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """A(ηq) - A(ηp) - (ηq - ηp) · A'(ηp): a Bregman divergence of the log-normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError("kl_divergence: none is known of different exponential families")
    value, pull = lucid.func.vjp(p._log_normalizer, *p._natural_params)
    result = q._log_normalizer(*q._natural_params) - value
    for ours, theirs, slope in zip(p._natural_params, q._natural_params, pull(lucid.ones_like(value)), strict=True):
        result = result - sum_last((theirs - ours) * slope, len(p.event_shape))
    return result
