"""`jax.nn.initializers`: functions of a key, a shape and a type that make weights."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lucid.jax import random
from lucid.jax.arrays import DOOR
from lucid.jax.config import canonical

Initializer = Callable[..., Any]


def _kind(dtype: Any) -> np.dtype[Any]:
    return canonical(np.dtype(float if dtype is None else dtype))


def zeros(key: Any, shape: Sequence[int], dtype: Any = None, **hints: Any) -> Any:
    """Weights that are 0."""
    return DOOR.wrapped(np.zeros(tuple(shape), _kind(dtype)))


def ones(key: Any, shape: Sequence[int], dtype: Any = None, **hints: Any) -> Any:
    """Weights that are 1."""
    return DOOR.wrapped(np.ones(tuple(shape), _kind(dtype)))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Weights that are all the same."""
    return lambda key, shape, dtype=dtype, **hints: DOOR.wrapped(np.full(tuple(shape), value, _kind(dtype)))


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal weights."""
    return lambda key, shape, dtype=dtype, **hints: random.normal(key, shape, dtype) * stddev


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Weights drawn evenly from [0, scale)."""
    return lambda key, shape, dtype=dtype, **hints: random.uniform(key, shape, dtype) * scale


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Normal weights none of which is far from 0."""
    return lambda key, shape, dtype=dtype, **hints: random.truncated_normal(key, lower, upper, shape, dtype) * stddev


def _fans(shape: Sequence[int], in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[float, float]:
    """From how many numbers each output comes, and to how many each input goes."""
    axes = [a if isinstance(a, (tuple, list)) else (a,) for a in (in_axis, out_axis, batch_axis)]
    sizes = [math.prod(shape[d] for d in a) for a in axes]
    window = math.prod(shape) / math.prod(sizes)
    return sizes[0] * window, sizes[1] * window


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = None,
) -> Initializer:
    """Weights whose variance is `scale` over the number of inputs, of outputs, or the mean of both.

    >>> import lucid.jax as jax
    >>> init = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> init(jax.random.key(0), (4, 5)).shape
    (4, 5)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, **hints: Any) -> Any:
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
        if mode not in fans:
            raise ValueError(f"variance_scaling: mode is one of {', '.join(fans)}, not {mode!r}")
        variance = scale / fans[mode]
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0, 1.0) * math.sqrt(3 * variance)
        if distribution == "truncated_normal":
            # The standard deviation of a normal number between -2 and 2.
            return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (math.sqrt(variance) / 0.87962566103423978)
        raise ValueError(f"variance_scaling: {distribution!r} is not normal, uniform or truncated_normal")

    return init


def _scaled(name: str, scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`variance_scaling({scale}, {mode!r}, {distribution!r})`."
    return make


glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal")


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Weights whose columns, or rows if there are fewer of them, are orthogonal."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, **hints: Any) -> Any:
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        found = scale * random.orthogonal(key, rows, (), dtype, columns)
        rest = [n for d, n in enumerate(shape) if d != column_axis % len(shape)]
        return found.reshape((*rest, columns)).movedim(-1, column_axis)

    return init
