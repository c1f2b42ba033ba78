"""What results depend on: which leaves, and whether on anything that somebody further out could differentiate by."""

from collections.abc import Sequence
from typing import Any

from lucid.core.fields import TensorFields
from lucid.core.node import ABSENT, Packed
from lucid.core.primitive import edge_of
from lucid.core.storage import Saved
from lucid.core.tensor import Tensor


def carries_grad(tensor: Any) -> bool:
    """Whether something inside a batched or dual tensor is on a tape of its own."""
    while isinstance(tensor, TensorFields) and tensor._level:
        fields = tensor
        tangent = fields._aux
        if isinstance(tangent, Tensor) and (tangent.requires_grad or carries_grad(tangent)):
            return True
        fields = tensor = fields._array
        if tensor.requires_grad:
            return True
    return False


def leads_outside(outputs: Sequence[Tensor], variables: Sequence[Tensor], inside: Sequence[Tensor] = ()) -> bool:
    """Whether the outputs depend on anything but the variables that somebody could differentiate by.

    Nobody does so by the variables `inside`: those of transforms that ran, and were over, in between.
    """
    for v in variables:
        if v._node is not None or carries_grad(v):
            return True
    seen = {id(v) for v in variables}
    seen.update([id(v) for v in inside if not carries_grad(v)])
    frontier: list[Any] = [edge_of(o) for o in outputs if o.requires_grad]
    while frontier:
        edge = frontier.pop()
        if id(edge) in seen:
            continue
        seen.add(id(edge))
        if not edge._seq:
            return True
        node = edge
        saved = node.saved
        if type(saved) is tuple:
            for item in saved:
                if item is not None and type(item) is not Tensor and _carried(item):
                    return True
        elif saved is not None and type(saved) is not Tensor and _carried(saved):
            return True
        others = node.others
        if others is None:
            if node.left is not None:
                frontier.append(node.left)
            if node.right is not None and node.right is not ABSENT:
                frontier.append(node.right)
        else:
            frontier += [e for e in others if e is not None]
    return any(map(carries_grad, outputs))


def first_uses(roots: Sequence[Tensor], leaves: dict[int, Any]) -> dict[int, int]:
    """For each leaf, given by its id, that the roots depend on: the number of the first node that uses it.

    Nodes run in falling order of their numbers, so no more is added to the leaf's gradient once that one has run.
    """
    firsts: dict[int, int] = {}
    seen: set[int] = set()
    frontier: list[Any] = [edge_of(root) for root in roots]
    while frontier:
        node = frontier.pop()
        seq = node._seq
        if not seq or seq in seen:
            continue
        seen.add(seq)
        for edge in node.edges:
            if edge is None:
                continue
            if edge._seq:
                frontier.append(edge)
            elif id(edge) in leaves:
                before = firsts.get(id(edge), seq)
                firsts[id(edge)] = seq if seq < before else before
    return firsts


def _carried(saved: Any) -> bool:
    return type(saved) is Packed or carries_grad(saved.value if type(saved) is Saved else saved)
