"""Primitives and how they are applied: run on what is inside the operands, then recorded on the tape.

A primitive's operands are positional and its parameters are keywords. Every operation of the library ends up in `apply`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign
from types import MappingProxyType, SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from lucid.core import levels, modes
from lucid.core.arrays import ARRAY
from lucid.core.collector import expose
from lucid.core.destinations import filled_by, waiting
from lucid.core.detachments import cut
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import TensorFields
from lucid.core.hooks import hooks_of
from lucid.core.kernels import kernel_of, table
from lucid.core.levels import INNERMOST, captured, tracing
from lucid.core.node import (
    ABSENT,
    OPERAND,
    RESULT,
    SHAPE,
    Node,
    Plan,
    attach,
    note_if_not_finite,
    output_edge,
    pack_saved,
    save_input,
    save_output,
    saved_at,
    settle,
    split_edges,
)
from lucid.core.storage import DETACHED, FROZEN, NORMAL, UNRECORDED, View, new_view, storage_of, thaw
from lucid.core.tensor import Tensor, class_of, shape_of, wrapped, wrapped_as
from lucid.native import PyObject_Call

HOOKED = modes.HOOKED
_recording = modes.recording.get
_active = levels.active.get

_MOST_PLANNED = 5  # operands whose combinations have plans that are kept
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class Rule:
    """A function that a reverse rule is made of. The names of its parameters say what it reads.

    The first may be `ct`, the cotangent, or `cts`, those of several results, None for results that were not used. Names
    of operands and results are values to save (a single result is called `out`); `x_shape` is the shape of operand `x`;
    any other name is a value that rules share, or one of the primitive's own parameters.
    """

    def __init__(self, fn: Callable[..., Any], kept: Sequence[str]) -> None:
        names = getattr(fn, "names", None) or fn.__code__.co_varnames[: fn.__code__.co_argcount]
        self.fn = fn
        self.takes_ct = names[:1] == ("ct",) or names[:1] == ("cts",)
        self.names = names[1:] if self.takes_ct else names
        self.values = tuple(n for n in self.names if n in kept)
        self.picks: tuple[Any, ...] = ()  # where each argument comes from: saved values or params
        self.places: frozenset[int] = frozenset()  # the saved values that it reads, also by what it shares

    def arguments(self, values: Any, params: dict[str, Any]) -> list[Any]:
        return [values[k] if type(k) is int else params[k] for k in self.picks]

    def read(self, node: Node, ct: Any, params: Any = None) -> list[Any]:
        """The same from what a node has saved, in the form of the cotangent."""
        settings = node.params if params is None else params
        return [saved_at(node, k, ct) if type(k) is int else settings[k] for k in self.picks]

    def run(self, node: Node, ct: Any, lead: Any, params: dict[str, Any]) -> Any:
        """What it makes of the cotangent, or of several with `lead` among them."""
        read = self.read(node, lead, params)
        return self.fn(ct, *read) if self.takes_ct else self.fn(*read)


_FIELDS = (
    "abstract", "broadcasts", "differentiable", "gives_residuals", "is_call", "is_variadic", "is_view", "jvp", "kernel", "multi",
    "name", "names", "only_plan", "operands", "plans", "pulls_arrays", "pulls_new", "results", "rules", "shared", "shows_elements",
    "shows_part",
)  # fmt: skip


class Primitive:
    """One operation with all that is known about it.

    `kernel(*arrays, **params)` computes, and is found in `core.kernels`; `rules` has for each operand what its cotangent
    is, and `shared` values, by their names, that several rules read and that are computed once;
    `jvp(prim, primals, tangents, out, params)` gives the tangent of the result;
    `batch(prim, values, batched, size, params)` the result with the batch in dimension 0; `facts` are attributes below.
    """

    def __init__(
        self,
        name: str,
        *,
        operands: Sequence[str] = ("x",),
        results: Sequence[str] = ("out",),
        rules: Sequence[Callable[..., Any] | None] = (),
        shared: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        jvp: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        is_view: bool = False,
        abstract: Callable[..., Any] | None = None,
        category: str = "other",
        reason: str = "",
        **facts: Any,
    ) -> None:
        self.name, self.category, self.reason = name, category, reason  # `ops.categories.CATEGORIES`, and why "other"
        self.operands, self.results, self.multi = tuple(operands), tuple(results), len(results) > 1
        self.jvp, self.batch, self.is_view = jvp, batch, is_view
        self.abstract = abstract  # shape and type of the result, from `Abstract`s and params, without values
        self.pulls_arrays = False  # whether its rules take arrays as they are, and not only tensors
        self.pulls_new = type(self) is Primitive and not self.multi and not shared  # whether no cotangents share memory
        self.gives_residuals = False  # whether its kernel is `core.kernels.WithBackward`
        self.is_call = False  # whether it is a user's function, made of other primitives
        self.is_variadic = False  # whether it takes any number of operands, and its rule their shapes
        self.broadcasts = False  # whether its operands are broadcast, so that its rule needs their shapes
        self.shows_elements = False  # whether it is a view whose elements are those of its operand, wherever they lie
        self.shows_part = False  # whether it shows a part of them: its transpose is larger than what it gets, mostly 0
        self.is_scalar = False  # whether it is a function of single elements
        self.body: Callable[..., Any] | None = None  # that function, in terms of others
        self.composite: Callable[..., Any] | None = None  # the definition of a fused one, in terms of others
        self.linear_in: tuple[int, ...] | None = ()  # operands in which it is linear together, None for all of them
        self.positions: int | None = None  # of a gather or scatter: the first operand that is a position
        self.is_polynomial = False  # whether operands enter it by sums and products alone
        self.multiply_adds: Any = None  # how many it takes, from the shapes of operands and result, and parameters
        self.fold: Any = None  # of a reduction or scan: how elements are put together, an `ops.categories.Fold`
        self.row_body: Any = None  # of a function of rows along `dim`: what it computes of each, see `ops.nn.rows`
        self.checks: Any = None  # what its kernel checks of values, and raises for: an `ops.categories.Check`
        self._set_rules(rules, shared)
        self.differentiable = any(rule is not None for rule in self.rules)
        self.only_plan: Plan | None = None  # where it is the same for all combinations
        self.plans: list[Plan | None] = [None] * (1 << min(len(self.operands), _MOST_PLANNED))  # by the operands' bits
        self.kernel = kernel_of(self)
        self.public: Any = None  # what users call, if it is declared with that
        for fact in facts:
            getattr(self, fact)  # raises for one that does not exist
            setattr(self, fact, facts[fact])
        registry[name] = self

    def _set_rules(self, rules: Sequence[Callable[..., Any] | None], shared: Mapping[str, Callable[..., Any]]) -> None:
        values = (*self.operands, *self.results)
        kept = (*values, *(f"{o}_shape" for o in self.operands))
        self.rules = tuple(None if fn is None else Rule(fn, kept) for fn in rules)
        self.shared = {name: Rule(fn, kept) for name, fn in shared.items()}
        everyone = [*self.shared.values(), *(rule for rule in self.rules if rule is not None)]
        shapes = dict.fromkeys(r for rule in everyone for r in rule.values if r not in values)
        self.names = (*values, *shapes)
        for rule in everyone:  # what is shared comes first, and reads only what comes before it
            rule.picks = tuple(self.names.index(n) if n in rule.values else n for n in rule.names)
            through = [self.shared[n].places for n in rule.names if n in self.shared]
            rule.places = frozenset(k for k in rule.picks if type(k) is int).union(*through)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        return apply(self, args, params)

    def __copy__(self) -> "Primitive":
        made: Primitive = type(self).__new__(type(self))
        made.take_over(self)
        return made

    def take_over(self, other: "Primitive") -> None:
        """Be what another one is."""
        for field in _FIELDS:
            setattr(self, field, getattr(other, field))
        vars(self).update(vars(other))

    def plan(self, needs: int) -> Plan:
        """What is kept for the operands whose bits are set."""
        if self.only_plan is not None:
            return self.only_plan
        made = self.plans[needs] if needs < len(self.plans) else None
        if made is None:
            wanted = [rule.places for i, rule in enumerate(self.rules) if rule is not None and needs >> i & 1]
            made = self.plan_of(frozenset().union(*wanted))
            if needs < len(self.plans):
                self.plans[needs] = made
        return made

    def plan_of(self, places: Iterable[int]) -> Plan:
        """One that keeps what stands at these places of `names`."""
        count, known = len(self.operands), len(self.operands) + len(self.results)
        keeps: list[tuple[int, str, int]] = []
        for k in sorted(places):
            if k < count:
                keeps.append((k, OPERAND, k))
            elif k < known:
                keeps.append((k, RESULT, k - count))
            else:
                keeps.append((k, SHAPE, self.operands.index(self.names[k].removesuffix("_shape"))))
        return Plan(tuple(keeps), len(self.names))

    def run(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on plain tensors."""
        result = self.kernel(*[a._array if isinstance(a, Tensor) else a for a in args], **params)
        return tuple(Tensor._wrap(r) for r in result) if self.multi else Tensor._wrap(result)

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        """A cotangent for each operand that needs one, by the rules, from that of the result or a dict of several."""
        params, lead, rules = node.params, ct, self.rules
        if self.multi:
            lead = next(iter(ct.values()))
            ct = [ct.get(i) for i in range(len(self.results))]
        if self.shared:
            params = self._with_shared(node, ct, lead)
        if node.right is ABSENT:
            return (_pulled(rules[0], node, node.left, ct, lead, params),)
        if node.others is None:
            return (
                _pulled(rules[0], node, node.left, ct, lead, params),
                _pulled(rules[1], node, node.right, ct, lead, params),
            )
        return [_pulled(rule, node, edge, ct, lead, params) for edge, rule in zip(node.others, rules)]

    def _with_shared(self, node: Node, ct: Any, lead: Any) -> dict[str, Any]:
        """The params and the values that rules of operands share, as far as they are needed now."""
        params = dict(node.params)
        rules = [rule for edge, rule in zip(node.edges, self.rules) if edge is not None and rule is not None]
        asked = {n for rule in rules for n in rule.names}
        for name, rule in reversed(self.shared.items()):
            if name in asked:
                asked.update(rule.names)
        for name, rule in self.shared.items():
            if name in asked:
                params[name] = rule.run(node, ct, lead, params)
        return params


