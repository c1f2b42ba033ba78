"""What the garbage collector need not see of the tape.

A node refers to arrays, to older nodes and to leaves, and so cannot close a cycle by itself. In a long program most of
the time would go into the collector's visits to such nodes, again and again; compiled code therefore takes them off its
lists, together with what they keep. A cycle can arise only where something older is made to refer to something newer:

- A hook, a note on a node, a user's function or what a saved-tensor hook returned may refer to anything. Such an edge is
  `_open`, and so is every node that descends from it: none of these is hidden. If there are descendants already, they are
  looked for when the collector runs next.
- An attribute that a user gives to a tensor may refer to anything too, unless it is a number or a string. Such a tensor
  is open.
- A gradient that has a history leads from its tensor to newer nodes: all of them are shown (`_shown`).
- A leaf that stops to require grad can be written (`_held`). Nodes refer to it, and its new history may lead to them: it
  is shown too.
"""

import gc
from typing import Any

from lucid.core import fields
from lucid.core.fields import Edge, TensorFields, next_seq
from lucid.core.storage import Saved
from lucid.native import PyObject_GC_IsTracked, PyObject_GC_Track, in_use

_late = False  # whether an edge was opened that may have descendants


def descends_from_open(edges: tuple[Any, ...]) -> bool:
    """Whether one of a node's edges may refer to newer things."""
    for edge in edges:
        if isinstance(edge, Edge):
            met: Edge = edge
            if met._open:
                return True
    return False


def _parts(node: Any) -> list[Any]:
    """What `node.settle` hides with a node."""
    saved = node.saved
    parts = [p for p in (node.params, node.others) if p]
    if type(saved) in (Saved, tuple, list):
        parts.append(saved)
    return [*parts, *[s for s in saved if type(s) is Saved]] if type(saved) is tuple else parts


def show(node: Any) -> None:
    """Put a node and what it keeps back on the collector's lists."""
    for part in [node, *_parts(node)]:
        if not PyObject_GC_IsTracked(part):
            PyObject_GC_Track(part)


def show_history(edge: Any) -> None:
    """Show all nodes that lead to an edge; those that were shown before are not visited again."""
    if not in_use:
        return
    frontier = [edge]
    while frontier:
        node = frontier.pop()
        if node is not None and node._seq and not node._shown:
            node._shown = True
            show(node)
            frontier.extend(node.edges)


def expose(edge: Any) -> None:
    """Something was attached to an edge that may refer to newer tensors."""
    global _late
    if not in_use or edge._open:
        return
    edge._open = True
    if edge._seq:
        show(edge)
        if next_seq() == edge._seq + 1:
            return  # nothing was recorded since
    _late = True
    if _open_descendants not in gc.callbacks:
        gc.callbacks.append(_open_descendants)


fields.expose = expose


def _open_descendants(phase: str, info: dict[str, Any]) -> None:
    """Before a collection that may free what has lived for some time: open all that descends from an open edge."""
    global _late
    if not _late or phase != "start" or not info["generation"]:
        return
    _late = False
    for node in live_nodes():  # operands come first
        if not node._open and descends_from_open(node.edges):
            node._open = True
            show(node)


def live_nodes() -> list[Any]:
    """All nodes that a tensor leads to, in the order in which they were recorded."""
    nodes: dict[int, Any] = {}
    # Of what a class says of itself: proxies of others may answer isinstance with a warning.
    frontier: list[Any] = [o for o in gc.get_objects() if issubclass(type(o), Edge)]
    while frontier:
        edge = frontier.pop()
        if isinstance(edge, TensorFields):
            edge = getattr(edge, "_node", None)
        if edge is not None and edge._seq and id(edge) not in nodes:
            nodes[id(edge)] = edge
            frontier.extend(edge.edges)
    return sorted(nodes.values(), key=lambda node: node._seq)
