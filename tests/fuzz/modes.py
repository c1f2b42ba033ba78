"""The ways to run a program. Each takes a subject and yields comparisons; what it raises is judged too.

A way that gives a function with the same values and derivatives is one line of `MODES`: `same_function(transform)`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fuzz import batches, graphs, parity
from fuzz.program import array
from fuzz.subject import Comparison, Subject, inner, pulled
from lucid import autograd, compile, func

Run = Callable[[Subject], Iterator[Comparison]]
Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


class Mode(NamedTuple):
    run: Run
    example: str  # how a reader runs it, with f the program, xs its inputs, vs tangents, ws cotangents
    order: int = 1  # how many derivatives it takes
    traced: bool = False  # shapes that depend on values are refused


# --- first order ---------------------------------------------------------------------------------


def eager(subject: Subject) -> Iterator[Comparison]:
    """The same values a second time, and inputs as they were."""
    inputs = subject.program.tensors()
    yield Comparison("values", subject.program(inputs), subject.values)
    yield Comparison("inputs after the run", list(inputs.values()), list(subject.program.inputs.values()))


def tape(subject: Subject) -> Iterator[Comparison]:
    """Reverse mode against finite differences."""
    inputs = [subject.program.inputs[n] for n in subject.floats]
    yield Comparison("types of gradients", [g.dtype.name for g in subject.gradient], [a.dtype.name for a in inputs])
    if not subject.has_differences:
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
    if subject.has_differences:
        pairs = zip(tangents, subject.differences, strict=True)
        got = [np.where(ok, array(t), 0) for t, (_, ok) in pairs]
        yield Comparison("tangents", got, [np.where(ok, d, 0) for d, ok in subject.differences], True)
    if all(np.isfinite(v).all() for v in subject.float_values()) and subject.are_regular(tangents):
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
    """All operands together, against finite differences of the gradient."""
    got, around = subject.curvature, subject.gradient_differences
    if around:
        pairs = [(np.where(ok, g, 0), np.where(ok, d, 0)) for g, (d, ok) in zip(got, around, strict=True)]
        yield Comparison("curvature", [g for g, _ in pairs], [d for _, d in pairs], finite_differences=True)


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


def compile_of_grad(subject: Subject) -> Iterator[Comparison]:
    """The gradient as machine code, at two points."""
    compiled = compile(gradient_of(subject))
    yield Comparison("gradient", compiled(*subject.primals()), subject.gradient)
    yield Comparison("gradient again", compiled(*subject.primals()), subject.gradient)


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
    "vmap": Mode(batches.vmap, "func.vmap(f, in_dims)(*xs)", 0, traced=True),
    "grad of vmap": Mode(batches.grad_of_vmap, "autograd.grad(func.vmap(f, in_dims)(*xs), xs, ws)", traced=True),
    "vmap of grad": Mode(batches.vmap_of_grad, "func.vmap(lambda *xs: func.vjp(f, *xs)[1](ws), in_dims)(*xs)", traced=True),
    "vmap of jvp": Mode(batches.vmap_of_jvp, "func.vmap(lambda *vs: func.jvp(f, xs, vs)[1])(*[v[None] for v in vs])"),
    "graph": Mode(graphs.graph, "func.make_graph(f)(*others)(*xs)", 0, traced=True),
    "graph of grad": Mode(graphs.graph_of_grad, "func.make_graph(lambda *xs: func.vjp(f, *xs)[1](ws))(*others)(*xs)", traced=True),
    "compile": Mode(same_function(compile), "autograd.grad(lucid.compile(f)(*xs), xs, ws)", traced=True),
    "compile of grad": Mode(compile_of_grad, "lucid.compile(lambda *xs: func.vjp(f, *xs)[1](ws))(*xs)", traced=True),
    "grad of graph": Mode(graphs.graph_in_grad, "autograd.grad(func.make_graph(f)(*others)(*xs), xs, ws)", traced=True),
}  # fmt: skip
EVERY = {**ALWAYS, **MODES}
