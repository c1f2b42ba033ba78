"""Where the elements of views lie in memory: the cotangent of a view is the same view of a cotangent.

So the cotangents of many parts of one tensor are added where they belong, through however many views each was seen, and
none of them becomes as large as the whole.
"""

from collections.abc import Container, Sequence
from typing import Any

from lucid.core.arrays import address, empty, restrided, shares_memory
from lucid.core.dtypes import int8
from lucid.core.node import ABSENT

Ints = tuple[int, ...]


class Geometry:
    """A view of `root`, the end of a chain of views: the elements `offset + Σ i·stride` of its row-major order."""

    __slots__ = ("apart", "offset", "root", "seen", "shape", "strides")

    def __init__(self, root: Any, seen: Any, offset: int) -> None:
        self.root = root
        self.seen = seen  # the view on an array of bytes with the root's shape, which nobody reads
        self.offset = offset
        self.shape: Ints = seen.shape
        self.strides: Ints = seen.strides
        self.apart = not overlaps(self.shape, self.strides)  # whether each element is seen once

    @property
    def place(self) -> tuple[int, Ints, Ints]:
        return self.offset, self.shape, self.strides


def is_passed(edge: Any, stops: Container[int]) -> bool:
    """Whether an edge leads to a view through which cotangents can be handed on without running its node."""
    return (
        edge._seq
        and edge.right is ABSENT
        and getattr(edge.prim, "shows_elements", False)
        and edge.hooks is None
        and edge._seq not in stops
    )


def geometry_of(node: Any, known: dict[Any, Any], stops: Container[int]) -> Geometry:
    """Where a view lies in the nearest thing below that is no view, or that is among the numbers of nodes to stop at.

    `known` has what was found before, by numbers of views, so each is looked at once, and arrays of bytes by shapes.
    """
    chain = [node]
    while chain[-1]._seq not in known and is_passed(chain[-1].left, stops):
        chain.append(chain[-1].left)
    found: Geometry = known[chain.pop()._seq] if chain[-1]._seq in known else _whole(chain[-1].left, known)
    for view in reversed(chain):
        found = known[view._seq] = _through(view, found, known)
    return found


def _whole(edge: Any, known: dict[Any, Any]) -> Geometry:
    memory = known.get(edge.shape)
    if memory is None:
        memory = known[edge.shape] = empty(edge.shape, int8.numpy)
    return Geometry(edge, memory, 0)


def _through(node: Any, below: Geometry, known: dict[Any, Any]) -> Geometry:
    seen = node.prim.kernel(below.seen, **node.params)
    if not seen.size or not shares_memory(below.seen, seen):
        return _whole(node, known)  # in row-major order its elements are no view of those below
    return Geometry(below.root, seen, below.offset + address(seen) - address(below.seen))


def placed(memory: Any, place: tuple[int, Ints, Ints]) -> Any:
    """What lies at a place in an array in row-major order."""
    offset, shape, strides = place
    size = memory.itemsize
    return restrided(memory, shape, tuple([s * size for s in strides]), offset * size)


def place_in(memory: Any, view: Any) -> tuple[int, Ints, Ints]:
    """The place at which an array in row-major order has a view of it."""
    size = memory.itemsize
    return (address(view) - address(memory)) // size, view.shape, tuple([s // size for s in view.strides])


def seen_through(path: Sequence[tuple[Any, dict[str, Any]]], array: Any) -> Any:
    """The part of an array in row-major order that a chain of views shows."""
    for primitive, settings in path:
        array = primitive.kernel(array, **settings)
    return array


def overlaps(size: Ints, stride: Ints) -> bool:
    """Whether two places may show one element. Certain if strides nest; other patterns count as overlapping."""
    reach = 0
    for step, count in sorted([(s, n) for s, n in zip(stride, size, strict=True) if n > 1]):
        if step <= reach:
            return True
        reach += step * (count - 1)
    return False
