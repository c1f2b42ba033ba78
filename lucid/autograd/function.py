"""Custom operations: subclass `Function` with a forward and a backward."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.autograd.calls import Call, FunctionCtx, is_pushed, refusing
from lucid.core import modes
from lucid.core.primitive import apply
from lucid.core.tensor import Tensor


class Function:
    """A custom operation with its own derivative.

    Define `forward(ctx, *args)` and `backward(ctx, *grads)` as static methods (or `forward(*args)` with
    `setup_context(ctx, inputs, output)`), and call `apply`. `backward` returns one gradient for each argument of
    the forward, None for those that have none.

    >>> import lucid
    >>> class Cube(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * g
    >>> x = lucid.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    Tensor([12.])
    """

    is_base_of_functions = True

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; runs without recording."""
        raise NotImplementedError("a Function needs a static forward method")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the backward needs, if `forward` takes no ctx."""
        raise NotImplementedError("define setup_context to use a forward without ctx")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """The gradient for each argument of the forward, from those of its outputs."""
        raise NotImplementedError("a Function needs a static backward method to be differentiated")

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        """The change of each output, from the tangents of the arguments of the forward.

        A Function that defines it uses it in forward mode; one that defines no `backward` is differentiated in reverse
        by transposing it, which needs operations that are linear in the tangents.
        """
        raise NotImplementedError("this Function has no static jvp method")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The operation on a whole batch: gives the outputs and their batch dimensions, `(outputs, out_dims)`.

        Without it, the forward and the backward run on batched tensors, or, if they ask for NumPy arrays or Python
        numbers, once for each example.
        """
        raise NotImplementedError("this Function has no static vmap method")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the operation and record it."""
        call = Call(cls, args)
        out = apply(call, [args[i] for i in call.places], {})
        return out[0] if call.single else tuple(out)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward that is not itself differentiable: a second derivative is then an error.

    >>> import lucid
    >>> class Half(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x / 2
    ...     @staticmethod
    ...     @lucid.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         return g / 2
    >>> x = lucid.tensor([4.0], requires_grad=True)
    >>> Half.apply(x).backward()
    >>> x.grad
    Tensor([0.5])
    """

    @wraps(backward)
    def call(ctx: FunctionCtx, *grads: Any) -> Any:
        was = modes.recording.get()
        token = modes.recording.set(modes.SILENT)
        try:
            result = backward(ctx, *grads)
        finally:
            modes.recording.reset(token)
        sources = (*grads, *ctx.saved_tensors)
        reason = f"{backward.__qualname__} is marked @once_differentiable and cannot be differentiated again"
        if any(is_pushed(t) for t in sources):
            raise RuntimeError(reason)
        if not was or not any(isinstance(t, Tensor) and t.requires_grad for t in sources):
            return result
        found = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        return tuple(refusing(g, reason, sources) if isinstance(g, Tensor) else g for g in found)

    return call
