"""Between types, devices and libraries: `to`, `numpy`; and what a tensor says of itself: `is_signed`, `type`, `numel`."""

import math
from typing import Any

import numpy as np

from lucid.arguments import promotion
from lucid.arguments.promotion import cast
from lucid.core import dtypes, modes
from lucid.core.detachments import cut
from lucid.core.device import as_device, device
from lucid.core.primitive import lift
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor
from lucid.ir.meta import without_elements


def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or on another device, given in any order, or like another tensor.

    What it already is, it stays: the tensor itself is returned, or a copy with `copy=True`.

    >>> import lucid
    >>> x = lucid.tensor([1, 2])
    >>> x.to(lucid.float64)
    Tensor([1., 2.], dtype=lucid.float64)
    >>> x.to("cpu", lucid.int64) is x
    True
    """
    dtype = kwargs.pop("dtype", None)
    place = kwargs.pop("device", None)
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to: unexpected arguments {', '.join(kwargs)}")
    flags: list[bool] = []  # non_blocking, which changes nothing here, and copy
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, place = arg.dtype, arg.device
        elif isinstance(arg, device) or (isinstance(arg, str) and arg not in dtypes._BY_NAME):
            place = arg
        elif isinstance(arg, bool):
            flags.append(arg)
        elif arg is not None:
            dtype = arg
    copy = copy or flags[1:] == [True]
    if place is not None:
        input = _at(input, as_device(place))
    target = input.np_dtype if dtype is None else dtypes.as_numpy(dtype)
    return input.clone() if copy and target == input.np_dtype else _as(input, target)


def _as(input: Tensor, target: np.dtype[Any]) -> Tensor:
    """The tensor itself, or one of another type."""
    own = input.np_dtype
    if own is target or own == target:
        return input
    if input.requires_grad and target not in dtypes.DIFFERENTIABLE:
        cut(f"conversion to {dtypes.of_numpy(target).name}", input)
    return cast(input, target)


def _at(input: Tensor, place: device) -> Tensor:
    """The tensor on a device: a new one without its elements, or an error where there are none to be had."""
    if place.type == input.device.type:
        return input
    if place.type == "meta":
        return without_elements(input)
    input._held_array(f"to({str(place)!r})")
    return input


def _converter(target: dtypes.dtype, name: str) -> Any:
    kind = target.numpy

    def op(self: Tensor) -> Tensor:
        return _as(self, kind)

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"The tensor as {target}."
    return op


CONVERTERS = {
    name: _converter(target, name)
    for name, target in {
        "bool": dtypes.bool_,
        "byte": dtypes.uint8,
        "char": dtypes.int8,
        "short": dtypes.int16,
        "int": dtypes.int32,
        "long": dtypes.int64,
        "half": dtypes.float16,
        "bfloat16": dtypes.bfloat16,
        "float": dtypes.float32,
        "double": dtypes.float64,
        "cfloat": dtypes.complex64,
        "cdouble": dtypes.complex128,
    }.items()
}


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of another.

    >>> import lucid
    >>> lucid.tensor([1, 2]).type_as(lucid.tensor(0.5))
    Tensor([1., 2.])
    """
    return _as(input, other.np_dtype)


def cpu(input: Tensor) -> Tensor:
    """The tensor on the CPU.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.cpu() is x
    True
    """
    return to(input, device="cpu")


def numpy(input: Tensor, *, force: bool = False) -> Any:
    """The elements as a NumPy array over the same memory; read-only if the tensor requires grad.

    With `force` it can be written to all the same, as that of `detach()`.

    >>> import lucid
    >>> x = lucid.zeros(2)
    >>> x.numpy()[0] = 5.0
    >>> x
    Tensor([5., 0.])
    """
    array = input._concrete("numpy()")
    watched = modes.given_away.get()
    if watched is not None:
        watched.append(input)
    if input.requires_grad:
        cut("numpy()", input)
    if input.requires_grad and not force:
        seen = array.view()
        seen.flags.writeable = False
        return seen
    storage_of(input).expose(array)
    return array


