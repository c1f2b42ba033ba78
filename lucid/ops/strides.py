"""Memory seen through sizes, strides and other types."""

import math
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, shaped
from lucid.ops.categories import linear, view
from lucid.ops.rules import P

# Elements `offset + Σ i·stride` of x in row-major order. Elements that are seen several times add up on the way back.
strided = view(
    "as_strided",
    transpose=lambda ct, x_shape, size, stride, offset, lead: P.as_strided_back(
        ct,
        shape=x_shape,
        size=(*x_shape[:lead], *size),
        stride=(*(math.prod(x_shape[d + 1 :]) for d in range(lead)), *stride),
        offset=offset,
    ),
    batch=lambda x, batch, size, stride, offset, lead: P.as_strided(
        x, size=size, stride=stride, offset=offset, lead=lead + 1
    ),
    abstract=lambda x, size, stride, offset, lead: Abstract((*x.shape[:lead], *size), x.dtype),
    category="gather",
    shows_elements=True,
    shows_part=True,
)

strided_back = linear(
    "as_strided_back",
    transpose=lambda ct, size, stride, offset: P.as_strided(ct, size=size, stride=stride, offset=offset, lead=0),
    batch=lambda x, batch, shape, size, stride, offset: P.as_strided_back(
        x, shape=(batch, *shape), size=(batch, *size), stride=(math.prod(shape), *stride), offset=offset
    ),
    abstract=shaped,
    category="scatter",
)


def _bits_abstract(x: Abstract, dtype: np.dtype[Any]) -> Abstract:
    if x.dtype.itemsize == dtype.itemsize:
        return Abstract(x.shape, dtype)
    return Abstract((*x.shape[:-1], x.shape[-1] * x.dtype.itemsize // dtype.itemsize), dtype)


# The last dimension is the same for each example, so a batch in front changes nothing.
bits = Primitive(
    "bits",
    batch=lambda prim, values, batched, size, params: prim(values[0], **params),
    is_view=True,
    abstract=_bits_abstract,
    category="movement",
)
