"""Lucid: a differentiable tensor library. A tape you can poke at, transforms you can compose.

The names come from the table in `lucid.api.names`; type checkers read them in `__init__.pyi`.
"""

import warnings as _warnings
from importlib import import_module as _import_module
from typing import Any as _Any

from lucid import autograd as autograd
from lucid import backends as backends
from lucid.api import methods as _methods  # gives the operations to Tensor
from lucid.api import names as _names
from lucid.interop import introduce as _introduce

__version__ = "0.1.0"
_ROWS = _names.listed()
_PACKAGES = _names.PACKAGES.split()
__all__ = [*sorted([*_ROWS, *_PACKAGES, "autograd"]), "__version__"]


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:
        value = _import_module(f"lucid.{name}")
    elif name in _ROWS:
        value = _ROWS[name].value()
    else:
        raise AttributeError(f"module 'lucid' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


# Derivatives by inputs belong to a later room than the tape.
autograd._ON_DEMAND.update(dict.fromkeys(("jacobian", "hessian", "hvp", "jvp", "vhp", "vjp"), "lucid.func.of_inputs"))
autograd._ON_DEMAND["profiler"] = "lucid"

# Beyond this line, names such as `sum` and `float` are Lucid's.
for _row in _names.ROWS:
    if "lazy" not in _row.columns and "unlisted" not in _row.columns:
        globals().update(dict.fromkeys((_row.name, *_row.aliases), _row.value()))

# Division by zero and overflow give inf and nan, as in every tensor library. NumPy would also warn; the filter
# holds for calls made by this package only, and costs nothing until a warning is raised.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lucid\.")

_introduce()
