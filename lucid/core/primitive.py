"""Primitives and how they are applied: run on what is inside the operands, then recorded on the tape.

A primitive's operands are positional and its parameters are keywords. Every operation of the library ends up in `apply`.
"""

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from lucid.core import levels, modes
from lucid.core.arrays import ARRAY
from lucid.core.collector import expose, settle
from lucid.core.cuts import cut
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import TensorFields, next_seq
from lucid.core.hooks import hooks_of
from lucid.core.kernels import kernel_of, table
from lucid.core.levels import captured, newest, tracing
from lucid.core.node import (
    ABSENT,
    Freed,
    Node,
    array_of,
    output_edge,
    packed,
    raise_if_freed,
    save_input,
    save_output,
    split_edges,
    tensor_of,
    unrecorded,
)
from lucid.core.place import DEPTH, climb, known_files
from lucid.core.storage import DETACHED, NORMAL, UNRECORDED, View, new_view, storage_of
from lucid.core.tensor import Tensor, shape_of

ndarray = np.ndarray
_getframe = sys._getframe
_is_ours = known_files.get
HOOKED = modes.HOOKED
_recording = modes.recording.get
_active = levels.active.get
_new = TensorFields.__new__

NONFINITE = "lucid.nonfinite"
_OUT = -1
_MOST_PLANNED = 5  # operands whose combinations have plans that are kept
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class Rule:
    """A reverse rule for one operand. The names of its parameters say what it reads.

    `ct` is the cotangent; operand names and `out` are values to save; `x_shape` is the shape of operand
    `x`; any other name is one of the primitive's own parameters.
    """

    def __init__(self, fn: Callable[..., Any], operands: tuple[str, ...]) -> None:
        names = getattr(fn, "names", None) or fn.__code__.co_varnames[: fn.__code__.co_argcount]
        self.fn = fn
        self.names = names[1:] if names[:1] == ("ct",) else names
        shapes = {f"{o}_shape" for o in operands}
        self.values = tuple(n for n in self.names if n in operands or n == "out" or n in shapes)
        self.picks: tuple[Any, ...] = ()  # where each argument comes from: saved values or params

    def arguments(self, values: Any, params: dict[str, Any]) -> list[Any]:
        return [values[k] if type(k) is int else params[k] for k in self.picks]

    def read(self, node: Node, ct: Any) -> list[Any]:
        """The same from what a node has saved, in the form of the cotangent."""
        return [saved_at(node, k, ct) if type(k) is int else node.params[k] for k in self.picks]


class Plan:
    """What the tape keeps of an operation, for one combination of operands that need a gradient.

    `keeps` has pairs of a place among the primitive's names and what goes there: an operand (0 and up), the result (-1)
    or an operand's shape (-2 and down). `alone` is the place of a value that is kept by itself, or -1.
    """

    def __init__(self, keeps: tuple[tuple[int, int], ...]) -> None:
        self.keeps = keeps
        self.alone = keeps[0][0] if len(keeps) == 1 and keeps[0][1] >= _OUT else -1
        self.source = keeps[0][1] if keeps else 0


_FIELDS = (
    "abstract", "broadcasts", "differentiable", "is_call", "is_variadic", "is_view", "jvp", "kernel", "multi", "name", "names",
    "operands", "records_itself", "rules", "pulls_arrays", "pulls_new", "shows_elements", "shows_part",
)  # fmt: skip


