"""Scans and normalisations along a dimension in which only the elements take part where `mask` holds."""

import math
from typing import Any

from lucid.api import reductions
from lucid.arguments.dims import numpy_names, one_dim
from lucid.arguments.promotion import as_floats, lift_all
from lucid.core.tensor import Tensor
from lucid.masked.filling import filled, operand
from lucid.masked.reductions import norm
from lucid.ops import binary, unary
from lucid.ops.nn import softmax as softmaxes

__all__ = ["cumprod", "cumsum", "log_softmax", "logaddexp", "normalize", "softmax", "softmin"]


@numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Running sum along `dim` of the elements where `mask` holds.

    >>> import lucid
    >>> lucid.masked.cumsum(lucid.tensor([1.0, 2.0, 4.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor([1., 1., 5.])
    """
    return reductions.cumsum(filled(operand(input, dtype, True), mask, 0, "cumsum"), dim)


@numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Running product along `dim` of the elements where `mask` holds.

    >>> import lucid
    >>> lucid.masked.cumprod(lucid.tensor([3.0, 2.0, 4.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor([ 3.,  3., 12.])
    """
    return reductions.cumprod(filled(operand(input, dtype, True), mask, 1, "cumprod"), dim)


def _numbers(input: Any, dtype: Any) -> Tensor:
    """The operand of a softmax: integers are taken as floats."""
    return as_floats(input) if dtype is None else operand(input, dtype)


@numpy_names
def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim` over the elements where `mask` holds, 0 for the others; nan where there are none.

    >>> import lucid
    >>> lucid.masked.softmax(lucid.tensor([1.0, 5.0, 1.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor([0.5, 0. , 0.5])
    """
    return softmaxes.softmax(filled(_numbers(input, dtype), mask, -math.inf, "softmax"), dim, dtype)


@numpy_names
def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """`softmax` of -input.

    >>> import lucid
    >>> lucid.masked.softmin(lucid.tensor([1.0, 5.0, 1.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor([0.5, 0. , 0.5])
    """
    return softmaxes.softmax(-filled(_numbers(input, dtype), mask, math.inf, "softmin"), dim, dtype)


@numpy_names
def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """x - log Σ exp(x) along `dim` over the elements where `mask` holds, -inf for the others.

    >>> import lucid
    >>> lucid.masked.log_softmax(lucid.tensor([1.0, 5.0, 1.0]), 0, mask=lucid.tensor([True, False, True]))
    Tensor([-0.6931,    -inf, -0.6931])
    """
    return softmaxes.log_softmax(filled(_numbers(input, dtype), mask, -math.inf, "log_softmax"), dim, dtype)


@numpy_names
def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Tensor:
    """The elements where `mask` holds divided by their norm along `dim`, or by `eps` if that is larger; 0 elsewhere.

    >>> import lucid
    >>> lucid.masked.normalize(lucid.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=lucid.tensor([True, False, True]))
    Tensor([0.6, 0. , 0.8])
    """
    x = operand(input, dtype)
    one_dim(dim, x.ndim, "normalize")
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return filled(x, mask, 0, "normalize") / unary.clamp(length, min=eps)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Tensor:
    """log(exp(x) + exp(y)) of the elements where each mask holds; -inf where neither does.

    >>> import lucid
    >>> x, y = lucid.tensor([0.0, 1.0]), lucid.tensor([0.0, 2.0])
    >>> lucid.masked.logaddexp(x, y, other_mask=lucid.tensor([True, False]))
    Tensor([0.6931, 1.    ])
    """
    x, y = (
        filled(operand(v, dtype), mask, -math.inf, "logaddexp")
        for v, mask in zip(lift_all(input, other), (input_mask, other_mask), strict=True)
    )
    return binary.logaddexp(x, y)
