# cython: annotation_typing=True
"""The tensor: an array with a place in the graph. Operations are attached to it by `lucid.ops`."""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lucid.core import dtypes, levels
from lucid.core.arrays import ARRAY, address, is_contiguous
from lucid.core.collector import show_history
from lucid.core.detachments import cut
from lucid.core.device import CPU, device
from lucid.core.errors import ArgumentError
from lucid.core.fields import TensorFields, new_tensor, newest, open_tensor, users_attributes
from lucid.core.kernels import table
from lucid.core.levels import tracing
from lucid.core.source_lines import here
from lucid.core.storage import DETACHED, FROZEN, Storage, View, new_storage, new_view, raise_if_marked, storage_of, thaw
from lucid.native import all_attributes_of, give_attributes, in_use, set_all_attributes

if TYPE_CHECKING:
    from lucid.core._methods import Methods
else:
    Methods = object


class Tensor(TensorFields, Methods):
    """An n-dimensional array that can record what is done to it and be differentiated.

    Make one with `lucid.tensor` and its relatives.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    Tensor([2., 4., 6.])
    """

    __slots__ = ()

    _seq = 0  # the engine's order: leaves come last
    _level = 0  # of no transform
    __array_priority__ = 1000
    passed_on = False  # whether what is computed of a tensor of this class is of this class too
    bytes_are_masks = False  # whether a tensor of uint8 that others are indexed with is a mask

    def __init__(self, data: Any = (), *, dtype: Any = None, requires_grad: bool = False) -> None:
        made = Tensor.from_data(data, dtype=dtype, requires_grad=requires_grad)
        self._array, self._requires_grad = made._array, made._requires_grad
        self._grad = self._node = self._meta = None
        self._born, self._marked = newest(), made._marked

    from_data: Callable[..., "Tensor"]  # set by lucid.api.creation
    _synced: Callable[..., "Tensor"]  # `core.primitive.synced`
    describe_contents: Callable[..., str]  # set by lucid.api.printing

    _wrap: Callable[[Any], "Tensor"]  # `wrapped`, below

    def shell(self) -> "Tensor":
        """A tensor of the same kind with the same contents, and no history."""
        if self._meta is FROZEN:
            thaw(self)
        out: Tensor = new_tensor(type(self), self._array)
        out._marked = self._marked
        return out

    def _detached(self) -> "Tensor":
        """The same contents without history, with a share in the version counter."""
        taken = levels.captured((self,)) if levels.tracing() else None
        return self._detached_alone() if taken is None else taken[0]._detached()

    def _detached_alone(self) -> "Tensor":
        out = self.shell()
        out._meta = new_view(None, None, {}, storage_of(self), DETACHED)
        if levels.active.get():
            out._meta.storage.show(out, self)
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension.

        >>> import lucid
        >>> lucid.zeros(2, 3).shape
        (2, 3)
        """
        fields: TensorFields = self
        return fields._array.shape

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements.

        >>> import lucid
        >>> lucid.tensor([1.0, 2.0]).dtype
        lucid.float32
        """
        return dtypes.of_numpy(self._array.dtype)

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """The numpy type of the elements."""
        fields: TensorFields = self
        return fields._array.dtype

    @property
    def device(self) -> device:
        """Where the array lives."""
        return CPU

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        fields: TensorFields = self
        return len(self.shape) if fields._level else fields._array.ndim

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.np_dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> import lucid
        >>> lucid.zeros(2, 3).nbytes
        24
        """
        return prod(self.shape) * self.itemsize

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded. Can be set on leaves.

        >>> import lucid
        >>> x = lucid.tensor([1.0], requires_grad=True)
        >>> (x * 2).requires_grad
        True
        """
        return self._synced()._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Start (or stop) recording operations on this leaf; returns it.

        >>> import lucid
        >>> lucid.zeros(2).requires_grad_()
        Tensor([0., 0.], requires_grad=True)
        """
        if not self.is_leaf:
            if requires_grad:
                return self
            raise RuntimeError("requires_grad can be switched off on leaf tensors only; for a result, use detach()")
        if requires_grad and self.np_dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                f"only tensors of floating-point or complex dtype can require gradients; this one is {self.dtype}. "
                "Convert it first, as in x.float()"
            )
        if requires_grad:
            raise_if_marked(self, "outside of that mode, requires_grad is not set of")
        self._held = True  # it may be an edge, and from now on it can be written
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by a recorded operation.

        >>> import lucid
        >>> x = lucid.tensor([1.0], requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self._synced()._node is None

    @property
    def grad(self) -> "Tensor | None":
        """The gradient accumulated by `backward`, or None.

        A second pass adds to it; set it to None to start anew.

        >>> import lucid
        >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        Tensor([2., 4.])
        """
        if levels.tracing() and (trace := levels.trace.get()) is not None:
            return trace.gradient(self)
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"a gradient must be a Tensor or None, not {type(value).__name__}")
            if value is self:
                raise RuntimeError("a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise RuntimeError(f"a gradient must have its tensor's shape {self.shape}, not {value.shape}")
            if value.np_dtype != self.np_dtype:
                raise RuntimeError(f"a gradient must have its tensor's dtype {self.dtype}, not {value.dtype}")
            if value._requires_grad:
                show_history(value._node)
        if levels.tracing() and (trace := levels.trace.get()) is not None:
            trace.set_gradient(self, value)
        else:
            self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> "Tensor":
        """The same memory without history. Assigning replaces the contents.

        >>> import lucid
        >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
        >>> x.data[0] = 5.0
        >>> x
        Tensor([5., 2.], requires_grad=True)
        """
        return self.detach()

    @data.setter
    def data(self, value: "Tensor") -> None:
        if not isinstance(value, Tensor) or (type(value) is not type(self) and (value._level or self._level)):
            raise TypeError(f".data must be set to a {type(self).__name__}, not {type(value).__name__}")
        if self._node is not None and self._requires_grad and value.shape != self.shape:
            raise RuntimeError(
                f".data: a tensor with history keeps it, and so its shape {self.shape}; {value.shape} is another one"
            )
        self._raise_unless_replaceable(value)
        storage_of(self).bump(".data = ")
        self._meta = new_storage()
        # Anything saved from before must not mistake the new contents for the old.
        self._meta.version, self._meta.writer = 1, (".data = ", here())
        self._array = value.shell()._array

    def _raise_unless_replaceable(self, value: "Tensor") -> None:
        """Refuse contents of `value` that this tensor cannot take; kinds that can prepare themselves for them."""

    @property
    def _version(self) -> int:
        return 0 if self._meta is None else int(self._meta.storage.version)

    def is_view(self) -> bool:
        """Whether this tensor shows the memory of another one.

        >>> import lucid
        >>> x = lucid.zeros(2, 3)
        >>> x[0].is_view(), x.clone().is_view()
        (True, False)
        """
        return isinstance(self._meta, View) and self._meta.status != DETACHED

    @property
    def _base(self) -> "Tensor | None":
        """The tensor at the bottom of a chain of views."""
        base = None
        below = self
        while below.is_view():
            base = below = below._meta.base
        return base

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one entry of it.

        >>> import lucid
        >>> x = lucid.zeros(2, 3)
        >>> x.size(), x.size(-1)
        ((2, 3), 3)
        """
        if dim is None:
            return self.shape
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"dim {dim} is out of range for a tensor with {self.ndim} dimensions")
        return self.shape[dim]

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(address(self._held_array("data_ptr()")))

    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps.

        >>> import lucid
        >>> x = lucid.zeros(2, 3)
        >>> x.is_contiguous(), x.t().is_contiguous()
        (True, False)
        """
        return bool(is_contiguous(self._held_array("is_contiguous()")))

    def _held_array(self, wanted_by: str) -> Any:
        """The array, for what cannot be done with anything less; other kinds raise here."""
        if self._meta is FROZEN:
            thaw(self)
        return self._array

    def _concrete(self, wanted_by: str) -> Any:
        """The same as NumPy sees it."""
        if levels.tracing() and (trace := levels.trace.get()) is not None:
            trace.raise_if_overwritten(self, wanted_by)
        return table["to_numpy"](self._held_array(wanted_by))

    def interpret(self, prim: Any, args: Any, params: dict[str, Any]) -> Any:
        """Run a primitive of which this tensor is the operand of the innermost transform; each kind has its way."""
        raise AssertionError("plain tensors run a primitive as it is")

    def seeded(self, seed: Any) -> Any:
        """The cotangent with which a backward pass begins at this tensor, as its kind wants it."""
        return seed

    def _new_storage(self) -> Storage:
        return new_storage()

    def _copy_contents(self) -> None:
        """Stop sharing memory with whatever this tensor was made from."""
        self._array = table["copy"](self._array)

    def holds(self, new: "Tensor") -> bool:
        """Whether a value can be written into this tensor as it is, rather than after becoming of that value's kind."""
        return not new._level

    def _write(self, new: "Tensor", name: str) -> None:
        """Take over the elements of `new`, which has this tensor's shape and type."""
        table["assign"](self._array, new._array)

    def _raise_if_read_only(self, name: str) -> None:
        if self._meta is FROZEN:
            thaw(self)
        if not table["is_writable"](self._array):
            raise RuntimeError(
                f"{name}: this tensor's memory cannot be written: it is an expanded tensor, in which several "
                "elements share one place, or shows a read-only NumPy array. clone() it first."
            )
        raise_if_marked(self, f"{name}: outside of that mode, nothing is written to")

    def item(self) -> Any:
        """The only element as a Python number.

        >>> import lucid
        >>> lucid.tensor([[2.5]]).item()
        2.5
        """
        array = self._concrete("item()")
        if array.size != 1:
            raise ArgumentError(
                f"item() needs a tensor with exactly one element; this one has {array.size} (shape {self.shape})"
            )
        if self._requires_grad:
            cut("item()", self)
        value = array.item()
        return float(value) if self._array.dtype == dtypes.bfloat16.numpy else value

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        >>> import lucid
        >>> lucid.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self._concrete("tolist()").tolist()

    def __bool__(self) -> bool:
        array = self._concrete("bool()")
        if array.size != 1:
            raise ArgumentError(
                f"the truth of a tensor with {array.size} elements (shape {self.shape}) is ambiguous; use .any() or .all()"
            )
        return bool(array.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        value = self.item()
        if isinstance(value, (float, complex)):
            raise TypeError(f"only integer tensors of one element can be used as an index, not {self.dtype}")
        return int(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    @property
    def grad_fn(self) -> Any:
        """The node of the operation that made this tensor; None for leaves.

        >>> import lucid
        >>> x = lucid.tensor([1.0], requires_grad=True)
        >>> (x * 2).grad_fn.name()
        'mul'
        """
        node = self._synced()._node
        if node is None:
            return None
        return node.edges[0] if hasattr(node, "index") else node

    @property
    def output_nr(self) -> int:
        """Which output of its operation this tensor is."""
        return getattr(self._synced()._node, "index", 0)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if self._requires_grad and not self.is_leaf:
            raise RuntimeError("only leaf tensors can be copied or pickled; detach() the tensor first")
        contents = self._concrete("pickling").copy("K"), self._requires_grad, self._grad, type(self)
        return _rebuild, contents, users_attributes(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    if in_use:

        @property
        def __dict__(self) -> dict[str, Any]:
            open_tensor(self)
            return all_attributes_of(self)

        @__dict__.setter
        def __dict__(self, value: dict[str, Any]) -> None:
            open_tensor(self)
            set_all_attributes(self, value)


give_attributes(Tensor)


def wrapped(array: Any) -> Any:
    """A tensor around an array that is used as it is."""
    return wrapped_as(Tensor, array)


def wrapped_as(kind: Any, array: Any) -> Any:
    """The same, of a subclass."""
    return new_tensor(kind, array if type(array) is ARRAY else table["as_array"](array))


Tensor._wrap = staticmethod(wrapped)


def is_plain(value: Any) -> bool:
    """Whether something is a tensor of no transform, and so holds an array; not one whose values a trace may not see."""
    fields: Any = value if isinstance(value, TensorFields) else None
    if fields is None or fields._level or not tracing():
        return fields is not None and not fields._level
    return (trace := levels.trace.get()) is None or not trace.is_symbolic(value)


def class_of(operands: tuple[Any, ...]) -> Any:
    """The class of what is computed of operands: that of the first which passes it on."""
    for a in operands:
        kind: Any = type(a)
        if kind is not Tensor and isinstance(a, TensorFields) and kind.passed_on:
            return kind
    return Tensor


def of_class(operands: Any, tensor: Any) -> Any:
    """A new tensor that was made without an operation as one of the class of what is computed of the operands."""
    kind = class_of(tuple(operands))
    if kind is Tensor or tensor._level:
        return tensor
    out = wrapped_as(kind, tensor._array)
    out._born, out._meta, out._marked = tensor._born, tensor._meta, tensor._marked
    out._node, out._requires_grad = tensor._node, tensor._requires_grad
    return out


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, an array or a number. (NumPy's own function would come back to us for tensors.)"""
    if isinstance(value, TensorFields):
        fields: Any = value
        if not fields._level:
            return fields._array.shape
    return tuple(getattr(value, "shape", ()))


def _rebuild(array: Any, requires_grad: bool, grad: Tensor | None = None, kind: Any = Tensor) -> Tensor:
    out = wrapped_as(kind, array)
    out._requires_grad, out._grad = requires_grad, grad
    return out
