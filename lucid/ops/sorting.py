"""Orders of elements, and places among sorted ones."""

import math
from collections.abc import Callable
from typing import Any

from lucid.core.dtypes import INT64
from lucid.core.primitive import Primitive
from lucid.core.tensor import shape_of
from lucid.ops.abstract import Abstract, of_type
from lucid.ops.indexing import along
from lucid.ops.rules import P


def _one(x: Abstract, dim: int, **params: Any) -> Abstract:
    """One position along `dim`."""
    return _several(x, dim, 1)


def _several(x: Abstract, dim: int, k: int, **params: Any) -> Abstract:
    return Abstract((*x.shape[:dim], k, *x.shape[dim + 1 :]), INT64)


def _behind_batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    return prim(*values, **{**params, "dim": params["dim"] + 1})


def _push_chosen(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    """The changes of the elements at the places that were found."""
    return P.index(tangents[0], *along(out[1], shape_of(primals[0]), params["dim"])), None


def _positions(name: str, abstract: Callable[..., Abstract] = _one) -> Primitive:
    """A primitive that finds positions along `dim`."""
    return Primitive(
        name,
        batch=_behind_batch,
        abstract=abstract,
        reason="sorting",
    )


argsort_primitive = _positions("argsort", of_type(INT64))

topk_primitive = Primitive(
    "topk",
    results=("values", "positions"),
    rules=(lambda cts, positions, x_shape, dim: P.index_back(cts[0], *along(positions, x_shape, dim), shape=x_shape),),
    jvp=_push_chosen,
    batch=_behind_batch,
    abstract=lambda x, dim, k, largest: (Abstract(_several(x, dim, k).shape, x.dtype), _several(x, dim, k)),
    reason="sorting",
)

kth_primitive = _positions("kth")

median_primitive = _positions("median")

nanmedian_primitive = _positions("nanmedian")


def _searchsorted_batch(prim: Any, operands: Any, batched: Any, size: int, params: Any) -> Any:
    sequence, values = operands
    if sequence.ndim == 1:
        return prim(sequence, values, **params)
    if not batched[0]:
        sequence = P.broadcast_to(sequence, shape=(size, *sequence.shape))
    if not batched[1]:
        values = P.broadcast_to(values, shape=(size, *values.shape))
    if sequence.ndim > 2:
        return prim(sequence, values, **params)
    # One sequence for each example takes values of any shape.
    rows = P.reshape(values, shape=(size, math.prod(values.shape[1:])))
    return P.reshape(prim(sequence, rows, **params), shape=values.shape)


searchsorted_primitive = Primitive(
    "searchsorted",
    operands=("sequence", "values"),
    batch=_searchsorted_batch,
    abstract=lambda sequence, values, right: Abstract(values.shape, INT64),
    reason="a search",
)


mode_primitive = Primitive(
    "mode",
    batch=_behind_batch,
    abstract=_one,
    reason="sorting",
)
