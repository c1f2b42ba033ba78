"""Random numbers inside vmap: refused, drawn once for all examples, or for each its own."""

import numpy as np
import pytest

import lucid
from lucid.autograd import checkpoint
from lucid.func import grad, jvp, vmap

K = 8  # draws of each example: enough that two examples never agree by chance

DRAWS = {
    "rand": lambda x: lucid.rand(K),
    "randn": lambda x: lucid.randn(K),
    "rand_like": lambda x: lucid.rand_like(x),
    "randn_like": lambda x: lucid.randn_like(x),
    "randint": lambda x: lucid.randint(0, 1_000_000, (K,)),
    "randint_like": lambda x: lucid.randint_like(x, 1_000_000),
    "randperm": lambda x: lucid.randperm(100)[:K],
    "normal": lambda x: lucid.normal(0.0, 1.0, (K,)),
    "normal of tensors": lambda x: lucid.normal(x * 0, x * 0 + 1),
    "bernoulli": lambda x: lucid.bernoulli(lucid.full((40,), 0.5)),
    "bernoulli of examples": lambda x: lucid.bernoulli((x * 0 + 0.5).reshape(K, 1).expand(K, 5)),
    "poisson": lambda x: lucid.poisson(lucid.full((K,), 1e4)),
    "poisson of examples": lambda x: lucid.poisson(x * 0 + 1e4),
    "multinomial": lambda x: lucid.multinomial(lucid.ones(1000), K),
    "multinomial of examples": lambda x: lucid.multinomial((x * 0 + 1).reshape(K, 1).expand(K, 125).reshape(1000), K, replacement=True),
    "uniform_": lambda x: lucid.empty(K).uniform_(),
    "normal_": lambda x: lucid.empty(K).normal_(),
    "log_normal_": lambda x: lucid.empty(K).log_normal_(),
    "exponential_": lambda x: lucid.empty(K).exponential_(),
    "cauchy_": lambda x: lucid.empty(K).cauchy_(),
    "geometric_": lambda x: lucid.empty(K).geometric_(1e-4),
    "bernoulli_": lambda x: lucid.empty(40).bernoulli_(),
    "random_": lambda x: lucid.empty(K).random_(0, 1_000_000),
}  # fmt: skip
names = pytest.mark.parametrize("name", DRAWS)


@pytest.fixture(autouse=True)
def seeded():
    lucid.manual_seed(5)


def rows(result):
    return [tuple(row.reshape(-1).tolist()) for row in result.unbind(0)]


def batch(n=4):
    return lucid.ones(n, K)


@names
def test_refused_unless_told(name):
    state = lucid.get_rng_state()
    function = name.split()[0]
    with pytest.raises(
        RuntimeError, match=rf"(?s){function}.*inside vmap.*test_func_vmap_random\.py:\d+.*randomness=.different.*same"
    ):
        vmap(DRAWS[name])(batch())
    assert lucid.get_rng_state() == state, "a refused draw has moved the generator"


@names
def test_same(name):
    found = rows(vmap(DRAWS[name], randomness="same")(batch()))
    assert len(found) == 4 and len(set(found)) == 1
    lucid.manual_seed(5)
    assert tuple(DRAWS[name](batch()[0]).reshape(-1).tolist()) == found[0]


@names
def test_different(name):
    found = rows(vmap(DRAWS[name], randomness="different")(batch()))
    assert len(set(found)) == 4


@names
@pytest.mark.parametrize("randomness", ["same", "different"])
def test_the_seed_decides(name, randomness):
    f = vmap(DRAWS[name], randomness=randomness)
    first, second = rows(f(batch())), rows(f(batch()))
    lucid.manual_seed(5)
    assert rows(f(batch())) == first != second
    lucid.manual_seed(6)
    assert rows(f(batch())) != first


@names
@pytest.mark.parametrize("inner", ["same", "different"])
@pytest.mark.parametrize("outer", ["same", "different"])
def test_nested(name, outer, inner):
    got = vmap(vmap(DRAWS[name], randomness=inner), randomness=outer)(lucid.ones(3, 2, K))
    assert got.shape[:2] == (3, 2)
    grid = [rows(row) for row in got.unbind(0)]
    assert len({cell for row in grid for cell in row}) == (3 if outer == "different" else 1) * (
        2 if inner == "different" else 1
    )
    assert len(set(grid[0])) == (2 if inner == "different" else 1)
    assert len({row[0] for row in grid}) == (3 if outer == "different" else 1)