class Primitive:
    """One operation with all that is known about it.

    `kernel(*arrays, **params)` computes, and is found in `core.kernels`; `vjp(node, ct)` gives a cotangent for each operand;
    `jvp(prim, primals, tangents, out, params)` the tangent of the result;
    `batch(prim, values, batched, size, params)` the result with the batch in dimension 0.
    """

    def __init__(
        self,
        name: str,
        *,
        operands: Sequence[str] = ("x",),
        rules: Sequence[Callable[..., Any] | None] = (),
        jvp: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        is_view: bool = False,
        multi: bool = False,
        abstract: Callable[..., Any] | None = None,
        category: str = "other",
        reason: str = "",
    ) -> None:
        self.name = name
        self.category = category  # one of `ops.categories.CATEGORIES`
        self.reason = reason  # why it is in none but "other"
        self.operands = tuple(operands)
        self.rules = tuple(None if fn is None else Rule(fn, self.operands) for fn in rules)
        self.jvp = jvp
        self.batch = batch
        self.is_view = is_view
        self.multi = multi
        self.pulls_arrays = False  # whether its class pulls arrays back as they are, and not by rules for tensors
        self.pulls_new = type(self) is Primitive  # whether no two cotangents that it gives can share memory
        self.is_call = False  # whether it is a user's function, made of other primitives
        self.is_variadic = False  # whether it takes any number of operands, and its rule their shapes
        self.broadcasts = False  # whether its operands are broadcast, so that its rule needs their shapes
        self.records_itself = False  # whether the class has a `record` of its own
        self.shows_elements = False  # whether it is a view whose elements are those of its operand, wherever they lie
        self.shows_part = False  # whether it shows a part of them: its transpose is larger than what it gets, mostly 0
        self.is_scalar = False  # whether it is a function of single elements
        self.body: Callable[..., Any] | None = None  # that function, in terms of others
        self.linear_in: tuple[int, ...] | None = ()  # operands in which it is linear together, None for all of them
        self.positions: int | None = None  # of a gather or scatter: the first operand that is a position
        self.is_polynomial = False  # whether operands enter it by sums and products alone
        self.multiply_adds: Any = None  # how many it takes, from the shapes of operands and result, and parameters
        self.fold: Any = None  # of a reduction or scan: how elements are put together, an `ops.categories.Fold`
        self.differentiable = any(rule is not None for rule in self.rules)
        reads = dict.fromkeys(r for rule in self.rules if rule is not None for r in rule.values)
        self.names = (*self.operands, "out", *(r for r in reads if r not in self.operands and r != "out"))
        for rule in self.rules:
            if rule is not None:
                rule.picks = tuple(self.names.index(n) if n in rule.values else n for n in rule.names)
        self.plans: list[Plan | None] = [None] * (1 << min(len(self.operands), _MOST_PLANNED))  # by the operands' bits
        self.abstract = abstract  # shape and type of the result, from `Abstract`s and params, without values
        self.kernel = kernel_of(self)
        self.public: Any = None  # what users call, if it is declared with that
        registry[name] = self

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

    def wanted(self, needs: Sequence[bool]) -> tuple[bool, ...]:
        """Which of `names` the rules of the needed operands read."""
        picks = {k for need, rule in zip(needs, self.rules, strict=False) if need and rule for k in rule.picks}
        return tuple(k in picks for k in range(len(self.names)))

    def plan(self, needs: int) -> Plan:
        """The plan for the operands whose bits are set."""
        count = len(self.operands)
        keeps = []
        for k, wanted in enumerate(self.wanted([bool(needs >> i & 1) for i in range(count)])):
            if wanted and k < count:
                keeps.append((k, k))
            elif wanted:
                operand = self.names[k].removesuffix("_shape")
                keeps.append((k, _OUT if k == count else -2 - self.operands.index(operand)))
        made = Plan(tuple(keeps))
        if needs < len(self.plans):
            self.plans[needs] = made
        return made

    def save(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any) -> Any:
        """Exactly the values that the rules of the needed operands name."""
        return kept(self, self.plan(sum(1 << i for i, need in enumerate(needs) if need)), args, None, out)

    def run(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on plain tensors."""
        result = self.kernel(*[a._array if isinstance(a, Tensor) else a for a in args], **params)
        return tuple(Tensor._wrap(r) for r in result) if self.multi else Tensor._wrap(result)

    def record(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any, params: dict[str, Any]) -> None:
        """Put one application that has several results, or any number of operands, on the tape."""
        edges = split_edges(tuple([edge_of(a) if need else None for a, need in zip(args, needs)]))
        if self.multi:
            parent = attach(Tensor._wrap(0.0), self, *edges, None, -1, None, params, ())
            split_outputs(parent, out)
            parent.saved = self.save(args, needs, out)
            settle(parent)
        elif element_type(out) in DIFFERENTIABLE:
            left, right, others = edges
            shapes = shapes_of(args) if self.is_variadic else None
            attach(out, self, left, right, others, self.save(args, needs, out), -1, shapes, params, out.shape)

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        """A cotangent for each operand that needs one, by the rules, from the cotangent of the result."""
        if node.right is ABSENT:
            return (pulled(self.rules[0], node, ct),)
        return [
            None if edge is None or rule is None else pulled(rule, node, ct)
            for edge, rule in zip(node.edges, self.rules)
        ]


# Every primitive as an attribute: rules say P.sin, and find it when they run.
P = SimpleNamespace()
registry: dict[str, Any] = vars(P)


def pulled(rule: Any, node: Node, ct: Any) -> Any:
    """The cotangent of one operand by its rule."""
    return rule.fn(ct, *rule.read(node, ct))


def saved_at(node: Node, place: int, ct: Any) -> Any:
    """A value that a node has saved in the form of a cotangent: an array beside an array, a tensor beside a tensor."""
    item = node.saved
    if type(item) is Freed:
        raise_if_freed(node)
    if node.place_of_saved < 0:
        item = item[place]
    if not isinstance(ct, TensorFields):
        return array_of(node, item)
    if type(item) is ARRAY:  # a constant
        return table["item"](item)
    beside = ct
    if not beside._level and not _recording():
        return unrecorded(node, item)
    return _beside(tensor_of(node, item), ct)


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


def linked(node: Node, ct: Any) -> list[Any]:
    """All that a node has saved as tensors with their places in the graph, as users see them."""
    if type(node.saved) is Freed:
        raise_if_freed(node)
    return [None if s is None else _beside(tensor_of(node, s), ct) for s in node.saved or ()]


def _beside(found: Any, ct: Any) -> Any:
    """A value as the cotangent's kind wants it: a program has all that rules make of it."""
    if ct._level and isinstance(found, TensorFields) and not found._level and not found._requires_grad:
        return ct.seeded(found)
    return found


def unpack(node: Node, ct: Any) -> list[Any]:
    """All that a node has saved, in the form of the cotangent."""
    if type(node.saved) is Freed:
        raise_if_freed(node)
    return [None if s is None else saved_at(node, k, ct) for k, s in enumerate(node.saved or ())]


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
    needs = 0
    bit = 1
    highest = 0
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
        elif isinstance(a, ndarray):
            given = True
        elif a is not None:
            numbers = True
        bit += bit  # of the many operands of a variadic primitive each is asked again
    if given or not found:
        return apply(prim, [lift(a) if isinstance(a, ndarray) or not found else a for a in args], params)
    if tracing() and (taken := captured(args)) is not None:
        return apply(prim, taken, params)
    if top is None:
        kind = kind.dtype if numbers and prim.broadcasts else None
        return run_plain(prim, args, kind if kind is _F32 or kind is _F64 else None, need, needs, params)
    out = top.interpret(prim, args, params)
    if prim.is_view:
        note_view(prim, args[0], params, out)
    if need and prim.differentiable:
        put_on_tape(prim, args, None, needs, out, params)
    return out


def run_plain(prim: Primitive, args: tuple[Any, ...], kind: Any, need: bool, needs: int, params: dict[str, Any]) -> Any:
    """Run a primitive on plain tensors, and numbers beside them, and record it.

    `kind` is the type of which numbers become arrays, if they do.
    """
    if prim.is_call:
        result = prim.run(args, params)
    elif len(args) == 1:
        x = array_in(args[0], kind)
        result = prim.kernel(x, **params) if params else prim.kernel(x)
    elif len(args) == 2:
        x, y = array_in(args[0], kind), array_in(args[1], kind)
        result = prim.kernel(x, y, **params) if params else prim.kernel(x, y)
    else:
        result = prim.kernel(*[array_in(a, kind) for a in args], **params)
    out: Any = result if prim.is_call else tuple([wrapped(r) for r in result]) if prim.multi else wrapped(result)
    if prim.is_view:
        note_view(prim, args[0], params, out)
    if need and prim.differentiable:
        put_on_tape(prim, args, kind, needs, out, params)
    return out


def array_in(operand: Any, kind: Any) -> Any:
    """What a kernel gets of an operand."""
    if isinstance(operand, TensorFields):
        fields = operand
        return fields._array
    if kind is not None and (type(operand) is float or type(operand) is int):
        return constant(operand, kind)
    return operand


def put_on_tape(
    prim: Primitive, args: tuple[Any, ...], kind: Any, needs: int, out: Any, params: dict[str, Any]
) -> None:
    """Record an application, unless nothing is recorded now."""
    if not _recording():
        cut("no_grad", _first_recorded(args))
    elif prim.multi or prim.is_variadic or prim.records_itself:
        prim.record(args, tuple([isinstance(a, TensorFields) and a._requires_grad for a in args]), out, params)
    else:
        write_node(prim, args, kind, needs, out, params)


def _first_recorded(args: Sequence[Any]) -> Any:
    return next(a for a in args if isinstance(a, TensorFields) and a._requires_grad)


def wrapped(array: Any) -> Any:
    """A tensor around an array that is used as it is."""
    made = _new(Tensor)
    made._array = array if type(array) is ARRAY else table["as_array"](array)
    made._born = newest()
    made._requires_grad = False
    made._grad = made._node = made._meta = None
    return made


# Python numbers as arrays, which NumPy multiplies by in half the time. 0 is left out for its sign, nan since it
# never compares equal; both tables stay small.
_constants: dict[Any, dict[float, Any]] = {_F32: {}, _F64: {}}
_MOST_CONSTANTS = 512


def constant(value: Any, kind: Any) -> Any:
    """A Python number as a 0-d array of this type."""
    known = _constants[kind]
    found = known.get(value)
    if found is None:
        found = table["as_array"](value, kind)
        if value and value == value and len(known) < _MOST_CONSTANTS:
            known[value] = found
    return found


def write_node(prim: Primitive, args: tuple[Any, ...], kind: Any, needs: int, out: Any, params: dict[str, Any]) -> None:
    """Give the result of an operation its node, by the plan for the operands that need a gradient."""
    made = out
    if not prim.broadcasts and element_type(out) not in DIFFERENTIABLE:  # what is elementwise keeps the type
        return
    plan = prim.plans[needs] if needs < len(prim.plans) else None
    if plan is None:
        plan = prim.plan(needs)
    shape = made._array.shape if not made._level else out.shape
    count = len(args)
    left = right = others = shapes = None
    if count == 1:
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
        others = tuple([edge_of(a) if needs >> i & 1 else None for i, a in enumerate(args)])
        if prim.broadcasts:
            shapes = shapes_of(args)
    alone = plan.alone
    if alone >= 0 and plan.source < 0:
        saved = save_output(made)
    elif alone >= 0 and isinstance(args[plan.source], TensorFields):
        saved = save_input(args[plan.source])
    elif alone >= 0 and kind is not None:
        saved = array_in(args[plan.source], kind)  # a constant
    else:
        saved = kept(prim, plan, args, kind, out)
        alone = -1
    attach(made, prim, left, right, others, saved, alone, shapes, params, shape)


def passed_shape(edge: Any, operand: Any) -> Any:
    """The shape of an operand that needs a gradient: its node knows it."""
    if edge._seq:
        node = edge
        return node.shape
    return operand._array.shape if not operand._level else shape_of(operand)


def shapes_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes of the operands, by which a rule undoes broadcasting."""
    return tuple([shape_of(a) for a in args])


def kept(prim: Primitive, plan: Plan, args: Sequence[Any], kind: Any, out: Any) -> Any:
    """What a plan names, in the order of the primitive's names.

    A list where that is only shapes and numbers: nothing that a backward pass would have to free.
    """
    if not plan.keeps:
        return None
    values: list[Any] = [None] * len(prim.names)
    memory = False
    for k, source in plan.keeps:
        if source < _OUT:
            values[k] = shape_of(args[-2 - source])
            continue
        arg: Any = out if source == _OUT else args[source]
        if not isinstance(arg, Tensor):
            values[k] = array_in(arg, kind)
            continue
        memory = True
        values[k] = save_output(arg) if source == _OUT else save_input(arg)
    return tuple(values) if memory else values


def note_view(prim: Primitive, base: Tensor, params: dict[str, Any], out: Tensor) -> None:
    """Remember that `out` shows `base`'s memory, if it does."""
    if not shares_memory(base, out):
        return
    status = NORMAL if _recording() or not base._requires_grad else UNRECORDED
    storage = storage_of(base)
    out._meta = new_view(base, prim, params, storage, status)
    if _active():
        storage.show(out, base)


def shares_memory(base: Tensor, out: Tensor) -> bool:
    a, b = base._array, out._array
    if isinstance(b, Tensor):
        return b is a or (isinstance(b._meta, View) and b._meta.storage is storage_of(a))
    return bool(table["shares_memory"](a, b))


def note_positions(prim: Primitive, base: Tensor, positions: Sequence[Tensor], out: Tensor) -> None:
    """Make `out`, which `prim` has read at positions that name no element twice, a view of `base`."""
    storage = storage_of(base)
    status = NORMAL if _recording() or not base._requires_grad else UNRECORDED
    out._meta = new_view(base, prim, {}, storage, status)
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


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of a tensor that requires one goes."""
    return tensor if tensor._node is None else tensor._node


def attach(
    out: TensorFields,
    prim: Any,
    left: Any,
    right: Any,
    others: tuple[Any, ...] | None,
    saved: Any,
    place_of_saved: int,
    shapes: Any,
    params: dict[str, Any],
    shape: Any,
) -> Node:
    """Give `out` a node. Called for every recorded operation, so written for speed."""
    node = Node()
    node.prim = prim
    node.left = left
    node.right = right
    node.others = others
    node.saved = saved
    node.place_of_saved = place_of_saved
    node.shapes = shapes
    node.params = params
    if left is not None and left._seq:
        before = left
        if before.shape == shape:
            shape = before.shape  # one tuple less for the garbage collector to visit in long chains
    node.shape = shape
    node.hooks = None
    node._seq = next_seq()
    frame = _getframe(2 * DEPTH)
    code = frame.f_code
    if _is_ours(code.co_filename, True):
        frame = climb(frame)
        code = frame.f_code
    node.code = code
    node.offset = frame.f_lasti
    out._node = node
    out._requires_grad = True
    if _recording() is HOOKED:
        look_at(node, out)
    settle(node)
    return node


def look_at(node: Node, out: TensorFields) -> None:
    """What saved-tensor hooks and anomaly detection want of each new node."""
    if modes.saved_hooks.get():
        expose(node)
        operands = len(node.edges)
        place = node.place_of_saved
        if place >= 0:
            if type(node.saved) is not ARRAY:
                node.saved = packed(node.saved, place if place < operands else None)
        elif type(node.saved) is tuple:
            node.saved = tuple([packed(s, k if k < operands else None) for k, s in enumerate(node.saved)])
    if modes.anomaly.get() and type(out._array) is ARRAY and not table["is_finite"](out._array):
        hooks_of(node).metadata[NONFINITE] = True


def split_outputs(parent: Node, outs: Sequence[Any]) -> None:
    """Give each differentiable output its own node in front of the operation's node."""
    parent.shapes = tuple((o.shape, o.np_dtype) if isinstance(o, Tensor) else None for o in outs)
    for i, out in enumerate(outs):
        if not isinstance(out, Tensor):
            continue
        out._node, out._requires_grad = None, False
        if out.np_dtype in DIFFERENTIABLE:
            out._node, out._requires_grad = output_edge(parent, i), True
