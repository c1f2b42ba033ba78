"""`lucid.save`: a nest of tensors and other values into one file, or into several."""

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from lucid.checkpoints import shards
from lucid.checkpoints.files import package, raise_unless_file, write
from lucid.checkpoints.staging import exclusive, install, staging, sync_directory
from lucid.checkpoints.structure import Encoder

STRUCTURE, VERSION = "lucid.structure", "lucid.version"
CURRENT_VERSION = "1"


def save(
    obj: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    shard_size: int | str | None = None,
    pickle_protocol: int | None = None,
) -> None:
    """Write `obj` to a safetensors file, from which `lucid.load` reads it back.

    `path` may also be a file that is open for writing bytes, as an `io.BytesIO` is.

    `obj` may be a nest of dicts (also OrderedDict and Counter; keys may be strings, numbers, None or tuples), lists and
    tuples that holds tensors, NumPy arrays and scalars, numbers, strings, bytes, None, dtypes, devices and Generators:
    the state of modules, of optimizers, and of random numbers (`lucid.get_rng_state()`). Anything else is refused, with
    its place in the nest, before a file is touched.

    - Tensors that share memory and look at it in the same way (tied weights) are stored once and come back tied; other
      views are stored by value.
    - `requires_grad` is kept for leaves. Results of operations come back as leaves that do not require grad. `.grad` is
      not stored; put it into the nest if it is wanted.
    - The file is replaced as a whole: whatever happens, even loss of power, the old or the new one is there.
    - Other libraries can read it. The arrays of nested dicts have names like `model.weight`; complex128, which the
      format lacks, is stored as pairs of float64.
    - With `shard_size` (bytes, or text like "2GB") the arrays go to files `name-00001-of-00003.safetensors` of at most
      that size, with an index `name.safetensors.index.json`.
    - Nothing is pickled, so `pickle_protocol` changes nothing.

    >>> import lucid, os, tempfile
    >>> from lucid.checkpoints import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save({"weight": lucid.ones(2), "epoch": 3}, path)
    >>> load(path)
    {'weight': Tensor([1., 1.]), 'epoch': 3}
    """
    if not isinstance(path, (str, os.PathLike)) and hasattr(path, "write"):
        if shard_size is not None:
            raise ValueError("save: an open file takes no shard_size: several files need a path")
        with TemporaryDirectory() as folder:
            whole = os.path.join(folder, "whole")
            save(obj, whole)
            with open(whole, "rb") as written:
                copyfileobj(written, path)
        return
    limit = None if shard_size is None else shards.parsed_size(shard_size)
    target = _target(path, limit is not None)
    package()
    encoder = Encoder()
    _install(target, encoder.arrays, {VERSION: CURRENT_VERSION, STRUCTURE: encoder.text(obj)}, limit)


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write named arrays and metadata to one file, which is replaced as a whole."""
    _install(_target(path, False), arrays, metadata, None)


def _install(target: str, arrays: Mapping[str, Any], metadata: Mapping[str, str], limit: int | None) -> None:
    try:
        with staging(os.path.dirname(target)) as stage:
            if limit is None:
                _save_whole(target, arrays, metadata, stage)
            else:
                _save_sharded(target, shards.divided(dict(arrays), limit), metadata, stage)
    except OSError as error:
        reason = f"{error.strerror or error}; a checkpoint that was there is unchanged{_advice(error)}"
        raise OSError(error.errno, f"save: not written: {reason}", target) from error


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ". Make room on the disk, or choose another directory"
    return ""


def _target(path: Any, sharded: bool) -> str:
    """The file to be replaced: where a link leads, if the path is one."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"save: path must be a string or a path, not {type(path).__name__}")
    target = os.fsdecode(os.path.realpath(path))
    if target.endswith(shards.INDEX_SUFFIX):
        if not sharded:
            raise ValueError(f"save: {target} has the name of an index; give shard_size, or choose another name")
        target = target.removesuffix(shards.INDEX_SUFFIX)
    if os.path.isdir(target):
        raise IsADirectoryError(f"save: {target} is a directory; give the name of a file in it")
    raise_unless_file(target)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(f"save: there is no directory {os.path.dirname(target)}")
    return target


def _save_whole(target: str, arrays: Mapping[str, Any], metadata: Mapping[str, str], stage: str) -> None:
    new = os.path.join(stage, "whole")
    write(new, arrays, metadata)
    with exclusive(os.path.dirname(target)):
        install(new, target)
        if _wrote(shards.index_of(target)):
            os.unlink(shards.index_of(target))
            shards.remove_shards(target, keep=())


def _save_sharded(target: str, groups: list[dict[str, Any]], metadata: Mapping[str, str], stage: str) -> None:
    staged, mark = shards.write_shards(target, groups, stage)
    with exclusive(os.path.dirname(target)):
        paths = shards.free_paths(target, len(groups))
        for new, path in zip(staged, paths, strict=True):
            install(new, path)
        index = os.path.join(stage, "index")
        with open(index, "w", encoding="ascii") as file:
            file.write(shards.index_text(groups, paths, mark, metadata))
        install(index, shards.index_of(target))
        with suppress(FileNotFoundError):
            os.unlink(target)
        shards.remove_shards(target, keep=paths)
        sync_directory(os.path.dirname(target))


def _wrote(index: str) -> bool:
    """Whether an index is one of ours; others are left alone."""
    try:
        with shards.ShardedFile(index) as file:
            return STRUCTURE in file.metadata
    except (OSError, ValueError):
        return False


__all__ = ["CURRENT_VERSION", "STRUCTURE", "VERSION", "save", "save_arrays"]
