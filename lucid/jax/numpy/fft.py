"""`jax.numpy.fft`: the functions of `numpy.fft` on JAX's arrays."""

from typing import Any

import numpy as np

from lucid.jax.arrays import DOOR

__all__ = sorted(name for name in np.fft.__all__ if name[0].islower())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jax.numpy.fft' has no attribute {name!r}")
    globals()[name] = value = DOOR.function(getattr(np.fft, name))
    return value


def __dir__() -> list[str]:
    return __all__
