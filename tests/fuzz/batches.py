"""Modes that run a program for several points at once, against a loop over them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from checks import REFUSALS, in_memory_as

import lucid
from fuzz.program import Array, array, is_float, tensor
from fuzz.subject import Comparison, Subject, inner, pulled
from lucid import func


class Batch:
    """Several points at once: some inputs differ between them and some do not."""

    def __init__(self, subject: Subject) -> None:
        self.subject, program = subject, subject.program
        self.size = int(subject.rng.choice((4, 4, 2, 1)))
        free = [n for n in program.inputs if n not in program.unbatched]
        self.chosen = [n for n in free if subject.rng.random() < 0.6] or free[:1]
        self.points = [
            {n: self._other(a, i) if n in self.chosen else a for n, a in program.inputs.items()}
            for i in range(self.size)
        ]
        self.weights = [[subject.random_like(w) for w in subject.weights] for _ in self.points]

    def _other(self, a: Array, i: int) -> Array:
        """Floats move a little, so that they stay what they were for; indices and masks turn around."""
        if not i or not a.size:
            return a
        other = np.empty_like(a)  # in the same order in memory
        other[...] = a * (1 + 0.03 * i) if is_float(a) else np.roll(a.reshape(-1), i).reshape(a.shape)
        return other

    @property
    def in_dims(self) -> tuple[int | None, ...]:
        return tuple(0 if n in self.chosen else None for n in self.subject.program.inputs)

    def stacked(self, requires_grad: bool = False) -> list[Any]:
        found = []
        for name, a in self.subject.program.inputs.items():
            x = tensor(in_memory_as(a, [p[name] for p in self.points]) if name in self.chosen else a)
            found.append(x.requires_grad_() if requires_grad and is_float(a) else x)
        return found

    def function(self, *values: Any) -> tuple[Any, ...]:
        return self.subject.program(dict(zip(self.subject.program.inputs, values, strict=True)))

    def loop(self) -> list[Array] | None:
        """The results of each point; None if the program does not take all of them."""
        try:
            outs = [self.subject.program({n: tensor(a) for n, a in p.items()}) for p in self.points]
            return [np.stack([array(o) for o in each]) for each in zip(*outs, strict=True)]
        except REFUSALS:
            return None

    def gradients(self) -> list[list[Array]]:
        """Of each point, by the tape."""
        found = []
        for point, weights in zip(self.points, self.weights, strict=True):
            values = {n: tensor(a) for n, a in point.items()}
            inputs = [values[n].requires_grad_() for n in self.subject.floats]
            outs = self.subject.program(values)
            found.append([array(g) for g in pulled([outs[k] for k in self.subject.kept], weights, inputs)])
        return found

    def stacked_weights(self) -> list[Array]:
        return [np.stack(ws) for ws in zip(*self.weights, strict=True)]


def vmap(subject: Subject) -> Iterator[Comparison]:
    batch = Batch(subject)
    want = batch.loop()
    if want is None:
        return
    yield Comparison("values", func.vmap(batch.function, in_dims=batch.in_dims)(*batch.stacked()), want)


def grad_of_vmap(subject: Subject) -> Iterator[Comparison]:
    batch = Batch(subject)
    if batch.loop() is None:
        return
    each = [np.stack(g) for g in zip(*batch.gradients(), strict=True)]
    want = [g if n in batch.chosen else g.sum(0) for n, g in zip(subject.floats, each, strict=True)]
    inputs = batch.stacked(requires_grad=True)
    outs = func.vmap(batch.function, in_dims=batch.in_dims)(*inputs)
    wanted = [x for n, x in zip(subject.program.inputs, inputs, strict=True) if n in subject.floats]
    yield Comparison("gradient", pulled([outs[k] for k in subject.kept], batch.stacked_weights(), wanted), want)


def vmap_of_grad(subject: Subject) -> Iterator[Comparison]:
    batch = Batch(subject)
    if batch.loop() is None:
        return
    want = [np.stack(g) for g in zip(*batch.gradients(), strict=True)]
    count = len(subject.program.inputs)

    def gradient(*values: Any) -> tuple[Any, ...]:
        held = dict(zip(subject.program.inputs, values[:count], strict=True))
        floats = [held.pop(n) for n in subject.floats]
        found: tuple[Any, ...] = func.vjp(subject.function(held), *floats)[1](tuple(values[count:]))
        return found

    dims = (*batch.in_dims, *(0 for _ in subject.kept))
    weights = [lucid.tensor(w) for w in batch.stacked_weights()]
    yield Comparison("gradient", func.vmap(gradient, in_dims=dims)(*batch.stacked(), *weights), want)


def vmap_of_jvp(subject: Subject) -> Iterator[Comparison]:
    """Several tangents at one point."""
    if not all(np.isfinite(v).all() for v in subject.float_values()):
        return
    tangents = [subject.directions, [subject.random_like(d) for d in subject.directions]]
    f, primals = subject.function(), subject.primals()
    got = func.vmap(lambda *vs: func.jvp(f, primals, vs)[1])(
        *[lucid.tensor(np.stack(v)) for v in zip(*tangents, strict=True)]
    )
    if not subject.are_regular(got):
        return
    want = [inner(subject.gradient, v) for v in tangents]
    yield Comparison("tangents", [inner(subject.weights, [array(t)[i] for t in got]) for i in range(2)], want)
