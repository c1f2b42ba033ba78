"""Sums of products over labelled dimensions."""

from typing import Any

import numpy as np

from lucid.backends.numpy.precision import in_single
from lucid.core.kernels import fill


@in_single
def _contract(x: Any, y: Any, labels: Any) -> Any:
    x = np.conjugate(x) if labels.conj_left else x
    y = np.conjugate(y) if labels.conj_right else y
    return np.einsum(f"{labels.left},{labels.right}->{labels.out}", x, y)


def cross_array(x: Any, y: Any, dim: int) -> Any:
    out = np.empty(x.shape, np.result_type(x, y))
    a, b, found = ([v.swapaxes(0, dim)[k, ...] for k in range(3)] for v in (x, y, out))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            np.subtract(a[i] * b[j], a[j] * b[i], out=found[k])
    return out


fill({"contract": _contract, "cross": cross_array})
