"""Rows of the table for softmax, activations, losses, linear maps and embeddings; see `samples`."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special as special
from samples import BOOLS, SPECIAL, Array, Domain, Make, Row, Sample, Samples, kink, one_operand, s

import lucid
from lucid.core.primitive import P
from lucid.nn import functional
from lucid.nn.functional import activations, classification, losses, similarity
from lucid.ops.nn import softmax as softmax_ops

# Functions made of other operations take the types that those take, which is tested there.
AS_PARTS = {"refused": "takes what its parts take"}
NO_DOOR = {"refused": "a primitive that no user calls"}

# --- softmax -------------------------------------------------------------------------------------


def along(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 1)
    yield s(make(3, 2).T, 0)
    yield s(make(2, 3, 5), 1)
    yield s(make(2, 6)[:, ::2], -1)
    yield s(make(3), 0)
    yield s(make(), 0)
    yield s(make(0, 3), 1)
    yield s(make(3, 0), 1)
    if make.floats:
        yield s(make.at([1000.0, 1001.0, 998.0], [-2000.0, -2001.0, -2000.0]), 1)
        yield s(make.at([-90.0, -91.0, -89.5], [0.0, 1.0, 2.0]), 1)
        yield kink(make.at(1.0, -math.inf, 2.0), 0)
        yield kink(make.at([1.0, math.nan, 2.0], [-math.inf, -math.inf, -math.inf], [math.inf, 1.0, 0.0]), 1)


def backs(of: Callable[..., Array]) -> Samples:
    """A cotangent beside results of a function, which the derivative is only right for."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape, dim in (((2, 3), 1), ((3, 2), 0), ((2, 3, 5), 1), ((0, 3), 1)):
            result = of(make(*shape).astype(float), axis=dim) if 0 not in shape else make(*shape)
            yield Sample((make(*shape), np.asarray(result).astype(make.dtype)), {"dim": dim})

    return samples


def softmax(x: Array, dim: int) -> Array:
    if not x.size:
        return x.copy()
    e = np.exp(x - x.max(axis=dim, keepdims=True)) if x.ndim else np.ones(())
    return e / e.sum(axis=dim, keepdims=True) if x.ndim else e


def log_softmax(x: Array, dim: int) -> Array:
    if not x.size or not x.ndim:
        return x * 0
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


SOFTMAX = [
    Row("softmax", softmax_ops.softmax, softmax, along, result="float", ints=BOOLS),
    Row("log_softmax", softmax_ops.log_softmax, log_softmax, along, result="float", ints=BOOLS),
    Row("softmin", lambda x, dim: activations.softmin(x, dim), lambda x, dim: softmax(-x, dim), along,
        result="float", ints=BOOLS),
    Row("softmax_back", lambda g, y, dim: P.softmax_back(g, y, dim=dim),
        lambda g, y, dim: y * (g - (g * y).sum(dim, keepdims=True)), backs(special.softmax),
        without=NO_DOOR),
    Row("log_softmax_back", lambda g, y, dim: P.log_softmax_back(g, y, dim=dim),
        lambda g, y, dim: g - np.exp(y) * g.sum(dim, keepdims=True), backs(special.log_softmax),
        without=NO_DOOR),
]  # fmt: skip

# --- activations ---------------------------------------------------------------------------------


def finite(samples: Samples) -> Samples:
    return lambda make: (x for x in samples(make) if x.smooth)


def a(name: str, ref: Callable[..., Any], *calls: tuple[Any, ...], domain: Any = (-4, 4), **flags: Any) -> Row:
    """A row for an activation, with each of some further arguments."""

    def samples(make: Make) -> Iterator[Sample]:
        for args in calls or ((),):
            for sample in one_operand(make):
                yield sample._replace(args=(*sample.args, *args))

    op = flags.pop("op", None) or getattr(activations, name)
    flags = {"result": "float", "ints": ("int64", "uint8"), **flags}
    return Row(name, op, ref, flags.pop("samples", samples), Domain(*domain), **flags)


def inner(name: str, ref: Callable[..., Any], **flags: Any) -> Row:
    """A row for a primitive that derivatives are made of."""
    flags = {"op": lambda x, **params: getattr(P, name)(x, **params), "without": NO_DOOR, **flags}
    return a(name, ref, **{"ints": (), "result": "keep", "samples": finite(one_operand), **flags})


def cotangents(make: Make) -> Iterator[Sample]:
    for shape in ((), (1,), (17,), (2, 33)):
        yield Sample((make(*shape), make(*shape)), {})
    yield Sample((make(3), make(2, 1)), {})
    yield Sample((make(5, 4).T, make(4, 5)), {})


def gate_back(name: str, slope: Callable[..., Any]) -> Row:
    """A row for what the slope of an activation makes of a cotangent."""
    return Row(name, lambda g, x: getattr(P, name)(g, x), lambda g, x: g * slope(x), cotangents, without=NO_DOOR)


def sigmoid(x: Array) -> Array:
    return special.expit(x) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x))


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


def gelu_slope(x: Array) -> Array:
    return special.ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu_tanh_slope(x: Array) -> Array:
    k = math.sqrt(2 / math.pi)
    t = np.tanh(k * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)


def mish(x: Array) -> Array:
    return x * np.tanh(np.logaddexp(x, 0))


def mish_slope(x: Array) -> Array:
    t = np.tanh(np.logaddexp(x, 0))
    return t + x * (1 - t * t) * sigmoid(x)


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def selu(x: Array) -> Array:
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def hardtanh(x: Array, lo: float = -1.0, hi: float = 1.0) -> Array:
    lo, hi = (int(lo), int(hi)) if x.dtype.kind in "iu" else (lo, hi)
    return np.minimum(np.maximum(x, lo), hi)


