"""Cotangents of parts of one tensor where these are tensors themselves, and cannot be added to in place."""

from collections.abc import Sequence
from typing import Any

from lucid.core import arrays
from lucid.core.dtypes import bool_, int32
from lucid.core.primitive import P, apply
from lucid.core.tensor import Tensor
from lucid.tape.geometry import Ints, place_in, placed, seen_through


class Parts:
    """What waits for a tensor: `rest`, if anything, and cotangents of parts of it, `cts`, with their `places`.

    Each part in a tensor as large as the whole would be the work of n wholes. Where writes through views are undone, one
    part after the other is taken out: then `holes` says where the rest is 0, and `owners` has the number of the part at
    each element, from 1 on, or 0. Parts lie apart then.
    """

    __slots__ = ("cts", "dtype", "holes", "owners", "places", "rest", "shape")

    def __init__(self, rest: Tensor | None, shape: Ints, dtype: Any) -> None:
        self.rest = rest
        self.shape = shape
        self.dtype = dtype
        self._clear()

    def _clear(self) -> None:
        self.cts: list[Any] = []
        self.places: list[Any] = []
        self.holes: Any = None
        self.owners: Any = None

    def whole(self) -> Tensor:
        """The sum of all."""
        rest = self.rest
        if rest is not None and self.holes is not None and arrays.any_nonzero(self.holes):
            rest = P.where(Tensor._wrap(self.holes), 0, rest)
        live = [i for i, ct in enumerate(self.cts) if ct is not None]
        if not live:
            return Tensor._wrap(arrays.zeros(self.shape, self.dtype)) if rest is None else rest
        places = tuple([self.places[i] for i in live])
        parts: Tensor = P.parts_back(*[self.cts[i] for i in live], places=places, shape=self.shape)
        return parts if rest is None else rest + parts

    def add(self, whole: Tensor) -> None:
        """Add a cotangent of the whole tensor."""
        if self.holes is not None:
            self._flatten()
        self.rest = whole if self.rest is None else self.rest + whole

    def put(self, ct: Tensor, place: tuple[int, Ints, Ints]) -> None:
        """Add a cotangent of a part."""
        if self.owners is not None:
            owners = placed(self.owners, place)
            owner = self._owner(owners, place)
            if owner is None:
                self._flatten()
            elif owner:
                self.cts[owner - 1] = self.cts[owner - 1] + ct
                return
            else:
                arrays.assign(owners, len(self.cts) + 1)
        self.cts.append(ct)
        self.places.append(place)

    def take(self, path: Sequence[tuple[Any, dict[str, Any]]]) -> Tensor | None:
        """The cotangent of what a chain of views shows, None for 0; here it is 0 then."""
        if self.owners is None:
            self._map()
        owners = seen_through(path, self.owners)
        owner = self._owner(owners, place_in(self.owners, owners))
        if owner is None:
            self._flatten()
            self._map()
            owners, owner = seen_through(path, self.owners), 0
        holes = seen_through(path, self.holes)
        inside = self._seen_in_rest(path, holes)
        if owner:
            part = self.cts[owner - 1]
            inside = part if inside is None else inside + part
            self.cts[owner - 1] = None
        arrays.assign(holes, True)
        arrays.assign(owners, 0)
        return inside

    def _seen_in_rest(self, path: Sequence[tuple[Any, dict[str, Any]]], holes: Any) -> Any:
        if self.rest is None or arrays.all_nonzero(holes):
            return None
        inside: Any = self.rest
        for primitive, settings in path:
            inside = apply(primitive, (inside,), settings)
        return P.where(Tensor._wrap(arrays.copy(holes)), 0, inside) if arrays.any_nonzero(holes) else inside

    def _owner(self, owners: Any, place: tuple[int, Ints, Ints]) -> int | None:
        """The number of the part at this place, 0 if there is none; None if parts lie here that also lie elsewhere."""
        first = int(arrays.first(owners)) if owners.size else 0
        if arrays.are_all(owners, first) and (not first or self.places[first - 1] == place):
            return first
        return None

    def _map(self) -> None:
        """Write down where parts lie."""
        owners = arrays.zeros(self.shape, int32.numpy)
        for i, place in enumerate(self.places):
            seen = placed(owners, place)
            if arrays.any_nonzero(seen):
                self._flatten()
                arrays.assign(owners, 0)
                break
            arrays.assign(seen, i + 1)
        self.owners = owners
        self.holes = arrays.zeros(self.shape, bool_.numpy)

    def _flatten(self) -> None:
        self.rest = self.whole()
        self._clear()
