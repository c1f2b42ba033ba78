"""Settings of the process, and questions that have one answer here."""

from typing import Any

from lucid.core.device import device, places

_settings = {"threads": 0, "deterministic": False}


def set_default_device(d: Any) -> None:
    """Say where tensors are made: on the CPU, or on "meta", where they have no elements.

    >>> import lucid
    >>> lucid.set_default_device("meta")
    >>> lucid.zeros(2).is_meta, lucid.get_default_device()
    (True, 'meta')
    >>> lucid.set_default_device("cpu")
    """
    if not isinstance(d, (str, device)):
        raise TypeError(f"a device is given as a string such as 'cpu', not {d!r}")
    places.set((device(d),))


def get_default_device() -> str:
    """The name of the device on which tensors are made.

    >>> import lucid
    >>> lucid.get_default_device()
    'cpu'
    """
    return str(places.get()[-1])


def set_num_interop_threads(n: int) -> None:
    """Accepted: operations run one after the other.

    >>> import lucid
    >>> lucid.set_num_interop_threads(2)
    >>> lucid.get_num_interop_threads()
    2
    """
    if n < 0:
        raise ValueError(f"a number of threads must not be negative, got {n}")
    _settings["threads"] = n


def get_num_interop_threads() -> int:
    """What was set last; 0 at first.

    >>> import lucid
    >>> isinstance(lucid.get_num_interop_threads(), int)
    True
    """
    return int(_settings["threads"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: every operation is deterministic.

    >>> import lucid
    >>> lucid.use_deterministic_algorithms(True)
    """
    _settings["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was set last.

    >>> import lucid
    >>> lucid.use_deterministic_algorithms(True)
    >>> lucid.are_deterministic_algorithms_enabled()
    True
    """
    return bool(_settings["deterministic"])


def is_storage(x: Any) -> bool:
    """Whether something is the memory of a tensor without the tensor: no.

    >>> import lucid
    >>> lucid.is_storage(lucid.zeros(2))
    False
    """
    return False


def eval(*tensors: Any) -> None:
    """Nothing to do: operations run when they are called.

    >>> import lucid
    >>> lucid.eval(lucid.zeros(2))
    """
