"""Activation functions."""

from collections.abc import Callable
from functools import cache
from typing import Any

import lucid
from lucid import Tensor
from lucid.amp.autocasting import in_low_precision
from lucid.api.inplace import inplace as in_place_form
from lucid.api.reductions import shown
from lucid.arguments.promotion import as_floats, raise_unless_alike
from lucid.core.tensor import shape_of
from lucid.nn.functional.warning import warn
from lucid.ops.nn import activations as ops
from lucid.ops.nn import softmax as softmax_ops
from lucid.ops.one_loop import one_loop
from lucid.ops.rules import P

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu",
    "rrelu_", "selu", "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "threshold_",
]  # fmt: skip

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # they make mean 0 and variance 1 a fixed point


def _run(function: Callable[..., Tensor], input: Tensor, inplace: bool, *args: Any, **params: Any) -> Tensor:
    """The function's result, or the input with it written into."""
    return (_form(function) if inplace else function)(input, *args, **params)


_form = cache(in_place_form)


def _in_range(name: str, input: Tensor, *values: float) -> list[int]:
    """Numbers as integers to compare with, or put among, those of the input."""
    numbers = [int(value) for value in values]
    if input.np_dtype.kind == "u" and min(numbers) < 0:
        raise RuntimeError(f"{name}: {min(numbers)} is negative, but the input is {input.dtype}")
    return numbers


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); the derivative at 0 is 0.

    >>> import lucid
    >>> from lucid.nn.functional.activations import relu
    >>> relu(lucid.tensor([-1.0, 2.0]))
    Tensor([0., 2.])
    """
    return _run(lucid.relu, input, inplace) if inplace else lucid.relu(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the derivative at the bounds is 0.

    >>> import lucid
    >>> from lucid.nn.functional.activations import hardtanh
    >>> hardtanh(lucid.tensor([-2.0, 0.5, 2.0]))
    Tensor([-1. ,  0.5,  1. ])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    if not input.is_floating_point():
        return _run(lucid.clamp, input, inplace, *_in_range("hardtanh", input, min_val, max_val))
    return _run(ops.hardtanh, input, inplace, lo=float(min_val), hi=float(max_val))


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    >>> import lucid
    >>> from lucid.nn.functional.activations import relu6
    >>> relu6(lucid.tensor([-1.0, 2.0, 8.0]))
    Tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it exceeds `threshold`, and `value` elsewhere.

    >>> import lucid
    >>> from lucid.nn.functional.activations import threshold
    >>> threshold(lucid.tensor([0.0, 1.0, 2.0]), 1.0, -5.0)
    Tensor([-5., -5.,  2.])
    """
    if not input.is_floating_point():
        (number,) = _in_range("threshold", input, value)
        return _run(_integers_above, input, inplace, threshold, number)
    return _run(ops.threshold, input, inplace, threshold=float(threshold), value=float(value))


