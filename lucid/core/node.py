"""The tape's records: one node for each recorded operation, and the values it keeps for its derivative."""

import weakref
from types import SimpleNamespace
from typing import Any

from lucid.core import modes
from lucid.core.arrays import ARRAY
from lucid.core.collector import descends_from_open, expose
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.fields import Edge, TensorFields, next_seq
from lucid.core.hooks import Hooks, hooks_of, users_hooks_of
from lucid.core.kernels import table
from lucid.core.source_lines import Place, climb, known_files
from lucid.core.storage import DETACHED, Saved, Storage, fingerprint, new_view, saved_of, storage_of
from lucid.core.tensor import Tensor
from lucid.native import PyFrame_GetCode, PyFrame_GetLasti, PyObject_GC_UnTrack, current_frame, filename_of, in_use

ABSENT = object()
NONFINITE = "lucid.nonfinite"
HOOKED = modes.HOOKED
_recording = modes.recording.get
_known_files: dict[str, bool] = known_files


def split_edges(edges: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...] | None]:
    """The three places in which a node keeps its edges."""
    if len(edges) == 2:
        return edges[0], edges[1], None
    if len(edges) == 1:
        return edges[0], ABSENT, None
    return None, None, edges


class Node(Edge):
    """One recorded operation.

    `edges` has an entry for each operand: the node that made it, the tensor itself if it is a leaf,
    or None if it needs no gradient. A node never refers to the tensor it made, so a graph has no cycles.

    In a chain of a million operations most of the time would go into the garbage collector's visits, so a node
    is one object: up to two edges stand in `left` and `right`, and a single saved value stands in `saved`
    itself, with its number among the primitive's names in `place_of_saved`.
    """

    __slots__ = (
        "__weakref__", "_open", "_seq", "_shown", "code", "hooks", "left", "offset", "others", "params", "place_of_saved", "prim", "right",
        "saved", "shape", "shapes",
    )  # fmt: skip

    code: Any
    offset: int
    prim: Any
    left: Any
    right: Any  # ABSENT for one operand
    others: tuple[Any, ...] | None  # all edges, if there are none or more than two
    saved: Any  # what the rules named: one value, or all in the order of prim.names; None, or Freed
    place_of_saved: int  # -1 if `saved` is not one value
    params: dict[str, Any]
    shape: tuple[int, ...]  # of the result
    shapes: Any  # of the operands, where broadcasting changed one; else None
    hooks: Hooks | None

    @property
    def edges(self) -> tuple[Any, ...]:
        """Where the gradient of each operand goes."""
        if self.others is not None:
            return self.others
        return (self.left,) if self.right is ABSENT else (self.left, self.right)

    def name(self) -> str:
        """The operation's name."""
        return str(self.prim.name)

    @property
    def place(self) -> Place:
        """The user's line that ran the operation."""
        return Place(self.code, self.offset)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user's own notes on this node."""
        return users_hooks_of(self).metadata

    @property
    def next_functions(self) -> tuple[tuple["Node | None", int], ...]:
        """The nodes of the operands, each with the number of the output that was used."""
        return tuple(_function_of(edge) for edge in self.edges)

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after this node has run; it may return other grad_inputs."""
        return users_hooks_of(self).add("post", hook)

    def register_prehook(self, hook: Any) -> Any:
        """Call `hook(grad_outputs)` before this node runs; it may return other grad_outputs."""
        return users_hooks_of(self).add("pre", hook)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class OutputNode(Node):
    """Stands between one output of a many-output operation and that operation's node."""

    __slots__ = ("index",)
    index: int


class Pruned(Node):
    """A node as one backward pass sees it: without the edges that lead to nothing that was asked for."""

    __slots__ = ("whole",)
    whole: Node

    @staticmethod
    def of(node: Node, edges: tuple[Any, ...]) -> "Pruned":
        out = Pruned()
        out.whole, out._seq, out.prim, out.params = node, node._seq, node.prim, node.params
        out.left, out.right, out.others = split_edges(edges)
        out.saved, out.place_of_saved = node.saved, node.place_of_saved
        out.shape, out.shapes, out.hooks = node.shape, node.shapes, None
        out.code, out.offset = node.code, node.offset
        return out


class AccumulateGrad(Node):
    """The end of a path: where a leaf's gradient arrives. Made only for leaves that have hooks or are asked."""

    __slots__ = ("leaf",)
    leaf: Any  # weak reference

    @property
    def variable(self) -> Any:
        return self.leaf()


