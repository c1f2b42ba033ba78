"""Attention: softmax(q kᵀ · scale + mask) v, for stacks of matrices."""

import math
from typing import Any

import numpy as np

from lucid.core.arrays import steps
from lucid.core.tensor import Tensor
from lucid.ops.abstract import Abstract
from lucid.ops.contraction import matmul, mT
from lucid.ops.fused import Fused
from lucid.ops.rules import P, align


def above_diagonal(rows: int, columns: int) -> Any:
    """What a position must not see: those after it."""
    return Tensor._wrap(steps(columns)) > Tensor._wrap(steps(rows, (1,)))


def _composite(q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool) -> Any:
    s = matmul(q * scale, mT(k))
    s = s if mask is None else s + mask
    if causal:
        s = P.where(above_diagonal(*s.shape[-2:]), -math.inf, s)
    last = (s.ndim - 1,)
    top = P.amax(s, dims=last, keepdim=True).detach() if s.shape[-1] else 0.0
    e = P.exp(s - P.where(P.isfinite(top), top, 0) if s.shape[-1] else s)
    sums = P.sum(e, dims=last, keepdim=True)
    p = e / P.where(sums == 0, 1, sums)
    return matmul(p if keep is None else p * keep, v)


def _batch(prim: Any, values: Any, batched: Any, size: int, params: Any) -> Any:
    given = [v is not None for v in values]
    aligned = iter(align([v for v in values if v is not None], [b for b, g in zip(batched, given) if g], size))
    return prim(*[next(aligned) if g else None for g in given], **params)


def _abstract(q: Any, k: Any, v: Any, *others: Any, **params: Any) -> Abstract:
    """A row like those of `v` for each query, in all stacks."""
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in (q, k, v, *others) if x is not None])
    return Abstract((*lead, q.shape[-2], v.shape[-1]), q.dtype)


# `mask` is added to the scores; `keep`, for dropout, multiplies the weights and has no gradient.
attention = Fused("attention", _composite, operands=("q", "k", "v", "mask", "keep"), batch=_batch, abstract=_abstract)
