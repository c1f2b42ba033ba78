"""Modes that trace a program at one point and run what was traced at another."""

from collections.abc import Iterator
from typing import Any

from checks import REFUSALS

import lucid
from fuzz.program import array
from fuzz.subject import Comparison, Subject, pulled
from lucid import func


def held_input(subject: Subject) -> list[str]:
    """An input that a graph finds outside, or none."""
    return [str(subject.rng.choice(subject.floats))] if len(subject.floats) > 1 and subject.rng.random() < 0.7 else []


def graph(subject: Subject, of_gradient: bool = False) -> Iterator[Comparison]:
    """Traced at another point; then run here, and again after a tensor that it holds has changed."""
    outside = held_input(subject)
    given = [n for n in subject.floats if n not in outside]
    if not given:
        return
    here = dict(zip(subject.floats, subject.primals(), strict=True))
    held = {n: here[n].clone() for n in outside}
    weights = subject.cotangents()
    every = subject.function()

    def run(*floats: Any) -> tuple[Any, ...]:
        values = {**held, **dict(zip(given, floats, strict=True))}
        return every(*[values[n] for n in subject.floats])

    def gradient(*floats: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = func.vjp(run, *floats)[1](weights)
        return found

    f = gradient if of_gradient else run
    try:
        run(*[here[n] * 1.03 for n in given])
    except REFUSALS:  # the other point is outside of what the program takes
        return
    traced = func.make_graph(f)(*[here[n] * 1.03 for n in given])
    what = "gradient" if of_gradient else "values"
    points = [here[n] for n in given]
    yield Comparison(what, traced(*points), [array(o).copy() for o in f(*points)])
    if outside:
        with lucid.no_grad():
            for x in held.values():
                x.mul_(1.02)
        yield Comparison(f"{what} after a change", traced(*points), f(*points))


def graph_of_grad(subject: Subject) -> Iterator[Comparison]:
    yield from graph(subject, of_gradient=True)


def graph_in_grad(subject: Subject) -> Iterator[Comparison]:
    """The gradient of a graph that was traced at another point."""
    inputs = subject.primals(requires_grad=True)
    elsewhere = [x.detach() * 1.03 for x in inputs]
    try:
        subject.function()(*elsewhere)
    except REFUSALS:  # outside of what the program takes
        return
    outs = func.make_graph(subject.function())(*elsewhere)(*inputs)
    yield Comparison("gradient", pulled(outs, subject.weights, inputs), subject.gradient)
