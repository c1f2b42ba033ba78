"""The backward pass: cotangents flow from the roots through the nodes in reverse order of recording.

Nodes are numbered as they are recorded, so an operand's number is always smaller than the number of
whatever used it. Taking the highest number first therefore visits each node once, after all of its
contributions have arrived, with no recursion and no count of dependencies.

What waits for an edge is a list: the edge, the sum of its contributions so far, and whether the pass owns that, so
that more can be added to it in place. It owns what it has added up itself and what a primitive computed for one operand
alone (`pulls_new`); not what it was given, what hooks have seen, and what several operands share.
"""

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from math import prod
from typing import Any

import numpy as np

from lucid.core import levels, modes
from lucid.core.arrays import ARRAY
from lucid.core.collector import show_history
from lucid.core.hooks import Hooks
from lucid.core.kernels import table
from lucid.core.node import ABSENT, Freed, Node, Pruned, accumulator, accumulators
from lucid.core.primitive import Primitive, edge_of, element_type, pulled_by_tensors, synced
from lucid.core.source_lines import here
from lucid.core.storage import LARGE, copied, frozen, storage_of
from lucid.core.tensor import Tensor, class_of, of_class, wrapped, wrapped_as
from lucid.kinds.kind import Kind
from lucid.tape.accumulation import Parts
from lucid.tape.geometry import geometry_of, is_passed, placed
from lucid.tape.inplace import WRITE_VIEW, path_of

# Saved values that a backward pass need not free: none, shapes and numbers, a constant.
_NO_MEMORY = frozenset({type(None), list, ARRAY, Freed})
_SHORT = 8  # chains of views that are followed anew for each part
watchers: list[Any] = []  # make of roots what is told, during a pass, that gradients of leaves are complete, or None


