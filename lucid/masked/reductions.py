"""Reductions in which only the elements take part where `mask` holds.

An operation that has a neutral element sees it in the place of those that are masked out; mean, variance and
median count the others. Over no elements at all, the result is the neutral element, or nan where there is none.
"""

import math
from typing import Any

from lucid.api import reductions, sorting
from lucid.api.reductions import Dims
from lucid.arguments.dims import many_dims, numpy_names
from lucid.arguments.promotion import cast
from lucid.core import dtypes
from lucid.core.primitive import lift
from lucid.core.tensor import Tensor
from lucid.masked.filling import filled, highest, lowest, mask_of, operand
from lucid.ops import unary
from lucid.ops.rules import P, kept_shape, np_dtype

__all__ = ["amax", "amin", "argmax", "argmin", "logsumexp", "mean", "median", "norm", "prod", "std", "sum", "var"]


@numpy_names
def sum(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Sum over `dim` of the elements where `mask` holds.

    >>> import lucid
    >>> lucid.masked.sum(lucid.tensor([1.0, 2.0, 4.0]), mask=lucid.tensor([True, False, True]))
    Tensor(5.)
    """
    return reductions.sum(filled(operand(input, dtype, True), mask, 0, "sum"), dim, keepdim)


@numpy_names
def prod(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Product over `dim` of the elements where `mask` holds.

    >>> import lucid
    >>> lucid.masked.prod(lucid.tensor([3.0, 2.0, 4.0]), mask=lucid.tensor([True, False, True]))
    Tensor(12.)
    """
    return reductions.prod(filled(operand(input, dtype, True), mask, 1, "prod"), dim, keepdim)


@numpy_names
def amax(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The largest element over `dim` among those where `mask` holds.

    >>> import lucid
    >>> lucid.masked.amax(lucid.tensor([3.0, 5.0, 4.0]), mask=lucid.tensor([True, False, True]))
    Tensor(4.)
    """
    x = operand(input, dtype)
    return reductions.amax(filled(x, mask, _neutral(x, "amax"), "amax"), dim, keepdim)


@numpy_names
def amin(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The smallest element over `dim` among those where `mask` holds.

    >>> import lucid
    >>> lucid.masked.amin(lucid.tensor([3.0, 1.0, 4.0]), mask=lucid.tensor([True, False, True]))
    Tensor(3.)
    """
    x = operand(input, dtype)
    return reductions.amin(filled(x, mask, _neutral(x, "amin"), "amin"), dim, keepdim)


def _neutral(x: Tensor, name: str) -> Any:
    if x.is_complex():
        raise TypeError(f"masked.{name} takes real tensors, not complex ones; take abs(), real or imag first")
    return (lowest if name.endswith("max") else highest)(np_dtype(x))


@numpy_names
def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Where the largest element along `dim` is among those where `mask` holds.

    >>> import lucid
    >>> lucid.masked.argmax(lucid.tensor([3.0, 5.0, 4.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor(2)
    """
    return _place(operand(input, dtype), dim, keepdim, mask, "argmax")


@numpy_names
def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Where the smallest element along `dim` is among those where `mask` holds.

    >>> import lucid
    >>> lucid.masked.argmin(lucid.tensor([3.0, 1.0, 2.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor(2)
    """
    return _place(operand(input, dtype), dim, keepdim, mask, "argmin")


def _place(x: Tensor, dim: int | None, keepdim: bool, mask: Any, name: str) -> Tensor:
    if mask is None:
        return getattr(reductions, name)(x, dim, keepdim)
    best = (reductions.amax if name == "argmax" else reductions.amin)(
        filled(x, mask, _neutral(x, name), name), dim, True
    )
    # What is masked out may equal the extreme, so it is looked for among the others.
    hits = mask_of(x, mask, name) & ((x == best) | (x != x))
    return reductions.argmax(hits, dim, keepdim)


def _count(x: Tensor, dims: tuple[int, ...], mask: Any, name: str) -> Any:
    """How many elements take part, with the reduced dimensions kept."""
    if mask is None:
        return float(math.prod(x.shape[d] for d in dims))
    real = dtypes.real_of(np_dtype(x))
    return P.sum(cast(mask_of(x, mask, name), real), dims=dims, keepdim=True)


def _dropped(x: Tensor, kept: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The result without the dimensions of size 1 that were reduced."""
    shape = kept_shape(x.shape, dims) if keepdim else tuple(n for d, n in enumerate(x.shape) if d not in dims)
    return P.reshape(kept, shape=shape)


def _mean(x: Tensor, dims: tuple[int, ...], mask: Any, name: str) -> Tensor:
    """The mean with the reduced dimensions kept; nan over no elements."""
    return P.sum(filled(x, mask, 0, name), dims=dims, keepdim=True) / _count(x, dims, mask, name)


@numpy_names
def mean(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Mean over `dim` of the elements where `mask` holds; nan where there are none.

    >>> import lucid
    >>> lucid.masked.mean(lucid.tensor([1.0, 100.0, 3.0]), mask=lucid.tensor([True, False, True]))
    Tensor(2.)
    """
    x = _floats(operand(input, dtype), "mean")
    dims = many_dims(dim, x.ndim, "mean")
    return _dropped(x, _mean(x, dims, mask, "mean"), dims, keepdim)


def _floats(x: Tensor, name: str) -> Tensor:
    if np_dtype(x) not in dtypes.DIFFERENTIABLE:
        raise TypeError(f"masked.{name} needs a floating-point or complex tensor, not {x.dtype}; or give a dtype")
    return x


def _centred(
    input: Any, dim: Any, unbiased: bool | None, correction: float | None, dtype: Any, mask: Any, name: str
) -> tuple[Tensor, tuple[int, ...], Tensor]:
    """The differences from the mean, the dims and what a sum of squares is divided by."""
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"masked.{name}: give unbiased or correction, not both")
    x = _floats(operand(input, dtype), name)
    dims = many_dims(dim, x.ndim, name)
    less = correction if correction is not None else float(unbiased is None or unbiased)
    centred = filled(x - _mean(x, dims, mask, name), mask, 0, name)
    left = lift(_count(x, dims, mask, name)) - less
    return centred, dims, cast(P.where(left < 0, 0, left), np_dtype(unary.real(x) if x.is_complex() else x))


@numpy_names
def var(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """Variance over `dim` of the elements where `mask` holds; the divisor is their count less `correction`.

    >>> import lucid
    >>> lucid.masked.var(lucid.tensor([1.0, 9.0, 3.0]), mask=lucid.tensor([True, False, True]))
    Tensor(2.)
    """
    centred, dims, divisor = _centred(input, dim, unbiased, correction, dtype, mask, "var")
    squares = unary.real(centred * unary.conj(centred)) if centred.is_complex() else centred * centred
    return _dropped(centred, P.sum(squares, dims=dims, keepdim=True) / divisor, dims, keepdim)


@numpy_names
def std(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """Standard deviation over `dim` of the elements where `mask` holds, as `var`; the gradient of a constant is 0.

    >>> import lucid
    >>> lucid.masked.std(lucid.tensor([1.0, 9.0, 3.0]), correction=0, mask=lucid.tensor([True, False, True]))
    Tensor(1.)
    """
    centred, dims, divisor = _centred(input, dim, unbiased, correction, dtype, mask, "std")
    length = P.norm(centred, p=2.0, dims=dims, keepdim=True, divisor=1.0)
    return _dropped(centred, length / unary.sqrt(divisor), dims, keepdim)


@numpy_names
def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The middle element along `dim`, the lower one of two, among those where `mask` holds; nan where there are none.

    >>> import lucid
    >>> lucid.masked.median(lucid.tensor([1.0, 2.0, 9.0]), mask=lucid.tensor([True, False, True]))
    Tensor(1.)
    """
    x = operand(input, dtype)
    if mask is None:
        return sorting.median(x, dim, keepdim).values
    if np_dtype(x) not in dtypes.FLOATING:
        raise TypeError(f"masked.median needs a floating-point tensor, not {x.dtype}; or give a dtype")
    return sorting.nanmedian(filled(x, mask, math.nan, "median"), dim, keepdim).values


@numpy_names
def norm(
    input: Any, ord: Any = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The norm of order `ord` over `dim` of the elements where `mask` holds.

    >>> import lucid
    >>> lucid.masked.norm(lucid.tensor([3.0, 9.0, 4.0]), mask=lucid.tensor([True, False, True]))
    Tensor(5.)
    """
    x = filled(_floats(operand(input, dtype), "norm"), mask, 0, "norm")
    # Filled before and after: the derivative of |x| at nan would not vanish, nor that of a complex one at infinity.
    return reductions.norm(x if ord >= 0 else filled(unary.abs(x), mask, math.inf, "norm"), ord, dim, keepdim)


@numpy_names
def logsumexp(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """log Σ exp(x) over `dim` of the elements where `mask` holds; -inf where there are none.

    >>> import lucid
    >>> lucid.masked.logsumexp(lucid.tensor([0.0, 5.0, 0.0]), mask=lucid.tensor([True, False, True]))
    Tensor(0.6931)
    """
    return reductions.logsumexp(filled(operand(input, dtype), mask, -math.inf, "logsumexp"), dim, keepdim)
