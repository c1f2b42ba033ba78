"""`jax.numpy`: NumPy's names on JAX's arrays, which are immutable and of 32 bits.

>>> import lucid.jax.numpy as jnp
>>> jnp.linspace(0.0, 1.0, 3), jnp.arange(3).dtype, jnp.argmax(jnp.array([1.0, 3.0]))
(Array([0. , 0.5, 1. ], dtype=float32), dtype('int32'), Array(1, dtype=int32))
"""

import types as _types
from typing import Any as _Any

import ml_dtypes as _ml_dtypes
import numpy as _numpy

from lucid.jax.absences import missing as _missing
from lucid.jax.arrays import DOOR as _DOOR
from lucid.jax.arrays import Array as _Array
from lucid.jax.numpy import fft as fft
from lucid.jax.numpy import functions as _functions
from lucid.jax.numpy import linalg as linalg
from lucid.jax.numpy.functions import ScalarType as _ScalarType
from lucid.numpy import reasons as _reasons

# Names of NumPy's that JAX has not.
_NOT_JAXS = frozenset(
    "put place putmask copyto random testing ctypeslib seterr geterr errstate save_ genfromtxt loadtxt savetxt fromregex"
    " asarray_chkfinite require lib nditer ndenumerate typename vectorize_ info isfortran".split()
)
_OWN = _functions.names()
_NUMPYS = [name for name in _numpy.__all__ if name not in _reasons.REASONS and name not in _NOT_JAXS]
ndarray = _Array
bfloat16 = _ScalarType(_ml_dtypes.bfloat16)
__all__ = sorted({*_OWN, *_NUMPYS, "bfloat16", "fft", "linalg", "ndarray"})


def __getattr__(name: str) -> _Any:
    if name in _OWN:
        value = _functions.found(name)
    elif name in _NUMPYS:
        value = _counterpart(getattr(_numpy, name))
    else:
        why = _reasons.REASONS.get(name)
        if why is None:
            raise _missing("jax.numpy", name)
        raise AttributeError(f"module 'jax.numpy' has no attribute {name!r}: {why}")
    globals()[name] = value
    return value


def _counterpart(value: _Any) -> _Any:
    """A function as the front door has it; a type of numbers makes arrays; the rest is NumPy's own."""
    if isinstance(value, type):
        is_kind = issubclass(value, _numpy.number | _numpy.bool_) and value not in _ABSTRACT
        return _ScalarType(value) if is_kind else value
    is_function = callable(value) and not isinstance(value, _types.ModuleType)
    return _DOOR.function(value) if is_function else value


_ABSTRACT = frozenset(
    getattr(_numpy, name)
    for name in "number integer signedinteger unsignedinteger inexact floating complexfloating".split()
)


def __dir__() -> list[str]:
    return __all__
