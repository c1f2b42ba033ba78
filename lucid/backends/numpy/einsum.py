"""Sums of products over labelled dimensions."""

from typing import Any

import numpy as np

from lucid.core import dtypes
from lucid.core.kernels import fill


def _einsum_array(*xs: Any, spec: str) -> Any:
    if xs[0].dtype == dtypes.bfloat16.numpy:
        return np.einsum(spec, *[x.astype(np.float32) for x in xs], optimize=True).astype(xs[0].dtype)
    out = np.einsum(spec, *xs, optimize=len(xs) > 1 and xs[0].size * xs[-1].size > 4096)
    # Of one operand without sums NumPy gives a view.
    return np.array(out) if len(xs) == 1 and np.may_share_memory(out, xs[0]) else out


fill(
    {
        "einsum": _einsum_array,
    }
)