def _integers_above(x: Tensor, threshold: float, value: int) -> Tensor:
    return lucid.where(x > threshold, x, value)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, and `negative_slope` · x below.

    >>> import lucid
    >>> from lucid.nn.functional.activations import leaky_relu
    >>> leaky_relu(lucid.tensor([-1.0, 2.0]), 0.1)
    Tensor([-0.1,  2. ])
    """
    return _run(ops.leaky_relu, input, inplace, slope=float(negative_slope))


@in_low_precision
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above 0, and weight · x below, with one weight or one for each channel (dimension 1).

    >>> import lucid
    >>> from lucid.nn.functional.activations import prelu
    >>> prelu(lucid.tensor([[-1.0, -1.0]]), lucid.tensor([0.5, 0.25]))
    Tensor([[-0.5 , -0.25]])
    """
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ValueError(
            f"prelu: weight must hold one number or one for each of {channels} channels, not have shape {weight.shape}"
        )
    raise_unless_alike("prelu", input, weight)
    if weight.numel() > 1:
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    return ops.prelu(input, weight if input.ndim or not weight.ndim else weight.reshape(()))


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x above 0, and a · x below; in training a is drawn from [lower, upper) for each element, else it is their mean.

    >>> import lucid
    >>> from lucid.nn.functional.activations import rrelu
    >>> rrelu(lucid.tensor([-1.0, 2.0]), 0.1, 0.3)
    Tensor([-0.2,  2. ])
    """
    if lower > upper:
        raise ValueError(f"rrelu: lower {lower} is above upper {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = lucid.rand_like(input.detach()) * (upper - lower) + lower
    return _run(ops.prelu, input, inplace, slopes)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, and alpha · (exp(x) - 1) below.

    >>> import lucid
    >>> from lucid.nn.functional.activations import elu
    >>> elu(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.6321,  2.    ])
    """
    return _run(ops.elu, input, inplace, alpha=float(alpha), scale=1.0, rate=1.0)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """A scaled elu that keeps mean 0 and variance 1 from layer to layer.

    >>> import lucid
    >>> from lucid.nn.functional.activations import selu
    >>> selu(lucid.tensor([-1.0, 2.0]))
    Tensor([-1.1113,  2.1014])
    """
    return _run(ops.elu, input, inplace, alpha=_SELU_ALPHA, scale=_SELU_SCALE, rate=1.0)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, and alpha · (exp(x / alpha) - 1) below: an elu with slope 1 at 0 for each alpha.

    >>> import lucid
    >>> from lucid.nn.functional.activations import celu
    >>> celu(lucid.tensor([-1.0, 2.0]), alpha=2.0)
    Tensor([-0.7869,  2.    ])
    """
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0")
    return _run(ops.elu, input, inplace, alpha=float(alpha), scale=1.0, rate=1.0 / alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x · Φ(x) with the normal distribution function Φ, or with `approximate="tanh"` its well-known approximation.

    >>> import lucid
    >>> from lucid.nn.functional.activations import gelu
    >>> gelu(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.1587,  1.9545])
    """
    if approximate == "none":
        return ops.gelu(input)
    if approximate == "tanh":
        return ops.gelu_tanh(input)
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x), also known as swish.

    >>> import lucid
    >>> from lucid.nn.functional.activations import silu
    >>> silu(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.2689,  1.7616])
    """
    if input.is_complex():
        return _run(_complex_silu, input, inplace)
    return _run(ops.silu, input, inplace) if inplace else ops.silu(input)


def _complex_silu(x: Tensor) -> Tensor:
    return x * lucid.sigmoid(x)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x)).

    >>> import lucid
    >>> from lucid.nn.functional.activations import mish
    >>> mish(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.3034,  1.944 ])
    """
    return _run(ops.mish, input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to [0, 1].

    >>> import lucid
    >>> from lucid.nn.functional.activations import hardsigmoid
    >>> hardsigmoid(lucid.tensor([-4.0, 0.0, 1.5]))
    Tensor([0.  , 0.5 , 0.75])
    """
    return _run(ops.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x).

    >>> import lucid
    >>> from lucid.nn.functional.activations import hardswish
    >>> hardswish(lucid.tensor([-4.0, 1.5, 4.0]))
    Tensor([-0.   ,  1.125,  4.   ])
    """
    return _run(ops.hardswish, input, inplace)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by `lambd`, and 0 where it would get past it.

    >>> import lucid
    >>> from lucid.nn.functional.activations import softshrink
    >>> softshrink(lucid.tensor([-1.0, 0.3, 2.0]))
    Tensor([-0.5,  0. ,  1.5])
    """
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must not be negative, got {lambd}")
    return ops.softshrink(input, lambd=float(lambd))


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| exceeds `lambd`, and 0 elsewhere.

    >>> import lucid
    >>> from lucid.nn.functional.activations import hardshrink
    >>> hardshrink(lucid.tensor([-1.0, 0.3, 2.0]))
    Tensor([-1.,  0.,  2.])
    """
    return ops.hardshrink(input, lambd=float(lambd))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> import lucid
    >>> from lucid.nn.functional.activations import tanhshrink
    >>> tanhshrink(lucid.tensor([-1.0, 2.0]))
    Tensor([-0.2384,  1.036 ])
    """
    return input - lucid.tanh(input) if input.is_complex() else ops.tanhshrink(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> import lucid
    >>> from lucid.nn.functional.activations import softsign
    >>> softsign(lucid.tensor([-1.0, 3.0]))
    Tensor([-0.5 ,  0.75])
    """
    return input / (1 + input.abs()) if input.is_complex() else ops.softsign(input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(βx)) / β, a smooth relu; equal to x where βx exceeds `threshold`.

    >>> import lucid
    >>> from lucid.nn.functional.activations import softplus
    >>> softplus(lucid.tensor([-1.0, 30.0]))
    Tensor([ 0.3133, 30.    ])
    """
    return lucid.softplus(input, float(beta), float(threshold))


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> import lucid
    >>> from lucid.nn.functional.activations import sigmoid
    >>> sigmoid(lucid.tensor([0.0, 2.0]))
    Tensor([0.5   , 0.8808])
    """
    return lucid.sigmoid(input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow.

    >>> import lucid
    >>> from lucid.nn.functional.activations import logsigmoid
    >>> logsigmoid(lucid.tensor([0.0, -1000.0]))
    Tensor([-6.9315e-01, -1.0000e+03])
    """
    return lucid.log_sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    >>> import lucid
    >>> from lucid.nn.functional.activations import tanh
    >>> tanh(lucid.tensor([0.0, 1.0]))
    Tensor([0.    , 0.7616])
    """
    return lucid.tanh(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a · sigmoid(b), where a and b are the halves of the input along `dim`.

    >>> import lucid
    >>> from lucid.nn.functional.activations import glu
    >>> glu(lucid.tensor([2.0, 4.0, 0.0, 0.0]))
    Tensor([1., 2.])
    """
    shape = shape_of(input)
    if not shape or shape[dim] % 2:
        raise ValueError(f"glu: dimension {dim} of a tensor of shape {input.shape} cannot be halved")
    half, before = shape[dim] // 2, (slice(None),) * (dim % len(shape))
    value = shown(P.slice, input, {"index": (*before, slice(None, half))})
    gate = shown(P.slice, input, {"index": (*before, slice(half, None))})
    return _gated(value, gate)


@one_loop(2)
def _gated(value: Any, gate: Any) -> Any:
    return value * lucid.sigmoid(gate)


def _usual_dim(ndim: int, name: str) -> int:
    """The dimension of the classes: 0 without a batch and for 3 dimensions, else 1."""
    chosen = 0 if ndim in (0, 1, 3) else 1
    warn(f"{name} was given no dim and takes {chosen}; say which one is meant")
    return chosen


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`, without overflow.

    >>> import lucid
    >>> from lucid.nn.functional.activations import softmax
    >>> softmax(lucid.tensor([0.0, 0.0, 1000.0]), dim=0)
    Tensor([0., 0., 1.])
    """
    return softmax_ops.softmax(input, _usual_dim(input.ndim, "softmax") if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x): small numbers get large shares.

    >>> import lucid
    >>> from lucid.nn.functional.activations import softmin
    >>> softmin(lucid.tensor([0.0, 0.0, 1000.0]), dim=0)
    Tensor([0.5, 0.5, 0. ])
    """
    x = as_floats(input) if dtype is None else input.to(dtype)  # before the sign: integers may have no negative ones
    return softmax_ops.softmax(-x, _usual_dim(x.ndim, "softmin") if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """log(softmax(x)), without overflow and in one step.

    >>> import lucid
    >>> from lucid.nn.functional.activations import log_softmax
    >>> log_softmax(lucid.tensor([0.0, 1000.0]), dim=0)
    Tensor([-1000.,     0.])
    """
    return softmax_ops.log_softmax(input, _usual_dim(input.ndim, "log_softmax") if dim is None else dim, dtype)


def _in_place(function: Callable[..., Tensor], example: str, result: str) -> Callable[..., Tensor]:
    """The form of a function whose name ends in an underscore."""
    name = function.__name__ + "_"

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""In-place form of `{function.__name__}`.

    >>> import lucid
    >>> from lucid.nn.functional.activations import {name}
    >>> x = lucid.tensor([-1.0, 2.0])
    >>> {name}(x{example}) is x
    True
    >>> x
    Tensor({result})
    """
    return call


relu_ = _in_place(relu, "", "[0., 2.]")
hardtanh_ = _in_place(hardtanh, "", "[-1.,  1.]")
threshold_ = _in_place(threshold, ", 0.0, 5.0", "[5., 2.]")
leaky_relu_ = _in_place(leaky_relu, ", 0.5", "[-0.5,  2. ]")
rrelu_ = _in_place(rrelu, ", 0.5, 0.5", "[-0.5,  2. ]")
elu_ = _in_place(elu, "", "[-0.6321,  2.    ]")
selu_ = _in_place(selu, "", "[-1.1113,  2.1014]")
celu_ = _in_place(celu, "", "[-0.6321,  2.    ]")
