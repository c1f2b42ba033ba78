"""The array with NumPy's conventions: a class of Lucid's tensors, so whatever is computed of it is of it."""

import copyreg
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from lucid.api import conversion, inplace, shaping
from lucid.core.arrays import empty
from lucid.core.dtypes import as_numpy
from lucid.core.fields import newest, users_attributes
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor, wrapped_as
from lucid.numpy.doors import AnyTensor, Door, NumPyLattice, door_of, port


class Flat:
    """The elements of an array in row-major order: to go through, to read and to write.

    >>> import lucid.numpy as np
    >>> x = np.zeros((2, 2))
    >>> x.flat[1:3] = 5
    >>> x.flat[2], list(x.flat[:2]), len(x.flat)
    (array(5.), [array(0.), array(5.)], 4)
    """

    def __init__(self, array: Any) -> None:
        self.base = array
        self._rest = iter(array.ravel())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._rest)

    def __len__(self) -> int:
        return int(self.base.size)

    def __getitem__(self, key: Any) -> Any:
        return self.base.ravel()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        places = np.arange(len(self))[key]
        self.base[np.unravel_index(places, self.base.shape)] = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.base.ravel(), dtype)

    def copy(self) -> Any:
        """The elements in one dimension."""
        return self.base.flatten()


def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The elements of an array in row-major order, each after its index.

    >>> import lucid.numpy as np
    >>> list(np.ndenumerate(np.array([[1.0, 2.0]])))
    [((0, 0), array(1.)), ((0, 1), array(2.))]
    """
    array = DOOR.array(arr)
    return zip(np.ndindex(*array.shape), Flat(array), strict=True)


class ArrayMethods:
    """What arrays of NumPy and of JAX have alike, where tensors differ."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of the elements, as NumPy has it."""
        return self.np_dtype  # type: ignore[attr-defined]  # of a tensor

    @property
    def size(self) -> int:
        """The number of elements.

        >>> import lucid.numpy as np
        >>> np.zeros((2, 3)).size
        6
        """
        return int(self.numel())  # type: ignore[attr-defined]

    @property
    def strides(self) -> tuple[int, ...]:
        """How many bytes apart neighbours are along each dimension."""
        strides: tuple[int, ...] = self._held_array("strides").strides  # type: ignore[attr-defined]
        return strides

    @property
    def flat(self) -> Any:
        """The elements in row-major order."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[:] = np.resize(value, self.size)

    def item(self, *index: Any) -> Any:
        """One element as a Python number: the only one, or that at an index."""
        if not index:
            return conversion.numpy(self.detach()).item()  # type: ignore[attr-defined]
        place = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        return (self.ravel()[place[0]] if len(place) == 1 else self[place]).item()  # type: ignore[attr-defined, index]

    def astype(self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True, **_: Any) -> Any:
        """The array in another type.

        >>> import lucid.numpy as np
        >>> np.array([1.5, 2.5]).astype(int)
        array([1, 2])
        """
        return conversion.to(self, as_numpy(dtype), copy=copy)

    def copy(self: Any, order: str = "C") -> Any:
        """The same elements in other memory."""
        return self.clone()

    def flatten(self: Any, order: str = "C") -> Any:
        """The elements in one dimension, in other memory."""
        return self.ravel(order).clone()

    def reshape(self: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """The elements in another shape, in the same memory where that is possible.

        >>> import lucid.numpy as np
        >>> np.arange(4).reshape(2, -1)
        array([[0, 1],
               [2, 3]])
        """
        sizes = shape[0] if len(shape) == 1 else shape
        if order == "C" and not copy:
            return shaping.reshape(self, sizes)
        return door_of(self).function(np.reshape)(self, sizes, order=order, copy=copy)

    def transpose(self: Any, *axes: Any) -> Any:
        """The dimensions in reverse order, or in that of `axes`."""
        order = axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes or None
        return door_of(self).function(np.transpose)(self, order)

    def view(self: Any, dtype: Any = None, type: Any = None) -> Any:
        """The same memory, its bytes read as elements of another type."""
        return self[...] if dtype is None or isinstance(dtype, AnyTensor) else Tensor.view(self, as_numpy(dtype))

    def tobytes(self: Any, order: str = "C") -> bytes:
        """The bytes of all elements."""
        return bytes(conversion.numpy(self.detach()).tobytes())

    def __imatmul__(self: Any, other: Any) -> Any:
        return np.matmul(self, other, out=self)

    def __len__(self: Any) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])


class ndarray(ArrayMethods, Tensor, metaclass=AnyTensor):  # type: ignore[misc]  # its methods are NumPy's
    """Lucid's tensor with the conventions of NumPy's array.

    >>> import lucid.numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> x.size, x.dtype, x.mean(), x.dot(x), isinstance(x, np.ndarray)
    (3, dtype('float64'), array(2.), array(14.), True)
    """

    __slots__ = ()
    passed_on = True
    lattice = NumPyLattice()
    door: Door

    def __init__(self, shape: Any, dtype: Any = float) -> None:
        sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        self._array, self._requires_grad = empty(sizes, as_numpy(dtype)), False
        self._grad = self._node = self._meta = None
        self._born, self._marked = newest(), False

    def fill(self, value: Any) -> None:
        """Write one number into all elements."""
        inplace.fill_(self, value)

    def sort(  # type: ignore[override]  # as NumPy has it
        self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
    ) -> None:
        """Sort the elements along an axis where they stand."""
        inplace.copy_(self, door_of(self).function(np.sort)(self, axis, kind, stable=stable))

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Move the elements so that the one at `kth` is where sorting would put it."""
        inplace.copy_(self, door_of(self).function(np.partition)(self, kth, axis))

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:  # type: ignore[override]  # as NumPy has it
        """Write values to places in row-major order."""
        door_of(self).function(np.put)(self, indices, values, mode)

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Refused: whoever shows this memory would not notice. `np.resize` makes a new array."""
        raise ValueError("resize: an array cannot change its size where it stands; use np.resize, or reshape")

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Say whether the elements may be written."""
        storage_of(self)
        if write is not None:
            self._array.setflags(write=write)

    @property
    def flags(self) -> Any:
        """What NumPy knows about the memory."""
        return self._held_array("flags").flags

    @property
    def ctypes(self) -> Any:
        """The memory as `ctypes` sees it."""
        return self._held_array("ctypes").ctypes

    @property
    def base(self) -> Any:
        """The array whose memory this one shows, or None."""
        return self._base

    def __repr__(self) -> str:
        if self._level or self.requires_grad:
            return Tensor.__repr__(self).replace("Tensor(", "array(", 1).replace("dtype=lucid.", "dtype=")
        return repr(np.asarray(self._array))

    def __str__(self) -> str:
        return str(np.asarray(self._array)) if not self._level else repr(self)