# What nodes of no primitive have instead of one.
ACCUMULATE = SimpleNamespace(name="accumulate_grad", multi=False)
ALIAS = SimpleNamespace(name="alias", multi=False, vjp=lambda node, ct: (ct,))
OUTPUT = SimpleNamespace(name="output", multi=False, vjp=lambda node, ct: ({node.index: ct},))

# By the identity of the leaf, for as long as it lives: a leaf that held its node would make a cycle with it.
accumulators: dict[int, AccumulateGrad] = {}


def _bare(kind: Any, prim: Any, edges: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """A node that saves nothing; the caller gives it a place and a number."""
    node = kind()
    node.prim, node.saved, node.place_of_saved, node.params = prim, None, -1, {}
    node.left, node.right, node.others = split_edges(edges)
    node.shape, node.shapes, node.hooks = shape, None, None
    return node


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The node in front of a leaf."""
    found = accumulators.get(id(leaf))
    if found is not None:
        return found
    node = _bare(AccumulateGrad, ACCUMULATE, (), leaf.shape)
    node.code, node.offset, node._seq = accumulator.__code__, 0, 0
    key = id(leaf)
    node.leaf = weakref.ref(leaf, lambda _: accumulators.pop(key, None))
    accumulators[key] = node
    return node


def _function_of(edge: Any) -> tuple[Node | None, int]:
    if edge is None:
        return None, 0
    if isinstance(edge, Tensor):
        return accumulator(edge), 0
    if isinstance(edge, OutputNode):
        return edge.edges[0], edge.index
    return edge, 0


class Freed:
    """Takes the place of saved values that a backward pass has dropped."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place


class Packed:
    """A saved value in the form that a saved-tensor hook gave it."""

    __slots__ = ("handle", "index", "is_output", "operand", "unpack")

    def __init__(self, handle: Any, unpack: Any, is_output: bool, index: int | None, operand: int | None) -> None:
        self.handle = handle
        self.unpack = unpack
        self.is_output = is_output
        self.index = index  # which output, for operations that have several
        self.operand = operand  # which operand, if it is one


def packed(item: Any, operand: int | None) -> Any:
    """A saved value as the innermost pair of saved-tensor hooks wants it; `operand` says which operand it is, if one."""
    pack, unpack_hook = modes.saved_hooks.get()[-1]
    is_output = type(item) is Saved and item.is_output
    value = item.value if type(item) is Saved else item
    if isinstance(value, ARRAY):
        value = Tensor._wrap(value)
    if not isinstance(value, Tensor):
        return item
    # The hook gets the values without their history, but it can tell when they are overwritten.
    shown = value.shell()
    storage = item.storage if type(item) is Saved else storage_of(value)
    shown._meta = new_view(None, None, {}, storage, DETACHED)
    if value._level:
        # What a batched or dual tensor holds may be on a tape of its own, which goes on through the hook.
        return Packed(pack(shown), unpack_hook, is_output, item.index if is_output else None, operand)
    token = modes.recording.set(modes.SILENT)
    try:
        handle = pack(shown)
    finally:
        modes.recording.reset(token)
    return Packed(handle, unpack_hook, is_output, item.index if is_output else None, operand)


def save_input(tensor: Any) -> Any:
    """What to keep of an operand: never the tensor itself, which may get another history, unless it is a leaf."""
    if tensor._requires_grad and tensor._node is None:
        return tensor if tensor._meta is None else saved_of(tensor, tensor, None, False)
    value = tensor._array if type(tensor) is Tensor else tensor.shell()
    return saved_of(value, tensor, tensor._node, False)


def save_output(out: Any) -> Saved:
    """What to keep of a result: not the tensor, which refers to the node."""
    return saved_of(out._array if type(out) is Tensor else out.shell(), out, None, True)


def raise_if_freed(node: Node) -> None:
    if type(node.saved) is Freed:
        raise RuntimeError(
            f"backward a second time through the result of `{node.name()}` (made at {node.place}): its saved "
            f"values were freed by the backward pass at {node.saved.place}. "
            "Pass retain_graph=True to that first pass to keep them."
        )


def _raise_overwritten(node: Node, saved: Saved | None, storage: Storage) -> None:
    operation, place = storage.writer or ("NumPy code", None)
    expected = 0 if saved is None else saved.version
    raise RuntimeError(
        "one of the values needed for a gradient was overwritten by an in-place operation: "
        f"`{node.name()}` at {node.place} saved it (version {expected}), and `{operation}`"
        + (f" at {place}" if place is not None else "")
        + f" wrote to it (version {storage.version}). "
        "Use the out-of-place form of the write, or clone() the tensor before it."
    )


def _check(node: Node, saved: Saved) -> Any:
    storage = saved.storage
    if storage.version != saved.version:
        _raise_overwritten(node, saved, storage)
    value = saved.value
    array = value._array if isinstance(value, Tensor) else value
    if saved.print is not None:
        changed = saved.print != fingerprint(array)
    else:
        changed = storage.exposed and storage.changed_since_exposed(array)
    if changed:
        _raise_changed_by_numpy(node)
    return value


def _raise_changed_by_numpy(node: Node) -> None:
    raise RuntimeError(
        f"a value that `{node.name()}` at {node.place} saved for its gradient was changed by NumPy code that "
        "shares its memory. Copy the array before it is written, or make the tensor with lucid.tensor(array)."
    )


def _check_bare(node: Node, meta: Storage, array: Any) -> None:
    """The same for a value that had no storage of its own when it was saved."""
    if meta.version != 0:
        _raise_overwritten(node, None, meta)
    if meta.exposed and meta.changed_since_exposed(array):
        _raise_changed_by_numpy(node)


def array_of(node: Node, saved: Any) -> Any:
    """A saved value as a bare array, for rules that run on arrays."""
    kind = type(saved)
    if kind is Tensor:
        inside = saved
        if inside._meta is not None:
            _check_bare(node, inside._meta, inside._array)
        return inside._array
    if kind is Saved:
        held = saved
        if held.storage.version != held.version or held.storage.exposed or held.print is not None:
            _check(node, held)
        value = held.value
        return value if type(value) is ARRAY else value._array if isinstance(value, Tensor) else value
    if kind is Packed:
        return _unpack(saved)._array
    if isinstance(saved, Tensor):
        if saved._meta is not None:
            _check_bare(node, saved._meta, saved._array)
        # Or a plain tensor that became one of another kind when a transform's value was written into it.
        return saved if saved._level else saved._array
    return saved


def tensor_of(node: Node, saved: Any) -> Any:
    """A saved value as a tensor with its place in the graph, for rules that run on tensors."""
    if type(node) is Pruned:
        node = node.whole
    kind = type(saved)
    if kind is Saved:
        value = _check(node, saved)
        return _restored(saved, value, output_edge(node, saved.index) if saved.is_output else saved.edge)
    if kind is Packed:
        value = _unpack(saved)
        if saved.is_output:
            return _reattached(value, output_edge(node, saved.index))
        edge = None if saved.operand is None else node.edges[saved.operand]
        return value if edge is None else _reattached(value, edge)
    if isinstance(saved, Tensor) and saved._meta is not None:
        _check_bare(node, saved._meta, saved._array)
    return saved


def unrecorded(node: Node, saved: Any) -> Any:
    """A saved value as a tensor without its place in the graph, where nothing is recorded."""
    kind = type(saved)
    if kind is Saved:
        value = _check(node, saved)
    elif kind is Packed:
        value = _unpack(saved)
    elif isinstance(saved, Tensor):
        value = saved
        if saved._meta is not None:
            _check_bare(node, saved._meta, saved._array)
    else:
        return saved
    return value.shell() if isinstance(value, Tensor) else Tensor._wrap(value)


def _restored(saved: Saved, value: Any, edge: Any) -> Tensor:
    """A saved value as a tensor again, over the same memory."""
    if isinstance(value, Tensor) and value._requires_grad:
        return value  # a leaf
    out = value.shell() if isinstance(value, Tensor) else Tensor._wrap(value)
    out._meta, out._born = saved.storage, saved.born
    out._node, out._requires_grad = edge, edge is not None
    return out


def output_edge(node: Node, index: int | None) -> Node:
    """A node that stands for one output of `node`."""
    if index is None:
        return node
    out = _bare(OutputNode, OUTPUT, (node,), node.shapes[index][0])
    out.code, out.offset, out._seq, out.index = node.code, node.offset, next_seq(), index
    settle(out)
    return out


def _unpack(saved: Packed) -> Tensor:
    value = saved.unpack(saved.handle)
    if not isinstance(value, Tensor):
        raise TypeError(f"an unpack hook must return the tensor that was packed, not {type(value).__name__}")
    return value


def _reattached(value: Any, edge: Any) -> Tensor:
    """A tensor with `value`'s contents whose gradient flows to `edge`."""
    out = value.shell() if isinstance(value, Tensor) else Tensor._wrap(value)
    if isinstance(edge, Tensor):
        alias = _bare(Node, ALIAS, (edge,), edge.shape)
        alias.code, alias.offset, alias._seq = _reattached.__code__, 0, next_seq()
        edge = alias
    out._node = edge
    out._requires_grad = True
    return out


OPERAND, RESULT, SHAPE = "operand", "result", "shape"


class Plan:
    """What the tape keeps of an operation, for one combination of operands that need a gradient.

    `keeps` has triples of a place among the `size` names of the primitive and what goes there: an operand, a result or
    the shape of an operand, by its number. `rest` is the first of any number of operands that are kept in their own
    places, or -1. Residuals of the kernel stand behind them. `alone` is the place of a value that is kept by itself, -1
    if that is not so, `source` its number among the operands, or -1 for the result. `pair` says that two operands are
    all that is kept.
    """

    def __init__(self, keeps: tuple[tuple[int, str, int], ...], size: int, rest: int = -1) -> None:
        self.keeps = keeps
        self.size = size
        self.rest = rest
        self.alone = self.source = -1
        if len(keeps) == 1 and keeps[0][1] is not SHAPE:
            self.alone = keeps[0][0]
            self.source = keeps[0][2] if keeps[0][1] is OPERAND else -1
        self.pair = keeps == ((0, OPERAND, 0), (1, OPERAND, 1)) and rest < 0


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


def linked(node: Node, ct: Any) -> list[Any]:
    """All that a node has saved as tensors with their places in the graph, as users see them."""
    raise_if_freed(node)
    return [None if s is None else _beside(tensor_of(node, s), ct) for s in node.saved or ()]


def _beside(found: Any, ct: Any) -> Any:
    """A value as the cotangent's kind wants it: a program has all that rules make of it."""
    if ct._level and isinstance(found, TensorFields) and not found._level and not found._requires_grad:
        return ct.seeded(found)
    return found


def unpack(node: Node, ct: Any) -> list[Any]:
    """All that a node has saved, in the form of the cotangent."""
    raise_if_freed(node)
    return [None if s is None else saved_at(node, k, ct) for k, s in enumerate(node.saved or ())]


def attach(
    out: TensorFields | None,
    prim: Any,
    left: Any,
    right: Any,
    others: tuple[Any, ...] | None,
    saved: Any,
    place_of_saved: int,
    shapes: Any,
    params: dict[str, Any],
    shape: Any,
    mode: Any = None,
) -> Node:
    """A node, for `out` if that is given. Called for every recorded operation, so written for speed.

    `mode` is how operations are recorded now, if that is known.
    """
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
    frame = current_frame()
    code = PyFrame_GetCode(frame)
    if _known_files.get(filename_of(code), True):
        frame = climb(frame)
        code = PyFrame_GetCode(frame)
    node.code = code
    node.offset = PyFrame_GetLasti(frame)
    if out is not None:
        out._node = node
        out._requires_grad = True
        if (_recording() if mode is None else mode) is HOOKED:
            note_if_not_finite(node, out)
            pack_saved(node)
    settle(node)
    return node


def settle(node: Any) -> None:
    """Hide a new node and what it keeps, unless it descends from something that may refer to newer things.

    Called for every recorded operation, so written out: through lists and helpers it takes three times as long.
    """
    if not in_use or node._open:
        return
    left, right, others, saved, params = node.left, node.right, node.others, node.saved, node.params
    if others is not None:
        if descends_from_open(others):
            node._open = True
            return
        PyObject_GC_UnTrack(others)
    elif (left is not None and left._open) or (isinstance(right, Edge) and right._open):
        node._open = True
        return
    PyObject_GC_UnTrack(node)
    if type(node.shapes) is tuple:  # of tuples of numbers: the collector would find that out in its second visit
        PyObject_GC_UnTrack(node.shapes)
    if params:
        PyObject_GC_UnTrack(params)
    if type(saved) is Saved:
        PyObject_GC_UnTrack(saved)
    elif type(saved) is tuple:
        PyObject_GC_UnTrack(saved)
        for item in saved:
            if type(item) is Saved:
                PyObject_GC_UnTrack(item)
    elif type(saved) is list:
        PyObject_GC_UnTrack(saved)


def pack_saved(node: Node) -> None:
    """Hand what a node has saved to saved-tensor hooks, if there are any."""
    if not modes.saved_hooks.get():
        return
    expose(node)
    operands = len(node.edges)
    place = node.place_of_saved
    if place >= 0:
        if type(node.saved) is not ARRAY:
            node.saved = packed(node.saved, place if place < operands else None)
    elif type(node.saved) is tuple:
        node.saved = tuple([packed(s, k if k < operands else None) for k, s in enumerate(node.saved)])


def note_if_not_finite(node: Node, out: Any) -> None:
    """Anomaly detection names the first operation whose result was not finite."""
    if modes.anomaly.get() and isinstance(out, TensorFields):
        array = out._array
        if type(array) is ARRAY and array.dtype in DIFFERENTIABLE and not table["is_finite"](array):
            hooks_of(node).metadata[NONFINITE] = True
