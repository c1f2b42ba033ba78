"""`torch.distributed.checkpoint`: folders that several processes write and read together, as `lucid.save_parallel` does."""

import os
from typing import Any

from lucid.checkpoints.parallel import load_parallel, save_parallel
from lucid.nn.parallel.sharded_states import (
    load_sharded_optimizer_state_dict,
    load_sharded_state_dict,
    sharded_optimizer_state_dict,
    sharded_state_dict,
)

__all__ = [
    "FileSystemReader", "FileSystemWriter", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "load",
    "save", "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


class FileSystemWriter:
    """Where to write: a folder.

    >>> from lucid.torch.distributed.checkpoint import FileSystemWriter
    >>> FileSystemWriter("checkpoints/10").path
    'checkpoints/10'
    """

    def __init__(self, path: str | os.PathLike[str], *hints: Any, **more: Any) -> None:
        self.path = os.fspath(path)


class FileSystemReader(FileSystemWriter):
    """Where to read: a folder."""


def _folder(name: str, checkpoint_id: Any, storage: FileSystemWriter | None) -> str:
    if checkpoint_id is None and storage is None:
        raise ValueError(f"checkpoint.{name}: give the folder, checkpoint_id=")
    return storage.path if checkpoint_id is None and storage is not None else os.fspath(checkpoint_id)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    process_group: Any = None,
) -> None:
    """Write a state that processes have together into a folder. All of them call it.

    >>> import tempfile
    >>> import lucid.torch as torch
    >>> import lucid.torch.distributed.checkpoint as dcp
    >>> folder, state = tempfile.mkdtemp(), {"weight": torch.ones(2), "step": 3}
    >>> dcp.save(state, checkpoint_id=folder)
    >>> other = {"weight": torch.zeros(2), "step": 0}
    >>> dcp.load(other, checkpoint_id=folder)
    >>> other
    {'weight': tensor([1., 1.]), 'step': 3}
    """
    save_parallel(state_dict, _folder("save", checkpoint_id, storage_writer), group=process_group)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    process_group: Any = None,
) -> None:
    """Fill a state from a folder, in place: its tensors, and what else it has under the names that were saved."""
    found = load_parallel(_folder("load", checkpoint_id, storage_reader), state_dict, group=process_group)
    state_dict.update({name: found[name] for name in state_dict})


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None) -> dict[str, Any]:
    """The state of a model, with what a process has of divided parameters as a `lucid.Shard`."""
    return sharded_state_dict(model)


def get_optimizer_state_dict(model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None) -> Any:
    """The state of an optimizer, with what belongs to divided parameters as a `lucid.Shard`."""
    return sharded_optimizer_state_dict(optimizers)


def get_state_dict(model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None) -> Any:
    """The states of a model and its optimizer."""
    return get_model_state_dict(model), get_optimizer_state_dict(model, optimizers)


def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *, options: Any = None) -> None:
    """Load a state of whole tensors or of parts into a model."""
    load_sharded_state_dict(model, model_state_dict)


def set_optimizer_state_dict(model: Any, optimizers: Any, optim_state_dict: Any, *, options: Any = None) -> None:
    """Load a state of whole tensors or of parts into an optimizer."""
    load_sharded_optimizer_state_dict(optimizers, optim_state_dict)


def set_state_dict(
    model: Any, optimizers: Any, *, model_state_dict: dict[str, Any], optim_state_dict: Any, options: Any = None
) -> None:
    """Load states of a model and its optimizer."""
    set_model_state_dict(model, model_state_dict)
    set_optimizer_state_dict(model, optimizers, optim_state_dict)
