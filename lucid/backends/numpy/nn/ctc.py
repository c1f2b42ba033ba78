"""Connectionist temporal classification: the probability of all ways to spell a target over time."""

from typing import Any

import numpy as np

from lucid.core.kernels import fill

_LOW = -1e30  # stands in for the maximum of infinities, which cannot be subtracted


def _scan_array(emit: Any, skip: Any) -> Any:
    if emit.itemsize < 4:
        return _scan_array(emit.astype(np.float32), skip).astype(emit.dtype)
    out = np.empty_like(emit)
    low = emit.dtype.type(_LOW)
    before = np.full((*emit.shape[1:-1], emit.shape[-1] + 2), -np.inf, emit.dtype)
    terms = np.empty((3, *emit.shape[1:]), emit.dtype)
    with np.errstate(divide="ignore"):
        for t in range(len(emit)):
            if not t:
                out[0] = -np.inf
                out[0, ..., :2] = emit[0, ..., :2]
                continue
            before[..., 2:] = out[t - 1]
            terms[0], terms[1] = before[..., 2:], before[..., 1:-1]
            np.add(before[..., :-2], skip, out=terms[2])
            peak = np.maximum(np.maximum.reduce(terms, axis=0), low)
            np.subtract(terms, peak, out=terms)
            np.exp(terms, out=terms)
            total = np.add.reduce(terms, axis=0)
            np.log(total, out=total)
            total += peak
            np.add(total, emit[t], out=out[t])
    return out


def _lattice_array(a0: Any, a1: Any, a2: Any, b: Any) -> Any:
    out = np.array(b)
    for t in range(1, len(out)):
        now, last = out[t], out[t - 1]
        now += a0[t] * last
        now[..., 1:] += a1[t, ..., 1:] * last[..., :-1]
        now[..., 2:] += a2[t, ..., 2:] * last[..., :-2]
    return out


fill(
    {
        "ctc_scan": _scan_array,
        "lattice": _lattice_array,
    }
)
