"""Rows of the table for codes, positions, noisy linear maps and counts of right answers; see `samples`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from samples import Array, Domain, Make, Row, Sample, kink, one_operand, s
from samples_nn_softmax import AS_PARTS

from lucid.nn import functional

BINS = (-2.5, -1.0, 0.2, 3.0)


def two_hot(values: Array, bins: Array) -> Array:
    kind = np.result_type(values, bins)
    wide = [np.asarray(v, np.float64) for v in (values, bins)]
    x = np.clip(wide[0], wide[1][0], wide[1][-1])
    out = [np.interp(x, wide[1], column) for column in np.eye(len(wide[1]))]
    return np.stack(out, -1).astype(kind)


def between(make: Make) -> Iterator[Sample]:
    bins = make.at(*BINS)
    yield s(make(2, 3), bins)
    yield s(make(3, 2).T, bins)
    yield s(make(), bins)
    yield s(make(0), bins)
    yield kink(make.at(-9.0, -1.0, 3.0, 7.0), bins)


def nearest(x: Array, codebook: Array) -> Array:
    distances = ((x[..., None, :].astype(np.float64) - codebook) ** 2).sum(-1)
    return distances.argmin(-1)


def vectors(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3, 4), make(5, 4))
    yield s(make(4, 3).T, make(4, 5).T)
    yield s(make(0, 4), make(5, 4))


def symmetric_noise(x: Array) -> Array:
    return np.sign(x) * np.sqrt(np.abs(x))


def noisy(x: Any, mu: Any, sigma: Any, b: Any = None, c: Any = None, inner: Any = None, outer: Any = None) -> Any:
    f, g = symmetric_noise(inner), symmetric_noise(outer)
    out = x @ (mu + sigma * np.outer(g, f)).T
    return out if b is None else out + b + c * g


def noisy_layers(make: Make) -> Iterator[Sample]:
    yield s(make(5, 3), make(2, 3), make(2, 3), make(2), make(2), make(3), make(2))
    yield s(make(5, 3), make(2, 3), make(2, 3), None, None, make(3), make(2))


def layers(make: Make) -> Iterator[Sample]:
    yield s(make(5, 3), make(2, 3), make(2))
    yield s(make(3), make(2, 3))
    yield s(make(0, 3), make(2, 3), make(2))


def relu_of(x: Array, w: Array, b: Any = 0) -> Array:
    return np.maximum(x @ w.T + b, 0)


def gelu_of(x: Array, w: Array, b: Any = 0) -> Array:
    y = x @ w.T + b
    return 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))


def turned(x: Array, c: Array, sn: Array, interleaved: bool) -> Array:
    if interleaved:
        other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    else:
        half = x.shape[-1] // 2
        other = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * c + other * sn


def rotary(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, interleaved: bool = False) -> Any:
    def one(x: Array) -> Array:
        if position_ids is None:
            return turned(x, cos[: x.shape[-2]], sin[: x.shape[-2]], interleaved)
        return turned(x, cos[position_ids], sin[position_ids], interleaved)

    return one(q), one(k)


def rotations(make: Make) -> Iterator[Sample]:
    cos, sin = make(6, 4), make(6, 4)
    for interleaved in (False, True):
        yield s(make(2, 3, 5, 4), make(2, 3, 4, 4), cos, sin, interleaved=interleaved)
    yield s(make(2, 3, 4), make(2, 3, 4), cos, sin, np.array([4, 0, 2]))


def scores(make: Make) -> Iterator[Sample]:
    yield s(make.spread(4, 3), np.array([0, 1, 2, 1]))
    yield s(make.spread(3, 4), np.array([0, 1, 2, 1]), dim=0)


def right(logits: Array, target: Array, dim: int = -1) -> Array:
    return logits.argmax(dim) == target


ROWS = [
    Row("symlog", functional.symlog, lambda x: np.sign(x) * np.log1p(np.abs(x)), one_operand, result="float",
        ints=("int64",), pins=((([0.0, -1.0],), ([1, 0.5],)),)),
    Row("symexp", functional.symexp, lambda x: np.sign(x) * np.expm1(np.abs(x)), one_operand, result="float",
        ints=("int64",), pins=((([0.0],), ([1],)),)),
    Row("two_hot", functional.two_hot, two_hot, between, without=AS_PARTS),
    Row("straight_through", functional.straight_through, lambda hard, soft: hard, lambda make: [kink(make(2, 3), make(2, 3)), kink(make(3, 2).T, make(2, 3))],
        without=AS_PARTS, pins=((([1.0, 2.0], [0.5, 0.5]), ([0, 0], [1, 1])),)),
    Row("nearest_codebook", functional.nearest_codebook, nearest, vectors, differentiable=False, result="int64",
        without=AS_PARTS),
    Row("vector_quantize", functional.vector_quantize, lambda x, c: (c[nearest(x, c)], nearest(x, c)),
        lambda make: (v._replace(smooth=False) for v in vectors(make)), result=("keep", "int64"), without=AS_PARTS),
    Row("scaled_noise", functional.scaled_noise, symmetric_noise, lambda make: (v for v in one_operand(make) if v.smooth),
        Domain(0.2, 3, 0.1), without=AS_PARTS),
    Row("noisy_linear", functional.noisy_linear, noisy, noisy_layers, Domain(0.2, 2), without=AS_PARTS),
    Row("fused_linear_relu", functional.fused_linear_relu, relu_of, layers, without=AS_PARTS),
    Row("fused_linear_gelu", functional.fused_linear_gelu, gelu_of, layers, without=AS_PARTS),
    Row("apply_rotary_emb", functional.apply_rotary_emb, rotary, rotations, unbatched="i", complex=True, without=AS_PARTS),
    Row("repeat_kv", functional.repeat_kv, lambda x, n: np.repeat(x, n, 1), lambda make: [s(make(2, 3, 2, 4), 2)],
        complex=True, without=AS_PARTS),
    Row("correct_count", functional.correct_count, lambda *a, **k: right(*a, **k).sum(), scores, differentiable=False,
        result="int64", without=AS_PARTS),
    Row("accuracy", functional.accuracy, lambda *a, **k: right(*a, **k).mean().astype(np.float32), scores,
        differentiable=False, result="float32", without=AS_PARTS),
]  # fmt: skip
