"""Which of these functions stands for which of SciPy's ufuncs, so that `scipy.special.gammainc(a, x)` takes tensors."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from lucid.api.names import ROWS, Row, of_scipy
from lucid.core.tensor import Tensor
from lucid.interop.numpy_functions import NoCounterpartError
from lucid.special.functions import Function
from lucid.special.gamma_functions import zeta

scipy: Any = import_module("scipy.special")  # which has no types


def _number(value: Any) -> Any:
    """An order or degree that is one number; SciPy's functions of others have no counterpart here."""
    if isinstance(value, Tensor) or np.ndim(value):
        raise NoCounterpartError
    return np.asarray(value).item()


def of_order(function: Function) -> Function:
    return lambda v, z: function(_number(v), z)


def of_degree(function: Function) -> Function:
    def call(n: Any, x: Any) -> Any:
        degree = _number(n)
        # SciPy continues the polynomials to other degrees.
        if degree < 0 or degree != int(degree):
            raise NoCounterpartError
        return function(x, int(degree))

    return call


def counterpart(row: Row) -> Function:
    """A row's function, as SciPy's takes its arguments."""
    adapter = row.columns.get("adapter")
    return globals()[adapter](row.function()) if adapter else row.function()


def ufuncs(rows: Iterable[Row] = ROWS) -> dict[np.ufunc, Function]:
    """What the table of names has for SciPy's ufuncs."""
    known = ((getattr(scipy, name, None), row) for name, row in of_scipy(rows).items())
    return {ufunc: counterpart(row) for ufunc, row in known if isinstance(ufunc, np.ufunc)}


UFUNCS = ufuncs()
# What scipy.special.zeta, a Python function, calls.
if hasattr(scipy._ufuncs, "_zeta"):
    UFUNCS[scipy._ufuncs._zeta] = zeta
