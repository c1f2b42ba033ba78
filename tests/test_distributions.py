"""Distributions: values against scipy.stats, derivatives against finite differences, draws by statistical tests."""

import itertools
import math

import numpy as np
import pytest
import scipy.special
from scipy import stats

import lucid
from lucid import distributions as d
from lucid.distributions import circular
from lucid.func import jvp, vmap

F64 = lucid.float64


def t(*values):
    return lucid.tensor(list(values), dtype=F64)


class Reference:
    """What SciPy does not have, by its density and distribution function between 0 and 1."""

    def __init__(self, logpdf, cdf, ppf):
        self.logpdf, self.cdf, self.ppf = logpdf, cdf, ppf

    def _expected(self, f):
        """By the quantiles, in pieces towards the ends."""
        nodes, weights = np.polynomial.legendre.leggauss(60)
        edges = np.concatenate([10.0 ** np.arange(-15, 0), [0.5], 1 - 10.0 ** np.arange(-1, -16, -1)])
        parts = [((a + b) / 2 + (b - a) / 2 * nodes, (b - a) / 2 * weights) for a, b in itertools.pairwise(edges)]
        return sum((w[:, None] * f(self.ppf(u[:, None]))).sum(0) for u, w in parts)

    def mean(self):
        return self._expected(lambda x: x)

    def var(self):
        return self._expected(lambda x: (x - self.mean()) ** 2)

    def entropy(self):
        return self._expected(lambda x: -self.logpdf(x))


def continuous_bernoulli(p):
    logit = scipy.special.logit(p)
    return Reference(
        lambda x: x * logit - np.log(np.expm1(logit) / logit),
        lambda x: np.expm1(x * logit) / np.expm1(logit),
        lambda u: np.log1p(u * np.expm1(logit)) / logit,
    )


def kumaraswamy(a, b):
    return Reference(
        lambda x: np.log(a * b) + (a - 1) * np.log(x) + (b - 1) * np.log1p(-(x**a)),
        lambda x: 1 - (1 - x**a) ** b,
        lambda u: (-np.expm1(np.log1p(-u) / b)) ** (1 / a),
    )


# name -> parameters, SciPy's distribution of them, points of the support
A, B = np.array([0.7, 2.5, 9.0]), np.array([1.3, 0.6, 4.0])
P = np.array([0.2, 0.55, 0.9])
REAL, POSITIVE, UNIT = np.array([-1.1, 0.3, 2.2]), np.array([0.4, 1.7, 3.1]), np.array([0.15, 0.5, 0.8])
COUNTS = np.array([0.0, 2.0, 3.0])
CONTINUOUS = {
    "Normal": ({"loc": REAL, "scale": B}, lambda: stats.norm(REAL, B), REAL + 0.5),
    "Laplace": ({"loc": REAL, "scale": B}, lambda: stats.laplace(REAL, B), REAL + np.array([0.5, -0.5, 1])),
    "Cauchy": ({"loc": REAL, "scale": B}, lambda: stats.cauchy(REAL, B), REAL + 0.5),
    "Gumbel": ({"loc": REAL, "scale": B}, lambda: stats.gumbel_r(REAL, B), REAL + 0.5),
    "HalfNormal": ({"scale": B}, lambda: stats.halfnorm(0, B), POSITIVE),
    "HalfCauchy": ({"scale": B}, lambda: stats.halfcauchy(0, B), POSITIVE),
    "Uniform": ({"low": REAL, "high": REAL + B}, lambda: stats.uniform(REAL, B), REAL + 0.4),
    "Exponential": ({"rate": B}, lambda: stats.expon(0, 1 / B), POSITIVE),
    "Weibull": ({"scale": B, "concentration": A + 0.5}, lambda: stats.weibull_min(A + 0.5, 0, B), POSITIVE),
    "Pareto": ({"scale": B, "alpha": A + 2}, lambda: stats.pareto(A + 2, 0, B), B + POSITIVE),
    "GeneralizedPareto": (
        {"loc": REAL, "scale": B, "concentration": np.array([-0.3, 0.0, 0.4])},
        lambda: stats.genpareto([-0.3, 0.0, 0.4], REAL, B),
        REAL + 0.6,
    ),
    "Gamma": ({"concentration": A, "rate": B}, lambda: stats.gamma(A, 0, 1 / B), POSITIVE),
    "Chi2": ({"df": A}, lambda: stats.chi2(A), POSITIVE),
    "InverseGamma": ({"concentration": A + 2, "rate": B}, lambda: stats.invgamma(A + 2, 0, B), POSITIVE),
    "Beta": ({"concentration1": A, "concentration0": B}, lambda: stats.beta(A, B), UNIT),
    "Kumaraswamy": ({"concentration1": A, "concentration0": B + 0.5}, lambda: kumaraswamy(A, B + 0.5), UNIT),
    "FisherSnedecor": ({"df1": A + 1, "df2": B + 5}, lambda: stats.f(A + 1, B + 5), POSITIVE),
    "StudentT": ({"df": A + 2, "loc": REAL, "scale": B}, lambda: stats.t(A + 2, REAL, B), REAL + 0.5),
    "LogNormal": ({"loc": REAL, "scale": B / 2}, lambda: stats.lognorm(B / 2, 0, np.exp(REAL)), POSITIVE),
    "VonMises": ({"loc": REAL / 2, "concentration": A}, lambda: stats.vonmises(A, REAL / 2), REAL / 2 + 0.7),
    "ContinuousBernoulli": ({"probs": P}, lambda: continuous_bernoulli(P), UNIT),
}
COUNTED = {
    "Bernoulli": ({"probs": P}, lambda: stats.bernoulli(P), np.array([0.0, 1.0, 0.0])),
    "Geometric": ({"probs": P}, lambda: stats.geom(P, -1), COUNTS),
    "Binomial": ({"total_count": np.array([3.0, 5.0, 7.0]), "probs": P}, lambda: stats.binom([3, 5, 7], P), COUNTS),
    "NegativeBinomial": ({"total_count": A, "probs": P}, lambda: stats.nbinom(A, 1 - P), COUNTS),
    "Poisson": ({"rate": B}, lambda: stats.poisson(B), COUNTS),
}
ALL = {**CONTINUOUS, **COUNTED}
CIRCULAR = {"VonMises"}  # whose mean and variance are of directions


