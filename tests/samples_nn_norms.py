"""Rows of the table for normalisation, attention and recurrent networks; see `samples`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from samples import BOOLS, Array, Domain, Make, Row, Sample, s
from scipy.special import expit, softmax

from lucid.nn.functional import attention, normalization
from lucid.ops.nn import recurrent


def standard(x: Array, axes: tuple[int, ...], eps: float, centred: bool = True) -> Array:
    x = x - x.mean(axes, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)


def affine(y: Array, weight: Any, bias: Any) -> Array:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def layer_norm(x: Array, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    return affine(standard(x, tuple(range(x.ndim - len(shape), x.ndim)), eps), weight, bias)


def rms_norm(x: Array, shape: Any, weight: Any = None, eps: float | None = None) -> Array:
    tiny = np.finfo(float).eps if eps is None else eps
    return affine(standard(x, tuple(range(x.ndim - len(shape), x.ndim)), tiny, centred=False), weight, None)


def columns(values: Any, ndim: int) -> Any:
    return None if values is None else values.reshape(-1, *(1,) * (ndim - 2))


def batch_norm(x: Array, mean: Any, variance: Any, weight: Any = None, bias: Any = None, **how: Any) -> Array:
    eps = how.get("eps", 1e-5)
    if x.shape == (0,):  # nothing, in no channels
        return x
    if how.get("training"):
        y = standard(x, (0, *range(2, x.ndim)), eps)
    else:
        y = (x - columns(mean, x.ndim)) / np.sqrt(columns(variance, x.ndim) + eps)
    return affine(y, columns(weight, x.ndim), columns(bias, x.ndim))


def group_norm(x: Array, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    grouped = x.reshape(x.shape[0], groups, -1) if x.size else x
    y = standard(grouped, (2,), eps).reshape(x.shape) if x.size else x
    return affine(y, columns(weight, x.ndim), columns(bias, x.ndim))


def instance_norm(x: Array, *affine_args: Any, **how: Any) -> Array:
    weight, bias = affine_args[2:] if affine_args else (None, None)
    return group_norm(x, x.shape[1], weight, bias, **how)


def layers(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3, 5), (5,), make(5), make(5))
    yield s(make(2, 3), (2, 3), make(2, 3))
    yield s(make(5), (5,), None, make(5), eps=0.1)
    yield s(make(5, 3).T, (5,))
    yield s(make(0, 3), (3,), make(3), make(3))
    yield s(make(3) + make.at(30), (3,), make(3), eps=0.5)


def roots(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3, 5), (5,), make(5))
    yield s(make(2, 3), (2, 3), make(2, 3), eps=0.1)
    yield s(make(5, 3).T, (5,))
    yield s(make(0, 3), (3,), make(3))


def channels(make: Make, *before: Any, **how: Any) -> Iterator[Sample]:
    """Over channels 2 or 6: long, short and no positions, and a mean far from 0."""
    yield s(make(3, 6), *before, make(6), make(6), **how)
    yield s(make(3, 6, 2), *before, make(6), **how)
    yield s(make(2, 2, 3, 5), *before, None, make(2), **how, eps=0.1)
    yield s(make(3, 2, 2).transpose(1, 2, 0), *before, **how)
    yield s(make(2, 2, 5) + make.at(30), *before, make(2), make(2), **how, eps=0.5)


def running(make: Make) -> Iterator[Sample]:
    yield s(make(3, 2), make(2), abs(make(2)), make(2), make(2))
    yield s(make(2, 2, 3), make(2), abs(make(2)), eps=0.1)


def instances(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3, 5), None, None, make(3), make(3))
    yield s(make(2, 2, 3, 5))


def responses(make: Make) -> Iterator[Sample]:
    yield s(make(2, 5, 3), 3, alpha=0.5)
    yield s(make(1, 3, 2, 2), 2, 0.5, 0.5, 2.0)
    yield s(make(1, 2, 3), 5, alpha=1.0)


def local_response_norm(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    if x.ndim < 2:  # there are no channels
        return x
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        total[:, c] = (near * near).sum(1)
    return x / (total * alpha / size + k) ** beta


NORMS = [
    Row("layer_norm", normalization.layer_norm, layer_norm, layers),
    Row("rms_norm", normalization.rms_norm, rms_norm, roots, complex=True),
    Row(
        "batch_norm",
        normalization.batch_norm,
        batch_norm,
        lambda make: channels(make, None, None, training=True),
        result="float",
        ints=BOOLS,
    ),
    Row("batch_norm by running statistics", normalization.batch_norm, batch_norm, running, result="float", ints=BOOLS),
    Row("instance_norm", normalization.instance_norm, instance_norm, instances),
    Row(
        "group_norm",
        normalization.group_norm,
        group_norm,
        lambda make: (*channels(make, 2), s(make(0, 2), 1, make(2), make(2))),
    ),
    Row(
        "local_response_norm",
        normalization.local_response_norm,
        local_response_norm,
        responses,
        result="float",
        ints=BOOLS,
    ),
]


def attended(q: Array, k: Array, v: Array, mask: Any = None, **how: Any) -> Array:
    if how.get("enable_gqa"):
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], axis=-3) for a in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (how.get("scale") or 1 / np.sqrt(q.shape[-1]))
    if how.get("is_causal"):
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np.nan_to_num(softmax(scores, -1)) @ v


def attentions(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3, 5), make(2, 6, 5), make(2, 6, 2))
    yield s(make(3, 2), make(3, 2), make(3, 5), is_causal=True)
    yield s(make(2, 3, 5), make(6, 5), make(2, 1, 6, 2), make(3, 6), scale=0.7)
    yield s(make(2, 3, 2), make(2, 5, 2), make(2, 5, 3), np.arange(30).reshape(2, 3, 5) % 7 > 2)
    yield s(make(2, 3), make(2, 3), make(2, 3), np.array([[True, False], [False, False]]))
    yield s(make(6, 2, 3), make(3, 2, 3), make(3, 2, 3), enable_gqa=True)
    yield s(make(2, 1, 5) * make.at(100), make(2, 2, 5), make(2, 2, 3), scale=3.0)


def in_heads(x: Array, heads: int) -> Array:
    """(length, batch, size) as (batch, heads, length, size of a head)."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2, 0, 3)


