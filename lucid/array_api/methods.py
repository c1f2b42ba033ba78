"""What the standard asks of the array object, beside the methods and operators that tensors have anyway."""

from importlib import import_module
from typing import Any

from lucid.core.device import as_device
from lucid.core.tensor import Tensor

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:  # noqa: N807  (the standard's)
    """The module with the standard's functions for tensors, `lucid.array_api`.

    >>> import lucid
    >>> xp = lucid.tensor([1.0, 2.0]).__array_namespace__()
    >>> xp.__name__
    'lucid.array_api'
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"unknown version {api_version!r} of the array API; there are {', '.join(VERSIONS)}")
    return import_module("lucid.array_api")


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.to_device(x.device) is x
    True
    """
    if stream is not None:
        raise ValueError(f"to_device: devices here have no streams, got {stream!r}")
    return self.to(device=as_device(device))
