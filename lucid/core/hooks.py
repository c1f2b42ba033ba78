"""Hooks on nodes and leaves, and the handles that remove them."""

from collections.abc import Callable
from itertools import count
from typing import Any

from lucid.core.collector import expose

_ids = count()


class RemovableHandle:
    """Returned when a hook is registered; `remove()` takes the hook away again. Also a context manager.

    >>> import lucid
    >>> x = lucid.ones(2, requires_grad=True)
    >>> with x.register_hook(print):
    ...     x.sum().backward()
    Tensor([1., 1.])
    """

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.id = next(_ids)
        self._hooks = hooks

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """All that is hung on one node, each kind in order of registration."""

    __slots__ = ("metadata", "post", "post_accumulate", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, Callable[..., Any]] = {}
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}
        self.post_accumulate: dict[int, Callable[..., Any]] = {}
        self.retain: Any = None  # weak reference to the tensor that keeps its .grad
        self.metadata: dict[str, Any] = {}

    def add(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
        hooks: dict[int, Callable[..., Any]] = getattr(self, kind)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle


def hooks_of(node: Any) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


def users_hooks_of(node: Any) -> Hooks:
    """The same for something of the user's, which may refer to anything."""
    leaf = getattr(node, "leaf", None)
    expose(node if leaf is None else leaf())
    return hooks_of(node)
