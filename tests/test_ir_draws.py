"""Random draws in programs: each run draws anew, the numbers that the function itself would draw."""

import pickle

import numpy as np
import pytest
from test_func_graphs import t

import lucid
from lucid import autograd, nn
from lucid.func import grad, jvp, linearize, make_graph, vmap
from lucid.kinds.kind import NeedsValueError

F = nn.functional
G = lucid.Generator()
X, Y = t([1.0, 2.0, 0.5]).float(), t([0.5, 1.5, 0.25]).float()
CHANCES = lucid.tensor([0.1, 0.5, 0.9])


def fill(name, *args, dtype=lucid.float32, **kwargs):
    return lambda x: x * getattr(lucid.empty(3, dtype=dtype), name)(*args, **kwargs)


def initialised(name, *args):
    return lambda x: getattr(nn.init, name)(lucid.empty(3, 3), *args) @ x


# One row for each function that draws.
DRAWS = {
    "rand": lambda x: x * lucid.rand(3),
    "rand, double": lambda x: x * lucid.rand(3, dtype=lucid.float64),
    "rand, half": lambda x: x * lucid.rand(3, dtype=lucid.float16),
    "rand, complex": lambda x: x * lucid.rand(3, dtype=lucid.complex64).abs(),
    "rand, many": lambda x: x * lucid.rand(40_000, 3).mean(0),
    "rand, recorded": lambda x: x * lucid.rand(3, requires_grad=True),
    "rand of a generator": lambda x: x * lucid.rand(3, generator=G) + lucid.rand(3),
    "randn": lambda x: x * lucid.randn(3) + lucid.randn(2, 3).sum(0),
    "randn, complex": lambda x: x * lucid.randn(3, dtype=lucid.complex128).real,
    "rand_like": lambda x: x * lucid.rand_like(x) + lucid.rand_like(CHANCES),
    "randn_like": lambda x: x * lucid.randn_like(x),
    "randint": lambda x: x * lucid.randint(2, 9, (3,)),
    "randint, wide": lambda x: x * (lucid.randint(0, 1 << 40, (3,)) >> 35) + lucid.rand(3),
    "randint_like": lambda x: x * lucid.randint_like(x, 9),
    "randperm": lambda x: x[lucid.randperm(3)] + lucid.rand(3),
    "normal of numbers": lambda x: x * lucid.normal(2.0, 3.0, (3,)),
    "normal of tensors": lambda x: lucid.normal(x, x.abs()) + lucid.rand(3),
    "bernoulli": lambda x: x * lucid.bernoulli(CHANCES) + lucid.bernoulli(x.clamp(0, 1)),
    "poisson": lambda x: x * lucid.poisson(x.abs() * 4),
    "binomial": lambda x: x * lucid.binomial(lucid.full((3,), 9.0), CHANCES),
    "multinomial": lambda x: x * lucid.multinomial(x.abs(), 3),
    "multinomial, replacement": lambda x: x * lucid.multinomial(x.abs(), 3, replacement=True),
    "uniform_": fill("uniform_", 2.0, 3.0),
    "uniform_ to 1": fill("uniform_"),
    "normal_": fill("normal_", 2.0, 3.0),
    "log_normal_": fill("log_normal_"),
    "exponential_": fill("exponential_", 2.0),
    "cauchy_": fill("cauchy_", dtype=lucid.float64),
    "geometric_": fill("geometric_", 0.3),
    "geometric_, int": fill("geometric_", 0.3, dtype=lucid.int64),
    "bernoulli_": fill("bernoulli_", 0.3),
    "bernoulli_ of tensors": fill("bernoulli_", CHANCES),
    "random_": fill("random_", 9, dtype=lucid.int64),
    "random_ of a generator": fill("random_", 9, generator=G),
    "fill of a value": lambda x: x * (x * 2).normal_() + x.clone().uniform_(),
    "fill of a view": lambda x: (x * 2).index_put((lucid.tensor([0]),), lucid.zeros(4, 3)[1].normal_()[:1]),
    "dropout": lambda x: F.dropout(x, 0.5) + F.dropout(x * 2, 0.25),
    "dropout, double": lambda x: F.dropout(x.double(), 0.5),
    "dropout in place": lambda x: F.dropout(x * 1, 0.5, inplace=True),
    "dropout1d": lambda x: F.dropout1d(x.expand(2, 4, 3), 0.5).sum((0, 1)),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.expand(2, 4, 3), 0.5, training=True).sum((0, 1)),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.expand(1, 3, 3)] * 3, dropout_p=0.5)[0, 0],
    "init.uniform_": initialised("uniform_"),
    "init.normal_": initialised("normal_"),
    "init.trunc_normal_": initialised("trunc_normal_"),
    "init.xavier_uniform_": initialised("xavier_uniform_"),
    "init.kaiming_normal_": initialised("kaiming_normal_"),
    "init.orthogonal_": initialised("orthogonal_"),
    "init.sparse_": initialised("sparse_", 0.5),
    "a new layer": lambda x: nn.Linear(3, 3)(x),
    "seeded inside": lambda x: x * lucid.rand(3) + seeded_again(),
    "forked": lambda x: x * forked() * lucid.rand(3),
    "a generator made inside": lambda x: x * lucid.rand(3, generator=lucid.Generator().manual_seed(3)) * lucid.rand(3),
    "an unseeded generator": lambda x: x * lucid.rand(3, generator=lucid.Generator()),
    "state put back": lambda x: x * twice_the_same(),
    "checkpoint": lambda x: autograd.checkpoint(lambda y: F.dropout(y.exp(), 0.5).sin(), x) * lucid.rand(3),
    "unused": lambda x: x * (lucid.rand(9), lucid.rand(3))[1],
    "Function": lambda x: Noisy.apply(x) * lucid.rand(3),
    "Function with NumPy": lambda x: NoisyWithNumPy.apply(x) * lucid.rand(3),
    "program": lambda x: make_graph(lambda y: y * lucid.rand(3))(x)(x * 2) * lucid.rand(3),
    "scan": lambda x: lucid.scan(lambda c, e: (c * lucid.rand(()) + e, c), lucid.tensor(0.0), x)[1],
    "cond, taken": lambda x: lucid.cond(x.sum() > 0, noise, lambda y: y + lucid.randn(9)[:3], x) * lucid.rand(3),
    "cond, not taken": lambda x: lucid.cond(x.sum() < 0, noise, lambda y: y * lucid.randn(9)[:3], x) * lucid.rand(3),
    "while_loop": lambda x: (
        lucid.while_loop(lambda v: v.sum() < 20, lambda v: v + lucid.rand(3) * v, x) * lucid.rand(3)
    ),
}


