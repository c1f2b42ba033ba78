"""Looking at the graph and changing what it keeps: nodes, saved-tensor hooks, drawings."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self

from lucid.autograd.passes import at_the_end, is_under_way, watched
from lucid.core import modes
from lucid.core.hooks import RemovableHandle
from lucid.core.node import Node as Node
from lucid.core.storage import storage_of
from lucid.core.tensor import Tensor

if TYPE_CHECKING:
    from lucid.autograd.drawing import Drawing


def draw(tensor: Tensor, params: Any = None, max_nodes: int = 300) -> "Drawing":
    """The graph below a tensor as a picture: shown by Jupyter, saved as SVG or DOT.

    `params` maps names to tensors, for the labels of leaves. Graphs larger than `max_nodes` are cut, with a note.

    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> picture = lucid.autograd.graph.draw((x * x).sum(), {"x": x})
    >>> picture.svg.startswith("<svg")
    True
    """
    # Layout code loads when the first picture is drawn.
    from lucid.autograd.drawing import draw as draw_graph

    return draw_graph(tensor, params, max_nodes)


_refused: ContextVar[str | None] = ContextVar("refused", default=None)  # why hooks on saved values are not allowed


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

    def __enter__(self) -> Self:
        if (refused := _refused.get()) is not None:
            raise RuntimeError(refused)
        modes.saved_hooks.set((*modes.saved_hooks.get(), (self.pack_hook, self.unpack_hook)))
        modes.recording.set(modes.recording_state(bool(modes.recording.get())))
        return self

    def __exit__(self, *exc: object) -> None:
        modes.saved_hooks.set(modes.saved_hooks.get()[:-1])
        modes.recording.set(modes.recording_state(bool(modes.recording.get())))


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


def allow_mutation_on_saved_tensors() -> saved_tensors_hooks:
    """A context in which saved values may be overwritten in place: gradients use what they were, which is copied.

    >>> import lucid
    >>> x = lucid.tensor([3.0], requires_grad=True)
    >>> with lucid.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y * y
    ...     _ = y.detach().zero_()
    >>> z.backward()
    >>> x.grad
    Tensor([6.])
    """
    return saved_tensors_hooks(lambda t: t.clone(), lambda t: t)


class disable_saved_tensors_hooks:
    """Inside, `saved_tensors_hooks` are refused with a message.

    >>> import lucid
    >>> from lucid.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
    >>> with disable_saved_tensors_hooks("not here"), saved_tensors_hooks(lambda t: t, lambda t: t):
    ...     pass
    Traceback (most recent call last):
    RuntimeError: not here
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> Self:
        self.token = _refused.set(self.error_message)
        return self

    def __exit__(self, *exc: object) -> None:
        _refused.reset(self.token)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write that the tape did not see, such as one by other code to the memory of a tensor.

    >>> import lucid
    >>> x = lucid.ones(2)
    >>> lucid.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(t).version += 1


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once in a backward pass that reaches some of the tensors: with the gradients of all, None for those that it
    does not reach, when these are known, or with `mode="any"` with the first one.

    >>> import lucid
    >>> a, b = lucid.ones(1, requires_grad=True), lucid.ones(1, requires_grad=True)
    >>> handle = lucid.autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (2 * a + 3 * b).sum().backward()
    [Tensor([2.]), Tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', not {mode!r}")
    return _Together(list(tensors), fn, mode)


class _Together(RemovableHandle):
    """Hooks on several tensors, which call the function when the last of them was called, at the latest as the pass ends."""

    def __init__(self, tensors: list[Tensor], fn: Callable[..., Any], mode: str) -> None:
        super().__init__({})
        self.fn, self.mode, self.count = fn, mode, len(tensors)
        self.grads: dict[int, dict[int, Tensor]] = {}  # of the pass that is under way, by thread
        self.handles = [t.register_hook(self._seen(i)) for i, t in enumerate(tensors)]
        watched.add(id(self.handles))

    def _seen(self, i: int) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            thread = get_ident()
            if thread not in self.grads:
                self.grads[thread] = {}
                at_the_end(self._end)
                if self.mode == "any":
                    self.fn(gradient)
            found = self.grads[thread]
            found[i] = gradient
            if len(found) == self.count:
                self._call(found)
                if not is_under_way():
                    del self.grads[thread]

        return hook

    def _end(self, succeeded: bool) -> None:
        found = self.grads.pop(get_ident())
        if succeeded and len(found) < self.count:
            self._call(found)

    def _call(self, found: dict[int, Tensor]) -> None:
        if self.mode == "all":
            self.fn([found.get(k) for k in range(self.count)])

    def remove(self) -> None:
        """Take the hooks away."""
        watched.discard(id(self.handles))
        for handle in self.handles:
            handle.remove()
