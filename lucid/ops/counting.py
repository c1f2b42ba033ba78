"""Which interval an element falls into, which elements are members, and where those are that are not zero."""

import math
from typing import Any

from lucid.core.arrays import question
from lucid.core.dtypes import BOOL, INT64
from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract
from lucid.ops.rules import P, batched_to_front, broadcast_to

occurrences = question("occurrences")  # (numbers, least): of each number, in a vector; None if one is negative
triangle_positions = question("triangle_positions")  # (rows, columns, offset, is_lower): rows above columns

# Both operands have the same leading dimensions.
bins = Primitive(
    "bin_numbers",
    operands=("x", "edges"),
    batch=lambda prim, values, batched, size, params: prim(*batched_to_front(values, batched, size), **params),
    abstract=lambda x, edges, even: Abstract(x.shape, INT64),
    reason="a search",
)


def _isin_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    if not batched[1]:
        return prim(*values, **params)
    x, test = values
    if not batched[0]:
        x = broadcast_to(x, (size, *x.shape))
    pairs = P.reshape(x, shape=(*x.shape, 1)) == P.reshape(
        test, shape=(size, *(1,) * (x.ndim - 1), math.prod(test.shape[1:]))
    )
    found = P.any(pairs, dims=(x.ndim,), keepdim=False)
    return P.logical_not(found) if params["invert"] else found


membership = Primitive(
    "isin",
    operands=("x", "test"),
    batch=_isin_batch,
    abstract=lambda x, test, invert, assume_unique: Abstract(x.shape, BOOL),
    reason="a search",
)


nonzero_positions = Primitive(
    "nonzero_static",
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "lead": params["lead"] + 1}),
    abstract=lambda x, lead, size, fill: Abstract((*x.shape[:lead], size, x.ndim - lead), INT64),
    category="gather",
)
