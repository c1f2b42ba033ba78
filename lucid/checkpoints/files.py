"""Safetensors files: named arrays and a table of strings, written and read with the package of that name.

The package checks the header of a file: that the arrays have known types, lie one after the other and fill the file to
its end. Where each of them lies follows from that, so their bytes are read directly into the arrays that are returned.

Beside the metadata that is given to it, `write` stores checksums: one for each array, of its name, type, shape and bytes,
and one for the rest of the metadata. Files of other writers have none. CRC-32 finds every error in up to 32 neighbouring
bits, and reads more than a gigabyte in a second.
"""

import importlib
import json
import math
import mmap as memory_maps
import os
import re
import stat
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from lucid.checkpoints.errors import CheckpointError
from lucid.checkpoints.structure import ARRAY_TYPES, little_endian

_COMPLEX128 = np.dtype(np.complex128)
# bool -> BOOL, int64 -> I64, float32 -> F32, bfloat16 -> BF16
_TYPES = {
    "BOOL"
    if name == "bool"
    else re.sub(r"[a-z]+", lambda m: "BF" if m[0] == "bfloat" else m[0][0].upper(), name): dtype
    for name, dtype in ARRAY_TYPES.items()
    if dtype != _COMPLEX128
}
_ATTEMPTS = 100
CHECKSUMS, _OF_METADATA = "lucid.crc32", "__metadata__"


def package() -> Any:
    """The module safetensors, loaded when it is first needed."""
    try:
        found = importlib.import_module("safetensors")
        found.TensorSpec  # noqa: B018  # older versions write in another way
    except (ImportError, AttributeError):
        raise ImportError(
            "checkpoints need the package safetensors, version 0.8 or later: pip install safetensors"
        ) from None
    return found