@names
@pytest.mark.parametrize("where", ["outer", "inner"])
def test_nested_refuses_if_either_does(name, where):
    modes = {"outer": "same", "inner": "same", where: "error"}
    with pytest.raises(RuntimeError, match="inside vmap"):
        vmap(vmap(DRAWS[name], randomness=modes["inner"]), randomness=modes["outer"])(lucid.ones(3, 2, K))


@names
@pytest.mark.parametrize("chunk_size", [1, 3, 4, "auto"])
def test_chunks(name, chunk_size):
    same = rows(vmap(DRAWS[name], randomness="same", chunk_size=chunk_size)(batch()))
    assert len(set(same)) == 1
    after = lucid.get_rng_state()
    lucid.manual_seed(5)
    assert rows(vmap(DRAWS[name], randomness="same")(batch())) == same
    assert lucid.get_rng_state() == after
    different = rows(vmap(DRAWS[name], randomness="different", chunk_size=chunk_size)(batch()))
    assert len(set(different)) == 4


def test_a_generator_of_ones_own():
    generator = lucid.Generator().manual_seed(3)
    state = lucid.get_rng_state()
    got = vmap(lambda x: lucid.rand(K, generator=generator), randomness="different")(batch())
    assert len(set(rows(got))) == 4 and lucid.get_rng_state() == state
    generator.manual_seed(3)
    same = vmap(lambda x: lucid.rand(K, generator=generator), randomness="same", chunk_size=1)(batch())
    assert len(set(rows(same))) == 1


def test_the_values_have_their_distribution():
    x = vmap(lambda x: lucid.randn(50), randomness="different")(lucid.ones(200, 1)).numpy()
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05
    assert abs(np.corrcoef(x)[np.triu_indices(200, 1)]).mean() < 0.2


def test_draws_that_depend_on_the_example():
    p = lucid.tensor([0.0, 1.0, 0.5])
    got = vmap(lambda q: lucid.bernoulli(q.expand(1000)), randomness="different")(p).mean(1)
    assert got[0] == 0 and got[1] == 1 and 0.4 < got[2] < 0.6
    mean = lucid.tensor([0.0, 100.0])
    got = vmap(lambda m: lucid.normal(m, 1.0), randomness="different")(mean)
    assert abs(got[0].item()) < 10 and abs(got[1].item() - 100) < 10


def test_an_outside_tensor_is_not_filled():
    outside = lucid.zeros(3)
    with pytest.raises(RuntimeError, match="made outside"):
        vmap(lambda x: outside.uniform_() + x, randomness="different")(lucid.ones(4, 3))
    assert outside.tolist() == [0.0, 0.0, 0.0]
    vmap(lambda x: outside.uniform_() + x, randomness="same")(lucid.ones(4, 3))
    assert outside.tolist() != [0.0, 0.0, 0.0]


def test_in_place_on_examples_and_views():
    def f(x):
        y = x.clone()
        y[1:].uniform_()
        return y

    got = vmap(f, randomness="different")(lucid.full((4, K), 7.0))
    assert (got[:, 0] == 7).all() and len(set(rows(got))) == 4 and (got[:, 1:] < 1).all()
    got = vmap(f, randomness="same")(lucid.full((4, K), 7.0))
    assert len(set(rows(got))) == 1 and (got[:, 0] == 7).all()


def test_derivatives_see_the_numbers_that_were_drawn():
    def f(x):
        noise = lucid.randn_like(x)
        return (noise * x).sum(), noise

    x = lucid.ones(4, 3)
    for randomness, count in (("same", 1), ("different", 4)):
        g, noise = vmap(grad(f, has_aux=True), randomness=randomness)(x)
        assert g.tolist() == noise.tolist() and len(set(rows(g))) == count
        _, change = vmap(lambda r: jvp(lambda y: f(y)[0], (r,), (lucid.ones(3),)), randomness=randomness)(x)
        assert change.shape == (4,)


def test_checkpoint_draws_the_same_again():
    seen = []

    def f(x):
        noise = lucid.rand_like(x)
        seen.append(noise)
        return (noise * x * x).sum()

    got = vmap(grad(lambda x: checkpoint(f, x)), randomness="different")(lucid.ones(4, 3))
    assert len(seen) == 2 and len(set(rows(got))) == 4
    assert lucid.equal(seen[0]._array, seen[1]._array)


def test_no_draw_inside_jvp_and_grad_is_refused():
    assert grad(lambda x: (x * lucid.rand(3)).sum())(lucid.ones(3)).shape == (3,)
    assert jvp(lambda x: x * lucid.rand(3), (lucid.ones(3),), (lucid.ones(3),))[1].shape == (3,)
