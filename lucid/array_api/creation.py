"""Creation functions."""

from typing import Any

import numpy as np

import lucid
from lucid.array_api.promotion import array, same_type
from lucid.core.device import as_device
from lucid.core.tensor import Tensor


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array of a number, nested sequences, another library's array or an array; its memory is shared if it can be.

    `copy=True` never shares, `copy=False` refuses what cannot be shared.

    >>> import lucid
    >>> lucid.array_api.asarray([[1, 2], [3, 4]], dtype=lucid.float64)
    Tensor([[1., 2.],
            [3., 4.]], dtype=lucid.float64)
    """
    as_device(device)
    if not isinstance(obj, Tensor | np.ndarray | np.generic | bool | int | float | complex | list | tuple):
        obj = _from_elsewhere(obj)
    if _holds_arrays(obj):
        if copy is False:
            raise ValueError("asarray: a copy is needed to make one array of several")
        obj, copy = _joined(obj), None
    if isinstance(obj, Tensor):
        out = obj if dtype is None else obj.to(dtype)
        if copy is False and out is not obj:
            raise ValueError(f"asarray: a copy is needed to convert {obj.dtype} to {out.dtype}")
        return out.clone() if copy and out is obj else out
    if copy:
        return lucid.tensor(obj, dtype=dtype)
    out = lucid.as_tensor(obj, dtype=dtype)
    if copy is False and not (isinstance(obj, np.ndarray) and np.shares_memory(obj, out._array)):
        raise ValueError(f"asarray: a copy is needed to make an array of {type(obj).__name__}")
    return out


def _holds_arrays(obj: Any) -> bool:
    return isinstance(obj, list | tuple) and any(isinstance(o, Tensor) or _holds_arrays(o) for o in obj)


def _joined(obj: Any) -> Tensor:
    """Arrays in nested sequences as one, with their gradients."""
    parts = [_joined(o) if _holds_arrays(o) else lucid.as_tensor(o) for o in obj]
    return lucid.stack(same_type("asarray", *parts))


def _from_elsewhere(obj: Any) -> Any:
    """What other libraries' arrays and buffers hold, as a NumPy array over the same memory where possible."""
    if hasattr(obj, "__dlpack__"):
        return lucid.from_dlpack(obj)
    found = np.asarray(obj)
    return obj if found.dtype.kind == "O" else found


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from `start` up to but not including `stop`; with one number, up to that.

    >>> import lucid
    >>> lucid.array_api.arange(1, 7, 2), lucid.array_api.arange(3, 0).shape
    (Tensor([1, 3, 5]), (0,))
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step and (last - first) / step < 0:
        last = first
    return lucid.arange(first, last, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array whose elements are whatever was in memory.

    >>> import lucid
    >>> lucid.array_api.empty((2, 3)).shape
    (2, 3)
    """
    return lucid.empty(shape, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Whatever was in memory, in the shape and type of another array.

    >>> import lucid
    >>> lucid.array_api.empty_like(lucid.zeros(2, 3), dtype=lucid.int8).dtype
    lucid.int8
    """
    return lucid.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal and zeros elsewhere.

    >>> import lucid
    >>> lucid.array_api.eye(2, 3, k=1)
    Tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    as_device(device)
    kind = lucid.get_default_dtype() if dtype is None else dtype
    return lucid.tensor(np.eye(n_rows, n_cols, k), dtype=kind)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's array.

    >>> import lucid, numpy as np
    >>> lucid.array_api.from_dlpack(np.ones(2))
    Tensor([1., 1.], dtype=lucid.float64)
    """
    return lucid.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array with one value everywhere.

    >>> import lucid
    >>> lucid.array_api.full((2,), 7)
    Tensor([7, 7])
    """
    return lucid.full(shape, fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value everywhere, in the shape and type of another array.

    >>> import lucid
    >>> lucid.array_api.full_like(lucid.zeros(2), 7)
    Tensor([7., 7.])
    """
    return lucid.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, which is left out without `endpoint`.

    >>> import lucid
    >>> lucid.array_api.linspace(0, 1, 4, endpoint=False)
    Tensor([0.  , 0.25, 0.5 , 0.75])
    """
    as_device(device)
    first, last = (v.item() if isinstance(v, Tensor) else v for v in (start, stop))
    if dtype is None:
        real = lucid.get_default_dtype()
        dtype = real.to_complex() if isinstance(first, complex) or isinstance(last, complex) else real
    return lucid.tensor(np.linspace(first, last, num, endpoint=endpoint), dtype=dtype)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid: of matrices, the first array runs along columns, or along rows with "ij".

    >>> import lucid
    >>> x, y = lucid.array_api.meshgrid(lucid.tensor([1, 2, 3]), lucid.tensor([4, 5]))
    >>> x
    Tensor([[1, 2, 3],
            [1, 2, 3]])
    """
    return lucid.meshgrid(*arrays, indexing=indexing)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones.

    >>> import lucid
    >>> lucid.array_api.ones((2,), dtype=lucid.int64)
    Tensor([1, 1])
    """
    return lucid.ones(shape, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape and type of another array.

    >>> import lucid
    >>> lucid.array_api.ones_like(lucid.tensor([5, 6]))
    Tensor([1, 1])
    """
    return lucid.ones_like(x, dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal of matrices, zeros above.

    >>> import lucid
    >>> lucid.array_api.tril(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[1, 0],
            [3, 4]])
    """
    return lucid.tril(array(x, "tril"), k)


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal of matrices, zeros below.

    >>> import lucid
    >>> lucid.array_api.triu(lucid.tensor([[1, 2], [3, 4]]))
    Tensor([[1, 2],
            [0, 4]])
    """
    return lucid.triu(array(x, "triu"), k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros.

    >>> import lucid
    >>> lucid.array_api.zeros(2)
    Tensor([0., 0.])
    """
    return lucid.zeros(shape, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape and type of another array.

    >>> import lucid
    >>> lucid.array_api.zeros_like(lucid.tensor([5, 6]))
    Tensor([0, 0])
    """
    return lucid.zeros_like(x, dtype=dtype, device=device)
