"""Random numbers: that they are the right ones, that they look random, and that streams behave.

Seeds are fixed, so every statistical test gives the same verdict each time.
"""

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.stats
from numpy.random import Philox

import lucid
from lucid.api import random, random_fills, rng
from lucid.api.random import bernoulli, multinomial, normal, poisson, rand, randint, randn, randperm
from lucid.backends.numpy.random import added_up, picked, poisson_quantile
from lucid.core.primitive import P

N = 20_000
FLOATS = [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64]
ALL_FILLS = ["uniform_", "normal_", "log_normal_", "exponential_", "cauchy_", "bernoulli_", "random_"]


@pytest.fixture(autouse=True)
def fixed_seed():
    with random.fork_rng():
        random.manual_seed(1234)
        yield


def values(tensor):
    return tensor.numpy().astype(np.float64).reshape(-1)


def fits(tensor, cdf, *args):
    """The Kolmogorov-Smirnov test does not refuse the distribution."""
    return scipy.stats.kstest(values(tensor), cdf, args).pvalue > 0.01


def printed(script):
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.strip()


class TestBits:
    """The numbers are a stated function of the seed, the position and the index."""

    def words(self, seed, offset, count):
        return Philox(key=seed, counter=offset).random_raw(count)

    def test_uniform_single(self):
        random.manual_seed(7)
        halves = self.words(7, 0, 8).view(np.uint32)
        np.testing.assert_array_equal(rand(13).numpy(), ((halves >> 8) * 2.0**-24)[:13].astype(np.float32))

    def test_uniform_double(self):
        random.manual_seed(7)
        np.testing.assert_array_equal(rand(5, dtype=lucid.float64).numpy(), (self.words(7, 0, 5) >> 11) * 2.0**-53)

    def test_normal_double(self):
        random.manual_seed(7)
        u = ((self.words(7, 0, 6) >> 11) * 2.0**-53).reshape(3, 2)
        distance, angle = np.sqrt(-2 * np.log(u[:, 0] + 2.0**-54)), 2 * np.pi * u[:, 1]
        expected = np.stack([distance * np.cos(angle), distance * np.sin(angle)], 1).reshape(-1)
        np.testing.assert_allclose(randn(6, dtype=lucid.float64).numpy(), expected, rtol=1e-12)

    def test_integers(self):
        random.manual_seed(7)
        np.testing.assert_array_equal(randint(3, 10, (6,)).numpy(), 3 + (self.words(7, 0, 6) % 7).astype(np.int64))

    def test_wide_integers(self):
        random.manual_seed(7)
        low, high = -(2**62), 2**63 - 1
        pairs = self.words(7, 0, 12).reshape(6, 2)
        expected = [low + (((int(a) << 64) + int(b)) * (high - low) >> 128) for a, b in pairs]
        assert randint(low, high, (6,)).tolist() == expected

    def test_every_draw_starts_at_a_new_block(self):
        random.manual_seed(7)
        rand(1)
        rand(9)
        rand(2, dtype=lucid.float64)
        assert random.get_rng_state() == (7, 1 + 2 + 1)
        np.testing.assert_array_equal(rand(3, dtype=lucid.float64).numpy(), (self.words(7, 4, 3) >> 11) * 2.0**-53)

    def test_an_empty_draw_takes_nothing(self):
        state = random.get_rng_state()
        assert rand(0, 3).shape == (0, 3)
        assert random.get_rng_state() == state

    @pytest.mark.parametrize("size", [rng._CHUNK - 8, rng._CHUNK, 3 * rng._CHUNK + 5])
    @pytest.mark.parametrize("make", [rand, randn])
    def test_large_draws_are_one_stream(self, make, size):
        """Large draws are made in pieces, which must not show."""
        whole = make(size, generator=lucid.Generator().manual_seed(5))
        last = lucid.Generator()
        last.set_state((5, (size - 5) // 8))
        tail = make(8, generator=last).numpy()
        np.testing.assert_array_equal(whole.numpy()[(size - 5) // 8 * 8 :], tail[: size - (size - 5) // 8 * 8])


def _first(count, draw):
    random.manual_seed(99)
    return draw(count).numpy()


@pytest.mark.parametrize(
    "draw",
    [
        rand,
        randn,
        lambda n: rand(n, dtype=lucid.float64),
        lambda n: randn(n, dtype=lucid.float64),
        lambda n: rand(n, dtype=lucid.bfloat16),
        lambda n: randn(n, dtype=lucid.complex64),
        lambda n: randint(0, 1000, (n,)),
        lambda n: randint(-(2**62), 2**62, (n,)),
        lambda n: bernoulli(lucid.full((n,), 0.5)),
        lambda n: poisson(lucid.full((n,), 3.0)),
        lambda n: normal(2.0, 3.0, (n,)),
        *[lambda n, name=name: getattr(random_fills, name)(lucid.zeros(n)) for name in ALL_FILLS],
    ],
)
def test_an_element_does_not_depend_on_the_size_of_the_draw(draw):
    whole = _first(rng._CHUNK + 11, draw)
    for count in (1, 2, 5, 10, 17, 1000):
        np.testing.assert_array_equal(_first(count, draw), whole[:count])


class TestStreams:
    def test_same_seed_same_numbers(self):
        random.manual_seed(3)
        first = [rand(5), randn(5), randint(0, 9, (5,)), randperm(5)]
        random.manual_seed(3)
        assert all(lucid.equal(a, b) for a, b in zip(first, [rand(5), randn(5), randint(0, 9, (5,)), randperm(5)]))

    def test_different_seeds_and_later_draws_differ(self):
        a = rand(5, generator=lucid.Generator().manual_seed(1))
        g = lucid.Generator().manual_seed(2)
        b, c = rand(5, generator=g), rand(5, generator=g)
        assert len({*a.tolist(), *b.tolist(), *c.tolist()}) == 15

    def test_state_is_saved_and_restored(self):
        rand(5)
        state = random.get_rng_state()
        first = [rand(5), randn(3)]
        random.set_rng_state(state)
        assert all(lucid.equal(a, b) for a, b in zip(first, [rand(5), randn(3)]))

    def test_state_may_have_come_through_a_list(self):
        g = lucid.Generator()
        g.set_state([5, 2])
        assert g.get_state() == (5, 2)

    def test_position_may_be_beyond_64_bits(self):
        g = lucid.Generator()
        g.set_state((5, 2**64 + 3))
        rand(4, generator=g)
        assert g.get_state() == (5, 2**64 + 4)

    @pytest.mark.parametrize("bad", [5, (1,), (1, 2, 3), "ab", None])
    def test_bad_states(self, bad):
        with pytest.raises(TypeError, match="state"):
            random.set_rng_state(bad)

    def test_negative_position(self):
        with pytest.raises(ValueError, match="negative"):
            lucid.Generator().set_state((1, -1))

    def test_seeds(self):
        assert random.manual_seed(-1).initial_seed() == 2**64 - 1
        assert random.initial_seed() == 2**64 - 1
        assert random.seed() == random.initial_seed()
        assert random.seed() != random.seed()
        assert isinstance(random.manual_seed(1), lucid.Generator)

    def test_a_generator_has_its_own_stream(self):
        state = random.get_rng_state()
        rand(5, generator=lucid.Generator().manual_seed(1))
        assert random.get_rng_state() == state

    def test_copies_and_pickles_continue_alike(self):
        g = lucid.Generator().manual_seed(8)
        rand(3, generator=g)
        others = [copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
        expected = rand(3, generator=g)
        assert all(lucid.equal(expected, rand(3, generator=o)) for o in others)

    def test_an_interrupted_draw_leaves_the_stream_in_order(self):
        g = lucid.Generator().manual_seed(8)

        def interrupt(words):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            g.draw(5, np.dtype(np.float32), interrupt, 1)
        other = lucid.Generator()
        other.set_state(g.get_state())
        assert lucid.equal(rand(3, generator=g), rand(3, generator=other))

    def test_repr(self):
        assert repr(lucid.Generator().manual_seed(8)) == "Generator(seed=8, offset=0)"

    def test_generators_live_on_the_cpu(self):
        assert lucid.Generator().device == lucid.device("cpu")
        with pytest.raises(ValueError, match="unknown device"):
            lucid.Generator("abacus")

    def test_the_default_is_seeded_by_the_system(self):
        script = "from lucid.api import random; print(random.initial_seed())"
        assert printed(script) != printed(script)

    def test_importing_lucid_does_not_import_numpys_random(self):
        script = "import sys, lucid; print('numpy.random' in sys.modules or 'scipy' in sys.modules)"
        assert printed(script) == "False"


class TestFork:
    def test_restores_the_state(self):
        before = random.get_rng_state()
        with random.fork_rng():
            assert random.get_rng_state() == before
            random.manual_seed(77)
            rand(5)
        assert random.get_rng_state() == before

    def test_restores_after_an_exception(self):
        before = random.get_rng_state()
        with pytest.raises(KeyError), random.fork_rng():
            rand(5)
            raise KeyError
        assert random.get_rng_state() == before

    def test_nests(self):
        with random.fork_rng():
            random.manual_seed(1)
            with random.fork_rng():
                random.manual_seed(2)
            assert random.initial_seed() == 1

    def test_checkpointing_draws_the_same_numbers_again(self):
        x = lucid.ones(1000, requires_grad=True)
        y = lucid.autograd.checkpoint(lambda t: (t * bernoulli(lucid.full((1000,), 0.5))).exp(), x)
        y.sum().backward()
        kept = y.detach() > 1
        np.testing.assert_array_equal((x.grad != 0).numpy(), kept.numpy())


def test_threads_share_a_generator_without_losing_or_repeating_numbers():
    g = lucid.Generator().manual_seed(5)
    found = [[] for _ in range(8)]

    def work(mine):
        for _ in range(200):
            mine.append(rand(4, dtype=lucid.float64, generator=g).numpy())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    drawn = np.sort(np.concatenate([d for mine in found for d in mine]))
    alone = np.sort(values(rand(8 * 200 * 4, dtype=lucid.float64, generator=lucid.Generator().manual_seed(5))))
    np.testing.assert_array_equal(drawn, alone)
    assert g.get_state() == (5, 8 * 200)


class TestUniform:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_range_and_type(self, dtype):
        x = rand(100, N // 100, dtype=dtype)
        assert x.shape == (100, N // 100)
        assert x.dtype is dtype
        assert values(x).min() >= 0
        assert values(x).max() < 1

    @pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
    def test_distribution(self, dtype):
        assert fits(rand(N, dtype=dtype), "uniform")

    def test_complex(self):
        x = rand(N, dtype=lucid.complex64)
        assert fits(x.real, "uniform")
        assert fits(x.imag, "uniform")

    def test_successive_numbers_are_independent(self):
        x = values(rand(N))
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02
        cells = np.histogram2d(x[::2], x[1::2], bins=10)[0]
        assert scipy.stats.chisquare(cells.reshape(-1)).pvalue > 0.01

    def test_streams_of_neighbouring_seeds_are_independent(self):
        a, b = (values(randn(N, generator=lucid.Generator().manual_seed(s))) for s in (10, 11))
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.02

    def test_arguments(self):
        assert rand((2, 3)).shape == (2, 3)
        assert rand().shape == ()
        assert rand(2, device="cpu", requires_grad=True).requires_grad
        with pytest.raises(TypeError, match="floating-point"):
            rand(2, dtype=lucid.int64)
        with pytest.raises(TypeError, match="Generator"):
            rand(2, generator=5)
        with pytest.raises(RuntimeError, match="negative"):
            rand(-1)
        with pytest.raises(ValueError, match="unknown device"):
            rand(2, device="abacus")

    def test_default_type_is_followed(self):
        lucid.set_default_dtype(lucid.float64)
        try:
            assert rand(2).dtype is lucid.float64
        finally:
            lucid.set_default_dtype(lucid.float32)

    def test_results_can_be_written(self):
        rand(3).add_(1.0)

    def test_like(self):
        x = lucid.zeros(2, 3, dtype=lucid.float64)
        assert random.rand_like(x).dtype is lucid.float64
        assert random.rand_like(x).shape == (2, 3)
        assert random.rand_like(lucid.tensor([1, 2]), dtype=lucid.float32).dtype is lucid.float32
        with pytest.raises(TypeError, match="rand_like"):
            random.rand_like(lucid.tensor([1, 2]))


class TestNormal:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_moments(self, dtype):
        x = values(randn(N, dtype=dtype))
        assert abs(x.mean()) < 0.02
        assert abs(x.var() - 1) < 0.03
        assert abs(scipy.stats.skew(x)) < 0.05
        assert abs(scipy.stats.kurtosis(x)) < 0.1

    @pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
    def test_distribution(self, dtype):
        assert fits(randn(N, dtype=dtype), "norm")

    def test_pairs_are_independent(self):
        x = values(randn(N))
        assert abs(np.corrcoef(x[::2], x[1::2])[0, 1]) < 0.03
        assert abs(np.corrcoef(x[::2] ** 2, x[1::2] ** 2)[0, 1]) < 0.03

    def test_tails_are_there(self):
        x = np.abs(values(randn(4_000_000)))
        assert 4.8 < x.max() < 6.8
        assert abs((x > 4).mean() / 6.334e-5 - 1) < 0.2

    def test_complex_variance_is_one_in_all(self):
        x = randn(N, dtype=lucid.complex128)
        assert abs(np.var(x.numpy()) - 1) < 0.03
        assert fits(x.real * 2**0.5, "norm")

    def test_like(self):
        assert random.randn_like(lucid.zeros(2, 3)).shape == (2, 3)

    def test_mean_and_std_as_numbers(self):
        x = normal(3.0, 2.0, (N,), dtype=lucid.float64)
        assert x.dtype is lucid.float64
        assert fits(x, "norm", 3.0, 2.0)
        assert normal(size=(2,), requires_grad=True).requires_grad

    def test_mean_and_std_as_tensors(self):
        mean, std = lucid.tensor([[0.0], [100.0]]), lucid.tensor([1.0, 0.0, 2.0])
        assert normal(mean, std).shape == (2, 3)
        assert normal(mean, std)[:, 1].tolist() == [0.0, 100.0]
        assert normal(mean, 1.0).shape == (2, 1)
        assert normal(0.0, std).shape == (3,)
        assert normal(mean.double(), std).dtype is lucid.float64
        assert normal(np.zeros(2), 1.0).dtype is lucid.float64

    def test_differentiates(self):
        mean = lucid.tensor([1.0, 2.0], requires_grad=True)
        std = lucid.tensor([0.5, 3.0], requires_grad=True)
        x = normal(mean, std)
        x.sum().backward()
        np.testing.assert_array_equal(mean.grad.numpy(), [1, 1])
        np.testing.assert_allclose(std.grad.numpy(), ((x - mean) / std).detach().numpy(), rtol=1e-5)

    def test_bad_arguments(self):
        with pytest.raises(TypeError, match="size"):
            normal(0.0, 1.0)
        with pytest.raises(TypeError, match="size"):
            normal(lucid.zeros(2), 1.0, (2,))
        with pytest.raises(ValueError, match="std"):
            normal(0.0, -1.0, (2,))
        with pytest.raises(ValueError, match="std"):
            normal(0.0, lucid.tensor([1.0, -1.0]))
        with pytest.raises(TypeError, match="floating-point"):
            normal(lucid.tensor([1, 2]), 1.0)


class TestIntegers:
    @pytest.mark.parametrize("span", [2, 3, 7, 1000])
    def test_all_are_equally_likely(self, span):
        x = randint(-1, span - 1, (N,))
        assert x.dtype is lucid.int64
        counts = np.bincount(x.numpy() + 1, minlength=span)
        assert len(counts) == span
        assert scipy.stats.chisquare(counts).pvalue > 0.01

    def test_wide_ranges_have_no_bias(self):
        """A remainder of one 64-bit word would draw the lower third twice as often."""
        x = values(randint(-(2**63), 2**62, (N,)))
        assert fits(lucid.tensor((x + 2.0**63) / (2.0**63 + 2.0**62)), "uniform")

    @pytest.mark.parametrize(
        "call",
        [
            lambda: randint(5, (2, 3)),
            lambda: randint(0, 5, (2, 3)),
            lambda: randint(high=5, size=(2, 3)),
            lambda: randint(5, size=(2, 3)),
            lambda: randint(lucid.tensor(0), lucid.tensor(5), [2, 3]),
            lambda: random.randint_like(lucid.zeros(2, 3, dtype=lucid.int64), 5),
            lambda: random.randint_like(lucid.zeros(2, 3, dtype=lucid.int64), 0, 5),
        ],
    )
    def test_ways_to_call(self, call):
        x = call()
        assert x.shape == (2, 3)
        assert x.dtype is lucid.int64
        assert x.min() >= 0
        assert x.max() < 5

    @pytest.mark.parametrize("dtype", [lucid.uint8, lucid.int8, lucid.int32, lucid.float32, lucid.bool])
    def test_types(self, dtype):
        x = randint(0, 2, (100,), dtype=dtype)
        assert x.dtype is dtype
        assert set(x.tolist()) == {0, 1}

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="empty"):
            randint(5, 5, (2,))
        with pytest.raises(ValueError, match="uint8"):
            randint(0, 300, (2,), dtype=lucid.uint8)
        with pytest.raises(ValueError, match="uint8"):
            randint(-1, 3, (2,), dtype=lucid.uint8)
        with pytest.raises(TypeError, match="size"):
            randint(5)
        with pytest.raises(TypeError, match="whole"):
            randint(0, 2.5, (2,))
        with pytest.raises(TypeError, match="complex"):
            randint(0, 2, (2,), dtype=lucid.complex64)

    @pytest.mark.parametrize("n", [0, 1, 2, 100])
    def test_permutations(self, n):
        assert sorted(randperm(n).tolist()) == list(range(n))

    def test_permutations_are_equally_likely(self):
        counts = {}
        for _ in range(2400):
            order = tuple(randperm(4).tolist())
            counts[order] = counts.get(order, 0) + 1
        assert len(counts) == 24
        assert scipy.stats.chisquare(list(counts.values())).pvalue > 0.01

    def test_permutation_arguments(self):
        assert randperm(5, dtype=lucid.int32).dtype is lucid.int32
        with pytest.raises(ValueError, match="negative"):
            randperm(-1)
        with pytest.raises(ValueError, match="uint8"):
            randperm(300, dtype=lucid.uint8)


class TestBernoulli:
    @pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.999, 1.0])
    def test_share(self, p):
        x = bernoulli(lucid.full((N,), p))
        assert set(x.tolist()) <= {0.0, 1.0}
        assert abs(float(x.mean()) - p) <= 4 * (p * (1 - p) / N) ** 0.5

    def test_p_as_an_argument(self):
        x = bernoulli(lucid.zeros(N, dtype=lucid.int64), 0.25)
        assert x.dtype is lucid.int64
        assert abs(values(x).mean() - 0.25) < 0.02

    def test_type_and_gradient(self):
        p = lucid.full((3,), 0.5, dtype=lucid.float64, requires_grad=True)
        x = bernoulli(p)
        assert x.dtype is lucid.float64
        assert not x.requires_grad

    @pytest.mark.parametrize("p", [[-0.1], [1.1], [float("nan")]])
    def test_bad_probabilities(self, p):
        with pytest.raises(ValueError, match="between 0 and 1"):
            bernoulli(lucid.tensor(p))
        with pytest.raises(ValueError, match="between 0 and 1"):
            bernoulli(lucid.zeros(3), p[0])

    def test_integers_are_no_probabilities(self):
        with pytest.raises(TypeError, match="floating-point"):
            bernoulli(lucid.tensor([0, 1]))


class TestPoisson:
    @pytest.mark.parametrize("rate", [1e-300, 1e-9, 1e-3, 0.1, 1.0, 20.0, 63.9, 64.0, 80.0, 150.0, 3000.0, 1e4, 1e6])
    def test_quantiles(self, rate):
        ends = np.logspace(-12, -3, 200)
        chance = np.concatenate([ends, np.linspace(0.001, 0.999, 4001), 1 - ends])
        found = P.poisson_quantile(lucid.tensor(chance), lucid.tensor(rate, dtype=lucid.float64)).numpy()
        # Rounding of sums may say another count where a chance lies at the edge of one.
        below = [scipy.stats.poisson.cdf(found - more, rate) for more in (1, 0)]
        assert (below[0] < chance * (1 + 1e-9) + 1e-14).all()
        assert (below[1] > chance * (1 - 1e-9) - 1e-14).all()
        assert (found == scipy.stats.poisson.ppf(chance, rate)).mean() > 0.999

    def test_rates_of_all_sizes_at_once(self):
        rates = lucid.tensor(np.logspace(-5, 8, 3000)).reshape(3, 1000)
        chance = lucid.rand(3, 1000, dtype=lucid.float64)
        found = P.poisson_quantile(chance, rates)
        assert lucid.equal(found.T, P.poisson_quantile(chance.T, rates.T))
        assert [found[1, k] for k in (0, 500, 999)] == [
            P.poisson_quantile(chance[1, k], rates[1, k]) for k in (0, 500, 999)
        ]
        assert np.array_equal(found.numpy(), poisson_quantile(chance.numpy(), rates.numpy(), added_up))

    @pytest.mark.parametrize("rate", [0.1, 1.0, 20.0, 70.0, 3000.0])
    def test_distribution(self, rate):
        x = values(poisson(lucid.full((N,), rate, dtype=lucid.float64)))
        edges = scipy.stats.poisson.ppf([0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999], rate)
        edges = np.unique(np.concatenate([[-1], edges, [np.inf]]))
        expected = np.diff(scipy.stats.poisson.cdf(edges, rate)) * N
        counts = np.histogram(x, bins=edges + 0.5)[0]
        assert scipy.stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 0.01

    def test_extremes(self):
        assert poisson(lucid.tensor([0.0, 0.0])).tolist() == [0, 0]
        assert poisson(lucid.zeros(0, 2)).shape == (0, 2)
        assert abs(poisson(lucid.tensor([1e12], dtype=lucid.float64)).item() / 1e12 - 1) < 1e-4

    @pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
    def test_bad_rates(self, rate):
        with pytest.raises(ValueError, match="rates"):
            poisson(lucid.tensor([rate]))


class TestMultinomial:
    WEIGHTS = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])

    def test_with_replacement(self):
        x = multinomial(lucid.tensor(self.WEIGHTS), N, replacement=True)
        assert x.dtype is lucid.int64
        counts = np.bincount(x.numpy(), minlength=6)
        assert not counts[self.WEIGHTS == 0].any()
        assert scipy.stats.chisquare(counts[counts > 0], N * self.WEIGHTS[[1, 2, 4]] / 10).pvalue > 0.01

    def test_rows(self):
        weights = lucid.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
        assert multinomial(weights, 4, replacement=True).tolist() == [[2] * 4, [0] * 4]

    def test_without_replacement_follows_successive_draws(self):
        rows = lucid.tensor(np.tile(self.WEIGHTS, (N, 1)))
        pairs = multinomial(rows, 2).numpy()
        assert (pairs[:, 0] != pairs[:, 1]).all()
        p = self.WEIGHTS / 10
        expected = {(i, j): p[i] * p[j] / (1 - p[i]) for i in (1, 2, 4) for j in (1, 2, 4) if i != j}
        counts = [(pairs == np.array(pair)).all(1).sum() for pair in expected]
        assert sum(counts) == N
        assert scipy.stats.chisquare(counts, np.array(list(expected.values())) * N).pvalue > 0.01

    def test_all_without_replacement(self):
        assert sorted(multinomial(lucid.tensor(self.WEIGHTS), 3).tolist()) == [1, 2, 4]

    @pytest.mark.parametrize(
        ("weights", "count", "message"),
        [
            ([1.0, -1.0], 1, "negative"),
            ([1.0, float("nan")], 1, "finite"),
            ([0.0, 0.0], 1, "no positive"),
            ([1.0, 0.0, 1.0], 3, "only 2"),
            ([1.0], 0, "positive"),
            ([[[1.0]]], 1, "dimensions"),
            (1.0, 1, "dimensions"),
        ],
    )
    def test_bad_arguments(self, weights, count, message):
        with pytest.raises(ValueError, match=message):
            multinomial(lucid.tensor(weights), count)


class TestFills:
    @pytest.mark.parametrize(
        ("name", "args", "cdf", "parameters"),
        [
            ("uniform_", (), "uniform", ()),
            ("uniform_", (-2.0, 3.0), "uniform", (-2.0, 5.0)),
            ("normal_", (), "norm", ()),
            ("normal_", (1.0, 3.0), "norm", (1.0, 3.0)),
            ("exponential_", (), "expon", ()),
            ("exponential_", (2.0,), "expon", (0.0, 0.5)),
            ("cauchy_", (), "cauchy", ()),
            ("cauchy_", (1.0, 2.0), "cauchy", (1.0, 2.0)),
            ("log_normal_", (), "lognorm", (2.0, 0.0, np.exp(1.0))),
        ],
    )
    @pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
    def test_distributions(self, name, args, cdf, parameters, dtype):
        x = lucid.zeros(N // 2, 2, dtype=dtype)
        assert getattr(random_fills, name)(x, *args) is x
        assert fits(x, cdf, *parameters)

    @pytest.mark.parametrize("dtype", [lucid.float32, lucid.int64])
    def test_geometric(self, dtype):
        x = values(random_fills.geometric_(lucid.zeros(N, dtype=dtype), 0.3))
        counts = np.bincount(x.astype(int))[1:16]
        expected = scipy.stats.geom.pmf(np.arange(1, 16), 0.3)
        assert x.min() == 1
        assert scipy.stats.chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 0.01

    def test_bernoulli(self):
        x = random_fills.bernoulli_(lucid.zeros(N, dtype=lucid.bool), 0.2)
        assert abs(values(x).mean() - 0.2) < 0.02
        p = lucid.tensor([0.0, 1.0])
        assert random_fills.bernoulli_(lucid.full((3, 2), 7.0), p).tolist() == [[0.0, 1.0]] * 3

    def test_random(self):
        x = lucid.zeros(N)
        assert set(random_fills.random_(x, 2, 5).tolist()) == {2.0, 3.0, 4.0}
        assert set(random_fills.random_(x, 3).tolist()) == {0.0, 1.0, 2.0}
        assert values(random_fills.random_(x)).max() > 2**23
        assert values(random_fills.random_(x)).max() <= 2**24
        assert set(random_fills.random_(lucid.zeros(N, dtype=lucid.uint8)).tolist()) == set(range(256))
        assert set(random_fills.random_(lucid.zeros(N, dtype=lucid.bool)).tolist()) == {True, False}
        assert values(random_fills.random_(lucid.zeros(N, dtype=lucid.int64))).max() > 2**62

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("name", ALL_FILLS)
    def test_types(self, name, dtype):
        x = getattr(random_fills, name)(lucid.zeros(50, dtype=dtype))
        assert x.dtype is dtype
        assert np.isfinite(values(x)).all()

    def test_upper_bound_is_never_reached(self):
        x = random_fills.uniform_(lucid.zeros(N, dtype=lucid.float16), 1000.0, 1001.0)
        assert values(x).max() < 1001
        assert set(random_fills.uniform_(lucid.zeros(5), 2.0, 2.0).tolist()) == {2.0}

    def test_exponential_is_never_zero(self):
        assert values(random_fills.exponential_(lucid.zeros(3_000_000))).min() > 0

    def test_views_are_filled_in_place(self):
        x = lucid.zeros(3, 4)
        random_fills.uniform_(x[:, 1])
        assert (x[:, 1] > 0).all()
        assert not x[:, 0].any()

    @pytest.mark.parametrize(
        "name, args", [(n, ()) for n in ALL_FILLS] + [("normal_", (0.5, 2.0)), ("uniform_", (-1, 3))]
    )
    @pytest.mark.parametrize("dtype", [lucid.float32, lucid.float64])
    @pytest.mark.parametrize("shape", [(), (0, 3), (5, 7), (40, 500)])
    def test_memory_of_any_layout(self, name, args, dtype, shape):
        """What is drawn into the tensor's own memory is what is drawn first and copied then."""
        found = []
        for x in (lucid.zeros(shape, dtype=dtype), lucid.zeros((*shape, 2), dtype=dtype)[..., 1]):
            lucid.manual_seed(7)
            version = x._version
            assert getattr(random_fills, name)(x, *args) is x
            assert x._version == version + 1
            found.append((x.tolist(), lucid.get_rng_state()))
        assert found[0] == found[1]

    def test_history(self):
        leaf = lucid.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf"):
            random_fills.normal_(leaf)
        with lucid.no_grad():
            random_fills.normal_(leaf)
        assert leaf.requires_grad
        y = leaf * 2
        random_fills.uniform_(y)
        y.sum().backward()
        assert leaf.grad.tolist() == [0.0, 0.0, 0.0]

    def test_overwriting_saved_values_is_noticed(self):
        x, w = lucid.ones(3), lucid.ones(3, requires_grad=True)
        y = (x * w).sum()
        random_fills.normal_(x)
        with pytest.raises(RuntimeError):
            y.backward()

    @pytest.mark.parametrize(
        ("name", "args", "message"),
        [
            ("uniform_", (1.0, 0.0), "range"),
            ("uniform_", (0.0, float("inf")), "range"),
            ("normal_", (0.0, -1.0), "std"),
            ("log_normal_", (0.0, -1.0), "std"),
            ("exponential_", (0.0,), "rate"),
            ("cauchy_", (0.0, 0.0), "sigma"),
            ("geometric_", (0.0,), "p must"),
            ("geometric_", (1.5,), "p must"),
            ("bernoulli_", (1.5,), "between 0 and 1"),
            ("random_", (5, 5), "empty"),
            ("random_", (0, 2**30), "float32"),
        ],
    )
    def test_bad_arguments(self, name, args, message):
        with pytest.raises(ValueError, match=message):
            getattr(random_fills, name)(lucid.zeros(3), *args)

    @pytest.mark.parametrize("name", ["uniform_", "normal_", "log_normal_", "exponential_", "cauchy_"])
    def test_integers_cannot_hold_them(self, name):
        with pytest.raises(TypeError, match="floating-point"):
            getattr(random_fills, name)(lucid.zeros(3, dtype=lucid.int64))


def test_inside_transforms():
    def sample(mean):
        return normal(mean, 2.0) + bernoulli(mean * 0 + 1.0)

    batch = lucid.func.vmap(sample, randomness="different")(lucid.zeros(4, 3))
    assert batch.shape == (4, 3)
    _, tangent = lucid.func.jvp(sample, (lucid.zeros(3),), (lucid.ones(3),))
    assert tangent.tolist() == [1.0, 1.0, 1.0]


def test_integers_from_all_of_64_bits() -> None:
    lucid.manual_seed(0)
    signed = lucid.randint(-(2**63), 2**63, (1000,)).numpy()
    assert (signed < 0).mean() == pytest.approx(0.5, abs=0.06)
    unsigned = lucid.zeros(1000, dtype=lucid.uint64).random_().numpy()
    assert unsigned.dtype == np.uint64 and (unsigned >= 2**63).mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("rows", "width", "count"), [(1, 1, 3), (3, 2, 1), (2, 70, 300), (4000, 5, 3), (0, 4, 2), (2, 3000, 40)]
)
def test_choices_are_those_of_cumulative_weights(rows, width, count):
    numbers = np.random.default_rng(0)
    weights, chance = numbers.random((rows, width)), numbers.random((rows, count))
    weights[:, width // 2 :] *= numbers.random((rows, width - width // 2)) < 0.5
    weights[:, 0] += 1e-3
    chance[:, 0] = 0.0
    chance[:, -1] = np.nextafter(1, 0)
    found = P.weighted_pick(lucid.tensor(weights), lucid.tensor(chance), count=count, replacement=True).numpy()
    assert np.array_equal(found, picked(weights, chance))
    assert (np.take_along_axis(weights, found, -1) > 0).all()
