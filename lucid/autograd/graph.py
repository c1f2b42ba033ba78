"""Looking at the graph and changing what it keeps: nodes, saved-tensor hooks, drawings."""

from collections.abc import Callable
from typing import Any, Self

from lucid.core import modes
from lucid.core.node import Node as Node
from lucid.core.tensor import Tensor


class saved_tensors_hooks:
    """Inside, values saved for the backward pass go through `pack_hook`, and come back through `unpack_hook`.

    >>> import lucid
    >>> x = lucid.tensor([3.0], requires_grad=True)
    >>> with lucid.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), lucid.from_numpy):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    Tensor([6.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("saved_tensors_hooks takes two functions")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._outer: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        self._outer.append((modes.saved_hooks.get(), modes.recording.get()))
        modes.saved_hooks.set((*modes.saved_hooks.get(), (self.pack_hook, self.unpack_hook)))
        modes.recording.set(modes.recording_state(bool(modes.recording.get())))
        return self

    def __exit__(self, *exc: object) -> None:
        hooks, recording = self._outer.pop()
        modes.saved_hooks.set(hooks)
        modes.recording.set(recording)


class save_on_cpu(saved_tensors_hooks):
    """Inside, values saved for the backward pass are copied to CPU memory, and back when they are used.

    >>> import lucid
    >>> x = lucid.tensor([3.0], requires_grad=True)
    >>> with lucid.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    Tensor([6.])
    """

    def __init__(self, pin_memory: bool = False) -> None:
        def pack(tensor: Tensor) -> Any:
            return tensor.device, tensor.clone().to(device="cpu")

        def unpack(packed: Any) -> Tensor:
            place, copy = packed
            moved: Tensor = copy.to(device=place)
            return moved

        super().__init__(pack, unpack)
