"""`numpy.linalg` on arrays of the front door."""

from typing import Any

import numpy as np

from lucid.numpy.arrays import DOOR

LinAlgError = np.linalg.LinAlgError
__all__ = sorted(np.linalg.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lucid.numpy.linalg' has no attribute {name!r}")
    globals()[name] = value = DOOR.function(getattr(np.linalg, name))
    return value


def __dir__() -> list[str]:
    return __all__
