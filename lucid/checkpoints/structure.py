"""Nests of values as JSON, with the arrays beside it.

None, booleans, finite floats, strings and small integers stand for themselves, JSON arrays for lists. Everything else is
an object with one tag: `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"tensor": name}`. Numbers that JSON cannot
hold exactly are written in hexadecimal. Reading builds values of the types in this file and nothing else.
"""

import json
import math
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api.rng import Generator
from lucid.checkpoints.errors import CheckpointError
from lucid.core import dtypes
from lucid.core.device import device
from lucid.core.tensor import Tensor

MAX_DEPTH = 100
MAX_LENGTH = 16 << 20  # characters of JSON, which may take twenty times as many bytes when it is parsed
_RESERVED = "__metadata__"
_EXACT_INT = 1 << 63
_MAPPINGS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_TAG_OF_MAPPING = {kind: tag for tag, kind in _MAPPINGS.items()}
_TENSOR_TYPES = {t.name: t for t in dtypes.ALL}
ARRAY_TYPES = {t.name: t.numpy for t in dtypes.ALL}
_COMPLEX128 = np.dtype(np.complex128)
# What reading a structure that nobody wrote may run into.
_WRONG = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, struct.error)
Node = Any
Path = tuple[Any, ...]


class Encoder:
    """Turns a nest into JSON, and collects its arrays by name: `layer.weight` for obj["layer"]["weight"]."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self._known: dict[Any, str] = {}

    def text(self, nest: Any) -> str:
        """The structure of a nest."""
        text = json.dumps(self._node(nest, ()), separators=(",", ":"), allow_nan=False)
        if len(text) > MAX_LENGTH:
            raise ValueError(
                f"save: the structure takes {len(text)} characters, more than the {MAX_LENGTH} that a checkpoint may "
                "have; put long lists of numbers into tensors or arrays"
            )
        return text

    def _node(self, value: Any, path: Path) -> Node:
        if len(path) > MAX_DEPTH:
            raise ValueError(f"save: more than {MAX_DEPTH} levels deep; does it contain itself? At {_written(path)}")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if kind is list:
            return [self._node(v, (*path, i)) for i, v in enumerate(value)]
        encode = _ENCODERS.get(kind)
        if encode is not None:
            return encode(self, value, path)
        if isinstance(value, np.generic):
            return self._scalar(value, path)
        if isinstance(value, np.memmap):
            return self._array(value, path)
        raise TypeError(f"save: {_written(path)} is {_described(value)}, which a checkpoint cannot hold{_hint(value)}")

    def _mapping(self, value: Any, path: Path) -> Node:
        pairs = [[self._key(k, path), self._node(v, (*path, k))] for k, v in value.items()]
        node = {_TAG_OF_MAPPING[type(value)]: pairs}
        extra = getattr(value, "_metadata", None)  # versions of the modules of a state_dict
        return node if extra is None else node | {"_metadata": self._node(extra, (*path, "_metadata"))}

    def _key(self, key: Any, path: Path) -> Node:
        if type(key) is tuple:
            return {"tuple": [self._key(part, path) for part in key]}
        if key is not None and type(key) not in _KEYS and not isinstance(key, np.generic):
            raise TypeError(f"save: {_written(path)} has {_described(key)} as a key, which a checkpoint cannot hold")
        return self._node(key, (*path, key))

    def _tensor(self, value: Tensor, path: Path) -> Node:
        node = self._stored("tensor", value._concrete("save()"), path)
        return node | {"requires_grad": True} if value.requires_grad and value.is_leaf else node

    def _array(self, value: Any, path: Path) -> Node:
        return self._stored("array", value, path)

    def _bytes(self, value: bytes, path: Path) -> Node:
        return self._stored("bytes", np.frombuffer(value, np.uint8), path)

    def _scalar(self, value: Any, path: Path) -> Node:
        name = _type_name(value.dtype, value, path)
        return {"scalar": [name, little_endian(np.asarray(value)).tobytes().hex()]}

    def _stored(self, tag: str, array: Any, path: Path) -> Node:
        """A reference to an array; those that are the same piece of memory seen in the same way are stored once."""
        _type_name(array.dtype, array, path)
        place = array.__array_interface__["data"][0] if array.size else id(array)
        identity = (tag, place, array.shape, array.strides, array.dtype)
        name = self._known.get(identity)
        if name is None:
            name = self._known[identity] = self._fresh_name(path)
            self.arrays[name] = array
        # The format of the file has no such type: it is stored as pairs of float64.
        return {tag: name, "complex128": True} if array.dtype == _COMPLEX128 else {tag: name}

    def _fresh_name(self, path: Path) -> str:
        plain = ".".join(map(str, path)) if path else "value"
        plain = plain.encode(errors="backslashreplace").decode()
        name, number = plain, 1
        while name in self.arrays or name == _RESERVED:
            number += 1
            name = f"{plain}~{number}"
        return name


_ENCODERS: dict[type, Callable[[Encoder, Any, Path], Node]] = {
    int: lambda self, value, path: value if -_EXACT_INT <= value < _EXACT_INT else {"int": hex(value)},
    float: lambda self, value, path: value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()},
    complex: lambda self, value, path: {"complex": struct.pack(">dd", value.real, value.imag).hex()},
    tuple: lambda self, value, path: {"tuple": self._node(list(value), path)},
    bytes: Encoder._bytes,
    np.ndarray: Encoder._array,
    dtypes.dtype: lambda self, value, path: {"dtype": value.name},
    device: lambda self, value, path: {"device": str(value)},
    Generator: lambda self, value, path: {"generator": self._node(value.get_state(), path)},
    **dict.fromkeys(_TAG_OF_MAPPING, Encoder._mapping),
}
_KEYS = (bool, int, float, complex, str, bytes, dtypes.dtype, device)


def little_endian(array: Any) -> Any:
    """The array, or a copy, in which numbers have the order of bytes that files have."""
    native = array.astype(ARRAY_TYPES[array.dtype.name], copy=False)
    return native if sys.byteorder == "little" else native.byteswap()


def _type_name(dtype: np.dtype[Any], value: Any, path: Path) -> str:
    name = str(dtype.name)
    if name not in ARRAY_TYPES:
        raise TypeError(
            f"save: {_written(path)} is {_described(value)} of type {dtype}, which a checkpoint cannot hold; "
            f"it can hold {', '.join(ARRAY_TYPES)}"
        )
    return name


def _written(path: Path) -> str:
    """The path as the user would write it: obj["model"][0]."""
    return "obj" + "".join(f"[{json.dumps(k) if isinstance(k, str) else repr(k)}]" for k in path)


def _described(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _hint(value: Any) -> str:
    for base in (tuple, dict, list, str, int, float, complex):
        if isinstance(value, base):
            return f"; convert it with {base.__name__}()"
    if isinstance(value, (set, frozenset)):
        return "; convert it with sorted() or list()"
    return "; save its state_dict()" if hasattr(value, "state_dict") and not isinstance(value, type) else ""


class Decoder:
    """Turns JSON back into a nest. `array(name)` gives the arrays, `on_device` takes a new tensor where it belongs."""

    def __init__(self, array: Callable[[str], Any], on_device: Callable[[Tensor], Tensor]) -> None:
        self._read = array
        self._on_device = on_device
        self._arrays: dict[tuple[str, bool], Any] = {}
        self._tensors: dict[tuple[str, bool], Tensor] = {}
        self._texts: dict[str, bytes] = {}

    def nest(self, text: str) -> Any:
        """The nest of a structure; a CheckpointError if it is none."""
        if len(text) > MAX_LENGTH:
            raise CheckpointError(f"its structure has {len(text)} characters, more than the {MAX_LENGTH} allowed")
        try:
            return self._value(json.loads(text, parse_constant=_refuse), 0)
        except CheckpointError:
            raise
        except _WRONG as error:
            raise CheckpointError(f"its structure cannot be read: {type(error).__name__}: {error}") from None

    def _value(self, node: Node, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CheckpointError(f"its structure is more than {MAX_DEPTH} levels deep")
        if isinstance(node, list):
            return self._items(node, depth)
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), None)
        if tag in _MAPPINGS:
            return self._mapping(_MAPPINGS[tag], node, tag, depth)
        decode = _DECODERS.get(tag) if isinstance(tag, str) else None
        if decode is None:
            raise CheckpointError(f"its structure has an unknown tag {tag!r}; a newer version may have written it")
        return decode(self, node, depth)

    def _items(self, nodes: Any, depth: int) -> list[Any]:
        if not isinstance(nodes, list):
            raise CheckpointError(f"its structure has {type(nodes).__name__} where a list is expected")
        for i, node in enumerate(nodes):  # in place: a long structure need not be in memory twice
            nodes[i] = self._value(node, depth + 1)
        return nodes

    def _mapping(self, kind: Any, node: Node, tag: str, depth: int) -> Any:
        out = kind()
        for pair in node[tag]:
            key, value = pair
            out[self._value(key, depth + 1)] = self._value(value, depth + 1)
        if "_metadata" in node:
            out._metadata = self._value(node["_metadata"], depth + 1)
        return out

    def _array(self, name: Any, node: Node) -> Any:
        if not isinstance(name, str):
            raise CheckpointError(f"its structure names an array by {type(name).__name__}, not by a string")
        in_pairs = node.get("complex128") is True
        if (name, in_pairs) not in self._arrays:
            found = self._read(name)
            self._arrays[name, in_pairs] = paired(found) if in_pairs else found
        return self._arrays[name, in_pairs]

    def _tensor(self, node: Node, depth: int) -> Tensor:
        """References to one array come back tied: the same tensor, or one that requires grad and its detached twin."""
        name, wants_grad = node["tensor"], node.get("requires_grad") is True
        found = self._tensors.get((name, wants_grad))
        if found is not None:
            return found
        twin = self._tensors.get((name, not wants_grad))
        if twin is not None:
            found = twin.detach()
        else:
            found = self._on_device(as_tensor(self._array(name, node)))
        self._tensors[name, wants_grad] = found.requires_grad_() if wants_grad else found
        return found

    def _bytes(self, node: Node, depth: int) -> bytes:
        name = node["bytes"]
        if name not in self._texts:
            array = self._array(name, node)
            if array.dtype != np.uint8:
                raise CheckpointError(f"its structure takes an array of type {array.dtype} for bytes")
            self._texts[name] = bytes(array.tobytes())
        return self._texts[name]

    def _scalar(self, node: Node, depth: int) -> Any:
        name, digits = node["scalar"]
        dtype = ARRAY_TYPES[name]
        (value,) = little_endian(np.frombuffer(bytes.fromhex(digits), np.uint8).view(dtype))
        return value

    def _generator(self, node: Node, depth: int) -> Generator:
        out = Generator()
        out.set_state(self._value(node["generator"], depth + 1))
        return out


_DECODERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "tuple": lambda self, node, depth: tuple(self._items(node["tuple"], depth)),
    "int": lambda self, node, depth: int(node["int"], 16),
    "float": lambda self, node, depth: struct.unpack(">d", bytes.fromhex(node["float"]))[0],
    "complex": lambda self, node, depth: complex(*struct.unpack(">dd", bytes.fromhex(node["complex"]))),
    "dtype": lambda self, node, depth: _TENSOR_TYPES[node["dtype"]],
    "device": lambda self, node, depth: device(node["device"]),
    "array": lambda self, node, depth: self._array(node["array"], node),
    "tensor": Decoder._tensor,
    "bytes": Decoder._bytes,
    "scalar": Decoder._scalar,
    "generator": Decoder._generator,
}


def paired(array: Any) -> Any:
    """Pairs of float64 as complex numbers."""
    if array.dtype != np.float64 or array.shape[-1:] != (2,):
        raise CheckpointError(f"its structure takes {array.dtype} of shape {array.shape} for complex numbers")
    return array.view(_COMPLEX128).reshape(array.shape[:-1])


def _refuse(constant: str) -> Any:
    raise CheckpointError(f"its structure has {constant}, which is not JSON")


def as_tensor(array: Any) -> Tensor:
    """A tensor over an array that was read."""
    dtypes.of_numpy(array.dtype)
    return Tensor._wrap(array)


__all__ = ["ARRAY_TYPES", "Decoder", "Encoder", "as_tensor", "little_endian", "paired"]
