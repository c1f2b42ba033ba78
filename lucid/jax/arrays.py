"""The array with JAX's conventions: a class of Lucid's tensors that cannot be written, with types of 32 bits."""

import copyreg
from functools import reduce
from typing import Any

import numpy as np

from lucid.api import conversion
from lucid.api.methods import operator_table
from lucid.arguments import promotion
from lucid.core import dtypes
from lucid.core.fields import TensorFields
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, wrapped_as
from lucid.interop.numpy_updates import updated
from lucid.jax.config import CPU, canonical, is_wide
from lucid.numpy.arrays import ArrayMethods, give_methods, reduced
from lucid.numpy.doors import KNOWN, AnyTensor, Door, port
from lucid.ops import binary

# What JAX's functions take beside NumPy's arguments: hints to a compiler.
_HINTS = ("precision", "preferred_element_type", "out_sharding", "promote_integers", "device")


class JaxLattice:
    """JAX's promotion: floats absorb integers of any width, and Python's numbers follow arrays of all ranks."""

    def result_type(self, kinds: list[Any], numbers: list[Any]) -> np.dtype[Any]:
        strong = [canonical(k) for k in kinds]
        strong += [canonical(n.dtype) for n in numbers if isinstance(n, np.generic)]
        weak = [n for n in numbers if not isinstance(n, np.generic)]
        found = reduce(promotion.promote_pair, strong) if strong else None
        for number in weak:
            own = canonical(np.dtype(type(number)))
            if found is None or dtypes.category(own) > dtypes.category(found):
                is_float = found is not None and dtypes.category(found) == dtypes.CATEGORY_FLOAT
                found = dtypes.complex_of(found) if is_float and own.kind == "c" and found is not None else own
        assert found is not None
        return found

    def array(self, value: Any, kinds: list[Any]) -> Any:
        """A number follows the others, of types `kinds`; a list has a type of its own."""
        found = np.asarray(value)
        return found.astype(canonical(found.dtype) if found.ndim else self.result_type(kinds, [value]))

    def floating(self, kind: np.dtype[Any], name: str) -> np.dtype[Any]:
        return np.dtype(np.float64 if is_wide() and kind.itemsize == 8 else np.float32)


def narrowed(tensor: Any) -> Any:
    """A tensor in a type that is allowed."""
    kind = tensor.np_dtype
    meant = canonical(kind)
    return tensor if meant is kind or meant == kind else conversion.to(tensor, meant)


