"""What a recorded call on small tensors costs beyond its kernels.

    python -m benchmarks.prices

For each call the kernels that it runs are noted first, and then timed by themselves, in turns with the call.
"""

import time
from collections.abc import Callable
from typing import Any

import lucid
from lucid.core.kernels import load_all
from lucid.core.primitive import registry

ROUNDS, CALLS = 100, 100
WRITE = "x[i] = v"  # into a copy, of which the price is taken off: a write that is recorded makes a history longer


def cases() -> dict[str, Callable[[], Any]]:
    a, b = (lucid.randn(4).requires_grad_() for _ in range(2))
    m = lucid.randn(4, 4).requires_grad_()
    places, positive = lucid.tensor([0, 2]), a.detach() > 0

    def write() -> None:
        a.clone()[1:3] = 0.5

    return {
        "a * b": lambda: a * b,
        "a * 2.0": lambda: a * 2.0,
        "exp": lambda: a.exp(),
        "tanh": lambda: a.tanh(),
        "where": lambda: lucid.where(positive, a, b),
        "clamp": lambda: a.clamp(0.0, 1.0),
        "pow": lambda: a**2,
        "reshape": lambda: a.reshape(2, 2),
        "slice": lambda: a[1:3],
        "permute": lambda: m.permute(1, 0),
        "expand": lambda: a.expand(3, 4),
        "sum": lambda: a.sum(),
        "sum of a dim": lambda: m.sum(0),
        "mean": lambda: a.mean(),
        "amax": lambda: a.amax(0),
        "cumsum": lambda: a.cumsum(0),
        "softmax": lambda: a.softmax(0),
        "dot": lambda: a.dot(b),
        "m @ m": lambda: m @ m,
        "m @ a": lambda: m @ a,
        "cat of four": lambda: lucid.cat([a, b, a, b]),
        "stack of two": lambda: lucid.stack([a, b]),
        "a[places]": lambda: a[places],
        WRITE: write,
        "clone": lambda: a.clone(),
    }


def kernels_of(call: Callable[[], Any]) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """The kernels that a call runs, with what they are given."""
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    call()  # which finds the kernels that are made when they are first needed
    before = {name: prim.kernel for name, prim in registry.items()}

    def noting(kernel: Any) -> Any:
        def run(*arrays: Any, **params: Any) -> Any:
            found.append((kernel, arrays, params))
            return kernel(*arrays, **params)

        return run

    for name, kernel in before.items():
        registry[name].kernel = noting(kernel)
    try:
        call()
    finally:
        for name, kernel in before.items():
            registry[name].kernel = kernel
    return found


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def main() -> None:
    load_all()
    print(f"{'call':14} {'µs':>7} {'kernels':>8} {'beyond':>7}")
    calls = cases()
    for name, call in calls.items():
        parts = kernels_of(call)
        copied = calls["clone"] if name == WRITE else None
        if copied is not None:
            parts = parts[len(kernels_of(copied)) :]

        def alone(parts: Any = parts) -> None:
            for kernel, arrays, params in parts:
                kernel(*arrays, **params)

        rounds = [(timed(call), timed(alone), timed(copied) if copied else 0.0) for _ in range(ROUNDS)]
        whole, bare, copy = (min(times) for times in zip(*rounds, strict=True))
        whole -= copy
        print(f"{name:14} {whole:7.2f} {bare:8.2f} {whole - bare:7.2f}")


if __name__ == "__main__":
    main()
