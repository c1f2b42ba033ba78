"""Initial values: distributions, formulas, bad input."""

import math

import numpy as np
import pytest
from scipy import stats

import lucid
from lucid.nn import init
from lucid.nn.parameter import Parameter

SIGNIFICANT = 1e-3


def generator(seed=0):
    return lucid.Generator().manual_seed(seed)


def flat(tensor):
    return tensor.detach().numpy().astype(np.float64).reshape(-1)


def looks_like(sample, distribution):
    """Kolmogorov and Smirnov's test, with a fixed seed: it fails for a wrong distribution, and never by chance."""
    return stats.kstest(sample, distribution.cdf).pvalue > SIGNIFICANT


def uniform(bound):
    return stats.uniform(-bound, 2 * bound)


FILLS = {
    "uniform_": (lambda t, **k: init.uniform_(t, -3.0, 5.0, **k), lambda: stats.uniform(-3, 8)),
    "normal_": (lambda t, **k: init.normal_(t, 2.0, 3.0, **k), lambda: stats.norm(2, 3)),
    "trunc_normal_": (
        lambda t, **k: init.trunc_normal_(t, 1.0, 2.0, -1.0, 4.0, **k),
        lambda: stats.truncnorm(-1, 1.5, 1, 2),
    ),
    "xavier_uniform_": (lambda t, **k: init.xavier_uniform_(t, 2.0, **k), lambda: uniform(2 * math.sqrt(6 / 150))),
    "xavier_normal_": (lambda t, **k: init.xavier_normal_(t, 2.0, **k), lambda: stats.norm(0, 2 * math.sqrt(2 / 150))),
    "kaiming_uniform_": (init.kaiming_uniform_, lambda: uniform(math.sqrt(2) * math.sqrt(3 / 100))),
    "kaiming_uniform_ out": (
        lambda t, **k: init.kaiming_uniform_(t, a=math.sqrt(5), mode="fan_out", **k),
        lambda: uniform(math.sqrt(2 / 6) * math.sqrt(3 / 50)),
    ),
    "kaiming_normal_": (
        lambda t, **k: init.kaiming_normal_(t, nonlinearity="tanh", **k),
        lambda: stats.norm(0, 5 / 3 / math.sqrt(100)),
    ),
}


@pytest.mark.parametrize("name", FILLS)
def test_distribution(name):
    fill, distribution = FILLS[name]
    w = lucid.empty(50, 100)
    assert fill(w, generator=generator()) is w
    assert looks_like(flat(w), distribution())
    assert not looks_like(flat(w) * 1.1, distribution()), "the test would not notice a wrong scale"


@pytest.mark.parametrize("name", FILLS)
def test_seeds_decide(name):
    fill, _ = FILLS[name]
    first = fill(lucid.empty(5, 10), generator=generator(1))
    assert lucid.equal(first, fill(lucid.empty(5, 10), generator=generator(1)))
    assert not lucid.equal(first, fill(lucid.empty(5, 10), generator=generator(2)))
    lucid.manual_seed(3)
    again = fill(lucid.empty(5, 10))
    lucid.manual_seed(3)
    assert lucid.equal(again, fill(lucid.empty(5, 10)))


@pytest.mark.parametrize("dtype", [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64])
@pytest.mark.parametrize("fill", [*FILLS, "orthogonal_"])
def test_types_and_parameters(fill, dtype):
    call = init.orthogonal_ if fill == "orthogonal_" else FILLS[fill][0]
    w = Parameter(lucid.zeros(6, 4, dtype=dtype))
    out = call(w)
    assert out is w and w.requires_grad and w.is_leaf and w.dtype is dtype
    assert np.abs(flat(w)).sum() > 0


def test_convolutions_count_their_windows():
    w = init.kaiming_uniform_(lucid.empty(200, 10, 3, 5), generator=generator())
    assert looks_like(flat(w), uniform(math.sqrt(2) * math.sqrt(3 / 150)))
    assert init._calculate_fan_in_and_fan_out(w) == (150, 3000)


