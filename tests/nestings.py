"""Nestings of transforms over small functions, and what they should give.

A *step* turns a function from R^n to R into another one: a directional derivative in some mode, or a weighted sum over a
batch of scaled points. So steps nest in any order. A reference does the same to a NumPy formula, where a derivative is
Cauchy's integral over a circle in the complex plane: exact to rounding for the entire functions that are used here,
to any order, and without a derivative rule anywhere.

A reference takes three points at once: `x`, which every derivative moves; `pushed`, which only forward mode moves (what
is computed under no_grad); and `held`, which nothing moves (what is detached).
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import lucid
from lucid import autograd, func

N = 3
X = np.array([0.4, 0.7, -0.5])
V = np.array([0.9, -0.6, 0.8])
SCALES = np.array([1.0, 0.6, -0.7])
WEIGHTS = np.array([0.5, -1.1, 0.8])
NODES = 12
RADIUS = 0.08
FORWARD, REVERSE = np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])

Function = Callable[[Any], Any]


def tensor(values: Any) -> Any:
    return lucid.tensor(np.array(values, dtype=float), dtype=lucid.float64)


# What a step does to a formula.


def derivative_of(ref: Function, moved: np.ndarray) -> Function:
    """The derivative along V, by Cauchy's integral; `moved` says which of the three points V moves."""
    turns = np.exp(2j * np.pi * np.arange(NODES) / NODES)
    change = RADIUS * turns[:, None] * V
    shift = moved.reshape(3, 1, 1) * change

    def derivative(points: np.ndarray) -> Any:
        rows = points[..., None, :] + shift.reshape(3, *[1] * (points.ndim - 2), NODES, N)
        return (ref(rows) / turns).mean(-1) / RADIUS

    return derivative


def summed_over_batch(ref: Function) -> Function:
    return lambda points: sum(w * ref(points * s) for w, s in zip(WEIGHTS, SCALES, strict=True))


# What it does to a function of tensors.


def by_grad(f: Function) -> Function:
    return lambda x: (func.grad(f)(x) * tensor(V)).sum()


def by_jvp(f: Function) -> Function:
    return lambda x: func.jvp(f, (x,), (tensor(V),))[1]


def by_vmap(f: Function) -> Function:
    return lambda x: (func.vmap(f)(tensor(SCALES)[:, None] * x) * tensor(WEIGHTS)).sum()


def by_backward(f: Function) -> Function:
    def directional(x: Any) -> Any:
        y = x.clone().requires_grad_()
        y.retain_grad()
        f(y).backward(create_graph=True, inputs=[y])
        return (y.grad * tensor(V)).sum()

    return directional


def by_tape(f: Function) -> Function:
    def directional(x: Any) -> Any:
        y = x.clone().requires_grad_()
        return autograd.grad(f(y), y, grad_outputs=tensor(1.0), create_graph=True).dot(tensor(V))

    return directional


def by_vjp(f: Function) -> Function:
    def directional(x: Any) -> Any:
        _, pull = func.vjp(f, x)
        return pull(tensor(1.0))[0].dot(tensor(V))

    return directional


def by_linearize(f: Function) -> Function:
    return lambda x: func.linearize(f, x)[1](tensor(V))


def by_jacfwd(f: Function) -> Function:
    return lambda x: func.jacfwd(f)(x) @ tensor(V)


def by_jacrev(f: Function) -> Function:
    return lambda x: func.jacrev(lambda y: f(y).reshape(1))(x)[0] @ tensor(V)


def by_duals(f: Function) -> Function:
    def directional(x: Any) -> Any:
        with autograd.forward_ad.dual_level():
            found = autograd.forward_ad.unpack_dual(f(autograd.forward_ad.make_dual(x, tensor(V))))
        return found.primal * 0 if found.tangent is None else found.tangent

    return directional


def by_chunks(f: Function) -> Function:
    return lambda x: (func.vmap(f, chunk_size=2)(tensor(SCALES)[:, None] * x) * tensor(WEIGHTS)).sum()


def by_columns(f: Function) -> Function:
    return lambda x: func.vmap(f, in_dims=1)(x[:, None] * tensor(SCALES)).dot(tensor(WEIGHTS))


