"""The fields of tensors: a class of their own, to which `fields.pxd` gives a C layout where this package is compiled.

Compiled code that knows a value as `TensorFields` (or `Edge`, or `Node`) reads its fields without a look-up, so the
hot paths say so in annotations. The methods are in `Tensor`, which stays an ordinary class that others can add to.
"""

from itertools import count
from typing import Any

from lucid.core.modes import MARKING, inference
from lucid.native import PyObject_GenericSetAttr, PyObject_IS_GC, attributes_of, in_use, new_instance

_numbers = count(1)
_newest = 0  # the number that the last transform was given: see `levels`
_marking = 0  # how many inference modes that mark are open, in any thread


def next_seq() -> int:
    """The next number of the engine's order; two threads never get the same one."""
    return next(_numbers)


class Edge:
    """What a gradient can flow to: a node, or a leaf. `_seq` is the engine's order; leaves have 0 and come last.

    `_open`, and the fields `_shown` of nodes and `_held` of tensors, are for the garbage collector: see `collector`.
    """

    __slots__ = ()
    _seq: int
    _open: bool


class TensorFields(Edge):
    """What a tensor holds.

    `_array` is the array; in the other kinds of tensor, the tensor inside. `_meta` is None, the Storage of a tensor
    that was written or viewed, or the View of one seen through another. `_born` is the newest transform when the
    tensor was made. `_level` and `_aux` belong to the other kinds and stay unset here. Kinds add no slots, so that
    a tensor can be promoted to another kind where it stands. Attributes that are no fields are the user's.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_array", "_aux", "_born", "_grad", "_held", "_level", "_marked", "_meta", "_node",
        "_requires_grad",
    )  # fmt: skip

    _array: Any
    _aux: Any
    _born: int
    _grad: Any
    _held: bool
    _level: int
    _marked: bool
    _meta: Any
    _node: Any
    _requires_grad: bool

    def __setattr__(self, name: str, value: Any) -> None:
        """The collector must know of attributes that may refer to newer things, and those are the user's."""
        PyObject_GenericSetAttr(self, name, value)
        if not self._open and PyObject_IS_GC(value) and name in (attributes_of(self) or ()):
            open_tensor(self)


if not in_use:
    del TensorFields.__setattr__  # nothing is hidden from the collector


expose: Any = None  # `collector.expose`


def open_tensor(tensor: TensorFields) -> None:
    """Say that a tensor may refer to newer ones."""
    if tensor._held or (tensor._requires_grad and tensor._node is None):
        expose(tensor)  # nodes may refer to it already
    else:
        tensor._open = True


def users_attributes(tensor: TensorFields) -> dict[str, Any] | None:
    """What a user has added to a tensor, or None."""
    return attributes_of(tensor) or None


def newest() -> int:
    """The number of the last transform. Every tensor notes it at birth, so that a transform can tell those made inside."""
    return _newest


def begin(level: int) -> None:
    """Say that a transform of this number begins."""
    global _newest
    _newest = level


def count_marking(by: int) -> None:
    """Say that an inference mode that marks begins (1) or ends (-1)."""
    global _marking
    _marking += by


def new_tensor(kind: Any, array: Any, aux: Any = None, level: int = 0) -> Any:
    """A tensor of any kind without history. Every result is made here."""
    made = new_instance(kind)
    made._array = array
    made._aux = aux
    if level:
        made._level = level
    made._born = _newest
    made._requires_grad = False
    made._grad = made._node = made._meta = None
    made._marked = _marking != 0 and inference.get() is MARKING
    return made
