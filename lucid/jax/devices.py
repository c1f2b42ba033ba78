"""Devices, and arrays that are there already: JAX's questions, answered truthfully."""

from typing import Any

import numpy as np

from lucid.core.tensor import Tensor
from lucid.core.tree import tree_map
from lucid.jax.arrays import DOOR
from lucid.jax.config import CPU, Device


def devices(backend: str | None = None) -> list[Device]:
    """All devices.

    >>> import lucid.jax as jax
    >>> jax.devices(), jax.default_backend()
    ([CpuDevice(id=0)], 'cpu')
    """
    if backend not in (None, "cpu"):
        raise RuntimeError(f"Unknown backend {backend}: Lucid computes on the CPU")
    return [CPU]


local_devices = devices


def device_count(backend: str | None = None) -> int:
    """How many devices there are."""
    return len(devices(backend))


local_device_count = device_count


def default_backend() -> str:
    """The kind of device that computes."""
    return "cpu"


def process_index() -> int:
    """Which process this is, of one."""
    return 0


def process_count() -> int:
    """How many processes compute."""
    return 1


def device_put(x: Any, device: Any = None, **hints: Any) -> Any:
    """The arrays and numbers of a nest as arrays.

    >>> import lucid.jax as jax, numpy as np
    >>> jax.device_put({"a": np.ones(2)})
    {'a': Array([1., 1.], dtype=float32)}
    """
    return tree_map(DOOR.array, x)


def device_get(x: Any) -> Any:
    """The arrays of a nest as NumPy's.

    >>> import lucid.jax as jax
    >>> jax.device_get([jax.numpy.ones(2)])
    [array([1., 1.], dtype=float32)]
    """
    return tree_map(lambda leaf: np.asarray(leaf) if isinstance(leaf, Tensor) else leaf, x)


def block_until_ready(x: Any) -> Any:
    """The nest itself: its arrays are there already."""
    return x
