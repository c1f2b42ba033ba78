"""Gradients of leaves as they become complete, while the backward pass that computes them is still under way."""

from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakSet

from lucid.autograd.dependencies import first_uses
from lucid.core.node import accumulators
from lucid.core.tensor import Tensor
from lucid.tape import engine
from lucid.tape.accumulation import Parts

__all__ = ["Listener", "is_replaced", "listen"]


class Listener(Protocol):
    """What is told of gradients: of `leaves`, by their ids, while `is_listening`."""

    leaves: dict[int, Tensor]
    is_listening: bool

    def arrived(self, key: int, gradient: Any, own: bool) -> None:
        """This pass adds no more to what it adds to `.grad` of a leaf: an array or a tensor; None if it adds nothing.

        If the pass owns it, `.grad` of a leaf that has none will be this array itself.
        """

    def ended(self, late: Sequence[int]) -> None:
        """The pass is over, and all gradients are in place, also those of leaves that have not arrived before."""


_listeners: WeakSet[Any] = WeakSet()


def listen(listener: Listener) -> None:
    """Tell a listener of gradients for as long as it lives."""
    _listeners.add(listener)
    engine.watchers[:] = [_watching]


def _watching(roots: Sequence[Tensor]) -> "Arrivals | None":
    owners = {key: each for each in _listeners if each.is_listening for key in each.leaves}
    firsts = first_uses(roots, owners) if owners else None
    return Arrivals(firsts, owners) if firsts else None


class Arrivals:
    """The leaves that one backward pass reaches, in the order in which their gradients become complete.

    Those with hooks that may replace the gradient count as late, since the hooks run at the end of the pass; so do those
    of which the gradient is put together there.
    """

    def __init__(self, firsts: dict[int, int], owners: dict[int, Any]) -> None:
        self.owners = owners
        self.involved = list({id(owners[key]): owners[key] for key in firsts}.values())
        early = [(seq, key) for key, seq in firsts.items() if not is_replaced(key)]
        self.late = [key for key in firsts if is_replaced(key)]
        self.coming = sorted(early)  # the next one is the last
        self.due = self.coming[-1][0] if early else 0  # the number of the node after which the next one is complete

    def reached(self, seq: int, leaves: dict[int, list[Any]]) -> int:
        """The pass comes to the node of a number; returns the number of the next one to be told of."""
        coming = self.coming
        while coming and coming[-1][0] > seq:
            _, key = coming.pop()
            _, gradient, own = leaves.get(key, (None, None, False))
            if type(gradient) is Parts:
                self.late.append(key)
            else:
                self.owners[key].arrived(key, gradient, own)
        self.due = coming[-1][0] if coming else 0
        return self.due

    def end(self) -> None:
        """The pass is over."""
        late = [*(key for _, key in reversed(self.coming)), *self.late]
        for each in self.involved:
            each.ended([key for key in late if self.owners[key] is each])


def is_replaced(key: int) -> bool:
    """Whether hooks of a leaf, which is given by its id, may replace its gradient."""
    node = accumulators.get(key)
    return node is not None and node.hooks is not None and bool(node.hooks.tensor or node.hooks.pre)
