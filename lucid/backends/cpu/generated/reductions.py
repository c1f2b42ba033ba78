"""Kernels of reductions, generated from the folds of their declarations."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lucid.backends.cpu.generated.rows import row_kernel
from lucid.backends.cpu.launch import folds as launch_folds
from lucid.backends.cpu.launch.copies import contiguous
from lucid.backends.numpy.precision import NARROW
from lucid.codegen import lock
from lucid.core import dtypes, kernels
from lucid.core.primitive import P, constant
from lucid.ops.abstract import Abstract
from lucid.ops.reductions import SUM, mean_of

_F32 = dtypes.float32.numpy
LONGEST_PART = 1 << 14  # elements of long rows that are put together first
_OF_DIMS = ("sum", "prod", "amax", "amin", "logsumexp", "all", "any", "count_nonzero", "nansum")
_OF_ONE_DIM = ("argmax", "argmin")


def _make(primitive: Any, dtype: Any) -> Any:
    """The loops for elements of a type, or None where there is no code."""
    dims: dict[str, Any] = {"dim": 0} if primitive.name in _OF_ONE_DIM else {"dims": (0,), "keepdim": False}
    result = primitive.abstract(Abstract((1,), dtype), **dims).dtype
    with lock:
        from lucid.codegen import bodies, folds  # loaded when first needed, and LLVM with it

        try:
            plan = folds.FoldPlan(primitive.fold, dtype, result)
        except bodies.NotGeneratedError:
            return None
        return launched(plan, result, primitive.name)


def launched(plan: Any, result: Any, name: str = "") -> launch_folds.Reduction | None:
    """The loops of a plan, or None where there is no code."""
    from lucid.codegen import bodies, compiled

    try:
        addresses, code = compiled.fold(plan, name)
    except bodies.NotGeneratedError:
        return None
    return launch_folds.Reduction(
        addresses, tuple([t.bytes for t in plan.states]), plan.within.lanes, result, plan.cost, code
    )


def of_reduction(primitive: Any) -> Callable[..., Any] | None:
    """The kernel of a reduction by generated loops, and by the reference where there are none."""
    name = primitive.name
    if name == "var":
        return _variance()
    if name not in _OF_DIMS + _OF_ONE_DIM:
        return None

    def reference(x: Any, **params: Any) -> Any:
        return kernels.reference(primitive)(x, **params)

    kernel = launch_folds.Kernel(partial(_make, primitive), reference)
    if name in _OF_ONE_DIM:
        return launch_folds.of_one_dim(kernel)
    made = launch_folds.of_dims(kernel)
    return made if primitive.row_body is None else _by_rows(primitive, made)


def _in_full(fold: Any, operands: int) -> launch_folds.Kernel:
    """The fold of numbers of single and double precision."""

    def make(dtype: Any) -> Any:
        if dtype not in dtypes.SINGLE_AND_DOUBLE:
            return None
        with lock:
            from lucid.codegen import folds

            return launched(folds.FoldPlan(fold, dtype, dtype, operands), dtype, "var" if operands > 1 else "sum")

    return launch_folds.Kernel(make, lambda x, dims, keepdim: None)


def spread() -> tuple[launch_folds.Kernel, launch_folds.Kernel]:
    """Sums, and sums of squares of distances from the means, of which none is stored."""
    lift: Any = lambda x, mean, place: (P.square(x - mean),)  # noqa: E731 -- a field of a fold
    return _in_full(SUM, 1), _in_full(SUM._replace(lift=lift), 2)


def divided(x: Any, divisor: float) -> Any:
    return P.div.kernel(x, constant(divisor, x.dtype))


def _variance() -> Callable[..., Any]:
    """The kernel of the variance; numbers of half precision are taken in single, and others by the reference."""

    def general(x: Any, dims: tuple[int, ...], keepdim: bool, divisor: float) -> Any:
        if x.dtype in NARROW:
            found = call(P.cast.kernel(x, dtype=_F32, source=x.dtype), dims, keepdim, divisor)
            return P.cast.kernel(found, dtype=x.dtype, source=_F32)
        distances = P.sub.kernel(x, mean_of(x, dims))
        return divided(P.sum.kernel(P.square.kernel(distances), dims=dims, keepdim=keepdim), divisor)

    call = launch_folds.of_variance(*spread(), divided, general)
    return call


def _by_rows(primitive: Any, by_fold: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a reduction that is also declared as a function of a row, which takes fewer steps for an element."""
    run = row_kernel(primitive.row_body, primitive.name).run

    def of_rows(x: Any) -> Any:
        """What is found along the last dimension. Long rows are reduced in parts, which are work for threads."""
        length = x.shape[-1]
        if length < 2 * LONGEST_PART:
            found = run((x,), x.ndim - 1, {})
            return None if found is None else found[..., 0]
        whole = length // LONGEST_PART * LONGEST_PART
        parts = of_rows(contiguous(x[..., :whole]).reshape(*x.shape[:-1], -1, LONGEST_PART))
        if parts is None:
            return None
        rest = [of_rows(x[..., whole:])[..., None]] if whole < length else []
        return of_rows(np.concatenate([parts, *rest], axis=-1))

    def call(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        # Columns are folded side by side, whatever the strides: bits depend on the shape alone.
        if x.ndim - 1 not in dims or not x.size or x.dtype.kind not in "fV":
            return by_fold(x, dims=dims, keepdim=keepdim)
        kept = [d for d in range(x.ndim) if d not in dims]
        rows = x.transpose(*kept, *dims)
        rows = rows if dims == (x.ndim - 1,) else contiguous(rows).reshape(*[x.shape[d] for d in kept], -1)
        found = of_rows(rows)
        if found is None:
            return by_fold(x, dims=dims, keepdim=keepdim)
        if found.dtype != x.dtype:
            found = P.cast.kernel(found, dtype=x.dtype, source=found.dtype)
        return found.reshape([1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims])

    return call
