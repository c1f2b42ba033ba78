"""The tensor with Sorix's conventions: a class of Lucid's tensors, so whatever is computed of it is of it.

Each operation is one of Lucid's. What Sorix adds stands in `operation`: a result knows the name and the operands of
what made it, and keeps its gradient.
"""

import copyreg
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Self

import numpy as np

import lucid
from lucid.api import conversion
from lucid.autograd import is_grad_enabled as is_grad_enabled
from lucid.autograd import no_grad as no_grad
from lucid.autograd import set_grad_enabled as set_grad_enabled
from lucid.core.fields import newest
from lucid.core.hooks import hooks_of
from lucid.core.primitive import edge_of
from lucid.core.tensor import wrapped_as
from lucid.numpy.doors import NumPyLattice
from lucid.tape.engine import pull_back
from sorix.cupy.cupy import _cupy_available as _cupy_available
from sorix.devices import CPU, get_xp, present
from sorix.devices import Device as Device
from sorix.element_types import DType as DType
from sorix.element_types import as_numpy, bool_, float16, float32, float64, int16, int32, int64, typed, uint8

Plain = lucid.Tensor
_WRITTEN = "In-place operations are not allowed on a tensor that requires grad; use `with sorix.no_grad():`, or data"
_LEAF = "a leaf Variable that requires grad is being used in an in-place operation; write to its data"


class Size(tuple[int, ...]):
    """A shape.

    >>> import sorix
    >>> sorix.zeros(2, 3).shape
    sorix.Size([2, 3])
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"sorix.Size({list(self)})"


class Count(int):
    """A number of elements: a number in Sorix, and the result of a call in Lucid, whose functions take it as well."""

    def __call__(self) -> int:
        return int(self)


def operation(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Lucid's as an operation of Sorix's: arrays and lists are operands too, and results know theirs."""

    @wraps(function)
    def call(*operands: Any, **options: Any) -> Any:
        out = function(*operands, **options)
        return noted(out, name, operands)

    call.__name__ = call.__qualname__ = name
    return call


def noted(out: Any, name: str, operands: Any) -> Any:
    """A result, or several, such that it knows what it was made of and keeps its gradient."""
    if isinstance(out, list | tuple):
        return type(out)(noted(o, name, operands) for o in out)
    if isinstance(out, Tensor) and out._node is not None and not any(out is o for o in operands):
        out._aux = (name, frozenset(o for o in operands if isinstance(o, Plain)))
        hooks_of(out._node).retain = weakref.ref(out)
    return out


def operand(value: Any) -> Any:
    """What stands beside a tensor, as Lucid takes it."""
    return np.asarray(value) if isinstance(value, list | tuple) else value


def one_shape(sizes: Any) -> tuple[int, ...]:
    """Sizes that are given one by one, or as one sequence."""
    if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
        sizes = sizes[0]
    return tuple(int(n) for n in sizes)


