"""Primitives and how they are applied: run on what is inside the operands, then recorded on the tape.

A primitive's operands are positional and its parameters are keywords. Every operation of the library
ends up in `apply`, or in one of the short cuts for plain tensors in `lucid.ops.rules` that do the same.
"""

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from lucid.core import levels, modes
from lucid.core.collector import expose, settle
from lucid.core.cuts import cut
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import TensorFields, next_seq
from lucid.core.hooks import hooks_of
from lucid.core.node import (
    ABSENT,
    Freed,
    Node,
    Packed,
    array_of,
    output_edge,
    raise_if_freed,
    save_input,
    save_output,
    split_edges,
    tensor_of,
)
from lucid.core.place import DEPTH, climb, known_files
from lucid.core.storage import DETACHED, NORMAL, UNRECORDED, Saved, View, storage_of
from lucid.core.tensor import Tensor, shape_of

ndarray = np.ndarray
_getframe = sys._getframe
_is_ours = known_files.get
HOOKED = modes.HOOKED
_recording = modes.recording.get
_on_arrays = modes.on_arrays.get
_active = levels.active.get
_new = TensorFields.__new__

NONFINITE = "lucid.nonfinite"
_OUT = -1
Array = Any  # a bare array, or in rules anything that stands for one
Scalar = bool | int | float | complex


class Rule:
    """A reverse rule for one operand. The names of its parameters say what it reads.

    `ct` is the cotangent; operand names and `out` are values to save; `x_shape` is the shape of operand
    `x`; any other name is one of the primitive's own parameters.
    """

    __slots__ = ("fn", "names", "picks", "values")

    def __init__(self, fn: Callable[..., Any], operands: tuple[str, ...]) -> None:
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        self.fn = fn
        self.names = names[1:] if names[:1] == ("ct",) else names
        shapes = {f"{o}_shape" for o in operands}
        self.values = tuple(n for n in self.names if n in operands or n == "out" or n in shapes)
        self.picks: tuple[Any, ...] = ()  # where each argument comes from: saved values or params

    def arguments(self, values: Any, params: dict[str, Any]) -> list[Any]:
        return [values[k] if type(k) is int else params[k] for k in self.picks]


