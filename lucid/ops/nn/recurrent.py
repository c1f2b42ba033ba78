"""Recurrent layers over whole sequences: plain RNN, LSTM and GRU, one layer in one direction.

Sequences lie one step after the other, as in a packed sequence: x is (rows, features), and step t has the next
`sizes[t]` rows, one for each sequence that is still running; `reverse` runs the steps from the last to the first.
A sequence that does not take part in a step keeps its state.

Kernels project all inputs at once, let `backends.cpu.recurrent` run the steps, and going back, make the gradients of the weights of
all steps in one product. All of it is shared out to the same threads: those of BLAS stay awake for a while after a
product, and steps took twice the time beside them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from lucid.backends.cpu import recurrent as kernels
from lucid.backends.cpu.parallel import in_parts
from lucid.ops.fused import Fused, batch_by_composite, given_back, in_working_type, ones
from lucid.ops.products import mT
from lucid.ops.rules import P

Sizes = tuple[int, ...]


def _spans(sizes: Sizes, reverse: bool) -> list[tuple[int, int]]:
    """The first row of each step and the one behind its last, in the order of running."""
    spans = [(end - n, end) for n, end in zip(sizes, accumulate(sizes), strict=True)]
    return spans[::-1] if reverse else spans


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
        return (P.relu(z) if relu else P.tanh(z),)

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


@lru_cache(maxsize=64)
def _steps(sizes: Sizes, reverse: bool) -> Any:
    """The first row of each step and how many rows it has, in the order of running."""
    if any(a < b for a, b in pairwise((*sizes, 0))):
        raise ValueError(f"the number of running sequences must not grow from step to step, or be negative: {sizes}")
    return np.array([(start, end - start) for start, end in _spans(sizes, reverse)], np.intp)


def _check_shapes(
    gates: int, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, w_hr: Any, sizes: Sizes
) -> None:
    """Compiled loops read what they expect, whatever there is."""
    n, out = max(len(h0), sizes[0]), h0.shape[1]
    size = out if w_hr is None else w_hr.shape[1]
    wanted: dict[str, tuple[Any, tuple[int, ...]]] = {
        "x": (x, (sum(sizes), x.shape[1])), "w_ih": (w_ih, (gates * size, x.shape[1])),
        "w_hh": (w_hh, (gates * size, out)), "b_ih": (b_ih, (gates * size,)), "b_hh": (b_hh, (gates * size,)),
        "h0": (h0, (n, out)), "c0": (c0, (n, size)), "w_hr": (w_hr, (out, size)),
    }  # fmt: skip
    for name, (array, shape) in wanted.items():
        if array is not None and array.shape != shape:
            raise ValueError(f"{name} must have shape {shape} beside the other operands, not {array.shape}")


def _solid(x: Any, dtype: Any) -> Any:
    """Rows one after the other, for loops."""
    return None if x is None else np.ascontiguousarray(x, dtype)


def _own(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A copy to write to; zeros for None."""
    return np.zeros(shape, dtype) if x is None else np.array(x, dtype, order="C")


def _total(biases: Sequence[Any], size: int, dtype: Any) -> Any:
    out = np.zeros(size, dtype)
    for b in biases:
        if b is not None:
            out += b
    return out


def _run(
    cell: str, steps: Any, x: Any, w_ih: Any, w_hh: Any, bias: Any, h0: Any, c0: Any, w_hr: Any, kept: int
) -> tuple[Any, ...]:
    """Run a checked layer: gates, `kept` numbers of each row, results, and last states."""
    dtype = x.dtype
    gates, room, y = _product(x, w_ih.T), np.empty((len(x), kept), dtype), np.empty((len(x), h0.shape[1]), dtype)
    h, c = _own(h0, h0.shape, dtype), _own(c0, (len(h0), 0), dtype)
    kernels.forward(cell, steps, gates, room, bias, _solid(w_hh, dtype), _solid(w_hr, dtype), h, c, y)
    return gates, room, y, h, c


def _run_back(
    cell: str, steps: Any, cts: Any, gates: Any, kept: Any, y: Any, w_hh: Any, h0: Any, c0: Any, w_hr: Any, width: int
) -> tuple[Any, ...]:
    """Cotangents of what makes the gates, `width` of each row, of the first states, and of what was projected."""
    dtype = y.dtype
    dy = np.zeros(y.shape, dtype) if cts[0] is None else _solid(cts[0], dtype)
    dh = _own(cts[1], h0.shape, dtype)
    dc = _own(None, (len(h0), 0), dtype) if c0 is None else _own(cts[2], c0.shape, dtype)
    dz, dr = np.empty((len(y), width), dtype), np.empty((len(y), 0 if w_hr is None else y.shape[1]), dtype)
    kernels.backward(cell, steps, gates, kept, _solid(w_hh, dtype), _solid(w_hr, dtype), dy, dh, dc, dz, dr)
    return dz, dh, dc, dr


def _before(states: Any, first: Any, sizes: Sizes, reverse: bool) -> Any:
    """For each row the state before its step, given those after."""
    n = sizes[0]
    if n == sizes[-1]:
        return np.concatenate([states[n:], first[:n]] if reverse else [first[:n], states[: len(states) - n]])
    out = np.empty_like(states)
    for (last, others), (start, n) in pairwise([(0, 0), *_steps(sizes, reverse).tolist()]):
        old = min(n, others)
        out[start : start + old] = states[last : last + old]
        out[start + old : start + n] = first[old:n]
    return out


