"""Reading dimensions as users give them: negative, several, by NumPy's names."""

import reprlib
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lucid.core.errors import PositionError

A = ParamSpec("A")
R = TypeVar("R")
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_ALL = tuple([tuple(range(ndim)) for ndim in range(8)])  # the dimensions of most tensors


def numpy_names(function: Callable[A, R]) -> Callable[A, R]:
    """Accept `axis` and `keepdims` for `dim` and `keepdim`, and refuse a `keepdim` that is not a bool, as in sum(x, 0, 1)."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    flag = names.index("keepdim") if "keepdim" in names else sys.maxsize
    unnamed: Callable[..., R] = function

    @wraps(function)
    def call(*args: A.args, **kwargs: A.kwargs) -> R:
        if len(args) > flag and type(args[flag]) is not bool:
            raise TypeError(
                f"{function.__name__}: keepdim must be True or False, not {args[flag]!r}; give dim as a tuple"
            )
        if not kwargs:
            return unnamed(*args)
        for theirs, ours in _NUMPY_NAMES.items():
            if theirs in kwargs:
                if ours in kwargs:
                    raise TypeError(f"{function.__name__}: give {ours} or {theirs}, not both")
                kwargs[ours] = kwargs.pop(theirs)
        return function(*args, **kwargs)

    # Whoever wraps it again may call this one, if no arguments have names and there are no more than so many.
    call.plain, call.most = unnamed, flag  # type: ignore[attr-defined]
    return call


def one_dim(dim: Any, ndim: int, name: str) -> int:
    """A dimension as a number from 0; a 0-d tensor may be asked for dimension 0 or -1."""
    if type(dim) is int:
        number = dim
    elif isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{name}: dim must be an integer, not {dim!r}")
    else:
        number = dim.__index__()
    bound = max(ndim, 1)
    if not -bound <= number < bound:
        raise PositionError(f"{name}: dim {number} is out of range for a tensor with {ndim} dimensions")
    return int(number % bound)


def real_dim(x: Any, dim: Any, name: str) -> int:
    """A dimension that the tensor really has."""
    ndim = len(x.shape)
    if not ndim:
        raise RuntimeError(f"{name}: a 0-d tensor has no dimension {dim}")
    return one_dim(dim, ndim, name)


def many_dims(dim: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Dimensions to reduce: None and () mean all of them."""
    if type(dim) is int and -ndim <= dim < ndim:  # most calls; to find out about sequences takes longer
        return (dim if dim >= 0 else dim + ndim,)
    if dim is None:
        return _ALL[ndim] if ndim < len(_ALL) else tuple(range(ndim))
    if type(dim) is int or (type(dim) is not tuple and not isinstance(dim, Sequence)):
        number = one_dim(dim, ndim, name)
        return (number,) if ndim else ()
    if not dim:
        return tuple(range(ndim))
    dims = [one_dim(d, ndim, name) for d in dim]
    if len(dims) > 1:
        dims.sort()
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: dim {tuple(dim)} names a dimension twice")
    return tuple(dims) if ndim else ()


def broadcast_shapes(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which shapes are broadcast, as NumPy's function finds it, which takes ten times as long."""
    found: tuple[int, ...] = ()
    for shape in shapes:
        if shape != found:
            found = _broadcast(found, shape)
    return found


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    extra = len(a) - len(b)
    if extra < 0:
        return _broadcast(b, a)
    sizes = list(a)
    for d, n in enumerate(b, extra):
        if sizes[d] == 1:
            sizes[d] = n
        elif n != 1 and n != sizes[d]:
            raise ValueError(f"shapes {a} and {b} cannot be broadcast together")
    return tuple(sizes)


def by_name(args: tuple[Any, ...], named: dict[str, Any], parameter: str, name: str) -> tuple[Any, ...]:
    """What a function takes one by one or as a sequence, if it may also be given by the parameter's name."""
    if not named:
        return args
    if args or set(named) != {parameter}:
        raise TypeError(f"{name}: unexpected arguments {', '.join(named)}; expected {parameter}, once")
    return (named[parameter],)


def shape_from(args: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """A shape given as several numbers or as one sequence."""
    if len(args) == 1 and type(args[0]) is int:
        return args
    if len(args) == 1 and not hasattr(args[0], "__index__"):
        args = tuple(args[0])
    elif len(args) == 1 and hasattr(args[0], "shape") and args[0].shape:
        args = tuple(args[0].tolist())
    for a in args:
        if type(a) is not int:
            break
    else:
        return args
    try:
        return tuple([a.__index__() for a in args])
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: a shape consists of integers, not {reprlib.repr(args)}") from None


def sizes_from(args: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """The same for a tensor that is made: no size is negative."""
    shape = shape_from(args, name)
    for n in shape:
        if n < 0:
            raise RuntimeError(f"{name}: sizes must not be negative, got {shape}")
    return shape
