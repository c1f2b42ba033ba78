"""Parameters of which each process has a part: with whom they are shared, and what all parts give together."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from lucid.core.tensor import Tensor
from lucid.distributed import functional
from lucid.distributed.groups import ProcessGroup

# id of a part -> a reference whose death removes the entry, and the groups, in the order of the divisions.
_parts: dict[int, tuple[Any, tuple[ProcessGroup, ...]]] = {}


def mark_as_part(tensor: Any, group: ProcessGroup) -> None:
    """Note that the members of a group have the other parts of a tensor."""
    key, forget = id(tensor), _parts.pop
    _parts[key] = weakref.ref(tensor, lambda _: forget(key, None)), (*divided_among(tensor), group)


def divided_among(tensor: Any) -> tuple[ProcessGroup, ...]:
    """The groups whose members have the other parts of a tensor; none for one that is whole."""
    found = _parts.get(id(tensor))
    return () if found is None else found[1]


def by_division(tensors: Iterable[Any]) -> dict[tuple[ProcessGroup, ...], list[Any]]:
    """Tensors by the groups that they are divided among. It has the same keys in the same order in all members."""
    found: dict[tuple[ProcessGroup, ...], list[Any]] = {}
    for tensor in tensors:
        found.setdefault(divided_among(tensor), []).append(tensor)
    return found


def of_all_parts(value: Tensor, groups: Iterable[ProcessGroup], together: Callable[[Tensor], Tensor]) -> Tensor:
    """A number that each member has of its parts, as that of the whole: `together` makes one of a vector of them."""
    for group in groups:
        if group.size() > 1:
            value = together(functional.all_gather(value.reshape(1), group=group))
    return value
