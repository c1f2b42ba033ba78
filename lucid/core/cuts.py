"""A short memory of the places where values left the graph, so that `explain` can name them."""

import weakref
from collections import deque
from typing import Any

from lucid.core.place import Place, here
from lucid.core.tensor import Tensor

_WALK_LIMIT = 32  # nodes looked at for each cut: a few microseconds at most


class Cut:
    """One value that left the graph: why, where, and from which leaves it had come."""

    __slots__ = ("cause", "complete", "leaves", "place")

    def __init__(self, cause: str, place: Place, leaves: list[Any], complete: bool) -> None:
        self.cause = cause
        self.place = place
        self.leaves = leaves  # weak references
        self.complete = complete


log: deque[Cut] = deque(maxlen=512)


def cut(cause: str, tensor: Tensor) -> None:
    """Note that `tensor`, which requires grad, goes on without its history."""
    leaves: list[Any] = []
    frontier: list[Any] = [tensor if tensor._node is None else tensor._node]
    seen: set[int] = set()
    steps = 0
    while frontier and steps < _WALK_LIMIT:
        edge = frontier.pop()
        if id(edge) in seen:
            continue
        seen.add(id(edge))
        steps += 1
        if edge._seq == 0:
            leaves.append(weakref.ref(edge) if isinstance(edge, Tensor) else edge.leaf)
        else:
            frontier.extend(e for e in edge.edges if e is not None)
    log.append(Cut(cause, here(), leaves, not frontier))
