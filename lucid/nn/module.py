"""The module: a layer, or a tree of them, that can be called, converted and printed."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Self

import lucid
from lucid import Tensor
from lucid.ir.meta import replace_contents
from lucid.nn.module_hooks import Hooked, call_with_hooks
from lucid.nn.registry import BUFFERS, MODULE, PARAMETER, Registry
from lucid.nn.state import Stateful

__all__ = ["Module"]

ABSENT: Any = object()
MOST_PRINTED = 50  # levels of modules in modules
_printing: ContextVar[tuple[int, ...]] = ContextVar("printing", default=())  # the modules around the one printed now


class Module(Hooked, Stateful["Module"]):
    """The base of all layers and models.

    Assigning a `Parameter`, a `Buffer` or another module to an attribute registers it. A subclass defines `forward`;
    calling the module runs it with the hooks.

    >>> import lucid
    >>> from lucid.nn.module import Module
    >>> from lucid.nn.parameter import Parameter
    >>> class Scale(Module):
    ...     def __init__(self, factor):
    ...         super().__init__()
    ...         self.factor = Parameter(lucid.tensor(factor))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale(3.0)
    >>> scale(lucid.tensor([1.0, 2.0]))
    Tensor([3., 6.], grad_fn=<mul>)
    >>> dict(scale.named_parameters())
    {'factor': Parameter containing:
    Tensor(3., requires_grad=True)}
    """

    training: bool

    def __init__(self) -> None:
        super().__init__()
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward method; define forward(self, ...) in the class"
        )

    # One positional argument is the commonest case; passing on *args and **kwargs would double the cost of the call.
    def __call__(self, first: Any = ABSENT, /, *rest: Any, **kwargs: Any) -> Any:
        if self._hooks is None:
            if rest or kwargs or first is ABSENT:
                return self.forward(*_joined(first, rest), **kwargs)
            return self.forward(first)
        return call_with_hooks(self, _joined(first, rest), kwargs)

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call a function on every submodule, children first, then on the module itself.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> _ = layer.apply(lambda module: print(type(module).__name__))
        Module
        """
        for module, inherits in self._bottom_up("apply"):
            if inherits:
                fn(module)
            else:
                module.apply(fn)
        return self

    def compile(self, **options: Any) -> Self:
        """Have `forward` compiled by `lucid.compile`, which takes the options; returns the module.

        >>> import lucid
        >>> from lucid.nn.layers.linear import Linear
        >>> layer = Linear(3, 2).compile()
        >>> layer(lucid.ones(4, 3)).shape
        (4, 2)
        """
        self.forward = lucid.compile(self.forward, **options)  # type: ignore[method-assign]
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch to training: dropout drops, batch norm uses the batch.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.eval().training, layer.train().training
        (False, True)
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: the mode must be True or False, not {mode!r}")
        for module, inherits in self._bottom_up("train"):
            if inherits:
                module.training = mode
            else:
                module.train(mode)
        return self

    def eval(self) -> Self:
        """Switch to evaluation; the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters, or freeze them.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.requires_grad_(False).weight
        Parameter containing:
        Tensor([1., 1.])
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to 0.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.weight.sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif (gradient := parameter.grad) is not None:
                gradient.detach_().zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the contents of every parameter and buffer `t` (and of gradients) by `fn(t)`."""
        for module, inherits in self._bottom_up("_apply") if recurse else [(self, True)]:
            if inherits:
                _convert_own(module, fn)
            else:
                module._apply(fn)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point and complex parameters and buffers to a dtype, or move all to a device, in place.

        Takes what `Tensor.to` takes.

        >>> import lucid
        >>> from lucid.nn.module import Module
        >>> from lucid.nn.parameter import Parameter
        >>> layer = Module()
        >>> layer.weight = Parameter(lucid.ones(2))
        >>> layer.to(lucid.float64).weight.dtype
        lucid.float64
        """
        # A dtype was given if tensors of two types come out alike.
        probes = {lucid.zeros(0, dtype=kind).to(*args, **kwargs).dtype for kind in (lucid.int8, lucid.uint8)}
        if len(probes) > 1:
            return self._apply(lambda t: t.to(*args, **kwargs))
        dtype = probes.pop()
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to takes floating-point and complex types, not {dtype}")
        return self._apply(lambda t: t.to(dtype) if _is_numeric(t) else t)

    def type(self, dst_type: Any) -> Self:
        """Convert every parameter and buffer, whatever its type, in place."""
        return self._apply(lambda t: t.to(dst_type))

    def _to_float(self, dtype: lucid.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32, in place."""
        return self._to_float(lucid.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64, in place."""
        return self._to_float(lucid.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16, in place."""
        return self._to_float(lucid.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16, in place."""
        return self._to_float(lucid.bfloat16)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU, in place."""
        return self._apply(lambda t: t.cpu())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give all parameters and buffers memory on a device, with whatever is in it: for modules without values.

        >>> import lucid
        >>> from lucid.nn import Linear
        >>> Linear(2, 3).to_empty(device="cpu").weight.shape
        (3, 2)
        """
        return self._apply(lambda t: lucid.empty_like(t, device=device), recurse)

    def share_memory(self) -> Self:
        """The module itself: other processes get copies of its tensors."""
        return self

    def extra_repr(self) -> str:
        """The settings to print between the parentheses; subclasses define it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        above = _printing.get()
        if id(self) in above or len(above) >= MOST_PRINTED:
            return f"{self._get_name()}(...)"
        token = _printing.set((*above, id(self)))
        try:
            return self._written()
        finally:
            _printing.reset(token)

    def _written(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indented(repr(module)) for name, module in self._own(MODULE)]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


Registry.module_type = Module


def _joined(first: Any, rest: tuple[Any, ...]) -> tuple[Any, ...]:
    return rest if first is ABSENT else (first, *rest)


def _is_numeric(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _convert_own(module: Module, fn: Callable[[Tensor], Tensor]) -> None:
    for _, parameter in module._own(PARAMETER):
        if parameter is not None:
            _convert(parameter, fn)
    for name, buffer in module._own(*BUFFERS):
        if buffer is not None:
            module._put(name, fn(buffer), module._kinds[name])


def _convert(parameter: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    """Replace the contents of a parameter and of its gradient; the object stays, so optimizers keep hold of it."""
    old = parameter.data
    new = fn(old)
    if new is old:
        return
    gradient = parameter.grad
    parameter.grad = None
    if new.device == parameter.device:
        parameter.data = new
    else:
        replace_contents(parameter, new)
    if gradient is not None:
        parameter.grad = fn(gradient.detach()).requires_grad_(gradient.requires_grad)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
