"""PyTorch's checkpoint files read without running code.

A file is a zip archive: `data.pkl` is a pickle of the nest, in which tensors stand as calls of PyTorch's functions with
references to *storages*, and `data/0`, `data/1`, … are the bytes of those. A pickle is a program that may call anything
it names. The reader here resolves the few names below, to objects that do nothing but note their arguments; every
other name is refused, but for classes that the program has named by `torch.serialization.add_safe_globals`. Tensors are made
of the notes afterwards.
"""

import _compat_pickle
import argparse
import io
import pickle
import types
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
from lucid.torch.absences import WHY
from lucid.torch.element_types import typed as of_front_door
from lucid.torch.sizes import Size
from lucid.torch.tensors import Tensor, adopted, typed

STORAGES = {f"{name.removesuffix('Tensor')}Storage": kind.dtype for name, kind in typed().items()}
_DTYPES = {kind.name: kind for kind in dtypes._BY_NUMPY.values()}


class Note:
    """A call that the pickle asked for and that is made later, if it is one of those below."""

    __slots__ = ("arguments", "name", "state")

    arguments: tuple[Any, ...]
    name: str
    state: Any

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "state", None)

    def __setstate__(self, state: Any) -> None:
        """What belongs to a value of NumPy's beside the arguments that make it."""
        if self.name not in _NUMPYS:
            raise pickle.UnpicklingError(f"a pickle sets the state of {self.name}")
        object.__setattr__(self, "state", state)

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
    "collections.defaultdict": lambda *a: defaultdict(_FACTORIES[a[0].name] if a else None),
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.slice": slice,
    "_codecs.encode": lambda text, code="latin1": text.encode("latin1"),
}
# What a defaultdict may make its values with.
_FACTORIES: dict[str, Any] = {
    f"builtins.{kind.__name__}": kind for kind in (int, float, bool, str, list, dict, set, tuple)
}
# How NumPy's types, numbers and arrays are written, in the places that its versions have them in.
_NUMPYS = {
    "numpy.dtype",
    "numpy.ndarray",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
}
_REBUILDS = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
_KNOWN = {
    *_AT_ONCE,
    *_NUMPYS,
    *_FACTORIES,
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_sparse_tensor",
    "torch.Tensor",
    *(f"torch._utils.{name}" for name in _REBUILDS),
    *(f"torch.{name}" for name in (*STORAGES, *_DTYPES, "Size", "device")),
    "torch.storage.UntypedStorage",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
}


# Classes whose objects are their attributes, by name.
ATTRIBUTES: dict[str, type] = {"argparse.Namespace": argparse.Namespace, "types.SimpleNamespace": types.SimpleNamespace}
# Those that the program trusts: pickles may make their objects and fill them.
TRUSTED: dict[str, type] = {}


# Tensors that there are not here, and why.
_ABSENT = {
    "torch._utils._rebuild_qtensor": WHY["quantize_per_tensor"],
    **{f"torch.{name}": why for name, why in WHY.items() if name.startswith("float8_")},
}


