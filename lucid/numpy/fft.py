"""`numpy.fft` on arrays of the front door."""

from typing import Any

import numpy as np

from lucid.numpy.arrays import DOOR

__all__ = sorted(np.fft.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lucid.numpy.fft' has no attribute {name!r}")
    globals()[name] = value = DOOR.function(getattr(np.fft, name))
    return value


def __dir__() -> list[str]:
    return __all__
