"""The fuzzer: a short run finds nothing, and rules that are broken on purpose are found and made small."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from fuzz import judge, workers
from fuzz.program import Line, Program
from fuzz.shrink import pasted, shrunk
from fuzz.structure import program as generated

import lucid
from lucid.core.primitive import registry

SEED = 20
SHORT = 240  # programs of the short run
X = np.array([0.3, -0.7, 1.1])


def run_of(*statements: tuple[str, str]) -> Program:
    """A program of statements after one another, each under the name of its operation."""
    lines, last = [], "x1"
    for k, (text, op) in enumerate(statements):
        name = f"v{k}"
        lines.append(Line(f"{name} = {text.format(last)}", (name,), (last,), op))
        last = name
    return Program({"x1": X}, tuple(lines), (last,))


LONG = run_of(("{}.exp()", "exp"), ("{} * 2", "mul"), ("{}.sinh()", "sinh"), ("{}.flip(0)", "flip"), ("{} + 1", "add"))


@contextmanager
def broken(name: str, rule: str, function: Any) -> Iterator[None]:
    primitive = registry[name]
    before = vars(primitive).get(rule)
    setattr(primitive, rule, function)
    try:
        yield
    finally:
        setattr(primitive, rule, before)
        if before is None and rule == "vjp":
            delattr(primitive, rule)  # a method of the class


def found(program: Program, mode: str) -> judge.Finding:
    (finding,) = judge.run_modes([mode], program, 1)
    return finding


@pytest.mark.parametrize("part", range(4))
def test_programs_agree_in_all_modes(part):
    wrong = []
    for number in range(part, SHORT, 4):
        wrong += [f for f in judge.judged(SEED, number)[2] if not shrunk(f).reason()]
    assert not wrong, "\n\n".join(f"# program {f.number}\n{pasted(shrunk(f))}" for f in wrong)


def test_sound_rules_pass():
    assert not list(judge.run_modes([n for n in judge.EVERY if n != "torch"], LONG, 1))


def test_the_same_program_for_the_same_number():
    assert generated(3, 14).source() == generated(3, 14).source()
    assert generated(3, 14).source() != generated(3, 15).source()


def test_wrong_derivative():
    vjp = registry["sinh"].vjp
    wrong = lambda *args, **kwargs: [None if g is None else g * 1.01 for g in vjp(*args, **kwargs)]
    with broken("sinh", "vjp", wrong):
        small = shrunk(found(LONG, "tape"))
    assert (small.what, small.op) == ("gradient", "sinh")
    assert [line.op for line in small.program.lines] == ["sinh"]
    assert "v1.sinh()" in pasted(small)


def test_wrong_batch_rule():
    batch = registry["flip"].batch
    with broken("flip", "batch", lambda *args, **kwargs: turned(batch(*args, **kwargs))):
        small = shrunk(found(LONG, "vmap"))
    assert (small.mode, small.op) == ("vmap", "flip")
    assert len(small.program.lines) == 1


def turned(result: Any) -> Any:
    value, *rest = result if isinstance(result, tuple) else (result,)
    return (value * 1.5, *rest) if isinstance(result, tuple) else value * 1.5


def test_copy_that_is_a_view(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(lucid.Tensor, "flip", lambda x, dims: x[...])
    program = run_of(("{}.exp()", "exp"), ("{}[:1]", "slice"), ("{}.flip(0)", "flip"), ("{} + 1", "add"))
    small = shrunk(found(program, "torch"))
    assert (small.what, small.op) == ("shared memory", "flip")
    assert len(small.program.lines) == 1


def test_error_in_a_mode():
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError("no such thing")

    with broken("flip", "batch", fail):
        small = shrunk(found(LONG, "vmap"))
    assert (small.what, small.op) == ("AttributeError", "flip")


def test_crash_is_seen_from_outside():
    assert workers.isolated(os._exit, 11) is None


def test_known_differences_have_reasons():
    assert all(e.reason for e in judge.EXPLAINED)
    finding = judge.Finding("torch", "gradient in PyTorch", "ctc_loss", "", LONG)
    assert finding.reason() and not judge.Finding("jvp", "tangents", "ctc_loss", "", LONG).reason()
