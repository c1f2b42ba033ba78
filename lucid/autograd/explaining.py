"""Why a gradient is missing or zero, in words and with the line that did it."""

from collections.abc import Iterable
from typing import Any

from lucid.core import modes
from lucid.core.arrays import any_nonzero, full, is_finite
from lucid.core.detachments import Cut, log
from lucid.core.dtypes import DIFFERENTIABLE
from lucid.core.node import Freed, Node
from lucid.core.primitive import edge_of, synced
from lucid.core.source_lines import Place, is_internal
from lucid.core.storage import DETACHED, UNRECORDED
from lucid.core.tensor import Tensor
from lucid.ops.categories import Elementwise
from lucid.tape.engine import pull_back

_MOST = 5  # places named for one cause

_WAYS_OUT = {
    "detach()": "was detached",
    "no_grad": "was used under no_grad (or inference_mode)",
    "numpy()": "was taken out of the graph as a NumPy array (by .numpy(), np.asarray or a NumPy function)",
    "item()": "was taken out of the graph as a Python number (by .item(), float() or int())",
}

_WHY_ZERO = {
    "relu": "every element that the gradient reaches is negative or zero",
    "clamp": "every element that the gradient reaches lies outside the bounds",
    "where": "the condition selects the other operand wherever the gradient arrives",
    "maximum": "the other operand is larger wherever the gradient arrives",
    "minimum": "the other operand is smaller wherever the gradient arrives",
    "mul": "it multiplies by zeros",
    "chain": "it multiplies by zeros",
    "chain_both": "it multiplies by zeros",
    "contract": "it multiplies by zeros",
    "linear": "it multiplies by zeros",
    "overwrite": "the elements were overwritten",
    "index_put": "the elements were overwritten",
    "index": "the elements that it picks do not come from this tensor",
}


class Explanation:
    """The answer of `explain`: its text, whether the tensors are `connected`, and the `reasons` one by one."""

    def __init__(self, connected: bool, reasons: list[str]) -> None:
        self.connected = connected
        self.reasons = reasons

    def __str__(self) -> str:
        head = "connected" if self.connected else "not connected"
        if len(self.reasons) == 1:
            return f"{head}: {self.reasons[0]}"
        return "\n".join([f"{head}:", *(f"  - {reason}" for reason in self.reasons)])

    __repr__ = __str__


def explain(loss: Tensor, tensor: Tensor) -> Explanation:
    """Say why the gradient of `loss` by `tensor` is None or zero, or that the two are connected.

    Nothing is changed: no `.grad` is written, the graph stays, and no hook runs. The places where values leave the
    graph are remembered for a while only, so ask soon after the loss was computed.

    >>> import lucid
    >>> x = lucid.tensor([1.0, -2.0], requires_grad=True)
    >>> lucid.autograd.explain((x * 0).sum(), x).connected
    True
    >>> print(lucid.autograd.explain((x.detach() * x.detach()).sum(), x).reasons[0])
    the loss does not require grad: nothing that it was computed from was being recorded
    """
    for name, value in (("loss", loss), ("tensor", tensor)):
        if not isinstance(value, Tensor):
            raise TypeError(f"explain: {name} must be a Tensor, not {type(value).__name__}")
    if not tensor.requires_grad:
        return Explanation(False, _why_not_recorded(tensor))
    if not loss.requires_grad:
        return Explanation(False, _why_no_loss(loss, tensor))
    start, target = edge_of(synced(loss)), edge_of(synced(tensor))
    if loss is tensor:
        return Explanation(True, ["the tensor is the loss itself, whose gradient is 1", *_grad_status(tensor)])
    ways = _nodes_to([start], target)
    if not ways:
        return Explanation(False, _why_apart(loss, tensor))
    return Explanation(True, _how_it_arrives(loss, tensor, ways))


def _why_not_recorded(tensor: Tensor) -> list[str]:
    """Why a tensor that does not require grad does not."""
    if tensor.np_dtype not in DIFFERENTIABLE:
        return [f"the tensor is {tensor.dtype}: only floating-point and complex tensors can have gradients"]
    reasons = ["the tensor does not require grad: call requires_grad_() on it before it is used"]
    status = getattr(tensor._meta, "status", None)
    if status == DETACHED:
        reasons.append("it is the result of detach(), which leaves the history behind")
    elif status == UNRECORDED:
        reasons.append("it is a view that was made under no_grad")
    return reasons


def _why_no_loss(loss: Tensor, tensor: Tensor) -> list[str]:
    if loss.np_dtype not in DIFFERENTIABLE:
        first = f"the loss is {loss.dtype}, which has no gradient"
    else:
        first = "the loss does not require grad: nothing that it was computed from was being recorded"
    return [first, *(_cuts(tensor, None) or [_NEVER_USED])]


_NEVER_USED = (
    "no place is known where a value computed from the tensor left the graph: it was never used for the loss, or it "
    "was used before it required grad, under inference_mode, or through item(), tolist() or an operation without a "
    "derivative (a comparison, argmax)"
)


