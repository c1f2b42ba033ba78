"""The steps of recurrent layers: products of the state with the weights, and all that follows them.

Both functions write into arrays that are given. `steps` says, in the order of running, where the rows of a step start
and how many there are. `gates` are the projected inputs, gate beside gate, and become the gates; `kept` is room for what
else going back needs: the cell before the step and tanh of the cell after it for LSTM, what r multiplies and h - n for
GRU, and nothing for plain recurrence. The states h and c are those before the first step and become those after the last.

Generation does not reach it: all steps run in one call, each a matrix product with weights that stay in the cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def forward(
    cell: str, steps: Any, gates: Any, kept: Any, bias: Any, w_hh: Any, w_hr: Any, h: Any, c: Any, y: Any
) -> None:
    """Run all steps, with results y. The bias has all gates, and for GRU then what is added to what r multiplies."""
    step, w = _FORWARD[cell], np.ascontiguousarray(w_hh.T)
    for start, n in steps.tolist():
        rows = slice(start, start + n)
        out = y[rows] if w_hr is None else np.empty((n, w_hr.shape[1]), y.dtype)
        step(gates[rows], kept[rows], h[:n] @ w, bias, h[:n], c[:n], out)
        if w_hr is not None:
            np.matmul(out, w_hr.T, out=y[rows])
        h[:n] = y[rows]


def backward(
    cell: str, steps: Any, gates: Any, kept: Any, w_hh: Any, w_hr: Any, dy: Any, dh: Any, dc: Any, dz: Any, dr: Any
) -> None:
    """Turn cotangents of results and last states into those of the first states and, dz, of what makes the gates.

    For plain recurrence, `gates` are the results. For GRU, dz has r, z, what r multiplies, and n. With a projection, dr
    is for the cotangents of all that was projected.
    """
    step, width = _BACKWARD[cell], len(w_hh)
    for start, n in steps[::-1].tolist():
        rows, ct = slice(start, start + n), dh[:n]
        ct += dy[rows]
        whole = ct
        if w_hr is not None:
            dr[rows] = ct
            whole = ct @ w_hr
        step(gates[rows], kept[rows], whole, dc[:n], dz[rows])
        product = dz[rows, :width] @ w_hh
        ct[...] = ct + product if cell == "gru" else product


def forward_entry(
    cell: str, steps: Any, gates: Any, kept: Any, w_hh: Any, w_hr: Any, h: Any, c: Any, y: Any
) -> tuple[Any, ...]:
    """The entry point of `forward`: its address, its task, and how many numbers its room is."""
    raise RuntimeError("entry points need compiled code")


def backward_entry(
    cell: str, steps: Any, gates: Any, kept: Any, w_hh: Any, w_hr: Any, dy: Any, dh: Any, dc: Any, dz: Any, dr: Any
) -> tuple[Any, ...]:
    """The entry point of `backward`: its address, its task, and how many numbers its room is."""
    raise RuntimeError("entry points need compiled code")


def _sigmoid(x: Any) -> None:
    """σ(x) = (tanh(x/2) + 1)/2, in place."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def _parts(x: Any, count: int) -> list[Any]:
    """What lies side by side."""
    return np.split(x, count, axis=1)


def _tanh(z: Any, kept: Any, product: Any, bias: Any, h: Any, c: Any, out: Any) -> None:
    z += product
    z += bias
    np.tanh(z, out=out)


def _tanh_back(y: Any, kept: Any, dy: Any, dc: Any, dz: Any) -> None:
    np.multiply(dy, 1 - y * y, out=dz)


def _relu(z: Any, kept: Any, product: Any, bias: Any, h: Any, c: Any, out: Any) -> None:
    z += product
    z += bias
    np.maximum(z, 0, out=out)


def _relu_back(y: Any, kept: Any, dy: Any, dc: Any, dz: Any) -> None:
    np.multiply(dy, y > 0, out=dz)


def _lstm(z: Any, kept: Any, product: Any, bias: Any, h: Any, c: Any, out: Any) -> None:
    size = c.shape[1]
    z += product
    z += bias
    i, f, g, o = _parts(z, 4)
    before, after = _parts(kept, 2)
    _sigmoid(z[:, : 2 * size])
    np.tanh(g, out=g)
    _sigmoid(o)
    before[...] = c
    c *= f
    c += i * g
    np.tanh(c, out=after)
    np.multiply(o, after, out=out)


def _lstm_back(z: Any, kept: Any, dy: Any, dc: Any, dz: Any) -> None:
    i, f, g, o = _parts(z, 4)
    before, after = _parts(kept, 2)
    of_i, of_f, of_g, of_o = _parts(dz, 4)
    np.multiply(dy * after, o * (1 - o), out=of_o)
    dc += dy * o * (1 - after * after)
    np.multiply(dc * g, i * (1 - i), out=of_i)
    np.multiply(dc * before, f * (1 - f), out=of_f)
    np.multiply(dc * i, 1 - g * g, out=of_g)
    dc *= f


def _gru(gates: Any, kept: Any, product: Any, bias: Any, h: Any, c: Any, out: Any) -> None:
    size = h.shape[1]
    r, z, n = _parts(gates, 3)
    inner, rest = _parts(kept, 2)
    sigmoids = gates[:, : 2 * size]
    sigmoids += product[:, : 2 * size]
    gates += bias[: 3 * size]
    _sigmoid(sigmoids)
    np.add(product[:, 2 * size :], bias[3 * size :], out=inner)
    n += r * inner
    np.tanh(n, out=n)
    np.subtract(h, n, out=rest)
    np.multiply(z, rest, out=out)
    out += n


def _gru_back(gates: Any, kept: Any, dy: Any, dc: Any, dz: Any) -> None:
    r, z, n = _parts(gates, 3)
    inner, rest = _parts(kept, 2)
    of_r, of_z, of_inner, of_n = _parts(dz, 4)
    np.multiply(dy * (1 - z), 1 - n * n, out=of_n)
    np.multiply(of_n, r, out=of_inner)
    np.multiply(of_inner * inner, 1 - r, out=of_r)
    np.multiply(dy * rest, z * (1 - z), out=of_z)
    dy *= z


_FORWARD: dict[str, Callable[..., None]] = {"tanh": _tanh, "relu": _relu, "lstm": _lstm, "gru": _gru}
_BACKWARD: dict[str, Callable[..., None]] = {
    "tanh": _tanh_back, "relu": _relu_back, "lstm": _lstm_back, "gru": _gru_back,
}  # fmt: skip