def by_function(door: Door, name: str) -> Callable[..., Any]:
    """A method by the function of NumPy's that has its name."""
    function = door.function(getattr(np, name))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{door.name}.{name}` of this array."
    return method


def give_methods(door: Door) -> None:
    """Give a class those methods of NumPy's arrays for which NumPy also has functions."""
    kind = door.kind
    for base in ArrayMethods.__dict__.keys() - {"__slots__", "__module__", "__doc__", "__annotations__"}:
        if base not in kind.__dict__:
            setattr(kind, base, ArrayMethods.__dict__[base])
    for name in dir(np.ndarray):
        is_method = callable(getattr(np.ndarray, name)) and callable(getattr(np, name, None))
        if is_method and name not in kind.__dict__ and not name.startswith("_"):
            setattr(kind, name, by_function(door, name))


DOOR = Door("numpy", ndarray, keeps_scalars=True)
ndarray.door = DOOR
give_methods(DOOR)
port(ndarray)


def reduced(array: Any) -> Any:
    contents = type(array), array._concrete("pickling").copy("K"), array._requires_grad
    return _rebuilt, contents, users_attributes(array)


def _rebuilt(kind: Any, array: Any, requires_grad: bool) -> Any:
    out = wrapped_as(kind, array)
    out._requires_grad = requires_grad
    return out


copyreg.pickle(ndarray, reduced)
