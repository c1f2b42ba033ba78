"""What a front door for NumPy's names is made of: a class of arrays, and NumPy's functions that give such arrays.

A function with a tensor among its arguments is computed by its counterpart in the tables of `lucid.interop`; without one
NumPy itself computes it, and its result becomes an array of the front door.
"""

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import getattr_static
from typing import Any

import numpy as np

from lucid.api.joining import stack
from lucid.core.dtypes import ALL
from lucid.core.fields import TensorFields
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor, wrapped_as
from lucid.core.tree import tree_map
from lucid.interop.numpy_protocol import UFUNCS, array_function, array_ufunc, holds_tensors
from lucid.kinds.kind import Kind

KNOWN = frozenset(d.numpy for d in ALL)
# The door through which a program came in, for tensors of a trace: they do not know the class of what they stand for.
entered: ContextVar[Any] = ContextVar("entered", default=None)


class AnyTensor(type):
    """Every tensor of Lucid is an array for the programs of a front door: those of transforms too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) if "door" in cls.__dict__ else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Tensor) if "door" in cls.__dict__ else type.__subclasscheck__(cls, subclass)


class Door:
    """One front door: its class of arrays, and how values become such."""

    def __init__(self, name: str, kind: Any, keeps_scalars: bool) -> None:
        self.name = name
        self.kind = kind
        self.keeps_scalars = keeps_scalars  # whether NumPy's scalars stay what they are
        self.functions: dict[Any, Callable[..., Any]] = {}

    def wrapped(self, array: Any) -> Any:
        """An array of NumPy's as one of the front door; one of strings or objects as it is."""
        return wrapped_as(self.kind, array) if array.dtype in KNOWN else array

    def adopted(self, result: Any) -> Any:
        """The result of a function of NumPy's or Lucid's, with arrays of the front door in it."""
        kind = type(result)
        if kind is self.kind:
            return result
        if isinstance(result, TensorFields):
            inner = innermost(result)
            if type(inner) is Tensor:
                inner.__class__ = self.kind
            return result
        if kind is np.ndarray:
            return self.wrapped(result)
        if isinstance(result, np.generic):
            return result if self.keeps_scalars else self.wrapped(np.asarray(result))
        if kind is tuple or kind is list:
            return kind(self.adopted(r) for r in result)
        if hasattr(kind, "_fields"):
            return kind(*(self.adopted(r) for r in result))
        return {k: self.adopted(r) for k, r in result.items()} if kind is dict else result

    def array(self, value: Any) -> Any:
        """A number or an array as an array of the front door; tensors and whatever is neither as they are."""
        if isinstance(value, (np.ndarray, bool, int, float, complex, np.generic)):
            return self.wrapped(np.asarray(value))
        return value

    def arrays(self, nest: Any) -> Any:
        """The same of every leaf of a nest."""
        return tree_map(self.array, nest)

    def joined(self, value: Any, dtype: Any = None) -> Any:
        """Nested lists with tensors in them as one array, which depends on them."""
        if isinstance(value, (list, tuple)):
            parts = [self.joined(v) for v in value]
            value = stack(parts) if parts else np.zeros(0)
        made = self.adopted(lift(self.array(value)))
        return made if dtype is None else made.to(dtype)

    def function(self, func: Callable[..., Any]) -> Any:
        """A function of NumPy's on arrays of the front door; the same one each time."""
        found = self.functions.get(func)
        if found is None:
            found = ufunc(self, func) if isinstance(func, np.ufunc) else _called(self, func)
            self.functions[func] = found
        return found

    @contextmanager
    def inside(self) -> Any:
        """A context in which tensors of a trace stand for arrays of this front door."""
        token = entered.set(self)
        try:
            yield
        finally:
            entered.reset(token)


