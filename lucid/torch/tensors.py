"""The tensor with PyTorch's conventions: a class of Lucid's tensors, so whatever is computed of it is of it."""

import copyreg
from functools import wraps
from typing import Any, Self

import numpy as np

import lucid
from lucid.api import conversion
from lucid.arguments.dims import shape_from
from lucid.backends.numpy.precision import NotFiniteError
from lucid.core import levels
from lucid.core.arrays import empty
from lucid.core.dtypes import as_dtype, as_numpy, default_float
from lucid.core.fields import newest
from lucid.ir.meta import Meta
from lucid.nn.parameter import Parameter, Waiting, reduced
from lucid.ops.sparse.layout import named
from lucid.ops.sparse.tensor import Sparse
from lucid.torch import printing
from lucid.torch.element_types import typed as of_front_door
from lucid.torch.sizes import Size, size_of, type_of
from lucid.utils.storages import TypedStorage, UntypedStorage

Plain = lucid.Tensor


class memory_format:
    """In which order the dimensions of an image lie: accepted as a hint where PyTorch takes it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class _AnyTensor(type):
    """Every tensor of Lucid is one for PyTorch's programs: those of transforms, and those made by `lucid` itself."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Plain) if cls is Tensor else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Plain) if cls is Tensor else type.__subclasscheck__(cls, subclass)


