"""`numpy.random`: NumPy's own generators, bit for bit, whose numbers come as arrays of the front door.

Drawn numbers have no derivative by their parameters; write `mean + scale * np.random.randn(n)` for one.

>>> import lucid.numpy as np
>>> np.random.seed(0)
>>> np.random.randn(2).round(4), np.random.default_rng(0).integers(10, size=3)
(array([1.7641, 0.4002]), array([8, 6, 5]))
"""

from functools import wraps
from typing import Any

import numpy.random as _random

from lucid.interop.numpy_protocol import holds_tensors, on_arrays
from lucid.numpy.arrays import DOOR

__all__ = sorted(_random.__all__)


def _drawing(name: str, function: Any) -> Any:
    @wraps(function)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if holds_tensors(args) or holds_tensors(kwargs.values()):
            return DOOR.adopted(on_arrays(f"numpy.random.{name}", function, args, kwargs))
        return DOOR.adopted(function(*args, **kwargs))

    return draw


class _Stream:
    """A generator of NumPy's whose methods give arrays of the front door."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._generator, name)
        return _drawing(name, found) if callable(found) else found

    def __repr__(self) -> str:
        return repr(self._generator)


def default_rng(seed: Any = None) -> Any:
    """A new generator of NumPy's."""
    return _Stream(_random.default_rng(seed))


def RandomState(seed: Any = None) -> Any:
    """A generator of NumPy's older kind."""
    return _Stream(_random.RandomState(seed))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lucid.numpy.random' has no attribute {name!r}")
    value = getattr(_random, name)
    if not isinstance(value, type):
        value = _drawing(name, value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
