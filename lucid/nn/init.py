"""Initial values of parameters: each function overwrites a tensor in place, unrecorded, and returns it."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

import lucid
from lucid import Generator, Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

P = ParamSpec("P")


def _unrecorded(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """The function, run with its writes left out of the graph."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        with lucid.no_grad():
            return function(*args, **kwargs)

    return call


_LINEAR = ("linear", *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)), "sigmoid")
_GAINS = dict.fromkeys(_LINEAR, 1.0) | {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights before a nonlinearity are scaled, so that the variance of signals is kept.

    1 for linear maps and sigmoid, 5/3 for tanh, √2 for relu, √(2 / (1 + slope²)) for leaky_relu, whose slope `param`
    is 0.01 if not given, and 3/4 for selu.

    >>> from lucid.nn import init
    >>> init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: the slope of leaky_relu must be a number, not {param!r}")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join([*_GAINS, "leaky_relu"])
        raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}; known are {known}")
    return _GAINS[nonlinearity]


@_unrecorded
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn evenly from [a, b).

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.uniform_(lucid.empty(100), -1.0, 1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@_unrecorded
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.normal_(lucid.empty(2), 5.0, 0.0)
    Tensor([5., 5.])
    """
    return tensor.normal_(mean, std, generator=generator)


@_unrecorded
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers, of which only those in [a, b] occur.

    The inverse of the distribution function is applied to numbers drawn evenly from its values between a and b.

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.trunc_normal_(lucid.empty(100), std=10.0)
    >>> bool((w.abs() <= 2).all())
    True
    """
    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be positive, got {std}")
    if not a <= b:
        raise ValueError(f"trunc_normal_: the bounds must be in order, got a={a} and b={b}")
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2))) for bound in (a, b))
    if high == low and not a <= mean <= b:
        raise ValueError(f"trunc_normal_: [{a}, {b}] is too far from the mean {mean} to draw from")
    # In float64: in the tails the distribution function is too close to 1 for less.
    draws = lucid.empty(tensor.shape, dtype=lucid.float64).uniform_(low, high, generator=generator)
    return tensor.copy_((draws.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


@_unrecorded
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.constant_(lucid.empty(2), 0.5)
    Tensor([0.5, 0.5])
    """
    return tensor.fill_(val)


@_unrecorded
def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.ones_(lucid.empty(2))
    Tensor([1., 1.])
    """
    return tensor.fill_(1.0)


@_unrecorded
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.zeros_(lucid.empty(2))
    Tensor([0., 0.])
    """
    return tensor.zero_()


@_unrecorded
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with 1 on the diagonal and 0 elsewhere: a linear layer that keeps its input.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.eye_(lucid.empty(2, 3))
    Tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _raise_unless_ndim(tensor, "eye_", (2,))
    return tensor.copy_(lucid.eye(*tensor.shape, dtype=tensor.dtype))


@_unrecorded
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution with the kernel that keeps as many channels of its input as possible.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.dirac_(lucid.empty(2, 1, 3))
    Tensor([[[0., 1., 0.]],
            [[0., 0., 0.]]])
    """
    _raise_unless_ndim(tensor, "dirac_", (3, 4, 5))
    if groups < 1 or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {tensor.shape[0]} output channels cannot be divided into {groups} groups")
    weight = np.zeros(tensor.shape)
    per_group = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for channel in range(min(per_group, tensor.shape[1])):
        for group in range(groups):
            weight[(group * per_group + channel, channel, *middle)] = 1
    return tensor.copy_(weight)


def _raise_unless_ndim(tensor: Tensor, name: str, allowed: tuple[int, ...]) -> None:
    if tensor.ndim not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ValueError(f"{name} needs a tensor with {wanted} dimensions, not shape {tensor.shape}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many numbers each output is made of, and how many outputs each input goes into."""
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need a tensor with at least 2 dimensions, not shape {tensor.shape}")
    outputs, inputs, *window = tensor.shape
    return inputs * math.prod(window), outputs * math.prod(window)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2 / (fan_in + fan_out)) if fan_in + fan_out else 0.0


@_unrecorded
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn evenly from [-a, a), a = gain · √(6 / (fan_in + fan_out)).

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.xavier_uniform_(lucid.empty(2, 4))
    >>> bool((w.abs() <= 1).all())
    True
    """
    bound = math.sqrt(3) * _xavier_std(tensor, gain)
    return tensor.uniform_(-bound, bound, generator=generator)


@_unrecorded
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of standard deviation gain · √(2 / (fan_in + fan_out)).

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.xavier_normal_(lucid.empty(2, 4), gain=0.0).abs().max()
    Tensor(0.)
    """
    return tensor.normal_(0.0, _xavier_std(tensor, gain), generator=generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"the mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


@_unrecorded
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with numbers drawn evenly from [-b, b), b = gain · √(3 / fan); `a` is the slope of leaky_relu.

    "fan_in" keeps the variance of signals in the forward pass, "fan_out" that of gradients in the backward pass.
    He et al., "Delving deep into rectifiers" (2015).

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.kaiming_uniform_(lucid.empty(2, 6))
    >>> bool((w.abs() <= 1).all())
    True
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound, generator=generator)


@_unrecorded
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers of standard deviation gain / √fan; `a` is the slope of leaky_relu.

    >>> import lucid
    >>> from lucid.nn import init
    >>> init.kaiming_normal_(lucid.empty(2, 6), nonlinearity="relu").shape
    (2, 6)
    """
    return tensor.normal_(0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator=generator)


@_unrecorded
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (half) orthogonal matrix, drawn evenly from all of them, times `gain`.

    Dimensions after the first count as one. The matrix is Q of the QR decomposition of normal numbers, with the signs
    of R's diagonal made positive, without which the draw would not be even.

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.orthogonal_(lucid.empty(2, 3))
    >>> lucid.allclose(w @ w.T, lucid.eye(2), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ needs a tensor with at least 2 dimensions, not shape {tensor.shape}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    normal = lucid.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=_work_type(tensor))
    q, r = lucid.linalg.qr(normal)
    diagonal = r.diagonal()
    q = q * (diagonal / diagonal.abs())
    return tensor.copy_((gain * (q if rows >= columns else q.T)).reshape(tensor.shape))


def _work_type(tensor: Tensor) -> Any:
    """The type to decompose matrices in: LAPACK has none of 16 bits."""
    return lucid.float32 if tensor.dtype in (lucid.float16, lucid.bfloat16) else tensor.dtype


@_unrecorded
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, of which a fraction `sparsity` of each column is set to 0.

    >>> import lucid
    >>> from lucid.nn import init
    >>> w = init.sparse_(lucid.empty(10, 3), sparsity=0.4)
    >>> (w == 0).sum(0)
    Tensor([4, 4, 4])
    """
    _raise_unless_ndim(tensor, "sparse_", (2,))
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: sparsity is a fraction from 0 to 1, got {sparsity}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0.0, std, generator=generator)
    for column in range(columns):
        tensor[lucid.randperm(rows, generator=generator)[:zeros], column] = 0.0
    return tensor


# Their names from before what writes in place ended in _.
constant = constant_
dirac = dirac_
eye = eye_
kaiming_normal = kaiming_normal_
kaiming_uniform = kaiming_uniform_
normal = normal_
orthogonal = orthogonal_
sparse = sparse_
uniform = uniform_
xavier_normal = xavier_normal_
xavier_uniform = xavier_uniform_
