"""Devices as Sorix names them. There is one: Lucid has no arrays of CuPy."""

from typing import Any

import numpy as np

from lucid.core.device import device


class Device(device):
    """Where a tensor lives; it equals the string that names it.

    >>> import sorix
    >>> sorix.device("cuda"), sorix.device("cpu") == "cpu", sorix.device("cuda:1") == "cuda"
    (device(type='cuda', index=0), True, True)
    """

    __slots__ = ()

    def __init__(self, spec: Any) -> None:
        kind, _, number = (str(spec) if isinstance(spec, str | device) else "").partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
            raise ValueError(f"Invalid device: {spec!r}; give 'cpu', 'cuda' or 'cuda:1'")
        self.type = kind
        self.index = None if kind == "cpu" else int(number or 0)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other if ":" in other else self.type == other
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash(self.type)


CPU = Device("cpu")


def present(spec: Any) -> Device:
    """The device that is asked for, if there is such a one."""
    found = CPU if spec is None else Device(spec)
    if found.type != "cpu":
        raise Exception(f"Cupy is not available, and so there is no {found}; use device='cpu'")  # its class in Sorix
    return found


def get_xp(*args: Any) -> Any:
    """The module whose arrays tensors hold: NumPy."""
    return np
