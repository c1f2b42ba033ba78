"""`jax.scipy.stats`: densities and distribution functions, by `lucid.distributions`.

>>> import lucid.jax as jax
>>> jax.scipy.stats.norm.logpdf(0.0), jax.scipy.stats.norm.cdf(1.96).round(3)
(Array(-0.9189385, dtype=float32), Array(0.975, dtype=float32))
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lucid import distributions, special
from lucid.api import joining, sorting
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical
from lucid.numpy.doors import outside, plain
from lucid.ops import binary, unary


def _floats(value: Any) -> Any:
    found = plain(lift(DOOR.array(value)))
    return found if found.np_dtype.kind in "fV" else found.to(canonical(np.dtype(float)))


class Continuous:
    """A distribution of SciPy's: parameters of its shape, then `loc` and `scale`.

    `make` gives the one of Lucid's for the shape; what is asked at x is asked of it at (x - loc) / scale.
    """

    def __init__(self, make: Callable[..., Any], shapes: int = 0) -> None:
        self.make, self.shapes = make, shapes

    def _at(self, x: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        given = [_floats(a) for a in args]
        shape, rest = given[: self.shapes], given[self.shapes :]
        loc = rest[0] if rest else _floats(named.get("loc", 0.0))
        scale = rest[1] if len(rest) > 1 else _floats(named.get("scale", 1.0))
        return self.make(*shape), (_floats(x) - loc) / scale, loc, scale

    @outside
    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density; -inf where there is none."""
        own, z, _, scale = self._at(x, args, named)
        inside = own.support.check(z)
        # Where there is no density it is asked for at a place that has one, so that no derivative is nan.
        safe = binary.where(inside, z, _place_in(own.support))
        found = own.log_prob(safe) - unary.log(scale)
        return DOOR.adopted(binary.where(inside, found, -np.inf))

    def pdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The density."""
        return unary.exp(self.logpdf(x, *args, **named))

    @outside
    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of no more than x."""
        own, z, _, _ = self._at(x, args, named)
        inside = own.support.check(z)
        found = own.cdf(binary.where(inside, z, _place_in(own.support)))
        return DOOR.adopted(binary.where(inside, found, (z > _place_in(own.support)).to(found.np_dtype)))

    @outside
    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        return unary.log(self.cdf(x, *args, **named))

    @outside
    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than x."""
        return 1 - self.cdf(x, *args, **named)

    @outside
    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        return unary.log(self.sf(x, *args, **named))

    @outside
    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The place below which a part q lies."""
        own, _, loc, scale = self._at(0.0, args, named)
        return DOOR.adopted(own.icdf(_floats(q)) * scale + loc)

    def isf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The place above which a part q lies."""
        return self.ppf(1 - _floats(q), *args, **named)


def _place_in(support: Any) -> float:
    """A number that a support contains."""
    return 0.5 if not hasattr(support, "lower_bound") or hasattr(support, "upper_bound") else 1.0


class Normal(Continuous):
    """The normal distribution, whose tails are known better than by differences from 1."""

    @outside
    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the probability of no more than x."""
        return DOOR.adopted(special.log_ndtr(self._at(x, args, named)[1]))

    @outside
    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than x."""
        return DOOR.adopted(special.ndtr(-self._at(x, args, named)[1]))

    @outside
    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """Its logarithm."""
        return DOOR.adopted(special.log_ndtr(-self._at(x, args, named)[1]))


class Discrete:
    """A distribution of whole numbers."""

    def __init__(self, make: Callable[..., Any], first: int = 0) -> None:
        self.make, self.first = make, first  # the least number, where Lucid counts from 0

    @outside
    def logpmf(self, k: Any, *args: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k; -inf where it is 0."""
        own = self.make(*(_floats(a) for a in args))
        place = _floats(k) - loc - self.first
        inside = own.support.check(place)
        return DOOR.adopted(binary.where(inside, own.log_prob(binary.where(inside, place, 0.0)), -np.inf))

    def pmf(self, k: Any, *args: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return unary.exp(self.logpmf(k, *args, loc=loc))


class _Bernoulli(Discrete):
    """0 or 1."""

    @outside
    def cdf(self, k: Any, p: Any) -> Any:
        """The probability of no more than k."""
        place, chance = _floats(k), _floats(p)
        return DOOR.adopted(binary.where(place < 0, 0.0, binary.where(place < 1, 1 - chance, 1.0 + 0 * chance)))

    @outside
    def ppf(self, q: Any, p: Any) -> Any:
        """The number below which a part q lies."""
        part, chance = _floats(q), _floats(p)
        found = binary.where(part <= 1 - chance, 0.0, 1.0)
        return DOOR.adopted(binary.where((part >= 0) & (part <= 1), found, np.nan))


class _Poisson(Discrete):
    """How often something happens."""

    @outside
    def cdf(self, k: Any, mu: Any, loc: Any = 0) -> Any:
        """The probability of no more than k."""
        place = unary.floor(_floats(k) - loc)
        found = special.gammaincc(binary.where(place < 0, 1.0, place + 1), _floats(mu))
        return DOOR.adopted(binary.where(place < 0, 0.0, found))


def _of(name: str) -> Callable[..., Any]:
    return lambda *parameters: getattr(distributions, name)(*parameters, validate_args=False)


norm = Normal(lambda: _of("Normal")(_floats(0.0), _floats(1.0)))
uniform = Continuous(lambda: _of("Uniform")(_floats(0.0), _floats(1.0)))
expon = Continuous(lambda: _of("Exponential")(_floats(1.0)))
laplace = Continuous(lambda: _of("Laplace")(_floats(0.0), _floats(1.0)))
cauchy = Continuous(lambda: _of("Cauchy")(_floats(0.0), _floats(1.0)))
gamma = Continuous(lambda a: _of("Gamma")(a, _floats(1.0)), 1)
beta = Continuous(_of("Beta"), 2)
t = Continuous(_of("StudentT"), 1)
chi2 = Continuous(_of("Chi2"), 1)
pareto = Continuous(lambda b: _of("Pareto")(_floats(1.0), b), 1)
bernoulli = _Bernoulli(_of("Bernoulli"))
poisson = _Poisson(_of("Poisson"))
nbinom = Discrete(lambda n, p: _of("NegativeBinomial")(n, 1 - p))
binom = Discrete(lambda n, p: _of("Binomial")(n, p))
geom = Discrete(_of("Geometric"), first=1)


class Written(Continuous):
    """A distribution by formulas at z = (x - loc) / scale and the parameters of its shape; `holds` says where it has a density."""

    def __init__(
        self,
        shapes: int,
        logpdf: Callable[..., Any],
        cdf: Callable[..., Any] | None = None,
        ppf: Callable[..., Any] | None = None,
        sf: Callable[..., Any] | None = None,
        holds: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(lambda *shape: shape, shapes)
        self.formulas = {"cdf": cdf, "ppf": ppf, "sf": sf}
        self.density, self.holds = logpdf, holds

    def _by(self, name: str, *args: Any) -> Any:
        formula = self.formulas[name]
        if formula is None:
            raise NotImplementedError(f"this distribution has no {name}, as in jax.scipy.stats")
        return formula(*args)

    @outside
    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density; -inf where there is none."""
        shape, z, _, scale = self._at(x, args, named)
        if self.holds is None:
            return DOOR.adopted(self.density(z, *shape) - unary.log(scale))
        inside, place = self.holds(z, *shape)
        found = self.density(binary.where(inside, z, place), *shape) - unary.log(scale)
        return DOOR.adopted(binary.where(inside, found, -np.inf))

    @outside
    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of no more than x."""
        shape, z, _, _ = self._at(x, args, named)
        return DOOR.adopted(self._by("cdf", z, *shape))

    @outside
    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of more than x."""
        shape, z, _, _ = self._at(x, args, named)
        found = 1 - self._by("cdf", z, *shape) if self.formulas["sf"] is None else self._by("sf", z, *shape)
        return DOOR.adopted(found)

    @outside
    def ppf(self, q: Any, *args: Any, **named: Any) -> Any:
        """The place below which a part q lies."""
        shape, _, loc, scale = self._at(0.0, args, named)
        return DOOR.adopted(self._by("ppf", _floats(q), *shape) * scale + loc)


def _log_mass(a: Any, b: Any) -> Any:
    """log(Φ(b) - Φ(a)), in the tail in which both are small."""
    turned = a > 0
    low, high = binary.where(turned, -b, a), binary.where(turned, -a, b)
    top = special.log_ndtr(high)
    return top + unary.log1p(-unary.exp(special.log_ndtr(low) - top))


def _truncated_logpdf(z: Any, a: Any, b: Any) -> Any:
    return -z * z / 2 - math.log(2 * math.pi) / 2 - _log_mass(a, b)


def _truncated_cdf(z: Any, a: Any, b: Any) -> Any:
    inside = (z > a) & (z < b)
    place = binary.where(inside, z, (a + b) / 2)
    found = unary.exp(_log_mass(a, place) - _log_mass(a, b))
    return binary.where(inside, found, (z >= b).to(found.np_dtype))


def _wrapped_cauchy(z: Any, c: Any) -> Any:
    return unary.log1p(-c * c) - math.log(2 * math.pi) - unary.log(1 + c * c - 2 * c * unary.cos(z))


logistic = Written(
    0,
    lambda z: unary.log_sigmoid(z) + unary.log_sigmoid(-z),
    unary.sigmoid,
    unary.logit,
    lambda z: unary.sigmoid(-z),
)
gumbel_r = Written(
    0,
    lambda z: -z - unary.exp(-z),
    lambda z: unary.exp(-unary.exp(-z)),
    lambda q: -unary.log(-unary.log(q)),
    lambda z: -unary.expm1(-unary.exp(-z)),
)
gumbel_l = Written(
    0,
    lambda z: z - unary.exp(z),
    lambda z: -unary.expm1(-unary.exp(z)),
    lambda q: unary.log(-unary.log1p(-q)),
    lambda z: unary.exp(-unary.exp(z)),
)
gennorm = Written(
    1,
    lambda z, beta: unary.log(beta / 2) - special.gammaln(1 / beta) - binary.pow(unary.abs(z), beta),
    lambda z, beta: (1 + unary.sign(z) * special.gammainc(1 / beta, binary.pow(unary.abs(z), beta))) / 2,
)
truncnorm = Written(2, _truncated_logpdf, _truncated_cdf, holds=lambda z, a, b: ((z >= a) & (z <= b), (a + b) / 2))
vonmises = Written(
    1, lambda z, kappa: kappa * (unary.cos(z) - 1) - math.log(2 * math.pi) - unary.log(special.i0e(kappa))
)
wrapcauchy = Written(1, _wrapped_cauchy, holds=lambda z, c: ((z >= 0) & (z <= 2 * math.pi), 1.0))


class multivariate_normal:
    """The normal distribution of vectors."""

    @staticmethod
    @outside
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: Any = None) -> Any:
        """The logarithm of the density."""
        centre, matrix = _floats(mean), _floats(cov)
        own = distributions.MultivariateNormal(centre, matrix, validate_args=False)
        return DOOR.adopted(own.log_prob(_floats(x)))

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return unary.exp(multivariate_normal.logpdf(x, mean, cov))


class dirichlet:
    """The distribution of points of the simplex."""

    @staticmethod
    @outside
    def logpdf(x: Any, alpha: Any) -> Any:
        """The logarithm of the density."""
        return DOOR.adopted(distributions.Dirichlet(_floats(alpha), validate_args=False).log_prob(_floats(x)))

    @staticmethod
    def pdf(x: Any, alpha: Any) -> Any:
        """The density."""
        return unary.exp(dirichlet.logpdf(x, alpha))


class betabinom:
    """Successes among n trials whose chance is drawn from a beta distribution."""

    @staticmethod
    @outside
    def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
        """The logarithm of the probability of k; -inf where it is 0."""
        place, trials, first, second = (_floats(v) for v in (k, n, a, b))
        place = place - loc
        inside = (place >= 0) & (place <= trials)
        place = binary.where(inside, place, 0.0)
        found = _betaln(place + first, trials - place + second) - _betaln(first, second)
        found = found - unary.log1p(trials) - _betaln(trials - place + 1, place + 1)
        return DOOR.adopted(binary.where(inside, found, -np.inf))

    @staticmethod
    def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
        """The probability of k."""
        return unary.exp(betabinom.logpmf(k, n, a, b, loc))


def _betaln(a: Any, b: Any) -> Any:
    return special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b)


class multinomial:
    """How often each of several things happens in n trials."""

    @staticmethod
    @outside
    def logpmf(x: Any, n: Any, p: Any) -> Any:
        """The logarithm of the probability of counts; -inf where they do not add up to n."""
        counts, trials = _floats(x), _floats(n)
        terms = special.xlogy(counts, _floats(p)) - special.gammaln(counts + 1)
        found = special.gammaln(trials + 1) + terms.sum(-1)
        return DOOR.adopted(binary.where(counts.sum(-1) == trials, found, -np.inf))

    @staticmethod
    def pmf(x: Any, n: Any, p: Any) -> Any:
        """The probability of counts."""
        return unary.exp(multinomial.logpmf(x, n, p))


class ModeResult(NamedTuple):
    """The commonest elements, and how often each occurs."""

    mode: Any
    count: Any


@outside
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The commonest element, the least of equally common ones, and how often it occurs.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.stats.mode(jnp.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    x = plain(lift(DOOR.array(a)))
    x, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    found = x.mode(along, keepdim=True).values
    count = (x == found).sum(along, keepdim=True)
    pair = (found, count) if keepdims else (found.squeeze(along), count.squeeze(along))
    return ModeResult(*(DOOR.adopted(part) for part in pair))


@outside
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """The standard error of the mean."""
    x = _floats(a)
    count = x.numel() if axis is None else x.shape[axis]
    return DOOR.adopted(x.std(axis, correction=ddof, keepdim=keepdims) / math.sqrt(count))


@outside
def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """The places of elements in their order, from 1: of equal ones the mean, least or largest place, or as `method` says.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.stats.rankdata(jnp.array([3.0, 1.0, 3.0]))
    Array([2.5, 1. , 2.5], dtype=float32)
    """
    x = plain(lift(DOOR.array(a)))
    rows = x.reshape(1, -1) if axis is None else x.movedim(axis, -1)
    ordered, order = rows.sort(-1, stable=True)
    if method == "ordinal":
        found = order.argsort(-1) + 1
    elif method == "dense":
        new = (ordered[..., 1:] != ordered[..., :-1]).cumsum(-1) + 1
        ranks = joining.cat([lift(np.ones((*ordered.shape[:-1], 1), np.int64)), new], -1)
        found = ranks.gather(-1, order.argsort(-1))
    else:
        low, high = (sorting.searchsorted(ordered, rows.contiguous(), right=r) for r in (False, True))
        ways = {"min": lambda: low + 1, "max": lambda: high, "average": lambda: (low + high + 1) / 2}
        if method not in ways:
            raise ValueError(f"rankdata: unknown method {method!r}")
        found = ways[method]()
    return DOOR.adopted(found.reshape(-1) if axis is None else found.movedim(-1, axis))