def made(name, dtype=F64, **changes):
    parameters = {**ALL[name][0], **changes}
    return getattr(d, name)(**{k: lucid.tensor(v, dtype=dtype) for k, v in parameters.items()})


@pytest.mark.parametrize("name", ALL)
def test_log_prob(name):
    _, reference, points = ALL[name]
    ref = reference()
    want = ref.logpmf(points) if name in COUNTED else ref.logpdf(points)
    np.testing.assert_allclose(made(name).log_prob(lucid.tensor(points)).numpy(), want, rtol=1e-10, atol=1e-12)
    single = made(name, lucid.float32).log_prob(lucid.tensor(points, dtype=lucid.float32))
    assert single.dtype == lucid.float32
    np.testing.assert_allclose(single.numpy(), want, rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize("name", ALL)
def test_cdf(name):
    _, reference, points = ALL[name]
    if name in ("StudentT", "Bernoulli"):
        with pytest.raises(NotImplementedError, match=f"{name} has no cdf"):
            made(name).cdf(lucid.tensor(points))
        return
    found = made(name).cdf(lucid.tensor(points)).numpy()
    np.testing.assert_allclose(found, reference().cdf(points), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n not in ("StudentT", "VonMises")])
def test_icdf(name):
    chances = np.array([0.03, 0.5, 0.97])[:, None]
    found = made(name).icdf(lucid.tensor(chances))
    np.testing.assert_allclose(found.numpy(), CONTINUOUS[name][1]().ppf(chances), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made(name).cdf(found).numpy(), np.broadcast_to(chances, (3, 3)), rtol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_moments(name):
    ref, dist = ALL[name][1](), made(name)
    if name not in CIRCULAR and name != "Cauchy":
        np.testing.assert_allclose(dist.mean.numpy(), ref.mean(), rtol=1e-9)
        np.testing.assert_allclose(dist.variance.numpy(), ref.var(), rtol=1e-9)
        np.testing.assert_allclose(dist.stddev.numpy(), np.sqrt(ref.var()), rtol=1e-9)
    if name in ("NegativeBinomial", "Poisson"):
        with pytest.raises(NotImplementedError, match="no entropy"):
            dist.entropy()
    else:
        np.testing.assert_allclose(dist.entropy().numpy(), ref.entropy(), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(dist.perplexity().numpy(), np.exp(ref.entropy()), rtol=1e-8, atol=1e-10)


MODES = "Normal Laplace Cauchy Gumbel Weibull Gamma InverseGamma Beta Kumaraswamy FisherSnedecor StudentT LogNormal VonMises"


@pytest.mark.parametrize("name", MODES.split())
def test_mode_is_the_greatest_density(name):
    changes = {k: x + 2 for k, x in ALL[name][0].items() if k.startswith(("concentration", "df"))}
    dist = made(name, **changes)
    around = [dist.log_prob(dist.mode + step) for step in (0.0, 1e-3, -1e-3)]
    assert bool((around[0] > around[1]).all() and (around[0] > around[2]).all())


# --- derivatives ---------------------------------------------------------------------------------


def differentiable(name):
    """The parameters by which a distribution is differentiated, and a function of them."""
    parameters = {k: lucid.tensor(v, requires_grad=True) for k, v in ALL[name][0].items()}
    counts = {k: parameters.pop(k).detach() for k in ("total_count",) if k in parameters and name == "Binomial"}
    return list(parameters.values()), lambda *xs: getattr(d, name)(**dict(zip(parameters, xs, strict=True)), **counts)


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_log_prob(name):
    parameters, make = differentiable(name)
    value = lucid.tensor(ALL[name][2], requires_grad=name not in COUNTED)
    assert lucid.autograd.gradcheck(lambda *xs: make(*xs[:-1]).log_prob(xs[-1]), (*parameters, value))


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "GeneralizedPareto", "ContinuousBernoulli", "VonMises"])
def test_second_gradients_of_log_prob(name):
    parameters, make = differentiable(name)
    value = lucid.tensor(ALL[name][2], requires_grad=True)
    assert lucid.autograd.gradgradcheck(lambda *xs: make(*xs[:-1]).log_prob(xs[-1]), (*parameters, value))


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_facts(name):
    parameters, make = differentiable(name)
    for fact in ("mean", "variance", "entropy"):
        if name in ("Cauchy", "HalfCauchy") and fact != "entropy":
            continue
        if fact == "entropy" and name in ("NegativeBinomial", "Poisson"):
            continue

        def of(*xs, fact=fact):
            found = getattr(make(*xs), fact)
            return found() if callable(found) else found

        assert lucid.autograd.gradcheck(of, parameters), fact


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n != "StudentT"])
def test_gradients_of_cdf(name):
    parameters, make = differentiable(name)
    value = lucid.tensor(ALL[name][2], requires_grad=True)
    assert lucid.autograd.gradcheck(lambda *xs: make(*xs[:-1]).cdf(xs[-1]), (*parameters, value))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_of_draws(name):
    """With the same numbers beneath, draws are a smooth function of the parameters."""
    parameters, make = differentiable(name)

    def drawn(*xs):
        lucid.manual_seed(3)
        return make(*xs).rsample((2,))

    assert lucid.autograd.gradcheck(drawn, parameters)
    _, pushed = jvp(drawn, tuple(p.detach() for p in parameters), tuple(lucid.ones_like(p) for p in parameters))
    pulled = lucid.func.jacrev(drawn, argnums=tuple(range(len(parameters))))(*[p.detach() for p in parameters])
    np.testing.assert_allclose(pushed.numpy(), sum(j.sum(-1) for j in pulled).numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "VonMises", "StudentT"])
