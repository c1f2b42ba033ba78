"""`out=`: results written into tensors that the caller has."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from lucid.core import dtypes, modes
from lucid.core.arrays import empty
from lucid.core.tensor import Tensor, is_plain
from lucid.core.tree import flatten


def into(out: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the function and write its result into `out`, a tensor or one tensor for each result."""
    name = function.__name__
    targets = [out] if isinstance(out, Tensor) else list(out) if isinstance(out, tuple | list) else []
    if not targets or not all(isinstance(t, Tensor) for t in targets):
        raise TypeError(f"{name}: out must be a tensor, or one tensor for each result, not {out!r}")
    if modes.recording.get():
        operands, _ = flatten((tuple(args), kwargs))
        if any(isinstance(t, Tensor) and t.requires_grad for t in (*operands, *targets)):
            raise RuntimeError(
                f"{name}: functions with out= don't support automatic differentiation, but one of the arguments "
                "requires grad; call it without out=, or under lucid.no_grad()"
            )
    result = function(*args, **kwargs)
    results = [result] if isinstance(result, Tensor) else list(result)
    if len(results) != len(targets):
        raise TypeError(f"{name}: out has {len(targets)} tensors for {len(results)} results")
    for target, value in zip(targets, results, strict=True):
        _raise_if_unfit(name, target, value)
    for target, value in zip(targets, results, strict=True):
        if target.shape != value.shape:
            target.data = Tensor._wrap(empty(value.shape, target.np_dtype))
        target.copy_(value)
    if isinstance(result, Tensor):
        return targets[0]
    return type(result)(*targets) if hasattr(result, "_fields") else tuple(targets)


def _raise_if_unfit(name: str, target: Tensor, value: Tensor) -> None:
    if not dtypes.can_cast(value.dtype, target.dtype):
        raise RuntimeError(f"{name}: a result of type {value.dtype} cannot be written into out of type {target.dtype}")
    if target.shape == value.shape:
        target._raise_if_read_only(name)
    elif target.numel() or not is_plain(target):
        raise RuntimeError(
            f"{name}: out has shape {target.shape} but the result has shape {value.shape}; "
            "give out that shape, or no elements to have it resized"
        )


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with one more keyword, `out`."""
    plain, most = getattr(function, "plain", function), getattr(function, "most", sys.maxsize)

    @wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            if not kwargs and len(args) <= most:
                return plain(*args)
            return function(*args, **kwargs)
        return into(out, function, args, kwargs)

    return call


def fills_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that makes a tensor: it makes one of the type of `out`."""

    @wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs) if kwargs else function(*args)
        if isinstance(out, Tensor):
            dtype = kwargs.setdefault("dtype", out.dtype)
            if dtype is not None and dtypes.as_dtype(dtype) != out.dtype:
                raise RuntimeError(f"{function.__name__}: dtype {dtype} is not that of out, {out.dtype}")
            kwargs["dtype"] = out.dtype
        return into(out, function, args, kwargs)

    return call
