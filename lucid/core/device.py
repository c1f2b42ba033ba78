"""Devices: where a tensor's array lives. The CPU is built in; others register an array module."""

from contextvars import ContextVar
from typing import Any, Self

import numpy as np

from lucid.core.errors import ArgumentError


class device:
    """A place where tensors live, such as ``lucid.device("cpu")``.

    >>> import lucid
    >>> lucid.device("cpu")
    device(type='cpu')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: "str | device", index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if not isinstance(type, str):
            raise TypeError(f"a device is given as a string such as 'cpu', not {type!r}")
        kind, _, number = type.partition(":")
        if kind not in ("cpu", "meta"):
            raise ArgumentError(
                f"unknown device {type!r}; available here: cpu, meta; there is no backend for accelerators"
            )
        if number and not number.isdigit():
            raise ArgumentError(f"the device index must be a whole number, as in 'cpu:0', not {type!r}")
        self.type, self.index = kind, int(number) if number else index

    def __enter__(self) -> Self:
        places.set((*places.get(), self))  # inside, new tensors are made there
        return self

    def __exit__(self, *_: object) -> None:
        places.set(places.get()[:-1])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.type == other
        return isinstance(other, device) and (self.type, self.index or 0) == (other.type, other.index or 0)

    def __hash__(self) -> int:
        return hash(self.type)  # which a device equals

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + ("" if self.index is None else f", index={self.index}") + ")"


CPU = device("cpu")
places: ContextVar[tuple[device, ...]] = ContextVar("places", default=(CPU,))


def as_device(spec: Any) -> device:
    return places.get()[-1] if spec is None else spec if isinstance(spec, device) else device(spec)


# glibc returns the memory of freed arrays to the system and gets it back page by page, which can take more time than
# an operation. It stops doing so for sizes up to that of the largest block freed: here 32 MB, which are never touched.
np.empty((1 << 25) - (1 << 13), np.uint8)
