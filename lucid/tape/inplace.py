"""Writing into tensors: what may be written, and what a write does to the history of views."""

from collections.abc import Callable, Sequence
from typing import Any

from lucid.core import arrays as arrays_of
from lucid.core import dtypes, modes
from lucid.core.collector import show_history
from lucid.core.levels import trace, tracing
from lucid.core.node import Node, attach
from lucid.core.primitive import P, apply, edge_of, move_retained_grad, seen, synced
from lucid.core.storage import DETACHED, ONE_OF_MANY, UNRECORDED, Storage, View, root_of, storage_of
from lucid.core.tensor import Tensor
from lucid.kinds.kind import Kind, bottom
from lucid.native import in_use
from lucid.tape.geometry import seen_through


def write(
    target: Tensor,
    name: str,
    compute: Callable[[Tensor], Tensor],
    others: Sequence[Any] = (),
    direct: Callable[[Any], None] | None = None,
    reads_old: bool = True,
) -> Tensor:
    """`target` becomes `compute(target)`, in place, for every tensor that shows the same memory.

    `compute` gets a stand-in for the target with its old history, so that nothing on the new history
    refers to the target itself. `others` are the operands beside the target. Where nothing is recorded,
    `direct(array)` may do the same without a copy. `reads_old` says whether the derivative needs the old elements.
    """
    tensors = [synced(t) for t in (target, *others) if isinstance(t, Tensor)]
    if tracing() and (program := trace.get()) is not None and (inside := program.written(target, name)) is not target:
        write(inside, name, compute, others, None, reads_old)
        return target
    recorded = bool([t for t in tensors if t._requires_grad]) and bool(modes.recording.get())
    raise_if_not_writable(target, name, recorded or is_unrecorded_view(target))
    if target._meta is not None and target._meta.storage.followers is not None and (chain := _by_positions(target)):
        return _put_through(target, chain, name, compute, others, reads_old)
    if direct is not None and not recorded and not target._level:
        direct(target._array)
        tied_again(target).bump(name)
        return target
    # What a batched or dual tensor holds may be recorded although the tensor itself is not.
    followed = bool([t for t in tensors if isinstance(t, Kind)])
    new = compute(_stand_in(target, copy=reads_old and (recorded or followed)))
    if recorded and not new._requires_grad and target._requires_grad:
        # Nothing of the old elements is left, but the tensor stays on the tape, with a gradient of 0 for them.
        new = P.overwrite(_stand_in(target, copy=False), new)
    if new.shape != target.shape:
        raise RuntimeError(
            f"{name}: the result has shape {new.shape} and cannot be written into a tensor of shape {target.shape}"
        )
    if not dtypes.can_cast(new.dtype, target.dtype):
        raise RuntimeError(f"{name}: a result of type {new.dtype} cannot be written into a tensor of {target.dtype}")
    new = new.to(target.np_dtype)
    storage = tied_again(target)
    if not target.holds(new):
        _absorb(target, new, name)
    target._write(new, name)
    storage.bump(name)
    if new._requires_grad:
        rebase(target, new._node)
    elif isinstance(target._meta, View) and not followed:
        target._meta.version = target._meta.storage.version
    return target


def write_part(base: Tensor, primitive: Any, params: dict[str, Any], source: Tensor, name: str) -> bool:
    """Write `source` where a view of `base` by `primitive` would show it, without making the view; whether it was done.

    Not done are writes inside transforms, and those that need more than a copy of elements: `write` does them.
    """
    if base._level or source._level or tracing():
        return False
    storage = storage_of(synced(base))
    array, new = base._array, synced(source)._array
    if array.dtype != new.dtype or storage.followers is not None:
        return False
    part = primitive.kernel(array, **params)
    recorded = bool(base._requires_grad or source._requires_grad) and bool(modes.recording.get())
    edge = edge_of(source) if recorded and source._requires_grad else None
    if part.shape != new.shape and (edge is not None or new.shape):
        return False
    raise_if_not_writable(base, name, recorded or is_unrecorded_view(base), "a view of ")
    arrays_of.assign(part, new)
    tied_again(base).bump(name)
    if recorded:
        rebase(base, edge, [(primitive, params)])
    return True


def _by_positions(target: Tensor) -> list[Tensor]:
    """The views from the target down to the first by positions, if there is one."""
    chain = [target]
    while chain[-1].is_view():
        if chain[-1]._meta.others:
            return chain
        chain.append(chain[-1]._meta.base)
    return []