def hardsigmoid(x: Array) -> Array:
    return hardtanh(x + 3, 0, 6) / 6


def leaky(x: Array, slope: float = 0.01) -> Array:
    return np.where(x <= 0, x * slope, x)


def threshold(x: Array, bound: float, value: float) -> Array:
    return np.where(x <= bound, int(value) if x.dtype.kind in "iu" else value, x)


def slopes(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(3))
    yield s(make(5, 3, 2), make(3))
    yield s(make(2, 3), make(1))
    yield s(make(3), make(1))
    yield s(make(), make(1))
    yield s(make(0, 3), make(3))
    yield kink(make.at(*SPECIAL), make(1))


def prelu(x: Array, weight: Array) -> Array:
    w = weight.reshape(-1, *(1,) * (x.ndim - 2)) if weight.size > 1 else weight.reshape(())
    return np.where(x > 0, x, x * w)


def halves(make: Make) -> Iterator[Sample]:
    yield s(make(2, 6))
    yield s(make(2, 6, 3), 1)
    yield s(make(2, 3), 0)
    yield s(make(2, 0))


def glu(x: Array, dim: int = -1) -> Array:
    value, gate = np.split(x, 2, axis=dim)
    return value * sigmoid(gate)


def bounded(make: Make) -> Iterator[Sample]:
    for inside in (True, False):
        yield Sample((make(2, 3), make(2, 3)), {"lo": -0.5, "hi": 1.0, "inside": inside})
        yield Sample((make(3), make(2, 1)), {"lo": -0.5, "hi": 1.0, "inside": inside})
        yield Sample(
            (make.at(math.inf, math.nan, 1.0), make.at(0.0, 3.0, -3.0)),
            {"lo": -0.5, "hi": 1.0, "inside": inside},
            False,
        )


def within(g: Array, x: Array, lo: float, hi: float, inside: bool) -> Array:
    between = (x > lo) & (x < hi)
    return np.where(between if inside else ~between, g, 0)


def with_settings(**settings: Any) -> Samples:
    return lambda make: (x._replace(kwargs=settings) for x in one_operand(make) if x.smooth)


ELU = {"alpha": 1.5, "scale": 1.2, "rate": 0.7}


def elu_slope(x: Array, alpha: float, scale: float, rate: float) -> Array:
    return np.where(x > 0, scale, scale * alpha * rate * np.exp(rate * np.minimum(x, 0)))


ACTIVATIONS = [
    a("relu6", lambda x: hardtanh(x, 0, 6), domain=(-3, 9), result="keep", pins=((([0.0, 6.0, 1.0],), ([0, 0, 1],)),)),
    a("hardtanh", hardtanh, (), (-0.3, 2.0), result="keep", ints=("int64",), pins=((([-1.0, 1.0, 0.5],), ([0, 0, 1],)),)),
    a("hardtanh_", hardtanh, (-0.3, 2.0), op=lambda x, *args: activations.hardtanh_(x.clone(), *args), inplace=True, ints=("int64",), result="keep"),
    a("threshold", threshold, (0.25, 7.0), result="keep", pins=((([0.25, 1.0], 0.25, 7.0), ([0, 1],)),)),
    a("leaky_relu", leaky, (), (0.3,), (1.5,), (-0.2,), pins=((([0.0, -1.0, 1.0], 0.3), ([0.3, 0.3, 1],)),)),
    a("leaky_relu_", leaky, (0.3,), op=lambda x, *args: activations.leaky_relu_(x.clone(), *args), inplace=True, ints=(), result="keep"),
    Row("prelu", activations.prelu, prelu, slopes, result="float", ints=("int64",)),
    a("rrelu", lambda x, lo=1 / 8, hi=1 / 3: leaky(x, (lo + hi) / 2), (), (0.1, 0.5)),
    a("elu", elu, (), (0.5,)),
    a("elu_", elu, (0.5,), op=lambda x, *args: activations.elu_(x.clone(), *args), inplace=True, ints=(), result="keep"),
    a("threshold_", threshold, (0.25, 7.0), op=lambda x, *args: activations.threshold_(x.clone(), *args), inplace=True, result="keep"),
    a("rrelu_", lambda x, lo=1 / 8, hi=1 / 3: leaky(x, (lo + hi) / 2), (), (0.1, 0.5), op=lambda x, *args: activations.rrelu_(x.clone(), *args), inplace=True, ints=(), result="keep"),
    a("selu_", selu, op=lambda x: activations.selu_(x.clone()), inplace=True, ints=(), result="keep"),
    a("celu_", celu, (), (2.0,), op=lambda x, *args: activations.celu_(x.clone(), *args), inplace=True, ints=(), result="keep"),
    a("selu", selu),
    a("celu", celu, (), (2.0,)),
    a("gelu", gelu, (), ("tanh",), samples=lambda make: (
        x._replace(args=(*x.args, *more)) for more in ((), ("tanh",)) for x in one_operand(make) if x.smooth)),
    a("silu", lambda x: x * sigmoid(x), samples=finite(one_operand), complex=True),
    a("silu_", lambda x: x * sigmoid(x), op=lambda x: activations.silu(x.clone(), inplace=True), inplace=True, complex=True, ints=(), result="keep", samples=finite(one_operand)),
    a("mish", mish, samples=finite(one_operand)),
    a("hardsigmoid", hardsigmoid, pins=((([-3.0, 3.0, 0.0],), ([0, 0, 1 / 6],)),)),
    a("hardswish", lambda x: x * hardsigmoid(x), samples=finite(one_operand), pins=((([-3.0, 3.0],), ([0, 1],)),)),
    a("softshrink", lambda x, b=0.5: np.sign(x) * np.maximum(np.abs(x) - b, 0), (), (0.2,), pins=((([0.5, 1.0],), ([0, 1],)),)),
    a("hardshrink", lambda x, b=0.5: np.where(np.abs(x) <= b, 0, x), (), (0.2,), pins=((([0.5, 1.0],), ([0, 1],)),)),
    a("tanhshrink", lambda x: x - np.tanh(x), complex=True),
    a("softsign", lambda x: x / (1 + np.abs(x)), complex=True),
    a("logsigmoid", special.log_expit),
    Row("glu", activations.glu, glu, halves, complex=True, without=AS_PARTS),
    Row("within", lambda g, x, **how: P.within(g, x, **how), within, bounded, without=NO_DOOR),
    inner("step", lambda x, above, below: np.where(x > 0, above, below), samples=with_settings(above=2.0, below=0.1)),
    inner("elu_slope", elu_slope, samples=with_settings(**ELU)),
    inner("hardswish_slope", lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))),
    gate_back("silu_back", lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    gate_back("gelu_back", gelu_slope),
    gate_back("gelu_tanh_back", gelu_tanh_slope),
    inner("mish_slope", mish_slope),
]  # fmt: skip