# Every primitive as an attribute: rules say P.sin, and find it when they run.
P = SimpleNamespace()
registry: dict[str, Any] = vars(P)


def _pulled(rule: Any, node: Node, edge: Any, ct: Any, lead: Any, params: dict[str, Any]) -> Any:
    """The cotangent of one operand by its rule."""
    return None if edge is None or rule is None else rule.run(node, ct, lead, params)


def pulled_by_tensors(node: Node, ct: Any) -> Any:
    """The cotangents of a node's operands by rules for tensors, from an array, or from a dict for several results."""
    if type(ct) is not dict:
        return [bare(g) for g in node.prim.vjp(node, wrapped(ct))]
    tensors = {i: c if isinstance(c, TensorFields) else wrapped(c) for i, c in ct.items()}
    grads = node.prim.vjp(node, tensors)
    for c in ct.values():
        if isinstance(c, TensorFields):
            return grads
    return [bare(g) for g in grads]


def bare(found: Any) -> Any:
    """What a rule has given, as an array if it is a plain tensor."""
    return found._array if isinstance(found, TensorFields) and not found._level else found


def synced(tensor: Any) -> Any:
    """Bring a view's history up to date with writes to the memory that it shows; returns the view."""
    stale = []
    below = tensor
    while type(below._meta) is View:
        view = below._meta
        if view.version == view.storage.version:
            break
        view.version = view.storage.version
        if view.status == DETACHED or view.status == UNRECORDED:
            break
        stale.append(below)
        below = view.base
    for t in reversed(stale):
        _regenerate(t, t._meta)
    return tensor


