"""Nodes that the garbage collector need not see.

The node of a plain operation refers to things older than itself, and so cannot close a cycle. In a long chain most of the
time would go into the collector's visits to such nodes, again and again; compiled code therefore takes them off its lists.
That is right until something older is made to refer to something newer: a hook, a write in place, a gradient that has a
history, a user's own function. Whoever does such a thing calls `show_all` first, and from then on
the collector sees every node.
"""

import gc
from typing import Any

from lucid.core.fields import Edge
from lucid.core.tracking import PyObject_GC_Track, PyObject_GC_UnTrack
from lucid.native import in_use

_hiding = in_use


def hide(node: Any) -> None:
    """Take a new node off the collector's lists."""
    if _hiding:
        PyObject_GC_UnTrack(node)


def show_all() -> None:
    """Put every node back on the collector's lists, and hide none from now on."""
    global _hiding
    if not _hiding:
        return
    _hiding = False
    frontier: list[Any] = [o for o in gc.get_objects() if isinstance(o, Edge)]
    while frontier:
        edge = frontier.pop()
        if not gc.is_tracked(edge):
            PyObject_GC_Track(edge)
        after = edge.edges if edge._seq else (getattr(edge, "_node", None),)
        frontier += [e for e in after if e is not None and not gc.is_tracked(e)]
