"""Whether a result depends on anything that somebody further out could differentiate by."""

from collections.abc import Sequence
from typing import Any

from lucid.core.kind import Kind
from lucid.core.node import Packed, Saved
from lucid.core.primitive import edge_of
from lucid.core.tensor import Tensor


def carries_grad(tensor: Any) -> bool:
    """Whether something inside a batched or dual tensor is on a tape of its own."""
    while isinstance(tensor, Kind):
        tangent = tensor._aux
        if isinstance(tangent, Tensor) and (tangent._requires_grad or carries_grad(tangent)):
            return True
        tensor = tensor._array
        if tensor._requires_grad:
            return True
    return False


def leads_outside(outputs: Sequence[Tensor], variables: Sequence[Tensor]) -> bool:
    """Whether the outputs depend on anything but the variables that somebody could differentiate by."""
    known = {id(edge_of(v)) for v in variables}
    if any(v._node is not None or carries_grad(v) for v in variables):
        return True
    frontier: list[Any] = [edge_of(o) for o in outputs if o._requires_grad]
    seen: set[int] = set()
    while frontier:
        edge = frontier.pop()
        if id(edge) in seen or id(edge) in known:
            continue
        seen.add(id(edge))
        if not edge._seq:
            return True
        for item in edge.saved if type(edge.saved) in (tuple, list) else (edge.saved,):
            value = item.value if type(item) is Saved else item
            if type(item) is Packed or (type(value) is not Tensor and carries_grad(value)):
                return True
        frontier.extend(e for e in edge.edges if e is not None)
    return any(carries_grad(o) for o in outputs)
