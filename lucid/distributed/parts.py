"""Parameters of which each process has a part: with whom they are shared, and what all parts give together."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lucid.core.tensor import Tensor
from lucid.distributed import functional
from lucid.distributed.groups import ProcessGroup


class Shard(NamedTuple):
    """A part of a tensor that is divided among processes: the part, where it begins, and the shape of the whole.

    >>> import lucid
    >>> lucid.Shard(lucid.ones(2, 3), (2, 0), (4, 3)).offsets
    (2, 0)
    """

    tensor: Tensor
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


class Place(NamedTuple):
    """Where in a whole tensor a part begins, and the shape of the whole."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]


# id of a part -> a reference whose death removes the entry, the groups, in the order of the divisions, and the place.
_parts: dict[int, tuple[Any, tuple[ProcessGroup, ...], Place]] = {}


def mark_as_part(tensor: Any, group: ProcessGroup, place: Place) -> None:
    """Note that the members of a group have the other parts of a tensor, and which part this is.

    If the tensor was a part already, `place` is that in the former part.
    """
    key, forget = id(tensor), _parts.pop
    before = place_of(tensor)
    if before is not None:
        offsets = tuple([a + b for a, b in zip(before.offsets, place.offsets, strict=True)])
        place = Place(offsets, before.shape)
    _parts[key] = weakref.ref(tensor, lambda _: forget(key, None)), (*divided_among(tensor), group), place


def divided_among(tensor: Any) -> tuple[ProcessGroup, ...]:
    """The groups whose members have the other parts of a tensor; none for one that is whole."""
    found = _parts.get(id(tensor))
    return () if found is None else found[1]


def place_of(tensor: Any) -> Place | None:
    """Which part of a whole a tensor is; None for one that is whole."""
    found = _parts.get(id(tensor))
    return None if found is None else found[2]


def exist() -> bool:
    """Whether this process has parts of tensors."""
    return bool(_parts)


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
