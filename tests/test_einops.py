"""`lucid.einops` beside the einops package, over patterns drawn at random, and its derivatives and errors."""

import random

import numpy as np
import pytest

import lucid
from lucid import einops
from lucid.autograd import gradcheck, gradgradcheck

CASES = [
    ("rearrange", "a b c -> c b a", {}, (2, 3, 4)),
    ("rearrange", "a b c -> (a b) c", {}, (2, 3, 4)),
    ("rearrange", "(a b) c -> b a c", {"a": 2}, (6, 4)),
    ("rearrange", "(a b) c -> b a c", {"b": 2}, (6, 4)),
    ("rearrange", "b (h p1) (w p2) c -> b (h w) (p1 p2 c)", {"p1": 2, "p2": 3}, (2, 4, 6, 3)),
    ("rearrange", "a ... c -> c ... a", {}, (2, 3, 5, 4)),
    ("rearrange", "a ... -> (a ...)", {}, (2, 3, 5)),
    ("rearrange", "... (a b) -> ... b a", {"a": 2}, (3, 6)),
    ("rearrange", "a 1 b -> a b 1", {}, (2, 1, 3)),
    ("rearrange", "a () b -> a b ()", {}, (2, 1, 3)),
    ("rearrange", "a -> a", {}, (3,)),
    ("rearrange", " -> 1 1", {}, ()),
    ("rearrange", "a b -> b a", {}, (0, 3)),
    ("repeat", "a -> a b", {"b": 3}, (2,)),
    ("repeat", "a b -> (a 2) (b r)", {"r": 3}, (2, 3)),
    ("repeat", "a ... -> r a ...", {"r": 2}, (2, 3)),
    ("repeat", "h w -> (h hh) (w ww)", {"hh": 2, "ww": 2}, (2, 3)),
    ("reduce", "a b c -> a", {}, (2, 3, 4)),
    ("reduce", "a b -> ", {}, (2, 3)),
    ("reduce", "b (h 2) (w 2) c -> b h w c", {}, (2, 4, 6, 3)),
    ("reduce", "b ... -> b", {}, (2, 4, 3)),
    ("reduce", "a b c -> a () c", {}, (2, 3, 4)),
    ("reduce", "a b c -> c a", {}, (2, 3, 4)),
]
REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def calls():
    for name, pattern, lengths, shape in CASES:
        for reduction in REDUCTIONS if name == "reduce" else (None,):
            yield name, pattern, lengths, shape, reduction


def run(library, x, name, pattern, lengths, reduction):
    more = () if reduction is None else (reduction,)
    return getattr(library, name)(x, pattern, *more, **lengths)