def noise(x):
    return x * lucid.rand(3)


def seeded_again():
    lucid.manual_seed(5)
    return lucid.rand(3)


def forked():
    with lucid.fork_rng():
        return lucid.rand(3) * lucid.randn(3)


def twice_the_same():
    state = lucid.get_rng_state()
    first = lucid.rand(3)
    lucid.set_rng_state(state)
    return first + lucid.rand(3)


class Noisy(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        m, n = lucid.rand(3), lucid.randn(3)
        ctx.save_for_backward(m, n)
        return x * m + n

    @staticmethod
    def backward(ctx, g):
        m, n = ctx.saved_tensors
        return g * n * 10 + m  # not the derivative of the forward: whoever follows that is found out


class NoisyWithNumPy(Noisy):
    @staticmethod
    def forward(ctx, x):
        m, n = lucid.rand(3), lucid.tensor(lucid.rand(3).numpy() * x.numpy())
        ctx.save_for_backward(m, n)
        return lucid.tensor((x * m + n).numpy())


WAYS = {
    "value": lambda f: f,
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (X,)),
    "grad of grad": lambda f: grad(lambda x: (grad(lambda y: (f(y) ** 2).sum())(x) ** 2).sum()),
}
MODES = ("same", "different")
ROWS = lucid.tensor([[0.3, 0.7, 0.2], [0.9, 0.1, 0.4]])


def drawn(f, x):
    """What a function gives after a seed, and where it leaves the generators; or why it cannot."""
    lucid.manual_seed(1)
    G.manual_seed(2)
    try:
        out = f(x)
    except (RuntimeError, NeedsValueError, TypeError) as error:
        return type(error)
    return Drawn((out if isinstance(out, tuple) else (out,)), lucid.get_rng_state(), G.get_state())


class Drawn:
    """Equal to another if the generators end at the same places and values are the same up to rounding."""

    def __init__(self, values, *states):
        self.values, self.states = values, states

    def __eq__(self, there):
        if isinstance(there, type) or self.states != there.states:
            return False
        pairs = [(a.detach(), b.detach()) for a, b in zip(self.values, there.values, strict=True)]
        return all(a.dtype == b.dtype and np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DRAWS)
def test_a_run_draws_as_the_function_does(name, way):
    f = WAYS[way](DRAWS[name])
    want = drawn(f, Y)
    assert drawn(WAYS[way](make_graph(DRAWS[name])(X)), Y) == want
    lucid.manual_seed(9)
    if name == "while_loop" and "grad" in way:
        return  # which cannot be traced
    program = make_graph(f)(X)
    assert lucid.get_rng_state() == (9, 0)  # nothing is drawn while tracing
    assert drawn(program, Y) == want
    assert drawn(program, Y) == want
    kinds = {effect.kind for effect in program.effects}
    assert "draw" in kinds


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DRAWS)
def test_vmaps_around_a_program_say_what_its_draws_are(name, mode):
    if name in ("Function with NumPy", "rand, recorded"):
        pytest.skip("refused without a program too")
    for way in ("value", "grad"):
        want = drawn(vmap(WAYS[way](DRAWS[name]), randomness=mode), ROWS)
        assert drawn(vmap(WAYS[way](make_graph(DRAWS[name])(X)), randomness=mode), ROWS) == want