# --- losses of numbers ---------------------------------------------------------------------------


def reduced(loss: Array, reduction: str = "mean") -> Array:
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


WAYS = ("mean", "sum", "none")


def pairs(*options: dict[str, Any], extra: int = 0, last: Any = None) -> Samples:
    """Operands of equal shape under all reductions, with further settings and `extra` operands more."""

    def samples(make: Make) -> Iterator[Sample]:
        for k, settings in enumerate(options or ({},)):
            for reduction in WAYS:
                shape = ((2, 3), (3,), (5, 1, 2))[k % 3]
                operands = [make(*shape) for _ in range(2 + extra)]
                yield Sample(
                    tuple(operands) if last is None else (*operands, last(make, shape)),
                    {"reduction": reduction, **settings},
                )
        yield s(make(), make(), *[make() for _ in range(extra)], *([] if last is None else [last(make, ())]))
        yield s(
            make(3, 2).T,
            make(2, 6)[:, ::2],
            *[make(2, 3) for _ in range(extra)],
            *([] if last is None else [last(make, (2, 3))]),
            reduction="sum",
        )

    return samples


def signs(make: Make, shape: tuple[int, ...]) -> Array:
    return np.where(make.rng.uniform(-1, 1, shape) > 0, 1, -1)


def loss(name: str, ref: Callable[..., Any], samples: Samples, *domain: float, **flags: Any) -> Row:
    op = flags.pop("op", None) or getattr(losses, name)
    return Row(name, op, ref, samples, Domain(*domain), **{"without": AS_PARTS, **flags})


def weighted(values: Array, reduction: str, weight: Any) -> Array:
    if weight is None:
        return reduced(values, reduction)
    return (values * weight).sum() / weight.sum() if reduction == "mean" else reduced(values * weight, reduction)


def mse(x: Array, y: Array, weight: Any = None, reduction: str = "mean") -> Array:
    return weighted((x - y) ** 2, reduction, weight)


def l1(x: Array, y: Array, weight: Any = None, reduction: str = "mean") -> Array:
    return weighted(np.abs(x - y), reduction, weight)


def with_last(name: str, function: Callable[..., Any], before: int = 2) -> Callable[..., Any]:
    """The last of the arrays, behind the first few, by its name: those that a sample gives by name are no operands."""

    def op(*args: Any, **settings: Any) -> Any:
        return function(*args[:before], **dict(zip((name,), args[before:], strict=False)), **settings)

    return op


def with_weight(make: Make) -> Iterator[Sample]:
    yield from pairs()(make)
    for reduction in WAYS:
        yield s(make(2, 3), make(2, 3), make.real(2, 3) + make.at(3).real, reduction=reduction)


def huber(x: Array, y: Array, reduction: str = "mean", delta: float = 1.0) -> Array:
    d = np.abs(x - y)
    return reduced(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def smooth_l1(x: Array, y: Array, reduction: str = "mean", beta: float = 1.0) -> Array:
    d = np.abs(x - y)
    return reduced(np.where(d < beta, d * d / (2 * max(beta, 1e-9)), d - beta / 2), reduction)


def bce(x: Array, y: Array, weight: Any = None, reduction: str = "mean") -> Array:
    values = -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))
    return reduced(values if weight is None else values * weight, reduction)


def bce_logits(x: Array, y: Array, weight: Any = None, positive: Any = None, reduction: str = "mean") -> Array:
    pos = 1 if positive is None else positive
    values = -(pos * y * special.log_expit(x) + (1 - y) * special.log_expit(-x))
    return reduced(values if weight is None else values * weight, reduction)


def logits(make: Make) -> Iterator[Sample]:
    yield from pairs()(make)
    yield s(make(2, 3), make(2, 3), make(2, 3), reduction="sum")
    yield s(make(2, 3), make(2, 3), make(3), make(3))
    if make.name in ("float64", "float32"):
        yield s(make.at(50.0, -50.0, 700.0, -700.0), make.at(0.0, 1.0, 1.0, 0.25), reduction="sum")