def _put_through(
    target: Tensor, chain: list[Tensor], name: str, compute: Any, others: Sequence[Any], reads_old: bool
) -> Tensor:
    """Write into a copy of what is seen at the positions, in the same way, and put the copy into the base."""
    *above, seen_at = chain
    new = part = seen_at.clone()
    for view in reversed(above):
        part = apply(view._meta.primitive, (part,), view._meta.params)
    write(part, name, compute, others, reads_old=reads_old)
    how = seen_at._meta
    write(how.base, name, lambda old: P.index_put(old, new, *how.others, accumulate=False), (new,))
    return target


def sever(target: Tensor) -> None:
    """Forget the history of a tensor in place.

    What views of it have had stays theirs until their memory is written. Those that were not used since the last write
    lose theirs, because the history of that write is what is forgotten.
    """
    target._held = True  # it may be an edge, and from now on it can be written
    target._node, target._requires_grad = None, False
    if isinstance(target, Kind):
        target.sever()
        if target._meta is not None:
            storage = target._meta.storage
            _follow_all(storage.views, lambda view: view._meta.version != storage.version)
            # What is detached from it has the memory of what it holds.
            inside: Any = target
            while isinstance(inside, Tensor):
                storage_of(inside).severed = [storage.views]
                inside = inside._array


def tied_again(target: Tensor) -> Storage:
    """The storage of a tensor that is written: views of it follow their bases again, if these were detached in place."""
    storage = storage_of(target)
    if storage.severed is not None:
        (views,) = storage.severed
        storage.severed = None
        _follow_all(views)
    return storage


def _follow_all(views: Any, chosen: Callable[[Tensor], bool] = lambda view: True) -> None:
    for view in [v() for v, _ in views or ()]:
        if view is not None and view.is_view() and chosen(view):
            _follow(view, None)


def _absorb(target: Tensor, new: Any, name: str) -> None:
    """Make the target, and all tensors that show the same memory, tensors of the kind of `new`."""
    root = target
    while isinstance(root._meta, View):
        detached = root._meta.status == DETACHED
        below = root._meta.base if not detached else _origin(root) if new.splits_memory else None
        if below is None:
            break
        root = below
    own = isinstance(root, Kind) and root._level == new._level
    if not own and getattr(root, "_born", 0) < new._level:
        new._raise_escape(target, name)
    new.absorb(root)
    reached = {id(root)}
    for view, origin in [(v(), o()) for v, o in storage_of(root).views or ()]:
        if view is None or id(view) in reached or (origin is not None and id(origin) not in reached):
            continue
        if new.splits_memory or view.is_view():
            _follow(view, origin)
            reached.add(id(view))


def _origin(detached: Tensor) -> Tensor | None:
    """What a tensor was detached from, if that was inside a transform and it still lives."""
    pairs = detached._meta.storage.views or ()
    return next((o() for v, o in reversed(pairs) if v() is detached), None)


def _follow(view: Tensor, origin: Tensor | None) -> None:
    """Show what the origin holds now that it is of another kind; the history stays as it was."""
    how = view._meta
    if how.status != DETACHED:
        fresh = seen(how)
    elif origin is not None:
        fresh = origin.detach()
        how.base = fresh._meta.base
    else:
        raise RuntimeError(
            f"a detached tensor of shape {view.shape} shares memory with one into which a transform writes other values "
            "for each example; clone() it instead of detaching it"
        )
    view.__class__ = type(fresh)
    view._array = fresh._array
    if isinstance(fresh, Kind):  # what is detached from a dual tensor is its primal, of no such kind
        view._aux, view._level = fresh._aux, fresh._level


def _stand_in(target: Tensor, copy: bool) -> Tensor:
    """A tensor with the target's contents and history that is not the target."""
    old = target.shell()
    if copy:
        old._copy_contents()
    else:
        old._meta = storage_of(target)
    old._node, old._requires_grad = target._node, target._requires_grad
    return old


def is_unrecorded_view(target: Tensor) -> bool:
    """Whether a view on no tape (from no_grad, or older than `requires_grad_()`) shows what requires grad, recorded now."""
    view = target._meta
    if type(view) is not View or view.status == DETACHED or not modes.recording.get():
        return False
    if view.status == UNRECORDED:
        return bool(root_of(target)._requires_grad)
    return not target._requires_grad and bool(view.base._requires_grad)


