"""`torch.cpu`: questions about the one device that there is."""

import platform
from contextlib import nullcontext
from typing import Any

import lucid
from lucid.torch.accelerators import autocast as _autocast


def is_available() -> bool:
    """Whether there is a processor."""
    return True


def device_count() -> int:
    """How many there are, as devices."""
    return 1


def current_device() -> str:
    """The device."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Nothing is ever pending."""


def set_device(device: Any) -> None:
    """There is one."""


def stream(stream: Any) -> Any:
    """A context of a stream, of which there is one."""
    return nullcontext()


def current_stream(device: Any = None) -> "Stream":
    """The one stream."""
    return Stream()


class Stream:
    """A queue of work, which is always done."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing is ever pending."""

    def record_event(self) -> None:
        """Nothing is ever pending."""

    wait_event = wait_stream


Event, StreamContext = Stream, stream


def is_initialized() -> bool:
    """Whether the processor can be used."""
    return True


def get_capabilities() -> dict[str, Any]:
    """What the processor can do, as Python knows it."""
    return {"architecture": platform.machine()}


class autocast(_autocast):
    """`torch.cpu.amp.autocast`, which takes no device.

    >>> import lucid.torch as torch
    >>> with torch.cpu.amp.autocast():
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)

    def _fresh(self) -> Any:
        return type(self)(self._enabled, self.fast_dtype, self._cache_enabled)


def show() -> str:
    """`torch.__config__.show`: what computes here.

    >>> import lucid.torch as torch
    >>> torch.__config__.show().startswith("Lucid")
    True
    """
    return f"Lucid {lucid.__version__}, with the interface of PyTorch; threads: {lucid.get_num_threads()}"


parallel_info = show