class JaxDoor(Door):
    """A front door whose arrays own their memory and have types of 32 bits."""

    def wrapped(self, array: Any) -> Any:
        if array.dtype not in KNOWN:
            raise TypeError(f"JAX has no arrays of {array.dtype}")
        meant = canonical(array.dtype)
        if meant != array.dtype:
            return wrapped_as(self.kind, array.astype(meant))
        return wrapped_as(self.kind, array if array.base is None and array.flags.owndata else array.copy())

    def adopted(self, result: Any) -> Any:
        if isinstance(result, TensorFields):
            return narrowed(super().adopted(result))
        return super().adopted(result)

    def array(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.wrapped(value.copy())  # which its owner may write
        return self.adopted(value) if isinstance(value, Tensor) else super().array(value)

    def hints_dropped(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in kwargs.items() if k not in _HINTS}

    def function(self, func: Any) -> Any:
        found = self.functions.get(func)
        if found is None and not isinstance(func, np.ufunc):
            plain = super().function(func)

            def call(*args: Any, **kwargs: Any) -> Any:
                return plain(*args, **self.hints_dropped(kwargs)) if kwargs else plain(*args)

            call.__name__, call.__doc__, call.__wrapped__ = func.__name__, func.__doc__, func  # type: ignore[attr-defined]
            self.functions[func] = found = call
        return super().function(func) if found is None else found


_IMMUTABLE = (
    "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use x = x.at[idx].set(y) "
    "or another .at[] method"
)


class Array(ArrayMethods, Tensor, metaclass=AnyTensor):  # type: ignore[misc]  # its methods are JAX's
    """Lucid's tensor with the conventions of JAX's array.

    >>> import lucid.jax.numpy as jnp
    >>> x = jnp.array([1.0, 2.0, 3.0])
    >>> x.at[0].set(5.0), x.at[jnp.array([0, 0])].add(1.0), x.dtype
    (Array([5., 2., 3.], dtype=float32), Array([3., 2., 3.], dtype=float32), dtype('float32'))
    >>> x[0] = 5.0
    Traceback (most recent call last):
    TypeError: JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method
    """

    __slots__ = ()
    passed_on = True
    lattice = JaxLattice()
    door: Door

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("make arrays with jax.numpy.array and its relatives")

    @property
    def at(self) -> "IndexUpdates":
        """Updates of elements at an index, as in `x.at[i].set(v)`: they give new arrays."""
        return IndexUpdates(self)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(_IMMUTABLE)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = conversion.to_array(self.detach(), dtype, copy)
        if not copy:
            found = found.view()
            found.flags.writeable = False
        return found

    def astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:  # type: ignore[override]  # JAX's
        """The array in another type."""
        return conversion.to(self, canonical(np.dtype(dtype)))

    def block_until_ready(self) -> Any:
        """The array itself: it is there already."""
        return self

    def copy_to_host_async(self) -> None:
        """Nothing to do: the array is where programs can read it."""

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        return {CPU}

    def sort(self: Any, axis: int | None = -1, *, descending: bool = False, **settings: Any) -> Any:  # type: ignore[override]  # JAX's
        """The array sorted along an axis."""
        found = DOOR.function(np.sort)(self, axis)
        return DOOR.function(np.flip)(found, -1 if axis is None else axis) if descending else found

    @property
    def weak_type(self) -> bool:
        """Whether the type gives way to others: only that of Python's numbers does."""
        return False

    def __repr__(self) -> str:
        if self._level or self.requires_grad:
            return Tensor.__repr__(self).replace("Tensor(", "Array(", 1).replace("dtype=lucid.", "dtype=")
        array = np.asarray(self._array)
        text = np.array2string(array, separator=", ", prefix="Array(")
        return f"Array({text}, dtype={array.dtype.name})"

    def __str__(self) -> str:
        return str(np.asarray(self._array)) if not self._level else repr(self)


class IndexUpdates:
    """What `x.at` gives: an index makes of it an `IndexUpdate`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> "IndexUpdate":
        return IndexUpdate(self.array, _with_tensors(index))


def _with_tensors(index: Any) -> Any:
    """An index in which lists and arrays are tensors."""
    if isinstance(index, tuple):
        return tuple(_with_tensors(i) for i in index)
    return lift(np.asarray(index)) if isinstance(index, (list, np.ndarray)) else index


class IndexUpdate:
    """The elements of an array at an index, and new arrays in which they are others.

    Places outside of the array are an error unless a `mode` says what they mean: "drop" and "fill" leave such updates out, "clip"
    takes the nearest place, and `get` fills in `fill_value`.

    >>> import lucid.jax.numpy as jnp
    >>> x = jnp.arange(3.0)
    >>> x.at[1:].multiply(10.0), x.at[jnp.array([0, 7])].set(9.0, mode="drop"), x.at[7].get(mode="fill", fill_value=-1.0)
    (Array([ 0., 10., 20.], dtype=float32), Array([9., 1., 2.], dtype=float32), Array(-1., dtype=float32))
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array, self.index = array, index

    def _updated(self, values: Any, ufunc: Any, mode: str | None) -> Any:
        x = self.array
        values = DOOR.array(values)
        if mode in (None, "promise_in_bounds"):
            return updated(x, self.index, values, ufunc)
        index, inside = bounded(self.index, x.shape)
        if mode in ("drop", "fill"):
            # What is left out writes what is there; so does no other update of that place, unless it is at the edge, too.
            return _dropped(x, index, inside, values, ufunc)
        return updated(x, index, values, ufunc)

    def set(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """With the values in their place."""
        return self._updated(values, None, mode)

    def add(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """With the values added; at a place that is named twice, both."""
        return self._updated(values, np.add, mode)

    def subtract(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """With the values subtracted."""
        return self._updated(values, np.subtract, mode)

    def multiply(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Multiplied by the values."""
        return self._updated(values, np.multiply, mode)

    mul = multiply

    def divide(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Divided by the values."""
        return self._updated(values, np.true_divide, mode)

    def power(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """To the power of the values."""
        return self._updated(values, np.power, mode)

    def min(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """The smaller of both."""
        return self._updated(values, np.minimum, mode)

    def max(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """The larger of both."""
        return self._updated(values, np.maximum, mode)

    def apply(self, ufunc: Any, **hints: Any) -> Any:
        """What a function makes of the elements."""
        return updated(self.array, self.index, ufunc(self.array[self.index]))

    def get(self, *, mode: str | None = None, fill_value: Any = None, **hints: Any) -> Any:
        """The elements."""
        if mode in (None, "promise_in_bounds"):
            return self.array[self.index]
        index, inside = bounded(self.index, self.array.shape)
        found = self.array[index]
        if mode != "fill":
            return found
        filler = fill_value if fill_value is not None else np.nan if found.is_floating_point() else 0
        inside = inside.reshape(tuple(inside.shape) + (1,) * (found.ndim - inside.ndim))
        return binary.where(inside, found, filler)


def bounded(index: Any, shape: Any) -> tuple[Any, Any]:
    """An index of numbers and arrays with the nearest places there are, and where it was inside."""
    parts = index if isinstance(index, tuple) else (index,)
    found, inside = [], lift(True)
    for part, size in zip(parts, shape, strict=False):
        if isinstance(part, slice) or part is None or part is Ellipsis:
            raise TypeError("at: a mode needs an index of numbers and arrays of them, for the first dimensions")
        place = lift(part)
        found.append(place.clamp(-size, size - 1))
        inside = inside & (place >= -size) & (place < size)
    return tuple(found), inside


def _dropped(x: Any, index: Any, inside: Any, values: Any, ufunc: Any) -> Any:
    """An update in which values for places outside have no effect: they go to a place of their own, which is cut off."""
    rest = tuple(x.shape[len(index) :])
    sizes = tuple(x.shape[: len(index)])
    count = int(np.prod(sizes))
    rows = x.reshape((count, *rest))
    longer = DOOR.function(np.concatenate)(
        [rows, rows[:1] if count else DOOR.wrapped(np.zeros((1, *rest), x.np_dtype))]
    )
    place = lift(0)
    for part, size in zip(index, sizes, strict=True):
        place = place * size + part % size
    changed = updated(longer, (binary.where(inside, place, count),), values, ufunc)
    return changed[:count].reshape(tuple(x.shape))


_OPERATORS = operator_table()
for _name, _function in _OPERATORS.items():
    if f"__i{_name[2:]}" in _OPERATORS:  # `x += y` gives the name to a new array
        setattr(Array, f"__i{_name[2:]}", _function)

DOOR = JaxDoor("jax.numpy", Array, keeps_scalars=False)
Array.door = DOOR
give_methods(DOOR)
port(Array)
copyreg.pickle(Array, reduced)
