"""Lucid: a differentiable tensor library. A tape you can poke at, transforms you can compose.

The names come from the tables in `lucid.namespace`; type checkers read them in `__init__.pyi`.
"""

import math as _math
import warnings as _warnings
from importlib import import_module as _import_module
from typing import Any as _Any

from lucid import autograd as autograd
from lucid import backends as backends
from lucid import func as func
from lucid import namespace as _namespace
from lucid.api import methods as _methods  # gives the operations to Tensor
from lucid.core.dtypes import bool_ as _bool
from lucid.interop import introduce as _introduce
from lucid.ops.out import fills_out as _fills_out
from lucid.ops.out import takes_out as _takes_out

__version__ = "0.1.0"
pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None


def _public(name: str, home: str) -> _Any:
    """One name of the namespace, from the module that has it."""
    value = getattr(_import_module(home), name)
    if name in _namespace.WITH_OUT:
        return _takes_out(value)
    return _fills_out(value) if name in _namespace.MADE_IN_OUT else value


_ON_DEMAND = {name: home for home, names in _namespace.ON_DEMAND.items() for name in names.split()}
_ON_DEMAND |= {name: f"lucid.{name}" for name in _namespace.PACKAGES.split()}


def __getattr__(name: str) -> _Any:
    home = _ON_DEMAND.get(name)
    if home is None:
        raise AttributeError(f"module 'lucid' has no attribute {name!r}")
    globals()[name] = value = _import_module(home) if home == f"lucid.{name}" else _public(name, home)
    return value


# Beyond this line, names such as `sum` and `float` are Lucid's.
globals().update({name: _public(name, home) for home, names in _namespace.AT_ONCE.items() for name in names.split()})
globals().update({name: globals()[known] for name, known in _namespace.ALIASES.items()})
bool = _bool

__all__ = sorted([n for n in globals() if n[0] != "_" and n not in _namespace.FOLDERS] + list(_ON_DEMAND))
__all__ += ["__version__"]

# Division by zero and overflow give inf and nan, as in every tensor library. NumPy would also warn; the filter
# holds for calls made by this package only, and costs nothing until a warning is raised.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lucid\.")

_introduce()
