"""Checkpoints of several processes: each writes its parts to a file of its own, and one index says which part is where.

The folder holds files `<save>-00001-of-00004.safetensors`, one for each process that has something to write, and the index,
which is replaced last: whatever happens before, the former checkpoint is whole, and afterwards the new one. Arrays and
index have checksums. Any number of processes reads it, each of them what it needs.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lucid.autograd import no_grad
from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.files import CHECKSUMS, TensorFile, checksum, metadata_checksum, write
from lucid.checkpoints.staging import exclusive, install, staging
from lucid.checkpoints.structure import ARRAY_TYPES, Decoder, Encoder, as_tensor, paired
from lucid.core.tensor import Tensor
from lucid.distributed import parts as divided
from lucid.distributed.groups import ProcessGroup, chosen, is_initialized
from lucid.distributed.objects import all_gather_object
from lucid.distributed.parts import Shard as Shard

__all__ = ["Shard", "load_parallel", "save_parallel"]

INDEX, FORMAT = "checkpoint.parallel.json", "lucid.parallel.1"
_FILE = re.compile(r"[0-9a-f]{16}-\d{5,}-of-\d{5,}\.safetensors")
_SAVE = "lucid.save"


class _Part(NamedTuple):
    """What one process has of an array. `offsets` is None if that is all of it, as in every other process."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...] | None
    sizes: tuple[int, ...]


class _Encoder(Encoder):
    """Names the tensors of a nest, and parts of them, instead of storing their arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves: dict[str, Any] = {}

    def _node(self, value: Any, path: Any) -> Any:
        if not isinstance(value, Shard):
            return super()._node(value, path)
        name = self._fresh_name(path)
        sizes, offsets = tuple(value.tensor.shape), tuple(value.offsets)
        inside = len(sizes) == len(offsets) == len(value.shape)
        if not inside or any(o < 0 or o + n > w for o, n, w in zip(offsets, sizes, value.shape, strict=True)):
            raise ValueError(
                f"save_parallel: {name}: a part of shape {sizes} at {offsets} is not inside of {value.shape}"
            )
        self.arrays[name] = value.tensor._concrete("save_parallel()")
        self.leaves[name] = value
        return {"part": name}

    def _tensor(self, value: Tensor, path: Any) -> Any:
        name = self._fresh_name(path)
        self.arrays[name] = value._concrete("save_parallel()")
        self.leaves[name] = value
        return {"part": name}

    def _stored(self, tag: str, array: Any, path: Any) -> Any:
        node = super()._stored(tag, array, path)
        node.pop("complex128", None)  # arrays are joined before they are looked at
        return node

    def parts(self) -> list[_Part]:
        """What this process has."""
        out = []
        for name, array in self.arrays.items():
            leaf = self.leaves.get(name)
            shape, offsets = (
                (tuple(leaf.shape), tuple(leaf.offsets)) if isinstance(leaf, Shard) else (array.shape, None)
            )
            out.append(_Part(name, array.dtype.name, shape, offsets, array.shape))
        return out


def _group(given: Any) -> ProcessGroup | None:
    """The processes that take part; None for one that is alone."""
    return chosen(given) if given is not None or is_initialized() else None


def _everyone(value: Any, group: ProcessGroup | None) -> list[Any]:
    if group is None:
        return [value]
    found = [None] * group.size()
    all_gather_object(found, value, group)
    return found


def _together(group: ProcessGroup | None, work: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Do something that may fail, and raise in all processes if it failed in one: the result, and those of all."""
    result: Any = None
    error: Exception | None = None
    try:
        result = work()
    except (OSError, ValueError, TypeError) as found:  # CheckpointError is a ValueError
        error = found
    said = _everyone(None if error is None else f"{type(error).__name__}: {error}", group)
    if error is not None:
        raise error
    failed = [f"\n  rank {group.ranks[i]}: {text}" for i, text in enumerate(said) if text is not None] if group else []
    if failed:
        raise CheckpointError(f"another process could not do its part:{''.join(failed)}")
    return result, said


