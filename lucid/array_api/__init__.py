"""The Python array API standard, version 2024.12, strictly: names, signatures, results and type promotion.

`Tensor.__array_namespace__()` gives this module to libraries that are written against the standard. It is a thin layer
over lucid's own functions, and everything in it can be differentiated, batched and nested as they can. `lucid` itself
has the standard's names too, except where PyTorch means something else by them.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from lucid.array_api import fft, linalg  # noqa: F401 -- extensions of the standard
from lucid.array_api.elementwise import standard as _standard

_ROWS = _standard()


def __getattr__(name: str) -> _Any:
    # Loads SciPy, which most users of the standard do without.
    if name == "special":
        return _import_module("lucid.array_api.special")
    raise AttributeError(f"module 'lucid.array_api' has no attribute {name!r}")


globals().update({name: row.value() for name, row in _ROWS.items()})
__all__ = sorted([*_ROWS, "fft", "linalg"])
