"""Making tensors: from data, filled, counted."""

import math
import os
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.arguments import promotion
from lucid.arguments.dims import by_name, sizes_from
from lucid.arguments.promotion import described, exact, is_of_pytorch
from lucid.backends.numpy.precision import whole
from lucid.core import arrays, dtypes
from lucid.core.device import as_device
from lucid.core.errors import ArgumentError
from lucid.core.levels import INNERMOST
from lucid.core.primitive import P, lift
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor, class_of, is_plain, of_class
from lucid.core.tree import too_deep
from lucid.ir.meta import Meta, abstract, of_inner_class, without_elements
from lucid.native import framed

_MOST_DIMS = 64  # of NumPy's arrays
_NUMBERS = (bool, int, float, complex)
_REAL = (int, float)
_DOUBLE = np.dtype(np.float64)
_SMALL = 65504.0  # numbers up to which every type of NumPy's floats has
_cast: Any = framed(np.ndarray.astype, 2)
_np_linspace: Any = framed(np.linspace)


def _made(array: Any, dtype: Any, requires_grad: bool, device: Any = None) -> Tensor:
    if dtype is not None:
        target = dtypes.as_numpy(dtype)
        is_cut = target.kind in "iu" and array.dtype.kind in "fV"
        array = whole(array, target) if is_cut else array if array.dtype == target else _cast(array, target)
    out = Tensor._wrap(array)
    if as_device(device).type == "meta":
        out = without_elements(out)
    return out.requires_grad_() if requires_grad else out


def _filled(
    shape: tuple[int, ...], kind: np.dtype[Any], value: Any, requires_grad: bool, device: Any, like: Any = None
) -> Tensor:
    """One value everywhere, or whatever is in memory for None; where `like` is, unless a device is given."""
    if isinstance(like, Tensor) and like._level == INNERMOST:
        return like.filled(value, kind, requires_grad)  # type: ignore[attr-defined]
    place = as_device(device if like is None else _at(like, device))
    if place.type == "meta":
        out: Tensor = abstract(shape, kind, class_of((like._array if isinstance(like, Meta) else like,)))
    else:
        order = None if like is None else _order(like)
        if order is not None:
            array = arrays.empty_in_order(shape, kind, order)
            if value is not None:
                arrays.assign(array, _everywhere((), value, kind))
        else:
            array = np.empty(shape, kind) if value is None else _everywhere(shape, value, kind)
        out = _of_its_class(like, Tensor._wrap(array))
    return out.requires_grad_() if requires_grad else out


# What makes tensors of things that are no arrays, by an attribute that these have: `lucid.interop` knows them.
FOREIGN: dict[str, Callable[[Any], Tensor]] = {}


def _array_from(data: Any, dtype: Any) -> Any:
    """A new array: Python floats take the default type, arrays keep theirs."""
    if is_of_pytorch(data) and data.requires_grad:
        raise TypeError(f"the data is {described(data)}, and its gradients would not follow")
    if hasattr(data, "__array__") and (found := np.asarray(data)).dtype.kind != "O":
        data = found  # another library's array or column, which keeps its type too
    if isinstance(data, np.ndarray | np.generic):
        array = np.array(data)
        if dtype is None:
            if array.dtype == np.float16 or array.dtype in dtypes._BY_NUMPY:
                return array
            return _cast(array, dtypes.of_numpy(_native(array.dtype)).numpy)
        return _converted(array, dtypes.as_numpy(dtype))
    if _holds_tensors(data):
        return _array_from(np.array(_without_tensors(data)), dtype)
    array = _from_sequence(data)
    if dtype is not None:
        target = dtypes.as_numpy(dtype)
        return _converted(_whole(data, array) if target == dtypes.UINT64 else array, target)
    if array.dtype == dtypes.UINT64 and isinstance(_first_odd(data), int):
        raise ValueError("an integer in the data does not fit into int64; give dtype=lucid.uint64, or floats")
    if array.dtype == np.float64:
        return _cast(array, dtypes.default_float())
    if array.dtype == np.complex128:
        return _cast(array, dtypes.default_complex())
    dtypes.of_numpy(array.dtype)
    return array


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same type in this machine's byte order."""
    return dtype.newbyteorder("=")


def _converted(array: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu" and array.dtype.kind in "fV":
        return whole(array, dtype)
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"cannot convert complex data to {dtype.name}; take .real or .imag first")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise ValueError(f"the data has integers outside the range of {dtype.name}, {limits.min} to {limits.max}")
    return _cast(array, dtype)