def test_second_gradients_of_draws(name):
    parameters, make = differentiable(name)

    def drawn(*xs):
        lucid.manual_seed(4)
        return make(*xs).rsample()

    assert lucid.autograd.gradgradcheck(drawn, parameters)


def test_gamma_draws_move_as_their_distribution_does():
    """-∂F/∂a ÷ density, by finite differences of SciPy's distribution function."""
    a = t(0.05, 0.7, 30.0).requires_grad_()
    x = d.Gamma(a, 1.0).rsample()
    got = lucid.autograd.grad(x.sum(), a).numpy()
    at, h = x.detach().numpy(), 1e-6
    by_a = (scipy.special.gammainc(a.detach().numpy() + h, at) - scipy.special.gammainc(a.detach().numpy() - h, at)) / (
        2 * h
    )
    np.testing.assert_allclose(got, -by_a / stats.gamma(a.detach().numpy()).pdf(at), rtol=1e-5)


def test_small_concentrations_have_draws_and_gradients():
    c = lucid.full((50, 3), 1e-3, requires_grad=True)
    x = d.Dirichlet(c).rsample()
    assert bool(x.isfinite().all()) and lucid.allclose(x.sum(-1), lucid.ones(50))
    assert bool(lucid.autograd.grad((x * t(1.0, 2.0, 3.0).float()).sum(), c).isfinite().all())
    for dist in (d.Gamma(c, 1.0), d.Beta(c, c), d.StudentT(c + 0.1)):
        drawn = dist.rsample()
        assert bool(drawn.isfinite().all()) and bool(dist.log_prob(drawn).isfinite().all())


def test_quantiles_of_angles():
    chance = lucid.tensor([1e-8, 1e-3, 0.2, 0.5, 0.7, 0.999, 1 - 1e-8], dtype=F64)
    for k in (1e-4, 0.1, 1.0, 5.0, 20.0, 1e3, 1e6):
        angle = circular._quantile(chance, lucid.full_like(chance, k))
        back = d.VonMises(lucid.tensor(0.0, dtype=F64), k).cdf(angle)
        np.testing.assert_allclose(back.numpy(), chance.numpy(), rtol=0, atol=2e-14)


def test_gradient_of_an_expected_value():
    """Both estimators of the derivative of E[x²] by the concentration: 2a + 1."""
    lucid.manual_seed(0)
    a = lucid.tensor(2.0, dtype=F64, requires_grad=True)
    dist = d.Gamma(a, 1.0)
    by_path = lucid.autograd.grad((dist.rsample((20000,)) ** 2).mean(), a).item()
    x = dist.sample((200000,))
    by_score = lucid.autograd.grad((dist.log_prob(x) * x**2).mean(), a).item()
    assert abs(by_path - 5) < 0.2 and abs(by_score - 5) < 0.5