def _product(x: Any, w: Any) -> Any:
    """x w for many rows."""
    out = np.empty((len(x), w.shape[1]), x.dtype)
    in_parts(lambda some: np.matmul(x[some], w, out=out[some]), len(x), x.size * w.shape[1])
    return out


def _of_weights(dz: Any, *operands: Any) -> list[Any]:
    """Cotangents of the weights that multiplied each operand, and of the bias, from those of the results."""
    products = [None if o is None else np.empty((dz.shape[1], o.shape[1]), dz.dtype) for o in operands]
    sums = np.empty(dz.shape[1], dz.dtype)

    def fill(some: slice) -> None:
        part = dz[:, some]
        for o, out in zip(operands, products, strict=True):
            if out is not None:
                np.matmul(part.T, o, out=out[some])
        np.matmul(ones(len(dz), dz.dtype), part, out=sums[some])

    in_parts(fill, dz.shape[1], dz.size * sum([o.shape[1] for o in operands if o is not None]))
    return [*products, sums]


def _of_operands(dz: Any, x: Any, w_ih: Any, before: Any, needs: Sequence[bool]) -> list[Any]:
    """Cotangents of x and of all weights, from those of the projected input, which are also those of the state's."""
    dw_ih, dw_hh, db = _of_weights(dz, x if needs[1] else None, before if needs[2] else None)
    return [_product(dz, w_ih) if needs[0] else None, dw_ih, dw_hh, db, db.copy()]


_PLAIN = {False: "tanh", True: "relu"}


def _rnn_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool, relu: bool
) -> tuple[Any, tuple[Any, ...]]:
    _check_shapes(1, x, w_ih, w_hh, b_ih, b_hh, h0, None, None, sizes)
    bias = _total((b_ih, b_hh), len(w_hh), x.dtype)
    _, _, y, h, _ = _run(_PLAIN[relu], _steps(sizes, reverse), x, w_ih, w_hh, bias, h0, None, None, kept=0)
    return (y, h), (y,)


def _rnn_backward(
    cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool, relu: bool
) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0), (y,) = arrays, residuals
    steps, kept = _steps(sizes, reverse), y[:, :0]
    dz, dh, _, _ = _run_back(_PLAIN[relu], steps, cts, y, kept, y, w_hh, h0, None, None, width=y.shape[1])
    return [*_of_operands(dz, x, w_ih, _before(y, h0, sizes, reverse), needs), dh]


def _lstm_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, w_hr: Any, sizes: Sizes, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    _check_shapes(4, x, w_ih, w_hh, b_ih, b_hh, h0, c0, w_hr, sizes)
    bias = _total((b_ih, b_hh), len(w_hh), x.dtype)
    steps = _steps(sizes, reverse)
    gates, kept, y, h, c = _run("lstm", steps, x, w_ih, w_hh, bias, h0, c0, w_hr, kept=2 * c0.shape[1])
    return (y, h, c), (gates, kept, y)


def _lstm_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0, c0, w_hr), (gates, kept, y) = arrays, residuals
    steps, size = _steps(sizes, reverse), c0.shape[1]
    dz, dh, dc, dr = _run_back("lstm", steps, cts, gates, kept, y, w_hh, h0, c0, w_hr, width=4 * size)
    dw_hr = dr.T @ (gates[:, 3 * size :] * kept[:, size:]) if needs[7] else None
    return [*_of_operands(dz, x, w_ih, _before(y, h0, sizes, reverse), needs), dh, dc, dw_hr]


def _gru_forward(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    _check_shapes(3, x, w_ih, w_hh, b_ih, b_hh, h0, None, None, sizes)
    size = h0.shape[1]
    bias = np.zeros(4 * size, x.dtype)
    if b_ih is not None:
        bias[: 3 * size] = b_ih
    if b_hh is not None:
        bias[: 2 * size] += b_hh[: 2 * size]
        bias[3 * size :] = b_hh[2 * size :]
    steps = _steps(sizes, reverse)
    gates, kept, y, h, _ = _run("gru", steps, x, w_ih, w_hh, bias, h0, None, None, kept=2 * size)
    return (y, h), (gates, kept, y)


def _gru_backward(cts: Any, arrays: Any, residuals: Any, needs: Any, sizes: Sizes, reverse: bool) -> list[Any]:
    (x, w_ih, w_hh, _, _, h0), (gates, kept, y) = arrays, residuals
    steps, size = _steps(sizes, reverse), h0.shape[1]
    dz, dh, _, _ = _run_back("gru", steps, cts, gates, kept, y, w_hh, h0, None, None, width=4 * size)
    of_state = dz[:, : 3 * size]
    dw_hh, db_hh = _of_weights(of_state, _before(y, h0, sizes, reverse) if needs[2] else None)
    of_state[:, 2 * size :] = dz[:, 3 * size :]
    dw_ih, db_ih = _of_weights(of_state, x if needs[1] else None)
    return [_product(of_state, w_ih) if needs[0] else None, dw_ih, dw_hh, db_ih, db_hh, dh]


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