Tensor._synced = lambda self: synced(self)  # a compiled function would not become a method


def _regenerate(tensor: Tensor, view: View) -> None:
    """History rebasing: the view's node is made anew from its base's present one."""
    base = view.base
    if not base._requires_grad:
        if tensor._node is not None:  # the base was detached in place, and what was written has no history
            tensor._node, tensor._requires_grad = None, False
        return
    token = modes.recording.set(modes.recording_state(True))
    try:
        fresh = apply(view.primitive, (base, *view.others), view.params)
    finally:
        modes.recording.reset(token)
    move_retained_grad(tensor, fresh._node)
    tensor._node, tensor._requires_grad = fresh._node, fresh._requires_grad


def move_retained_grad(tensor: Tensor, node: Node) -> None:
    """A tensor that retains its gradient goes on doing so when it gets a new history."""
    old = tensor._node
    if old is not None and old.hooks is not None and old.hooks.retain is not None and old.hooks.retain() is tensor:
        hooks_of(node).retain, old.hooks.retain = old.hooks.retain, None


def lift(value: Any) -> Tensor:
    """Anything that can be a tensor as one."""
    return value if isinstance(value, Tensor) else Tensor.from_data(value)


def variable(x: Tensor) -> Tensor:
    """A tensor with the contents of `x` to differentiate by: connected to `x` if that is on a tape itself."""
    out: Tensor = apply(registry["alias"], (x,), {}) if x._requires_grad else x.shell()
    out._meta = None
    out._requires_grad = True
    return out


