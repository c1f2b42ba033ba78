"""Recurrent layers over whole sequences: plain RNN, LSTM and GRU, one layer in one direction.

Sequences lie one step after the other, as in a packed sequence: x is (rows, features), and step t has the next
`sizes[t]` rows, one for each sequence that is still running; `reverse` runs the steps from the last to the first.
A sequence that does not take part in a step keeps its state.

Kernels project all inputs at once, let `backends.cpu.recurrent` run the steps, and going back, make the gradients of the weights of
all steps in one product. All of it is shared out to the same threads: those of BLAS stay awake for a while after a
product, and steps took twice the time beside them.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from lucid.ops.abstract import Abstract
from lucid.ops.contraction import matmul, mT
from lucid.ops.fused import Fused, batch_by_composite, given_back, in_working_type
from lucid.ops.rules import P

Sizes = tuple[int, ...]


def spans(sizes: Sizes, reverse: bool) -> list[tuple[int, int]]:
    """The first row of each step and the one behind its last, in the order of running."""
    spans = [(end - n, end) for n, end in zip(sizes, accumulate(sizes), strict=True)]
    return spans[::-1] if reverse else spans


# --- composites ----------------------------------------------------------------------------------


def _slice(x: Any, start: int, stop: int) -> Any:
    return P.slice(x, index=(slice(start, stop),))


def _linear(x: Any, w: Any, b: Any) -> Any:
    out = matmul(x, mT(w))
    return out if b is None else out + b


def _unrolled(cell: Callable[..., tuple[Any, ...]], x: Any, states: Sequence[Any], sizes: Sizes, reverse: bool) -> Any:
    """Run a cell over all steps; the first of its states is the result of each."""
    results = []
    for start, end in spans(sizes, reverse):
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


_WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh")


def _steps_and_last(x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, *states: Any, **params: Any) -> Any:
    """A result for each row, and the states."""
    return Abstract((x.shape[0], states[0].shape[1]), x.dtype), *[Abstract(s.shape, x.dtype) for s in states]


# Each gives the results of all steps and the state after the last one.
rnn = Fused(
    "rnn", _rnn_composite, operands=("x", *_WEIGHTS, "h0"), results=("steps", "h"), batch=_fold_examples(1),
    abstract=_steps_and_last,
)  # fmt: skip
lstm = Fused(
    "lstm", _lstm_composite, operands=("x", *_WEIGHTS, "h0", "c0", "w_hr"), results=("steps", "h", "c"), batch=_fold_examples(2),
    abstract=lambda *operands, **params: _steps_and_last(*operands[:7]),
)  # fmt: skip
gru = Fused(
    "gru", _gru_composite, operands=("x", *_WEIGHTS, "h0"), results=("steps", "h"), batch=_fold_examples(1),
    abstract=_steps_and_last,
)  # fmt: skip


def run(layer: Fused, *operands: Any, sizes: Sizes, reverse: bool, **params: Any) -> tuple[Any, ...]:
    """One of these layers on tensors of any floating-point type."""
    tensors, kind = in_working_type(layer.name, *operands)
    return tuple([given_back(o, kind) for o in layer(*tensors, sizes=sizes, reverse=reverse, **params)])