def _from_sequence(data: Any) -> Any:
    try:
        array = np.array(data)
    except OverflowError:
        raise ValueError("an integer in the data does not fit into 64 bits; give floats instead") from None
    except ValueError:
        raise ValueError(f"ragged data: {_ragged(data)}; every list at one depth must have the same length") from None
    if array.dtype.kind == "O" and isinstance(_first_odd(data), int):
        raise ValueError("an integer in the data does not fit into 64 bits; give floats instead")
    if array.dtype.kind not in "biufcV":
        raise TypeError(
            f"cannot make a tensor of {reprlib.repr(_first_odd(data))}; expected numbers or nested lists of them"
        )
    if array.size == 0 and array.dtype == np.float64:
        return _cast(array, dtypes.default_float())
    return array


def _whole(data: Any, array: Any) -> Any:
    """The array as integers if the data are: NumPy reads large ones beside small ones as floats."""
    if array.dtype != np.float64 or not array.size:
        return array
    exact = np.array(data, dtype=object)
    if not all(isinstance(value, int) for value in exact.flat):
        return array
    if exact.min() < 0:
        raise ValueError("the data has negative integers, which uint64 does not hold")
    return exact.astype(dtypes.UINT64)


def _holds_tensors(data: Any, depth: int = 0) -> bool:
    if depth > _MOST_DIMS:
        raise too_deep(data, _MOST_DIMS)
    if isinstance(data, list | tuple):
        return any(
            isinstance(d, Tensor) or (isinstance(d, list | tuple) and _holds_tensors(d, depth + 1)) for d in data
        )
    return False


def _without_tensors(data: Any, depth: int = 0) -> Any:
    if isinstance(data, Tensor):
        return data._concrete("tensor()")
    if depth > _MOST_DIMS:
        raise too_deep(data, _MOST_DIMS)
    return [_without_tensors(d, depth + 1) for d in data] if isinstance(data, list | tuple) else data


def _ragged(data: Any) -> str:
    lengths = sorted({len(d) if isinstance(d, list | tuple) else 0 for d in data})
    return f"lengths {lengths} at the same depth" if len(lengths) > 1 else "lists of unequal length inside"


def _first_odd(data: Any) -> Any:
    while isinstance(data, list | tuple) and data:
        data = next((d for d in data if not isinstance(d, _NUMBERS)), data[0])
    return data


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor.

    Python floats and complex numbers take the default type, integers int64; arrays and tensors keep their type.

    >>> import lucid
    >>> lucid.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    Tensor([[1., 2.],
            [3., 4.]], requires_grad=True)
    >>> lucid.tensor([1, 2], dtype=lucid.float64)
    Tensor([1., 2.], dtype=lucid.float64)
    """
    if isinstance(data, Tensor):
        out = data.detach().clone()
        out = out if dtype is None else out.to(dtype)
        return out.requires_grad_() if requires_grad else out
    for attribute, make in FOREIGN.items():
        if hasattr(data, attribute):
            return tensor(make(data), dtype=dtype, device=device, requires_grad=requires_grad)
    return _made(_array_from(data, dtype), None, requires_grad, device)


Tensor.from_data = staticmethod(tensor)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor that shares memory with `data` where it can: tensors are returned, arrays wrapped.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> lucid.as_tensor(x) is x
    True
    """
    as_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and data.dtype in dtypes._BY_NUMPY:
        out = from_numpy(data)
        return out if dtype is None else out.to(dtype)
    return tensor(data, dtype=dtype)


asarray = as_tensor


