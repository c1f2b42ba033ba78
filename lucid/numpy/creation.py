"""Functions of NumPy's that make arrays of whatever they are given, also of tensors in lists."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api import shaping
from lucid.core.tensor import Tensor
from lucid.interop.numpy_protocol import holds_tensors
from lucid.numpy.arrays import DOOR
from lucid.numpy.doors import Door


def makers(door: Door) -> dict[str, Any]:
    """The functions by name, for one front door."""

    def array(
        object: Any,
        dtype: Any = None,
        *,
        copy: bool | None = True,
        order: Any = "K",
        subok: bool = False,
        ndmin: int = 0,
    ) -> Any:
        if isinstance(object, Tensor):
            made: Any = object.clone() if copy else object[...] if type(object) is Tensor else object
            made = made if dtype is None else made.to(np.dtype(dtype))
        elif isinstance(object, (list, tuple)) and holds_tensors(object):
            made = door.joined(object, None if dtype is None else np.dtype(dtype))
        else:
            made = np.array(object, dtype, copy=copy, order=order, ndmin=ndmin)
        made = made if made is object else door.adopted(made)
        return made.reshape((1,) * (ndmin - made.ndim) + tuple(made.shape)) if made.ndim < ndmin else made

    def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, **_: Any) -> Any:
        return array(a, dtype, copy=copy)

    def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
        return function(*door.adopted(tuple(np.indices(shape, dtype=dtype))), **kwargs)

    def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, **settings: Any) -> Any:
        return door.function(np.frompyfunc(func, nin, nout, **settings))

    array.__doc__ = (
        "An array of numbers, arrays and tensors in nested lists, as `numpy.array` makes it; it depends on the tensors."
    )
    asarray.__doc__ = "The same without a copy, if there is nothing to convert."
    return {
        "array": array,
        **dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray", "asarray_chkfinite", "require"), asarray),
        "fromfunction": fromfunction,
        "frompyfunc": frompyfunc,
        "vectorize": lambda pyfunc, *settings, **named: Vectorized(door, np.vectorize(pyfunc, *settings, **named)),
        "mgrid": Indexed(door, np.mgrid),
        "ogrid": Indexed(door, np.ogrid),
        "r_": Joined(door, np.r_, 0),
        "c_": Joined(door, np.c_, -1),
    }


class Indexed:
    """`np.mgrid` and `np.ogrid`: arrays made of the slices in an index."""

    def __init__(self, door: Door, of_numpy: Any) -> None:
        self.door, self.of_numpy = door, of_numpy

    def __getitem__(self, key: Any) -> Any:
        return self.door.adopted(self.of_numpy[key])


class Vectorized:
    """`np.vectorize`: a function of numbers on arrays, one element after the other; tensors stay connected."""

    def __init__(self, door: Door, of_numpy: Any) -> None:
        self.door, self.of_numpy = door, of_numpy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not holds_tensors(args) and not holds_tensors(kwargs.values()):
            return self.door.adopted(self.of_numpy(*args, **kwargs))
        if kwargs or self.of_numpy.signature is not None:
            raise TypeError("vectorize: on tensors a function of numbers is called, without keywords and signature")
        arrays = shaping.broadcast_tensors(*(self.door.joined(a) for a in args))
        rows = zip(*(shaping.reshape(a, -1) for a in arrays), strict=True)
        return shaping.reshape(self.door.joined([self.of_numpy.pyfunc(*row) for row in rows]), tuple(arrays[0].shape))


class Joined(Indexed):
    """`np.r_` and `np.c_`: the arrays, numbers and ranges in an index, joined along the first axis or as columns."""

    def __init__(self, door: Door, of_numpy: Any, axis: int) -> None:
        super().__init__(door, of_numpy)
        self.axis = axis

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not holds_tensors(parts):
            return super().__getitem__(key)
        if any(isinstance(p, str) for p in parts):
            raise TypeError("directives beside tensors are not understood; use np.concatenate")
        made = [self.of_numpy[p] if isinstance(p, slice) else p for p in parts]
        join = np.concatenate if self.axis == 0 else np.column_stack
        grown = [self.door.function(np.atleast_1d)(p) for p in made]
        return self.door.function(join)(grown)


_MAKERS = makers(DOOR)
globals().update(_MAKERS)
__all__ = sorted(_MAKERS)