def save_parallel(state: Any, path: str | os.PathLike[str], *, group: Any = None) -> None:
    """Write a nest that several processes have together into a folder. All members of the group call it.

    Tensors are the same in all processes, and one of them writes each; a `Shard` is a part, and each process writes its own.
    All else is taken from the first process. See `lucid.save` for what a nest may hold.

    >>> import lucid, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> lucid.save_parallel({"weight": lucid.Shard(lucid.ones(2), (0,), (2,)), "epoch": 3}, folder)
    >>> lucid.load_parallel(folder)
    {'weight': Tensor([1., 1.]), 'epoch': 3}
    """
    own, folder, encoder = _group(group), os.fsdecode(path), _Encoder()
    rank, size = (own.rank(), own.size()) if own else (0, 1)

    def prepare() -> tuple[str, list[_Part]]:
        os.makedirs(folder, exist_ok=True)
        return encoder.text(state), encoder.parts()

    (text, parts), _ = _together(own, prepare)
    sums = {p.name: _checksum(p, encoder) for p in parts if p.offsets is None} if divided.exist() else {}
    known = _everyone([os.urandom(8).hex(), [list(p) for p in parts], sums], own)
    mark, everyone = known[0][0], [[_Part(*p) for p in parts] for _, parts, _ in known]
    _together(own, lambda: _raise_if_parts([sums for *_, sums in known]))
    tensors, _ = _together(own, lambda: _placed(everyone, mark))
    mine = {name: encoder.arrays[name] for name, where in tensors.items() for r, *_ in where["parts"] if r == rank}
    target = os.path.join(folder, _file_name(mark, rank, size))

    def write_own() -> None:
        if mine:
            with staging(folder) as stage:
                new = os.path.join(stage, "part")
                write(new, mine, {_SAVE: mark})
                install(new, target)

    def write_index() -> None:
        if rank == 0:
            _install_index(folder, text, tensors, mark, size)

    try:
        _together(own, write_own)
        _together(own, write_index)
    except BaseException:
        with suppress(OSError):
            if not _names(folder, mark):
                os.unlink(target)
        raise


def _checksum(part: _Part, encoder: _Encoder) -> int:
    return checksum(part.name, part.dtype, part.shape, encoder.arrays[part.name])


def _raise_if_parts(sums: Sequence[Mapping[str, int]]) -> None:
    """Where parameters are divided, what is said to be the same in all processes must be: else a part would be lost."""
    for name, found in sums[0].items():
        if any(other.get(name, found) != found for other in sums):
            raise ValueError(
                f"save_parallel: {name} is not the same in all processes. A part of a tensor is given as a Shard: "
                "nn.parallel.sharded_state_dict and sharded_optimizer_state_dict give such states"
            )


def _file_name(mark: str, rank: int, size: int) -> str:
    return f"{mark}-{rank + 1:05d}-of-{size:05d}.safetensors"


def _placed(everyone: Sequence[Sequence[_Part]], mark: str) -> dict[str, Any]:
    """Who writes what: for each array, its type, its shape, and its parts with the ranks that write them."""
    names = [p.name for p in everyone[0]]
    for rank, parts in enumerate(everyone):
        if [p.name for p in parts] != names:
            differing = sorted({p.name for p in parts} ^ set(names)) or "their order"
            raise ValueError(f"save_parallel: processes have different tensors; 0 and {rank} differ in {differing}")
    tensors: dict[str, Any] = {}
    load = [sum(_nbytes(p) for p in parts if p.offsets is not None) for parts in everyone]
    for parts in sorted(zip(*everyone, strict=True), key=lambda parts: -_nbytes(parts[0])):
        first = parts[0]
        if any(
            (p.dtype, p.shape, p.offsets is None) != (first.dtype, first.shape, first.offsets is None) for p in parts
        ):
            raise ValueError(f"save_parallel: {first.name} differs between processes: {_described(parts)}")
        if first.offsets is None:
            writer = load.index(min(load))
            load[writer] += _nbytes(first)
            where = [[writer, [0] * len(first.shape), list(first.shape)]]
        else:
            where = _distinct(parts)
        tensors[first.name] = {"dtype": first.dtype, "shape": list(first.shape), "parts": where}
    return {name: tensors[name] for name in names}


