"""Recurrent layers over whole sequences: plain RNN, LSTM and GRU, one layer in one direction.

Generation does not reach it: all steps run in one call, each a matrix product with weights that stay in the cache.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from lucid.backends.cpu import recurrent as kernels
from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower
from lucid.backends.cpu.parallel import in_parts
from lucid.backends.numpy.constants import ones
from lucid.core.kernels import WithBackward, fill
from lucid.ops.nn.recurrent import Sizes, spans


@lru_cache(maxsize=64)
def _steps(sizes: Sizes, reverse: bool) -> Any:
    """The first row of each step and how many rows it has, in the order of running."""
    if any(a < b for a, b in pairwise((*sizes, 0))):
        raise ValueError(f"the number of running sequences must not grow from step to step, or be negative: {sizes}")
    return np.array([(start, end - start) for start, end in spans(sizes, reverse)], np.intp)


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


# --- in compiled programs --------------------------------------------------------------------------


def _is_lowered(
    steps: Steps, gates: int, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, sizes: Sizes
) -> bool:
    """Whether there are steps for these: operands of one type, and sequences of one length."""
    first, kind = len(h0.array), x.array.dtype
    x, w_ih, w_hh, b_ih, b_hh, h0, c0 = [p if p is None else p.array for p in (x, w_ih, w_hh, b_ih, b_hh, h0, c0)]
    try:
        _check_shapes(gates, x, w_ih, w_hh, b_ih, b_hh, h0, c0, None, sizes)
    except ValueError:  # which the kernel raises again
        return False
    same = all(a is None or a.dtype == kind for a in (w_ih, w_hh, b_ih, b_hh, h0, c0))
    return same and first == sizes[0] == sizes[-1] > 0 and bool(x.size) and steps.can_multiply(kind)


def _transposed(place: Any) -> Any:
    return place.shown(place.array.T)


def _run_steps(
    steps: Steps, cell: str, order: Any, outs: Any, x: Any, w_ih: Any, w_hh: Any, bias: Any, h0: Any, c0: Any, kept: int
) -> tuple[Any, ...]:
    """`_run`: the places of gates and of what is kept. The results and last states are `outs`."""
    n, kind = len(x.array), x.array.dtype
    gates, room = steps.new((n, w_ih.array.shape[0]), kind), steps.new((n, kept), kind)
    y, h, c = outs if len(outs) > 2 else (*outs, steps.new((len(h0.array), 0), kind))
    steps.multiply(x, _transposed(w_ih), gates)
    steps.copy(h0, h)
    if c0 is not None:
        steps.copy(c0, c)
    w_hh = steps.ordered(w_hh)
    address, task, size = kernels.forward_entry(
        cell, order, gates.array, room.array, w_hh.array, None, h.array, c.array, y.array
    )
    own = steps.new((size,), kind)
    places = (steps.constant(order), gates, room, y, h, c, bias, None, None, w_hh, None, own)
    steps.enter(Entry(address, task), places)
    return gates, room


def _run_back_steps(
    steps: Steps,
    cell: str,
    order: Any,
    cts: Any,
    gates: Any,
    kept: Any,
    w_hh: Any,
    h0: Any,
    c0: Any,
    of: Any,
    width: int,
) -> Any:
    """`_run_back`: the place of the cotangents of what makes the gates; those of the first states are `of`."""
    n, kind = len(gates.array), gates.array.dtype
    out = h0.array.shape[1]
    dh, dc = [
        steps.new((len(h0.array), 0) if s is None else s.array.shape, kind) if o is None else o
        for s, o in zip((h0, c0), of, strict=True)
    ]
    for ct, target in zip(cts[1:], (dh, dc)):
        if ct is None:
            steps.clear(target)
        else:
            steps.copy(ct, target)
    if cts[0] is None:
        dy = steps.new((n, out), kind)
        steps.clear(dy)
    else:
        dy = steps.ordered(cts[0])
    w_hh, dz, dr = steps.ordered(w_hh), steps.new((n, width), kind), steps.new((n, 0), kind)
    address, task, size = kernels.backward_entry(
        cell, order, gates.array, kept.array, w_hh.array, None, dy.array, dh.array, dc.array, dz.array, dr.array
    )
    own = steps.new((size,), kind)
    steps.enter(Entry(address, task), (steps.constant(order), gates, kept, dy, dh, dc, None, dz, dr, w_hh, None, own))
    return dz


def _before_steps(steps: Steps, y: Any, first: Any, reverse: bool) -> Any:
    """`_before` for sequences of one length."""
    n, out = len(first.array), steps.new(y.array.shape, y.array.dtype)
    inner = slice(None, -n), slice(n, None)
    start, rest = (slice(-n, None), inner[0]) if reverse else (slice(None, n), inner[1])
    steps.copy(first, out.shown(out.array[start]))
    steps.copy(y.shown(y.array[inner[1] if reverse else inner[0]]), out.shown(out.array[rest]))
    return out


def _of_weights_steps(steps: Steps, dz: Any, dw: Any, of: Any, db: Any) -> None:
    """`_of_weights` for one operand: what is wanted of the cotangents of weights and of a bias."""
    if dw is not None:
        steps.multiply(_transposed(dz), of, dw)
    if db is not None:
        steps.sum(dz, (0,), db)


def _of_operands_steps(steps: Steps, outs: Any, dz: Any, x: Any, w_ih: Any, before: Any) -> None:
    """`_of_operands`, whose results are those of `outs` that are wanted."""
    dx, dw_ih, dw_hh, db_ih, db_hh = outs
    if dx is not None:
        steps.multiply(dz, w_ih, dx)
    _of_weights_steps(steps, dz, dw_ih, x, db_ih)
    _of_weights_steps(steps, dz, dw_hh, before, db_hh if db_ih is None else None)
    if db_ih is not None and db_hh is not None:
        steps.copy(db_ih, db_hh)


def _total_steps(steps: Steps, biases: Sequence[Any], size: int, kind: Any) -> Any:
    """`_total`."""
    out = steps.new((size,), kind)
    steps.clear(out)
    for b in biases:
        if b is not None:
            steps.add_into(b, out)
    return out


def _rnn_steps(
    steps: Steps, outs: Any, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any,
    sizes: Sizes, reverse: bool, relu: bool,
) -> Any:  # fmt: skip
    if not _is_lowered(steps, 1, x, w_ih, w_hh, b_ih, b_hh, h0, None, sizes):
        return None
    bias = _total_steps(steps, (b_ih, b_hh), len(w_hh.array), x.array.dtype)
    _run_steps(steps, _PLAIN[relu], _steps(sizes, reverse), outs, x, w_ih, w_hh, bias, h0, None, 0)
    return (outs[0],)


def _rnn_back_steps(
    steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, sizes: Sizes, reverse: bool, relu: bool
) -> bool:
    (x, w_ih, w_hh, _, _, h0), (y,) = operands, residuals
    kept, order = steps.new((len(y.array), 0), y.array.dtype), _steps(sizes, reverse)
    of = (outs[5], None)
    dz = _run_back_steps(steps, _PLAIN[relu], order, cts, y, kept, w_hh, h0, None, of, y.array.shape[1])
    _of_operands_steps(steps, outs[:5], dz, x, w_ih, _before_steps(steps, y, h0, reverse))
    return True


def _lstm_steps(
    steps: Steps, outs: Any, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, c0: Any, w_hr: Any,
    sizes: Sizes, reverse: bool,
) -> Any:  # fmt: skip
    if w_hr is not None or not _is_lowered(steps, 4, x, w_ih, w_hh, b_ih, b_hh, h0, c0, sizes):
        return None
    bias = _total_steps(steps, (b_ih, b_hh), len(w_hh.array), x.array.dtype)
    size = c0.array.shape[1]
    known = _run_steps(steps, "lstm", _steps(sizes, reverse), outs, x, w_ih, w_hh, bias, h0, c0, 2 * size)
    return (*known, outs[0])


def _lstm_back_steps(
    steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, sizes: Sizes, reverse: bool
) -> bool:
    (x, w_ih, w_hh, _, _, h0, c0, _), (gates, kept, y) = operands, residuals
    width = 4 * c0.array.shape[1]
    dz = _run_back_steps(steps, "lstm", _steps(sizes, reverse), cts, gates, kept, w_hh, h0, c0, outs[5:7], width)
    _of_operands_steps(steps, outs[:5], dz, x, w_ih, _before_steps(steps, y, h0, reverse))
    return True


def _gru_steps(
    steps: Steps, outs: Any, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h0: Any, sizes: Sizes, reverse: bool
) -> Any:
    if not _is_lowered(steps, 3, x, w_ih, w_hh, b_ih, b_hh, h0, None, sizes):
        return None
    size = h0.array.shape[1]
    bias = steps.new((4 * size,), x.array.dtype)
    steps.clear(bias)
    if b_ih is not None:
        steps.copy(b_ih, bias.shown(bias.array[: 3 * size]))
    if b_hh is not None:
        steps.add_into(b_hh.shown(b_hh.array[: 2 * size]), bias.shown(bias.array[: 2 * size]))
        steps.copy(b_hh.shown(b_hh.array[2 * size :]), bias.shown(bias.array[3 * size :]))
    known = _run_steps(steps, "gru", _steps(sizes, reverse), outs, x, w_ih, w_hh, bias, h0, None, 2 * size)
    return (*known, outs[0])


def _gru_back_steps(
    steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, sizes: Sizes, reverse: bool
) -> bool:
    (x, w_ih, w_hh, _, _, h0), (gates, kept, y) = operands, residuals
    dx, dw_ih, dw_hh, db_ih, db_hh, dh = outs
    size, order = h0.array.shape[1], _steps(sizes, reverse)
    dz = _run_back_steps(steps, "gru", order, cts, gates, kept, w_hh, h0, None, (dh, None), 4 * size)
    of_state = dz.shown(dz.array[:, : 3 * size])
    _of_weights_steps(steps, of_state, dw_hh, _before_steps(steps, y, h0, reverse), db_hh)
    steps.copy(dz.shown(dz.array[:, 3 * size :]), dz.shown(dz.array[:, 2 * size : 3 * size]))
    _of_weights_steps(steps, of_state, dw_ih, x, db_ih)
    if dx is not None:
        steps.multiply(of_state, w_ih, dx)
    return True


lower(
    {
        "rnn": Lowering(_rnn_steps, _rnn_back_steps),
        "lstm": Lowering(_lstm_steps, _lstm_back_steps),
        "gru": Lowering(_gru_steps, _gru_back_steps),
    }
)
fill(
    {
        "rnn": WithBackward(_rnn_forward, _rnn_backward),
        "lstm": WithBackward(_lstm_forward, _lstm_backward),
        "gru": WithBackward(_gru_forward, _gru_backward),
    },
    "cpu",
)
