"""One application of a custom `Function`: how it runs, is recorded, and behaves under each transform."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.autograd.transposing import by_transposing
from lucid.core import dtypes, modes
from lucid.core.arrays import zeros
from lucid.core.levels import Inside, active, new_level
from lucid.core.node import OPERAND, RESULT, Node, Plan, attach, linked, split_edges
from lucid.core.primitive import P, Primitive, apply, bare, edge_of, write_results
from lucid.core.storage import DETACHED, new_view, root_of, storage_of
from lucid.core.tensor import Tensor, class_of, wrapped_as
from lucid.ir.trace import Computed, Traced
from lucid.kinds.batched import Batch, Batched, enclose, pick, reveal, stacked
from lucid.kinds.dual import Dual
from lucid.kinds.kind import Kind, NeedsValueError
from lucid.ops.rules import sum_to
from lucid.tape.engine import run
from lucid.tape.inplace import raise_if_not_writable, rebase

INPUT, OUTPUT, VALUE = "input", "output", "value"  # what a context may save


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


class Call(Primitive):
    """One application of a Function, as a primitive of the tensors among its arguments."""

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.name = function.__name__
        self.function = function
        self.is_transparent = getattr(function, "is_transparent", False)  # to make_graph, which sees what is inside
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.args = tuple(None if isinstance(a, Tensor) else a for a in args)
        # Transforms run the call on what is inside its operands: whether these need a gradient is seen from outside.
        self.needs = [args[i].requires_grad for i in self.places]
        self.kind = class_of(args)  # of gradients, as of what is computed of the operands
        self.operands = self.results = self.rules = self.names = ()
        self.shared, self.plans, self.only_plan = {}, [], None
        self.jvp = self._push if defines(function, "jvp") else by_transposing
        self.kernel = self.abstract = None
        self.is_view = self.is_variadic = self.broadcasts = self.gives_residuals = False
        self.pulls_arrays = True
        self.pulls_new = False  # users may keep what they give and get
        self.shows_elements = self.shows_part = False
        self.is_call = self.multi = self.differentiable = True
        self.single = False
        self.ctx = FunctionCtx()
        self.saves: list[tuple[str, Any]] = []  # what the context saved, as places among inputs and outputs
        self.dirty: set[int] = set()  # outputs that are inputs changed in place
        self.undifferentiable: set[int] = set()
        self.around = 0  # the number of the vmap in which it runs
        self._kept: Sequence[Any] = ()  # what such a call saved
        self.ran_level = 0  # the level of the tensors on which the calls for single examples ran
        self.examples: list[Call] | None = None  # the calls for each example, if the forward ran once for each

    def raise_if_dirty(self, where: str) -> None:
        if self.dirty:
            raise RuntimeError(f"{self.name}: mark_dirty is not supported {where}; return a new tensor instead")

    def called_in(self, level: int, args: Sequence[Any]) -> None:
        """Note in which vmap the call runs, and which of its operands need a gradient there."""
        self.around = level
        self.needs = [need or a.requires_grad for need, a in zip(self.needs, args, strict=True)]

    def run(self, tensors: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        """The forward, on these tensors."""
        self.examples = None
        self.ctx = FunctionCtx()
        args = self._arguments(tensors)
        needs = [False] * len(args)
        for place, need, tensor in zip(self.places, self.needs, tensors, strict=True):
            needs[place] = need or tensor.requires_grad
        self.ctx.needs_input_grad = tuple(needs)
        token = modes.recording.set(modes.SILENT)
        try:
            if defines(self.function, "setup_context"):
                output = self.function.forward(*args)
                self.function.setup_context(self.ctx, tuple(args), output)
            else:
                output = self.function.forward(self.ctx, *args)
        finally:
            modes.recording.reset(token)
        self.single = not isinstance(output, tuple)
        outputs = (output,) if self.single else output
        self._note(outputs, tensors)
        seen = {id(t) for t in tensors}
        results = []
        for i, o in enumerate(outputs):
            given = isinstance(o, Tensor) and id(o) in seen
            results.append(_as_result(o) if given and i not in self.dirty else o)
            seen.add(id(o))
        return tuple(results)

    def again(self, tensors: Sequence[Any], with_saved: bool = False) -> tuple[Any, ...]:
        """The same operation on other tensors: its results, and behind them the values that it saved, if wanted."""
        args = self._arguments(tensors)
        call = Call(self.function, tuple(args))
        outs = tuple(apply(call, [args[i] for i in call.places], {}))
        return (*outs, *call.saved_values()) if with_saved else outs

    def saved_values(self) -> list[Tensor]:
        """What the forward saved that is neither an argument nor a result."""
        if self.examples is None:
            return [value for kind, value in self.saves if kind == "value" and isinstance(value, Tensor)]
        columns = zip(*[example.saved_values() for example in self.examples], strict=True)
        return [enclose(stacked(column), self.around) for column in columns]

    def replace_saved(self, values: Sequence[Tensor]) -> None:
        """Take other tensors for `saved_values`."""
        supply = iter(values)
        self.saves = [
            (kind, next(supply) if kind == "value" and isinstance(value, Tensor) else value)
            for kind, value in self.saves
        ]

    def _arguments(self, tensors: Sequence[Any]) -> list[Any]:
        args = list(self.args)
        for place, tensor in zip(self.places, tensors, strict=True):
            args[place] = tensor
        return args

    def _note(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Turn what the context holds into places, so that it neither keeps tensors alive nor depends on a level."""
        ctx = self.ctx
        self.saves = []
        places, results = _places(inputs), _places(outputs)
        written, constant = _places(ctx._dirty), _places(ctx._non_differentiable)
        self.dirty = {i for i, o in enumerate(outputs) if id(o) in written}
        self.undifferentiable = {i for i, o in enumerate(outputs) if id(o) in constant}
        for t in ctx._to_save:
            place, result = places.get(id(t)), results.get(id(t))
            if place is not None and result not in self.dirty:
                self.saves.append((INPUT, place))
            else:
                self.saves.append((VALUE, t) if result is None else (OUTPUT, result))
        ctx._to_save = ctx._dirty = ctx._non_differentiable = ()

    def record(self, args: Sequence[Any], out: Sequence[Any]) -> None:
        """Put the call on the tape. What the context saved beside inputs and outputs are residuals."""
        looped = self.is_looped()
        if looped and not self._fits(args):
            self._refuse_outputs(args, out)
            return
        for i in sorted(self.dirty):
            raise_if_not_writable(out[i], self.name, True)
        call = copy.copy(self)  # the next run of this call has a context of its own
        call.shapes_in = [(a.shape, a.np_dtype) for a in args]
        count = len(args)
        call.only_plan = Plan(
            tuple([_keep(kind, value, count) for kind, value in self.saves if kind != VALUE]), count + len(out)
        )
        carriers = [self._written(o) if i in self.dirty else o for i, o in enumerate(out)]
        residuals = self.kept() if looped else [value for kind, value in self.saves if kind == VALUE]
        write_results(call, args, 0, carriers, {}, residuals, modes.recording.get(), self.undifferentiable)
        for i in sorted(self.dirty - self.undifferentiable):
            rebase(out[i], carriers[i]._node)

    def _written(self, out: Tensor) -> Tensor:
        """A tensor that stands for an input which the call has changed, to get the history that this gives it."""
        storage = storage_of(out)
        storage.bump(self.name)
        carrier = out.shell()
        carrier._meta, carrier._born = storage, root_of(out)._born
        return carrier

    def _saved(self, node: Node, ct: Any) -> list[Any]:
        """What the context saved, in its order, as tensors with their places in the graph."""
        found = linked(node, ct)
        inputs, size = len(node.edges), len(node.edges) + len(node.shapes)
        if self.is_looped():
            return found[size:]
        values = iter(found[size:])
        return [
            next(values) if kind == VALUE else found[value if kind == INPUT else inputs + value]
            for kind, value in self.saves
        ]

    shapes_in: list[tuple[Any, Any]]

    def _fits(self, args: Sequence[Any]) -> bool:
        """Whether what the calls for single examples saved is all that the derivative at this level needs."""
        inner = [a._array if isinstance(a, Batched) and a._level == self.around else a for a in args]
        return _level(args) == self.around and _level(inner) == self.ran_level

    def _refuse_outputs(self, args: Sequence[Any], out: Sequence[Any]) -> None:
        reason = (
            f"{self.name} asks for values, so that under vmap its forward runs once for each example; it cannot be "
            "differentiated through a second transform inside. Write it with tensor operations"
        )
        for o in out:
            if isinstance(o, Tensor) and o.np_dtype in dtypes.DIFFERENTIABLE:
                refused = refusing(o, reason, args)
                o._node, o._requires_grad = refused._node, True

    def is_looped(self) -> bool:
        """Whether the forward ran once for each example, of this vmap or of one around it."""
        inner = getattr(self, "call", None)
        return self.examples is not None or (inner is not None and inner.is_looped())

    def kept(self) -> Sequence[Any]:
        """The values saved by the calls for single examples."""
        if self.examples is not None:
            return [value for e in self.examples for value in e.kept()]
        inner = getattr(self, "call", None)
        return self._kept if inner is None or not inner.is_looped() else inner.kept()

    def batch(self, prim: Any, values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
        """Under vmap the forward and the backward see batched tensors, and the call is recorded inside as well."""
        if defines(self.function, "vmap"):
            return self._by_own_rule(values, batched, size)
        return apply(BatchedCall(self, batched, size), values, {})

    def _by_own_rule(self, values: Sequence[Any], batched: Sequence[bool], size: int) -> tuple[Any, ...]:
        """The user's rule for a whole batch; what it does is recorded like any other computation."""
        dims: list[int | None] = [None] * len(self.args)
        for place, b in zip(self.places, batched, strict=True):
            dims[place] = 0 if b else None
        returned = self.function.vmap(VmapInfo(size, _randomness(self.around)), tuple(dims), *self._arguments(values))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"{self.name}.vmap must return a pair (outputs, out_dims), not {type(returned).__name__}")
        output, out_dims = returned
        outputs = output if isinstance(output, tuple) else (output,)
        where = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
        if len(where) != len(outputs):
            raise ValueError(f"{self.name}.vmap returned {len(outputs)} outputs, but {len(where)} out_dims")
        whole = tuple(
            o.expand(size, *o.shape) if d is None else o.movedim(d, 0) for o, d in zip(outputs, where, strict=True)
        )
        # What the backward needs is kept as the forward would have kept it for batched tensors.
        inputs = [Batched.make(v, self.around) if b else v for v, b in zip(values, batched, strict=True)]
        examples = tuple(Batched.make(o, self.around) for o in whole)
        if defines(self.function, "setup_context"):
            self.ctx = FunctionCtx()
            self.function.setup_context(
                self.ctx, tuple(self._arguments(inputs)), examples if isinstance(output, tuple) else examples[0]
            )
            self.single = not isinstance(output, tuple)
            self._note(examples, inputs)
        else:
            self.run(inputs, {})
        return whole

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        as_arrays = not any(isinstance(g, Tensor) for g in ct.values())
        grads = [_incoming(node, ct, i, self.ctx.materialize_grads, self.kind) for i in range(len(node.shapes))]
        saved = self._saved(node, next(g for g in grads if isinstance(g, Tensor)))
        found = self.pulled(saved, grads, node)
        return [bare(g) for g in found] if as_arrays else found

    def pulled(self, saved: Sequence[Any], grads: Sequence[Any], node: Node) -> list[Any]:
        """The user's backward, with its results checked; on batched tensors, once for each example if it must be."""
        if self.examples is not None:
            return self._pulled_one_by_one(saved, grads, node)
        try:
            return self._pulled(saved, grads, node)
        except NeedsValueError:
            kinds = [t for t in (*saved, *grads) if isinstance(t, (Batched, Traced))]
            top = max(kinds, key=lambda t: t._level, default=None)
            if top is None:
                raise
            if isinstance(top, Traced):
                return self._pulled_in_program(saved, grads, node, top)
            return self._pulled_one_by_one(saved, grads, node)

    def _pulled_in_program(self, saved: Sequence[Any], grads: Sequence[Any], node: Node, top: Traced) -> list[Any]:
        """A backward that uses NumPy, as one instruction of the program that is being traced."""
        given = [*saved, *grads]
        present = [k for k, t in enumerate(given) if isinstance(t, Tensor)]
        found: list[Any] = []

        def compute(*tensors: Any) -> tuple[Any, ...]:
            values = list(given)
            for k, tensor in zip(present, tensors, strict=True):
                values[k] = tensor
            found[:] = self.pulled(values[: len(saved)], values[len(saved) :], node)
            return tuple(g for g in found if g is not None)

        outs = iter(top.write_down(Computed(f"{self.name}.backward", compute), [given[k] for k in present]))
        return [None if g is None else next(outs) for g in list(found)]

    def _pulled(self, saved: Sequence[Any], grads: Sequence[Any], node: Node) -> list[Any]:
        watch = modes.given_away.set([])
        self.ctx._saved = saved
        try:
            if not defines(self.function, "backward") and defines(self.function, "jvp"):
                return self._transposed(grads, node)
            result = self.function.backward(self.ctx, *grads)
            lost = modes.given_away.get() or ()
        finally:
            self.ctx._saved = None
            modes.given_away.reset(watch)
        return self._not_again(self._outgoing(result, node), lost, (*saved, *grads))

    def _not_again(self, found: list[Any], lost: Sequence[Tensor], sources: Sequence[Any]) -> list[Any]:
        """A backward that went through NumPy has no derivative that anyone could follow: say so to whoever asks."""
        reason = f"{self.name}.backward hands its values to NumPy, and so cannot be differentiated again"
        if any(is_pushed(t) for t in lost):
            raise RuntimeError(f"{reason}; write it with tensor operations")
        if not modes.recording.get() or not any(t.requires_grad for t in lost):
            return found
        return [refusing(g, reason, sources) if isinstance(g, Tensor) and not g.requires_grad else g for g in found]

    def _pulled_one_by_one(self, saved: Sequence[Any], grads: Sequence[Any], node: Node) -> list[Any]:
        """The backward for one example after the other."""
        if self.examples is None:
            level = max(t._level for t in (*saved, *grads) if isinstance(t, Batched))
            size = next(t.batch_size for t in (*saved, *grads) if isinstance(t, Batched) and t._level == level)
        else:
            level, size = self.around, len(self.examples)
        rows = []
        start = 0
        for i in range(size):
            inner = copy.copy(self if self.examples is None else self.examples[i])
            inner.shapes_in = self.shapes_in
            if self.examples is None:
                mine: Sequence[Any] = [pick(t, level, i) for t in saved]
            else:
                count = len(inner.kept())
                mine = saved[start : start + count]
                start += count
            rows.append(inner.pulled(mine, [pick(g, level, i) for g in grads], node))
        columns = zip(*rows, strict=True)
        found = [None if c[0] is None else enclose(stacked(c), level) for c in columns]
        if not modes.recording.get():
            return found
        reason = f"{self.name} ran once for each example of a vmap, and so cannot be differentiated again inside of it"
        edges = [e for e in node.edges if e is not None]
        return [None if g is None else refusing(g, reason, (*saved, *grads), edges) for g in found]

    def _push(self, prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
        """Forward mode by the user's jvp."""
        kept = {INPUT: primals, OUTPUT: out}
        self.ctx._saved = [kept[kind][value] if kind in kept else value for kind, value in self.saves]
        try:
            changes = self._pushed(tangents, primals)
        finally:
            self.ctx._saved = None
        if len(changes) != len(out):
            raise RuntimeError(f"{self.name}.jvp returned {len(changes)} tangents, but forward gave {len(out)} outputs")
        return [
            None if i in self.undifferentiable or c is None else self._fitting(c, o, i)
            for i, (c, o) in enumerate(zip(changes, out, strict=True))
        ]

    def _pushed(self, tangents: Sequence[Any], primals: Sequence[Any]) -> tuple[Any, ...]:
        filled = [
            Tensor._wrap(zeros(p.shape, p.np_dtype))
            if t is None and self.ctx.materialize_grads and p.np_dtype in dtypes.DIFFERENTIABLE
            else t
            for t, p in zip(tangents, primals, strict=True)
        ]
        args: list[Any] = [None] * len(self.args)
        for place, tangent in zip(self.places, filled, strict=True):
            args[place] = tangent
        result = self.function.jvp(self.ctx, *args)
        return result if isinstance(result, tuple) else (result,)

    def _fitting(self, change: Any, out: Tensor, i: int) -> Tensor:
        if not isinstance(change, Tensor) or change.shape != out.shape:
            given = f"shape {change.shape}" if isinstance(change, Tensor) else type(change).__name__
            raise RuntimeError(f"{self.name}.jvp returned {given} for output {i} of shape {out.shape}")
        return change.to(out.np_dtype)

    def _transposed(self, grads: Sequence[Any], node: Node) -> list[Any]:
        """Reverse mode of a Function that has only a jvp: the cotangent of <ct, jvp(t)> with respect to t."""
        create = bool(modes.recording.get())
        recording = modes.recording.set(modes.recording_state(True))
        try:
            starts = [
                Tensor._wrap(zeros(shape, dtype)) if dtype in dtypes.DIFFERENTIABLE else None
                for shape, dtype in self.shapes_in
            ]
            wanted = [k for k, edge in enumerate(node.edges) if edge is not None]
            tangents = [None if z is None else z.requires_grad_(k in wanted) for k, z in enumerate(starts)]
            changes = self._pushed(tangents, [_Like(*meta) for meta in self.shapes_in])
        finally:
            modes.recording.reset(recording)
        live = [
            (c, g)
            for c, g in zip(changes, grads, strict=True)
            if isinstance(c, Tensor) and c.requires_grad and g is not None
        ]
        found: list[Any] = [None] * len(self.places)
        if live:
            results = run(
                [c for c, _ in live],
                [g for _, g in live],
                [tangents[k] for k in wanted],  # type: ignore[misc]  # what is wanted has a tangent
                retain_graph=create,
                create_graph=create,
                accumulate=False,
            )
            for k, g in zip(wanted, results, strict=True):
                found[k] = g
        return found

    def _outgoing(self, result: Any, node: Node) -> list[Any]:
        """One gradient for each tensor argument, of its shape and type."""
        grads = tuple(result) if isinstance(result, (tuple, list)) else (result,)
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


class BatchedCall(Call):
    """A call under vmap, as a primitive of the tensors that hold whole batches."""

    def _fits(self, args: Sequence[Any]) -> bool:
        return _level(args) == self.ran_level

    def __init__(self, call: Call, batched: Sequence[bool], size: int) -> None:
        self.take_over(call)
        self.call = call
        self.level = call.around
        self.batched = list(batched)
        self.size = size
        self.jvp = by_transposing
        self.randomness = _randomness(self.level)
        self.saves_batched: list[bool] = []  # which of the saved tensors hold a batch

    def run(self, tensors: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
        call = self.call
        self.examples = None
        needs = zip(call.needs, self.needs, tensors, strict=True)
        call.needs = [inner or own or t.requires_grad for inner, own, t in needs]
        self.ran_level = call.ran_level = _level(tensors)
        try:
            outs: Sequence[Any] = call.run(self._wrapped(tensors), params)
        except NeedsValueError:
            outs = self._run_one_by_one(tensors)
            self.examples = call.examples
        for name in ("ctx", "single", "dirty", "undifferentiable"):
            setattr(self, name, getattr(call, name))
        self.raise_if_dirty("under vmap")
        self.saves, self.saves_batched = [], []
        for kind, value in call.saves:
            own = isinstance(value, Batched) and value._level == self.level
            self.saves.append((kind, value._array if own else value))
            held = kind == OUTPUT or (self.batched[value] if kind == INPUT else own and value._aux is None)
            self.saves_batched.append(held)
        return tuple(self._whole(o) for o in outs)

    def again(self, tensors: Sequence[Any], with_saved: bool = False) -> tuple[Any, ...]:
        """The same operation on all examples of another batch."""
        call = BatchedCall(copy.copy(self.call), self.batched, self.size)
        call.level, call.randomness = new_level(), self.randomness
        with Inside(Batch(call.level, self.size, self.randomness, {})):
            return tuple(apply(call, tensors, {}))

    def _run_one_by_one(self, tensors: Sequence[Any]) -> list[Any]:
        """A forward that asks for values sees one example after the other."""
        call = self.call
        examples, rows = [], []
        for i in range(self.size):
            one = copy.copy(call)
            picked = [P.slice(t, index=(i,)) if b else t for t, b in zip(tensors, self.batched, strict=True)]
            token = modes.recording.set(modes.SILENT)
            try:
                outs = apply(one, picked, {})
            finally:
                modes.recording.reset(token)
            kept = {INPUT: picked, OUTPUT: outs}
            one._kept = [kept[kind][value] if kind in kept else value for kind, value in one.saves]
            examples.append(one)
            rows.append(outs)
        if not examples:
            raise RuntimeError(f"{self.name}: its forward asks for values, and the batch has no example to run it on")
        for name in ("ctx", "single", "undifferentiable", "dirty"):
            setattr(call, name, getattr(examples[0], name))
        call.saves, call.examples = [], examples
        return [Batched.make(stacked(column), self.level) for column in zip(*rows, strict=True)]

    def _wrapped(self, values: Sequence[Any]) -> list[Any]:
        return [Batched.make(v, self.level) if b else v for v, b in zip(values, self.batched, strict=True)]

    def _whole(self, out: Any) -> Any:
        if not isinstance(out, Tensor):
            raise TypeError(f"{self.name}: under vmap all outputs must be tensors, not {type(out).__name__}")
        if isinstance(out, Batched) and out._level == self.level:
            if out._aux is None:
                return out._array
            out = out._array
        return out.expand(self.size, *out.shape)

    def pulled(self, saved: Sequence[Any], grads: Sequence[Any], node: Node) -> list[Any]:
        """The backward of the call inside, on all examples."""
        shapes = [
            (shape[1:] if b else shape, dtype) for (shape, dtype), b in zip(self.shapes_in, self.batched, strict=True)
        ]
        if self.examples is not None:
            return self._pulled_by_examples(saved, grads, node, shapes)
        # The pass may run inside transforms that are newer than the call; these stay around the batch.
        level = self.level
        inner = copy.copy(self.call)
        inner.ctx, inner.shapes_in = self.ctx, shapes
        if not inner.is_looped():
            saved = [enclose(t, level) if b else t for t, b in zip(saved, self.saves_batched, strict=True)]
        found = inner.pulled(saved, [None if g is None else enclose(g, level) for g in grads], node)
        whole = [None if g is None else reveal(g, level, self.size) for g in found]
        # The gradient of a shared argument is summed over the examples.
        return [g if g is None or b else g.sum(0) for g, b in zip(whole, self.batched, strict=True)]

    def _pulled_by_examples(self, saved: Sequence[Any], grads: Sequence[Any], node: Node, shapes: Any) -> list[Any]:
        rows = []
        start = 0
        for i, example in enumerate(self.examples or ()):
            inner = copy.copy(example)
            inner.shapes_in = shapes
            stop = start + len(inner.kept())
            mine = [None if g is None else P.slice(g, index=(i,)) for g in grads]
            rows.append(inner.pulled(saved[start:stop], mine, node))
            start = stop
        columns = [None if c[0] is None else stacked(c) for c in zip(*rows, strict=True)]
        return [c if c is None or b else c.sum(0) for c, b in zip(columns, self.batched, strict=True)]


class VmapInfo(NamedTuple):
    """What a Function's own `vmap` is told."""

    batch_size: int
    randomness: str


class _Like(NamedTuple):
    """A shape and a type, where the values do not matter."""

    shape: tuple[int, ...]
    np_dtype: Any


def defines(function: Any, name: str) -> bool:
    """Whether a subclass of Function has a method of its own."""
    return any(name in vars(c) for c in function.__mro__ if not vars(c).get("is_base_of_functions"))


class _Refuse:
    """The node of a gradient that must not be differentiated again."""

    multi = False
    refuses = True

    def __init__(self, reason: str) -> None:
        self.name = "refuse"
        self.reason = reason

    def vjp(self, node: Node, ct: Any) -> Any:
        raise RuntimeError(self.reason)


def refusing(gradient: Tensor, reason: str, sources: Sequence[Any], more: Sequence[Any] = ()) -> Tensor:
    """The same gradient; whoever differentiates it by one of its sources is told why that cannot be."""
    out = gradient.shell()
    edges = (*(edge_of(t) for t in sources if isinstance(t, Tensor) and t.requires_grad), *more)
    attach(out, _Refuse(reason), *split_edges(edges), None, -1, None, {}, out.shape)
    return out


def is_pushed(tensor: Any) -> bool:
    """Whether a tangent would be lost if only the values of a tensor went on."""
    if not isinstance(tensor, Kind):
        return False
    return (isinstance(tensor, Dual) and tensor._aux is not None) or is_pushed(tensor._array)


def _level(tensors: Sequence[Any]) -> int:
    """The number of the innermost transform that made one of the tensors."""
    return max((t._level for t in tensors if isinstance(t, Kind)), default=0)


def _randomness(level: int) -> str:
    return next((t.randomness for t in active.get() if t.level == level), "error")


def _places(tensors: Sequence[Any]) -> dict[int, int]:
    """Where each tensor first stands in a list, by identity."""
    found: dict[int, int] = {}
    for i, t in enumerate(tensors):
        if isinstance(t, Tensor):
            found.setdefault(id(t), i)
    return found


def _as_result(output: Tensor) -> Tensor:
    """An input that is returned as it is becomes a tensor of its own over the same memory."""
    fresh = output.shell()
    fresh._meta = new_view(None, None, {}, storage_of(output), DETACHED)
    return fresh


def _incoming(node: Node, ct: dict[int, Any], i: int, materialize: bool, kind: Any = Tensor) -> Any:
    """The gradient of one output, as a tensor; zeros or None if it was not used."""
    if i in ct:
        return ct[i] if isinstance(ct[i], Tensor) else wrapped_as(kind, ct[i])
    meta = node.shapes[i]
    return wrapped_as(kind, zeros(*meta)) if meta is not None and materialize else None


def _keep(kind: str, number: int, inputs: int) -> tuple[int, str, int]:
    """Where an input or output that the context saved goes among them all."""
    return (number, OPERAND, number) if kind == INPUT else (inputs + number, RESULT, number)