def _described(parts: Sequence[_Part]) -> str:
    return "; ".join(
        f"{p.dtype}{list(p.shape)}{'' if p.offsets is None else f' from {list(p.offsets)}'}" for p in parts
    )


def _nbytes(part: _Part) -> int:
    return prod(part.sizes) * ARRAY_TYPES[part.dtype].itemsize


def _distinct(parts: Sequence[_Part]) -> list[list[Any]]:
    """The parts of an array, each once, if they are the whole."""
    found: dict[Any, list[Any]] = {}
    for rank, part in enumerate(parts):
        if prod(part.sizes):
            found.setdefault((part.offsets, part.sizes), [rank, list(part.offsets or ()), list(part.sizes)])
    boxes = list(found.values())
    overlap = any(_common(a[1], a[2], b[1], b[2]) is not None for i, a in enumerate(boxes) for b in boxes[:i])
    if overlap or sum(prod(b[2]) for b in boxes) != prod(parts[0].shape):
        raise ValueError(f"save_parallel: the parts of {parts[0].name} overlap or leave gaps: {_described(parts)}")
    return boxes


def _common(offsets: Any, sizes: Any, others: Any, other_sizes: Any) -> list[tuple[int, int]] | None:
    """Where two boxes overlap: start and end in each dimension; None if they do not."""
    out = []
    for o, n, p, m in zip(offsets, sizes, others, other_sizes, strict=True):
        start, end = max(o, p), min(o + n, p + m)
        if start >= end:
            return None
        out.append((start, end))
    return out


def _install_index(folder: str, text: str, tensors: Mapping[str, Any], mark: str, size: int) -> None:
    """Put the new index into place, and remove the files of former ones."""
    named = {
        name: {**about, "parts": [[_file_name(mark, r, size), *box] for r, *box in about["parts"]]}
        for name, about in tensors.items()
    }
    index: dict[str, Any] = {"format": FORMAT, _SAVE: mark, "structure": text, "tensors": named}
    index[CHECKSUMS] = metadata_checksum(index)
    with staging(folder) as stage, exclusive(folder):
        new = os.path.join(stage, "index")
        with open(new, "w", encoding="ascii") as file:
            json.dump(index, file)
        install(new, os.path.join(folder, INDEX))
        for name in os.listdir(folder):
            if _FILE.fullmatch(name) and not name.startswith(mark):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def _names(folder: str, mark: str) -> bool:
    """Whether the index in a folder is that of a save."""
    try:
        return bool(_read_index(folder)[_SAVE] == mark)
    except (OSError, CheckpointError):
        return False


def _read_index(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, INDEX)
    try:
        with open(path, encoding="ascii") as file:
            index = json.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"load_parallel: there is no checkpoint of several processes in {folder}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the index is not JSON: {error}") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CheckpointError(f"{path}: this is no index of the format {FORMAT}")
    rest = {key: value for key, value in index.items() if key != CHECKSUMS}
    if index.get(CHECKSUMS) != metadata_checksum(rest):
        raise CheckpointError(f"{path}: the index is damaged: its checksum does not fit it")
    for about in index["tensors"].values():
        for name, *_ in about["parts"]:
            if not _FILE.fullmatch(name):  # no name may lead out of the folder
                raise CheckpointError(f"{path}: {name!r} is not the name of a file of this checkpoint")
    return index


