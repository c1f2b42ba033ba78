"""A short memory of the places where values left the graph, so that `explain` can name them.

Values leave while programs run at full speed, so a note costs about as much as an operation: it refers
weakly to the nearest ancestors of the value and leaves the rest of the search to whoever reads it.
"""

from collections import deque
from typing import Any
from weakref import ref

from lucid.core import modes
from lucid.core.fields import next_seq
from lucid.core.source_lines import Place, here

_WALK_LIMIT = 12  # nodes looked at for each cut
_REMEMBERED = 2048


class Cut:
    """One value that left the graph: why, where, when, and from what it had come.

    `leaves` and `rest` are weak references: to the leaves found, and to the nodes where the search stopped.
    `nodes` are the numbers of the nodes passed, and `time` a number in the same sequence.
    """

    __slots__ = ("cause", "leaves", "nodes", "place", "rest", "time")

    def __init__(self, cause: str, place: Place, leaves: list[Any], nodes: set[int], rest: list[Any]) -> None:
        self.cause = cause
        self.place = place
        self.leaves = leaves
        self.nodes = nodes
        self.rest = rest
        self.time = next_seq()

    def alive(self) -> list[Any]:
        """The nodes from which the search can go on."""
        return [node for node in (r() for r in self.rest) if node is not None]

    @property
    def complete(self) -> bool:
        """Whether nothing that the value came from has been forgotten."""
        return all(r() is not None for r in self.rest)


log: deque[Cut] = deque(maxlen=_REMEMBERED)


def cut(cause: str, tensor: Any) -> None:
    """Note that `tensor`, which requires grad, goes on without its history."""
    if modes.recording.get() is modes.SILENT or modes.inference.get():
        return
    start = tensor._node
    log.append(Cut(cause, here(), *(([ref(tensor)], set(), []) if start is None else _ancestry(start))))


def _ancestry(start: Any) -> tuple[list[Any], set[int], list[Any]]:
    """Leaves, nodes and unexplored nodes above `start`. Plain loops: this runs at every cut."""
    leaves: list[Any] = []
    nodes: set[int] = set()
    frontier = [start]
    while frontier:
        if len(nodes) == _WALK_LIMIT:
            return leaves, nodes, [ref(node) for node in frontier]
        node = frontier.pop()
        if node._seq in nodes:
            continue
        nodes.add(node._seq)
        for edge in [e for e in node.edges if e is not None]:
            if not edge._seq:
                leaves.append(ref(edge))
            elif edge._seq not in nodes:
                frontier.append(edge)
    return leaves, nodes, []
