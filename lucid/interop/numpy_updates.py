"""Changes of elements at an index: what `ufunc.at` writes, and what the functional updates of JAX give anew."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lucid.api import creation, indexing, scatter, shaping
from lucid.arguments.promotion import beside
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops import binary, unary

# A ufunc -> what it means where an index names a place several times: a way of `scatter_reduce`, and of the values.
_WAYS: dict[np.ufunc, tuple[str, Callable[[Tensor], Tensor]]] = {
    np.add: ("sum", lambda v: v),
    np.subtract: ("sum", lambda v: -v),
    np.multiply: ("prod", lambda v: v),
    np.true_divide: ("prod", unary.reciprocal),
    np.maximum: ("amax", lambda v: v),
    np.minimum: ("amin", lambda v: v),
}
UFUNCS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: binary.add,
    np.subtract: binary.sub,
    np.multiply: binary.mul,
    np.true_divide: binary.true_divide,
    np.maximum: binary.maximum,
    np.minimum: binary.minimum,
    np.power: binary.pow,
}


def names_places_once(index: Any) -> bool:
    """Whether an index is made of numbers, slices, None and ... alone."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        p is None
        or p is Ellipsis
        or isinstance(p, slice)
        or (hasattr(p, "__index__") and not isinstance(p, (Tensor, bool)))
        for p in parts
    )


def positions(x: Tensor, index: Any) -> Tensor:
    """Where the elements at an index stand in row-major order."""
    return shaping.reshape(creation.arange(x.numel()), tuple(x.shape))[index]


def updated(x: Tensor, index: Any, values: Any, ufunc: np.ufunc | None = None) -> Tensor:
    """A copy of `x` in which the elements at an index are `values`, or what a ufunc makes of them and `values`."""
    given = beside(values, x.np_dtype)
    if names_places_once(index):
        out = x.clone()
        indexing.setitem(out, index, given if ufunc is None else UFUNCS[ufunc](x[index], given).to(x.np_dtype))
        return out
    places = positions(x, index)
    source = shaping.reshape(shaping.broadcast_to(given.to(x.np_dtype), tuple(places.shape)), -1)
    flat, at = shaping.reshape(x, -1), shaping.reshape(places, -1)
    if ufunc is None:
        out = scatter.index_put(flat, (at,), source)
    elif ufunc in _WAYS:
        way, prepare = _WAYS[ufunc]
        if way == "sum":
            out = scatter.index_put(flat, (at,), prepare(source), True)
        else:
            out = scatter.scatter_reduce(flat, 0, at, prepare(source), way)
    else:
        out = scatter.index_put(flat, (at,), UFUNCS[ufunc](flat[at], source).to(x.np_dtype))
    return shaping.reshape(out, tuple(x.shape))


def write_at(ufunc: np.ufunc, x: Tensor, index: Any, values: Any = None) -> None:
    """`ufunc.at` on a tensor."""
    if ufunc not in _WAYS:
        raise TypeError(f"numpy.{ufunc.__name__}.at cannot write into a tensor; write x[index] = ... instead")
    x.copy_(updated(x.clone(), lift(index) if isinstance(index, list) else index, values, ufunc))
