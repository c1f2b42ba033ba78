"""Batches on their way from a worker to the main process.

A batch is pickled, but large arrays are left out of the pickle: on Linux they are written to nameless files in memory,
whose descriptors are passed on and mapped by the receiver. So they are copied once at most, by the worker, they never
wait in a pipe, and nothing is left behind whenever a process is killed. Elsewhere arrays travel inside the pickle.
"""

import copyreg
import io
import math
import mmap
import os
import pickle
import socket
from collections import ChainMap
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from lucid.core.fields import users_attributes
from lucid.core.tensor import Tensor

_CAN_SHARE = hasattr(os, "memfd_create")
_SHARE_FROM = 1 << 17  # bytes: below, the pipe is faster than a file of its own
_MOST_FILES = 128  # in one message; the system allows 253
# A mapping holds a descriptor open, of which a process may have 1024. When a program keeps more arrays than this many,
# the others are copied.
_MOST_MAPPINGS = 256
_mappings: WeakSet[mmap.mmap] = WeakSet()


class SharedFile(mmap.mmap):
    """A nameless file in memory, mapped, that other processes can map as well."""

    descriptor: int

    def __new__(cls, size: int) -> "SharedFile":
        descriptor = os.memfd_create("lucid-batch")
        try:
            os.ftruncate(descriptor, size)
            out = super().__new__(cls, descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        out.descriptor = descriptor
        return out

    def __del__(self) -> None:
        os.close(self.descriptor)


_by_address: WeakValueDictionary[int, SharedFile] = WeakValueDictionary()


def shared_stack(arrays: list[Any]) -> Any:
    """np.stack, but a large result lies where it can be sent without a copy, so it must not be written once it was sent.

    (Written by system calls, which need no page faults: 12 ms for 38 MB; through the mapping it would be 24.)
    """
    shape, dtype = (len(arrays), *arrays[0].shape), arrays[0].dtype
    size = math.prod(shape) * dtype.itemsize
    if not _CAN_SHARE or size < _SHARE_FROM or any(a.dtype != dtype for a in arrays):
        return np.stack(arrays)
    file = SharedFile(size)
    for position, array in enumerate(arrays):
        _write(file.descriptor, _bytes_of(array), position * array.nbytes)
    flat = np.frombuffer(file, np.uint8)
    _by_address[flat.ctypes.data] = file
    return flat.view(dtype).reshape(shape)


def _bytes_of(array: Any) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write(descriptor: int, data: memoryview, position: int) -> None:
    written = 0
    while written < data.nbytes:
        written += os.pwrite(descriptor, data[written:], position + written)


class Parcel:
    """A message that is ready to go: packing may fail, sending then fails only if the other end is gone."""

    __slots__ = ("_body", "_files", "_label")

    def __init__(self, label: tuple[int, int], content: Any) -> None:
        self._label = label
        self._files: list[SharedFile] = []
        body = io.BytesIO()
        pickler = pickle.Pickler(body, 5, buffer_callback=self._stays_inside)
        pickler.dispatch_table = _reducers
        pickler.dump(content)
        self._body = body.getvalue()

    def _stays_inside(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if not _CAN_SHARE or raw.nbytes < _SHARE_FROM or len(self._files) == _MOST_FILES:
            return True
        self._files.append(_shared(raw))
        return False

    def send(self, connection: Connection) -> None:
        """Send label and content; `Received` has them at the other end."""
        connection.send((self._label, len(self._files), self._body))
        if self._files:
            with _socket_of(connection) as end:
                reduction.sendfds(end, [file.descriptor for file in self._files])


class Received:
    """A message that has arrived, unpacked when it is asked for."""

    __slots__ = ("_body", "_buffers", "label")

    def __init__(self, connection: Connection) -> None:
        self.label, count, self._body = connection.recv()
        self._buffers: list[Any] = []
        if count:
            with _socket_of(connection) as end:
                descriptors = reduction.recvfds(end, count)
            self._buffers = [_mapped(descriptor) for descriptor in descriptors]

    def content(self) -> Any:
        return pickle.loads(self._body, buffers=self._buffers)


def _socket_of(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


def _reduce_tensor(t: Tensor) -> Any:
    if t._requires_grad:
        registered: Any = copyreg.dispatch_table.get(Tensor)
        return t.__reduce_ex__(5) if registered is None else registered(t)
    return Tensor._wrap, (t._array,), users_attributes(t)  # without the copy that a pickle for keeps would need


_reducers = ChainMap[Any, Any]({Tensor: _reduce_tensor}, copyreg.dispatch_table)


def _shared(raw: memoryview) -> SharedFile:
    """The file in which an array lies, or a new one with its contents."""
    file = _by_address.get(np.frombuffer(raw, np.uint8).ctypes.data)
    if file is None or len(file) != raw.nbytes:
        file = SharedFile(raw.nbytes)
        _write(file.descriptor, raw, 0)
    return file


def _mapped(descriptor: int) -> Any:
    try:
        # A private mapping: writes stay in this process, as with any other memory, also across a fork.
        mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    finally:
        os.close(descriptor)
    if len(_mappings) >= _MOST_MAPPINGS:
        with mapping:
            return bytearray(mapping)
    _mappings.add(mapping)
    return mapping


__all__ = ["Parcel", "Received", "shared_stack"]
