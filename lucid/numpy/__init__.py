"""NumPy's names and conventions over Lucid's engine: `import lucid.numpy as np`.

Programs for NumPy or `autograd.numpy` run with this one line changed. Every name of NumPy's that makes sense is here, by the
tables that also serve NumPy's functions on tensors; `grad` and its relatives are those of HIPS autograd.

>>> import lucid.numpy as np
>>> def tanh(x):
...     return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))
>>> np.grad(tanh)(1.0)
array(0.41997434)
>>> np.elementwise_grad(np.sin)(np.linspace(0, np.pi, 3)).round(3)
array([ 1.,  0., -1.])
"""

import types as _types
from typing import Any as _Any

import numpy as _numpy

from lucid.numpy import creation as _creation
from lucid.numpy import fft as fft
from lucid.numpy import lib as lib
from lucid.numpy import linalg as linalg
from lucid.numpy import random as random
from lucid.numpy import reasons as _reasons
from lucid.numpy.arrays import DOOR as _DOOR
from lucid.numpy.arrays import ndarray as ndarray
from lucid.numpy.arrays import ndenumerate as ndenumerate
from lucid.numpy.differentiation import checkpoint as checkpoint
from lucid.numpy.differentiation import deriv as deriv
from lucid.numpy.differentiation import elementwise_grad as elementwise_grad
from lucid.numpy.differentiation import grad as grad
from lucid.numpy.differentiation import grad_and_aux as grad_and_aux
from lucid.numpy.differentiation import grad_named as grad_named
from lucid.numpy.differentiation import hessian as hessian
from lucid.numpy.differentiation import hessian_tensor_product as hessian_tensor_product
from lucid.numpy.differentiation import hessian_vector_product as hessian_vector_product
from lucid.numpy.differentiation import holomorphic_grad as holomorphic_grad
from lucid.numpy.differentiation import jacobian as jacobian
from lucid.numpy.differentiation import jvp as jvp
from lucid.numpy.differentiation import make_ggnvp as make_ggnvp
from lucid.numpy.differentiation import make_hvp as make_hvp
from lucid.numpy.differentiation import make_jvp as make_jvp
from lucid.numpy.differentiation import make_vjp as make_vjp
from lucid.numpy.differentiation import multigrad_dict as multigrad_dict
from lucid.numpy.differentiation import tensor_jacobian_product as tensor_jacobian_product
from lucid.numpy.differentiation import value_and_grad as value_and_grad
from lucid.numpy.differentiation import vector_jacobian_product as vector_jacobian_product
from lucid.numpy.differentiation import vjp as vjp
from lucid.numpy.doors import ufunc as ufunc

_OWN = [name for name in globals() if not name.startswith("_") and name not in ("arrays", "doors", "lucid")]
_OWN = [name for name in _OWN if name not in ("creation", "differentiation", "reasons")]
_NUMPYS = [name for name in _numpy.__all__ if name not in _reasons.REASONS]
__all__ = sorted({*_OWN, *_NUMPYS, *_creation.__all__})
__version__ = _numpy.__version__


def __getattr__(name: str) -> _Any:
    if name in _creation.__all__:
        value = getattr(_creation, name)
    elif name in _NUMPYS:
        value = _counterpart(getattr(_numpy, name))
    else:
        why = _reasons.REASONS.get(name)
        raise AttributeError(f"module 'lucid.numpy' has no attribute {name!r}" + (f": {why}" if why else ""))
    globals()[name] = value
    return value


def _counterpart(value: _Any) -> _Any:
    """A function as the front door has it; types, constants and modules of NumPy's as they are."""
    is_function = callable(value) and not isinstance(value, (type, _types.ModuleType))
    return _DOOR.function(value) if is_function else value


def __dir__() -> list[str]:
    return __all__