def array_of(data: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """The array of a new tensor: that which is given, or one made of numbers, floats of 32 bits."""
    kind = as_numpy(dtype)
    if isinstance(data, Plain):
        return np.array(data.detach()._held_array("Tensor"), kind)
    if isinstance(data, np.ndarray):
        return np.asarray(data, kind)
    if hasattr(data, "to_numpy"):  # of pandas
        return np.asarray(data.to_numpy(), kind)
    array = np.asarray(data, kind)
    return array.astype(np.float32) if kind is None and array.dtype.kind == "f" else array


class _AnyTensor(type):
    """Tensors of transforms are tensors too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is Tensor and bool(getattr(instance, "_level", 0)))


class Tensor(Plain, metaclass=_AnyTensor):
    """Lucid's tensor with the conventions of Sorix.

    Arrays are shared and keep their type; numbers become floats of 32 bits or integers of 64.

    >>> import numpy as np
    >>> import sorix
    >>> x = sorix.Tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad, y.grad, x.numel, x.data
    (tensor([2., 4.]), tensor(1.), 2, array([1., 2.], dtype=float32))
    """

    __slots__ = ()
    passed_on = True
    lattice = NumPyLattice()

    def __init__(self, data: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> None:
        present(device)
        self._array = array_of(data, dtype)
        self._held, self._requires_grad = bool(requires_grad), bool(requires_grad)
        self._grad = self._node = self._meta = self._aux = None
        self._born, self._marked = newest(), False

    # Attributes.

    @property
    def data(self) -> Any:
        """The array itself. Writes to it are seen by nobody; assigning replaces it."""
        return self._held_array("data")

    @data.setter
    def data(self, value: Any) -> None:
        self._meta, self._array = None, np.asarray(value.data if isinstance(value, Tensor) else value)

    @property
    def grad(self) -> Any:
        """The gradient, of every tensor on the way of a backward pass; arrays can be assigned."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, Plain):
            kind = self._array.dtype if self._array.dtype.kind == "f" else None
            value = wrapped_as(Tensor, np.asarray(value, kind))
        self._grad = value

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded."""
        return bool(self._requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            self._node = None
        self._held, self._requires_grad = True, bool(value)

    shape: Any = property(lambda self: Size(self._array.shape), doc="The size of each dimension.")
    dtype: Any = property(lambda self: typed(self._array.dtype), doc="The type of the elements.")
    device: Any = property(lambda self: CPU, doc="Where the elements are, which equals the name of that place.")
    xp: Any = property(lambda self: np, doc="The module of the array.")
    numel: Any = property(lambda self: Count(self._array.size), doc="The number of elements.")
    size_prop: Any = numel

    @property
    def _op(self) -> str:
        """The name of the operation that made this tensor."""
        return "" if self._aux is None else str(self._aux[0])

    @property
    def _prev(self) -> set[Any]:
        """What the operation was given; nothing once a backward pass has freed the graph."""
        return set() if self._aux is None else set(self._aux[1])

    def _backward(self) -> None:
        """Add what the gradient of this tensor makes of it to the gradients of the operands."""
        if self._grad is None or self._aux is None:
            return
        owners = {id(edge_of(t)): t for t in self._aux[1] if t._requires_grad}
        pending = {self._node._seq: (self._node, self._grad._array)}
        while pending:
            node, ct = pending.pop(max(pending))
            for edge, part in zip(node.edges, pull_back(node, ct), strict=False):
                if edge is None or part is None:
                    continue
                if id(edge) in owners:
                    found = wrapped_as(Tensor, part)
                    owner = owners[id(edge)]
                    owner._grad = found if owner._grad is None else owner._grad + found
                else:
                    known = pending.get(edge._seq)
                    pending[edge._seq] = (edge, part if known is None else known[1] + part)

    # Arithmetic.

    def sum(self, axis: Any = None, dim: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The sum of all elements, or along axes."""
        return _SUM(self, axis if dim is None else dim, keepdims)

    def mean(self, axis: Any = None, dim: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The mean of all elements, or along axes."""
        whole = conversion.to(self, float64) if self._array.dtype.kind in "biu" else self
        return noted(lucid.mean(whole, axis if dim is None else dim, keepdims), "mean", (self,))

    def softmax(self, axis: int = -1, dim: int | None = None) -> Any:  # type: ignore[override]
        """exp(x) / Σ exp(x) along an axis."""
        return _SOFTMAX(self, axis if dim is None else dim)

    def pow(self, n: Any) -> Any:
        """The elements to the power of a number."""
        assert isinstance(n, int | float), "only supporting int/float powers"
        return _POW(self, n)

    __pow__ = pow

    def abs(self) -> Any:
        """Absolute values, which require no grad; those of `sorix.abs` do."""
        with no_grad():
            return lucid.abs(self)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        """The elements, but not less than `min` and not more than `max`."""
        return _CLAMP(self, min, max)

    # Shape.

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape."""
        return _RESHAPE(self, one_shape(shape))

    view = reshape

    def transpose(self, *axes: Any) -> Any:
        """The dimensions in reverse order, or in that of `axes`, as NumPy has it."""
        order = one_shape(axes) if axes and axes[0] is not None else tuple(reversed(range(self.ndim)))
        return _PERMUTE(self, order)

    def permute(self, *dims: Any) -> Any:
        """The dimensions in another order."""
        return _PERMUTE(self, one_shape(dims))

    T = property(lambda self: self.transpose(), doc="The dimensions in reverse order.")

    def t(self) -> Any:
        """A matrix with its dimensions exchanged."""
        if self.ndim > 2:
            raise RuntimeError(f"t() expects a tensor of at most 2 dimensions, not {self.ndim}")
        return self.transpose()

    def flatten(self) -> Any:  # type: ignore[override]
        """The elements in one dimension."""
        return self.reshape(-1)

    def unsqueeze(self, axis: int) -> Any:
        """The tensor with one more dimension, of size 1."""
        return _UNSQUEEZE(self, axis)

    expand_dims = unsqueeze  # type: ignore[assignment]

    def squeeze(self, axis: Any = None) -> Any:
        """The tensor without dimensions of size 1, or without the one given."""
        if axis is None:
            return self.reshape([n for n in self._array.shape if n != 1])
        return self.reshape(np.squeeze(self._array, axis).shape)

    def repeat(self, *sizes: Any) -> Any:
        """Copies of the tensor beside each other, so many along each dimension."""
        return _REPEAT(self, one_shape(sizes))

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The slices along a dimension."""
        return _UNBIND(self, dim)

    def split(self, size_or_sections: Any, dim: int = 0) -> list[Any]:  # type: ignore[override]
        """Pieces of one size, or of the sizes given."""
        return list(_SPLIT(self, size_or_sections, dim))

    def chunk(self, chunks: int, dim: int = 0) -> list[Any]:  # type: ignore[override]
        """So many pieces, the last of which may be smaller."""
        return list(_CHUNK(self, chunks, dim))

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one entry of it."""
        return self.shape if dim is None else self._array.shape[dim]

    # Types, devices, and other forms of the elements.

    def astype(self, dtype: Any) -> Any:  # type: ignore[override]
        """The elements in another type, outside of the graph; the flag `requires_grad` is kept."""
        return Tensor(self.data.astype(as_numpy(dtype)), requires_grad=self._requires_grad)

    def float(self) -> Any:
        """The elements as floats of 32 bits, outside of the graph."""
        return self.astype(float32)

    def double(self) -> Any:
        """The elements as floats of 64 bits, outside of the graph."""
        return self.astype(float64)

    def half(self) -> Any:
        """The elements as floats of 16 bits, outside of the graph."""
        return self.astype(float16)

    def int(self) -> Any:
        """The elements as integers of 32 bits, outside of the graph."""
        return self.astype(int32)

    def long(self) -> Any:
        """The elements as integers of 64 bits, outside of the graph."""
        return self.astype(int64)

    def bool(self) -> Any:
        """Which elements are not 0."""
        return self.astype(bool_)

    def detach(self) -> Any:
        """A copy that requires no grad."""
        return Tensor(self.data.copy())

    def item(self) -> Any:
        """The only element as a number."""
        if self._array.size != 1:
            raise ValueError(f"item() needs one element; this tensor has {self._array.size}")
        return self._array.item()

    def numpy(self) -> Any:  # type: ignore[override]
        """The array itself."""
        return self.data

    def to_numpy(self, dtype: Any = None, copy: Any = False) -> Any:  # type: ignore[override]
        """The elements as an array, in another type or in memory of its own if wanted."""
        return np.array(self.data, as_numpy(dtype)) if copy else np.asarray(self.data, as_numpy(dtype))

    def to(self, device: Any) -> Self:
        """The tensor itself, on a device: the CPU. Lucid's own functions give a type, and get the tensor in it."""
        if isinstance(device, np.dtype | DType):
            return conversion.to(self, device)  # type: ignore[return-value]
        if str(device).partition(":")[0] not in ("cpu", "cuda"):
            raise ValueError(f"Invalid device type: {device}")
        if Device(device).type == "cuda":
            raise RuntimeError("CuPy is not installed, and so tensors live on the CPU")
        return self

    def cpu(self) -> Self:
        """The tensor itself."""
        return self

    def cuda(self) -> Self:
        """Refused: there is no GPU."""
        return self.to("cuda")

    gpu = cuda

    # Writes. Nothing tracks them.

    def _written(self, ufunc: Any, other: Any) -> Self:
        if self._requires_grad and ufunc is not np.divide and is_grad_enabled():
            raise RuntimeError(_WRITTEN)
        other = other.data if isinstance(other, Tensor) else other
        ufunc(self.data, other, out=self.data, casting="unsafe")
        return self

    def add_(self, other: Any) -> Self:
        """Add to the elements where they stand."""
        return self._written(np.add, other)

    def sub_(self, other: Any) -> Self:
        """Subtract from the elements where they stand."""
        return self._written(np.subtract, other)

    def mul_(self, other: Any) -> Self:
        """Multiply the elements where they stand."""
        return self._written(np.multiply, other)

    def div_(self, other: Any) -> Self:
        """Divide the elements where they stand."""
        return self._written(np.divide, other)

    def fill_(self, value: Any) -> Self:
        """Write one number into all elements."""
        return self._written(_second, value)

    def zero_(self) -> Self:
        """Write 0 into all elements."""
        return self.fill_(0)

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Limit the elements where they stand."""
        if self._requires_grad:
            raise RuntimeError(_LEAF)
        np.clip(self.data, min, max, out=self.data)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._requires_grad:
            raise RuntimeError(_LEAF)
        self.data[_places(key)] = value.data if isinstance(value, Tensor) else value

    # Python's protocol.

    def __getitem__(self, key: Any) -> Any:
        return noted(lucid.Tensor.__getitem__(self, _places(key)), "getitem", (self,))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __bool__(self) -> Any:
        return self._array.item() != 0 if self._array.size == 1 else self._array.size > 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.data, dtype) if copy else np.asarray(self.data, dtype)

    def __hash__(self) -> Any:
        return id(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuilt, (self.data.copy(), self._requires_grad)

    def __repr__(self) -> str:
        text = f"tensor({np.array2string(self.data, separator=', ', prefix='tensor(')}"
        if self.dtype in (float64, int32, bool_):
            text += f", dtype={self.dtype}"
        return text + (", requires_grad=True)" if self._requires_grad else ")")

    __str__ = __repr__

    # Derivatives.

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False) -> None:  # type: ignore[override]
        """Add the derivatives of this tensor to the gradients of all that it depends on.

        Without `gradient` it must have one element.
        """
        if not self._requires_grad:
            return
        if gradient is None and self._array.size != 1:
            raise RuntimeError(f"grad can be implicitly created only for scalar outputs, not for {self.shape}")
        seed = lucid.ones_like(self) if gradient is None else seed_of(gradient, self)
        keep = create_graph if retain_graph is None else retain_graph
        lucid.autograd.backward(self, seed, keep, create_graph)
        if not keep:
            _forget(self)


copyreg.pickle(Tensor, lambda t: t.__reduce_ex__(2))


def _rebuilt(array: Any, requires_grad: bool) -> Tensor:
    return Tensor(array, requires_grad=requires_grad)


def _second(array: Any, value: Any, out: Any, casting: str) -> None:
    np.copyto(out, value, casting="unsafe")


def _places(key: Any) -> Any:
    """An index in which tensors are arrays."""
    if isinstance(key, tuple):
        return tuple(_places(k) for k in key)
    return key.data if isinstance(key, Tensor) else key


def _forget(root: Tensor) -> None:
    """Drop what results know of their operands, from a root on."""
    frontier = [root]
    while frontier:
        tensor = frontier.pop()
        if type(tensor) is Tensor and tensor._aux is not None:
            frontier.extend(tensor._aux[1])
            tensor._aux = None


def seed_of(value: Any, root: Tensor) -> Tensor:
    """A gradient that is given for a tensor, as a tensor of its type."""
    kind = root._array.dtype if root._array.dtype.kind == "f" else None
    seed = value if isinstance(value, Plain) else Tensor(np.asarray(value, kind))
    if tuple(seed.shape) != root._array.shape:
        raise ValueError(f"the shape {tuple(seed.shape)} of the gradient is not the tensor's shape {root._array.shape}")
    return seed if kind is None or seed.np_dtype == kind else lucid.Tensor.to(seed, kind)  # type: ignore[return-value]


def tensor(data: Any, device: Any = "cpu", requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor of numbers, lists, a data frame, another tensor, or an array, which is shared.

    >>> import numpy as np
    >>> import sorix
    >>> array = np.zeros(2)
    >>> x = sorix.tensor(array)
    >>> array[0] = 7.0
    >>> x, sorix.tensor([1.0, 2.0], requires_grad=True)
    (tensor([7., 0.], dtype=sorix.float64), tensor([1., 2.], requires_grad=True))
    """
    return Tensor(data, device, requires_grad, dtype)


_SUM = operation("sum", lucid.sum)
_SOFTMAX, _POW, _CLAMP = (operation(n, getattr(lucid, n)) for n in ("softmax", "pow", "clamp"))
_RESHAPE, _PERMUTE, _UNSQUEEZE = (operation(n, getattr(lucid, n)) for n in ("reshape", "permute", "unsqueeze"))
_REPEAT, _UNBIND = operation("repeat", Plain.repeat), operation("unbind", lucid.unbind)
_SPLIT, _CHUNK = operation("split", lucid.split), operation("chunk", lucid.chunk)


def _give_operators() -> None:
    """Operators and methods of two operands, and functions of one."""
    signs = {"add": lucid.add, "sub": lucid.sub, "mul": lucid.mul, "truediv": lucid.div, "matmul": lucid.matmul}
    for sign, function in signs.items():
        name = "div" if sign == "truediv" else sign
        setattr(Tensor, name, _binary(name, function))
        setattr(Tensor, f"__{sign}__", _binary(name, function))
        setattr(Tensor, f"__r{sign}__", _binary(name, function, swapped=True))
    Tensor.__rpow__ = _binary("pow", lucid.pow, swapped=True)  # type: ignore[method-assign]
    for name in ("tanh", "sigmoid"):
        setattr(Tensor, name, operation(name, getattr(lucid, name)))
    Tensor.__neg__ = operation("neg", lucid.neg)  # type: ignore[method-assign]
    Tensor.__abs__ = operation("abs", lucid.abs)  # type: ignore[method-assign]
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", _comparison(getattr(lucid, name)))


def _binary(name: str, function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    call = operation(name, function)

    def method(self: Any, other: Any) -> Any:
        return call(operand(other), self) if swapped else call(self, operand(other))

    method.__name__ = method.__qualname__ = name
    return method


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Any, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else function(self, operand(other))

    return compare


_give_operators()

__all__ = [
    "DType", "Device", "Size", "Tensor", "bool_", "float16", "float32", "float64", "get_xp", "int16", "int32", "int64",
    "is_grad_enabled", "no_grad", "set_grad_enabled", "tensor", "uint8",
]  # fmt: skip