# --- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_follow_the_distribution(name):
    lucid.manual_seed(11)
    ref, drawn = CONTINUOUS[name][1](), made(name).sample((2000,)).numpy()
    assert drawn.shape == (2000, 3)
    for i in range(3):

        def cdf(x, i=i):
            if name == "VonMises":  # SciPy counts turns, draws lie between -π and π
                ref_one = stats.vonmises(A[i], REAL[i] / 2)
                return ref_one.cdf(x) - ref_one.cdf(-math.pi)
            return ref.cdf(np.broadcast_to(np.asarray(x)[..., None], (*np.shape(x), 3)))[..., i]

        assert stats.kstest(drawn[:, i], cdf).pvalue > 1e-3, (name, i)


@pytest.mark.parametrize("name", COUNTED)
def test_counts_follow_the_distribution(name):
    lucid.manual_seed(12)
    n = 4000
    ref, drawn = COUNTED[name][1](), made(name).sample((n,)).numpy()
    values = np.arange(0, 60)
    expected = n * ref.pmf(values[:, None])
    for i in range(3):
        often = expected[:, i] > 5
        seen = np.array([(drawn[:, i] == v).sum() for v in values])
        observed = np.append(seen[often], n - seen[often].sum())
        wanted = np.append(expected[often, i], n - expected[often, i].sum())
        keep = wanted > 1e-6
        assert stats.chisquare(observed[keep], wanted[keep] * observed[keep].sum() / wanted[keep].sum()).pvalue > 1e-3


def test_choices_follow_their_probabilities():
    lucid.manual_seed(13)
    probs = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    picked = d.Categorical(lucid.tensor(probs)).sample((4000,)).numpy()
    hot = d.OneHotCategorical(lucid.tensor(probs)).sample((4000,)).numpy()
    counts = d.Multinomial(5, lucid.tensor(probs)).sample((800,)).numpy()
    assert picked.shape == (4000, 2) and hot.shape == (4000, 2, 3) and counts.shape == (800, 2, 3)
    assert (counts.sum(-1) == 5).all() and (hot.sum(-1) == 1).all()
    for row in range(2):
        possible = probs[row] > 0
        for seen in (np.bincount(picked[:, row], minlength=3), hot[:, row].sum(0), counts[:, row].sum(0)):
            assert not seen[~possible].any()
            assert stats.chisquare(seen[possible], 4000 * probs[row][possible]).pvalue > 1e-3


def test_draws_of_vectors_and_matrices_have_the_right_moments():
    lucid.manual_seed(14)
    root = np.array([[1.0, 0.0], [0.5, 0.8]])
    covariance = lucid.tensor(root @ root.T)
    for dist in (
        d.MultivariateNormal(t(1.0, -1.0), covariance),
        d.MultivariateNormal(t(1.0, -1.0), precision_matrix=lucid.linalg.inv(covariance)),
        d.MultivariateNormal(t(1.0, -1.0), scale_tril=lucid.tensor(root)),
        d.LowRankMultivariateNormal(t(1.0, -1.0), t(0.5, 1.0).unsqueeze(-1), t(0.2, 0.4)),
        d.Dirichlet(t(0.7, 2.0, 3.0)),
        d.Wishart(lucid.tensor(3.5, dtype=F64), covariance),
        d.LogNormal(t(0.1, 0.2), 0.3),
    ):
        drawn = dist.rsample((40000,))
        scale = dist.stddev
        assert bool(((drawn.mean(0) - dist.mean).abs() < 0.03 * (scale + 1)).all()), dist
        assert bool(((drawn.var(0) - dist.variance).abs() < 0.08 * dist.variance).all()), dist


def test_correlations_have_beta_marginals():
    """Of an LKJ distribution of dimension n and concentration c: Beta(b, b) on [-1, 1] with b = c + n/2 - 1."""
    lucid.manual_seed(15)
    lower = d.LKJCholesky(4, lucid.tensor(1.5, dtype=F64)).sample((2000,))
    assert bool(d.constraints.corr_cholesky.check(lower).all())
    correlations = (lower @ lower.transpose(-2, -1)).numpy()
    for i, j in ((1, 0), (2, 1), (3, 0), (3, 2)):
        assert stats.kstest((correlations[:, i, j] + 1) / 2, stats.beta(2.5, 2.5).cdf).pvalue > 1e-3


def test_density_of_correlations_integrates_to_1():
    dist = d.LKJCholesky(2, lucid.tensor(2.5, dtype=F64))
    r = lucid.linspace(-0.9999, 0.9999, 20001, dtype=F64)
    one, zero = lucid.ones_like(r), lucid.zeros_like(r)
    lower = lucid.stack([lucid.stack([one, zero], -1), lucid.stack([r, (1 - r * r).sqrt()], -1)], -2)
    assert abs(lucid.trapezoid(dist.log_prob(lower).exp(), r).item() - 1) < 1e-4


