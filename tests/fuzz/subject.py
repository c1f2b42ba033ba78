"""A program at one point, with directions and weights: the quantities that modes are compared by."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from checks import REFUSALS

import lucid
from fuzz.program import Array, Program, array, is_float, tensor
from lucid import autograd
from lucid.core.tensor import Tensor

STEP = 1e-5  # of finite differences


class Comparison(NamedTuple):
    """One quantity, as a mode gives it and as it should be."""

    what: str
    got: Sequence[Any]
    want: Sequence[Any]
    finite_differences: bool = False
    op: str = ""  # the statement it is about, where that is known


class Subject:
    """Everything is a function of the float inputs, by position; other inputs are held."""

    def __init__(self, program: Program, seed: int, step: float = STEP) -> None:
        self.program, self.seed, self.step = program, seed, step
        self.rng = np.random.default_rng(seed)
        self.floats = program.floats
        self.others = [n for n in program.inputs if n not in self.floats]
        self.values = [array(o).copy() for o in program(program.tensors())]
        self.kept = [k for k, v in enumerate(self.values) if is_float(v)]  # the results that have derivatives
        self.weights = [self.random_like(self.values[k]) for k in self.kept]
        self.directions = [self.random_like(program.inputs[name]) for name in self.floats]

    def for_mode(self, name: str) -> "Subject":
        """The choices of a mode do not depend on which ones ran before."""
        self.rng = np.random.default_rng([self.seed, crc32(name.encode())])
        return self

    def random_like(self, a: Array) -> Array:
        values = np.asarray(self.rng.uniform(-1, 1, a.shape))
        if a.dtype.kind == "c":
            values = values + 1j * self.rng.uniform(-1, 1, a.shape)
        return np.asarray(values).astype(a.dtype)

    # --- the program as a function ---------------------------------------------------------------

    def primals(self, requires_grad: bool = False, step: float = 0.0) -> tuple[Tensor, ...]:
        """The float inputs, moved along the directions."""
        pairs = zip((self.program.inputs[n] for n in self.floats), self.directions, strict=True)
        made = [tensor(a) for a, _ in pairs] if not step else [tensor(moved(a, step * d)) for a, d in pairs]
        return tuple(x.requires_grad_() if requires_grad else x for x in made)

    def tangents(self) -> tuple[Tensor, ...]:
        return tuple(map(lucid.tensor, self.directions))

    def cotangents(self) -> tuple[Tensor, ...]:
        return tuple(map(lucid.tensor, self.weights))

    def function(self, held: Mapping[str, Any] | None = None) -> Callable[..., tuple[Any, ...]]:
        """The float results as a function of the float inputs."""
        others = {n: lucid.tensor(self.program.inputs[n]) for n in self.others}
        others.update(held or {})

        def f(*floats: Any) -> tuple[Any, ...]:
            outs = self.program({**others, **dict(zip(self.floats, floats, strict=True))})
            return tuple(outs[k] for k in self.kept)

        return f

    # --- what it is ------------------------------------------------------------------------------

    def float_values(self) -> list[Array]:
        return [self.values[k] for k in self.kept]

    @cached_property
    def gradient(self) -> list[Array]:
        """By the tape."""
        inputs = self.primals(requires_grad=True)
        return [array(g) for g in pulled(self.function()(*inputs), self.weights, inputs)]

    @cached_property
    def slope(self) -> float:
        return inner(self.gradient, self.directions)

    @cached_property
    def curvature(self) -> list[Array]:
        """The second derivative along the directions: the tape over the tape."""
        inputs = self.primals(requires_grad=True)
        first = pulled(self.function()(*inputs), self.weights, inputs, create_graph=True)
        return [array(g) for g in pulled(first, self.directions, inputs)]

    def are_regular(self, tangents: Sequence[Any]) -> bool:
        """Whether forward mode can say the same as reverse mode.

        Elsewhere it may meet a product of infinity and 0 that reverse mode, which begins at the other end, does not.
        """
        return all(ok.all() for _, ok in self.differences) or all(np.isfinite(array(t)).all() for t in tangents)

    @property
    def has_differences(self) -> bool:
        """Whether differences of values say anything about derivatives."""
        return not (self.program.narrow or self.program.detaches)

    @cached_property
    def gradient_differences(self) -> list[tuple[Array, Array]]:
        """Finite differences of the gradient along the directions, and where they can be trusted; empty if nowhere."""
        if not self.has_differences or not all(ok.all() for _, ok in self.differences):
            return []
        around = []
        for step in (self.step, -self.step):
            inputs = self.primals(requires_grad=True, step=step)
            around.append([array(g) for g in pulled(self.function()(*inputs), self.weights, inputs)])
        return [self.slope_around(*three) for three in zip(*around, self.gradient, strict=True)]

    @cached_property
    def differences(self) -> list[tuple[Array, Array]]:
        """Finite differences of the float results along the directions, and where they can be trusted."""
        untrusted = [(np.zeros_like(v), np.zeros(v.shape, bool)) for v in self.float_values()]
        if not all(np.isfinite(self.program.inputs[n]).all() for n in self.floats):
            return untrusted
        f, here = self.function(), self.float_values()
        try:
            ahead, behind = ([array(o).copy() for o in f(*self.primals(step=h))] for h in (self.step, -self.step))
            if [a.shape for a in ahead] == [b.shape for b in behind] == [v.shape for v in here]:
                return [self.slope_around(*three) for three in zip(ahead, behind, here, strict=True)]
        except REFUSALS:  # the point is at the edge of what a statement takes, or shapes depend on values
            pass
        return untrusted

    def slope_around(self, ahead: Array, behind: Array, here: Array) -> tuple[Array, Array]:
        """The central difference, and where those to both sides agree: elsewhere there is a kink or a jump."""
        with np.errstate(all="ignore"):
            right, left = (ahead - here) / self.step, (here - behind) / self.step
            slope = (ahead - behind) / (2 * self.step)
            smooth = np.abs(right - left) <= 3e-4 * (1 + np.abs(slope))
        return np.asarray(slope), np.asarray(smooth & np.isfinite(slope))


def moved(a: Array, change: Array) -> Array:
    """The sum, laid out as `a` is."""
    out = np.array(a, order="K")
    out += change
    return out


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Re<a, b>, summed over all arrays."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(np.conj(array(x)) * array(y)).real for x, y in zip(a, b, strict=True)))


def pulled(outs: Sequence[Any], weights: Sequence[Any], inputs: Sequence[Tensor], **how: Any) -> list[Tensor]:
    """Gradients on the tape, zeros where there is no connection."""
    pairs = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
    empty = [lucid.zeros_like(x) for x in inputs]
    if not pairs or not inputs:
        return empty
    live, seeds = zip(*pairs, strict=True)
    seeds = [s if isinstance(s, Tensor) else lucid.tensor(s) for s in seeds]
    found = autograd.grad(live, inputs, grad_outputs=seeds, allow_unused=True, **how)
    return [zero if g is None else g for g, zero in zip(found, empty, strict=True)]
