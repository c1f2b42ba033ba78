"""Hooks on tensors."""

import weakref
from collections.abc import Callable
from typing import Any

from lucid.core.hooks import RemovableHandle, hooks_of, users_hooks_of
from lucid.core.node import accumulator
from lucid.core.primitive import synced
from lucid.core.tensor import Tensor


def _node_of(tensor: Tensor, what: str) -> Any:
    if not tensor.requires_grad:
        raise RuntimeError(f"{what}: the tensor does not require grad, so no gradient will ever reach it")
    node = synced(tensor)._node
    return accumulator(tensor) if node is None else node


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` when the gradient of this tensor is known; it may return another gradient.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> (x * 2).sum().backward()
    >>> x.grad
    Tensor([20.])
    """
    return users_hooks_of(_node_of(self, "register_hook")).add("tensor", hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after a backward pass has added to this leaf's `.grad`.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
    >>> (x * 3).sum().backward()
    Tensor([3.])
    """
    node = _node_of(self, "register_post_accumulate_grad_hook")
    if not self.is_leaf:
        raise RuntimeError("register_post_accumulate_grad_hook works on leaf tensors; use register_hook on results")
    return users_hooks_of(node).add("post_accumulate", hook)


def retain_grad(self: Tensor) -> None:
    """Keep `.grad` for this tensor although it is not a leaf.

    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> y = x * 2
    >>> y.retain_grad()
    >>> (y * 3).sum().backward()
    >>> y.grad
    Tensor([3.])
    """
    if not self.requires_grad:
        raise RuntimeError("retain_grad: the tensor does not require grad")
    if not self.is_leaf:
        hooks_of(synced(self)._node).retain = weakref.ref(self)


def retains_grad(self: Tensor) -> bool:
    """Whether `.grad` is kept for this tensor although it is not a leaf.

    >>> import lucid
    >>> y = lucid.tensor([1.0], requires_grad=True) * 2
    >>> y.retain_grad()
    >>> y.retains_grad
    True
    """
    node = synced(self)._node
    return node is not None and node.hooks is not None and node.hooks.retain is not None
