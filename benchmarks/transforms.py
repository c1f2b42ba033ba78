"""Transforms against torch.func: the same functions, from the same arrays."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.libraries import Library, Thunk
from benchmarks.workloads import Workload


def weights(*widths: int) -> list[np.ndarray]:
    """Weights and biases of a network with these widths."""
    rng = np.random.default_rng(0)
    found = []
    for n, m in pairwise(widths):
        found += [(rng.standard_normal((n, m)) / n**0.5).astype(np.float32), np.zeros(m, np.float32)]
    return found


def points(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def network(parameters: Any, x: Any) -> Any:
    """tanh between layers, nothing after the last."""
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
        x = (x @ w + b).tanh()
    return x @ parameters[-2] + parameters[-1]


def squared_error(parameters: Any, x: Any, y: Any) -> Any:
    return ((network(parameters, x) - y) ** 2).sum()


def per_sample(lib: Library) -> Thunk:
    """One gradient for each example of a batch."""
    func = lib.func
    parameters = [lib.constant(a) for a in weights(64, 64, 64, 10)]
    x, y = lib.constant(points(64, 64)), lib.constant(points(64, 10))
    gradients = lib.prepared(func.vmap(func.grad(squared_error), in_dims=(None, 0, 0)))
    return lambda: list(gradients(parameters, x, y))


def per_sample_loop(lib: Library) -> Thunk:
    """The same, one example after the other."""
    parameters = [lib.constant(a) for a in weights(64, 64, 64, 10)]
    x, y = points(64, 64), points(64, 10)
    examples = [(lib.constant(a), lib.constant(b)) for a, b in zip(x, y)]
    gradient = lib.func.grad(squared_error)
    return lambda: [gradient(parameters, a, b) for a, b in examples]


def _jacobian(transform: str) -> Callable[[Library], Thunk]:
    def bind(lib: Library) -> Thunk:
        parameters = [lib.constant(a) for a in weights(64, 128, 64)]
        x = lib.constant(points(64))
        jacobian = getattr(lib.func, transform)(lambda x: network(parameters, x).tanh())
        prepared = lib.prepared(jacobian)
        return lambda: prepared(x)

    return bind


def _hessian(lib: Library) -> Thunk:
    parameters = [lib.constant(a) for a in weights(64, 64, 1)]
    x = lib.constant(points(64))
    hessian = lib.func.hessian(lambda x: network(parameters, x).sum())
    prepared = lib.prepared(hessian)
    return lambda: prepared(x)


def _pinn(lib: Library) -> Thunk:
    """The residual of u'' + u = 0 at 256 points, and its gradient by the parameters of the network u."""
    parameters = [lib.leaf(a) for a in weights(1, 64, 64, 1)]
    places = lib.constant(points(256, 1))

    def run() -> list[Any]:
        x = places.detach().clone().requires_grad_()
        u = network(parameters, x)
        (slope,) = lib.gradients(u.sum(), [x], True)
        (bend,) = lib.gradients(slope.sum(), [x], True)
        return list(lib.gradients(((bend + u) ** 2).mean(), parameters, False))

    return lib.prepared(run)


def _function(lib: Library) -> tuple[Callable[[Any], Any], Any, Any]:
    parameters = [lib.constant(a) for a in weights(64, 128, 64)]
    return lambda x: network(parameters, x).tanh(), lib.constant(points(64, 64)), lib.constant(points(64, 64) * 0.5)


def function_alone(lib: Library) -> Thunk:
    f, x, _ = _function(lib)
    return lambda: f(x)


def pushed(lib: Library) -> Thunk:
    f, x, t = _function(lib)
    return lambda: lib.func.jvp(f, (x,), (t,))


def linearized(lib: Library) -> Thunk:
    f, x, t = _function(lib)
    push = lib.func.linearize(f, x)[1]
    return lambda: push(t)


PEERS = ("lucid", "lucid.compile", "torch", "torch.compile", "jax")
TRANSFORMS = (
    Workload(
        "per-sample",
        "per-sample gradients, MLP 64-64-64-10, batch 64: vmap(grad)",
        per_sample,
        {"torch": 2.0},
        PEERS,
    ),
    Workload("jacrev", "Jacobian of a 64-128-64 tanh MLP: jacrev", _jacobian("jacrev"), {"torch": 2.0}, PEERS),
    Workload("jacfwd", "the same: jacfwd", _jacobian("jacfwd"), {"torch": 2.0}, PEERS),
    Workload("hessian", "Hessian of a 64-64-1 MLP", _hessian, {"torch": 2.0}, PEERS),
    Workload("pinn", "physics-informed loss, MLP 1-64-64-1, 256 points, gradient", _pinn, {"torch": 1.5}, PEERS),
)

# Lucid against itself: how many times the second the first takes, and the bound hoped for.
RATIOS = (
    ("loop", "a Python loop of grad against vmap(grad)", per_sample_loop, per_sample, ("≥", 20.0)),
    ("jvp", "jvp of a 64-128-64 tanh MLP, batch 64, against the MLP alone", pushed, function_alone, ("≤", 3.0)),
    ("linearize", "the pushforward from linearize against the MLP alone", linearized, function_alone, None),
)
