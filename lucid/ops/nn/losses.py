"""Losses whose parts are cheaper to compute together: squares, Huber's function, and the cross entropy of logits."""

import math
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.core.tensor import Tensor
from lucid.ops.elementwise import binary_door
from lucid.ops.nn.activations import blockwise, with_parameters
from lucid.ops.promotion import FLOAT
from lucid.ops.rules import Elementwise, P, batched_to_front, kept_shape, shift


def _squares_array(x: Any, y: Any, dims: tuple[int, ...], scale: float) -> Any:
    difference = np.subtract(x, y)
    kind = difference.dtype
    if len(dims) == difference.ndim and kind.char in "fd":
        flat = difference.reshape(-1)
        return np.multiply(np.dot(flat, flat), kind.type(scale))
    return np.multiply(np.add.reduce(np.square(difference), axis=dims), kind.type(scale))


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
    _squares_array,
    operands=("x", "y"),
    rules=(_pull_squares, lambda ct, x, y, dims, scale: -_pull_squares(ct, x, y, dims, scale)),
    jvp=_push_squares,
    batch=_batch_squares,
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


def _huber_kernel(x: Any, out: Any, delta: float) -> None:
    """q (|x| - q / 2) with q = min(|x|, δ)."""
    size = np.abs(x)
    np.minimum(size, x.dtype.type(delta), out=out)
    size -= out * x.dtype.type(0.5)
    np.multiply(out, size, out=out)


# x² / 2 for |x| < δ, and δ (|x| - δ / 2) beyond.
huber = with_parameters("huber", _huber_kernel, lambda x, delta: P.clamp(x, lo=-delta, hi=delta))


def _logit_entropy_kernel(x: Any, y: Any, out: Any) -> None:
    """max(x, 0) - x y + log(1 + exp(-|x|)), the logarithm with the digits that 1 + e drops made up for."""
    e = np.abs(x)
    np.negative(e, out=e)
    np.exp(e, out=e)
    u = e + 1
    np.log(u, out=out)
    e -= u - 1
    e /= u
    np.add(out, e, out=out)
    np.maximum(x, 0, out=e)
    e -= x * y
    np.add(out, e, out=out)


def _logit_error_kernel(x: Any, y: Any, out: Any) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)
    np.subtract(out, y, out=out)


# σ(x) - y.
logit_error = Elementwise(
    "logit_error",
    blockwise("logit_error", _logit_error_kernel),
    (lambda y, out: (out + y) * (1 - out - y), -1),
    ("x", "y"),
)
# -y log σ(x) - (1 - y) log(1 - σ(x)).
logit_entropy = binary_door(
    Elementwise(
        "logit_entropy",
        blockwise("logit_entropy", _logit_entropy_kernel),
        (lambda x, y: P.logit_error(x, y), lambda x: -x),
        ("x", "y"),
    ),
    FLOAT,
    "",
)


def _of_probabilities(impl: Any) -> Any:
    """Refuse operands outside [0, 1], of which the logarithms are nan."""

    def checked(*arrays: Any) -> Any:
        for array, what in zip(arrays, ("input", "target"), strict=True):
            if array.size and not (array.min() >= 0 and array.max() <= 1):
                raise ValueError(
                    f"binary_cross_entropy: the {what} must lie between 0 and 1, but reaches from {array.min()} to "
                    f"{array.max()}; apply a sigmoid, or use binary_cross_entropy_with_logits"
                )
        return impl(*arrays)

    return checked


def _probability_entropy_kernel(x: Any, y: Any, out: Any) -> None:
    """-(y log x + (1 - y) log(1 - x)), with logarithms of -100 at least."""
    lowest = x.dtype.type(-100)
    failure = 1 - x
    np.log(failure, out=failure)
    np.maximum(failure, lowest, out=failure)
    np.log(x, out=out)
    np.maximum(out, lowest, out=out)
    np.subtract(failure, out, out=out)
    np.multiply(out, y, out=out)
    np.subtract(out, failure, out=out)


def _log_odds_against(x: Any) -> Any:
    return P.clamp(P.log(1 - x), lo=-100.0, hi=None) - P.clamp(P.log(x), lo=-100.0, hi=None)


# The derivative by x is bounded as in 1 / (x (1 - x)) <= 1e12, so that it pulls away from 0 and 1 too.
probability_entropy = binary_door(
    Elementwise(
        "probability_entropy",
        _of_probabilities(blockwise("probability_entropy", _probability_entropy_kernel)),
        (lambda x, y: (x - y) / P.clamp((1 - x) * x, lo=1e-12, hi=None), _log_odds_against),
        ("x", "y"),
    ),
    FLOAT,
    "",
)
