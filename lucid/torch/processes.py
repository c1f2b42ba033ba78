"""`torch.distributed` and what packages ask of PyTorch's own machinery: there is one process, and nobody counts calls."""

from typing import Any


def is_available() -> bool:
    """Whether processes can be joined: no."""
    return False


is_initialized = is_nccl_available = is_mpi_available = is_gloo_available = is_torchelastic_launched = is_available


def get_rank(group: Any = None) -> int:
    """The number of this process."""
    return 0


def get_world_size(group: Any = None) -> int:
    """How many processes there are.

    >>> import lucid.torch as torch
    >>> torch.distributed.is_available(), torch.distributed.get_world_size()
    (False, 1)
    """
    return 1


def _log_api_usage_once(name: str) -> None:
    """Nothing is counted."""


def _get_tracing_state() -> None:
    """No program is being traced by PyTorch."""
