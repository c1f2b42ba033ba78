"""Where the elements of views lie in memory: the cotangent of a view is the same view of a cotangent.

So the cotangents of many parts of one tensor are added where they belong, through however many views each was seen, and
none of them becomes as large as the whole.
"""

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from lucid.core.node import ABSENT

ndarray = np.ndarray
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
        memory = known[edge.shape] = np.empty(edge.shape, np.int8)
    return Geometry(edge, memory, 0)


def _through(node: Any, below: Geometry, known: dict[Any, Any]) -> Geometry:
    seen = node.prim.kernel(below.seen, **node.params)
    if not seen.size or not np.may_share_memory(seen, below.seen):
        return _whole(node, known)  # in row-major order its elements are no view of those below
    return Geometry(below.root, seen, below.offset + _address(seen) - _address(below.seen))


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def placed(memory: Any, place: tuple[int, Ints, Ints]) -> Any:
    """What lies at a place in an array in row-major order."""
    offset, shape, strides = place
    size = memory.itemsize
    return restrided(memory, shape, tuple([s * size for s in strides]), offset * size)


def place_in(memory: Any, view: Any) -> tuple[int, Ints, Ints]:
    """The place at which an array in row-major order has a view of it."""
    size = memory.itemsize
    return (_address(view) - _address(memory)) // size, view.shape, tuple([s // size for s in view.strides])


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


def _owner(x: Any) -> Any:
    while isinstance(x.base, ndarray):
        x = x.base
    return x


def restrided(x: Any, shape: Ints, strides: Ints, offset: int = 0) -> Any:
    """The memory of an array from `offset` bytes behind its start on, with other sizes and strides in bytes.

    Unlike NumPy's `as_strided`, NumPy knows the owner of the result, by which `storage_offset` is counted.
    """
    memory = x if x.flags.c_contiguous else _owner(x)
    if not memory.flags.forc:
        start = np.lib.stride_tricks.as_strided(x.view(f"V{x.itemsize}"), (offset + 1,), (1,))[offset:]
        return np.lib.stride_tricks.as_strided(start, shape, strides).view(x.dtype)
    if memory is not x:
        offset += x.ctypes.data - memory.ctypes.data
        memory = memory if memory.flags.c_contiguous else memory.T
    if memory.dtype.isbuiltin != 1:  # types that are not NumPy's own have no buffers, so they go as bytes
        memory = memory.view(f"V{memory.itemsize}")
    kind = x.dtype if x.dtype.isbuiltin == 1 else np.dtype(f"V{x.itemsize}")
    return ndarray(shape, kind, memory, offset, strides).view(x.dtype)