def test_draws_have_no_history_unless_asked_for():
    loc = lucid.zeros(3, requires_grad=True)
    dist = d.Normal(loc, 1.0)
    assert not dist.sample().requires_grad and dist.rsample().requires_grad
    _, pushed = jvp(lambda x: d.Normal(x, 1.0).sample(), (lucid.zeros(3),), (lucid.ones(3),))
    assert not pushed.any()
    with pytest.raises(NotImplementedError, match=r"Poisson has no rsample.*use sample"):
        d.Poisson(1.0).rsample()


def test_nothing_computed_without_history_is_kept():
    probs = t(0.2, 0.3, 0.5).requires_grad_()
    dist = d.Categorical(logits=probs)
    dist.sample((2,))
    with lucid.no_grad():
        dist.entropy()
    assert dist.entropy().requires_grad and dist.probs.requires_grad


# --- vectors -------------------------------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]])


def test_multivariate_normal():
    loc, x = np.array([0.5, -1.0, 2.0]), np.array([[0.1, 0.2, 0.3], [1.0, -1.0, 2.0]])
    ref = stats.multivariate_normal(loc, COVARIANCE)
    c = lucid.tensor(COVARIANCE)
    for dist in (
        d.MultivariateNormal(lucid.tensor(loc), c),
        d.MultivariateNormal(lucid.tensor(loc), precision_matrix=lucid.linalg.inv(c)),
        d.MultivariateNormal(lucid.tensor(loc), scale_tril=lucid.linalg.cholesky(c)),
    ):
        np.testing.assert_allclose(dist.log_prob(lucid.tensor(x)).numpy(), ref.logpdf(x))
        np.testing.assert_allclose(dist.entropy().numpy(), ref.entropy())
        np.testing.assert_allclose(dist.covariance_matrix.numpy(), COVARIANCE)
        np.testing.assert_allclose(dist.precision_matrix.numpy(), np.linalg.inv(COVARIANCE))
        np.testing.assert_allclose(dist.scale_tril.numpy(), np.linalg.cholesky(COVARIANCE), atol=1e-12)
        np.testing.assert_allclose(dist.variance.numpy(), np.diag(COVARIANCE))
        many = dist.expand((4, 2))
        assert many.batch_shape == (4, 2) and many.sample((5,)).shape == (5, 4, 2, 3)
        np.testing.assert_allclose(many.log_prob(lucid.tensor(x)).numpy(), np.broadcast_to(ref.logpdf(x), (4, 2)))


