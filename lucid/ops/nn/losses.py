"""Losses whose parts are cheaper to compute together: squares, Huber's function, and the cross entropy of logits."""

import math
from typing import Any

from lucid.arguments.promotion import FLOAT
from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract, without
from lucid.ops.categories import Check, Elementwise, Fold
from lucid.ops.elementwise import called, of_two
from lucid.ops.rules import P, batched_to_front, kept_shape, shift


def _pull_squares(ct: Any, x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    return (x - y) * P.reshape(ct * (2 * scale), shape=kept_shape(x.shape, dims))


def _push_squares(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    change = -ty if tx is None else tx if ty is None else tx - ty
    return P.sum((x - y) * change, dims=params["dims"], keepdim=False) * (2 * params["scale"])


def _batch_squares(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*batched_to_front(values, batched, size), **{**params, "dims": shift(params["dims"])})


# scale · Σ (x - y)² over `dims`.
squares_primitive = Primitive(
    "sum_of_squares",
    operands=("x", "y"),
    rules=(_pull_squares, lambda ct, x, y, dims, scale: _pull_squares(ct, y, x, dims, scale)),
    jvp=_push_squares,
    batch=_batch_squares,
    abstract=lambda x, y, dims, scale: Abstract(without(x.shape, dims), x.dtype),
    category="reduction",
    fold=lambda scale: Fold(
        combine=lambda a, b: (a[0] + b[0],),
        unit=lambda dtype: (0,),
        lift=lambda x, y, place: ((x - y) * (x - y),),
        finish=lambda total: total * scale,
    ),
)


def sum_of_squares(x: Tensor, y: Tensor, mean: bool = False) -> Tensor:
    """Σ (x - y)² over all elements of two tensors of one shape and type, or the mean.

    >>> import lucid
    >>> from lucid.ops.nn.losses import sum_of_squares
    >>> sum_of_squares(lucid.tensor([1.0, 2.0]), lucid.tensor([3.0, 2.0]), mean=True)
    Tensor(2.)
    """
    shape = x.shape
    count = math.prod(shape)
    scale = 1.0 if not mean else 1 / count if count else math.nan
    return P.sum_of_squares(x, y, dims=tuple(range(len(shape))), scale=scale)


squared_distance = of_two(
    Elementwise(
        "squared_distance",
        (lambda x, y: (x - y) * 2, lambda x, y: (y - x) * 2),
        ("x", "y"),
        body=lambda x, y: P.square(x - y),
        real=True,
    ),
    FLOAT,
    "",
)


# x² / 2 for |x| < δ, and δ (|x| - δ / 2) beyond.
def _huber(x: Any, y: Any, delta: Any) -> Any:
    """q (d - q / 2) with d = |x - y| and q = min(d, δ)."""
    size = P.abs(x - y)
    q = P.minimum(size, delta)
    return q * (size - q * 0.5)


huber_primitive = Elementwise(
    "huber",
    (
        lambda x, y, delta: P.clamp(x - y, lo=-delta, hi=delta),
        lambda x, y, delta: P.clamp(y - x, lo=-delta, hi=delta),
    ),
    ("x", "y"),
    body=_huber,
    real=True,
)


def huber(x: Any, y: Any, delta: float) -> Tensor:
    """Huber's function of the difference of two tensors, element by element."""
    return called(huber_primitive, (x, y), FLOAT, {"delta": delta})


# σ(x) - y.
logit_error = Elementwise(
    "logit_error",
    (lambda y, out: (out + y) * (1 - out - y), -1),
    ("x", "y"),
    body=lambda x, y: P.sigmoid(x) - y,
    real=True,
)
# -y log σ(x) - (1 - y) log(1 - σ(x)).
logit_entropy = of_two(
    Elementwise(
        "logit_entropy",
        (lambda x, y: P.logit_error(x, y), lambda x: -x),
        ("x", "y"),
        body=lambda x, y: P.maximum(x, 0) - x * y + P.log1p(P.exp(-P.abs(x))),
        real=True,
    ),
    FLOAT,
    "",
)


def _bounded_log(x: Any) -> Any:
    return P.clamp(P.log(x), lo=-100.0, hi=None)


# The derivative by x is bounded as in 1 / (x (1 - x)) <= 1e12, so that it pulls away from 0 and 1 too.
probability_entropy = of_two(
    Elementwise(
        "probability_entropy",
        (
            lambda x, y: (x - y) / P.clamp((1 - x) * x, lo=1e-12, hi=None),
            lambda x: _bounded_log(1 - x) - _bounded_log(x),
        ),
        ("x", "y"),
        body=lambda x, y: -(y * _bounded_log(x) + (1 - y) * _bounded_log(1 - x)),
        real=True,
        checks=Check("that probabilities lie between 0 and 1"),
    ),
    FLOAT,
    "",
)
