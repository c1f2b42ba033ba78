"""Tensors of the device "meta": they have shape, type and history, and no elements.

Operations on them give such tensors by their abstract rules, gradients too, so the size of a model and the shapes in it
are known without its memory.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from lucid.core.device import device
from lucid.core.fields import new_tensor
from lucid.core.levels import OUTERMOST
from lucid.core.tensor import Tensor, class_of
from lucid.ir import placeholders
from lucid.kinds.kind import Kind, NeedsValueError

META = device("meta")


class Meta(Kind):
    """A tensor around a placeholder, whose memory nobody touches."""

    __slots__ = ()
    transform_name = 'the device "meta"'
    splits_memory = False

    @staticmethod
    def make(inside: Tensor) -> "Meta":
        out: Meta = new_tensor(Meta, inside, None, OUTERMOST)
        return out

    def shell(self) -> "Meta":
        return Meta.make(self._array.shell())

    def _detached(self) -> "Meta":
        return self.shell()

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def device(self) -> device:
        """The device without elements."""
        return META

    is_meta = property(lambda self: True, doc="Whether the tensor has no elements, only a shape: yes.")
    is_cpu = property(lambda self: False, doc="Whether the elements are in the processor's memory: there are none.")

    def stride(self, dim: int | None = None) -> Any:
        """How many elements apart neighbours would be along each dimension."""
        return self._array.stride(dim)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements would lie in row-major order."""
        return bool(self._array.is_contiguous())

    def storage_offset(self) -> int:
        """How many elements would lie before the first one."""
        return int(self._array.storage_offset())

    def data_ptr(self) -> int:
        """The address of the first element: none."""
        return 0

    def _held_array(self, wanted_by: str) -> NoReturn:
        raise NeedsValueError(
            f"{wanted_by}: this tensor of shape {tuple(self.shape)} is on the device 'meta' and has no elements. Give the "
            "model memory with to_empty(device='cpu'), or values with load_state_dict(state, assign=True)"
        )

    def _copy_contents(self) -> None:
        self._array = placeholders.empty(self._array.shape, self.np_dtype)

    def sever(self) -> None:
        """There is no history inside."""

    def _raise_escape(self, target: Tensor, name: str) -> NoReturn:
        self._held_array(f"{name} into a tensor with elements")

    def absorb(self, target: Tensor) -> NoReturn:
        """Refuse to lose the elements of a tensor that has some."""
        self._held_array("a write of it into a tensor with elements")

    def settled(self) -> NoReturn:
        """Refuse to be the gradient of a tensor with elements."""
        self._held_array("the gradient of a tensor with elements depends on it")

    def holds(self, new: Tensor) -> bool:
        """Whether a value can be written into this tensor as it is."""
        return bool(new._level <= self._level)

    def _write(self, new: Tensor, name: str) -> None:
        """There is nothing to be changed."""

    def _raise_unless_replaceable(self, value: Tensor) -> None:
        """Any contents of the same kind will do."""

    def __repr__(self) -> str:
        name = "tensor" if class_of((self._array,)).passed_on else "Tensor"
        grad = ", requires_grad=True" if self._requires_grad and self._node is None else ""
        return f"{name}(..., device='meta', size={tuple(self.shape)}, dtype={self.dtype}{grad})"

    def interpret(self, prim: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The shape and type of what a primitive gives."""
        if prim.is_call:
            return prim.run(args, params)
        inside = [a._array if type(a) is Meta else a for a in args]
        if prim.abstract is None:
            self._held_array(prim.name)
        kind = class_of(tuple(inside))
        made = tuple([Meta.make(_of_class(kind, o)) for o in placeholders.results(prim, inside, params)])
        return made if prim.multi else made[0]


def _of_class(kind: Any, tensor: Tensor) -> Tensor:
    """A new tensor as one of a class."""
    tensor.__class__ = kind
    return tensor


def abstract(shape: Sequence[int], dtype: Any, kind: Any = Tensor) -> Meta:
    """A tensor without elements."""
    return Meta.make(_of_class(kind, placeholders.empty(shape, dtype)))


def of_inner_class(tensor: Meta, kind: Any) -> Meta:
    """A new tensor without elements as one of a class."""
    tensor._array.__class__ = kind
    return tensor


def without_elements(tensor: Tensor) -> Meta:
    """A tensor of the shape, type and class of another one, without its elements."""
    kind = class_of((tensor._array if isinstance(tensor, Meta) else tensor,))
    return abstract(tensor.shape, tensor.np_dtype, kind)


def replace_contents(tensor: Any, new: Any) -> None:
    """Give a leaf contents of another device; the object stays, so optimizers keep hold of it."""
    if isinstance(tensor, Meta):
        tensor._level = 0
        tensor.__class__ = type(new)
        tensor._array, tensor._meta = new._array, None
    else:
        inside = without_elements(tensor)._array
        tensor.__class__ = Meta
        tensor._array, tensor._level, tensor._meta = inside, OUTERMOST, None
