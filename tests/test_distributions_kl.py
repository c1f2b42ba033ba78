"""Divergences against numerical integration and sums, constraints, transforms and their registries."""

import itertools
import math

import numpy as np
import pytest

import lucid
from lucid import distributions as d
from lucid.distributions import constraints as c
from lucid.distributions import kl as module

F64 = lucid.float64


def t(*values):
    return lucid.tensor(list(values), dtype=F64)


def number(x):
    return lucid.tensor(x, dtype=F64)


# Two of each family, of which the first lies in the support of the second where that can be.
NUMBERS = {
    d.Beta: [(1.5, 2.5), (2.0, 0.8)],
    d.ContinuousBernoulli: [(0.3,), (0.6,)],
    d.Exponential: [(1.3,), (0.7,)],
    d.Gamma: [(2.5, 1.5), (1.7, 0.6)],
    d.Gumbel: [(0.5, 1.2), (-0.3, 1.6)],
    d.HalfCauchy: [(0.8,), (1.4,)],
    d.HalfNormal: [(0.8,), (1.4,)],
    d.InverseGamma: [(2.5, 1.5), (1.7, 0.6)],
    d.Laplace: [(0.4, 0.9), (-0.5, 1.3)],
    d.Normal: [(0.4, 0.9), (-0.5, 1.3)],
    d.Pareto: [(1.5, 3.5), (1.2, 2.2)],
    d.Uniform: [(0.2, 0.7), (0.1, 0.9)],
    d.Cauchy: [(0.4, 0.9), (-0.5, 1.3)],
    d.Weibull: [(1.2, 1.6), (0.9, 2.3)],
}
PAIRS = [(p, q) for p, q in itertools.product(NUMBERS, NUMBERS) if (p, q) in module._RULES]