def many_heads(q: Array, k: Array, v: Array, w: Array, b: Array, w_out: Array, b_out: Array, heads: int) -> list[Array]:
    q, k, v = (x @ p.T + c for x, p, c in zip((q, k, v), np.split(w, 3), np.split(b, 3), strict=True))
    q, k, v = (in_heads(x, heads) for x in (q, k, v))
    weights = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -1)
    out = (weights @ v).transpose(2, 0, 1, 3)
    return [out.reshape(*out.shape[:2], -1) @ w_out.T + b_out, weights.mean(1)]


def of_heads(q: Any, k: Any, v: Any, w: Any, b: Any, w_out: Any, b_out: Any, heads: int) -> Any:
    """`multi_head_attention_forward` without the arguments that are None here."""
    return attention.multi_head_attention_forward(
        q, k, v, q.shape[-1], heads, w, b, None, None, False, 0.0, w_out, b_out
    )


def heads_and_projections(make: Make) -> Iterator[Sample]:
    inputs = (make(3, 2, 6), make(5, 2, 6), make(5, 2, 6))
    yield s(*inputs, make(18, 6), make(18), make(6, 6), make(6), 2)


def runs(sizes: tuple[int, ...], reverse: bool) -> list[tuple[int, int]]:
    ends = np.cumsum(sizes)
    steps = [(int(end) - n, int(end)) for n, end in zip(sizes, ends, strict=True)]
    return steps[::-1] if reverse else steps


def unrolled(cell: Any) -> Any:
    """A layer over packed rows from the equations of one step."""

    def layer(x: Array, w_ih: Array, w_hh: Array, b_ih: Any, b_hh: Any, *states: Any, **how: Any) -> list[Array]:
        *states, w_hr = states if cell is lstm_cell else (*states, None)
        now = [np.array(state) for state in states]
        rows: dict[int, Array] = {}
        for start, end in runs(how["sizes"], how["reverse"]):
            before = [state[: end - start] for state in now]
            zx = x[start:end] @ w_ih.T + (0 if b_ih is None else b_ih)
            zh = before[0] @ w_hh.T + (0 if b_hh is None else b_hh)
            new = cell(zx, zh, *before, relu=how.get("relu"))
            new[0] = new[0] if w_hr is None else new[0] @ w_hr.T
            for state, value in zip(now, new, strict=True):
                state[: end - start] = value
            rows[start] = new[0]
        return [np.concatenate([rows[start] for start in sorted(rows)]), *now]

    return layer


def rnn_cell(zx: Array, zh: Array, h: Array, relu: bool) -> list[Array]:
    return [np.maximum(zx + zh, 0) if relu else np.tanh(zx + zh)]


def lstm_cell(zx: Array, zh: Array, h: Array, c: Array, relu: None) -> list[Array]:
    i, f, g, o = np.split(zx + zh, 4, 1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return [expit(o) * np.tanh(c), c]


def gru_cell(zx: Array, zh: Array, h: Array, relu: None) -> list[Array]:
    (ir, iz, i_n), (hr, hz, hn) = np.split(zx, 3, 1), np.split(zh, 3, 1)
    z, n = expit(iz + hz), np.tanh(i_n + expit(ir + hr) * hn)
    return [(1 - z) * n + z * h]


def sequences(gates: int, states: int, *settings: dict[str, Any]) -> Any:
    """Sequences of one length and of several, in both directions, with and without biases; LSTM with a projection too."""

    def samples(make: Make) -> Iterator[Sample]:
        for k, setting in enumerate(settings):
            for sizes, reverse in (((2, 2, 2), False), ((3, 2, 1), False), ((3, 1), True), ((2,), False)):
                size, biases = 2, [make(gates * 2), make(gates * 2)] if reverse or k else [None, None]
                hidden = 3 if states == 2 and not reverse else size
                weights = [make(gates * size, 5), make(gates * size, hidden), *biases]
                first = [make(sizes[0], hidden), *[make(sizes[0], size)] * (states - 1)]
                last = [] if states == 1 else [None] if hidden == size else [make(hidden, size)]
                yield s(make(sum(sizes), 5), *weights, *first, *last, sizes=sizes, reverse=reverse, **setting)

    return samples


SMALL = Domain(-1, 1)

ATTENTION = [
    Row("scaled_dot_product_attention", attention.scaled_dot_product_attention, attended, attentions),
    Row(
        "multi_head_attention_forward",
        of_heads,
        many_heads,
        heads_and_projections,
        Domain(-1, 1),
        without={"refused": "takes what its parts take"},
    ),
]

RECURRENT = [
    Row(name, partial(recurrent.run, getattr(recurrent, name)), unrolled(cell), sequences(*shape), SMALL)
    for name, cell, *shape in (
        ("rnn", rnn_cell, 1, 1, {"relu": False}, {"relu": True}),
        ("lstm", lstm_cell, 4, 2, {}, {}),
        ("gru", gru_cell, 3, 1, {}, {}),
    )
]

ROWS = NORMS + ATTENTION + RECURRENT