def from_numpy(array: Any) -> Tensor:
    """A tensor over a NumPy array's own memory: writes to either show in both.

    >>> import lucid
    >>> import numpy as np
    >>> array = np.zeros(2, np.float32)
    >>> lucid.from_numpy(array)[0] = 5.0
    >>> array.tolist()
    [5.0, 0.0]
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy needs a NumPy array, not {type(array).__name__}")
    dtypes.of_numpy(array.dtype)
    out = Tensor._wrap(array.view(np.ndarray))
    storage_of(out).expose(out._array)
    return out


def _sizes(size: tuple[Any, ...], name: str, named: dict[str, Any] | None = None) -> tuple[int, ...]:
    return sizes_from(by_name(size, named, "size", name) if named else size, name)


def _float_type(dtype: Any) -> np.dtype[Any]:
    return dtypes.default_float() if dtype is None else dtypes.as_numpy(dtype)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any) -> Tensor:
    """A tensor of zeros.

    >>> import lucid
    >>> lucid.zeros(2, 3)
    Tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled(_sizes(size, "zeros", named), _float_type(dtype), 0, requires_grad, device)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any) -> Tensor:
    """A tensor of ones.

    >>> import lucid
    >>> lucid.ones((2,), dtype=lucid.int64)
    Tensor([1, 1])
    """
    return _filled(_sizes(size, "ones", named), _float_type(dtype), 1, requires_grad, device)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any) -> Tensor:
    """A tensor whose elements are whatever was in memory.

    >>> import lucid
    >>> lucid.empty(2, 3).shape
    (2, 3)
    """
    return _filled(_sizes(size, "empty", named), _float_type(dtype), None, requires_grad, device)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with one value everywhere.

    Without `dtype`, the type is that of the value.

    >>> import lucid
    >>> lucid.full((2, 2), 7)
    Tensor([[7, 7],
            [7, 7]])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    chosen = promotion.scalar_type(value) if dtype is None else dtypes.as_numpy(dtype)
    if type(value) is not float or chosen.kind != "f" or not -_SMALL <= value <= _SMALL:
        value = _converted(np.asarray(value), chosen)
    return _filled(_sizes((size,), "full"), chosen, value, requires_grad, device)


def _everywhere(shape: tuple[int, ...], value: Any, kind: np.dtype[Any]) -> Any:
    return arrays.zeros(shape, kind) if type(value) is int and value == 0 else arrays.full(shape, value, kind)


def _at(like: Any, device: Any) -> Any:
    """Where a tensor like another one is made, unless a device is given."""
    return like.device if device is None and isinstance(like, Tensor) else device


def _order(like: Any) -> tuple[int, ...] | None:
    """The dimensions of a tensor as they lie in memory, the outermost first; None for the order of their numbers."""
    if not is_plain(like) or arrays.is_contiguous(like._array):
        return None
    strides = [abs(step) for step in like.stride()]
    return None if 0 in strides else tuple(sorted(range(len(strides)), key=strides.__getitem__, reverse=True))


def _of_its_class(like: Any, made: Tensor) -> Tensor:
    """A new tensor as one of the class of what is computed of another one."""
    inside = like._array if isinstance(like, Meta) else like
    if isinstance(made, Meta):
        return of_inner_class(made, class_of((inside,)))
    return of_class((inside,), made)


