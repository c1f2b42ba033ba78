"""Gradients are added in place only where nobody else can see the array, in every interpreter."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid.core import engine

ROOT = Path(lucid.__file__).resolve().parent.parent


def test_references_are_counted_in_this_interpreter():
    assert engine._HELD_ONCE > 0
    assert engine._ALONE > 0


def test_counts_that_mean_nothing_are_not_used():
    numbers = count()
    assert engine._measured(lambda others: 1 << 30) == -1  # objects that live forever
    assert engine._measured(lambda others: next(numbers)) == -1
    assert engine._measured(lambda others: 2 - len(others)) == -1
    assert engine._measured(lambda others: 2 + len(others)) == 2


def gradients():
    x = lucid.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.clone()))
    z = (y * y).sum() + y[0].sum() + y[:, 1].sum() + x.sum() + (x + y).sum()
    held = lucid.autograd.grad(z, [x, y], retain_graph=True)
    z.backward(retain_graph=True)
    first = x.grad
    z.backward()
    return [t.tolist() for t in (*held, first, x.grad, *seen)]


@pytest.mark.parametrize("name", ["_HELD_ONCE", "_ALONE"])
def test_without_counts_the_results_are_the_same(monkeypatch, name):
    expected = gradients()
    monkeypatch.setattr(engine, name, -1)
    assert gradients() == expected


SHARED = """
import lucid
x = lucid.tensor([1.0, 2.0], requires_grad=True)
kept = []
class Same(lucid.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 1
    @staticmethod
    def backward(ctx, g):
        kept.append(g)
        return g
y = Same.apply(x) + Same.apply(x) + x
y.backward(lucid.tensor([1.0, 1.0]))
y = Same.apply(x) * 3
y.sum().backward()
assert [g.tolist() for g in kept] == [[1, 1], [1, 1], [3, 3]], kept
assert x.grad.tolist() == [6, 6], x.grad
given = lucid.ones(2)
z = x + x + x
z.backward(given)
assert given.tolist() == [1, 1], given
print("right")
"""


@pytest.mark.parametrize("pure", ["0", "1"])
def test_what_others_hold_is_not_written(pure):
    env = {**os.environ, "LUCID_PURE": pure}
    out = subprocess.run([sys.executable, "-c", SHARED], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert out.stdout == "right\n", out.stderr[-1000:]