class Targets:
    """The tensors whose gradients are wanted, and which nodes lie on the way to them."""

    def __init__(self, roots: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        edges = [edge_of(synced(t)) for t in inputs]
        self.nodes = {e._seq for e in edges if e._seq}
        self.leaves = {id(e) for e in edges if not e._seq}
        self.needed: set[int] = set()
        self._find_the_way([edge_of(r) for r in roots])

    def wants(self, edge: Any) -> bool:
        seq = edge._seq
        if seq:
            return seq in self.needed or seq in self.nodes
        return id(edge) in self.leaves

    def pruned(self, node: Node) -> Node | None:
        """The node without the edges that lead to no target, so that nobody computes their cotangents.

        None for a user's function, which decides itself what it computes.
        """
        left, right = node.left, node.right
        if node.others is None and (left is None or self.wants(left)) and (right is None or self.wants(right)):
            return node
        if not isinstance(node.prim, Primitive) or node.prim.is_call:
            return None
        edges = node.edges
        for edge in edges:
            if edge is not None and not self.wants(edge):
                return Pruned.of(node, tuple([e if e is not None and self.wants(e) else None for e in edges]))
        return node

    def _find_the_way(self, roots: list[Any]) -> None:
        """Collect the numbers of the nodes from which some target can be reached."""
        reached: dict[int, Any] = {}
        frontier = roots
        oldest = 0 if self.leaves else min(self.nodes, default=0)
        while frontier:
            edge = frontier.pop()
            seq = edge._seq
            if seq > oldest and seq not in reached:
                node = edge
                reached[seq] = node
                if node.others is not None:
                    frontier += [e for e in node.others if e is not None]
                    continue
                if node.left is not None:
                    frontier.append(node.left)
                if node.right is not None and node.right is not ABSENT:
                    frontier.append(node.right)
        for seq in sorted(reached):
            node = reached[seq]
            if node.others is not None:
                for edge in node.others:
                    if edge is not None and self.wants(edge):
                        self.needed.add(seq)
                        break
            elif (node.left is not None and self.wants(node.left)) or (
                node.right is not None and node.right is not ABSENT and self.wants(node.right)
            ):
                self.needed.add(seq)


def run(
    roots: Sequence[Tensor],
    seeds: Sequence[Any],
    inputs: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
    accumulate: bool,
    lent: Sequence[Any] | None = None,
) -> list[Tensor | None]:
    """One backward pass. Gradients go into `.grad` if `accumulate`, else they are returned for `inputs`.

    With a list of seeds that are `lent`, those that are returned may be frozen, and show the memory of these.
    Nothing is written to any leaf before the whole pass has succeeded.
    """
    if levels.active.get():
        seeds = [root.seeded(seed) for root, seed in zip(roots, seeds, strict=True)]
    targets = None if inputs is None else Targets(roots, inputs)
    arrivals = watchers[0](roots) if watchers and accumulate and not levels.active.get() else None
    recording = modes.recording.set(modes.recording_state(True) if create_graph else modes.SILENT)
    try:
        captured, leaves = _sweep(roots, seeds, targets, retain_graph, accumulate, arrivals)
        if accumulators:
            for held in leaves.values():
                _hook_leaf(held)
        if not accumulate:
            assert inputs is not None
            return [_result(t, captured, leaves, lent) for t in inputs]
        for leaf, gradient, _ in leaves.values():
            if gradient.shape != leaf.shape:
                _raise_misfit(leaf, gradient)
        plain = not accumulators and not levels.active.get()
        for held in leaves.values():
            if not plain or not _into_plain_leaf(held, create_graph):
                _into_leaf(held, create_graph)
        for tensor in inputs or ():
            node = tensor._node  # which adds by itself where the tensor retains its gradient
            if node is not None and node._seq in captured and (node.hooks is None or node.hooks.retain is None):
                _add_to_grad(tensor, _take(captured[node._seq], tensor), create_graph)
        if arrivals is not None:
            arrivals.end()
        return []
    finally:
        modes.recording.reset(recording)


def _sweep(
    roots: Sequence[Tensor], seeds: Any, targets: Targets | None, retain_graph: bool, accumulate: bool, arrivals: Any
) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    """Run every node once; returns the cotangents of target nodes and of leaves."""
    pending: dict[int, list[Any]] = {}
    heap: list[int] = []
    leaves: dict[int, list[Any]] = {}
    captured: dict[int, list[Any]] = {}
    freed = None
    watch = modes.anomaly.get()
    everything = targets is None
    due = 0 if arrivals is None else arrivals.due
    visited: list[Node] = []
    paths = None

    for root, seed in zip(roots, seeds):  # no strict=: the keyword alone costs 0.5 µs
        edge = edge_of(root)
        if targets is None or targets.wants(edge):
            _hand_on(edge, seed, False, pending, heap, leaves)

    node = ahead = None
    ct = ahead_ct = None
    own = ahead_own = False
    while True:
        # `ahead` is a node that got its first contribution just now. In a chain it is also the next to run,
        # and then never sees the heap.
        if ahead is None:
            if not heap:
                for held in leaves.values():
                    if type(held[1]) is Parts:
                        held[1] = held[1].whole()
                return captured, leaves
            seq = -heappop(heap)
            node, ct, own = pending.pop(seq)
        elif heap and -heap[0] > ahead._seq:
            seq = -heapreplace(heap, -ahead._seq)
            pending[ahead._seq] = [ahead, ahead_ct, ahead_own]
            node, ct, own = pending.pop(seq)
        else:
            node, ct, own, seq = ahead, ahead_ct, ahead_own, ahead._seq
        ahead = ahead_ct = None
        if seq < due:
            due = arrivals.reached(seq, leaves)
        hooks = node.hooks
        if type(ct) is Parts and (
            node.prim is not WRITE_VIEW or hooks is not None or watch or (targets is not None and seq in targets.nodes)
        ):
            ct = ct.whole()
        if hooks is not None:
            ct, own = _before(node, hooks, ct, accumulate), False
        if targets is not None:
            if seq in targets.nodes:
                goes_on = seq in targets.needed
                captured[seq] = [node, ct, own and not goes_on]
                own = False
            if seq not in targets.needed:
                continue
            acting = node if node.right is ABSENT else targets.pruned(node)
            everything = acting is not None
            if acting is None:
                acting = node
        else:
            acting = node
        if acting.right is ABSENT and hooks is None and not watch and getattr(acting.prim, "shows_part", False):
            if _add_to_operand(acting, ct, pending, leaves):
                ct = None
                continue
            edge = acting.left
            if edge._seq or isinstance(ct, Tensor):  # part of a leaf, an array takes the ordinary way
                if paths is None:
                    paths = Paths(targets, pending, heap, leaves)
                if paths.add(acting, ct):
                    ct = None
                    continue
        splits = False
        if acting.prim is WRITE_VIEW and hooks is None and type(ct) is ARRAY and acting.left is not None:
            grads = WRITE_VIEW.split(acting, ct if own and table["takes"](ct, ct) else table["copy"](ct))
            splits = True
        elif acting.prim is WRITE_VIEW and hooks is None and not watch and isinstance(ct, (Tensor, Parts)):
            grads = _take_out(acting, ct)
        else:
            grads = pull_back(acting, ct)
        if watch:
            visited.append(node)
            watch(node, grads, visited, pending)
        if not retain_graph:
            kind = type(node.saved)
            if kind is Tensor or kind not in _NO_MEMORY:
                node.saved = freed = freed or Freed(here())
        is_new = splits
        if hooks is None and isinstance(acting.prim, Primitive):
            prim = acting.prim
            is_new = prim.pulls_new
        elif hooks is not None and hooks.post:
            grads = _after(node, hooks, grads, ct)
        if acting.others is None:
            # Most nodes hand on one contribution, and in a chain the node that it goes to is the next to run.
            edge, g = acting.left, grads[0]
            if len(grads) == 2:
                if g is None:
                    edge, g = acting.right, grads[1]
                elif grads[1] is not None:
                    edge = None
            if edge is not None:
                if g is not None and (everything or targets.wants(edge)):  # type: ignore[union-attr]  # not None then
                    ahead_own = is_new and (own or g is not ct)
                    if not edge._seq or edge._seq in pending:
                        _hand_on(edge, g, ahead_own, pending, heap, leaves)
                    else:
                        ahead, ahead_ct = edge, g
                grads = g = ct = None
                continue
        for i in range(len(grads)):
            g, edge = grads[i], acting.others[i] if acting.others is not None else acting.right if i else acting.left
            # Where not everything is wanted there are targets.
            if g is None or edge is None or not (everything or targets.wants(edge)):  # type: ignore[union-attr]
                continue
            if ahead is None and edge._seq and edge._seq not in pending:
                ahead, ahead_ct, ahead_own = edge, g, is_new and (splits or g is not ct)
            elif edge is ahead:
                held = [edge, ahead_ct, ahead_own]
                _add(held, g, is_new and g is not ct)
                ahead_ct, ahead_own = held[1], held[2]
            else:
                _hand_on(edge, g, is_new and (splits or g is not ct), pending, heap, leaves)
        grads = g = ct = None


def pull_back(node: Any, ct: Any) -> Any:
    """The cotangents of a node's operands. Rules are written for tensors; primitives that pull arrays say so."""
    if isinstance(node.prim, Primitive):
        prim = node.prim
        if not prim.pulls_arrays and not isinstance(ct, Tensor):
            return pulled_by_tensors(node, ct)
    return node.prim.vjp(node, ct)


def _hand_on(
    edge: Any, ct: Any, own: bool, pending: dict[int, list[Any]], heap: list[int], leaves: dict[int, list[Any]]
) -> None:
    """A contribution to the cotangent of a node or a leaf."""
    seq = edge._seq
    held = pending.get(seq) if seq else leaves.get(id(edge))
    if held is not None:
        _add(held, ct, own)
    elif seq:
        pending[seq] = [edge, ct, own]
        heappush(heap, -seq)
    else:
        leaves[id(edge)] = [edge, ct, own]


def _add(held: list[Any], new: Any, own: bool) -> None:
    """Add a contribution to what waits: in the memory of either, if the pass owns it."""
    before = held[1]
    if before is None:
        held[1], held[2] = new, own
    elif held[2] and table["added_into"](before, new):
        pass
    elif own and table["added_into"](new, before):
        held[1], held[2] = new, True
    else:
        held[1], held[2] = _sum(before, new), True


def _add_to_operand(node: Any, ct: Any, pending: dict[int, list[Any]], leaves: dict[int, list[Any]]) -> bool:
    """Add what the view `node` makes of an array to what its operand has; False if that cannot be, or it has nothing yet.

    So the parts of a tensor take the time of the whole, and not each of them.
    """
    edge = node.left
    held = pending.get(edge._seq) if edge._seq else leaves.get(id(edge))
    if held is None:
        return False
    if type(ct) is not ARRAY and not isinstance(ct, Tensor):
        ct = table["as_array"](ct)  # rules may give a number for an array without dimensions
    if not held[2] or not table["takes"](held[1], ct):
        return False
    part = node.prim.kernel(held[1], **node.params)
    if not table["shares_memory"](held[1], part) or not table["is_writable"](part):  # or elements are seen twice
        return False
    table["add_into"](part, ct)
    return True


class Paths:
    """Where the views of one backward pass lie in what they are views of, through however many others."""

    def __init__(self, targets: Targets | None, pending: Any, heap: Any, leaves: Any) -> None:
        self.known: dict[Any, Any] = {}
        self.stops: Any = () if targets is None else targets.nodes
        self.pending = pending
        self.heap = heap
        self.leaves = leaves
        self.ends: set[int] = set()  # of chains of which a part has come by

    def add(self, node: Any, ct: Any) -> bool:
        """Add what the view `node` makes of a cotangent to what the end of its chain of views has.

        False if the ordinary way is as good or the only one.
        """
        pending, leaves = self.pending, self.leaves
        if not self._is_worth_it(node.left, isinstance(ct, Tensor)):
            return False
        geometry = geometry_of(node, self.known, self.stops)
        root = geometry.root
        if root is node or not geometry.apart:
            return False
        key = root._seq
        if not key:
            held = leaves.setdefault(id(root), [root, None, False])
        elif key in pending:
            held = pending[key]
        else:
            held = pending[key] = [root, None, False]
            heappush(self.heap, -key)
        if isinstance(ct, Tensor) or isinstance(held[1], (Tensor, Parts)):
            parts = held[1]
            if type(parts) is not Parts:
                rest = None if parts is None else _wrapped(parts)
                parts = held[1] = Parts(rest, root.shape, _wrapped(ct).np_dtype)
            parts.put(_wrapped(ct), geometry.place)
        else:
            ct = table["as_array"](ct)
            table["add_into"](placed(_own_array(held, root.shape, ct), geometry.place), ct)
        return True

    def _is_worth_it(self, edge: Any, recorded: bool) -> bool:
        """Whether there is a chain of views, and more than this part at its end: alone it takes the ordinary way faster."""
        below = edge
        for _ in range(_SHORT):
            if not is_passed(below, self.stops):
                break
            below = below.left
        else:
            return True
        waits = below._seq in self.pending if below._seq else id(below) in self.leaves
        if below is edge:
            return recorded and waits
        if recorded or waits or id(below) in self.ends:
            return True
        self.ends.add(id(below))
        return False


def _take_out(node: Any, ct: Any) -> tuple[Any, Any]:
    """A cotangent that is a tensor or `Parts` for a base that was written through views: outside of them, and inside."""
    path = path_of(node)
    if node.left is None or not all(primitive.shows_elements for primitive, _ in path):
        return WRITE_VIEW.vjp(node, ct.whole() if type(ct) is Parts else ct)
    parts = ct if type(ct) is Parts else Parts(_wrapped(ct), node.shape, _wrapped(ct).np_dtype)
    return parts, parts.take(path)


def _own_array(held: list[Any], shape: tuple[int, ...], ct: Any) -> Any:
    """What waits as an array in row-major order that the pass owns, of a type that takes `ct`."""
    before = held[1]
    if before is None:
        held[1] = table["zeros"](shape, ct.dtype)
    elif not held[2] or not table["takes"](before, ct) or not table["is_contiguous"](before):
        held[1] = table["copy"](before, np.result_type(before.dtype, ct.dtype))
    held[2] = True
    return held[1]


def _sum(a: Any, b: Any) -> Any:
    if type(a) is dict:  # cotangents by the number of the output; each output's node makes such a dict anew
        for i, g in b.items():
            a[i] = _sum(a[i], g) if i in a else g
        return a
    if type(b) is Parts:
        b = b.whole()
    if type(a) is Parts:
        a.add(_wrapped(b))
        return a
    return _wrapped(a) + _wrapped(b) if isinstance(a, Tensor) or isinstance(b, Tensor) else table["add"](a, b)


def _wrapped(ct: Any) -> Tensor:
    return ct if isinstance(ct, Tensor) else Tensor._wrap(ct)


def _shown(ct: Any) -> Tensor:
    """A cotangent for a hook to look at: other gradients may share its memory, so it cannot be written."""
    return ct if isinstance(ct, Tensor) else Tensor._wrap(table["read_only"](ct))


def _hooked(hook: Any, ct: Any, what: str) -> Any:
    """Pass one cotangent through a hook, in the form that it came in."""
    given = _shown(ct)
    result = hook(given)
    return ct if result is None else _replacement(result, given, ct, what)


def _replacement(result: Any, given: Tensor | None, ct: Any, what: str) -> Any:
    """What a hook gave for one gradient, checked, in the form of the one it replaces."""
    if not isinstance(result, Tensor):
        raise TypeError(f"a hook on {what} must return None or a Tensor, not {type(result).__name__}")
    if given is not None and result.shape != given.shape:
        raise RuntimeError(f"a hook on {what} returned shape {result.shape} for a gradient of shape {given.shape}")
    if given is not None and result.is_complex() and not given.is_complex():
        raise RuntimeError(f"a hook on {what} returned a complex gradient for one of {given.dtype}")
    return result if isinstance(ct, Tensor) or result._level else result._array


def _replacements(result: Any, given: Sequence[Tensor | None], what: str) -> tuple[Any, ...]:
    """What a hook gave for several gradients, as a tuple of the right length."""
    if isinstance(result, Tensor):
        result = (result,)
    if not isinstance(result, (tuple, list)):
        raise TypeError(f"a hook on {what} must return None, a Tensor or a tuple, not {type(result).__name__}")
    if len(result) != len(given):
        raise RuntimeError(f"a hook on {what} must return {len(given)} gradients, not {len(result)}")
    return tuple(result)


def _before(node: Node, hooks: Hooks, ct: Any, accumulate: bool) -> Any:
    """Tensor hooks, then node pre-hooks, then `.grad` of a tensor that retains it."""
    if type(ct) is not dict:
        for hook in list(hooks.tensor.values()):
            ct = _hooked(hook, ct, "a tensor")
    for hook in list(hooks.pre.values()):
        ct = _prehooked(node, hook, ct)
    if hooks.retain is not None and accumulate:
        tensor = hooks.retain()
        if tensor is not None:
            _add_to_grad(tensor, _take([None, ct, False], tensor), bool(modes.recording.get()))
    return ct


def _prehooked(node: Node, hook: Any, ct: Any) -> Any:
    given = _outputs_as_tuple(node, ct)
    result = hook(given)
    if result is None:
        return ct
    new = _replacements(result, given, repr(node))
    if type(ct) is not dict:
        return _replacement(new[0], given[0], ct, repr(node))
    return {i: _replacement(g, given[i], ct.get(i), repr(node)) for i, g in enumerate(new) if g is not None}


def _outputs_as_tuple(node: Node, ct: Any) -> tuple[Tensor | None, ...]:
    if type(ct) is not dict:
        return (_shown(ct),)
    return tuple(_shown(ct[i]) if i in ct else None for i in range(len(node.shapes)))


def _after(node: Node, hooks: Hooks, grads: Sequence[Any], ct: Any) -> Sequence[Any]:
    """Node post-hooks, which may replace what the node has computed."""
    for hook in list(hooks.post.values()):
        given = tuple(None if g is None else _shown(g) for g in grads)
        result = hook(given, _outputs_as_tuple(node, ct))
        if result is not None:
            new = _replacements(result, given, repr(node))
            grads = [
                None if r is None else _replacement(r, before, g, repr(node))
                for r, before, g in zip(new, given, grads, strict=True)
            ]
    return grads


def _result(
    tensor: Tensor, captured: dict[int, list[Any]], leaves: dict[int, list[Any]], lent: Sequence[Any] | None
) -> Tensor | None:
    edge = edge_of(tensor)
    held = captured.get(edge._seq) if edge._seq else leaves.get(id(tensor))
    if held is None:
        return None
    shown = None if lent is None else _shown_at_no_cost(held, tensor, lent)
    return _take(held, tensor) if shown is None else of_class((tensor,), frozen(wrapped(shown)))


def _shown_at_no_cost(held: list[Any], tensor: Tensor, lent: Sequence[Any]) -> Any:
    """A large gradient that needs no memory of its own: one that shows a seed, or an expanded one. None for others."""
    gradient = held[1]
    if type(gradient) is not ARRAY or gradient.nbytes < LARGE or gradient.dtype is not tensor.np_dtype:
        return None
    if not all(gradient.strides):
        each = prod([n for n, step in zip(gradient.shape, gradient.strides, strict=True) if step])
        return table["expanded_copy"](gradient) if 2 * each <= gradient.size else None
    return gradient if [seed for seed in lent if table["shares_memory"](seed, gradient)] else None


def _take(held: list[Any], tensor: Tensor) -> Tensor:
    """What waits as a gradient for `tensor`, in memory that nobody else can reach."""
    _, gradient, own = held
    held[2] = False
    kind = element_type(tensor)
    if kind.kind in "biu":  # gradients of integers, which a front door may let require grad, keep fractions
        kind = getattr(gradient, "np_dtype", gradient.dtype)
    if isinstance(gradient, Tensor):
        if gradient.np_dtype != kind:
            gradient = gradient.to(kind)
        elif not own or gradient._meta is not None:
            gradient = gradient.clone()
    elif own and type(gradient) is ARRAY and gradient.dtype is kind and table["owns_memory"](gradient):
        gradient = wrapped(gradient)
    else:
        gradient = wrapped(copied(gradient, kind))
    return of_class((tensor,), gradient)


def _hooks_on(leaf: Tensor) -> Hooks | None:
    node = accumulators.get(id(leaf))
    return None if node is None else node.hooks


def _hook_leaf(held: list[Any]) -> None:
    """Put a leaf's gradient through its tensor hooks and the pre-hooks of its node."""
    leaf, gradient, _ = held
    hooks = _hooks_on(leaf)
    if hooks is None:
        return
    for hook in list(hooks.tensor.values()):
        gradient = _hooked(hook, gradient, "a tensor")
    for hook in list(hooks.pre.values()):
        gradient = _prehooked(accumulator(leaf), hook, gradient)
    held[1], held[2] = gradient, False


def _raise_misfit(leaf: Tensor, gradient: Any) -> None:
    raise RuntimeError(
        f"backward: a gradient of shape {gradient.shape} arrived at a leaf of shape {leaf.shape}: the leaf was given "
        "other contents (by .data = or a change of shape) after operations on it were recorded"
    )


def _into_plain_leaf(held: list[Any], create_graph: bool) -> bool:
    """The gradient of a leaf outside of transforms and hooks, if it is an array that is taken or added without a copy."""
    leaf, gradient, own = held
    if leaf._level or type(gradient) is not ARRAY or not leaf._requires_grad or gradient.dtype is not leaf._array.dtype:
        return False
    if leaf._grad is not None:
        return _added_to(leaf._grad, gradient, create_graph)
    if not own or not table["owns_memory"](gradient):
        return False
    leaf._grad = wrapped_as(class_of((leaf,)), gradient)
    return True


def _into_leaf(held: list[Any], create_graph: bool) -> None:
    leaf = held[0]
    if not leaf._requires_grad:
        return
    gradient = _take(held, leaf)
    outermost = max(leaf._born, getattr(leaf, "_level", 0), levels.capturing())
    for transform in reversed(levels.active.get()):
        if transform.level <= outermost:
            break
        if isinstance(gradient, Kind) and gradient._level == transform.level:
            gradient = gradient.settled()
        else:
            gradient = transform.settled(gradient)
    is_plain = not getattr(leaf, "_level", 0)
    while isinstance(gradient, Kind) and (
        gradient._level > outermost or (is_plain and gradient._level == levels.OUTERMOST)
    ):
        gradient = gradient.settled()
    _add_to_grad(leaf, gradient, create_graph)
    hooks = _hooks_on(leaf)
    if hooks is not None:
        for hook in list(hooks.post_accumulate.values()):
            hook(leaf)
        for hook in list(hooks.post.values()):
            hook((), (_wrapped(held[1]),))


def _add_to_grad(tensor: Tensor, gradient: Tensor, create_graph: bool) -> None:
    if gradient._requires_grad:
        show_history(gradient._node)
    held = tensor._grad
    if levels.capturing():
        levels.trace.get().accumulate(tensor, gradient, create_graph)
    elif held is None:
        tensor._grad = gradient
    elif gradient._level or not _added_to(held, gradient._array, create_graph):
        tensor._grad = held + gradient


def _added_to(held: Tensor, gradient: Any, create_graph: bool) -> bool:
    """Add an array to a gradient in place, as users who hold on to x.grad expect; whether that can be."""
    if create_graph or held._level or held._requires_grad or held.np_dtype != gradient.dtype:
        return False
    storage_of(held).bump("backward")
    if table["is_writable"](held._array):
        table["add_into"](held._array, gradient)
    else:
        held._array = table["add"](held._array, gradient)
    return True
