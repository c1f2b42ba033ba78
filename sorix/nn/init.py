"""Initial values of parameters, of NumPy's global generator. Fans are those of weights that lie as (in, out, …)."""

import math
from typing import Any

import numpy as np

from sorix.cupy.cupy import _cupy_available as _cupy_available
from sorix.devices import get_xp as get_xp


def _filled(tensor: Any, values: Any) -> Any:
    tensor.data[...] = values
    return tensor


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0) -> Any:
    """Numbers uniform in [a, b)."""
    return _filled(tensor, np.random.uniform(a, b, tensor.shape))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    """Numbers of a normal distribution."""
    return _filled(tensor, np.random.normal(mean, std, tensor.shape))


def constant_(tensor: Any, val: float) -> Any:
    """One number.

    >>> import sorix
    >>> sorix.nn.init.constant_(sorix.zeros(2), 3.0)
    tensor([3., 3.], dtype=sorix.float64)
    """
    return _filled(tensor, val)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return constant_(tensor, 1.0)


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input."""
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ValueError("fans cannot be computed for a tensor with fewer than 2 dimensions")
    receptive = math.prod(shape[2:])
    return shape[0] * receptive, shape[1] * receptive


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported; use fan_in or fan_out")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def _calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a function shrinks the spread of its input."""
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0)}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return gains.get(nonlinearity, 1.0)


def xavier_uniform_(tensor: Any, gain: float = 1.0) -> Any:
    """Numbers uniform within ± gain · √(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Any, gain: float = 1.0) -> Any:
    """Normal numbers with the standard deviation gain · √(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))))


def _deviation(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return _calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Uniform numbers with the standard deviation gain / √fan."""
    bound = math.sqrt(3.0) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Normal numbers with the standard deviation gain / √fan."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity))


__all__ = [
    "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip
