"""Custom operations: subclass `Function` with a forward and a backward."""

import copy
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from lucid.core import dtypes, modes
from lucid.core.batched import Batched
from lucid.core.inplace import raise_if_not_writable, rebase
from lucid.core.levels import new_level
from lucid.core.node import Node, save_input, save_output, split_edges
from lucid.core.primitive import Primitive, apply, attach, edge_of, packed, split_outputs, unpack
from lucid.core.storage import DETACHED, View, storage_of
from lucid.core.tensor import Tensor
from lucid.ops.rules import sum_to


class FunctionCtx:
    """What a custom operation keeps between its forward and its backward. Attributes may be set freely.

    >>> import lucid
    >>> class Scale(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * ctx.factor, None
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> Scale.apply(x, 5.0).backward()
    >>> x.grad
    Tensor([5.])
    """

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
        out = apply(call, [args[i] for i in call.places], {})
        return out[0] if call.single else tuple(out)


class _Call(Primitive):
    """One application of a Function, as a primitive of the tensors among its arguments."""

    def __init__(self, function: type[Function], args: tuple[Any, ...]) -> None:
        self.name = function.__name__
        self.function = function
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.args = tuple(None if isinstance(a, Tensor) else a for a in args)
        self.operands = ()
        self.rules = ()
        self.jvp = None
        self.is_view = False
        self.multi = True
        self.differentiable = True
        self.single = False
        self.ctx = FunctionCtx()
        self.saves: list[tuple[str, Any]] = []  # what the context saved, as places among inputs and outputs
        self.dirty: list[int] = []  # outputs that are inputs changed in place
        self.undifferentiable: list[int] = []

    def run(self, tensors: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        """The forward, on these tensors."""
        ctx = self.ctx = FunctionCtx()
        args = list(self.args)
        for place, tensor in zip(self.places, tensors, strict=True):
            args[place] = tensor
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        token = modes.recording.set(modes.SILENT)
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
        self._note(outputs, tensors)
        seen = list(tensors)
        results = []
        for i, o in enumerate(outputs):
            results.append(_as_result(o) if _place(o, seen) is not None and i not in self.dirty else o)
            seen.append(o)
        return tuple(results)

    def _note(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Turn what the context holds into places, so that it neither keeps tensors alive nor depends on a level."""
        ctx = self.ctx
        self.saves = []
        for t in ctx._to_save:
            place, result = _place(t, inputs), _place(t, outputs)
            if place is not None:
                self.saves.append(("input", place))
            else:
                self.saves.append(("value", t) if result is None else ("output", result))
        self.dirty = [i for i, o in enumerate(outputs) if _place(o, ctx._dirty) is not None]
        self.undifferentiable = [i for i, o in enumerate(outputs) if _place(o, ctx._non_differentiable) is not None]
        ctx._to_save = ctx._dirty = ctx._non_differentiable = ()

    def record(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any, params: dict[str, Any]) -> None:
        """Put the call on the tape: one node for it, and one in front of each output."""
        for i in self.dirty:
            raise_if_not_writable(out[i], self.name, True)
        edges = tuple(edge_of(a) if need else None for a, need in zip(args, needs, strict=True))
        call = copy.copy(self)  # the next run of this call has a context of its own
        call.shapes_in = [(a.shape, a.np_dtype) for a in args]
        parent = attach(Tensor._wrap(0.0), call, *split_edges(edges), None, -1, None, {}, ())
        carriers = [o.shell() if i in self.dirty else o for i, o in enumerate(out)]
        split_outputs(parent, carriers)
        for i, (o, carrier) in enumerate(zip(out, carriers, strict=True)):
            if i in self.undifferentiable:
                o._node, o._requires_grad = None, False
            elif i in self.dirty:
                storage_of(o).bump(self.name)
                rebase(o, carrier._node)
        parent.saved = tuple(_keep(kind, value, args, out) for kind, value in self.saves)
        if parent.saved and modes.saved_hooks.get():
            parent.saved = tuple(
                packed(item, value if kind == "input" else None)
                for item, (kind, value) in zip(parent.saved, self.saves, strict=True)
            )

    shapes_in: list[tuple[Any, Any]]

    def batch(self, prim: Any, values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
        """Under vmap the forward and the backward see batched tensors, and the call is recorded inside as well."""
        return apply(_BatchedCall(self, batched, size), values, {})

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        as_arrays = not any(isinstance(g, Tensor) for g in ct.values())
        grads = [_incoming(node, ct, i, self.ctx.materialize_grads) for i in range(len(node.shapes))]
        saved = unpack(node, next(g for g in grads if isinstance(g, Tensor))) or ()
        found = self.pulled(saved, grads, node)
        return [g._array if as_arrays and type(g) is Tensor else g for g in found]

    def pulled(self, saved: Sequence[Any], grads: Sequence[Any], node: Node) -> list[Any]:
        """The user's backward, with its results checked."""
        token = modes.on_arrays.set(False)
        self.ctx._saved = saved
        try:
            result = self.function.backward(self.ctx, *grads)
        finally:
            self.ctx._saved = None
            modes.on_arrays.reset(token)
        return self._outgoing(result, node)

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


class _BatchedCall(_Call):
    """A call under vmap, as a primitive of the tensors that hold whole batches."""

    def __init__(self, call: _Call, batched: Sequence[bool], size: int) -> None:
        self.__dict__.update(call.__dict__)
        self.call = call
        self.batched = list(batched)
        self.size = size
        self.level = new_level()

    def _wrapped(self, values: Sequence[Any]) -> list[Any]:
        return [Batched.make(v, self.level) if b else v for v, b in zip(values, self.batched, strict=True)]

    def run(self, tensors: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        outs = self.call.run(self._wrapped(tensors), params)
        for name in ("ctx", "single", "saves", "dirty", "undifferentiable"):
            setattr(self, name, getattr(self.call, name))
        if self.dirty:
            raise RuntimeError(f"{self.name}: mark_dirty is not supported under vmap; return a new tensor instead")
        return tuple(self._whole(o) for o in outs)

    def _whole(self, out: Any) -> Any:
        if not isinstance(out, Tensor):
            raise TypeError(f"{self.name}: under vmap all outputs must be tensors, not {type(out).__name__}")
        if isinstance(out, Batched) and out._level == self.level:
            return out._array
        return out.expand(self.size, *out.shape)

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        as_arrays = not any(isinstance(g, Tensor) for g in ct.values())
        grads = [_incoming(node, ct, i, self.ctx.materialize_grads) for i in range(len(node.shapes))]
        wrapped = [None if g is None else Batched.make(g, self.level) for g in grads]
        saved = list(unpack(node, next(g for g in grads if g is not None)) or ())
        for k, (kind, place) in enumerate(self.saves):
            if kind == "output" or (kind == "input" and self.batched[place]):
                saved[k] = Batched.make(saved[k], self.level)
        inner = copy.copy(self.call)
        inner.ctx = self.ctx
        inner.shapes_in = [
            (shape[1:] if b else shape, dtype) for (shape, dtype), b in zip(self.shapes_in, self.batched, strict=True)
        ]
        found = [self._summed(g, b) for g, b in zip(inner.pulled(saved, wrapped, node), self.batched, strict=True)]
        return [g._array if as_arrays and type(g) is Tensor else g for g in found]

    def _summed(self, gradient: Any, batched: bool) -> Any:
        """The gradient of a shared argument is summed over the examples."""
        if gradient is None:
            return None
        if not isinstance(gradient, Batched) or gradient._level != self.level:
            return gradient.expand(self.size, *gradient.shape) if batched else gradient * self.size
        return gradient._array if batched else gradient._array.sum(0)


def _place(tensor: Any, among: Sequence[Any]) -> int | None:
    """Where a tensor stands in a list, by identity."""
    if not isinstance(tensor, Tensor):
        return None
    return next((i for i, t in enumerate(among) if t is tensor), None)


def _as_result(output: Tensor) -> Tensor:
    """An input that is returned as it is becomes a tensor of its own over the same memory."""
    fresh = output.shell()
    fresh._meta = View(None, None, {}, storage_of(output), DETACHED)
    return fresh


def _incoming(node: Node, ct: dict[int, Any], i: int, materialize: bool) -> Any:
    """The gradient of one output, as a tensor; zeros or None if it was not used."""
    if i in ct:
        return ct[i] if isinstance(ct[i], Tensor) else Tensor._wrap(ct[i])
    meta = node.shapes[i]
    return Tensor._wrap(np.zeros(*meta)) if meta is not None and materialize else None


def _keep(kind: str, value: Any, args: Sequence[Any], outs: Sequence[Any]) -> Any:
    """What the node keeps of a saved tensor; of an output, not the tensor, which refers to the node."""
    if kind == "input":
        return save_input(args[value])
    if kind == "output":
        saved = save_output(outs[value])
        saved.index = value
        return saved
    return None if value is None else save_input(value)


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
    attach(out, _Refuse(name), *split_edges(()), None, -1, None, {}, out.shape)
    return out