def test_low_rank_normal_is_the_normal_of_its_covariance():
    low = d.LowRankMultivariateNormal(
        lucid.zeros(2, 3, dtype=F64), lucid.arange(6.0, dtype=F64).reshape(3, 2) / 3, t(0.3, 0.4, 0.5)
    )
    full = d.MultivariateNormal(low.loc, low.covariance_matrix)
    x = lucid.tensor([[0.1, 0.2, 0.3], [1.0, -1.0, 2.0]], dtype=F64)
    for fact in ("precision_matrix", "scale_tril", "variance"):
        np.testing.assert_allclose(getattr(low, fact).numpy(), getattr(full, fact).numpy(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(low.log_prob(x).numpy(), full.log_prob(x).numpy())
    np.testing.assert_allclose(low.entropy().numpy(), full.entropy().numpy())


def test_gradients_of_vectors():
    loc, x = t(0.5, -1.0, 2.0).requires_grad_(), t(0.1, 0.2, 0.3).requires_grad_()
    tril = lucid.tensor(np.linalg.cholesky(COVARIANCE), requires_grad=True)

    def by_tril(loc, tril, x):
        return d.MultivariateNormal(loc, scale_tril=tril.tril()).log_prob(x)

    def by_covariance(loc, c, x):
        return d.MultivariateNormal(loc, c @ c.t() + 1).log_prob(x)

    for f in (by_tril, by_covariance):
        assert lucid.autograd.gradcheck(f, (loc, tril, x))
    c, parts = t(0.7, 2.0, 3.0).requires_grad_(), t(0.2, 0.3, 0.5)
    assert lucid.autograd.gradcheck(lambda c: d.Dirichlet(c).log_prob(parts), c)
    assert lucid.autograd.gradcheck(lambda c: d.Dirichlet(c).entropy(), c)
    df, m = lucid.tensor(4.5, dtype=F64, requires_grad=True), lucid.eye(3, dtype=F64) + 0.1

    def wishart(df, root):
        return d.Wishart(df, scale_tril=root.tril()).log_prob(m)

    assert lucid.autograd.gradcheck(wishart, (df, tril))

    def drawn(df, root):
        lucid.manual_seed(5)
        return d.Wishart(df, scale_tril=root.tril()).rsample()

    assert lucid.autograd.gradcheck(drawn, (df, tril))


def test_dirichlet_and_wishart():
    c, x = np.array([0.7, 2.0, 3.0]), np.array([0.2, 0.3, 0.5])
    dist, ref = d.Dirichlet(lucid.tensor(c)), stats.dirichlet(c)
    np.testing.assert_allclose(dist.log_prob(lucid.tensor(x)).numpy(), ref.logpdf(x))
    np.testing.assert_allclose(dist.entropy().numpy(), ref.entropy())
    np.testing.assert_allclose(dist.variance.numpy(), ref.var())
    m = COVARIANCE + np.eye(3)
    wishart, ref = d.Wishart(lucid.tensor(4.5, dtype=F64), lucid.tensor(COVARIANCE)), stats.wishart(4.5, COVARIANCE)
    np.testing.assert_allclose(wishart.log_prob(lucid.tensor(m)).numpy(), ref.logpdf(m))
    np.testing.assert_allclose(wishart.entropy().numpy(), ref.entropy())
    np.testing.assert_allclose(wishart.variance.numpy(), ref.var())


def test_choices():
    probs = np.array([0.1, 0.2, 0.7])
    for given in ({"probs": t(1.0, 2.0, 7.0)}, {"logits": t(*np.log(3 * probs))}):
        one = d.Categorical(**given)
        np.testing.assert_allclose(one.probs.numpy(), probs)
        np.testing.assert_allclose(one.logits.numpy(), np.log(probs))
        np.testing.assert_allclose(one.log_prob(lucid.tensor([0, 2])).numpy(), np.log(probs[[0, 2]]))
        np.testing.assert_allclose(one.entropy().numpy(), stats.entropy(probs))
        assert one.mode.item() == 2 and one.enumerate_support().tolist() == [0, 1, 2]
        hot = d.OneHotCategorical(**given)
        np.testing.assert_allclose(hot.log_prob(hot.enumerate_support()).numpy(), np.log(probs))
        assert hot.mode.tolist() == [0, 0, 1]
        several = d.Multinomial(4, **given)
        ref = stats.multinomial(4, probs)
        np.testing.assert_allclose(several.log_prob(t(1.0, 1.0, 2.0)).numpy(), ref.logpmf([1, 1, 2]))
        np.testing.assert_allclose(several.entropy().numpy(), ref.entropy())


def test_impossible_and_certain_events():
    p = t(0.0, 1.0).requires_grad_()
    logs = d.Bernoulli(p).log_prob(t(0.0, 1.0))
    assert logs.tolist() == [0.0, 0.0]
    assert lucid.autograd.grad(logs.sum(), p).tolist() == [-1.0, 1.0]
    assert d.Bernoulli(p).log_prob(t(1.0, 0.0)).tolist() == [-math.inf] * 2
    assert d.Bernoulli(p).entropy().tolist() == [0.0, 0.0]
    masked = t(0.3, -math.inf, 1.0).requires_grad_()
    assert lucid.autograd.grad(d.Categorical(logits=masked).entropy(), masked)[1].item() == 0
    assert lucid.autograd.grad(d.Categorical(logits=masked).log_prob(lucid.tensor(0)), masked).isfinite().all()
    assert d.Categorical(t(0.0, 1.0)).entropy().item() == 0
    assert d.NegativeBinomial(0.0, 0.5).log_prob(0.0).item() == 0
    assert d.NegativeBinomial(0.0, 0.5).sample((3,)).tolist() == [0.0] * 3


def test_mixtures():
    weights = np.array([0.3, 0.7])
    m = d.MixtureSameFamily(d.Categorical(lucid.tensor(weights)), d.Normal(t(-1.0, 2.0), t(0.5, 1.5)))
    parts = stats.norm([-1.0, 2.0], [0.5, 1.5])
    x = np.array([0.3, -2.0, 1.0])
    np.testing.assert_allclose(m.log_prob(lucid.tensor(x)).numpy(), np.log(parts.pdf(x[:, None]) @ weights))
    np.testing.assert_allclose(m.cdf(lucid.tensor(x)).numpy(), parts.cdf(x[:, None]) @ weights)
    lucid.manual_seed(16)
    drawn = m.sample((4000,)).numpy()
    assert stats.kstest(drawn, lambda x: parts.cdf(np.asarray(x)[..., None]) @ weights).pvalue > 1e-3
    np.testing.assert_allclose(m.mean.item(), 0.3 * -1 + 0.7 * 2)
    vectors = d.MixtureSameFamily(
        d.Categorical(lucid.ones(4, 2)), d.Independent(d.Normal(lucid.zeros(4, 2, 3), 1.0), 1)
    )
    assert vectors.sample((5,)).shape == (5, 4, 3) and vectors.log_prob(lucid.zeros(4, 3)).shape == (4,)
    assert vectors.expand((6, 4)).sample().shape == (6, 4, 3) and vectors.mean.shape == (4, 3)


# --- shapes, transforms of functions, programs --------------------------------------------------------


def test_shapes():
    for dist, batch, event in (
        (d.Normal(lucid.zeros(3, 1), lucid.ones(2)), (3, 2), ()),
        (d.Dirichlet(lucid.ones(4, 3)), (4,), (3,)),
        (d.Categorical(lucid.ones(4, 3)), (4,), ()),
        (d.OneHotCategorical(logits=lucid.zeros(4, 3)), (4,), (3,)),
        (d.Multinomial(3, lucid.ones(4, 3)), (4,), (3,)),
        (d.MultivariateNormal(lucid.zeros(5, 1, 2), lucid.eye(2).expand(4, 2, 2)), (5, 4), (2,)),
        (d.LowRankMultivariateNormal(lucid.zeros(3), lucid.ones(4, 3, 2), lucid.ones(3)), (4,), (3,)),
        (d.Wishart(lucid.full((4,), 3.0), lucid.eye(2)), (4,), (2, 2)),
        (d.LKJCholesky(3, lucid.ones(4)), (4,), (3, 3)),
        (d.RelaxedOneHotCategorical(0.5, logits=lucid.zeros(4, 3)), (4,), (3,)),
        (d.LogisticNormal(lucid.zeros(4, 3), 1.0), (4,), (4,)),
        (d.Independent(d.Normal(lucid.zeros(4, 3), 1.0), 1), (4,), (3,)),
    ):
        assert (dist.batch_shape, dist.event_shape) == (batch, event), dist
        drawn = dist.sample((7,))
        assert drawn.shape == (7, *batch, *event) and dist.log_prob(drawn).shape == (7, *batch), dist
        wide = dist.expand((6, *batch))
        assert wide.batch_shape == (6, *batch) and wide.sample().shape == (6, *batch, *event), dist
        assert wide.log_prob(drawn[:6]).shape == (6, *batch) and dist.batch_shape == batch
        assert dist.sample((0,)).shape == (0, *batch, *event)
        assert repr(dist).startswith(type(dist).__name__)


def test_types():
    assert d.Normal(0, 1).sample().dtype == lucid.float32
    assert d.Normal(0, lucid.tensor(1.0, dtype=F64)).sample().dtype == F64
    assert d.Normal(np.zeros(3), 1).sample().dtype == F64
    assert d.Gamma(lucid.ones(2, dtype=lucid.float16), 1.0).rsample().dtype == lucid.float16
    assert d.Categorical(lucid.ones(2)).sample().dtype == lucid.int64
    assert d.Poisson(lucid.tensor([1, 2])).rate.dtype == lucid.float32


@pytest.mark.parametrize("name", ALL)
def test_vmap_of_log_prob(name):
    given = {k: lucid.tensor(v) for k, v in ALL[name][0].items()}
    points = lucid.tensor(ALL[name][2])
    kind = getattr(d, name)
    got = vmap(lambda x, *ps: kind(**dict(zip(given, ps, strict=True))).log_prob(x))(points, *given.values())
    np.testing.assert_allclose(got.numpy(), kind(**given).log_prob(points).numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "VonMises", "Poisson", "Binomial", "StudentT"])
def test_vmap_of_draws(name):
    given = {k: lucid.tensor(v) for k, v in ALL[name][0].items()}

    def drawn(*ps):
        return getattr(d, name)(**dict(zip(given, ps, strict=True))).sample((4,))

    with pytest.raises(RuntimeError, match="randomness"):
        vmap(drawn)(*given.values())
    lucid.manual_seed(0)
    different = vmap(drawn, randomness="different")(*given.values())
    same = vmap(drawn, randomness="same")(*[p[:1].expand(3) for p in given.values()])
    assert different.shape == same.shape == (3, 4)
    assert bool((same == same[:1]).all())
    if name in CONTINUOUS:
        assert len(np.unique(different.numpy())) == 12


@pytest.mark.parametrize("name", ALL)
def test_compiled(name):
    parameters, _, points = ALL[name]
    kind = getattr(d, name)
    given = [lucid.tensor(v) for v in parameters.values()]

    def both(x, *ps):
        made = kind(**dict(zip(parameters, ps, strict=True)))
        return made.log_prob(x), made.sample((2,))

    lucid.manual_seed(3)
    log_prob, drawn = both(lucid.tensor(points), *given)
    lucid.manual_seed(3)
    compiled = lucid.compile(both)
    got, draws = compiled(lucid.tensor(points), *given)
    np.testing.assert_allclose(got.numpy(), log_prob.numpy(), rtol=1e-12)
    np.testing.assert_allclose(draws.numpy(), drawn.numpy(), rtol=1e-9)
    if name not in COUNTED:
        assert not lucid.equal(compiled(lucid.tensor(points), *given)[1], draws)


def test_vmap_of_gradients_of_draws():
    a = t(0.5, 2.0, 7.0)

    def slope(a):
        return lucid.func.grad(lambda a: d.Gamma(a, 1.0).rsample())(a)

    got = vmap(slope, randomness="different")(a)
    assert got.shape == (3,) and bool((got > 0).all())


def test_programs_draw_anew_and_check_their_arguments():
    program = lucid.func.make_graph(lambda scale: d.Normal(0.0, scale).sample((2,)))(lucid.tensor(1.0))
    assert [e.kind for e in program.effects] == ["check", "draw"]
    first, second = program(lucid.tensor(1.0)), program(lucid.tensor(1.0))
    assert not lucid.equal(first, second)
    with pytest.raises(ValueError, match="scale must satisfy"):
        program(lucid.tensor(-1.0))


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: d.Normal(0.0, -1.0), r"Normal: scale must satisfy GreaterThan\(lower_bound=0.0\); 1 of 1"),
        (lambda: d.Normal(lucid.tensor([0.0, math.nan]), 1.0), r"Normal: loc must satisfy Real\(\); 1 of 2"),
        (lambda: d.Uniform(1.0, 1.0), "Uniform: low must be less than high"),
        (lambda: d.Gamma(0.0, 1.0), "Gamma: concentration"),
        (lambda: d.Bernoulli(1.5), "Bernoulli: probs must satisfy Interval"),
        (lambda: d.Bernoulli(), "give exactly one of probs, logits, not none"),
        (lambda: d.Bernoulli(0.5, 0.0), "give exactly one of probs, logits, not probs and logits"),
        (lambda: d.Categorical(lucid.tensor([-1.0, 2.0])), "Categorical: probs must satisfy Simplex"),
        (lambda: d.Categorical(lucid.tensor(1.0)), "probs must have at least 1 dimensions"),
        (lambda: d.Geometric(0.0), "Geometric: probs must be greater than 0"),
        (lambda: d.Binomial(-1, 0.5), "Binomial: total_count"),
        (lambda: d.Multinomial(-1, lucid.ones(2)), "total_count must be a whole number"),
        (lambda: d.MultivariateNormal(lucid.zeros(2), -lucid.eye(2)), "covariance_matrix must satisfy PositiveDefinite"),
        (lambda: d.MultivariateNormal(lucid.zeros(2)), "give exactly one of covariance_matrix"),
        (lambda: d.Wishart(0.5, lucid.eye(2)), "df must be greater than 1"),
        (lambda: d.LKJCholesky(1), "dim must be a whole number from 2 on"),
        (lambda: d.Normal(0.0, 1.0).log_prob(math.nan), "value must lie in the support, Real"),
        (lambda: d.Normal(lucid.zeros(3), 1.0).log_prob(lucid.zeros(2)), r"shape \(2,\) does not broadcast"),
        (lambda: d.Dirichlet(lucid.ones(3)).log_prob(lucid.ones(3)), "value must lie in the support, Simplex"),
        (lambda: d.Poisson(1.0).log_prob(0.5), "value must lie in the support, IntegerGreaterThan"),
        (lambda: d.Exponential(1.0).icdf(1.5), "probabilities must lie between 0 and 1"),
        (lambda: d.Independent(d.Normal(0.0, 1.0), 1), "reinterpreted_batch_ndims is 1"),
        (lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), "exp"), "must be a Transform"),
        (lambda: vmap(lambda s: d.Normal(0.0, s).mean)(lucid.tensor([1.0, -1.0])), "scale must satisfy.*1 of 2"),
    ],
)  # fmt: skip
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_some_have_not():
    assert d.Bernoulli(lucid.ones(3) / 2).param_shape == (3,)
    assert not hasattr(d.Normal(0.0, 1.0), "param_shape")
    with pytest.raises(NotImplementedError, match="StickBreakingTransform is no monotonous map"):
        d.LogisticNormal(lucid.zeros(2), 1.0).icdf(lucid.ones(3) / 2)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="Normal: missing a required argument: 'scale'"):
        d.Normal(0.0)
    with pytest.raises(TypeError, match="Normal: got an unexpected keyword argument"):
        d.Normal(0.0, 1.0, sigma=1.0)


def test_checks_can_be_turned_off():
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Exponential(1.0).log_prob(-1.0).item() == 1
    finally:
        d.Distribution.set_default_validate_args(True)


def test_user_defined_distributions():
    class Point(d.Distribution):
        arg_constraints = {"at": d.constraints.real}  # noqa: RUF012 -- as users write it
        support = d.constraints.real

        def __init__(self, at, validate_args=None):
            self.at = at
            super().__init__(at.shape, validate_args=validate_args)

        def log_prob(self, value):
            return lucid.where(value == self.at, 0.0, -math.inf)

        def _draw(self, shape):
            return self.at.expand(shape)

    assert Point(lucid.zeros(2)).sample((3,)).shape == (3, 2)
    with pytest.raises(ValueError, match="Point: at"):
        Point(lucid.tensor(math.nan))
    with pytest.raises(NotImplementedError, match="Point has no mean"):
        _ = Point(lucid.zeros(2)).mean
