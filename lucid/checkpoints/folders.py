"""Checkpoints as folders of files of bounded size."""

import os
from typing import Any

from lucid.checkpoints.loading import load
from lucid.checkpoints.saving import save, save_arrays
from lucid.core.tensor import Tensor

_NAME = "checkpoint.safetensors"


def _folder(path: Any) -> str:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a sharded checkpoint is a folder, given by its path, not {type(path).__name__}")
    return os.fsdecode(path)


def save_sharded(
    obj: Any, path: str | bytes | os.PathLike[str], *, shard_size_mb: float = 1024.0, pickle_protocol: int | None = None
) -> None:
    """Write `obj` into a folder, in files of at most `shard_size_mb` megabytes and an index; see `save`.

    >>> import lucid, os, tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "model")
    >>> lucid.save_sharded({"a": lucid.ones(1000), "b": lucid.ones(1000)}, folder, shard_size_mb=0.004)
    >>> sorted(os.listdir(folder))[:2]
    ['checkpoint-00001-of-00002.safetensors', 'checkpoint-00002-of-00002.safetensors']
    >>> lucid.load_sharded(folder)["b"].shape
    (1000,)
    """
    folder = _folder(path)
    if shard_size_mb <= 0:
        raise ValueError(f"save_sharded: shard_size_mb must be positive, not {shard_size_mb}")
    os.makedirs(folder, exist_ok=True)
    save(obj, os.path.join(folder, _NAME), shard_size=max(1, int(shard_size_mb * 1e6)))


def load_sharded(path: str | bytes | os.PathLike[str], **options: Any) -> Any:
    """Read what `save_sharded` wrote into a folder.

    >>> import lucid, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> lucid.save_sharded([lucid.ones(2), 3], folder)
    >>> lucid.load_sharded(folder)
    [Tensor([1., 1.]), 3]
    """
    return load(os.path.join(_folder(path), _NAME + ".index.json"), **options)


def save_safetensors(
    state_dict: dict[str, Any], path: str | os.PathLike[str], *, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors by their names to a safetensors file, with texts as `metadata`; see `save` for other nests.

    >>> import lucid, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> lucid.save_safetensors({"weight": lucid.ones(2)}, path)
    >>> lucid.load_safetensors(path)
    {'weight': Tensor([1., 1.])}
    """
    for name, value in state_dict.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"save_safetensors: {name!r} must be a tensor, not a {type(value).__name__}")
    save_arrays(path, {name: value.detach().numpy() for name, value in state_dict.items()}, metadata or {})


def load_safetensors(path: str | os.PathLike[str], *, device: Any = "cpu") -> dict[str, Any]:
    """The tensors of a safetensors file by their names.

    >>> import lucid, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> lucid.save_safetensors({"weight": lucid.ones(2)}, path, metadata={"by": "me"})
    >>> lucid.load_safetensors(path)["weight"]
    Tensor([1., 1.])
    """
    return dict(load(path, device=device))