class _Files:
    """The files of a checkpoint, opened when they are needed."""

    def __init__(self, folder: str, index: Mapping[str, Any], verify: bool) -> None:
        self.folder, self.index, self.verify = folder, index, verify
        self.open, self.files = ExitStack(), dict[str, TensorFile]()

    def read(self, file: str, name: str, dtype: str) -> Any:
        if file not in self.files:
            path = os.path.join(self.folder, file)
            opened = self.open.enter_context(TensorFile(path, not self.verify, self.verify))
            if opened.metadata.get(_SAVE) != self.index[_SAVE]:
                raise CheckpointError(f"{path}: this file belongs to another save than the index")
            self.files[file] = opened
        array = self.files[file].read(name)
        return paired(array) if dtype == "complex128" else array

    def fill(self, name: str, out: Any, offsets: Sequence[int]) -> None:
        """Write the part of an array that begins at `offsets`."""
        about = self.index["tensors"][name]
        for file, begins, sizes in about["parts"]:
            box = _common(begins, sizes, offsets, out.shape)
            if box is not None:
                source = self.read(file, name, about["dtype"])
                there = tuple(slice(a - o, b - o) for (a, b), o in zip(box, begins, strict=True))
                here = tuple(slice(a - o, b - o) for (a, b), o in zip(box, offsets, strict=True))
                out[here] = source[there]

    def whole(self, name: str) -> Any:
        about = self.index["tensors"][name]
        out = np.empty(about["shape"], ARRAY_TYPES[about["dtype"]])
        self.fill(name, out, [0] * out.ndim)
        return out


class _Decoder(Decoder):
    """Puts the tensors of a state, which were filled, into the nest."""

    def __init__(self, files: _Files, leaves: Mapping[str, Any]) -> None:
        super().__init__(files.whole, lambda tensor: tensor)
        self.files, self.leaves = files, leaves

    def _value(self, node: Any, depth: int) -> Any:
        if not isinstance(node, dict) or "part" not in node:
            return super()._value(node, depth)
        name = node["part"]
        leaf = self.leaves.get(name)
        if leaf is None:
            return as_tensor(self.files.whole(name))
        about = self.files.index["tensors"][name]
        tensor, offsets, shape = leaf if isinstance(leaf, Shard) else (leaf, (0,) * leaf.ndim, tuple(leaf.shape))
        if tuple(about["shape"]) != tuple(shape) or about["dtype"] != tensor.dtype.name:
            raise CheckpointError(
                f"{name} is {about['dtype']}{about['shape']} in the checkpoint, but {tensor.dtype.name}{list(shape)} is to "
                "be filled"
            )
        made = np.empty(tensor.shape, tensor.np_dtype)
        self.files.fill(name, made, offsets)
        with no_grad():
            tensor.detach().copy_(Tensor._wrap(made))
        return leaf


def load_parallel(path: str | os.PathLike[str], state: Any = None, *, group: Any = None, verify: bool = True) -> Any:
    """Read what `save_parallel` wrote, in any number of processes. All members of the group call it.

    The nest that was saved is returned. Tensors and parts of `state`, which has the same names, are filled in place, and
    stand in what is returned; of each, only what it needs is read. Without a state, or where it has no tensor, tensors come
    back whole.

    >>> import lucid, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> lucid.save_parallel({"weight": lucid.arange(4.0)}, folder)
    >>> part = lucid.Shard(lucid.zeros(2), (2,), (4,))
    >>> lucid.load_parallel(folder, {"weight": part})["weight"].tensor
    Tensor([2., 3.])
    """
    own, folder, encoder = _group(group), os.fsdecode(path), _Encoder()

    def read() -> Any:
        if state is not None:
            encoder.text(state)
        index = _read_index(folder)
        missing = sorted(encoder.leaves.keys() - index["tensors"].keys())
        if missing:
            raise CheckpointError(f"{folder}: the checkpoint has no {', '.join(missing)}")
        files = _Files(folder, index, verify)
        with files.open:
            return _Decoder(files, encoder.leaves).nest(index["structure"])

    return _together(own, read)[0]