def apply(prim: Primitive, args: Any, params: dict[str, Any]) -> Any:
    """Run a primitive on any mixture of tensors (of all kinds), arrays and numbers, and record it."""
    top: Any = None
    kind: Any = None
    found = given = need = numbers = False
    needs, bit, highest = 0, 1, 0
    if type(args) is not tuple:
        args = tuple(args)
    for a in args:
        if isinstance(a, TensorFields):
            tensor = a
            if not found:
                found = True
                kind = tensor._array
            if tensor._meta is not None and type(tensor._meta) is View:
                view = tensor._meta
                if view.version != view.storage.version:
                    synced(tensor)
            if tensor._requires_grad:
                need = True
                needs |= bit
            if tensor._level > highest:
                highest = tensor._level
                top = a
        elif isinstance(a, ARRAY):
            given = True
        elif a is not None:
            numbers = True
        bit += bit  # of the many operands of a variadic primitive each is asked again
    if given or not found:
        args = [a if a is None or (found and not isinstance(a, ARRAY)) else lift(a) for a in args]
        return apply(prim, args, params)
    if tracing() and (taken := captured(args)) is not None:
        return apply(prim, taken, params)
    if top is None:
        kind = kind.dtype if numbers and prim.broadcasts else None
        return run_plain(prim, args, kind if kind is _F32 or kind is _F64 else None, need, needs, params)
    out = top.interpret(prim, args, params)
    if prim.is_view and highest < INNERMOST:  # what is computed of the values of a sparse tensor is recorded there
        note_view(prim, args[0], params, out)
    if need and prim.differentiable and highest < INNERMOST:
        put_on_tape(prim, args, None, needs, out, params)
    return out


