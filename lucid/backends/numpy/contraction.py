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


fill({"contract": _contract})
