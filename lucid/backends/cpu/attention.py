"""Attention of heads without mask and dropout: softmax(scale · q kᵀ) v for each matrix of a stack, and its derivative.

Arrays have shape (batch, heads, length, size), are of one type, float or double, and have elements, in any order in memory.
`attention.pyx` does the same in loops that finish a head while it is in the cache, and lays the heads of a position side by
side in what it returns, because models join them next.

Generation does not reach it: tiles of scores stay in the cache between two matrix products.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lucid.backends.cpu import rowwise


def forward(q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple[Any, Any]:
    """The result, and the weights as `backward` wants them. If `causal`, query i sees the keys up to i."""
    p = np.matmul(q, k.swapaxes(-1, -2), order="C")
    rowwise.softmax_scores(p, scale, causal)
    return np.matmul(p, v), p


def backward(
    g: Any, q: Any, k: Any, v: Any, p: Any, scale: float, causal: bool, needs: Sequence[bool]
) -> tuple[Any, Any, Any]:
    """The cotangents of q, k and v, if needed: ds k, dsᵀ q and pᵀ g with ds = scale · p·(dp - Σ p·dp), dp = g vᵀ."""
    dq = dk = dv = None
    if needs[0] or needs[1]:
        ds = np.matmul(g, v.swapaxes(-1, -2), order="C")
        rowwise.softmax_scores_back(ds, p, scale, causal)
        dq = np.matmul(ds, k) if needs[0] else None
        dk = np.matmul(ds.swapaxes(-1, -2), q) if needs[1] else None
    if needs[2]:
        dv = np.matmul(p.swapaxes(-1, -2), g)
    return dq, dk, dv


def forward_entry(q: Any, k: Any, v: Any, out: Any, scale: float, causal: bool, threads: int) -> tuple[Any, ...]:
    """The entry point of `forward`: its address, its task, and how many numbers room and weights are."""
    raise RuntimeError("entry points need compiled code")


def backward_entry(
    g: Any, q: Any, k: Any, v: Any, dq: Any, dk: Any, dv: Any, scale: float, causal: bool, threads: int
) -> tuple[Any, ...]:
    """The entry point of `backward`: its address, its task, and how many numbers room is."""
    raise RuntimeError("entry points need compiled code")
