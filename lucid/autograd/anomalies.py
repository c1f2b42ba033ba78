"""What anomaly detection does in a backward pass: name the operation that made the first nan or inf."""

from collections.abc import Sequence
from typing import Any

from lucid.core.kernels import table
from lucid.core.node import NONFINITE, Node
from lucid.core.tensor import Tensor


def raise_on_anomaly(node: Node, grads: Sequence[Any], visited: list[Node], pending: dict[int, list[Any]]) -> None:
    for i, g in enumerate(grads):
        for piece in g.values() if type(g) is dict else (g,):
            array = piece._array if isinstance(piece, Tensor) else piece
            if isinstance(array, Tensor) or array is None or table["is_finite"](array):
                continue
            what = "nan" if table["has_nan"](array) else "inf"
            suspect = _first_nonfinite(visited + [held[0] for held in pending.values()])
            if suspect is not None:
                raise RuntimeError(
                    f"`{suspect.name()}` at {suspect.place} gave nan or inf in the forward pass; "
                    f"the gradient then became {what} in the derivative of `{node.name()}` at {node.place}"
                )
            raise RuntimeError(
                f"the derivative of `{node.name()}` for its operand {i} is {what}; the operation ran at {node.place}"
            )


def _first_nonfinite(start: list[Node]) -> Node | None:
    """The earliest recorded operation below `start` whose result was not finite."""
    frontier: list[Any] = list(start)
    seen: set[int] = set()
    best = None
    while frontier:
        node = frontier.pop()
        if node._seq in seen or not node._seq:
            continue
        seen.add(node._seq)
        if node.hooks is not None and NONFINITE in node.hooks.metadata and (best is None or node._seq < best._seq):
            best = node
        frontier.extend(e for e in node.edges if e is not None)
    return best
