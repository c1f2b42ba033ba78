"""A backward pass writes into memory that it owns, and into no other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import REFUSALS, array, cases, is_float, reverse
from table import ROWS

import lucid
from lucid.core.kernels import load_all, table
from lucid.core.primitive import bare, registry
from lucid.core.storage import Saved

ROOT = Path(lucid.__file__).resolve().parent.parent


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """The arrays among saved values, cotangents, tensors and nests of them."""
    if isinstance(value, Saved):
        value = value.value
    value = bare(value)
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from arrays_in(item)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))


def shared(node: Any, ct: Any, saved: list[np.ndarray], grads: list[Any]) -> str | None:
    """Which memory a cotangent that the pass will own shares with something else, in words."""
    given = list(arrays_in(ct))
    found = [g for g in grads if isinstance(g, np.ndarray)]
    for i, g in enumerate(found):
        if g.base is not None or any(g is c for c in given):
            continue  # which the pass does not take for its own
        others = {"the result's cotangent": given, "what was saved": saved, "another one": found[:i] + found[i + 1 :]}
        for what, held in others.items():
            if any(np.shares_memory(g, o) for o in held):
                return f"{node.prim.name}: cotangent {i} shares memory with {what}"
    return None


@contextmanager
def watched(primitives: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Look at what each primitive pulls back that says it pulls new arrays; yields what is wrong."""
    load_all()
    wrong: dict[str, str] = {}

    def watch(prim: Any) -> Any:
        pull = prim.vjp

        def vjp(node: Any, ct: Any) -> Any:
            saved = list(arrays_in(node.saved))
            grads = pull(node, ct)
            if not isinstance(grads, dict):
                message = shared(node, ct, saved, [bare(g) for g in grads])
                if message is not None:
                    wrong.setdefault(prim.name, message)
            return grads

        return vjp

    patched = [prim for prim in primitives.values() if prim.pulls_new and prim.differentiable]
    before = [vars(prim).get("vjp") for prim in patched]
    for prim in patched:
        prim.vjp = watch(prim)
    try:
        yield wrong
    finally:
        for prim, vjp in zip(patched, before, strict=True):
            prim.vjp = vjp
            if vjp is None:
                del prim.vjp  # a method of the class


def pull_samples(row: Any, dtype: str) -> None:
    for case in islice(cases(row, dtype), 4):
        with suppress(*REFUSALS):
            outs = case.op(*case.operands(requires_grad=False))
            reverse(case, case.like([array(o) for o in outs if is_float(o)]))


@pytest.mark.parametrize("row", [row for row in ROWS if row.floats], ids=lambda row: row.name)
def test_cotangents_lie_in_memory_of_their_own(row):
    with np.errstate(all="ignore"), watched(dict(registry)) as wrong:
        for dtype in ("float64",) * row.floats + ("complex128",) * row.complex:
            pull_samples(row, dtype)
    assert wrong == {}


def test_the_check_can_fail(monkeypatch):
    row = next(r for r in ROWS if r.name == "tanh")
    monkeypatch.setattr(registry["tanh"], "vjp", lambda node, ct: list(arrays_in(node.saved))[:1])
    with watched({"tanh": registry["tanh"]}) as wrong:
        pull_samples(row, "float64")
    assert "tanh" in wrong


def test_gradients_of_two_passes_and_of_hooks_are_apart():
    x = lucid.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(seen.append)
    z = (y * y).sum() + y[0].sum() + y[:, 1].sum() + x.sum() + (x + y).sum()
    held = lucid.autograd.grad(z, [x, y, x], retain_graph=True)
    z.backward(retain_graph=True)
    first = x.grad.clone()
    x.grad.zero_()
    expected = 8 * np.arange(6.0).reshape(2, 3) + 4
    expected[0] += 2
    expected[:, 1] += 2
    for found in (held[0], held[2], first):
        np.testing.assert_array_equal(found.numpy(), expected)
    held[0].zero_()
    np.testing.assert_array_equal(held[2].numpy(), expected)
    assert (held[1] == seen[0]).all() and (seen[0] == seen[1]).all() and (seen[0] != 0).all()


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
y = Same.apply(x * 2) + x * 5  # what was kept is added to afterwards
y.sum().backward()
(y * 1).sum()
u = x * 1
v = Same.apply(u) + u * 7
v.backward(lucid.ones(2) * 1)
assert [g.tolist() for g in kept[3:]] == [[1, 1], [1, 1]], kept
print("right")
"""


@pytest.mark.parametrize("pure", ["0", "1"])
def test_what_others_hold_is_not_written(pure):
    env = {**os.environ, "LUCID_PURE": pure}
    out = subprocess.run([sys.executable, "-c", SHARED], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert out.stdout == "right\n", out.stderr[-1000:]


@pytest.mark.parametrize("rearranged", [lambda x: x.reshape(8, 2), lambda x: x.t(), lambda x: x[None]])
def test_gradients_in_another_shape_are_nobody_else_s(rearranged: Any) -> None:
    x = lucid.randn(4, 4, requires_grad=True)
    seed = lucid.ones(rearranged(x).shape)
    for made in (lucid.exp, lambda v: v * 1, lambda v: v.clone()):
        y = made(rearranged(x))
        (one,), (other,) = (lucid.autograd.grad(y, [x], seed, retain_graph=True) for _ in range(2))
        before = other.numpy().copy()
        one.add_(1)
        assert np.array_equal(other.numpy(), before)
        assert np.array_equal(seed.numpy(), np.ones(seed.shape))
        assert one.numpy().flags.writeable


def test_a_view_owns_the_memory_of_an_array_that_nobody_else_has() -> None:
    held = np.ones((3, 4))
    alone = [np.ones((3, 4)).T, np.ones((3, 4)).reshape(4, 3)]
    shared = [held.T, held.reshape(4, 3)]
    parts = [np.ones((3, 4))[1:], np.broadcast_to(np.ones((3, 4)), (2, 3, 4)), np.ones((3, 4))[::-1]]
    assert list(map(table["owns_memory"], [*alone, *shared, *parts])) == [True] * 2 + [False] * 5
    one = alone[0].T
    assert not table["owns_memory"](one)
    alone.clear()
    assert table["owns_memory"](one)