def test_truncation_far_from_the_mean():
    w = init.trunc_normal_(lucid.empty(2000), 0.0, 1.0, 4.0, 5.0, generator=generator())
    assert (flat(w) >= 4).all() and (flat(w) <= 5).all()
    assert looks_like(flat(w), stats.truncnorm(4, 5))


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3), (1, 1), (2, 0)])
def test_orthogonal(shape):
    w = init.orthogonal_(lucid.empty(shape, dtype=lucid.float64), gain=2.0, generator=generator()).numpy()
    if not w.size:
        return
    m = w.reshape(shape[0], -1)
    gram = m @ m.T if m.shape[0] <= m.shape[1] else m.T @ m
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


def test_orthogonal_is_drawn_evenly():
    """The first entry of a random rotation of the plane is the cosine of an even angle."""
    g = generator()
    first = [init.orthogonal_(lucid.empty(2, 2), generator=g)[0, 0].item() for _ in range(2000)]
    assert looks_like(np.arccos(np.clip(first, -1, 1)), stats.uniform(0, np.pi))


def test_sparse():
    w = init.sparse_(lucid.empty(200, 50), 0.3, std=2.0, generator=generator())
    assert ((w == 0).sum(0) == 60).all()
    kept = flat(w)[flat(w) != 0]
    assert looks_like(kept, stats.norm(0, 2))
    assert len({tuple(column) for column in (w == 0).numpy().T.tolist()}) == 50


def test_constants_and_identities():
    assert init.constant_(lucid.empty(2), 3.0).tolist() == [3, 3]
    assert init.ones_(lucid.empty(2)).tolist() == [1, 1]
    assert init.zeros_(lucid.ones(2)).tolist() == [0, 0]
    assert np.array_equal(init.eye_(lucid.empty(3, 2)).numpy(), np.eye(3, 2))


@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 2, 3, 3), (4, 4, 3, 2, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_dirac_keeps_channels(shape, groups):
    w = init.dirac_(lucid.empty(shape), groups).numpy()
    reference = np.zeros(shape)
    per_group = shape[0] // groups
    for out in range(shape[0]):
        inside = out % per_group
        if inside < shape[1]:
            reference[(out, inside, *(n // 2 for n in shape[2:]))] = 1
    assert np.array_equal(w, reference)


def test_gains():
    known = {"linear": 1, "conv2d": 1, "conv_transpose3d": 1, "sigmoid": 1, "tanh": 5 / 3, "relu": 2**0.5, "selu": 0.75}
    for name, gain in known.items():
        assert init.calculate_gain(name) == pytest.approx(gain)
    assert init.calculate_gain("leaky_relu") == pytest.approx(math.sqrt(2 / (1 + 1e-4)))
    assert init.calculate_gain("leaky_relu", 2) == pytest.approx(math.sqrt(2 / 5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.calculate_gain("swish"), "unknown nonlinearity 'swish'"),
        (lambda: init.calculate_gain("leaky_relu", True), "slope"),
        (lambda: init.eye_(lucid.ones(2)), "2 dimensions"),
        (lambda: init.dirac_(lucid.ones(2, 2)), "3 or 4 or 5"),
        (lambda: init.dirac_(lucid.ones(4, 2, 3), groups=3), "3 groups"),
        (lambda: init.sparse_(lucid.ones(2), 0.1), "2 dimensions"),
        (lambda: init.sparse_(lucid.ones(2, 2), 1.5), "0 to 1"),
        (lambda: init.xavier_uniform_(lucid.ones(2)), "at least 2"),
        (lambda: init.kaiming_normal_(lucid.ones(2)), "at least 2"),
        (lambda: init.kaiming_normal_(lucid.ones(2, 2), mode="fan"), "fan_in"),
        (lambda: init.orthogonal_(lucid.ones(2)), "at least 2"),
        (lambda: init.trunc_normal_(lucid.ones(2), std=0.0), "positive"),
        (lambda: init.trunc_normal_(lucid.ones(2), a=1.0, b=-1.0), "in order"),
        (lambda: init.trunc_normal_(lucid.ones(2), mean=100.0), "too far"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_to_fill():
    for fill in (init.xavier_uniform_, init.kaiming_normal_, init.orthogonal_):
        assert fill(lucid.empty(0, 0)).shape == (0, 0)