def to_array(input: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """What `np.asarray(tensor)` gets.

    >>> import lucid
    >>> import numpy as np
    >>> np.asarray(lucid.tensor([1, 2])).tolist()
    [1, 2]
    """
    array = numpy(input)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(f"a copy is needed to convert {array.dtype} to {np.dtype(dtype)}")
        return array.astype(dtype)
    return array.copy() if copy else array


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor.

    >>> import lucid
    >>> lucid.is_tensor(lucid.tensor(1.0))
    True
    """
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floats.

    >>> import lucid
    >>> lucid.is_floating_point(lucid.tensor([1, 2]))
    False
    """
    return input.np_dtype in dtypes.FLOATING


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex.

    >>> import lucid
    >>> lucid.is_complex(lucid.tensor([1j]))
    True
    """
    return input.np_dtype in dtypes.COMPLEX


def result_type(*operands: Any) -> dtypes.dtype:
    """The type of the result of an operation on these tensors and numbers.

    >>> import lucid
    >>> lucid.result_type(lucid.tensor([1, 2]), 1.0)
    lucid.float32
    """
    tensors = [o for o in operands if isinstance(o, Tensor)]
    found = promotion.result_type_of(
        [t.np_dtype for t in tensors if t.ndim],
        [t.np_dtype for t in tensors if not t.ndim],
        [o for o in operands if not isinstance(o, Tensor)],
    )
    return dtypes.of_numpy(found)


def numel(input: Any) -> int:
    """The number of elements.

    >>> import lucid
    >>> lucid.numel(lucid.zeros(2, 3))
    6
    """
    return math.prod(lift(input).shape)


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape.

    >>> import lucid
    >>> lucid.is_same_size(lucid.zeros(2, 3), lucid.ones(2, 3))
    True
    """
    return lift(input).shape == lift(other).shape


def is_signed(input: Any) -> bool:
    """Whether the type of the elements has negative numbers.

    >>> import lucid
    >>> lucid.is_signed(lucid.zeros(2)), lucid.is_signed(lucid.tensor([1], dtype=lucid.uint8))
    (True, False)
    """
    kind = lift(input).np_dtype
    return kind.kind != "u" and kind != dtypes.BOOL


def get_device(input: Tensor) -> int:
    """The number of the accelerator that holds the elements, -1 for the processor's own memory.

    >>> import lucid
    >>> lucid.get_device(lucid.zeros(2))
    -1
    """
    index = input.device.index
    return -1 if input.device.type == "cpu" else 0 if index is None else index


# Converters give classes of tensors their names: x.float() is a FloatTensor.
_CLASSES = {
    {"cfloat": "ComplexFloat", "cdouble": "ComplexDouble", "bfloat16": "BFloat16"}.get(name, name.title()): convert
    for name, convert in CONVERTERS.items()
}


def type(self: Tensor, dtype: Any = None) -> Any:
    """The name of the class of tensors of this type; with `dtype`, the tensor in that type, which may be such a name.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0])
    >>> x.type(), x.type(lucid.int64), x.type("lucid.DoubleTensor").dtype
    ('lucid.FloatTensor', Tensor([1, 2]), lucid.float64)
    """
    if dtype is None:
        empty = Tensor._wrap(np.empty(0))
        found = (name for name, convert in _CLASSES.items() if convert(empty).dtype == self.dtype)
        return f"lucid.{next(found, self.dtype.name.title())}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        name = dtype.rpartition(".")[2].removesuffix("Tensor")
        if name not in _CLASSES:
            raise ValueError(
                f"type: {dtype!r} is no class of tensors; expected one like 'lucid.FloatTensor', or a dtype"
            )
        return _CLASSES[name](self)
    return self.to(dtype)


def new(self: Tensor, *sizes: Any) -> Tensor:
    """A tensor of this type: of these sizes, with whatever was in memory, or with the elements of a sequence.

    >>> import lucid
    >>> x = lucid.zeros(2, dtype=lucid.float64)
    >>> x.new(2, 3).shape, x.new([1, 2])
    ((2, 3), Tensor([1., 2.], dtype=lucid.float64))
    """
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        return self.new_tensor(sizes[0])
    return self.new_empty(sizes or (0,))


def is_pinned(self: Tensor) -> bool:
    """Whether the memory is locked in place for an accelerator: never.

    >>> import lucid
    >>> lucid.zeros(2).is_pinned()
    False
    """
    return False


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes: never.

    >>> import lucid
    >>> lucid.zeros(2).is_shared()
    False
    """
    return False


def ndimension(self: Tensor) -> int:
    """The number of dimensions.

    >>> import lucid
    >>> lucid.zeros(2, 3).ndimension()
    2
    """
    return self.ndim
