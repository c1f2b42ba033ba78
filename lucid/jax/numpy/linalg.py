"""`jax.numpy.linalg`: the functions of `numpy.linalg` on JAX's arrays."""

from typing import Any

import numpy as np

from lucid.jax.arrays import DOOR

__all__ = sorted(name for name in np.linalg.__all__ if name[0].islower())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jax.numpy.linalg' has no attribute {name!r}")
    globals()[name] = value = DOOR.function(getattr(np.linalg, name))
    return value


def __dir__() -> list[str]:
    return __all__
