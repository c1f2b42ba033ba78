"""Whether processes that are to work together have the same: compared once, with an error for all of them if not."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import lucid
from lucid import Tensor, distributed
from lucid.distributed import DistributedError, ProcessGroup
from lucid.distributed.memory import described
from lucid.nn.module import Module


def listed(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Names, types and shapes of tensors, and whether they are trained."""
    return [f"{name} {described(t)}{'' if t.requires_grad else ' frozen'}" for name, t in tensors]


def raise_unless_equal(what: str, found: list[str], group: ProcessGroup) -> None:
    """Raise, in all processes of a group, what differs between them in lists of words."""
    if group.size() == 1:
        return
    lists: list[list[str]] = [[]] * group.size()
    distributed.all_gather_object(lists, found, group)
    if all(other == lists[0] for other in lists):
        return
    raise DistributedError(f"{what} differ between processes: {_difference(lists, group)}")


def _difference(lists: list[list[str]], group: ProcessGroup) -> str:
    first = lists[0]
    for rank, other in zip(group.ranks[1:], lists[1:], strict=True):
        for number, (a, b) in enumerate(zip(first, other, strict=False)):
            if a != b:
                return f"number {number} is {a!r} on rank {group.ranks[0]} and {b!r} on rank {rank}"
        if len(first) != len(other):
            longer = first if len(first) > len(other) else other
            return (
                f"rank {group.ranks[0]} has {len(first)} and rank {rank} has {len(other)}; the first that is not on both "
                f"is {longer[min(len(first), len(other))]!r}"
            )
    return "nowhere"


@contextmanager
def replaced(module: Module, others: dict[int, Tensor]) -> Iterator[None]:
    """Inside, a module has other tensors in place of parameters, which are given by their ids."""
    places = [
        (vars(m), name, p)
        for m in module.modules()
        for name, p in m._parameters.items()
        if p is not None and id(p) in others
    ]
    for attributes, name, p in places:
        attributes[name] = others[id(p)]
    try:
        yield
    finally:
        for attributes, name, p in places:
            attributes[name] = p


def broadcast_all(tensors: list[Tensor], group: ProcessGroup, source: int = 0) -> None:
    """Give all processes the elements that one of them has, small tensors of one type together."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(tensor.dtype, []).append(tensor.detach())
    for kind, alike in kinds.items():
        flat = lucid.cat([t.reshape(-1) for t in alike]) if len(alike) > 1 else alike[0]
        distributed.broadcast(flat, group=group, group_src=source)
        if flat is alike[0]:
            continue
        start = 0
        for t in alike:
            t.copy_(flat[start : start + t.numel()].reshape(t.shape).to(kind))
            start += t.numel()