def run_plain(prim: Primitive, args: tuple[Any, ...], kind: Any, need: bool, needs: int, params: dict[str, Any]) -> Any:
    """Run a primitive on plain tensors, and numbers beside them, and record it.

    `kind` is the type of which numbers become arrays, if they do.
    """
    residuals: Any = ()
    if prim.is_view and args[0]._meta is FROZEN:
        thaw(args[0])
    if prim.is_call:
        result = prim.run(args, params)
    elif prim.gives_residuals:
        result, residuals = PyObject_Call(prim.kernel.forward, arrays_in(args, kind), params)
    else:
        arrays = arrays_in(args, kind)
        if waiting and (filled := filled_by(prim, args, arrays, params)) is not None:
            return filled
        result = PyObject_Call(prim.kernel, arrays, params)
    kind_of_result = class_of(args)
    if prim.multi:
        out = result if prim.is_call else tuple([wrapped_as(kind_of_result, r) for r in result])
    else:
        out = wrapped_as(kind_of_result, result)
        if prim.is_view:
            note_view(prim, args[0], params, out)
    if need and prim.differentiable:
        put_on_tape(prim, args, kind, needs, out, params, residuals)
    return out


def arrays_in(args: tuple[Any, ...], kind: Any) -> tuple[Any, ...]:
    if len(args) == 2:
        return array_in(args[0], kind), array_in(args[1], kind)
    if len(args) == 3:
        return array_in(args[0], kind), array_in(args[1], kind), array_in(args[2], kind)
    return (array_in(args[0], kind),) if len(args) == 1 else tuple([array_in(a, kind) for a in args])


def array_in(operand: Any, kind: Any) -> Any:
    """What a kernel gets of an operand."""
    if isinstance(operand, TensorFields):
        fields = operand
        return fields._array
    if kind is not None and (type(operand) is float or type(operand) is int):
        return constant(operand, kind)
    return operand


def put_on_tape(
    prim: Any, args: tuple[Any, ...], kind: Any, needs: int, out: Any, params: dict[str, Any], residuals: Any = ()
) -> None:
    """Record an application, unless nothing is recorded now."""
    mode = _recording()
    if not mode:
        cut("no_grad", args[[e is not None for e in edges_of(args)].index(True)])
    elif prim.is_call:
        prim.record(args, out)
    elif prim.multi:
        write_results(prim, args, needs, out, params, residuals, mode)
    else:
        write_node(prim, args, kind, needs, out, params, residuals, mode)


# Python numbers as arrays, by which NumPy multiplies in half the time. 0 has another name than the one that is equal to it
# and has the other sign; nan never compares equal; the tables stay small.
_constants: dict[Any, dict[Any, Any]] = {kind: {} for kind in DIFFERENTIABLE}
_MOST_CONSTANTS = 512


def constant(value: Any, kind: Any) -> Any:
    """A Python number as a 0-d array of this type."""
    known, key = _constants[kind], value or ("0" if type(value) is not complex and copysign(1.0, value) > 0 else None)
    found = known.get(key)
    if found is None:
        found = table["as_array"](value, kind)
        if key is not None and value == value and len(known) < _MOST_CONSTANTS:
            known[key] = found
    return found


