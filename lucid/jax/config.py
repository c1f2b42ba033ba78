"""`jax.config`: settings that change something here, and those that have nothing to change."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_wide: ContextVar[bool] = ContextVar("wide", default=False)
_all_wide = False

NARROW = {
    np.dtype(wide): np.dtype(narrow) for wide, narrow in (("f8", "f4"), ("c16", "c8"), ("i8", "i4"), ("u8", "u4"))
}


def is_wide() -> bool:
    """Whether types of 64 bits are what they say."""
    return _all_wide or _wide.get()


def canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that is meant: one of 32 bits, unless those of 64 are allowed."""
    return dtype if is_wide() else NARROW.get(dtype, dtype)


class Config:
    """Settings by name, as `jax.config.update("jax_enable_x64", True)` changes them.

    Those that are about other devices, compilers and caches are kept and answered, and change nothing.

    >>> import lucid.jax as jax
    >>> jax.config.jax_enable_x64
    False
    """

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {
            "jax_platforms": "cpu",
            "jax_platform_name": "cpu",
            "jax_debug_nans": False,
            "jax_debug_infs": False,
            "jax_disable_jit": False,
            "jax_default_matmul_precision": None,
            "jax_numpy_rank_promotion": "allow",
            "jax_numpy_dtype_promotion": "standard",
            "jax_default_prng_impl": "philox",
            "jax_log_compiles": False,
        }

    def update(self, name: str, value: Any) -> None:
        """Change a setting."""
        global _all_wide
        if name == "jax_enable_x64":
            _all_wide = bool(value)
        elif name in ("jax_debug_nans", "jax_debug_infs") and value:
            raise ValueError(f"{name}: use lucid.autograd.detect_anomaly, which also says which operation it was")
        elif name in ("jax_platforms", "jax_platform_name") and value not in ("cpu", None, ""):
            raise ValueError(f"{name}: there is no backend {value!r} here; available: cpu")
        elif name == "jax_numpy_dtype_promotion" and value != "standard":
            raise ValueError(f"{name}: there is one promotion, the standard one, not {value!r}")
        elif name == "jax_numpy_rank_promotion" and value == "raise":
            raise ValueError(f"{name}: operands of different ranks always broadcast")
        else:
            self._kept[name] = value

    def read(self, name: str) -> Any:
        """What a setting says."""
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name == "jax_enable_x64":
            return is_wide()
        if name.startswith("_") or name not in self._kept:
            raise AttributeError(f"jax.config has no setting {name!r}")
        return self._kept[name]


config = Config()


class Device:
    """The processor: the only device there is."""

    id = process_index = 0
    platform = "cpu"
    device_kind = "cpu"
    client = None

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"

    __str__ = __repr__


CPU = Device()


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """A context in which types of 64 bits are what they say, or are not.

    >>> import lucid.jax as jax
    >>> with jax.enable_x64():
    ...     jax.numpy.ones(2).dtype
    dtype('float64')
    """
    token = _wide.set(new_val)
    try:
        yield
    finally:
        _wide.reset(token)
