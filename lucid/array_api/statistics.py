"""Statistical functions."""

from collections.abc import Callable
from typing import Any

import lucid
from lucid.array_api.promotion import array
from lucid.core.tensor import Tensor


def reduced(function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool, **settings: Any) -> Tensor:
    """A reduction over `axis`: None stands for all dimensions, and () for none."""
    if isinstance(axis, tuple) and not axis:
        return function(x.unsqueeze(0), dim=0, **settings)
    return function(x, dim=axis, keepdim=keepdims, **settings)


def _total_type(x: Tensor, dtype: Any) -> Any:
    """Unsigned integers are added up in the largest unsigned type; the other types are left to lucid's functions."""
    return lucid.uint64 if dtype is None and x.dtype.kind == "u" else dtype


def _scanned(scan: Callable[..., Tensor], x: Tensor, axis: int | None, dtype: Any, initial: int | None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{scan.__name__}: an array with {x.ndim} dimensions needs an axis")
    dim = 0 if axis is None else axis
    out = scan(x, dim, dtype=_total_type(x, dtype))
    if initial is None:
        return out
    start = lucid.full_like(out.narrow(dim, 0, 1) if out.shape[dim] else lucid.sum(out, dim, keepdim=True), initial)
    return lucid.cat([start.to(out.dtype), out], dim)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running product along `axis`, with a 1 before it if `include_initial`.

    >>> import lucid
    >>> lucid.cumulative_prod(lucid.tensor([2, 3, 4]), include_initial=True)
    Tensor([ 1,  2,  6, 24])
    """
    return _scanned(lucid.cumprod, array(x, "cumulative_prod"), axis, dtype, 1 if include_initial else None)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running sum along `axis`, with a 0 before it if `include_initial`.

    >>> import lucid
    >>> lucid.cumulative_sum(lucid.tensor([2, 3, 4]))
    Tensor([2, 5, 9])
    """
    return _scanned(lucid.cumsum, array(x, "cumulative_sum"), axis, dtype, 0 if include_initial else None)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element.

    >>> import lucid
    >>> lucid.array_api.max(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), axis=1)
    Tensor([4., 3.])
    """
    return reduced(lucid.amax, array(x, "max"), axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean.

    >>> import lucid
    >>> lucid.array_api.mean(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), axis=0)
    Tensor([2., 3.])
    """
    return reduced(lucid.mean, array(x, "mean"), axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element.

    >>> import lucid
    >>> lucid.array_api.min(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), axis=1)
    Tensor([1., 2.])
    """
    return reduced(lucid.amin, array(x, "min"), axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product of the elements; integers are multiplied in 64 bits.

    >>> import lucid
    >>> lucid.array_api.prod(lucid.tensor([2, 3, 4], dtype=lucid.uint8))
    Tensor(24, dtype=lucid.uint64)
    """
    found = array(x, "prod")
    return reduced(lucid.prod, found, axis, keepdims, dtype=_total_type(found, dtype))


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation; the divisor is the count less `correction`.

    >>> import lucid
    >>> lucid.array_api.std(lucid.tensor([1.0, 3.0]))
    Tensor(1.)
    """
    return reduced(lucid.std, array(x, "std"), axis, keepdims, correction=correction)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum of the elements; integers are added up in 64 bits.

    >>> import lucid
    >>> lucid.array_api.sum(lucid.tensor([[1.0, 4.0], [3.0, 2.0]]), axis=(0, 1), keepdims=True)
    Tensor([[10.]])
    """
    found = array(x, "sum")
    return reduced(lucid.sum, found, axis, keepdims, dtype=_total_type(found, dtype))


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance; the divisor is the count less `correction`.

    >>> import lucid
    >>> lucid.array_api.var(lucid.tensor([1.0, 3.0]), correction=1)
    Tensor(2.)
    """
    return reduced(lucid.var, array(x, "var"), axis, keepdims, correction=correction)
