"""Custom operations: subclass `Function` with a forward and a backward."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from lucid.core import dtypes, modes
from lucid.core.inplace import rebase
from lucid.core.node import Node, save_input, save_output
from lucid.core.primitive import Primitive, apply, attach, edge_of, pack_saved, split_outputs, unpack
from lucid.core.storage import DETACHED, View, storage_of
from lucid.core.tensor import Tensor
from lucid.ops.rules import sum_to


class FunctionCtx:
    """What a custom operation keeps between its forward and its backward. Attributes may be set freely."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._saved: Sequence[Any] | None = None
        self._dirty: tuple[Tensor, ...] = ()
        self._non_differentiable: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) for the backward, watched for in-place changes."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward takes tensors and None, not {type(t).__name__}; keep other values as attributes"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for the jvp; the same store as `save_for_backward`."""
        self.save_for_backward(*tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return tuple(self._to_save if self._saved is None else self._saved)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that the forward has changed these inputs in place and returns them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients of unused outputs come to the backward as zeros (the default) or as None."""
        self.materialize_grads = bool(value)


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

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the operation and record it."""
        call = _Call(cls, args)
        out = apply(call, call.tensors, {})
        return out[0] if call.single else tuple(out)


class _Call(Primitive):
    """One application of a Function, as a primitive of the tensors among its arguments."""

    def __init__(self, function: type[Function], args: tuple[Any, ...]) -> None:
        self.name = function.__name__
        self.function = function
        self.args = args
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.tensors = [args[i] for i in self.places]
        self.operands = ()
        self.rules = ()
        self.jvp = None
        self.batch = None
        self.is_view = False
        self.multi = True
        self.single = False
        self.ctx = FunctionCtx()

    @property
    def differentiable(self) -> bool:
        return True

    def run(self, tensors: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        """The forward, on these tensors in place of those first given."""
        ctx = self.ctx = FunctionCtx()
        args = list(self.args)
        for place, tensor in zip(self.places, tensors, strict=True):
            args[place] = tensor
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        token = modes.recording.set(False)
        try:
            if self.function.setup_context is Function.setup_context:
                output = self.function.forward(ctx, *args)
            else:
                output = self.function.forward(*args)
                self.function.setup_context(ctx, tuple(args), output)
        finally:
            modes.recording.reset(token)
        self.single = not isinstance(output, tuple)
        outputs = (output,) if self.single else output
        return tuple(self._result(o, tensors) for o in outputs)

    def _result(self, output: Any, inputs: Sequence[Any]) -> Any:
        """An output that is an input, or is kept by the context, becomes a tensor of its own."""
        if not isinstance(output, Tensor):
            return output
        if any(output is d for d in self.ctx._dirty):
            return output
        if any(output is i for i in inputs):
            fresh = output.shell()
            fresh._meta = View(None, None, {}, storage_of(output), DETACHED)
            return fresh
        return output

    def record(self, args: Sequence[Any], needs: tuple[bool, ...], outs: Any, params: dict[str, Any]) -> None:
        """Put the call on the tape: one node for it, and one in front of each output."""
        dirty = [o for o in outs if isinstance(o, Tensor) and any(o is d for d in self.ctx._dirty)]
        edges = tuple(edge_of(a) if need else None for a, need in zip(args, needs, strict=True))
        carrier = Tensor._wrap(np.zeros(()))
        parent = attach(carrier, self, edges, None, None, {}, ())
        targets = [o.shell() if any(o is d for d in dirty) else o for o in outs]
        split_outputs(parent, targets)
        for out, target in zip(outs, targets, strict=True):
            if isinstance(out, Tensor) and any(out is n for n in self.ctx._non_differentiable):
                target._node, target._requires_grad = None, False
            elif out is not target:
                storage_of(out).bump(self.name)
                rebase(out, target._node)
        parent.saved = tuple(_keep(t, outs) for t in self.ctx._to_save)
        if parent.saved and modes.saved_hooks.get():
            pack_saved(parent)
        self.shapes_in = [(a.shape, a.np_dtype) for a in args]
        # The node holds what is saved; the call must not hold it a second time.
        self.ctx._to_save = ()
        self.args = tuple(None if isinstance(a, Tensor) else a for a in self.args)
        self.tensors = []
        self.ctx._dirty = self.ctx._non_differentiable = ()

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        as_arrays = not any(isinstance(g, Tensor) for g in ct.values())
        grads = [self._incoming(node, ct, i) for i in range(len(node.shapes))]
        probe = next(g for g in grads if isinstance(g, Tensor))
        self.ctx._saved = unpack(node, probe) or ()
        token = modes.on_arrays.set(False)
        try:
            result = self.function.backward(self.ctx, *grads)
        finally:
            modes.on_arrays.reset(token)
            self.ctx._saved = None
        found = self._outgoing(result, node)
        if as_arrays:
            return [g._array if type(g) is Tensor else g for g in found]
        return found

    def _incoming(self, node: Node, ct: dict[int, Any], i: int) -> Any:
        if i in ct:
            return ct[i] if isinstance(ct[i], Tensor) else Tensor._wrap(ct[i])
        meta = node.shapes[i]
        if meta is None or not self.ctx.materialize_grads:
            return None
        return Tensor._wrap(np.zeros(*meta))

    def _outgoing(self, result: Any, node: Node) -> list[Any]:
        """One gradient for each tensor argument, of its shape and type."""
        grads = tuple(result) if isinstance(result, tuple | list) else (result,)
        extra = grads[len(self.args) :]
        if len(grads) < len(self.args) or any(g is not None for g in extra):
            raise RuntimeError(
                f"{self.name}.backward returned {len(grads)} gradients, but forward took {len(self.args)} arguments; "
                "return one for each, None where there is none"
            )
        for i, g in enumerate(grads[: len(self.args)]):
            if i not in self.places and g is not None:
                raise RuntimeError(f"{self.name}.backward returned a gradient for argument {i}, which is not a tensor")
        return [
            None if edge is None else self._checked(grads[place], k, place)
            for k, (place, edge) in enumerate(zip(self.places, node.edges, strict=True))
        ]

    def _checked(self, gradient: Any, k: int, place: int) -> Any:
        if gradient is None:
            return None
        if not isinstance(gradient, Tensor):
            raise TypeError(
                f"{self.name}.backward must return tensors or None; for argument {place} it gave {type(gradient).__name__}"
            )
        shape, dtype = self.shapes_in[k]
        if gradient.shape != shape:
            try:
                fits = np.broadcast_shapes(shape, gradient.shape) == gradient.shape
            except ValueError:
                fits = False
            if not fits:
                raise RuntimeError(
                    f"{self.name}.backward returned shape {gradient.shape} for argument {place} of shape {shape}"
                )
            gradient = sum_to(gradient, shape)
        if gradient.is_complex() and dtype not in dtypes.COMPLEX:
            gradient = gradient.real
        return gradient.to(dtype)


def _keep(tensor: Any, outs: Sequence[Any]) -> Any:
    """What the node keeps of a saved tensor; of an output, not the tensor, which refers to the node."""
    if tensor is None:
        return None
    for i, out in enumerate(outs):
        if tensor is out:
            saved = save_output(out)
            saved.index = i
            return saved
    return save_input(tensor)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward that is not itself differentiable: a second derivative is then an error."""

    @wraps(backward)
    def call(ctx: FunctionCtx, *grads: Any) -> Any:
        was = modes.recording.get()
        token = modes.recording.set(False)
        try:
            result = backward(ctx, *grads)
        finally:
            modes.recording.reset(token)
        if not was or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return result
        found = tuple(result) if isinstance(result, tuple | list) else (result,)
        return tuple(_refusing(g, backward.__qualname__) if isinstance(g, Tensor) else g for g in found)

    return call


class _Refuse:
    multi = False

    def __init__(self, name: str) -> None:
        self.name = name

    def vjp(self, node: Node, ct: Any) -> Any:
        raise RuntimeError(f"{self.name} is marked @once_differentiable and cannot be differentiated again")


def _refusing(gradient: Tensor, name: str) -> Tensor:
    out = gradient.shell()
    attach(out, _Refuse(name), (), None, None, {}, out.shape)
    return out