class Primitive:
    """One operation on arrays with all that is known about it.

    `impl(*arrays, **params)` computes; `vjp(node, ct)` gives a cotangent for each operand;
    `jvp(prim, primals, tangents, out, params)` the tangent of the result;
    `batch(prim, values, batched, size, params)` the result with the batch in dimension 0.
    """

    runs_on_arrays = True  # whether its rules may be given bare arrays; views must note whose memory they show
    is_call = False  # whether it is a user's function, made of other primitives
    public: Callable[..., Any]  # what users call, for those that are declared with it
    raise_if_dirty: Callable[[str], None]  # refuses such a call that writes to its arguments
    called_in: Callable[[int, Sequence[Any]], None]  # tells such a call in which vmap it runs, and on what
    shows_elements = False  # whether it is a view whose elements are elements of its operand, wherever they lie
    shows_part = False  # whether it shows a part of them: its transpose is larger than what it gets, and mostly 0
    is_variadic = False  # whether it takes any number of operands, and its rule their shapes

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        *,
        operands: Sequence[str] = ("x",),
        rules: Sequence[Callable[..., Any] | None] = (),
        jvp: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        is_view: bool = False,
        multi: bool = False,
    ) -> None:
        self.name = name
        self.impl = impl
        self.operands = tuple(operands)
        self.rules = tuple(None if fn is None else Rule(fn, self.operands) for fn in rules)
        self.jvp = jvp
        self.batch = batch
        self.is_view = is_view
        self.runs_on_arrays = not is_view
        self.multi = multi
        self.differentiable = any(rule is not None for rule in self.rules)
        reads = dict.fromkeys(r for rule in self.rules if rule is not None for r in rule.values)
        self.names = (*self.operands, "out", *(r for r in reads if r not in self.operands and r != "out"))
        for rule in self.rules:
            if rule is not None:
                rule.picks = tuple(self.names.index(n) if n in rule.values else n for n in rule.names)
        # What to save, for each combination of operands that need a gradient.
        self._plans: dict[tuple[bool, ...], tuple[tuple[int, int], ...]] = {}
        self.saves_shape = self.operands and self._plan((True,) * len(self.operands)) == ((2, -2),)
        registry[name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        # The commonest cases first: one plain tensor, and the arrays on which derivative rules run.
        first = args[0]
        if len(args) == 1:
            if type(first) is Tensor and not self.multi:
                return apply_to_one(self, first, params)
            if type(first) is ndarray and _on_arrays():
                return self.impl(first, **params)
        elif type(first) is ndarray and type(args[1]) is ndarray and len(args) == 2 and _on_arrays():
            return self.impl(first, args[1], **params)
        return apply(self, args, params)

    def wanted(self, needs: tuple[bool, ...]) -> tuple[bool, ...]:
        """Which of `names` the rules of the needed operands read."""
        picks = {k for need, rule in zip(needs, self.rules, strict=False) if need and rule for k in rule.picks}
        return tuple(k in picks for k in range(len(self.names)))

    def _plan(self, needs: tuple[bool, ...]) -> tuple[tuple[int, int], ...]:
        """For each value to save: its place, and the operand whose value (0 and up) or shape (-2 and down) it is."""
        count = len(self.operands)
        plan = []
        for k, wanted in enumerate(self.wanted(needs)):
            if wanted and k < count:
                plan.append((k, k))
            elif wanted:
                operand = self.names[k].removesuffix("_shape")
                plan.append((k, _OUT if k == count else -2 - self.operands.index(operand)))
        self._plans[needs] = tuple(plan)
        return self._plans[needs]

    def save(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any) -> Sequence[Any] | None:
        """Exactly the values that the rules of the needed operands name.

        A list where these are only shapes and numbers: nothing that a backward pass would have to free.
        """
        plan = self._plans.get(needs)
        if plan is None:
            plan = self._plan(needs)
        if not plan:
            return None
        values: list[Any] = [None] * len(self.names)
        memory = False
        for k, source in plan:
            if source < _OUT:
                values[k] = shape_of(args[-2 - source])
                continue
            arg: Any = out if source == _OUT else args[source]
            if not isinstance(arg, Tensor):
                values[k] = arg
                continue
            memory = True
            values[k] = save_output(arg) if source == _OUT else save_input(arg)
        return tuple(values) if memory else values

    def run(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on plain tensors."""
        result = self.impl(*[a._array if isinstance(a, Tensor) else a for a in args], **params)
        return tuple(Tensor._wrap(r) for r in result) if self.multi else Tensor._wrap(result)

    def record(self, args: Sequence[Any], needs: tuple[bool, ...], out: Any, params: dict[str, Any]) -> None:
        """Put one application on the tape."""
        edges = split_edges(tuple([edge_of(a) if need else None for a, need in zip(args, needs)]))
        if self.multi:
            parent = attach(Tensor._wrap(0.0), self, *edges, None, -1, None, params, ())
            split_outputs(parent, out)
            parent.saved = self.save(args, needs, out)
            settle(parent)
        elif element_type(out) in DIFFERENTIABLE:
            left, right, others = edges
            saved, shapes = self.save(args, needs, out), self.shapes(args, out)
            attach(out, self, left, right, others, saved, -1, shapes, params, out.shape)

    def shapes(self, args: Sequence[Any], out: Any) -> Any:
        """Shapes of the operands, for categories whose operands are broadcast."""
        return None

    def vjp(self, node: Node, ct: Any) -> Sequence[Any]:
        """A cotangent for each operand that needs one, by the rules, from the cotangent of the result."""
        values = unpack(node, ct)
        if node.right is ABSENT:
            rule = self.rules[0]
            return (rule.fn(ct, *rule.arguments(values, node.params)),)  # type: ignore[union-attr]  # edges have rules
        return [
            None if edge is None or rule is None else rule.fn(ct, *rule.arguments(values, node.params))
            for edge, rule in zip(node.edges, self.rules, strict=True)
        ]


# Every primitive as an attribute: rules say P.sin, and find it when they run.
P = SimpleNamespace()
registry: dict[str, Primitive] = vars(P)


def unpack(node: Node, ct: Any) -> Any:
    """The node's saved values in the form of the cotangent: arrays for an array, tensors for a tensor."""
    saved = node.saved
    if saved is None or type(saved) is list:
        return saved
    if type(saved) is Freed:
        raise_if_freed(node)
    read = tensor_of if isinstance(ct, Tensor) else array_of
    place = node.place_of_saved
    if isinstance(ct, Tensor) and type(ct) is not Tensor:
        return _followed(node, saved, place, ct)
    if place < 0:
        return [read(node, s) for s in saved]
    values: list[Any] = [None] * len(node.prim.names)
    if type(saved) is ndarray:  # a constant
        values[place] = saved.item() if isinstance(ct, Tensor) else saved
    else:
        values[place] = read(node, saved)
    return values


def _followed(node: Node, saved: Any, place: int, ct: Any) -> Any:
    """Saved values as the cotangent's kind wants them: a program has all that rules make of them."""
    values = list(saved) if place < 0 else [None] * len(node.prim.names)
    if type(saved) is ndarray:  # a constant
        values[place] = saved.item()
        return values
    if place >= 0:
        values[place] = saved
    for k, s in enumerate(values):
        value = s if s is None else tensor_of(node, s)
        plain = type(value) is Tensor and not value._requires_grad
        values[k] = ct.seeded(value) if plain else value
    return values


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


def apply(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive on any mixture of tensors (of all kinds), arrays and numbers, and record it."""
    top: Any = None
    found = arrays = need = False
    for a in args:
        if isinstance(a, TensorFields):
            tensor = a
            found = True
            if tensor._meta is not None:
                synced(tensor)
            if tensor._requires_grad:
                need = True
            if type(a) is not Tensor and (top is None or tensor._level > top._level):
                top = a
        elif isinstance(a, ndarray):
            arrays = True
    if not found:
        if _on_arrays():
            return prim.impl(*args, **params)
        args = [lift(a) for a in args]
    elif arrays:
        args = [lift(a) if isinstance(a, ndarray) else a for a in args]
    out = prim.run(args, params) if top is None else top.interpret(prim, args, params)
    if prim.is_view:
        note_view(prim, args[0], params, out)
    if need and prim.differentiable:
        needs = tuple([isinstance(a, Tensor) and a._requires_grad for a in args])
        if _recording():
            prim.record(args, needs, out, params)
        else:
            cut("no_grad", args[needs.index(True)])
    return out


def apply_to_one(prim: Primitive, x: Tensor, params: dict[str, Any]) -> Tensor:
    """The same for one plain tensor, which is the commonest case."""
    if x._meta is not None and type(x._meta) is View:
        view = x._meta
        if view.version != view.storage.version:
            synced(x)
    result = prim.impl(x._array, **params)
    made = _new(Tensor)
    made._array = result if type(result) is ndarray else np.asarray(result)
    made._born = levels.newest
    made._requires_grad = False
    made._grad = made._node = made._meta = None
    if prim.is_view:
        note_view(prim, x, params, made)
    if x._requires_grad and prim.differentiable:
        if not _recording():
            cut("no_grad", x)
        elif made._array.dtype in DIFFERENTIABLE:
            edge = x if x._node is None else x._node
            saved = [None, None, x._array.shape] if prim.saves_shape else prim.save((x,), (True,), made)
            shapes = (x._array.shape,) if prim.is_variadic else None
            attach(made, prim, edge, ABSENT, None, saved, -1, shapes, params, made._array.shape)
    return made


def note_view(prim: Primitive, base: Tensor, params: dict[str, Any], out: Tensor) -> None:
    """Remember that `out` shows `base`'s memory, if it does."""
    if not shares_memory(base, out):
        return
    status = NORMAL if _recording() or not base._requires_grad else UNRECORDED
    storage = storage_of(base)
    out._meta = View(base, prim, params, storage, status)
    if _active():
        storage.show(out, base)


def shares_memory(base: Tensor, out: Tensor) -> bool:
    a, b = base._array, out._array
    if isinstance(b, Tensor):
        return b is a or (isinstance(b._meta, View) and b._meta.storage is storage_of(a))
    owner = b.base
    if b is a or (owner is not None and (owner is a or owner is a.base)):
        return True
    return owner is not None and _owner(owner) is _owner(a)


def _owner(array: Any) -> Any:
    """What owns the memory of an array; NumPy's as_strided puts objects of its own in between."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def note_positions(prim: Primitive, base: Tensor, positions: Sequence[Tensor], out: Tensor) -> None:
    """Make `out`, which `prim` has read at positions that name no element twice, a view of `base`."""
    storage = storage_of(base)
    status = NORMAL if _recording() or not base._requires_grad else UNRECORDED
    out._meta = View(base, prim, {}, storage, status)
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
    top = max(operands, key=lambda t: t._level if type(t) is not Tensor else 0)
    if type(top) is Tensor:
        return how.primitive.run(operands, how.params)
    return top.interpret(how.primitive, operands, how.params)


def element_type(tensor: Any) -> Any:
    """The NumPy type of the elements of a tensor of any kind."""
    fields = tensor
    while type(fields._array) is not ndarray:
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
            if type(node.saved) is not ndarray:
                node.saved = packed(node.saved, place if place < operands else None)
        elif type(node.saved) is tuple:
            node.saved = tuple([packed(s, k if k < operands else None) for k, s in enumerate(node.saved)])
    if modes.anomaly.get() and isinstance(out._array, ndarray) and not np.isfinite(out._array).all():
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


def packed(item: Any, operand: int | None) -> Any:
    """A saved value as the innermost pair of saved-tensor hooks wants it; `operand` says which operand it is, if one."""
    pack, unpack_hook = modes.saved_hooks.get()[-1]
    is_output = type(item) is Saved and item.is_output
    value = item.value if type(item) is Saved else item
    if isinstance(value, ndarray):
        value = Tensor._wrap(value)
    if not isinstance(value, Tensor):
        return item
    # The hook gets the values without their history, but it can tell when they are overwritten.
    shown = value.shell()
    storage = item.storage if type(item) is Saved else storage_of(value)
    shown._meta = View(None, None, {}, storage, DETACHED)
    if type(value) is not Tensor:
        # What a batched or dual tensor holds may be on a tape of its own, which goes on through the hook.
        return Packed(pack(shown), unpack_hook, is_output, item.index if is_output else None, operand)
    token = modes.recording.set(modes.SILENT)
    try:
        handle = pack(shown)
    finally:
        modes.recording.reset(token)
    return Packed(handle, unpack_hook, is_output, item.index if is_output else None, operand)