def chances(make: Make) -> Iterator[Sample]:
    yield from pairs()(make)
    yield s(make(2, 3), make(2, 3), make(2, 3), reduction="sum")
    yield kink(make.at(0.0, 1.0, 0.0, 1.0), make.at(0.0, 1.0, 1.0, 0.0), reduction="none")


def kl(x: Array, y: Array, reduction: str = "mean", log_target: bool = False) -> Array:
    values = np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x
    return values.sum() / len(values) if reduction == "batchmean" else reduced(values, reduction)


def divergences(make: Make) -> Iterator[Sample]:
    yield from pairs({}, {"log_target": True})(make)
    yield s(make(3, 2), make(3, 2), reduction="batchmean")


def poisson(
    x: Array, y: Array, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Array:
    values = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    if full:
        stirling = y * np.log(np.maximum(y, 1)) - y + 0.5 * np.log(2 * np.pi * np.maximum(y, 1))
        values = values + np.where(y > 1, stirling, 0)
    return reduced(values, reduction)


def gaussian(x: Array, y: Array, var: Array, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Array:
    if var.ndim and var.ndim == x.ndim - 1:
        var = var[..., None]
    values = 0.5 * (np.log(var) + (x - y) ** 2 / var) + (0.5 * np.log(2 * np.pi) if full else 0)
    return reduced(values, reduction)


def variances(make: Make) -> Iterator[Sample]:
    yield from pairs({}, {"full": True}, extra=1)(make)
    yield s(make(2, 3), make(2, 3), make(2))
    yield s(make(2, 3), make(2, 3), make(2, 1), reduction="none")


def hinge(x: Array, y: Array, margin: float = 1.0, reduction: str = "mean") -> Array:
    # Targets other than 1 and -1 count as both.
    return reduced(np.where(y != -1, x, 0) + np.where(y != 1, np.maximum(0, margin - x), 0), reduction)


def one_and_target(*options: dict[str, Any]) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        for settings in options or ({},):
            for reduction in WAYS:
                yield Sample((make(2, 3), signs(make, (2, 3))), {"reduction": reduction, **settings})
        yield s(make(), signs(make, ()))

    return samples


def soft_margin(x: Array, y: Array, reduction: str = "mean") -> Array:
    return reduced(np.logaddexp(0, -y * x), reduction)


def ranking(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: str = "mean") -> Array:
    return reduced(np.maximum(0, margin - target * (x - y)), reduction)


def cosine_loss(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: str = "mean") -> Array:
    cosine = (x * y).sum(-1) / np.sqrt(((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12))
    # Targets other than 1 and -1 count for nothing.
    apart = np.where(target == -1, np.maximum(0, cosine - margin), 0)
    return reduced(np.where(target == 1, 1 - cosine, apart), reduction)


def vectors_and_signs(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield Sample((make(5, 3), make(5, 3), signs(make, (5,))), {"margin": 0.2, "reduction": reduction})
    yield s(make(3), make(3), signs(make, ()))


def distance(x: Array, y: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    d = np.abs(x - y + eps)
    if math.isinf(p):
        return d.max(-1, keepdims=keepdim)
    return (d**p).sum(-1, keepdims=keepdim) ** (1 / p)


def triplet(
    x: Array, y: Array, z: Array, margin: float = 1.0, p: float = 2.0, swap: bool = False, reduction: str = "mean"
) -> Array:
    far = distance(x, z, p)
    far = np.minimum(far, distance(y, z, p)) if swap else far
    return reduced(np.maximum(0, distance(x, y, p) - far + margin), reduction)


def triplets(make: Make) -> Iterator[Sample]:
    for settings in ({}, {"p": 3.0, "margin": 3.0}, {"swap": True, "margin": 2.0}):
        for reduction in WAYS:
            yield Sample((make(5, 3), make(5, 3), make(5, 3)), {"reduction": reduction, **settings})


def multi_margin(
    x: Array, y: Array, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Array:
    x, y, alone = np.atleast_2d(x), np.atleast_1d(y), x.ndim < 2
    values = np.zeros(len(x), x.dtype)
    for n, (row, t) in enumerate(zip(x, y, strict=True)):
        w = 1 if weight is None else weight[t]
        values[n] = sum(w * max(0, margin - row[t] + v) ** p for i, v in enumerate(row) if i != t) / len(row)
    return reduced(values[0] if alone else values, reduction)


def ranked(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield s(make(3, 5), np.array([4, 0, 2]), reduction=reduction)
    yield s(make(3, 5), np.array([4, 0, 2]), 2, 0.5, make(5))
    yield s(make(5), np.array(1))
    yield s(make(), np.array(0))


def multilabel_margin(x: Array, y: Array, reduction: str = "mean") -> Array:
    rows, labels, alone = np.atleast_2d(x), np.atleast_2d(y), x.ndim < 2
    values = np.zeros(len(rows))
    for n, (row, given) in enumerate(zip(rows, labels, strict=True)):
        mine = [int(t) for t in given[: next((k for k, t in enumerate(given) if t < 0), len(given))]]
        others = [i for i in range(len(row)) if i not in mine]
        values[n] = sum(max(0, 1 - row[j] + row[i]) for j in mine for i in others) / np.float64(len(row))
    return reduced(values[0] if alone else values, reduction)


def labelled(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield s(make(3, 5), np.array([[4, 0, -1, 2, 3], [-1, 0, 0, 0, 0], [1, 2, 3, -1, -1]]), reduction=reduction)
    yield s(make(5), np.array([3, 1, -1, 0, 0]))
    yield s(make(), np.array(0))


def multilabel_soft(x: Array, y: Array, weight: Any = None, reduction: str = "mean") -> Array:
    values = -(y * special.log_expit(x) + (1 - y) * special.log_expit(-x))
    return reduced((values if weight is None else values * weight).mean(-1), reduction)


def soft_labels(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield s(make(2, 3), make(2, 3), reduction=reduction)
    yield s(make(2, 3), make(2, 3), make(3))


def squares(make: Make) -> Iterator[Sample]:
    yield Sample((make(2, 3), make(2, 3)), {"dims": (0, 1), "scale": 0.5})
    yield Sample((make(2, 3, 5), make(2, 3, 5)), {"dims": (1,), "scale": 2.0})
    yield Sample((make(0, 3), make(0, 3)), {"dims": (0, 1), "scale": 1.0})


def bare(name: str, ref: Callable[..., Any], samples: Samples, **flags: Any) -> Row:
    """A row for a primitive that other functions are made of."""
    return Row(name, lambda *args, **params: getattr(P, name)(*args, **params), ref, samples, without=NO_DOOR, **flags)


LOSSES = [
    loss("mse_loss", mse, with_weight, op=with_last("weight", losses.mse_loss)),
    loss("l1_loss", l1, with_weight, complex=True, result="real", op=with_last("weight", losses.l1_loss)),
    loss("huber_loss", huber, pairs({}, {"delta": 0.4})),
    loss("smooth_l1_loss", smooth_l1, pairs({}, {"beta": 0.4}, {"beta": 0.0})),
    loss("binary_cross_entropy", bce, chances, 0.1, 0.9),
    loss("binary_cross_entropy_with_logits", bce_logits, logits,
         op=with_last("pos_weight", losses.binary_cross_entropy_with_logits, 3)),
    loss("kl_div", kl, divergences, 0.1, 0.9),
    loss("poisson_nll_loss", poisson, pairs({}, {"full": True}, {"log_input": False}), 0.2, 3),
    loss("gaussian_nll_loss", gaussian, variances, 0.5, 2),
    loss("hinge_embedding_loss", hinge, one_and_target({}, {"margin": 0.3})),
    loss("soft_margin_loss", soft_margin, one_and_target()),
    loss("margin_ranking_loss", ranking, pairs({"margin": 0.3}, last=signs)),
    loss("cosine_embedding_loss", cosine_loss, vectors_and_signs),
    loss("triplet_margin_loss", triplet, triplets, complex=True, result="real"),
    loss("triplet_margin_with_distance_loss", triplet, complex=True, result="real",
         samples=lambda make: (x for x in triplets(make) if "p" not in x.kwargs)),
    loss("multi_margin_loss", multi_margin, ranked),
    loss("multilabel_margin_loss", multilabel_margin, labelled),
    loss("multilabel_soft_margin_loss", multilabel_soft, soft_labels),
    bare("logit_error", lambda x, y: sigmoid(x) - y, lambda make: [s(make(2, 3), make(3)), s(make(), make())]),
    bare("sum_of_squares", lambda x, y, dims, scale: scale * ((x - y) ** 2).sum(dims), squares),
]  # fmt: skip

# --- losses of classes ---------------------------------------------------------------------------


def picked(logs: Array, y: Array, ignore: int) -> tuple[Array, Array]:
    keep = y != ignore
    found = np.take_along_axis(logs, np.expand_dims(np.where(keep, y, 0), 1), 1).squeeze(1)
    return np.where(keep, found, 0), keep


def nll(x: Array, y: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Array:
    if x.ndim == 1:
        values = nll(x[None], y[None], weight, ignore_index, reduction)
        return values[0] if reduction == "none" else values
    found, keep = picked(x, y, ignore_index)
    w = keep * (1.0 if weight is None else weight[np.where(keep, y, 0)])
    return (-found * w).sum() / w.sum() if reduction == "mean" else reduced(-found * w, reduction)


def cross_entropy(
    x: Array,
    y: Array,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    if x.ndim == 1:
        values = cross_entropy(x[None], y[None], weight, ignore_index, reduction, label_smoothing)
        return values[0] if reduction == "none" else values
    classes = np.float64(x.shape[1])
    w = np.ones(x.shape[1]) if weight is None else weight
    across = w.reshape(-1, *(1,) * (x.ndim - 2))
    logs = log_softmax(x, 1)
    if y.dtype.kind == "f":
        q = y * (1 - label_smoothing) + label_smoothing / classes
        values = -(q * logs * across).sum(1)
        return values.sum() / values.size if reduction == "mean" else reduced(values, reduction)
    found, keep = picked(logs, y, ignore_index)
    share = keep * w[np.where(keep, y, 0)]
    values = (1 - label_smoothing) * -found * share - label_smoothing / classes * keep * (logs * across).sum(1)
    return values.sum() / np.float64(share.sum()) if reduction == "mean" else reduced(values, reduction)


IGNORED = np.array([2, -100, 0])
PIXELS = np.array([[[0, 2, 1, 1, 0]], [[2, 2, -1, 0, 1]]])


def classes(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield s(make(2, 3), np.array([1, 0]), reduction=reduction)
        yield s(make(3, 5), IGNORED, reduction=reduction)
        yield s(make(2, 3, 1, 5), PIXELS, ignore_index=-1, reduction=reduction)
        yield s(make(3, 5), IGNORED, make(5) + make.at(3), reduction=reduction)
    yield s(make(2, 3, 5), np.array([[0, 1, 1, 2, 1], [1, 1, 0, 2, 2]]), make(3) + make.at(3), ignore_index=1)
    yield s(make(3), np.array(2), reduction="none")
    yield s(make(5, 3).T[:, ::2], np.array([1, 0, 2], np.uint8))


def scores(make: Make) -> Iterator[Sample]:
    yield from classes(make)
    yield s(make(5, 3).T, IGNORED, label_smoothing=0.2, reduction="none")
    yield s(make(3, 5), IGNORED, make(5) + make.at(3), label_smoothing=0.2)
    yield s(make(3, 5), IGNORED, label_smoothing=0.2)
    yield s(make(2, 3, 5), make(2, 3, 5))
    yield s(make(2, 3), make(2, 3), make(3), reduction="sum", label_smoothing=0.1)
    if make.name not in ("float16", "bfloat16"):
        yield s(make.at([1000.0, 1001.0, 998.0], [-2000.0, -2001.0, -2000.0]), np.array([2, 0]), reduction="none")


def spelled(
    log_probs: Array, targets: Array, inputs: Any, lengths: Any, blank: int = 0, reduction: str = "mean", **_: Any
) -> Array:
    """The loss by adding up all alignments."""
    alone = log_probs.ndim == 2
    x = log_probs[:, None] if alone else log_probs
    inputs, lengths = np.atleast_1d(inputs), np.atleast_1d(lengths)
    if targets.ndim == 1:
        ends = np.cumsum(lengths)
        rows = [targets[e - n : e] for e, n in zip(ends, lengths, strict=True)]
    else:
        rows = [t[:n] for t, n in zip(targets, lengths, strict=True)]
    values = np.array([_one_spelling(x[:n, k], tuple(rows[k]), blank) for k, n in enumerate(inputs)])
    if reduction == "mean":
        return (values / np.maximum(lengths, 1)).mean()
    return values.sum() if reduction == "sum" else values[0] if alone else values


def _one_spelling(x: Array, target: tuple[int, ...], blank: int) -> float:
    total = 0.0
    for path in np.ndindex(*(x.shape[1],) * len(x)):
        merged = [c for k, c in enumerate(path) if not k or c != path[k - 1]]
        if tuple(c for c in merged if c != blank) == target:
            total += math.exp(sum(x[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def sequences(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        yield s(make(5, 2, 3), np.array([[1, 2], [2, 0]]), np.array([5, 3]), np.array([2, 1]), reduction=reduction)
    yield s(make(5, 1, 3), np.array([[1, 1]]), np.array([5]), np.array([2]))
    yield s(make(3, 2, 3), np.array([0, 1, 0]), np.array([3, 2]), np.array([2, 1]), 2, reduction="sum")
    yield s(make(3, 3), np.array([1]), np.array([3]), np.array([1]))
    yield s(make(3, 1, 2), np.array([[1]]), np.array([3]), np.array([0]))


def rows_to_classes(make: Make) -> Iterator[Sample]:
    yield Sample((make(3, 5), IGNORED), {"ignore_index": -100})
    yield Sample((make(2, 3, 1, 5), PIXELS), {"ignore_index": -1})


def placed(make: Make) -> Iterator[Sample]:
    yield Sample((make(3), IGNORED), {"ignore_index": -100, "classes": 5})
    yield Sample((make(2, 1, 5), PIXELS), {"ignore_index": -1, "classes": 3})


def place(x: Array, y: Array, ignore_index: int, classes: int) -> Array:
    out = np.zeros((len(x), classes, *x.shape[1:]), x.dtype)
    for at in np.ndindex(y.shape):
        if y[at] != ignore_index:
            out[(at[0], y[at], *at[1:])] = x[at]
    return out


def folds(whole: bool) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        for reduction in WAYS:
            for lead in (0, 1):
                shape = PIXELS.shape if reduction == "none" or whole else PIXELS.shape[:lead]
                yield Sample((make(*shape), PIXELS), {"ignore_index": -1, "reduction": reduction, "lead": lead})

    return samples


def fold(x: Array, y: Array, ignore_index: int, reduction: str, lead: int) -> Array:
    keep = y != ignore_index
    axes = tuple(range(lead, x.ndim))
    if reduction == "none":
        return x * keep
    return (x * keep).sum(axes) / (keep.sum(axes) if reduction == "mean" else 1)


def spread(x: Array, y: Array, ignore_index: int, reduction: str, lead: int) -> Array:
    keep = y != ignore_index
    if reduction == "none":
        return x * keep
    count = keep.sum(tuple(range(lead, y.ndim)), keepdims=True) if reduction == "mean" else 1
    return x.reshape(x.shape + (1,) * (y.ndim - lead)) * keep / count


def losses_of_classes(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        for x, y, ignored in (
            (make(3, 5), IGNORED, -100),
            (make(2, 3, 1, 5), PIXELS, -1),
            (make(5, 3).T, IGNORED, -100),
        ):
            yield Sample((x, y), {"ignore_index": ignored, "reduction": reduction})


def placed_losses(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        for y, classes, ignored in ((IGNORED, 5, -100), (PIXELS, 3, -1)):
            shape = y.shape if reduction == "none" else ()
            yield Sample((make(*shape), y), {"classes": classes, "ignore_index": ignored, "reduction": reduction})


def place_losses(x: Array, y: Array, classes: int, ignore_index: int, reduction: str) -> Array:
    return -place(spread(x, y, ignore_index, reduction, 0), y, ignore_index, classes)


def exponents(make: Make) -> Iterator[Sample]:
    for reduction in WAYS:
        e = np.exp(make(3, 5).astype(float)).astype(make.dtype)
        yield Sample(
            (e, make(3) if reduction == "none" else make(), IGNORED), {"ignore_index": -100, "reduction": reduction}
        )
    e = np.exp(make(2, 3, 1, 5).astype(float)).astype(make.dtype)
    yield Sample((e, make(), PIXELS), {"ignore_index": -1, "reduction": "mean"})


def entropy_back(e: Array, g: Array, y: Array, ignore_index: int, reduction: str) -> Array:
    rows = spread(g, y, ignore_index, reduction, 0)
    return e / e.sum(1, keepdims=True) * np.expand_dims(rows, 1) - place(rows, y, ignore_index, e.shape[1])


def lattices(make: Make) -> Iterator[Sample]:
    yield s(*[make(3, 2, 5) for _ in range(4)])
    yield s(*[make(2, 1) for _ in range(4)])
    yield s(*[make(1, 3, 2) for _ in range(4)])


def lattice(a0: Array, a1: Array, a2: Array, b: Array) -> Array:
    out = b.copy()
    for t in range(1, len(b)):
        for k, a in enumerate((a0, a1, a2)):
            for state in range(k, b.shape[-1]):
                out[t, ..., state] += a[t, ..., state] * out[t - 1, ..., state - k]
    return out


def scans(make: Make) -> Iterator[Sample]:
    # Whether two states may be skipped is no number to differentiate by, so it stands here as an integer.
    yield s(make(3, 2, 5), np.array([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]))
    yield s(make(5, 3), np.array([0, 0, 0]))


def scan_op(emit: Any, allowed: Any) -> Any:
    return lucid.exp(P.ctc_scan(emit, lucid.where(allowed == 1, lucid.zeros((), dtype=emit.dtype), -math.inf)))


def scan(emit: Array, allowed: Array) -> Array:
    out = np.zeros(emit.shape)
    out[0, ..., :2] = np.exp(emit[0, ..., :2])
    for t in range(1, len(emit)):
        for state in range(emit.shape[-1]):
            reach = out[t - 1, ..., state].copy()
            reach += out[t - 1, ..., state - 1] if state else 0
            reach += out[t - 1, ..., state - 2] * allowed[..., state] if state > 1 else 0
            out[t, ..., state] = reach * np.exp(emit[t, ..., state])
    return out


CLASSES = [
    Row("cross_entropy", classification.cross_entropy, cross_entropy, scores),
    Row("linear_cross_entropy", classification.linear_cross_entropy,
        lambda x, w, y, reduction="mean": cross_entropy(x @ w.T, y, reduction=reduction),
        lambda make: (s(make(3, 2), make(5, 2), np.array([4, 0, 2]), reduction=how) for how in WAYS), without=AS_PARTS),
    Row("nll_loss", classification.nll_loss, nll, classes),
    Row("ctc_loss", classification.ctc_loss, spelled, sequences, Domain(-2, -0.2), unbatched="i", without=AS_PARTS),
    bare("pick_class", lambda x, y, ignore_index: picked(x, y, ignore_index)[0], rows_to_classes, complex=True),
    bare("place_class", place, placed, complex=True),
    bare("nll", lambda x, y, **given: nll(x, y, **given), losses_of_classes, complex=True),
    bare("nll_back", place_losses, placed_losses, complex=True),
    bare("fold_rows", fold, folds(whole=True), complex=True),
    bare("spread_rows", spread, folds(whole=False), complex=True),
    bare("cross_entropy_back", entropy_back, exponents),
    bare("lattice", lattice, lattices),
    Row("ctc_scan", scan_op, scan, scans, Domain(-2, -0.2), without=NO_DOOR),
]  # fmt: skip

# --- linear maps, embeddings, distances ----------------------------------------------------------


def layers(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(5, 3), make(5))
    yield s(make(2, 3), make(5, 3))
    yield s(make(3), make(5, 3), make(5))
    yield s(make(2, 1, 3), make(5, 3), make(5))
    yield s(make(0, 3), make(5, 3), make(5))
    yield s(make(3, 2).T, make(3, 5).T, make(5))


def affine(x: Array, weight: Array, bias: Any = None) -> Array:
    return x @ weight.T + (0 if bias is None else bias)


def bilinears(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), make(2, 5), make(3, 3, 5), make(3))
    yield s(make(3), make(2), make(1, 3, 2))


def bilinear(x: Array, y: Array, weight: Array, bias: Any = None) -> Array:
    return np.einsum("...i,kij,...j->...k", x, weight, y) + (0 if bias is None else bias)


TOKENS = np.array([[2, 0, 2], [1, 1, 2]])
WORDS = np.array([2, 0, 2, 1, 1])


def tables(make: Make) -> Iterator[Sample]:
    yield s(TOKENS, make(3, 5))
    yield s(np.array(1), make(3, 5))
    yield s(np.zeros((0,), int), make(3, 5))

    yield kink(TOKENS, make(3, 5), 2)
    yield kink(TOKENS, make(3, 5), -3, scale_grad_by_freq=True)


def scaled(make: Make) -> Iterator[Sample]:
    yield kink(make(2, 3), make(2, 3))
    yield kink(make(2, 1), make(3))
    yield kink(make(), make())


def padded_tables(make: Make) -> Iterator[Sample]:
    yield Sample((make(3, 5), TOKENS), {"skip": 2, "period": 3})
    yield Sample((make(3, 5), WORDS), {"skip": None, "period": 3})


def row_sums(make: Make) -> Iterator[Sample]:
    yield Sample((make(2, 3, 5), TOKENS), {"count": 3, "skip": 2, "period": 3})
    yield Sample((make(5), WORDS), {"count": 3, "skip": None, "period": 3})
    yield Sample((make(5, 500), WORDS), {"count": 3, "skip": None, "period": 3})


def scattered(rows: Array, index: Array, count: int, skip: Any, period: int) -> Array:
    out = np.zeros((count, *rows.shape[index.ndim :]), rows.dtype)
    for at in np.ndindex(index.shape):
        if index[at] != skip:
            out[index[at]] += rows[at]
    return out


def gathered(table: Array, index: Array, skip: Any, period: int) -> Array:
    out = table[index]
    return out if skip is None else np.where((index == skip)[..., None], 0, out)


def bags(make: Make) -> Iterator[Sample]:
    starts = np.array([0, 2, 2])
    for mode in ("sum", "mean", "max"):
        yield s(WORDS, make.spread(3, 5), starts, mode=mode)
        yield s(TOKENS, make.spread(3, 5), mode=mode)
        yield s(WORDS, make.spread(3, 5), np.array([0, 2, 5]), mode=mode, include_last_offset=True)


def bag(
    index: Array, weight: Array, offsets: Any = None, mode: str = "mean", include_last_offset: bool = False
) -> Array:
    if offsets is None:
        groups = list(index)
    else:
        ends = [*offsets[1:], *([] if include_last_offset else [len(index)])]
        groups = [index[a:b] for a, b in zip(offsets, ends, strict=False)]
    combine = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    rows = [combine(weight[g], axis=0) if len(g) else np.zeros(weight.shape[1]) for g in groups]
    return np.array(rows, weight.dtype).reshape(len(groups), weight.shape[1])


def vectors(*options: dict[str, Any]) -> Samples:
    def samples(make: Make) -> Iterator[Sample]:
        for settings in options or ({},):
            yield Sample((make(2, 3), make(2, 3)), settings)
            yield Sample((make(5, 2, 3), make(2, 3)), settings)

    return samples


def cosine(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(x, y)
    lengths = [np.maximum(np.sqrt((v * v).sum(dim)), eps) for v in (x, y)]
    return (x * y).sum(dim) / (lengths[0] * lengths[1])


def normalized(x: Array, p: float = 2.0, dim: Any = 1) -> Array:
    return x / (np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p)


def lengths(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3))
    yield s(make(2, 3, 5), 3.0, 2)
    yield s(make(3, 2).T, dim=0)


def all_pairs(x: Array, p: float = 2.0) -> Array:
    found = [(np.abs(x[i] - x[j]) ** p).sum() ** (1 / p) for i in range(len(x)) for j in range(i + 1, len(x))]
    return np.array(found, x.dtype)


def channels(make: Make) -> Iterator[Sample]:
    yield s(make(2, 3), 0.5, False)
    yield s(make(2, 3), 1.0)
    yield s(make(2, 3), 0.0)


MAPS = [
    Row("linear", functional.linear, affine, layers, complex=True, ints=("int64",)),
    Row("bilinear", functional.bilinear, bilinear, bilinears, complex=True, ints=("int64",)),
    Row("embedding", functional.embedding, lambda index, weight, *_, **__: weight[index], tables, complex=True, ints=("int64",)),
    Row("sparse_embedding", lambda index, weight, *rest, **more: functional.embedding(index, weight.clone(), *rest, sparse=True, **more),
        lambda index, weight, *_, **__: weight[index], tables, complex=True, ints=("int64",)),
    Row("one_hot", functional.one_hot, lambda x, n=-1: np.eye(n if n > 0 else int(x.max()) + 1, dtype=np.int64)[x],
        lambda make: [s(np.array([[0, 2], [1, 1]]), 3), s(np.array(1), 2), s(np.array([0, 3]), 5)],
        floats=False, ints=("int64",), result="int64", differentiable=False,
        without={"refused": "the operands are positions, whatever the type under test"}),
    bare("scale_gradient", lambda x, scale: x + 0 * scale, scaled, pins=((([1.0, 2.0], [0.5, 3.0]), ([0.5, 3.0], [0, 0])),)),
    bare("gather_rows", gathered, padded_tables, complex=True, ints=("int64",)),
    bare("scatter_rows", scattered, row_sums, complex=True),
    Row("embedding_bag", functional.embedding_bag, bag, bags, unbatched="i", without=AS_PARTS),
    Row("cosine_similarity", similarity.cosine_similarity, cosine, vectors({}, {"dim": -1}), without=AS_PARTS),
    Row("pairwise_distance", similarity.pairwise_distance, distance,
        vectors({}, {"p": 1.0}, {"p": 3.0, "keepdim": True}, {"p": math.inf}), complex=True, result="real", without=AS_PARTS),
    Row("normalize", similarity.normalize, normalized, lengths, complex=True, without=AS_PARTS),
    Row("pdist", similarity.pdist, all_pairs, lambda make: (s(x, *p) for p in ((), (3.0,)) for x in (make(3, 2), make(5, 1))[: 2 - len(p)]), without=AS_PARTS),
    Row("dropout", functional.dropout, lambda x, p, training=True: x * (1 - p * training), channels,
        complex=True, without=AS_PARTS),
]  # fmt: skip

ROWS = SOFTMAX + ACTIVATIONS + LOSSES + CLASSES + MAPS