def write_node(
    prim: Primitive,
    args: tuple[Any, ...],
    kind: Any,
    needs: int,
    out: Any,
    params: dict[str, Any],
    residuals: Any,
    mode: Any,
) -> None:
    """Give the result of an operation its node, by the plan for the operands that need a gradient."""
    made = out
    loses = not prim.broadcasts and element_type(out) not in DIFFERENTIABLE  # what is elementwise keeps the type
    if loses and not [a for a in args if isinstance(a, Tensor) and a._requires_grad and element_type(a).kind in "biu"]:
        return  # integers require grad only where a front door lets them
    plan = prim.only_plan
    if plan is None:
        plan = prim.plans[needs] if needs < len(prim.plans) else None
        if plan is None:
            plan = prim.plan(needs)
    shape = made._array.shape if not made._level else out.shape
    count = len(args)
    left = right = others = shapes = None
    if prim.is_variadic:
        left, right, others = split_edges(edges_of(args))
        shapes = shapes_of(args)
    elif count == 1:
        left, right = edge_of(args[0]), ABSENT
    elif count == 2:
        if needs & 1:
            left = edge_of(args[0])
            if prim.broadcasts and passed_shape(left, args[0]) != shape:
                shapes = shapes_of(args)
        if needs & 2:
            right = edge_of(args[1])
            if prim.broadcasts and passed_shape(right, args[1]) != shape:
                shapes = shapes_of(args)
    else:
        others = edges_of(args)
        if prim.broadcasts:
            for i in range(count):
                if needs >> i & 1 and passed_shape(others[i], args[i]) != shape:
                    shapes = shapes_of(args)
                    break
    alone = plan.alone
    saved: Any
    if alone >= 0 and plan.source < 0:
        saved = save_output(made)
    elif alone >= 0 and isinstance(args[plan.source], TensorFields):
        saved = save_input(args[plan.source])
    elif alone >= 0 and kind is not None:
        saved = array_in(args[plan.source], kind)  # a constant
    elif plan.pair and not residuals and isinstance(args[0], TensorFields) and isinstance(args[1], TensorFields):
        saved = (save_input(args[0]), save_input(args[1]))
    else:
        saved = kept(plan, args, kind, out, residuals)
        alone = -1
    attach(made, prim, left, right, others, saved, alone, shapes, params, shape, mode)


def write_results(
    prim: Primitive,
    args: Sequence[Any],
    needs: int,
    outs: Sequence[Any],
    params: dict[str, Any],
    residuals: Any,
    mode: Any,
    constant: Any = (),
) -> None:
    """Give an operation with several results a node, and each differentiable result one in front of it.

    `constant` has the numbers of results that have no gradient whatever their type.
    """
    left, right, others = split_edges(edges_of(args))
    node = attach(None, prim, left, right, others, None, -1, None, params, ())
    if prim.is_call:
        expose(node)
    types = [element_type(out) if isinstance(out, TensorFields) else None for out in outs]
    node.shapes = tuple([None if kind is None else (shape_of(out), kind) for out, kind in zip(outs, types)])
    for i, (out, kind) in enumerate(zip(outs, types)):
        if kind is not None:
            live = kind in DIFFERENTIABLE and i not in constant
            out._node, out._requires_grad = output_edge(node, i) if live else None, live
    node.saved = kept(prim.plan(needs), args, None, outs, residuals)
    if mode is HOOKED:
        for out in outs:
            note_if_not_finite(node, out)
        pack_saved(node)
    settle(node)


def passed_shape(edge: Any, operand: Any) -> Any:
    """The shape of an operand that needs a gradient: its node knows it."""
    if edge._seq:
        node = edge
        return node.shape
    return operand._array.shape if not operand._level else shape_of(operand)


