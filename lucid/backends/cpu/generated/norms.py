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
from lucid.backends.numpy.precision import NARROW
from lucid.codegen import lock
from lucid.core import kernels
from lucid.core.kernels import fill
from lucid.core.primitive import P
from lucid.ops.norms import norm
from lucid.ops.reductions import of_pairs
from lucid.ops.rules import is_complex

_SINGLE = np.dtype(np.float32)


def _square(x: Any) -> Any:
    return P.real(x) * P.real(x) + P.imag(x) * P.imag(x) if is_complex(x) else x * x


@cache
def _sum_of_powers(p: float) -> Callable[..., Any]:
    """Σ|x|ᵖ over dims, of half precision in single, or None where there are no loops."""
    fold = of_pairs(lambda a, b: a + b, 0, {1.0: lambda x: P.abs(x), 2.0: _square}[p])

    def make(dtype: Any) -> Any:
        result = _SINGLE if dtype in NARROW else dtype.type(0).real.dtype
        with lock:
            from lucid.codegen import folds

            return launched(folds.FoldPlan(fold, dtype, result), result)

    found: Callable[..., Any] = launch_folds.of_dims(launch_folds.Kernel(make, lambda x, dims, keepdim: None))
    return found


@cache
def _in_reach(p: float, dtype: np.dtype[Any]) -> tuple[Callable[..., Any], float, float]:
    """What adds powers up, and the least and the largest of its sums that are right."""
    result = _SINGLE if dtype in NARROW else dtype.type(0).real.dtype
    low, high = safe_sums(result)
    return _sum_of_powers(p), float(low), float(high)


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float = 1.0) -> Any:
    found = _rooted_sum(x, p, dims, keepdim, divisor) if p in (1.0, 2.0) and x.size else None
    if found is None:
        return kernels.reference(norm)(x, p, dims, keepdim, divisor)
    return P.cast.kernel(found, dtype=x.dtype, source=found.dtype) if x.dtype in NARROW else found


def _rooted_sum(x: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    """The norm, or None where a sum is too large or too small."""
    add_up, low, high = _in_reach(p, x.dtype)
    total = add_up(x, dims, keepdim)
    if total is None:
        return None
    if p == 2:
        return roots(total, low, high, divisor)
    return np.asarray(rooted(total, p, divisor)) if within(total, low, high) else None


if support.in_use:
    fill({"norm": _norm}, "cpu")
