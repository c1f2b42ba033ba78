"""What tensors that share memory have in common: a version counter, and how each view was made.

A backward pass often hands a seed on as it is, to one gradient or several. These show the seed's memory, which is *frozen*
then: it cannot be written. A frozen tensor gets memory of its own before it is written, viewed or handed out, so that nobody
can tell a shared gradient from a copy.
"""

from sys import getrefcount
from threading import RLock
from typing import Any
from weakref import ref

from lucid.core import arrays, modes
from lucid.core.arrays import ARRAY
from lucid.core.fields import TensorFields, new_tensor
from lucid.core.source_lines import Place, here
from lucid.forks import lock_after_fork
from lucid.native import PyObject_GC_UnTrack, in_use

# How a view came about decides whether it may be written to while gradients are recorded.
NORMAL, UNRECORDED, ONE_OF_MANY, DETACHED = range(4)


class Storage:
    """Counts the writes to one piece of memory. A tensor without one has never been written, viewed or saved."""

    __slots__ = ("exposed", "followers", "print", "room", "severed", "version", "views", "writer")

    version: int
    writer: tuple[str, Place] | None
    room: int  # how many views there may be before the dead ones are dropped
    views: list[Any] | None  # inside transforms, what shows this memory: see `show`
    followers: Any  # inside transforms, views by positions: see `primitive.Followers`
    # Inside transforms, the memory of a tensor that has views and was detached in place, itself or one around it: see
    # `inplace.sever`.
    severed: Any
    exposed: bool  # NumPy code holds a writable array over this memory
    print: Any  # which array was exposed first, and its fingerprint then

    @property
    def storage(self) -> "Storage":
        return self

    def expose(self, array: Any) -> None:
        """Hand the memory to NumPy code, which can write to it unseen."""
        if not self.exposed:
            self.exposed = True
            self.print = (_identity(array), fingerprint(array))

    def changed_since_exposed(self, array: Any) -> bool:
        """Whether NumPy code has written to an array that was saved before the memory was exposed."""
        return self.print is not None and self.print[0] == _identity(array) and self.print[1] != fingerprint(array)

    def show(self, view: Any, origin: Any) -> None:
        """Remember, without keeping it alive, that a tensor shows what `origin` holds: see `inplace.absorb`."""
        if self.views is None:
            self.views = []
        elif len(self.views) >= self.room:
            self.views = [pair for pair in self.views if pair[0]() is not None]
            self.room = 2 * len(self.views) + 64  # so that a search comes after as many entries as it looks at
        self.views.append((ref(view), ref(origin)))

    def bump(self, operation: str) -> None:
        self.version += 1
        self.writer = (operation, here())
        if self.followers is not None:
            self.followers.read_again()


class View:
    """How a tensor is seen through its base: `primitive` applied to `base` and `others` with `params`.

    There are others, positions in the base, where inside a transform these are not known or differ between examples.
    The tensor then has memory of its own: it is read again after each write to that of the base, and what is written to
    it is put into the base. A detached tensor shares the storage only: it has no base, so that it keeps no graph alive.
    """

    __slots__ = ("base", "others", "params", "primitive", "status", "storage", "version")

    base: Any
    others: tuple[Any, ...]
    primitive: Any
    params: dict[str, Any]
    storage: Storage
    version: int
    status: int


class Saved:
    """A saved value: an array, or for other kinds of tensor a shell, or a leaf that requires grad, which is an edge.

    So no node refers to a tensor that may get a newer history.
    """

    __slots__ = ("born", "edge", "index", "is_output", "print", "storage", "value", "version")

    value: Any
    storage: Storage
    version: int
    born: int  # the newest transform when its memory was made
    edge: Any  # of an input: where its gradient goes; None for leaves and constants
    is_output: bool
    index: int | None  # which output, for operations that have several
    print: Any


def saved_of(value: Any, tensor: Any, edge: Any, is_output: bool) -> Saved:
    """What to keep of a tensor. Called for most recorded operations, so without a constructor's call."""
    out = Saved.__new__(Saved)
    storage = storage_of(tensor)
    if tensor._marked and not tensor._requires_grad:
        raise_if_marked(tensor, "what a gradient needs is")
    out.value, out.storage, out.version, out.edge = value, storage, storage.version, edge
    out.born = tensor._born if type(tensor._meta) is not View else root_of(tensor)._born
    out.is_output, out.index, out.print = is_output, None, None
    if storage.exposed:
        out.print = fingerprint(value._array if isinstance(value, TensorFields) else value)
    return out


