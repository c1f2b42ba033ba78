"""The shape of a tensor changed in place: `x.t_()`, `x.squeeze_()`, `x.resize_(2, 3)`.

The elements stay where they are, but the tensor shows them in another way. A value that the tape has saved would be
seen in the wrong shape, so these count as writes. Views remember how they are seen through the shape that their base
had, so a tensor that has views is refused.
"""

import gc
import math
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from lucid.api import shaping
from lucid.arguments.dims import shape_from
from lucid.core import modes
from lucid.core.collector import live_nodes, show_history
from lucid.core.primitive import move_retained_grad, synced
from lucid.core.storage import DETACHED, Storage, View, storage_of
from lucid.core.tensor import Tensor
from lucid.kinds.kind import Kind
from lucid.native import in_use
from lucid.ops.rules import P
from lucid.tape.inplace import raise_if_not_writable


def _holders(self: Tensor) -> int:
    """How many refer to how a tensor is stored, itself among them: views, and what was saved of it."""
    return getrefcount(self._meta)


def _of_one_tensor() -> int:
    alone = Tensor._wrap(np.zeros(()))
    storage_of(alone)
    return _holders(alone)


_ALONE = _of_one_tensor()


def _has_views(self: Tensor) -> bool:
    """Whether another tensor is seen through the shape of this one."""
    if self._meta is None or (isinstance(self._meta, Storage) and _holders(self) == _ALONE):
        return False
    followers = storage_of(self).views or ()
    if any(origin() is self and view() is not None for view, origin in followers):
        return True
    # Views know their base, not the other way around.
    return any(type(r) is View and r.base is self for r in gc.get_referrers(self))


def _raise_if_viewed(self: Tensor, name: str) -> None:
    if _has_views(self):
        raise RuntimeError(
            f"{name}: this tensor of shape {self.shape} has views, which are seen through its shape; "
            f"use {name.removesuffix('_')}, which gives another tensor"
        )


def _raise_if_leaf_in_use(self: Tensor, name: str) -> None:
    """Refuse a leaf to which a recorded operation would bring a gradient of the shape that it has now."""
    if not self._requires_grad or self._node is not None:
        return
    for node in live_nodes():
        if any(edge is self for edge in node.edges):
            raise RuntimeError(
                f"{name}: operations on this leaf were recorded in its present shape {self.shape}; "
                "change the shape before, or when their graph is gone"
            )


def _take_over(self: Tensor, new: Tensor) -> None:
    """Show what `new` shows; the history is the caller's business."""
    self._array = new._array
    if isinstance(new, Kind):
        self._aux, self._level = new._aux, new._level


def _seen_differently(self: Tensor, name: str, view: Callable[[Tensor], Tensor]) -> Tensor:
    """The tensor becomes `view` of what it was, in the same memory and with its history."""
    synced(self)
    base = self._base
    if modes.recording.get() and (self._requires_grad or (base is not None and base._requires_grad)):
        raise_if_not_writable(self, name, recorded=True)
    _raise_if_viewed(self, name)
    _raise_if_leaf_in_use(self, name)
    before = self.shell()
    before._node, before._requires_grad = self._node, self._requires_grad and self._node is not None
    is_view = isinstance(self._meta, View)
    if is_view:
        before._meta = self._meta
    # Also under no_grad: a history that leads to the old shape would be wrong.
    token = modes.recording.set(modes.recording_state(True))
    try:
        new = view(before)
    finally:
        modes.recording.reset(token)
    if new is before:
        return self
    if not isinstance(new._meta, View):
        raise RuntimeError(
            f"{name}: the memory of this tensor cannot be seen in that way without a copy; "
            f"use {name.removesuffix('_')}, which gives another tensor"
        )
    storage = storage_of(self)
    _take_over(self, new)
    if new._requires_grad:
        move_retained_grad(self, new._node)
        if in_use and self._held:
            show_history(new._node)
        self._node = new._node
    storage.bump(name)
    if is_view:
        _see_through(self, before, new._meta)
    return self


def _see_through(self: Tensor, before: Tensor, how: View) -> None:
    """A view becomes a view of what it was: writes to it reach its base by way of that."""
    storage = how.storage
    self._meta = how
    how.version = before._meta.version = storage.version
    if storage.views is not None:
        origins = [origin() for view, origin in storage.views if view() is self]
        storage.views = [pair for pair in storage.views if pair[0]() is not self]
        for origin in origins:
            if origin is not None:
                storage.show(before, origin)
        storage.show(self, before)


