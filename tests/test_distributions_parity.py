"""Distributions beside PyTorch's: values, gradients, divergences, supports, shapes and errors."""

import inspect

import numpy as np
import pytest

import lucid
from lucid import distributions as ours

torch = pytest.importorskip("torch")
theirs = torch.distributions

A, B = [0.7, 2.5, 9.0], [1.3, 0.6, 4.0]
REAL, POSITIVE, UNIT, P = [-1.1, 0.3, 2.2], [0.4, 1.7, 3.1], [0.15, 0.5, 0.8], [0.2, 0.55, 0.9]
SIMPLEX = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]
TRIL = [[1.0, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.4, 0.5, 1.2]]
COVARIANCE = (np.array(TRIL) @ np.array(TRIL).T).tolist()
COUNTS = [0.0, 2.0, 3.0]
CORRELATION = [[1.0, 0.0], [0.6, 0.8]]

# name -> arguments, a value
CASES = [
    ("Bernoulli", {"probs": P}, [0.0, 1.0, 1.0]),
    ("Bernoulli", {"logits": REAL}, [0.0, 1.0, 1.0]),
    ("Beta", {"concentration1": A, "concentration0": B}, UNIT),
    ("Binomial", {"total_count": 5, "probs": P}, COUNTS),
    ("Binomial", {"total_count": 5, "logits": REAL}, COUNTS),
    ("Categorical", {"probs": SIMPLEX}, [0, 2]),
    ("Categorical", {"logits": [REAL, A]}, [0, 2]),
    ("Cauchy", {"loc": REAL, "scale": B}, [0.4, 0.3, 5.0]),
    ("Chi2", {"df": A}, POSITIVE),
    ("ContinuousBernoulli", {"probs": P}, UNIT),
    ("ContinuousBernoulli", {"logits": REAL}, UNIT),
    ("Dirichlet", {"concentration": A}, SIMPLEX),
    ("Exponential", {"rate": B}, POSITIVE),
    ("FisherSnedecor", {"df1": A, "df2": [5.0, 6.0, 7.0]}, POSITIVE),
    ("Gamma", {"concentration": A, "rate": B}, POSITIVE),
    ("GeneralizedPareto", {"loc": REAL, "scale": B, "concentration": [-0.3, 0.2, 0.4]}, [-1.0, 0.5, 3.0]),
    ("Geometric", {"probs": P}, COUNTS),
    ("Geometric", {"logits": REAL}, COUNTS),
    ("Gumbel", {"loc": REAL, "scale": B}, [0.4, 0.3, 5.0]),
    ("HalfCauchy", {"scale": B}, POSITIVE),
    ("HalfNormal", {"scale": B}, POSITIVE),
    ("InverseGamma", {"concentration": [2.5, 3.0, 5.0], "rate": B}, POSITIVE),
    ("Kumaraswamy", {"concentration1": A, "concentration0": B}, UNIT),
    ("LKJCholesky", {"dim": 2, "concentration": [0.5, 1.0, 3.0]}, CORRELATION),
    ("Laplace", {"loc": REAL, "scale": B}, [0.4, 0.4, 5.0]),
    ("LogNormal", {"loc": REAL, "scale": B}, POSITIVE),
    ("LogisticNormal", {"loc": [0.1, -0.4], "scale": [0.5, 1.2]}, SIMPLEX),
    ("LowRankMultivariateNormal", {"loc": REAL, "cov_factor": [[0.5], [0.2], [1.0]], "cov_diag": B}, [A, B]),
    ("Multinomial", {"total_count": 5, "probs": SIMPLEX}, [2.0, 1.0, 2.0]),
    ("MultivariateNormal", {"loc": REAL, "covariance_matrix": COVARIANCE}, [A, B]),
    ("MultivariateNormal", {"loc": REAL, "precision_matrix": COVARIANCE}, [A, B]),
    ("MultivariateNormal", {"loc": REAL, "scale_tril": TRIL}, [A, B]),
    ("NegativeBinomial", {"total_count": A, "probs": P}, COUNTS),
    ("NegativeBinomial", {"total_count": A, "logits": REAL}, COUNTS),
    ("Normal", {"loc": REAL, "scale": B}, [0.4, 0.3, 5.0]),
    ("OneHotCategorical", {"probs": SIMPLEX}, [0.0, 1.0, 0.0]),
    ("OneHotCategoricalStraightThrough", {"logits": SIMPLEX}, [0.0, 1.0, 0.0]),
    ("Pareto", {"scale": B, "alpha": [2.5, 3.0, 5.0]}, [2.0, 1.0, 8.0]),
    ("Poisson", {"rate": B}, COUNTS),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": P}, UNIT),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "logits": SIMPLEX}, SIMPLEX),
    ("StudentT", {"df": [2.5, 3.0, 9.0], "loc": REAL, "scale": B}, [0.4, 0.3, 5.0]),
    ("Uniform", {"low": REAL, "high": [0.0, 1.0, 9.0]}, [-0.5, 0.4, 5.0]),
    ("VonMises", {"loc": REAL, "concentration": A}, [0.4, 0.3, 2.0]),
    ("Weibull", {"scale": B, "concentration": A}, POSITIVE),
    ("Wishart", {"df": 4.5, "covariance_matrix": COVARIANCE}, COVARIANCE),
]
IDS = [f"{name}-{'-'.join(k for k in arguments if k in ('logits', 'scale_tril', 'precision_matrix'))}" for name, arguments, _ in CASES]  # fmt: skip


