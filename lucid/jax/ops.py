"""`jax.ops`: the elements of groups, put together."""

from typing import Any

import numpy as np

from lucid.core.primitive import lift
from lucid.jax.arrays import DOOR


def _segments(data: Any, segment_ids: Any, num_segments: int | None, ufunc: Any, start: Any) -> Any:
    x, groups = lift(DOOR.array(data)), lift(DOOR.array(segment_ids))
    count = int(groups.max()) + 1 if num_segments is None else num_segments
    if start is None:  # what any number is better than
        limits: Any = np.finfo(x.np_dtype) if x.np_dtype.kind == "f" else np.iinfo(x.np_dtype)
        start = (
            (-np.inf if x.np_dtype.kind == "f" else limits.min)
            if ufunc is np.maximum
            else (np.inf if x.np_dtype.kind == "f" else limits.max)
        )
    empty = DOOR.wrapped(np.full((count, *x.shape[1:]), start, x.np_dtype))
    update = empty.at[groups]
    ways = {np.add: update.add, np.multiply: update.multiply, np.maximum: update.max, np.minimum: update.min}
    return ways[ufunc](x, mode="drop")


def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None, **hints: Any) -> Any:
    """The sum of each group.

    >>> import lucid.jax as jax, lucid.jax.numpy as jnp
    >>> jax.ops.segment_sum(jnp.arange(4.0), jnp.array([0, 0, 1, 2]), 3)
    Array([1., 2., 3.], dtype=float32)
    """
    return _segments(data, segment_ids, num_segments, np.add, 0)


def segment_prod(data: Any, segment_ids: Any, num_segments: int | None = None, **hints: Any) -> Any:
    """The product of each group."""
    return _segments(data, segment_ids, num_segments, np.multiply, 1)


def segment_max(data: Any, segment_ids: Any, num_segments: int | None = None, **hints: Any) -> Any:
    """The greatest of each group."""
    return _segments(data, segment_ids, num_segments, np.maximum, None)


def segment_min(data: Any, segment_ids: Any, num_segments: int | None = None, **hints: Any) -> Any:
    """The smallest of each group."""
    return _segments(data, segment_ids, num_segments, np.minimum, None)


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
