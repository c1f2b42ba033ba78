"""Norms, and sizes as powers of 2: what keeps squares of very large and very small numbers in their range.

A set of numbers that is divided by its size, a power of 2, loses no digit, and its squares neither overflow nor vanish.
"""

import math
from typing import Any

import numpy as np

from lucid.core.primitive import Primitive
from lucid.ops.abstract import Abstract, real_part, reduced
from lucid.ops.categories import Fold, Reduction
from lucid.ops.contraction import matmul, mT
from lucid.ops.fused import Fused
from lucid.ops.rules import (
    P,
    add_all,
    align,
    chained,
    expand_reduced,
    is_complex,
    kept_shape,
    np_dtype,
    ones_like,
    shift,
    sum_to,
)


def _largest_part(x: Any, place: Any) -> tuple[Any]:
    return (P.maximum(P.abs(P.real(x)), P.abs(P.imag(x))) if is_complex(x) else P.abs(x),)


def _power_of_two(size: Any) -> Any:
    """The power of 2 at or below each size that is not moderate."""
    dtype = np_dtype(size)
    bound = 2.0 ** (3 * np.finfo(dtype).maxexp // 8)
    is_one = (size >= 1 / bound) & (size <= bound) | (size == 0) | (size == math.inf) | (size != size)
    exponent = P.exponent(P.where(is_one, 1, size))
    return P.where(is_one, 1, P.exp2(P.cast(exponent, dtype=dtype, source=np_dtype(exponent)) - 1))


# For each set over dims, which are kept, the power of 2 near its largest |x| (or `least`), and 1 if that is moderate.
# It is constant between powers of 2, so functions of x / unit need no derivative of it.
unit_size = Primitive(
    "unit_size",
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
    abstract=lambda x, dims, least: reduced(real_part(x), dims, True),
    category="reduction",
    fold=lambda least: Fold(
        combine=lambda a, b: (P.maximum(*a, *b),),
        unit=lambda dtype: (least,),
        lift=_largest_part,
        finish=_power_of_two,
    ),
)


# --- the norm ------------------------------------------------------------------------------------


def power_of_size(size: Any, p: float) -> Any:
    """size**p for size >= 0 with the derivative at 0 taken as 0."""
    if p >= 2:
        return size**p  # which has it, and a second derivative there
    zero = size == 0
    at_zero = 0 if p > 0 else math.inf
    return P.where(zero, at_zero, P.where(zero, 1, size) ** p)


def _slopes(x: Any, out: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    return _slope(x, out if keepdim else P.reshape(out, shape=kept_shape(x.shape, dims)), p, divisor)


def _slope(x: Any, out: Any, p: float, divisor: float = 1.0) -> Any:
    """sgn(x)·(|x| / out)^(p-1) / divisor, made of ratios that are in range whatever the size of x; 0 at 0."""
    none = out == 0
    length = P.where(none, 1, out)
    if p == 2:
        return P.where(none, 0, x / (length if divisor == 1 else length * divisor))
    size = P.abs(x)
    zero = (size == 0) | none
    share = P.where(zero, 1, size / length) ** (p - 1)
    return P.where(zero, 0, P.sgn(x) * (share if divisor == 1 else share / divisor))


def _pull_norm(ct: Any, x: Any, out: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    return chained(expand_reduced(ct, x.shape, dims, keepdim), _slopes(x, out, p, dims, keepdim, divisor))


def _push_norm(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    x, t = primals[0], tangents[0]
    slopes = _slopes(x, out, **params)
    change = P.real(chained(t, P.conj(slopes))) if is_complex(x) else chained(t, slopes)
    return P.sum(change, dims=params["dims"], keepdim=params["keepdim"])


def _norm_fold(p: float, divisor: float = 1.0, of: Any = lambda x: x) -> Fold:
    """States are the size that leads, the largest or for p < 0 the smallest, and the sum of powers relative to it."""

    def combine(one: Any, other: Any) -> Any:
        (size, total), (size_2, total_2) = one, other
        lead = (P.maximum if p > 0 else P.minimum)(size, size_2)
        return lead, total * power(size, lead) + total_2 * power(size_2, lead)

    def power(size: Any, lead: Any) -> Any:
        return P.where(size == lead, 1, size / lead) ** p

    return Fold(
        combine,
        unit=lambda dtype: (0.0 if p > 0 else math.inf, 0.0),
        lift=lambda *operands: (P.abs(of(*operands[:-1])), ones_like(P.abs(of(*operands[:-1])))),
        finish=lambda size, total: size * (total / divisor) ** (1 / p),
    )


# (Σ|x|ᵖ / divisor)^(1/p) over dims for p other than 0 and infinity.
norm = Reduction(
    "norm",
    rules=(_pull_norm,),
    jvp=_push_norm,
    batch=lambda prim, values, batched, size, params: prim(values[0], **{**params, "dims": shift(params["dims"])}),
    abstract=lambda x, p, dims, keepdim, divisor=1.0: reduced(real_part(x), dims, keepdim),
    category="reduction",
    fold=_norm_fold,
    pulls_arrays=True,
    pulls_new=True,
)
norm.weight = _slope


def _per_distance(ct: Any, out: Any) -> Any:
    """ct / out, and 0 for points that coincide."""
    zero = out == 0
    return P.where(zero, 0, ct / P.where(zero, 1, out))


def _total(x: Any) -> Any:
    return P.sum(x, dims=(x.ndim - 1,), keepdim=True)


def _pull(ct: Any, x: Any, y: Any, out: Any, shape: tuple[int, ...]) -> Any:
    """Σⱼ (x - yⱼ) ctⱼ / |x - yⱼ|."""
    weights = _per_distance(ct, out)
    return sum_to(x * _total(weights) - matmul(weights, y), shape)


def _push(prim: Any, primals: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    terms = [] if tx is None else [_total(tx * x) - matmul(tx, mT(y))]
    if ty is not None:
        terms.append(mT(_total(ty * y)) - matmul(x, mT(ty)))
    return _per_distance(add_all(terms), out)


# The Euclidean distance of each row of x to each of y; leading dimensions broadcast.
euclidean = Primitive(
    "euclidean",
    operands=("x", "y"),
    rules=(
        lambda ct, x, y, out, x_shape: _pull(ct, x, y, out, x_shape),
        lambda ct, x, y, out, y_shape: _pull(mT(ct), y, x, mT(out), y_shape),
    ),
    jvp=_push,
    batch=lambda prim, values, batched, size, params: prim(*align(values, batched, size)),
    abstract=lambda x, y: Abstract(
        (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2]), x.dtype
    ),
    category="reduction",
    fold=_norm_fold(2.0, of=lambda x, y: x - y),
)


def differences(x: Any, y: Any) -> Any:
    """Each row of x less each of y; leading dimensions broadcast."""
    rows = P.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    return rows - P.reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))


# The same of two matrices, or of as many on both sides, each pair of rows by itself: its gradient so loses no digits.
row_distances = Fused(
    "row_distances",
    lambda x, y: norm(differences(x, y), p=2.0, dims=(x.ndim,), keepdim=False, divisor=1.0),
    operands=("x", "y"),
    abstract=lambda x, y: Abstract((*x.shape[:-1], y.shape[-2]), x.dtype),
)
