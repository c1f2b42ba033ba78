"""Which interval an element falls into, which elements are members, and where those are that are not zero."""

import math
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.rules import P, batched_to_front, broadcast_to


def _bins_array(x: Any, edges: Any, even: bool) -> Any:
    """The number of the bin of each element of the last dimension; the last bin has both edges, none is len(edges)-1."""
    out = np.empty(x.shape, np.int64)
    for row in np.ndindex(edges.shape[:-1]):
        out[row] = _bins_of_row(x[row], edges[row], even)
    return out


def _bins_of_row(x: Any, edges: Any, even: bool) -> Any:
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    x, edges = x.astype(wide, copy=False), edges.astype(wide, copy=False)
    count = len(edges) - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    if even and edges[0] < edges[-1] and np.isfinite(edges[-1] - edges[0]):
        # A guess by the width, corrected by the edges themselves: a quarter of the time of a search among 100.
        steps = (np.where(inside, x, edges[0]) - edges[0]) * (count / (float(edges[-1]) - float(edges[0])))
        found = np.minimum(steps.astype(np.int64), count - 1)
        found -= x < edges[found]
        found += x >= edges[found + 1]
    else:
        found = np.searchsorted(edges, x, side="right") - 1
    np.minimum(found, count - 1, out=found)
    found[~inside] = count
    return found


# Both operands have the same leading dimensions.
bins = Primitive(
    "bin_numbers",
    _bins_array,
    operands=("x", "edges"),
    batch=lambda prim, values, batched, size, params: prim(*batched_to_front(values, batched, size), **params),
)


def _isin_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    if not batched[1]:
        return prim(*values, **params)
    x, test = values
    if not batched[0]:
        x = broadcast_to(P.reshape(x, shape=(1, *x.shape)), (size, *x.shape))
    pairs = P.reshape(x, shape=(*x.shape, 1)) == P.reshape(
        test, shape=(size, *(1,) * (x.ndim - 1), math.prod(test.shape[1:]))
    )
    found = P.any(pairs, dims=(x.ndim,), keepdim=False)
    return P.logical_not(found) if params["invert"] else found


membership = Primitive(
    "isin",
    lambda x, test, invert, assume_unique: np.isin(x, test, assume_unique=assume_unique, invert=invert),
    operands=("x", "test"),
    batch=_isin_batch,
)


def _nonzero_array(x: Any, lead: int, size: int, fill: int) -> Any:
    out = np.full((*x.shape[:lead], size, x.ndim - lead), fill, np.int64)
    for row in np.ndindex(x.shape[:lead]):
        found = np.argwhere(x[row])[:size]
        out[row][: len(found)] = found
    return out


nonzero_positions = Primitive(
    "nonzero_static",
    _nonzero_array,
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "lead": params["lead"] + 1}),
)