def shapes_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes of the operands, by which a rule undoes broadcasting."""
    return tuple([shape_of(a) for a in args])


def kept(plan: Plan, args: Sequence[Any], kind: Any, out: Any, residuals: Any) -> Any:
    """What a plan names, in the order of the primitive's names, and residuals behind that.

    A list where that is only shapes and numbers: nothing that a backward pass would have to free.
    """
    if not plan.keeps and plan.rest < 0 and not residuals:
        return None
    values: list[Any] = [None] * plan.size
    memory = plan.rest >= 0 or bool(residuals)
    for k, what, number in plan.keeps:
        if what is SHAPE:
            values[k] = shape_of(args[number])
        elif what is RESULT:
            values[k] = kept_result(out, number)
            memory = True
        elif isinstance(args[number], TensorFields):
            values[k] = save_input(args[number])
            memory = True
        else:
            values[k] = array_in(args[number], kind)
    if plan.rest >= 0:
        values += [save_input(a) if i >= plan.rest else None for i, a in enumerate(args)]
    if residuals:
        values += [kept_residual(r, out) for r in residuals]
    return tuple(values) if memory else values


def kept_result(out: Any, number: int) -> Any:
    """What to keep of a result, the only one or one of several that have got their nodes."""
    if isinstance(out, TensorFields):
        return save_output(out)
    result = out[number]
    if not result._requires_grad:
        return save_input(result)
    saved = save_output(result)
    saved.index = number
    return saved


def kept_residual(residual: Any, out: Any) -> Any:
    """What to keep of a residual. A result among them may be written to: its memory is watched."""
    if isinstance(residual, TensorFields):
        return save_input(residual)
    if residual is not None:
        for i, o in enumerate((out,) if isinstance(out, TensorFields) else out):
            if o._array is residual:
                return kept_result(out, i)
    return residual


def note_view(prim: Primitive, base: Tensor, params: dict[str, Any], out: Tensor) -> None:
    """Remember that `out` shows `base`'s memory, if it does."""
    if not shares_memory(base, out):
        return
    storage = storage_of(base)
    out._meta, out._marked = new_view(base, prim, params, storage, status_of_view(base)), base._marked
    if _active():
        storage.show(out, base)


def status_of_view(base: Tensor) -> int:
    """How a new view stands to the history of its base: a view of one that is not recorded is not, either."""
    if type(base._meta) is View and base._meta.status == UNRECORDED:
        return UNRECORDED
    return NORMAL if _recording() or not base._requires_grad else UNRECORDED


def shares_memory(base: Tensor, out: Tensor) -> bool:
    a, b = base._array, out._array
    if isinstance(b, Tensor):
        return b is a or (isinstance(b._meta, View) and b._meta.storage is storage_of(a))
    return bool(table["shares_memory"](a, b))


def note_positions(prim: Primitive, base: Tensor, positions: Sequence[Tensor], out: Tensor) -> None:
    """Make `out`, which `prim` has read at positions that name no element twice, a view of `base`."""
    storage = storage_of(base)
    out._meta = new_view(base, prim, {}, storage, status_of_view(base))
    out._meta.others = tuple(positions)
    storage.show(out, base)
    if storage.followers is None:
        storage.followers = Followers()
    storage.followers.add(out)


class Followers:
    """Views by positions, which have memory of their own: they are read again after each write to their storage."""

    def __init__(self) -> None:
        self.refs: list[Any] = []
        self.room = 64  # how many there may be before the dead ones are dropped

    def add(self, view: Tensor) -> None:
        if len(self.refs) >= self.room:
            self.refs = [r for r in self.refs if r() is not None]
            self.room = 2 * len(self.refs) + 64
        self.refs.append(ref(view))

    def read_again(self) -> None:
        for view in [r() for r in self.refs]:
            if view is not None and view._meta.others:
                view.show_again(seen(view._meta))


def seen(how: View) -> Any:
    """What a view shows now, without history of its own."""
    operands = (how.base, *how.others)
    top = max(operands, key=lambda t: t._level)
    if not top._level:
        return how.primitive.run(operands, how.params)
    return top.interpret(how.primitive, operands, how.params)


def element_type(tensor: Any) -> Any:
    """The NumPy type of the elements of a tensor of any kind."""
    fields = tensor
    while type(fields._array) is not ARRAY:
        fields = fields._array
    return fields._array.dtype


def edges_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """Where the gradient of each operand goes; None for those that need none."""
    if len(args) == 3:
        return edge_if_needed(args[0]), edge_if_needed(args[1]), edge_if_needed(args[2])
    return tuple([edge_if_needed(a) for a in args])


def edge_if_needed(operand: Any) -> Any:
    tensor: Any = operand if isinstance(operand, TensorFields) else None
    return edge_of(tensor) if tensor is not None and tensor._requires_grad else None


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of a tensor that requires one goes."""
    return tensor if tensor._node is None else tensor._node