# PyTorch computes these by polynomials and Taylor series of few terms.
LOOSE = {"ContinuousBernoulli": 1e-5, "VonMises": 1e-5}


@pytest.fixture(autouse=True)
def in_double():
    """PyTorch's GeneralizedPareto takes no other type than the default one."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def of_torch(x):
    return torch.tensor(x, dtype=torch.int64 if np.asarray(x).dtype.kind == "i" else torch.float64)


def of_lucid(x):
    return lucid.tensor(x, dtype=lucid.int64 if np.asarray(x).dtype.kind == "i" else lucid.float64)


def arguments_of(given, convert, **grad):
    return {
        k: x if isinstance(x, int) else convert(x).requires_grad_() if grad else convert(x) for k, x in given.items()
    }


def pair(name, given, **grad):
    return (
        getattr(ours, name)(**arguments_of(given, of_lucid, **grad)),
        getattr(theirs, name)(**arguments_of(given, of_torch, **grad)),
    )


def close(mine, other, **tolerance):
    np.testing.assert_allclose(
        mine.detach().numpy(), other.detach().numpy(), **{"rtol": 1e-8, "atol": 1e-10, **tolerance}
    )


def test_the_same_names():
    assert set(theirs.__all__) <= set(ours.__all__)
    assert set(theirs.constraints.__all__) <= set(ours.constraints.__all__)
    assert set(theirs.transforms.__all__) <= set(ours.transforms.__all__)
    assert {name for name, _, _ in CASES} >= {
        n for n in theirs.__all__ if inspect.isclass(getattr(theirs, n)) and issubclass(getattr(theirs, n), theirs.Distribution)
    } - {"Distribution", "ExponentialFamily", "Independent", "MixtureSameFamily", "TransformedDistribution"}  # fmt: skip


@pytest.mark.parametrize(("name", "given", "value"), CASES, ids=IDS)
def test_values(name, given, value):
    mine, other = pair(name, given)
    assert (mine.batch_shape, mine.event_shape) == (tuple(other.batch_shape), tuple(other.event_shape))
    assert mine.has_rsample >= other.has_rsample and mine.has_enumerate_support == other.has_enumerate_support
    close(mine.log_prob(of_lucid(value)), other.log_prob(of_torch(value)), rtol=LOOSE.get(name, 1e-8))
    for fact in ("mean", "variance", "stddev", "mode"):
        try:
            want = getattr(other, fact)
        except NotImplementedError:
            continue
        got = getattr(mine, fact)
        if fact == "mode":  # PyTorch gives nan for some that exist
            got, want = got[~want.isnan().numpy()], want[~want.isnan()]
        close(got, want, rtol=LOOSE.get(name, 1e-8))
    for function in ("cdf", "icdf"):
        at = value if function == "cdf" else 0.3
        try:
            want = getattr(other, function)(of_torch(at))
        except NotImplementedError:
            continue
        close(getattr(mine, function)(of_lucid(at)), want, rtol=1e-7)
    try:
        want = other.entropy()
    except NotImplementedError:
        return
    close(mine.entropy(), want, rtol=LOOSE.get(name, 1e-8))


@pytest.mark.parametrize(("name", "given", "value"), CASES, ids=IDS)
def test_gradients(name, given, value):
    mine, other = arguments_of(given, of_lucid, grad=True), arguments_of(given, of_torch, grad=True)
    getattr(ours, name)(**mine).log_prob(of_lucid(value)).sum().backward()
    getattr(theirs, name)(**other).log_prob(of_torch(value)).sum().backward()
    for k, x in mine.items():
        if not isinstance(x, int):
            got, want = x.grad.numpy(), other[k].grad.numpy()
            if k in ("covariance_matrix", "precision_matrix"):  # of which both triangles may share the gradient
                got, want = got + got.T, want + want.T
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8, err_msg=k)


@pytest.mark.parametrize(("name", "given", "value"), CASES, ids=IDS)
def test_supports(name, given, value):
    mine, other = pair(name, given)
    for shift in (0.0, -3.0, 0.3, 40.0):
        moved = np.asarray(value) + (int(shift) if np.asarray(value).dtype.kind == "i" else shift)
        close(mine.support.check(of_lucid(moved.tolist())), other.support.check(of_torch(moved.tolist())))
    assert mine.support.event_dim == other.support.event_dim
    assert mine.support.is_discrete == other.support.is_discrete


# Where PyTorch's own formula is another: it takes the support of a uniform distribution the wrong way round.
OTHERWISE = {("ContinuousBernoulli", "Uniform"), ("Uniform", "ContinuousBernoulli")}
KL = sorted({(p.__name__, q.__name__) for p, q in theirs.kl._KL_REGISTRY} - OTHERWISE)
BY_NAME = {name: given for name, given, _ in reversed(CASES)}


@pytest.mark.parametrize(("p", "q"), [k for k in KL if k[0] in BY_NAME and k[1] in BY_NAME], ids="-".join)
def test_divergences(p, q):
    wider = {"Uniform": {"low": [-2.0] * 3, "high": [12.0] * 3}, "Pareto": {"scale": [0.5] * 3, "alpha": A}}
    first, second = pair(p, BY_NAME[p]), pair(q, wider.get(q, BY_NAME[q]))
    for i in (0, 1):
        at = [first[i], second[i]]
        if p == q:  # of different parameters
            shifted = {k: x if isinstance(x, int) or "cov" in k or "tril" in k else (np.asarray(x) * 0.9).tolist() for k, x in BY_NAME[q].items()}  # fmt: skip
            at[1] = pair(q, {**shifted, **wider.get(q, {})})[i]
        if i == 0:
            got = ours.kl_divergence(*at)
        else:
            close(got, theirs.kl_divergence(*at), rtol=1e-6)


TRANSFORMS = {
    "AbsTransform": (), "AffineTransform": (1.0, 2.0), "CorrCholeskyTransform": (), "ExpTransform": (),
    "PowerTransform": (2.0,), "ReshapeTransform": ((3,), (3, 1)), "SigmoidTransform": (), "SoftmaxTransform": (),
    "SoftplusTransform": (), "StickBreakingTransform": (), "TanhTransform": (),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    convert = (lambda x, f: f(x) if isinstance(x, float) and name == "PowerTransform" else x)  # fmt: skip
    mine = getattr(ours, name)(*[convert(x, of_lucid) for x in TRANSFORMS[name]])
    other = getattr(theirs, name)(*[convert(x, of_torch) for x in TRANSFORMS[name]])
    x = POSITIVE if name == "PowerTransform" else [0.3, -0.7, 1.1]
    y, want = mine(of_lucid(x)), other(of_torch(x))
    close(y, want)
    close(mine.inv(y), other.inv(want))
    assert mine.bijective == other.bijective and mine.codomain.event_dim == other.codomain.event_dim
    if mine.bijective:
        close(mine.log_abs_det_jacobian(of_lucid(x), y), other.log_abs_det_jacobian(of_torch(x), want))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Normal", (0.0, -1.0)),
        ("Uniform", (1.0, 0.0)),
        ("Bernoulli", (1.5,)),
        ("Bernoulli", ()),
        ("Gamma", (-1.0, 1.0)),
        ("Geometric", (0.0,)),
        ("LKJCholesky", (1,)),
        ("Poisson", (-1.0,)),
        ("StudentT", (-1.0,)),
    ],
)
def test_errors(name, arguments):
    for library in (ours, theirs):
        with pytest.raises(ValueError):
            getattr(library, name)(*arguments)


def test_mixtures_and_independent_ones():
    def mixture(library, convert):
        parts = library.Independent(
            library.Normal(convert([[0.0, 1.0], [2.0, 3.0]]), convert([[1.0, 2.0], [0.5, 1.5]])), 1
        )
        return library.MixtureSameFamily(library.Categorical(convert([0.3, 0.7])), parts)

    mine, other = mixture(ours, of_lucid), mixture(theirs, of_torch)
    close(mine.log_prob(of_lucid([0.5, 1.0])), other.log_prob(of_torch([0.5, 1.0])))
    close(mine.mean, other.mean)
    close(mine.variance, other.variance)
    assert mine.event_shape == tuple(other.event_shape)


def test_registries():
    for name in ("real", "positive", "unit_interval", "simplex", "corr_cholesky", "real_vector"):
        for registry in ("biject_to", "transform_to"):
            mine, other = (getattr(m, registry)(getattr(m.constraints, name)) for m in (ours, theirs))
            close(mine(of_lucid([0.3, -0.7, 1.1])), other(of_torch([0.3, -0.7, 1.1])))