def _why_apart(loss: Tensor, tensor: Tensor) -> list[str]:
    """Both require grad, but no path leads from one to the other."""
    reasons = ["no recorded operation leads from the tensor to the loss"]
    if not tensor.is_leaf and _nodes_to([edge_of(tensor)], edge_of(loss)):
        return [*reasons, "the tensor was computed from the loss: are the arguments of explain the wrong way round?"]
    rewritten = _rewritten(loss, tensor)
    cuts = _cuts(tensor, edge_of(loss)._seq)
    return [*reasons, *rewritten, *(cuts or ([] if rewritten else [_NEVER_USED]))]


def _rewritten(loss: Tensor, tensor: Tensor) -> list[str]:
    """An in-place operation gives a tensor new history, which a loss computed before does not know."""
    if tensor.is_leaf or tensor._meta is None or edge_of(tensor)._seq < edge_of(loss)._seq:
        return []
    writer = tensor._meta.storage.writer
    if writer is None:
        return []
    return [f"after the loss was computed, the tensor was changed in place by `{writer[0]}` at {writer[1]}"]


def _cuts(tensor: Tensor, before: int | None) -> list[str]:
    """The places where values computed from `tensor` left the graph, the latest first."""
    target = edge_of(tensor)
    recent = [c for c in reversed(list(log)) if target._seq < c.time and (before is None or c.time < before)]
    ways = _nodes_to([node for c in recent for node in c.alive()], target)
    found: dict[str, None] = {}
    perhaps: dict[str, None] = {}
    for c in recent:
        if _came_from(c, target, ways):
            found[_way_out(c, "a value computed from the tensor" if c.nodes else "the tensor")] = None
        elif not c.complete:
            perhaps[_way_out(c, "a value that may have been computed from the tensor")] = None
    return list(found)[:_MOST] or list(perhaps)[:2]


def _came_from(c: Cut, target: Any, ways: dict[int, Node]) -> bool:
    if target._seq:
        known = target._seq in c.nodes
    else:
        known = any(leaf() is target for leaf in c.leaves)
    return known or any(node._seq in ways for node in c.alive())


def _way_out(c: Cut, subject: str) -> str:
    kind, _, dtype = c.cause.partition(" to ")
    if kind == "conversion":
        return f"{subject} was converted to {dtype}, which has no gradient, at {c.place}"
    return f"{subject} {_WAYS_OUT.get(c.cause, f'left the graph by {c.cause}')} at {c.place}"


def _nodes_to(starts: Iterable[Any], target: Any) -> dict[int, Node]:
    """The nodes at or above `starts` from which `target`, a node or a leaf, can be reached, by number."""
    reached: dict[int, Node] = {}
    frontier = list(starts)
    while frontier:
        node = frontier.pop()
        if node._seq and node._seq not in reached and node._seq >= target._seq:
            reached[node._seq] = node
            frontier.extend(e for e in node.edges if e is not None)
    ways: dict[int, Node] = {}
    for seq in sorted(reached):
        node = reached[seq]
        if node is target or any(_leads_to(e, target, ways) for e in node.edges):
            ways[seq] = node
    return ways


def _leads_to(edge: Any, target: Any, ways: dict[int, Node]) -> bool:
    if edge is None:
        return False
    return edge._seq in ways if edge._seq else edge is target


def _how_it_arrives(loss: Tensor, tensor: Tensor, ways: dict[int, Node]) -> list[str]:
    """What happens to the gradient on the way from the loss to the tensor."""
    freed = next((node for node in reversed(ways.values()) if type(node.saved) is Freed), None)
    if freed is not None:
        place = freed.saved.place
        reasons = [f"the graph was freed (retain_graph=True would have kept it) by the backward pass at {place}"]
        if tensor.grad is not None and not _nonzero(tensor.grad):
            reasons.append(".grad is zero everywhere; explain before that pass names the operation that made it so")
        return [*reasons, *_grad_status(tensor)]
    try:
        gradient, losses = _trace(loss, tensor, ways)
    except Exception as error:  # rules run user code (custom Functions, saved-tensor hooks)
        return [f"the backward pass fails: {error}"]
    if gradient is None or not _nonzero(gradient):
        return [f"the gradient is {'None' if gradient is None else 'zero everywhere'}", *losses, *_hooked(ways)]
    status = _grad_status(tensor) or [f"the gradient flows through {_count(ways)} to the tensor"]
    return [*_not_finite(gradient), *status, *_hooked(ways)]


def _count(ways: dict[int, Node]) -> str:
    count = sum(not hasattr(node, "index") for node in ways.values())
    return f"{count} operation{'' if count == 1 else 's'}"


def _grad_status(tensor: Tensor) -> list[str]:
    """Why `.grad` may be None although the gradient is known."""
    if tensor.grad is not None:
        return []
    retains = tensor._node is not None and tensor._node.hooks is not None and tensor._node.hooks.retain is not None
    if tensor.is_leaf or retains:
        return ["the gradient flows to the tensor; .grad is None because backward() has not run or it was cleared"]
    return [
        "the gradient flows to the tensor; .grad stays None because it is the result of an operation, not a leaf: "
        "call retain_grad() on it before backward()"
    ]