def integral(p, q):
    """∫ p (log p - log q) over the quantiles of p, by Gauss' and Legendre's rule in pieces towards the ends."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.concatenate([10.0 ** np.arange(-14, -1), [0.5], 1 - 10.0 ** np.arange(-2, -15, -1)])
    if isinstance(q, d.Laplace):  # whose density has a kink
        edges = np.sort(np.append(edges, p.cdf(q.loc).item()))
    u = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in itertools.pairwise(edges)])
    w = np.concatenate([(b - a) / 2 * weights for a, b in itertools.pairwise(edges)])
    x = p.icdf(lucid.tensor(u))
    inside = q.support.check(x)
    if not bool(inside.all()):
        return math.inf
    return float((lucid.tensor(w) * (p.log_prob(x) - q.log_prob(x))).sum())


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda k: k.__name__)
def test_divergence_of_numbers(p, q):
    first, second = p(*map(number, NUMBERS[p][0])), q(*map(number, NUMBERS[q][1]))
    want, got = integral(first, second), d.kl_divergence(first, second)
    np.testing.assert_allclose(got.item(), want, rtol=2e-5)
    if p is q:
        np.testing.assert_allclose(d.kl_divergence(first, first).item(), 0, atol=1e-12)
    if math.isfinite(want):
        assert lucid.autograd.gradcheck(
            lambda *xs: d.kl_divergence(p(*xs[: len(NUMBERS[p][0])]), q(*xs[len(NUMBERS[p][0]) :])),
            [number(x).requires_grad_() for x in (*NUMBERS[p][0], *NUMBERS[q][1])],
        )


def test_all_pairs_are_tested():
    assert {pair for pair in module._RULES if pair[0] in NUMBERS} == set(PAIRS)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (d.Bernoulli(t(0.2, 0.0, 1.0)), d.Bernoulli(t(0.6, 0.5, 0.9))),
        (d.Binomial(5, t(0.2, 0.9)), d.Binomial(5, t(0.6, 0.5))),
        (d.Geometric(t(0.2, 0.9)), d.Geometric(logits=t(0.6, 0.5))),
        (d.Poisson(t(0.2, 3.0)), d.Poisson(t(1.5, 2.5))),
        (d.Bernoulli(t(0.2, 0.7)), d.Poisson(t(1.5, 0.5))),
    ],
    ids=lambda p: type(p).__name__,
)
def test_divergence_of_counts(p, q):
    values = p.enumerate_support() if p.has_enumerate_support else lucid.arange(300.0, dtype=F64).unsqueeze(-1)
    logs = p.log_prob(values)
    terms = lucid.where(logs == -math.inf, 0.0, logs.exp() * (logs - q.log_prob(values)))
    np.testing.assert_allclose(d.kl_divergence(p, q).numpy(), terms.sum(0).numpy(), rtol=1e-9)


def test_divergence_of_choices():
    p, q = t(0.2, 0.8, 0.0), t(0.5, 0.25, 0.25)
    want = 0.2 * math.log(0.4) + 0.8 * math.log(3.2)
    for kind in (d.Categorical, d.OneHotCategorical):
        np.testing.assert_allclose(d.kl_divergence(kind(p), kind(q)).item(), want)
        assert d.kl_divergence(kind(q), kind(p)).item() == math.inf
    assert d.kl_divergence(d.Bernoulli(0.5), d.Bernoulli(0.0)).item() == math.inf
    assert d.kl_divergence(d.Poisson(1.0), d.Bernoulli(0.5)).item() == math.inf
    assert d.kl_divergence(d.Binomial(5, 0.5), d.Binomial(3, 0.5)).item() == math.inf
    with pytest.raises(NotImplementedError, match="greater total_count"):
        d.kl_divergence(d.Binomial(3, 0.5), d.Binomial(5, 0.5))


def gaussians():
    root = lucid.tensor([[1.0, 0.0], [0.5, 0.8]], dtype=F64)
    return [
        d.MultivariateNormal(t(0.5, -1.0), scale_tril=root),
        d.MultivariateNormal(t(0.1, 0.2), lucid.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=F64)),
        d.LowRankMultivariateNormal(t(0.5, 0.1), t(0.5, 1.0).unsqueeze(-1), t(0.2, 0.4)),
        d.LowRankMultivariateNormal(t(0.0, 0.1), t(0.3, -0.4).unsqueeze(-1), t(0.7, 0.5)),
    ]


@pytest.mark.parametrize(("i", "j"), list(itertools.product(range(4), range(4))))
def test_divergence_of_gaussians(i, j):
    p, q = gaussians()[i], gaussians()[j]
    a, b = p.covariance_matrix.numpy(), np.linalg.inv(q.covariance_matrix.numpy())
    away = (p.loc - q.loc).numpy()
    want = 0.5 * (np.trace(b @ a) + away @ b @ away - 2 - np.linalg.slogdet(b @ a)[1])
    np.testing.assert_allclose(d.kl_divergence(p, q).item(), want, atol=1e-12)
    batch = d.kl_divergence(p.expand((3,)), q)
    np.testing.assert_allclose(batch.numpy(), [want] * 3, atol=1e-12)


def test_divergence_of_dirichlets_by_draws():
    lucid.manual_seed(0)
    p, q = d.Dirichlet(t(1.5, 2.0, 3.0)), d.Dirichlet(t(2.5, 1.0, 2.0))
    x = p.sample((100000,))
    ratios = p.log_prob(x) - q.log_prob(x)
    error = 5 * ratios.std().item() / math.sqrt(100000)
    assert abs(d.kl_divergence(p, q).item() - ratios.mean().item()) < error


def test_divergence_of_wisharts():
    lucid.manual_seed(0)
    a, b = lucid.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=F64), lucid.tensor([[1.0, -0.2], [-0.2, 0.8]], dtype=F64)
    p, q = d.Wishart(number(3.5), a), d.Wishart(number(2.7), precision_matrix=b)
    x = p.sample((100000,))
    ratios = p.log_prob(x) - q.log_prob(x)
    error = 5 * ratios.std().item() / math.sqrt(100000)
    assert abs(d.kl_divergence(p, q).item() - ratios.mean().item()) < error
    np.testing.assert_allclose(d.kl_divergence(p, p).item(), 0, atol=1e-12)
    assert d.kl_divergence(p.expand((3,)), q).shape == (3,)

    def divergence(df, root, other_df):
        return d.kl_divergence(d.Wishart(df, root @ root.T + lucid.eye(2, dtype=F64)), d.Wishart(other_df, b))

    assert lucid.autograd.gradcheck(divergence, [x.clone().requires_grad_() for x in (number(3.5), a, number(2.7))])
    with pytest.raises(ValueError, match="matrices of 2 and of 3 rows"):
        d.kl_divergence(p, d.Wishart(number(4.0), lucid.eye(3, dtype=F64)))


def test_divergence_of_what_is_made_of_others():
    a, b = d.Normal(t(0.0, 1.0), 1.0), d.Normal(t(1.0, 1.0), 2.0)
    one = d.kl_divergence(a, b)
    np.testing.assert_allclose(d.kl_divergence(d.Independent(a, 1), d.Independent(b, 1)).item(), one.sum().item())
    np.testing.assert_allclose(
        d.kl_divergence(d.LogNormal(a.loc, a.scale), d.LogNormal(b.loc, b.scale)).numpy(), one.numpy()
    )
    with pytest.raises(NotImplementedError, match="different transforms"):
        d.kl_divergence(
            d.TransformedDistribution(a, d.ExpTransform()), d.TransformedDistribution(b, d.SigmoidTransform())
        )
    np.testing.assert_allclose(d.kl_divergence(d.Chi2(3.0), d.Gamma(1.5, 0.5)).item(), 0, atol=1e-6)


class Waiting(d.ExponentialFamily):
    """The exponential distribution by its natural parameter."""

    def __init__(self, rate):
        self.rate = rate
        super().__init__(rate.shape)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, eta):
        return -(-eta).log()


def test_exponential_families():
    rates = t(0.5, 2.0).requires_grad_()
    other = t(1.0, 1.5)
    np.testing.assert_allclose(
        Waiting(rates).entropy().detach().numpy(), d.Exponential(rates).entropy().detach().numpy()
    )
    want = d.kl_divergence(d.Exponential(rates), d.Exponential(other))
    got = d.kl_divergence(Waiting(rates), Waiting(other))
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy())
    for x, y in ((got, want), (Waiting(rates).entropy(), d.Exponential(rates).entropy())):
        np.testing.assert_allclose(
            lucid.autograd.grad(x.sum(), rates).numpy(), lucid.autograd.grad(y.sum(), rates).numpy()
        )


def test_rules_of_nearest_classes(monkeypatch):
    monkeypatch.setattr(module, "_RULES", dict(module._RULES))
    monkeypatch.setattr(module, "_FOUND", {})

    class Mine(d.Normal):
        pass

    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(1.0, 1.0)).item() == 0.5
    d.register_kl(Mine, d.Normal)(lambda p, q: lucid.tensor(1.0))
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(1.0, 1.0)).item() == 1
    d.register_kl(d.Normal, Mine)(lambda p, q: lucid.tensor(2.0))
    with pytest.warns(RuntimeWarning, match="ambiguous"):
        d.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    with pytest.raises(NotImplementedError, match="none is known of Normal from Poisson"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    with pytest.raises(TypeError, match="classes of distributions"):
        d.register_kl(int, d.Normal)


# --- constraints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        (c.real, 1.0, math.nan),
        (c.positive, 0.1, 0.0),
        (c.nonnegative, 0.0, -0.1),
        (c.greater_than(2), 2.1, 2.0),
        (c.greater_than_eq(2), 2.0, 1.9),
        (c.less_than(2), 1.9, 2.0),
        (c.interval(1, 2), 2.0, 2.1),
        (c.half_open_interval(1, 2), 1.0, 2.0),
        (c.unit_interval, 1.0, 1.1),
        (c.boolean, 1.0, 0.5),
        (c.nonnegative_integer, 0.0, 0.5),
        (c.positive_integer, 1.0, 0.0),
        (c.integer_interval(1, 3), 3.0, 4.0),
        (c.simplex, [0.5, 0.5], [0.5, 0.6]),
        (c.one_hot, [0.0, 1.0], [1.0, 1.0]),
        (c.multinomial(3), [1.0, 2.0], [2.0, 2.0]),
        (c.real_vector, [0.0, 1.0], [0.0, math.nan]),
        (c.lower_triangular, [[1.0, 0.0], [1.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]),
        (c.lower_cholesky, [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, -1.0]]),
        (c.corr_cholesky, [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]),
        (c.square, [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0]]),
        (c.symmetric, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]),
        (c.positive_semidefinite, [[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
        (c.positive_definite, [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]),
        (c.positive_definite, [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0]]),
        (c.cat([c.positive, c.real], lengths=[1, 1]), [1.0, -1.0], [-1.0, -1.0]),
        (c.stack([c.positive, c.real]), [1.0, -1.0], [-1.0, -1.0]),
    ],
    ids=lambda x: repr(x) if isinstance(x, c.Constraint) else "",
)
def test_constraints(constraint, inside, outside):
    for value, holds in ((inside, True), (outside, False)):
        x = lucid.tensor(value, dtype=F64)
        found = constraint.check(x)
        assert bool(found.all()) is holds
        if not isinstance(constraint, c.cat | c.stack):
            assert found.shape == x.shape[: x.ndim - constraint.event_dim]
            many = constraint.check(x.expand(2, 3, *x.shape))
            assert many.shape == (2, 3, *found.shape) and bool((many == found).all())


# --- transforms --------------------------------------------------------------------------------------

TRANSFORMS = {
    "exp": (d.ExpTransform(), ()),
    "sigmoid": (d.SigmoidTransform(), ()),
    "softplus": (d.SoftplusTransform(), ()),
    "tanh": (d.TanhTransform(), ()),
    "affine": (d.AffineTransform(t(1.0, 2.0, 3.0), t(0.5, -2.0, 3.0)), ()),
    "affine vectors": (d.AffineTransform(1.0, t(0.5, -2.0, 3.0), event_dim=1), (3,)),
    "power": (d.ComposeTransform([d.ExpTransform(), d.PowerTransform(t(2.0, -0.5, 3.0))]), ()),
    "cdf": (d.CumulativeDistributionTransform(d.Normal(t(0.0, 1.0, 2.0), 1.5)), ()),
    "inverse": (d.ComposeTransform([d.ExpTransform(), d.SoftplusTransform().inv]), ()),
    "independent": (d.IndependentTransform(d.ExpTransform(), 1), (3,)),
    "reshape": (d.ReshapeTransform((3,), (3, 1)), (3,)),
    "stick": (d.StickBreakingTransform(), (3,)),
    "correlations": (d.CorrCholeskyTransform(), (3,)),
    "cat": (d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=-1, lengths=[1, 2]), ()),
    "stack": (d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.identity_transform], dim=-1), ()),
}
POINT = t(0.3, -0.7, 1.1)


def independent_elements(name, y):
    """As many elements of the image as there are of the operand, that determine the rest."""
    if name == "stick":
        return y[:-1]
    if name == "correlations":
        return y.flatten()[lucid.tensor([3, 6, 7])]
    return y.flatten()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    transform, event = TRANSFORMS[name]
    y = transform(POINT)
    assert y.shape == transform.forward_shape(POINT.shape) and transform.inverse_shape(y.shape) == POINT.shape
    assert bool(transform.codomain.check(y).all()) and transform.bijective
    np.testing.assert_allclose(transform.inv(y).numpy(), POINT.numpy(), rtol=1e-9)
    assert transform.inv.inv is transform
    jacobian = lucid.func.jacrev(lambda x: independent_elements(name, transform(x)))(POINT)
    logs = transform.log_abs_det_jacobian(POINT, y)
    want = np.linalg.slogdet(jacobian.numpy())[1]
    np.testing.assert_allclose(logs.sum().item(), want, rtol=1e-8, atol=1e-10)
    assert logs.shape == (() if event else (3,))
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, POINT).numpy(), -logs.numpy())
    many = lucid.stack([POINT, POINT + 0.1])
    if name not in ("cat", "stack"):
        np.testing.assert_allclose(transform(many)[0].numpy(), y.numpy(), rtol=1e-12)
        np.testing.assert_allclose(
            transform.log_abs_det_jacobian(many, transform(many))[0].numpy(), logs.numpy(), rtol=1e-9
        )
    x = POINT.clone().requires_grad_()
    assert lucid.autograd.gradcheck(transform, x)
    assert lucid.autograd.gradcheck(lambda x: transform.log_abs_det_jacobian(x, transform(x)), x)


@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n not in ("cdf",)])
def test_equal_transforms_and_caches(name):
    transform, _ = TRANSFORMS[name]
    kept = transform.with_cache(1)
    assert kept == transform and transform != d.AbsTransform() and transform.inv != transform
    y = kept(POINT)
    if not isinstance(kept, d.ComposeTransform) or kept.parts:
        assert kept.inv(y) is POINT and kept(POINT) is y
    assert kept.with_cache(0) == transform
    assert d.ExpTransform() == d.ExpTransform() and d.AffineTransform(1.0, 2.0) != d.AffineTransform(1.0, 3.0)
    with pytest.raises(ValueError, match="cache_size"):
        d.ExpTransform(cache_size=2)


def test_transforms_of_matrices():
    x = lucid.tensor([[0.1, 5.0], [0.7, -0.3]], dtype=F64)
    lower = d.LowerCholeskyTransform()
    assert bool(c.lower_cholesky.check(lower(x)))
    np.testing.assert_allclose(lower.inv(lower(x)).numpy(), x.tril().numpy(), atol=1e-12)
    whole = d.PositiveDefiniteTransform()
    assert bool(c.positive_definite.check(whole(x)))
    np.testing.assert_allclose(whole.inv(whole(x)).numpy(), x.tril().numpy(), atol=1e-12)
    assert bool(c.simplex.check(d.SoftmaxTransform()(x)).all())
    assert d.AbsTransform().inv(t(2.0)).item() == 2


def test_stick_breaking_far_from_zero():
    x = t(-40.0, 30.0, -30.0)
    transform = d.StickBreakingTransform()
    np.testing.assert_allclose(transform.inv(transform(x)).numpy(), x.numpy(), rtol=1e-9)


REGIONS = [
    c.real, c.positive, c.nonnegative, c.greater_than(2.0), c.greater_than_eq(t(1.0, 2.0, 3.0)), c.less_than(-1.0),
    c.unit_interval, c.interval(1.0, 3.0), c.half_open_interval(-1.0, 1.0), c.simplex, c.corr_cholesky, c.real_vector,
    c.independent(c.positive, 1), c.cat([c.positive, c.unit_interval], -1, [1, 2]),
    c.stack([c.positive, c.real, c.less_than(0.0)], -1),
]  # fmt: skip


@pytest.mark.parametrize("region", REGIONS, ids=repr)
@pytest.mark.parametrize("registry", [d.biject_to, d.transform_to], ids=["biject_to", "transform_to"])
def test_registries(registry, region):
    transform = registry(region)
    y = transform(POINT)
    assert bool(region.check(y).all())
    assert transform.bijective or registry is d.transform_to
    np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-9)


def test_registries_of_matrices_and_unknown_regions():
    x = lucid.tensor([[0.1, 5.0], [0.7, -0.3]], dtype=F64)
    for region in (c.lower_cholesky, c.positive_definite, c.positive_semidefinite):
        assert bool(region.check(d.transform_to(region)(x)))
    with pytest.raises(NotImplementedError, match="no transform is registered"):
        d.biject_to(c.boolean)
    with pytest.raises(TypeError, match="expected a constraint"):
        d.biject_to.register(int, lambda x: x)


def test_transformed_distributions():
    normal = d.Normal(t(0.1, 0.2), 0.5)
    log_normal = d.TransformedDistribution(normal, [d.AffineTransform(1.0, -2.0), d.ExpTransform()])
    same = d.LogNormal(1 - 2 * normal.loc, 2 * normal.scale)
    x = t(0.4, 3.0)
    np.testing.assert_allclose(log_normal.log_prob(x).numpy(), same.log_prob(x).numpy())
    np.testing.assert_allclose(log_normal.cdf(x).numpy(), same.cdf(x).numpy())
    np.testing.assert_allclose(log_normal.icdf(t(0.3, 0.6)).numpy(), same.icdf(t(0.3, 0.6)).numpy())
    assert log_normal.expand((3, 2)).rsample((4,)).shape == (4, 3, 2)
    flow = d.TransformedDistribution(d.Normal(lucid.zeros(5, 3, dtype=F64), 1.0), d.StickBreakingTransform())
    assert (flow.batch_shape, flow.event_shape) == ((5,), (4,))
    drawn = flow.rsample((2,))
    assert drawn.shape == (2, 5, 4) and flow.log_prob(drawn).shape == (2, 5)
    copula = d.TransformedDistribution(
        d.MultivariateNormal(t(0.0, 0.0), scale_tril=d.LKJCholesky(2, number(1.0)).sample()),
        d.CumulativeDistributionTransform(d.Normal(number(0.0), 1.0)),
    )
    drawn = copula.sample((7,))
    assert bool(((drawn > 0) & (drawn < 1)).all()) and copula.log_prob(drawn).shape == (7,)
    with pytest.raises(ValueError, match="tensors of 1 dimensions"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform())


def test_relaxed_choices():
    """The densities integrate to 1, and low temperatures give choices."""
    bernoulli = d.RelaxedBernoulli(number(0.7), probs=number(0.3))
    x = lucid.linspace(1e-6, 1 - 1e-6, 200001, dtype=F64)
    assert abs(lucid.trapezoid(bernoulli.log_prob(x).exp(), x).item() - 1) < 1e-2
    probs = t(0.2, 0.3, 0.5)
    lucid.manual_seed(2)
    cold = d.RelaxedOneHotCategorical(number(0.05), probs=probs).sample((4000,))
    assert bool(((cold.argmax(-1).unsqueeze(-1) == lucid.arange(3)).double().mean(0) - probs).abs().max() < 0.03)
    two = d.RelaxedOneHotCategorical(number(0.7), probs=t(0.7, 0.3))
    pairs = lucid.stack([1 - x, x], -1)
    inner = x[1:-1]
    np.testing.assert_allclose(
        two.log_prob(pairs)[1:-1].numpy(), bernoulli.log_prob(inner).numpy(), rtol=1e-6, atol=1e-6
    )