def _called(door: Door, func: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if holds_tensors(args) or (kwargs and holds_tensors(kwargs.values())):
            result = array_function(None, func, (), args, kwargs)
            if type(result) is Tensor and any(result is a for a in args):
                return result  # what was given keeps its class
        else:
            result = func(*args, **kwargs)
        return door.adopted(result)

    return call


class ufunc:
    """A ufunc of NumPy's on arrays of a front door, with its methods.

    >>> import lucid.numpy as np
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> np.add(x, 1), np.multiply.reduce(x, axis=1), np.maximum.accumulate(x[0]), np.add.outer(x[0], x[1])
    (array([[2., 3.],
           [4., 5.]]), array([ 2., 12.]), array([1., 2.]), array([[4., 5.],
           [5., 6.]]))
    """

    def __init__(self, door: Door, ufunc: np.ufunc) -> None:
        self.door, self.ufunc, self.known = door, ufunc, UFUNCS.get(ufunc)
        self.__name__, self.__doc__ = ufunc.__name__, ufunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self.ufunc.nin
        if inputs < len(args) <= self.ufunc.nargs and "out" not in kwargs:  # where to write may be said without a name
            args, kwargs = args[:inputs], {**kwargs, "out": (*args[inputs:], *(None,) * (self.ufunc.nargs - len(args)))}
        if not kwargs and self.known is not None:
            for a in args:
                if isinstance(a, TensorFields):
                    return self.door.adopted(self.known(*args))
        return self._method("__call__", args, kwargs)

    def _method(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if holds_tensors(args) or (kwargs and holds_tensors(kwargs.values())):
            args = tuple(self.door.joined(a) if isinstance(a, (list, tuple)) else a for a in args)
            return self.door.adopted(array_ufunc(None, self.ufunc, method, *args, **kwargs))
        return self.door.adopted(getattr(self.ufunc, method)(*args, **kwargs))

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """The elements along an axis, put together one after the other."""
        return self._method("reduce", (array,), {"axis": axis, **_given(dtype=dtype, out=out), **kwargs})

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """What `reduce` gives of the first elements, for each number of them."""
        return self._method("accumulate", (array,), {"axis": axis, **_given(dtype=dtype, out=out)})

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """What `reduce` gives of parts of an axis that begin at `indices`."""
        return self._method("reduceat", (array, indices), {"axis": axis, **_given(dtype=dtype, out=out)})

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """The function of each element of `a` with each of `b`."""
        return self._method("outer", (a, b), kwargs)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """The function of elements of `a`, written where they stand; one that `indices` names twice changes twice."""
        values = () if b is None else (self.door.joined(b) if isinstance(b, (list, tuple)) else b,)
        if holds_tensors((a, *values)):  # the indices stay as they are: a tuple has one for each axis
            array_ufunc(None, self.ufunc, "at", a, indices, *values)
        else:
            self.ufunc.at(a, indices, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


# --- tensors inside of transforms ----------------------------------------------------------------


def innermost(tensor: Any) -> Any:
    """The tensor of no transform that is inside of others."""
    while tensor._level:
        tensor = tensor._array
    return tensor


def door_of(tensor: Any) -> Any:
    """The door through which a tensor came, by the class of what is inside of it."""
    door = getattr(type(innermost(tensor)), "door", None)
    return entered.get() if door is None else door


def plain(tensor: Any) -> Any:
    """A tensor that came through a door as one of Lucid's own, for functions that are written in its methods."""
    if getattr(type(innermost(tensor)), "door", None) is None:
        return tensor
    seen = tensor[...]
    innermost(seen).__class__ = Tensor
    return seen


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function inside of which tensors of a trace are Lucid's own."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = entered.set(None)
        try:
            return function(*args, **kwargs)
        finally:
            entered.reset(token)

    return call


class Ported:
    """An attribute that the arrays of a front door have, on tensors of transforms that such arrays are inside of."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own = getattr_static(Kind, name, None)

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        if tensor is None:
            return self.own if self.own is None else self.own.__get__(None, kind)
        door = door_of(tensor)
        found = self.own if door is None else getattr_static(door.kind, self.name, self.own)
        if found is None:
            raise AttributeError(f"{type(tensor).__name__!r} object has no attribute {self.name!r}")
        return found.__get__(tensor, type(tensor))

    def __set__(self, tensor: Any, value: Any) -> None:
        found: Any = getattr_static(Kind.__mro__[1], self.name)
        found.__set__(tensor, value)


def port(kind: Any) -> None:
    """Give tensors of transforms the attributes that a class of arrays has of its own."""
    private = {"__slots__", "__module__", "__doc__", "__dict__", "__init__", "__repr__", "__str__", "__reduce_ex__"}
    for name in vars(kind).keys() - private - {"door", "lattice", "passed_on"}:
        if not isinstance(getattr_static(Kind, name, None), Ported):
            setattr(Kind, name, Ported(name))


# --- promotion -----------------------------------------------------------------------------------


class NumPyLattice:
    """NumPy's promotion: arrays of all ranks count alike, and Python's numbers follow them."""

    def result_type(self, kinds: list[Any], numbers: list[Any]) -> np.dtype[Any]:
        return np.result_type(*kinds, *numbers)

    def array(self, value: Any, kinds: list[Any]) -> Any:
        """Numbers as functions of arrays take them, which do not let them follow the others, of types `kinds`."""
        return np.asarray(value)

    def floating(self, kind: np.dtype[Any], name: str) -> np.dtype[Any]:
        """Functions of small integers have small floats; a quotient of integers is always a float64."""
        if kind.itemsize > 2 or name == "div":
            return np.dtype(np.float64)
        return np.dtype(np.float32 if kind.itemsize == 2 else np.float16)
