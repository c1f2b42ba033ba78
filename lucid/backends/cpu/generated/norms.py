"""Norms by generated folds.

Generation does not reach what is done about sums that are too large or too small for their type: the reference does it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import roots, within
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.reductions import launched
from lucid.backends.cpu.launch import folds as launch_folds
from lucid.backends.numpy.norms import rooted, safe_sums
from lucid.codegen import lock
from lucid.core import dtypes, kernels
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.ops.norms import norm
from lucid.ops.reductions import of_pairs


@cache
def _sum_of_powers(p: float) -> Callable[..., Any]:
    """Σ|x|ᵖ over dims, or None where there are no loops."""
    lift = {1.0: lambda x: P.abs(x), 2.0: lambda x: x * x}[p]
    fold = of_pairs(lambda a, b: a + b, 0, lift)

    def make(dtype: Any) -> Any:
        if dtype not in dtypes.SINGLE_AND_DOUBLE:
            return None
        with lock:
            from lucid.codegen import folds

            return launched(folds.FoldPlan(fold, dtype, dtype), dtype)

    found: Callable[..., Any] = launch_folds.of_dims(launch_folds.Kernel(make, lambda x, dims, keepdim: None))
    return found


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float = 1.0) -> Any:
    if p in (1.0, 2.0) and x.size:
        total = _sum_of_powers(p)(x, dims, keepdim)
        if total is not None:
            low, high = safe_sums(total.dtype)
            if p == 2:
                found = roots(total, low, high, divisor)
                if found is not None:
                    return found
            elif within(total, low, high):
                return np.asarray(rooted(total, p, divisor))
    return kernels.reference(norm)(x, p, dims, keepdim, divisor)


if support.in_use:
    fill({"norm": _norm}, "cpu")
