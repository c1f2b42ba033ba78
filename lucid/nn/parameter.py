"""Parameters and buffers: tensors that a module registers when they are assigned to it.

A parameter is an ordinary `Tensor` object, so that operations on it take the same fast path as on any other tensor.
What makes it a parameter is an entry in a weak table, which `isinstance` consults.
"""

import copyreg
import weakref
from typing import Any, cast

import lucid
from lucid import Tensor
from lucid.core import dtypes
from lucid.core.fields import TensorFields, new_tensor
from lucid.core.levels import INNERMOST
from lucid.core.primitive import P
from lucid.core.storage import storage_of
from lucid.core.tensor import wrapped_as

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]

# id of a marked tensor -> a reference whose death removes the entry, what the tensor is, and whether it is persistent.
_marks: dict[int, tuple[Any, type, bool]] = {}


class Mark(type):
    """The type of `Parameter` and `Buffer`: their instances are the tensors that were marked as such."""

    def __instancecheck__(cls, instance: Any) -> bool:
        mark = _marks.get(id(instance))
        return mark is not None and issubclass(mark[1], cls)


def _marked(data: Any, kind: type, requires_grad: bool, persistent: bool = True) -> Tensor:
    """A new leaf over the memory of `data`, marked."""
    source = data if isinstance(data, Tensor) else lucid.tensor([]) if data is None else lucid.as_tensor(data)
    out = source.shell()
    if isinstance(data, Tensor):
        out._meta = storage_of(source)  # writes through either tensor are counted for both
    out.requires_grad_(requires_grad)
    _mark(out, kind, persistent)
    return out


def _mark(tensor: Tensor, kind: type, persistent: bool = True) -> None:
    key, forget = id(tensor), _marks.pop
    _marks[key] = (weakref.ref(tensor, lambda _: forget(key, None)), kind, persistent)


class Parameter(Tensor, metaclass=Mark):
    """A tensor to be trained: it requires grad, and a module that it is assigned to registers it.

    It shares the memory of `data`. The object is a plain `Tensor` that `isinstance(_, Parameter)` recognises.

    >>> import lucid
    >>> from lucid.nn.parameter import Parameter
    >>> weight = Parameter(lucid.ones(2))
    >>> weight
    Parameter containing:
    Tensor([1., 1.], requires_grad=True)
    >>> isinstance(weight, Parameter), isinstance(weight * 2, Parameter)
    (True, False)
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> "Parameter":
        return cast("Parameter", _marked(data, cls, requires_grad))


class Buffer(Tensor, metaclass=Mark):
    """A tensor that belongs to a module's state and is not trained, such as a running mean.

    With `persistent=False` it is left out of `state_dict`.

    >>> import lucid
    >>> from lucid.nn.parameter import Buffer
    >>> isinstance(Buffer(lucid.zeros(2)), Buffer)
    True
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> "Buffer":
        wants_grad = isinstance(data, Tensor) and data.requires_grad
        return cast("Buffer", _marked(data, cls, wants_grad, persistent))


