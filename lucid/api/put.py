"""Values put at places of a tensor: by their number in row-major order, and by slices that are combined."""

from typing import Any

from lucid.api import scatter
from lucid.api.indexing import Put
from lucid.core import dtypes
from lucid.core.inplace import write
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.ops.dims import numpy_names, one_dim
from lucid.ops.indexing import in_range
from lucid.ops.out import takes_out
from lucid.ops.promotion import beside
from lucid.ops.rules import P, broadcast_to

_REDUCTIONS = ("prod", "mean", "amax", "amin")


def _put(x: Tensor, index: Any, source: Any, accumulate: bool, name: str) -> Tensor:
    places, values = lift(index), beside(source, x.np_dtype)
    if values.np_dtype != x.np_dtype:
        raise RuntimeError(f"{name}: source is of {values.dtype} and the input of {x.dtype}; the types must agree")
    if places.numel() != values.numel():
        raise RuntimeError(f"{name}: {places.numel()} places for {values.numel()} values")
    count = places.numel()
    at = in_range(P.reshape(places, shape=(count,)), x.numel(), name)
    flat = P.reshape(x, shape=(x.numel(),))
    put = Put(name, [at], P.reshape(values, shape=(count,)), bool(accumulate))
    return P.reshape(put.of(flat), shape=x.shape)


@takes_out
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """A copy with the elements of `source` written, or added, at `index` of the flattened tensor.

    >>> import lucid
    >>> lucid.put(lucid.zeros(2, 2), lucid.tensor([1, -1]), lucid.tensor([5.0, 6.0]))
    Tensor([[0., 5.],
            [0., 6.]])
    """
    return _put(lift(input), index, source, accumulate, "put")


def put_(self: Tensor, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """In-place form of `put`.

    >>> import lucid
    >>> lucid.zeros(3).put_(lucid.tensor([1, 1]), lucid.tensor([2.0, 3.0]), accumulate=True)
    Tensor([0., 5., 0.])
    """
    return write(self, "put_", lambda x: _put(x, index, source, accumulate, "put_"), (source,))


def _index_reduce(x: Tensor, dim: int, index: Any, source: Any, reduce: str, include_self: bool, name: str) -> Tensor:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"{name}: reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}")
    places, values = lift(index), beside(source, x.np_dtype)
    if reduce == "mean" and x.np_dtype == dtypes.BOOL:
        raise RuntimeError(f"{name}: booleans have no mean; convert them, as in x.float()")
    if places.ndim > 1:
        raise IndexError(f"{name}: the index must be a vector, not of shape {places.shape}")
    d = one_dim(dim, x.ndim, name)
    expected = (*x.shape[:d], places.numel(), *x.shape[d + 1 :]) if x.ndim else ()
    if values.shape != expected:
        raise RuntimeError(
            f"{name}: source has shape {values.shape}, but {places.numel()} indices along dim {d} "
            f"of a tensor of shape {x.shape} need {expected}"
        )
    along = P.reshape(places, shape=tuple(places.numel() if e == d else 1 for e in range(x.ndim)))
    return scatter.scatter_reduce(x, d, broadcast_to(along, expected), values, reduce, include_self=include_self)


@takes_out
@numpy_names
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """A copy with slices of `source` combined at the positions `index` along `dim` by prod, mean, amax or amin.

    Without `include_self`, the old slices at those places have no part in it.

    >>> import lucid
    >>> lucid.index_reduce(lucid.ones(2), 0, lucid.tensor([0, 0]), lucid.tensor([2.0, 3.0]), "prod")
    Tensor([6., 1.])
    """
    return _index_reduce(lift(input), dim, index, source, reduce, include_self, "index_reduce")


@numpy_names
def index_reduce_(self: Tensor, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """In-place form of `index_reduce`.

    >>> import lucid
    >>> lucid.ones(2).index_reduce_(0, lucid.tensor([1, 1]), lucid.tensor([2.0, 3.0]), "amax")
    Tensor([1., 3.])
    """
    return write(
        self,
        "index_reduce_",
        lambda x: _index_reduce(x, dim, index, source, reduce, include_self, "index_reduce_"),
        (source,),
    )
