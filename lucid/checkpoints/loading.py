"""`lucid.load`: reading what `lucid.save` wrote, and safetensors files of other makers."""

import os
from collections.abc import Callable
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.files import TensorFile
from lucid.checkpoints.saving import CURRENT_VERSION, STRUCTURE, VERSION
from lucid.checkpoints.shards import INDEX_SUFFIX, ShardedFile
from lucid.checkpoints.structure import Decoder, as_tensor
from lucid.core.device import as_device
from lucid.core.tensor import Tensor

_ATTEMPTS = 100


def load(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    device: Any = None,
    mmap: bool = False,
    verify: bool | None = None,
    map_location: Any = None,
    weights_only: bool = True,
) -> Any:
    """Read a checkpoint: the nest that was given to `lucid.save`.

    `path` is a file, the index of a checkpoint in several files, or a directory that holds one checkpoint; or a file that is
    open for reading bytes, which is read to its end. A safetensors
    file of another maker gives a dict of its tensors. Tensors are put on `device`. They own their memory; with
    `mmap=True` they show the file, of which parts are read when they are first used, and which writes do not change.

    `save` stores a checksum for each array. They are compared when arrays are read, unless `verify` is False; with
    `mmap=True`, which reads nothing yet, only if it is True. Files of other makers have none.

    Nothing in a file is executed, and memory is taken in proportion to its size. A file that is damaged or no checkpoint
    at all raises `lucid.checkpoints.CheckpointError`. So `weights_only` changes nothing. `map_location` is another way to
    say the device: one, a dict from devices to devices, or a function of a tensor and the name of its device.

    >>> import lucid, os, tempfile
    >>> from lucid.checkpoints import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> save([lucid.tensor([1.0, 2.0], requires_grad=True), ("lr", 0.1)], path)
    >>> load(path)
    [Tensor([1., 2.], requires_grad=True), ('lr', 0.1)]
    """
    if not isinstance(path, (str, os.PathLike)) and hasattr(path, "read"):
        if mmap:
            raise ValueError("load: an open file cannot be shown in memory; give its path, or mmap=False")
        with TemporaryDirectory() as folder:
            whole = os.path.join(folder, "whole")
            with open(whole, "wb") as copy:
                copyfileobj(path, copy)
            return load(whole, device=device, verify=verify, map_location=map_location)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"load: path must be a string or a path, not {type(path).__name__}")
    if map_location is not None and device is not None:
        raise TypeError("load: give device or map_location, not both")
    target = as_device(device if map_location is None or callable(map_location) else _mapped(map_location))

    def on_device(t: Tensor) -> Tensor:
        if callable(map_location):
            return map_location(t, str(t.device))
        return t if t.device == target else t.to(device=target)

    attempt = 1
    while True:
        place = _found(os.fsdecode(path))
        before = _stamp(place)
        try:
            return _read(place, on_device, mmap, not mmap if verify is None else verify)
        except (CheckpointError, FileNotFoundError):
            # A writer may have replaced the files while they were read; then there are new ones to read.
            if attempt == _ATTEMPTS or _stamp(place) == before:
                raise
        attempt += 1


def _read(place: str, on_device: Callable[[Tensor], Tensor], mmap: bool, verify: bool) -> Any:
    with (ShardedFile if place.endswith(INDEX_SUFFIX) else TensorFile)(place, mmap, verify) as source:
        try:
            text = source.metadata.get(STRUCTURE)
            if text is None:
                return {name: on_device(as_tensor(source.read(name))) for name in sorted(source.names)}
            version = source.metadata.get(VERSION)
            if version != CURRENT_VERSION or not isinstance(text, str):
                raise CheckpointError(f"it has format version {version}; this version of Lucid reads {CURRENT_VERSION}")
            return Decoder(source.read, on_device).nest(text)
        except CheckpointError as error:
            message = str(error)
            raise CheckpointError(message if place in message else f"{place}: {message}") from None
        except TypeError as error:
            raise CheckpointError(f"{place}: {error}") from None


def _mapped(location: Any) -> Any:
    """Where tensors of the CPU go."""
    if not isinstance(location, dict):
        return location
    return next((to for of, to in location.items() if as_device(of) == as_device("cpu")), "cpu")


def _found(path: str) -> str:
    """The file to read: itself, its index, or what a directory holds."""
    if os.path.isdir(path):
        return _only_one_in(path)
    if os.path.exists(path) or path.endswith(INDEX_SUFFIX) or not os.path.exists(path + INDEX_SUFFIX):
        return path  # opening it says so if it does not exist
    return path + INDEX_SUFFIX


def _only_one_in(directory: str) -> str:
    names = sorted(os.listdir(directory))
    for suffix in (INDEX_SUFFIX, ".safetensors"):
        fitting = [name for name in names if name.endswith(suffix) and not name.startswith(".")]
        if len(fitting) == 1:
            return os.path.join(directory, fitting[0])
        if fitting:
            raise CheckpointError(f"{directory}: holds several checkpoints ({', '.join(fitting)}); name one of them")
    raise FileNotFoundError(f"load: there is no checkpoint in {directory}")


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


__all__ = ["load"]
