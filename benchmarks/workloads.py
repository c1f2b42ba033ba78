"""What is timed: each workload once, for every library, from the same arrays."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.libraries import Library, Thunk


@dataclass(frozen=True)
class Workload:
    """Something to time. `targets` says how many times slower than Lucid each peer should be."""

    name: str
    title: str
    bind: Callable[[Library], Thunk]
    targets: dict[str, float] = field(default_factory=dict)
    libraries: tuple[str, ...] | None = None  # those that can do it; None: all

    def bound(self, lib: Library) -> Thunk:
        """The call that is timed, as the library's users would write it."""
        return lib.own.get(self.name, self.bind)(lib)


def normal(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def chain_loss(lib: Library, y: Any, b: Any) -> Any:
    for _ in range(100):
        y = y * b
    return y.sum()


def _chain(lib: Library) -> Thunk:
    return lib.value_and_gradient(chain_loss, [np.ones(8, np.float32)], [np.full(8, 1.01, np.float32)])


def _chain_shared(lib: Library) -> Thunk:
    shared = lib.shared(np.full(8, 1.01, np.float32))
    return lib.value_and_gradient(lambda lib, x: chain_loss(lib, x, shared), [np.ones(8, np.float32)], [])


def rosenbrock(lib: Library, x: Any) -> Any:
    head, tail = x[:-1], x[1:]
    return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()


def _rosenbrock(lib: Library) -> Thunk:
    return lib.value_and_gradient(rosenbrock, [normal(0, 100, dtype=np.float64)], [])


def mlp_loss(lib: Library, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, target: Any) -> Any:
    difference = lib.relu(x @ w1 + b1) @ w2 + b2 - target
    return (difference * difference).sum()


def mlp_arrays() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Parameters of a 64-64-10 network, and a batch of 32."""
    parameters = [normal(1, 64, 64) / 8, np.zeros(64, np.float32), normal(2, 64, 10) / 8, np.zeros(10, np.float32)]
    return parameters, [normal(3, 32, 64), normal(4, 32, 10)]


def _mlp(lib: Library) -> Thunk:
    return lib.value_and_gradient(mlp_loss, *mlp_arrays())


def _recorded_multiply(lib: Library) -> Thunk:
    x, b = lib.leaf(np.ones(8, np.float32)), lib.constant(np.full(8, 1.01, np.float32))
    return lambda: x * b


def _unrecorded_multiply(lib: Library) -> Thunk:
    a, b = lib.constant(np.ones(8, np.float32)), lib.constant(np.full(8, 1.01, np.float32))
    return lambda: a * b


WORKLOADS = (
    Workload(
        "chain",
        "100 multiplies of 8 float32, forward + backward",
        _chain,
        {"torch": 2.5, "autograd": 4.0, "mygrad": 3.5},
    ),
    Workload("shared", "the same, by a constant over a NumPy array's memory", _chain_shared),
    Workload(
        "rosenbrock",
        "Rosenbrock in 100 dimensions, float64, value + gradient",
        _rosenbrock,
        {"torch": 2.5, "autograd": 2.5, "mygrad": 1.3},
    ),
    Workload("recorded", "one recorded multiply, 8 float32", _recorded_multiply),
    Workload("unrecorded", "one unrecorded multiply, 8 float32", _unrecorded_multiply),
    Workload("mlp", "MLP 64-64-10, batch 32, forward + backward", _mlp),
)


def check_agreement(workload: Workload, libraries: Sequence[Library], thunks: dict[str, Thunk]) -> None:
    """All libraries must compute the same numbers, else their times mean nothing. A peer that cannot is left out."""
    results = {}
    for lib in libraries:
        try:
            results[lib.name] = _arrays(lib, thunks[lib.name]())
        except Exception as error:
            if lib.name.startswith("lucid"):
                raise
            del thunks[lib.name]
            print(f"  left out of {workload.name}: {lib.name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    first = libraries[0].name
    for name, arrays in results.items():
        for ours, theirs in zip(results[first], arrays, strict=True):
            if ours.dtype != theirs.dtype or not np.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
                raise AssertionError(f"{workload.name}: {name} and {first} disagree: {theirs} and {ours}")


def _arrays(lib: Library, result: Any) -> list[np.ndarray]:
    return [lib.array(v) for v in (result if isinstance(result, list) else [result])]
