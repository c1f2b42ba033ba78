"""DLPack: handing the memory of tensors to other libraries, and taking theirs, without a copy."""

from typing import Any, ClassVar

import numpy as np

from lucid.api.creation import from_numpy
from lucid.core import dtypes
from lucid.core.device import as_device
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor

_CPU = 1  # DLPack's number for main memory
_UINT, _BFLOAT = 1, 4  # DLPack's numbers for kinds of elements
_BF16 = dtypes.bfloat16.numpy


def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """`Tensor.__dlpack__`: a capsule with the tensor's memory.

    >>> import lucid, numpy as np
    >>> np.from_dlpack(lucid.tensor([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    if self.requires_grad:
        raise BufferError("a tensor that requires grad cannot be exported through DLPack; detach() it first")
    array = self._concrete("__dlpack__()")
    settings = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    settings = {k: v for k, v in settings.items() if v is not None}
    if array.dtype == _BF16:
        capsule = _exported(array.view(np.uint16), settings)
        _relabel(capsule, _UINT, _BFLOAT)
    else:
        capsule = _exported(array, settings)
    if not copy:
        storage_of(self).expose(array)
    return capsule


def _exported(array: Any, settings: dict[str, Any]) -> Any:
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        return array.__dlpack__(**settings)
    # Earlier ones know neither versions nor copies, and have no device but the CPU.
    if settings.get("dl_device", (_CPU, 0)) != (_CPU, 0):
        raise BufferError(f"__dlpack__: this memory is on the CPU, not on device {settings['dl_device']}")
    return (array.copy() if settings.get("copy") else array).__dlpack__(stream=settings.get("stream"))


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the tensor's memory, for libraries that take no tensor; see `from_dlpack`.

    >>> import lucid
    >>> type(lucid.to_dlpack(lucid.ones(2))).__name__
    'PyCapsule'
    """
    return dlpack(tensor)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """`Tensor.__dlpack_device__`: DLPack's kind and number of the device.

    >>> import lucid
    >>> lucid.tensor([1.0]).__dlpack_device__()
    (1, 0)
    """
    return _CPU, 0


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array: writes to either show in both, unless `copy` is True.

    >>> import lucid, numpy as np
    >>> array = np.array([1.0, 2.0])
    >>> x = lucid.from_dlpack(array)
    >>> array[0] = 5.0
    >>> x
    Tensor([5., 2.], dtype=lucid.float64)
    """
    as_device(device)
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(f"from_dlpack needs an object with __dlpack__, not {type(ext_tensor).__name__}")
    kind, _ = ext_tensor.__dlpack_device__()
    if kind != _CPU:
        raise BufferError(f"from_dlpack takes memory of the CPU, not of DLPack device {int(kind)}; move it first")
    try:
        array = np.from_dlpack(ext_tensor)
    except (RuntimeError, BufferError) as error:
        array = _from_bfloat16(ext_tensor, error)
    return from_numpy(array.copy() if copy else array)


class _Held:
    """A capsule in the form in which NumPy takes it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **settings: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def _from_bfloat16(ext_tensor: Any, error: Exception) -> Any:
    """An array of the one type that DLPack and we know and NumPy does not; the error for any other."""
    try:
        capsule = ext_tensor.__dlpack__()
    except (RuntimeError, BufferError):
        capsule = None
    if capsule is None or not _relabel(capsule, _BFLOAT, _UINT):
        raise BufferError(f"from_dlpack: NumPy cannot take this memory ({error})") from None
    return np.from_dlpack(_Held(capsule)).view(_BF16)


def _relabel(capsule: Any, old: int, new: int) -> bool:
    """Give the elements of 16 bits in a capsule another kind, if they have the old one: the bits stay the same."""
    import ctypes

    class Array(ctypes.Structure):  # DLTensor, as far as we read it
        _fields_: ClassVar = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
        ]

    class Versioned(ctypes.Structure):  # DLManagedTensorVersioned
        _fields_: ClassVar = [
            ("version", ctypes.c_uint32 * 2),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
            ("array", Array),
        ]

    pointer_of, name_of = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    address = pointer_of(capsule, name)
    array = Versioned.from_address(address).array if name == b"dltensor_versioned" else Array.from_address(address)
    if (array.code, array.bits) != (old, 16):
        return False
    array.code = new
    return True