def raise_if_not_writable(target: Tensor, name: str, recorded: bool, of: str = "") -> None:
    """Refuse a write that memory or, if it is `recorded`, history does not allow."""
    target._raise_if_read_only(name)
    if not recorded:
        return
    raise_if_leaf(target, name, of)
    view = target._meta
    while isinstance(view, View) and view.status != DETACHED:
        raise_if_leaf(view.base, name, "a view of ")
        if view.status == UNRECORDED:
            raise RuntimeError(
                f"{name}: a view that was made under no_grad is being written while gradients are recorded. "
                "Make the view outside no_grad, or write to it inside."
            )
        if view.status == ONE_OF_MANY:
            raise RuntimeError(
                f"{name}: this tensor is one of several views from `{view.primitive.name}` (split, unbind, chunk...), "
                "and writing to one of many views while gradients are recorded is not allowed. "
                "Use narrow, select or a slice, or clone() it."
            )
        view = view.base._meta


def raise_if_leaf(tensor: Tensor, name: str, of: str = "") -> None:
    if tensor._requires_grad and tensor._node is None:
        raise RuntimeError(
            f"{name}: {of}a leaf tensor that requires grad is being used in an in-place operation. "
            f"Wrap the write in lucid.no_grad(), or work on {of}x.clone()."
        )


def rebase(target: Tensor, node: Any, path: Any = ()) -> None:
    """Put `node` into the history of the tensor at the end of a chain of views, from which the others get theirs anew.

    `node` is where the gradient of what was written goes, and `path` says how that part of the target is seen.
    """
    # Only in the order of the memory itself is a view through several others still a view.
    at_once = isinstance(target._meta, View) and arrays_of.is_contiguous(bottom(root_of(target)))
    path = list(path)
    while True:
        if path and not (at_once and _is_passed(target, path[-1][0])):
            edge = edge_of(target) if target._requires_grad else None
            settings: dict[str, Any] = {}  # flat: the garbage collector would look at tuples in it
            for i, (primitive, params) in enumerate(reversed(path)):
                settings[f"view {i}"], settings[f"settings {i}"] = primitive, params
            node = attach(target.shell(), WRITE_VIEW, edge, node, None, None, -1, None, settings, target.shape)
            path = []
        view = target._meta
        if not isinstance(view, View) or view.status == DETACHED:
            break
        path.append((view.primitive, view.params))
        target = view.base
    if in_use and target._held:
        show_history(node)
    move_retained_grad(target, node)
    target._node, target._requires_grad = node, True


def _is_passed(base: Tensor, primitive: Any) -> bool:
    """Whether a write through a view of `base`, which is a view itself, can go to what that shows at once."""
    if not base.is_view() or (base._node is not None and base._node.hooks is not None):
        return False
    return bool(primitive.shows_elements and base._meta.primitive.shows_elements)


def path_of(node: Node) -> list[tuple[Any, dict[str, Any]]]:
    """The views through which a base was written, that of the base itself first."""
    items = list(node.params.values())
    return list(zip(items[::2], items[1::2], strict=True))


class _WriteView:
    """The history of a base after a write through one of its views: old outside the view, new inside."""

    name = "write_view"
    multi = False

    @staticmethod
    def vjp(node: Node, ct: Any) -> tuple[Any, Any]:
        path = path_of(node)
        if isinstance(ct, Tensor):
            inside = ct
            for primitive, settings in path:
                inside = apply(primitive, (inside,), settings)
            if node.left is None:
                return None, inside
            mask = arrays_of.zeros(node.shape, dtypes.bool_.numpy)
            arrays_of.assign(seen_through(path, mask), True)
            return P.where(Tensor._wrap(mask), 0, ct), inside
        if node.left is not None:
            return WRITE_VIEW.split(node, arrays_of.copy(ct))
        return None, seen_through(path, ct)  # which may show memory of ct, that stays as it was

    @staticmethod
    def split(node: Node, ct: Any) -> tuple[Any, Any]:
        """The same for an array that nobody else holds: what is outside stays where it is, so n parts take one whole."""
        # In another order than that of rows, some views would be copies.
        whole = ct if arrays_of.is_contiguous(ct) else arrays_of.copy(ct)
        part = seen_through(path_of(node), whole)
        inside = None if node.right is None else arrays_of.copy(part)
        arrays_of.assign(part, 0)
        return whole, inside


WRITE_VIEW = _WriteView()
