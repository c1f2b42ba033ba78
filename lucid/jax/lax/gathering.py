"""`gather` and the scatters of `jax.lax`: windows of an array at places that another array names.

`start_indices` has a vector of places for each window, in its last dimension. Windows may leave out dimensions of size 1
(`collapsed_slice_dims`), and go to `offset_dims` of the result; the rest of it are the dimensions of `start_indices`.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lucid.api import shaping
from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR
from lucid.ops import binary


class GatherDimensionNumbers(NamedTuple):
    """Which dimensions `gather` takes windows of, and where they go."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimensions of updates are windows, and where a scatter puts them."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What becomes of windows that are not inside: moved, filled or dropped, or promised not to occur."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(mode: Any) -> "GatherScatterMode":
        """The mode of a name."""
        named = {"clip": 0, "fill": 1, "drop": 1, "promise_in_bounds": 2, None: 1}
        return mode if isinstance(mode, GatherScatterMode) else GatherScatterMode(named[mode])


class _Windows:
    """Places of the elements of all windows, along each dimension of the operand."""

    def __init__(self, x: Any, starts: Any, numbers: GatherDimensionNumbers, sizes: Sequence[int], mode: Any) -> None:
        self.batch = tuple(starts.shape[:-1])
        kept = [d for d in range(x.ndim) if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
        self.sizes = [sizes[d] for d in kept]
        self.inside: Any = None
        self.places = []
        clips = GatherScatterMode.from_any(mode) in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
        for d in range(x.ndim):
            start = self._start(starts, numbers, d)
            last = x.shape[d] - sizes[d]
            if clips:
                start = start.clamp(0, last)
            else:
                fits = (start >= 0) & (start <= last)
                self.inside = fits if self.inside is None else self.inside & fits
                start = binary.where(fits, start, 0)
            place = start.reshape((*start.shape, *[1] * len(kept)))
            if d in kept:
                along = [1] * len(kept)
                along[kept.index(d)] = sizes[d]
                place = place + lift(np.arange(sizes[d]).reshape(along))
            self.places.append(place)

    def _start(self, starts: Any, numbers: GatherDimensionNumbers, d: int) -> Any:
        if d in numbers.start_index_map:
            return starts[..., numbers.start_index_map.index(d)].to(np.int64)
        zero = lift(np.zeros(self.batch, np.int64))
        if d not in numbers.operand_batching_dims:
            return zero
        along = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(d)]
        steps = [1] * len(self.batch)
        steps[along] = self.batch[along]
        return zero + lift(np.arange(self.batch[along]).reshape(steps))

    def order(self, offset_dims: Sequence[int]) -> list[int]:
        """For each dimension of the result, which one it is of (batch, windows)."""
        rank = len(self.batch) + len(self.sizes)
        batches, windows = iter(range(len(self.batch))), iter(range(len(self.batch), rank))
        return [next(windows) if d in offset_dims else next(batches) for d in range(rank)]


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """The windows of `slice_sizes` that begin at `start_indices`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> numbers = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> x = jnp.arange(6.0).reshape(3, 2)
    >>> jax.lax.gather(x, jnp.array([[2], [0]]), numbers, (1, 2))
    Array([[4., 5.],
           [0., 1.]], dtype=float32)
    """
    x, starts = lift(DOOR.array(operand)), lift(DOOR.array(start_indices))
    windows = _Windows(x, starts, dimension_numbers, slice_sizes, "clip" if mode is None else mode)
    found = x[tuple(windows.places)] if windows.places else x.expand(windows.batch)
    if windows.inside is not None:
        inside = windows.inside.reshape((*windows.batch, *[1] * len(windows.sizes)))
        found = binary.where(inside, found, _filling(x.np_dtype) if fill_value is None else fill_value)
    return shaping.permute(found, windows.order(dimension_numbers.offset_dims))


def _filling(kind: np.dtype[Any]) -> Any:
    """What stands for what is not there: nan, the smallest of signed integers, the largest of others."""
    if kind.kind in "fcV":
        return np.nan
    if kind.kind == "b":
        return True
    return np.iinfo(kind).min if kind.kind == "i" else np.iinfo(kind).max


def _scatter(method: str) -> Callable[..., Any]:
    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        x: Any = lift(DOOR.array(operand))
        starts, values = lift(DOOR.array(scatter_indices)), lift(DOOR.array(updates))
        window, inserted, to_operand, batching, of_indices = dimension_numbers
        sizes = [1] * x.ndim
        kept = [d for d in range(x.ndim) if d not in (*inserted, *batching)]
        for d, size in zip(kept, [values.shape[w] for w in window], strict=True):
            sizes[d] = size
        numbers = GatherDimensionNumbers(window, inserted, to_operand, batching, of_indices)
        windows = _Windows(x, starts, numbers, sizes, mode)
        order = windows.order(window)
        found = shaping.permute(values, [order.index(d) for d in range(len(order))])
        if windows.inside is None:
            return getattr(x.at[tuple(windows.places)], method)(found)
        inside = windows.inside.reshape((*windows.batch, *[1] * len(windows.sizes)))
        beyond = [binary.where(inside, p, n) for p, n in zip(windows.places, x.shape, strict=True)]
        return getattr(x.at[tuple(beyond)], method)(found, mode="drop")

    suffix = {"set": "", "subtract": "_sub"}.get(method, f"_{method}")
    scatter.__name__ = scatter.__qualname__ = f"scatter{suffix}"
    scatter.__doc__ = f"""The operand with windows of updates put to the places of indices, by `.at[].{method}`.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> jax.lax.{scatter.__name__}(jnp.ones(3), jnp.array([[1]]), jnp.array([5.0]), numbers).shape
    (3,)
    """
    return scatter


scatter, scatter_add, scatter_sub = _scatter("set"), _scatter("add"), _scatter("subtract")
scatter_mul, scatter_min, scatter_max = _scatter("mul"), _scatter("min"), _scatter("max")
