"""Norms by generated folds, and distances by loops over pairs of rows.

Generation does not reach what is done about sums that are too large or too small for their type: the reference does it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lucid.backends.cpu.arithmetic import roots, within
from lucid.backends.cpu.generated import support
from lucid.backends.cpu.generated.reductions import divided, launched, spread
from lucid.backends.cpu.launch import distances
from lucid.backends.cpu.launch import folds as launch_folds
from lucid.backends.cpu.launch.copies import contiguous, empty, zeros
from lucid.backends.numpy.norms import deviation, redo, rooted, safe_sums
from lucid.backends.numpy.precision import NARROW
from lucid.codegen import lock
from lucid.core import kernels
from lucid.core.dtypes import SINGLE_AND_DOUBLE
from lucid.core.kernels import WithBackward, fill
from lucid.core.primitive import P
from lucid.ops.norms import norm
from lucid.ops.reductions import of_pairs
from lucid.ops.rules import is_complex

_SINGLE = np.dtype(np.float32)


def _square(x: Any) -> Any:
    return P.real(x) * P.real(x) + P.imag(x) * P.imag(x) if is_complex(x) else x * x


def _powers(p: float, only_in_full: bool = False) -> launch_folds.Kernel:
    """Σ|x|ᵖ over dims, of half precision in single."""

    def make(dtype: Any) -> Any:
        if only_in_full and dtype not in SINGLE_AND_DOUBLE:
            return None
        fold = of_pairs(lambda a, b: a + b, 0, {1.0: lambda x: P.abs(x), 2.0: _square}[p])
        result = _SINGLE if dtype in NARROW else dtype.type(0).real.dtype
        with lock:
            from lucid.codegen import folds

            return launched(folds.FoldPlan(fold, dtype, result), result)

    return launch_folds.Kernel(make, lambda x, dims, keepdim: None)


@cache
def sum_of_powers(p: float) -> Callable[..., Any]:
    """Σ|x|ᵖ over dims, or None where there are no loops."""
    found: Callable[..., Any] = launch_folds.of_dims(_powers(p))
    return found


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: bool, divisor: float = 1.0) -> Any:
    total = sum_of_powers(p)(x, dims, keepdim) if (p == 2 or p == 1) and x.size else None
    if total is None:
        return kernels.reference(norm)(x, p, dims, keepdim, divisor)
    found = _rooted(total, p, divisor)
    if found is None:  # others stay as they are, to the last bit
        with np.errstate(all="ignore"):
            found = np.asarray(rooted(total, p, divisor))
            redo(x.astype(_SINGLE) if x.dtype in NARROW else x, p, dims, divisor, np.asarray(total), found)
    return P.cast.kernel(found, dtype=x.dtype, source=found.dtype) if x.dtype in NARROW else found


def _rooted(total: Any, p: float, divisor: float) -> Any:
    """The norms of sums, or None where one of these is too large or too small."""
    low, high = safe_sums(total.dtype)
    if p == 2:
        return roots(total, low, high, divisor)
    return np.asarray(rooted(total, p, divisor)) if within(total, low, high) else None


def _distances_forward(x: Any, y: Any) -> tuple[Any, tuple[Any, ...]]:
    lead, rows, columns = x.shape[:-2], x.shape[-2], y.shape[-2]
    if x.dtype in SINGLE_AND_DOUBLE:
        out, (low, high) = empty((*lead, rows, columns), x.dtype), safe_sums(x.dtype)
        x, y = contiguous(x), contiguous(y)
        if not lead:
            fits = distances.distances(x, y, out, low, high)
        else:
            fits = all(distances.distances(x[k], y[k], out[k], low, high) for k in np.ndindex(lead))
        if fits:
            return out, (out,)
    return _norm(P.sub.kernel(x[..., None, :], y[..., None, :, :]), 2.0, (x.ndim,), False), ()


def _distances_backward(cts: Any, operands: Any, residuals: Any, needs: Any) -> list[Any]:
    ct, out = cts[0], residuals[0]
    grads = []
    for x, y, need in zip(operands, reversed(operands), needs, strict=True):
        grads.append(_distances_pulled(contiguous(ct), contiguous(x), contiguous(y), contiguous(out)) if need else None)
        ct, out = ct.swapaxes(-1, -2), out.swapaxes(-1, -2)
    return grads


def _distances_pulled(ct: Any, x: Any, y: Any, out: Any) -> Any:
    into = zeros(x.shape, x.dtype)
    for k in np.ndindex(x.shape[:-2]):
        distances.pull(ct[k], x[k], y[k], out[k], into[k])
    return into


def _deviation(x: Any, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
    found = _deviation_by_loops(x, dims, keepdim, divisor)
    return deviation(x, dims, keepdim, divisor) if found is None else found


_LIMITS: dict[int, tuple[float, float]] = {np.dtype(t).num: safe_sums(np.dtype(t)) for t in (np.float32, np.float64)}
_deviation_by_loops = launch_folds.of_deviation(*spread(), _LIMITS, divided)

if support.in_use:
    fill({"row_distances": WithBackward(_distances_forward, _distances_backward)}, "cpu")
    # Loops never warn, and what is computed otherwise has frames of its own.
    fill(
        {"norm": launch_folds.of_roots(_powers(2.0, True), _LIMITS, _norm), "deviation": _deviation},
        "cpu",
        has_frames=True,
    )
