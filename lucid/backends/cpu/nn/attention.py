"""Attention: softmax(q kᵀ · scale + mask) v, for stacks of matrices.

Generation does not reach it: tiles of scores stay in the cache between two matrix products.
"""

from typing import Any

import numpy as np

from lucid.backends.cpu import attention as kernels
from lucid.backends.cpu import rowwise
from lucid.backends.cpu.entry_points import Entry, Lowering, Steps, lower, most_threads
from lucid.backends.numpy.views import sum_to
from lucid.core.kernels import WithBackward, fill


def _weights(q: Any, k: Any, mask: Any, scale: float, causal: bool) -> Any:
    """The softmax of the scores; rows in which everything is masked are 0."""
    if mask is None:
        s = np.matmul(q, k.swapaxes(-1, -2), order="C")
    else:
        s = np.ascontiguousarray(np.matmul(q * np.asarray(scale, q.dtype), k.swapaxes(-1, -2)) + mask)
        scale = 1.0
    rowwise.softmax_scores(s, scale, causal)
    return s


def _whole(q: Any, *others: Any) -> Any:
    """The queries with all the leading dimensions of the result."""
    lead = np.broadcast_shapes(*[a.shape[:-2] for a in (q, *others) if a is not None])
    return q if q.shape[:-2] == lead else np.broadcast_to(q, (*lead, *q.shape[-2:]))


_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


_FEWEST_QUERIES = 8  # `heads` takes 32 queries at a time, in the time of about 8 in products by NumPy.


def _is_for_heads(q: Any, k: Any, v: Any, mask: Any, keep: Any) -> bool:
    """Whether `heads` can do it, and fast."""
    if mask is not None or keep is not None or q.shape[-2] < _FEWEST_QUERIES:
        return False
    same = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype
    return same and q.dtype in _TYPES and bool(q.size and k.size and v.size)


def _stacked(x: Any) -> Any:
    """Matrices as (batch, heads, rows, columns)."""
    if x.ndim > 3:
        return x if x.ndim == 4 else x.reshape(-1, *x.shape[-3:])
    return x[:, None] if x.ndim == 3 else x[None, None]


def _forward(q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool) -> tuple[Any, tuple[Any, ...]]:
    if _is_for_heads(q, k, v, mask, keep):
        out, p = kernels.forward(_stacked(q), _stacked(k), _stacked(v), scale, causal)
        return out.reshape(*q.shape[:-1], v.shape[-1]), (p,)
    p = _weights(_whole(q, k, v, mask, keep), k, mask, scale, causal)
    return np.matmul(p if keep is None else p * keep, v), (p,)


def _backward(cts: Any, arrays: Any, residuals: Any, needs: Any, scale: float, causal: bool) -> list[Any]:
    """With weights p: dv = pᵀ g, dp = g vᵀ, ds = scale · p·(dp - Σ p·dp), dq = ds k, dk = dsᵀ q."""
    (q, k, v, mask, keep), (p,), (g,) = arrays, residuals, cts
    if _is_for_heads(q, k, v, mask, keep):
        found = kernels.backward(_stacked(g), _stacked(q), _stacked(k), _stacked(v), p, scale, causal, needs[:3])
        return [*[x if x is None else x.reshape(of.shape) for x, of in zip(found, arrays)], None, None]
    dq = dk = dv = dmask = None
    if needs[2]:
        dv = sum_to(np.matmul((p if keep is None else p * keep).swapaxes(-1, -2), g), v.shape)
    if needs[0] or needs[1] or needs[3]:
        ds = np.matmul(g, v.swapaxes(-1, -2), order="C")
        if keep is not None:
            ds *= keep
        rowwise.softmax_scores_back(ds, p, 1.0 if needs[3] else scale, causal)
        if needs[3]:
            dmask = sum_to(ds, mask.shape)
            ds = ds * np.asarray(scale, ds.dtype)
        dq = sum_to(np.matmul(ds, k), q.shape) if needs[0] else None
        dk = sum_to(np.matmul(ds.swapaxes(-1, -2), q), k.shape) if needs[1] else None
    return [dq, dk, dv, dmask, None]


# --- in compiled programs --------------------------------------------------------------------------


def _shown(steps: Steps, place: Any) -> Any:
    """A place as (batch, heads, rows, columns), whose rows can be read as they lie."""
    size = place.array.itemsize
    if place.array.strides[-1] != size or any(s % size for s in place.array.strides):
        place = steps.ordered(place)
    place = steps.ordered(place) if place.array.ndim > 4 else place
    return place.shown(_stacked(place.array))


def _forward_steps(
    steps: Steps, outs: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool
) -> Any:
    (out,) = outs
    if not _is_for_heads(q.array, k.array, v.array, mask, keep):
        return None
    q, k, v, out = [_shown(steps, p) for p in (q, k, v, out)]
    address, task, room, weights = kernels.forward_entry(
        q.array, k.array, v.array, out.array, scale, causal, most_threads()
    )
    p, own = [steps.new((n,), q.array.dtype) for n in (weights, room)]
    steps.enter(Entry(address, task), (q, k, v, p, out, None, None, None, None, own))
    return (p,)


def _backward_steps(
    steps: Steps, outs: Any, cts: Any, operands: Any, residuals: Any, scale: float, causal: bool
) -> bool:
    (g,), (q, k, v, *_), (p,) = cts, operands, residuals
    g, q, k, v = [_shown(steps, x) for x in (g, q, k, v)]
    found = [x if x is None else _shown(steps, x) for x in outs[:3]]
    dq, dk, dv = [x if x is None else x.array for x in found]
    address, task, room = kernels.backward_entry(
        g.array, q.array, k.array, v.array, dq, dk, dv, scale, causal, most_threads()
    )
    own = steps.new((room,), q.array.dtype)
    steps.enter(Entry(address, task), (q, k, v, p, None, g, *found, own))
    return True


lower({"attention": Lowering(_forward_steps, _backward_steps)})
fill(
    {
        "attention": WithBackward(_forward, _backward),
    },
    "cpu",
)
