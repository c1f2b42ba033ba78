"""`jax.scipy.ndimage`: the values of an array between its elements."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.ops import binary, unary


def _mirrored(index: Any, size: int) -> Any:
    """Positions in an array that goes on as in a mirror, whose first and last elements do not stand twice."""
    around = max(2 * (size - 1), 1)
    return (size - 1 - unary.abs(binary.remainder(index, around) - (size - 1))).clamp(0, size - 1)


def _reflected(index: Any, size: int) -> Any:
    """The same where they do."""
    place = binary.remainder(index, 2 * size)
    return binary.minimum(place, 2 * size - 1 - place)


# Where a position outside is read.
_PLACES: dict[str, Any] = {
    "constant": lambda index, size: index.clamp(0, size - 1),
    "nearest": lambda index, size: index.clamp(0, size - 1),
    "wrap": lambda index, size: binary.remainder(index, size),
    "mirror": _mirrored,
    "reflect": _reflected,
}


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: float = 0.0
) -> Any:
    """The elements nearest to given coordinates (`order` 0), or between the neighbours on both sides (1).

    `mode` says what stands outside: `cval` for "constant", or "nearest", "wrap", "mirror" or "reflect".

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.scipy.ndimage.map_coordinates(jnp.arange(4.0), [jnp.array([0.5, 2.25, 9.0])], order=1)
    Array([0.5 , 2.25, 0.  ], dtype=float32)
    """
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order must be 0 or 1, as in JAX, not {order}")
    if mode not in _PLACES:
        raise NotImplementedError(f"map_coordinates: mode must be one of {[*_PLACES]}, not {mode!r}")
    x = lift(DOOR.array(input))
    points = [lift(DOOR.array(c)) for c in coordinates]
    if len(points) != x.ndim:
        raise ValueError(f"map_coordinates: {len(points)} coordinates for an array with {x.ndim} dimensions")
    total = None
    for corner in product(*[_neighbours(p, size, order, mode) for p, size in zip(points, x.shape, strict=True)]):
        found = x[tuple([place for place, _, _ in corner])]
        weight = None
        for _, inside, share in corner:
            found = found if inside is None else binary.where(inside, found, cval)
            weight = share if weight is None or share is None else weight * share
        part = found if weight is None else found * weight
        total = part if total is None else total + part
    return DOOR.adopted(total)


def _neighbours(point: Any, size: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """The positions on both sides of a coordinate, or the nearest one: where to read, whether that is inside, how much counts."""
    if order == 0 or not point.is_floating_point():
        found = [(unary.floor(point + 0.5) if point.is_floating_point() else point, None)]
    else:
        below = unary.floor(point)
        found = [(below, 1 - (point - below)), (below + 1, point - below)]
    neighbours = []
    for place, share in found:
        index = place.long()
        inside = (index >= 0) & (index < size) if mode == "constant" else None
        neighbours.append((_PLACES[mode](index, size), inside, share))
    return neighbours


__all__ = ["map_coordinates"]
