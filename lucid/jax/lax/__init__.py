"""`jax.lax`: functions whose arguments are said in full, control flow, and examples that meet.

>>> import lucid.jax as jax, lucid.jax.numpy as jnp
>>> jax.lax.fori_loop(0, 3, lambda i, x: x * 2, 1.0), jax.lax.rsqrt(4.0), jax.lax.max(1.0, jnp.array([0.0, 2.0]))
(Array(8., dtype=float32), Array(0.5, dtype=float32), Array([1., 2.], dtype=float32))
"""

from functools import wraps as _wraps
from typing import Any as _Any

from lucid.api import names as _names
from lucid.core.primitive import lift as _lift
from lucid.jax.absences import missing as _missing
from lucid.jax.arrays import DOOR as _DOOR
from lucid.jax.lax import collectives as _collectives
from lucid.jax.lax import control as _control
from lucid.jax.lax import gathering as _gathering
from lucid.jax.lax import linalg as linalg
from lucid.jax.lax import operators as _operators
from lucid.jax.lax import windows as _windows

_HOMES = (_control, _operators, _gathering, _windows, _collectives)


def _public(home: _Any) -> dict[str, _Any]:
    """What a module has of its own."""
    return {n: v for n, v in vars(home).items() if n[0] != "_" and getattr(v, "__module__", None) == home.__name__}


_OWN = {name: value for home in _HOMES for name, value in _public(home).items()}
_OWN["slice"] = _OWN.pop("slice_")
# Elementwise functions that Lucid has under another name.
_RENAMED = {
    "max": "maximum",
    "min": "minimum",
    "logistic": "sigmoid",
    "erf_inv": "erfinv",
    "is_finite": "isfinite",
    "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "regularized_incomplete_beta": "betainc",
}
_ROWS = {**_names.special(), **_names.listed()}
_ELEMENTWISE = {n for n, row in _ROWS.items() if row.home.startswith(("lucid.ops.", "lucid.special"))}
__all__ = sorted({*_OWN, *_RENAMED, *_ELEMENTWISE, "linalg"})


def __getattr__(name: str) -> _Any:
    if name in _OWN:
        value = _OWN[name]
    elif name in __all__:
        value = _on_arrays(name, _ROWS[_RENAMED.get(name, name)].function())
    else:
        raise _missing("jax.lax", name)
    globals()[name] = value
    return value


def _on_arrays(name: str, function: _Any) -> _Any:
    @_wraps(function)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        return _DOOR.adopted(function(*[_lift(_DOOR.array(a)) for a in args], **_DOOR.hints_dropped(kwargs)))

    call.__name__ = call.__qualname__ = name
    return call


def __dir__() -> list[str]:
    return __all__