def write(path: str, arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write a new file."""
    safetensors = package()
    # The writer is given addresses: the arrays must stay alive until it has finished.
    dense = {name: _stored_form(array) for name, array in arrays.items()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, array in dense.items()
    }
    sums = {name: checksum(name, array.dtype.name, array.shape, array) for name, array in dense.items()}
    sums[_OF_METADATA] = metadata_checksum(metadata)
    checked = {**metadata, CHECKSUMS: json.dumps(sums, separators=(",", ":"))}
    try:
        safetensors.serialize_file(specs, path, metadata=checked)
    except safetensors.SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
    _Header(path)  # a header that is too long to be read again must not take the place of a good file


def checksum(name: str, type_name: str, shape: tuple[int, ...], array: Any) -> int:
    """Of an array as it is stored, and of what is said about it."""
    return zlib.crc32(array.reshape(-1).view(np.uint8), zlib.crc32(repr((name, type_name, tuple(shape))).encode()))


def metadata_checksum(metadata: Mapping[str, Any]) -> int:
    """Of all that is said about a file, in any order."""
    return zlib.crc32(json.dumps(sorted(metadata.items())).encode())


def raise_unless_file(path: str) -> None:
    """Opening a pipe would wait for its other end, and a device may have no end."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return  # opening it says so
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise OSError(f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}; a checkpoint is an ordinary file")


def _stored_form(array: Any) -> Any:
    """The array as the file will have it: complex128, which the format lacks, as pairs of float64."""
    dense = np.asarray(little_endian(array), order="C")
    return dense.reshape(*dense.shape, 1).view(np.float64) if dense.dtype == _COMPLEX128 else dense


class TensorFile:
    """A file opened for reading: its metadata, the names of its arrays, and the arrays."""

    def __init__(self, path: str, mmap: bool = False, verify: bool = True) -> None:
        self.path = path
        self._file, header = _opened(path)
        self.metadata: dict[str, str] = header.metadata
        try:
            sums = _checksums_in(header)
            self._checksums = sums if verify else None
        except CheckpointError as error:
            self._file.close()
            raise CheckpointError(f"{path}: {error}") from None
        self.names: list[str] = list(header.shapes)
        self._header = header
        self._starts = self._placed()
        self._map = memory_maps.mmap(self._file.fileno(), 0, access=memory_maps.ACCESS_COPY) if mmap else None

    def _placed(self) -> dict[str, int]:
        position = 8 + int.from_bytes(self._file.read(8), "little")
        starts = {}
        for name, shape in self._header.shapes.items():
            starts[name] = position
            position += -(-math.prod(shape) * _bits(self._header.types[name]) // 8)
        size = os.fstat(self._file.fileno()).st_size
        if position != size:
            raise CheckpointError(f"{self.path}: the arrays end at byte {position}, but the file at {size}")
        return starts

    def read(self, name: str) -> Any:
        """An array that owns its memory, or shows the file's if that is mapped; either may be written."""
        if name not in self._starts:
            raise CheckpointError(f"{self.path}: there is no array {name!r}")
        type_name, shape = self._header.types[name], self._header.shapes[name]
        if type_name not in _TYPES:
            raise CheckpointError(f"{self.path}: array {name!r} has the type {type_name}, which is not supported")
        dtype = _TYPES[type_name]
        size = math.prod(shape) * dtype.itemsize
        try:
            raw = self._bytes(self._starts[name], size).view(np.uint8 if type_name == "BOOL" else dtype)
            array = raw.reshape(shape)
        except ValueError as error:
            raise CheckpointError(f"{self.path}: array {name!r} cannot have shape {shape}: {error}") from None
        sums = self._checksums
        if sums is not None and sums[name] != checksum(name, dtype.name, shape, array):
            raise CheckpointError(
                f"{self.path}: array {name!r} is damaged: its bytes do not fit the checksum that was stored with them; "
                "load an earlier checkpoint, or look at what is there with load(..., verify=False)"
            )
        if type_name == "BOOL":
            return array != 0  # a byte that is neither 0 nor 1 would be no boolean
        return little_endian(array if array.flags.aligned else array.copy())

    def _bytes(self, start: int, size: int) -> Any:
        if self._map is not None:
            return np.frombuffer(self._map, np.uint8, size, start)
        out = np.empty(size, np.uint8)
        self._file.seek(start)
        done = 0
        while done < size:
            count = self._file.readinto(out.data[done:])
            if not count:
                raise CheckpointError(f"{self.path}: the file ended while it was read")
            done += count
        return out

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Header:
    """What the package tells about a file: arrays in the order in which they lie in it."""

    def __init__(self, path: str) -> None:
        with package().safe_open(path, framework="np") as view:
            self.metadata: dict[str, str] = view.metadata() or {}
            slices = {name: view.get_slice(name) for name in view.offset_keys()}
            self.types: dict[str, str] = {name: s.get_dtype() for name, s in slices.items()}
            self.shapes: dict[str, tuple[int, ...]] = {name: tuple(s.get_shape()) for name, s in slices.items()}


def _checksums_in(header: _Header) -> dict[str, int] | None:
    """What was stored for each array, if it was; the header itself must be as it was written."""
    text = header.metadata.get(CHECKSUMS)
    if text is None:
        return None
    try:
        sums = json.loads(text)
    except (ValueError, RecursionError):
        sums = None
    rest = {key: value for key, value in header.metadata.items() if key != CHECKSUMS}
    if not isinstance(sums, dict) or sums.get(_OF_METADATA) != metadata_checksum(rest):
        raise CheckpointError("the header is damaged: its checksum does not fit it")
    if sums.keys() - {_OF_METADATA} != header.shapes.keys():
        raise CheckpointError("the header is damaged: the checksums are for other arrays than those in the file")
    return sums


def _raise_if_foreign(path: str, head: bytes) -> None:
    """Say what a file is that is none of Lucid's, where its first bytes tell."""
    if head[8:] == b"{":
        return  # a safetensors file: the length of a header in JSON, in 8 bytes of any value
    if head[:2] == b"PK":
        raise CheckpointError(
            f"{path}: a zip file, as PyTorch writes checkpoints (.pt, .pth, .bin); lucid.torch.load reads those without "
            "running code"
        )
    if head[:1] == b"\x80":
        raise CheckpointError(
            f"{path}: a pickle, as PyTorch wrote checkpoints before version 1.6; reading it would run what it names. Convert it "
            "where it was written, as with torch.save(torch.load(path, weights_only=True), path)"
        )


def _opened(path: str) -> tuple[Any, _Header]:
    """The file, and the header of that same file, even if another takes its place just now."""
    for _ in range(_ATTEMPTS):
        raise_unless_file(path)
        file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed by TensorFile
        try:
            _raise_if_foreign(path, file.read(9))
            file.seek(0)
            header = _Header(path)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file, header
        except (OSError, ImportError, CheckpointError):
            file.close()
            raise
        except Exception as error:
            file.close()
            raise CheckpointError(f"{path}: not a safetensors file, or a damaged one: {error}") from None
        file.close()
    raise CheckpointError(f"{path}: the file was replaced again and again while it was opened")


def _bits(type_name: str) -> int:
    """Of one element: 8 for BOOL and F8_E4M3, 16 for BF16."""
    digits = re.search(r"\d+", type_name)
    return int(digits[0]) if digits else 8


__all__ = ["CHECKSUMS", "TensorFile", "metadata_checksum", "package", "raise_unless_file", "write"]
