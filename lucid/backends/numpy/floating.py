"""Floating-point numbers as they are stored: signs, exponents, neighbours, infinities."""

import math
from typing import Any

import numpy as np

from lucid.backends.numpy.checks import real_only
from lucid.core.kernels import fill


def _signbit(x: Any) -> Any:
    return x < 0 if x.dtype.kind in "iub" else np.signbit(x)


def _nextafter_array(x: Any, y: Any) -> Any:
    kind = x.dtype if isinstance(x, np.ndarray) else y.dtype
    return np.nextafter(np.asarray(x, kind), np.asarray(y, kind))


fill(
    {
        "signbit": real_only("signbit", _signbit),
        "isposinf": real_only("isposinf", lambda x: x == math.inf),
        "isneginf": real_only("isneginf", lambda x: x == -math.inf),
        "nextafter": real_only("nextafter", _nextafter_array),
        "exponent": lambda x: np.frexp(x)[1],
        "mantissa": lambda x: np.frexp(x)[0],
    }
)