def _hooked(ways: dict[int, Node]) -> list[str]:
    nodes = [n for n in ways.values() if n.hooks is not None and (n.hooks.tensor or n.hooks.pre or n.hooks.post)]
    return [
        f"hooks on the result of `{node.name()}` were not run here and may change the gradient; it ran {_at(node)}"
        for node in nodes[:_MOST]
    ]


def _not_finite(gradient: Any) -> list[str]:
    if is_finite(_plain(gradient)):
        return []
    return ["the gradient contains nan or inf; detect_anomaly() finds the operation"]


def _trace(loss: Tensor, tensor: Tensor, ways: dict[int, Node]) -> tuple[Any, list[str]]:
    """The gradient, and the operations at which a nonzero cotangent became zero."""
    recording = modes.recording.set(False)
    try:
        sweep = _Sweep(tensor, ways)
        ones = full(loss.shape, 1, loss.np_dtype)
        sweep.run(edge_of(loss), ones if type(loss) is Tensor else Tensor._wrap(ones))
        return sweep.gradient, sweep.losses()
    finally:
        modes.recording.reset(recording)


class _Sweep:
    """A backward pass along some nodes only, without hooks and without effects."""

    def __init__(self, tensor: Tensor, ways: dict[int, Node]) -> None:
        self.target = edge_of(tensor)
        self.ways = ways
        self.gradient: Any = None
        self.pending: dict[int, Any] = {}
        self.alive: set[int] = set()  # numbers of nodes that got some nonzero contribution
        self.stopped: list[tuple[Node, list[Any]]] = []  # nodes that let nothing through, and what they sent
        self.cancelled: list[Node | None] = []

    def run(self, start: Any, seed: Any) -> None:
        self._deliver(start, seed)
        for seq in sorted(self.ways, reverse=True):
            node = self.ways[seq]
            if seq not in self.pending:
                continue
            ct = self.pending.pop(seq)
            if seq in self.alive and not _nonzero(ct):
                self.cancelled.append(node)
            if node is not self.target:
                self._step(node, ct)
        if self.gradient is not None and not _nonzero(self.gradient) and 0 in self.alive:
            self.cancelled.append(None)

    def _step(self, node: Node, ct: Any) -> None:
        grads = pull_back(node, ct)
        sent = [(e, g) for e, g in zip(node.edges, grads, strict=False) if _leads_to(e, self.target, self.ways)]
        if _nonzero(ct) and not any(_nonzero(g) for _, g in sent):
            self.stopped.append((node, [g for _, g in sent]))
        for edge, g in sent:
            if g is not None:
                self._deliver(edge, g)

    def _deliver(self, edge: Any, ct: Any) -> None:
        seq = edge._seq
        if _nonzero(ct):
            self.alive.add(seq)
        if edge is self.target or not seq:
            self.gradient = ct if self.gradient is None else _sum(self.gradient, ct)
        self.pending[seq] = _sum(self.pending[seq], ct) if seq in self.pending else ct

    def losses(self) -> list[str]:
        found = [_why_stopped(node, sent) for node, sent in self.stopped]
        for node in self.cancelled:
            where = "the tensor" if node is None else f"the result of `{node.name()}`, which ran {_at(node)}"
            found.append(f"contributions cancel each other where they meet: at {where}")
        return list(dict.fromkeys(found))[:_MOST]


def _why_stopped(node: Node, sent: list[Any]) -> str:
    name = f"`{node.name()}`"
    if all(g is None for g in sent):
        return f"{name} gives None as the gradient of its operand; it ran {_at(node)}"
    if all(g is None or (type(g) is not dict and 0 in g.shape) for g in sent):
        return f"the operand of {name} has no elements; it ran {_at(node)}"
    if _constant(node):
        return f"the derivative of {name} is zero everywhere; it ran {_at(node)}"
    why = _WHY_ZERO.get(node.name(), "its derivative is zero at these values")
    return f"{name} lets no gradient through: {why}; it ran {_at(node)}"


def _constant(node: Node) -> bool:
    """Whether the derivative vanishes whatever the values: an elementwise rule that reads nothing, yet gave zero."""
    prim = node.prim
    if not isinstance(prim, Elementwise):
        return False
    rules = [rule for rule, edge in zip(prim.rules, node.edges, strict=True) if edge is not None]
    return all(rule is not None and not rule.names for rule in rules)


def _at(node: Node) -> str:
    place: Place = node.place
    return "inside the library" if is_internal(place.filename) else f"at {place}"


def _nonzero(ct: Any) -> bool:
    if ct is None:
        return False
    if type(ct) is dict:
        return any(_nonzero(g) for g in ct.values())
    return bool(any_nonzero(_plain(ct)))


def _plain(value: Any) -> Any:
    """The array inside a tensor of any kind."""
    while isinstance(value, Tensor):
        value = value._array
    return value


def _sum(a: Any, b: Any) -> Any:
    if type(a) is dict:
        for i, g in b.items():
            a[i] = _sum(a[i], g) if i in a else g
        return a
    return a + b