@pytest.mark.parametrize("case", list(calls()), ids=str)
def test_values_are_those_of_the_package(case):
    theirs = pytest.importorskip("einops")
    name, pattern, lengths, shape, reduction = case
    x = np.asarray(np.random.RandomState(0).randn(*shape))
    found = run(einops, lucid.tensor(x), name, pattern, lengths, reduction)
    np.testing.assert_allclose(found.numpy(), run(theirs, x, name, pattern, lengths, reduction), rtol=1e-12)
    np.testing.assert_allclose(
        run(einops, lucid.tensor(x.T.copy()).permute(*reversed(range(x.ndim))), name, pattern, lengths, reduction).numpy(),
        found.numpy(), rtol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize("case", [c for c in calls() if 0 not in c[3]], ids=str)
def test_derivatives_and_batches(case):
    name, pattern, lengths, shape, reduction = case
    x = lucid.tensor(np.random.RandomState(1).randn(3, *shape))

    def f(x):
        return run(einops, x, name, pattern, lengths, reduction)

    one = x[0].detach().requires_grad_()
    assert gradcheck(f, (one,)) and gradgradcheck(f, (one,))
    np.testing.assert_allclose(lucid.vmap(f)(x).numpy(), np.stack([f(row).numpy() for row in x]), rtol=1e-12)


def test_random_patterns():
    theirs = pytest.importorskip("einops")
    rng = random.Random(0)
    for _ in range(60):
        names = "abcde"[: rng.randint(1, 5)]
        sizes = {n: rng.randint(1, 3) for n in names}

        def side(names=names):
            order = rng.sample(names, len(names))
            out = []
            while order:
                take = rng.randint(1, min(2, len(order)))
                out.append(order[0] if take == 1 else f"({' '.join(order[:take])})")
                del order[:take]
            return out

        left, right = side(), side()
        shape = [int(np.prod([sizes[n] for n in g.strip("()").split()])) for g in left]
        x = np.random.RandomState(0).randn(*shape)
        pattern = f"{' '.join(left)} -> {' '.join(right)}"
        np.testing.assert_array_equal(
            einops.rearrange(lucid.tensor(x), pattern, **sizes).numpy(), theirs.rearrange(x, pattern, **sizes)
        )


def test_einsum():
    rng = np.random.RandomState(0)
    a, b = rng.randn(2, 3, 4), rng.randn(4, 5)
    x, y = lucid.tensor(a), lucid.tensor(b)
    np.testing.assert_allclose(einops.einsum("bij,jk->bik", x, y).numpy(), a @ b)
    np.testing.assert_allclose(einops.einsum(x, y, "... row inner, inner column -> ... column row").numpy(), (a @ b).mT)
    np.testing.assert_allclose(einops.einsum("bij->ib", x).numpy(), a.sum(2).T)
    assert einops.einsum("ii", lucid.eye(3).long()).item() == 3
    for wrong in (("ij,jk->ik", x[0]), ("ij,jk->ik", x[0], x[0]), ("ij->k", x[0]), (x[0], "i j")):
        with pytest.raises(RuntimeError, match="einsum"):
            einops.einsum(*wrong)


def test_lists_are_stacked():
    assert einops.rearrange([lucid.ones(2), lucid.ones(2)], "n a -> (n a)").shape == (4,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("rearrange", "a b -> a c", {}), "axis 'c' on the right"),
        (("rearrange", "a b -> a", {}), "axis 'b' is missing"),
        (("rearrange", "a b c -> a b c", {}), "3 dimensions"),
        (("rearrange", "a b ... c -> a b ... c", {}), "3 dimensions or more"),
        (("rearrange", "(a b) c -> a b c", {}), "cannot both be found"),
        (("rearrange", "(a b) c -> a b c", {"a": 4}), "does not divide"),
        (("rearrange", "a b -> b a", {"a": 3}), "axis 'a' has the length 3"),
        (("rearrange", "a 4 -> a", {}), "axis '4' has the length 4|missing"),
        (("rearrange", "a b -> a b 2", {}), "axis 2 on the right"),
        (("rearrange", "2 a -> a 2 2", {}), "axis 2 on the right"),
        (("rearrange", "2 a -> a", {}), "axis '2' is missing"),
        (("rearrange", "a 4 -> 4 a", {}), "axis '4' has the length 4"),
        (("rearrange", "a a -> a", {}), "twice"),
        (("rearrange", "a b -> b a", {"z": 3}), "axis 'z' has a length"),
        (("rearrange", "a b", {}), "one arrow"),
        (("rearrange", "a (b -> b a", {}), "not closed"),
        (("rearrange", "a b) -> b a", {}), "not opened"),
        (("rearrange", "a ((b)) -> b a", {}), "do not nest"),
        (("rearrange", "a b! -> b a", {}), "no name"),
        (("repeat", "a b -> a b c", {}), "axis 'c' is new"),
        (("reduce", "a b -> a c", {}), "axis 'c' on the right"),
    ],
)
def test_errors_name_the_axis(call, words):
    name, pattern, lengths = call
    more = ("sum",) if name == "reduce" else ()
    with pytest.raises(RuntimeError, match=words):
        getattr(einops, name)(lucid.ones(2, 3), pattern, *more, **lengths)


def test_numbers_on_the_right_are_those_on_the_left():
    x = lucid.arange(24).reshape(2, 3, 2, 2)
    assert lucid.equal(
        einops.rearrange(x, "2 a (2 b) c -> c 2 (a 2) b"), einops.rearrange(x, "p a (q b) c -> c p (a q) b", q=2)
    )
    assert lucid.equal(einops.reduce(x, "2 a 2 b -> b 2", "sum"), einops.reduce(x, "p a q b -> b p", "sum"))
    assert lucid.equal(einops.repeat(x, "2 a 2 b -> 2 (2 2) a b"), einops.repeat(x, "p a q b -> p (q r) a b", r=2))


def test_reductions_are_known():
    with pytest.raises(RuntimeError, match="one of sum, mean, max, min, prod"):
        einops.reduce(lucid.ones(2), "a ->", "median")
