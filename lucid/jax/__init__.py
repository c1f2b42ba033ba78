"""JAX's names and conventions over Lucid's engine: `import lucid.jax as jax`.

>>> import lucid.jax as jax, lucid.jax.numpy as jnp
>>> def loss(params, x, y):
...     return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)
>>> params = {"b": 0.0, "w": jnp.zeros(2)}
>>> step = jax.jit(lambda p, x, y: jax.tree.map(lambda p, g: p - 0.1 * g, p, jax.grad(loss)(p, x, y)))
>>> step(params, jnp.ones((3, 2)), jnp.ones(3))
{'b': Array(0.2, dtype=float32), 'w': Array([0.2, 0.2], dtype=float32)}
"""

import contextlib as _contextlib
from typing import Any as _Any

from lucid.jax import debug as debug
from lucid.jax import dtypes as dtypes
from lucid.jax import flatten_util as flatten_util
from lucid.jax import lax as lax
from lucid.jax import nn as nn
from lucid.jax import numpy as numpy
from lucid.jax import ops as ops
from lucid.jax import random as random
from lucid.jax import scipy as scipy
from lucid.jax import tree as tree
from lucid.jax import tree_util as tree_util
from lucid.jax.absences import missing as _missing
from lucid.jax.arrays import Array as Array
from lucid.jax.config import config as config
from lucid.jax.config import enable_x64 as enable_x64
from lucid.jax.devices import block_until_ready as block_until_ready
from lucid.jax.devices import default_backend as default_backend
from lucid.jax.devices import device_count as device_count
from lucid.jax.devices import device_get as device_get
from lucid.jax.devices import device_put as device_put
from lucid.jax.devices import devices as devices
from lucid.jax.devices import local_device_count as local_device_count
from lucid.jax.devices import local_devices as local_devices
from lucid.jax.devices import process_count as process_count
from lucid.jax.devices import process_index as process_index
from lucid.jax.transforms import ShapeDtypeStruct as ShapeDtypeStruct
from lucid.jax.transforms import checkpoint as checkpoint
from lucid.jax.transforms import custom_jvp as custom_jvp
from lucid.jax.transforms import custom_vjp as custom_vjp
from lucid.jax.transforms import disable_jit as disable_jit
from lucid.jax.transforms import eval_shape as eval_shape
from lucid.jax.transforms import grad as grad
from lucid.jax.transforms import hessian as hessian
from lucid.jax.transforms import jacfwd as jacfwd
from lucid.jax.transforms import jacobian as jacobian
from lucid.jax.transforms import jacrev as jacrev
from lucid.jax.transforms import jit as jit
from lucid.jax.transforms import jvp as jvp
from lucid.jax.transforms import linear_transpose as linear_transpose
from lucid.jax.transforms import linearize as linearize
from lucid.jax.transforms import make_jaxpr as make_jaxpr
from lucid.jax.transforms import pure_callback as pure_callback
from lucid.jax.transforms import remat as remat
from lucid.jax.transforms import value_and_grad as value_and_grad
from lucid.jax.transforms import vjp as vjp
from lucid.jax.transforms import vmap as vmap

__version__ = "0.10.2+lucid"  # the JAX whose interface this is

tree_map = tree.map  # a name of old


@_contextlib.contextmanager
def named_scope(name: str) -> _Any:
    """A context whose name a compiler would show: it changes nothing."""
    yield


@_contextlib.contextmanager
def default_matmul_precision(precision: _Any) -> _Any:
    """A context in which products may be less precise: they never are."""
    yield


@_contextlib.contextmanager
def default_device(device: _Any) -> _Any:
    """A context for the one device there is."""
    devices(getattr(device, "platform", device))
    yield


def named_call(fun: _Any, *, name: str | None = None) -> _Any:
    """The function: its name is only shown by a compiler."""
    return fun


def ensure_compile_time_eval() -> _Any:
    """A context in which functions run as they are written."""
    return disable_jit()


def __getattr__(name: str) -> _Any:
    raise _missing("jax", name)


__all__ = sorted(
    name for name in globals() if not name.startswith("_") and name not in ("arrays", "devices_", "lucid", "transforms")
)
