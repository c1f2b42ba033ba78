"""PyTorch's checkpoint files written: what `unpickling` reads, and PyTorch too."""

import codecs
import io
import pickle
import zipfile
from collections import Counter, OrderedDict
from typing import Any

import numpy as np

import lucid
from lucid.checkpoints.structure import little_endian
from lucid.core.fields import users_attributes
from lucid.nn.parameter import Parameter
from lucid.torch.sizes import Size
from lucid.torch.tensors import Plain
from lucid.torch.unpickling import ATTRIBUTES, STORAGES, TRUSTED

# What the pickle module writes by itself; the last are the functions by which it writes some of the others.
_PLAIN = frozenset((type(None), bool, int, float, str, bytes, complex, dict, list, tuple, set, frozenset))
_WRITERS = (set, frozenset, complex, codecs.encode)


class Global:
    """A name that is written as it stands: the reader has what it means."""

    def __init__(self, name: str) -> None:
        self.module, _, self.name = name.rpartition(".")

    def __call__(self) -> None:
        """The pickle module wants to see a function; it never calls it."""


class Call:
    """A call of a named function that is written into the pickle."""

    def __init__(self, function: str, *arguments: Any) -> None:
        self.function = Global(function)
        self.arguments = arguments


class Storage:
    """A piece of memory, which is written beside the pickle."""

    def __init__(self, kind: str, number: int, size: int) -> None:
        self.reference = ("storage", Global(f"torch.{kind}"), str(number), "cpu", size)


_Base: Any = pickle._Pickler  # the one in Python, whose methods can be replaced


class Writer(_Base):  # type: ignore[misc]  # which has no types
    """Writes tensors as PyTorch does, plain data as it is, and refuses everything else."""

    dispatch = _Base.dispatch.copy()  # which method writes what

    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=2)
        self.storages: list[Any] = []
        self._numbers: dict[tuple[int, int, str], int] = {}
        self._alive: list[Any] = []  # the pickle knows objects by their id

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        """Write a value, some in another form."""
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, lucid.dtype):
            value = Global(f"torch.{value.name}")
        self._alive.append(value)
        super().save(value, save_persistent_id)

    def persistent_id(self, value: Any) -> Any:
        """Storages are referred to."""
        return value.reference if isinstance(value, Storage) else None

    def reducer_override(self, value: Any) -> Any:
        """The function and the arguments that make a value again."""
        known = (*ATTRIBUTES.values(), *TRUSTED.values())
        if type(value) in (*_PLAIN, Global, *known) or any(value is w for w in (*_WRITERS, *known)):
            return NotImplemented
        if isinstance(value, Call):
            return value.function, value.arguments
        if isinstance(value, Plain):
            return self.reducer_override(self._tensor(value))
        if isinstance(value, Size):
            return Global("torch.Size"), (tuple(value),)
        if isinstance(value, lucid.device):
            return Global("torch.device"), (str(value),)
        if type(value) is OrderedDict:
            return Global("collections.OrderedDict"), (), vars(value) or None, None, iter(value.items())
        if type(value) is np.ndarray and not value.dtype.hasobject:
            parts: Any = value.__reduce__()
            return Global("numpy._core.multiarray._reconstruct"), (Global("numpy.ndarray"), *parts[1][1:]), parts[2]
        if isinstance(value, np.dtype):
            return Global("numpy.dtype"), *value.__reduce__()[1:]
        if type(value) is Counter:
            return Global("collections.Counter"), (dict(value),)
        raise TypeError(
            f"save: a checkpoint cannot hold a {type(value).__module__}.{type(value).__qualname__}; it takes tensors, "
            "dicts, lists and plain data, such as a state_dict()"
        )

    def _tensor(self, tensor: Any) -> Call:
        array = tensor._concrete("save()")
        memory = _whole(array)
        if memory is None:
            memory = array = np.ascontiguousarray(array)
        start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        kind = next((name for name, found in STORAGES.items() if found.numpy == array.dtype), None)
        if kind is None:
            raise TypeError(f"save: PyTorch's files have no tensors of {tensor.dtype}; convert it first")
        key = memory.__array_interface__["data"][0], memory.nbytes, kind
        number = self._numbers.setdefault(key, len(self.storages))
        if number == len(self.storages):
            self.storages.append(memory)
        place = start // array.itemsize, array.shape, tuple(s // array.itemsize for s in array.strides)
        storage = Storage(kind, number, memory.size)
        wants = bool(tensor.requires_grad and tensor.is_leaf)
        attributes = users_attributes(tensor)
        if isinstance(tensor, Parameter):
            data = Call("torch._utils._rebuild_tensor_v2", storage, *place, False, OrderedDict())
            if not attributes:
                return Call("torch._utils._rebuild_parameter", data, wants, OrderedDict())
            return Call("torch._utils._rebuild_parameter_with_state", data, wants, OrderedDict(), dict(attributes))
        made: tuple[Any, ...] = (storage, *place, wants, OrderedDict())
        if not attributes:
            return Call("torch._utils._rebuild_tensor_v2", *made)
        rebuild, kind_of = Global("torch._utils._rebuild_tensor_v2"), Global("torch.Tensor")
        return Call("torch._tensor._rebuild_from_type_v2", rebuild, kind_of, made, dict(attributes))

    def write_global(self, value: Global) -> None:
        """The name of a function or type, as protocol 2 has it."""
        self.write(f"c{value.module}\n{value.name}\n".encode())

    dispatch[Global] = write_global


def _whole(array: Any) -> Any:
    """The array whose memory another shows, or None if that does not lie in order."""
    memory = array
    while isinstance(memory.base, np.ndarray) and memory.base.dtype == array.dtype:
        memory = memory.base
    in_order = memory.flags.c_contiguous and all(s >= 0 and s % array.itemsize == 0 for s in array.strides)
    return memory.reshape(-1) if in_order else None


def write(value: Any, file: Any) -> None:
    """Write a nest into an open file."""
    text = io.BytesIO()
    writer = Writer(text)
    writer.dump(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", "little")
        for number, memory in enumerate(writer.storages):
            archive.writestr(f"archive/data/{number}", np.ascontiguousarray(little_endian(memory)).tobytes())
        archive.writestr("archive/version", "3\n")