class Tensor(Plain, metaclass=_AnyTensor):
    """Lucid's tensor with the conventions of PyTorch.

    Called with sizes it is a tensor of that shape with whatever was in memory; with data, the data as floats.

    >>> import lucid.torch as torch
    >>> torch.Tensor(2, 3).shape, torch.Tensor([1, 2])
    (torch.Size([2, 3]), tensor([1., 2.]))
    """

    __slots__ = ()
    passed_on = bytes_are_masks = True

    def __init__(self, *data: Any, device: Any = None) -> None:
        lucid.device("cpu" if device is None else device)
        made = _legacy(data, default_float())
        self._array, self._requires_grad = made._array, False
        self._grad = self._node = self._meta = None
        self._born, self._marked = newest(), made._marked

    shape: Any = property(size_of, doc="The size of each dimension, as a `torch.Size`.")
    dtype: Any = property(type_of, doc="The type of the elements, such as `torch.float32`.")

    @property
    def data(self) -> "Plain":
        """The same memory without history; writes through it are not counted, so no gradient notices them.

        >>> import lucid.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> loss = (x * x).sum()
        >>> _ = x.data.mul_(3)
        >>> loss.backward()
        >>> x.grad
        tensor([6., 6.])
        """
        return self.detach() if levels.active.get() else self.shell()

    @data.setter
    def data(self, value: "Plain") -> None:
        Plain.data.fset(self, value)  # type: ignore[attr-defined]  # a property

    def numpy(self, *, force: bool = False) -> Any:
        """The elements as a NumPy array over the same memory; a tensor that requires grad must be detached first.

        >>> import lucid.torch as torch
        >>> torch.ones(2).numpy()
        array([1., 1.], dtype=float32)
        >>> torch.ones(2, requires_grad=True).numpy()
        Traceback (most recent call last):
        RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
        """
        if force:
            return conversion.numpy(self.detach(), force=True)
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return conversion.numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.numpy()  # raises
        return conversion.to_array(self, dtype, copy)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class of tensors of this type; with `dtype`, the tensor in that type.

        >>> import lucid.torch as torch
        >>> torch.ones(2).type(), torch.ones(2).type(torch.LongTensor)
        ('torch.FloatTensor', tensor([1, 1]))
        """
        if dtype is None:
            return conversion.type(self).replace("lucid.", "torch.")
        return conversion.type(self, dtype.dtype if isinstance(dtype, Typed) else dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Self:
        """Refused: there is no GPU."""
        lucid.device("cuda")
        return self

    xpu = ipu = mtia = cuda

    def to(self, *args: Any, memory_format: Any = None, **kwargs: Any) -> Any:
        """The tensor in another type or on another device; `memory_format` is a hint, and nothing follows from it."""
        try:
            return conversion.to(self, *args, **kwargs)
        except NotFiniteError:
            return _least(conversion.to, self, *args, **kwargs)

    def clone(self, *, memory_format: Any = None) -> Any:
        """A copy; `memory_format` is a hint."""
        return Plain.clone(self)

    def contiguous(self, memory_format: Any = None) -> Any:
        """The tensor in row-major order; `memory_format` is a hint."""
        return Plain.contiguous(self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in row-major order, the only one there is."""
        return Plain.is_contiguous(self)

    def pin_memory(self, device: Any = None) -> Self:
        """The tensor itself: there is no other memory to copy to."""
        return self

    def share_memory_(self) -> Self:
        """The tensor itself: other processes get copies."""
        return self

    def as_subclass(self, cls: Any) -> Any:
        """The same tensor as one of another class of tensors."""
        out = self.alias() if hasattr(self, "alias") else self.view(self.shape)
        out.__class__ = cls
        return out

    def dim_order(self, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dimensions from the outermost to the innermost in memory.

        >>> import lucid.torch as torch
        >>> torch.ones(2, 3).t().dim_order()
        (1, 0)
        """
        return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))

    def untyped_storage(self) -> Any:
        """The memory of the tensor: its address and size in bytes."""
        return UntypedStorage(self)

    def storage(self) -> Any:
        """The memory of the tensor, in elements."""
        return TypedStorage(self)

    def const_data_ptr(self) -> int:
        """The address of the first element."""
        return self.data_ptr()

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """The tensor itself, which is dense, or in another type."""
        return self if dtype is None else self.to(dtype)

    def _removed(self, *args: Any, **kwargs: Any) -> Any:
        """What PyTorch has removed: it raises there too."""
        raise RuntimeError("this method was removed from PyTorch; use torch.linalg (eig, eigh, lstsq, solve)")

    eig = symeig = lstsq = solve = reinforce = _removed
    grad_dtype = property(lambda self: self.dtype, doc="The type of gradients: that of the tensor.")

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode, or shows the memory of one that was."""
        return bool(self._marked)

    def sparse_dim(self) -> int:
        """How many dimensions are sparse: of a dense tensor, none."""
        return 0

    def dense_dim(self) -> int:
        """How many dimensions are dense: of a dense tensor, all."""
        return self.ndim

    def _of_sparse_tensors(self, *args: Any, **kwargs: Any) -> Any:
        """What only sparse tensors have: dense ones refuse it, as in PyTorch."""
        raise RuntimeError(
            "this is for sparse tensors, and the tensor is dense (torch.strided); to_sparse() makes it sparse"
        )

    coalesce = is_coalesced = indices = values = crow_indices = col_indices = _of_sparse_tensors
    ccol_indices = row_indices = sparse_resize_ = sparse_resize_and_clear_ = _of_sparse_tensors

    def smm(self, mat: "Plain") -> Any:
        """`torch.smm`: a product as a sparse tensor."""
        return (self @ mat).to_sparse()

    sspaddmm = _of_sparse_tensors

    def in_order(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments of a method whose older form has a factor first, which PyTorch still takes, as now: it comes by name.

        >>> import lucid.torch as torch
        >>> torch.ones(2).add_(0.5, torch.ones(2)), torch.ones(2).addcmul(2, torch.ones(2), torch.ones(2))
        (tensor([1.5000, 1.5000]), tensor([3., 3.]))
        """
        count, keyword = _OLDER.get(name.rstrip("_"), (0, ""))
        is_older = len(args) == count and isinstance(args[0], (int, float)) and isinstance(args[1], Plain)
        return (args[1:], {**kwargs, keyword: args[0]}) if is_older else (args, kwargs)

    def hash_tensor(self, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
        """`torch.hash_tensor`: the bits of all elements, put together by exclusive or."""
        array = self.detach().numpy()
        kind = np.int64 if array.dtype.kind in "biu" else np.float64
        wide = np.ascontiguousarray(array.astype(kind)).view(np.uint64)
        dims = (dim,) if type(dim) is int else tuple(dim) or None
        reduce: Any = np.bitwise_xor.reduce
        return adopted(Plain._wrap(np.asarray(reduce(wide, axis=dims, keepdims=keepdim))))

    def storage_type(self) -> Any:
        """The class of what `storage()` gives."""
        return TypedStorage

    def module_load(self, other: "Plain", assign: bool = False) -> Any:
        """What a module takes from a state in place of this tensor: `other`, or this one with its elements.

        >>> import lucid.torch as torch
        >>> torch.zeros(2).module_load(torch.ones(2))
        tensor([1., 1.])
        """
        return other if assign else self.copy_(other).detach()

    def is_set_to(self, tensor: "Plain") -> bool:
        """Whether two tensors are the same elements in the same memory.

        >>> import lucid.torch as torch
        >>> x = torch.ones(3)
        >>> x.is_set_to(x.view(3)), x.is_set_to(x[1:])
        (True, False)
        """
        return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())

    def is_distributed(self) -> bool:
        """Whether the tensor is spread over processes: no."""
        return False

    def record_stream(self, stream: Any) -> None:
        """Nothing to do: there are no streams."""

    def resize(self, *sizes: Any) -> Any:
        """The older name of a copy in another size."""
        return self.clone().resize_(*sizes)

    def resize_as(self, tensor: "Plain") -> Any:
        """A copy in the size of another tensor."""
        return self.resize(*tensor.shape)

    def unsafe_split_with_sizes(self, split_sizes: Any, dim: int = 0) -> Any:
        """The parts of the given sizes."""
        return self.split_with_sizes(split_sizes, dim)

    is_xla = is_xpu = is_ipu = is_maia = is_mtia = is_vulkan = is_mkldnn = property(
        lambda self: False, doc="Whether such a device has the elements: no."
    )
    is_sparse_csr = property(lambda self: False, doc="Whether rows are compressed: never.")
    name = property(lambda self: None, doc="Tensors have no names.")
    volatile = property(lambda self: False, doc="As tensors from before PyTorch 0.4.")
    layout = property(lambda self: named("strided", "torch"), doc="How the elements are stored.")
    is_cpu = property(lambda self: True, doc="Whether the elements are in the processor's memory.")
    is_mps = property(lambda self: False, doc="Whether Apple's GPU has the elements.")
    is_nested = property(lambda self: False, doc="Whether rows have lengths of their own: never.")

    def __repr__(self) -> str:
        return printing.describe(self)

    def __reversed__(self) -> Any:
        """The tensor with its first dimension in reverse."""
        return self.flip(0) if self.ndim else self

    def __format__(self, spec: str) -> str:
        """A tensor without dimensions is formatted as the number that it is."""
        return repr(self) if self.ndim or isinstance(self, Parameter) else format(self.item(), spec)


copyreg.pickle(Tensor, reduced)

# Methods with an older form: how many arguments that has, the first of which is now given by this name.
_OLDER = {"add": (2, "alpha"), "sub": (2, "alpha"), "addcmul": (3, "value"), "addcdiv": (3, "value")}


def has_older_form(value: Any) -> bool:
    """Whether something is a function that PyTorch still takes with its factor first: `torch.add(x, 2, y)`."""
    return getattr(value, "__name__", None) in _OLDER and getattr(value, "__module__", None) == "lucid.ops.binary"


def taking_older_form(function: Any) -> Any:
    """Such a function in both forms, at the price of the one that it was made of.

    >>> import lucid.torch as torch
    >>> torch.add(torch.ones(2), 2, torch.ones(2)), torch.sub(torch.ones(2), torch.ones(2), alpha=3)
    (tensor([3., 3.]), tensor([-2., -2.]))
    """
    plain, name = function.__wrapped__, function.__name__
    most = _OLDER[name][0]  # arguments of the form of today

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) <= most:
            return plain(*args)
        if len(args) > most:
            others, kwargs = Tensor.in_order(args[0], name, args[1:], kwargs)
            args = (args[0], *others)
        return function(*args, **kwargs)

    return call


def _in_both_forms(name: str) -> Any:
    plain = getattr(Plain, name)

    @wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args, kwargs = self.in_order(name, args, kwargs)
        return plain(self, *args, **kwargs)

    return method


def _least(convert: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """A conversion to integers by which nan and infinities become the least one, as in PyTorch on most processors.

    >>> import lucid.torch as torch
    >>> torch.tensor([1.5, float("-inf")]).int()
    tensor([          1, -2147483648], dtype=torch.int32)
    """
    kind = convert(tensor.new_zeros(()), *args, **kwargs).dtype
    # Narrow integers are the low bits of wider ones, of which the least has none.
    least = float(lucid.iinfo(kind).min) if kind.itemsize >= 4 else 0.0
    wide = tensor if tensor.itemsize >= 4 else Plain.float(tensor)
    return convert(Plain.nan_to_num(wide, least, least, least), *args, **kwargs)


def _to_least(convert: Any) -> Any:
    @wraps(convert)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return convert(self, *args, **kwargs)
        except NotFiniteError:
            return _least(convert, self, *args, **kwargs)

    return method


for _name in ("byte", "char", "short", "int", "long", "type"):
    setattr(Tensor, _name, _to_least(getattr(Tensor, _name)))
for _name in _OLDER:
    setattr(Tensor, _name, _in_both_forms(_name))


class Awaiting(Waiting, Tensor):
    """The tensor without a shape of a lazy layer."""

    __slots__ = ()
    becomes = Tensor


copyreg.pickle(Awaiting, reduced)


def _legacy(data: tuple[Any, ...], kind: Any) -> "Plain":
    """What the old constructors make: of sizes whatever is in memory, of data a copy in their type."""
    if len(data) == 1 and not isinstance(data[0], (int, Size)):
        return lucid.tensor(data[0], dtype=as_dtype(kind))
    sizes = shape_from(data, "Tensor") if data else (0,)
    return Plain._wrap(empty(sizes, as_numpy(kind)))


def adopted(value: Any) -> Any:
    """A tensor that was just made, as one of the front door; nests of them too."""
    if type(value) is Plain:
        value.__class__ = Tensor
    elif type(value) is Waiting:
        value.__class__ = Awaiting
    elif isinstance(value, Sparse):
        adopted(value._values())
    elif type(value) is Meta:
        adopted(value._array)
    elif isinstance(value, (list, tuple)):
        for v in value:
            adopted(v)
    elif isinstance(value, dict):
        adopted(list(value.values()))
    return value


class Typed(type):
    """The type of FloatTensor and its relatives: constructors, and questions about the type of a tensor."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Plain) and instance.dtype == cls.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        lucid.device("cpu" if device is None else device)
        return adopted(_legacy(data, cls.dtype))


def typed() -> dict[str, Typed]:
    """FloatTensor, LongTensor and the like, by name: one for each method that converts to a type."""
    found = {}
    probe = lucid.zeros(0, dtype=lucid.float64)
    for convert in conversion.CONVERTERS.values():
        own = convert(probe)
        name = conversion.type(own).rpartition(".")[2]
        found[name] = Typed(
            name,
            (),
            {"dtype": of_front_door(own.dtype), "__doc__": f"Tensors of {own.dtype.name}, as PyTorch once named them."},
        )
    return found
