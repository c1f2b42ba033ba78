"""Custom functions inside autocast: in which precision their forward and backward run."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from lucid.amp.autocasting import autocast
from lucid.arguments.promotion import cast
from lucid.core import modes
from lucid.core.dtypes import as_dtype, bfloat16, float64
from lucid.core.tensor import Tensor
from lucid.core.tree import tree_map


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cpu", cast_inputs: Any = None
) -> Callable[..., Any]:
    """Decorates the `forward` of a custom `Function`: it runs as autocast is around the call.

    With `cast_inputs`, inside autocast its floating-point arguments are cast to that type and it runs without autocast.

    >>> import lucid
    >>> class Square(lucid.autograd.Function):
    ...     @staticmethod
    ...     @lucid.amp.custom_fwd(device_type="cpu", cast_inputs=lucid.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @lucid.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g * ctx.saved_tensors[0]
    >>> with lucid.amp.autocast("cpu"):
    ...     Square.apply(lucid.ones(2, dtype=lucid.bfloat16)).dtype
    lucid.float32
    """
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        casting = modes.autocast.get()
        ctx._autocast = None if casting is None or cast_inputs is not None else casting.dtype
        if casting is None or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        target = as_dtype(cast_inputs).numpy
        args, kwargs = tree_map(lambda x: _cast(x, target), (args, kwargs))
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Callable[..., Any]:
    """Decorates the `backward` of a custom `Function` whose forward has `custom_fwd`: both run with the same autocast.

    >>> import lucid
    >>> lucid.amp.custom_bwd(device_type="cpu")  # doctest: +ELLIPSIS
    functools.partial(...)
    """
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        low = ctx._autocast
        with autocast(device_type, dtype=low or bfloat16, enabled=low is not None):
            return bwd(ctx, *args, **kwargs)

    return backward


def _cast(x: Any, target: Any) -> Any:
    """Floats but doubles in another type."""
    if isinstance(x, Tensor) and x.is_floating_point() and x.dtype != float64:
        return cast(x, target)
    return x


__all__ = ["custom_bwd", "custom_fwd"]
