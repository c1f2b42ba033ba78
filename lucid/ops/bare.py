# cython: annotation_typing=True
"""Operands as bare arrays: Python numbers, and batched tensors, whose examples are computed all at once.

What is done here could be done by `lucid.core.primitive.apply`, which asks many more questions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.core import levels
from lucid.core.batched import Batched
from lucid.core.fields import TensorFields
from lucid.core.storage import View
from lucid.core.tensor import Tensor, shape_of

ndarray = np.ndarray
_new = TensorFields.__new__
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

# Python numbers as arrays, which NumPy multiplies by in half the time. 0 is left out for its sign, nan since it
# never compares equal; both tables stay small.
_constants: dict[Any, dict[float, Any]] = {_F32: {}, _F64: {}}
_MOST_CONSTANTS = 512


def constant(value: Any, kind: np.dtype[Any]) -> Any:
    """A Python number as a 0-d array of this type."""
    table = _constants[kind]
    found = table.get(value)
    if found is None:
        found = np.asarray(value, kind)
        if value and value == value and len(table) < _MOST_CONSTANTS:
            table[value] = found
    return found


def _is_behind(tensor: TensorFields) -> bool:
    """Whether this is a view whose memory was written to since its history was made."""
    if type(tensor._meta) is not View:
        return False
    view: View = tensor._meta
    return view.version != view.storage.version


def _array_in(batched: TensorFields) -> Any:
    """The array in a batched tensor; None if what it holds is recorded or of another kind."""
    if type(batched._array) is not Tensor or _is_behind(batched):
        return None
    inner: TensorFields = batched._array
    return None if inner._requires_grad or _is_behind(inner) else inner._array


def _array_beside(value: Any, level: Any, kind: Any) -> Any:
    """The array of an operand beside a batched one of this level and type; None if there is more to it."""
    if type(value) is float or type(value) is int:
        return constant(value, kind)
    if type(value) is not Batched and type(value) is not Tensor:
        return None
    fields: TensorFields = value
    if type(value) is Batched:
        array = _array_in(fields) if fields._level == level else None
    else:
        array = None if fields._requires_grad or _is_behind(fields) else fields._array
    return array if array is None or array.dtype is kind else None


def _has_batch(value: Any) -> bool:
    """Whether the array of an operand has a batch in front."""
    if type(value) is not Batched:
        return False
    fields: TensorFields = value
    return fields._aux is None


def bare_pair(input: Any, other: Any) -> Any:
    """The arrays of two operands, at least one of them batched, and which have a batch in front; or None."""
    first: TensorFields = input if type(input) is Batched else other
    array = _array_in(first)
    if array is None:
        return None
    kind = array.dtype
    if kind is not _F32 and kind is not _F64:
        return None
    beside = _array_beside(other if first is input else input, first._level, kind)
    if beside is None:
        return None
    x, y = (array, beside) if first is input else (beside, array)
    return x, y, _has_batch(input), _has_batch(other)


def in_batch(array: Any, like: TensorFields, has_batch: bool) -> Any:
    """An array as a batched tensor of the same vmap as `like`."""
    inner: TensorFields = _new(Tensor)
    inner._array = array if type(array) is ndarray else np.asarray(array)
    out: TensorFields = _new(Batched)
    out._array = inner
    out._level = like._level
    inner._born = out._born = levels.newest
    inner._requires_grad = out._requires_grad = False
    inner._grad = inner._node = inner._meta = None
    out._grad = out._node = out._meta = None
    out._aux = None if has_batch else like._aux
    return out


def example_shape(value: Any) -> Any:
    """The shape of an operand of which `bare_pair` has found the array, without its batch."""
    if type(value) is not Batched:
        return shape_of(value)
    fields: TensorFields = value
    inner: TensorFields = fields._array
    return inner._array.shape[1:] if fields._aux is None else inner._array.shape


def of_one(impl: Callable[..., Any], input: TensorFields) -> Any:
    """An elementwise function of a batched tensor; None if there is more to it."""
    x = _array_in(input)
    if x is None or (x.dtype is not _F32 and x.dtype is not _F64):
        return None
    return in_batch(impl(x), input, input._aux is None)


def of_plain(impl: Callable[..., Any], args: Any) -> Any:
    """A function of plain tensors of one floating-point type; None if there is more to it."""
    arrays = []
    kind: Any = None
    for a in args:
        if type(a) is not Tensor:
            return None
        fields: TensorFields = a
        own = fields._array.dtype
        if _is_behind(fields) or (own is not kind and kind is not None):
            return None
        kind = own
        arrays.append(fields._array)
    return Tensor._wrap(impl(*arrays)) if kind is _F32 or kind is _F64 else None


def of_two(impl: Callable[..., Any], input: Any, other: Any) -> Any:
    """A function of two operands, at least one of them batched, that broadcasts; None if there is more to it."""
    found = bare_pair(input, other)
    if found is None:
        return None
    x, y, batch_x, batch_y = found
    # The batch must be the outermost dimension of the broadcast.
    if batch_x and batch_y:
        if x.ndim != y.ndim:
            return None
    elif (batch_x and y.ndim >= x.ndim) or (batch_y and x.ndim >= y.ndim):
        return None
    return in_batch(impl(x, y), input if type(input) is Batched else other, batch_x or batch_y)