class Waiting(Tensor):
    """The class of tensors that have a type and no shape yet; `materialize` makes them ordinary ones.

    They are of a level of their own, so that operations ask them, and are refused.
    """

    __slots__ = ()
    _level = TensorFields._level  # which `Tensor` hides behind its 0
    becomes: type = Tensor

    def interpret(self, prim: Any, args: Any, params: dict[str, Any]) -> Any:
        """Refuse to be an operand, but for a change of type."""
        if prim is P.cast:
            return new_tensor(type(self), prim.kernel(self._array, **params), None, INNERMOST)
        raise ValueError(
            f"{prim.name}: an uninitialized parameter or buffer of a lazy layer has no shape yet, so nothing can be computed of "
            "it. Call the layer first, with an input that tells the shape, or materialize(shape) it"
        )

    def shell(self) -> Tensor:
        out: Tensor = new_tensor(self.becomes, self._array)
        return out

    @property
    def data(self) -> Tensor:
        """The memory without history, which has no elements."""
        return self.shell()

    @data.setter
    def data(self, value: Tensor) -> None:
        self._array = value._array

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor a shape, and memory with whatever is in it; the object stays the same."""
        made = lucid.empty(tuple(shape), device=device, dtype=self.dtype if dtype is None else dtype)
        kind = Parameter if isinstance(self, Parameter) else Buffer
        persistent = is_persistent(self)
        self._level = 0
        self.__class__ = self.becomes
        self.data = made
        _mark(self, kind, persistent)

    def __repr__(self) -> str:
        kind = "Parameter" if isinstance(self, Parameter) else "Buffer"
        return f"<Uninitialized{kind}>"


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet: it has no elements until `materialize(shape)`.

    The object stays the same then, so that an optimizer that holds it trains it.

    >>> from lucid.nn import Parameter, UninitializedParameter
    >>> weight = UninitializedParameter()
    >>> weight, isinstance(weight, Parameter)
    (<UninitializedParameter>, True)
    >>> weight.materialize((2, 3))
    >>> weight.shape, isinstance(weight, UninitializedParameter)
    ((2, 3), False)
    """

    __slots__ = ()

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> "UninitializedParameter":
        return cast("UninitializedParameter", _waiting(cls, requires_grad, device, dtype))

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the parameter a shape, and memory with whatever is in it."""
        raise AssertionError("instances are of the class Waiting")


class UninitializedBuffer(Buffer):
    """A buffer whose shape is not known yet; see `UninitializedParameter`.

    >>> from lucid.nn import UninitializedBuffer
    >>> UninitializedBuffer()
    <UninitializedBuffer>
    """

    __slots__ = ()

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> "UninitializedBuffer":
        return cast("UninitializedBuffer", _waiting(cls, requires_grad, device, dtype, persistent))

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the buffer a shape, and memory with whatever is in it."""
        raise AssertionError("instances are of the class Waiting")


def _waiting(kind: type, requires_grad: bool, device: Any, dtype: Any, persistent: bool = True) -> Tensor:
    out = _marked(lucid.empty(0, device=device, dtype=dtype), kind, requires_grad, persistent)
    out.__class__ = Waiting
    out._level = INNERMOST
    return out


def is_lazy(value: Any) -> bool:
    """Whether something is a parameter or a buffer that has no shape yet.

    >>> from lucid.nn.parameter import UninitializedParameter, is_lazy
    >>> is_lazy(UninitializedParameter())
    True
    """
    return isinstance(value, Waiting)


def is_persistent(buffer: Tensor) -> bool:
    """Whether a tensor is to appear in `state_dict` once it is registered as a buffer."""
    mark = _marks.get(id(buffer))
    return mark is None or mark[2]


def reduced(tensor: Tensor) -> tuple[Any, ...]:
    """How tensors are copied and pickled: marked ones stay marked, and leave their gradient behind."""
    rebuild, found, attributes = tensor.__reduce_ex__(4)
    mark = _marks.get(id(tensor))
    if mark is None:
        return rebuild, found, attributes
    array, requires_grad, *_, of = found
    return _rebuilt, (array, mark[1], requires_grad, mark[2], of), attributes


def _rebuilt(array: Any, kind: type, requires_grad: bool, persistent: bool, of: type = Tensor) -> Tensor:
    if issubclass(of, Waiting):
        out = _waiting(kind, requires_grad, None, dtypes.of_numpy(array.dtype), persistent)
        out.__class__ = of
        return out
    return _marked(wrapped_as(of, array), kind, requires_grad, persistent)


copyreg.pickle(Tensor, reduced)
copyreg.pickle(Waiting, reduced)

_describe = Tensor.__repr__


def _describe_parameter(tensor: Tensor) -> str:
    """Parameters say that they are such."""
    text = _describe(tensor)
    return f"Parameter containing:\n{text}" if isinstance(tensor, Parameter) else text


Tensor.__repr__ = _describe_parameter  # type: ignore[method-assign, assignment]  # only this module knows parameters