def by_loop(f: Function) -> Function:
    return lambda x: sum(f(x * s) * w for w, s in zip(WEIGHTS.tolist(), SCALES.tolist(), strict=True))


def by_program(f: Function) -> Function:
    return lambda x: func.make_graph(f)(x * 0.5)(x)


def by_checkpoint(f: Function) -> Function:
    return lambda x: autograd.checkpoint(f, x)


# A closure in each step: the function inside uses the variable of the step outside.


def outer_factor(x: Any) -> Any:
    return (x * x).sum() + 0.5


def outer_factor_ref(points: np.ndarray) -> Any:
    return (points[0] ** 2).sum(-1) + 0.5


def with_closure(step: Callable[[Function], Function]) -> Callable[[Function], Function]:
    return lambda f: lambda x: step(lambda y: f(y) * outer_factor(x))(x)


def with_closure_ref(step: Callable[[Function], Function]) -> Callable[[Function], Function]:
    return lambda ref: lambda points: step(ref)(points) * outer_factor_ref(points)


class Step(NamedTuple):
    """A transform as a step, what it does to a formula, how many derivatives it takes, and whether on the tape."""

    name: str
    of_tensors: Callable[[Function], Function]
    of_formula: Callable[[Function], Function]
    order: int
    on_tape: bool

    @property
    def is_batch(self) -> bool:
        return self.name.rstrip("*") in ("vmap", "chunks", "columns")


def _forward(name: str, of_tensors: Callable[[Function], Function]) -> Step:
    return Step(name, of_tensors, lambda ref: derivative_of(ref, FORWARD), 1, False)


def _reverse(name: str, of_tensors: Callable[[Function], Function]) -> Step:
    return Step(name, of_tensors, lambda ref: derivative_of(ref, REVERSE), 1, True)


def _batch(name: str, of_tensors: Callable[[Function], Function]) -> Step:
    return Step(name, of_tensors, summed_over_batch, 0, False)


def _same(name: str, of_tensors: Callable[[Function], Function]) -> Step:
    return Step(name, of_tensors, lambda ref: ref, 0, False)


MAIN = (_reverse("grad", by_grad), _forward("jvp", by_jvp), _batch("vmap", by_vmap), _reverse("backward", by_backward))
GRAD, JVP, VMAP, BACKWARD = MAIN
OTHERS = (
    _reverse("tape", by_tape),
    _reverse("vjp", by_vjp),
    _forward("linearize", by_linearize),
    _forward("jacfwd", by_jacfwd),
    _reverse("jacrev", by_jacrev),
    _forward("duals", by_duals),
    _batch("chunks", by_chunks),
    _batch("columns", by_columns),
    _batch("loop", by_loop),
    _same("program", by_program),
    _same("checkpoint", by_checkpoint),
)
CLOSURES = tuple(
    s._replace(name=f"{s.name}*", of_tensors=with_closure(s.of_tensors), of_formula=with_closure_ref(s.of_formula))
    for s in MAIN
)


class Nesting(tuple[Step, ...]):
    """Steps, the outermost first."""

    def __str__(self) -> str:
        return "(".join(s.name for s in self)

    @property
    def order(self) -> int:
        return sum(s.order for s in self)

    @property
    def on_tape(self) -> bool:
        return any(s.on_tape for s in self)

    def of_tensors(self, f: Function) -> Function:
        for step in reversed(self):
            f = step.of_tensors(f)
        return f

    def of_formula(self, ref: Function) -> Function:
        for step in reversed(self):
            ref = step.of_formula(ref)
        return ref

    def expected(self, ref: Function) -> float:
        points = np.broadcast_to(X, (3, N)).astype(complex)
        return float(np.real(self.of_formula(ref)(points)))


def nestings(steps: Sequence[Step], depth: int) -> list[Nesting]:
    """All nestings of exactly this depth."""
    return [Nesting(chosen) for chosen in product(steps, repeat=depth)]


def pairs(some: Sequence[Step], others: Sequence[Step]) -> list[Nesting]:
    """Each of these alone, and inside and around each of the others."""
    found = dict.fromkeys(Nesting((a,)) for a in some)
    for a, b in product(some, others):
        found.update({Nesting((a, b)): None, Nesting((b, a)): None})
    return list(found)