NOT_IN_TRACED_VMAPS = ("while_loop", "cond, taken", "cond, not taken", "Function with NumPy")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [n for n in DRAWS if n not in NOT_IN_TRACED_VMAPS])
def test_programs_of_vmaps_draw_as_they_do(name, mode):
    for way in ("value", "grad"):
        f = vmap(WAYS[way](DRAWS[name]), randomness=mode)
        want = drawn(f, ROWS)
        if not isinstance(want, type):
            assert drawn(make_graph(f)(ROWS * 2), ROWS) == want


def test_the_comparison_can_fail():
    program = make_graph(lambda x: x * lucid.rand(3).clone())(X)
    assert drawn(program, Y) != drawn(lambda x: x * lucid.randn(3), Y)
    assert drawn(lambda x: x * lucid.rand(3), Y) != drawn(lambda x: x * lucid.rand(3) + 0 * lucid.rand(3), Y)


def test_runs_go_on_in_the_stream():
    f = lambda x: x * lucid.rand(3) + lucid.randn(5).sum()
    program = make_graph(f)(X)
    lucid.manual_seed(3)
    got = [program(Y).tolist() for _ in range(3)]
    lucid.manual_seed(3)
    assert got == [f(Y).tolist() for _ in range(3)] and got[0] != got[1]


def test_without_a_mode_a_draw_inside_vmap_is_refused():
    program = make_graph(lambda x: x * lucid.rand(3))(X)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(program)(ROWS)
    with pytest.raises(RuntimeError, match="randomness"):
        make_graph(vmap(lambda x: x * lucid.rand(3)))(ROWS)


def test_vmaps_inside_and_around_of_a_program():
    inner = lambda x: vmap(lambda e: e * lucid.rand(()), randomness="different")(x)
    program = make_graph(inner)(X)
    for mode in MODES:
        assert drawn(vmap(program, randomness=mode), ROWS) == drawn(vmap(inner, randomness=mode), ROWS)
    chunks = lambda f: vmap(f, randomness="same", chunk_size=1)
    assert drawn(make_graph(chunks(noise))(ROWS), ROWS) == drawn(chunks(noise), ROWS)


def test_the_default_generator_is_that_of_the_run():
    program = make_graph(lambda x: x * lucid.rand(3))(X)
    lucid.manual_seed(1)
    with lucid.fork_rng():
        lucid.manual_seed(7)
        got = program(Y)
    assert lucid.get_rng_state() == (1, 0)
    lucid.manual_seed(7)
    assert got.tolist() == (Y * lucid.rand(3)).tolist()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 if lucid.rand(()) > 0.5 else x,
        lambda x: x * lucid.rand(3).numpy(),
        lambda x: x * lucid.initial_seed(),
        lambda x: x * lucid.get_rng_state()[1],
        lambda x: lucid.empty(3).normal_(0.0, lucid.rand(())) * x,
    ],
)
def test_numbers_that_are_drawn_are_not_known(f):
    with pytest.raises(NeedsValueError, match=r"test_ir_draws\.py:\d+.*make_graph"):
        make_graph(f)(X)


def test_the_system_is_not_asked_for_a_seed():
    with pytest.raises(RuntimeError, match="seed: a program"):
        make_graph(lambda x: lucid.seed() * x)(X)


def test_draws_in_branches_of_examples_are_refused():
    f = vmap(lambda x: lucid.cond(x.sum() > 0, noise, noise, x), randomness="different")
    with pytest.raises(RuntimeError, match=r"cond: .*draw"):
        make_graph(f)(ROWS)


def test_linearize_fixes_the_draws_of_its_point():
    lucid.manual_seed(0)
    value, push = linearize(noise, X)
    np.testing.assert_allclose(push(X), value)
    np.testing.assert_allclose(push(X), value)
    assert lucid.get_rng_state() == (0, 1)


def test_draws_print_with_their_places_in_the_stream():
    program = make_graph(lambda x: (x + lucid.rand(3) + F.dropout(x, 0.5)) * lucid.randn(9).sum())(X)
    positions = [str(e.target) for e in program.effects if e.kind == "draw"]
    assert positions == ["default at 0", "default at 1", "default at 2"]
    lucid.manual_seed(0)
    program(X)
    assert lucid.get_rng_state() == (0, 4)
    unknown = make_graph(lambda x: lucid.cond(x.sum() > 0, noise, noise, x) * lucid.rand(3))(X)
    assert [str(e.target) for e in unknown.effects if e.kind == "draw"] == ["default at 0", "default at ?"]
    named = make_graph(lambda x: x * lucid.rand(3, generator=G))(X)
    assert [str(e.target) for e in named.effects if e.kind == "draw"] == ["generator at 0"]
    pickle.dumps(G)
