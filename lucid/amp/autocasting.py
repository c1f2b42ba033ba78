"""Autocast: inside, operations choose their precision.

Operations ask `lucid.core.modes.autocast`, which holds None or a `Casting`: products of matrices, convolutions and
attention (`low`) run in 16 bits; losses and the like (`high`), whose results need the digits, run in single precision;
all others take what they are given, as PyTorch does on the CPU.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar

import numpy as np

from lucid.arguments.promotion import cast
from lucid.autograd.modes import _Context
from lucid.core import modes
from lucid.core.device import as_device
from lucid.core.dtypes import as_dtype, bfloat16, dtype, float16, float32
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_LOW = (bfloat16, float16)
_ROUNDED = (*_LOW, float32)


class Casting:
    """What autocast does to the operands of operations: the type for `low`, and casts of parameters to use again."""

    def __init__(self, low: dtype, keeps: bool) -> None:
        self.dtype = low
        self._target = low.numpy
        self._kept: dict[tuple[int, bool], tuple[Tensor, int, Tensor]] | None = {} if keeps else None

    def anew(self) -> "Casting":
        """The same, with nothing kept."""
        return Casting(self.dtype, self._kept is not None)

    @property
    def settings(self) -> tuple[Any, ...]:
        """What a compiled function depends on."""
        return self.dtype, self._kept is not None

    def low(self, *operands: Any) -> list[Any]:
        """Operands of an operation that runs in 16 bits: all floats but doubles are rounded."""
        return [self._lowered(x) for x in operands]

    def high(self, *operands: Any) -> list[Any]:
        """Operands of an operation that runs in single precision: 16-bit floats are widened."""
        return [cast(x, float32.numpy) if isinstance(x, Tensor) and x.dtype in _LOW else x for x in operands]

    def _lowered(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            x = lift(x)
        if not isinstance(x, Tensor) or x.dtype not in _ROUNDED:
            return x
        # Only leaves that are trained are worth keeping: they are what is used again.
        if self._kept is None or not x.requires_grad or not x.is_leaf:
            return cast(x, self._target)
        key = id(x), bool(modes.recording.get())
        found = self._kept.get(key)
        if found is None or found[1] != x._version:
            found = self._kept[key] = x, x._version, cast(x, self._target)
        return found[2]


def _casting(function: F, method: Callable[..., list[Any]]) -> F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        casting = modes.autocast.get()
        if casting is not None:
            args = tuple(method(casting, *args))
            kwargs = dict(zip(kwargs, method(casting, *kwargs.values()), strict=True))
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]  # wraps keeps the signature


def in_low_precision(function: F) -> F:
    """Decorates a function that inside autocast takes its tensors in 16 bits."""
    return _casting(function, Casting.low)


def in_single_precision(function: F) -> F:
    """Decorates a function that inside autocast takes 16-bit tensors in single precision."""
    return _casting(function, Casting.high)


class autocast(_Context):
    """Inside, products run in `dtype` (bfloat16 or float16) and precise operations in float32. A context and a decorator.

    Parameters stay in float32, and so do their gradients. With `cache_enabled`, a parameter that is used several times
    is cast once. Contexts nest; `enabled=False` switches autocast off inside another one.

    >>> import lucid
    >>> a, b = lucid.ones(2, 3), lucid.ones(3, 2)
    >>> with lucid.amp.autocast("cpu"):
    ...     (a @ b).dtype, (a + a).dtype
    (lucid.bfloat16, lucid.float32)
    """

    def __init__(
        self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise TypeError(f'autocast: device_type must be a name like "cpu", not a {type(device_type).__name__}')
        as_device(device_type)
        self.device = device_type
        self.fast_dtype = bfloat16 if dtype is None else as_dtype(dtype)
        if self.fast_dtype not in _LOW:
            raise ValueError(f"autocast: dtype must be bfloat16 or float16, not {self.fast_dtype}")
        self._enabled = enabled
        self._cache_enabled = True if cache_enabled is None else cache_enabled

    def _enter(self) -> Any:
        before = modes.autocast.get()
        modes.autocast.set(Casting(self.fast_dtype, self._cache_enabled) if self._enabled else None)
        return before

    def _leave(self, before: Any) -> None:
        modes.autocast.set(before)

    @staticmethod
    def is_autocast_enabled() -> bool:
        """Whether autocast is on here."""
        return modes.autocast.get() is not None

    @staticmethod
    def get_autocast_dtype() -> dtype:
        """The type in which products run here, or would run."""
        casting = modes.autocast.get()
        return bfloat16 if casting is None else casting.dtype

    def _fresh(self) -> Self:
        return type(self)(self.device, self.fast_dtype, self._enabled, self._cache_enabled)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast works on a kind of device.

    >>> import lucid
    >>> lucid.amp.is_autocast_available("cpu")
    True
    """
    return device_type == "cpu"


__all__ = ["autocast", "in_low_precision", "in_single_precision", "is_autocast_available"]
