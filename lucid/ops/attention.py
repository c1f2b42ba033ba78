"""Attention: softmax(q kᵀ · scale + mask) v, for stacks of matrices.

Exponentials e are kept as they are, with the reciprocals r of their sums: the rows of the result are divided, not
those of the larger matrix of weights. Where scores are small, which is nearly always, they need no maximum subtracted.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from lucid.core.primitive import lift
from lucid.ops.fused import Fused, ones, thin
from lucid.ops.products import mT
from lucid.ops.rules import P, align, sum_to

_LONG = 256  # the length from which NumPy multiplies rows by one number each as fast as it can
# Exponentials of scores up to this are far from the largest number, and sums above this far from the smallest one.
_SAFE_SCORE = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 500.0}
_SAFE_SUM = 1e-20


@lru_cache(maxsize=32)
def _above_diagonal(rows: int, columns: int, dtype: Any) -> Any:
    """-inf for what a position must not see: those after it."""
    mask = np.triu(np.full((rows, columns), -np.inf, dtype), 1)
    mask.flags.writeable = False
    return mask


def _scores(q: Any, k: Any, mask: Any, scale: float, causal: bool) -> Any:
    s = np.matmul(q * np.asarray(scale, q.dtype), k.swapaxes(-1, -2))
    if mask is not None:
        s = s + mask
    if causal:
        s += _above_diagonal(*s.shape[-2:], s.dtype)
    return s


def _row_sums(e: Any) -> Any:
    rows = e.reshape(math.prod(e.shape[:-1]), e.shape[-1])
    return (rows @ ones(e.shape[-1], e.dtype)).reshape(e.shape[:-1])


def _exponentials(q: Any, k: Any, mask: Any, scale: float, causal: bool) -> tuple[Any, Any]:
    """e and r with e·r the softmax of the scores; rows in which everything is masked are 0."""
    s = _scores(q, k, mask, scale, causal)
    if s.size and s.max() <= _SAFE_SCORE[s.dtype]:
        np.exp(s, out=s)
        sums = _row_sums(s)
        if sums.min() >= _SAFE_SUM:
            return s, 1 / sums
        s = _scores(q, k, mask, scale, causal)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    s -= np.where(np.isfinite(top), top, 0)
    np.exp(s, out=s)
    sums = _row_sums(s)
    return s, np.where(sums == 0, 0, 1 / np.where(sums == 0, 1, sums))


def _spread(r: Any, length: int) -> Any:
    """One number for each row of a stack of matrices, as something to multiply or add to them."""
    if length >= _LONG:
        return r[..., None]
    return thin(r.reshape(-1), ones(length, r.dtype)).reshape(*r.shape, length)


def _times_rows(x: Any, r: Any) -> Any:
    spread = _spread(r, x.shape[-1])
    return np.multiply(x, spread, out=spread if spread.shape == x.shape else None)


def _times(x: Any, scale: float) -> Any:
    x *= np.asarray(scale, x.dtype)
    return x


def _whole(q: Any, *others: Any) -> Any:
    """The queries with all the leading dimensions of the result."""
    lead = np.broadcast_shapes(*[a.shape[:-2] for a in (q, *others) if a is not None])
    return q if q.shape[:-2] == lead else np.broadcast_to(q, (*lead, *q.shape[-2:]))


def _forward(q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool) -> tuple[Any, tuple[Any, ...]]:
    e, r = _exponentials(_whole(q, k, v, mask, keep), k, mask, scale, causal)
    return _times_rows(np.matmul(e if keep is None else e * keep, v), r), (e, r)


def _backward(cts: Any, arrays: Any, residuals: Any, needs: Any, scale: float, causal: bool) -> list[Any]:
    """With p = e·r: dv = pᵀ g, dp = g vᵀ, ds = p·(dp - Σ p·dp), dq = ds k · scale, dk = dsᵀ q · scale."""
    (q, k, v, mask, keep), (e, r) = arrays, residuals
    dq = dk = dv = dmask = None
    g = _times_rows(cts[0], r)
    if needs[2]:
        dv = sum_to(np.matmul((e if keep is None else e * keep).swapaxes(-1, -2), g), v.shape)
    if needs[0] or needs[1] or needs[3]:
        ds = np.matmul(g, v.swapaxes(-1, -2))
        if keep is not None:
            ds *= keep
        ds -= _spread(np.vecdot(e, ds) * r, ds.shape[-1])
        ds *= e
        dq = _times(sum_to(np.matmul(ds, k), q.shape), scale) if needs[0] else None
        dk = _times(sum_to(np.matmul(ds.swapaxes(-1, -2), q), k.shape), scale) if needs[1] else None
        dmask = sum_to(ds, mask.shape) if needs[3] else None
    return [dq, dk, dv, dmask, None]


def _composite(q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool) -> Any:
    s = P.matmul(q * scale, mT(k))
    s = s if mask is None else s + mask
    if causal:
        s = s + lift(_above_diagonal(*s.shape[-2:], s.np_dtype))
    last = (s.ndim - 1,)
    top = P.amax(s, dims=last, keepdim=True).detach() if s.shape[-1] else 0.0
    e = P.exp(s - P.where(P.isfinite(top), top, 0) if s.shape[-1] else s)
    sums = P.sum(e, dims=last, keepdim=True)
    p = e / P.where(sums == 0, 1, sums)
    return P.matmul(p if keep is None else p * keep, v)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    given = [v is not None for v in values]
    aligned = iter(align([v for v in values if v is not None], [b for b, g in zip(batched, given) if g], size))
    return prim(*[next(aligned) if g else None for g in given], **params)


# `mask` is added to the scores; `keep`, for dropout, multiplies the weights and has no gradient.
attention = Fused(
    "attention",
    _composite,
    _forward,
    _backward,
    operands=("q", "k", "v", "mask", "keep"),
    batch=_batch,
)
