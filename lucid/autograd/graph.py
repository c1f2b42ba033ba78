"""Looking at the graph and changing what it keeps: nodes, saved-tensor hooks, drawings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from lucid.core import modes
from lucid.core.node import Node as Node
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