def _form(function: Callable[..., Tensor], example: tuple[str, str]) -> Callable[..., Tensor]:
    """The in-place form of a function that gives a view of another shape."""
    name = function.__name__ + "_"
    shape, arguments = example

    def op(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _seen_differently(self, name, lambda x: function(x, *args, **kwargs))

    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"""In-place form of `{function.__name__}`: the tensor itself gets the other shape.

    >>> import lucid
    >>> x = lucid.zeros({shape})
    >>> x.{name}({arguments}) is x
    True
    """
    return op


def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """In-place form of `as_strided`: the tensor itself shows its memory with other sizes and strides.

    >>> import lucid
    >>> lucid.arange(4).as_strided_((2, 2), (1, 2))
    Tensor([[0, 2],
            [1, 3]])
    """
    return _seen_differently(self, "as_strided_", lambda x: _strided(x, size, stride, storage_offset))


def _strided(x: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    from lucid.api.strides import as_strided  # loads on first use, like the function itself

    return as_strided(x, size, stride, storage_offset)


class _Sharing(View):
    """How a tensor shows memory that it was given by `set_`: as a detached one does."""

    __slots__ = ()

    @property
    def writer(self) -> Any:
        """Who wrote to the memory last, as storage says it: for what was saved when the tensor had none."""
        return self.storage.writer


def _sharing(storage: Storage) -> _Sharing:
    how = _Sharing.__new__(_Sharing)
    how.base, how.others, how.primitive, how.params = None, (), P.alias, {}
    how.storage, how.version, how.status = storage, storage.version, DETACHED
    return how


def _raise_if_bound(self: Tensor, name: str, source: Tensor | None = None) -> None:
    """Refuse to give other memory to a tensor that the tape, or other tensors, know by the memory that it has."""
    if self.requires_grad or (source is not None and source.requires_grad):
        raise RuntimeError(f"{name}: a tensor that requires grad cannot be given other memory; detach() it first")
    if self.is_view():
        raise RuntimeError(f"{name}: a view shows the memory of another tensor; clone() it first")
    _raise_if_viewed(self, name)


def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Give the tensor another shape, with as many of its elements as fit; new ones are 0.

    >>> import lucid
    >>> lucid.tensor([1, 2, 3]).resize_(2, 2)
    Tensor([[1, 2],
            [3, 0]])
    """
    shape = shape_from(sizes, "resize_")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"resize_: {shape} is not a shape: sizes are not negative")
    if shape == self.shape:
        return self
    _raise_if_bound(self, "resize_")
    if isinstance(self._meta, View):
        raise RuntimeError("resize_: a detached tensor shows the memory of another tensor; clone() it first")
    count, missing = math.prod(shape), math.prod(shape) - self.numel()
    storage = storage_of(self)
    if missing > 0 and storage.exposed:
        raise RuntimeError("resize_: this tensor shares its memory with NumPy, where it cannot grow; clone() it first")
    flat = P.reshape(self.shell(), shape=(self.numel(),))
    if missing > 0:
        flat = P.cat(flat, Tensor._wrap(np.zeros(missing, self.np_dtype)), dim=0)
    new = P.reshape(P.slice(flat, index=(slice(0, count),)), shape=shape)
    _take_over(self, new)
    storage.bump("resize_")
    return self


def resize_as_(self: Tensor, other: Tensor) -> Tensor:
    """Give the tensor the shape of another, as `resize_` does.

    >>> import lucid
    >>> lucid.zeros(3).resize_as_(lucid.ones(2, 2)).shape
    (2, 2)
    """
    return resize_(self, other.shape)


def set_(
    self: Tensor, source: Tensor | None = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Show the memory of `source` from now on, in its shape; without it, become empty.

    With `size`, the memory is seen as `as_strided` sees it; in row-major order unless `stride` is given.

    >>> import lucid
    >>> x, y = lucid.zeros(3), lucid.tensor([1.0, 2.0])
    >>> x.set_(y)[0] = 5
    >>> y
    Tensor([5., 2.])
    """
    if source is None:
        _raise_if_bound(self, "set_")
        self.data = self.new_empty(0)
        return self
    if not isinstance(source, Tensor):
        raise TypeError(f"set_: expected a tensor, not {type(source).__name__}")
    if source is self and size is None:
        return self
    _raise_if_bound(self, "set_", source)
    if source.np_dtype != self.np_dtype:
        raise RuntimeError(f"set_: a tensor of {self.dtype} cannot show elements of {source.dtype}")
    if type(source) is not type(self) and (source._level or self._level):
        raise RuntimeError("set_: one of the tensors belongs to a transform and the other does not; use copy_")
    if size is not None:
        sizes = shape_from((size,), "set_")
        source = _strided(source, sizes, _row_major(sizes) if stride is None else stride, storage_offset)
    storage_of(self).bump("set_")
    shared = storage_of(source)
    if not shared.version:
        shared.bump("set_")  # what was saved of this tensor before must not take the new contents for the old
    _take_over(self, source)
    self._meta = _sharing(shared)
    return self


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


squeeze_ = _form(shaping.squeeze, ("1, 2", "0"))
unsqueeze_ = _form(shaping.unsqueeze, ("2", "0"))
transpose_ = _form(shaping.transpose, ("2, 3", "0, 1"))
t_ = _form(shaping.t, ("2, 3", ""))