def new_storage() -> Storage:
    """A storage, without a constructor's call: most tensors get one when they are saved or viewed."""
    out = Storage.__new__(Storage)
    out.version, out.writer, out.room = 0, None, 64
    out.views = out.followers = out.severed = out.print = None
    out.exposed = False
    return out


def new_view(base: Any, primitive: Any, params: dict[str, Any], storage: Storage, status: int) -> View:
    """How a tensor is seen through its base, without a constructor's call."""
    out = View.__new__(View)
    out.base, out.others, out.primitive, out.params = base, (), primitive, params
    out.storage, out.version, out.status = storage, storage.version, status
    return out


def raise_if_marked(tensor: Any, what: str) -> None:
    """Refuse, outside of inference mode, a tensor that was made in one that marks: see `modes.MARKING`."""
    if tensor._marked and modes.inference.get() is False:
        raise RuntimeError(f"{what} a tensor that was made in inference mode; clone() it first, for an ordinary one")


FROZEN = new_storage()  # of every tensor whose memory is frozen
LARGE = 1 << 16  # bytes from which on sharing takes less time than a copy
_lock: Any = lock_after_fork(globals(), RLock)


def _holders(tensor: Any) -> int:
    return getrefcount(tensor._array)


_ALONE = _holders(new_tensor(TensorFields, object()))  # where the tensor is the only one


def copied(gradient: Any, dtype: Any) -> Any:
    """A gradient in memory of its own, that lies as it does: row by row if it is an expanded one, which lies nowhere."""
    return arrays.copy(gradient, dtype, "K" if all(getattr(gradient, "strides", ())) else "C")


def freeze(tensor: Any) -> bool:
    """Freeze the memory of a large tensor, if nobody else can write to it; whether it is frozen now."""
    with _lock:
        if tensor._meta is FROZEN:
            return True
        array = tensor._array
        if tensor._meta is not None or type(array) is not ARRAY or array.nbytes < LARGE:
            return False
        owned = arrays.owns_memory(array) and arrays.is_writable(array)
        del array
        if not owned or _holders(tensor) != _ALONE:
            return False
        arrays.set_writable(tensor._array, False)
        tensor._meta = FROZEN
        return True


def frozen(tensor: Any) -> Any:
    """A new tensor around an array that nobody writes to, as a frozen one."""
    tensor._meta = FROZEN
    return tensor


def thaw(tensor: Any) -> None:
    """Give a frozen tensor memory of its own: that which it shows, if nobody else does, or a copy."""
    with _lock:
        if tensor._meta is not FROZEN:
            return  # another thread was first
        if arrays.owns_memory(tensor._array) and _holders(tensor) == _ALONE:
            arrays.set_writable(tensor._array, True)
        else:
            tensor._array = copied(tensor._array, None)
        tensor._meta = None


def root_of(view: Any) -> Any:
    """The tensor whose memory a chain of views shows, as far as it is known."""
    while type(view._meta) is View and view._meta.base is not None:
        view = view._meta.base
    return view


def storage_of(tensor: Any) -> Storage:
    """The tensor's storage, made on first need."""
    meta = tensor._meta
    if meta is FROZEN:
        thaw(tensor)
        meta = None
    if meta is None:
        meta = tensor._meta = new_storage() if type(tensor._array) is ARRAY else tensor._new_storage()
        if in_use:
            PyObject_GC_UnTrack(meta)  # it refers to no tensor
    storage: Storage = meta if type(meta) is Storage else meta.storage  # mostly the former, which needs no look-up
    return storage


def _identity(array: Any) -> Any:
    return (arrays.address(array), array.shape, array.strides) if type(array) is ARRAY else None


def fingerprint(array: Any) -> int:
    """A hash of some elements: notices most writes by NumPy code at a constant cost."""
    return arrays.fingerprint(array) if type(array) is ARRAY else 0
