"""Padding of the last dimensions: by a constant, or by copies of elements."""

from functools import lru_cache
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract
from lucid.ops.nn.resampling import AxisMap
from lucid.ops.rules import P

# x at `index` of a tensor that is `value` elsewhere.
pad = Primitive(
    "pad",
    rules=(lambda ct, index: P.slice(ct, index=index),),
    jvp=lambda prim, primals, tangents, out, params: P.slice_back(
        tangents[0], index=params["index"], shape=params["shape"]
    ),
    batch=lambda prim, values, batched, size, params: prim(
        values[0],
        index=(slice(None), *params["index"]),
        shape=(size, *params["shape"]),
        value=params["value"],
    ),
    abstract=lambda x, index, shape, value: Abstract(shape, x.dtype),
    category="movement",
)


def _reflected(x: Any, low: int, high: int) -> tuple[Any, Any]:
    return x[low:0:-1], x[-2 : -2 - high : -1]


def _wrapped(x: Any, low: int, high: int) -> tuple[Any, Any]:
    return x[len(x) - low :], x[:high]


COPIES = {"reflect": _reflected, "circular": _wrapped}
MODES = (*COPIES, "replicate")


@lru_cache(maxsize=512)
def padding_map(mode: str, size: int, low: int, high: int) -> AxisMap:
    """One dimension with copies of its elements in front and behind; negative numbers cut elements off before that."""
    if mode == "replicate":  # the nearest element, even where it is among those cut off
        wanted = np.arange(size + low + high) - low
        nearest = np.clip(wanted, 0, size - 1)
        before, middle, behind = nearest[wanted < 0], nearest[wanted == nearest], nearest[wanted >= size]
    else:
        middle = np.arange(max(-low, 0), size - max(-high, 0))
        before, behind = COPIES[mode](middle, max(low, 0), max(high, 0))
    edge = len(before) + len(middle)
    places = np.arange(edge + len(behind))
    return AxisMap(
        size,
        len(places),
        [
            (places[len(before) : edge], middle, None),
            (places[: len(before)], before, None),
            (places[edge:], behind, None),
        ],
    )