def _like(input: Any, dtype: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    x = lift(input)
    return x.shape, x.np_dtype if dtype is None else dtypes.as_numpy(dtype)


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.zeros_like(lucid.tensor([1, 2, 3]))
    Tensor([0, 0, 0])
    """
    shape, kind = _like(input, dtype)
    return _filled(shape, kind, 0, requires_grad, device, input)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.ones_like(lucid.tensor([1, 2, 3]), dtype=lucid.float32)
    Tensor([1., 1., 1.])
    """
    shape, kind = _like(input, dtype)
    return _filled(shape, kind, 1, requires_grad, device, input)


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Whatever was in memory, in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.empty_like(lucid.zeros(2, 3)).shape
    (2, 3)
    """
    shape, kind = _like(input, dtype)
    return _filled(shape, kind, None, requires_grad, device, input)


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value everywhere, in the shape and type of another tensor.

    >>> import lucid
    >>> lucid.full_like(lucid.zeros(2), 0.5)
    Tensor([0.5, 0.5])
    """
    shape, kind = _like(input, dtype)
    if isinstance(input, Tensor) and input._level == INNERMOST:
        return _filled(shape, kind, fill_value, requires_grad, device, input)
    made = full(shape, fill_value, dtype=kind, device=_at(input, device), requires_grad=requires_grad)
    return _of_its_class(input, made)


def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`, of this tensor's type unless another is given.

    >>> import lucid
    >>> lucid.zeros(2, dtype=lucid.float64).new_tensor([1, 2])
    Tensor([1., 2.], dtype=lucid.float64)
    """
    kind = input.dtype if dtype is None else dtype
    return _of_its_class(input, tensor(data, dtype=kind, device=_at(input, device), requires_grad=requires_grad))


def new_zeros(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
) -> Tensor:
    """Zeros of this tensor's type.

    >>> import lucid
    >>> lucid.tensor([1, 2]).new_zeros(3)
    Tensor([0, 0, 0])
    """
    kind = input.dtype if dtype is None else dtype
    return _of_its_class(
        input, zeros(*size, dtype=kind, device=_at(input, device), requires_grad=requires_grad, **named)
    )


def new_ones(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
) -> Tensor:
    """Ones of this tensor's type.

    >>> import lucid
    >>> lucid.tensor([1, 2]).new_ones(2, 2)
    Tensor([[1, 1],
            [1, 1]])
    """
    kind = input.dtype if dtype is None else dtype
    return _of_its_class(
        input, ones(*size, dtype=kind, device=_at(input, device), requires_grad=requires_grad, **named)
    )


def new_empty(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
) -> Tensor:
    """Whatever was in memory, of this tensor's type.

    >>> import lucid
    >>> lucid.tensor([1, 2]).new_empty(3).dtype
    lucid.int64
    """
    kind = input.dtype if dtype is None else dtype
    return _of_its_class(
        input, empty(*size, dtype=kind, device=_at(input, device), requires_grad=requires_grad, **named)
    )


def new_full(
    input: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value everywhere, of this tensor's type.

    >>> import lucid
    >>> lucid.tensor([1.0, 2.0]).new_full((3,), 7)
    Tensor([7., 7., 7.])
    """
    kind = input.dtype if dtype is None else dtype
    return of_class(
        (input,), full(size, fill_value, dtype=kind, device=_at(input, device), requires_grad=requires_grad)
    )


def _bound(value: Any, dtype: Any) -> Any:
    """A number to count from or to; for integers it is one itself."""
    number = value.item() if isinstance(value, Tensor) else value
    if dtype is None or dtypes.as_numpy(dtype).kind not in "iu":
        return number
    return int(whole(np.asarray(number), dtypes.INT64)) if isinstance(number, float) else int(number)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Numbers from `start` up to but not including `end`, `step` apart.

    With one number, it is the end, and counting starts at 0. Integers give int64, anything else the default type.

    >>> import lucid
    >>> lucid.arange(5)
    Tensor([0, 1, 2, 3, 4])
    >>> lucid.arange(1, 2, 0.25)
    Tensor([1.  , 1.25, 1.5 , 1.75])
    """
    if end is None:
        start, end = 0, start
    whole = type(start) is int and type(end) is int and type(step) is int
    if not whole:
        start, end, step = (_bound(value, dtype) for value in (start, end, step))
    if step == 0:
        raise ArgumentError("arange: the step must not be 0")
    if (end - start) / step < 0:
        raise ArgumentError(f"arange: from {start} to {end} in steps of {step} leads away from the end")
    if dtype is None:
        whole = whole or all(isinstance(v, int | np.integer) for v in (start, end, step))
        kind = dtypes.INT64 if whole else dtypes.default_float()
    else:
        kind = dtypes.as_numpy(dtype)
    count = max(0, math.ceil((end - start) / step))
    return _made(arrays.counted(count, start, step, kind), None, requires_grad, device)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included; differentiable by ends that are tensors.

    >>> import lucid
    >>> lucid.linspace(0, 1, 5)
    Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if steps < 0:
        raise ArgumentError(f"linspace: the number of steps must not be negative, got {steps}")
    if _is_followed(start) or _is_followed(end):
        return _cast_to(_spaced(start, end, steps, dtype, "linspace"), dtype, requires_grad, device)
    values = evenly(_bound(start, dtype), _bound(end, dtype), steps)
    return _made(values, _spaced_type(values, dtype), requires_grad, device)


def evenly(first: Any, last: Any, steps: int) -> Any:
    """`np.linspace`, whose own steps for two numbers take five times as long."""
    if steps > 1 and type(first) in _REAL and type(last) in _REAL:
        gap = (float(last) - float(first)) / (steps - 1)
        if gap and math.isfinite(gap):
            values = arrays.counted(steps, float(first), gap, _DOUBLE)
            values[-1] = last
            return values
        if math.isinf(gap) and math.isfinite(first) and math.isfinite(last):  # too far apart for a float
            return _np_linspace(first / 2, last / 2, steps) * 2
    return _np_linspace(first, last, steps)


def _is_followed(bound: Any) -> bool:
    """Whether a tensor stands for more than one number: for its derivative, or for those of many examples."""
    return isinstance(bound, Tensor) and (not is_plain(bound) or bound.requires_grad)


def _spaced(start: Any, end: Any, steps: int, dtype: Any, name: str) -> Tensor:
    """Evenly spaced numbers in double precision by the steps that NumPy takes, with derivatives by both ends."""
    ends = [exact(v) for v in (start, end)]
    if any(v.ndim for v in ends):
        raise RuntimeError(f"{name}: the ends must be numbers or 0-d tensors, not of shapes {[v.shape for v in ends]}")
    wide = dtypes.complex128 if any(v.is_complex() for v in ends) else dtypes.float64
    if dtype is not None and dtypes.as_numpy(dtype).kind in "iu":
        ends = [v.to(dtypes.INT64) for v in ends]
    first, last = (v.to(wide) for v in ends)
    return evenly_between(first, last, steps)


def evenly_between(first: Tensor, last: Tensor, steps: int) -> Tensor:
    """The numbers of `evenly` as an operation on both ends, of double precision and of no dimension or one of size 1."""
    count = np.arange(steps, dtype=np.float64)
    out = count * ((last - first) / max(steps - 1, 1)) + first
    return P.where(Tensor._wrap((count == steps - 1) & (steps > 1)), last, out)


def _cast_to(values: Tensor, dtype: Any, requires_grad: bool, device: Any) -> Tensor:
    as_device(device)
    if requires_grad:
        raise RuntimeError("the result depends on tensors that are followed, so it cannot be a new leaf; see detach()")
    return values.to(_spaced_type(values, dtype))


def _spaced_type(values: Any, dtype: Any) -> np.dtype[Any]:
    """The type of evenly spaced numbers: the default one, complex between complex ends."""
    return dtypes.default_complex() if dtype is None and values.dtype.kind == "c" else _float_type(dtype)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from base**start to base**end, evenly spaced on a logarithmic scale.

    It is differentiable by ends that are tensors.

    >>> import lucid
    >>> lucid.logspace(0, 3, 4, base=2)
    Tensor([1., 2., 4., 8.])
    """
    if steps < 0:
        raise ArgumentError(f"logspace: the number of steps must not be negative, got {steps}")
    if _is_followed(start) or _is_followed(end):
        return _cast_to(base ** _spaced(start, end, steps, dtype, "logspace"), dtype, requires_grad, device)
    values = (base ** Tensor._wrap(_np_linspace(_bound(start, dtype), _bound(end, dtype), steps)))._array
    return _made(values, _spaced_type(values, dtype), requires_grad, device)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The identity matrix, or its first n rows and m columns.

    >>> import lucid
    >>> lucid.eye(2, 3)
    Tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if n < 0 or (m is not None and m < 0):
        raise ArgumentError(f"eye: sizes must not be negative, got {n} and {m}")
    return _made(np.eye(n, m, dtype=_float_type(dtype)), None, requires_grad, device)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor with one number, of the default type unless another is given.

    >>> import lucid
    >>> lucid.scalar_tensor(3)
    Tensor(3.)
    """
    kind = dtypes.default_complex() if dtype is None and isinstance(s, complex) else _float_type(dtype)
    return full((), s, dtype=kind, device=device, requires_grad=requires_grad)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector over the memory of an object with Python's buffer protocol, from `offset` bytes on.

    >>> import lucid
    >>> lucid.frombuffer(bytearray([1, 2, 3]), dtype=lucid.uint8, offset=1)
    Tensor([2, 3], dtype=lucid.uint8)
    """
    kind = dtypes.as_numpy(dtype)
    size = memoryview(buffer).nbytes
    if not 0 <= offset < size:
        raise ArgumentError(f"frombuffer: offset {offset} lies outside a buffer of {size} bytes")
    left = size - offset
    if (count < 0 and left % kind.itemsize) or count * kind.itemsize > left or count == 0:
        raise ArgumentError(
            f"frombuffer: {left} bytes do not hold {count if count > 0 else 'whole'} elements of {dtype}"
        )
    out = Tensor._wrap(np.frombuffer(buffer, kind, count, offset))
    storage_of(out).expose(out._array)
    return out.requires_grad_() if requires_grad else out


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of the first `size` elements of a file, read as they are needed.

    Writes reach the file only if it is `shared`, which also makes the file or makes it longer.

    >>> import lucid, os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> x = lucid.from_file(name, shared=True, size=2).fill_(3.0)
    >>> lucid.from_file(name, size=2)
    Tensor([3., 3.])
    """
    as_device(device)
    kind = _float_type(dtype)
    if size < 0:
        raise ArgumentError(f"from_file: size must not be negative, got {size}")
    if not size:
        return empty(0, dtype=kind, requires_grad=requires_grad)
    held = os.path.getsize(filename) if os.path.exists(filename) else 0
    if held < size * kind.itemsize:
        if not shared:
            raise RuntimeError(f"from_file: {filename} has {held} bytes, too few for {size} elements of {kind.name}")
        with open(filename, "ab") as file:
            file.truncate(size * kind.itemsize)
    out = from_numpy(np.memmap(filename, kind, "r+" if shared else "c", shape=(size,)))
    return out.requires_grad_() if requires_grad else out
