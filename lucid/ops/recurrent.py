"""Recurrent layers over whole sequences: plain RNN, LSTM and GRU, one layer in one direction.

Sequences lie one step after the other, as in a packed sequence: x is (rows, features), and step t has the next
`sizes[t]` rows, one for each sequence that is still running; `reverse` runs the steps from the last to the first.
A sequence that does not take part in a step keeps its state.

Kernels project all inputs at once and run the steps on arrays made beforehand, one for each step, in which gates lie
one after the other; going back, they are all that is needed. Since σ(z) = (tanh(z/2) + 1)/2, gates share one call of tanh.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from lucid.ops.fused import Fused, batch_by_composite, given_back, in_working_type, ones
from lucid.ops.products import mT
from lucid.ops.rules import P

# A product of n x k and k x m is split into blocks of 64 columns between these values of n·k·m: 16 x 128 by 128 x 512
# then takes half the time. Below, it is small anyway; above, BLAS gains more from its threads.
_WHOLE, _THREADED = 1 << 18, 1 << 22
_BLOCK = 64

Sizes = tuple[int, ...]
Spans = list[tuple[int, int]]


class _Product:
    """Products of x (n, k), n at most `rows`, with the same matrices w (gates, k, m)."""

    def __init__(self, w: Any, rows: int) -> None:
        gates, k, m = w.shape
        blocks = m // _BLOCK if _WHOLE < rows * k * gates * m <= _THREADED and m % _BLOCK == 0 else 1
        self.shape = (gates, blocks, m // blocks)
        self.w = np.ascontiguousarray(w.reshape(gates, k, blocks, m // blocks).swapaxes(1, 2))

    def into(self, out: Any) -> Any:
        """The array (..., gates, n, m) as a place for the product."""
        gates, blocks, width = self.shape
        return out.reshape(*out.shape[:-3], gates, out.shape[-2], blocks, width).swapaxes(-3, -2)


def _spans(sizes: Sizes, reverse: bool) -> Spans:
    """The rows of each step, in the order of running."""
    spans = [(end - n, end) for n, end in zip(sizes, accumulate(sizes), strict=True)]
    return spans[::-1] if reverse else spans


def _alike(spans: Spans) -> bool:
    """Whether all steps have the same number of rows, which never grows."""
    return spans[0][1] - spans[0][0] == spans[-1][1] - spans[-1][0]


def _views(array: Any, spans: Spans) -> list[Any]:
    """The rows of each step."""
    start, end = spans[0]
    if _alike(spans):
        views = list(array.reshape(len(spans), end - start, array.shape[1]))
        return views[::-1] if start else views
    return [array[a:b] for a, b in spans]


def _blocks(x: Any, count: int, w: Any, biases: Sequence[Any], gates: int, spans: Spans) -> list[Any]:
    """Arrays (count, n, size) for the steps; the first `gates` of each hold x wᵀ + biases.

    Each lies in one piece: NumPy takes five times as long for several pieces. The biases are a further column of the
    product.
    """
    wide = np.empty((len(x), x.shape[1] + 1), x.dtype)
    wide[:, :-1], wide[:, -1] = x, 1
    weights = np.zeros((len(w), w.shape[1] + 1), x.dtype)
    weights[:, :-1] = w
    for b in biases:
        if b is not None:
            weights[:, -1] += b
    projected, size = wide @ weights.T, len(w) // gates
    if _alike(spans):
        n = spans[0][1] - spans[0][0]
        whole = np.empty((len(spans), count, n, size), x.dtype)
        whole[:, :gates] = projected.reshape(len(spans), n, gates, size).swapaxes(1, 2)
        return list(whole[::-1] if spans[0][0] else whole)
    blocks = [np.empty((count, b - a, size), x.dtype) for a, b in spans]
    for block, rows in zip(blocks, _views(projected, spans), strict=True):
        block[:gates] = _by_gate(rows, size)
    return blocks


def _stacked(w: Any, gates: int) -> Any:
    """Stacked weights as matrices to multiply a state by, (gates, k, size)."""
    return w.reshape(gates, -1, w.shape[1]).swapaxes(1, 2)


def _after(state: Any, new: Any) -> Any:
    """The state after a step: new for the first rows."""
    if len(new) == len(state):
        return new
    state = state.copy()
    state[: len(new)] = new
    return state


def _before(states: Any, first: Any, spans: Spans) -> Any:
    """For each row the state before its step, given those after."""
    out = np.empty_like(states)
    now = first
    for before, after in zip(_views(out, spans), _views(states, spans), strict=True):
        before[...] = now[: len(before)]
        now = _after(now, after)
    return out


def _own(ct: Any, like: Any) -> Any:
    """A cotangent that may be overwritten: zeros for a result that was not used."""
    return np.zeros(like.shape, like.dtype) if ct is None else np.array(ct, order="C")


def _given(ct: Any, like: Any) -> Any:
    """A cotangent to read: zeros for a result that was not used."""
    return np.broadcast_to(np.zeros((), like.dtype), like.shape) if ct is None else ct


def _of_input(dz: Any, x: Any, w_ih: Any, needs: Sequence[bool]) -> list[Any]:
    """Cotangents of x, w_ih and b_ih from those of the projected input."""
    return [
        dz @ w_ih if needs[0] else None,
        dz.T @ x if needs[1] else None,
        ones(len(dz), dz.dtype) @ dz if needs[3] else None,
    ]


def _of_hidden(dz: Any, before: Any, needs: Sequence[bool]) -> list[Any]:
    """Cotangents of w_hh and b_hh from those of the projected state, given the states before the steps."""
    return [dz.T @ before if needs[2] else None, ones(len(dz), dz.dtype) @ dz if needs[4] else None]


def _by_gate(dz: Any, size: int) -> Any:
    """Rows of gates side by side, as (gates, n, size)."""
    return dz.reshape(len(dz), dz.shape[1] // size, size).swapaxes(0, 1)


# --- composites ----------------------------------------------------------------------------------


def _slice(x: Any, start: int, stop: int) -> Any:
    return P.slice(x, index=(slice(start, stop),))


def _linear(x: Any, w: Any, b: Any) -> Any:
    out = P.matmul(x, mT(w))
    return out if b is None else out + b


def _unrolled(cell: Callable[..., tuple[Any, ...]], x: Any, states: Sequence[Any], sizes: Sizes, reverse: bool) -> Any:
    """Run a cell over all steps; the first of its states is the result of each."""
    results = []
    for start, end in _spans(sizes, reverse):
        n = end - start
        new = cell(_slice(x, start, end), *[_slice(s, 0, n) for s in states])
        results.append(new[0])
        states = [a if n == s.shape[0] else P.cat(a, _slice(s, n, s.shape[0]), dim=0) for a, s in zip(new, states)]
    return P.cat(*(results[::-1] if reverse else results), dim=0), *states


def _parts(z: Any, count: int) -> list[Any]:
    """The gates that lie side by side."""
    size = z.shape[1] // count
    return [P.slice(z, index=(slice(None), slice(k * size, (k + 1) * size))) for k in range(count)]


def _rnn_composite(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool, relu: bool
) -> Any:
    def cell(z: Any, h: Any) -> tuple[Any, ...]:
        z = z + _linear(h, w_hh, b_hh)
        return (P.where(z > 0, z, 0) if relu else P.tanh(z),)

    return _unrolled(cell, _linear(x, w_ih, b_ih), [h0], sizes, reverse)


def _lstm_composite(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, w_hr: Any, sizes: Sizes, reverse: bool
) -> Any:
    def cell(z: Any, h: Any, c: Any) -> tuple[Any, ...]:
        i, f, g, o = _parts(z + _linear(h, w_hh, b_hh), 4)
        c = P.sigmoid(f) * c + P.sigmoid(i) * P.tanh(g)
        h = P.sigmoid(o) * P.tanh(c)
        return h if w_hr is None else _linear(h, w_hr, None), c

    return _unrolled(cell, _linear(x, w_ih, b_ih), [h0, c0], sizes, reverse)


def _gru_composite(x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool) -> Any:
    def cell(z: Any, h: Any) -> tuple[Any, ...]:
        (ir, iz, i_n), (hr, hz, hn) = _parts(z, 3), _parts(_linear(h, w_hh, b_hh), 3)
        n = P.tanh(i_n + P.sigmoid(ir + hr) * hn)
        return (n + P.sigmoid(iz + hz) * (h - n),)

    return _unrolled(cell, _linear(x, w_ih, b_ih), [h0], sizes, reverse)


def _fold_examples(states: int) -> Callable[..., Any]:
    """The batching rule: if the weights are shared, the examples are further sequences."""

    def batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
        whole = [0, *range(5, 5 + states)]
        if any(b for k, b in enumerate(batched) if k not in whole):
            return batch_by_composite(prim, values, batched, size, params)
        folded = list(values)
        for k in whole:
            folded[k] = _fold(values[k], batched[k], size)
        outs = prim(*folded, **{**params, "sizes": tuple(n * size for n in params["sizes"])})
        return tuple([_unfold(o, size) for o in outs])

    return batch


def _fold(x: Any, batched: bool, size: int) -> Any:
    """(examples, rows, …) or (rows, …) as (rows · examples, …)."""
    rows = x.shape[1] if batched else x.shape[0]
    if batched:
        x = P.permute(x, dims=(1, 0, *range(2, x.ndim)))
    else:
        x = P.broadcast_to(P.reshape(x, shape=(rows, 1, *x.shape[1:])), shape=(rows, size, *x.shape[1:]))
    return P.reshape(x, shape=(rows * size, *x.shape[2:]))


def _unfold(x: Any, size: int) -> Any:
    split = P.reshape(x, shape=(x.shape[0] // size, size, *x.shape[1:]))
    return P.permute(split, dims=(1, 0, *range(2, split.ndim)))


# --- kernels -------------------------------------------------------------------------------------


def _rnn_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool, relu: bool
) -> tuple[Any, tuple[Any, ...]]:
    spans = _spans(sizes, reverse)
    product = _Product(_stacked(w_hh, 1), len(h0))
    y = np.empty((len(x), len(w_hh)), x.dtype)
    h = h0
    for (z,), y_t in zip(_blocks(x, 1, w_ih, (b_ih, b_hh), 1, spans), _views(y, spans), strict=True):
        np.matmul(h[: len(z)], product.w, out=product.into(y_t[None]))
        y_t += z
        if relu:
            np.maximum(y_t, 0, out=y_t)
        else:
            np.tanh(y_t, out=y_t)
        h = _after(h, y_t)
    return (y, np.array(h)), (y,)


def _rnn_backward(
    cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool, relu: bool
) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0), (y,) = arrays, residuals
    spans = _spans(sizes, reverse)
    dz = (y > 0).astype(y.dtype) if relu else 1 - y * y
    dy, dh = _given(cts[0], y), _own(cts[1], h0)
    product = _Product(w_hh[None], len(h0))
    place = product.into(dh[None])
    for dz_t, dy_t in zip(*[_views(a, spans[::-1]) for a in (dz, dy)], strict=True):
        n = len(dy_t)
        dh[:n] += dy_t
        dz_t *= dh[:n]
        np.matmul(dz_t, product.w, out=place[:, :, :n])
    dx, dw_ih, db_ih = _of_input(dz, x, w_ih, needs)
    dw_hh, db_hh = _of_hidden(dz, _before(y, h0, spans), needs)
    return [dx, dw_ih, dw_hh, db_ih, db_hh, dh]


# NumPy takes arrays of no dimension faster than Python numbers, by a third of a small operation.
_CONSTANTS = {kind: [np.asarray(c, kind) for c in (0.5, 1)] for kind in (np.dtype(np.float32), np.dtype(np.float64))}


# In the kernels of LSTM a step has i o f g, tanh of the cell after it, and the cell before it, in this order: each of
# i o f, which go through σ, multiplies what stands three places further, and i o multiply (1 - x²) of g and tanh.
_INSIDE, _BACK = (0, 3, 1, 2), (0, 2, 3, 1)  # the kernels' order from i f g o, and back


def _reordered(w: Any, order: tuple[int, ...]) -> Any:
    """Four stacked gates in another order."""
    return w.reshape(4, -1)[list(order)].reshape(w.shape)


def _halved(w: Any, rows: int) -> Any:
    """A copy with the first rows halved, for σ."""
    out = np.array(w)
    out[:rows] *= 0.5
    return out


def _lstm_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, w_hr: Any, sizes: Sizes, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    size, spans = c0.shape[1], _spans(sizes, reverse)
    half, _ = _CONSTANTS[x.dtype]
    weights = [w if w is None else _halved(_reordered(w, _INSIDE), 3 * size) for w in (w_ih, w_hh, b_ih, b_hh)]
    blocks = _blocks(x, 6, weights[0], weights[2:], 4, spans)
    product = _Product(_stacked(weights[1], 4), len(h0))
    projected, work = np.empty((4, len(h0), size), x.dtype), np.empty_like(c0)
    place = product.into(projected)
    y = np.empty((len(x), h0.shape[1]), x.dtype)
    h, c = h0, np.array(c0)
    for b, y_t in zip(blocks, _views(y, spans), strict=True):
        n = len(y_t)
        c_t, work_t, z, sigmoids = c[:n], work[:n], b[:4], b[:3]
        i, o, f, g, tanh, before = b
        np.matmul(h[:n], product.w, out=place[:, :, :n])
        z += projected[:, :n]
        np.tanh(z, out=z)
        sigmoids *= half
        sigmoids += half
        before[...] = c_t
        c_t *= f
        np.multiply(i, g, out=work_t)
        c_t += work_t
        np.tanh(c_t, out=tanh)
        if w_hr is None:
            np.multiply(o, tanh, out=y_t)
        else:
            np.matmul(o * tanh, w_hr.T, out=y_t)
        h = _after(h, y_t)
    return (y, np.array(h), c), (blocks, y)


def _lstm_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0, c0, w_hr), (blocks, y) = arrays, residuals
    size, spans = c0.shape[1], _spans(sizes, reverse)
    _, one = _CONSTANTS[x.dtype]
    dz = np.empty((len(x), 4 * size), x.dtype)
    dy, dh, dc = _given(cts[0], y), _own(cts[1], h0), _own(cts[2], c0)
    dw_hr = np.zeros_like(w_hr) if needs[7] else None
    product = _Product(_reordered(w_hh, _INSIDE)[None], len(h0))
    place = product.into(dh[None])
    slopes = np.empty(5 * len(h0) * size, x.dtype)
    for b, dz_t, dy_t in zip(blocks[::-1], *[_views(a, spans[::-1]) for a in (dz, dy)], strict=True):
        n = len(dy_t)
        dc_t, dr = dc[:n], dh[:n]
        slope = slopes[: 5 * n * size].reshape(5, n, size)
        of_sigmoids, of_tanhs, sigmoids = slope[:3], slope[3:], b[:3]
        of_i, of_o, of_f, of_g, of_c = slope
        dr += dy_t
        if w_hr is not None:
            if dw_hr is not None:
                dw_hr += dr.T @ (b[1] * b[4])
            dr = dr @ w_hr
        np.subtract(one, sigmoids, out=of_sigmoids)
        of_sigmoids *= sigmoids
        of_sigmoids *= b[3:]
        np.square(b[3:5], out=of_tanhs)
        np.subtract(one, of_tanhs, out=of_tanhs)
        of_tanhs *= b[:2]
        of_c *= dr
        dc_t += of_c
        for out, of, ct in zip(_by_gate(dz_t, size), (of_i, of_o, of_f, of_g), (dc_t, dr, dc_t, dc_t)):
            np.multiply(of, ct, out=out)
        dc_t *= b[2]
        np.matmul(dz_t, product.w, out=place[:, :, :n])
    dx, dw_ih, db_ih = _of_input(dz, x, _reordered(w_ih, _INSIDE), needs)
    dw_hh, db_hh = _of_hidden(dz, _before(y, h0, spans), needs)
    weights = [None if g is None else _reordered(g, _BACK) for g in (dw_ih, dw_hh, db_ih, db_hh)]
    return [dx, *weights, dh, dc, dw_hr]


# A step of GRU has r, z, n, what r multiplies, and the state before it minus n.


def _gru_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    size, spans = h0.shape[1], _spans(sizes, reverse)
    half, _ = _CONSTANTS[x.dtype]
    shared = None if b_hh is None else np.concatenate([b_hh[: 2 * size], np.zeros(size, x.dtype)])
    weights = [w if w is None else _halved(w, 2 * size) for w in (w_ih, w_hh, b_ih, shared)]
    blocks = _blocks(x, 5, weights[0], weights[2:], 3, spans)
    product = _Product(_stacked(weights[1], 3), len(h0))
    projected = np.empty((3, len(h0), size), x.dtype)
    place = product.into(projected)
    own = np.zeros(size, x.dtype) if b_hh is None else b_hh[2 * size :]
    own = np.broadcast_to(own, h0.shape).copy()
    y = np.empty((len(x), size), x.dtype)
    h = h0
    for b, y_t in zip(blocks, _views(y, spans), strict=True):
        n = len(y_t)
        h_t, sigmoids = h[:n], b[:2]
        r, z, new, inner, rest = b
        np.matmul(h_t, product.w, out=place[:, :, :n])
        sigmoids += projected[:2, :n]
        np.tanh(sigmoids, out=sigmoids)
        sigmoids *= half
        sigmoids += half
        np.add(projected[2, :n], own[:n], out=inner)
        np.multiply(r, inner, out=y_t)
        new += y_t
        np.tanh(new, out=new)
        np.subtract(h_t, new, out=rest)
        np.multiply(z, rest, out=y_t)
        y_t += new
        h = _after(h, y_t)
    return (y, np.array(h)), (blocks, y)


def _gru_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0), (blocks, y) = arrays, residuals
    size, spans = h0.shape[1], _spans(sizes, reverse)
    _, one = _CONSTANTS[x.dtype]
    dz = np.empty((len(x), 4 * size), x.dtype)  # of r, z, what r multiplies, and n
    dy, dh = _given(cts[0], y), _own(cts[1], h0)
    product = _Product(w_hh[None], len(h0))
    pulled = np.empty_like(dh)
    place = product.into(pulled[None])
    slopes = np.empty(4 * len(h0) * size, x.dtype)
    for b, dz_t, dy_t in zip(blocks[::-1], *[_views(a, spans[::-1]) for a in (dz, dy)], strict=True):
        n = len(dy_t)
        dh_t, sigmoids = dh[:n], b[:2]
        slope = slopes[: 4 * n * size].reshape(4, n, size)
        of_r_z = slope[:2]
        of_r, of_z, of_inner, of_new = slope
        dh_t += dy_t
        np.subtract(one, sigmoids, out=of_r_z)
        np.square(b[2], out=of_new)
        np.subtract(one, of_new, out=of_new)
        of_new *= of_z
        of_r_z *= sigmoids
        of_r_z *= b[3:]
        of_r *= of_new
        np.multiply(of_new, b[0], out=of_inner)
        for out, of in zip(_by_gate(dz_t, size), slope):
            np.multiply(of, dh_t, out=out)
        dh_t *= b[1]
        np.matmul(dz_t[:, : 3 * size], product.w, out=place[:, :, :n])
        dh_t += pulled[:n]
    of_state = dz[:, : 3 * size]
    dw_hh, db_hh = _of_hidden(of_state, _before(y, h0, spans), needs)
    of_state[:, 2 * size :] = dz[:, 3 * size :]
    dx, dw_ih, db_ih = _of_input(of_state, x, w_ih, needs)
    return [dx, dw_ih, dw_hh, db_ih, db_hh, dh]


_WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh")

# Each gives the results of all steps and the state after the last one.
rnn = Fused(
    "rnn", _rnn_composite, _rnn_forward, _rnn_backward,
    operands=("x", *_WEIGHTS, "h0"), results=2, batch=_fold_examples(1),
)  # fmt: skip
lstm = Fused(
    "lstm", _lstm_composite, _lstm_forward, _lstm_backward,
    operands=("x", *_WEIGHTS, "h0", "c0", "w_hr"), results=3, batch=_fold_examples(2),
)  # fmt: skip
gru = Fused(
    "gru", _gru_composite, _gru_forward, _gru_backward,
    operands=("x", *_WEIGHTS, "h0"), results=2, batch=_fold_examples(1),
)  # fmt: skip


def run(layer: Fused, *operands: Any, sizes: Sizes, reverse: bool, **params: Any) -> tuple[Any, ...]:
    """One of these layers on tensors of any floating-point type."""
    tensors, kind = in_working_type(layer.name, *operands)
    return tuple([given_back(o, kind) for o in layer(*tensors, sizes=sizes, reverse=reverse, **params)])
