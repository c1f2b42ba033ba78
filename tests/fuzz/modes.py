"""The ways to run a program. Each takes a subject and yields comparisons; what it raises is judged too.

A way that gives a function with the same values and derivatives is one line of `MODES`: `same_function(transform)`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from checks import REFUSALS

import lucid
from fuzz import parity
from fuzz.program import Array, array, is_float
from fuzz.subject import STEP, Comparison, Subject, inner, pulled, slope_around
from lucid import autograd, func

Run = Callable[[Subject], Iterator[Comparison]]
Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


class Mode(NamedTuple):
    run: Run
    example: str  # how a reader runs it, with f the program, xs its inputs, vs tangents, ws cotangents
    order: int = 1  # how many derivatives it takes
    batched: bool = False


# --- first order ---------------------------------------------------------------------------------


def eager(subject: Subject) -> Iterator[Comparison]:
    """The same values a second time, and inputs as they were."""
    inputs = subject.program.tensors()
    yield Comparison("values", subject.program(inputs), subject.values)
    yield Comparison("inputs after the run", list(inputs.values()), list(subject.program.inputs.values()))


def tape(subject: Subject) -> Iterator[Comparison]:
    """Reverse mode against finite differences."""
    if subject.program.narrow or subject.program.detaches:
        _ = subject.gradient
        return
    trusted = [ok for _, ok in subject.differences]
    weights = [np.where(ok, w, 0) for w, ok in zip(subject.weights, trusted, strict=True)]
    want = inner(weights, [np.where(ok, d, 0) for d, ok in subject.differences])
    if all(ok.all() for ok in trusted):
        yield Comparison("gradient", [subject.slope], [want], finite_differences=True)
    elif subject.kept:
        inputs = subject.primals(requires_grad=True)
        got = inner(pulled(subject.function()(*inputs), weights, inputs), subject.directions)
        # No cotangent at a singular point may still be 0 times infinity.
        if np.isfinite(got):
            yield Comparison("gradient where there is one", [got], [want], finite_differences=True)


def tape_of_some(subject: Subject) -> Iterator[Comparison]:
    """Only some inputs require grad."""
    chosen = subject.rng.random(len(subject.floats)) < 0.5
    inputs = subject.primals()
    wanted = [x.requires_grad_() for x, yes in zip(inputs, chosen, strict=True) if yes]
    got = pulled(subject.function()(*inputs), subject.weights, wanted)
    yield Comparison("gradient", got, [g for g, yes in zip(subject.gradient, chosen, strict=True) if yes])


def vjp(subject: Subject) -> Iterator[Comparison]:
    outs, pull = func.vjp(subject.function(), *subject.primals())
    yield Comparison("values", outs, subject.float_values())
    yield Comparison("gradient", pull(subject.cotangents()), subject.gradient)


def forward(subject: Subject, outs: Sequence[Any], tangents: Sequence[Any]) -> Iterator[Comparison]:
    yield Comparison("values", outs, subject.float_values())
    if not (subject.program.narrow or subject.program.detaches):
        pairs = zip(tangents, subject.differences, strict=True)
        got = [np.where(ok, array(t), 0) for t, (_, ok) in pairs]
        yield Comparison("tangents", got, [np.where(ok, d, 0) for d, ok in subject.differences], True)
    yield Comparison("tangents against gradient", [inner(subject.weights, tangents)], [subject.slope])


def jvp(subject: Subject) -> Iterator[Comparison]:
    yield from forward(subject, *func.jvp(subject.function(), subject.primals(), subject.tangents()))


def linearize(subject: Subject) -> Iterator[Comparison]:
    outs, push = func.linearize(subject.function(), *subject.primals())
    yield from forward(subject, outs, push(*subject.tangents()))


def same_function(transform: Transform) -> Run:
    """A transform that changes neither values nor derivatives."""

    def run(subject: Subject) -> Iterator[Comparison]:
        inputs = subject.primals(requires_grad=True)
        outs = transform(subject.function())(*inputs)
        yield Comparison("values", outs, subject.float_values())
        yield Comparison("gradient", pulled(outs, subject.weights, inputs), subject.gradient)

    return run


# --- second order --------------------------------------------------------------------------------


def second(subject: Subject) -> Iterator[Comparison]:
    """All operands together, against finite differences of the gradient, and by the cotangents."""
    got = subject.curvature
    if subject.program.narrow or subject.program.detaches:
        return
    if not all(ok.all() for _, ok in subject.differences):
        return
    around = []
    for step in (STEP, -STEP):
        inputs = subject.primals(requires_grad=True, step=step)
        around.append([array(g) for g in pulled(subject.function()(*inputs), subject.weights, inputs)])
    found = [slope_around(*three) for three in zip(*around, subject.gradient, strict=True)]
    if all(ok.all() for _, ok in found):
        yield Comparison("curvature", got, [change for change, _ in found], finite_differences=True)


def second_of_each(subject: Subject) -> Iterator[Comparison]:
    """The first derivative asks for one operand alone; then by all."""
    inputs = subject.primals(requires_grad=True)
    outs = subject.function()(*inputs)
    together = pulled(outs, subject.weights, inputs, create_graph=True)
    for k in subject.rng.permutation(len(inputs))[:3]:
        (alone,) = pulled(subject.function()(*inputs), subject.weights, [inputs[k]], create_graph=True)
        yield Comparison("gradient", [alone], [subject.gradient[k]])
        got, want = (pulled([g], [subject.directions[k]], inputs, retain_graph=True) for g in (alone, together[k]))
        yield Comparison("curvature", got, want)


def gradient_of(subject: Subject) -> Callable[..., tuple[Any, ...]]:
    f, weights = subject.function(), subject.cotangents()

    def gradient(*floats: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = func.vjp(f, *floats)[1](weights)
        return found

    return gradient


def jvp_of_grad(subject: Subject) -> Iterator[Comparison]:
    outs, changes = func.jvp(gradient_of(subject), subject.primals(), subject.tangents())
    yield Comparison("gradient", outs, subject.gradient)
    yield Comparison("curvature", changes, subject.curvature)


def grad_of_jvp(subject: Subject) -> Iterator[Comparison]:
    f, directions = subject.function(), subject.tangents()
    _, pull = func.vjp(lambda *floats: func.jvp(f, floats, directions)[1], *subject.primals())
    yield Comparison("curvature", pull(subject.cotangents()), subject.curvature)


# --- batches -------------------------------------------------------------------------------------


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
        return (
            np.asarray(a * (1 + 0.03 * i)).astype(a.dtype)
            if is_float(a)
            else np.roll(a.reshape(-1), i).reshape(a.shape)
        )

    @property
    def in_dims(self) -> tuple[int | None, ...]:
        return tuple(0 if n in self.chosen else None for n in self.subject.program.inputs)

    def stacked(self, requires_grad: bool = False) -> list[Any]:
        found = []
        for name, a in self.subject.program.inputs.items():
            x = lucid.tensor(np.stack([p[name] for p in self.points]) if name in self.chosen else a)
            found.append(x.requires_grad_() if requires_grad and is_float(a) else x)
        return found

    def function(self, *values: Any) -> tuple[Any, ...]:
        return self.subject.program(dict(zip(self.subject.program.inputs, values, strict=True)))

    def loop(self) -> list[Array] | None:
        """The results of each point; None if the program does not take all of them."""
        try:
            outs = [self.subject.program({n: lucid.tensor(a) for n, a in p.items()}) for p in self.points]
            return [np.stack([array(o) for o in each]) for each in zip(*outs, strict=True)]
        except REFUSALS:
            return None

    def gradients(self) -> list[list[Array]]:
        """Of each point, by the tape."""
        found = []
        for point, weights in zip(self.points, self.weights, strict=True):
            values = {n: lucid.tensor(a) for n, a in point.items()}
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
    tangents = [subject.directions, [subject.random_like(d) for d in subject.directions]]
    f, primals = subject.function(), subject.primals()
    got = func.vmap(lambda *vs: func.jvp(f, primals, vs)[1])(
        *[lucid.tensor(np.stack(v)) for v in zip(*tangents, strict=True)]
    )
    want = [inner(subject.gradient, v) for v in tangents]
    yield Comparison("tangents", [inner(subject.weights, [array(t)[i] for t in got]) for i in range(2)], want)


# Rows that take weights as they are, and have derivatives that do so too.
WEIGHTED = re.compile(r"^(conv|rnn|lstm|gru|linear$|matmul$|mm$|bmm$)|norm$|attention$")

# --- graphs --------------------------------------------------------------------------------------


def held_input(subject: Subject) -> list[str]:
    """An input that a graph finds outside, or none: read in one line, as it is, beside what the graph is given.

    What a function makes of outside tensors alone is fixed when it is traced.
    """
    fit = []
    for line in subject.program.lines:
        given = any(n not in subject.others for n in line.uses)
        for n in line.uses if WEIGHTED.search(line.row) and "clone" not in line.text and given else ():
            alone = sum(n in other.uses for other in subject.program.lines) == 1 and len(line.uses) > 1
            if n in subject.floats and alone and re.search(rf", {n}[,)]", line.text):
                fit.append(n)
    return [str(subject.rng.choice(fit))] if fit and subject.rng.random() < 0.7 else []


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
    outs = func.make_graph(subject.function())(*[x.detach() * 1.03 for x in inputs])(*inputs)
    yield Comparison("gradient", pulled(outs, subject.weights, inputs), subject.gradient)


CHECKPOINT = same_function(lambda f: lambda *xs: autograd.checkpoint(f, *xs))
ALWAYS = {
    "eager": Mode(eager, "f(*xs)", 0),
    "tape": Mode(tape, "autograd.grad(f(*xs), xs, ws)"),
}
MODES = {
    "torch": Mode(parity.torch_mode, "f(*xs)  # with torch in the place of lucid"),
    "tape of some": Mode(tape_of_some, "autograd.grad(f(*xs), some of xs, ws)"),
    "vjp": Mode(vjp, "func.vjp(f, *xs)[1](ws)"),
    "jvp": Mode(jvp, "func.jvp(f, xs, vs)"),
    "linearize": Mode(linearize, "func.linearize(f, *xs)[1](*vs)"),
    "checkpoint": Mode(CHECKPOINT, "autograd.grad(autograd.checkpoint(f, *xs), xs, ws)"),
    "second": Mode(second, "autograd.grad(autograd.grad(f(*xs), xs, ws, create_graph=True), xs, vs)", 2),
    "second of each": Mode(second_of_each, "autograd.grad(autograd.grad(f(*xs), xs[k], ws, create_graph=True), xs, vs[k])", 2),
    "jvp of grad": Mode(jvp_of_grad, "func.jvp(lambda *xs: func.vjp(f, *xs)[1](ws), xs, vs)", 2),
    "grad of jvp": Mode(grad_of_jvp, "func.vjp(lambda *xs: func.jvp(f, xs, vs)[1], *xs)[1](ws)", 2),
    "vmap": Mode(vmap, "func.vmap(f, in_dims)(*xs)", 0, batched=True),
    "grad of vmap": Mode(grad_of_vmap, "autograd.grad(func.vmap(f, in_dims)(*xs), xs, ws)", batched=True),
    "vmap of grad": Mode(vmap_of_grad, "func.vmap(lambda *xs: func.vjp(f, *xs)[1](ws), in_dims)(*xs)", batched=True),
    "vmap of jvp": Mode(vmap_of_jvp, "func.vmap(lambda *vs: func.jvp(f, xs, vs)[1])(*vs)"),
    "graph": Mode(graph, "func.make_graph(f)(*others)(*xs)", 0),
    "graph of grad": Mode(graph_of_grad, "func.make_graph(lambda *xs: func.vjp(f, *xs)[1](ws))(*others)(*xs)"),
    "grad of graph": Mode(graph_in_grad, "autograd.grad(func.make_graph(f)(*others)(*xs), xs, ws)"),
}  # fmt: skip
EVERY = {**ALWAYS, **MODES}
