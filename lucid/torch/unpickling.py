"""PyTorch's checkpoint files read without running code.

A file is a zip archive: `data.pkl` is a pickle of the nest, in which tensors stand as calls of PyTorch's functions with
references to *storages*, and `data/0`, `data/1`, … are the bytes of those. A pickle is a program that may call anything
it names. The reader here resolves the few names below, to objects that do nothing but note their arguments; every
other name is refused. Tensors are made of the notes afterwards.
"""

import io
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import lucid
from lucid.checkpoints import CheckpointError
from lucid.core import dtypes
from lucid.core.tensor import wrapped_as
from lucid.nn.parameter import Parameter
from lucid.torch.sizes import Size
from lucid.torch.tensors import Tensor, typed

STORAGES = {f"{name.removesuffix('Tensor')}Storage": kind.dtype for name, kind in typed().items()}
_DTYPES = {kind.name: kind for kind in dtypes._BY_NUMPY.values()}


class Note:
    """A call that the pickle asked for and that is made later, if it is one of those below."""

    __slots__ = ("arguments", "name")

    arguments: tuple[Any, ...]
    name: str

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError(f"a pickle sets the attribute {name!r} of {self.name}")


class Named:
    """What a name in a pickle stands for: called, it gives a note."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __call__(self, *arguments: Any) -> Any:
        return _AT_ONCE[self.name](*arguments) if self.name in _AT_ONCE else Note(self.name, arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError(f"a pickle sets the attribute {name!r} of {self.name}")


# Containers, which may hold notes and are filled by the pickle; and bytes, which old pickles write as text.
_AT_ONCE: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": lambda *a: Counter(*a),
    "collections.defaultdict": lambda *a: defaultdict(),
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.slice": slice,
    "_codecs.encode": lambda text, code="latin1": text.encode("latin1"),
}
_REBUILDS = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
_KNOWN = {
    *_AT_ONCE,
    *(f"torch._utils.{name}" for name in _REBUILDS),
    *(f"torch.{name}" for name in (*STORAGES, *_DTYPES, "Size", "device")),
    "torch.storage.UntypedStorage",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        full = f"{module.replace('__builtin__', 'builtins')}.{name}"
        if full not in _KNOWN:
            raise CheckpointError(
                f"the file holds an object of {full}, which cannot be loaded without running code; known are tensors, "
                "parameters, dicts, lists and plain data. Save a state_dict() instead"
            )
        return Named(full)

    def persistent_load(self, pid: Any) -> Note:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], Named):
            raise CheckpointError("the file refers to something that is no storage of a tensor")
        return Note("storage", (pid[1].name.rpartition(".")[2], pid[2]))


class _Archive:
    """The storages of an archive, each read once: tensors that shared memory share it again."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        found = [n for n in archive.namelist() if n.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1 or any(n.endswith("/constants.pkl") for n in archive.namelist()):
            raise CheckpointError(
                "the file is no checkpoint: a zip archive without one data.pkl, or a program that torch.jit.save wrote; "
                "save a state_dict() instead"
            )
        self._folder = found[0].removesuffix("data.pkl")
        self._order = self._text("byteorder", "little")
        self._bytes: dict[str, Any] = {}
        self._done: dict[int, Any] = {}

    def _text(self, name: str, default: str) -> str:
        full = self._folder + name
        return self._archive.read(full).decode().strip() if full in self._archive.namelist() else default

    def nest(self) -> Any:
        read = _Reader(io.BytesIO(self._archive.read(f"{self._folder}data.pkl")), encoding="utf-8")
        try:
            return self._made(read.load())
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"data.pkl is damaged: {type(error).__name__}: {error}") from None

    def _made(self, value: Any) -> Any:
        """The nest with tensors in place of notes; containers are changed where they stand."""
        if id(value) in self._done:
            return self._done[id(value)][1]
        if isinstance(value, Named):
            made = self._named(value.name)
        elif isinstance(value, Note):
            made = self._called(value.name.rpartition(".")[2], value.arguments)
        elif isinstance(value, dict):
            made = self._done[id(value)] = (value, value)
            for key in list(value):
                value[key] = self._made(value[key])
            return value
        elif isinstance(value, list):
            made = self._done[id(value)] = (value, value)
            value[:] = [self._made(v) for v in value]
            return value
        elif type(value) is tuple:
            made = tuple([self._made(v) for v in value])
        else:
            return value
        self._done[id(value)] = (value, made)  # with what was read, so that no other object gets its id
        return made

    def _named(self, name: str) -> Any:
        kind = name.rpartition(".")[2]
        if kind in _DTYPES:
            return _DTYPES[kind]
        raise CheckpointError(f"the file holds {name} itself, which is no data")

    def _called(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "Size":
            return Size(*arguments)
        if name == "device":
            return lucid.device("cpu")  # there is no other
        if name in ("_rebuild_parameter", "Parameter"):
            data, requires_grad = (*arguments, True)[:2]
            return Parameter(self._made(data), bool(requires_grad))
        if name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return self._tensor(*arguments)
        raise CheckpointError(f"the file calls {name}, which gives no data")

    def _tensor(
        self,
        storage: Any,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool = False,
        hooks: Any = None,
        kind: Any = None,
        *_: Any,
    ) -> Any:
        if not isinstance(storage, Note) or storage.name != "storage":
            raise CheckpointError("a tensor in the file has no storage")
        storage_kind, key = storage.arguments
        named = self._named(kind.name).numpy if isinstance(kind, Named) else None
        dtype = named or (STORAGES[storage_kind].numpy if storage_kind in STORAGES else np.dtype(np.uint8))
        array = self._storage(key, dtype)
        size, stride = tuple(map(int, size)), tuple(map(int, stride))
        if len(size) != len(stride) or min((*size, *stride, offset), default=0) < 0:
            raise CheckpointError(f"a tensor in the file has sizes {size}, strides {stride} and offset {offset}")
        last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        if 0 not in size and last >= array.size:
            raise CheckpointError(f"a tensor in the file reaches element {last} of a storage of {array.size} elements")
        steps = tuple(s * array.itemsize for s in stride)
        start = array[offset:] if 0 not in size else array[:0]
        seen = np.lib.stride_tricks.as_strided(start, size, steps)
        out = wrapped_as(Tensor, seen)
        return out.requires_grad_() if requires_grad else out

    def _storage(self, key: Any, dtype: Any) -> Any:
        if key not in self._bytes:
            name = f"{self._folder}data/{key}"
            try:
                entry = self._archive.getinfo(name)
            except KeyError:
                raise CheckpointError(f"the file lacks the storage {name}") from None
            if entry.compress_type != zipfile.ZIP_STORED:
                raise CheckpointError(f"the storage {name} is compressed, which PyTorch never does")
            self._bytes[key] = np.frombuffer(bytearray(self._archive.read(entry)), np.uint8)
        raw = self._bytes[key]
        if raw.size % dtype.itemsize:
            raise CheckpointError(f"the storage {key} has {raw.size} bytes, which are no whole number of {dtype.name}")
        found = raw.view(dtype)
        return found if self._order == "little" else found.byteswap()


def read(file: Any) -> Any:
    """The nest in an open zip file of PyTorch."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"not a checkpoint, or a damaged one: {error}") from None
    with archive:
        return _Archive(archive).nest()
