"""DLPack: handing the memory of tensors to other libraries, and taking theirs, without a copy."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.device import as_device
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.ops.creation import from_numpy

_CPU = 1  # DLPack's number for main memory


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
    if self.dtype is dtypes.bfloat16:
        raise BufferError("NumPy's DLPack cannot export bfloat16; convert the tensor first, as in x.float()")
    array = self._concrete("__dlpack__()")
    settings = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    capsule = array.__dlpack__(**{k: v for k, v in settings.items() if v is not None})
    if not copy:
        storage_of(self).exposed = True
    return capsule


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
    except RuntimeError as error:
        raise BufferError(f"from_dlpack: NumPy cannot take this memory ({error})") from None
    return from_numpy(array.copy() if copy else array)
