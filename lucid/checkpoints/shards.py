"""Checkpoints in several files: shards, and an index that says which array is in which of them.

The layout is the one that model hubs use: `model-00001-of-00003.safetensors` and so on, and an index
`model.safetensors.index.json` with the entries `metadata` and `weight_map`.
"""

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.files import CHECKSUMS, TensorFile, metadata_checksum, raise_unless_file, write

INDEX_SUFFIX = ".index.json"
# Shards name their index and the save that wrote them: files without these are not ours to remove or to mix.
_OWNER, _SAVE = "lucid.index", "lucid.save"
_EXTENSION = ".safetensors"
_MAX_INDEX = 200 << 20  # bytes
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1 << (10 * power) for power, unit in enumerate("KMGT", 1)}


def parsed_size(size: Any) -> int:
    """A number of bytes, given as such or as text: "2GB" has 2 · 10^9, "2GiB" 2 · 2^30."""
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", size.upper())
        if found is None or found[2] not in _UNITS:
            raise ValueError(f"shard_size: {size!r} is not a size; write it like 500MB, 2GB or 2GiB")
        size = int(float(found[1]) * _UNITS[found[2]])
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"shard_size must be a number of bytes or a text like '2GB', not {type(size).__name__}")
    if size <= 0:
        raise ValueError(f"shard_size must be positive, got {size}")
    return size


def index_of(target: str) -> str:
    """Where the index of a checkpoint lies."""
    return target + INDEX_SUFFIX


def divided(arrays: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    """The arrays in groups of at most `limit` bytes; one that is larger has a group of its own."""
    groups: list[dict[str, Any]] = []
    room = 0
    for name, array in arrays.items():
        if array.nbytes > room or not groups:
            groups.append({})
            room = limit
        groups[-1][name] = array
        room -= array.nbytes
    return groups


def write_shards(target: str, groups: list[dict[str, Any]], stage: str) -> tuple[list[str], str]:
    """Write the shards into a staging directory; also returned is the mark by which they know their index."""
    save = os.urandom(8).hex()
    staged = []
    for number, group in enumerate(groups):
        staged.append(os.path.join(stage, f"shard-{number}"))
        write(staged[-1], group, {_OWNER: os.path.basename(index_of(target)), _SAVE: save})
    return staged, save


def free_paths(target: str, count: int) -> list[str]:
    """Where new shards go: as long as the old index is in place, its shards must be left as they are."""
    stem = target.removesuffix(_EXTENSION)
    for generation in itertools.count():
        mark = f".{generation}" if generation else ""
        paths = [f"{stem}{mark}-{i:05d}-of-{count:05d}{_EXTENSION}" for i in range(1, count + 1)]
        if not any(map(os.path.exists, paths)):
            return paths
    raise AssertionError("unreachable")


def index_text(groups: list[dict[str, Any]], paths: list[str], save: str, metadata: Mapping[str, str]) -> str:
    """The contents of the index."""
    total = sum(array.nbytes for group in groups for array in group.values())
    places = {name: os.path.basename(path) for path, group in zip(paths, groups, strict=True) for name in group}
    about = {"total_size": total, _SAVE: save, **metadata}
    about[CHECKSUMS] = metadata_checksum(about | {"weight_map": places})
    return json.dumps({"metadata": about, "weight_map": places}, indent=2)


def remove_shards(target: str, keep: Iterable[str]) -> None:
    """Remove the shards that earlier saves of this checkpoint left, except for some."""
    directory, name = os.path.split(target)
    stem = re.escape(name.removesuffix(_EXTENSION))
    pattern = re.compile(rf"{stem}(\.\d+)?-\d{{5,}}-of-\d{{5,}}{re.escape(_EXTENSION)}")
    found = [os.path.join(directory, shard) for shard in os.listdir(directory) if pattern.fullmatch(shard)]
    for path in set(found) - set(keep):
        if _owner_of(path) == os.path.basename(index_of(target)):
            os.unlink(path)


def _owner_of(shard: str) -> str | None:
    try:
        with TensorFile(shard) as file:
            return file.metadata.get(_OWNER)
    except (CheckpointError, OSError):
        return None


class ShardedFile:
    """The arrays of several files behind an index, with the interface of one file."""

    def __init__(self, index: str, mmap: bool = False, verify: bool = True) -> None:
        self.path = index
        self.metadata, self._places = _parsed_index(index)
        self.names = list(self._places)
        self._mmap, self._verify = mmap, verify
        self._files: dict[str, TensorFile] = {}
        self._open = ExitStack()

    def read(self, name: str) -> Any:
        """One array, from the shard that the index names."""
        if name not in self._places:
            raise CheckpointError(f"{self.path}: there is no array {name!r}")
        place = self._places[name]
        if place not in self._files:
            self._files[place] = self._opened(os.path.join(os.path.dirname(self.path), place))
        return self._files[place].read(name)

    def _opened(self, path: str) -> TensorFile:
        file = self._open.enter_context(TensorFile(path, self._mmap, self._verify))
        if file.metadata.get(_SAVE) != self.metadata.get(_SAVE):
            raise CheckpointError(f"{path}: this shard belongs to another save than the index {self.path}")
        return file

    def __enter__(self) -> "ShardedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _parsed_index(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    raise_unless_file(path)
    if os.path.getsize(path) > _MAX_INDEX:
        raise CheckpointError(f"{path}: an index of more than {_MAX_INDEX} bytes is not read")
    try:
        with open(path, "rb") as file:
            index = json.loads(file.read(_MAX_INDEX))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the index is not JSON: {error}") from None
    places = index.get("weight_map") if isinstance(index, dict) else None
    metadata = index.get("metadata", {}) if isinstance(index, dict) else None
    if not isinstance(places, dict) or not isinstance(metadata, dict):
        raise CheckpointError(f"{path}: an index must have the entries weight_map and metadata")
    for name, file in places.items():
        # The names come from a file that anyone may have written: they must not lead out of its directory.
        if not isinstance(file, str) or file in ("", ".", "..") or re.search(r"[/\\:\0]", file):
            raise CheckpointError(f"{path}: array {name!r} is said to be in {file!r}, which is not a plain file name")
    rest = {key: value for key, value in metadata.items() if key != CHECKSUMS}
    if metadata.get(CHECKSUMS) not in (None, metadata_checksum(rest | {"weight_map": places})):
        raise CheckpointError(f"{path}: the index is damaged: its checksum does not fit it")
    return metadata, places


__all__ = [
    "INDEX_SUFFIX", "ShardedFile", "divided", "free_paths", "index_of", "index_text", "parsed_size", "remove_shards",
    "write_shards",
]  # fmt: skip