class Attributes:
    """An object of nothing but attributes, as the pickle fills it: of a class of its own, which the pickle may spoil."""

    kind: type


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # Pickles have the names of Python 2.
        here = _compat_pickle.IMPORT_MAPPING.get(module, module), name
        full = ".".join(_compat_pickle.NAME_MAPPING.get((module, name), here))
        if full in ATTRIBUTES:
            return type(name, (Attributes,), {"kind": ATTRIBUTES[full]})
        if full in TRUSTED:
            return TRUSTED[full]
        if full in _ABSENT:
            raise CheckpointError(f"the file holds a tensor by {full}: {_ABSENT[full]}")
        if full not in _KNOWN:
            raise CheckpointError(
                f"the file holds an object of {full}, which cannot be loaded without running code; known are tensors, "
                "parameters, dicts, lists and plain data. Save a state_dict() instead, or, if you trust the file, name the "
                "class by torch.serialization.add_safe_globals"
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
            made = _of_numpy(value) if value.name in _NUMPYS else self._called(value.name, value.arguments)
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
        elif isinstance(value, Attributes) or (type(value) in TRUSTED.values() and hasattr(value, "__dict__")):
            made = value.kind() if isinstance(value, Attributes) else value
            self._done[id(value)] = (value, made)
            vars(made).update({name: self._made(v) for name, v in vars(value).items()})
            return made
        else:
            return value
        self._done[id(value)] = (value, made)  # with what was read, so that no other object gets its id
        return made

    def _named(self, name: str) -> Any:
        kind = name.rpartition(".")[2]
        if kind in _DTYPES:
            return of_front_door(_DTYPES[kind])
        raise CheckpointError(f"the file holds {name} itself, which is no data")

    def _called(self, full: str, arguments: tuple[Any, ...]) -> Any:
        name = full.rpartition(".")[2]
        if name == "Size":
            return Size(*arguments)
        if name == "device":
            return lucid.device("cpu")  # there is no other
        if name in ("_rebuild_parameter", "Parameter"):
            data, requires_grad = (*arguments, True)[:2]
            return Parameter(self._made(data), bool(requires_grad))
        if name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return self._tensor(*arguments)
        if name == "_rebuild_meta_tensor_no_storage":
            kind, size, _, requires_grad = arguments
            return adopted(lucid.empty(tuple(size), dtype=self._made(kind), device="meta", requires_grad=requires_grad))
        if name == "_rebuild_sparse_tensor":
            return self._sparse(arguments[0].arguments[0], *(self._made(part) for part in arguments[1]))
        if name == "_rebuild_parameter_with_state":
            return self._with_attributes(self._called("_rebuild_parameter", arguments[:2]), arguments[3])
        if name == "_rebuild_from_type_v2" and isinstance(arguments[0], Named):
            return self._with_attributes(self._called(arguments[0].name, arguments[2]), arguments[3])
        raise CheckpointError(f"the file calls {full}, which gives no data")

    def _with_attributes(self, tensor: Any, state: Any) -> Any:
        """A tensor with what the program had put on it."""
        for name, value in (state if isinstance(state, dict) else {}).items():
            setattr(tensor, name, self._made(value))
        return tensor

    def _sparse(self, layout: str, *parts: Any) -> Any:
        """A sparse tensor: where elements are, what they are, and the shape."""
        make = _SPARSE.get(layout)
        if make is None:
            raise CheckpointError(f"the file holds a tensor of the layout {layout}; known are {', '.join(_SPARSE)}")
        return adopted(make(*parts))

    def _tensor(
        self,
        storage: Any,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool = False,
        hooks: Any = None,
        *rest: Any,
    ) -> Any:
        if not isinstance(storage, Note) or storage.name != "storage":
            raise CheckpointError("a tensor in the file has no storage")
        storage_kind, key = storage.arguments
        # The third form has a type, which the first storages had by their class; both may say what is still to be done.
        kind = next((a for a in rest if isinstance(a, Named)), None)
        pending = next((a for a in rest if isinstance(a, dict)), {})
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
        seen = np.conjugate(seen) if pending.pop("conj", False) else seen
        seen = np.negative(seen) if pending.pop("neg", False) else seen
        if pending:
            raise CheckpointError(f"a tensor in the file has the properties {', '.join(map(str, pending))}")
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


_SPARSE: dict[str, Callable[..., Any]] = {
    "torch.sparse_coo": lambda indices, values, size, *done: lucid.sparse_coo_tensor(indices, values, tuple(size)),
    "torch.sparse_csr": lambda rows, columns, values, size: lucid.sparse_csr_tensor(rows, columns, values, tuple(size)),
    "torch.sparse_csc": lambda columns, rows, values, size: lucid.sparse_csc_tensor(columns, rows, values, tuple(size)),
}


def _of_numpy(note: Any) -> Any:
    """A type, a number or an array of NumPy."""
    name = note.name.rpartition(".")[2]
    if name == "dtype":
        code = note.arguments[0]
        order: Any = (note.state or (0, "="))[1]
        found = np.dtype(code) if isinstance(code, str) else None
        if found is None or found.hasobject:
            raise CheckpointError(f"the file has a type of NumPy's that is no number: {code!r}")
        return found if order == "|" else found.newbyteorder(order)
    if name == "scalar":
        kind, data = note.arguments
        return np.frombuffer(data, _of_numpy(kind))[0]
    if name == "_reconstruct" and note.state is not None:
        _, shape, kind, is_fortran, data = note.state
        return np.frombuffer(data, _of_numpy(kind)).reshape(shape, order="F" if is_fortran else "C").copy()
    raise CheckpointError(f"the file calls {note.name}, which gives no data")


def read(file: Any) -> Any:
    """The nest in an open zip file of PyTorch."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"not a checkpoint, or a damaged one: {error}") from None
    with archive:
        return _Archive(archive).nest()
