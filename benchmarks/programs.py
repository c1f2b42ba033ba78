"""Programs as people write them: rows stacked in Python, single elements, states written in place; and fused chains."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.libraries import Library, Loss, Thunk
from benchmarks.transforms import PEERS
from benchmarks.workloads import Workload, normal

Arrays = tuple[list[np.ndarray], list[np.ndarray]]  # by which gradients are taken, and the others


def mixture(lib: Library, weights: Any, means: Any, scales: Any, x: Any) -> Any:
    """The negative log-likelihood of points under a mixture of Gaussians, one row for each component."""
    ns = lib.namespace
    shares = ns.log_softmax(weights, 0)
    rows = []
    for k in range(8):
        z = (x - means[k]) * ns.exp(-scales[k])
        rows.append(shares[k] - scales[k].sum() - 0.5 * (z * z).sum(1))
    return -ns.logsumexp(ns.stack(rows), 0).mean()


def bundle(lib: Library, cameras: Any, points: Any, seen: Any) -> Any:
    """The error of points that cameras see: rotated by Rodrigues' formula, moved and projected, number by number."""
    ns = lib.namespace
    total = 0.0
    for i in range(4):
        camera = cameras[i]
        turn, move, focus = camera[:3], camera[3:6], camera[6]
        angle = ns.sqrt((turn * turn).sum() + 1e-12)
        axis = turn / angle
        cosine, sine = ns.cos(angle), ns.sin(angle)
        for j in range(8):
            p = points[j]
            across = ns.stack(
                [axis[1] * p[2] - axis[2] * p[1], axis[2] * p[0] - axis[0] * p[2], axis[0] * p[1] - axis[1] * p[0]]
            )
            q = p * cosine + across * sine + axis * (axis * p).sum() * (1 - cosine) + move
            error = focus * q[:2] / q[2] - seen[i, j]
            total = total + (error * error).sum()
    return total


def lstm(lib: Library, w: Any, u: Any, b: Any, x: Any) -> Any:
    """An LSTM by hand that writes its states into one tensor."""
    ns = lib.namespace
    length, batch, hidden = x.shape[0], x.shape[1], u.shape[0]
    states = ns.zeros(length + 1, batch, hidden)
    cell = ns.zeros(batch, hidden)
    for t in range(length):
        i, f, g, o = (x[t] @ w + states[t].clone() @ u + b).chunk(4, 1)
        cell = ns.sigmoid(f) * cell + ns.sigmoid(i) * ns.tanh(g)
        states[t + 1] = ns.sigmoid(o) * ns.tanh(cell)
    return (states[1:] ** 2).mean()


def gated(lib: Library, x: Any, a: Any, b: Any) -> Any:
    ns = lib.namespace
    return (ns.nn.functional.gelu(x * a + b) * ns.sigmoid(x)).sum()


def normalized(lib: Library, x: Any, weight: Any, bias: Any, target: Any) -> Any:
    ns = lib.namespace
    return (ns.softmax(ns.nn.functional.layer_norm(x, (x.shape[1],), weight, bias), 1) * target).sum()


def recurrence(lib: Library, start: Any, factors: Any) -> Any:
    """y · f + 0.01 again and again: a scan where there is one, and otherwise a loop."""
    if lib.module == "lucid":
        return lib.func.scan(lambda y, f: (y * f + 0.01, None), start, factors)[0].sum()
    y = start
    for k in range(factors.shape[0]):
        y = y * factors[k] + 0.01
    return y.sum()


def recurrence_arrays() -> Arrays:
    return [np.ones(8, np.float32), 1 - np.abs(normal(13, 50_000, 8)) * np.float32(1e-3)], []


def _mixture_arrays() -> Arrays:
    return [normal(3, 8), normal(4, 8, 4), normal(5, 8, 4) * np.float32(0.1)], [normal(6, 500, 4)]


def _bundle_arrays() -> Arrays:
    cameras = normal(0, 4, 7, dtype=np.float64) * 0.1 + np.array([0, 0, 0, 0, 0, 5.0, 1.0])
    return [cameras, normal(7, 8, 3, dtype=np.float64)], [normal(8, 4, 8, 2, dtype=np.float64)]


def _lstm_arrays() -> Arrays:
    return [normal(9, 16, 128) / 4, normal(10, 32, 128) / 6, np.zeros(128, np.float32)], [normal(11, 16, 8, 16)]


def gated_arrays() -> Arrays:
    return [normal(1, 2000, 2000), np.full(2000, 1.5, np.float32), np.full(2000, 0.1, np.float32)], []


def rows_arrays() -> Arrays:
    return [normal(2, 2048, 1024), np.ones(1024, np.float32), np.zeros(1024, np.float32)], [normal(12, 2048, 1024)]


_PROGRAMS = (
    ("mixture", "mixture of 8 Gaussians, 500 points, rows stacked in Python", mixture, _mixture_arrays),
    ("bundle", "bundle adjustment, 4 cameras, 8 points, number by number", bundle, _bundle_arrays),
    ("lstm-by-hand", "LSTM by hand, 16 steps, width 32, states written in place", lstm, _lstm_arrays),
    ("gated", "gelu(x*a + b) * sigmoid(x) summed, with gradient, 4M floats", gated, gated_arrays),
    (
        "recurrence",
        "a recurrence of 50,000 steps of 8 float32 as a scan, with gradients",
        recurrence,
        recurrence_arrays,
    ),
    ("normalized", "layer norm, then softmax, with gradients, 2048 x 1024", normalized, rows_arrays),
)


def _bind(loss: Loss, arrays: Callable[[], Arrays], lib: Library) -> Thunk:
    return lib.value_and_gradient(loss, *arrays())


_WITHOUT_JAX = ("lucid", "lucid.compile", "torch", "torch.compile")  # number by number, and by writes
_PEERS = {
    "mixture": _WITHOUT_JAX,
    "bundle": _WITHOUT_JAX,
    "lstm-by-hand": _WITHOUT_JAX,
    "recurrence": ("lucid", "lucid.compile", "jax"),
}
PROGRAMS = tuple(
    Workload(
        name,
        title,
        partial(_bind, loss, arrays),
        {} if name == "recurrence" else {"torch": 1.0},
        _PEERS.get(name, PEERS),
    )
    for name, title, loss, arrays in _PROGRAMS
)
